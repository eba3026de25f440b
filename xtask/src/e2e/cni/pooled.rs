//! Networks without slices on a real kube-apiserver: ours and the real whereabouts take turns at one pool, and ours at a pool that many
//! nodes want at once while it is killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Map, Value, json};
use testkit::real::{Plugin, Said};

use super::call::made;
use crate::pods::whereabouts::Whereabouts;
use crate::pods::{NODE, attachment, node};

/// The namespaces of the cases.
pub(super) const NAMESPACES: [&str; 3] = ["beside", "storm", "moving"];

/// What a case does.
type Case = fn(&Both<'_>) -> Result<String>;

/// The cases by name.
pub(super) const CASES: [(&str, Case); 3] = [
    ("whereabouts and ours at one pool", beside),
    ("a pool that all nodes want, and kill -9", storm),
    ("moving over and back", moving),
];

/// Nodes in the storm, pods of each, and how many of them quickly.
const NODES: usize = 8;
const PODS: usize = 25;
const QUICK_PODS: usize = 5;
const RANGE: &str = "10.7.0.0/24";
const POOL: &str = "10.7.0.0-24";

/// Both plugins, and the server that they share.
pub(super) struct Both<'a> {
    pub(super) control: &'a Whereabouts,
    pub(super) ours: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) is_quick: bool,
}

/// A plugin on one node with a configuration.
struct Runtime {
    plugin: Plugin,
    conf: String,
}

impl Runtime {
    fn call(&self, call: &str, pod: &str) -> Result<Said> {
        Ok(self.plugin.run(attachment(call, pod, pod, "net1"), &self.conf)?)
    }

    fn add(&self, pod: &str) -> Result<String> {
        let said = self.call("ADD", pod)?;
        let answer: Value = serde_json::from_str(&said.stdout).with_context(|| format!("{said:?}"))?;
        let ip = answer["ips"][0]["address"].as_str().with_context(|| format!("ADD of {pod}: {}", said.stdout))?;
        Ok(ip.to_owned())
    }

    fn del(&self, pod: &str) -> Result<()> {
        let said = self.call("DEL", pod)?;
        ensure!(said.code == Some(0), "DEL of {pod}: {said:?}");
        Ok(())
    }
}

impl Both<'_> {
    fn conf(&self, namespace: &str, kind: &str) -> Result<String> {
        let mut ipam = self.control.ipam(namespace, &Map::new())?;
        ipam.extend([("type".to_owned(), json!(kind)), ("range".to_owned(), json!(RANGE))]);
        Ok(json!({"cniVersion": "1.0.0", "name": "net", "type": "macvlan", "ipam": ipam}).to_string())
    }

    fn theirs(&self, namespace: &str) -> Result<Runtime> {
        Ok(Runtime { plugin: self.control.plugin(NODE), conf: self.conf(namespace, "whereabouts")? })
    }

    fn ours(&self, namespace: &str, at: &str) -> Result<Runtime> {
        let plugin = node::plugin(self.ours, &self.folder.join(namespace).join(at));
        Ok(Runtime { plugin, conf: self.conf(namespace, "cadastre")? })
    }

    /// That the pool has these pods at these ends of addresses, and that what is reserved is the same.
    fn expect(&self, namespace: &str, expected: &BTreeMap<String, String>) -> Result<()> {
        let entries = self.control.entries(namespace, POOL)?;
        let found: BTreeMap<_, _> = entries.iter().map(|(at, pod)| (format!("10.7.0.{at}/24"), pod.clone())).collect();
        let wanted: BTreeMap<_, _> = expected.iter().map(|(pod, ip)| (ip.clone(), format!("dev/{pod}"))).collect();
        ensure!(wanted.len() == expected.len(), "an address is there twice: {expected:?}");
        ensure!(found == wanted, "expected {wanted:?} in the pool, and there is {found:?}");
        let mut reserved = self.control.reservations(namespace)?;
        let mut wanted: Vec<_> = wanted.keys().map(|ip| ip.trim_end_matches("/24").to_owned()).collect();
        reserved.sort_unstable();
        wanted.sort_unstable();
        ensure!(reserved == wanted, "expected the reservations {wanted:?}, and there are {reserved:?}");
        Ok(())
    }
}

/// Each takes what the other left, and each gives back its own.
fn beside(both: &Both<'_>) -> Result<String> {
    let (theirs, ours) = (both.theirs("beside")?, both.ours("beside", "node")?);
    let mut known = BTreeMap::new();
    for (number, runtime) in [&theirs, &ours, &ours, &theirs, &ours, &theirs].into_iter().enumerate() {
        let pod = format!("pod-{number}");
        let ip = runtime.add(&pod)?;
        ensure!(ip == format!("10.7.0.{}/24", number + 1), "{pod} got {ip}");
        known.insert(pod, ip);
    }
    both.expect("beside", &known)?;
    for (runtime, pod) in [(&theirs, "pod-0"), (&ours, "pod-1")] {
        runtime.del(pod)?;
        known.remove(pod);
        both.expect("beside", &known)?;
    }
    for (runtime, pod, end) in [(&ours, "late-0", 1), (&theirs, "late-1", 2)] {
        let ip = runtime.add(pod)?;
        ensure!(ip == format!("10.7.0.{end}/24"), "{pod} got {ip}");
        known.insert(pod.to_owned(), ip);
    }
    both.expect("beside", &known)?;
    // A DEL that the other one's plugin gets, as after a change of the type.
    for (runtime, pod) in [(&ours, "pod-3"), (&theirs, "pod-2"), (&theirs, "late-0"), (&ours, "late-1")] {
        runtime.del(pod)?;
        known.remove(pod);
        both.expect("beside", &known)?;
    }
    Ok("12 calls by turns".to_owned())
}

/// Moving over: pods of whereabouts are there, the type changes, pods go and come again; and back.
fn moving(both: &Both<'_>) -> Result<String> {
    let (theirs, ours) = (both.theirs("moving")?, both.ours("moving", "node")?);
    let mut known = BTreeMap::new();
    for number in 0..4 {
        let pod = format!("pod-{number}");
        known.insert(pod.clone(), theirs.add(&pod)?);
    }
    // A pod that is asked for again keeps what it has, under either.
    for runtime in [&ours, &theirs, &ours] {
        ensure!(runtime.add("pod-2")? == known["pod-2"], "pod-2 moved");
    }
    ours.del("pod-0")?;
    known.remove("pod-0");
    known.insert("new".to_owned(), ours.add("new")?);
    ensure!(known["new"] == "10.7.0.1/24", "new got {}", known["new"]);
    both.expect("moving", &known)?;
    theirs.del("new")?;
    ours.del("new")?;
    known.remove("new");
    for pod in ["pod-1", "pod-2", "pod-3"] {
        theirs.del(pod)?;
        known.remove(pod);
    }
    both.expect("moving", &known)?;
    Ok("4 pods there and back".to_owned())
}

/// Many nodes at one pool; every third call is killed and made again.
fn storm(both: &Both<'_>) -> Result<String> {
    let pods = if both.is_quick { QUICK_PODS } else { PODS };
    let known = Mutex::new(BTreeMap::new());
    let nodes: Vec<Runtime> = (0..NODES).map(|node| both.ours("storm", &node.to_string())).collect::<Result<_>>()?;
    let work = |at: usize, runtime: &Runtime| -> Result<()> {
        for number in 0..pods {
            let pod = format!("pod-{at}-{number}");
            if number % 3 == 1 {
                killed(runtime, "ADD", &pod, number as u64)?;
            }
            let ip = runtime.add(&pod)?;
            if number % 2 == 0 {
                known.lock().map_err(|_| anyhow!("a hand fell over"))?.insert(pod, ip);
                continue;
            }
            if number % 3 == 2 {
                killed(runtime, "DEL", &pod, number as u64)?;
            }
            runtime.del(&pod)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let work = &work;
        let hands: Vec<_> =
            nodes.iter().enumerate().map(|(at, runtime)| scope.spawn(move || work(at, runtime))).collect();
        for hand in hands {
            match hand.join() {
                Ok(done) => done?,
                Err(_) => bail!("a hand fell over"),
            }
        }
        Ok(())
    })?;
    let known = known.into_inner().map_err(|_| anyhow!("a hand fell over"))?;
    both.expect("storm", &known)?;
    Ok(format!("{} calls on {NODES} nodes, {} addresses held", NODES * pods, known.len()))
}

/// Starts a call and kills it, at another moment each time.
fn killed(runtime: &Runtime, call: &str, pod: &str, moment: u64) -> Result<()> {
    let command = runtime.plugin.command(attachment(call, pod, pod, "net1"));
    made(command, &runtime.conf, Some(Duration::from_millis(1 + moment * 3 % 23))).map(drop)
}
