//! Just enough of Markdown for tidy: the lines, the links and the headings of a page.
//!
//! Not known, because no page here needs them: code by indentation, emphasis by underscores inside headings.

use std::collections::{BTreeMap, BTreeSet};

/// A line of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Prose(&'a str),
    /// The line that opens or closes a block of code.
    Fence,
    /// A line inside a fenced block of code.
    Code(&'a str),
}

pub(super) fn lines(text: &str) -> Vec<Line<'_>> {
    let mut open: Option<&str> = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        lines.push(match (open, fence(line)) {
            (None, None) => Line::Prose(line),
            (None, opened) => {
                open = opened;
                Line::Fence
            }
            // A fence closes with at least as many of the same marks, and nothing after them.
            (Some(opened), Some(marks)) if marks.starts_with(opened) && line.trim() == marks => {
                open = None;
                Line::Fence
            }
            (Some(_), _) => Line::Code(line),
        });
    }
    lines
}

/// The marks of a line that opens or closes a block of code.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let marks = line.len() - line.trim_start_matches(mark).len();
    // With a backtick after them, three backticks open inline code.
    (marks >= 3 && !(mark == '`' && line[marks..].contains('`'))).then(|| &line[..marks])
}

/// The targets of all links and images, with the lines they are on.
pub(super) fn links(text: &str) -> Vec<(usize, String)> {
    let prose = without_code(text);
    let line_of = |at: usize| prose[..at].matches('\n').count() + 1;
    let inline =
        prose.match_indices("](").filter_map(|(at, mark)| Some((at, inline_target(&prose[at + mark.len()..])?)));
    let html = ["href=\"", "src=\""].into_iter().flat_map(|mark| {
        let targets = prose.match_indices(mark).map(move |(at, mark)| (at, at + mark.len()));
        targets.filter_map(|(at, from)| Some((at, prose[from..].split_once('"')?.0)))
    });
    let mut links: Vec<_> = inline.chain(html).map(|(at, target)| (line_of(at), target.to_owned())).collect();
    let definitions = prose.lines().zip(1..).filter_map(|(line, number)| Some((number, definition(line)?.to_owned())));
    links.extend(definitions);
    links.sort();
    links
}

/// The target in `(target)`, `(target "title")` or `(<target>)`, after the opening parenthesis.
fn inline_target(rest: &str) -> Option<&str> {
    if let Some(quoted) = rest.strip_prefix('<') {
        return quoted.split_once('>').map(|(target, _)| target);
    }
    let mut depth = 0_usize;
    let end = rest.find(|c: char| match c {
        '(' => {
            depth += 1;
            false
        }
        ')' if depth > 0 => {
            depth -= 1;
            false
        }
        c => c == ')' || c.is_whitespace(),
    })?;
    Some(&rest[..end])
}

/// The target of a line `[name]: target`; a footnote looks the same and is none.
fn definition(line: &str) -> Option<&str> {
    let (name, target) = line.trim_start().strip_prefix('[')?.split_once("]:")?;
    let is_name = !name.starts_with('^') && !name.contains(']');
    target.split_whitespace().next().filter(|_| is_name).map(|target| target.trim_matches(['<', '>']))
}

/// The page with everything that is code blank, every line still where it was.
fn without_code(text: &str) -> String {
    let prose = lines(text).into_iter().map(|line| if let Line::Prose(prose) = line { prose } else { "" });
    let prose = prose.collect::<Vec<_>>().join("\n");
    let mut rest = prose.as_str();
    let mut result = String::new();
    while let Some(at) = rest.find('`') {
        let (before, code) = rest.split_at(at);
        let marks = code.len() - code.trim_start_matches('`').len();
        let length = if before.ends_with('\\') { None } else { code_span(code, marks) };
        let (taken, left) = code.split_at(length.unwrap_or(marks));
        result.push_str(before);
        result.extend(taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = left;
    }
    result + rest
}

/// How long the inline code is that opens with so many backticks: it closes with as many in the same paragraph.
fn code_span(code: &str, marks: usize) -> Option<usize> {
    let paragraph = &code[..code.find("\n\n").unwrap_or(code.len())];
    let mut at = marks;
    loop {
        let open = at + paragraph[at..].find('`')?;
        let close = paragraph[open..].len() - paragraph[open..].trim_start_matches('`').len();
        at = open + close;
        if close == marks {
            return Some(at);
        }
    }
}

/// Everything that a link with `#` may point to: the slugs of the headings, and anchors set by hand.
pub(super) fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for heading in headings(text) {
        let slug = slug(heading);
        let before = seen.entry(slug.clone()).or_default();
        anchors.insert(if *before == 0 { slug } else { format!("{slug}-{before}") });
        *before += 1;
    }
    let prose = without_code(text);
    for mark in ["id=\"", "name=\""] {
        let set = prose.match_indices(mark).filter_map(|(at, mark)| prose[at + mark.len()..].split_once('"'));
        anchors.extend(set.map(|(anchor, _)| anchor.to_owned()));
    }
    anchors
}

fn headings(text: &str) -> Vec<&str> {
    let lines = lines(text);
    let mut headings = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Line::Prose(line) = line else { continue };
        let hashes = line.len() - line.trim_start_matches('#').len();
        let underline =
            |line: &str| !line.is_empty() && (line.chars().all(|c| c == '=') || line.chars().all(|c| c == '-'));
        if (1..=6).contains(&hashes) && line[hashes..].starts_with([' ', '\t']) {
            headings.push(line[hashes..].trim_end_matches('#'));
        } else if !line.trim().is_empty()
            && let Some(Line::Prose(next)) = lines.get(at + 1)
            && underline(next.trim_end())
        {
            headings.push(line);
        }
    }
    headings
}

/// The anchor that GitHub gives a heading: its visible text in lower case, spaces as hyphens, punctuation dropped.
fn slug(heading: &str) -> String {
    let mut visible = String::new();
    let mut rest = heading.trim();
    // Of a link only its text is visible.
    while let Some((text, target)) = rest.split_once("](") {
        visible.push_str(text);
        rest = target.split_once(')').map_or("", |(_, after)| after);
    }
    visible.push_str(rest);
    let kept = visible.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<String> {
        links(text).into_iter().map(|(_, target)| target).collect()
    }

    #[test]
    fn every_form_of_link_is_seen() {
        let page = "[a](b.md) ![c](d.png \"title\") [e](<f g.md>)\n[h\ni](j_(k).md)\n[l]: m.md\n<a href=\"n.md\"><img src=\"o.png\">";
        assert_eq!(targets(page), ["b.md", "d.png", "f g.md", "j_(k).md", "m.md", "n.md", "o.png"]);
        let numbers: Vec<_> = links(page).into_iter().map(|(line, _)| line).collect();
        assert_eq!(numbers, [1, 1, 1, 3, 4, 5, 5]);
    }

    #[test]
    fn code_has_no_links() {
        let page = "`[a](b)` ``[a` ](b)``\n`[a\n](b)`\n```\n[a](b)\n```\n~~~sh\n```\n[a](b)\n~~~\n[^1]: note\n";
        assert_eq!(targets(page), [""; 0]);
    }

    #[test]
    fn a_stray_backtick_hides_nothing_beyond_its_paragraph() {
        assert_eq!(targets("a ` b [c](d)\n\n` [e](f)"), ["d", "f"]);
    }

    #[test]
    fn a_fence_closes_only_with_its_own_marks() {
        let lines = lines("````md\n```\na\n```\n````\nb");
        let code = ["```", "a", "```"].map(Line::Code);
        assert_eq!(lines, [&[Line::Fence][..], &code, &[Line::Fence, Line::Prose("b")]].concat());
    }

    #[test]
    fn slugs_are_githubs() {
        for (heading, expected) in [
            ("Two ways to run, one code base", "two-ways-to-run-one-code-base"),
            ("`space`: the register", "space-the-register"),
            ("The [store](store.md) & etcd", "the-store--etcd"),
            ("Größe snake_case", "größe-snake_case"),
        ] {
            assert_eq!(slug(heading), expected);
        }
    }

    #[test]
    fn anchors_are_the_headings_outside_of_code() {
        let page = "# A #\n## B\n## B\nC\n---\n```\n# D\n```\n#hashtag\n<a id=\"e\"></a>\n";
        assert_eq!(anchors(page).into_iter().collect::<Vec<_>>(), ["a", "b", "b-1", "c", "e"]);
    }
}
