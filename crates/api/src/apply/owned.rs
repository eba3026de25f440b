//! From an object to the set of its fields, and sets held against the shape of the object.

use std::collections::BTreeMap;

use serde_json::Value;

use super::element::Element;
use super::set::{Node, Set};
use super::shape::{Shape, element};
use crate::schema::{ListKind, Type};

/// The fields that an object has: every value without parts, every item, every entry of a map, and what is empty.
pub(super) fn fields(shape: Shape, value: &Value) -> Set {
    below(shape, value).1
}

/// Whether a value is a field of its own, and the fields below it.
fn below(shape: Shape, value: &Value) -> (bool, Set) {
    match (shape, value) {
        (Shape::Map { entries, atomic: false }, Value::Object(fields)) => {
            let mut set = Set::default();
            for (name, value) in fields {
                let Some(shape) = entries.get(name) else { continue };
                let (own, below) = below(shape, value);
                let bare = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                let member = own || bare || !entries.is_field(name);
                set.add(Element::Field(name.clone()), member, below);
            }
            (false, set)
        }
        (Shape::List { items, kind }, Value::Array(list)) if *kind != ListKind::Atomic => {
            (false, items_below(items, kind, list))
        }
        (Shape::Map { atomic: false, .. }, _) => (false, Set::default()),
        (Shape::List { kind, .. }, _) => (*kind == ListKind::Atomic, Set::default()),
        _ => (true, Set::default()),
    }
}

fn items_below(items: &'static Type, kind: &ListKind, list: &[Value]) -> Set {
    let mut found: BTreeMap<Element, Option<&Value>> = BTreeMap::new();
    for item in list {
        let Ok(element) = element(items, kind, item) else { continue };
        // Items that are the same are one thing without parts.
        found.entry(element).and_modify(|item| *item = None).or_insert(Some(item));
    }
    let mut set = Set::default();
    for (element, item) in found {
        let below = item.map_or_else(Set::default, |item| fields(Shape::of(items), item));
        set.add(element, true, below);
    }
    set
}

/// The set with every field of a structure that is above one of its fields. An object that has a field of a structure
/// has the structure, but sets leave that out.
pub(super) fn with_structures(shape: Option<Shape>, set: &Set) -> Set {
    set.map_nodes(|node| Node {
        element: node.element.clone(),
        member: node.member || (!node.below.is_empty() && shape.is_some_and(|shape| shape.has_field(&node.element))),
        below: with_structures(shape.and_then(|shape| shape.below(&node.element)), &node.below),
    })
}

/// The set with nothing below what is one thing: that may come from a schema in which it was not, or from a person.
pub(super) fn reconciled(shape: Shape, set: &Set) -> Set {
    set.map_nodes(|node| {
        let Some(shape) = shape.below(&node.element) else { return node.clone() };
        let whole = match shape {
            Shape::Map { atomic, .. } => atomic,
            Shape::List { kind, .. } => *kind == ListKind::Atomic,
            Shape::Scalar(_) | Shape::Anything => return node.clone(),
        };
        let (member, below) =
            if whole { (true, Set::default()) } else { (node.member, reconciled(shape, &node.below)) };
        Node { element: node.element.clone(), member, below }
    })
}
