//! A batch: transactions decided one after the other, as if each saw the ones before it, to be made durable together.
//!
//! Deciding is pure: it reads the mirror and the batch and writes nothing.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::record::Place;
use crate::mirror::Mirror;
use crate::types::{Entry, Event, Key, Outcome, Revision, Txn, What, Write};

/// Everything that one commit changes.
pub(crate) struct Batch {
    /// What goes to disk.
    pub(crate) changes: Vec<Change>,
    /// The same as readers and watchers will see it.
    pub(crate) events: Vec<Arc<Event>>,
    /// The revision after it.
    pub(crate) revision: Revision,
    /// How many transactions changed something.
    pub(crate) txns: usize,
    /// How far history was compacted before it.
    pub(crate) compacted: Revision,
    /// What it compacts.
    pub(crate) step: Option<Step>,
    /// What keys that it changed are in it.
    overlay: HashMap<Key, Option<Arc<Entry>>>,
}

/// One record to write.
pub(crate) struct Change {
    pub(crate) place: Place,
    pub(crate) created: Revision,
    pub(crate) key: Key,
    /// Unstamped; `None` deletes.
    pub(crate) value: Option<Bytes>,
}

/// A piece of compaction.
pub(crate) struct Step {
    /// The history is gone up to here after it.
    pub(crate) to: Revision,
    /// The records that nobody needs any more.
    pub(crate) dead: Vec<Place>,
}

impl Step {
    /// The step that drops these events, the oldest of the log, and everything else up to `to`.
    pub(crate) fn dropping(events: &[Arc<Event>], to: Revision) -> Self {
        let mut dead = Vec::with_capacity(events.len());
        for event in events {
            dead.extend(event.before.iter().map(|before| (before.revision.0, before.index())));
            if event.what == What::Delete {
                dead.push((event.entry.revision.0, event.entry.index()));
            }
        }
        Self { to, dead }
    }
}

/// A key that was compared, and what is there.
type Seen<'a> = (&'a Key, Option<Arc<Entry>>);

/// What became of a transaction, and when that may be said.
pub(crate) enum Decision {
    /// At once: it depends on nothing that is not durable.
    Final(Outcome),
    /// When the batch is durable.
    WithBatch(Outcome),
}

impl Batch {
    pub(crate) fn new(revision: Revision, compacted: Revision) -> Self {
        Self {
            changes: Vec::new(),
            events: Vec::new(),
            revision,
            txns: 0,
            compacted,
            step: None,
            overlay: HashMap::new(),
        }
    }

    /// Whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.step.is_none()
    }

    /// Whether it is in a file that is at this revision and compacted so far. A batch is there as a whole or not at all.
    pub(crate) fn landed(&self, revision: Revision, compacted: Revision) -> bool {
        if self.events.is_empty() {
            return self.step.as_ref().is_some_and(|step| step.to <= compacted);
        }
        self.revision <= revision
    }

    /// Decides a transaction as the next one of the batch.
    pub(crate) fn decide(&mut self, txn: Txn, mirror: &Mirror) -> Decision {
        let mut saw_overlay = false;
        let mut seen = Vec::with_capacity(txn.compares.len());
        for (compare, wanted) in txn.compares.iter().enumerate() {
            let (current, overlaid) = self.current(wanted.key(), mirror);
            saw_overlay |= overlaid;
            if !wanted.holds(current.as_deref()) {
                let refused = Outcome::Refused { compare, current };
                return if saw_overlay { Decision::WithBatch(refused) } else { Decision::Final(refused) };
            }
            seen.push((wanted.key(), current));
        }
        let next = self.revision.next();
        let events = self.events.len();
        let entries = txn
            .writes
            .into_iter()
            .zip(0..)
            .map(|(write, index)| match write {
                Write::Put { key, value } => {
                    let before = self.before(&key, &mut seen, mirror);
                    Some(self.put((next, index), key, value, before))
                }
                Write::Delete { key } => {
                    let before = self.before(&key, &mut seen, mirror)?;
                    Some(self.delete((next, index), before))
                }
            })
            .collect();
        if self.events.len() > events {
            self.revision = next;
            self.txns += 1;
        }
        Decision::WithBatch(Outcome::Committed { revision: self.revision, entries })
    }

    /// What is at a key now, and whether the batch says so.
    fn current(&self, key: &str, mirror: &Mirror) -> (Option<Arc<Entry>>, bool) {
        match self.overlay.get(key) {
            Some(current) => (current.clone(), true),
            None => (mirror.get(key), false),
        }
    }

    /// What a write finds at a key. Most writes are of what was compared, and no key is written twice, so it is there still.
    fn before(&self, key: &Key, seen: &mut Vec<Seen<'_>>, mirror: &Mirror) -> Option<Arc<Entry>> {
        match seen.iter().position(|(compared, _)| *compared == key) {
            Some(place) => seen.swap_remove(place).1,
            None => self.current(key, mirror).0,
        }
    }

    fn put(
        &mut self,
        (revision, index): (Revision, u32),
        key: Key,
        value: Bytes,
        before: Option<Arc<Entry>>,
    ) -> Arc<Entry> {
        // All versions of an object share the name of the first.
        let (key, created) = before.as_ref().map_or((key, revision), |before| (before.key.clone(), before.created));
        let entry = Arc::new(Entry::stamped(key.clone(), &value, created, revision, index));
        self.overlay.insert(key.clone(), Some(entry.clone()));
        self.changes.push(Change { place: (revision.0, index), created, key, value: Some(value) });
        self.events.push(Arc::new(Event::put(entry.clone(), before)));
        entry
    }

    fn delete(&mut self, (revision, index): (Revision, u32), before: Arc<Entry>) -> Arc<Entry> {
        let (key, created) = (before.key.clone(), before.created);
        let event = Event::delete(before, revision, index);
        let entry = event.entry.clone();
        self.overlay.insert(key.clone(), None);
        self.changes.push(Change { place: (revision.0, index), created, key, value: None });
        self.events.push(Arc::new(event));
        entry
    }
}
