//! What a store on etcd lets others know: counts, times, and whether writes work.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;

use crate::types::{Revision, Stats, StoreError};

#[derive(Debug, Default)]
pub(super) struct Figures {
    txns: AtomicU64,
    failed: AtomicU64,
    nanos: AtomicU64,
    size: AtomicU64,
}

impl Figures {
    /// A transaction changed something, and etcd took so long for it.
    pub(super) fn committed(&self, took: Duration) {
        self.txns.fetch_add(1, Relaxed);
        self.nanos.fetch_add(took.as_nanos() as u64, Relaxed);
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    /// How large the database of a member is.
    pub(super) fn size(&self, bytes: i64) {
        self.size.store(bytes.try_into().unwrap_or(0), Relaxed);
    }

    pub(super) fn fill(&self, stats: &mut Stats) {
        let txns = self.txns.load(Relaxed);
        // How many of them etcd puts into one of its own commits is not known here.
        (stats.txns, stats.commits, stats.largest_batch) = (txns, txns, usize::from(txns > 0));
        stats.failed_commits = self.failed.load(Relaxed);
        stats.commit_nanos = self.nanos.load(Relaxed);
        stats.file_bytes = self.size.load(Relaxed);
    }
}

/// Why writes cannot be taken now, as far as that is known without trying.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    watch: Mutex<Option<String>>,
    alarm: Mutex<Option<String>>,
    fallen_back: OnceLock<String>,
}

impl Trouble {
    /// What is wrong with the watch, if something is. Says whether that is news.
    pub(super) fn watch(&self, why: Option<String>) -> bool {
        let is = why.is_some();
        let before = std::mem::replace(&mut *self.watch.lock(), why);
        before.is_some() != is
    }

    /// What etcd says is wrong with itself, if something is.
    pub(super) fn alarm(&self, why: Option<String>) {
        *self.alarm.lock() = why;
    }

    /// etcd is at `now` and was at `seen` before: what was acknowledged since then is gone, and revisions mean something
    /// else from there on. There is no way back from this for what the mirror and its readers have seen.
    pub(super) fn fall_back(&self, now: Revision, seen: Revision) -> StoreError {
        let why = self.fallen_back.get_or_init(|| {
            let why = format!(
                "etcd is at revision {now}, but it was at {seen} before: it has lost data or was restored from an older \
                 backup; restart Cadastre when etcd is as it should be"
            );
            tracing::error!("{why}");
            why
        });
        StoreError::Corrupt(why.clone())
    }

    /// Whether what is written now would mean what the writer thinks.
    pub(super) fn sound(&self) -> Result<(), StoreError> {
        self.fallen_back.get().map_or(Ok(()), |why| Err(StoreError::Corrupt(why.clone())))
    }

    pub(super) fn health(&self) -> Result<(), String> {
        let passing = || self.watch.lock().clone().or_else(|| self.alarm.lock().clone());
        self.fallen_back.get().cloned().or_else(passing).map_or(Ok(()), Err)
    }
}
