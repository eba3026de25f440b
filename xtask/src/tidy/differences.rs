//! What a script of kubectl leaves out of the comparison is either chance or a difference that users can read about, so that the list
//! of known differences cannot fall behind the scripts.

use std::collections::BTreeMap;

use super::Finding;
use super::files::Files;

const SCRIPTS: &str = "xtask/src/e2e/kubectl/cases/";
const PAGES: [&str; 2] = ["docs/reference/compatibility.md", "docs/reference/differences.md"];
/// The heading on a page below which the rows are.
const HEADING: &str = "## Known differences";
/// The beginnings of lines that leave something out.
const ALLOWANCES: [&str; 4] = ["keep ", "mask ", "sort ", "undescribed "];
/// What stands for a difference that is no server's own.
const CHANCE: &str = "chance";

/// Every reason in a script begins with `[chance]` or with the `[name]` of a row on a page, and a row has a name of its own.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut known = BTreeMap::new();
    for page in PAGES {
        for (name, line) in rows(files.get(page).unwrap_or_default()) {
            if known.insert(name, line).is_some() {
                let what = format!("a second row is named `{name}`; each needs its own name");
                findings.push(Finding::new(page, line, what));
            }
        }
    }
    for (path, text) in files.under(SCRIPTS) {
        for (line, number) in text.lines().zip(1..) {
            let Some((_, reason)) = line.split_once(" because ").filter(|_| allows(line)) else { continue };
            let what = match tag(reason) {
                None => format!("begins with no [name]; say [{CHANCE}], or name a row of {}", PAGES.join(" or ")),
                Some(name) if name != CHANCE && !known.contains_key(name) => {
                    let pages = PAGES.join(" and ");
                    format!("no row of {pages} is named `{name}`; a difference must be listed there with its reason")
                }
                Some(_) => continue,
            };
            findings.push(Finding::new(path, number, format!("the reason {what}")));
        }
    }
    findings
}

fn allows(line: &str) -> bool {
    ALLOWANCES.iter().any(|beginning| line.starts_with(beginning))
}

/// The name in `[name] why`.
fn tag(reason: &str) -> Option<&str> {
    reason.strip_prefix('[')?.split_once("] ").map(|(name, _)| name)
}

/// The names of the rows, with their lines: what the first cell has in backticks.
fn rows(page: &str) -> impl Iterator<Item = (&str, usize)> {
    let below = page.lines().zip(1..).skip_while(|(line, _)| *line != HEADING).skip(1);
    below
        .take_while(|(line, _)| !line.starts_with("## "))
        .filter_map(|(line, number)| Some((line.strip_prefix("| `")?.split_once("` |")?.0, number)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    const LIST: &str = "# A\n| `early` | x | y |\n## Known differences\n\n| name | what | why |\n|---|---|---|\n| `a-b` | x | y |\n\n### More\n\n| `c` | x | y |\n## Specs\n| `late` | x |\n";

    fn found_for(page: &str, script: &str) -> Vec<String> {
        found(check, &[(PAGES[0], page), ("xtask/src/e2e/kubectl/cases/a.txt", script)])
    }

    #[test]
    fn chance_and_what_is_listed_pass() {
        let script = "case: a\n$ get x\nmask y because [chance] z\nsort because [a-b] z\nkeep y because [c] z\n  mask y because z\n";
        assert_eq!(found_for(LIST, script), [""; 0]);
    }

    #[test]
    fn a_reason_without_a_row_is_found() {
        for reason in ["z", "[none] z", "[early] z", "[late] z", "[a-b]z", "[] z"] {
            let findings = found_for(LIST, &format!("case: a\n$ get x\nmask y because {reason}\n"));
            assert_eq!(findings.len(), 1, "{reason}");
            assert!(findings[0].starts_with("xtask/src/e2e/kubectl/cases/a.txt:3: "), "{findings:?}");
        }
    }

    #[test]
    fn rows_of_both_pages_are_known_and_have_names_of_their_own() {
        let row = |name: &str| format!("## Known differences\n| `{name}` | x |\n");
        let script = "case: a\n$ get x\nmask y because [a] z\nmask y because [b] z\n";
        let pages = |first: &str, second: &str| {
            let (first, second) = (row(first), row(second));
            let files = [(PAGES[0], &*first), (PAGES[1], &*second), ("xtask/src/e2e/kubectl/cases/a.txt", script)];
            found(check, &files)
        };
        assert_eq!(pages("a", "b"), [""; 0]);
        assert_eq!(pages("a", "a").len(), 2, "the second row, and that nothing is named b");
    }

    #[test]
    fn two_rows_of_one_name_are_found() {
        let findings = found_for("## Known differences\n| `a` | x |\n| `a` | y |\n", "");
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("docs/reference/compatibility.md:3: "), "{findings:?}");
    }
}
