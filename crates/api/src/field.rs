//! What is wrong with a field of an object, in the words that Kubernetes clients know.
//!
//! The rules that find the faults are elsewhere; here is only how a fault is named, so that a message reads the same
//! whichever kind it comes from.

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

/// Where a field is: `spec.ports[0].port`, `metadata.annotations[key]`.
///
/// Rules make the path of everything that they look at, and hardly anything is wrong, so one that is no longer than most takes no
/// memory besides itself.
#[derive(Clone)]
pub struct Path(Text);

/// As many bytes as most paths have, or more.
const USUAL_LENGTH: usize = 54;

#[derive(Clone)]
enum Text {
    Short { length: u8, bytes: [u8; USUAL_LENGTH] },
    Long(String),
}

impl Path {
    /// The path of a top-level field.
    pub fn new(name: &str) -> Self {
        Self(Text::Short { length: 0, bytes: [0; USUAL_LENGTH] }).with([name, "", ""])
    }

    /// The path of a field of this object.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        let dot = if self.as_bytes().is_empty() { "" } else { "." };
        self.clone().with([dot, name, ""])
    }

    /// The path of an item of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        let mut digits = [0; 20];
        let mut start = digits.len();
        let mut rest = index;
        while rest > 0 || start == digits.len() {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.clone().with(["[", std::str::from_utf8(&digits[start..]).unwrap_or_default(), "]"])
    }

    /// The path of an entry of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.clone().with(["[", key, "]"])
    }

    fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Short { length, bytes } => &bytes[..usize::from(*length)],
            Text::Long(text) => text.as_bytes(),
        }
    }

    fn as_str(&self) -> &str {
        match &self.0 {
            // It is made of whole texts.
            Text::Short { .. } => std::str::from_utf8(self.as_bytes()).unwrap_or_default(),
            Text::Long(text) => text,
        }
    }

    fn with(mut self, parts: [&str; 3]) -> Self {
        for part in parts {
            match &mut self.0 {
                Text::Short { length, bytes } => {
                    let end = usize::from(*length) + part.len();
                    match bytes.get_mut(usize::from(*length)..end) {
                        Some(room) => {
                            room.copy_from_slice(part.as_bytes());
                            *length = end as u8;
                        }
                        None => self.0 = Text::Long([self.as_str(), part].concat()),
                    }
                }
                Text::Long(text) => text.push_str(part),
            }
        }
        self
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Path {}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Path").field(&self.as_str()).finish()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The sort of fault; its text is the `reason` of a cause in a Status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The value is not allowed.
    Invalid,
    /// A value must be given.
    Required,
    /// The value is there already and must be unique.
    Duplicate,
    /// The value is none of a fixed set.
    NotSupported,
    /// The field may not be set or changed here.
    Forbidden,
    /// Something that is referred to does not exist.
    NotFound,
    /// The value is longer than allowed.
    TooLong,
    /// There are more items than allowed.
    TooMany,
    /// The value is of another type.
    TypeInvalid,
}

impl Reason {
    /// The reason as it stands in a Status cause.
    pub fn code(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

/// One fault: where it is, of what sort, and what to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Where it is.
    pub field: Path,
    /// Of what sort it is.
    pub reason: Reason,
    /// The whole text after the field: `Invalid value: "x": must be ...`.
    pub body: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

/// How many bytes of text the faults of one object may have; what is found after that is counted and not kept. A list of
/// many items can be wrong in each of them, and each fault may repeat the whole list.
const MOST_BYTES: usize = 1024 * 1024;

/// The faults found in one object, in the order they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    kept: Vec<Error>,
    /// How many bytes of text they have.
    bytes: usize,
    found: usize,
}

impl Errors {
    /// No faults yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether none were found.
    pub fn is_empty(&self) -> bool {
        self.found == 0
    }

    /// The faults. Of very many, the first ones.
    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.kept.iter()
    }

    /// How many were found.
    pub fn len(&self) -> usize {
        self.found
    }

    /// A value that is not allowed, and why.
    pub fn invalid(&mut self, field: &Path, value: &Value, detail: impl fmt::Display) {
        self.push(field, Reason::Invalid, || with_detail(&shown(value), detail));
    }

    /// A value that has to be given; the detail may be empty.
    pub fn required(&mut self, field: &Path, detail: impl fmt::Display) {
        self.push(field, Reason::Required, || detail.to_string());
    }

    /// A value that is there twice.
    pub fn duplicate(&mut self, field: &Path, value: &Value) {
        self.push(field, Reason::Duplicate, || shown(value));
    }

    /// A value that is there twice, in the caller's words for it, and what has to be unique about it; the detail may be
    /// empty.
    pub fn duplicate_shown(&mut self, field: &Path, shown: &str, detail: impl fmt::Display) {
        self.push(field, Reason::Duplicate, || with_detail(shown, detail));
    }

    /// A value that is not allowed, in the caller's words for it, and why.
    pub fn invalid_shown(&mut self, field: &Path, shown: &str, detail: impl fmt::Display) {
        self.push(field, Reason::Invalid, || with_detail(shown, detail));
    }

    /// A value that is not allowed and too large to be repeated, and why.
    pub fn invalid_whole(&mut self, field: &Path, detail: impl fmt::Display) {
        self.push(field, Reason::Invalid, || detail.to_string());
    }

    /// A value that is none of those that are supported.
    pub fn not_supported(&mut self, field: &Path, value: &Value, supported: &[&str]) {
        self.push(field, Reason::NotSupported, || {
            let supported = supported.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(", ");
            format!("{}: supported values: {supported}", shown(value))
        });
    }

    /// A field that may not be set or changed, and why.
    pub fn forbidden(&mut self, field: &Path, detail: impl fmt::Display) {
        self.push(field, Reason::Forbidden, || detail.to_string());
    }

    /// Something referred to that does not exist.
    pub fn not_found(&mut self, field: &Path, value: &Value) {
        self.push(field, Reason::NotFound, || shown(value));
    }

    /// Text longer than allowed. The text itself is not repeated.
    pub fn too_long(&mut self, field: &Path, limit: usize) {
        self.push(field, Reason::TooLong, || format!("may not be more than {limit} bytes"));
    }

    /// More items than allowed.
    pub fn too_many(&mut self, field: &Path, actual: usize, limit: usize) {
        self.push(field, Reason::TooMany, || format!("{actual}: must have at most {limit} items"));
    }

    /// A value of another type than the field has.
    pub fn type_invalid(&mut self, field: &Path, value: &Value, detail: impl fmt::Display) {
        self.push(field, Reason::TypeInvalid, || with_detail(&shown(value), detail));
    }

    fn push(&mut self, field: &Path, reason: Reason, rest: impl FnOnce() -> String) {
        self.found += 1;
        if self.bytes >= MOST_BYTES {
            return;
        }
        let rest = rest();
        let words = reason.words();
        let body = if rest.is_empty() { words.to_owned() } else { format!("{words}: {rest}") };
        self.bytes += field.as_bytes().len() + body.len();
        self.kept.push(Error { field: field.clone(), reason, body });
    }
}

/// Upstream's way to name several faults in one message: one alone, or all in brackets.
impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The same sentence twice says nothing more.
        let mut said = HashSet::new();
        let told: Vec<&Error> =
            self.kept.iter().filter(|error| said.insert((error.field.as_str(), &error.body))).collect();
        if let [one] = told.as_slice() {
            return write!(f, "{one}");
        }
        f.write_str("[")?;
        for (index, error) in told.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{error}")?;
        }
        f.write_str("]")
    }
}

fn with_detail(value: &str, detail: impl fmt::Display) -> String {
    let detail = detail.to_string();
    if detail.is_empty() { value.to_owned() } else { format!("{value}: {detail}") }
}

/// A value as messages show it: text in quotes, everything else as JSON, and `null` for what is absent.
fn shown(value: &Value) -> String {
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults_read_as_clients_know_them() {
        let spec = Path::new("spec");
        let mut errors = Errors::new();
        errors.invalid(
            &spec.child("cidrs").index(0),
            &json!("10.0.0.1/24"),
            "must not have bits set beyond the prefix length",
        );
        errors.required(&spec.child("parentRef"), "");
        errors.required(&spec.child("cidrs"), "at least one CIDR required");
        errors.not_supported(&spec.child("type"), &json!("X"), &["ClusterIP", "NodePort"]);
        errors.duplicate(&spec.child("ports").index(1).child("name"), &json!("a"));
        errors.forbidden(&Path::new("metadata").child("labels").key("a"), "no");
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                r#"spec.cidrs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length"#,
                "spec.parentRef: Required value",
                "spec.cidrs: Required value: at least one CIDR required",
                r#"spec.type: Unsupported value: "X": supported values: "ClusterIP", "NodePort""#,
                r#"spec.ports[1].name: Duplicate value: "a""#,
                "metadata.labels[a]: Forbidden: no",
            ]
        );
    }

    #[test]
    fn a_path_is_the_same_however_long_it_is() {
        let mut path = Path::new("");
        let mut text = String::new();
        for part in ["spec", "x", "ä", "ports"].iter().cycle().take(60) {
            let index = text.len() * 7;
            path = path.child(part).index(index).key(part);
            text = format!("{text}{}{part}[{index}][{part}]", if text.is_empty() { "" } else { "." });
            assert_eq!(path.to_string(), text);
            assert_eq!(path, Path::new(&text));
        }
        assert_ne!(path, path.index(0));
    }

    #[test]
    fn one_fault_that_is_noted_twice_stands_alone() {
        let mut errors = Errors::new();
        errors.required(&Path::new("a"), "");
        errors.required(&Path::new("a"), "");
        assert_eq!((errors.to_string().as_str(), errors.len()), ("a: Required value", 2));
    }

    #[test]
    fn several_faults_stand_in_brackets_and_none_is_said_twice() {
        let mut errors = Errors::new();
        errors.required(&Path::new("a"), "");
        assert_eq!(errors.to_string(), "a: Required value");
        errors.required(&Path::new("b"), "");
        errors.required(&Path::new("a"), "");
        assert_eq!(errors.to_string(), "[a: Required value, b: Required value]");
    }

    #[test]
    fn very_many_faults_are_counted_and_the_first_are_kept() {
        let mut errors = Errors::new();
        let whole = Value::from("x".repeat(MOST_BYTES / 4));
        let made = std::cell::Cell::new(0);
        for index in 0..10_000 {
            let detail = fmt::from_fn(|f| {
                made.set(made.get() + 1);
                f.write_str("no")
            });
            errors.invalid(&Path::new("list").index(index), &whole, detail);
        }
        assert_eq!((errors.len(), errors.iter().count(), made.get()), (10_000, 4, 4));
        assert!(errors.to_string().len() < 2 * MOST_BYTES);
    }
}
