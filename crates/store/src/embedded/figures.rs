//! What the writer lets others know: counts, times, and whether writes work.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;

use crate::types::Stats;

#[derive(Debug, Default)]
pub(crate) struct Figures {
    txns: AtomicU64,
    commits: AtomicU64,
    failed_commits: AtomicU64,
    largest_batch: AtomicUsize,
    commit_nanos: AtomicU64,
    trouble: Mutex<Option<String>>,
}

impl Figures {
    pub(crate) fn committed(&self, txns: usize, took: Duration) {
        self.txns.fetch_add(txns as u64, Relaxed);
        self.commits.fetch_add(1, Relaxed);
        self.largest_batch.fetch_max(txns, Relaxed);
        self.commit_nanos.fetch_add(took.as_nanos() as u64, Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failed_commits.fetch_add(1, Relaxed);
    }

    /// Says why writes do not work, or that they do.
    pub(crate) fn set_health(&self, trouble: Option<String>) {
        *self.trouble.lock() = trouble;
    }

    pub(crate) fn health(&self) -> Result<(), String> {
        self.trouble.lock().clone().map_or(Ok(()), Err)
    }

    pub(crate) fn fill(&self, stats: &mut Stats) {
        stats.txns = self.txns.load(Relaxed);
        stats.commits = self.commits.load(Relaxed);
        stats.failed_commits = self.failed_commits.load(Relaxed);
        stats.largest_batch = self.largest_batch.load(Relaxed);
        stats.commit_nanos = self.commit_nanos.load(Relaxed);
    }
}
