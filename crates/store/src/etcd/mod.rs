//! The etcd backend: the same store, kept by a cluster, so that several replicas can share it.
//!
//! etcd decides transactions and keeps the history; a watch on everything below the store's prefix feeds the mirror, from
//! which all reads are answered. What a replica reads may be a moment old: [`Store::settle`] waits until it is not.
//!
//! etcd must be 3.4.31, 3.5.13 or later: see [`ConnectError::TooOld`].

mod care;
mod changes;
mod client;
mod failure;
mod figures;
mod follow;
mod gate;
mod keys;
mod load;
mod options;
mod txn;
mod version;
mod wire;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

pub use options::{ConnectError, Options, Tls};

use client::Client;
use failure::{Failure, Meaning};
use figures::{Figures, Trouble};
use follow::{Follower, Wants};
use gate::Gate;
use keys::Keys;
use load::{Place, place, snapshot};
use txn::Plan;

use crate::mirror::Mirror;
use crate::types::{Outcome, Page, Range, RangeError, Revision, Stats, StoreError, Txn};
use crate::{Answer, Backend, Store};

/// How many revisions before the current one a mirror starts, if etcd still has them, so that watches survive the restart
/// of a replica. etcd sends a thousand in a tenth of a second.
const HISTORY_AT_START: u64 = 2000;
/// How long the mirror may take to have what etcd has.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(10);
/// How long it usually takes at most until the watch has brought what a transaction wrote.
const ECHO_WITHIN: Duration = Duration::from_millis(100);
/// How much longer the answer to a transaction is held back until reads here see why it is what it is.
const VISIBLE_WITHIN: Duration = Duration::from_secs(1);

/// What the parts of the backend share.
struct Shared {
    client: Client,
    keys: Keys,
    mirror: Arc<Mirror>,
    wants: Wants,
    trouble: Trouble,
    figures: Figures,
}

/// The caller's side.
struct Etcd {
    shared: Arc<Shared>,
    settling: Arc<Gate<Result<Revision, StoreError>>>,
    tasks: [JoinHandle<()>; 2],
    closed: AtomicBool,
}

impl Store {
    /// Opens the store that an etcd cluster keeps, which is empty if there is nothing below the prefix. This reads
    /// everything that is stored and takes a moment.
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        let client = Client::new(options.resolve()?);
        let keys = Keys::new(&options.prefix);
        let unreachable = |failure: Failure| ConnectError::Unreachable(options.explain(&failure));
        let Place { cluster, revision: now } = place(&client, &keys).await.map_err(unreachable)?;
        let version = client.status().await.map_err(unreachable)?.version;
        if !version::keeps_its_promises(&version) {
            return Err(ConnectError::TooOld(version));
        }
        // etcd counts from 1.
        let past = Revision(now.0.saturating_sub(HISTORY_AT_START).max(1));
        let loaded = match snapshot(&client, &keys, past).await {
            Err(failure) if failure.meaning() == Meaning::Compacted => snapshot(&client, &keys, now).await,
            loaded => loaded,
        }
        .map_err(unreachable)?;
        let mirror = Arc::new(Mirror::new(options.watch, loaded.revision, loaded.entries));
        let shared = Arc::new(Shared {
            client,
            keys,
            mirror: mirror.clone(),
            wants: Wants::default(),
            trouble: Trouble::default(),
            figures: Figures::default(),
        });
        let follower = tokio::spawn(Follower::new(shared.clone(), cluster).run());
        let care = tokio::spawn(care::care(shared.clone(), options.retention, options.compact_every));
        let etcd =
            Etcd { shared, settling: Arc::new(Gate::new()), tasks: [follower, care], closed: AtomicBool::new(false) };
        if !etcd.shared.caught_up(now).await {
            return Err(ConnectError::Unreachable(etcd.shared.behind(now)));
        }
        Ok(Self::new(mirror, Arc::new(etcd)))
    }
}

impl Shared {
    /// Waits until the mirror has a revision that etcd has.
    async fn caught_up(&self, revision: Revision) -> bool {
        if self.mirror.revision() >= revision {
            return true;
        }
        self.wants.want(revision);
        self.mirror.reached(revision, CATCH_UP_WITHIN).await
    }

    fn behind(&self, revision: Revision) -> String {
        let (at, why) = (self.mirror.revision(), self.trouble.health().err());
        let why = why.unwrap_or_else(|| format!("nothing more was heard within {} s", CATCH_UP_WITHIN.as_secs()));
        format!("etcd is at revision {revision}, but only {at} has come here: {why}")
    }

    /// Where etcd is now.
    async fn ask(&self) -> Result<Revision, StoreError> {
        self.trouble.sound()?;
        let seen = self.mirror.revision();
        let now = place(&self.client, &self.keys).await.map_err(|failure| not_read(&failure))?.revision;
        if now < seen {
            return Err(self.trouble.fall_back(now, seen));
        }
        Ok(now)
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome, StoreError> {
        self.trouble.sound()?;
        let size = txn.bytes();
        let plan = Plan::new(&self.keys, txn, |key| self.mirror.get(key));
        let began = Instant::now();
        let answer = self.client.txn(plan.request.clone()).await.map_err(|failure| {
            self.figures.failed();
            not_written(&failure, size)
        })?;
        let (outcome, visible) = plan.outcome(answer)?;
        if let Outcome::Committed { entries, .. } = &outcome {
            // If nothing was written, there is nothing to become visible.
            if entries.iter().all(Option::is_none) {
                return Ok(outcome);
            }
            self.figures.committed(began.elapsed());
        }
        // Whoever is refused reads again to see why, and would be refused again for what is not seen here yet.
        if !self.mirror.reached(visible, ECHO_WITHIN).await {
            self.wants.want(visible);
            if !self.mirror.reached(visible, VISIBLE_WITHIN).await {
                tracing::warn!(revision = visible.0, "what became of a transaction is not visible here yet");
            }
        }
        Ok(outcome)
    }
}

impl Etcd {
    fn open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) { Err(StoreError::Closed) } else { Ok(()) }
    }

    fn stop(&self) {
        self.closed.store(true, Ordering::Release);
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Backend for Etcd {
    fn txn(&self, txn: Txn) -> Answer<'_, Result<Outcome, StoreError>> {
        Box::pin(async move {
            self.open()?;
            self.shared.commit(txn).await
        })
    }

    fn settle(&self) -> Answer<'_, Result<Revision, StoreError>> {
        Box::pin(async move {
            self.open()?;
            let shared = self.shared.clone();
            let ask = move || {
                let shared = shared.clone();
                async move { shared.ask().await }
            };
            let now = self.settling.pass(ask).await.unwrap_or(Err(StoreError::Closed))?;
            let caught_up = self.shared.caught_up(now).await;
            // That etcd went back may have been found meanwhile, and then what came here is not what the answer meant.
            self.shared.trouble.sound()?;
            if caught_up { Ok(now) } else { Err(StoreError::Unavailable(self.shared.behind(now))) }
        })
    }

    fn past_range<'a>(&'a self, range: Range<'a>, oldest: Revision) -> Answer<'a, Result<Page, RangeError>> {
        Box::pin(async move {
            self.open()?;
            self.shared.trouble.sound()?;
            let at = range.at.unwrap_or(oldest);
            load::range(&self.shared.client, &self.shared.keys, range, at).await.map_err(|failure| {
                match failure.meaning() {
                    Meaning::Compacted => RangeError::Compacted { oldest },
                    _ => RangeError::Store(not_read(&failure)),
                }
            })
        })
    }

    fn compact(&self, to: Revision) -> Answer<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.open()?;
            care::compact(&self.shared, to).await.map_err(StoreError::Unavailable)?;
            self.shared.mirror.compact(to);
            Ok(())
        })
    }

    fn backup<'a>(&'a self, _: &'a Path) -> Answer<'a, Result<(), StoreError>> {
        let why = "a store on etcd is backed up with etcd's own tools: etcdctl snapshot save".to_owned();
        Box::pin(std::future::ready(Err(StoreError::Unsupported(why))))
    }

    fn health(&self) -> Result<(), String> {
        if self.tasks.iter().any(JoinHandle::is_finished) {
            return Err("what follows etcd has stopped".to_owned());
        }
        self.shared.trouble.health()
    }

    fn stats(&self, stats: &mut Stats) {
        self.shared.figures.fill(stats);
    }

    fn close(&self) -> Answer<'_, ()> {
        self.stop();
        Box::pin(std::future::ready(()))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What a transaction's caller is told of a failure.
fn not_written(failure: &Failure, size: usize) -> StoreError {
    match failure.meaning() {
        Meaning::Unsure => StoreError::Unknown(failure.to_string()),
        Meaning::TooLarge => StoreError::Unsupported(format!(
            "{failure}; the transaction carries {size} bytes: etcd needs --max-request-bytes and --max-txn-ops to be its \
             defaults or more"
        )),
        Meaning::Full => StoreError::Unavailable(format!(
            "{failure}; compact and defragment it or raise --quota-backend-bytes, then disarm its alarm"
        )),
        Meaning::Later | Meaning::Compacted | Meaning::Future | Meaning::Refused => {
            StoreError::Unavailable(failure.to_string())
        }
    }
}

/// What a reader is told of a failure: whatever it was, nothing was changed.
fn not_read(failure: &Failure) -> StoreError {
    StoreError::Unavailable(failure.to_string())
}
