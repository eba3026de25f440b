//! Emptying namespaces: everything in a terminating namespace is deleted, what is left is told in its status, and when
//! nothing is left the namespace is let go.
//!
//! Nothing new gets in meanwhile, because a create is under the condition that its namespace is not terminating, and an
//! entry that was made before the namespace was marked is in memory before the mark is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use serde_json::{Value, json};
use store::{Entry, Key, Range, Store};

use super::collect::{options, spec_finalizers};
use super::hand::{Hand, Refused};
use super::owners::Policy;
use super::place::{Place, namespaced};
use super::seen::{Seen, whole};
use super::{AT_A_TIME, RETRY, now};
use crate::machinery::{Resource, catalog};
use crate::registry::namespaces::{FINALIZER, PREFIX};

/// How many objects are looked at together.
const BATCH: usize = 500;

/// Pods go before everything else: what they need stays as long as they run.
const FIRST: &str = "pods";

/// The conditions that tell how far it is: type, then reason and message as long as nothing is wrong. The words are
/// Kubernetes' own, because programs wait for them.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

/// How it went.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// How many objects are left.
    pub(super) left: usize,
    /// When to look again although nothing happens.
    pub(super) again: Option<Duration>,
}

/// What is left in a namespace.
#[derive(Debug, Default)]
struct Rest {
    /// By the name that messages have for a resource.
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
    left: usize,
    faults: Vec<String>,
    /// Until when something has time to wind down.
    grace: i64,
}

/// Deletes what can be deleted, says what is left, and lets the namespace go if nothing is.
pub(super) async fn empty(hand: &Hand, namespace: &str) -> Result<Outcome, Refused> {
    let Some(place) = Place::of(&format!("{PREFIX}/{namespace}")) else { return Ok(Outcome::default()) };
    let Some(entry) = hand.store().get(&place.key()) else { return Ok(Outcome::default()) };
    let seen = Seen::of(&entry.value);
    if !seen.is_terminating() || spec_finalizers(&whole(&place, &entry.value)).is_empty() {
        return Ok(Outcome::default());
    }
    let elapsed = elapsed(&seen, Timestamp::now());
    let mut rest = Rest::default();
    let (first, others): (Vec<_>, Vec<_>) = namespaced().partition(|resource| resource.kind.stored.prefix == FIRST);
    for resource in first {
        sweep(hand, resource, namespace, elapsed, &mut rest).await;
    }
    if rest.left == 0 {
        for resource in others {
            sweep(hand, resource, namespace, elapsed, &mut rest).await;
        }
    }
    let told = tell(hand, &place, &rest).await;
    // What could not be told is told the next time.
    let again = if !rest.faults.is_empty() || told.is_err() {
        Some(RETRY)
    } else if rest.grace > elapsed {
        u64::try_from(rest.grace - elapsed).ok().map(Duration::from_secs)
    } else {
        None
    };
    let outcome = Outcome { left: rest.left, again };
    if rest.left == 0 && rest.faults.is_empty() {
        told?;
        finalize(hand, &place).await?;
    }
    Ok(outcome)
}

/// How many seconds ago the deletion of the namespace began.
fn elapsed(seen: &Seen, now: Timestamp) -> i64 {
    let begun = seen.deleted_at().and_then(|time| time.parse::<Timestamp>().ok());
    begun.map_or(0, |begun| now.duration_since(begun).as_secs())
}

/// Deletes the objects of one resource, in batches, and counts those that are still there.
async fn sweep(hand: &Hand, resource: &'static Resource, namespace: &str, elapsed: i64, rest: &mut Rest) {
    let faults = rest.faults.len();
    let mut batches = Batches::new(hand.store(), resource, namespace);
    while let Some(entries) = batches.next().await {
        let going: Vec<_> = entries.iter().filter_map(|entry| deletion(hand.clone(), entry)).collect();
        let mut done = stream::iter(going).buffer_unordered(AT_A_TIME);
        while let Some(one) = done.next().await {
            if let Err(refused) = one
                && !refused.is_lost_race()
                && !rest.faults.contains(&refused.message)
            {
                rest.faults.push(refused.message);
            }
        }
    }
    let (mut left, mut grace, mut finalizers) = (0, 0, BTreeMap::<String, usize>::new());
    let mut batches = Batches::new(hand.store(), resource, namespace);
    while let Some(entries) = batches.next().await {
        left += entries.len();
        for entry in entries {
            let seen = Seen::of(&entry.value);
            grace = seen.grace().max(grace);
            for name in seen.finalizers() {
                *finalizers.entry(name.clone()).or_default() += 1;
            }
        }
    }
    if left == 0 {
        return;
    }
    rest.left += left;
    rest.grace = rest.grace.max(grace);
    for name in names(resource) {
        rest.resources.insert(name, left);
    }
    if finalizers.is_empty() && grace <= elapsed && rest.faults.len() == faults {
        let kind = resource.kind;
        rest.faults.push(format!(
            "unexpected items still remain in namespace: {namespace} for gvr: {}/{}, Resource={}",
            kind.group, kind.version, kind.plural
        ));
    }
    for (name, count) in finalizers {
        *rest.finalizers.entry(name).or_default() += count;
    }
}

/// The request that deletes an object, if it changes something: also of what is being deleted and waits for its dependents,
/// which go anyway.
fn deletion(hand: Hand, entry: &Entry) -> Option<impl Future<Output = Result<(), Refused>> + Send + use<>> {
    let (place, seen) = (Place::of(&entry.key)?, Seen::of(&entry.value));
    if seen.is_terminating() && seen.waits().is_none() {
        return None;
    }
    let options = options(Policy::Background, &json!({"uid": seen.uid}));
    Some(async move { hand.delete(&place, &options, "namespace").await })
}

/// The objects of a resource in a namespace, so many at a time.
struct Batches<'a> {
    store: &'a Store,
    prefix: String,
    /// The last key that was looked at; nothing when all were.
    after: Option<Key>,
    begun: bool,
}

impl<'a> Batches<'a> {
    fn new(store: &'a Store, resource: &Resource, namespace: &str) -> Self {
        Self { store, prefix: resource.prefix(namespace), after: None, begun: false }
    }

    async fn next(&mut self) -> Option<Vec<Arc<Entry>>> {
        if self.begun && self.after.is_none() {
            return None;
        }
        self.begun = true;
        let after = self.after.as_deref();
        let range = Range { prefix: &self.prefix, after, limit: Some(BATCH), of: Some(0), ..Range::default() };
        // The present is in memory and can always be read.
        let page = self.store.range(range).await.ok()?;
        self.after = page.entries.last().filter(|_| page.remaining > 0).map(|entry| entry.key.clone());
        Some(page.entries)
    }
}

/// What messages call a resource: once for each group that serves it.
fn names(resource: &Resource) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for version in catalog().versions() {
        for other in &version.resources {
            let name = format!("{}.{}", other.kind.plural, other.kind.group);
            if other.kind.stored.prefix == resource.kind.stored.prefix && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Writes the conditions, if they changed.
async fn tell(hand: &Hand, place: &Place, rest: &Rest) -> Result<(), Refused> {
    let Some(entry) = hand.store().get(&place.key()) else { return Ok(()) };
    let object = whole(place, &entry.value);
    let old = object.at(&["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(new) = conditions(&old, rest, &now()) else { return Ok(()) };
    let version = object.resource_version();
    let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": new}});
    hand.patch(place, "status", &patch).await
}

/// The conditions as they should be, if they are not. Those of others stay.
fn conditions(old: &[Value], rest: &Rest, now: &str) -> Option<Vec<Value>> {
    let list = |counts: &BTreeMap<String, usize>, word: &str, end: &str| {
        let mut parts: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name} {word} {count} {end}")).collect();
        parts.sort_unstable();
        parts.join(", ")
    };
    let wrong = |sort: &str| match sort {
        "NamespaceDeletionContentFailure" if !rest.faults.is_empty() => {
            let mut faults = rest.faults.clone();
            faults.sort_unstable();
            let message =
                format!("Failed to delete all resource types, {} remaining: {}", faults.len(), faults.join(", "));
            Some(("ContentDeletionFailed", message))
        }
        "NamespaceContentRemaining" if rest.left > 0 => {
            let list = list(&rest.resources, "has", "resource instances");
            Some(("SomeResourcesRemain", format!("Some resources are remaining: {list}")))
        }
        "NamespaceFinalizersRemaining" if !rest.finalizers.is_empty() => {
            let list = list(&rest.finalizers, "in", "resource instances");
            Some(("SomeFinalizersRemain", format!("Some content in the namespace has finalizers remaining: {list}")))
        }
        _ => None,
    };
    let mut new = old.to_vec();
    for (sort, good_reason, good_message) in CONDITIONS {
        let (status, reason, message) = match wrong(sort) {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", good_reason, good_message.to_owned()),
        };
        match new.iter_mut().find(|condition| condition["type"] == sort) {
            Some(known) => {
                if known["status"] != status {
                    known["lastTransitionTime"] = json!(now);
                }
                known["status"] = json!(status);
                known["reason"] = json!(reason);
                known["message"] = json!(message);
            }
            None => new.push(json!({
                "type": sort, "status": status, "reason": reason, "message": message, "lastTransitionTime": now,
            })),
        }
    }
    (new != old).then_some(new)
}

/// Takes our finalizer out of the namespace, which goes with the last one.
async fn finalize(hand: &Hand, place: &Place) -> Result<(), Refused> {
    let Some(entry) = hand.store().get(&place.key()) else { return Ok(()) };
    let mut object = whole(place, &entry.value);
    let mut finalizers = spec_finalizers(&object);
    if !object.is_terminating() || !finalizers.iter().any(|name| name == FINALIZER) {
        return Ok(());
    }
    finalizers.retain(|name| name != FINALIZER);
    object.set(&["spec", "finalizers"], json!(finalizers));
    hand.replace(place, "finalize", &object.into_value()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<'a>(conditions: &'a [Value], sort: &str, field: &str) -> &'a str {
        conditions.iter().find(|condition| condition["type"] == sort).unwrap()[field].as_str().unwrap()
    }

    #[test]
    fn conditions_say_what_is_left_in_the_words_that_clients_know() {
        let rest = Rest {
            resources: [("configmaps.".to_owned(), 2), ("leases.coordination.k8s.io".to_owned(), 1)].into(),
            finalizers: [("example.com/a".to_owned(), 3)].into(),
            left: 3,
            faults: vec!["b".to_owned(), "a".to_owned()],
            grace: 0,
        };
        let own = json!({"type": "Mine", "status": "True"});
        let new = conditions(std::slice::from_ref(&own), &rest, "t1").unwrap();
        assert_eq!((new.len(), &new[0]), (6, &own));
        for (sort, reason, message) in [
            ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
            (
                "NamespaceDeletionContentFailure",
                "ContentDeletionFailed",
                "Failed to delete all resource types, 2 remaining: a, b",
            ),
            (
                "NamespaceContentRemaining",
                "SomeResourcesRemain",
                "Some resources are remaining: configmaps. has 2 resource instances, leases.coordination.k8s.io has 1 \
                 resource instances",
            ),
            (
                "NamespaceFinalizersRemaining",
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: example.com/a in 3 resource instances",
            ),
        ] {
            assert_eq!((text(&new, sort, "reason"), text(&new, sort, "message")), (reason, message));
        }
        assert_eq!(conditions(&new, &rest, "t2"), None, "nothing changed");
        let done = conditions(&new, &Rest::default(), "t3").unwrap();
        assert_eq!(text(&done, "NamespaceContentRemaining", "status"), "False");
        assert_eq!(text(&done, "NamespaceContentRemaining", "lastTransitionTime"), "t3");
        assert_eq!(text(&done, "NamespaceDeletionDiscoveryFailure", "lastTransitionTime"), "t1");
    }

    #[test]
    fn events_are_named_as_both_groups_name_them() {
        let events = namespaced().find(|resource| resource.kind.stored.prefix == "events").unwrap();
        assert_eq!(names(events), ["events.", "events.events.k8s.io"]);
    }
}
