//! Reads JSON bodies: the value, the fields that were given twice, and, if it is no JSON, where it stops being JSON.
//!
//! Knows nothing of what a body means.

mod syntax;

use std::fmt;

use api::schema::Told;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A body that was read.
#[derive(Debug, PartialEq)]
pub(crate) struct Document {
    /// What it says. Of a field given twice the last value counts.
    pub(crate) value: Value,
    /// What strict readers hold against it: `duplicate field "spec.type"`.
    pub(crate) faults: Vec<String>,
}

/// Reads a body, or says why it cannot be read in the words that clients know.
pub(crate) fn read(body: &[u8]) -> Result<Document, String> {
    // Bytes that are not text stand for themselves in nobody's reading; they come out as U+FFFD.
    let text = String::from_utf8_lossy(body);
    let mut faults = Told::default();
    let mut path = String::new();
    let mut reader = serde_json::Deserializer::from_str(&text);
    let value = Part { path: &mut path, faults: &mut faults }
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| syntax::fault(body).unwrap_or_else(|| error.to_string()))?;
    Ok(Document { value, faults: faults.into_texts() })
}

/// That a value is not of the type that was wanted.
pub(crate) fn mismatch(value: &Value, wanted: &str) -> String {
    let sort = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("json: cannot unmarshal {sort} into {wanted}")
}

/// A value on the way of being read, and where it is in the body.
struct Part<'a> {
    path: &'a mut String,
    faults: &'a mut Told,
}

impl Part<'_> {
    fn note_duplicate(&mut self, name: &str) {
        let dot = if self.path.is_empty() { "" } else { "." };
        self.faults.say(|| format!("duplicate field {}", Value::String(format!("{}{dot}{name}", self.path))));
    }

    /// Reads what is one step further down the path.
    fn below<T>(&mut self, step: impl fmt::Display, read: impl FnOnce(Part<'_>) -> T) -> T {
        use fmt::Write;
        let length = self.path.len();
        // Writing to a string cannot fail.
        let _ = write!(self.path, "{step}");
        let read = read(Part { path: self.path, faults: self.faults });
        self.path.truncate(length);
        read
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = self.below(format_args!("[{}]", items.len()), |part| access.next_element_seed(part))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            if fields.contains_key(&name) {
                self.note_duplicate(&name);
            }
            let dot = if self.path.is_empty() { "" } else { "." };
            let value = self.below(format_args!("{dot}{name}"), |part| access.next_value_seed(part))?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_given_twice_is_named_once_with_its_path_and_the_last_value_counts() {
        let body = br#"{"a":1,"a":2,"a":3,"b":[{"c":{"d":1,"d":{"e":1,"e":2}}}]}"#;
        let Document { value, faults } = read(body).unwrap();
        assert_eq!(value, json!({"a": 3, "b": [{"c": {"d": {"e": 2}}}]}));
        let expected = ["\"a\"", "\"b[0].c.d\"", "\"b[0].c.d.e\""].map(|path| format!("duplicate field {path}"));
        assert_eq!(faults, expected);
        assert_eq!(read(br#"[{"op":1,"op":2}]"#).unwrap().faults, ["duplicate field \"[0].op\""]);
    }

    #[test]
    fn what_was_read_is_what_any_reader_reads() {
        let body = r#" {"n":[0,-1,1.5,1e3,9223372036854775807,18446744073709551616],
            "t":"a\"\u00e9\n","x":[true,false,null,{},[]]} "#;
        let Document { value, faults } = read(body.as_bytes()).unwrap();
        assert_eq!(value, serde_json::from_str::<Value>(body).unwrap());
        assert_eq!(faults, [""; 0]);
    }

    #[test]
    fn the_faults_that_are_named_are_limited() {
        let body = |length: usize| {
            let name = "k".repeat(length);
            let fields = (0..400).map(|n| format!("\"f{}\":0", n % 200)).collect::<Vec<_>>().join(",");
            format!("{{\"{name}\":{{{fields}}}}}")
        };
        assert_eq!(read(body(1).as_bytes()).unwrap().faults.len(), 100);
        assert_eq!(read(body(150_000).as_bytes()).unwrap().faults.len(), 2, "a long name is not repeated often");
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced() {
        assert_eq!(read(b"\"a\xffb\"").unwrap().value, json!("a\u{fffd}b"));
    }

    #[test]
    fn a_body_that_is_too_deep_is_refused() {
        let body = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        assert!(read(body.as_bytes()).unwrap_err().contains("recursion limit"));
    }
}
