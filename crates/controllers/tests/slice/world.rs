//! A server in a few maps: objects as an API server would keep them, with revisions, and any number of controllers, each of which
//! is shown what changed as late as a test wants. Time passes only when a test says so.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::Object;
use api::slices::{held_on, held_on_nodes, holders, reservation_name};
use controllers::slice::intent::{Event, Intent, Outcome, Remains, Used};
use controllers::slice::layout::Write;
use controllers::slice::orphans::{Found, Hush, Listed, OrphanEntry, Reservation};
use controllers::slice::plan::Settings;
use controllers::slice::shared::SharedPool;
use controllers::slice::{Node, Plan};
use jiff::Timestamp;
use serde_json::{Value, json};
use space::Moment;

/// How long the slices of a node that is gone rest, in seconds.
pub(crate) const QUARANTINE: i64 = 300;
/// More things than any test has to do at once.
const MOST_AT_ONCE: usize = 10_000;
/// What the clock shows first.
const START: i64 = 1_800_000_000;

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is made, and the answer says so.
    Made,
    /// It is made, and the answer is lost.
    MadeUnheard,
    /// It gets lost, and so does its answer.
    Lost,
}

/// The kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Node,
    Definition,
    Pool,
    IpPool,
}

/// What a controller is shown: an object as it is, or that it is gone.
type Change = (Kind, String, Option<Value>);

pub(crate) struct Leader {
    pub(crate) plan: Plan,
    queue: VecDeque<Change>,
}

pub(crate) struct World {
    settings: Settings,
    pub(crate) leaders: Vec<Leader>,
    objects: BTreeMap<(Kind, String), Value>,
    /// Nodes on which pods run, there or gone.
    pub(crate) running: BTreeSet<String>,
    /// Pods that are there, `namespace/name`.
    pub(crate) pods: BTreeSet<String>,
    /// Reservations that no node has a label on, by their names.
    pub(crate) reservations: BTreeMap<String, Reservation>,
    /// How many entries each patch was to take out.
    pub(crate) patches: Vec<usize>,
    /// What becomes of the next writes; when there is nothing here, they are made.
    pub(crate) fates: VecDeque<Fate>,
    pub(crate) events: Vec<String>,
    /// How many writes were made, and the largest object among them.
    pub(crate) writes: usize,
    pub(crate) largest: usize,
    /// Fields that the server does not know.
    pub(crate) unknown: &'static [&'static str],
    revision: u64,
    pub(crate) now: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Settings { quarantine: QUARANTINE, ..Settings::default() }, 1)
    }

    /// With that many controllers that all lead.
    pub(crate) fn with(settings: Settings, leaders: usize) -> Self {
        let mut world = Self {
            settings,
            leaders: Vec::new(),
            objects: BTreeMap::new(),
            running: BTreeSet::new(),
            pods: BTreeSet::from(["dev/p".to_owned()]),
            reservations: BTreeMap::new(),
            patches: Vec::new(),
            fates: VecDeque::new(),
            events: Vec::new(),
            writes: 0,
            largest: 0,
            unknown: &[],
            revision: 0,
            now: 0,
        };
        world.leaders = (0..leaders).map(|_| world.leader()).collect();
        world
    }

    /// A controller that has just begun.
    fn leader(&self) -> Leader {
        let mut plan = Plan::new(self.settings.clone());
        for ((kind, name), object) in &self.objects {
            show(&mut plan, *kind, name, Some(object));
        }
        self.show_shared(&mut plan);
        assert_eq!(plan.next(Moment(self.now), self.time()), None, "something was decided before everything was known");
        plan.begin();
        Leader { plan, queue: VecDeque::new() }
    }

    /// Every controller begins anew and knows nothing but what is there.
    pub(crate) fn restart(&mut self) {
        let fresh = (0..self.leaders.len()).map(|_| self.leader()).collect();
        self.leaders = fresh;
    }

    pub(crate) fn time(&self) -> Timestamp {
        Timestamp::from_second(START + i64::try_from(self.now / 1_000).unwrap()).unwrap()
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.leaders[0].plan
    }

    /// What was told, and is forgotten.
    pub(crate) fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events)
    }

    /// Everything that can be done now is done, and what was gathered is acted upon.
    pub(crate) fn settle(&mut self) {
        for _ in 0..3 {
            let mut rounds = 0;
            while (0..self.leaders.len()).any(|one| self.deliver(one, usize::MAX) + self.act(one, MOST_AT_ONCE) > 0) {
                rounds += 1;
                assert!(rounds < MOST_AT_ONCE, "it never comes to an end: {}", self.shown("one"));
            }
            self.now += self.settings.gather;
        }
    }

    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now += u64::try_from(seconds).unwrap() * 1_000;
        self.settle();
    }

    /// A controller is shown the next changes; says how many there were.
    pub(crate) fn deliver(&mut self, leader: usize, most: usize) -> usize {
        let mut shown = 0;
        while shown < most
            && let Some((kind, name, object)) = self.leaders[leader].queue.pop_front()
        {
            show(&mut self.leaders[leader].plan, kind, &name, object.as_ref());
            shown += 1;
        }
        let mut plan = std::mem::replace(&mut self.leaders[leader].plan, Plan::new(self.settings.clone()));
        self.show_shared(&mut plan);
        self.leaders[leader].plan = plan;
        shown
    }

    /// A controller is shown what pods have from pools of whole ranges.
    fn show_shared(&self, plan: &mut Plan) {
        for name in plan.shared_pools() {
            let pool = self.get(Kind::IpPool, &name).and_then(|pool| shared_pool(&name, pool));
            plan.see_shared_pool(&name, pool.map(|pool| pool.held).unwrap_or_default());
        }
    }

    /// A controller does what it wants to, at most so many things; says how many it did.
    pub(crate) fn act(&mut self, leader: usize, most: usize) -> usize {
        let mut done = 0;
        while done < most
            && let Some(intent) = {
                let (now, time) = (Moment(self.now), self.time());
                self.leaders[leader].plan.next(now, time)
            }
        {
            done += 1;
            self.obey(leader, intent);
        }
        done
    }

    fn obey(&mut self, leader: usize, intent: Intent) {
        match intent {
            Intent::Write(write) => {
                let name = write.name.clone();
                let outcome = self.answer(|world| world.write(&write));
                self.leaders[leader].plan.written(&name, &outcome);
            }
            Intent::Delete(deletion) => {
                let outcome = self.answer(|world| {
                    let key = (Kind::Pool, deletion.name.clone());
                    match world.objects.get(&key) {
                        Some(object) if revision(object) == deletion.resource_version => {
                            world.remove(Kind::Pool, &deletion.name);
                            Outcome::Written(String::new())
                        }
                        _ => Outcome::Failed("the object has been modified".to_owned()),
                    }
                });
                self.leaders[leader].plan.written(&deletion.name, &outcome);
            }
            Intent::Recall => {
                let used: Vec<Used> = self.used();
                self.leaders[leader].plan.recalled(Some(&used));
            }
            Intent::Survey => {
                let pools = self.shared_pools();
                self.leaders[leader].plan.surveyed(Some(&pools));
            }
            Intent::Look(node) => {
                let running = self.running.contains(&node);
                self.leaders[leader].plan.looked(&node, Some(running));
            }
            Intent::Sweep => {
                let pools = self.labelled_pools();
                self.leaders[leader].plan.swept(Some(pools));
            }
            Intent::Discard(Remains { node, pool }) => {
                if self.get(Kind::Node, &node).is_none() && self.get(Kind::IpPool, &pool).is_some() {
                    assert!(!self.running.contains(&node), "{pool} may be in use");
                    self.remove(Kind::IpPool, &pool);
                }
            }
            Intent::FindPods(wanted) => {
                let reservations: Vec<Reservation> = self.reservations.values().cloned().collect();
                let reserved: BTreeSet<String> = reservations.iter().map(|one| one.podref.clone()).collect();
                let pods = self.pods.iter().filter(|pod| wanted.contains(*pod) || reserved.contains(*pod));
                let listed = Listed { pods: pods.cloned().collect(), reservations };
                self.leaders[leader].plan.pods_found(Some(&listed));
            }
            Intent::FindPod(orphan) => {
                let pools = orphan.pools().iter().filter_map(|pool| self.get(Kind::IpPool, pool));
                let annotations = pools.filter_map(|pool| pool["metadata"]["annotations"].as_object());
                let claims = annotations.flat_map(|said| holders(said, orphan.container())).collect();
                let found = Found { pod: self.pods.contains(orphan.podref()), nodes: claims };
                self.leaders[leader].plan.pod_found(orphan, Some(&found));
            }
            Intent::TakeOut(entries) => {
                self.take_out(&entries);
                self.leaders[leader].plan.taken_out(&entries);
            }
            Intent::Release(orphan, reservation) => {
                if self.reservations.get(&reservation.name) == Some(&reservation) {
                    self.reservations.remove(&reservation.name);
                }
                self.leaders[leader].plan.released(&orphan);
            }
            Intent::Hush(Hush { pool: name, said }) => {
                self.leaders[leader].plan.hushed(&name);
                let Some(mut pool) = self.get(Kind::IpPool, &name).cloned() else { return };
                let annotations = pool["metadata"]["annotations"].as_object_mut().unwrap();
                if said.iter().all(|(label, containers)| annotations[&held_on(label)] == *containers) {
                    annotations.retain(|key, _| !said.iter().any(|(label, _)| *key == held_on(label)));
                    self.put(Kind::IpPool, &name, pool);
                }
            }
            Intent::Tell(Event { about, reason, message }) => {
                self.events.push(format!("{}/{}: {reason}: {message}", about.namespace, about.name));
            }
        }
    }

    /// What a controller hears of a write.
    fn answer(&mut self, write: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        match self.fates.pop_front().unwrap_or(Fate::Made) {
            Fate::Made => write(self),
            Fate::MadeUnheard => {
                write(self);
                Outcome::Failed("timeout".to_owned())
            }
            Fate::Lost => Outcome::Failed("connection reset".to_owned()),
        }
    }

    /// What an API server does with a pool: it is created if it has no revision, and replaced if it has the right one.
    fn write(&mut self, write: &Write) -> Outcome {
        let stored = self.objects.get(&(Kind::Pool, write.name.clone()));
        let base = write.shell.resource_version();
        if stored.map_or("", revision) != base {
            return Outcome::Failed("the object has been modified".to_owned());
        }
        let mut object = write.shell.clone();
        object.set(&["status"], write.pool.to_status());
        let mut object = object.into_value();
        for allocation in object["status"]["allocations"].as_array_mut().unwrap() {
            allocation.as_object_mut().unwrap().retain(|name, _| !self.unknown.contains(&name.as_str()));
        }
        self.writes += 1;
        self.largest = self.largest.max(object.to_string().len());
        Outcome::Written(self.put(Kind::Pool, &write.name, object))
    }

    /// What an API server does with a patch that tests entries of a pool and removes them, after their reservations.
    fn take_out(&mut self, entries: &[OrphanEntry]) {
        let name = &entries[0].pool;
        let Some(mut object) = self.get(Kind::IpPool, name).cloned() else { return };
        assert!(object["metadata"]["labels"]["ipam.cadastre.dev/node"].is_null(), "{name} is of a node");
        self.patches.push(entries.len());
        let allocations = object["spec"]["allocations"].as_object_mut().unwrap();
        for OrphanEntry { pool, network, entry } in entries {
            assert_eq!(pool, name);
            let reserved = reservation_name(network.as_deref(), entry.address);
            self.reservations.retain(|_, one| one.name != reserved || one.podref != entry.podref);
            let at = entry.offset.to_string();
            let is_it = |one: &Value| one["id"] == entry.id.as_str() && one["podref"] == entry.podref.as_str();
            if !allocations.get(&at).is_some_and(is_it) {
                return;
            }
            allocations.remove(&at);
        }
        self.put(Kind::IpPool, name, object);
    }

    /// The `IPPool`s that no node has.
    fn shared_pools(&self) -> Vec<SharedPool> {
        let pools = self.objects.iter().filter(|((kind, _), _)| *kind == Kind::IpPool);
        let shared = pools.filter(|(_, pool)| pool["metadata"]["labels"]["ipam.cadastre.dev/node"].is_null());
        let read = |name: &str, pool: &Value| {
            let annotations = pool["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            let said = held_on_nodes(&annotations).map(|(label, said)| (label.to_owned(), said.to_owned()));
            Some(SharedPool { said: said.collect(), ..shared_pool(name, pool)? })
        };
        shared.filter_map(|((_, name), pool)| read(name, pool)).collect()
    }

    fn labelled_pools(&self) -> Vec<Remains> {
        let pools = self.objects.iter().filter(|((kind, _), _)| *kind == Kind::IpPool);
        let labelled = pools.filter_map(|((_, name), pool)| {
            let node = pool["metadata"]["labels"]["ipam.cadastre.dev/node"].as_str()?;
            Some(Remains { node: node.to_owned(), pool: name.clone() })
        });
        labelled.collect()
    }

    fn used(&self) -> Vec<Used> {
        let pools = self.objects.iter().filter(|((kind, _), _)| *kind == Kind::IpPool);
        let in_use =
            pools.filter(|(_, pool)| pool["spec"]["allocations"].as_object().is_some_and(|all| !all.is_empty()));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        in_use.map(|((_, name), pool)| Used { name: name.clone(), range: text(&pool["spec"]["range"]) }).collect()
    }
}

/// Objects.
impl World {
    /// Stores an object, and shows it to everybody; says its revision.
    pub(crate) fn put(&mut self, kind: Kind, name: &str, mut object: Value) -> String {
        self.revision += 1;
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(name.rsplit('/').next().unwrap());
        metadata["resourceVersion"] = json!(self.revision.to_string());
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(format!("uid-{}", self.revision));
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = json!(self.time().to_string());
        }
        self.objects.insert((kind, name.to_owned()), object.clone());
        self.show_all(kind, name, Some(&object));
        self.revision.to_string()
    }

    pub(crate) fn remove(&mut self, kind: Kind, name: &str) {
        self.objects.remove(&(kind, name.to_owned())).unwrap();
        self.show_all(kind, name, None);
    }

    fn show_all(&mut self, kind: Kind, name: &str, object: Option<&Value>) {
        for leader in &mut self.leaders {
            leader.queue.push_back((kind, name.to_owned(), object.cloned()));
        }
    }

    pub(crate) fn get(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.objects.get(&(kind, name.to_owned()))
    }

    pub(crate) fn names(&self, kind: Kind) -> Vec<String> {
        self.objects.keys().filter(|(other, _)| *other == kind).map(|(_, name)| name.clone()).collect()
    }

    pub(crate) fn node(&mut self, name: &str) {
        self.labelled(name, &json!({}));
    }

    pub(crate) fn labelled(&mut self, name: &str, labels: &Value) {
        self.put(Kind::Node, name, json!({"metadata": {"labels": labels}}));
    }

    /// A definition of a plain configuration, by its key `namespace/name`.
    pub(crate) fn define(&mut self, key: &str, config: &Value) {
        let namespace = key.split('/').next().unwrap();
        let mut object = self.get(Kind::Definition, key).cloned().unwrap_or_else(|| json!({"metadata": {}}));
        object["metadata"]["namespace"] = json!(namespace);
        object["spec"] = json!({"config": config.to_string()});
        self.put(Kind::Definition, key, object);
    }

    /// A network of one range.
    pub(crate) fn network(&mut self, name: &str, range: &str, size: &str) {
        self.define(&format!("kube-system/{name}"), &conf(name, &json!({"range": range, "node_slice_size": size})));
    }

    /// What nodes have of a network, by their names: the slices, and what is special about them.
    pub(crate) fn slices(&self, network: &str) -> BTreeMap<String, String> {
        let pool = self.get(Kind::Pool, network).unwrap_or(&Value::Null);
        let allocations = pool["status"]["allocations"].as_array().cloned().unwrap_or_default();
        let shown = |one: &Value| {
            let texts = |name: &str| {
                let listed = one[name].as_array().cloned().unwrap_or_default();
                listed.iter().map(|text| text.as_str().unwrap().to_owned()).collect::<Vec<_>>()
            };
            let mut all = vec![one["sliceRange"].as_str().unwrap().to_owned()];
            all.extend(texts("furtherSlices"));
            let draining = texts("draining");
            let all: Vec<String> = all
                .iter()
                .map(|slice| if draining.contains(slice) { format!("({slice})") } else { slice.clone() })
                .collect();
            let gone = if one["goneAt"].is_null() { "" } else { " gone" };
            (one["nodeName"].as_str().unwrap().to_owned(), format!("{}{gone}", all.join(" ")))
        };
        allocations.iter().map(shown).collect()
    }

    /// The same in one line.
    pub(crate) fn shown(&self, network: &str) -> String {
        let slices = self.slices(network);
        slices.iter().map(|(node, slices)| format!("{node}={slices}")).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn epoch(&self, network: &str, node: &str) -> u64 {
        let allocations = &self.get(Kind::Pool, network).unwrap()["status"]["allocations"];
        let entry = allocations.as_array().unwrap().iter().find(|one| one["nodeName"] == node).unwrap();
        entry["epoch"].as_u64().unwrap()
    }

    /// An annotation of a pool; nothing if it has none.
    pub(crate) fn annotation(&self, pool: &str, name: &str) -> Option<&str> {
        self.get(Kind::Pool, pool)?["metadata"]["annotations"][format!("ipam.cadastre.dev/{name}")].as_str()
    }

    /// The epoch of the last write that changed what a node had, as the pool says it.
    pub(crate) fn changed(&self, pool: &str) -> u64 {
        self.annotation(pool, "changed").map_or(0, |epoch| epoch.parse().unwrap())
    }

    /// What nodes have of a network, in its pool and its shards, in one line.
    pub(crate) fn all(&self, network: &str) -> String {
        let is_its = |name: &&String| *name == network || self.annotation(name, "shard-of") == Some(network);
        let pools = self.names(Kind::Pool);
        let all: BTreeMap<String, String> =
            pools.iter().filter(is_its).rev().flat_map(|name| self.slices(name)).collect();
        all.iter().map(|(node, slices)| format!("{node}={slices}")).collect::<Vec<_>>().join(", ")
    }

    /// A node says on the `IPPool` of a slice what it asks, as of the epoch that it knows.
    pub(crate) fn ask(&mut self, node: &str, slice: &str, what: &str) {
        let name = format!("net-{node}-{}", slice.replace([':', '/'], "-"));
        let ask = format!("{what}-{}", self.epoch("net", node));
        self.ip_pool(&name, slice, Some(ask), what == "more");
        self.settle();
    }

    /// A node asks something on the `IPPool` of a slice, in which an address may be in use.
    pub(crate) fn ip_pool(&mut self, name: &str, range: &str, ask: Option<String>, in_use: bool) {
        self.put_ip_pool(name, json!({}), range, ask, in_use);
    }

    /// The same with the label by which the agent of a node says whose it is.
    pub(crate) fn ip_pool_of(&mut self, name: &str, node: &str, range: &str, ask: Option<String>, in_use: bool) {
        self.put_ip_pool(name, json!({"ipam.cadastre.dev/node": node}), range, ask, in_use);
    }

    fn put_ip_pool(&mut self, name: &str, mut labels: Value, range: &str, ask: Option<String>, in_use: bool) {
        if let Some(ask) = ask {
            labels["ipam.cadastre.dev/asks"] = json!(ask);
        }
        let allocations = if in_use { json!({"1": {"id": "i", "podref": "p"}}) } else { json!({}) };
        let pool = json!({"metadata": {"labels": labels}, "spec": {"range": range, "allocations": allocations}});
        self.put(Kind::IpPool, name, pool);
    }
}

/// A plain configuration with that part about addresses, of a network of that name.
pub(crate) fn conf(network: &str, ipam: &Value) -> Value {
    let mut ipam = ipam.clone();
    ipam["type"] = json!("whereabouts");
    ipam["network_name"] = json!(network);
    json!({"cniVersion": "1.0.0", "name": "conf", "type": "macvlan", "ipam": ipam})
}

fn shared_pool(name: &str, pool: &Value) -> Option<SharedPool> {
    let spec = &pool["spec"];
    SharedPool::read(name, spec["range"].as_str()?, spec["allocations"].as_object()?)
}

fn revision(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

fn show(plan: &mut Plan, kind: Kind, name: &str, object: Option<&Value>) {
    let object = object.map(|object| Object::from_value(object.clone()).unwrap());
    match (kind, object) {
        (Kind::Node, Some(node)) => plan.see_node(Node::read(&node)),
        (Kind::Node, None) => plan.lose_node(name),
        (Kind::Definition, Some(definition)) => plan.see_definition(&definition),
        (Kind::Definition, None) => plan.lose_definition(name),
        (Kind::Pool, Some(pool)) => plan.see_pool(pool),
        (Kind::Pool, None) => plan.lose_pool(name),
        (Kind::IpPool, Some(pool)) => plan.see_ip_pool(&pool),
        (Kind::IpPool, None) => plan.lose_ip_pool(name),
    }
}
