//! Many attachments that come and go at once on several nodes, as container runtimes make them, and calls that are killed at any moment.
//!
//! Whoever asks writes down what was answered, as a runtime does: an address is an attachment's from the answer to its ADD until its DEL
//! begins. A call that was killed has an unknown end; so it is made again, or taken back, as runtimes do.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};
use testkit::real::Plugin;

use super::books::{self, Attachment, Holdings};
use super::call::{self, End};
use crate::pods::{attachment, node};

/// The network of all nodes; each has a slice of it.
pub(super) const RANGE: &str = "10.0.0.0/16";
const NETWORK: &str = "storm";
const IFNAME: &str = "net1";
/// How many pods come and go in each of the hands of a runtime. A slice has room for all of a node's.
const PODS: u64 = 7;
/// One call of so many is made twice in a row, or asks whether all is as it was.
const REPEATED: u64 = 8;
/// How often a call that was killed is made again until it is let be.
const TRIES: u32 = 3;

/// How much.
#[derive(Clone, Copy)]
pub(super) struct Storm {
    pub(super) nodes: u64,
    /// How many calls a node has at one time.
    pub(super) hands: u64,
    /// How many calls each of them makes.
    pub(super) calls: u64,
    /// One call of so many is killed; none if it is zero.
    pub(super) killed: u64,
    pub(super) seed: u64,
}

#[derive(Default)]
struct Counts {
    adds: AtomicU64,
    dels: AtomicU64,
    checks: AtomicU64,
    kills: AtomicU64,
}

/// The configuration of the network.
pub(super) fn conf(network: &str) -> Value {
    json!({
        "cniVersion": "1.0.0", "name": network, "type": "macvlan",
        "ipam": {"type": "cadastre", "range": RANGE, "fast_ipam": true, "node_slice_size": "/27"},
    })
}

/// The slice of a node.
fn slice(node: u64) -> String {
    format!("10.0.{}.{}/27", node / 8, node % 8 * 32)
}

impl Storm {
    /// Lets it rage, and holds what every node's runtime knows against that node's journal.
    pub(super) fn run(self, binary: &Path, folder: &Path) -> Result<String> {
        let counts = Counts::default();
        let nodes = (0..self.nodes).map(|number| Node::new(binary, folder, number)).collect::<Result<Vec<_>>>()?;
        let usual = nodes.first().context("no nodes")?.usual_time()?;
        let began = Instant::now();
        thread::scope(|scope| {
            let hands = nodes.iter().flat_map(|node| (0..self.hands).map(move |hand| (node, hand)));
            let hands: Vec<_> = hands
                .map(|(node, hand)| {
                    let seed = self.seed.wrapping_add(node.number << 32 | hand);
                    let hand = Hand {
                        node,
                        number: hand,
                        random: Seeded::new(seed),
                        counts: &counts,
                        usual,
                        killed: self.killed,
                    };
                    scope.spawn(move || hand.run(self.calls))
                })
                .collect();
            hands.into_iter().try_for_each(|hand| hand.join().map_err(|_| anyhow!("a hand fell over"))?)
        })?;
        let took = began.elapsed().as_secs_f64();
        let mut held = 0;
        for node in &nodes {
            held += node.settle()?;
        }
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Ok(format!(
            "{} nodes, {} ADDs, {} DELs and {} CHECKs answered in {took:.1} s, {} calls killed; {held} addresses held at the end, 0 twice, \
             0 leaked",
            self.nodes,
            of(&counts.adds),
            of(&counts.dels),
            of(&counts.checks),
            of(&counts.kills)
        ))
    }
}

/// One node, and what its runtime knows.
struct Node {
    number: u64,
    plugin: Plugin,
    network: PathBuf,
    conf: String,
    /// Who has which address.
    book: Mutex<BTreeMap<String, String>>,
}

impl Node {
    fn new(binary: &Path, folder: &Path, number: u64) -> Result<Self> {
        let state = folder.join(format!("node-{number}"));
        let slice = slice(number);
        let network = node::grant(&state, NETWORK, &[(RANGE, vec![&slice])])?;
        let (plugin, conf) = (node::plugin(binary, &state), conf(NETWORK).to_string());
        Ok(Self { number, plugin, network, conf, book: Mutex::default() })
    }

    /// Makes a call, and kills it after that time if there is one: then nobody hears the answer.
    fn call(&self, call: &str, pod: &str, previous: Option<&Value>, kill: Option<Duration>) -> Result<Option<Value>> {
        let variables = attachment(call, pod, pod, IFNAME);
        let mut conf = self.conf.clone();
        if let Some(previous) = previous {
            let mut tree: Value = serde_json::from_str(&conf)?;
            tree["prevResult"] = previous.clone();
            conf = tree.to_string();
        }
        match call::made(self.plugin.command(variables), &conf, kill)? {
            End::Answered(answer) => Ok(Some(answer)),
            End::Refused(why) => bail!("{call} of {pod} on node {}: {why}", self.number),
            End::Killed => Ok(None),
        }
    }

    /// How long a call takes here, so that kills hit all of it.
    fn usual_time(&self) -> Result<Duration> {
        let began = Instant::now();
        for call in ["ADD", "DEL"] {
            self.call(call, "first", None, None)?;
        }
        Ok(began.elapsed() / 2)
    }

    /// An ADD was answered: the address is this pod's, and must not be another's.
    fn given(&self, pod: &str, answer: &Value) -> Result<()> {
        let ip = answer["ips"][0]["address"].as_str().with_context(|| format!("no address in {answer}"))?;
        match self.book.lock().entry(ip.to_owned()) {
            Entry::Vacant(free) => {
                free.insert(pod.to_owned());
                Ok(())
            }
            Entry::Occupied(held) if held.get() == pod => Ok(()),
            Entry::Occupied(held) => bail!("{ip} is given to {pod}, and {} has it", held.get()),
        }
    }

    /// A DEL begins: the address may be another's from now on.
    fn taken_back(&self, pod: &str) {
        self.book.lock().retain(|_, holder| holder != pod);
    }

    /// Holds the two books against each other; how many addresses are held.
    fn settle(&self) -> Result<usize> {
        let mut known = Holdings::new();
        for (ip, pod) in self.book.lock().iter() {
            known.entry(Attachment::new(pod, IFNAME)).or_default().push(ip.clone());
        }
        let journal = books::journal(&self.network)?;
        books::compare(&known, &journal).with_context(|| format!("node {}", self.number))
    }
}

/// What one hand of a runtime knows of a pod.
#[derive(Clone, PartialEq)]
enum Known {
    Absent,
    Held(Value),
    /// A call was killed.
    Unsure,
}

/// One of the hands of a runtime: it makes a call after the other.
struct Hand<'a> {
    node: &'a Node,
    number: u64,
    random: Seeded,
    counts: &'a Counts,
    usual: Duration,
    killed: u64,
}

impl Hand<'_> {
    fn run(mut self, calls: u64) -> Result<()> {
        let mut pods: Vec<_> = (0..PODS).map(|pod| (format!("h{}-p{pod}", self.number), Known::Absent)).collect();
        for _ in 0..calls {
            let (pod, known) = &mut pods[self.random.below(PODS) as usize];
            *known = self.next(pod, known.clone())?;
        }
        // Nothing is left unsure: a runtime asks until it is answered.
        for (pod, _) in pods.iter().filter(|(_, known)| *known == Known::Unsure) {
            self.del(pod, None)?;
        }
        Ok(())
    }

    fn next(&mut self, pod: &str, known: Known) -> Result<Known> {
        let repeats = self.random.below(REPEATED) == 0;
        match known {
            Known::Held(result) if repeats => {
                self.node.call("CHECK", pod, Some(&result), None)?;
                self.counts.checks.fetch_add(1, Ordering::Relaxed);
                self.add(pod, None)
            }
            Known::Held(_) => {
                self.node.taken_back(pod);
                let kill = self.kill();
                self.del(pod, kill)
            }
            // Both must come to the same: the address is not lost, and not another's.
            Known::Unsure if repeats => self.del(pod, None),
            Known::Absent | Known::Unsure => {
                let mut known = Known::Unsure;
                for _ in 0..TRIES {
                    let kill = self.kill();
                    known = self.add(pod, kill)?;
                    if kill.is_none() {
                        break;
                    }
                }
                Ok(known)
            }
        }
    }

    /// Whether the next call is killed, and when: at any moment that it may last.
    fn kill(&mut self) -> Option<Duration> {
        let strikes = self.killed > 0 && self.random.below(self.killed) == 0;
        let span = self.usual.as_micros() as u64 * 3 / 2;
        strikes.then(|| Duration::from_micros(self.random.below(span.max(1))))
    }

    fn add(&self, pod: &str, kill: Option<Duration>) -> Result<Known> {
        Ok(match self.node.call("ADD", pod, None, kill)? {
            Some(answer) => {
                self.node.given(pod, &answer)?;
                self.counts.adds.fetch_add(1, Ordering::Relaxed);
                Known::Held(answer)
            }
            None => self.was_killed(),
        })
    }

    fn del(&self, pod: &str, kill: Option<Duration>) -> Result<Known> {
        Ok(match self.node.call("DEL", pod, None, kill)? {
            Some(_) => {
                self.counts.dels.fetch_add(1, Ordering::Relaxed);
                Known::Absent
            }
            None => self.was_killed(),
        })
    }

    fn was_killed(&self) -> Known {
        self.counts.kills.fetch_add(1, Ordering::Relaxed);
        Known::Unsure
    }
}
