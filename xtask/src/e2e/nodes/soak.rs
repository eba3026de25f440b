//! Nodes come, go and are relabelled, ranges come, go and are suspended: many thousand operations by several writers at once. At every
//! revision of the history no two nodes share an address; whenever nothing is on its way, nobody waits who could be served; and when all
//! nodes are gone, every range can be filled to its last block.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

use super::book::{Book, blocks, blocks_of, name_of};
use super::cluster::{Cluster, NODES, PATIENCE, RANGES, Setup, cut, cut_for, node, range};
use crate::e2e::client::{Client, Reply, Target};
use crate::e2e::method::Method;

const WRITERS: u64 = 4;
/// How many names of nodes each writer has.
const NAMES: u64 = 40;
/// How many ranges there are at most.
const MOST_RANGES: u64 = 10;
/// After how many operations it is looked whether everybody is served.
const BETWEEN_LOOKS: u64 = 500;

/// Where ranges are cut from: they overlap, and are small enough to be full now and then.
const CUTS: [&str; 7] =
    ["10.0.0.0/24", "10.0.0.0/23", "10.0.0.0/22", "10.0.2.0/24", "10.0.4.0/22", "10.0.8.0/21", "10.0.3.192/26"];
const CUTS_V6: [&str; 3] = ["fd00::/119", "fd00::/120", "fd00::80/122"];
const ZONES: [&str; 3] = ["a", "b", "c"];

/// A writer, and the labels of the nodes that it has.
struct Writer {
    number: u64,
    random: Seeded,
    client: Client,
    zones: BTreeMap<String, &'static str>,
}

/// Who changes the ranges, and what they are.
struct Owner {
    random: Seeded,
    client: Client,
    ranges: BTreeMap<String, Value>,
    made: u64,
}

/// Runs so many operations from a seed.
pub(super) fn run(setup: &Setup<'_>, folder: &Path, operations: u64, seed: u64) -> Result<String> {
    let mut cluster = setup.start(folder)?;
    let target = cluster.target()?;
    let writer = |number| Writer {
        number,
        random: Seeded::new(seed ^ (number + 1)),
        client: Client::new(&target),
        zones: BTreeMap::new(),
    };
    let mut writers: Vec<Writer> = (0..WRITERS).map(writer).collect();
    let mut owner = Owner { random: Seeded::new(seed), client: Client::new(&target), ranges: BTreeMap::new(), made: 0 };
    let mut witness = Witness::start(&mut cluster, &target)?;
    let (mut done, mut looks, began) = (0, 0, Instant::now());
    while done < operations {
        let some = BETWEEN_LOOKS.min(operations - done);
        thread::scope(|scope| -> Result<()> {
            let owner = &mut owner;
            let mut all = vec![scope.spawn(move || owner.act(some / 20))];
            all.extend(writers.iter_mut().map(|writer| scope.spawn(move || writer.act(some / WRITERS))));
            all.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a writer fell over"))?)
        })?;
        done += some;
        looks += 1;
        witness.is_content()?;
        served(&mut cluster, &writers, &owner).with_context(|| format!("after {done} operations"))?;
    }
    let rate = u128::from(done) * 1000 / began.elapsed().as_millis().max(1);
    let waiting = Book::of(&cluster.list(NODES)?)?.waiting().count();
    emptied(&mut cluster, &owner)?;
    let filled = filled(&mut cluster, &owner)?;
    let events = witness.end(&mut cluster)?;
    Ok(format!(
        "{done} operations by {WRITERS} writers, {rate} a second, and {} ranges, {events} events without an overlap, {looks} looks at who waits \
         ({waiting} in the end, with nothing for them), {filled} blocks of {} ranges given when all nodes were gone",
        owner.made,
        owner.ranges.len()
    ))
}

impl Writer {
    fn act(&mut self, operations: u64) -> Result<()> {
        for _ in 0..operations {
            let name = format!("w{}-{}", self.number, self.random.below(NAMES));
            let zone = self.random.one_of(&ZONES);
            let path = format!("{NODES}/{name}");
            let (method, path, body) = match (self.zones.contains_key(&name), self.random.below(3)) {
                (false, _) => (Method::Post, NODES, Some(node(&name, &[("zone", zone)], &[]))),
                (true, 0) => (Method::Merge, path.as_str(), Some(json!({"metadata": {"labels": {"zone": zone}}}))),
                (true, _) => (Method::Delete, path.as_str(), None),
            };
            write(&mut self.client, method, path, body.as_ref())?;
            if method == Method::Delete {
                self.zones.remove(&name);
            } else {
                self.zones.insert(name, zone);
            }
        }
        Ok(())
    }
}

impl Owner {
    fn act(&mut self, operations: u64) -> Result<()> {
        for _ in 0..operations {
            let some = self.some();
            match (some, self.random.below(8)) {
                (Some(name), 0 | 1) => {
                    write(&mut self.client, Method::Delete, &format!("{RANGES}/{name}"), None)?;
                    self.ranges.remove(&name);
                }
                (Some(name), 2) => {
                    let spec = self.ranges.entry(name.clone()).or_default();
                    spec["suspend"] = json!(spec["suspend"] != true);
                    let patch = json!({"spec": {"suspend": spec["suspend"]}});
                    write(&mut self.client, Method::Merge, &format!("{RANGES}/{name}"), Some(&patch))?;
                }
                _ if (self.ranges.len() as u64) < MOST_RANGES => {
                    self.made += 1;
                    let (name, spec) = (format!("r{}", self.made), self.choose());
                    write(&mut self.client, Method::Post, RANGES, Some(&range(&name, &spec)))?;
                    self.ranges.insert(name, spec);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn some(&mut self) -> Option<String> {
        let number = self.random.below(self.ranges.len() as u64) as usize;
        self.ranges.keys().nth(number).cloned()
    }

    fn choose(&mut self) -> Value {
        let random = &mut self.random;
        let bits = 4 + random.below(3) as u8;
        let cidrs = match random.below(4) {
            0 => format!("{},{}", random.one_of(&CUTS), random.one_of(&CUTS_V6)),
            1 => random.one_of(&CUTS_V6).to_owned(),
            _ => random.one_of(&CUTS).to_owned(),
        };
        let (one, other) = (random.one_of(&ZONES), random.one_of(&ZONES));
        match random.below(3) {
            0 => cut(bits, &cidrs),
            1 => cut_for(bits, &cidrs, &[("zone", one)]),
            _ => cut_for(bits, &cidrs, &[("zone", one), ("zone", other)]),
        }
    }
}

fn write(client: &mut Client, method: Method, path: &str, body: Option<&Value>) -> Result<()> {
    match client.send_as(method.media(), method.verb(), path, body) {
        Reply::Answer(200 | 201, _) => Ok(()),
        other => bail!("{} {path}: {other:?}", method.verb()),
    }
}

/// Nobody waits whom a range would serve that has room, once everything has been seen to.
fn served(cluster: &mut Cluster, writers: &[Writer], owner: &Owner) -> Result<()> {
    let zones: BTreeMap<&String, &str> =
        writers.iter().flat_map(|writer| &writer.zones).map(|(n, z)| (n, *z)).collect();
    let mut unserved = String::new();
    let settled = cluster.until("everybody is served who can be", PATIENCE, |cluster| {
        let book = Book::of(&cluster.list(NODES)?)?;
        ensure!(book.len() == zones.len(), "there are {} nodes, not {}", book.len(), zones.len());
        let open: Vec<_> = owner.ranges.iter().filter(|(_, spec)| spec["suspend"] != true).collect();
        let roomy = open.into_iter().filter(|(_, spec)| book.has_room(spec).unwrap_or(true)).collect::<Vec<_>>();
        let could = |name: &&str| {
            let zone = zones.iter().find(|(own, _)| own.as_str() == *name).map(|(_, zone)| *zone).unwrap_or_default();
            roomy.iter().any(|(_, spec)| selects(spec, zone))
        };
        unserved = book.waiting().filter(could).collect::<Vec<_>>().join(", ");
        Ok(unserved.is_empty().then_some(()))
    });
    settled.with_context(|| format!("waiting: {unserved}"))
}

fn selects(spec: &Value, zone: &str) -> bool {
    let Some(terms) = spec["nodeSelector"]["nodeSelectorTerms"].as_array() else { return true };
    terms.iter().any(|term| term["matchExpressions"][0]["values"][0] == zone)
}

/// Deletes all nodes; then all ranges that were deleted are gone.
fn emptied(cluster: &mut Cluster, owner: &Owner) -> Result<()> {
    for node in cluster.list(NODES)? {
        cluster.delete_node(name_of(&node)?)?;
    }
    cluster.until("only ranges that were not deleted are there", PATIENCE, |cluster| {
        let left = cluster.list(RANGES)?;
        Ok((left.len() == owner.ranges.len()).then_some(()))
    })
}

/// Fills one range after the other to its last block, alone; how many blocks that were.
fn filled(cluster: &mut Cluster, owner: &Owner) -> Result<usize> {
    let mut given = 0;
    for (name, spec) in &owner.ranges {
        for other in owner.ranges.keys() {
            let patch = json!({"spec": {"suspend": other != name}});
            cluster.change(&format!("{RANGES}/{other}"), &patch)?;
        }
        let bits = spec["perNodeHostBits"].as_u64().unwrap_or_default() as u8;
        let families = ["ipv4", "ipv6"].iter().filter_map(|family| spec[family].as_str());
        let cut = families.map(|family| blocks(family, bits)).collect::<Result<Vec<_>>>()?;
        let count = cut.iter().map(std::collections::BTreeSet::len).min().context("a range of no family")?;
        let zone = ZONES.into_iter().find(|zone| selects(spec, zone)).context("a range for nobody")?;
        for number in 0..=count {
            cluster.make_node(&format!("fill-{number}"), &[("zone", zone)])?;
        }
        cluster.until(&format!("{name} is full with {count} nodes"), PATIENCE, |cluster| {
            let nodes = cluster.list(NODES)?;
            let book = Book::of(&nodes)?;
            let own = |node: &Value| Ok(blocks_of(node)?.iter().all(|block| cut.iter().any(|cut| cut.contains(block))));
            let strays = nodes.iter().map(own).collect::<Result<Vec<_>>>()?.into_iter().filter(|own| !own).count();
            ensure!(strays == 0, "{strays} nodes have blocks that are none of {name}");
            Ok((book.waiting().count() == 1).then_some(()))
        })?;
        given += count;
        for number in 0..=count {
            cluster.delete_node(&format!("fill-{number}"))?;
        }
    }
    Ok(given)
}

/// Watches all nodes from the beginning, and holds against each event what everybody has; how many events there were.
struct Witness(Option<thread::JoinHandle<Result<u64>>>);

/// The node that ends it.
const LAST: &str = "the-last-one";

impl Witness {
    fn start(cluster: &mut Cluster, target: &Arc<Target>) -> Result<Self> {
        let list = cluster.get(NODES)?.context("no nodes")?;
        let mut from = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let client = Client::new(target);
        Ok(Self(Some(thread::spawn(move || {
            let (mut book, mut count) = (Book::default(), 0);
            loop {
                let path = format!("{NODES}?watch=true&allowWatchBookmarks=true&resourceVersion={from}");
                let mut events = client.watch(&path)?.map_err(|(code, said)| anyhow!("no watch: {code} {said}"))?;
                // One that is silent for long is one that is at its end.
                while let Ok(Some(event)) = events.next() {
                    let object = &event["object"];
                    match event["type"].as_str() {
                        Some("ADDED" | "MODIFIED") => book.see(object)?,
                        Some("DELETED") => book.lose(name_of(object)?),
                        Some("BOOKMARK") => {}
                        _ => bail!("the watch says {event}"),
                    }
                    if object["metadata"]["name"] == LAST {
                        return Ok(count);
                    }
                    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().clone_into(&mut from);
                    count += 1;
                }
            }
        }))))
    }

    /// It still watches; else why not.
    fn is_content(&mut self) -> Result<()> {
        match self.0.take() {
            Some(thread) if !thread.is_finished() => self.0 = Some(thread),
            Some(thread) => drop(thread.join().map_err(|_| anyhow!("the witness fell over"))??),
            None => bail!("the witness is gone"),
        }
        Ok(())
    }

    /// How many events it saw.
    fn end(self, cluster: &mut Cluster) -> Result<u64> {
        cluster.make_node(LAST, &[])?;
        let thread = self.0.context("the witness is gone")?;
        thread.join().map_err(|_| anyhow!("the witness fell over"))?
    }
}
