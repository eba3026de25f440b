//! The rim: watches feed the plan, and what the plan wants is written.
//!
//! One task owns the plan. Writes are tasks of their own, at most [`MOST_WRITES`] at a time, each with an end; what came of them
//! comes back to the one task. Blocks are noted on the [`waybill`](super::waybill) before they are sent to their nodes; when somebody else has written
//! it, everything is read anew. Nothing here decides.

mod wire;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::Object;
use api::selector::Terms;
use kube::Client;
use serde_json::Value;
use space::{Cidr, Moment};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};
use tracing::{debug, info, warn};

use self::wire::WireNode;
use super::duty::{Report, State};
use super::flags::{FlagError, Flags};
use super::index::NodeKey;
use super::intent::{Event, Intent, Outcome, StatusWrite};
use super::plan::{Plan, Settings};
use super::range::RangeKey;
use super::trimmed::Node;
use super::waybill::{self, Note, Overtaken, Waybill};
use crate::events;
use crate::follow::{self, Absent, Change, Line, Revisioned, follow, name};
use crate::lead::Term;
use crate::lean::Lean;
use crate::trouble::Trouble;
use crate::writer::{Anything, Asked, Refused, Writer};

/// How many writes are on their way at a time.
const MOST_WRITES: usize = 32;
/// How many changes wait to be taken in; watches wait when there are more.
const MOST_CHANGES: usize = 1024;
/// How many events wait to be written; beyond it they are dropped, and counted.
const MOST_EVENTS: usize = 1024;
/// How long statuses gather before they are written.
const STATUS_PAUSE: Duration = Duration::from_millis(500);
/// How long they wait at most while nodes are being served.
const STATUS_PATIENCE: Duration = Duration::from_secs(10);

/// How long nothing may happen before we look whether there is something to do all the same.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);
/// How long to wait before the range that flags say is tried again.
const FLAGS_PAUSE: Duration = Duration::from_secs(1);
/// How long to wait before the waybill is looked at after it could not be written or read.
const WAYBILL_PAUSE: Duration = Duration::from_millis(100);

/// How the controller is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How it is meant to work.
    pub settings: Settings,
    /// What flags say about ranges.
    pub flags: Flags,
    /// How long the server may take for a write. One that is sent while the Lease is held must have ended before it is somebody
    /// else's.
    pub write_timeout: Duration,
}

/// Something that changed.
enum Seen {
    Node(Change<Node>),
    Range(Change<Value>),
    Services(Change<Value>),
}

/// A write that came to its end.
enum Done {
    Assigned(NodeKey, Outcome),
    Finalized(RangeKey, Outcome),
    Status(RangeKey, Outcome),
    Noted(Noted),
}

/// What became of the waybill.
enum Noted {
    /// It is as it should be, at that revision.
    Written(String),
    /// It could not be written, or nobody knows; it is like this.
    Looked(Option<Object>),
}

/// Serves nodes until its term is over, and the last write has ended.
pub async fn run(client: Client, options: Options, mut term: Term, report: Arc<Report>) -> Result<(), FlagError> {
    let fixed = options.flags.services()?;
    let writer =
        Writer { client: client.clone(), term: term.clone(), timeout: options.write_timeout, manager: wire::MANAGER };
    options.flags.range()?;
    report.health.set(State::Reading);
    // No node is served from what flags said before.
    tokio::select! {
        () = make_from_flags(&writer, &options.flags) => {}
        () = term.over() => return Ok(()),
    }
    loop {
        report.health.set(State::Reading);
        // First the waybill: what is listed after it is younger.
        let page = tokio::select! {
            page = read_waybill(&writer) => page,
            () = term.over() => return Ok(()),
        };
        let (changes, seen) = mpsc::channel(MOST_CHANGES);
        let line = Line { changes, full: report.meters.changes_full.clone() };
        let (nodes, ranges) = (wire::NODES.to_owned(), wire::RANGES.to_owned());
        let services = wire::SERVICE_RANGES.to_owned();
        let mut followers = JoinSet::new();
        followers.spawn(follow::<WireNode, _>(client.clone(), nodes, Absent::Wait, line.clone(), Seen::Node));
        followers.spawn(follow::<Lean, _>(client.clone(), ranges, Absent::Wait, line.clone(), Seen::Range));
        followers.spawn(follow::<Lean, _>(client.clone(), services, Absent::Empty, line, Seen::Services));
        let (events, told) = mpsc::channel(MOST_EVENTS);
        followers.spawn(events::write(writer.clone(), told, wire::event));
        let started = Instant::now();
        let rim = Rim {
            writer: writer.clone(),
            report: Arc::clone(&report),
            plan: Plan::new(options.settings),
            left: waybill::left(page.as_ref()),
            waybill: Waybill::new(uuid::Uuid::new_v4().to_string(), page.as_ref()),
            fixed: fixed.clone(),
            services: BTreeMap::new(),
            missing: Missing { nodes: true, ranges: true, services: true },
            terms: options.settings.terms,
            writes: JoinSet::new(),
            pressing: 0,
            events,
            started,
            statuses: VecDeque::new(),
            statuses_at: started,
            stale_since: None,
            conflicts: 0,
        };
        let Err(Overtaken) = rim.run(seen, &mut term).await else { return Ok(()) };
        info!("another controller serves nodes as well; what is there is read anew");
    }
}

/// What has not been listed yet.
#[allow(clippy::struct_excessive_bools, reason = "each says something of its own")]
struct Missing {
    nodes: bool,
    ranges: bool,
    services: bool,
}

struct Rim {
    writer: Writer,
    report: Arc<Report>,
    plan: Plan,
    waybill: Waybill,
    /// What others have left on the waybill.
    left: Vec<Note>,
    /// The Service ranges that flags say.
    fixed: BTreeSet<Cidr>,
    /// The `ServiceCIDR`s, by name.
    services: BTreeMap<String, Vec<Cidr>>,
    missing: Missing,
    terms: Terms,
    writes: JoinSet<Done>,
    /// How many of them nodes wait for: blocks, and the finalizers of ranges.
    pressing: usize,
    events: Sender<Event>,
    started: Instant,
    /// Statuses that wait for others to be written.
    statuses: VecDeque<StatusWrite>,
    /// When statuses may be looked at again.
    statuses_at: Instant,
    /// Since when some should be written.
    stale_since: Option<Instant>,
    /// How many conflicts were counted.
    conflicts: u64,
}

impl Rim {
    fn now(&self) -> Moment {
        Moment(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    async fn run(mut self, mut seen: Receiver<Seen>, term: &mut Term) -> Result<(), Overtaken> {
        let mut ended = Ok(());
        while ended.is_ok() {
            self.act();
            let wake = self.wake_at();
            tokio::select! {
                change = seen.recv() => match change {
                    Some(change) => self.take_in(change),
                    None => return Ok(()),
                },
                Some(done) = self.writes.join_next() => {
                    if let Ok(done) = done {
                        ended = self.settle(done);
                    }
                }
                () = sleep_until(wake.into()) => {}
                () = term.over() => break,
            }
            // What waits already is taken in before anything is decided.
            while let Ok(change) = seen.try_recv() {
                self.take_in(change);
            }
        }
        // What is on its way has ended before somebody else decides.
        while self.writes.join_next().await.is_some() {}
        ended
    }

    /// When to look again although nothing happens.
    fn wake_at(&self) -> Instant {
        let retry = self.plan.due_at().map(|due| self.started + Duration::from_millis(due.0));
        let status = self.stale_since.map(|since| self.statuses_from(since));
        retry.into_iter().chain(status).min().unwrap_or_else(|| Instant::now() + LONGEST_SLEEP)
    }

    fn act(&mut self) {
        while self.writes.len() < MOST_WRITES {
            let now = self.now();
            let has_room = self.waybill.has_room(|assignment| self.plan.is_pending(assignment));
            let next = if has_room { self.plan.next(now) } else { self.plan.next_old(now) };
            let Some(intent) = next else { break };
            match intent {
                Intent::Assign(assignment) => self.waybill.want(assignment),
                Intent::Finalize(wanted) => {
                    let (key, request) = (wanted.key, wire::finalize(&wanted));
                    self.pressing += 1;
                    self.spawn(request, move |outcome| Done::Finalized(key, outcome));
                }
                Intent::Tell(event) => {
                    if self.events.try_send(event).is_err() {
                        self.report.meters.events_dropped.inc();
                    }
                }
            }
        }
        if let Some(page) = self.waybill.turn(|assignment| self.plan.is_pending(assignment)) {
            let writer = self.writer.clone();
            self.writes.spawn(async move { Done::Noted(note(&writer, &page).await) });
        }
        while self.writes.len() < MOST_WRITES
            && let Some(assignment) = self.waybill.send()
        {
            let (key, request) = (assignment.key, wire::assign(&assignment));
            self.pressing += 1;
            self.spawn(request, move |outcome| Done::Assigned(key, outcome));
        }
        self.stale_since = self.plan.has_statuses().then(|| self.stale_since.unwrap_or_else(Instant::now));
        if let Some(since) = self.stale_since
            && self.statuses.is_empty()
            && Instant::now() >= self.statuses_from(since)
        {
            self.stale_since = None;
            self.statuses_at = Instant::now() + STATUS_PAUSE;
            self.report.meters.show_ranges(self.plan.index().figures());
            self.statuses.extend(self.plan.statuses(&wall_clock()));
        }
        while self.writes.len() < MOST_WRITES
            && let Some(wanted) = self.statuses.pop_front()
        {
            let (key, request) = (wanted.key, wire::status(&wanted));
            self.spawn(request, move |outcome| Done::Status(key, outcome));
        }
        if self.writes.len() >= MOST_WRITES {
            self.report.meters.writes_full.inc();
        }
        self.show();
    }

    /// When statuses may be written that should be since then. They are for people to read, and each costs what serving a node
    /// costs: as long as nodes are being served, these come first.
    fn statuses_from(&self, since: Instant) -> Instant {
        let is_idle = self.pressing == 0 && self.waybill.is_idle();
        if is_idle { self.statuses_at } else { self.statuses_at.max(since + STATUS_PATIENCE) }
    }

    /// What changes with every step is counted with it.
    fn show(&mut self) {
        let meters = &self.report.meters;
        for wait in self.plan.take_waits() {
            meters.served(wait);
        }
        meters.waiting.set(i64::try_from(self.plan.waiting()).unwrap_or(i64::MAX));
        meters.nodes.set(i64::try_from(self.plan.index().node_count()).unwrap_or(i64::MAX));
        let told = self.plan.conflicts();
        meters.conflicts.inc_by(told - self.conflicts);
        self.conflicts = told;
    }

    fn spawn(&mut self, request: Asked, done: impl FnOnce(Outcome) -> Done + Send + 'static) {
        let writer = self.writer.clone();
        self.writes.spawn(async move { done(write(&writer, request).await) });
    }

    fn settle(&mut self, done: Done) -> Result<(), Overtaken> {
        if let Done::Assigned(_, outcome) | Done::Finalized(_, outcome) | Done::Status(_, outcome) = &done
            && matches!(outcome, Outcome::Failed(_))
        {
            self.report.meters.failures.inc();
        }
        match done {
            Done::Assigned(key, outcome) => {
                self.pressing -= 1;
                self.plan.assigned(key, outcome);
            }
            Done::Finalized(key, outcome) => {
                self.pressing -= 1;
                self.plan.finalized(key, &outcome);
            }
            Done::Status(_, Outcome::Written | Outcome::Gone) => {}
            Done::Status(key, Outcome::Failed(why)) => {
                warn!(why, "a status could not be written");
                self.statuses_at = Instant::now() + STATUS_PAUSE * 10;
                self.plan.status_failed(key);
            }
            Done::Noted(Noted::Written(revision)) => self.waybill.written(revision),
            Done::Noted(Noted::Looked(page)) => return self.waybill.looked(page.as_ref()),
        }
        Ok(())
    }

    fn take_in(&mut self, seen: Seen) {
        self.plan.pass_time(self.now());
        match seen {
            Seen::Node(Change::One(node)) => self.plan.see_node(node),
            Seen::Node(Change::Gone(node)) => self.plan.lose_node(&node.name),
            Seen::Node(Change::All(nodes)) => self.all_nodes(nodes),
            Seen::Range(Change::One(range)) => self.see_range(range),
            Seen::Range(Change::Gone(range)) => self.plan.lose_range(name(&range)),
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
        let kept = self.plan.take_over(&self.left);
        self.waybill.keep(kept);
        self.plan.begin();
        self.report.health.set(State::Serving);
    }

    /// These nodes are there, and no others.
    fn all_nodes(&mut self, nodes: Vec<Node>) {
        let there: HashSet<&str> = nodes.iter().map(|node| &*node.name).collect();
        let known = self.plan.index().nodes().map(|(_, known)| Arc::clone(&known.node.name));
        let gone: Vec<Arc<str>> = known.filter(|name| !there.contains(&**name)).collect();
        for name in gone {
            self.plan.lose_node(&name);
        }
        for node in nodes {
            self.plan.see_node(node);
        }
        self.missing.nodes = false;
    }

    /// These `ClusterCIDR`s are there, and no others.
    fn all_ranges(&mut self, ranges: Vec<Value>) {
        let there: HashSet<&str> = ranges.iter().map(name).collect();
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
        let entry = |service: &Value| (name(service).to_owned(), wire::cidrs(service).collect());
        match change {
            Change::All(services) => self.services = services.iter().map(entry).collect(),
            Change::One(service) => self.services.extend([entry(&service)]),
            Change::Gone(service) => drop(self.services.remove(name(&service))),
        }
        self.missing.services = false;
        let all = self.services.values().flatten().chain(&self.fixed).copied();
        self.plan.see_services(all.collect());
    }
}

/// Makes the range that flags say, and deletes those that they do not say any more; tries until that is done.
async fn make_from_flags(writer: &Writer, flags: &Flags) {
    if flags.range() == Ok(None) {
        return;
    }
    let mut trouble = Trouble::new("the range that flags say");
    loop {
        match make_once(writer, flags).await {
            Ok(()) => return trouble.is_over(),
            Err(why) => trouble.is(&why),
        }
        sleep(FLAGS_PAUSE).await;
    }
}

async fn make_once(writer: &Writer, flags: &Flags) -> Result<(), String> {
    let (ranges, _) = follow::list::<Lean>(&writer.client, wire::RANGES).await.map_err(|error| follow::said(&error))?;
    let ranges: Vec<Object> = ranges.into_iter().filter_map(Object::from_value).collect();
    let rotation = flags.rotate(&ranges).map_err(|error| error.to_string())?;
    if let Some(range) = &rotation.create {
        match write(writer, wire::create_range(range)).await {
            Outcome::Written => {}
            Outcome::Gone => return Err("somebody else made one of its name".to_owned()),
            Outcome::Failed(why) => return Err(why),
        }
    }
    for name in &rotation.delete {
        if let Outcome::Failed(why) = write(writer, wire::delete_range(name)).await {
            return Err(why);
        }
    }
    Ok(())
}

/// The waybill, as it is; tries until it can be read.
async fn read_waybill(writer: &Writer) -> Option<Object> {
    let mut trouble = Trouble::new("the waybill");
    loop {
        match writer.look(&wire::waybill_path()).await {
            Ok(page) => return page.and_then(Object::from_value),
            Err(error) => trouble.is(&follow::said(&error)),
        }
        sleep(WAYBILL_PAUSE).await;
    }
}

/// Writes the waybill, or says what it is like.
async fn note(writer: &Writer, page: &Value) -> Noted {
    match writer.ask::<Value>(wire::note(page)).await {
        Ok(written) => Noted::Written(written.revision().to_owned()),
        Err(refused) => {
            debug!(?refused, "the waybill could not be written");
            // Not at once: it may be what is asked too much.
            sleep(WAYBILL_PAUSE).await;
            Noted::Looked(read_waybill(writer).await)
        }
    }
}

/// Writes, and says what came of it.
async fn write(writer: &Writer, asked: Asked) -> Outcome {
    match writer.ask(asked).await {
        Ok(Anything {}) => Outcome::Written,
        // The name is another one's by now, or somebody else wrote first.
        Err(Refused::Gone | Refused::Conflict(_)) => Outcome::Gone,
        Err(Refused::Failed(why)) => Outcome::Failed(why),
    }
}

/// What the clock on the wall shows, for people to read.
fn wall_clock() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
