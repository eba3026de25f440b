//! No file names the mirror that somebody's machine fetches packages from: it is private, and useless elsewhere.

use super::Finding;
use super::files::Files;

/// Put together at compile time, so that this file does not contain it.
const NEEDLE: &str = concat!("arti", "factory");

/// No file contains [`NEEDLE`], in any case of letters.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let lines =
        files.iter().flat_map(|(path, text)| text.lines().zip(1..).map(move |(content, line)| (path, line, content)));
    lines
        .filter(|(_, _, content)| content.to_ascii_lowercase().contains(NEEDLE))
        .map(|(path, line, _)| {
            Finding::new(path, line, "names a package mirror; let the machine's own cargo settings do that")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn the_public_registry_passes() {
        assert!(
            found(check, &[("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\"")])
                .is_empty()
        );
    }

    #[test]
    fn a_mirror_is_found_in_any_file() {
        for path in ["Cargo.lock", ".ci/run", "docs/a.md", "a.rs"] {
            let text = format!("a\nhttps://{}.example/api\n", NEEDLE.to_uppercase());
            let findings = found(check, &[(path, &text)]);
            assert_eq!(findings.len(), 1);
            assert!(findings[0].starts_with(&format!("{path}:2: ")), "{findings:?}");
        }
    }
}
