//! What the server does by itself: it lets Events expire and deleted ranges of Services go, mends what is written of addresses and
//! ports, and makes again what is always there, as kube-apiserver does; unless that is left to kube-controller-manager, it collects
//! what lost its owners, empties deleted namespaces and furnishes new ones; and, apart from that, it publishes where it is
//! ([`endpoints`]).
//!
//! An [`Index`] of everything is built from a snapshot and kept by [`Watches`]. What a change makes necessary
//! becomes tasks in a [`Queue`]; a task is decided on what is in memory at that moment, and done by requests ([`hand`]), each
//! under the condition that the object is still as it was when that was decided. So any number of servers can do this over one
//! store at the same time: who loses a race has nothing to do, or hears of it by the watch. When the watch is lost, everything
//! begins again with a new snapshot.

mod capacity;
mod collect;
mod emptying;
mod endpoints;
mod expiry;
mod furnishing;
mod hand;
mod index;
mod owners;
mod place;
mod queue;
mod ranges;
mod seen;
mod watches;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use serde_json::{Value, json};
use store::{Ended, Entry, Key, Range, RangeError, StoreError, What};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info, warn};

use self::capacity::Capacities;
use self::collect::{Deed, Judge};
pub(crate) use self::endpoints::publish;
use self::expiry::Expiry;
use self::hand::{Hand, Refused};
use self::index::{EVENTS, Index, Todo};
use self::owners::Policy;
use self::place::Place;
use self::queue::Queue;
use self::ranges::Ranges;
use self::seen::Seen;
use self::watches::Watches;
use crate::front::Shutdown;
use crate::machinery::Machinery;
use crate::registry::grants::Grant;
use crate::registry::services::{Mended, Mending, Suspect, mend};

/// How many tasks are under way at a time.
const MOST_TASKS: usize = 32;

/// How many requests one task has under way at a time: enough for the store to write them together.
const AT_A_TIME: usize = 64;

/// How many tasks are decided before others get to run, and how many entries of a snapshot are read.
const MOST_DECISIONS: usize = 256;

/// How many Events expire together.
const MOST_EXPIRED: usize = 1000;

/// When something is tried again that the store did not take.
const RETRY: Duration = Duration::from_secs(1);

/// When something is tried again that is always there and cannot be made. What stands in its way may go without an event.
const PREPARE_AGAIN: Duration = Duration::from_secs(10);

/// When people are told about changes that change nothing else.
const SOON: Duration = Duration::from_secs(1);

/// When something is looked at again that people have to decide. Upstream looks at everything as often.
const LOOK_AGAIN: Duration = Duration::from_mins(3);

/// The last part of the key of the `ConfigMap` with the authorities.
const AUTHORITY: &str = "/kube-root-ca.crt";

/// Something to look at, and to do if it is necessary.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Task {
    /// An object with owners, which may be gone.
    Judge(Key),
    /// A deleted owner that waits for its dependents.
    Release(Key),
    /// A namespace that is being deleted.
    Empty(String),
    /// A namespace that stays.
    Furnish(String),
    /// An Event whose time has come.
    Expire(Key),
    /// A range of Services that is being deleted.
    Leave(Key),
    /// What is written of something that Services have may not be what they say.
    Mend(Suspect),
    /// What is always there, and something of it is not.
    Prepare,
    /// What the ranges say of how much of them is in use.
    Capacity,
}

/// What became of a task.
enum Done {
    /// It is done, or somebody else did it.
    Well,
    /// It could not be done now, for that reason, and is to be tried again when so much time has passed.
    Again(Duration, String),
    /// A namespace was looked through.
    Emptied { namespace: String, outcome: emptying::Outcome },
    /// It was not done.
    Refused(Refused),
}

type Job = Pin<Box<dyn Future<Output = (Task, Done)> + Send>>;

/// Tends the store until the shutdown begins or the store is closed.
pub(crate) async fn tend(machinery: Arc<Machinery>, shutdown: Shutdown) {
    let hand = Hand::new(machinery, shutdown.clone());
    loop {
        let ended = tokio::select! {
            () = shutdown.begun() => return,
            ended = Tending::new(hand.clone()).run() => ended,
        };
        match ended {
            RangeError::Store(StoreError::Closed) => return,
            why => info!(%why, "the watch of everything was lost; it begins again"),
        }
        tokio::select! {
            () = shutdown.begun() => return,
            () = sleep(RETRY) => {}
        }
    }
}

/// The work from one snapshot on.
struct Tending {
    hand: Hand,
    index: Index,
    expiry: Expiry,
    ranges: Ranges,
    capacities: Capacities,
    queue: Queue<Task>,
    judge: Judge,
    jobs: FuturesUnordered<Job>,
}

impl Tending {
    fn new(hand: Hand) -> Self {
        Self {
            hand,
            index: Index::default(),
            expiry: Expiry::default(),
            ranges: Ranges::default(),
            capacities: Capacities::default(),
            queue: Queue::new(),
            judge: Judge::default(),
            jobs: FuturesUnordered::new(),
        }
    }

    /// Works until the watch is lost, and says why it was.
    async fn run(mut self) -> RangeError {
        let mut watches = match self.begin().await {
            Ok(watches) => watches,
            Err(error) => return error,
        };
        loop {
            let more = self.start();
            let due = self.queue.due().into_iter().chain(self.expiry.next()).min();
            tokio::select! {
                events = watches.next() => match events {
                    Ok(events) => {
                        let mut concerned = false;
                        for event in &events {
                            concerned |= self.note(event.what, &event.entry, Duration::ZERO);
                        }
                        if concerned {
                            self.suspect();
                        }
                    }
                    Err(Ended::Closed) => return StoreError::Closed.into(),
                    Err(Ended::Lagged | Ended::Compacted) => {
                        return RangeError::Compacted { oldest: self.hand.store().compacted() };
                    }
                },
                Some((task, done)) = self.jobs.next() => self.finish(&task, done),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    let now = Instant::now();
                    self.queue.advance(now);
                    for key in self.expiry.expired(now, MOST_EXPIRED) {
                        self.queue.now(Task::Expire(key));
                    }
                }
                () = tokio::task::yield_now(), if more => {}
            }
        }
    }

    /// Takes in everything that is there.
    async fn begin(&mut self) -> Result<Watches, RangeError> {
        let page = self.hand.store().range(Range::default()).await?;
        let now = Timestamp::now();
        for entries in page.entries.chunks(MOST_DECISIONS) {
            for entry in entries {
                let age = if entry.key.starts_with(EVENTS) { age(entry, now) } else { Duration::ZERO };
                self.note(What::Put, entry, age);
            }
            tokio::task::yield_now().await;
        }
        // What is gone by now has no event.
        self.queue.now(Task::Prepare);
        // What is suspect from the start is no news later.
        let ledger = &self.hand.around().ledger;
        for suspect in ledger.disagreements().into_iter().chain(ledger.suspects()) {
            self.queue.now(Task::Mend(suspect));
        }
        debug!(objects = page.entries.len(), revision = %page.revision, "tending what is there");
        Watches::begin(self.hand.store(), self.hand.is_tended(), page.revision)
    }

    /// Looks what has become suspect.
    fn suspect(&mut self) {
        for suspect in self.hand.around().ledger.suspects() {
            self.queue.now(Task::Mend(suspect));
        }
    }

    /// Takes in a change that happened so long ago. Says whether it can have made something of Services suspect.
    fn note(&mut self, what: What, entry: &Entry, age: Duration) -> bool {
        if entry.key.starts_with(EVENTS) {
            match what {
                What::Put => {
                    let left = self.hand.event_ttl().saturating_sub(age);
                    self.expiry.set(&entry.key, Instant::now() + left);
                }
                What::Delete => self.expiry.forget(&entry.key),
            }
        }
        let concerns_services = ranges::concerns_services(&entry.key);
        if concerns_services {
            self.note_service(what, entry);
        }
        if !self.hand.is_tended() {
            return concerns_services;
        }
        let mut todo = Todo::default();
        self.index.note(what, &entry.key, &entry.value, &mut todo);
        self.hand.show_emptying(self.index.emptying());
        for task in todo.now {
            self.queue.now(task);
        }
        for task in todo.soon {
            self.queue.at(Instant::now() + SOON, task);
        }
        concerns_services
    }

    /// Takes in a change of a Service, of something that Services are given, or of a range of that.
    fn note_service(&mut self, what: What, entry: &Entry) {
        for key in self.ranges.note(what, &entry.key, &entry.value) {
            self.queue.now(Task::Leave(key));
        }
        if self.hand.concerns_ranges(what, entry) {
            self.queue.now(Task::Prepare);
        }
        let grant = Grant::of(&entry.key);
        if self.hand.is_tended() && ranges::counts(&entry.key) {
            let now = Instant::now();
            self.capacities.note(what, &entry.key, &entry.value, now);
            self.queue.at(now + SOON, Task::Capacity);
        }
        // What it says of its Service may have been changed. Of what is gone the ledger tells.
        if let (What::Put, Some(grant)) = (what, grant) {
            self.queue.now(Task::Mend(Suspect::Grant(grant)));
        }
        let is_missed = ranges::is_always_there(&entry.key) || grant.is_some_and(|grant| self.hand.is_first(grant));
        if what == What::Delete && is_missed {
            self.queue.now(Task::Prepare);
        }
    }

    /// Decides tasks and starts them. Says whether there are more that could be started.
    fn start(&mut self) -> bool {
        for _ in 0..MOST_DECISIONS {
            if self.queue.under_way() >= MOST_TASKS {
                return false;
            }
            let Some(task) = self.queue.take() else { return false };
            match self.decide(&task) {
                Some(job) => self.jobs.push(job),
                None => self.queue.done(&task),
            }
        }
        true
    }

    /// What there is to do about a task now.
    fn decide(&mut self, task: &Task) -> Option<Job> {
        let (hand, store) = (self.hand.clone(), self.hand.store());
        let name = task.clone();
        let deed = |deed: Deed| -> Job { Box::pin(async move { (name, deed.perform(&hand).await.into()) }) };
        match task {
            Task::Judge(key) => self.judge.dependent(store, &self.index, key).map(deed),
            Task::Release(key) => collect::owner(store, &self.index, key).map(deed),
            Task::Expire(key) => {
                let (place, entry) = (Place::of(key)?, store.get(key)?);
                let (task, hand, seen) = (task.clone(), self.hand.clone(), Seen::of(&entry.value));
                let same = json!({"uid": seen.uid, "resourceVersion": seen.resource_version});
                let options = collect::options(Policy::Background, &same);
                Some(Box::pin(async move { (task, hand.delete(&place, &options, "expired").await.into()) }))
            }
            Task::Leave(key) => {
                let (task, hand, leave) = (task.clone(), self.hand.clone(), ranges::leave(&self.hand, key)?);
                Some(Box::pin(async move { (task, leave.perform(&hand).await.into()) }))
            }
            Task::Mend(suspect) => {
                let (task, hand) = (task.clone(), self.hand.clone());
                match mend(hand.around(), suspect) {
                    Ok(Mending::Nothing) => None,
                    Ok(Mending::Later(time)) => {
                        self.queue.at(Instant::now() + time, task);
                        None
                    }
                    Ok(Mending::Now(mend)) => Some(Box::pin(async move {
                        let done = match mend.perform(hand.around()).await {
                            Ok(Mended::Well) => Done::Well,
                            // It is told for as long as it is so.
                            Ok(Mended::Told) => Done::Again(LOOK_AGAIN, "people have to decide".to_owned()),
                            // What has changed need not have made it suspect once more.
                            Ok(Mended::Lost) => Done::Again(Duration::ZERO, "it has changed".to_owned()),
                            Err(failure) => Done::Refused(failure.into()),
                        };
                        (task, done)
                    })),
                    Err(failure) => Some(Box::pin(std::future::ready((task, Done::Refused(failure.into()))))),
                }
            }
            Task::Prepare => {
                let (task, hand) = (task.clone(), self.hand.clone());
                Some(Box::pin(async move {
                    match hand.prepare().await {
                        Ok(None) => (task, Done::Well),
                        Ok(Some(why)) => (task, Done::Again(PREPARE_AGAIN, why)),
                        Err(refused) => (task, Done::Refused(refused)),
                    }
                }))
            }
            Task::Capacity => {
                let due = self.capacities.due(&self.hand.around().ledger.usage(), Instant::now());
                if let Some(next) = due.next {
                    self.queue.at(next, Task::Capacity);
                }
                if due.now.is_empty() {
                    return None;
                }
                let (task, hand) = (task.clone(), self.hand.clone());
                Some(Box::pin(async move {
                    let all = due.now.iter().map(|(key, is)| capacity::tell(&hand, key, is));
                    let done = futures_util::future::try_join_all(all).await;
                    (task, done.map(|_| ()).into())
                }))
            }
            Task::Furnish(namespace) => {
                let missing = furnishing::missing(store, namespace, self.hand.authority());
                if missing.is_empty() {
                    return None;
                }
                let (task, hand, namespace) = (task.clone(), self.hand.clone(), namespace.clone());
                Some(Box::pin(async move {
                    for one in missing {
                        match one.make(&hand, &namespace).await {
                            Err(refused) if !refused.is_lost_race() => return (task, Done::Refused(refused)),
                            _ => {}
                        }
                    }
                    (task, Done::Well)
                }))
            }
            Task::Empty(namespace) => {
                let (task, hand, namespace) = (task.clone(), self.hand.clone(), namespace.clone());
                Some(Box::pin(async move {
                    match emptying::empty(&hand, &namespace).await {
                        Ok(outcome) => (task, Done::Emptied { namespace, outcome }),
                        Err(refused) => (task, Done::Refused(refused)),
                    }
                }))
            }
        }
    }

    fn finish(&mut self, task: &Task, done: Done) {
        self.queue.done(task);
        match done {
            Done::Well => {}
            Done::Again(time, why) => {
                debug!(?task, why, "it will be tried again");
                self.queue.at(Instant::now() + time, task.clone());
            }
            Done::Emptied { namespace, outcome } => {
                self.index.counted(&namespace, outcome.left);
                if let Some(again) = outcome.again {
                    self.queue.at(Instant::now() + again, task.clone());
                }
            }
            // Whoever was faster has left an event, and with it a new task if there is still something to do.
            Done::Refused(refused) if refused.is_lost_race() => {}
            Done::Refused(refused) if refused.passes() => {
                debug!(?task, why = refused.message, "it will be tried again");
                self.queue.at(Instant::now() + RETRY, task.clone());
            }
            Done::Refused(refused) => warn!(?task, why = refused.message, "it cannot be done"),
        }
    }
}

impl From<Result<(), Refused>> for Done {
    fn from(result: Result<(), Refused>) -> Self {
        result.map_or_else(Self::Refused, |()| Self::Well)
    }
}

/// How long ago an Event that is there was written.
fn age(entry: &Entry, now: Timestamp) -> Duration {
    serde_json::from_slice::<Value>(&entry.value).map(|event| expiry::age(&event, now)).unwrap_or_default()
}

/// The present, as objects say it.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
