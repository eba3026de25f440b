//! Who creates an object has all of it. That is most of what is written, so it is done in one walk from the object to
//! `fieldsV1`, without sets between.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::{Element, same};
use super::managers::OWNERLESS;
use super::set::Set;
use super::shape::{Entries, Shape, element};
use crate::schema::{ListKind, Type};

/// The fields of a new object that somebody has: all that is not in `nothing`, but for what the write ignores and what never
/// has an owner.
pub(super) fn fields(
    root: Shape,
    nothing: &Map<String, Value>,
    new: &Map<String, Value>,
    ignored: &Set,
) -> Map<String, Value> {
    match root {
        Shape::Map { entries, atomic: false } => {
            let walk = Walk { ignored: Some(ignored).filter(|ignored| !ignored.is_empty()), place: Place::Root };
            walk.entries(entries, Some(nothing), new)
        }
        _ => Map::new(),
    }
}

/// What is left out here and below.
#[derive(Clone, Copy)]
struct Walk<'a> {
    ignored: Option<&'a Set>,
    place: Place,
}

/// Where something may be without an owner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Metadata,
    Below,
}

impl Walk<'_> {
    /// For places where nothing is left out.
    const ALL: Self = Self { ignored: None, place: Place::Below };

    fn entries(
        self,
        entries: Entries,
        nothing: Option<&Map<String, Value>>,
        new: &Map<String, Value>,
    ) -> Map<String, Value> {
        let mut fields = Map::new();
        for (name, value) in new {
            let before = nothing.and_then(|nothing| nothing.get(name));
            let Some(shape) = entries.get(name).filter(|_| before != Some(value)) else { continue };
            let node = self.ignored.and_then(|ignored| ignored.get(&Element::Field(name.clone())));
            if node.is_some_and(|node| node.member) {
                continue;
            }
            let ignored = node.map(|node| &node.below).filter(|below| !below.is_empty());
            let place = if self.place == Place::Root && name == "metadata" { Place::Metadata } else { Place::Below };
            let walk = Walk { ignored, place };
            let (member, below) = walk.value(shape, before, value);
            put(&mut fields, || ["f:", name].concat(), member && !self.is_ownerless(name), below);
        }
        fields
    }

    /// Whether nobody has the field of that name here.
    fn is_ownerless(self, name: &str) -> bool {
        let is = |path: &&[&str]| match (self.place, *path) {
            (Place::Root, [own]) | (Place::Metadata, ["metadata", own]) => *own == name,
            _ => false,
        };
        OWNERLESS.iter().any(is)
    }

    /// Whether a value itself is somebody's, and what is below it.
    fn value(self, shape: Shape, before: Option<&Value>, new: &Value) -> (bool, Map<String, Value>) {
        let mut below = Map::new();
        let mut has_parts = false;
        match (shape, new) {
            (Shape::Map { entries, atomic: false }, Value::Object(new)) if !new.is_empty() => {
                has_parts = true;
                below = self.entries(entries, before.and_then(Value::as_object), new);
            }
            (Shape::List { items, kind }, Value::Array(new)) if *kind != ListKind::Atomic && !new.is_empty() => {
                has_parts = true;
                below = list(items, kind, new);
            }
            _ => {}
        }
        // What was there in some form, empty or null, is somebody's only by its parts, if it has any.
        (before.is_none_or(|before| !has_parts && !same(before, new)), below)
    }
}

/// The items of a list. There are none before an object is there.
fn list(items: &'static Type, kind: &ListKind, new: &[Value]) -> Map<String, Value> {
    let mut found: BTreeMap<Element, Option<&Value>> = BTreeMap::new();
    for item in new {
        let Ok(element) = element(items, kind, item) else { continue };
        // Items that are the same are one thing without parts.
        found.entry(element).and_modify(|item| *item = None).or_insert(Some(item));
    }
    let shape = Shape::of(items);
    let mut fields = Map::new();
    for (element, item) in found {
        let below = item.map_or_else(Map::new, |item| Walk::ALL.value(shape, None, item).1);
        put(&mut fields, || element.name(), true, below);
    }
    fields
}

fn put(fields: &mut Map<String, Value>, name: impl FnOnce() -> String, member: bool, mut below: Map<String, Value>) {
    if member && !below.is_empty() {
        below.insert(".".to_owned(), Value::Object(Map::new()));
    }
    if member || !below.is_empty() {
        fields.insert(name(), Value::Object(below));
    }
}
