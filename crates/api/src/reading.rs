//! Reading JSON values without saying at every step what an absent one means: empty text, no items, zero, false.

use serde_json::{Map, Value};

use crate::object::Object;

/// The text of a field; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The number in a field, if there is one.
pub(crate) fn number(value: &Value, name: &str) -> Option<i64> {
    value.get(name).and_then(Value::as_i64)
}

/// Whether a field is `true`.
pub(crate) fn flag(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// The items of a list in a field; none if there is no list.
pub(crate) fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The object in a field.
pub(crate) fn fields<'a>(value: &'a Value, name: &str) -> Option<&'a Map<String, Value>> {
    value.get(name).and_then(Value::as_object)
}

/// The texts of a list in a field.
pub(crate) fn texts<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a str> {
    items(value, name).iter().filter_map(Value::as_str)
}

/// A part of an object as a value, `null` if it is absent, so that the functions above read it.
pub(crate) fn part<'a>(object: &'a Object, name: &str) -> &'a Value {
    object.fields().get(name).unwrap_or(&Value::Null)
}

/// An object with certain fields, each given by the name that messages have for it and its own, in that order: Kubernetes
/// names some objects in messages by the fields of its programs, not by those of its interface.
pub(crate) fn shown(value: &Value, names: &[(&str, &str)]) -> String {
    let field = |(shown, name): &(&str, &str)| {
        let value = value.get(name).cloned().unwrap_or_else(|| Value::from(""));
        format!("{shown:?}:{value}")
    };
    format!("{{{}}}", names.iter().map(field).collect::<Vec<_>>().join(","))
}

/// Fills in a field that is absent or null.
pub(crate) fn fill(fields: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    let slot = fields.entry(name).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value.into();
    }
}

/// Fills in a field that is absent, null or empty text.
pub(crate) fn fill_text(fields: &mut Map<String, Value>, name: &str, value: &str) {
    let slot = fields.entry(name).or_insert(Value::Null);
    if slot.is_null() || slot.as_str() == Some("") {
        *slot = Value::from(value);
    }
}

/// The objects in the list of a field, to change.
pub(crate) fn each_mut<'a>(
    fields: &'a mut Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    fields.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The object in a field, to change; made if it is absent or null.
pub(crate) fn child_mut<'a>(fields: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    fill(fields, name, Value::Object(Map::new()));
    fields.get_mut(name).and_then(Value::as_object_mut)
}
