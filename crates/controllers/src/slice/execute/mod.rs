//! The rim: watches feed the plan, and what the plan wants is written and looked at.
//!
//! One task owns the plan. What it wants is done by tasks of their own, each with an end; what came of them comes back to the one
//! task. A network has one write on its way at a time, and so has a pool that all nodes share, few of which are written at a time. Nothing
//! here decides.

mod orphans;
mod wire;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::Object;
use jiff::Timestamp;
use kube::Client;
use prometheus_client::metrics::counter::Counter;
use serde_json::Value;
use space::Moment;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use tracing::{debug, info, warn};

use self::wire::{Answer, IpPoolPart, LabelledPool, NodePart, Part, PodPart, SharedPart};
use super::definition;
use super::duty::Report;
use super::intent::{Event, Intent, Outcome, Remains, Used};
use super::node::Node;
use super::orphans::{Found, Listed, Orphan, OrphanEntry};
use super::plan::{Plan, Settings};
use super::shared::SharedPool;
use crate::events;
use crate::follow::{Absent, Change, Line, Revisioned, follow, list, name};
use crate::lead::Term;
use crate::lean::Lean;
use crate::node::duty::State;
use crate::writer::{Anything, Asked, Refused, Writer};

/// How many changes wait to be taken in; watches wait when there are more.
const MOST_CHANGES: usize = 1024;
/// How many events wait to be written; beyond it they are dropped, and counted.
const MOST_EVENTS: usize = 1024;
/// How many things are done at a time.
const MOST_TASKS: usize = 64;
/// How long nothing may happen before we look whether there is something to do all the same.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// How the controller is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How it is meant to work.
    pub settings: Settings,
    /// How long the server may take for a write. One that is sent while the Lease is held must have ended before it is somebody
    /// else's.
    pub write_timeout: Duration,
}

/// Something that changed.
enum Seen {
    Node(Change<Node>),
    Definition(Change<Value>),
    Pool(Change<Value>),
    IpPool(Change<Value>),
    /// The one of that name, of a whole range.
    SharedPool(String, Change<Option<SharedPool>>),
}

/// Something that came to its end.
enum Done {
    Written(String, Outcome),
    Recalled(Option<Vec<Used>>),
    Surveyed(Option<Vec<SharedPool>>),
    Looked(String, Option<bool>),
    Swept(Option<Vec<Remains>>),
    Discarded,
    PodsFound(Option<Listed>),
    PodFound(Orphan, Option<Found>),
    /// And how many were taken out.
    TakenOut(Vec<OrphanEntry>, usize),
    /// And whether it was deleted.
    Released(Orphan, bool),
    /// The pool of that name.
    Hushed(String),
}

/// Gives nodes their slices until its term is over, and the last write has ended.
pub async fn run(client: Client, options: Options, term: Term, report: Arc<Report>) {
    report.health.set(State::Reading);
    let Options { settings, write_timeout } = options;
    let namespace = settings.namespace.clone();
    let writer = Writer { client: client.clone(), term: term.clone(), timeout: write_timeout, manager: wire::MANAGER };
    let (changes, seen) = mpsc::channel(MOST_CHANGES);
    let mut followers = JoinSet::new();
    let (nodes, definitions) = (wire::NODES.to_owned(), wire::DEFINITIONS.to_owned());
    let (pools, asking) = (wire::pools(&namespace), wire::asking(&namespace));
    let line = Line { changes, full: Counter::default() };
    followers.spawn(follow::<Part<NodePart>, _>(client.clone(), nodes, Absent::Wait, line.clone(), Seen::Node));
    // A server without definitions has lost them all, or does not have them yet; only one of it is true, and so we wait.
    followers.spawn(follow::<Lean, _>(client.clone(), definitions, Absent::Wait, line.clone(), Seen::Definition));
    followers.spawn(follow::<Lean, _>(client.clone(), pools, Absent::Wait, line.clone(), Seen::Pool));
    followers.spawn(follow::<Lean, _>(client, asking, Absent::Empty, line.clone(), Seen::IpPool));
    let (events, told) = mpsc::channel(MOST_EVENTS);
    followers.spawn(events::write(writer.clone(), told, wire::event));
    let missing = ["Nodes", "NetworkAttachmentDefinitions", "NodeSlicePools", "IPPools"].into_iter().collect();
    let (plan, tasks, shared) = (Plan::new(settings), JoinSet::new(), Shared { line, followed: BTreeMap::new() });
    let rim = Rim { writer, namespace, plan, missing, tasks, shared, events, report, started: Instant::now() };
    rim.run(seen, term).await;
}

/// The `IPPool`s of whole ranges that are followed, each by itself: pods that share ranges which nobody cuts are of no interest here.
struct Shared {
    line: Line<Seen>,
    followed: BTreeMap<String, JoinSet<()>>,
}

struct Rim {
    writer: Writer,
    namespace: String,
    plan: Plan,
    shared: Shared,
    /// What has not been listed yet.
    missing: HashSet<&'static str>,
    tasks: JoinSet<Done>,
    events: Sender<Event>,
    report: Arc<Report>,
    started: Instant,
}

impl Rim {
    fn now(&self) -> Moment {
        Moment(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    async fn run(mut self, mut seen: Receiver<Seen>, mut term: Term) {
        loop {
            self.act();
            let due = self.plan.due_at().map(|due| self.started + Duration::from_millis(due.0));
            let wake = due.unwrap_or_else(|| Instant::now() + LONGEST_SLEEP);
            tokio::select! {
                change = seen.recv() => match change {
                    Some(change) => self.take_in(change),
                    None => break,
                },
                Some(Ok(done)) = self.tasks.join_next() => self.settle(done),
                () = sleep_until(wake.into()), if self.tasks.len() < MOST_TASKS => {}
                () = term.over() => break,
            }
            // What waits already is taken in before anything is decided.
            while let Ok(change) = seen.try_recv() {
                self.take_in(change);
            }
        }
        // What is on its way has ended before somebody else decides.
        while self.tasks.join_next().await.is_some() {}
    }

    fn act(&mut self) {
        while self.tasks.len() < MOST_TASKS {
            let now = self.now();
            let Some(intent) = self.plan.next(now, Timestamp::now()) else { break };
            match intent {
                Intent::Write(wanted) => self.write(wanted.name.clone(), wire::write(&self.namespace, &wanted)),
                Intent::Delete(wanted) => {
                    let asked = wire::delete(&self.namespace, &wanted);
                    self.write(wanted.name, asked);
                }
                Intent::Recall => {
                    let (client, path) = (self.writer.client.clone(), wire::ip_pools(&self.namespace));
                    self.tasks.spawn(async move {
                        let pools = ip_pools::<Part<IpPoolPart>>(&client, &path).await;
                        Done::Recalled(pools.map(|pools| pools.into_iter().flatten().collect()))
                    });
                }
                Intent::Survey => {
                    let (client, path) = (self.writer.client.clone(), wire::unlabelled(&self.namespace));
                    self.tasks.spawn(async move {
                        let pools = ip_pools::<Part<SharedPart>>(&client, &path).await;
                        Done::Surveyed(pools.map(|pools| pools.into_iter().flatten().collect()))
                    });
                }
                Intent::Look(node) => {
                    let client = self.writer.client.clone();
                    self.tasks.spawn(async move {
                        let running = look(&client, &node).await;
                        Done::Looked(node, running)
                    });
                }
                Intent::Sweep => {
                    let (client, path) = (self.writer.client.clone(), wire::labelled(&self.namespace));
                    self.tasks.spawn(async move { Done::Swept(ip_pools::<Part<LabelledPool>>(&client, &path).await) });
                }
                Intent::Discard(remains) => {
                    let (writer, namespace) = (self.writer.clone(), self.namespace.clone());
                    self.tasks.spawn(async move {
                        discard(&writer, &namespace, &remains).await;
                        Done::Discarded
                    });
                }
                Intent::FindPods(wanted) => {
                    let (client, namespace) = (self.writer.client.clone(), self.namespace.clone());
                    self.tasks.spawn(async move { Done::PodsFound(orphans::find(&client, &namespace, &wanted).await) });
                }
                Intent::FindPod(orphan) => {
                    let (client, namespace) = (self.writer.client.clone(), self.namespace.clone());
                    self.tasks.spawn(async move {
                        let found = orphans::look(&client, &namespace, &orphan).await;
                        Done::PodFound(orphan, found)
                    });
                }
                Intent::TakeOut(entries) => {
                    let (writer, namespace) = (self.writer.clone(), self.namespace.clone());
                    self.tasks.spawn(async move {
                        let count = orphans::take_out(&writer, &namespace, &entries).await;
                        Done::TakenOut(entries, count)
                    });
                }
                Intent::Release(orphan, reservation) => {
                    let (writer, namespace) = (self.writer.clone(), self.namespace.clone());
                    self.tasks.spawn(async move {
                        let is_gone = orphans::release(&writer, &namespace, &reservation).await;
                        Done::Released(orphan, is_gone)
                    });
                }
                Intent::Hush(wanted) => {
                    let (writer, namespace) = (self.writer.clone(), self.namespace.clone());
                    self.tasks.spawn(async move {
                        orphans::hush(&writer, &namespace, &wanted).await;
                        Done::Hushed(wanted.pool)
                    });
                }
                Intent::Tell(event) => {
                    if self.events.try_send(event).is_err() {
                        self.report.meters.dropped();
                    }
                }
            }
        }
        self.report.meters.show(self.plan.counts());
    }

    fn write(&mut self, name: String, asked: Asked) {
        let writer = self.writer.clone();
        self.tasks.spawn(async move {
            let outcome = match writer.ask::<Answer>(asked).await {
                Ok(answer) => Outcome::Written(answer.revision()),
                Err(Refused::Gone) => Outcome::Failed("it is not there".to_owned()),
                Err(Refused::Conflict(why) | Refused::Failed(why)) => Outcome::Failed(why),
            };
            Done::Written(name, outcome)
        });
    }

    fn settle(&mut self, done: Done) {
        match done {
            Done::Written(name, outcome) => {
                self.report.meters.wrote(matches!(outcome, Outcome::Written(_)));
                if let Outcome::Failed(why) = &outcome {
                    debug!(name, why, "a NodeSlicePool was not written");
                }
                self.plan.written(&name, &outcome);
            }
            Done::Recalled(used) => self.plan.recalled(used.as_deref()),
            Done::Surveyed(pools) => {
                self.plan.surveyed(pools.as_deref());
                self.follow_shared_pools();
            }
            Done::Looked(node, running) => self.plan.looked(&node, running),
            Done::Swept(pools) => self.plan.swept(pools),
            Done::Discarded => {}
            Done::Hushed(pool) => self.plan.hushed(&pool),
            Done::PodsFound(there) => self.plan.pods_found(there.as_ref()),
            Done::PodFound(orphan, found) => self.plan.pod_found(orphan, found.as_ref()),
            Done::TakenOut(entries, count) => {
                self.report.meters.swept(count);
                self.plan.taken_out(&entries);
            }
            Done::Released(orphan, is_gone) => {
                self.report.meters.released(is_gone);
                self.plan.released(&orphan);
            }
        }
    }

    fn take_in(&mut self, seen: Seen) {
        match seen {
            Seen::Node(Change::One(node)) => self.plan.see_node(node),
            Seen::Node(Change::Gone(node)) => self.plan.lose_node(&node.name),
            Seen::Node(Change::All(nodes)) => {
                self.forget(
                    nodes.iter().map(|node| node.name.as_str()),
                    |plan| plan.nodes().map(str::to_owned).collect(),
                    Plan::lose_node,
                );
                for node in nodes {
                    self.plan.see_node(node);
                }
                self.missing.remove("Nodes");
            }
            Seen::Definition(change) => self.take_in_definition(change),
            Seen::Pool(Change::One(pool)) => self.with(pool, Plan::see_pool),
            Seen::Pool(Change::Gone(pool)) => self.plan.lose_pool(name(&pool)),
            Seen::Pool(Change::All(pools)) => {
                self.forget(pools.iter().map(name), |plan| plan.pools().map(str::to_owned).collect(), Plan::lose_pool);
                for pool in pools {
                    self.with(pool, Plan::see_pool);
                }
                self.missing.remove("NodeSlicePools");
            }
            Seen::SharedPool(name, change) => {
                let pools = match change {
                    Change::All(pools) => pools,
                    Change::One(pool) => vec![pool],
                    Change::Gone(_) => Vec::new(),
                };
                let held = pools.into_iter().flatten().flat_map(|pool| pool.held).collect();
                self.plan.see_shared_pool(&name, held);
            }
            Seen::IpPool(Change::One(pool)) => self.with(pool, |plan, pool| plan.see_ip_pool(&pool)),
            Seen::IpPool(Change::Gone(pool)) => self.plan.lose_ip_pool(name(&pool)),
            Seen::IpPool(Change::All(pools)) => {
                self.forget(
                    pools.iter().map(name),
                    |plan| plan.asked().map(str::to_owned).collect(),
                    Plan::lose_ip_pool,
                );
                for pool in pools {
                    self.with(pool, |plan, pool| plan.see_ip_pool(&pool));
                }
                self.missing.remove("IPPools");
            }
        }
        if !self.plan.has_begun() && self.missing.is_empty() {
            info!(nodes = self.plan.nodes().count(), definitions = self.plan.definitions().count(), "slices begin");
            self.plan.begin();
            self.report.health.set(State::Serving);
        }
    }

    fn take_in_definition(&mut self, change: Change<Value>) {
        let key = |object: &Value| {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            definition::key(namespace, name(object))
        };
        match change {
            Change::One(one) => self.with(one, |plan, one| plan.see_definition(&one)),
            Change::Gone(one) => self.plan.lose_definition(&key(&one)),
            Change::All(all) => {
                let there: HashSet<String> = all.iter().map(key).collect();
                let known: Vec<String> = self.plan.definitions().map(str::to_owned).collect();
                for gone in known.iter().filter(|known| !there.contains(*known)) {
                    self.plan.lose_definition(gone);
                }
                for one in all {
                    self.with(one, |plan, one| plan.see_definition(&one));
                }
                self.missing.remove("NetworkAttachmentDefinitions");
            }
        }
        self.follow_shared_pools();
    }

    /// Follows the `IPPool`s of the ranges that are cut now, and of those that overlap with them, and no others.
    fn follow_shared_pools(&mut self) {
        let wanted = self.plan.shared_pools();
        let Shared { line, followed } = &mut self.shared;
        let plan = &mut self.plan;
        followed.retain(|name, _| {
            let stays = wanted.contains(name);
            if !stays {
                plan.forget_shared_pool(name);
            }
            stays
        });
        for name in wanted.into_iter().filter(|name| !followed.contains_key(name)).collect::<Vec<_>>() {
            let (client, path) = (self.writer.client.clone(), wire::ip_pool(&self.namespace, &name));
            let own = name.clone();
            let message = move |change| Seen::SharedPool(own.clone(), change);
            let mut follower = JoinSet::new();
            follower.spawn(follow::<Part<SharedPart>, _>(client, path, Absent::Empty, line.clone(), message));
            followed.insert(name, follower);
        }
    }

    fn with(&mut self, value: Value, take: impl FnOnce(&mut Plan, Object)) {
        if let Some(object) = Object::from_value(value) {
            take(&mut self.plan, object);
        }
    }

    /// What is known and is not there any more is gone.
    fn forget<'a>(
        &mut self,
        there: impl Iterator<Item = &'a str>,
        known: impl FnOnce(&Plan) -> Vec<String>,
        lose: impl Fn(&mut Plan, &str),
    ) {
        let there: HashSet<&str> = there.collect();
        for gone in known(&self.plan).iter().filter(|known| !there.contains(known.as_str())) {
            lose(&mut self.plan, gone);
        }
    }
}

/// The `IPPool`s at a path, or nothing if they could not be listed.
async fn ip_pools<T: Revisioned>(client: &Client, path: &str) -> Option<Vec<T::Kept>> {
    match list::<T>(client, path).await {
        Ok((pools, _)) => Some(pools),
        // A server that does not have the kind has none of it.
        Err(kube::Error::Api(status)) if status.code == 404 => Some(Vec::new()),
        Err(error) => {
            warn!(%error, "the IPPools could not be listed");
            None
        }
    }
}

/// Deletes what a node left behind, if it is gone. The reservations first: by the `IPPool` it is known that there is something left.
async fn discard(writer: &Writer, namespace: &str, Remains { node, pool }: &Remains) {
    if !is_gone(&writer.client, node).await {
        return;
    }
    for asked in [wire::unreserve(namespace, node), wire::discard(namespace, pool)] {
        if let Err(Refused::Failed(why)) = writer.ask::<Anything>(asked).await {
            warn!(why, node, pool, "what a node that is gone left behind could not be deleted");
            return;
        }
    }
}

/// Whether there is no node of that name. A watch may be late.
async fn is_gone(client: &Client, node: &str) -> bool {
    match list::<Part<NodePart>>(client, &wire::node(node)).await {
        Ok((nodes, _)) => nodes.is_empty(),
        Err(error) => {
            warn!(%error, node, "a node that is gone could not be looked for");
            false
        }
    }
}

/// Whether something may run on a node.
async fn look(client: &Client, node: &str) -> Option<bool> {
    match list::<Part<PodPart>>(client, &wire::pods(node)).await {
        Ok((pods, _)) => Some(pods.contains(&true)),
        Err(error) => {
            warn!(%error, node, "the pods of a node that is gone could not be listed");
            None
        }
    }
}
