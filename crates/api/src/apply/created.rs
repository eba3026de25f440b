//! Who creates an object has all of it. That is most of what is written, so it is done in one walk from the object to
//! the text of `fieldsV1`, without anything between.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::{Element, same};
use super::managers::OWNERLESS;
use super::set::Set;
use super::shape::{Entries, Shape, element};
use crate::json;
use crate::schema::{ListKind, Type};

/// Writes the fields of a new object that somebody has: all that is not in `nothing`, but for what the write ignores and what
/// never has an owner. Says whether there are any.
pub(super) fn write_fields(
    out: &mut Vec<u8>,
    root: Shape,
    nothing: &Map<String, Value>,
    new: &Map<String, Value>,
    ignored: &Set,
) -> bool {
    out.push(b'{');
    let start = out.len();
    if let Shape::Map { entries, atomic: false } = root {
        let walk = Walk { ignored: Some(ignored).filter(|ignored| !ignored.is_empty()), place: Place::Root };
        walk.write_entries(out, entries, Some(nothing), new);
    }
    let has_some = out.len() > start;
    out.push(b'}');
    has_some
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

    fn write_entries(
        self,
        out: &mut Vec<u8>,
        entries: Entries,
        nothing: Option<&Map<String, Value>>,
        new: &Map<String, Value>,
    ) {
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
            // What was there in some form, empty or null, is somebody's only by its parts, if it has any.
            let has_parts = has_parts(shape, value);
            let member = before.is_none_or(|before| !has_parts && !same(before, value)) && !self.is_ownerless(name);
            if member || has_parts {
                let parts = |out: &mut Vec<u8>| walk.write_parts(out, shape, before, value);
                put(out, |out| json::write_prefixed(out, "f:", name), member, parts);
            }
        }
    }

    /// Whether nobody has the field of that name here.
    fn is_ownerless(self, name: &str) -> bool {
        if self.place == Place::Below {
            return false;
        }
        let is = |path: &&[&str]| match (self.place, *path) {
            (Place::Root, [own]) | (Place::Metadata, ["metadata", own]) => *own == name,
            _ => false,
        };
        OWNERLESS.iter().any(is)
    }

    /// Writes what is below a value.
    fn write_parts(self, out: &mut Vec<u8>, shape: Shape, before: Option<&Value>, new: &Value) {
        match (shape, new) {
            (Shape::Map { entries, atomic: false }, Value::Object(new)) => {
                self.write_entries(out, entries, before.and_then(Value::as_object), new);
            }
            (Shape::List { items, kind }, Value::Array(new)) if *kind != ListKind::Atomic => {
                write_items(out, items, kind, new);
            }
            _ => {}
        }
    }
}

/// Whether a value consists of things that each may be somebody's.
fn has_parts(shape: Shape, value: &Value) -> bool {
    match (shape, value) {
        (Shape::Map { atomic: false, .. }, Value::Object(fields)) => !fields.is_empty(),
        (Shape::List { kind, .. }, Value::Array(items)) => *kind != ListKind::Atomic && !items.is_empty(),
        _ => false,
    }
}

/// Writes the items of a list. There are none before an object is there.
fn write_items(out: &mut Vec<u8>, items: &'static Type, kind: &ListKind, new: &[Value]) {
    let mut found: BTreeMap<Element, Option<&Value>> = BTreeMap::new();
    for item in new {
        let Ok(element) = element(items, kind, item) else { continue };
        // Items that are the same are one thing without parts.
        found.entry(element).and_modify(|item| *item = None).or_insert(Some(item));
    }
    let shape = Shape::of(items);
    let named: BTreeMap<String, Option<&Value>> =
        found.into_iter().map(|(element, item)| (element.name(), item)).collect();
    for (name, item) in named {
        let parts = |out: &mut Vec<u8>| item.into_iter().for_each(|item| Walk::ALL.write_parts(out, shape, None, item));
        put(out, |out| json::write_text(out, &name), true, parts);
    }
}

/// Writes one thing among others: its name, that it is somebody's itself if it has parts besides, and these. Nothing of it is left
/// if it is nobody's and has none.
fn put(out: &mut Vec<u8>, name: impl FnOnce(&mut Vec<u8>), member: bool, parts: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    name(out);
    out.extend_from_slice(b":{");
    let bare = out.len();
    if member {
        out.extend_from_slice(b"\".\":{}");
    }
    let before = out.len();
    parts(out);
    if out.len() == before {
        out.truncate(bare);
        if !member {
            out.truncate(start);
            return;
        }
    }
    out.push(b'}');
}
