//! `Element`: one step of the way to a field, its order and its two spellings.
//!
//! In `managedFields` a step is the name of a JSON member (`f:spec`, `k:{"port":80}`, `v:"a"`, `i:3`); in messages it is
//! part of a path (`.spec`, `[port=80]`, `[="a"]`, `[3]`).

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::golang;

/// One step of the way to a field.
#[derive(Clone, Debug)]
pub enum Element {
    /// To a field of a structure or an entry of a map.
    Field(String),
    /// To the item of a list that has these values in these fields, which are in the order of their names.
    Key(Vec<(String, Value)>),
    /// To the item of a list that is this value.
    Value(Value),
    /// To the item of a list at this place.
    Index(i64),
}

impl Element {
    /// Reads a name of `managedFields`. One that begins with something unknown is none: who knows it came later.
    pub(super) fn parse(name: &str) -> Result<Option<Self>, String> {
        let Some((sort, rest)) = name.split_at_checked(2) else { return Err(format!("{name:?} is too short")) };
        let json = || {
            // What follows the value is ignored, as upstream's reader does.
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            values.next().and_then(Result::ok).ok_or_else(|| format!("{name:?} is no JSON"))
        };
        match sort {
            "f:" => Ok(Some(Self::Field(rest.to_owned()))),
            "v:" => Ok(Some(Self::Value(json()?).fractional())),
            "k:" => match json()? {
                Value::Object(fields) => Ok(Some(Self::Key(fields.into_iter().collect()).fractional())),
                _ => Err(format!("{name:?} has no fields")),
            },
            "i:" => rest.parse().map(|index| Some(Self::Index(index))).map_err(|_| format!("{name:?} is no number")),
            _ if sort.ends_with(':') => Ok(None),
            _ => Err(format!("{name:?} has no colon")),
        }
    }

    /// The same with every number as one with a fraction. Upstream reads them so, here and in configurations, and it shows
    /// in messages.
    pub(super) fn fractional(self) -> Self {
        match self {
            Self::Key(fields) => {
                Self::Key(fields.into_iter().map(|(name, value)| (name, golang::fractional(value))).collect())
            }
            Self::Value(value) => Self::Value(golang::fractional(value)),
            other => other,
        }
    }

    /// Its name in `managedFields`.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let mut out = String::from("k:{");
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    golang::write_text(&mut out, name, false);
                    out.push(':');
                    golang::write_json(&mut out, value);
                }
                out.push('}');
                out
            }
            Self::Value(value) => {
                let mut out = String::from("v:");
                golang::write_json(&mut out, value);
                out
            }
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Adds it to a path in a message.
    pub(super) fn show(&self, path: &mut String) {
        match self {
            Self::Field(name) => path.extend([".", name]),
            Self::Key(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name}={}", golang::readable(value))).collect();
                path.extend(["[", &fields.join(","), "]"]);
            }
            Self::Value(value) => path.extend(["[=", &golang::readable(value), "]"]),
            Self::Index(index) => path.extend(["[", &index.to_string(), "]"]),
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(one), Self::Field(other)) => one.cmp(other),
            (Self::Key(one), Self::Key(other)) => {
                let fields = one.iter().zip(other).map(|((name, value), (other_name, other_value))| {
                    name.cmp(other_name).then_with(|| order(value, other_value))
                });
                fields.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&other.len()))
            }
            (Self::Value(one), Self::Value(other)) => order(one, other),
            (Self::Index(one), Self::Index(other)) => one.cmp(other),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl Element {
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// 80 and 80.0 are the same.
impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

/// The order of values: numbers, texts, truth values, lists, maps, null.
fn order(one: &Value, other: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    };
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => order_of_numbers(one, other),
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Array(one), Value::Array(other)) => {
            let items = one.iter().zip(other).map(|(one, other)| order(one, other));
            items.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&other.len()))
        }
        (Value::Object(one), Value::Object(other)) => {
            let entries = one
                .iter()
                .zip(other)
                .map(|((name, value), (other_name, other))| name.cmp(other_name).then_with(|| order(value, other)));
            entries.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&other.len()))
        }
        _ => rank(one).cmp(&rank(other)),
    }
}

fn order_of_numbers(one: &Number, other: &Number) -> Ordering {
    if let (Some(one), Some(other)) = (one.as_i64(), other.as_i64()) {
        return one.cmp(&other);
    }
    let fraction = |number: &Number| number.as_f64().unwrap_or_default();
    fraction(one).partial_cmp(&fraction(other)).unwrap_or(Ordering::Equal)
}

/// Whether two values are equal, if 1 and 1.0 are.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => order_of_numbers(one, other).is_eq(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|((name, one), (other_name, other))| name == other_name && same(one, other))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(name: &str) -> String {
        let mut path = String::new();
        Element::parse(name).unwrap().unwrap().show(&mut path);
        path
    }

    #[test]
    fn names_are_read_and_shown_as_upstream_does() {
        assert_eq!(shown("f:a:b/c"), ".a:b/c");
        assert_eq!(shown(r#"k:{"protocol":"TCP","containerPort":80}"#), r#"[containerPort=80,protocol="TCP"]"#);
        assert_eq!(shown(r#"v:"a\"b""#), r#"[="a\"b"]"#);
        assert_eq!(
            (shown("v:1 and more"), shown("v:null"), shown("i:-3")),
            ("[=1]".into(), "[=null]".into(), "[-3]".into())
        );
        assert_eq!(Element::parse("x:later"), Ok(None));
        for wrong in ["", "f", "fx", "k:1", "k:", "v:", "i:a", "ä"] {
            assert!(Element::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_written_with_go_s_escapes() {
        let key = Element::Key(vec![("a<".into(), json!("<&>\u{2028}\n\u{8}\"")), ("b".into(), json!(80.0))]);
        assert_eq!(key.name(), r#"k:{"a<":"\u003c\u0026\u003e\u2028\n\u0008\"","b":80}"#);
        assert_eq!(Element::Field("a<\"".into()).name(), "f:a<\"");
    }

    #[test]
    fn elements_are_in_upstream_s_order() {
        let names = [
            "f:B",
            "f:a",
            r#"k:{"a":80}"#,
            r#"k:{"a":443}"#,
            r#"k:{"a":443,"b":1}"#,
            r#"k:{"a":"x"}"#,
            "v:2",
            "v:10",
            r#"v:"1""#,
            "v:false",
            "v:true",
            "v:[1]",
            "v:{}",
            "v:null",
            "i:2",
            "i:10",
        ];
        let elements: Vec<Element> = names.iter().map(|name| Element::parse(name).unwrap().unwrap()).collect();
        assert!(elements.is_sorted());
        assert_eq!(Element::Value(json!(1)), Element::Value(json!(1.0)));
    }
}
