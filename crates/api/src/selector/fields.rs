//! Field selectors: `metadata.name=a,spec.type!=ClusterIP`.

use std::fmt;

use super::SelectorError;
use crate::kind::Kind;
use crate::object::Object;

/// A choice of objects by the fields that their kind lets be selected.
#[derive(Clone, Debug, Default)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug)]
struct Term {
    label: String,
    equal: bool,
    value: String,
    /// Which of the kind's values it is about.
    index: usize,
}

/// The values that selectors on a kind can be about: of the name, of the namespace, and of the fields that it declares.
pub fn values(object: &Object, kind: &Kind) -> Box<[String]> {
    let metadata = [object.name().to_owned(), object.namespace().to_owned()];
    metadata.into_iter().chain(kind.selectable.iter().map(|field| (field.value)(object))).collect()
}

impl FieldSelector {
    /// Reads a selector on objects of a kind: `metadata.name=a,spec.type!=ClusterIP`.
    pub fn parse(text: &str, kind: &Kind) -> Result<Self, SelectorError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let (label, equal, value) = split_term(part)
                .ok_or_else(|| SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'")))?;
            terms.push((label, equal, unescaped(value)?));
        }
        let terms = terms.into_iter().map(|(label, equal, value)| {
            let index = index(label, kind)?;
            Ok(Term { label: label.to_owned(), equal, value, index })
        });
        Ok(Self { terms: terms.collect::<Result<_, _>>()? })
    }

    /// Whether it chooses everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether it chooses the object of these [`values`].
    pub fn matches(&self, values: &[String]) -> bool {
        self.terms.iter().all(|term| (values.get(term.index) == Some(&term.value)) == term.equal)
    }

    /// The one value that a field must have, if the selector says so: with `metadata.name` there is only one object to
    /// look at.
    pub fn exact(&self, label: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.label == label).map(|term| term.value.as_str())
    }

    /// Whether it asks for one value of that field and for nothing else.
    pub fn only(&self, label: &str) -> bool {
        matches!(self.terms.as_slice(), [term] if term.equal && term.label == label)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let sign = if term.equal { "=" } else { "!=" };
            let value = term.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{comma}{}{sign}{value}", term.label)?;
        }
        Ok(())
    }
}

fn index(label: &str, kind: &Kind) -> Result<usize, SelectorError> {
    // Kinds of the cluster that list their fields do not list a namespace among them.
    let namespace = kind.is_namespaced() || kind.selectable.is_empty() && kind.is_built_in();
    match label {
        "metadata.name" => Ok(0),
        "metadata.namespace" if namespace => Ok(1),
        _ => match kind.selectable.iter().position(|field| field.label == label) {
            Some(position) => Ok(2 + position),
            None if kind.selectable.is_empty() && kind.is_built_in() => Err(SelectorError(format!(
                "{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            ))),
            None => Err(SelectorError(format!("field label not supported: {label}"))),
        },
    }
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.find('=')?;
    let (head, tail) = (&term[..at], &term[at + 1..]);
    match head.strip_suffix('!') {
        Some(label) => Some((label, false, tail)),
        None => Some((head, true, tail.strip_prefix('=').unwrap_or(tail))),
    }
}

fn unescaped(value: &str) -> Result<String, SelectorError> {
    let bad = |sequence: &str| SelectorError(format!("invalid field selector: invalid escape sequence: {sequence}"));
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(bad(&format!("\\{c}"))),
                None => return Err(bad("\\")),
            },
            ',' | '=' => {
                let code = u32::from(c);
                return Err(SelectorError(format!("invalid field selector: unescaped character in value: {code}")));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    static KIND: Kind = Kind {
        selectable: &[crate::kind::Selectable {
            label: "spec.type",
            value: |object| object.text(&["spec", "type"]).to_owned(),
        }],
        ..Kind::BASE
    };

    #[test]
    fn field_selectors_choose_by_declared_fields() {
        let object =
            Object::from_value(json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"type": "x,y=z"}}))
                .unwrap();
        for (text, chosen) in [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name==a,metadata.namespace!=c", true),
            ("metadata.name!=a", false),
            ("spec.type=x\\,y\\=z", true),
            (",,", true),
        ] {
            let values = values(&object, &KIND);
            assert_eq!(FieldSelector::parse(text, &KIND).unwrap().matches(&values), chosen, "{text:?}");
        }
        let selector = FieldSelector::parse("spec.type=x\\,y,metadata.name=a", &KIND).unwrap();
        assert_eq!(selector.exact("metadata.name"), Some("a"));
        assert_eq!(selector.to_string(), "metadata.name=a,spec.type=x\\,y");
    }

    #[test]
    fn a_bad_field_selector_says_what_it_does_not_know() {
        for (text, message) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("spec.foo=1", "field label not supported: spec.foo"),
            ("metadata.name=a\\b", "invalid field selector: invalid escape sequence: \\b"),
            ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(FieldSelector::parse(text, &KIND).unwrap_err().to_string(), message, "{text:?}");
        }
        let plain = Kind { schema: "io.k8s.api.core.v1.ConfigMap", ..Kind::BASE };
        assert_eq!(
            FieldSelector::parse("spec.foo=1", &plain).unwrap_err().to_string(),
            "\"spec.foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        );
    }
}
