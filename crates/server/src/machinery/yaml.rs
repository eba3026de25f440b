//! YAML bodies as JSON values, and JSON answers as YAML.
//!
//! Clients know the YAML of kubectl, which is that of version 1.1: `yes` and `on` are true, `0777` is octal, and the
//! names of fields are text even if they look like numbers. One body is one document.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Error, Spanned};

use super::document::Document;

/// The deepest nesting. Objects of Kubernetes go half as deep, and every level costs stack, most of all in a debug build.
const DEEPEST: usize = 64;

/// How many nodes all aliases together may stand for: a few lines of aliases can otherwise become any amount of memory.
const MOST_ALIASED: usize = 100_000;

/// How many keys given twice are named, and how many characters of each: the rest would only make the answer long.
const MOST_TWICE: usize = 100;
const LONGEST_KEY: usize = 1024;

/// Reads a YAML body, or says why it cannot be read.
pub(crate) fn to_json(body: &[u8]) -> Result<Document, String> {
    let text = std::str::from_utf8(body).map_err(|error| format!("yaml: {error}"))?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: DEEPEST },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MOST_ALIASED },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let mut documents: Vec<Node> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| refusal(&error))?;
    let Some(Node { value, twice }) = documents.pop() else {
        return Ok(Document { value: Value::Null, faults: Vec::new() });
    };
    if !documents.is_empty() {
        return Err(format!("yaml: a body is one document, and these are {}", documents.len() + 1));
    }
    let faults = (!twice.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {}", twice.join("\n  ")));
    Ok(Document { value, faults: faults.into_iter().collect() })
}

/// Writes a JSON answer as YAML.
pub(crate) fn from_json(json: &[u8]) -> Result<String, String> {
    let value: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    serde_saphyr::to_string(&value).map_err(|error| error.to_string())
}

/// Why a body was not read, with the line; on the first line none is needed.
fn refusal(error: &Error) -> String {
    let (what, line) = match error.location() {
        Some(location) => {
            let place = format!(" at line {}, column {}", location.line(), location.column());
            (error.to_string().replace(&place, ""), location.line())
        }
        None => (error.to_string(), 0),
    };
    let what = match cause(error) {
        Error::AliasReplayLimitExceeded { .. } | Error::AliasReplayStackDepthExceeded { .. } => {
            "document contains excessive aliasing"
        }
        _ => &what,
    };
    if line > 1 { format!("yaml: line {line}: {what}") } else { format!("yaml: {what}") }
}

/// What an error is about, without where an alias led there.
fn cause(error: &Error) -> &Error {
    match error.without_snippet() {
        Error::AliasError { error, .. } => cause(error),
        other => other,
    }
}

/// A value, and the keys that were given twice in it.
struct Node {
    value: Value,
    twice: Vec<String>,
}

impl<T: Into<Value>> From<T> for Node {
    fn from(value: T) -> Self {
        Self { value: value.into(), twice: Vec::new() }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::from(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::from(value))
    }

    /// In JSON, `1.0` and `1e3` are whole numbers.
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        let written = value.to_string();
        if let Ok(whole) = written.parse::<i64>() {
            return Ok(whole.into());
        }
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number that is not finite"))?;
        Ok(Node::from(Value::Number(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Node, E> {
        Ok(Node::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        let mut twice = Vec::new();
        while let Some(Node { value, twice: within }) = access.next_element()? {
            add(&mut twice, within);
            items.push(value);
        }
        Ok(Node { value: Value::Array(items), twice })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut fields = Map::new();
        let mut twice = Vec::new();
        // The line is asked of the key, not of the value: there it would cost a second frame on the stack at every level.
        while let Some(Spanned { value: Key(key), defined, .. }) = access.next_key()? {
            let Node { value, twice: within } = access.next_value()?;
            add(&mut twice, within);
            let text = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
            if fields.insert(text, value).is_some() && twice.len() < MOST_TWICE {
                twice.push(format!("line {}: key {} already set in map", defined.line(), shown(key)));
            }
        }
        Ok(Node { value: Value::Object(fields), twice })
    }
}

/// Adds what is said of a part to what is said of the whole, if that has room for it.
fn add(twice: &mut Vec<String>, within: Vec<String>) {
    let room = MOST_TWICE - twice.len();
    twice.extend(within.into_iter().take(room));
}

/// A key as it is told: in full, unless it is very long.
fn shown(key: Value) -> Value {
    match key {
        Value::String(text) if text.len() > LONGEST_KEY => text.chars().take(LONGEST_KEY).collect::<String>().into(),
        key => key,
    }
}

/// The key of a map: text, or what becomes text.
struct Key(Value);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        match Node::deserialize(reader)?.value {
            Value::Null | Value::Array(_) | Value::Object(_) => Err(D::Error::custom("invalid map key")),
            key => Ok(Self(key)),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// Texts that are something else in YAML unless they are written with care.
    pub(in crate::machinery) const ODD_TEXTS: [&str; 76] = [
        "",
        " ",
        "yes",
        "No",
        "on",
        "y",
        "~",
        "null",
        "0777",
        "0x1F",
        "1e3",
        "1_000",
        ".5",
        "5.",
        "-",
        "- a",
        "a: b",
        "a:",
        ": a",
        "#a",
        "a #b",
        "'",
        "\"",
        "it's",
        "\\",
        "\n",
        "a\n",
        "a\n\n",
        "\na",
        "  a\nb",
        "a\n  b",
        "a\tb",
        "\t",
        "a ",
        "@a",
        "`a",
        "%a",
        "&a",
        "*a",
        "!a",
        "|",
        ">",
        "[a",
        "{a",
        "a]",
        ",",
        "?",
        "? a",
        "2026-01-01",
        "1:30",
        ".inf",
        "---",
        "...",
        "<<",
        "=",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "\r\n",
        "é",
        "😀",
        "\u{1}",
        "true",
        "-0",
        "+1",
        "0b1",
        "a\r",
        "\r",
        " \n a",
        "a: |",
        "- - a",
        "a\u{a0}b",
        "0o7",
        "1e400",
        "0.1.2",
        "a long line that is folded somewhere, if anything is folded at all, because it is longer than eighty",
    ];

    fn read(text: &str) -> Value {
        to_json(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}")).value
    }

    #[test]
    fn scalars_are_those_of_yaml_1_1() {
        for (text, expected) in [
            ("[yes, No, on, OFF, y, N, true, False]", json!([true, false, true, false, true, false, true, false])),
            ("['yes', \"no\", yesterday, offer]", json!(["yes", "no", "yesterday", "offer"])),
            ("[0777, 0o17, 0x1F, 0b101, 1_000, -5, +5, -0x1F, 09]", json!([511, 15, 31, 5, 1000, -5, 5, -31, 9])),
            ("[1.5, 1e3, 1.0, .5, -2., 1e30]", json!([1.5, 1000, 1, 0.5, -2, 1e30])),
            (
                "[9223372036854775807, -9223372036854775808, 9223372036854775808]",
                json!([i64::MAX, i64::MIN, 1_u64 << 63]),
            ),
            ("[~, null, Null, '', 'null']", json!([null, null, null, "", "null"])),
            (
                "[2026-01-01, 2026-01-01T00:00:00Z, 1:30, 10.0.0.1, fd00::1]",
                json!(["2026-01-01", "2026-01-01T00:00:00Z", "1:30", "10.0.0.1", "fd00::1"]),
            ),
            ("[!!str 5, !!int '5', !odd x, !!binary aGVsbG8=]", json!(["5", 5, "x", "hello"])),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn keys_become_text() {
        let keys = read("1: a\nyes: b\n1.5: c\n0x10: d\n'0x10': e");
        assert_eq!(keys, json!({"1": "a", "true": "b", "1.5": "c", "16": "d", "0x10": "e"}));
        for text in ["~: a", "[a]: b", "? {a: b}\n: c"] {
            assert!(to_json(text.as_bytes()).unwrap_err().contains("invalid map key"), "{text}");
        }
    }

    #[test]
    fn json_is_yaml() {
        let body = r#"{"a":[1,-2.5,true,null,"x\u00e9\n"],"b":{"c":{}},"d":[]}"#;
        assert_eq!(read(body), serde_json::from_str::<Value>(body).unwrap());
    }

    #[test]
    fn blocks_anchors_and_merges_are_followed() {
        assert_eq!(read("a: |\n  x\n  y\nb: >-\n  x\n  y\n"), json!({"a": "x\ny\n", "b": "x y"}));
        let text = "base: &base {a: 1, b: 2}\nsame: *base\nmore:\n  <<: *base\n  b: 3\n";
        assert_eq!(read(text), json!({"base": {"a": 1, "b": 2}, "same": {"a": 1, "b": 2}, "more": {"a": 1, "b": 3}}));
    }

    #[test]
    fn keys_given_twice_are_told_with_their_lines_and_the_last_value_counts() {
        let Document { value, faults } = to_json(b"a: 1\na: 2\nb:\n- c: 1\n  c:\n    d: 2\n").unwrap();
        assert_eq!(value, json!({"a": 2, "b": [{"c": {"d": 2}}]}));
        let expected =
            "yaml: unmarshal errors:\n  line 2: key \"a\" already set in map\n  line 5: key \"c\" already set in map";
        assert_eq!(faults, [expected]);
        assert_eq!(to_json(b"a: 1\nb: 1\n").unwrap().faults, [""; 0]);
    }

    #[test]
    fn the_keys_given_twice_that_are_told_are_limited() {
        let many = "- {a: 1, a: 2}\n".repeat(1_000);
        let long = format!("{}: 1\n", "k".repeat(1_000)).repeat(3_000);
        let aliased = format!("a: &a {}\nb:\n{}", "k".repeat(100_000), "  *a : 1\n".repeat(90));
        for (text, told) in [(many, 100), (long, 100), (aliased, 89)] {
            let Document { faults, .. } = to_json(text.as_bytes()).unwrap();
            assert_eq!(faults[0].lines().count(), 1 + told);
            assert!(faults[0].len() < 200_000, "{}", faults[0].len());
        }
    }

    #[test]
    fn a_body_is_one_document() {
        for text in ["", "# nothing\n", "---\n", "---\n---\n"] {
            assert_eq!(read(text), Value::Null, "{text:?}");
        }
        for text in ["a: 1\n---\n", "---\na: 1\n...\n", "%YAML 1.1\n---\na: 1\n"] {
            assert_eq!(read(text), json!({"a": 1}), "{text:?}");
        }
        let error = to_json(b"a: 1\n---\nb: 2\n").unwrap_err();
        assert_eq!(error, "yaml: a body is one document, and these are 2");
    }

    #[test]
    fn what_is_no_yaml_is_refused_with_its_line() {
        for (text, expected) in [
            ("a: b: c", "yaml: mapping values are not allowed in this context"),
            ("a: 1\nb: - c", "yaml: line 2: block sequence entries are not allowed in this context"),
            ("a:\n  - b\n c: d", "yaml: line 3: while parsing a block mapping, did not find expected key"),
            ("a: *x", "yaml: alias references unknown anchor"),
        ] {
            assert_eq!(to_json(text.as_bytes()).unwrap_err(), expected, "{text}");
        }
        for text in ["a: [1, 2", "a: \"b", "a:\n\tb: 1", "a: @b", "a: &a [*a]", "a: .inf"] {
            assert!(to_json(text.as_bytes()).unwrap_err().starts_with("yaml: "), "{text}");
        }
        assert!(to_json(b"a: \xff").unwrap_err().starts_with("yaml: invalid utf-8"));
    }

    #[test]
    fn aliases_cannot_become_more_than_was_sent_by_much() {
        let level = |level: u32| match level {
            0 => "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned(),
            _ => format!("a{level}: &a{level} [{}]\n", [format!("*a{}", level - 1).as_str(); 10].join(", ")),
        };
        let bomb: String = (0..9).map(level).collect();
        let error = to_json(bomb.as_bytes()).unwrap_err();
        assert!(error.ends_with("document contains excessive aliasing"), "{error}");
    }

    #[test]
    fn a_body_that_is_too_deep_is_refused() {
        for text in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000)] {
            assert!(to_json(text.as_bytes()).unwrap_err().starts_with("yaml: "));
        }
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        for text in ODD_TEXTS {
            let value = json!({"key": text, text: [text, {"x": text}], "list": [[text], []]});
            let written = from_json(value.to_string().as_bytes()).unwrap();
            assert_eq!(read(&written), value, "{text:?}:\n{written}");
        }
        let numbers = json!({"a": [0, -1, 1.5, 1e30, i64::MIN, u64::MAX, true, null, {}, []]});
        assert_eq!(read(&from_json(numbers.to_string().as_bytes()).unwrap()), numbers);
    }
}
