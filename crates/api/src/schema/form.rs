//! The one form in which an object is stored.
//!
//! Upstream decodes an object of a built-in kind into Go structures and encodes those. What the structures cannot hold is
//! gone afterwards, what they always hold is there, and amounts, times and bytes have one spelling. Clients see that: they compare
//! what they applied with what they get. So the same happens here, by the table instead of by types, in two steps:
//! [`prune`] is the decoding, after which a field that is zero is absent, and [`canonical`] the encoding.
//!
//! Kinds without a Go type are kept as they are written, but for unknown fields and nulls.

use serde_json::{Map, Value};

use super::table::{Definition, Field, Type};
use super::time::{self, Precision};
use super::{is_metadata, resolve};
use crate::{encoded, quantity};

/// Drops what no field can hold: unknown fields and nulls, and of the kinds with Go types also zero values where Go could
/// not tell them from absent ones. Brings times, quantities and base64 to their one spelling.
///
/// Rules that look at an object after this need not tell zero from absent, and upstream's do not.
pub fn prune(root: &Definition, body: &mut Value) {
    if let Value::Object(fields) = body {
        Form { custom: root.custom, complete: false }.bring_structure(root, fields);
    }
}

/// Brings an object to the form that is stored and served: [`prune`]s it and adds what Go writes although it is zero.
pub fn canonical(root: &Definition, body: &mut Value) {
    if let Value::Object(fields) = body {
        Form { custom: root.custom, complete: true }.bring_structure(root, fields);
    }
}

/// The form that something is brought to. Every write goes through here more than once, so it is one walk for both steps.
#[derive(Clone, Copy)]
struct Form {
    /// It has no Go type.
    custom: bool,
    /// What Go writes although it is zero is added.
    complete: bool,
}

impl Form {
    /// Says whether nothing was left of it, apart from what was added.
    fn bring_structure(self, definition: &Definition, fields: &mut Map<String, Value>) -> bool {
        let form = Self { custom: self.custom && !is_metadata(definition), ..self };
        fields.retain(|name, value| {
            let Some(field) = definition.fields.get(name) else { return false };
            if value.is_null() {
                return false;
            }
            let is_zero = form.bring(&field.ty, value);
            form.custom || field.go.pointer || !is_zero
        });
        let is_zero = fields.is_empty();
        if form.complete && !form.custom {
            complete(definition, fields);
        }
        is_zero
    }

    /// Says whether it is what Go holds when nothing was given.
    fn bring(self, ty: &Type, value: &mut Value) -> bool {
        match (ty, &mut *value) {
            (Type::Struct(_), Value::Object(fields)) => {
                return match resolve(ty) {
                    Some(definition) => self.bring_structure(definition, fields),
                    None => fields.is_empty(),
                };
            }
            (Type::List(ty), Value::Array(items)) => items.iter_mut().for_each(|item| self.bring_item(ty, item)),
            (Type::Map(ty), Value::Object(entries)) => {
                entries.values_mut().for_each(|entry| self.bring_item(ty, entry));
            }
            _ if self.custom => {}
            (Type::Time, Value::String(text)) => replace(text, time::canonical(text, Precision::Seconds)),
            (Type::MicroTime, Value::String(text)) => replace(text, time::canonical(text, Precision::Micros)),
            (Type::Bytes, Value::String(text)) => replace(text, encoded::canonical(text)),
            (Type::Quantity, Value::String(text)) => replace(text, quantity::canonical(text)),
            (Type::Quantity, number @ Value::Number(_)) => {
                let text = number.to_string();
                *number = Value::String(quantity::canonical(&text).unwrap_or(text));
            }
            _ => {}
        }
        is_zero(ty, value)
    }

    /// A null among the items of a list or the values of a map stands for the zero value: it cannot be absent.
    fn bring_item(self, ty: &Type, item: &mut Value) {
        if item.is_null() && !self.custom {
            *item = match ty {
                Type::Bytes => Value::from(""),
                Type::Struct(_) => Value::Object(Map::new()),
                _ => zero(ty),
            };
        }
        self.bring(ty, item);
    }
}

/// Adds what Go writes although it is zero.
fn complete(definition: &Definition, fields: &mut Map<String, Value>) {
    for name in &definition.always {
        if let Some(field) = definition.fields.get(name).filter(|_| !fields.contains_key(name)) {
            let value = if field.go.pointer { Value::Null } else { zero(&field.ty) };
            fields.insert(name.clone(), value);
        }
    }
}

/// Whether Go writes a field that is zero.
pub(super) fn writes_zero(field: &Field) -> bool {
    if field.go.omitzero || field.go.pointer {
        return !field.go.omitzero && !field.go.omitempty;
    }
    // What Go has as a structure is never empty to it.
    let structure = matches!(
        field.ty,
        Type::Struct(_) | Type::Time | Type::MicroTime | Type::Duration | Type::Quantity | Type::IntOrString
    );
    structure || !field.go.omitempty
}

/// The zero value of a type as Go writes it.
fn zero(ty: &Type) -> Value {
    match ty {
        Type::String => Value::from(""),
        Type::Boolean => Value::from(false),
        Type::Int32 | Type::Int64 | Type::Double | Type::IntOrString => Value::from(0),
        Type::Quantity => Value::from("0"),
        Type::Duration => Value::from("0s"),
        Type::Struct(_) => {
            let mut fields = Map::new();
            if let Some(definition) = resolve(ty) {
                complete(definition, &mut fields);
            }
            Value::Object(fields)
        }
        Type::Bytes | Type::Time | Type::MicroTime | Type::Json | Type::List(_) | Type::Map(_) => Value::Null,
    }
}

/// Whether a value that was pruned is what Go holds when nothing was given.
fn is_zero(ty: &Type, value: &Value) -> bool {
    match (ty, value) {
        (_, Value::Null) => true,
        (Type::String | Type::Bytes, Value::String(text)) => text.is_empty(),
        (Type::Quantity, Value::String(text)) => text == "0",
        (Type::Boolean, Value::Bool(value)) => !value,
        (Type::Int32 | Type::Int64 | Type::Double | Type::IntOrString, Value::Number(number)) => {
            number.as_f64() == Some(0.0)
        }
        (Type::List(_), Value::Array(items)) => items.is_empty(),
        (Type::Map(_) | Type::Struct(_), Value::Object(fields)) => fields.is_empty(),
        _ => false,
    }
}

fn replace(text: &mut String, with: Option<String>) {
    if let Some(with) = with {
        *text = with;
    }
}
