//! The follower: one watch on everything that is the store's, whose events are the mirror's only food.
//!
//! It lives on the member that the client prefers and moves with that preference. Whatever breaks it, it goes on after
//! the last revision that the mirror has, so nothing is missed and nothing is seen twice; only when etcd has forgotten
//! what came after that does the mirror start over from a snapshot, and watchers are told that there is a gap.
//!
//! etcd's revision also grows by writes of others, of which the watch says nothing. Whoever waits for such a revision says
//! so in [`Wants`], and the follower asks etcd how far the watch has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::changes::Changes;
use super::client::{PAUSE, WatchStream};
use super::load::{Place, place, snapshot};
use super::txn::{remote, revision};
use super::version::keeps_its_promises;
use super::wire::{WatchAsk, WatchCreate, WatchProgress, WatchRequest, WatchResponse};
use super::{ConnectError, Shared};
use crate::types::Revision;

/// etcd does not answer a question for progress while the watch is still catching up, so it is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// A watch on which nothing was heard for so long although somebody waits for it is not waited for any longer.
const STALLED_AFTER: Duration = Duration::from_secs(3);
/// How many events are gathered at most before they go into the mirror. A watch that catches up brings a thousand in one
/// message; more at once would cut off watchers who had no chance to read.
const BATCH: usize = 1000;

/// The newest revision that somebody waits for.
#[derive(Debug, Default)]
pub(super) struct Wants {
    newest: AtomicU64,
    news: Notify,
}

impl Wants {
    /// Somebody waits for the mirror to have this revision, which etcd has.
    pub(super) fn want(&self, revision: Revision) {
        self.newest.fetch_max(revision.0, Ordering::AcqRel);
        self.news.notify_one();
    }

    fn newest(&self) -> Revision {
        Revision(self.newest.load(Ordering::Acquire))
    }
}

/// Why a watch is no more.
enum Parted {
    /// The client prefers another member now.
    Moved,
    /// It broke, for this reason.
    Lost(String),
    /// What should come next is not to be had any more, for this reason.
    Gap(String),
}

pub(super) struct Follower {
    shared: Arc<Shared>,
    cluster: u64,
    /// How long to wait before the next attempt.
    pause: Duration,
}

impl Follower {
    pub(super) fn new(shared: Arc<Shared>, cluster: u64) -> Self {
        Self { shared, cluster, pause: PAUSE.0 }
    }

    /// Follows until it is dropped.
    pub(super) async fn run(mut self) {
        loop {
            match self.session().await {
                Parted::Moved => {}
                Parted::Lost(why) => self.rest(why).await,
                Parted::Gap(why) => {
                    tracing::warn!(why, "the mirror of etcd starts over");
                    if let Err(why) = self.start_over().await {
                        self.rest(why).await;
                    }
                }
            }
        }
    }

    async fn rest(&mut self, why: String) {
        if self.shared.trouble.watch(Some(why.clone())) {
            tracing::warn!(why, "the watch on etcd was lost");
        } else {
            tracing::debug!(why, "the watch on etcd is still lost");
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE.1);
    }

    /// One watch, from its beginning to its end.
    async fn session(&mut self) -> Parted {
        let (key, range_end) = self.shared.keys.span("", None);
        let start_revision = remote(self.shared.mirror.revision().next());
        let create = WatchCreate { key, range_end, start_revision, progress_notify: true };
        let stream = match self.shared.client.watch(ask(WatchAsk::Create(create))).await {
            Ok(stream) => stream,
            Err(failure) => return Parted::Lost(failure.to_string()),
        };
        let member = stream.member;
        let shared = self.shared.clone();
        let parted = tokio::select! {
            parted = self.trust_and_listen(stream) => parted,
            () = shared.client.left(member) => Parted::Moved,
        };
        if let Parted::Lost(_) = parted {
            shared.client.leave(member);
        }
        parted
    }

    /// Listens to a member if its progress can be believed: in a cluster that is being upgraded each has its own release.
    async fn trust_and_listen(&mut self, stream: WatchStream) -> Parted {
        match self.shared.client.status_of(stream.member).await {
            Ok(status) if keeps_its_promises(&status.version) => self.listen(stream).await,
            Ok(status) => self.lost(&stream, &ConnectError::TooOld(status.version).to_string()),
            Err(failure) => Parted::Lost(failure.to_string()),
        }
    }

    async fn listen(&mut self, mut stream: WatchStream) -> Parted {
        let shared = self.shared.clone();
        let mut heard = Instant::now();
        let mut ask_at = heard;
        loop {
            let waited_for = shared.wants.newest() > shared.mirror.revision();
            tokio::select! {
                biased;
                message = stream.hear.message() => {
                    let mut batch = match message {
                        Ok(Some(message)) => vec![message],
                        Ok(None) => return self.lost(&stream, "it was closed"),
                        Err(status) => return self.lost(&stream, status.message()),
                    };
                    // What has arrived already goes in with it; whether there is an end is seen in the next round.
                    let mut events = batch[0].events.len();
                    while events < BATCH && let Some(Ok(Some(message))) = stream.hear.message().now_or_never() {
                        events += message.events.len();
                        batch.push(message);
                    }
                    if let Err(parted) = self.take_in(batch, &stream) {
                        return parted;
                    }
                    heard = Instant::now();
                    if events >= BATCH {
                        tokio::task::yield_now().await;
                    }
                }
                () = shared.wants.news.notified() => {
                    if !waited_for {
                        heard = Instant::now();
                    }
                    ask_at = Instant::now();
                }
                () = sleep_until(ask_at), if waited_for => {
                    if heard.elapsed() > STALLED_AFTER {
                        return self.lost(&stream, "it stalled");
                    }
                    // If there is no room, questions wait already.
                    let _ = stream.ask.try_send(ask(WatchAsk::Progress(WatchProgress {})));
                    ask_at = Instant::now() + ASK_AGAIN_AFTER;
                }
            }
        }
    }

    fn lost(&self, stream: &WatchStream, why: &str) -> Parted {
        Parted::Lost(format!("the watch on etcd at {}: {why}", self.shared.client.address(stream.member)))
    }

    /// Puts what was heard into the mirror.
    fn take_in(&mut self, batch: Vec<WatchResponse>, stream: &WatchStream) -> Result<(), Parted> {
        let shared = self.shared.clone();
        let mut changes = Changes::after(shared.mirror.revision());
        for message in batch {
            let header = message.header.unwrap_or_default();
            if message.compact_revision != 0 {
                let to = message.compact_revision;
                return Err(Parted::Gap(format!("etcd was compacted to revision {to}, beyond what was heard of it")));
            }
            if message.canceled {
                return Err(self.lost(stream, &message.cancel_reason));
            }
            if message.created {
                if header.cluster_id != self.cluster {
                    return Err(Parted::Gap("this is another cluster than before".to_owned()));
                }
                self.pause = PAUSE.0;
                if shared.trouble.watch(None) {
                    tracing::info!(member = shared.client.address(stream.member), "the watch on etcd is back");
                }
            } else if message.events.is_empty() {
                changes.heard_until(revision(header.revision));
            }
            for event in message.events {
                changes.take(event, &shared.keys, |key| shared.mirror.get(key)).map_err(Parted::Gap)?;
            }
        }
        if let Some((events, upto)) = changes.done() {
            shared.mirror.apply(events, upto).wake();
        }
        Ok(())
    }

    async fn start_over(&mut self) -> Result<(), String> {
        let Shared { client, keys, mirror, trouble, .. } = &*self.shared;
        let seen = mirror.revision();
        let Place { cluster, revision: now } = place(client, keys).await.map_err(|failure| failure.to_string())?;
        if now < seen {
            return Err(trouble.fall_back(now, seen).to_string());
        }
        let loaded = snapshot(client, keys, now).await.map_err(|failure| failure.to_string())?;
        mirror.reload(loaded.revision, loaded.entries);
        self.cluster = cluster;
        Ok(())
    }
}

fn ask(ask: WatchAsk) -> WatchRequest {
    WatchRequest { ask: Some(ask) }
}
