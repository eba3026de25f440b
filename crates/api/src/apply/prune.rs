//! What a manager no longer applies goes, unless somebody else has it.

use serde_json::Value;

use super::owned::{fields, with_structures};
use super::set::Set;
use super::shape::{Shape, element};
use crate::schema::ListKind;

/// The merged object without what its manager applied the `last` time, and nobody has now: `owned` is what all have,
/// the manager's new configuration among it.
pub(super) fn prune(root: Shape, merged: Value, last: &Set, owned: &Set) -> Value {
    // Applied again, all of it: nothing can go. This is what most applies are. (Upstream would still remove an item that
    // is applied as {}, with nothing but the defaults of its keys, and bring it back with the apply after that.)
    if last.difference(owned).is_empty() {
        return merged;
    }
    let full = |set: &Set| with_structures(Some(root), set);
    let last = full(last);
    let there = full(&fields(root, &merged));
    // Everything that was applied goes, then what has an owner comes back ...
    let bare = full(&fields(root, &remove(root, &merged, &last)));
    let kept = remove(root, &merged, &there.difference(&bare.union(&full(owned))));
    // ... and what went with it although this manager never applied it.
    let kept = full(&fields(root, &kept));
    remove(root, &merged, &there.difference(&kept).intersection(&last))
}

/// Where what lost all it had, and is null now, is somebody's as such, it is empty again, as that one wrote it.
///
/// Only of kinds without Go types: with them null is what upstream makes of it, and stores as absent. Without them its server
/// refuses the null (`spec.part in body must be of type object: "null"`), so nobody could withdraw what they put into it.
pub(super) fn restore_emptied(shape: Shape, merged: &Value, pruned: &mut Value, owned: &Set) {
    match (shape, merged, pruned) {
        (Shape::Map { entries, atomic: false }, Value::Object(merged), Value::Object(pruned)) => {
            for (name, value) in pruned {
                let node = owned.get(&super::element::Element::Field(name.clone()));
                let (Some(node), Some(shape), Some(merged)) = (node, entries.get(name), merged.get(name)) else {
                    continue;
                };
                match (shape, &mut *value) {
                    (Shape::Map { atomic: false, .. }, Value::Null) if node.member && merged.is_object() => {
                        *value = Value::Object(serde_json::Map::new());
                    }
                    (Shape::List { .. }, Value::Null) if node.member && merged.is_array() => {
                        *value = Value::Array(Vec::new());
                    }
                    _ => restore_emptied(shape, merged, value, &node.below),
                }
            }
        }
        (Shape::List { items, kind }, Value::Array(merged), Value::Array(pruned)) if *kind != ListKind::Atomic => {
            for value in pruned {
                let Ok(element) = element(items, kind, value) else { continue };
                let same = merged.iter().find(|item| super::shape::element(items, kind, item).as_ref() == Ok(&element));
                if let (Some(merged), Some(node)) = (same, owned.get(&element)) {
                    restore_emptied(Shape::of(items), merged, value, &node.below);
                }
            }
        }
        _ => {}
    }
}

/// The value without these fields. What loses all that it had is null.
fn remove(shape: Shape, value: &Value, doomed: &Set) -> Value {
    match (shape, value) {
        (Shape::Scalar(_) | Shape::Anything, _) => value.clone(),
        (Shape::Map { entries, atomic: false }, Value::Object(fields)) => {
            let kept: serde_json::Map<_, _> = fields
                .iter()
                .filter_map(|(name, value)| {
                    let element = super::element::Element::Field(name.clone());
                    let value = match (doomed.get(&element), entries.get(name)) {
                        (Some(node), _) if node.member => return None,
                        (Some(node), Some(shape)) => remove(shape, value, &node.below),
                        _ => value.clone(),
                    };
                    Some((name.clone(), value))
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Shape::List { items, kind }, Value::Array(list)) if *kind != ListKind::Atomic => {
            let kept: Vec<Value> = list
                .iter()
                .filter_map(|item| {
                    let node = element(items, kind, item).ok().and_then(|element| doomed.get(&element));
                    match node {
                        Some(node) if node.member => None,
                        Some(node) => Some(remove(Shape::of(items), item, &node.below)),
                        None => Some(item.clone()),
                    }
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        _ => Value::Null,
    }
}
