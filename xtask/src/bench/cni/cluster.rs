//! What needs a cluster of ours with agents: how soon the API shows who has an address, how soon what nobody gave back is free again, and
//! what an agent and a pod cost the API server where there are many nodes and networks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Map, Value, json};

use super::calls::Outcome;
use super::rows::{Load, Metric, Pace};
use crate::bench::measure::exact;
use crate::e2e::cni::books;
use crate::e2e::cni::cluster::{Api, Cluster, Home, IP_POOLS, NODES, RESERVATIONS, SLICE_POOLS, eventually};
use crate::e2e::cni::machine::{Machine, Network, Sandbox};
use crate::e2e::method::Method;

/// How many nodes and networks there are, and how many pods are given addresses of each network.
const MANY: usize = 5_000;
const NETWORKS: usize = 10;
const PODS: usize = 10;
const CASE: &str = "bench";
/// How many sandboxes vanish.
const VANISHING: usize = 20;
/// How many addresses are given one after the other until each is shown, and how many at once.
const SHOWN: usize = 200;
const BURST: usize = 100;
/// How long is waited between two looks at what is shown. A look takes about as long.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
/// How long what has thousands of objects may take, and how long nothing may happen until all has.
const PATIENCE: Duration = Duration::from_mins(3);
const SILENCE: Duration = Duration::from_secs(2);

/// The programs of ours.
pub(super) struct Ours<'a> {
    pub(super) cadastre: &'a Path,
    pub(super) plugin: &'a Path,
}

impl Ours<'_> {
    /// Sandboxes vanish and no DEL comes: how long the last of their addresses is in the journal or in an `IPPool`. The API knows of half
    /// of the pods, and has them still: another sandbox of them may come, so these take longest.
    pub(super) fn reclaimed(&self, folder: &Path) -> Result<f64> {
        let One { _cluster, mut api, network, machine } = self.one("10.0.0.0/24", "/26", folder)?;
        let mut sandboxes = Vec::new();
        for number in 0..VANISHING {
            let name = format!("pod-{number}");
            if number % 2 == 0 {
                let containers = json!([{"name": "main", "image": "none"}]);
                let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                    "spec": {"nodeName": "node", "containers": containers}});
                api.ask(Method::Post, "/api/v1/namespaces/default/pods", &pod)?;
            }
            let sandbox = machine.sandbox("default", &name, "")?;
            machine.add(&network, &sandbox)?;
            sandboxes.push(sandbox);
        }
        eventually(PATIENCE, || {
            ensure!(entries(&mut api)? == VANISHING, "not all addresses are shown");
            Ok(())
        })?;
        let began = Instant::now();
        for sandbox in &sandboxes {
            sandbox.vanish()?;
        }
        eventually(PATIENCE, || {
            ensure!(machine.journal(&network)?.is_empty(), "the journal has some");
            ensure!(entries(&mut api)? == 0, "IPPools have some");
            Ok(())
        })?;
        Ok(began.elapsed().as_secs_f64() * 1e9)
    }

    /// A cluster with one network and one node, which has a slice of it.
    fn one(&self, range: &str, size: &str, folder: &Path) -> Result<One> {
        let cluster = Cluster::ours(self.cadastre, Home::Inside, &[], folder)?;
        let network = Network::sliced("one", CASE, range, size);
        let mut api = cluster.api();
        api.define(&network.name, network.ipam.clone())?;
        api.join(CASE, std::iter::once("node".to_owned()))?;
        let machine = Machine::new(&cluster, self.plugin, folder, "node")?;
        machine.start_agent()?;
        machine.granted(&network, 1)?;
        Ok(One { machine, network, api, _cluster: cluster })
    }

    /// How long it takes from the answer to an ADD until the API has the address in an `IPPool` and a reservation of it: one after the
    /// other, and many at once.
    pub(super) fn mirror(&self, folder: &Path) -> Result<[(Pace, Outcome); 2]> {
        let mut one = self.one("10.0.0.0/16", "/22", folder)?;
        let mut in_turn = Vec::new();
        for number in 0..SHOWN {
            let sandbox = one.machine.sandbox("default", &format!("pod-{number}"), "")?;
            let ip = added(&one.machine, &one.network, &sandbox)?;
            let answered = Instant::now();
            one.until_shows(&[ip])?;
            in_turn.push(answered.elapsed());
            one.machine.del(&one.network, &sandbox)?;
            one.until_shows(&[])?;
        }
        let sandboxes = (0..BURST).map(|number| one.machine.sandbox("default", &format!("burst-{number}"), ""));
        let sandboxes: Vec<Sandbox> = sandboxes.collect::<Result<_>>()?;
        let burst = one.burst(&sandboxes)?;
        Ok([(Pace::InTurn, Outcome::new(in_turn)), (Pace::Burst, Outcome::new(burst))])
    }

    /// What goes from the server to a node of a large cluster: when its agent starts, when a further node joins, when pods come and go on
    /// another node, and when they do on this one, without their agent, which would tell of them. And what objects there are.
    pub(super) fn load(&self, folder: &Path) -> Result<Vec<(Metric, f64)>> {
        let cluster = Cluster::ours(self.cadastre, Home::Inside, &[], folder)?;
        let meter = Meter::start(cluster.address())?;
        let metered = meter.kubeconfig(&cluster, folder)?;
        let other = Machine::new(&cluster, self.plugin, folder, "node-00001.example.org")?;
        let cluster = cluster.reached_by(metered);
        let mut api = cluster.api();
        let network = |number| {
            let mut network = Network::sliced(&format!("net-{number}"), CASE, "10.0.0.0/8", "/22");
            // The plugin could ask the server, and whatever that answered would be counted.
            network.ipam["kubernetes"] = json!({"kubeconfig": cluster.agents_config});
            network
        };
        let networks: Vec<Network> = (0..NETWORKS).map(network).collect();
        for network in &networks {
            api.define(&network.name, network.ipam.clone())?;
        }
        api.join(CASE, (0..MANY).map(|number| format!("node-{number:05}.example.org")))?;
        let mut all_have = |count: usize| -> Result<()> {
            for network in &networks {
                let is_whole =
                    |pool: &Value| pool["status"]["allocations"].as_array().is_some_and(|all| all.len() == count);
                let path = format!("{SLICE_POOLS}/{}", network.name);
                api.until(&path, "all nodes have slices", PATIENCE, is_whole)?;
            }
            Ok(())
        };
        all_have(MANY)?;
        let (objects, largest) = objects(&mut cluster.api())?;
        let machine = Machine::new(&cluster, self.plugin, folder, "node-00000.example.org")?;
        machine.start_agent()?;
        for network in &networks {
            machine.granted(network, 1)?;
        }
        let started = meter.rest();
        // What the agent is sent when one more node has joined.
        let mut join = |name: &str, count: usize| -> Result<u64> {
            let before = meter.rest();
            let node =
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"case": CASE}}});
            cluster.api().ask(Method::Post, NODES, &node)?;
            all_have(count)?;
            Ok(meter.rest() - before)
        };
        let joined = join("one-more", MANY + 1)?;
        other.start_agent()?;
        for network in &networks {
            other.granted(network, 1)?;
        }
        let before = meter.rest();
        come_and_go(&other, &networks, &mut cluster.api())?;
        let others = meter.rest() - before;
        // It may have been nothing, and must not be so because nobody listens.
        ensure!(join("another", MANY + 2)? > 0, "the agent does not hear of a node that joins");
        machine.kill_agent()?;
        let before = meter.rest();
        for (number, network) in networks.iter().enumerate() {
            for pod in 0..PODS {
                let sandbox = machine.sandbox("default", &format!("pod-{number}-{pod}"), "")?;
                machine.add(network, &sandbox)?;
                machine.del(network, &sandbox)?;
            }
        }
        let path = meter.rest() - before;
        let all = [
            (Load::Start, started),
            (Load::Join, joined),
            (Load::Others, others),
            (Load::Path, path),
            (Load::Objects, objects),
            (Load::Largest, largest),
        ];
        Ok(all.into_iter().map(|(load, bytes)| (Metric::Load(load), exact(bytes))).collect())
    }
}

/// How many entries all `IPPool`s have.
fn entries(api: &mut Api) -> Result<usize> {
    let pools = api.list(IP_POOLS)?;
    Ok(pools.iter().filter_map(|pool| pool["spec"]["allocations"].as_object()).map(Map::len).sum())
}

/// How many objects there are of slices and addresses, and how many bytes the largest has.
fn objects(api: &mut Api) -> Result<(u64, u64)> {
    let (mut count, mut largest) = (0, 0);
    for kind in [SLICE_POOLS, IP_POOLS, RESERVATIONS] {
        for object in api.list(kind)? {
            count += 1;
            largest = largest.max(object.to_string().len());
        }
    }
    Ok((count, largest as u64))
}

/// Pods are given addresses of each network, which the API shows, and give them back, which it shows too.
fn come_and_go(machine: &Machine, networks: &[Network], api: &mut Api) -> Result<()> {
    let mut sandboxes = Vec::new();
    for network in networks {
        for pod in 0..PODS {
            let sandbox = machine.sandbox("default", &format!("{}-{pod}", network.name), "")?;
            machine.add(network, &sandbox)?;
            sandboxes.push((network, sandbox));
        }
    }
    eventually(PATIENCE, || {
        ensure!(entries(api)? == sandboxes.len(), "not all addresses are shown");
        ensure!(api.list(RESERVATIONS)?.len() == sandboxes.len(), "not all reservations are shown");
        Ok(())
    })?;
    for (network, sandbox) in &sandboxes {
        machine.del(network, sandbox)?;
    }
    eventually(PATIENCE, || {
        ensure!(entries(api)? == 0 && api.list(RESERVATIONS)?.is_empty(), "something is left");
        Ok(())
    })
}

/// A cluster with one network and one node, whose agent ends before its server does.
struct One {
    machine: Machine,
    network: Network,
    api: Api,
    _cluster: Cluster,
}

impl One {
    /// Waits until the API shows these, and nothing else.
    fn until_shows(&mut self, expected: &[IpAddr]) -> Result<()> {
        let began = Instant::now();
        loop {
            let shown = Shown::look(&mut self.api)?;
            if shown.is(&self.network, expected) {
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "the API should show {expected:?}, and shows {shown:?}");
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// All at once: how long each takes.
    fn burst(&mut self, sandboxes: &[Sandbox]) -> Result<Vec<Duration>> {
        let Self { machine, network, api, .. } = self;
        let (machine, network) = (&*machine, &*network);
        let began = Instant::now();
        thread::scope(|scope| {
            let add = |sandbox: &Sandbox| Ok::<_, anyhow::Error>((added(machine, network, sandbox)?, Instant::now()));
            let hands: Vec<_> = sandboxes.iter().map(|sandbox| scope.spawn(move || add(sandbox))).collect();
            let mut seen = BTreeMap::new();
            while seen.len() < sandboxes.len() {
                let shown = Shown::look(api)?;
                let now = Instant::now();
                for ip in shown.whole(network) {
                    seen.entry(ip).or_insert(now);
                }
                ensure!(began.elapsed() < PATIENCE, "of {} addresses {} are shown", sandboxes.len(), seen.len());
                thread::sleep(BETWEEN_LOOKS);
            }
            let took = hands.into_iter().map(|hand| {
                let (ip, answered) = hand.join().map_err(|_| anyhow!("a hand fell over"))??;
                let seen = seen.get(&ip).with_context(|| format!("{ip} is not shown"))?;
                // The agent may be sooner than the runtime.
                Ok(seen.saturating_duration_since(answered))
            });
            took.collect()
        })
    }
}

/// The address that a pod is given.
fn added(machine: &Machine, network: &Network, sandbox: &Sandbox) -> Result<IpAddr> {
    let ips = machine.add(network, sandbox)?;
    let ip = ips.first().and_then(|ip| ip.split('/').next()).with_context(|| format!("given: {ips:?}"))?;
    Ok(ip.parse()?)
}

/// What the API shows at one moment.
#[derive(Debug)]
struct Shown {
    entries: BTreeSet<IpAddr>,
    reservations: BTreeSet<String>,
}

impl Shown {
    fn look(api: &mut Api) -> Result<Self> {
        let entries = books::shown(&api.list(IP_POOLS)?)?.into_keys().collect();
        let reservations = api.list(RESERVATIONS)?;
        let names = reservations.iter().filter_map(|one| one["metadata"]["name"].as_str());
        Ok(Self { entries, reservations: names.map(str::to_owned).collect() })
    }

    /// What has an entry and a reservation.
    fn whole(&self, network: &Network) -> impl Iterator<Item = IpAddr> {
        let is_reserved = |ip: &IpAddr| self.reservations.contains(&books::reservation(&network.name, *ip));
        self.entries.iter().copied().filter(is_reserved)
    }

    fn is(&self, network: &Network, expected: &[IpAddr]) -> bool {
        let counts = [self.entries.len(), self.reservations.len()];
        counts == [expected.len(); 2] && self.whole(network).eq(expected.iter().copied())
    }
}

/// A way to a server that counts what the server says.
struct Meter {
    address: SocketAddr,
    said: Arc<AtomicU64>,
}

impl Meter {
    fn start(server: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, said) = (listener.local_addr()?, Arc::<AtomicU64>::default());
        let (server, counter) = (server.to_owned(), Arc::clone(&said));
        // It ends with the program.
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(&server) else { continue };
                let (Ok(to_far), Ok(to_near)) = (far.try_clone(), near.try_clone()) else { continue };
                thread::spawn(move || pass(near, to_far, &AtomicU64::new(0)));
                let counter = Arc::clone(&counter);
                thread::spawn(move || pass(far, to_near, &counter));
            }
        });
        Ok(Self { address, said })
    }

    /// The kubeconfig of agents, by this way.
    fn kubeconfig(&self, cluster: &Cluster, folder: &Path) -> Result<PathBuf> {
        let text = fs::read_to_string(&cluster.agents_config)?;
        ensure!(text.contains(cluster.address()), "the kubeconfig does not say where the server is");
        let path = folder.join("metered.kubeconfig");
        fs::write(&path, text.replace(cluster.address(), &self.address.to_string())).context("no kubeconfig")?;
        Ok(path)
    }

    /// How much was said so far, when nothing more is.
    fn rest(&self) -> u64 {
        let mut before = self.said.load(Ordering::Relaxed);
        loop {
            thread::sleep(SILENCE);
            let now = self.said.load(Ordering::Relaxed);
            if now == before {
                return now;
            }
            before = now;
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, counter: &AtomicU64) {
    let mut buffer = vec![0; 64 * 1024];
    let mut piece = || -> io::Result<usize> {
        let read = from.read(&mut buffer)?;
        to.write_all(&buffer[..read])?;
        Ok(read)
    };
    while let Ok(read @ 1..) = piece() {
        counter.fetch_add(read as u64, Ordering::Relaxed);
    }
    let _ = to.shutdown(Shutdown::Both);
}
