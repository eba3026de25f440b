//! Agents, the API server and the controller are killed again and again, alone and together, while pods come and go on several nodes and
//! networks; and calls of the plugin are killed too.
//!
//! Whoever asks writes down what was answered. From the answer to an ADD until its DEL begins, or its sandbox vanishes without one, an
//! address is that attachment's and nobody else's in the whole network. Networks with slices must serve whatever is down. In the end
//! everything is up, and the book of the runtimes, the journals, the `IPPool`s and the reservations have to say the same; then all
//! pods go, and nothing may be left anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

use super::books::{self, Attachment, Entry, Holdings, reservation};
use super::call::End;
use super::cluster::{Api, Cluster, EVENTS, Home, IP_POOLS, RESERVATIONS, SLICE_POOLS, Setup, eventually};
use super::machine::{IFNAME, Machine, Network, Sandbox, ips};
use super::slices::apart;
use crate::e2e::method::Method;

const CASE: &str = "killed";
/// The namespace of all pods.
const NAMESPACE: &str = "dev";
/// How many nodes there are, how many calls a node has at one time, and how many pods each of those who call have at most.
const NODES: usize = 3;
const HANDS: usize = 2;
const PODS: u64 = 5;
/// One call of so many is killed, one pod of so many vanishes instead of being deleted, and one step of so many only asks again.
const KILLED: u64 = 6;
const VANISHING: u64 = 4;
const REPEATED: u64 = 6;
/// How often a call that was killed is made again until it is let be.
const TRIES: u32 = 3;
/// The longest that a call goes on before it is killed, and that something stays down, in microseconds.
const CALL: u64 = 60_000;
const DOWN: u64 = 700_000;
/// The longest time between two faults, in microseconds.
const BETWEEN: u64 = 500_000;
/// How long it may take until everybody says the same, when everything is up: an agent waits at most ten seconds before it tries again,
/// and what is owed of a call that was killed is settled when it has been for 45 seconds.
const SETTLED: Duration = Duration::from_mins(2);
/// CNI's codes for "try again later" and ours for "nothing is free".
const LATER: u64 = 11;
const FULL: u64 = 100;
/// What agents must not have had to tell.
const WRONG: [&str; 4] = ["AddressOfTwo", "SliceOfTwoNodes", "JournalLost", "AddressInUse"];

/// How often, and from which number the choices begin.
#[derive(Clone, Copy)]
pub(super) struct Killing {
    pub(super) faults: u64,
    pub(super) seed: u64,
    /// Whether it is waited for until nothing is owed to pools that all nodes share. Otherwise what is owed is no leak.
    pub(super) waits_for_debts: bool,
}

/// What a network promises while something is down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// Every ADD is served.
    Always,
    /// An ADD may find nothing free: a further slice comes when everything is up.
    UnlessFull,
    /// An ADD needs the server.
    WithServer,
}

/// One who holds addresses.
#[derive(Clone)]
struct Holder {
    node: usize,
    network: usize,
    sandbox: Sandbox,
    ips: Vec<String>,
}

/// Everything that takes part.
struct Stage {
    cluster: Cluster,
    machines: Vec<Machine>,
    networks: Vec<(Network, Promise)>,
    /// By container and network.
    book: Mutex<BTreeMap<(String, usize), Holder>>,
    is_over: AtomicBool,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    adds: AtomicU64,
    dels: AtomicU64,
    vanished: AtomicU64,
    refused: AtomicU64,
    killed: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Killing {
    /// Starts it all, lets it rage, and looks what is left.
    pub(super) fn run(self, setup: &Setup<'_>, plugin: &Path, folder: &Path) -> Result<String> {
        let flags = ["--leader-elect=false"];
        let cluster = Setup { home: Home::Beside, flags: &flags, ..*setup }.start(folder)?;
        let stage = Stage::set(cluster, plugin, folder)?;
        let began = Instant::now();
        let faults = thread::scope(|scope| {
            let hands: Vec<_> = (0..NODES * HANDS)
                .map(|hand| {
                    let random = Seeded::new(self.seed.wrapping_add(1 + hand as u64));
                    let hand = Hand { stage: &stage, node: hand % NODES, number: hand, random };
                    scope.spawn(|| stage.ending(hand.run()))
                })
                .collect();
            let faults = stage.ending(stage.strike(self.faults, Seeded::new(self.seed)));
            let hands = hands.into_iter().map(|hand| hand.join().map_err(|_| anyhow!("a hand fell over"))?);
            hands.collect::<Result<Vec<()>>>()?;
            faults
        })?;
        let took = began.elapsed().as_secs_f64();
        let (held, settled) = stage.settle(self.waits_for_debts).context("after the faults")?;
        stage.told_nothing_wrong()?;
        stage.collect()?;
        stage.settle(self.waits_for_debts).context("after a GC that lists all")?;
        let further = stage.slices_are_apart()?;
        stage.leave()?;
        stage.settle(self.waits_for_debts).context("after all pods are gone")?;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counts { adds, dels, vanished, refused, killed } = &stage.counts;
        Ok(format!(
            "{faults} in {took:.1} s; {} ADDs and {} DELs answered, {} sandboxes vanished, {} calls killed, {} refused as they may be; \
             {held} addresses held on {NODES} nodes, {further} further slices; 0 twice, 0 leaked {settled:.1?} after the last fault; \
             and nothing left when all pods were gone",
            of(adds),
            of(dels),
            of(vanished),
            of(killed),
            of(refused),
        ))
    }
}

impl Stage {
    /// The networks are defined, and every node has its slices of them.
    fn set(cluster: Cluster, plugin: &Path, folder: &Path) -> Result<Self> {
        let mut dual = Network::sliced("dual", CASE, "10.22.0.0/16", "/27");
        dual.ipam["ipRanges"] = json!([{"range": "fd22::/64"}]);
        let networks = vec![
            (Network::sliced("roomy", CASE, "10.21.0.0/16", "/26"), Promise::Always),
            (dual, Promise::Always),
            // A slice is full before all pods of a node are there.
            (Network::sliced("tight", CASE, "10.23.0.0/24", "/29"), Promise::UnlessFull),
            (Network::shared("shared", "10.24.0.0/16", &cluster), Promise::WithServer),
        ];
        let mut api = cluster.api();
        for (network, _) in networks.iter().filter(|(_, promise)| *promise != Promise::WithServer) {
            api.define(&network.name, network.ipam.clone())?;
        }
        let names = (0..NODES).map(|node| format!("killed-{node}"));
        api.join(CASE, names.clone())?;
        know_pods(&cluster, &mut api)?;
        let machines: Vec<_> =
            names.map(|name| Machine::new(&cluster, plugin, folder, &name)).collect::<Result<_>>()?;
        for machine in &machines {
            machine.start_agent()?;
        }
        for machine in &machines {
            machine.granted(&networks[0].0, 1)?;
            machine.granted(&networks[1].0, 2)?;
            machine.granted(&networks[2].0, 1)?;
        }
        let (book, is_over, counts) = (Mutex::default(), AtomicBool::new(false), Counts::default());
        Ok(Self { cluster, machines, networks, book, is_over, counts })
    }

    /// Whoever comes to an end ends it for all.
    fn ending<T>(&self, outcome: Result<T>) -> Result<T> {
        self.is_over.store(true, Ordering::Relaxed);
        outcome
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Kills whatever there is, so many times; everything is up when this returns.
    fn strike(&self, faults: u64, mut random: Seeded) -> Result<String> {
        let (mut agents, mut servers, mut controllers) = (0, 0, 0);
        for _ in 0..faults {
            rest(&mut random, BETWEEN);
            if self.is_over() {
                break;
            }
            let one = random.below(NODES as u64) as usize;
            let struck: Vec<&Machine> = match random.below(8) {
                0..=2 => vec![&self.machines[one]],
                3 | 4 => self.machines.iter().collect(),
                _ => Vec::new(),
            };
            // Agents alone, agents with the server, the server alone, and the controller with it or alone.
            let server = struck.is_empty() || random.below(2) == 0;
            let controller = random.below(4) == 0;
            let agents_first = random.below(2) == 0;
            if server {
                self.cluster.kill_server()?;
                servers += 1;
            }
            for machine in &struck {
                machine.kill_agent()?;
                agents += 1;
            }
            if controller {
                self.cluster.kill_controller()?;
                controllers += 1;
            }
            rest(&mut random, DOWN);
            if agents_first {
                struck.iter().try_for_each(|machine| machine.start_agent())?;
            }
            if server {
                self.cluster.start_server()?;
            }
            if controller {
                self.cluster.start_controller()?;
            }
            if !agents_first {
                rest(&mut random, DOWN / 2);
                struck.iter().try_for_each(|machine| machine.start_agent())?;
            }
        }
        Ok(format!("agents killed {agents} times, the server {servers}, the controller {controllers}"))
    }

    /// An ADD was answered: nobody else may have any of these.
    fn given(&self, holder: Holder) -> Result<()> {
        let mut book = self.book.lock();
        let key = (holder.sandbox.container.clone(), holder.network);
        for (other, held) in book.iter().filter(|(other, held)| held.network == holder.network && **other != key) {
            if let Some(ip) = held.ips.iter().find(|ip| holder.ips.contains(ip)) {
                bail!("twice: {ip} is given to {} on node {}, and {other:?} has it", key.0, holder.node);
            }
        }
        if let Some(before) = book.get(&key) {
            ensure!(before.ips == holder.ips, "{} had {:?} and now {:?}", key.0, before.ips, holder.ips);
        }
        book.insert(key, holder);
        Ok(())
    }

    /// A DEL begins, or a sandbox vanishes: the addresses may be others' from now on.
    fn taken_back(&self, container: &str, network: usize) {
        self.book.lock().remove(&(container.to_owned(), network));
    }

    /// How many addresses are held, and how long it took until everybody said so. Nobody calls GC until then: Multus calls it for the
    /// cluster's own network only, so what is left on others is for the agents to find.
    fn settle(&self, waits_for_debts: bool) -> Result<(usize, Duration)> {
        let began = Instant::now();
        let mut api = self.cluster.api();
        let held = eventually(SETTLED, || {
            let (mut held, mut debtors) = (0, Debtors::default());
            for (node, machine) in self.machines.iter().enumerate() {
                for (number, (network, _)) in self.networks.iter().enumerate() {
                    let known = self.known(node, number);
                    held += books::compare(&known, &machine.journal(network)?)
                        .with_context(|| format!("{} on {}", network.name, machine.name))?;
                    debtors.take(&network.name, machine.owed(network)?)?;
                }
            }
            ensure!(!waits_for_debts || debtors.is_empty(), "owed: {debtors:?}");
            let (entries, names) = self.expected()?;
            same("IPPools", &entries, &books::shown(&api.list(IP_POOLS)?)?, |_, who| debtors.has(&who[0]))?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let shown = |one: &Value| (text(&one["metadata"]["name"]), text(&one["spec"]["podref"]));
            let reserved: BTreeMap<String, String> = api.list(RESERVATIONS)?.iter().map(shown).collect();
            same("reservations", &names, &reserved, |name, _| debtors.reserved.contains(name))?;
            Ok(held)
        })?;
        Ok((held, began.elapsed()))
    }

    /// A runtime says who is left on networks without slices; of what was settled before, this must take nothing.
    fn collect(&self) -> Result<()> {
        let shared = self.networks.iter().enumerate().filter(|(_, (_, promise))| *promise == Promise::WithServer);
        for (number, (network, _)) in shared {
            for (node, machine) in self.machines.iter().enumerate() {
                let book = self.book.lock();
                let valid = book.values().filter(|holder| (holder.node, holder.network) == (node, number));
                let valid = valid.map(|one| json!({"containerID": one.sandbox.container, "ifname": IFNAME}));
                let more = json!({"cni.dev/valid-attachments": valid.collect::<Vec<_>>()});
                drop(book);
                let nobody = machine.sandbox(NAMESPACE, "nobody", "")?;
                let said = machine.call("GC", network, &nobody, &more, None)?;
                nobody.vanish()?;
                ensure!(matches!(said, End::Answered(_)), "GC on {}: {said:?}", machine.name);
            }
        }
        Ok(())
    }

    /// What the runtime of a node knows of a network.
    fn known(&self, node: usize, network: usize) -> Holdings {
        let book = self.book.lock();
        let own = book.values().filter(|holder| (holder.node, holder.network) == (node, network));
        own.map(|holder| (holder.sandbox.attachment(), holder.ips.clone())).collect()
    }

    /// What the API has to show.
    fn expected(&self) -> Result<(BTreeMap<IpAddr, Entry>, BTreeMap<String, String>)> {
        let (mut entries, mut names) = (BTreeMap::new(), BTreeMap::new());
        for Holder { network, sandbox, ips, .. } in self.book.lock().values() {
            for ip in ips {
                let ip = bare(ip)?;
                let podref = format!("{}/{}", sandbox.namespace, sandbox.pod);
                names.insert(reservation(&self.networks[*network].0.name, ip), podref.clone());
                entries.insert(ip, [sandbox.container.clone(), podref, IFNAME.to_owned()]);
            }
        }
        Ok((entries, names))
    }

    fn told_nothing_wrong(&self) -> Result<()> {
        self.cluster.are_up()?;
        for event in self.cluster.api().list(EVENTS)? {
            let reason = event["reason"].as_str().unwrap_or_default();
            ensure!(!WRONG.contains(&reason), "{reason} was told: {}", event["message"]);
        }
        Ok(())
    }

    /// No slice is two nodes'; how many have been given beyond the first ones.
    fn slices_are_apart(&self) -> Result<usize> {
        let mut further = 0;
        for pool in self.cluster.api().list(SLICE_POOLS)? {
            apart(&pool)?;
            let entries = pool["status"]["allocations"].as_array().into_iter().flatten();
            let mut seen = BTreeSet::new();
            for entry in entries {
                let more = entry["furtherSlices"].as_array().into_iter().flatten();
                for slice in more.chain([&entry["sliceRange"]]) {
                    ensure!(seen.insert(slice.to_string()), "twice: slice {slice} in {}", pool["metadata"]["name"]);
                }
            }
            further += seen.len();
        }
        // A slice of each network and family for each node.
        Ok(further - NODES * 4)
    }

    /// All pods go.
    fn leave(&self) -> Result<()> {
        let holders: Vec<Holder> = self.book.lock().values().cloned().collect();
        for Holder { node, network, sandbox, .. } in holders {
            self.taken_back(&sandbox.container, network);
            self.machines[node].del(&self.networks[network].0, &sandbox)?;
        }
        Ok(())
    }
}

/// The API has all pods that come and go, all the time: entries of those that it does not have are taken out of shared pools by the
/// controller. They are on no node, so an agent knows of each only what its sandbox says.
fn know_pods(cluster: &Cluster, api: &mut Api) -> Result<()> {
    let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    api.ask(Method::Post, "/api/v1/namespaces", &object("Namespace", NAMESPACE))?;
    if cluster.is_control {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        api.ask(Method::Post, &path, &object("ServiceAccount", "default"))?;
    }
    for name in (0..NODES * HANDS).flat_map(|hand| (0..PODS).map(move |pod| pod_name(hand, pod))) {
        let mut pod = object("Pod", &name);
        pod["spec"] = json!({"containers": [{"name": "main", "image": "none"}]});
        api.ask(Method::Post, &format!("/api/v1/namespaces/{NAMESPACE}/pods"), &pod)?;
    }
    Ok(())
}

fn pod_name(hand: usize, pod: u64) -> String {
    format!("pod-{hand}-{pod}")
}

/// What journals know to be left in pools that all nodes share.
#[derive(Debug, Default)]
struct Debtors {
    containers: BTreeSet<String>,
    reserved: BTreeSet<String>,
}

impl Debtors {
    fn take(&mut self, network: &str, owed: Vec<(Attachment, Vec<String>)>) -> Result<()> {
        for (attachment, ips) in owed {
            self.containers.insert(attachment.container);
            for ip in ips {
                self.reserved.insert(reservation(network, bare(&ip)?));
            }
        }
        Ok(())
    }

    fn has(&self, container: &str) -> bool {
        self.containers.contains(container)
    }

    fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }
}

/// An address without the length of its prefix.
fn bare(ip: &str) -> Result<IpAddr> {
    Ok(ip.split('/').next().unwrap_or_default().parse()?)
}

/// That two maps are the same but for what is known to go, or where they differ.
fn same<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    what: &str,
    expected: &BTreeMap<K, V>,
    found: &BTreeMap<K, V>,
    is_going: impl Fn(&K, &V) -> bool,
) -> Result<()> {
    let leaked = found.iter().filter(|(key, value)| !expected.contains_key(key) && !is_going(key, value));
    let leaked = leaked.map(|one| format!("leaked: {one:?}"));
    let wrong = expected.iter().filter(|(key, value)| found.get(key) != Some(value)).map(|(key, value)| {
        let found = found.get(key);
        format!("{key:?} should be {value:?} and is {found:?}")
    });
    let wrong: Vec<String> = leaked.chain(wrong).collect();
    ensure!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
    Ok(())
}

/// Waits for up to so many microseconds.
fn rest(random: &mut Seeded, most: u64) {
    thread::sleep(Duration::from_micros(random.below(most)));
}

/// A pod that runs, and the networks that it is on.
type Running = (Sandbox, Vec<usize>);

/// One of the hands of a node's runtime, and its pods.
struct Hand<'a> {
    stage: &'a Stage,
    node: usize,
    number: usize,
    random: Seeded,
}

impl Hand<'_> {
    fn run(mut self) -> Result<()> {
        let name = |pod| pod_name(self.number, pod);
        let mut pods: Vec<(String, Option<Running>)> = (0..PODS).map(|pod| (name(pod), None)).collect();
        while !self.stage.is_over() {
            let (pod, running) = &mut pods[self.random.below(PODS) as usize];
            *running = match running.take() {
                None => self.start(pod)?,
                // Nobody says that it went.
                Some((sandbox, networks)) if self.random.below(VANISHING) == 0 => {
                    self.taken_back(&sandbox, &networks);
                    sandbox.vanish()?;
                    count(&self.stage.counts.vanished);
                    None
                }
                Some((sandbox, networks)) if self.random.below(REPEATED) == 0 => {
                    for network in &networks {
                        self.again(&sandbox, *network)?;
                    }
                    Some((sandbox, networks))
                }
                Some((sandbox, networks)) => {
                    self.end(&sandbox, &networks)?;
                    None
                }
            };
        }
        Ok(())
    }

    fn machine(&self) -> &Machine {
        &self.stage.machines[self.node]
    }

    /// A pod comes, on some of the networks; if it cannot be served, all of it is taken back, as runtimes do.
    fn start(&mut self, pod: &str) -> Result<Option<Running>> {
        let sandbox = self.machine().sandbox(NAMESPACE, pod, "")?;
        let first = self.random.below(4) as usize;
        let many = 1 + self.random.below(3) as usize;
        let networks: Vec<usize> = (0..many).map(|more| (first + more) % self.stage.networks.len()).collect();
        for network in &networks {
            if !self.add(&sandbox, *network)? {
                count(&self.stage.counts.refused);
                self.end(&sandbox, &networks)?;
                return Ok(None);
            }
        }
        Ok(Some((sandbox, networks)))
    }

    /// Whether an attachment was given its addresses.
    fn add(&mut self, sandbox: &Sandbox, number: usize) -> Result<bool> {
        let (network, promise) = &self.stage.networks[number];
        for _ in 0..TRIES {
            let Some(kill) = self.kill() else { break };
            self.machine().call("ADD", network, sandbox, &Value::Null, Some(kill))?;
        }
        match (self.machine().call("ADD", network, sandbox, &Value::Null, None)?, promise) {
            (End::Answered(answer), _) => {
                let (node, ips) = (self.node, ips(&answer)?);
                self.stage.given(Holder { node, network: number, sandbox: sandbox.clone(), ips })?;
                count(&self.stage.counts.adds);
                Ok(true)
            }
            (End::Refused(why), Promise::UnlessFull) if why["code"] == FULL => Ok(false),
            (End::Refused(why), Promise::WithServer) if why["code"] == LATER => Ok(false),
            (said, _) => bail!("ADD of {} to {} on {}: {said:?}", sandbox.pod, network.name, self.machine().name),
        }
    }

    /// Asked again, a pod has what it had; and CHECK says so.
    fn again(&mut self, sandbox: &Sandbox, number: usize) -> Result<()> {
        let network = &self.stage.networks[number].0;
        let End::Answered(answer) = self.machine().call("ADD", network, sandbox, &Value::Null, None)? else {
            bail!("{} holds addresses of {}, and is not told which", sandbox.pod, network.name);
        };
        let (node, ips) = (self.node, ips(&answer)?);
        self.stage.given(Holder { node, network: number, sandbox: sandbox.clone(), ips })?;
        let said = self.machine().call("CHECK", network, sandbox, &json!({"prevResult": answer}), None)?;
        ensure!(matches!(said, End::Answered(_)), "CHECK of {} in {}: {said:?}", sandbox.pod, network.name);
        Ok(())
    }

    fn taken_back(&self, sandbox: &Sandbox, networks: &[usize]) {
        for network in networks {
            self.stage.taken_back(&sandbox.container, *network);
        }
    }

    /// A pod goes.
    fn end(&mut self, sandbox: &Sandbox, networks: &[usize]) -> Result<()> {
        self.taken_back(sandbox, networks);
        for number in networks {
            let network = &self.stage.networks[*number].0;
            if let Some(kill) = self.kill() {
                self.machine().call("DEL", network, sandbox, &Value::Null, Some(kill))?;
            }
            self.machine().del(network, sandbox)?;
            count(&self.stage.counts.dels);
        }
        Ok(())
    }

    /// Whether the next call is killed, and when: at any moment that it may last.
    fn kill(&mut self) -> Option<Duration> {
        (self.random.below(KILLED) == 0).then(|| {
            count(&self.stage.counts.killed);
            Duration::from_micros(self.random.below(CALL))
        })
    }
}
