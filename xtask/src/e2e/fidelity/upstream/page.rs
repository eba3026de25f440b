//! The part of docs/reference/compatibility.md that is made: a table of the specs with what came of each.
//!
//! The rest of the page is written by hand, and stays.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use super::specs::Specs;
use super::{Endings, Place};
use crate::process;

const PAGE: &str = "docs/reference/compatibility.md";
/// The lines between which the page is made.
const BEGIN: &str = "<!-- made by `cargo xtask e2e upstream --write-docs` -->";
const END: &str = "<!-- end of what is made -->";

/// Writes the table into the page.
pub(super) fn write(specs: &Specs, columns: &[(Place, Endings)]) -> Result<()> {
    let path = process::repo_root().join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("could not read {PAGE}"))?;
    let page = replaced(&page, &made(specs, columns)).with_context(|| format!("{PAGE} has lost its markers"))?;
    fs::write(&path, page).with_context(|| format!("could not write {PAGE}"))
}

fn replaced(page: &str, made: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{made}\n{END}{after}"))
}

fn made(specs: &Specs, columns: &[(Place, Endings)]) -> String {
    let mut text = String::new();
    let names: Vec<_> = columns.iter().map(|(place, _)| place.name()).collect();
    let _ = writeln!(text, "| spec | {} |\n|---{}|", names.join(" | "), "|---".repeat(names.len()));
    let mut passed = vec![0; columns.len()];
    for spec in specs.names() {
        let _ = write!(text, "| {} |", cell(spec));
        for (at, (_, endings)) in columns.iter().enumerate() {
            let word = endings.get(spec).map_or("did not run", |done| done.word());
            passed[at] += usize::from(word == "passes");
            let _ = write!(text, " {word} |");
        }
        text.push('\n');
    }
    let counts: Vec<_> = passed.iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "| **{} specs; passed** | {} |", specs.names().count(), counts.join(" | "));
    for (reason, names) in &specs.left_out {
        let _ = writeln!(text, "\n{} specs that pass on the control are not run on ours: {reason}.\n", names.len());
        for name in names {
            let _ = writeln!(text, "- {}", cell(name));
        }
    }
    text
}

/// The text as a cell of a table: what Markdown would take for its own is code.
fn cell(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_by_hand_stays() {
        let page = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let expected = format!("before\n{BEGIN}\n\nnew\n\n{END}\nafter\n");
        assert_eq!(replaced(&page, "new\n").unwrap(), expected);
        assert_eq!(replaced(&expected, "new\n").unwrap(), expected, "writing it again changes nothing");
        assert_eq!(replaced("no markers", "new"), None);
    }
}
