//! What the tests of the kinds share: an object goes in as JSON, goes the way of a request, and its faults come out as
//! text.

use serde_json::Value;

use crate::field::Errors;
use crate::kind::Kind;
use crate::object::Object;
use crate::schema::{self, Definition};

fn definition(kind: &Kind) -> &'static Definition {
    schema::definition(kind.schema).unwrap()
}

/// The object as it comes to the rules: read, pruned, changed by the kind, and in the form that is stored.
fn prepared(kind: &Kind, object: Value, prepare: impl FnOnce(&mut Object)) -> Object {
    let mut object = Object::from_value(object).unwrap();
    object.with_value(|value| schema::prune(definition(kind), value));
    (kind.default)(&mut object);
    prepare(&mut object);
    object.with_value(|value| schema::canonical(definition(kind), value));
    object
}

/// The object as it would be stored by a create.
pub(super) fn created(kind: &Kind, object: Value) -> Object {
    prepared(kind, object, kind.prepare_create.unwrap_or(|_| {}))
}

/// The object as it would be stored by an update.
pub(super) fn updated(kind: &Kind, new: Value, old: &Object) -> Object {
    prepared(kind, new, |new| (kind.prepare_update)(new, old))
}

/// The faults of a create.
pub(super) fn create_faults(kind: &Kind, object: Value) -> Vec<String> {
    let object = created(kind, object);
    faults(kind, object.clone(), |errors| (kind.validate)(&object, errors))
}

/// The faults of an update of what a create has stored.
pub(super) fn update_faults(kind: &Kind, new: Value, old: Value) -> Vec<String> {
    let old = created(kind, old);
    let new = updated(kind, new, &old);
    faults(kind, new.clone(), |errors| (kind.validate_update)(&new, &old, errors))
}

fn faults(kind: &Kind, object: Object, validate: impl FnOnce(&mut Errors)) -> Vec<String> {
    let mut errors = Errors::new();
    schema::validate(definition(kind), &object.into_value(), &mut errors);
    validate(&mut errors);
    errors.iter().map(ToString::to_string).collect()
}

/// Checks that each object has exactly the faults beside it.
pub(super) fn check_creates(kind: &Kind, cases: &[(Value, &[&str])]) {
    for (object, faults) in cases {
        assert_eq!(create_faults(kind, object.clone()), *faults, "{object}");
    }
}

/// The value with a part of it replaced: `with(base, "/spec/type", "NodePort")`. Absent objects on the way are made.
pub(super) fn with(mut value: Value, pointer: &str, new: impl Into<Value>) -> Value {
    let mut slot = &mut value;
    for part in pointer.split('/').skip(1) {
        slot = match part.parse::<usize>() {
            Ok(index) if slot.is_array() => &mut slot[index],
            _ => &mut slot[part],
        };
    }
    *slot = new.into();
    value
}

/// The row of an object as text, cells joined by `|`.
pub(super) fn row(kind: &Kind, object: Value, now: &str) -> String {
    let now = now.parse().unwrap();
    let cells = (kind.row)(&Object::from_value(object).unwrap());
    cells.iter().map(|cell| cell.shown(now)).collect::<Vec<_>>().join("|")
}
