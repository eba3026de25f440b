//! What a watch on etcd says, as events for the mirror. No I/O.

use std::collections::HashMap;
use std::sync::Arc;

use super::keys::Keys;
use super::txn::{entry, revision};
use super::wire::{EventKind, WatchEvent};
use crate::types::{Entry, Event, Key, Revision};

/// Events that the mirror is to take in at once.
pub(super) struct Changes {
    from: Revision,
    /// Everything up to here was heard before.
    through: Revision,
    upto: Revision,
    events: Vec<Arc<Event>>,
    /// What the keys of these events are now; the mirror has what they were before.
    now: HashMap<Key, Option<Arc<Entry>>>,
}

impl Changes {
    /// What follows after a revision.
    pub(super) fn after(revision: Revision) -> Self {
        Self { from: revision, through: revision, upto: revision, events: Vec::new(), now: HashMap::new() }
    }

    /// Everything up to this revision was heard.
    pub(super) fn heard_until(&mut self, revision: Revision) {
        self.through = self.through.max(revision);
        self.upto = self.upto.max(revision);
    }

    /// Takes the next event; `find` is the mirror. An error says how the event does not fit what the mirror has, which then
    /// is not what etcd has.
    pub(super) fn take(
        &mut self,
        event: WatchEvent,
        keys: &Keys,
        find: impl Fn(&str) -> Option<Arc<Entry>>,
    ) -> Result<(), String> {
        let kv = event.kv.unwrap_or_default();
        let at = revision(kv.mod_revision);
        // A watch begins after what the mirror has and goes forward. An event from before was missed when it was due.
        if at <= self.through || at < self.upto {
            return Err(format!("an event at revision {at} came after everything up to {} was heard", self.upto));
        }
        self.upto = at;
        let Some(local) = keys.local(&kv.key) else { return Ok(()) };
        let index = self.events.last().filter(|last| last.revision() == at).map_or(0, |last| last.entry.index() + 1);
        let before = match self.now.get(local) {
            Some(now) => now.clone(),
            None => find(local),
        };
        let key = before.as_ref().map_or_else(|| local.into(), |before| before.key.clone());
        let (event, after) = if event.kind == i32::from(EventKind::Delete) {
            let before = before.ok_or_else(|| format!("{local} was deleted at revision {at} but was not known"))?;
            (Event::delete(before, at, index), None)
        } else {
            let entry = Arc::new(entry(Key::clone(&key), &kv, index));
            let known = before.as_ref().map_or(at, |before| before.created);
            if entry.created != known {
                let created = entry.created;
                return Err(format!("{local} was created at revision {created} and not at {known} as was known"));
            }
            (Event::put(entry.clone(), before), Some(entry))
        };
        self.now.insert(key, after);
        self.events.push(Arc::new(event));
        Ok(())
    }

    /// The events and the revision up to which they are all there is; `None` if that is nothing new.
    pub(super) fn done(self) -> Option<(Vec<Arc<Event>>, Revision)> {
        (self.upto > self.from).then_some((self.events, self.upto))
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::KeyValue;
    use super::*;
    use crate::types::What;

    fn heard(kind: EventKind, key: &str, created: i64, modified: i64) -> WatchEvent {
        let value = format!(r#"{{"metadata":{{"resourceVersion":""}},"made":{modified}}}"#).into();
        let kv =
            KeyValue { key: key.as_bytes().to_vec().into(), create_revision: created, mod_revision: modified, value };
        WatchEvent { kind: kind.into(), kv: Some(kv) }
    }

    fn put(key: &str, created: i64, modified: i64) -> WatchEvent {
        heard(EventKind::Put, key, created, modified)
    }

    /// etcd says nothing of what a deleted key was.
    fn delete(key: &str, modified: i64) -> WatchEvent {
        heard(EventKind::Delete, key, 0, modified)
    }

    fn known(key: &str, created: u64, modified: u64) -> Arc<Entry> {
        Arc::new(Entry::read(key.into(), br#"{"resourceVersion":""}"#, Revision(created), Revision(modified), 0))
    }

    fn take(changes: &mut Changes, events: Vec<WatchEvent>, mirror: &[Arc<Entry>]) -> Result<(), String> {
        let keys = Keys::new("/r");
        let find = |key: &str| mirror.iter().find(|entry| &*entry.key == key).cloned();
        events.into_iter().try_for_each(|event| changes.take(event, &keys, find))
    }

    #[test]
    fn a_key_that_changes_twice_at_once_has_the_first_change_before_the_second() {
        let mut changes = Changes::after(Revision(5));
        let events = vec![put("/r/a", 6, 6), put("/r/a", 6, 7), delete("/r/a", 8), put("/r/a", 9, 9)];
        take(&mut changes, events, &[]).unwrap();
        let (events, upto) = changes.done().unwrap();
        assert_eq!(upto, Revision(9));
        let before: Vec<_> = events.iter().map(|event| event.before.as_ref().map(|before| before.revision.0)).collect();
        assert_eq!(before, [None, Some(6), Some(7), None]);
        assert_eq!(events[2].what, What::Delete);
        assert_eq!(
            events[2].entry.value, r#"{"metadata":{"resourceVersion":"8"},"made":7}"#,
            "its last state, restamped"
        );
    }

    #[test]
    fn writes_of_one_transaction_are_numbered() {
        let mut changes = Changes::after(Revision(5));
        take(&mut changes, vec![put("/r/a", 6, 6), put("/r/b", 6, 6), put("/r/c", 7, 7)], &[]).unwrap();
        let (events, _) = changes.done().unwrap();
        assert_eq!(events.iter().map(|event| event.entry.index()).collect::<Vec<_>>(), [0, 1, 0]);
    }

    #[test]
    fn an_event_that_comes_too_late_is_told() {
        let heard_until = |revision| {
            let mut changes = Changes::after(Revision(5));
            changes.heard_until(Revision(revision));
            changes
        };
        assert!(take(&mut heard_until(5), vec![put("/r/a", 5, 5)], &[]).is_err(), "the mirror is there already");
        assert!(take(&mut heard_until(7), vec![put("/r/a", 7, 7)], &[]).is_err(), "progress had said that it is all");
        assert!(take(&mut heard_until(7), vec![put("/r/a", 8, 8)], &[]).is_ok());
        let back = vec![put("/r/a", 7, 7), put("/r/b", 6, 6)];
        assert!(take(&mut heard_until(5), back, &[]).is_err(), "history goes forward");
    }

    #[test]
    fn progress_moves_the_mirror_without_events() {
        let mut changes = Changes::after(Revision(5));
        changes.heard_until(Revision(4));
        assert!(changes.done().is_none(), "a member that lags says less than is known");
        let mut changes = Changes::after(Revision(5));
        changes.heard_until(Revision(8));
        assert_eq!(changes.done().map(|(events, upto)| (events.len(), upto)), Some((0, Revision(8))));
    }

    #[test]
    fn an_event_that_does_not_fit_the_mirror_is_told() {
        let a = [known("a", 3, 4)];
        assert!(take(&mut Changes::after(Revision(5)), vec![put("/r/a", 3, 6)], &a).is_ok());
        assert!(take(&mut Changes::after(Revision(5)), vec![put("/r/a", 5, 6)], &a).is_err(), "created again unheard");
        assert!(take(&mut Changes::after(Revision(5)), vec![put("/r/a", 6, 6)], &a).is_err(), "deleted unheard");
        assert!(take(&mut Changes::after(Revision(5)), vec![put("/r/b", 3, 6)], &a).is_err(), "created unheard");
        assert!(take(&mut Changes::after(Revision(5)), vec![delete("/r/b", 6)], &a).is_err());
    }

    #[test]
    fn keys_of_others_are_passed_over() {
        let mut changes = Changes::after(Revision(5));
        take(&mut changes, vec![put("/r/a/", 6, 6), delete("/r//", 6), put("/r/a", 6, 6)], &[]).unwrap();
        assert_eq!(changes.done().map(|(events, _)| events.len()), Some(1));
    }
}
