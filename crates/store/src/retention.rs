//! How much history is kept, and when the rest is due to go.
//!
//! Knows time only as it is told; the backends ask it what to compact and do it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::mirror::Mirror;
use crate::types::Revision;

/// The most marks that are kept: one per step of `age / MARKS`.
const MARKS: u32 = 64;

/// How much history is kept for watches and reads that start in the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// What is younger than this is kept, however much it is, up to `bytes`.
    pub age: Duration,
    /// What is older is kept as long as there are no more events than this: a quiet store remembers for long.
    pub events: usize,
    /// History never takes more memory than this, however young it is.
    pub bytes: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Duration::from_mins(5), events: 100_000, bytes: 256 << 20 }
    }
}

/// Remembers which revision was the newest when, coarsely.
#[derive(Debug)]
pub(crate) struct Ageing {
    retention: Retention,
    marks: VecDeque<(Instant, Revision)>,
}

impl Ageing {
    pub(crate) const fn new(retention: Retention) -> Self {
        Self { retention, marks: VecDeque::new() }
    }

    /// The revision to compact to at `now`, if something is due.
    pub(crate) fn due(&mut self, now: Instant, mirror: &Mirror) -> Option<Revision> {
        let step = self.retention.age / MARKS;
        if self.marks.back().is_none_or(|&(at, _)| now.duration_since(at) >= step) {
            self.marks.push_back((now, mirror.revision()));
        }
        let mut aged = Revision::default();
        while let Some(&(at, revision)) = self.marks.front()
            && now.duration_since(at) >= self.retention.age
            && self.marks.len() > 1
        {
            aged = revision;
            // The newest aged mark stays: it says what is old enough until the next one is.
            if self.marks.get(1).is_none_or(|&(at, _)| now.duration_since(at) < self.retention.age) {
                break;
            }
            self.marks.pop_front();
        }
        let history = mirror.history();
        let by_age = mirror.beyond_newest(self.retention.events).map(|beyond| beyond.min(aged));
        // Half of it goes, so that this does not come back with the next write.
        let by_bytes =
            (history.bytes > self.retention.bytes).then(|| mirror.beyond_newest(history.events / 2)).flatten();
        by_age.max(by_bytes).filter(|&to| to > mirror.compacted())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::hub::WatchLimits;
    use crate::types::{Entry, Event};

    const MINUTE: Duration = Duration::from_mins(1);

    fn put(mirror: &Mirror, revision: u64) {
        let value = Bytes::from_static(&[0; 1000]);
        let entry = Arc::new(Entry::stamped("a".into(), &value, Revision(1), Revision(revision), 0));
        let event = Event::put(entry, mirror.get("a"));
        mirror.apply(vec![Arc::new(event)], Revision(revision)).wake();
    }

    /// One write a second for twenty minutes; what is due is compacted at once. The lowest and highest number of events kept
    /// in the last ten minutes.
    fn kept(retention: Retention) -> (usize, usize) {
        let mirror = Mirror::new(WatchLimits::default(), Revision(0), []);
        let (mut ageing, begin) = (Ageing::new(retention), Instant::now());
        let (mut least, mut most) = (usize::MAX, 0);
        for second in 1..=20 * 60 {
            put(&mirror, second);
            if let Some(due) = ageing.due(begin + Duration::from_secs(second), &mirror) {
                mirror.compact(due);
            }
            if second > 10 * 60 {
                least = least.min(mirror.history().events);
                most = most.max(mirror.history().events);
            }
        }
        (least, most)
    }

    #[test]
    fn what_is_young_is_kept_and_what_is_old_goes() {
        let (least, most) = kept(Retention { age: 5 * MINUTE, events: 0, bytes: usize::MAX });
        assert!(least >= 300, "{least} events are left of five minutes");
        assert!(most <= 320, "{most} events are kept for five minutes");
    }

    #[test]
    fn what_is_old_is_kept_while_it_is_little() {
        let (least, most) = kept(Retention { age: MINUTE, events: 450, bytes: usize::MAX });
        assert!(least >= 450 && most <= 460, "{least} to {most} events are kept");
    }

    #[test]
    fn memory_is_bounded_however_young_it_is() {
        let (least, most) = kept(Retention { age: 60 * MINUTE, events: usize::MAX, bytes: 100_000 });
        assert!(most <= 100 && least >= 30, "{least} to {most} events are kept in 100 kB");
    }

    #[test]
    fn a_store_at_rest_is_not_compacted_for_its_age_alone() {
        let mirror = Mirror::new(WatchLimits::default(), Revision(0), []);
        let (mut ageing, begin) = (Ageing::new(Retention::default()), Instant::now());
        put(&mirror, 1);
        for minute in 0..100 {
            assert_eq!(ageing.due(begin + minute * MINUTE, &mirror), None);
        }
        assert!(ageing.marks.len() <= MARKS as usize + 2, "{} marks are kept", ageing.marks.len());
    }
}
