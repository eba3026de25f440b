//! Owners and dependents: what a verdict means in requests.

use std::collections::HashSet;

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};
use store::{Key, Range, Store};
use tracing::warn;

use super::hand::{Hand, Refused};
use super::index::Index;
use super::owners::{Found, Policy, Verdict, judge};
use super::place::{Place, referred};
use super::seen::{Owner, Seen, Wait, texts, whole};
use super::{AT_A_TIME, now};
use crate::registry::namespaces::PREFIX as NAMESPACES;

/// How many kinds that are not served are remembered, so that each is logged once.
const MOST_UNKNOWN: usize = 1000;

/// In how many namespaces an owner is looked for that is not where its dependent is.
const MOST_SEARCHED: usize = 1000;

/// Who reports what is wrong with owner references, as Kubernetes names it.
const REPORTER: &str = "garbage-collector-controller";

/// Something to do to one object, decided on one state of it.
#[derive(Debug)]
pub(super) enum Deed {
    /// Delete a dependent, and tell of an owner that it has in another namespace.
    Collect { place: Place, seen: Seen, policy: Policy, unblock: bool, misplaced: Option<Owner> },
    /// Remove the references to those owners.
    Untie { place: Place, seen: Seen, owners: Vec<String> },
    /// Remove the references to this owner from all of those dependents.
    Orphan { owner: String, dependents: Vec<Key> },
    /// Let a deleted owner go.
    Release { place: Place, seen: Seen, wait: Wait },
    /// Tell that an owner is not where it should be.
    Report { place: Place, seen: Seen, owner: Owner },
}

/// Decides what becomes of objects by what became of others.
#[derive(Debug, Default)]
pub(super) struct Judge {
    unknown: HashSet<(String, String)>,
    /// The owner that was last looked for everywhere and not found: its other dependents need not look again.
    nowhere: String,
}

impl Judge {
    /// What to do with an object that has owners.
    pub(super) fn dependent(&mut self, store: &Store, index: &Index, key: &Key) -> Option<Deed> {
        let (place, seen) = look(store, key)?;
        let found: Vec<Found> = seen.owners().iter().map(|owner| self.find(store, &place, owner)).collect();
        let has_dependents = index.dependents(&seen.uid).next().is_some();
        match judge(&seen, &found, has_dependents, index.has_waiting_dependent(&seen.uid)) {
            Verdict::Keep => {
                let (owner, _) = seen.owners().iter().zip(found).find(|(_, found)| *found == Found::Misplaced)?;
                let owner = owner.clone();
                Some(Deed::Report { place, seen, owner })
            }
            Verdict::Untie(owners) => Some(Deed::Untie { place, seen, owners }),
            Verdict::Collect { policy, unblock } => {
                let misplaced = self.elsewhere(store, &place, &seen);
                Some(Deed::Collect { place, seen, policy, unblock, misplaced })
            }
        }
    }

    /// An owner of that object that is in another namespace, which is worth telling before the object goes.
    fn elsewhere(&mut self, store: &Store, place: &Place, seen: &Seen) -> Option<Owner> {
        let owner = seen.owners().iter().find(|owner| {
            let resource = referred(&owner.api_version, &owner.kind);
            resource.is_some_and(|resource| resource.kind.is_namespaced()) && self.nowhere != owner.uid
        })?;
        let resource = referred(&owner.api_version, &owner.kind)?;
        let there = |namespace: &str| {
            let entry = store.get(&resource.key(namespace, &owner.name));
            entry.is_some_and(|entry| Seen::of(&entry.value).uid == owner.uid)
        };
        let found = namespaces(store).iter().any(|namespace| *namespace != place.namespace && there(namespace));
        if !found {
            self.nowhere.clone_from(&owner.uid);
        }
        found.then(|| owner.clone())
    }

    fn find(&mut self, store: &Store, place: &Place, owner: &Owner) -> Found {
        let Some(resource) = referred(&owner.api_version, &owner.kind) else {
            let kind = (owner.api_version.clone(), owner.kind.clone());
            if self.unknown.len() < MOST_UNKNOWN && self.unknown.insert(kind) {
                warn!(
                    api_version = owner.api_version,
                    kind = owner.kind,
                    object = place.key(),
                    "objects have owners of a kind that is not served here; they stay, whatever becomes of the owners"
                );
            }
            return Found::Unknown;
        };
        if resource.kind.is_namespaced() && place.namespace.is_empty() {
            return Found::Misplaced;
        }
        match store.get(&resource.key(&place.namespace, &owner.name)).map(|entry| Seen::of(&entry.value)) {
            Some(seen) if seen.uid != owner.uid => Found::Absent,
            Some(seen) if seen.waits() == Some(Wait::Foreground) => Found::Waiting,
            Some(_) => Found::Solid,
            None => Found::Absent,
        }
    }
}

/// What to do with a deleted owner that waits for its dependents.
pub(super) fn owner(store: &Store, index: &Index, key: &Key) -> Option<Deed> {
    let (place, seen) = look(store, key)?;
    let wait = seen.waits()?;
    match wait {
        Wait::Foreground if index.is_blocked(&seen.uid) => None,
        Wait::Orphan if index.dependents(&seen.uid).next().is_some() => {
            let dependents = index.dependents(&seen.uid).cloned().collect();
            Some(Deed::Orphan { owner: seen.uid, dependents })
        }
        _ => Some(Deed::Release { place, seen, wait }),
    }
}

impl Deed {
    /// Does it.
    pub(super) async fn perform(self, hand: &Hand) -> Result<(), Refused> {
        match self {
            Self::Collect { place, seen, policy, unblock, misplaced } => {
                if let Some(owner) = misplaced {
                    report_once(hand, &place, &seen, &owner).await?;
                }
                let mut preconditions = json!({"uid": seen.uid, "resourceVersion": seen.resource_version});
                if unblock {
                    let Some(patch) = references(hand.store(), &place, &seen, |owner| {
                        owner.insert("blockOwnerDeletion".to_owned(), json!(false));
                        true
                    }) else {
                        return Ok(());
                    };
                    hand.patch(&place, "", &patch).await?;
                    preconditions = json!({"uid": seen.uid});
                }
                hand.delete(&place, &options(policy, &preconditions), "owner").await
            }
            Self::Untie { place, seen, owners } => untie(hand, &place, &seen, &owners).await,
            Self::Orphan { owner, dependents } => {
                let owners = [owner];
                let one = |key: Key| {
                    let owners = &owners;
                    async move {
                        let Some((place, seen)) = look(hand.store(), &key) else { return Ok(()) };
                        untie(hand, &place, &seen, owners).await
                    }
                };
                let mut done = stream::iter(dependents).map(one).buffer_unordered(AT_A_TIME);
                let mut outcome = Ok(());
                while let Some(one) = done.next().await {
                    if let Err(refused) = one
                        && !refused.is_lost_race()
                    {
                        outcome = Err(refused);
                    }
                }
                outcome
            }
            Self::Release { place, seen, wait } => {
                let left: Vec<&String> = seen.finalizers().iter().filter(|name| **name != wait.finalizer()).collect();
                let patch = json!({"metadata": {"resourceVersion": seen.resource_version, "finalizers": left}});
                hand.patch(&place, "", &patch).await
            }
            Self::Report { place, seen, owner } => report_once(hand, &place, &seen, &owner).await,
        }
    }
}

/// What is at a key.
fn look(store: &Store, key: &str) -> Option<(Place, Seen)> {
    Some((Place::of(key)?, Seen::of(&store.get(key)?.value)))
}

/// Deletes with that policy if the preconditions hold.
pub(super) fn options(policy: Policy, preconditions: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy.name(), "preconditions": preconditions,
    })
}

async fn untie(hand: &Hand, place: &Place, seen: &Seen, owners: &[String]) -> Result<(), Refused> {
    let others = |owner: &mut serde_json::Map<String, Value>| {
        let uid = owner.get("uid").and_then(Value::as_str).unwrap_or_default();
        !owners.iter().any(|going| going == uid)
    };
    match references(hand.store(), place, seen, others) {
        Some(patch) => hand.patch(place, "", &patch).await,
        None => Ok(()),
    }
}

/// A patch of the owner references, of which those stay that `keep` keeps; nothing if the object is no longer as it was seen.
fn references(
    store: &Store,
    place: &Place,
    seen: &Seen,
    mut keep: impl FnMut(&mut serde_json::Map<String, Value>) -> bool,
) -> Option<Value> {
    let object = whole(place, &store.get(&place.key())?.value);
    if object.resource_version() != seen.resource_version {
        return None;
    }
    let mut all = object.at(&["metadata", "ownerReferences"])?.as_array()?.clone();
    all.retain_mut(|owner| owner.as_object_mut().is_some_and(&mut keep));
    let all = if all.is_empty() { Value::Null } else { all.into() };
    Some(json!({"metadata": {"resourceVersion": seen.resource_version, "ownerReferences": all}}))
}

/// Writes the Event that says that an owner is not in the namespace of its dependent. Its name is that of the dependent and
/// the owner, so that it is there once, however many servers write it.
async fn report_once(hand: &Hand, place: &Place, seen: &Seen, owner: &Owner) -> Result<(), Refused> {
    let Some(events) = referred("v1", "Event") else { return Ok(()) };
    let Owner { api_version, kind, name, uid, .. } = owner;
    let namespace = &place.namespace;
    let message = format!(
        "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace \
         {namespace:?}"
    );
    let home = if namespace.is_empty() { "default" } else { namespace };
    let mark: String = uid.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{}.{}", place.name, mark.to_ascii_lowercase()), "namespace": home},
        "involvedObject": {
            "apiVersion": place.resource.api_version, "kind": place.resource.kind.kind, "name": place.name,
            "namespace": namespace, "uid": seen.uid,
        },
        "type": "Warning", "reason": "OwnerRefInvalidNamespace", "message": message,
        "source": {"component": REPORTER}, "reportingComponent": REPORTER,
        "firstTimestamp": now(), "lastTimestamp": now(), "count": 1,
    });
    match hand.create(events, home, &event).await {
        Err(refused) if !refused.is_lost_race() => Err(refused),
        _ => Ok(()),
    }
}

/// The namespaces that there are, some of them if they are very many.
fn namespaces(store: &Store) -> Vec<String> {
    let prefix = format!("{NAMESPACES}/");
    let range = Range { prefix: &prefix, limit: Some(MOST_SEARCHED), of: Some(0), ..Range::default() };
    // The present is in memory: it is there at once.
    let page = futures_util::FutureExt::now_or_never(store.range(range)).and_then(Result::ok);
    let entries = page.map(|page| page.entries).unwrap_or_default();
    entries.iter().filter_map(|entry| entry.key.strip_prefix(&*prefix).map(str::to_owned)).collect()
}

/// The finalizers in the spec of a namespace.
pub(super) fn spec_finalizers(object: &api::Object) -> Vec<String> {
    texts(object.at(&["spec", "finalizers"]))
}
