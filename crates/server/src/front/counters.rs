//! What happened at the door, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(super) fn increase(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it happened.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts of everything that came, and of every limit that was hit.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that were accepted.
    pub accepted: Counter,
    /// Connections that ended.
    pub ended: Counter,
    /// Times that the next connection had to wait for one to end.
    pub full: Counter,
    /// Handshakes that failed: no TLS, a certificate of somebody else, a client that does not trust ours.
    pub handshakes_failed: Counter,
    /// Handshakes that took too long.
    pub handshakes_timed_out: Counter,
    /// Connections cut because the client took no more bytes.
    pub stalled: Counter,
    /// Requests that were refused at the door: an unknown token, an impersonation that is not allowed.
    pub refused: Counter,
    /// Requests whose handler panicked.
    pub panics: Counter,
}

impl Counters {
    /// Connections that are open now.
    pub fn open(&self) -> u64 {
        self.accepted.get().saturating_sub(self.ended.get())
    }
}
