//! What nodes had that are gone: one that comes back under its name soon enough gets its blocks again, if they are still free
//! and it would be served from the same range anyhow.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use space::{Moment, Reservation};

/// How many nodes are remembered. Beyond it the ones closest to their end are forgotten.
const LIMIT: usize = 1 << 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Sticky {
    had: HashMap<Arc<str>, (Reservation, Moment)>,
    queue: BTreeSet<(Moment, Arc<str>)>,
}

impl Sticky {
    /// Remembers what a node had.
    pub(super) fn remember(&mut self, name: &Arc<str>, had: Reservation, until: Moment) {
        self.forget(name);
        self.had.insert(Arc::clone(name), (had, until));
        self.queue.insert((until, Arc::clone(name)));
        if self.had.len() > LIMIT
            && let Some((_, soonest)) = self.queue.first().cloned()
        {
            self.forget(&soonest);
        }
    }

    /// What a node of that name had.
    pub(super) fn had(&self, name: &str) -> Option<Reservation> {
        self.had.get(name).map(|(had, _)| *had)
    }

    pub(super) fn forget(&mut self, name: &Arc<str>) {
        if let Some((_, until)) = self.had.remove(name) {
            self.queue.remove(&(until, Arc::clone(name)));
        }
    }

    /// Forgets those whose moment has come.
    pub(super) fn pass_time(&mut self, now: Moment) {
        while let Some((until, name)) = self.queue.first().cloned() {
            if until > now {
                return;
            }
            self.forget(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Reservation = Reservation { v4: None, v6: None };

    #[test]
    fn memory_ends_when_it_is_time_or_there_is_too_much() {
        let mut sticky = Sticky::default();
        let name = |index: usize| Arc::<str>::from(format!("n{index}"));
        for index in 0..=LIMIT {
            sticky.remember(&name(index), NOTHING, Moment(10 + index as u64));
        }
        assert_eq!((sticky.had("n0"), sticky.had("n1")), (None, Some(NOTHING)));
        sticky.remember(&name(1), NOTHING, Moment(1 << 40));
        sticky.pass_time(Moment(1 << 30));
        assert_eq!((sticky.had.len(), sticky.queue.len(), sticky.had("n1")), (1, 1, Some(NOTHING)));
    }
}
