//! A source file that grows past a screenful of screenfuls holds more than one idea.

use super::Finding;
use super::files::Files;

const LINES: usize = 800;

/// No `.rs` file is longer than [`LINES`].
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let counted = files.having("rs").map(|(path, text)| (path, text.lines().count()));
    counted
        .filter(|(_, lines)| *lines > LINES)
        .map(|(path, lines)| {
            let what = format!("{lines} lines, more than {LINES}; find the two ideas in it and give each a file");
            Finding::new(path, LINES + 1, what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn the_limit_itself_passes_and_one_more_is_found() {
        assert!(found(check, &[("a.rs", &"\n".repeat(LINES)), ("a.md", &"\n".repeat(LINES + 1))]).is_empty());
        let findings = found(check, &[("a.rs", &"\n".repeat(LINES + 1))]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("a.rs:801: 801 lines"), "{findings:?}");
    }
}
