//! Nothing half-done is committed: no notes to finish later, no debug output, no test switched off.

use super::Finding;
use super::files::Files;
use super::rust::{Token, tokens};

/// Put together at compile time, so that this file does not contain them.
const NOTES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];

/// No `.rs` file contains a note, a debug macro or an ignored test.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    files.having("rs").flat_map(|(path, text)| notes(path, text).chain(code(path, text))).collect()
}

/// Notes stand in comments and strings, so the text is searched.
fn notes<'a>(path: &'a str, text: &'a str) -> impl Iterator<Item = Finding> + 'a {
    text.lines().zip(1..).flat_map(move |(content, line)| {
        let here = NOTES.iter().filter(move |note| content.contains(**note));
        here.map(move |note| {
            Finding::new(path, line, format!("`{note}`; do it now, or write it where it will be read"))
        })
    })
}

/// The rest is code, so comments and strings may mention it.
fn code(path: &str, text: &str) -> Vec<Finding> {
    let tokens = tokens(text);
    let finding = |at: usize| match &tokens[at..] {
        [(line, Token::Word("dbg")), (_, Token::Mark('!')), ..] => {
            Some(Finding::new(path, *line, "`dbg!` prints in production; remove it"))
        }
        [(line, Token::Mark('#')), (_, Token::Mark('[')), (_, Token::Word("ignore")), ..] => {
            Some(Finding::new(path, *line, "a test that never runs proves nothing; mend it or remove it"))
        }
        _ => None,
    };
    (0..tokens.len()).filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn finished_code_passes() {
        let source = "//! About dbg!(x) and #[ignore].\nfn todo(ignore: &[u8]) { let s = \"dbg!(x)\"; }\n";
        assert!(found(check, &[("a.rs", source), ("a.md", NOTES[0])]).is_empty());
    }

    #[test]
    fn every_leftover_is_found_on_its_line() {
        let notes = NOTES.iter().map(|note| format!("//! A.\n// {note}: b\n"));
        let code =
            ["//! A.\nfn b() { dbg!(1); }\n", "//! A.\n#[ignore]\nfn b() {}\n", "//! A.\n#[ignore = \"slow\"]\n"];
        for source in notes.chain(code.map(str::to_owned)) {
            let findings = found(check, &[("a.rs", &source)]);
            assert_eq!(findings.len(), 1, "{source}");
            assert!(findings[0].starts_with("a.rs:2: "), "{findings:?}");
        }
    }
}
