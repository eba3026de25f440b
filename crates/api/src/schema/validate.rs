//! What is wrong with the types of a kind that has no Go type, and what it lacks.
//!
//! Upstream takes such objects in as they are and then holds them against the schema of their definition; the faults are
//! those of an invalid object, and the texts are of that validation.

use serde_json::{Map, Value};

use super::table::{Definition, Type};
use super::{is_metadata, resolve, time};
use crate::field::{Errors, Path};

/// Finds the values of another type than their field has, and the required fields that are absent.
///
/// Metadata is not looked at: [`super::check`] does that. Of a kind with Go types nothing is found.
pub fn validate(root: &Definition, body: &Value, errors: &mut Errors) {
    if let (true, Value::Object(fields)) = (root.custom, body) {
        structure(root, fields, None, errors);
    }
}

fn structure(definition: &Definition, fields: &Map<String, Value>, at: Option<&Path>, errors: &mut Errors) {
    for field in definition.fields.values() {
        let under = || at.map_or_else(|| Path::new(&field.name), |at| at.child(&field.name));
        match fields.get(&field.name).filter(|value| !value.is_null()) {
            Some(value) if fits(&field.ty, value) => {}
            Some(value) => self::value(&field.ty, value, &under(), errors),
            None if field.required => errors.required(&under(), ""),
            None => {}
        }
    }
}

/// Whether it is plain that nothing is wrong with a value, without building the path to it.
fn fits(ty: &Type, value: &Value) -> bool {
    match (ty, value) {
        (Type::String, Value::String(_)) | (Type::Boolean, Value::Bool(_)) => true,
        (Type::Int32, Value::Number(number)) => number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        (Type::Struct(_), _) => resolve(ty).is_some_and(is_metadata),
        _ => false,
    }
}

fn value(ty: &Type, value: &Value, at: &Path, errors: &mut Errors) {
    match (ty, value) {
        _ if fits(ty, value) => {}
        (Type::Struct(_), Value::Object(fields)) => {
            if let Some(definition) = resolve(ty) {
                structure(definition, fields, Some(at), errors);
            }
        }
        (Type::List(ty), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                self::value(ty, item, &at.index(index), errors);
            }
        }
        (Type::Map(ty), Value::Object(entries)) => {
            for (key, entry) in entries {
                self::value(ty, entry, &at.child(key), errors);
            }
        }
        (Type::Int32 | Type::Int64, _) => integer(ty, value, at, errors),
        (Type::Time | Type::MicroTime, Value::String(text)) => {
            if time::moment(text).is_none() {
                errors.invalid(at, value, format!("{at} in body must be of type date-time: {text:?}"));
            }
        }
        (Type::Json, _) | (Type::Double, Value::Number(_)) | (Type::IntOrString, Value::String(_)) => {}
        (Type::IntOrString, Value::Number(number)) if number.is_i64() => {}
        _ => mismatch(named(ty), sort(value), at, errors),
    }
}

/// A number with a format is looked at twice upstream, as a number and as one of that format, and it shows.
fn integer(ty: &Type, value: &Value, at: &Path, errors: &mut Errors) {
    let format = if *ty == Type::Int32 { "int32" } else { "int64" };
    let whole =
        value.as_i64().or_else(|| value.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i64));
    match (value, whole) {
        (Value::Number(_), Some(whole)) => {
            if *ty == Type::Int32 && i32::try_from(whole).is_err() {
                misformed(format, at, errors);
            }
        }
        (Value::Number(_), None) => {
            mismatch(format, "float64", at, errors);
            misformed(format, at, errors);
        }
        (Value::Bool(_), _) => mismatch(format, "", at, errors),
        _ => mismatch("integer", sort(value), at, errors),
    }
}

fn mismatch(wanted: &str, found: &str, at: &Path, errors: &mut Errors) {
    errors.type_invalid(at, &Value::from(found), format!("{at} in body must be of type {wanted}: \"{found}\""));
}

fn misformed(format: &str, at: &Path, errors: &mut Errors) {
    let detail = format!("Checked value must be of type integer with format {format} in {at}");
    errors.invalid(&Path::new("<nil>"), &Value::from(""), detail);
}

/// What schemas call a type.
pub(super) fn named(ty: &Type) -> &'static str {
    match ty {
        Type::Boolean => "boolean",
        Type::Int32 | Type::Int64 => "integer",
        Type::Double => "number",
        Type::Struct(_) | Type::Map(_) | Type::Json => "object",
        Type::List(_) => "array",
        _ => "string",
    }
}

/// What schemas call the sort of a value.
fn sort(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
