//! Random objects and configurations, made from the schema: few names and few values, so that they often meet.

use serde_json::{Map, Value, json};
use testkit::choices::{Choices, Seeded};

use crate::kind::Kind;
use crate::schema::{self, Definition, Field, ListKind, Type};

const WORDS: [&str; 4] = ["a", "b", "c", "<d>"];
const DEEPEST: usize = 6;

/// Whether something happens that does in `percent` of a hundred cases.
pub(super) fn chance(choices: &mut Seeded, percent: u64) -> bool {
    choices.below(100) < percent
}

/// A configuration of a kind, as a client may write it: with nulls and empty things in it.
pub(super) fn config(choices: &mut Seeded, kind: &Kind) -> Value {
    let mut object = structure(choices, schema::definition(kind.schema).unwrap(), 0);
    name(&mut object, kind);
    object
}

/// Gives an object its type and a name, and takes from its metadata what is the server's.
pub(super) fn name(object: &mut Value, kind: &Kind) {
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"]["name"] = json!("one");
    object["metadata"]["namespace"] = json!("default");
    for server in ["managedFields", "uid", "resourceVersion", "creationTimestamp", "selfLink", "generation"] {
        object["metadata"].as_object_mut().unwrap().remove(server);
    }
}

fn structure(choices: &mut Seeded, definition: &Definition, depth: usize) -> Value {
    let mut fields = Map::new();
    for field in definition.fields.values() {
        let has_parts = matches!(field.ty, Type::List(_) | Type::Map(_) | Type::Struct(_));
        let percent = match depth {
            _ if has_parts && depth >= DEEPEST => 0,
            0 => 70,
            _ if field.list != ListKind::Atomic => 45,
            _ if has_parts => 20,
            _ => 15,
        };
        if chance(choices, percent) {
            fields.insert(field.name.clone(), field_value(choices, field, depth));
        }
    }
    Value::Object(fields)
}

fn field_value(choices: &mut Seeded, field: &Field, depth: usize) -> Value {
    match choices.below(100) {
        0..3 => Value::Null,
        _ => match &field.ty {
            Type::List(items) => list(choices, items, &field.list, depth),
            ty => value(choices, ty, depth + 1),
        },
    }
}

fn list(choices: &mut Seeded, items: &Type, kind: &ListKind, depth: usize) -> Value {
    let mut list: Vec<Value> = Vec::new();
    let same = |one: &Value, other: &Value| match kind {
        ListKind::Map(keys) => keys.iter().all(|key| one.get(key) == other.get(key)),
        _ => one == other,
    };
    for _ in 0..choices.below(4) {
        let mut item = value(choices, items, depth + 1);
        if let ListKind::Map(keys) = kind {
            for key in keys {
                let ty = &schema::resolve(items).unwrap().fields[key].ty;
                if chance(choices, 95) {
                    item[key] = value(choices, ty, DEEPEST);
                }
            }
            // What upstream makes of an item without anything is not kept the next time.
            if item == json!({}) {
                continue;
            }
        }
        if !list.iter().any(|other| same(&item, other)) || chance(choices, 1) {
            list.push(item);
        }
    }
    Value::Array(list)
}

fn value(choices: &mut Seeded, ty: &Type, depth: usize) -> Value {
    match ty {
        Type::Boolean => json!(choices.below(2) == 0),
        Type::Int32 | Type::Int64 => json!(choices.one_of(&[0, 1, 80, 443, 2_000_000])),
        Type::Double => json!(1.5),
        Type::IntOrString => choices.one_of(&[json!(1), json!("http")].each_ref()).clone(),
        Type::Quantity => json!(choices.one_of(&["1", "100m", "2Gi"])),
        Type::Time => json!(choices.one_of(&["2001-01-01T00:00:00Z", "2002-01-01T00:00:00Z"])),
        Type::MicroTime => json!("2001-01-01T00:00:00.000001Z"),
        Type::Duration => json!("1s"),
        Type::Bytes => json!(choices.one_of(&["YQ==", "Yg=="])),
        Type::Json => json!({}),
        Type::Struct(_) => structure(choices, schema::resolve(ty).unwrap(), depth),
        Type::Map(inner) => {
            let mut entries = Map::new();
            for name in WORDS {
                if chance(choices, 40) {
                    entries.insert(name.to_owned(), value(choices, inner, depth + 1));
                }
            }
            Value::Object(entries)
        }
        Type::List(inner) => list(choices, inner, &ListKind::Atomic, depth),
        Type::String => json!(choices.one_of(&WORDS)),
    }
}

/// Something between two objects: fields and items of either, or of none.
pub(super) fn between(choices: &mut Seeded, one: &Value, other: &Value) -> Value {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut fields = Map::new();
            for name in one.keys().chain(other.keys()) {
                let value = match (one.get(name), other.get(name)) {
                    (Some(one), Some(other)) => between(choices, one, other),
                    (Some(one), None) if chance(choices, 75) => one.clone(),
                    (None, Some(other)) if chance(choices, 25) => other.clone(),
                    _ => continue,
                };
                fields.insert(name.clone(), value);
            }
            Value::Object(fields)
        }
        (Value::Array(one), Value::Array(other)) if one.iter().chain(other).all(Value::is_object) => {
            let mut items = Vec::new();
            for (index, item) in one.iter().enumerate() {
                match other.get(index) {
                    Some(other) if chance(choices, 30) => items.push(between(choices, item, other)),
                    _ if chance(choices, 70) => items.push(item.clone()),
                    _ => {}
                }
            }
            if chance(choices, 20) && !items.is_empty() {
                let turn = choices.below(items.len() as u64) as usize;
                items.rotate_left(turn);
            }
            Value::Array(items)
        }
        _ if chance(choices, 80) => one.clone(),
        _ => other.clone(),
    }
}

/// Spoils an object here and there: fields that nobody declared, and values of other types.
pub(super) fn spoil(choices: &mut Seeded, value: &mut Value) {
    let odd = [
        json!("x"),
        json!(7),
        json!(1_000_000),
        json!([]),
        json!({}),
        json!([null]),
        json!([[1]]),
        json!([{"z": 1}]),
        json!(true),
    ];
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match choices.below(100) {
                    0..3 if name != "name" && name != "namespace" && name != "kind" && name != "apiVersion" => {
                        *value = choices.one_of(&odd.each_ref()).clone();
                    }
                    _ => spoil(choices, value),
                }
            }
            if chance(choices, 2) {
                fields.insert("zz".to_owned(), json!(1));
            }
        }
        Value::Array(items) => {
            for item in items.iter_mut() {
                spoil(choices, item);
            }
            if !items.is_empty() && chance(choices, 5) {
                items.push(items[0].clone());
            }
        }
        _ => {}
    }
}
