//! Ranges of Services that are being deleted: they go when nothing is in use that was given out of them and that no other range
//! has.

use std::collections::HashMap;

use api::Object;
use serde_json::{Value, json};
use store::{Key, What};

use super::hand::{Hand, Refused};
use super::place::Place;
use super::seen::Seen;
use crate::registry::extent::Extent;
use crate::registry::grants::Grant;
use crate::registry::service_cidrs::FINALIZER;
use crate::registry::{behaviour, bootstrap, ip_addresses, node_ports, service_cidrs, services};

/// The ranges that are on their way out, and what they have.
#[derive(Default)]
pub(super) struct Ranges {
    going: HashMap<Key, Vec<Extent>>,
}

impl Ranges {
    /// Takes in a change, and says which ranges may be able to go now: those that have what is free now, or that another range
    /// has something of which has changed.
    pub(super) fn note(&mut self, what: What, key: &Key, value: &[u8]) -> Vec<Key> {
        if is_range(key) {
            let own = Object::parse(value).map(|object| Extent::of(&object)).unwrap_or_default();
            let mut able = self.having(|extent| own.iter().any(|own| own.overlaps(extent)));
            if what == What::Put && Seen::of(value).is_terminating() {
                // One that can never give out anything overlaps nothing.
                if !able.contains(key) {
                    able.push(key.clone());
                }
                self.going.insert(key.clone(), own);
            } else {
                self.going.remove(key);
                able.retain(|other| other != key);
            }
            return able;
        }
        if self.going.is_empty() {
            return Vec::new();
        }
        let freed = match (Grant::of(key), what) {
            // What is a Service's no longer keeps a range no longer, though it is there.
            (Some(grant), What::Put) if grant.is_services(value) => return Vec::new(),
            (Some(grant), _) => vec![grant],
            // With a Service goes what it had, also if nothing was written of that.
            (None, What::Delete) if is_service(key) => services::held_by(value),
            (None, _) => return Vec::new(),
        };
        self.having(|extent| freed.iter().any(|grant| extent.has(*grant)))
    }

    fn having(&self, has: impl Fn(&Extent) -> bool) -> Vec<Key> {
        self.going.iter().filter(|(_, own)| own.iter().any(&has)).map(|(key, _)| key.clone()).collect()
    }
}

fn is_range(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| matches!(prefix, service_cidrs::PREFIX | node_ports::RANGES))
}

fn is_service(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| prefix == services::PREFIX)
}

/// Where Services are stored, what they are given, and the ranges of that.
pub(super) const SERVICES: [&str; 5] =
    [services::PREFIX, service_cidrs::PREFIX, ip_addresses::PREFIX, node_ports::PREFIX, node_ports::RANGES];

/// Whether that is the key of a Service, of something that Services are given, or of a range of that.
pub(super) fn concerns_services(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| SERVICES.contains(&prefix))
}

/// Whether that is the key of something that a range gives out, or of a range: of what its figures follow from.
pub(super) fn counts(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| matches!(prefix, ip_addresses::PREFIX | service_cidrs::PREFIX))
}

/// Whether the object of that key, which is no range of addresses, is always there.
pub(super) fn is_always_there(key: &str) -> bool {
    let place = key.rsplit_once('/');
    place.is_some_and(|(prefix, name)| {
        matches!(prefix, node_ports::RANGES | "services/default") && name == bootstrap::NAME
    })
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
    // A controller that gave it the finalizer also takes it.
    let is_theirs = !hand.is_tended() && seen.has_finalizer(FINALIZER);
    (seen.is_terminating() && !is_held && !is_theirs).then_some(Leave { place, seen })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn range(cidr: &str, going: bool) -> Value {
        let mut object = json!({"spec": {"cidrs": [cidr]}});
        if going {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        object
    }

    #[test]
    fn only_ranges_that_a_change_concerns_are_looked_at() {
        let mut ranges = Ranges::default();
        let mut note = |what, key: &str, object: Value| {
            let mut keys = ranges.note(what, &key.into(), &Object::from_value(object).unwrap().encode());
            keys.sort_unstable();
            keys.iter().map(|key| key.rsplit('/').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        let at = |name: &str| format!("{}/{name}", service_cidrs::PREFIX);
        let address = |text: &str| format!("ipaddresses.networking.k8s.io/{text}");
        assert_eq!(note(What::Delete, &address("10.0.0.9"), json!({})), [""; 0]);
        assert_eq!(note(What::Put, &at("a"), range("10.0.0.0/24", true)), ["a"]);
        assert_eq!(note(What::Put, &at("b"), range("10.1.0.0/24", true)), ["b"]);
        assert_eq!(note(What::Delete, &address("10.0.0.9"), json!({})), ["a"]);
        assert_eq!(note(What::Delete, &address("10.2.0.9"), json!({})), [""; 0]);
        let labels = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
        assert_eq!(note(What::Put, &address("10.0.0.9"), json!({"metadata": {"labels": labels}})), [""; 0]);
        assert_eq!(note(What::Put, &address("10.0.0.9"), json!({})), ["a"]);
        assert_eq!(note(What::Put, &at("c"), range("10.0.0.0/15", false)), ["a", "b"]);
        assert_eq!(note(What::Put, &at("d"), range("10.1.0.0/16", false)), ["b"]);
        let service = json!({"spec": {"type": "ClusterIP", "clusterIP": "10.1.0.7"}});
        assert_eq!(note(What::Put, "services/n/web", service.clone()), [""; 0]);
        assert_eq!(note(What::Delete, "services/n/web", service), ["b"]);
        assert_eq!(note(What::Delete, &at("b"), range("10.1.0.0/24", true)), [""; 0]);
        assert_eq!(note(What::Delete, &address("10.1.0.9"), json!({})), [""; 0]);
    }
}
