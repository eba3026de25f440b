//! What two servers cannot have in common, masked: identities, times, ages, revisions, addresses.
//!
//! A mask is as narrow as it can be, because what is masked is not compared. Times before 2025 come from a manifest and
//! stay, so that a script can see how they are written.

use regex::{Captures, Regex};

use anyhow::Result;

const DAYS: &str = "Mon|Tue|Wed|Thu|Fri|Sat|Sun";
const MONTHS: &str = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec";
/// The years in which a suite can run.
const YEAR: &str = "20(?:2[5-9]|[3-9][0-9])";

/// What stands for an age.
const AGE: &str = "<age>";

/// Everything that is masked, in order.
pub(super) struct Masks {
    everywhere: Vec<(Regex, &'static str)>,
    /// The heading of a table with ages in it.
    heading: Regex,
    age: Regex,
}

impl Masks {
    pub(super) fn new() -> Result<Self> {
        let everywhere = [
            // Colours.
            ("\x1b\\[[0-9;]*m".to_owned(), ""),
            ("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}".to_owned(), "<uid>"),
            (format!(r"\b{YEAR}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| [+-]\d{{4}})"), "<time>"),
            (format!(r"\b(?:{DAYS}), \d\d (?:{MONTHS}) {YEAR} \d\d:\d\d:\d\d [+-]\d{{4}}"), "<time>"),
            // Only seconds: `10m` may be a quantity. What a probe or a toleration says in seconds is no age.
            (r"(?P<said>\bfor |\w=)?\b(?:\d+m)?\d+s\b".to_owned(), AGE),
            (r#"(resourceVersion"?: ?)"\d+""#.to_owned(), "$1\"<revision>\""),
            (r"(Resource Version: +)\d+".to_owned(), "$1<revision>"),
            (r"https?://127\.0\.0\.[12]:\d+".to_owned(), "<server>"),
            (r"\b127\.0\.0\.[12]:\d+".to_owned(), "<address>"),
            // Addresses and ports of Services that nobody names: what scripts name is below them, where nothing is picked.
            (r"\b10\.96\.[1-9]\d{0,2}\.\d{1,3}\b".to_owned(), "<picked>"),
            (r"\b3(?:008[6-9]|009\d|0[1-9]\d\d|1\d{3}|2[0-6]\d\d|27[0-5]\d|276[0-7])\b".to_owned(), "<picked>"),
            // The end that a server gives to a name that begins with `gen-`.
            ("\\bgen-[bcdfghjklmnpqrstvwxz2456789]{5}\\b".to_owned(), "gen-<random>"),
            (r"\b(LIVE|MERGED|kubectl-edit)-\d+".to_owned(), "$1-<number>"),
            // The head of a line of kubectl's own log.
            (r"(?m)^([EWI])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ".to_owned(), "$1 "),
            // A line of that log which is there if the time of `--timeout` is over before a watch is open, whatever the server does.
            (r#"(?m)^E reflector\.go:\d+\] "Failed to watch" err="context deadline exceeded".*\n"#.to_owned(), ""),
        ];
        let everywhere = everywhere.into_iter().map(|(pattern, mask)| Ok((Regex::new(&pattern)?, mask)));
        Ok(Self {
            everywhere: everywhere.collect::<Result<_>>()?,
            heading: Regex::new(r"\bAGE\b|\bLAST SEEN\b")?,
            age: Regex::new(r"\b\d+[smhd](?:\d+[smh])?\b")?,
        })
    }

    /// The text with masks in it, and the columns of tables moved together: how wide they are depends on what is masked.
    pub(super) fn on(&self, text: &str) -> String {
        let masked = self.everywhere.iter().fold(text.to_owned(), |text, (what, mask)| replaced(what, mask, &text));
        let mut ages = false;
        let lines = masked.lines().map(|line| {
            // From the heading of such a table on, anything that looks like an age is one.
            ages |= self.heading.is_match(line);
            let line = if ages { self.age.replace_all(line, AGE).into_owned() } else { line.into() };
            columns(&line)
        });
        let mut lines: Vec<_> = lines.collect();
        sort_managers(&mut lines);
        if masked.ends_with('\n') {
            lines.push(String::new());
        }
        lines.join("\n")
    }
}

/// The text with a mask on what matches; what a manifest said about itself stays.
fn replaced(what: &Regex, mask: &str, text: &str) -> String {
    if mask != AGE {
        return what.replace_all(text, mask).into_owned();
    }
    let kept = |found: &Captures<'_>| if found.name("said").is_some() { found[0].to_owned() } else { mask.to_owned() };
    what.replace_all(text, kept).into_owned()
}

/// Puts the entries of each `managedFields` in YAML in the order of their texts, as far as chance decides it. Servers have those that
/// applied before the others, which is compared, and within these the order of the seconds in which they were written: whether two
/// writes are in one second is chance.
fn sort_managers(lines: &mut [String]) {
    let mut at = 0;
    while let Some(found) = lines[at..].iter().position(|line| line.trim_start_matches(' ') == "managedFields:") {
        at += found + 1;
        let indent = lines[at - 1].len() - "managedFields:".len();
        let (first, further) = (" ".repeat(indent) + "- ", " ".repeat(indent + 2));
        let length =
            lines[at..].iter().take_while(|line| line.starts_with(&first) || line.starts_with(&further)).count();
        let block = &mut lines[at..at + length];
        let mut entries: Vec<Vec<String>> = Vec::new();
        for line in block.iter() {
            match entries.last_mut() {
                Some(entry) if !line.starts_with(&first) => entry.push(line.clone()),
                _ => entries.push(vec![line.clone()]),
            }
        }
        let operation = format!("{further}operation: ");
        let of = |entry: &[String]| entry.iter().find_map(|line| line.strip_prefix(&operation).map(str::to_owned));
        entries.chunk_by_mut(|one, next| of(one) == of(next)).for_each(<[_]>::sort);
        block.iter_mut().zip(entries.into_iter().flatten()).for_each(|(line, sorted)| *line = sorted);
        at += length;
    }
}

/// The line with all gaps between columns two wide. Its indentation stays.
fn columns(line: &str) -> String {
    let text = line.trim_start_matches(' ');
    let mut narrow = line[..line.len() - text.len()].to_owned();
    let mut gap = 0;
    for c in text.chars() {
        gap = if c == ' ' { gap + 1 } else { 0 };
        if gap <= 2 {
            narrow.push(c);
        }
    }
    narrow
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str) -> String {
        Masks::new().unwrap().on(text)
    }

    #[test]
    fn managers_are_compared_in_no_order_but_that_of_operations() {
        let shown = |entries: &[&str]| format!("metadata:\n  managedFields:\n{}  name: a\n", entries.concat());
        let entry = |manager: &str, operation: &str| format!("  - manager: {manager}\n    operation: {operation}\n");
        let (apply, a, b) = (&entry("x", "Apply"), &entry("a", "Update"), &entry("b", "Update"));
        assert_eq!(masked(&shown(&[apply, b, a])), shown(&[apply, a, b]));
        assert_eq!(masked(&shown(&[b, a])), masked(&shown(&[a, b])));
        assert_eq!(masked(&shown(&[a, apply, b])), shown(&[a, apply, b]));
    }

    #[test]
    fn what_differs_from_run_to_run_is_masked() {
        for (text, expected) in [
            ("uid: 0a1b2c3d-0000-4111-8222-0123456789ab", "uid: <uid>"),
            ("creationTimestamp: \"2026-11-16T07:00:45Z\"", "creationTimestamp: \"<time>\""),
            ("Start:   Mon, 16 Nov 2026 07:00:45 +0000", "Start:  <time>"),
            (
                "+++ /tmp/MERGED-123/v1.ConfigMap.a.b\t2026-11-16 07:00:45.1 +0000",
                "+++ /tmp/MERGED-<number>/v1.ConfigMap.a.b\t<time>",
            ),
            ("\"resourceVersion\": \"12\",", "\"resourceVersion\": \"<revision>\","),
            ("{\"resourceVersion\":\"12\"}", "{\"resourceVersion\":\"<revision>\"}"),
            ("  Resource Version:  12", "  Resource Version:  <revision>"),
            ("\x1b[0;32mControl\x1b[0m is at https://127.0.0.1:6443", "Control is at <server>"),
            ("clusterIP: 10.96.17.200", "clusterIP: <picked>"),
            ("80:30086/TCP,81:32767/TCP", "80:<picked>/TCP,81:<picked>/TCP"),
            ("configmap/gen-x7k2v created", "configmap/gen-<random> created"),
            ("E1116 07:00:45.123456   99 memcache.go:265] no", "E memcache.go:265] no"),
            (
                "E1116 07:00:45.123456   99 reflector.go:227] \"Failed to watch\" err=\"context deadline exceeded\" x=y\nerror: a",
                "error: a",
            ),
        ] {
            assert_eq!(masked(text), expected);
        }
    }

    #[test]
    fn ages_are_masked_and_columns_move_together() {
        let table = "NAME   DATA   AGE\none    1      5s\ntwo    2      10m\nthree  3      2m5s   x=y\n";
        assert_eq!(masked(table), "NAME  DATA  AGE\none  1  <age>\ntwo  2  <age>\nthree  3  <age>  x=y\n");
        assert_eq!(masked("a (x4 over 2m3s)"), "a (x4 over <age>)");
    }

    #[test]
    fn what_a_manifest_says_stays() {
        for text in [
            "renewTime: \"2020-01-02T03:04:05.000006Z\"",
            "cpu:  100m",
            "  name: gen-",
            "    uid: 1-2",
            "resourceVersion: \"\"",
            "  leading spaces stay\n",
            "name: gen-abcde",
            "Tolerations:  a:NoExecute op=Exists for 300s",
            "Liveness:  http-get http://:web/ delay=0s timeout=1s period=10s #success=1 #failure=3",
            "10.96.0.17  80:30085/TCP  32768",
            "MESSAGE  IMAGE\n5m  10d",
        ] {
            assert_eq!(masked(text), text);
        }
    }
}
