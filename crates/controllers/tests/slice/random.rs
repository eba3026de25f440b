//! Long random runs against a checker that knows nothing of registers, views and revisions: machines use what the pools said they
//! have, for as long as they have pods in it, and no two of them ever use the same addresses of a network. Two controllers act at
//! once, each shown what happens as late as chance has it, and writes and answers get lost. `CADASTRE_SEED=N` runs one seed again.

use std::collections::{BTreeMap, BTreeSet};

use controllers::slice::layout::LIMIT;
use controllers::slice::plan::Settings;
use serde_json::{Value, json};
use space::{Cidr, Prefix};

use crate::dice::{Dice, for_seeds};
use crate::world::{Fate, Kind, QUARANTINE, World, conf};

const RANGES: [&str; 4] = ["10.0.0.0/26", "10.0.0.0/25", "10.0.0.64/26", "10.0.1.0/27"];
const SIZES: [&str; 3] = ["/28", "/29", "/27"];
const NETWORKS: [&str; 2] = ["one", "two"];
const STEPS: usize = 500;

/// What is stored of a node: of two entries the one with the higher epoch counts.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    epoch: u64,
    uid: String,
    slices: Vec<Cidr>,
    draining: Vec<Cidr>,
}

fn cidr(text: &Value) -> Cidr {
    Cidr::strict(text.as_str().unwrap()).unwrap()
}

fn cidrs(list: &Value) -> impl Iterator<Item = Cidr> {
    list.as_array().into_iter().flatten().map(cidr)
}

fn overlap(one: Cidr, other: Cidr) -> bool {
    match (one, other) {
        (Cidr::V4(one), Cidr::V4(other)) => one.overlaps(&other),
        (Cidr::V6(one), Cidr::V6(other)) => one.overlaps(&other),
        _ => false,
    }
}

fn stored(world: &World, network: &str) -> BTreeMap<String, Held> {
    let mut all: BTreeMap<String, Held> = BTreeMap::new();
    for name in world.names(Kind::Pool) {
        let pool = world.get(Kind::Pool, &name).unwrap();
        if name != network && pool["metadata"]["annotations"]["ipam.cadastre.dev/shard-of"] != network {
            continue;
        }
        // Without its pool nobody can say which entries of a shard count, and nobody uses any.
        let shards = world.get(Kind::Pool, network).map(|pool| pool["status"]["shards"].clone());
        let known = shards.map_or(0, |shards| {
            let shard = shards.as_array().into_iter().flatten().find(|shard| shard["name"] == name);
            shard.map_or(0, |shard| shard["version"].as_u64().unwrap())
        });
        for one in pool["status"]["allocations"].as_array().unwrap() {
            if one["moved"].as_u64().unwrap_or(0) > known {
                continue;
            }
            let held = Held {
                epoch: one["epoch"].as_u64().unwrap(),
                uid: one["nodeUID"].as_str().unwrap_or_default().to_owned(),
                slices: [cidr(&one["sliceRange"])].into_iter().chain(cidrs(&one["furtherSlices"])).collect(),
                draining: cidrs(&one["draining"]).collect(),
            };
            let node = one["nodeName"].as_str().unwrap().to_owned();
            if all.get(&node).is_none_or(|other| other.epoch < held.epoch) {
                all.insert(node, held);
            }
        }
    }
    all
}

/// What an agent knows: what it read last, and what the pool's metadata said then.
#[derive(Clone)]
struct Known {
    node_uid: String,
    pool_uid: String,
    changed: u64,
    revision: String,
    held: Option<Held>,
    /// The epoch of the entry of which it asked something.
    asked: u64,
}

struct Run {
    world: World,
    /// By network and node.
    agents: BTreeMap<(&'static str, String), Known>,
    dice: Dice,
    /// The range and size of each network that is defined.
    networks: BTreeMap<&'static str, (&'static str, &'static str)>,
    /// The slices in which each machine has pods, by network and node.
    used: BTreeMap<(&'static str, String), BTreeSet<Cidr>>,
}

impl Run {
    fn new(seed: u64, leaders: usize, limit: usize) -> Self {
        let settings = Settings { quarantine: QUARANTINE, limit, ..Settings::default() };
        let world = World::with(settings, leaders);
        Self { world, agents: BTreeMap::new(), dice: Dice(seed), networks: BTreeMap::new(), used: BTreeMap::new() }
    }

    fn step(&mut self) {
        match self.dice.below(22) {
            0..=3 => self.add_node(),
            4..=5 => self.drop_node(),
            6..=7 => self.change_network(),
            8..=13 => self.agent(),
            14 => self.end_pods(),
            15 => self.lose_writes(),
            16 => {
                if self.dice.one_in(3) {
                    self.world.restart();
                }
            }
            17 => self.world.now += 1_000 * (1 + self.dice.below(400)) as u64,
            18 if self.dice.one_in(4) => self.lose_pool(),
            _ => self.world.now += 60,
        }
        let leader = self.dice.below(self.world.leaders.len());
        let (shown, done) = (self.dice.below(12), self.dice.below(3));
        self.world.deliver(leader, shown);
        self.world.act(leader, done);
        self.check_apart();
    }

    fn add_node(&mut self) {
        let name = format!("n{}", self.dice.below(14));
        if self.world.get(Kind::Node, &name).is_none() {
            self.world.node(&name);
            // The agent of a machine that begins anew looks first what of its own is in use.
            let own = format!("-{name}-");
            let left = self.world.names(Kind::IpPool).into_iter().filter(|pool| pool.contains(&own));
            for pool in left.filter(|_| !self.world.running.contains(&name)).collect::<Vec<_>>() {
                self.world.remove(Kind::IpPool, &pool);
            }
        }
    }

    fn drop_node(&mut self) {
        let names = self.world.names(Kind::Node);
        if !names.is_empty() {
            let name = self.dice.pick(&names).clone();
            self.world.remove(Kind::Node, &name);
        }
    }

    fn change_network(&mut self) {
        let name = *self.dice.pick(&NETWORKS);
        if self.networks.contains_key(name) && self.dice.one_in(6) {
            self.networks.remove(name);
            return self.world.remove(Kind::Definition, &format!("apps/{name}"));
        }
        let (range, size) = (*self.dice.pick(&RANGES), *self.dice.pick(&SIZES));
        self.networks.insert(name, (range, size));
        self.world.define(&format!("apps/{name}"), &conf(name, &json!({"range": range, "node_slice_size": size})));
    }

    fn lose_writes(&mut self) {
        let fates = [Fate::Lost, Fate::MadeUnheard, Fate::Made];
        for _ in 0..3 {
            self.world.fates.push_back(*self.dice.pick(&fates));
        }
    }

    /// Somebody deletes a pool or a shard, or the definition takes it along.
    fn lose_pool(&mut self) {
        let pools = self.world.names(Kind::Pool);
        // Only where everything was shown: a pool that two controllers remember otherwise has no truth.
        if !pools.is_empty() && self.world.leaders.len() == 1 {
            self.world.deliver(0, usize::MAX);
            let name = self.dice.pick(&pools).clone();
            self.world.remove(Kind::Pool, &name);
        }
    }

    /// The agent of a node reads what its node has, begins pods in some of it, ends some, and asks.
    fn agent(&mut self) {
        let names = self.world.names(Kind::Node);
        if names.is_empty() {
            return;
        }
        let (node, network) = (self.dice.pick(&names).clone(), *self.dice.pick(&NETWORKS));
        let Some(held) = self.look(network, &node) else { return };
        let key = (network, node.clone());
        let mut used = self.used.remove(&key).unwrap_or_default();
        for slice in &held.slices {
            if held.draining.contains(slice) {
                if self.dice.one_in(2) {
                    used.remove(slice);
                }
            } else if self.dice.one_in(2) {
                used.insert(*slice);
            }
            let ask = if held.draining.contains(slice) && !used.contains(slice) {
                Some(format!("release-{}", held.epoch))
            } else if self.dice.one_in(5) {
                Some(format!("more-{}", held.epoch))
            } else {
                None
            };
            if let Some(known) = self.agents.get_mut(&key).filter(|_| ask.is_some()) {
                known.asked = held.epoch;
            }
            let pool = format!("{network}-{node}-{}", slice.to_string().replace([':', '/'], "-"));
            self.world.ip_pool_of(&pool, &node, &slice.to_string(), ask, used.contains(slice));
        }
        if !used.is_empty() {
            self.world.running.insert(node.clone());
            self.used.insert(key, used);
        }
    }

    /// What the agent of a node knows of what it has. It watches the metadata of the pool, and reads all of it when that says so, when it
    /// has nothing, and when it asks for something.
    fn look(&mut self, network: &'static str, node: &str) -> Option<Held> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let node_uid = text(&self.world.get(Kind::Node, node).unwrap()["metadata"]["uid"]);
        let metadata = &self.world.get(Kind::Pool, network)?["metadata"];
        let (pool_uid, revision) = (text(&metadata["uid"]), text(&metadata["resourceVersion"]));
        let changed = self.world.changed(network);
        let key = (network, node.to_owned());
        let is_current = |known: &&Known| {
            known.node_uid == node_uid
                && known.pool_uid == pool_uid
                && known.changed == changed
                && (known.held.as_ref().is_some_and(|held| held.epoch > known.asked) || known.revision == revision)
        };
        if let Some(known) = self.agents.get(&key).filter(is_current) {
            return known.held.clone();
        }
        let held = stored(&self.world, network).remove(node).filter(|held| held.uid == node_uid);
        let asked = self.agents.get(&key).map_or(0, |known| known.asked);
        self.agents.insert(key, Known { node_uid, pool_uid, changed, revision, held: held.clone(), asked });
        held
    }

    /// When nothing is on its way any more, whoever looks at metadata alone knows what is stored.
    fn check_known(&mut self) {
        let nodes = self.world.names(Kind::Node);
        for (network, node) in NETWORKS.into_iter().flat_map(|network| nodes.iter().map(move |node| (network, node))) {
            let uid = self.world.get(Kind::Node, node).unwrap()["metadata"]["uid"].clone();
            let held = stored(&self.world, network).remove(node).filter(|held| uid == held.uid);
            assert_eq!(self.look(network, node), held, "{node} missed what it has of {network}");
        }
    }

    /// The pods of a machine whose node is gone end.
    fn end_pods(&mut self) {
        let gone: Vec<String> =
            self.world.running.iter().filter(|name| self.world.get(Kind::Node, name).is_none()).cloned().collect();
        if !gone.is_empty() {
            let name = self.dice.pick(&gone).clone();
            self.end(&name);
        }
    }

    fn end(&mut self, name: &str) {
        self.world.running.remove(name);
        self.used.retain(|(_, node), _| node != name);
    }

    /// No two machines use the same addresses of a network.
    fn check_apart(&self) {
        for (index, ((network, node), slices)) in self.used.iter().enumerate() {
            for ((other_network, other), theirs) in self.used.iter().skip(index + 1) {
                for (one, two) in slices.iter().flat_map(|one| theirs.iter().map(move |two| (*one, *two))) {
                    assert!(
                        network != other_network || !overlap(one, two),
                        "{network}: {one} of {node}, {two} of {other}"
                    );
                }
            }
        }
        for network in NETWORKS {
            let all: Vec<(String, Held)> = stored(&self.world, network).into_iter().collect();
            for (index, (node, held)) in all.iter().enumerate() {
                for (other, theirs) in &all[index + 1..] {
                    for (one, two) in
                        held.slices.iter().flat_map(|one| theirs.slices.iter().map(move |two| (*one, *two)))
                    {
                        assert!(!overlap(one, two), "{network}: {one} is stored for {node}, {two} for {other}");
                    }
                }
            }
        }
    }

    /// When nothing is on its way any more, whoever has no slice could not have one.
    fn check_served(&mut self) {
        self.world.fates.clear();
        for _ in 0..4 {
            self.world.pass(31);
        }
        for (network, (range, size)) in &self.networks {
            let held = stored(&self.world, network);
            let range: Prefix<u32> = Cidr::strict(range).unwrap().v4().unwrap();
            let length: u8 = size[1..].parse().unwrap();
            let blocks = (0..range.blocks(length)).map(|index| range.block(index, length).unwrap());
            let is_taken = |block: Cidr| held.values().any(|one| one.slices.iter().any(|slice| overlap(*slice, block)));
            let free: Vec<Prefix<u32>> = blocks.filter(|block| !is_taken((*block).into())).collect();
            for node in self.world.names(Kind::Node) {
                let is_its = |slice: &Cidr| slice.length() == length && overlap(*slice, range.into());
                let has = held.get(&node).is_some_and(|one| one.slices.iter().any(is_its));
                assert!(has || free.is_empty(), "{node} has nothing of {network} although {free:?} are free");
            }
        }
        let defined: BTreeSet<&str> = self.networks.keys().copied().collect();
        for name in self.world.names(Kind::Pool) {
            assert!(defined.contains(name.split('.').next().unwrap()), "{name} should be gone");
        }
    }

    /// When all nodes are gone and nothing runs, nobody has anything.
    fn check_nothing_leaked(&mut self) {
        for name in self.world.names(Kind::Node) {
            self.world.remove(Kind::Node, &name);
        }
        for name in self.world.running.clone() {
            self.end(&name);
        }
        self.world.settle();
        for _ in 0..3 {
            self.world.pass(QUARANTINE);
        }
        for network in NETWORKS {
            assert!(stored(&self.world, network).is_empty(), "{network} leaks");
        }
    }
}

fn run(leaders: usize, limit: usize) {
    for_seeds(40, |seed| {
        let mut run = Run::new(seed, leaders, limit);
        for step in 0..STEPS {
            run.step();
            if step % 50 == 49 {
                run.check_served();
                run.check_known();
            }
        }
        run.check_nothing_leaked();
    });
}

/// So small that pools have shards.
const SMALL: usize = 700;

#[test]
fn nothing_is_used_twice_nothing_leaks_and_whoever_can_be_served_is() {
    run(1, LIMIT);
}

#[test]
fn two_that_lead_at_once_waste_work_and_nothing_else() {
    run(2, LIMIT);
}

#[test]
fn the_same_is_true_of_pools_with_shards() {
    run(1, SMALL);
}

#[test]
fn two_that_lead_at_once_do_no_harm_to_shards() {
    run(2, SMALL);
}
