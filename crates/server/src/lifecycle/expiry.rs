//! When Events expire: some time after their last write.
//!
//! The store does not keep when an entry was written. Of an Event that is written while we watch we know it; of one that
//! was there before, the newest time in it is the best guess, and never one that lies in the future.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use store::Key;
use tokio::time::Instant;

/// The times at which Events expire.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    order: BTreeSet<(Instant, Key)>,
    times: HashMap<Key, Instant>,
}

impl Expiry {
    /// It expires at that time, and no other.
    pub(super) fn set(&mut self, key: &Key, at: Instant) {
        self.forget(key);
        self.order.insert((at, key.clone()));
        self.times.insert(key.clone(), at);
    }

    /// It is gone.
    pub(super) fn forget(&mut self, key: &Key) {
        if let Some(at) = self.times.remove(key) {
            self.order.remove(&(at, key.clone()));
        }
    }

    /// When the next one expires.
    pub(super) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes out those that have expired, at most so many.
    pub(super) fn expired(&mut self, now: Instant, most: usize) -> Vec<Key> {
        let due: Vec<_> = self.order.iter().take_while(|(at, _)| *at <= now).take(most).cloned().collect();
        for due in &due {
            self.order.remove(due);
            self.times.remove(&due.1);
        }
        due.into_iter().map(|(_, key)| key).collect()
    }
}

/// How long ago an Event was written at least once, by the newest time in it.
pub(super) fn age(event: &Value, now: Timestamp) -> Duration {
    let times = [
        &event["metadata"]["creationTimestamp"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["series"]["lastObservedTime"],
    ];
    let newest = times.into_iter().filter_map(|time| time.as_str()?.parse::<Timestamp>().ok()).max();
    newest.and_then(|newest| Duration::try_from(now.duration_since(newest)).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_write_puts_the_end_off() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let (a, b): (Key, Key) = ("events/n/a".into(), "events/n/b".into());
        let mut expiry = Expiry::default();
        expiry.set(&a, at(1));
        expiry.set(&b, at(2));
        expiry.set(&a, at(3));
        assert_eq!(expiry.next(), Some(at(2)));
        assert_eq!(expiry.expired(at(2), 9), [b]);
        assert!(expiry.expired(at(2), 9).is_empty());
        expiry.forget(&a);
        assert_eq!(expiry.next(), None);
    }

    #[test]
    fn the_newest_time_of_an_event_counts_and_the_future_does_not() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let event =
            |last: &str| json!({"metadata": {"creationTimestamp": "2026-01-01T11:00:00Z"}, "lastTimestamp": last});
        assert_eq!(age(&event("2026-01-01T11:30:00Z"), now), Duration::from_mins(30));
        assert_eq!(age(&event("nonsense"), now), Duration::from_hours(1));
        assert_eq!(age(&event("2027-01-01T11:30:00Z"), now), Duration::ZERO);
        assert_eq!(age(&json!({}), now), Duration::ZERO);
    }
}
