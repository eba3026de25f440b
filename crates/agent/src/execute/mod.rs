//! The rim: watches and files feed the plan, and what the plan wants is done.
//!
//! One task owns the plan. What it wants is done by tasks of their own, each with an end; what came of them comes back to the one task.
//! A network has one piece of work on its files at a time, a pool one write, so there are never more tasks than things. Nothing here
//! decides.

pub(crate) mod disk;
mod files;
mod way;
mod wire;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cni::journal::{BootId, Holding};
use cni::node;
use cni::place::Place;
use cni::pool::release::Settled;
use controllers::events;
use controllers::follow::{Absent, Change, Line, follow};
use controllers::lead::Holder;
use controllers::node::duty::{Health, State};
use controllers::trouble::Trouble;
use controllers::writer::Writer;
use jiff::Timestamp;
use kube::Client;
use prometheus_client::metrics::counter::Counter;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep_until;
use tracing::{debug, info, warn};

use self::files::Files;
use self::wire::{MetadataOnly, Paths, PodPart, PoolObject, ReservationObject};
use crate::grants::RENEWAL;
use crate::meters::Meters;
use crate::network::{Cause, Fetched, Local, PoolMeta};
use crate::plan::{Intent, Outcome, Plan};
use crate::pool::{Allocation, SeenPool};
use crate::reclaim::Pod;
use crate::reservations::{SeenReservation, Step};

/// How many changes wait to be taken in; watches wait when there are more.
const MOST_CHANGES: usize = 1024;
/// How many events wait to be written; beyond it they are dropped, and counted.
const MOST_EVENTS: usize = 256;
/// How long the server may take for a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the server is asked for a sign of life: often enough to renew the grants.
const BEAT: Duration = Duration::from_secs(RENEWAL / 2);
/// How long what is under way may take when an end was asked for.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the agent is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the node.
    pub node: String,
    /// The namespace of whereabouts' objects.
    pub namespace: String,
    /// Where the files of all networks are. It is there.
    pub state_dir: PathBuf,
    /// Which boot of the machine it is.
    pub boot: BootId,
}

/// What the agent shows of itself.
#[derive(Debug, Default)]
pub struct Report {
    /// How far it has come.
    pub health: Health,
    /// What it counts.
    pub meters: Meters,
}

/// Something that changed.
enum Seen {
    Node(Change<PoolMeta>),
    Meta(Change<PoolMeta>),
    Pool(Change<SeenPool>),
    Reservation(Change<SeenReservation>),
    Pod(Change<(String, Pod)>),
    Files(BTreeSet<String>),
}

/// Something that came to its end.
enum Done {
    /// And when it was asked for, in seconds since 1970.
    Fetched(String, Outcome<Fetched>, wire::Why, u64),
    Worked(String, Local, Result<(), String>),
    Wrote(String, Outcome<SeenPool>, wire::Why),
    Discarded(String, wire::Why),
    Reserved(String, Option<Allocation>, Outcome<SeenReservation>, wire::Why),
    Said(String, BTreeSet<String>, wire::Why),
    Answered(String, u64, Result<bool, String>),
    Settled(String, Result<Settled, String>),
    /// And when it was asked, in seconds since 1970.
    Beat(Result<Option<String>, String>, u64),
}

/// Serves the node until `stop` is over; what is under way has ended then.
pub async fn run(client: Client, options: Options, report: Arc<Report>, stop: impl Future<Output = ()>) {
    report.health.set(State::Reading);
    let plan = Plan::new(&options.node, &options.namespace);
    let paths = Paths::new(&options.namespace, &options.node, plan.label());
    let holder = Holder::unlimited();
    let writer = Writer { client: client.clone(), term: holder.term(), timeout: WRITE_TIMEOUT, manager: wire::MANAGER };
    let (changes, seen) = mpsc::channel(MOST_CHANGES);
    let mut followers = JoinSet::new();
    // The files come first: what they say does not wait for any server.
    let mut files = Files::new(&options.state_dir);
    let told = changes.clone();
    followers.spawn(async move { while told.send(Seen::Files(files.changed().await)).await.is_ok() {} });
    let line = Line { changes, full: Counter::default() };
    followers.spawn(follow::<MetadataOnly, _>(
        client.clone(),
        paths.node_only(),
        Absent::Wait,
        line.clone(),
        Seen::Node,
    ));
    followers.spawn(follow::<MetadataOnly, _>(
        client.clone(),
        paths.slice_pools(),
        Absent::Wait,
        line.clone(),
        Seen::Meta,
    ));
    followers.spawn(follow::<PoolObject, _>(client.clone(), paths.own_pools(), Absent::Wait, line.clone(), Seen::Pool));
    let reservations = paths.own_reservations();
    followers.spawn(follow::<ReservationObject, _>(
        client.clone(),
        reservations,
        Absent::Wait,
        line.clone(),
        Seen::Reservation,
    ));
    followers.spawn(follow::<PodPart, _>(client, paths.pods(), Absent::Wait, line, Seen::Pod));
    let (events, told) = mpsc::channel(MOST_EVENTS);
    let node = options.node.clone();
    let event = move |(cause, uid): &(Cause, String)| wire::event(cause, &node, uid);
    followers.spawn(events::write(writer.clone(), told, event));
    let trouble = Trouble::new("the API server");
    let (tasks, started) = (JoinSet::new(), Instant::now());
    let mut rim = Rim { writer, paths, plan, options, tasks, events, report, started, trouble, beat_at: started };
    rim.scan();
    rim.run(seen, stop).await;
}

struct Rim {
    writer: Writer,
    paths: Paths,
    plan: Plan,
    options: Options,
    tasks: JoinSet<Done>,
    events: Sender<(Cause, String)>,
    report: Arc<Report>,
    started: Instant,
    trouble: Trouble,
    beat_at: Instant,
}

impl Rim {
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn place(&self, network: &str) -> Place {
        Place::new(&self.options.state_dir, network)
    }

    /// Reads the files of all networks.
    fn scan(&mut self) {
        let networks = disk::networks(&self.options.state_dir);
        for network in &networks {
            self.plan.see_disk(network, disk::read(&self.place(network)));
        }
        info!(networks = networks.len(), node = self.options.node, "the agent begins");
        self.plan.see_folders(networks);
    }

    async fn run(mut self, mut seen: Receiver<Seen>, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        loop {
            self.act();
            let due = self.started + Duration::from_millis(self.plan.due(self.now()));
            let wake = due.min(self.beat_at).max(Instant::now());
            tokio::select! {
                change = seen.recv() => match change {
                    Some(change) => self.take_in(change),
                    None => break,
                },
                Some(Ok(done)) = self.tasks.join_next() => self.settle(done),
                () = sleep_until(wake.into()) => {}
                () = &mut stop => break,
            }
            // What waits already is taken in before anything is decided.
            while let Ok(change) = seen.try_recv() {
                self.take_in(change);
            }
            while let Some(Ok(done)) = self.tasks.try_join_next() {
                self.settle(done);
            }
        }
        let ended = tokio::time::timeout(PATIENCE, async { while self.tasks.join_next().await.is_some() {} });
        if ended.await.is_err() {
            warn!("not everything came to its end in time; the next agent goes on from what is there");
        }
    }

    fn act(&mut self) {
        if self.beat_at <= Instant::now() {
            self.beat_at = Instant::now() + BEAT;
            let (writer, paths) = (self.writer.clone(), self.paths.clone());
            let asked_at = seconds();
            self.tasks.spawn(async move { Done::Beat(wire::beat(&writer, &paths).await, asked_at) });
        }
        let (boot, now) = (self.options.boot, self.now());
        let liveness = |holding: &Holding<'_>| node::liveness_where(holding, boot, node::is_visible);
        for intent in self.plan.step(now, liveness) {
            self.begin(intent);
        }
        if self.plan.is_ready() && self.report.health.state() != State::Serving {
            info!(networks = self.plan.networks().count(), "everything was read; the node is served");
            self.report.health.set(State::Serving);
        }
        self.report.meters.show(self.plan.figures());
    }

    fn begin(&mut self, intent: Intent) {
        let (writer, paths) = (self.writer.clone(), self.paths.clone());
        match intent {
            Intent::Fetch(name) => {
                debug!(network = name, "the NodeSlicePool is read");
                self.report.meters.read_pool();
                let asked_at = seconds();
                self.tasks.spawn(async move {
                    let (outcome, why) = wire::fetch(&writer, &paths, &name).await;
                    Done::Fetched(name, outcome, why, asked_at)
                });
            }
            Intent::Work(name, local) => {
                let (place, boot) = (self.place(&name), self.options.boot);
                self.tasks.spawn(async move {
                    let asked = local.clone();
                    let done = spawn_blocking(move || disk::work(&place, &asked, boot)).await;
                    Done::Worked(name, local, done.unwrap_or_else(|fault| Err(fault.to_string())))
                });
            }
            Intent::Write(name, write) => {
                let before = self.plan.pool(&name).cloned();
                self.tasks.spawn(async move {
                    let (outcome, why) = wire::write_pool(&writer, &paths, &name, write, before).await;
                    Done::Wrote(name, outcome, why)
                });
            }
            Intent::Discard(name, revision) => {
                self.tasks.spawn(async move {
                    let why = wire::discard(&writer, &paths, &name, revision).await;
                    Done::Discarded(name, why)
                });
            }
            Intent::Reserve(name, step) => {
                self.tasks.spawn(async move {
                    let (outcome, why) = wire::reserve(&writer, &paths, &name, &step).await;
                    let holder = match step {
                        Step::Make(holder) | Step::Change(_, holder) => Some(holder),
                        Step::Delete(_) => None,
                    };
                    Done::Reserved(name, holder, outcome, why)
                });
            }
            Intent::Settle(name, owed) => {
                let (place, boot) = (self.place(&name), self.options.boot);
                let mut way = way::Waiting { client: writer.client, runtime: Handle::current() };
                self.tasks.spawn(async move {
                    let done = spawn_blocking(move || disk::settle(&place, &owed, boot, &mut way)).await;
                    Done::Settled(name, done.unwrap_or_else(|fault| Err(fault.to_string())))
                });
            }
            Intent::Say(name, containers) => {
                self.tasks.spawn(async move {
                    let why = wire::say(&writer, &paths, &name, &containers).await;
                    Done::Said(name, containers, why)
                });
            }
            Intent::Ask(name, doubt) => {
                self.tasks.spawn(async move {
                    let answer = wire::is_gone(&writer, &doubt).await;
                    Done::Answered(name, doubt.sequence, answer)
                });
            }
            Intent::Tell(cause) => {
                warn!(reason = cause.reason, "{}", cause.message);
                let uid = self.plan.uid().unwrap_or_default().to_owned();
                if self.events.try_send((cause, uid)).is_err() {
                    self.report.meters.dropped_event();
                }
            }
        }
    }

    fn settle(&mut self, done: Done) {
        let now = self.now();
        match done {
            Done::Fetched(name, outcome, why, asked_at) => {
                self.hear(why.as_deref(), false);
                self.plan.fetched(&name, outcome, asked_at, now);
            }
            Done::Worked(name, local, outcome) => self.settle_work(&name, &local, &outcome, now),
            Done::Wrote(name, outcome, why) => {
                self.hear(why.as_deref(), true);
                self.plan.wrote(&name, outcome, now);
            }
            Done::Discarded(name, why) => {
                self.hear(why.as_deref(), true);
                self.plan.discarded(&name, why.is_none(), now);
            }
            Done::Reserved(name, holder, outcome, why) => {
                self.hear(why.as_deref(), true);
                self.plan.reserved(&name, holder.as_ref(), outcome, now);
            }
            Done::Said(name, containers, why) => {
                self.hear(why.as_deref(), true);
                self.plan.said(&name, containers, why.is_none(), now);
            }
            Done::Answered(name, sequence, answer) => {
                self.hear(answer.as_ref().err().map(String::as_str), false);
                self.plan.answered(&name, sequence, answer.ok(), now);
            }
            Done::Settled(name, outcome) => self.settle_debts(&name, outcome, now),
            Done::Beat(node, asked_at) => {
                self.hear(node.as_ref().err().map(String::as_str), false);
                if let Ok(uid) = node {
                    self.plan.beat(uid.as_deref(), asked_at);
                }
            }
        }
    }

    /// The server answered, or did not and why.
    fn hear(&mut self, why: Option<&str>, is_write: bool) {
        if is_write {
            self.report.meters.wrote(why.is_none());
        }
        match why {
            None => self.trouble.is_over(),
            Some(why) => self.trouble.is(why),
        }
    }

    fn settle_work(&mut self, name: &str, local: &Local, outcome: &Result<(), String>, now: u64) {
        let disk = disk::read(&self.place(name));
        self.plan.see_disk(name, disk);
        match (outcome, local) {
            (Err(why), _) => warn!(network = name, why, "the files could not be written; this is tried again"),
            (Ok(()), Local::Commit { ends, holds }) => {
                for (sequence, reason) in ends {
                    info!(network = name, sequence, ?reason, "an address that nobody uses is free again");
                    self.report.meters.reclaimed(*reason);
                }
                for hold in holds {
                    info!(network = name, ip = %hold.ip, pod = hold.holder.podref, "an address of an IPPool or a pod is reserved");
                    self.report.meters.reserved();
                }
            }
            (Ok(()), Local::Mend(holds)) => {
                warn!(network = name, from_elsewhere = holds.len(), "the journal was written anew");
                self.report.meters.mended();
            }
            (Ok(()), Local::Grants(grants)) => {
                let slices =
                    grants.iter().flat_map(|grants| &grants.ranges).map(|range| range.slices.len()).sum::<usize>();
                debug!(network = name, slices, "the grants were written");
            }
        }
        self.plan.worked(name, outcome.is_ok(), now);
    }

    fn settle_debts(&mut self, name: &str, outcome: Result<Settled, String>, now: u64) {
        let disk = disk::read(&self.place(name));
        self.plan.see_disk(name, disk);
        let settled = outcome.unwrap_or_else(|why| {
            warn!(network = name, why, "what is owed could not be looked up; this is tried again");
            Settled { left: 1, ..Settled::default() }
        });
        if settled.done > 0 || settled.why.is_some() {
            self.hear(settled.why.as_deref(), true);
        }
        if settled.done > 0 {
            info!(network = name, settled.done, "entries of pods that are gone were taken out of shared IPPools");
            self.report.meters.settled(settled.done);
        }
        self.plan.settled(name, settled.left == 0, now);
    }

    fn take_in(&mut self, seen: Seen) {
        match seen {
            Seen::Files(networks) => {
                for name in networks {
                    let disk = disk::read(&self.place(&name));
                    self.plan.see_disk(&name, disk);
                }
            }
            Seen::Node(Change::All(nodes)) => self.plan.see_node(nodes.first().map(|node| node.uid.as_str())),
            Seen::Node(Change::One(node)) => self.plan.see_node(Some(&node.uid)),
            Seen::Node(Change::Gone(_)) => self.plan.see_node(None),
            Seen::Meta(Change::All(metas)) => self.plan.see_all_metas(metas),
            Seen::Meta(Change::One(meta)) => self.plan.see_meta(meta),
            Seen::Meta(Change::Gone(meta)) => self.plan.lose_meta(&meta.name),
            Seen::Pool(Change::All(pools)) => self.plan.see_all_pools(pools),
            Seen::Pool(Change::One(pool)) => self.plan.see_pool(pool),
            Seen::Pool(Change::Gone(pool)) => self.plan.lose_pool(&pool.name, pool.revision),
            Seen::Reservation(Change::All(all)) => self.plan.see_all_reservations(all),
            Seen::Reservation(Change::One(one)) => self.plan.see_reservation(one),
            Seen::Reservation(Change::Gone(one)) => self.plan.lose_reservation(&one.name, one.revision),
            Seen::Pod(Change::All(pods)) => self.plan.see_all_pods(pods),
            Seen::Pod(Change::One((name, pod))) => self.plan.see_pod(name, pod),
            Seen::Pod(Change::Gone((name, pod))) => self.plan.lose_pod(&name, &pod.uid),
        }
    }
}

/// Seconds since 1970.
fn seconds() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or_default()
}
