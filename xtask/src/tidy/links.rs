//! Every link between our pages leads somewhere. Links to the web are not followed: tidy needs no network.

use super::Finding;
use super::files::{Files, extension, joined, parent};
use super::markdown;

/// Every relative link in a `.md` file points to a file or folder, and its anchor to a heading there.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let pages = files.having("md");
    let links = pages.flat_map(|(path, text)| markdown::links(text).into_iter().map(move |link| (path, link)));
    links
        .filter(|(_, (_, target))| !leaves(target))
        .filter_map(|(path, (line, target))| Some(Finding::new(path, line, broken(files, path, &target)?)))
        .collect()
}

/// The file or folder that a relative link on a page leads to, if it stays in the repository.
pub(super) fn destination(page: &str, target: &str) -> Option<String> {
    let file = target.split_once('#').map_or(target, |(file, _)| file);
    match file.strip_prefix('/') {
        _ if file.is_empty() => Some(page.to_owned()),
        // As GitHub shows it: from the root of the repository.
        Some(from_root) => joined("", from_root),
        None => joined(parent(page), file),
    }
}

/// Whether the link goes to the web, or wherever else its scheme says.
fn leaves(target: &str) -> bool {
    let scheme = target.split_once(':').map(|(scheme, _)| scheme);
    let is_scheme = |scheme: &str| {
        let mut chars = scheme.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic())
            && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    target.starts_with("//") || scheme.is_some_and(is_scheme)
}

/// What is wrong with a link, if anything is.
fn broken(files: &Files, page: &str, target: &str) -> Option<String> {
    let Some(path) = destination(page, target) else {
        return Some(format!("the link `{target}` leaves the repository; link to the web address instead"));
    };
    let is_folder = files.is_folder(&path);
    if !is_folder && !files.is_file(&path) {
        return Some(format!("the link `{target}` leads nowhere: there is no {path}; mend the link"));
    }
    let anchor = target.split_once('#').map(|(_, anchor)| anchor).filter(|anchor| !anchor.is_empty())?;
    let shown = if is_folder { joined(&path, "README.md")? } else { path };
    // An anchor into a source file is a line; that goes stale without anyone being able to tell.
    let text = files.get(&shown).filter(|_| extension(&shown) == Some("md"))?;
    let exists = markdown::anchors(text).contains(anchor);
    (!exists).then(|| format!("the link `{target}` leads to no heading of {shown}; mend the part after `#`"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    fn found_in(page: &str) -> Vec<String> {
        let files = [
            ("docs/page.md", page),
            ("docs/README.md", "# All pages\n"),
            ("docs/adr/0001-a.md", "# One\n## Why not two?\n"),
            ("README.md", "# Cadastre\n"),
            ("docs/map.png", ""),
        ];
        found(check, &files)
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        for target in [
            "adr/0001-a.md",
            "./adr",
            "adr/",
            "../README.md",
            "..",
            "/docs/adr/0001-a.md",
            "map.png",
            "#here",
            "adr/0001-a.md#why-not-two",
            "../README.md#cadastre",
            "../docs#all-pages",
            "https://example.org/x#y",
            "mailto:a@example.org",
            "//example.org",
            "map.png#L3",
        ] {
            assert_eq!(found_in(&format!("# Here\n[x]({target})\n")), [""; 0], "{target}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_found_on_their_line() {
        for target in
            ["gone.md", "adr/gone", "../../elsewhere", "/page.md", "#there", "adr/0001-a.md#one-", "../docs#no-pages"]
        {
            let findings = found_in(&format!("# Here\n[x]({target})\n"));
            assert_eq!(findings.len(), 1, "{target}");
            assert!(findings[0].starts_with(&format!("docs/page.md:2: the link `{target}` lea")), "{findings:?}");
        }
    }
}
