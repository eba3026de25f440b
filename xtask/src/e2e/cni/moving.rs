//! Moving over from the real whereabouts on a live network, on a real kube-apiserver: the real whereabouts gives pods their addresses, and where
//! there are slices its own controller gives them to nodes; then ours go on where they are, and either plugin deletes pods of the other.
//!
//! After every step the pools, the reservations and the journals say what those who were answered know, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use space::Cidr;
use testkit::real::NodeSliceController;

use super::SUITE;
use super::books;
use super::call::End;
use super::cluster::{Api, Cluster, Home, IP_POOLS, RESERVATIONS, SLICE_POOLS, Setup, eventually};
use super::machine::{GIVEN_BACK, IFNAME, Machine, Network, Sandbox, ips};
use super::slices::apart;
use crate::e2e::Options;
use crate::e2e::method::Method;
use crate::e2e::report::{Outcome, Report};
use crate::parts::Part;

const CASES: [(&str, Case); 2] =
    [("moving: slices of whereabouts are adopted", adopted), ("moving: normal to fast on a live network", cut)];

/// What a case does, in an empty folder.
type Case = fn(&Setup<'_>, &Path, &Path) -> Result<String>;

/// whereabouts' controller gives slices only for definitions in its own namespace.
const DEFINITIONS: &str = "/apis/k8s.cni.cncf.io/v1/namespaces/kube-system/network-attachment-definitions";
const PODS: &str = "/api/v1/namespaces/default/pods";
const NETWORK: &str = "moving";
/// How long somebody who was told to end may take.
const STOP: Duration = Duration::from_secs(30);
/// Both types of `ipam` that ours answers to.
const WHEREABOUTS: &str = "whereabouts";
const CADASTRE: &str = "cadastre";

/// Makes the cases that are asked for, each in a cluster of its own.
pub(super) fn run(setup: &Setup<'_>, options: &Options, plugin: &Path, folder: &Path, report: &mut Report) {
    let setup = Setup { home: Home::Beside, ..*setup };
    for (number, (name, run)) in CASES.into_iter().enumerate() {
        if options.only.as_ref().is_none_or(|only| name.contains(only)) {
            let began = Instant::now();
            let outcome = run(&setup, plugin, &folder.join(number.to_string()));
            let outcome = outcome.map_or_else(|why| Outcome::Failed(format!("{why:#}")), Outcome::Ok);
            report.case(SUITE, setup.place, name, &outcome, began.elapsed());
        }
    }
}

/// Whose plugin a runtime calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Theirs,
    Ours,
}

/// A pod that runs.
struct Pod {
    node: usize,
    sandbox: Sandbox,
    /// The configuration that it was started with, which is the one that runtimes delete it with.
    conf: Value,
    ip: IpAddr,
    /// Whether the journal of its node has it.
    is_in_journal: bool,
}

/// A network that moves over, its nodes and its pods.
struct Live {
    cluster: Cluster,
    api: Api,
    theirs: PathBuf,
    /// The `ipam` of its definition, but for the type.
    ipam: Value,
    machines: Vec<Machine>,
    pods: BTreeMap<String, Pod>,
    /// How many pods there were.
    count: usize,
}

impl Live {
    fn new(setup: &Setup<'_>, cluster: Cluster, folder: &Path, range: &str) -> Result<Self> {
        // Without this file whereabouts does nothing.
        let flat = folder.join("whereabouts.conf");
        fs::write(&flat, "{}")?;
        let ipam = json!({
            "network_name": NETWORK, "range": range, "log_level": "error", "configuration_path": flat,
            "kubernetes": {"kubeconfig": cluster.peoples_config()},
        });
        let (api, theirs) = (cluster.api(), setup.servers.part(Part::Whereabouts)?);
        Ok(Self { cluster, api, theirs, ipam, machines: Vec::new(), pods: BTreeMap::new(), count: 0 })
    }

    /// Nodes join; their agents are not started.
    fn join(&mut self, plugin: &Path, folder: &Path, names: &[&str]) -> Result<()> {
        self.api.join(NETWORK, names.iter().map(ToString::to_string))?;
        for name in names {
            self.machines.push(Machine::new(&self.cluster, plugin, folder, name)?);
        }
        Ok(())
    }

    fn conf(&self, kind: &str) -> Value {
        let mut conf = json!({"cniVersion": "1.0.0", "name": NETWORK, "type": "macvlan", "ipam": self.ipam});
        conf["ipam"]["type"] = json!(kind);
        conf
    }

    /// Its definition; the one that is there is changed.
    fn define(&mut self, kind: &str) -> Result<()> {
        let spec = json!({"config": self.conf(kind).to_string()});
        let path = format!("{DEFINITIONS}/{NETWORK}");
        if !self.api.get(&path)?.is_null() {
            return self.api.ask(Method::Merge, &path, &json!({"spec": spec})).map(drop);
        }
        let object = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": NETWORK},
            "spec": spec,
        });
        self.api.ask(Method::Post, DEFINITIONS, &object).map(drop)
    }

    fn network(&self) -> Network {
        Network { name: NETWORK.to_owned(), ipam: self.ipam.clone() }
    }

    fn call(&self, by: By, call: &str, conf: &Value, node: usize, sandbox: &Sandbox) -> Result<End> {
        let machine = &self.machines[node];
        match by {
            By::Theirs => machine.call_of(&self.theirs, call, conf, sandbox, None),
            By::Ours => machine.call_with(call, conf, sandbox, None),
        }
    }

    /// An ADD, again and again, as runtimes make it; the address and how often it was refused.
    fn add(&self, by: By, conf: &Value, node: usize, sandbox: &Sandbox) -> Result<(IpAddr, u32)> {
        let mut refused = 0;
        let answer = eventually(GIVEN_BACK, || match self.call(by, "ADD", conf, node, sandbox)? {
            End::Answered(answer) => Ok(answer),
            said => {
                refused += 1;
                bail!("ADD of {} by {by:?}: {said:?}", sandbox.pod)
            }
        })?;
        let ip = ips(&answer)?.pop().with_context(|| format!("no address in {answer}"))?;
        let ip = ip.split('/').next().unwrap_or_default().parse().with_context(|| format!("{answer}"))?;
        Ok((ip, refused))
    }

    /// A pod starts on a node; its name, and how often that was refused.
    fn start(&mut self, by: By, kind: &str, node: usize, is_in_journal: bool) -> Result<(String, u32)> {
        let name = format!("pod-{}", self.count);
        self.count += 1;
        let machine = &self.machines[node];
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeName": machine.name, "containers": [{"name": "main", "image": "none"}]},
        });
        let made = self.api.ask(Method::Post, PODS, &pod)?;
        let sandbox = machine.sandbox("default", &name, made["metadata"]["uid"].as_str().unwrap_or_default())?;
        let conf = self.conf(kind);
        let (ip, refused) = self.add(by, &conf, node, &sandbox)?;
        let other = self.pods.iter().find(|(_, pod)| pod.ip == ip);
        ensure!(other.is_none(), "twice: {name} got {ip} from {by:?}, which {:?} has", other.map(|(name, _)| name));
        self.pods.insert(name.clone(), Pod { node, sandbox, conf, ip, is_in_journal });
        Ok((name, refused))
    }

    /// It is asked for again, and has what it had.
    fn again(&self, by: By, name: &str) -> Result<()> {
        let pod = self.pods.get(name).with_context(|| format!("no {name}"))?;
        let (ip, _) = self.add(by, &pod.conf, pod.node, &pod.sandbox)?;
        ensure!(ip == pod.ip, "{name} had {}, and is told {ip} by {by:?}", pod.ip);
        Ok(())
    }

    /// A pod goes, with the configuration that it was started with: its DEL, then its namespace, then the API forgets it.
    fn end(&mut self, by: By, name: &str) -> Result<()> {
        let pod = self.del(by, name)?;
        self.forget(&pod)
    }

    /// Its DEL alone.
    fn del(&mut self, by: By, name: &str) -> Result<Pod> {
        let mut pod = self.pods.remove(name).with_context(|| format!("no {name}"))?;
        if by == By::Theirs {
            // It refuses any other, and so is only asked with this one: after a change back, or by who has put its binary in the place of ours.
            pod.conf["ipam"]["type"] = json!(WHEREABOUTS);
        }
        let said = self.call(by, "DEL", &pod.conf, pod.node, &pod.sandbox)?;
        ensure!(matches!(said, End::Answered(_)), "DEL of {name} by {by:?}: {said:?}");
        Ok(pod)
    }

    /// The rest.
    fn forget(&mut self, pod: &Pod) -> Result<()> {
        pod.sandbox.vanish()?;
        let path = format!("{PODS}/{}", pod.sandbox.pod);
        self.api.ask(Method::Delete, &path, &json!({"gracePeriodSeconds": 0})).map(drop)
    }

    /// Waits until pools, reservations and journals say what is known; how long that took.
    fn expect(&mut self) -> Result<Duration> {
        let began = Instant::now();
        let network = self.network();
        let who =
            |pod: &Pod| [&pod.sandbox.container, &format!("default/{}", pod.sandbox.pod), IFNAME].map(str::to_owned);
        let entries: BTreeMap<_, _> = self.pods.values().map(|pod| (pod.ip, who(pod))).collect();
        let reserved: BTreeSet<_> = entries.keys().map(|ip| books::reservation(NETWORK, *ip)).collect();
        eventually(GIVEN_BACK, || {
            let shown = books::shown(&self.api.list(IP_POOLS)?)?;
            ensure!(shown == entries, "IPPools should have {entries:?}, and have {shown:?}");
            let found = self.api.list(RESERVATIONS)?;
            let name = |one: &Value| one["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let found: BTreeSet<_> = found.iter().map(name).collect();
            ensure!(found == reserved, "expected the reservations {reserved:?}, and there are {found:?}");
            for (node, machine) in self.machines.iter().enumerate() {
                let its = self.pods.values().filter(|pod| pod.node == node && pod.is_in_journal);
                let its: BTreeSet<_> = its.map(|pod| (pod.sandbox.attachment(), pod.ip)).collect();
                let mut journal = BTreeSet::new();
                for (attachment, ips) in machine.journal(&network)? {
                    for ip in ips {
                        let ip = ip.split('/').next().unwrap_or_default().parse()?;
                        ensure!(journal.insert((attachment.clone(), ip)), "{attachment:?} has {ip} twice");
                    }
                }
                ensure!(journal == its, "{} should hold {its:?}, and holds {journal:?}", machine.name);
            }
            Ok(())
        })?;
        self.cluster.are_up()?;
        Ok(began.elapsed())
    }

    /// Waits until the `NodeSlicePool` is as it should be, and says which node has which slice; none twice.
    fn slices(&mut self, what: &str, holds: impl Fn(&Value) -> bool) -> Result<BTreeMap<String, String>> {
        let path = format!("{SLICE_POOLS}/{NETWORK}");
        let mut pool = self.api.until(&path, what, GIVEN_BACK, holds)?;
        // whereabouts lists what is free too.
        if let Some(all) = pool["status"]["allocations"].as_array_mut() {
            all.retain(|one| one["nodeName"] != "");
        }
        apart(&pool)
    }

    /// Starts the agents of these nodes.
    fn start_agents(&self, nodes: std::ops::Range<usize>) -> Result<()> {
        for machine in &self.machines[nodes] {
            machine.start_agent()?;
        }
        Ok(())
    }

    /// Waits until all agents may give out a slice.
    fn granted(&self) -> Result<()> {
        self.machines.iter().try_for_each(|machine| machine.granted(&self.network(), 1))
    }

    /// The pods, in the order of their names.
    fn names(&self) -> Vec<String> {
        self.pods.keys().cloned().collect()
    }

    /// All pods go, by turns by ours and by theirs, and nothing is left.
    fn end_all(&mut self) -> Result<()> {
        for (number, name) in self.names().into_iter().enumerate() {
            self.end(if number % 2 == 0 { By::Ours } else { By::Theirs }, &name)?;
        }
        self.expect().context("when all pods were gone")?;
        self.api.ask(Method::Delete, &format!("{DEFINITIONS}/{NETWORK}"), &json!({}))?;
        self.expect().context("when the network was gone").map(drop)
    }
}

fn entries(pool: &Value) -> impl Iterator<Item = &Value> {
    pool["status"]["allocations"].as_array().into_iter().flatten()
}

/// Whether so many nodes have a slice.
fn served(count: usize) -> impl Fn(&Value) -> bool {
    move |pool| {
        entries(pool).filter(|one| one["nodeName"].as_str().is_some_and(|name| !name.is_empty())).count() == count
    }
}

/// Whether an address is in a slice.
fn is_in(slice: &str, ip: IpAddr) -> Result<bool> {
    Ok(Cidr::strict(slice)?.overlaps(&Cidr::strict(&format!("{ip}/32"))?))
}

/// Nodes have slices of whereabouts' controller and pods addresses of whereabouts; ours take over the same objects.
fn adopted(setup: &Setup<'_>, plugin: &Path, folder: &Path) -> Result<String> {
    let mut live = Live::new(setup, setup.of_whereabouts(folder)?, folder, "10.60.0.0/24")?;
    live.join(plugin, folder, &["moving-a", "moving-b", "moving-c"])?;
    live.ipam["node_slice_size"] = json!("/28");
    let binary = setup.servers.part(Part::NodeSliceController)?;
    let mut controller = NodeSliceController::start(&binary, live.cluster.peoples_config(), "kube-system", folder)?;
    live.define(WHEREABOUTS)?;
    let slices = live.slices("whereabouts' controller gave all nodes slices", served(3))?;
    for _ in 0..4 {
        for node in 0..2 {
            live.start(By::Theirs, WHEREABOUTS, node, false)?;
        }
    }
    live.expect().context("of whereabouts alone")?;
    ensure!(controller.ended()?.is_none(), "whereabouts' controller ended; see {}", controller.log().display());
    controller.stop(STOP)?;

    live.cluster.apply_kinds()?;
    live.cluster.start_controller()?;
    let is_ours = |pool: &Value| served(3)(pool) && entries(pool).all(|one| one["nodeUID"].is_string());
    ensure!(live.slices("ours took the pool over", is_ours)? == slices, "slices moved");
    live.start_agents(0..3)?;
    live.granted()?;
    live.pods.values_mut().for_each(|pod| pod.is_in_journal = true);
    live.expect().context("when the agents came")?;

    // The type may stay, and it may change: either way nobody has what another one has.
    for name in live.names() {
        live.again(By::Ours, &name)?;
    }
    let mut new = Vec::new();
    for node in 0..3 {
        new.push(live.start(By::Ours, WHEREABOUTS, node, true)?.0);
    }
    live.expect().context("of pods that ours started, of whereabouts' type")?;
    // A runtime that has not heard of it yet.
    let (late, refused) = live.start(By::Theirs, WHEREABOUTS, 0, true)?;
    live.expect().context("of a pod that whereabouts started beside an agent")?;
    live.define(CADASTRE)?;
    for node in 0..3 {
        new.push(live.start(By::Ours, CADASTRE, node, true)?.0);
    }
    live.expect().context("of pods that ours started, of our type")?;
    for pod in live.pods.values() {
        let slice = &slices[&live.machines[pod.node].name];
        ensure!(is_in(slice, pod.ip)?, "{} has {}, which is not in {slice}", pod.sandbox.pod, pod.ip);
    }
    ensure!(live.slices("it stays", |_| true)? == slices, "slices moved when the type did");

    // Each deletes a pod of the other, and whereabouts one of its own.
    let deleted = live.del(By::Ours, "pod-0")?;
    // Its namespace is there, so nobody but the plugin says that it is free.
    let ours = live.expect().context("of a DEL by ours of a pod of whereabouts")?;
    live.forget(&deleted)?;
    for name in [&new[0], &new[3]] {
        live.end(By::Theirs, name)?;
    }
    let theirs = live.expect().context("of a DEL by whereabouts of pods of ours")?;
    for name in ["pod-1", &late] {
        live.end(By::Theirs, name)?;
    }
    live.expect().context("of a DEL by whereabouts of pods of its own")?;
    for node in 0..2 {
        live.start(By::Ours, CADASTRE, node, true)?;
    }
    live.expect().context("of pods that came then")?;
    let count = live.count;
    live.end_all()?;
    Ok(format!(
        "{count} pods on 3 nodes; an ADD of whereabouts beside an agent was refused {refused} times; what ours deleted was gone after {ours:.1?}, what \
         whereabouts did of ours after {theirs:.1?}"
    ))
}

/// Nodes share a range, and pods have addresses of it; then it is cut into slices.
fn cut(setup: &Setup<'_>, plugin: &Path, folder: &Path) -> Result<String> {
    let mut live = Live::new(setup, setup.start(folder)?, folder, "10.61.0.0/24")?;
    live.join(plugin, folder, &["moving-a", "moving-b"])?;
    live.define(WHEREABOUTS)?;
    for number in 0..10 {
        live.start(By::Theirs, WHEREABOUTS, number % 2, false)?;
    }
    live.expect().context("of whereabouts alone")?;
    live.start_agents(0..2)?;
    live.end(By::Theirs, "pod-1")?;
    let (shared, _) = live.start(By::Ours, CADASTRE, 1, true)?;
    live.expect().context("of both at the shared range")?;

    live.ipam["node_slice_size"] = json!("/29");
    live.define(CADASTRE)?;
    let slices = live.slices("both nodes have slices", served(2))?;
    let in_use: Vec<IpAddr> = live.pods.values().map(|pod| pod.ip).collect();
    for slice in slices.values() {
        for ip in &in_use {
            ensure!(!is_in(slice, *ip)?, "{ip} is in use, and in the slice {slice} that was given");
        }
    }
    live.granted()?;
    for number in 0..6 {
        let (name, _) = live.start(By::Ours, CADASTRE, number % 2, true)?;
        let (pod, slice) = (&live.pods[&name], &slices[&live.machines[number % 2].name]);
        ensure!(is_in(slice, pod.ip)?, "{name} has {}, which is not in {slice}", pod.ip);
    }
    live.expect().context("of the first pods on slices")?;

    // Those of before go with the configuration that they came with; what ours started, the new one will do for too.
    let conf = live.conf(CADASTRE);
    live.pods.get_mut(&shared).context("it is gone")?.conf = conf;
    live.end(By::Ours, &shared)?;
    live.expect().context("of a DEL with the new configuration")?;
    live.end(By::Theirs, "pod-0")?;
    live.expect().context("of a DEL by whereabouts")?;
    for number in 2..7 {
        live.end(By::Ours, &format!("pod-{number}"))?;
    }
    let took = live.expect().context("of DELs by ours with the old configuration")?;
    // Nobody has an address of the first slice any more, and of the second one somebody has.
    live.join(plugin, folder, &["moving-c"])?;
    live.start_agents(2..3)?;
    let slices = live.slices("the next node has a slice", served(3))?;
    ensure!(slices.get("moving-c").is_some_and(|slice| slice == "10.61.0.0/29"), "{slices:?}");
    live.granted()?;
    live.start(By::Ours, CADASTRE, 2, true)?;
    live.expect().context("of a pod on what was given back")?;
    let count = live.count;
    live.end_all()?;
    Ok(format!("{count} pods on 3 nodes; what was deleted with the old configuration was gone after {took:.1?}"))
}
