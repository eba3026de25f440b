//! The rim: watches feed the plan, and what the plan wants is written.
//!
//! One task owns the plan. Writes are tasks of their own, at most [`MOST_WRITES`] at a time, each with an end; what came of them
//! comes back to the one task. Nothing here decides.

mod follow;
mod wire;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::Object;
use api::selector::Terms;
use http::Request;
use kube::Client;
use serde_json::Value;
use space::{Cidr, Moment};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};
use tracing::{info, warn};

use self::follow::{Absent, Change, follow};
use self::wire::{Anything, Asked, WireNode};
use super::flags::{FlagError, Flags};
use super::index::NodeKey;
use super::intent::{Event, Intent, Outcome, StatusWrite};
use super::plan::{Plan, Settings};
use super::range::RangeKey;
use super::trimmed::Node;

/// How many writes are on their way at a time.
const MOST_WRITES: usize = 64;
/// How many changes wait to be taken in; watches wait when there are more.
const MOST_CHANGES: usize = 1024;
/// How many events wait to be written; beyond it they are dropped, and counted.
const MOST_EVENTS: usize = 1024;
/// How long a write may take, a little longer than the server is told.
const WRITE_PATIENCE: Duration = Duration::from_secs(12);
/// How long statuses gather before they are written.
const STATUS_PAUSE: Duration = Duration::from_millis(500);

/// How long nothing may happen before we look whether there is something to do all the same.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);
/// How long to wait before the range that flags say is tried again.
const FLAGS_PAUSE: Duration = Duration::from_secs(1);

/// How the controller is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How it is meant to work.
    pub settings: Settings,
    /// What flags say about ranges.
    pub flags: Flags,
}

/// Something that changed.
enum Seen {
    Node(Change<WireNode>),
    Range(Change<Value>),
    Services(Change<Value>),
}

/// A write that came to its end.
enum Done {
    Assigned(NodeKey, Outcome),
    Finalized(RangeKey, Outcome),
    Status(RangeKey, Outcome),
}

/// Serves nodes until the task is dropped. Only one that leads should.
pub async fn run(client: Client, options: Options) -> Result<(), FlagError> {
    let fixed = options.flags.services()?;
    make_from_flags(&client, &options.flags).await?;
    let (changes, seen) = mpsc::channel(MOST_CHANGES);
    let mut followers = JoinSet::new();
    followers.spawn(follow(client.clone(), wire::NODES, Absent::Wait, changes.clone(), Seen::Node));
    followers.spawn(follow(client.clone(), wire::RANGES, Absent::Wait, changes.clone(), Seen::Range));
    followers.spawn(follow(client.clone(), wire::SERVICE_RANGES, Absent::Empty, changes, Seen::Services));
    let (events, told) = mpsc::channel(MOST_EVENTS);
    followers.spawn(tell(client.clone(), told));
    let started = Instant::now();
    let plan = Plan::new(options.settings);
    let rim = Rim {
        client,
        plan,
        fixed,
        services: BTreeMap::new(),
        missing: Missing { nodes: true, ranges: true, services: true },
        terms: options.settings.terms,
        writes: JoinSet::new(),
        events,
        started,
        statuses: VecDeque::new(),
        statuses_at: started,
    };
    rim.run(seen).await;
    Ok(())
}

/// What has not been listed yet.
#[allow(clippy::struct_excessive_bools, reason = "each says something of its own")]
struct Missing {
    nodes: bool,
    ranges: bool,
    services: bool,
}

struct Rim {
    client: Client,
    plan: Plan,
    /// The Service ranges that flags say.
    fixed: BTreeSet<Cidr>,
    /// The `ServiceCIDR`s, by name.
    services: BTreeMap<String, Vec<Cidr>>,
    missing: Missing,
    terms: Terms,
    writes: JoinSet<Done>,
    events: Sender<Event>,
    started: Instant,
    /// Statuses that wait for others to be written.
    statuses: VecDeque<StatusWrite>,
    /// When statuses may be looked at again.
    statuses_at: Instant,
}

impl Rim {
    fn now(&self) -> Moment {
        Moment(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    async fn run(mut self, mut seen: Receiver<Seen>) {
        loop {
            self.act();
            let wake = self.wake_at();
            tokio::select! {
                change = seen.recv() => match change {
                    Some(change) => self.take_in(change),
                    None => return,
                },
                Some(done) = self.writes.join_next() => {
                    if let Ok(done) = done {
                        self.settle(done);
                    }
                }
                () = sleep_until(wake.into()) => {}
            }
            // What waits already is taken in before anything is decided.
            while let Ok(change) = seen.try_recv() {
                self.take_in(change);
            }
        }
    }

    /// When to look again although nothing happens.
    fn wake_at(&self) -> Instant {
        let retry = self.plan.due_at().map(|due| self.started + Duration::from_millis(due.0));
        let status = self.plan.has_statuses().then_some(self.statuses_at);
        retry.into_iter().chain(status).min().unwrap_or_else(|| Instant::now() + LONGEST_SLEEP)
    }

    fn act(&mut self) {
        while self.writes.len() < MOST_WRITES {
            let now = self.now();
            let Some(intent) = self.plan.next(now) else { break };
            match intent {
                Intent::Assign(assignment) => {
                    let (key, request) = (assignment.key, wire::assign(&assignment));
                    self.spawn(request, move |outcome| Done::Assigned(key, outcome));
                }
                Intent::Finalize(wanted) => {
                    let (key, request) = (wanted.key, wire::finalize(&wanted));
                    self.spawn(request, move |outcome| Done::Finalized(key, outcome));
                }
                Intent::Tell(event) => {
                    if self.events.try_send(event).is_err() {
                        warn!("an event was dropped: too many wait to be written");
                    }
                }
            }
        }
        if self.statuses.is_empty() && self.plan.has_statuses() && Instant::now() >= self.statuses_at {
            self.statuses_at = Instant::now() + STATUS_PAUSE;
            self.statuses.extend(self.plan.statuses(&wall_clock()));
        }
        while self.writes.len() < MOST_WRITES
            && let Some(wanted) = self.statuses.pop_front()
        {
            let (key, request) = (wanted.key, wire::status(&wanted));
            self.spawn(request, move |outcome| Done::Status(key, outcome));
        }
    }

    fn spawn(&mut self, request: Asked, done: impl FnOnce(Outcome) -> Done + Send + 'static) {
        let client = self.client.clone();
        self.writes.spawn(async move { done(write(&client, request).await) });
    }

    fn settle(&mut self, done: Done) {
        match done {
            Done::Assigned(key, outcome) => self.plan.assigned(key, outcome),
            Done::Finalized(key, outcome) => self.plan.finalized(key, &outcome),
            Done::Status(_, Outcome::Written | Outcome::Gone) => {}
            Done::Status(key, Outcome::Failed(why)) => {
                warn!(why, "a status could not be written");
                self.statuses_at = Instant::now() + STATUS_PAUSE * 10;
                self.plan.status_failed(key);
            }
        }
    }

    fn take_in(&mut self, seen: Seen) {
        match seen {
            Seen::Node(Change::One(node)) => self.plan.see_node(node.into()),
            Seen::Node(Change::Gone(node)) => self.plan.lose_node(wire::Revisioned::name(&node)),
            Seen::Node(Change::All(nodes)) => self.all_nodes(nodes),
            Seen::Range(Change::One(range)) => self.see_range(range),
            Seen::Range(Change::Gone(range)) => self.plan.lose_range(wire::Revisioned::name(&range)),
            Seen::Range(Change::All(ranges)) => self.all_ranges(ranges),
            Seen::Services(change) => self.take_in_services(change),
        }
        if !(self.plan.has_begun() || self.missing.nodes || self.missing.ranges || self.missing.services) {
            self.begin();
        }
    }

    /// Everything is known.
    fn begin(&mut self) {
        let depending: Vec<&str> = self.plan.depending_on_terms().collect();
        if !depending.is_empty() {
            let ranges = depending.join(", ");
            warn!(ranges, terms = ?self.terms, "these ClusterCIDRs have several terms, or none, which node-ipam-controller reads as one");
        }
        info!(
            nodes = self.plan.index().nodes().count(),
            ranges = self.plan.index().ranges().count(),
            "node IPAM begins"
        );
        self.plan.begin();
    }

    /// These nodes are there, and no others.
    fn all_nodes(&mut self, nodes: Vec<WireNode>) {
        let there: HashSet<&str> = nodes.iter().map(wire::Revisioned::name).collect();
        let known = self.plan.index().nodes().map(|(_, known)| Arc::clone(&known.node.name));
        let gone: Vec<Arc<str>> = known.filter(|name| !there.contains(&**name)).collect();
        for name in gone {
            self.plan.lose_node(&name);
        }
        for node in nodes {
            self.plan.see_node(Node::from(node));
        }
        self.missing.nodes = false;
    }

    /// These `ClusterCIDR`s are there, and no others.
    fn all_ranges(&mut self, ranges: Vec<Value>) {
        let there: HashSet<&str> = ranges.iter().map(wire::Revisioned::name).collect();
        let known = self.plan.index().ranges().map(|(_, range)| Arc::clone(&range.name));
        let gone: Vec<Arc<str>> = known.filter(|name| !there.contains(&**name)).collect();
        for name in gone {
            self.plan.lose_range(&name);
        }
        for range in ranges {
            self.see_range(range);
        }
        self.missing.ranges = false;
    }

    fn see_range(&mut self, range: Value) {
        if let Some(object) = Object::from_value(range) {
            self.plan.see_range(&object);
        }
    }

    fn take_in_services(&mut self, change: Change<Value>) {
        let entry = |service: &Value| (wire::Revisioned::name(service).to_owned(), wire::cidrs(service).collect());
        match change {
            Change::All(services) => self.services = services.iter().map(entry).collect(),
            Change::One(service) => self.services.extend([entry(&service)]),
            Change::Gone(service) => drop(self.services.remove(wire::Revisioned::name(&service))),
        }
        self.missing.services = false;
        let all = self.services.values().flatten().chain(&self.fixed).copied();
        self.plan.see_services(all.collect());
    }
}

/// Makes the range that flags say, and deletes those that they do not say any more; tries until it is done.
async fn make_from_flags(client: &Client, flags: &Flags) -> Result<(), FlagError> {
    if flags.range()?.is_none() {
        return Ok(());
    }
    loop {
        match follow::list::<Value>(client, wire::RANGES).await {
            Ok((ranges, _)) => {
                let ranges: Vec<Object> = ranges.into_iter().filter_map(Object::from_value).collect();
                let rotation = flags.rotate(&ranges)?;
                let create = rotation.create.iter().map(wire::create_range);
                let requests = create.chain(rotation.delete.iter().map(|name| wire::delete_range(name)));
                let mut failed = None;
                for request in requests {
                    if let Outcome::Failed(why) = write(client, request).await {
                        failed = Some(why);
                    }
                }
                match failed {
                    None => return Ok(()),
                    Some(why) => warn!(why, "the range that flags say could not be made"),
                }
            }
            Err(error) => warn!(%error, "ClusterCIDRs could not be listed"),
        }
        sleep(FLAGS_PAUSE).await;
    }
}

/// Writes, and says what came of it.
async fn write(client: &Client, request: Asked) -> Outcome {
    let request: Request<Vec<u8>> = match request {
        Ok(request) => request,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    match timeout(WRITE_PATIENCE, client.request::<Anything>(request)).await {
        Ok(Ok(Anything {})) => Outcome::Written,
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Outcome::Gone,
        Ok(Err(kube::Error::Api(status))) => Outcome::Failed(status.message),
        Ok(Err(error)) => Outcome::Failed(error.to_string()),
        Err(_) => Outcome::Failed("no answer in time".to_owned()),
    }
}

/// Writes events one after the other. One that is there already was told before.
async fn tell(client: Client, mut told: Receiver<Event>) {
    while let Some(event) = told.recv().await {
        if let Outcome::Failed(why) = write(&client, wire::tell(&event, &wall_clock())).await
            && !why.contains("already exists")
        {
            warn!(why, reason = event.reason, "an event could not be written");
        }
    }
}

/// What the clock on the wall shows, for people to read.
fn wall_clock() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
