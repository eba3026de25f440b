//! Merge patch (RFC 7396): an object laid over another, in which null means that a field goes away.

use serde_json::Value;

use super::Fields;

/// Lays `patch` over `target`.
pub(super) fn apply(target: &mut Fields, patch: Fields) {
    for (name, value) in patch {
        match (target.get_mut(&name), value) {
            (_, Value::Null) => {
                target.remove(&name);
            }
            (Some(Value::Object(fields)), Value::Object(patch)) => apply(fields, patch),
            // A list that takes the place of an object is taken as it is, and so are the nulls in it; everything else
            // loses them. The RFC would keep them in every list, but there, too, clients mean an absent field.
            (Some(Value::Object(_)), value) => {
                target.insert(name, value);
            }
            (_, mut value) => {
                discard_nulls(&mut value);
                target.insert(name, value);
            }
        }
    }
}

/// Removes the fields that are null from every object in a value.
pub(super) fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}
