//! Load of which everything is written down, and a judge that holds what was seen and what is there against it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use store::{Compare, Event, Outcome, Range, Revision, Store, StoreError, Txn, What, Write};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

/// How long the judge waits for something that must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What the store said of one create.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Written(Revision),
    NotWritten,
    Perhaps,
}

/// How often creates come, whatever became of those before.
const EVERY: Duration = Duration::from_millis(10);
/// How many come at once.
const BURST: usize = 2;
/// How many may be under way: none come while there are more, or a slow etcd would have ever more to do.
const UNDER_WAY: usize = 1000;

/// Creates that keep coming until they are told to stop. They do not wait for each other, so that a few which hang do not
/// hide whether new ones get through.
pub(crate) struct Load {
    store: Store,
    begin: Revision,
    stop: Arc<AtomicBool>,
    written: watch::Sender<u64>,
    /// Why the last one that failed did.
    failure: Arc<Mutex<String>>,
    coming: JoinHandle<Trail>,
}

/// What came of the creates.
#[derive(Default)]
struct Trail {
    said: HashMap<String, Said>,
    /// When each one that succeeded did.
    moments: Vec<Instant>,
}

/// What the judge found.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) written: usize,
    pub(crate) not_written: usize,
    pub(crate) perhaps: usize,
    /// The longest time in which none succeeded.
    pub(crate) outage: Duration,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { written, not_written, perhaps, outage } = self;
        write!(formatter, "{written} written, {not_written} refused, {perhaps} unknown, none for {outage:?} at most")
    }
}

impl Load {
    pub(crate) fn start(store: &Store) -> Self {
        let (stop, written, failure) = (Arc::default(), watch::Sender::new(0), Arc::default());
        let attempt = Attempt { store: store.clone(), written: written.clone(), failure: Arc::clone(&failure) };
        let coming = tokio::spawn(come(attempt, Arc::clone(&stop)));
        Self { store: store.clone(), begin: store.revision(), stop, written, failure, coming }
    }

    /// Waits until so many more creates were acknowledged.
    pub(crate) async fn more(&self, creates: u64) {
        let goal = *self.written.borrow() + creates;
        let mut written = self.written.subscribe();
        if tokio::time::timeout(PATIENCE, written.wait_for(|&written| written >= goal)).await.is_err() {
            let (health, failure) = (self.store.health(), self.failure.lock().unwrap());
            panic!("no creates any more; health: {health:?}; the last failure: {failure:?}");
        }
    }

    /// Stops the writers and judges: what was acknowledged is there and was seen once, in order; what was refused is not;
    /// what is unknown is there or not. `fresh` is a store that saw nothing of it.
    pub(crate) async fn judge(self, fresh: &Store) -> Tally {
        self.stop.store(true, Ordering::SeqCst);
        let Trail { said, mut moments } = self.coming.await.unwrap();
        moments.sort_unstable();
        let outage = moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
        let end = settled(&self.store).await;
        assert!(settled(fresh).await >= end);
        let events = seen(&self.store, self.begin, end).await;
        assert!(events.is_sorted_by_key(|event| event.revision()), "events are out of order");
        let mut there = HashMap::new();
        for event in &events {
            assert_eq!(event.what, What::Put);
            let twice = there.insert(event.entry.key.to_string(), event.revision());
            assert_eq!(twice, None, "{} was seen twice", event.entry.key);
        }
        for (key, said) in &said {
            match said {
                Said::Written(revision) => assert_eq!(there.get(key), Some(revision), "{key} was acknowledged"),
                Said::NotWritten => assert_eq!(there.get(key), None, "{key} was refused"),
                Said::Perhaps => {}
            }
        }
        assert!(there.keys().all(|key| said.contains_key(key)), "something was seen that nobody wrote");
        let stored: HashSet<_> = entries(fresh).await;
        assert_eq!(stored, entries(&self.store).await, "a fresh store has something else");
        assert_eq!(stored, there.into_iter().collect(), "what is there is not what was seen");
        let count = |wanted: fn(&Said) -> bool| said.values().filter(|said| wanted(said)).count();
        Tally {
            written: count(|said| matches!(said, Said::Written(_))),
            not_written: count(|said| *said == Said::NotWritten),
            perhaps: count(|said| *said == Said::Perhaps),
            outage,
        }
    }
}

async fn come(attempt: Attempt, stop: Arc<AtomicBool>) -> Trail {
    let (mut trail, mut under_way) = (Trail::default(), JoinSet::new());
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        tick.tick().await;
        for _ in 0..BURST.min(UNDER_WAY - under_way.len()) {
            under_way.spawn(attempt.clone().create(format!("load/{number}")));
            number += 1;
        }
        while let Some(done) = under_way.try_join_next() {
            trail.note(done.unwrap());
        }
    }
    while let Some(done) = under_way.join_next().await {
        trail.note(done.unwrap());
    }
    trail
}

impl Trail {
    fn note(&mut self, (key, said, at): (String, Said, Instant)) {
        if matches!(said, Said::Written(_)) {
            self.moments.push(at);
        }
        self.said.insert(key, said);
    }
}

/// What a create is made with and counted by.
#[derive(Clone)]
struct Attempt {
    store: Store,
    written: watch::Sender<u64>,
    failure: Arc<Mutex<String>>,
}

impl Attempt {
    async fn create(self, key: String) -> (String, Said, Instant) {
        let said = match self.store.txn(create(&key)).await {
            Ok(Outcome::Committed { revision, .. }) => {
                self.written.send_modify(|written| *written += 1);
                Said::Written(revision)
            }
            Ok(refused @ Outcome::Refused { .. }) => panic!("{key} is new, but {refused:?}"),
            Err(error @ (StoreError::Unavailable(_) | StoreError::Unknown(_))) => {
                *self.failure.lock().unwrap() = error.to_string();
                if matches!(error, StoreError::Unknown(_)) { Said::Perhaps } else { Said::NotWritten }
            }
            Err(error) => panic!("{error}"),
        };
        (key, said, Instant::now())
    }
}

/// A transaction that makes a new object.
pub(crate) fn create(key: &str) -> Txn {
    let value = format!(r#"{{"metadata":{{"name":"{key}","resourceVersion":""}}}}"#);
    Txn {
        compares: vec![Compare::Absent(key.into())],
        writes: vec![Write::Put { key: key.into(), value: value.into() }],
    }
}

/// Where the store is once it is up to date, after whatever keeps it from that is over.
pub(crate) async fn settled(store: &Store) -> Revision {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match store.settle().await {
            Ok(revision) => return revision,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

async fn seen(store: &Store, begin: Revision, end: Revision) -> Vec<Arc<Event>> {
    let mut watch = store.watch("", begin).unwrap();
    let mut events = Vec::new();
    while watch.progress().is_none_or(|through| through < end) {
        events.extend(tokio::time::timeout(PATIENCE, watch.next()).await.expect("an event is missing").unwrap());
    }
    events
}

async fn entries(store: &Store) -> HashSet<(String, Revision)> {
    let page = store.range(Range::default()).await.unwrap();
    page.entries.iter().map(|entry| (entry.key.to_string(), entry.revision)).collect()
}
