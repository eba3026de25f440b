//! The mirror against a naive model: a list of everything that ever happened, replayed for every question.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const KEYS: [&str; 8] = ["a", "a/b", "a/b/c", "a/bc", "a/x/1", "a/x/2", "b/1", "b0"];
const PREFIXES: [&str; 7] = ["", "a/", "a/b/", "a/b", "a/x/", "b/", "c/"];

#[derive(Clone, Debug)]
enum Op {
    /// Puts or deletes keys, each at most once.
    Txn(Vec<(usize, bool)>),
    /// Something happened elsewhere.
    Nothing,
    /// Compacts to this part, in percent, of what there is.
    Compact(u64),
    /// Starts over from what is there.
    Reload,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let txn = vec((0..KEYS.len(), prop::bool::weighted(0.65)), 1..5).prop_map(|mut changes| {
        changes.sort_unstable();
        changes.dedup_by_key(|change| change.0);
        Op::Txn(changes)
    });
    let op = prop_oneof![
        12 => txn,
        1 => Just(Op::Nothing),
        2 => (0..=100_u64).prop_map(Op::Compact),
        1 => Just(Op::Reload),
    ];
    vec(op, 1..30)
}

/// Everything that happened since the model began, and what cannot be known any more.
#[derive(Default)]
struct Naive {
    events: Vec<Arc<Event>>,
    revision: Revision,
    compacted: Revision,
    /// Where the log begins.
    logged_after: Revision,
}

impl Naive {
    fn at(&self, revision: Revision) -> BTreeMap<Key, Arc<Entry>> {
        let mut state = BTreeMap::new();
        for event in self.events.iter().filter(|event| event.revision() <= revision) {
            match event.what {
                What::Put => state.insert(event.entry.key.clone(), event.entry.clone()),
                What::Delete => state.remove(&event.entry.key),
            };
        }
        state
    }

    fn txn(&mut self, changes: &[(usize, bool)]) -> Vec<Arc<Event>> {
        let (before, revision) = (self.at(self.revision), self.revision.next());
        let mut events = Vec::new();
        for (&(key, puts), index) in changes.iter().zip(0..) {
            let before = before.get(KEYS[key]).cloned();
            if puts {
                let created = before.as_ref().map_or(revision, |before| before.created);
                let value = Bytes::from(format!(r#"{{"resourceVersion":"","n":{index}}}"#));
                let entry = Entry::stamped(KEYS[key].into(), &value, created, revision, index);
                events.push(Arc::new(Event::put(Arc::new(entry), before)));
            } else if let Some(before) = before {
                events.push(Arc::new(Event::delete(before, revision, index)));
            }
        }
        if !events.is_empty() {
            self.revision = revision;
        }
        self.events.extend(events.iter().cloned());
        events
    }
}

fn compare(mirror: &Mirror, naive: &Naive) -> Result<(), TestCaseError> {
    prop_assert_eq!(mirror.revision(), naive.revision);
    prop_assert_eq!(mirror.compacted(), naive.compacted);
    let now = naive.at(naive.revision);
    let bytes = now.values().map(|entry| entry.value.len()).sum();
    prop_assert_eq!(mirror.extent(), Extent { objects: now.len(), bytes });
    for key in KEYS {
        prop_assert_eq!(mirror.get(key), now.get(key).cloned());
    }
    for revision in (naive.compacted.0..=naive.revision.0).map(Revision) {
        compare_at(mirror, naive, revision)?;
    }
    let log: Vec<&Arc<Event>> = naive.events.iter().filter(|event| event.revision() > naive.logged_after).collect();
    let history = History { events: log.len(), bytes: log.iter().map(|event| log_bytes(event)).sum() };
    prop_assert_eq!(mirror.history(), history);
    if let Some(before) = naive.compacted.0.checked_sub(1).map(Revision) {
        let refused = Err(RangeError::Compacted { oldest: naive.compacted });
        prop_assert_eq!(mirror.range(Range { at: Some(before), ..Default::default() }), refused.clone());
        prop_assert_eq!(mirror.piece("", before).map(|_| ()), refused.map(|_: Page| ()));
    }
    Ok(())
}

/// Ranges at a revision, and the history after it.
fn compare_at(mirror: &Mirror, naive: &Naive, revision: Revision) -> Result<(), TestCaseError> {
    let state = naive.at(revision);
    for prefix in PREFIXES {
        let all: Vec<Arc<Entry>> = state.values().filter(|entry| covers(prefix, &entry.key)).cloned().collect();
        for (after, limit) in [(None, None), (None, Some(2)), (Some("a/b"), Some(1)), (Some("a/x/1"), None)] {
            let beyond = |entry: &&Arc<Entry>| after.is_none_or(|after| &*entry.key > after);
            let mut entries: Vec<Arc<Entry>> = all.iter().filter(beyond).cloned().collect();
            let remaining = entries.len().saturating_sub(limit.unwrap_or(usize::MAX));
            entries.truncate(limit.unwrap_or(usize::MAX));
            let range = Range { prefix, after, limit, at: Some(revision), of: None };
            let there = entries.len() + remaining;
            for (of, remaining) in [(None, remaining), (Some(there), remaining), (Some(0), remaining.min(1))] {
                let page = Page { entries: entries.clone(), revision, remaining };
                prop_assert_eq!(mirror.range(Range { of, ..range }), Ok(page), "{:?} after {:?}", prefix, after);
            }
        }
        let piece = mirror.piece(prefix, revision).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let found: Vec<_> = piece.events.iter().map(|event| (event.revision(), event.entry.clone())).collect();
        let later = naive.events.iter().filter(|event| event.revision() > revision && covers(prefix, &event.entry.key));
        let expected: Vec<_> = later.map(|event| (event.revision(), event.entry.clone())).collect();
        prop_assert_eq!(found, expected);
        prop_assert!(piece.live.is_some() && piece.upto == naive.revision);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_mirror_knows_every_revision_since_the_compaction_exactly(ops in ops()) {
        let mirror = Mirror::new(WatchLimits::default(), Revision(0), []);
        let mut naive = Naive::default();
        for op in ops {
            match op {
                Op::Txn(changes) => {
                    let events = naive.txn(&changes);
                    mirror.apply(events, naive.revision).wake();
                }
                Op::Nothing => {
                    naive.revision = naive.revision.next();
                    mirror.apply(Vec::new(), naive.revision).wake();
                }
                Op::Compact(percent) => {
                    let to = Revision(naive.revision.0 * percent / 100);
                    mirror.compact(to);
                    naive.compacted = naive.compacted.max(to);
                    naive.logged_after = naive.compacted;
                }
                Op::Reload => {
                    mirror.reload(naive.revision, naive.at(naive.revision).into_values());
                    (naive.compacted, naive.logged_after) = (naive.revision, naive.revision);
                }
            }
            compare(&mirror, &naive)?;
        }
        // Nothing is left of what was deleted once that was compacted.
        mirror.compact(naive.revision);
        let (kept, live) = (mirror.state.read().keys.len(), naive.at(naive.revision).len());
        prop_assert_eq!(kept, live);
    }

    #[test]
    fn a_step_of_compaction_is_whole_transactions_and_leads_to_the_target(
        txns in vec(1_usize..5, 0..30),
        percent in 0..=100_u64,
        most in 1_usize..10,
    ) {
        let mirror = Mirror::new(WatchLimits::default(), Revision(0), []);
        let mut naive = Naive::default();
        for count in txns {
            let changes: Vec<_> = (0..count).map(|key| (key, true)).collect();
            let events = naive.txn(&changes);
            mirror.apply(events, naive.revision).wake();
        }
        let target = Revision(naive.revision.0 * percent / 100);
        while mirror.compacted() < target {
            let (events, to) = mirror.oldest(target, most);
            prop_assert!(to > mirror.compacted() && to <= target, "{to} is a step");
            let between = |event: &&Arc<Event>| event.revision() > mirror.compacted() && event.revision() <= to;
            prop_assert_eq!(events.len(), naive.events.iter().filter(between).count());
            mirror.compact(to);
        }
    }
}
