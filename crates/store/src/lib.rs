//! Revisioned objects, multi-key transactions and watches, embedded or on etcd.
//!
//! A [`Store`] keeps entries under slash-separated keys. Every transaction that changes something takes the next
//! [`Revision`], and with it the entries it wrote are stamped; there is one history, and it can be read as it was at any
//! revision, or watched from one, until it is compacted. A transaction that was answered is durable.
//!
//! Two backends keep the truth: [`embedded`], a file of this process with one writer and group commit, and [`etcd`]. Both feed the
//! same mirror in memory, from which all reads and watches are answered. The store knows nothing of Kubernetes but the one
//! field that it stamps: see [`Entry::value`].

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod embedded;
pub mod etcd;
mod hub;
mod mirror;
mod retention;
mod stamp;
mod types;
mod watch;

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use hub::WatchLimits;
pub use retention::Retention;
pub use types::{
    Compare, Ended, Entry, Event, Key, Outcome, Page, Range, RangeError, Revision, Stats, StoreError, Txn, What, Write,
};
pub use watch::Watch;

use mirror::Mirror;

/// The most bytes of keys and values that one transaction may carry. etcd takes requests of 1.5 MiB; what is missing to
/// that is room for its framing.
pub const TXN_BYTES: usize = 1_500_000;

/// The most compares, and the most writes, that one transaction may have. etcd's default limit.
pub const TXN_OPS: usize = 128;

/// What a backend's operation comes to.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where the truth is kept. A backend makes transactions durable and feeds the mirror; reads never come here, except those of
/// a past that the mirror does not have.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Decides a transaction. Its shape was checked. The mirror has what was committed, or what refused it, before this
    /// answers; a mirror that lags behind for long is not waited for, because what happened has happened.
    fn txn(&self, txn: Txn) -> Answer<'_, Result<Outcome, StoreError>>;
    /// Once answered, the mirror has everything that was acknowledged, by anybody, before the call.
    fn settle(&self) -> Answer<'_, Result<Revision, StoreError>>;
    /// A range at a revision that is older than the mirror's memory.
    fn past_range<'a>(&'a self, range: Range<'a>, oldest: Revision) -> Answer<'a, Result<Page, RangeError>>;
    /// Forgets the history up to a revision, which is not in the future.
    fn compact(&self, to: Revision) -> Answer<'_, Result<(), StoreError>>;
    /// Writes a copy of the store to a new file.
    fn backup<'a>(&'a self, to: &'a Path) -> Answer<'a, Result<(), StoreError>>;
    /// Why writes cannot be taken now.
    fn health(&self) -> Result<(), String>;
    /// Fills in the figures that the mirror does not know.
    fn stats(&self, stats: &mut Stats);
    /// Stops. What was taken before is still decided and answered; what comes later is answered [`StoreError::Closed`].
    fn close(&self) -> Answer<'_, ()>;
}

/// A store, whichever backend keeps it. Clones are the same store.
#[derive(Clone)]
pub struct Store {
    mirror: Arc<Mirror>,
    backend: Arc<dyn Backend>,
}

impl Store {
    pub(crate) fn new(mirror: Arc<Mirror>, backend: Arc<dyn Backend>) -> Self {
        Self { mirror, backend }
    }

    /// Decides a transaction: all of its compares hold and all of its writes happen, or nothing does. The answer comes when
    /// what it says is durable and visible to reads of this store. On etcd, a mirror that has trouble to keep up holds the
    /// answer back for a second at most: reads see it later then, and [`Store::settle`] waits until they do.
    pub async fn txn(&self, txn: Txn) -> Result<Outcome, StoreError> {
        accept(&txn)?;
        self.backend.txn(txn).await
    }

    /// Once it returns, reads see everything that was acknowledged before the call, also by other replicas.
    pub async fn settle(&self) -> Result<Revision, StoreError> {
        self.backend.settle().await
    }

    /// The entry at a key.
    pub fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.mirror.get(key)
    }

    /// The entries that a range covers, all as they were at one revision.
    pub async fn range(&self, range: Range<'_>) -> Result<Page, RangeError> {
        match self.mirror.range(range) {
            Err(RangeError::Compacted { oldest }) => self.backend.past_range(range, oldest).await,
            answer => answer,
        }
    }

    /// The revision that reads see.
    pub fn revision(&self) -> Revision {
        self.mirror.revision()
    }

    /// The oldest revision after which a watch can start.
    pub fn compacted(&self) -> Revision {
        self.mirror.compacted()
    }

    /// Waits until reads see `revision`; false if that takes too long.
    pub async fn reached(&self, revision: Revision, within: Duration) -> bool {
        let begin = Instant::now();
        if self.revision() < revision {
            // It may have changed nothing here, and then the mirror hears of it only because it asks.
            let _ = tokio::time::timeout(within, self.settle()).await;
        }
        self.mirror.reached(revision, within.saturating_sub(begin.elapsed())).await
    }

    /// The events after a revision under a prefix (`configmaps/`, `configmaps/ns/`), of one exact key, or all if empty:
    /// history first, then live, without gap or repeat.
    pub fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, RangeError> {
        self.mirror.watch(prefix, after)
    }

    /// Forgets the history up to a revision: it can still be read at, and watched after, what was before cannot. Forgetting
    /// what is forgotten already changes nothing.
    pub async fn compact(&self, to: Revision) -> Result<(), StoreError> {
        let current = self.revision();
        if to > current {
            return Err(StoreError::Invalid(format!("cannot compact to revision {to}: the current one is {current}")));
        }
        self.backend.compact(to).await
    }

    /// Writes a consistent copy to a new file while everything goes on. The embedded store only; etcd has its own.
    pub async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        self.backend.backup(to).await
    }

    /// Why writes cannot be taken now, if they cannot.
    pub fn health(&self) -> Result<(), String> {
        self.backend.health()
    }

    /// Figures for metrics.
    pub fn stats(&self) -> Stats {
        let (extent, history, hub) = (self.mirror.extent(), self.mirror.history(), self.mirror.hub());
        let mut stats = Stats {
            objects: extent.objects,
            bytes: extent.bytes,
            log_events: history.events,
            log_bytes: history.bytes,
            watchers: hub.watchers(),
            lagged: hub.lagged(),
            ..Stats::default()
        };
        self.backend.stats(&mut stats);
        stats
    }

    /// Stops the store. Watches end, writes are refused, reads of what was there go on.
    pub async fn close(&self) {
        self.backend.close().await;
        self.mirror.close();
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

/// Whether a transaction is one that every backend can take.
fn accept(txn: &Txn) -> Result<(), StoreError> {
    let count = txn.compares.len().max(txn.writes.len());
    if count > TXN_OPS {
        return Err(StoreError::TooMany { count, limit: TXN_OPS });
    }
    let size = txn.bytes();
    if size > TXN_BYTES {
        return Err(StoreError::TooLarge { size, limit: TXN_BYTES });
    }
    let keys = txn.compares.iter().map(Compare::key).chain(txn.writes.iter().map(Write::key));
    if let Some(key) = keys.into_iter().find(|key| !is_key(key)) {
        return Err(StoreError::Invalid(format!("{key:?} is no key: it is empty or has a slash at an end")));
    }
    match first_twice(&txn.writes) {
        Some(twice) => Err(StoreError::Invalid(format!("it writes {:?} twice", twice.key()))),
        None => Ok(()),
    }
}

/// The first write of a key that another one writes before it. Most transactions have few writes.
fn first_twice(writes: &[Write]) -> Option<&Write> {
    const FEW: usize = 8;
    if writes.len() <= FEW {
        let is_twice = |at: usize| writes[..at].iter().any(|other| other.key() == writes[at].key());
        return (1..writes.len()).find(|at| is_twice(*at)).map(|at| &writes[at]);
    }
    let mut written = HashSet::with_capacity(writes.len());
    writes.iter().find(|write| !written.insert(write.key()))
}

/// Whether that can name an entry.
fn is_key(key: &str) -> bool {
    !(key.is_empty() || key.starts_with('/') || key.ends_with('/'))
}
