//! Random objects and random patches of them, made from the schema: few names and few values, so that they often meet.

use api::schema::{self, Definition, Field, Type};
use serde_json::{Map, Value, json};
use testkit::choices::{Choices, Seeded};

const WORDS: [&str; 4] = ["a", "b", "c", "d"];
const DEEPEST: usize = 6;

/// Whether something happens that does in `percent` of a hundred cases.
pub(super) fn chance(choices: &mut Seeded, percent: u64) -> bool {
    choices.below(100) < percent
}

fn word(choices: &mut Seeded) -> Value {
    Value::from(choices.one_of(&WORDS))
}

/// An object of that definition.
pub(super) fn object(choices: &mut Seeded, definition: &Definition, depth: usize) -> Value {
    let mut fields = Map::new();
    for field in chosen(choices, definition, depth) {
        fields.insert(field.name.clone(), value(choices, &field.ty, field.patch.key.as_deref(), depth + 1));
    }
    Value::Object(fields)
}

/// Some of the fields: those that hold something to merge more often than the others.
fn chosen<'a>(choices: &mut Seeded, definition: &'a Definition, depth: usize) -> Vec<&'a Field> {
    let interesting = |field: &Field| match &field.ty {
        Type::List(_) => depth < DEEPEST,
        Type::Map(_) | Type::Struct(_) => depth < DEEPEST - 1,
        _ => true,
    };
    let rate = |field: &Field| match (&field.ty, depth) {
        (_, 0) => 80,
        _ if field.patch.merge => 60,
        (Type::Struct(_) | Type::Map(_) | Type::List(_), _) => 25,
        _ => 20,
    };
    definition.fields.values().filter(|field| interesting(field)).filter(|field| chance(choices, rate(field))).collect()
}

fn value(choices: &mut Seeded, ty: &Type, key: Option<&str>, depth: usize) -> Value {
    match ty {
        Type::Boolean => json!(choices.below(2) == 0),
        Type::Int32 | Type::Int64 => json!(choices.below(4)),
        Type::Double => json!(1.5),
        Type::IntOrString => choices.one_of(&[json!(1), json!("http")].each_ref()).clone(),
        Type::Json => json!({"x": choices.below(3)}),
        Type::Struct(_) => {
            schema::resolve(ty).map_or_else(|| json!({}), |definition| object(choices, definition, depth))
        }
        Type::Map(inner) => {
            let mut fields = Map::new();
            for name in WORDS {
                if chance(choices, 40) {
                    fields.insert(name.to_owned(), value(choices, inner, None, depth + 1));
                }
            }
            Value::Object(fields)
        }
        Type::List(inner) => {
            let mut items: Vec<Value> = Vec::new();
            for _ in 0..choices.below(5) {
                let mut item = value(choices, inner, None, depth + 1);
                if let Some(key) = key {
                    item[key] = key_value(choices, inner, key);
                }
                if !items.iter().any(|other| same_item(&item, other, key)) {
                    items.push(item);
                }
            }
            Value::Array(items)
        }
        _ => word(choices),
    }
}

fn same_item(one: &Value, other: &Value, key: Option<&str>) -> bool {
    key.map_or_else(|| one == other, |key| one.get(key) == other.get(key))
}

/// A value for the key of a list's items.
fn key_value(choices: &mut Seeded, item: &Type, key: &str) -> Value {
    let ty = schema::resolve(item).and_then(|definition| definition.fields.get(key)).map(|field| &field.ty);
    value(choices, ty.unwrap_or(&Type::String), None, DEEPEST)
}

/// A strategic merge patch for an object of that definition, with directives; if it is flawed, now and then with one
/// that makes no sense.
pub(super) fn strategic_patch(choices: &mut Seeded, definition: &Definition, current: &Value, flawed: bool) -> Value {
    Value::Object(patch_object(choices, definition, current, 0, flawed))
}

fn patch_object(
    choices: &mut Seeded,
    definition: &Definition,
    current: &Value,
    depth: usize,
    flawed: bool,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for field in chosen(choices, definition, depth) {
        let there = current.get(&field.name);
        match choices.below(100) {
            0..8 => {
                patch.insert(field.name.clone(), Value::Null);
            }
            8..10 if flawed => {
                let odd = [json!("x"), json!(7), json!([]), json!({}), json!([null]), json!([[1]]), json!([{"z": 1}])];
                patch.insert(field.name.clone(), choices.one_of(&odd.each_ref()).clone());
            }
            _ => patch_field(choices, &mut patch, field, there, depth, flawed),
        }
    }
    if depth > 0 && chance(choices, 4) {
        let known = ["replace", "delete"];
        let directive =
            if flawed { choices.one_of(&["replace", "delete", "merge", "odd"]) } else { choices.one_of(&known) };
        patch.insert("$patch".to_owned(), json!(directive));
    }
    if chance(choices, 5) {
        let plain = patch.keys().filter(|name| !name.starts_with('$')).cloned();
        let mut keys: Vec<Value> = plain.map(Value::from).collect();
        let others = definition.fields.keys().filter(|_| chance(choices, 30)).map(|name| json!(name));
        keys.extend(others);
        if flawed && chance(choices, 30) {
            keys.pop();
        }
        let keys = if flawed && chance(choices, 5) { json!("x") } else { json!(keys) };
        patch.insert("$retainKeys".to_owned(), keys);
    }
    patch
}

fn patch_field(
    choices: &mut Seeded,
    patch: &mut Map<String, Value>,
    field: &Field,
    current: Option<&Value>,
    depth: usize,
    flawed: bool,
) {
    let name = &field.name;
    let nothing = Value::Null;
    let current = current.unwrap_or(&nothing);
    match &field.ty {
        Type::Struct(_) => {
            let Some(definition) = schema::resolve(&field.ty) else { return };
            let inner = patch_object(choices, definition, current, depth + 1, flawed);
            patch.insert(name.clone(), Value::Object(inner));
        }
        Type::List(item) if field.patch.merge || (flawed && chance(choices, 10)) => {
            patch_list(choices, patch, field, item, current, depth, flawed);
        }
        ty => {
            let mut value = value(choices, ty, field.patch.key.as_deref(), depth + 1);
            if let Value::Object(fields) = &mut value {
                for field in fields.values_mut().filter(|_| chance(choices, 15)) {
                    *field = Value::Null;
                }
            }
            patch.insert(name.clone(), value);
        }
    }
}

fn patch_list(
    choices: &mut Seeded,
    patch: &mut Map<String, Value>,
    field: &Field,
    item: &Type,
    current: &Value,
    depth: usize,
    flawed: bool,
) {
    let name = &field.name;
    let key = field.patch.key.as_deref();
    let mut items: Vec<Value> = Vec::new();
    for _ in 0..choices.below(4) {
        let item = match key {
            None => value(choices, item, None, depth + 1),
            Some(key) => patch_item(choices, item, key, current, depth, flawed),
        };
        let is_there = current.as_array().is_some_and(|live| live.iter().any(|live| same_item(&item, live, key)));
        // Two patches of one new item are a flaw of its own: the judge then merges the second into what it has quoted.
        if !items.iter().any(|other| same_item(&item, other, key)) || (flawed && is_there) {
            items.push(item);
        }
    }
    let plain = items.iter().filter(|item| item.get("$patch").is_none());
    let mut order: Vec<Value> = plain.map(|item| identity(item, key)).collect();
    for other in current.as_array().into_iter().flatten() {
        if chance(choices, 60) {
            let at = choices.below(order.len() as u64 + 1) as usize;
            order.insert(at, identity(other, key));
        }
    }
    if !flawed {
        let mut seen = Vec::new();
        order.retain(|item| {
            !seen.contains(item) && {
                seen.push(item.clone());
                true
            }
        });
    }
    if flawed && chance(choices, 10) {
        order.reverse();
    }
    if flawed && field.patch.merge && chance(choices, 3) {
        order.push(json!("x"));
    }
    if chance(choices, 40) && (flawed || !order.is_empty()) {
        let directive = if flawed && chance(choices, 3) {
            "$setElementOrder".to_owned()
        } else {
            format!("$setElementOrder/{name}")
        };
        patch.insert(directive, Value::Array(order));
    }
    if (key.is_none() && chance(choices, 40)) || (flawed && chance(choices, 5)) {
        let mut doomed: Vec<Value> = Vec::new();
        for _ in 0..choices.below(3) {
            doomed.push(value(choices, item, None, DEEPEST));
        }
        let directive = if flawed && chance(choices, 5) {
            "$deleteFromPrimitiveList".to_owned()
        } else {
            format!("$deleteFromPrimitiveList/{name}")
        };
        patch.insert(directive, Value::Array(doomed));
    }
    if chance(choices, 90) {
        patch.insert(name.clone(), Value::Array(items));
    }
}

fn patch_item(choices: &mut Seeded, item: &Type, key: &str, current: &Value, depth: usize, flawed: bool) -> Value {
    let there = current.as_array().filter(|items| !items.is_empty() && chance(choices, 60));
    let there = there.map(|items| items[choices.below(items.len() as u64) as usize].clone());
    let value = there.as_ref().and_then(|item| item.get(key)).cloned();
    let value = value.unwrap_or_else(|| key_value(choices, item, key));
    if chance(choices, 12) {
        return match choices.below(8) {
            0 | 1 => json!({"$patch": "replace"}),
            2 if flawed => json!({"$patch": "merge", key: value}),
            3 if flawed => json!({"$patch": "delete"}),
            4 if flawed => json!({"$patch": 1, key: value}),
            _ => json!({"$patch": "delete", key: value}),
        };
    }
    let mut patch = schema::resolve(item).map_or_else(Map::new, |definition| {
        patch_object(choices, definition, &there.unwrap_or_default(), depth + 1, flawed)
    });
    patch.remove("$patch");
    if !(flawed && chance(choices, 3)) {
        patch.insert(key.to_owned(), value);
    }
    if let Some(keys) = patch.get_mut("$retainKeys").and_then(Value::as_array_mut) {
        keys.push(json!(key));
    }
    Value::Object(patch)
}

fn identity(item: &Value, key: Option<&str>) -> Value {
    key.map_or_else(|| item.clone(), |key| json!({key: item.get(key)}))
}

/// A JSON patch: operations at places that are there, and at some that are not.
pub(super) fn operations(choices: &mut Seeded, document: &Value) -> Value {
    let mut paths = vec![String::new(), "/x".to_owned()];
    places(document, "", &mut paths);
    let count = choices.one_of(&[1, 1, 2, 3]);
    (0..count).map(|_| operation(choices, document, &paths)).collect()
}

fn operation(choices: &mut Seeded, document: &Value, paths: &[String]) -> Value {
    let place = |choices: &mut Seeded| {
        let mut path = paths[choices.below(paths.len() as u64) as usize].clone();
        if chance(choices, 35) {
            path.push_str(choices.one_of(&["/-", "/0", "/-1", "/1", "/x", "/a~1b", "/~0"]));
        }
        path
    };
    let path = place(choices);
    let given = match document.pointer(&path) {
        Some(there) if chance(choices, 50) => there.clone(),
        _ => choices.one_of(&[json!(1), json!("a"), json!(null), json!({"a": [1]}), json!([])].each_ref()).clone(),
    };
    match choices.one_of(&[
        "add", "add", "add", "remove", "remove", "replace", "replace", "move", "copy", "copy", "test", "test", "odd",
    ]) {
        "move" => json!({"op": "move", "from": place(choices), "path": path}),
        "copy" => json!({"op": "copy", "from": place(choices), "path": path}),
        "remove" => json!({"op": "remove", "path": path}),
        op if chance(choices, 5) => json!({"op": op, "path": path}),
        op => json!({"op": op, "path": path, "value": given}),
    }
}

fn places(value: &Value, path: &str, found: &mut Vec<String>) {
    let mut below = |name: String, value: &Value| {
        let path = format!("{path}/{name}");
        places(value, &path, found);
        found.push(path);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| below(name.clone(), value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| below(index.to_string(), value)),
        _ => {}
    }
}
