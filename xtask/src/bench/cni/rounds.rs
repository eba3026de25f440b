//! What is measured, and how.
//!
//! Times of ours and of the floor are taken in turns, because the machine is not as fast in one second as in the next. The real
//! whereabouts has the same machine for itself afterwards, with its API server and etcd.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cni::api::AGENT_SOCKET;
use serde_json::{Map, Value, json};
use testkit::real::{Agent, AgentOptions};

use super::Programs;
use super::calls::{Attached, Outcome, at_once, timed};
use super::cluster::Ours;
use super::rows::{Figures, Metric, Part, Whose};
use crate::bench::report::{Figure, Unit, shown};
use crate::e2e::cni::cluster::eventually;
use crate::parts;
use crate::pods::whereabouts::{self, PARTS, Whereabouts};
use crate::pods::{NODE, node};

/// ADDs one after the other: of ours, and of whereabouts, which takes a hundred times as long.
const ADDS: usize = 1_000;
const THEIR_ADDS: usize = 100;
/// How many are done before anything counts.
const WARM_UP: usize = 20;
/// How large a record in a journal is, about.
const RECORD: usize = 200;
/// Nodes, pods of each and calls at once, in a cluster of some size.
const NODES: usize = 64;
const PODS: usize = 10;
const HANDS: usize = 64;
/// A pod on every node at one time, each with so many networks.
const STORM_NODES: usize = 256;
const STORM_NETWORKS: usize = 10;
/// Addresses that are held in a slice.
const HELD: usize = 1_000;
const IN_SLICE: usize = 400;
/// 64 slices of it, or 256, have room for all.
const RANGE: &str = "10.0.0.0/16";
const SIZE: &str = "/24";
const NAMESPACE: &str = "bench";
/// Where the pools of ours are, so that nobody is in the way of the other.
const OUR_NAMESPACE: &str = "bench-ours";
const ALONE_NAMESPACE: &str = "bench-alone";
/// Which boot of its node an agent is told of; the same as the plugin.
const BOOT: &str = "00000000000000000000000000000001";
/// ADDs at one pool that all nodes share, and how many at once.
const IN_POOL: usize = 200;
const POOL_HANDS: usize = 32;
/// How long an agent may take to start.
const AGENT_PATIENCE: Duration = Duration::from_secs(30);

/// Measures what is wanted.
pub(super) fn run(wanted: &BTreeSet<Metric>, programs: &Programs, folder: &Path) -> Result<Figures> {
    let mut figures = Figures::new();
    let wants = |any: &dyn Fn(&Metric) -> bool| wanted.iter().any(any);
    if wants(&|metric| matches!(metric, Metric::Floor | Metric::Add(Whose::Ours, _))) {
        sequential(programs, folder, &mut figures)?;
    }
    if wants(&|metric| matches!(metric, Metric::Slice(_))) {
        slices(programs, folder, &mut figures)?;
    }
    if wants(&|metric| matches!(metric, Metric::Nodes(Whose::Ours, _))) {
        eprintln!("ours: {NODES} nodes");
        let nodes = cluster(programs, &folder.join("nodes"), NODES, 1)?;
        let outcome = at_once(HANDS, &adds(&nodes))?;
        note(&mut figures, &outcome, |part| Metric::Nodes(Whose::Ours, part));
    }
    if wants(&|metric| matches!(metric, Metric::Storm(_))) {
        eprintln!("ours: {STORM_NODES} nodes with {STORM_NETWORKS} networks");
        let nodes = cluster(programs, &folder.join("storm"), STORM_NODES, STORM_NETWORKS)?;
        let all = nodes.iter().enumerate();
        let all: Vec<_> =
            all.map(|(at, one)| (one, "pod".to_owned(), format!("network {}", at / STORM_NODES))).collect();
        let outcome = at_once(STORM_NODES, &all)?;
        note(&mut figures, &outcome, Metric::Storm);
    }
    let ours = Ours { cadastre: &programs.cadastre, plugin: &programs.ours };
    if wanted.contains(&Metric::Reclaimed) {
        eprintln!("ours: sandboxes vanish");
        let took = ours.reclaimed(&folder.join("reclaimed"))?;
        set(&mut figures, Metric::Reclaimed, took, Metric::Reclaimed.unit());
    }
    if wants(&|metric| matches!(metric, Metric::Mirror(..))) {
        eprintln!("ours: until the API shows who has an address");
        for (pace, outcome) in ours.mirror(&folder.join("mirror"))? {
            for (part, percent) in [(Part::Median, 50), (Part::Tail, 99)] {
                let metric = Metric::Mirror(pace, part);
                set(&mut figures, metric, outcome.percentile(percent), metric.unit());
            }
        }
    }
    if wants(&|metric| matches!(metric, Metric::Load(_))) {
        eprintln!("ours: what a node of a large cluster is sent");
        for (metric, bytes) in ours.load(&folder.join("load"))? {
            set(&mut figures, metric, bytes, metric.unit());
        }
    }
    let needs_server = |metric: &Metric| {
        matches!(metric, Metric::Add(Whose::Theirs, _) | Metric::Nodes(Whose::Theirs, _) | Metric::Pool(..))
    };
    if wants(&needs_server) {
        theirs(programs, folder, wanted, &mut figures)?;
    }
    Ok(figures)
}

fn set(figures: &mut Figures, metric: Metric, value: f64, unit: Unit) {
    eprintln!("  {metric:?}: {}", shown(value, unit));
    figures.insert(metric, Figure::Value(value));
}

fn note(figures: &mut Figures, outcome: &Outcome, metric: impl Fn(Part) -> Metric) {
    if let Some(error) = outcome.first_error() {
        eprintln!("  the first error: {error}");
    }
    for (part, value) in [
        (Part::Rate, outcome.per_second()),
        (Part::Median, outcome.percentile(50)),
        (Part::Tail, outcome.percentile(99)),
        (Part::Most, outcome.percentile(100)),
        (Part::Errors, outcome.errors()),
        (Part::Twice, outcome.twice()),
    ] {
        set(figures, metric(part), value, metric(part).unit());
    }
}

/// ADDs, each taken back off the clock, and the floor, by turns.
fn sequential(programs: &Programs, folder: &Path, figures: &mut Figures) -> Result<()> {
    eprintln!("ours, one after the other");
    let mut floor = Floor::new(programs, folder)?;
    let attached = attached(programs, &folder.join("one"), "one", "10.0.0.0/24")?;
    let (mut floors, mut adds) = (Vec::new(), Vec::new());
    for number in 0..ADDS + WARM_UP {
        let (pod, counts) = (format!("pod-{number}"), number >= WARM_UP);
        let took = floor.once()?;
        floors.extend(counts.then_some(took));
        let (took, _) = attached.add(&pod)?;
        adds.extend(counts.then_some(took));
        attached.del(&pod)?;
    }
    let (floors, adds) = (Outcome::new(floors), Outcome::new(adds));
    set(figures, Metric::Floor, floors.percentile(50), Metric::Floor.unit());
    for (part, percent) in [(Part::Median, 50), (Part::Tail, 99)] {
        let metric = Metric::Add(Whose::Ours, part);
        set(figures, metric, adds.percentile(percent), metric.unit());
    }
    Ok(())
}

/// ADDs in a slice with many addresses held and in one with none, by turns.
fn slices(programs: &Programs, folder: &Path, figures: &mut Figures) -> Result<()> {
    eprintln!("ours, in an empty slice and in one with {HELD} addresses held");
    let empty = attached(programs, &folder.join("empty"), "slice", "10.0.16.0/20")?;
    let full = attached(programs, &folder.join("full"), "slice", "10.0.16.0/20")?;
    for pod in 0..HELD {
        full.add(&format!("held-{pod}"))?;
    }
    let mut times = [Vec::new(), Vec::new()];
    for number in 0..IN_SLICE + WARM_UP {
        for (slice, times) in [&empty, &full].into_iter().zip(&mut times) {
            let (took, _) = slice.add("measured")?;
            times.extend((number >= WARM_UP).then_some(took));
            slice.del("measured")?;
        }
    }
    for (held, times) in [false, true].into_iter().zip(times) {
        set(figures, Metric::Slice(held), Outcome::new(times).percentile(50), Metric::Slice(held).unit());
    }
    Ok(())
}

/// What nobody can do without.
struct Floor {
    trivial: Command,
    file: File,
}

impl Floor {
    fn new(programs: &Programs, folder: &Path) -> Result<Self> {
        let path = folder.join("floor");
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let mut trivial = Command::new(&programs.trivial);
        trivial.env_clear();
        Ok(Self { trivial, file: file.with_context(|| format!("could not open {}", path.display()))? })
    }

    fn once(&mut self) -> Result<Duration> {
        let (started, _) = timed(&mut self.trivial, "")?;
        let began = Instant::now();
        self.file.write_all(&[0; RECORD])?;
        self.file.sync_data()?;
        Ok(started + began.elapsed())
    }
}

/// Our plugin on a node with one slice of one network.
fn attached(programs: &Programs, state: &Path, network: &str, slice: &str) -> Result<Attached> {
    node::grant(state, network, &[(RANGE, vec![slice])])?;
    let ipam = Map::from_iter([("fast_ipam".to_owned(), json!(true))]);
    Ok(Attached { plugin: node::plugin(&programs.ours, state), conf: conf(network, ipam), netns: None })
}

fn conf(network: &str, mut ipam: Map<String, Value>) -> String {
    ipam.extend([("type".to_owned(), json!("whereabouts")), ("range".to_owned(), json!(RANGE))]);
    json!({"cniVersion": "1.0.0", "name": network, "type": "macvlan", "ipam": ipam}).to_string()
}

fn slice(node: usize) -> String {
    format!("10.0.{node}.0/24")
}

/// Nodes with a slice of each network: the first network on every node, then the next.
fn cluster(programs: &Programs, folder: &Path, nodes: usize, networks: usize) -> Result<Vec<Attached>> {
    let pairs = (0..networks).flat_map(|network| (0..nodes).map(move |node| (network, node)));
    pairs
        .map(|(network, node)| {
            attached(programs, &folder.join(node.to_string()), &format!("network-{network}"), &slice(node))
        })
        .collect()
}

/// The same number of pods on each of the nodes, the first of each first.
fn adds(nodes: &[Attached]) -> Vec<(&Attached, String, String)> {
    let pods = (0..PODS).flat_map(|pod| nodes.iter().enumerate().map(move |(node, attached)| (pod, node, attached)));
    pods.map(|(pod, node, attached)| (attached, format!("pod-{node}-{pod}"), String::new())).collect()
}

/// What needs a server. The real whereabouts: its normal mode one after the other and many at once, its fast mode on many nodes at once.
/// And ours in normal mode, on the same server.
fn theirs(programs: &Programs, folder: &Path, wanted: &BTreeSet<Metric>, figures: &mut Figures) -> Result<()> {
    let parts = match parts::ensure(&PARTS) {
        Ok(parts) => parts,
        Err(why) => {
            let missing = Figure::Missing(format!("not measured: {why:#}"));
            let metrics = [Part::Rate, Part::Median, Part::Tail, Part::Most, Part::Errors, Part::Twice];
            let metrics = metrics.into_iter().flat_map(|part| {
                let pools = [Whose::Ours, Whose::Alone, Whose::Theirs].map(|whose| Metric::Pool(whose, part));
                [Metric::Add(Whose::Theirs, part), Metric::Nodes(Whose::Theirs, part)].into_iter().chain(pools)
            });
            figures.extend(metrics.map(|metric| (metric, missing.clone())));
            return Ok(());
        }
    };
    let whereabouts = Whereabouts::start(&parts, &folder.join("whereabouts"))?;
    let given: Vec<_> = (0..NODES).map(|node| (format!("node-{node}"), slice(node))).collect();
    let pool = whereabouts::slice_pool(NAMESPACE, "fast", RANGE, SIZE, &given);
    whereabouts.create(&[NAMESPACE, OUR_NAMESPACE, ALONE_NAMESPACE], vec![pool])?;
    let (plugin, ipam) = (whereabouts.plugin(NODE), whereabouts.ipam(NAMESPACE, &Map::new())?);

    if wanted.iter().any(|metric| matches!(metric, Metric::Pool(..))) {
        eprintln!("ours and whereabouts: {IN_POOL} ADDs at one pool, {POOL_HANDS} at once");
        let theirs = Attached { plugin: plugin.clone(), conf: conf("pool", ipam.clone()), netns: None };
        let shared = Shared { programs, whereabouts: &whereabouts, folder };
        let (with_agent, agent) = shared.node("pool", OUR_NAMESPACE, true)?;
        share(&with_agent, Whose::Ours, figures)?;
        if let Some(mut agent) = agent {
            ensure!(agent.ended()?.is_none(), "the agent ended; see {}", folder.join("pool.log").display());
        }
        share(&shared.node("pool-alone", ALONE_NAMESPACE, false)?.0, Whose::Alone, figures)?;
        share(&theirs, Whose::Theirs, figures)?;
    }
    if !wanted.iter().any(|metric| matches!(metric, Metric::Add(Whose::Theirs, _) | Metric::Nodes(Whose::Theirs, _))) {
        return Ok(());
    }
    eprintln!("whereabouts, one after the other");
    let normal = Attached { plugin: plugin.clone(), conf: conf("normal", ipam.clone()), netns: None };
    let mut times = Vec::new();
    for number in 0..THEIR_ADDS + WARM_UP {
        let pod = format!("pod-{number}");
        let (took, _) = normal.add(&pod)?;
        times.extend((number >= WARM_UP).then_some(took));
        normal.del(&pod)?;
    }
    let times = Outcome::new(times);
    for (part, percent) in [(Part::Median, 50), (Part::Tail, 99)] {
        let metric = Metric::Add(Whose::Theirs, part);
        set(figures, metric, times.percentile(percent), metric.unit());
    }

    eprintln!("whereabouts: {NODES} nodes");
    let fast: Map<_, _> = ipam.into_iter().chain([("node_slice_size".to_owned(), json!(SIZE))]).collect();
    let conf = conf("fast", fast);
    let nodes: Vec<_> = given
        .iter()
        .map(|(node, _)| Attached { plugin: plugin.clone().with("NODENAME", node), conf: conf.clone(), netns: None })
        .collect();
    let outcome = at_once(HANDS, &adds(&nodes))?;
    note(figures, &outcome, |part| Metric::Nodes(Whose::Theirs, part));
    Ok(())
}

/// ADDs at one pool, many at once.
fn share(attached: &Attached, whose: Whose, figures: &mut Figures) -> Result<()> {
    attached.add("first")?;
    let adds: Vec<_> = (0..IN_POOL).map(|pod| (attached, format!("pod-{pod}"), String::new())).collect();
    let outcome = at_once(POOL_HANDS, &adds)?;
    note(figures, &outcome, |part| Metric::Pool(whose, part));
    Ok(())
}

/// Our plugin on a network without slices, on the server that whereabouts has.
struct Shared<'a> {
    programs: &'a Programs,
    whereabouts: &'a Whereabouts,
    folder: &'a Path,
}

impl Shared<'_> {
    /// A node of that name, and its agent if it is to have one. The namespaces of its pods are there: an agent would give addresses of
    /// others back.
    fn node(&self, name: &str, namespace: &str, has_agent: bool) -> Result<(Attached, Option<Agent>)> {
        let Self { programs, whereabouts, folder } = self;
        let (state_dir, netns) = (folder.join(name), folder.join(format!("{name}.netns")));
        std::fs::write(&netns, "").with_context(|| format!("could not write {}", netns.display()))?;
        let ipam = whereabouts.ipam(namespace, &Map::new())?;
        let plugin = node::plugin(&programs.ours, &state_dir).with("CADASTRE_BOOT_ID", BOOT);
        let attached = Attached { plugin, conf: conf("pool", ipam), netns: Some(netns.display().to_string()) };
        if !has_agent {
            return Ok((attached, None));
        }
        let kubeconfig = whereabouts.kubeconfig(namespace)?;
        let options = AgentOptions {
            binary: &programs.cadastre,
            node: NODE,
            boot: BOOT,
            kubeconfig: &kubeconfig,
            state_dir: &state_dir,
        };
        let agent = Agent::start(options, &folder.join(format!("{name}.log")))?;
        let socket = state_dir.join(AGENT_SOCKET);
        eventually(AGENT_PATIENCE, || {
            ensure!(socket.exists(), "the agent has no socket");
            Ok(())
        })?;
        Ok((attached, Some(agent)))
    }
}
