//! Whether a body can be what it says it is: fields that no structure has, and values of another type than their field.
//!
//! The texts are those of the decoder that upstream uses, because clients and people know them. Kinds without a Go type
//! (`custom`) are decoded as they come, so what is wrong with their types is found by [`super::validate`] instead.

use serde_json::{Map, Value};

use super::resolve;
use super::table::{Definition, Type};
use super::time::{self, Precision};
use super::told::Told;
use super::walk::{Step, Way, path_to};
use crate::quantity;

/// Why a body is not what it says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A field that the structure does not have, by its path. Whether that matters is the request's to say.
    Unknown(String),
    /// The body cannot be read at all, and why. It is the only fault then.
    Unreadable(String),
}

/// `unknown field "spec.foo"`, or why the body cannot be read.
impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(path) => write!(f, "unknown field {}", quoted(path)),
            Self::Unreadable(why) => f.write_str(why),
        }
    }
}

/// What is wrong with the body of an object: unknown fields in the order of their names, or that it cannot be read.
pub fn check(root: &Definition, body: &Value) -> Vec<Fault> {
    let mut check = Check { custom: root.custom, unknown: Told::default(), saved: None };
    let stopped = match body {
        Value::Object(fields) => check.structure(root, fields, None),
        other => Err(format!("json: cannot unmarshal {} into Go value of type {}", sort(other), root.go_type())),
    };
    match stopped.err().or(check.saved) {
        Some(why) => vec![Fault::Unreadable(why)],
        None => check.unknown.into_texts().into_iter().map(Fault::Unknown).collect(),
    }
}

/// Go's decoder goes on after most faults and tells the first; some (`Err`) stop it, and then it tells those.
struct Check {
    custom: bool,
    unknown: Told,
    saved: Option<String>,
}

impl Check {
    fn structure(
        &mut self,
        definition: &Definition,
        fields: &Map<String, Value>,
        way: Option<&Way<'_>>,
    ) -> Result<(), String> {
        for (name, value) in fields {
            let Some(field) = definition.fields.get(name) else {
                self.unknown.say(|| path_to(way, Step::Key(name)));
                continue;
            };
            let way = Way::new(way, Step::Field(definition, field));
            self.value(&field.ty, value, &way)?;
        }
        Ok(())
    }

    fn value(&mut self, ty: &Type, value: &Value, way: &Way<'_>) -> Result<(), String> {
        match (ty, value) {
            (_, Value::Null) => {}
            (Type::Struct(_), Value::Object(fields)) => {
                let Some(definition) = resolve(ty) else { return Ok(()) };
                // The metadata of a kind without a Go type has one all the same.
                let custom = self.custom && !super::is_metadata(definition);
                let outer = std::mem::replace(&mut self.custom, custom);
                self.structure(definition, fields, Some(way))?;
                self.custom = outer;
            }
            (Type::List(ty), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(ty, item, &Way::new(Some(way), Step::Item(index)))?;
                }
            }
            (Type::Map(ty), Value::Object(entries)) => {
                for (key, value) in entries {
                    self.value(ty, value, &Way::new(Some(way), Step::Key(key)))?;
                }
            }
            _ if !self.custom => self.leaf(ty, value, way)?,
            // There are no fields in what is no structure.
            (ty, Value::Object(fields)) if *ty != Type::Json => {
                for name in fields.keys() {
                    self.unknown.say(|| path_to(Some(way), Step::Key(name)));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A value that has nothing below it, or is not what its type asks for.
    fn leaf(&mut self, ty: &Type, value: &Value, way: &Way<'_>) -> Result<(), String> {
        match (ty, value) {
            (Type::String | Type::IntOrString, Value::String(_))
            | (Type::Boolean, Value::Bool(_))
            | (Type::Double, Value::Number(_))
            | (Type::Json, _) => {}
            (Type::Int64, Value::Number(number)) if number.is_i64() => {}
            (Type::Int32 | Type::IntOrString, Value::Number(number)) if number.as_i64().is_some_and(is_i32) => {}
            (Type::Int32 | Type::Int64, Value::Number(number)) => {
                self.save(|| mismatch(&format!("number {number}"), way, &way.go_type(ty)));
            }
            (Type::Bytes, Value::String(text)) => {
                if let Some(at) = base64_fault(text) {
                    self.save(|| format!("illegal base64 data at input byte {at}"));
                }
            }
            (Type::Quantity, _) => {
                let text = if let Value::String(text) = value { text.as_str() } else { &value.to_string() };
                quantity::fault(text).map_or(Ok(()), |fault| Err(fault.to_owned()))?;
            }
            (Type::Time, Value::String(text)) => time::fault(text, Precision::Seconds).map_or(Ok(()), Err)?,
            (Type::MicroTime, Value::String(text)) => time::fault(text, Precision::Micros).map_or(Ok(()), Err)?,
            (Type::Duration, Value::String(text)) if is_go_duration(text) => {}
            (Type::Duration, Value::String(text)) => return Err(format!("time: invalid duration {}", quoted(text))),
            // These have a decoder of their own inside, which stops at once and knows itself as what it holds.
            (Type::Time | Type::MicroTime | Type::Duration, _) => return Err(mismatch(sort(value), way, "string")),
            (Type::IntOrString, Value::Number(number)) => {
                return Err(mismatch(&format!("number {number}"), way, "int32"));
            }
            (Type::IntOrString, _) => return Err(mismatch(sort(value), way, "int32")),
            _ => self.save(|| mismatch(sort(value), way, &way.go_type(ty))),
        }
        Ok(())
    }

    fn save(&mut self, fault: impl FnOnce() -> String) {
        self.saved.get_or_insert_with(fault);
    }
}

fn mismatch(value: &str, way: &Way<'_>, go_type: &str) -> String {
    format!("json: cannot unmarshal {value} into Go struct field {} of type {go_type}", way.go_field())
}

fn is_i32(number: i64) -> bool {
    i32::try_from(number).is_ok()
}

/// What messages call the sort of a value.
fn sort(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Text in quotes as Go has it; JSON's escapes are the same for all that a field's name is likely to hold.
pub(super) fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// Where the text stops being base64, if it does. Line breaks may be anywhere.
fn base64_fault(text: &str) -> Option<usize> {
    let in_alphabet = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let is_break = |byte: u8| byte == b'\n' || byte == b'\r';
    let mut bytes = text.bytes().enumerate().filter(|(_, byte)| !is_break(*byte));
    // How many characters of the current group of four were read; a message counts back over them.
    let mut group = 0;
    while let Some((at, byte)) = bytes.next() {
        if in_alphabet(byte) {
            group = (group + 1) % 4;
        } else if byte != b'=' || group < 2 {
            return Some(at);
        } else {
            if group == 2 {
                match bytes.next() {
                    None => return Some(text.len()),
                    Some((_, b'=')) => {}
                    Some((at, _)) => return Some(at - 1),
                }
            }
            return bytes.next().map(|(at, _)| at);
        }
    }
    (group > 0).then(|| text.len() - group)
}

/// Whether the text is a duration as Go writes them: `1h2m3.5s`, `-5ms`, `0`.
fn is_go_duration(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return true;
    }
    let mut rest = unsigned;
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let digits = &rest[..rest.len() - number.len()];
        if !digits.bytes().any(|byte| byte.is_ascii_digit()) || digits.matches('.').count() > 1 {
            return false;
        }
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let Some(after) = units.iter().find_map(|unit| number.strip_prefix(unit)) else { return false };
        rest = after;
    }
    !unsigned.is_empty()
}
