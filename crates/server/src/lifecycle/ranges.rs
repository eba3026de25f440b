//! Ranges of Services that are being deleted: they go when nothing is in use that was given out of them and that no other range
//! has.

use std::collections::HashSet;

use serde_json::{Value, json};
use store::{Entry, Key, What};

use super::hand::{Hand, Refused};
use super::place::Place;
use super::seen::Seen;
use crate::registry::grants::Grant;
use crate::registry::service_cidrs::FINALIZER;
use crate::registry::{behaviour, bootstrap, node_ports, service_cidrs};

/// The ranges that are on their way out.
#[derive(Default)]
pub(super) struct Ranges {
    going: HashSet<Key>,
}

impl Ranges {
    /// Takes in a change, and says which ranges may be able to go now.
    pub(super) fn note(&mut self, what: What, entry: &Entry) -> Vec<Key> {
        if is_range(&entry.key) {
            if what == What::Put && Seen::of(&entry.value).is_terminating() {
                self.going.insert(entry.key.clone());
            } else {
                self.going.remove(&entry.key);
            }
        } else if self.going.is_empty() || what == What::Put || Grant::of(&entry.key).is_none() {
            return Vec::new();
        }
        self.going.iter().cloned().collect()
    }
}

fn is_range(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| matches!(prefix, service_cidrs::PREFIX | node_ports::RANGES))
}

/// Whether the object of that key is always there.
pub(super) fn is_always_there(key: &str) -> bool {
    match key.rsplit_once('/') {
        Some((service_cidrs::PREFIX | node_ports::RANGES | "services/default", name)) => name == bootstrap::NAME,
        _ => false,
    }
}

/// Lets a range go.
pub(super) struct Leave {
    place: Place,
    seen: Seen,
}

/// What to do about a range that is on its way out: nothing, as long as something keeps it.
pub(super) fn leave(hand: &Hand, key: &str) -> Option<Leave> {
    let (place, entry) = (Place::of(key)?, hand.store().get(key)?);
    let (seen, object) = (Seen::of(&entry.value), super::seen::whole(&place, &entry.value));
    let is_held = behaviour(place.resource.kind).is_held(hand.around(), &object);
    (seen.is_terminating() && !is_held).then_some(Leave { place, seen })
}

impl Leave {
    pub(super) async fn perform(self, hand: &Hand) -> Result<(), Refused> {
        let Self { place, seen } = self;
        let others: Vec<&String> = seen.finalizers().iter().filter(|name| *name != FINALIZER).collect();
        if others.len() < seen.finalizers().len() {
            let left = if others.is_empty() { Value::Null } else { json!(others) };
            let patch = json!({"metadata": {"resourceVersion": seen.resource_version, "finalizers": left}});
            return hand.patch(&place, "", &patch).await;
        }
        if !others.is_empty() {
            return Ok(());
        }
        let same = json!({"uid": seen.uid, "resourceVersion": seen.resource_version});
        hand.delete(&place, &json!({"preconditions": same}), "range").await
    }
}
