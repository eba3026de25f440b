//! Decisions are numbered without gaps and all listed, so that "the next one" and "all of them" have one meaning.

use super::Finding;
use super::files::{Files, extension};
use super::links::destination;
use super::markdown;

const FOLDER: &str = "docs/adr/";
const INDEX: &str = "docs/adr/README.md";

/// Every decision in `docs/adr` is `NNNN-title.md`, numbered from 0001 on, and linked from the README there.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let index = files.get(INDEX).unwrap_or_default();
    let listed: Vec<String> =
        markdown::links(index).iter().filter_map(|(_, target)| destination(INDEX, target)).collect();
    let mut findings = Vec::new();
    let mut next = 1;
    for (path, _) in files.under(FOLDER).filter(|(path, _)| extension(path) == Some("md") && *path != INDEX) {
        let Some(number) = number(&path[FOLDER.len()..]) else {
            findings.push(Finding::new(
                path,
                1,
                "not named like a decision; call it NNNN-title.md, the title in small letters",
            ));
            continue;
        };
        if number != next {
            let what =
                format!("decision {number:04} where {next:04} comes next; number them without gaps, each number once");
            findings.push(Finding::new(path, 1, what));
        }
        next = number + 1;
        if !listed.iter().any(|listed| listed == path) {
            findings.push(Finding::new(path, 1, format!("not listed; link it from {INDEX}")));
        }
    }
    findings
}

/// The number in `NNNN-title.md`.
fn number(name: &str) -> Option<u32> {
    let (digits, title) = name.strip_suffix(".md")?.split_once('-')?;
    let is_title =
        !title.is_empty() && title.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let is_number = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit());
    (is_title && is_number).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    fn found_for(decisions: &[&str], index: &str) -> Vec<String> {
        let mut files: Vec<_> = decisions.iter().map(|path| (*path, "# A\n")).collect();
        files.push((INDEX, index));
        found(check, &files)
    }

    #[test]
    fn numbered_and_listed_decisions_pass() {
        let index = "- [A](0001-a.md)\n- [B](./0002-b-2.md#why)\n";
        assert_eq!(found_for(&["docs/adr/0001-a.md", "docs/adr/0002-b-2.md"], index), [""; 0]);
        assert_eq!(found(check, &[("docs/concepts/a.md", "")]), [""; 0], "no decision yet needs no list");
    }

    #[test]
    fn an_unlisted_decision_is_found() {
        assert_eq!(found_for(&["docs/adr/0001-a.md"], "0001-a.md, `[A](0001-a.md)`").len(), 1);
    }

    #[test]
    fn a_gap_a_double_and_a_late_start_are_found() {
        let index = "[](0001-a.md) [](0001-b.md) [](0002-a.md) [](0003-a.md)";
        for (decisions, wrong) in [
            (["docs/adr/0001-a.md", "docs/adr/0003-a.md"], "docs/adr/0003-a.md"),
            (["docs/adr/0001-a.md", "docs/adr/0001-b.md"], "docs/adr/0001-b.md"),
            (["docs/adr/0002-a.md", "docs/adr/0003-a.md"], "docs/adr/0002-a.md"),
        ] {
            let findings = found_for(&decisions, index);
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert!(findings[0].starts_with(wrong), "{findings:?}");
        }
    }

    #[test]
    fn another_name_is_found() {
        for name in ["1-a.md", "0001-A.md", "0001.md", "0001-.md", "0001_a.md", "+001-a.md", "notes.md"] {
            let findings = found_for(&[&format!("docs/adr/{name}")], &format!("[]({name})"));
            assert_eq!(findings.len(), 1, "{name}");
            assert!(findings[0].contains("not named like a decision"), "{findings:?}");
        }
    }
}
