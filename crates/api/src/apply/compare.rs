//! What a change of an object adds, modifies and removes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::{Element, same};
use super::set::Set;
use super::shape::{Entries, Shape, element, items_of};
use crate::schema::{ListKind, Type};

/// The fields that differ between two objects. None of them is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) added: Set,
    pub(super) modified: Set,
    pub(super) removed: Set,
}

/// How a value itself differs, apart from what is below it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Same,
    Added,
    Modified,
    Removed,
}

impl Change {
    /// Without these fields and all that is below them.
    pub(super) fn without(&self, ignored: &Set) -> Self {
        Self {
            added: self.added.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            removed: self.removed.recursive_difference(ignored),
        }
    }

    fn add(&mut self, element: Element, own: Own, below: Self) {
        self.added.add(element.clone(), own == Own::Added, below.added);
        self.modified.add(element.clone(), own == Own::Modified, below.modified);
        self.removed.add(element, own == Own::Removed, below.removed);
    }
}

/// What changed from one object to the other.
pub(super) fn compare(root: Shape, old: &Map<String, Value>, new: &Map<String, Value>) -> Change {
    match root {
        Shape::Map { entries, .. } => entries_below(entries, Some(old), Some(new)),
        _ => Change::default(),
    }
}

fn below(shape: Shape, old: Option<&Value>, new: Option<&Value>) -> (Own, Change) {
    let change = match shape {
        Shape::Map { entries, atomic: false } => {
            let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            let full = |fields: Option<&Map<_, _>>| fields.is_some_and(|fields| !fields.is_empty());
            (full(old) || full(new)).then(|| entries_below(entries, old, new))
        }
        Shape::List { items, kind } if *kind != ListKind::Atomic => {
            let (old, new) = (items_of(old), items_of(new));
            (!old.is_empty() || !new.is_empty()).then(|| items_below(items, kind, old, new))
        }
        _ => None,
    };
    let own = match (old, new) {
        (None, _) => Own::Added,
        (_, None) => Own::Removed,
        // What has parts differs by its parts.
        (Some(old), Some(new)) => {
            if change.is_some() || same(old, new) {
                Own::Same
            } else {
                Own::Modified
            }
        }
    };
    (own, change.unwrap_or_default())
}

fn entries_below(entries: Entries, old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>) -> Change {
    let empty = Map::new();
    let (old, new) = (old.unwrap_or(&empty), new.unwrap_or(&empty));
    let mut change = Change::default();
    let mut visit = |name: &String, old: Option<&Value>, new: Option<&Value>| {
        if let Some(shape) = entries.get(name).filter(|_| old != new) {
            let (own, below) = below(shape, old, new);
            change.add(Element::Field(name.clone()), own, below);
        }
    };
    for (name, value) in old {
        visit(name, Some(value), new.get(name));
    }
    for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        visit(name, None, Some(value));
    }
    change
}

fn items_below(items: &'static Type, kind: &ListKind, old: &[Value], new: &[Value]) -> Change {
    // The items of both lists that are the same one: more than one of a list if it was written before that was refused.
    let mut found: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for item in old {
        if let Ok(element) = element(items, kind, item) {
            found.entry(element).or_default().0.push(item);
        }
    }
    for item in new {
        if let Ok(element) = element(items, kind, item) {
            found.entry(element).or_default().1.push(item);
        }
    }
    let shape = Shape::of(items);
    let mut change = Change::default();
    for (element, (old, new)) in found {
        let (own, below) = match (old.as_slice(), new.as_slice()) {
            ([] | [_], [] | [_]) => below(shape, old.first().copied(), new.first().copied()),
            // Several are one thing without parts.
            ([_, _, ..], [_, _, ..]) => {
                let alike = old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| same(old, new));
                (if alike { Own::Same } else { Own::Modified }, Change::default())
            }
            ([_, _, ..], now) => {
                let (own, below) =
                    now.first().map_or((Own::Same, Change::default()), |now| below(shape, None, Some(now)));
                // It is new with its parts, and gone as what it was.
                if own == Own::Added {
                    change.added.add(element.clone(), true, Set::default());
                }
                (Own::Removed, below)
            }
            (before, _) => {
                let (own, below) =
                    before.first().map_or((Own::Same, Change::default()), |before| below(shape, Some(before), None));
                if own == Own::Removed {
                    change.removed.add(element.clone(), true, Set::default());
                }
                (Own::Added, below)
            }
        };
        change.add(element, own, below);
    }
    change
}
