//! The folder list in ARCHITECTURE.md never lies: it is how a newcomer finds where a change goes.
//!
//! The list is the code block that begins with `crates/`. An entry is a name ending in `/` at the margin, or indented
//! below its folder; whatever follows the name is prose.

use std::collections::BTreeSet;

use super::Finding;
use super::files::Files;
use super::markdown::{self, Line};

const PAGE: &str = "ARCHITECTURE.md";
const CRATES: &str = "crates";

/// The crates in the list are exactly the folders in `crates`, and everything else in it exists.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let Some((start, block)) = files.get(PAGE).and_then(list) else {
        return vec![Finding::new(
            PAGE,
            1,
            "no folder list; write a code block that begins with `crates/`, a line for each",
        )];
    };
    let listed = entries(start, &block);
    let missing = listed.iter().filter(|(_, path)| !files.is_folder(path));
    let mut findings: Vec<Finding> = missing
        .map(|(line, path)| Finding::new(PAGE, *line, format!("lists {path}/, which does not exist; take it out")))
        .collect();
    for name in folders(files) {
        let path = format!("{CRATES}/{name}");
        if !listed.iter().any(|(_, listed)| *listed == path) {
            findings.push(Finding::new(PAGE, start, format!("does not list {path}/; add a line for it")));
        }
    }
    findings
}

/// The block of code that begins with `crates/`, and the number of its first line.
fn list(text: &str) -> Option<(usize, Vec<&str>)> {
    let lines = markdown::lines(text);
    let begins = |at: &usize| {
        let opened = lines[*at] == Line::Fence;
        opened
            && matches!(lines.get(at + 1), Some(Line::Code(first)) if first.split_whitespace().next() == Some("crates/"))
    };
    let first = (0..lines.len()).find(begins)? + 1;
    let code = lines[first..].iter().map_while(|line| if let Line::Code(code) = line { Some(*code) } else { None });
    Some((first + 1, code.collect()))
}

/// The folders that the list names, with the lines where it does.
fn entries(start: usize, block: &[&str]) -> Vec<(usize, String)> {
    let mut above = "";
    let mut entries = Vec::new();
    for (line, number) in block.iter().zip(start..) {
        let Some(name) = line.split_whitespace().next().and_then(|word| word.strip_suffix('/')) else { continue };
        match line.len() - line.trim_start().len() {
            0 => {
                above = name;
                entries.push((number, name.to_owned()));
            }
            2 => entries.push((number, format!("{above}/{name}"))),
            // Deeper is a description that goes on.
            _ => {}
        }
    }
    entries
}

fn folders(files: &Files) -> BTreeSet<&str> {
    let below = files.iter().filter_map(|(path, _)| path.strip_prefix(CRATES)?.strip_prefix('/')?.split_once('/'));
    below.map(|(folder, _)| folder).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    fn found_with(list: &str) -> Vec<String> {
        let page = format!("# Architecture\n\n```\nother/\n```\n\n```\n{list}```\n");
        let files = [
            (PAGE, page.as_str()),
            ("crates/space/Cargo.toml", ""),
            ("crates/api/src/lib.rs", ""),
            ("docs/adr/a.md", ""),
        ];
        found(check, &files)
    }

    #[test]
    fn a_true_list_passes() {
        let list = "crates/\n  space/   the register:\n           no/ folder\n  api/     kinds\ndocs/      pages\n  adr/     why\n";
        assert_eq!(found_with(list), [""; 0]);
    }

    #[test]
    fn what_is_listed_but_absent_is_found() {
        for (list, line) in [
            ("crates/\n  space/  a\n  api/  b\n  store/  c\n", 11),
            ("crates/\n  space/  a\n  api/  b\nfuzz/  c\n", 11),
            ("crates/\n  space/  a\n  api/  b\ndocs/\n  guide/  c\n", 12),
        ] {
            let findings = found_with(list);
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert!(findings[0].starts_with(&format!("ARCHITECTURE.md:{line}: lists ")), "{findings:?}");
        }
    }

    #[test]
    fn a_crate_that_is_not_listed_is_found() {
        assert_eq!(
            found_with("crates/\n  space/  a\n"),
            ["ARCHITECTURE.md:8: does not list crates/api/; add a line for it"]
        );
    }

    #[test]
    fn a_page_without_a_list_is_found() {
        assert_eq!(found(check, &[(PAGE, "# Architecture\n\ncrates/\n")]).len(), 1);
        assert_eq!(found(check, &[]).len(), 1);
    }
}
