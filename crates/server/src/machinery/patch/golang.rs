//! How Go prints values and names their types: texts that clients get to see quote parts of a patch this way.

use std::fmt::Write;

use serde_json::{Number, Value};

/// A value as Go's `%v` prints it: `map[name:a ports:[80 443]]`.
pub(super) fn shown(value: &Value) -> String {
    let mut out = String::new();
    show(&mut out, value);
    out
}

/// Lists as Go's `%v` prints a list of them.
pub(super) fn shown_lists(lists: &[&[Value]]) -> String {
    let shown: Vec<String> = lists.iter().map(|items| shown_list(items)).collect();
    format!("[{}]", shown.join(" "))
}

/// A list as Go's `%v` prints it.
pub(super) fn shown_list(items: &[Value]) -> String {
    let mut out = String::new();
    show_list(&mut out, items);
    out
}

/// A value as Go's `%s` prints it, which is meant for texts and says so of everything else.
pub(super) fn shown_as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Object(_) | Value::Array(_) => shown(value),
        other => format!("%!s({}={})", type_name(other), shown(other)),
    }
}

/// The type that Go reads a JSON value as.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn show(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => show_number(out, number),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => show_list(out, items),
        Value::Object(fields) => {
            out.push_str("map[");
            for (index, (name, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(name);
                out.push(':');
                show(out, value);
            }
            out.push(']');
        }
    }
}

fn show_list(out: &mut String, items: &[Value]) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        show(out, item);
    }
    out.push(']');
}

/// Go writes a fraction with an exponent of two digits at least, and only below 1e-4 and from 1e21 on.
fn show_number(out: &mut String, number: &Number) {
    if let Some(whole) = number.as_i64() {
        // Writing to a string cannot fail.
        let _ = write!(out, "{whole}");
        return;
    }
    let fraction = number.as_f64().unwrap_or_default();
    let scientific = format!("{fraction:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let _ = if fraction != 0.0 && !(-4..21).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{digits}e{sign}{:02}", exponent.abs())
    } else {
        write!(out, "{fraction}")
    };
}
