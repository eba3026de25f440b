//! The mirror: everything that is live, and the history since the last compaction, in memory.
//!
//! All reads are answered here. Each key has its versions since the compaction, so that a range at a past revision is exact;
//! the log has the events in order, so that a watch can start in the past. The mirror does not know where its events were made
//! durable: a backend hands them in by [`Mirror::apply`], in the order of revisions, after they were.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque, btree_map};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::watch;

use crate::hub::{Hub, Wakes, WatchLimits};
use crate::types::{Ended, Entry, Event, Key, Page, Range, RangeError, Revision, What, covers};
use crate::watch::Watch;

/// How many events are looked at, or dropped, under one hold of the lock.
const STEP_EVENTS: usize = 4096;

/// What an event of the log takes beside the values that it alone keeps alive.
const EVENT_BYTES: usize = 256;

#[derive(Debug)]
pub(crate) struct Mirror {
    state: RwLock<State>,
    hub: Arc<Hub>,
    published: watch::Sender<Revision>,
}

#[derive(Debug, Default)]
struct State {
    keys: BTreeMap<Key, Chain>,
    log: VecDeque<Arc<Event>>,
    revision: Revision,
    compacted: Revision,
    objects: usize,
    bytes: usize,
    log_bytes: usize,
    closed: bool,
}

/// The versions of one key, most of the time only one.
#[derive(Debug)]
struct Chain {
    newest: Version,
    /// Those before it, oldest first.
    older: Vec<Version>,
}

/// What was there from a revision on. The revision stands beside the entry so that a scan need not follow the pointer.
#[derive(Debug)]
struct Version {
    since: Revision,
    /// `None`: it was deleted.
    entry: Option<Arc<Entry>>,
}

/// How much there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) objects: usize,
    pub(crate) bytes: usize,
}

/// How much history there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// A piece of history as a watch reads it.
pub(crate) struct Piece {
    pub(crate) events: Vec<Arc<Event>>,
    /// Everything up to here was looked at.
    pub(crate) upto: Revision,
    /// The history ended here: from here on events come from this reader.
    pub(crate) live: Option<crate::hub::Reader>,
}

impl Mirror {
    /// The state at `revision`: these entries, and no history before it.
    pub(crate) fn new(limits: WatchLimits, revision: Revision, entries: impl IntoIterator<Item = Arc<Entry>>) -> Self {
        Self {
            state: RwLock::new(State::loaded(revision, entries)),
            hub: Arc::new(Hub::new(limits)),
            published: watch::Sender::new(revision),
        }
    }

    /// Starts over from what is true at `revision`. What happened in between is not known, so every watch ends.
    pub(crate) fn reload(&self, revision: Revision, entries: impl IntoIterator<Item = Arc<Entry>>) {
        let loaded = State::loaded(revision, entries);
        let old = {
            let mut state = self.state.write();
            let closed = state.closed;
            let old = std::mem::replace(&mut *state, loaded);
            state.closed = closed;
            self.hub.end(Ended::Compacted);
            old
        };
        self.published.send_replace(revision);
        drop(old);
    }

    /// Takes in events, which are whole transactions in the order of revisions and all after the mirror's; with them the
    /// mirror is at `revision`. Without events this only says that nothing happened until then.
    pub(crate) fn apply(&self, events: Vec<Arc<Event>>, revision: Revision) -> Wakes {
        let wakes = {
            let mut state = self.state.write();
            debug_assert!(
                revision >= state.revision && events.first().is_none_or(|event| event.revision() > state.revision)
            );
            let wakes = self.hub.push(&events);
            for event in events {
                state.take_in(event);
            }
            state.revision = state.revision.max(revision);
            wakes
        };
        self.published.send_replace(revision);
        wakes
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.state.read().keys.get(key)?.newest.entry.clone()
    }

    pub(crate) fn range(&self, range: Range<'_>) -> Result<Page, RangeError> {
        let state = self.state.read();
        let revision = range.at.unwrap_or(state.revision);
        state.covers_revision(revision)?;
        let limit = range.limit.unwrap_or(usize::MAX);
        let mut there = state.within(range.prefix, range.after).filter_map(|chain| chain.at(revision));
        let entries: Vec<_> = there.by_ref().take(limit).cloned().collect();
        let remaining = match range.of {
            // Walking past all that is not wanted costs as much as a page of it.
            Some(of) => there.next().map_or(0, |_| of.saturating_sub(entries.len()).max(1)),
            None => there.count(),
        };
        Ok(Page { entries, revision, remaining })
    }

    /// Where the mirror is. Not before anything a watch has handed out: an apply that is under way is waited for.
    pub(crate) fn revision(&self) -> Revision {
        self.state.read().revision
    }

    pub(crate) fn compacted(&self) -> Revision {
        self.state.read().compacted
    }

    pub(crate) fn extent(&self) -> Extent {
        let state = self.state.read();
        Extent { objects: state.objects, bytes: state.bytes }
    }

    pub(crate) fn history(&self) -> History {
        let state = self.state.read();
        History { events: state.log.len(), bytes: state.log_bytes }
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    /// The last revision before the `newest` newest events, if there are more than those.
    pub(crate) fn beyond_newest(&self, newest: usize) -> Option<Revision> {
        let state = self.state.read();
        let older = state.log.len().checked_sub(newest)?;
        Some(state.log[older.checked_sub(1)?].revision())
    }

    /// Whether the mirror has `revision`, or has it soon.
    pub(crate) async fn reached(&self, revision: Revision, within: Duration) -> bool {
        if self.revision() >= revision {
            return true;
        }
        let mut published = self.published.subscribe();
        let reached = published.wait_for(|&now| now >= revision);
        matches!(tokio::time::timeout(within, reached).await, Ok(Ok(_)))
    }

    /// Events under `prefix` with revisions greater than `after`.
    pub(crate) fn watch(self: &Arc<Self>, prefix: &str, after: Revision) -> Result<Watch, RangeError> {
        Watch::start(self.clone(), prefix, after)
    }

    /// The next piece of history under `prefix` after a revision; a reader for what follows comes with the last piece, taken
    /// under the same lock, so that nothing is missed or seen twice.
    pub(crate) fn piece(&self, prefix: &str, after: Revision) -> Result<Piece, RangeError> {
        let state = self.state.read();
        if state.closed {
            return Err(crate::types::StoreError::Closed.into());
        }
        state.covers_revision(after)?;
        let from = state.log.partition_point(|event| event.revision() <= after);
        let mut piece = Piece { events: Vec::new(), upto: after, live: None };
        for (looked_at, event) in state.log.range(from..).enumerate() {
            if looked_at >= STEP_EVENTS && event.revision() > piece.upto {
                return Ok(piece);
            }
            piece.upto = event.revision();
            if covers(prefix, &event.entry.key) {
                piece.events.push(event.clone());
            }
        }
        piece.upto = state.revision;
        piece.live = Some(self.hub.register(prefix));
        Ok(piece)
    }

    /// What a step of compaction towards `target` drops: the oldest events, about `most` of them but whole transactions, and
    /// the revision up to which these are all.
    pub(crate) fn oldest(&self, target: Revision, most: usize) -> (Vec<Arc<Event>>, Revision) {
        let state = self.state.read();
        let mut oldest: Vec<Arc<Event>> = Vec::new();
        for event in state.log.iter().take_while(|event| event.revision() <= target) {
            if let Some(last) = oldest.last().map(|last| last.revision())
                && oldest.len() >= most
                && last < event.revision()
            {
                return (oldest, last);
            }
            oldest.push(event.clone());
        }
        (oldest, target)
    }

    /// Forgets the history up to `to`. What it costs is what it drops.
    pub(crate) fn compact(&self, to: Revision) {
        loop {
            let mut dropped = Vec::new();
            let mut state = self.state.write();
            let last = state.log.get(STEP_EVENTS).map_or(to, |event| event.revision());
            let upto = last.min(to).min(state.revision);
            while let Some(event) = state.log.pop_front_if(|event| event.revision() <= upto) {
                state.forget(&event, upto);
                dropped.push(event);
            }
            state.compacted = state.compacted.max(upto);
            let done = upto >= to.min(state.revision);
            // What was dropped is freed when the lock is not held.
            drop(state);
            if done {
                return;
            }
        }
    }

    /// Ends every watch; none can start any more.
    pub(crate) fn close(&self) {
        let mut state = self.state.write();
        state.closed = true;
        self.hub.end(Ended::Closed);
    }
}

impl State {
    fn loaded(revision: Revision, entries: impl IntoIterator<Item = Arc<Entry>>) -> Self {
        let mut state = Self { revision, compacted: revision, ..Self::default() };
        for entry in entries {
            state.objects += 1;
            state.bytes += entry.value.len();
            let newest = Version { since: entry.revision, entry: Some(entry.clone()) };
            state.keys.insert(entry.key.clone(), Chain { newest, older: Vec::new() });
        }
        state
    }

    /// Whether what was there at `revision` is known.
    fn covers_revision(&self, revision: Revision) -> Result<(), RangeError> {
        if revision < self.compacted {
            return Err(RangeError::Compacted { oldest: self.compacted });
        }
        if revision > self.revision {
            return Err(RangeError::Future { current: self.revision });
        }
        Ok(())
    }

    fn within<'a>(&'a self, prefix: &'a str, after: Option<&'a str>) -> impl Iterator<Item = &'a Chain> {
        let after = after.filter(|&after| after >= prefix);
        let from = after.map_or(Bound::Included(prefix), Bound::Excluded);
        // The end is found once instead of comparing every key: `0` is the character after `/`.
        let end = match prefix.strip_suffix('/') {
            Some(segment) => Some(format!("{segment}0")),
            None if prefix.is_empty() => None,
            None => Some(format!("{prefix}\0")),
        };
        let empty = matches!((after, &end), (Some(after), Some(end)) if after >= end.as_str());
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let chains = (!empty).then(|| self.keys.range::<str, _>((from, to)));
        chains.into_iter().flatten().map(|(_, chain)| chain)
    }

    fn take_in(&mut self, event: Arc<Event>) {
        let version = Version { since: event.revision(), entry: event.after().cloned() };
        if let Some(entry) = &version.entry {
            self.objects += 1;
            self.bytes += entry.value.len();
        }
        if let Some(before) = &event.before {
            self.objects -= 1;
            self.bytes -= before.value.len();
        }
        self.log_bytes += log_bytes(&event);
        match self.keys.entry(event.entry.key.clone()) {
            btree_map::Entry::Occupied(mut chain) => {
                let chain = chain.get_mut();
                let before = std::mem::replace(&mut chain.newest, version);
                chain.older.push(before);
            }
            btree_map::Entry::Vacant(place) => {
                place.insert(Chain { newest: version, older: Vec::new() });
            }
        }
        self.log.push_back(event);
    }

    /// Drops what only this event, which left the log, and the time before it needed.
    fn forget(&mut self, event: &Event, to: Revision) {
        self.log_bytes -= log_bytes(event);
        let Some(chain) = self.keys.get_mut(&event.entry.key) else { return };
        if chain.compact(to) {
            self.keys.remove(&event.entry.key);
        }
    }
}

impl Chain {
    /// What was there at a revision.
    fn at(&self, revision: Revision) -> Option<&Arc<Entry>> {
        if self.newest.since <= revision {
            return self.newest.entry.as_ref();
        }
        let after = self.older.partition_point(|version| version.since <= revision);
        self.older[after.checked_sub(1)?].entry.as_ref()
    }

    /// Drops what nobody can see who reads at `to` or later, and says whether nothing is left.
    fn compact(&mut self, to: Revision) -> bool {
        if self.newest.since <= to {
            self.older = Vec::new();
            return self.newest.entry.is_none();
        }
        let seen = self.older.partition_point(|version| version.since <= to);
        let mut drop_to = seen.saturating_sub(1);
        if seen > 0 && self.older[seen - 1].entry.is_none() {
            drop_to = seen;
        }
        self.older.drain(..drop_to);
        false
    }
}

/// What an event keeps in memory that would not be there without the log.
fn log_bytes(event: &Event) -> usize {
    let before = event.before.as_ref().map_or(0, |before| before.value.len());
    let last = if event.what == What::Delete { event.entry.value.len() } else { 0 };
    EVENT_BYTES + before + last
}
