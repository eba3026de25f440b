//! The words of the store: revisions, entries, transactions, events, ranges and why something was not done.
//!
//! Nothing here does I/O or knows which backend keeps the entries.

use std::any::Any;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use thiserror::Error;

use crate::stamp;

/// A point in the one history of the store. Every transaction that changes something takes the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names an entry: segments joined by slashes, `configmaps/ns/name`, with no slash at either end.
pub type Key = Arc<str>;

/// Something worked out once from an entry and kept with it.
#[derive(Default)]
struct Memo(OnceLock<Arc<dyn Any + Send + Sync>>);

impl Memo {
    /// What is kept, made on the first call. A second type finds the place taken and is made anew each time.
    fn get_or_make<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut make = Some(make);
        let kept = self.0.get_or_init(|| match make.take() {
            Some(make) => Arc::new(make()),
            None => Arc::new(()),
        });
        match (Arc::clone(kept).downcast::<T>(), make) {
            (Ok(kept), _) => kept,
            (Err(_), Some(make)) => Arc::new(make()),
            // The maker ran, so what is kept is a `T` and was downcast above.
            (Err(_), None) => unreachable!("a memo holds what its maker returned"),
        }
    }
}

/// One version of an object.
pub struct Entry {
    /// Its name.
    pub key: Key,
    /// Its bytes, with the revision filled in where they left room for it: at the first `"resourceVersion":""`. An encoder puts
    /// that before anything a user could fill with a field of the same name; bytes without it stay as they are.
    pub value: Bytes,
    /// The revision that created the object.
    pub created: Revision,
    /// The revision that wrote this version; of a deleted object, the one that deleted it.
    pub revision: Revision,
    /// Where in `value` the revision's digits begin.
    mark: Option<NonZeroU32>,
    /// Which write of its transaction it was.
    index: u32,
    memo: Memo,
}

impl Entry {
    /// The version that write number `index` of the transaction at `revision` made from unstamped bytes. They are shared if
    /// they have no room for a stamp.
    pub(crate) fn stamped(key: Key, unstamped: &Bytes, created: Revision, revision: Revision, index: u32) -> Self {
        Self::filled(key, unstamped, || unstamped.clone(), created, revision, index)
    }

    /// The same from bytes that are borrowed from where the version is kept.
    pub(crate) fn read(key: Key, unstamped: &[u8], created: Revision, revision: Revision, index: u32) -> Self {
        Self::filled(key, unstamped, || Bytes::copy_from_slice(unstamped), created, revision, index)
    }

    fn filled(
        key: Key,
        unstamped: &[u8],
        as_it_is: impl FnOnce() -> Bytes,
        created: Revision,
        revision: Revision,
        index: u32,
    ) -> Self {
        let (value, mark) = match stamp::fill(unstamped, revision) {
            Some((value, mark)) => (value, Some(mark)),
            None => (as_it_is(), None),
        };
        Self { key, value, created, revision, mark, index, memo: Memo::default() }
    }

    /// The same state under the revision of the write that deleted it.
    pub(crate) fn restamped(&self, revision: Revision, index: u32) -> Self {
        let value = match self.mark {
            Some(mark) => stamp::refill(&self.value, mark, self.revision, revision),
            None => self.value.clone(),
        };
        Self { key: self.key.clone(), value, revision, index, memo: Memo::default(), ..*self }
    }

    /// Which write of its transaction made it; with the revision this names its record.
    pub(crate) const fn index(&self) -> u32 {
        self.index
    }

    /// What `make` works out from this entry, done once and kept as long as the entry is. One type per entry: the first that
    /// is asked for has the place, others are made anew at each call.
    pub fn memo<T: Any + Send + Sync>(&self, make: impl FnOnce(&Self) -> T) -> Arc<T> {
        self.memo.get_or_make(|| make(self))
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key)
            .field("value", &self.value)
            .field("created", &self.created)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// Two entries are equal when they are the same version of the same object.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
            && self.revision == other.revision
            && self.created == other.created
            && self.value == other.value
    }
}

impl Eq for Entry {}

/// What must hold for a transaction's writes to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// There is no such key.
    Absent(Key),
    /// There is such a key.
    Exists(Key),
    /// The key is there and was last modified at exactly this revision.
    At(Key, Revision),
}

impl Compare {
    /// The key it looks at.
    pub const fn key(&self) -> &Key {
        match self {
            Self::Absent(key) | Self::Exists(key) | Self::At(key, _) => key,
        }
    }

    /// Whether it holds when `current` is what is there.
    pub(crate) fn holds(&self, current: Option<&Entry>) -> bool {
        match self {
            Self::Absent(_) => current.is_none(),
            Self::Exists(_) => current.is_some(),
            Self::At(_, revision) => current.is_some_and(|entry| entry.revision == *revision),
        }
    }
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Create or replace.
    Put {
        /// What to write.
        key: Key,
        /// Its bytes, with room for the revision where it is to be: see [`Entry::value`].
        value: Bytes,
    },
    /// Remove, if it is there.
    Delete {
        /// What to remove.
        key: Key,
    },
}

impl Write {
    /// The key it changes.
    pub const fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// Changes that happen together, or not at all when one of the compares fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// What must hold.
    pub compares: Vec<Compare>,
    /// What then changes. No key twice.
    pub writes: Vec<Write>,
}

impl Txn {
    /// How many bytes of keys and values it carries.
    pub(crate) fn bytes(&self) -> usize {
        let compared: usize = self.compares.iter().map(|compare| compare.key().len()).sum();
        let written: usize = self
            .writes
            .iter()
            .map(|write| match write {
                Write::Put { key, value } => key.len() + value.len(),
                Write::Delete { key } => key.len(),
            })
            .sum();
        compared + written
    }
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it happened and is durable.
    Committed {
        /// The revision it took; the current one if it changed nothing.
        revision: Revision,
        /// Per write: the entry that was put, or the last state of what was deleted under the delete's revision (`None` if
        /// there was nothing to delete).
        entries: Vec<Option<Arc<Entry>>>,
    },
    /// A compare failed and nothing happened.
    Refused {
        /// The first compare that failed.
        compare: usize,
        /// What is at that compare's key.
        current: Option<Arc<Entry>>,
    },
}

/// Why the store could not say what became of a transaction, or would not take it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// It was definitely not written. Trying again may help.
    #[error("the store cannot take writes now: {0}")]
    Unavailable(String),
    /// It may or may not have been written: read it back.
    #[error("it is unknown whether the write happened: {0}")]
    Unknown(String),
    /// It carries too much. It never will be taken.
    #[error("the transaction carries {size} bytes of keys and values, more than the {limit} that are allowed")]
    TooLarge {
        /// How much it carries.
        size: usize,
        /// How much it may.
        limit: usize,
    },
    /// It has too many compares or too many writes. It never will be taken.
    #[error("the transaction has {count} compares or writes, more than the {limit} that are allowed")]
    TooMany {
        /// How many it has.
        count: usize,
        /// How many it may have.
        limit: usize,
    },
    /// It is malformed: a key that is none, or the same key written twice. It never will be taken.
    #[error("the transaction is malformed: {0}")]
    Invalid(String),
    /// The store was closed. It was definitely not written.
    #[error("the store is closed")]
    Closed,
    /// What is stored is damaged. It was definitely not written, and trying again does not help.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// This backend does not do it, and never will as it is set up. It was definitely not written.
    #[error("{0}")]
    Unsupported(String),
}

/// What an event did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Created or replaced.
    Put,
    /// Deleted.
    Delete,
}

/// One change of one key.
pub struct Event {
    /// What happened.
    pub what: What,
    /// The new state; for a delete the last state, under the delete's revision.
    pub entry: Arc<Entry>,
    /// What was there before, if something was.
    pub before: Option<Arc<Entry>>,
}

impl Event {
    /// `entry` was put where `before` was.
    pub(crate) fn put(entry: Arc<Entry>, before: Option<Arc<Entry>>) -> Self {
        Self { what: What::Put, entry, before }
    }

    /// `before` was deleted by write number `index` of the transaction at `revision`.
    pub(crate) fn delete(before: Arc<Entry>, revision: Revision, index: u32) -> Self {
        let entry = Arc::new(before.restamped(revision, index));
        Self { what: What::Delete, entry, before: Some(before) }
    }

    /// When it happened.
    pub fn revision(&self) -> Revision {
        self.entry.revision
    }

    /// The state that is there after it.
    pub(crate) fn after(&self) -> Option<&Arc<Entry>> {
        match self.what {
            What::Put => Some(&self.entry),
            What::Delete => None,
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("what", &self.what)
            .field("entry", &self.entry)
            .field("before", &self.before)
            .finish_non_exhaustive()
    }
}

/// Whether `prefix` covers `key`: a prefix that is empty or ends in a slash covers what begins with it, any other is an exact
/// key. Ranges and watches both mean this.
pub(crate) fn covers(prefix: &str, key: &str) -> bool {
    if prefix.is_empty() || prefix.ends_with('/') { key.starts_with(prefix) } else { key == prefix }
}

/// What to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range<'a> {
    /// Which keys: `configmaps/`, `configmaps/ns/`, one exact key, or all if empty.
    pub prefix: &'a str,
    /// Only keys after this one.
    pub after: Option<&'a str>,
    /// At most so many entries.
    pub limit: Option<usize>,
    /// As they were at this revision; `None` is now.
    pub at: Option<Revision>,
    /// How many there are in all, limit or not, if the caller knows it or does not care; `None` has them counted.
    pub of: Option<usize>,
}

/// What a range found, in the order of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The entries.
    pub entries: Vec<Arc<Entry>>,
    /// The revision at which they were all there together.
    pub revision: Revision,
    /// How many more there are beyond the limit: none only if there is none, and exactly so many if they were counted.
    pub remaining: usize,
}

/// Why a range or watch at a revision cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// That revision was compacted.
    #[error("the revision was compacted; the oldest that can be read is {oldest}")]
    Compacted {
        /// The oldest that is left.
        oldest: Revision,
    },
    /// That revision has not happened yet.
    #[error("the revision is in the future; the current one is {current}")]
    Future {
        /// The newest there is.
        current: Revision,
    },
    /// The backend could not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Ended {
    /// It was read too slowly and fell behind what is kept for it.
    #[error("the watch was read too slowly and was cut off")]
    Lagged,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The history it would need is gone.
    #[error("the history after the watch's last revision was compacted")]
    Compacted,
}

/// Figures for metrics. Totals count since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Objects that are there now.
    pub objects: usize,
    /// Bytes of their values.
    pub bytes: usize,
    /// Events kept for watches that start in the past.
    pub log_events: usize,
    /// Bytes that only the log and reads of the past still need.
    pub log_bytes: usize,
    /// Open watches.
    pub watchers: usize,
    /// Watches that were cut off because they were too slow.
    pub lagged: u64,
    /// Transactions that changed something.
    pub txns: u64,
    /// Durable commits; on the embedded store one commit carries a batch of transactions.
    pub commits: u64,
    /// Commits that failed.
    pub failed_commits: u64,
    /// Transactions in the largest batch so far.
    pub largest_batch: usize,
    /// Time spent in commits, in nanoseconds.
    pub commit_nanos: u64,
    /// Size of the store's file in bytes, as far as it is known.
    pub file_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: &'static str) -> Entry {
        Entry::stamped("a/b".into(), &Bytes::from_static(value.as_bytes()), Revision(3), Revision(7), 0)
    }

    #[test]
    fn a_memo_is_made_once_and_shared() {
        let entry = entry("x");
        let first = entry.memo(|entry| entry.value.len());
        let second = entry.memo(|_| -> usize { panic!("made twice") });
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn a_second_type_does_not_take_the_memo_of_the_first() {
        let entry = entry("x");
        let first = entry.memo(|_| 1_u8);
        assert_eq!(*entry.memo(|_| "other"), "other");
        assert!(Arc::ptr_eq(&first, &entry.memo(|_| 2_u8)));
    }

    #[test]
    fn a_deleted_entry_has_the_revision_of_its_delete_in_its_bytes() {
        let before = Arc::new(entry(r#"{"metadata":{"resourceVersion":"","uid":"u"}}"#));
        let event = Event::delete(before.clone(), Revision(1234), 1);
        assert_eq!(event.entry.value, r#"{"metadata":{"resourceVersion":"1234","uid":"u"}}"#);
        assert_eq!((event.entry.created, event.revision()), (Revision(3), Revision(1234)));
        assert_eq!(before.value, r#"{"metadata":{"resourceVersion":"7","uid":"u"}}"#, "the old version is as it was");
    }

    #[test]
    fn a_prefix_covers_whole_segments_only() {
        assert!(covers("a/", "a/b") && covers("", "a/b") && covers("a/b", "a/b"));
        assert!(!covers("a", "a/b") && !covers("a/b", "a/bc") && !covers("a/", "ab/c"));
    }
}
