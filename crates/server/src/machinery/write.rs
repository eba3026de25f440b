//! What all writes share: the options, the metadata that the server sets, and the transaction with its retries.

use std::cell::RefCell;
use std::sync::Arc;

use api::kind::Subresource;
use api::{Kind, Object, apply};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use store::{Compare, Entry, Key, Outcome, Store, Txn, Write};

use super::catalog::Resource;
use super::decode;
use super::failure::Failure;
use super::show;
use crate::registry::Along;

/// How often a write is tried again that lost against another one, before the client is told.
pub(crate) const MOST_TRIES: usize = 64;

/// The present, as metadata says it.
pub(crate) fn now() -> Value {
    json!(now_text())
}

/// The same as text.
pub(crate) fn now_text() -> String {
    at(Timestamp::now())
}

/// A time, as metadata says it: to the second.
pub(crate) fn at(time: Timestamp) -> String {
    thread_local! {
        /// The last second that was asked for, and its text: most writes are made in the same one as the write before.
        static LAST: RefCell<(i64, String)> = const { RefCell::new((i64::MIN, String::new())) };
    }
    LAST.with_borrow_mut(|(second, text)| {
        if *second != time.as_second() {
            *second = time.as_second();
            *text = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        }
        text.clone()
    })
}

/// Sets what the server alone decides of a new object.
pub(crate) fn found(resource: &Resource, object: &mut Object) {
    let metadata = object.metadata_mut();
    for name in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(name);
    }
    metadata.insert("uid".to_owned(), json!(uuid::Uuid::new_v4().to_string()));
    metadata.insert("creationTimestamp".to_owned(), now());
    if resource.kind.counts_generation {
        metadata.insert("generation".to_owned(), json!(1));
    }
}

/// Carries over what an update cannot change.
pub(crate) fn carry(object: &mut Object, old: &Object) {
    let metadata = object.metadata_mut();
    metadata.remove("selfLink");
    if metadata.get("uid").and_then(Value::as_str).unwrap_or_default().is_empty() {
        metadata.remove("uid");
    }
    let old = old.metadata();
    for name in ["generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "uid"] {
        match old.and_then(|old| old.get(name)) {
            Some(value) if name != "uid" => drop(metadata.insert(name.to_owned(), value.clone())),
            Some(value) => drop(metadata.entry(name).or_insert_with(|| value.clone())),
            None if name == "uid" => {}
            None => drop(metadata.remove(name)),
        }
    }
}

/// Keeps account of a write in `managedFields`: the manager gets to own what is new or another in the object. Brings the
/// object to the form that is stored, because what Go leaves out or adds is no change.
pub(crate) fn account(
    kind: &Kind,
    manager: &str,
    part: Option<Subresource>,
    live: Option<&Object>,
    new: &mut Object,
) -> Result<(), Failure> {
    decode::canonical_request(kind, new)?;
    with_account(kind, manager, part, |write| apply::update(write, live, new));
    Ok(())
}

/// The same for a new object: gives its `managedFields` as they are stored, unless it comes with some. Those stay in it.
pub(crate) fn account_new(kind: &Kind, manager: &str, new: &mut Object) -> Result<Option<Vec<u8>>, Failure> {
    if new.at(&["metadata", "managedFields"]).is_some() {
        return account(kind, manager, None, None, new).map(|()| None);
    }
    decode::canonical(kind, new)?;
    Ok(with_account(kind, manager, None, |write| apply::create(write, new)))
}

/// Lets something be done in the name of a manager, now.
pub(crate) fn with_account<T>(
    kind: &Kind,
    manager: &str,
    part: Option<Subresource>,
    work: impl FnOnce(&apply::Write<'_>) -> T,
) -> T {
    let time = at(Timestamp::now());
    let ignored = apply::Set::of(kind.ignored_by(part));
    let subresource = part.map_or("", Subresource::name);
    work(&apply::Write { kind, manager, subresource, time: &time, ignored: &ignored })
}

/// Keeps account of what the server itself has changed in an object, as if a client had: one that people know as the manager of
/// that.
pub(crate) fn sign(kind: &Kind, manager: &str, before: &Object, after: &mut Object) {
    with_account(kind, manager, None, |write| apply::update(write, Some(before), after));
}

/// Applies a configuration of the server's own to a part of an object, whoever has what it says.
pub(crate) fn apply_as(
    kind: &Kind,
    manager: &str,
    part: Option<Subresource>,
    object: &mut Object,
    config: &Object,
) -> Result<(), apply::ApplyError> {
    let applied = with_account(kind, manager, part, |write| apply::apply(write, Some(object), config, true))?;
    *object = applied.object;
    Ok(())
}

/// Whether two objects differ in what `metadata.generation` counts: all but metadata and, where it is written apart, status.
pub(crate) fn differ_in_substance(kind: &Kind, new: &Object, old: &Object) -> bool {
    const LABELS: [&str; 2] = ["metadata", "labels"];
    let status_apart = kind.has(Subresource::Status);
    let counts = |(name, _): &(&String, &Value)| *name != "metadata" && !(status_apart && *name == "status");
    new.fields().iter().filter(counts).ne(old.fields().iter().filter(counts))
        || (kind.counts_labels && new.at(&LABELS) != old.at(&LABELS))
}

/// What a write did.
pub(crate) enum Done {
    /// The object is there, as of that entry.
    Stored(Arc<Entry>),
    /// The object is gone; this was its last state.
    Gone(Bytes),
    /// Nothing happened, but this would have.
    Tried(Bytes),
}

impl Done {
    /// The object, as the store has or had it.
    pub(crate) fn value(&self) -> &Bytes {
        match self {
            Self::Stored(entry) => &entry.value,
            Self::Gone(value) | Self::Tried(value) => value,
        }
    }
}

/// An object that is not in the store, as if it were: in the stored form, at that revision.
pub(crate) fn as_stored(resource: &Resource, object: &Object, revision: &str) -> Bytes {
    show::with_revision(&show::encode_stored(resource, object), revision).into()
}

/// What came of a transaction.
pub(crate) enum Committed {
    /// It is done. The entry of the first write, if that was a put.
    Done(Option<Arc<Entry>>),
    /// The object itself is not as it was expected; this is what is there.
    Object(Option<Arc<Entry>>),
    /// Something else is not as it was expected: look again.
    Surroundings,
}

/// Writes an object and what comes along with it under the condition that it, and what it depends on, is as expected.
pub(crate) async fn commit(
    store: &Store,
    expected: Compare,
    write: Write,
    depends: Option<Compare>,
    along: Along,
) -> Result<Committed, Failure> {
    let compares = std::iter::once(expected).chain(depends).chain(along.compares).collect();
    let writes = std::iter::once(write).chain(along.writes).collect();
    let outcome = store.txn(Txn { compares, writes }).await;
    match (&along.hold, &outcome) {
        (Some(hold), Ok(Outcome::Committed { .. })) => hold.granted(),
        (Some(hold), Ok(Outcome::Refused { compare: 1.., .. })) => hold.lost(),
        _ => {}
    }
    // Now it is in the store, or free again.
    drop(along.hold);
    match outcome? {
        Outcome::Committed { entries, .. } => Ok(Committed::Done(entries.into_iter().next().flatten())),
        Outcome::Refused { compare: 0, current } => Ok(Committed::Object(current)),
        Outcome::Refused { .. } => Ok(Committed::Surroundings),
    }
}

/// The key of an object, as the store wants it.
pub(crate) fn key(resource: &Resource, namespace: &str, name: &str) -> Key {
    resource.key(namespace, name).into()
}
