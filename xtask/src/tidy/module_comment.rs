//! Every source file opens with a comment that says what it is for: tests, benches, examples and fuzz targets too.

use super::Finding;
use super::files::Files;

/// Every `.rs` file begins with `//!` and some words.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let silent = files.having("rs").filter(|(_, text)| !opens(text));
    silent
        .map(|(path, _)| Finding::new(path, 1, "no module comment; open with `//!` and what this file is for"))
        .collect()
}

fn opens(text: &str) -> bool {
    text.strip_prefix("//!").and_then(|rest| rest.lines().next()).is_some_and(|line| !line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn a_file_that_opens_with_its_purpose_passes() {
        assert!(found(check, &[("a/src/lib.rs", "//! The register.\n\nmod b;\n"), ("a.md", "no comment")]).is_empty());
    }

    #[test]
    fn a_file_that_does_not_is_found_wherever_it_is() {
        for text in ["", "mod b;\n//! Late.\n", "// Not of the module.\n", "//!\n", "/// Of an item.\nmod b;\n"] {
            for path in ["a/src/lib.rs", "a/tests/t.rs", "a/benches/b.rs", "a/examples/e.rs", "fuzz/fuzz_targets/f.rs"]
            {
                assert_eq!(found(check, &[(path, text)]).len(), 1, "{path}: {text:?}");
            }
        }
    }
}
