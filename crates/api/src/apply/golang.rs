//! How Go writes values: as JSON in the names of `managedFields`, and in messages.

use std::fmt::Write;
use std::ops::Range;

use serde_json::{Number, Value};

/// Adds a value as JSON, the way upstream's encoder writes it.
pub(super) fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::Number(number) => out.push_str(&number_text(number, -6..21)),
        Value::String(text) => write_text(out, text, true),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (index, (name, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(out, name, true);
                out.push(':');
                write_json(out, value);
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
    }
}

/// Adds text in quotes. What means something in HTML is escaped too where Go does.
pub(super) fn write_text(out: &mut String, text: &str, html: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..' ' => push_code(out, c),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if html => push_code(out, c),
            _ => out.push(c),
        }
    }
    out.push('"');
}

fn push_code(out: &mut String, c: char) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\\u{:04x}", u32::from(c));
}

/// A number as one with a fraction, and any other value.
pub(super) fn fractional(value: Value) -> Value {
    match &value {
        Value::Number(number) => number.as_f64().and_then(Number::from_f64).map_or(value, Value::Number),
        _ => value,
    }
}

/// A value in a path: `"TCP"`, `80`.
pub(super) fn readable(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) => number_text(number, PRINTED),
        Value::Array(items) => format!("[{}]", items.iter().map(readable).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name}={}", readable(value))).collect();
            fields.concat()
        }
        Value::Null | Value::Bool(_) => value.to_string(),
    }
}

/// Text as Go's `%q` prints it.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\0'..' ' | '\u{7f}' => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            _ if !c.is_ascii() && (c.is_control() || c.is_whitespace()) => push_code(&mut out, c),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A value of a configuration as Go's `%v` prints it: `map[name:a ports:[80 443]]`.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Number(number) => fraction_text(number, PRINTED),
        Value::String(text) => text.clone(),
        Value::Bool(_) => value.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}:{}", plain(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// A value of a configuration as Go's `%#v` prints it: `map[string]interface {}{"a":1}`.
pub(super) fn as_source(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Number(number) => fraction_text(number, PRINTED),
        Value::String(text) => quoted(text),
        Value::Bool(_) => value.to_string(),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(as_source).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{}:{}", quoted(name), as_source(value))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}

/// The type that Go reads a JSON value as.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The exponents of fractions that Go prints without one.
const PRINTED: Range<i32> = -4..6;

/// A number: a whole one as it is.
fn number_text(number: &Number, plain: Range<i32>) -> String {
    number.as_i64().map_or_else(|| fraction_text(number, plain), |whole| whole.to_string())
}

/// A number with a fraction; with an exponent, of two digits at least, if that is not one of the `plain` ones.
fn fraction_text(number: &Number, plain: Range<i32>) -> String {
    let fraction = number.as_f64().unwrap_or_default();
    let scientific = format!("{fraction:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if fraction != 0.0 && !plain.contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    fraction.to_string()
}
