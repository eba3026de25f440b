//! An applied configuration merged into the live object. Nothing is removed by that; [`super::prune`] does that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::element::Element;
use super::shape::{Entries, Shape, element, items_of};
use crate::schema::{ListKind, Type};

/// The live object with what the configuration says. The configuration must fit the shape.
pub(super) fn merge(shape: Shape, live: &Value, config: &Value) -> Value {
    match shape {
        Shape::Map { entries, atomic: false } => {
            let empty = Map::new();
            let (live, given) = (live.as_object().unwrap_or(&empty), config.as_object().unwrap_or(&empty));
            // What is empty on both sides is taken as it is given: null or {}.
            if live.is_empty() && given.is_empty() { config.clone() } else { merge_entries(entries, live, given) }
        }
        Shape::List { items, kind } if *kind != ListKind::Atomic => {
            let (live, given) = (items_of(Some(live)), items_of(Some(config)));
            if live.is_empty() && given.is_empty() { config.clone() } else { merge_items(items, kind, live, given) }
        }
        _ => config.clone(),
    }
}

fn merge_entries(entries: Entries, live: &Map<String, Value>, config: &Map<String, Value>) -> Value {
    let mut out = live.clone();
    for (name, given) in config {
        let merged = match (live.get(name), entries.get(name)) {
            (Some(live), Some(shape)) => merge(shape, live, given),
            _ => given.clone(),
        };
        out.insert(name.clone(), merged);
    }
    Value::Object(out)
}

/// Items that are in one list only stay; the order is that of the configuration for what it has, and of the live list
/// around it.
fn merge_items(items: &'static Type, kind: &ListKind, live: &[Value], config: &[Value]) -> Value {
    let told_apart = |list| -> Vec<(Element, &Value)> {
        let list: &[Value] = list;
        list.iter().filter_map(|item| Some((element(items, kind, item).ok()?, item))).collect()
    };
    let (live, config) = (told_apart(live), told_apart(config));
    let mut by_element: BTreeMap<&Element, &Value> = BTreeMap::new();
    for (element, item) in &live {
        // One that is there twice is not merged with what is given, but replaced.
        by_element.entry(element).and_modify(|item| *item = &Value::Null).or_insert(item);
    }
    let given: BTreeSet<&Element> = config.iter().map(|(element, _)| element).collect();
    let mut shared: VecDeque<&Element> =
        config.iter().map(|(element, _)| element).filter(|element| by_element.contains_key(element)).collect();
    let mut next_shared = shared.pop_front();

    let shape = Shape::of(items);
    let merged = |element: &Element, item: &Value| {
        by_element.get(element).map_or_else(|| item.clone(), |live| merge(shape, live, item))
    };
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let mut taken: BTreeSet<&Element> = BTreeSet::new();
    let (mut at, mut given_at) = (0, 0);
    while at < live.len() || given_at < config.len() {
        if let (Some((element, _)), Some((given_element, item))) = (live.get(at), config.get(given_at)) {
            if element == given_element {
                taken.insert(element);
                out.push(merged(element, item));
                at += 1;
                given_at += 1;
                next_shared = shared.pop_front();
                continue;
            }
            // Both have it, but its turn in the configuration is not now.
            if given.contains(element) && next_shared.is_some_and(|next| next != element) {
                at += 1;
                continue;
            }
        }
        if let Some((element, item)) = live.get(at) {
            if !given.contains(element) {
                out.push((*item).clone());
                at += 1;
                continue;
            }
            if taken.contains(element) {
                at += 1;
            }
        }
        if let Some((element, item)) = config.get(given_at) {
            taken.insert(element);
            out.push(merged(element, item));
            given_at += 1;
            if next_shared == Some(element) {
                next_shared = shared.pop_front();
            }
        }
    }
    Value::Array(out)
}
