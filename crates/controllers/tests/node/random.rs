//! Long random runs against a checker that knows nothing of registers and views: no two nodes ever share addresses, everybody
//! who can be served is, nothing leaks. `CADASTRE_SEED=N` runs one seed again.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use space::{Cidr, Prefix};

use crate::dice::{Dice, for_seeds};
use crate::world::{Fate, REST, World, cut, cut_for};

/// Where ranges are cut from: they overlap, and are small enough to be full now and then.
const RANGES: [&str; 6] = ["10.0.0.0/24", "10.0.0.0/23", "10.0.1.0/24", "10.0.0.0/22", "10.0.2.0/25", "10.0.3.192/26"];
const RANGES_V6: [&str; 3] = ["fd00::/120", "fd00::/121", "fd00::80/122"];
const ZONES: [&str; 3] = ["a", "b", "c"];
const STEPS: usize = 400;

fn blocks(cidrs: &str) -> Vec<Cidr> {
    cidrs.split(',').filter(|cidr| !cidr.is_empty()).map(|cidr| Cidr::tolerant(cidr).unwrap().value).collect()
}

fn overlap(one: Cidr, other: Cidr) -> bool {
    match (one, other) {
        (Cidr::V4(one), Cidr::V4(other)) => one.overlaps(&other),
        (Cidr::V6(one), Cidr::V6(other)) => one.overlaps(&other),
        _ => false,
    }
}

/// Nobody shares addresses with anybody, nor with the Services that were there when it was served.
fn check_apart(world: &World) {
    let held: Vec<(String, Cidr)> = world
        .node_names()
        .into_iter()
        .flat_map(|name| blocks(&world.cidrs(&name)).into_iter().map(move |block| (name.clone(), block)))
        .collect();
    for (index, (name, block)) in held.iter().enumerate() {
        for (other, theirs) in &held[index + 1..] {
            assert!(name == other || !overlap(*block, *theirs), "{block} of {name} and {theirs} of {other}");
        }
    }
}

/// Whether a range has room for a node, by trying every block of it.
fn has_room(world: &World, spec: &Value, services: &[Cidr]) -> bool {
    let bits = spec["perNodeHostBits"].as_u64().unwrap() as u8;
    let held: Vec<Cidr> = world.node_names().iter().flat_map(|name| blocks(&world.cidrs(name))).collect();
    let is_free = |block: Cidr| !held.iter().chain(services).any(|other| overlap(block, *other));
    let v4 = spec["ipv4"].as_str().is_none_or(|range| {
        let range: Prefix<u32> = Cidr::strict(range).unwrap().v4().unwrap();
        (0..range.blocks(32 - bits)).any(|index| is_free(range.block(index, 32 - bits).unwrap().into()))
    });
    let v6 = spec["ipv6"].as_str().is_none_or(|range| {
        let range: Prefix<u128> = Cidr::strict(range).unwrap().v6().unwrap();
        (0..range.blocks(128 - bits)).any(|index| is_free(range.block(index, 128 - bits).unwrap().into()))
    });
    v4 && v6
}

fn selects(spec: &Value, zone: &str) -> bool {
    let Some(terms) = spec["nodeSelector"]["nodeSelectorTerms"].as_array() else { return true };
    terms.iter().any(|term| term["matchExpressions"][0]["values"][0] == zone)
}

/// A world, and what the checker keeps of it.
struct Run {
    world: World,
    dice: Dice,
    zones: BTreeMap<String, String>,
    ranges: BTreeMap<String, Value>,
    services: Vec<Cidr>,
    made: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        let (zones, ranges) = (BTreeMap::new(), BTreeMap::new());
        Self { world: World::new(), dice: Dice(seed), zones, ranges, services: Vec::new(), made: 0 }
    }

    fn step(&mut self) {
        match self.dice.below(20) {
            0..=6 => self.add_node(),
            7..=10 => self.drop_node(),
            11 => self.move_node(),
            12..=13 => self.add_range(),
            14 => self.drop_range(),
            15 => self.suspend_range(),
            16 => self.change_services(),
            17 => self.look_away(),
            18 => self.world.restart(),
            _ => self.world.pass(REST / 3),
        }
        check_apart(&self.world);
    }

    fn add_node(&mut self) {
        // Some come back under a name that was there before.
        let name = format!("n{}", self.dice.below(80));
        if self.zones.contains_key(&name) {
            return;
        }
        let zone = *self.dice.pick(&ZONES);
        if self.dice.one_in(3) {
            self.world.fates.push_back(*self.dice.pick(&[Fate::Lost, Fate::MadeUnheard]));
        }
        self.zones.insert(name.clone(), zone.to_owned());
        self.world.node(&name, &[("zone", zone)]);
    }

    fn some_node(&mut self) -> Option<String> {
        let names: Vec<&String> = self.zones.keys().collect();
        (!names.is_empty()).then(|| (*self.dice.pick(&names)).clone())
    }

    fn drop_node(&mut self) {
        if let Some(name) = self.some_node() {
            self.zones.remove(&name);
            self.world.delete_node(&name);
        }
    }

    fn move_node(&mut self) {
        if let Some(name) = self.some_node() {
            let zone = *self.dice.pick(&ZONES);
            self.zones.insert(name.clone(), zone.to_owned());
            self.world.change_node(&name, "/metadata/labels", json!({"zone": zone}));
        }
    }

    fn add_range(&mut self) {
        self.made += 1;
        let name = format!("r{}", self.made);
        let bits = 4 + self.dice.below(3) as u8;
        let cidrs = match self.dice.below(4) {
            0 => format!("{},{}", self.dice.pick(&RANGES), self.dice.pick(&RANGES_V6)),
            1 => (*self.dice.pick(&RANGES_V6)).to_owned(),
            _ => (*self.dice.pick(&RANGES)).to_owned(),
        };
        let (one, other) = (*self.dice.pick(&ZONES), *self.dice.pick(&ZONES));
        let spec = match self.dice.below(3) {
            0 => cut(bits, &cidrs),
            1 => cut_for(bits, &cidrs, &[("zone", one)]),
            _ => cut_for(bits, &cidrs, &[("zone", one), ("zone", other)]),
        };
        self.ranges.insert(name.clone(), spec.clone());
        self.world.range(&name, spec);
    }

    fn some_range(&mut self) -> Option<String> {
        let names: Vec<&String> = self.ranges.keys().collect();
        (!names.is_empty()).then(|| (*self.dice.pick(&names)).clone())
    }

    fn drop_range(&mut self) {
        let Some(name) = self.some_range() else { return };
        self.ranges.remove(&name);
        if self.dice.one_in(4) { self.world.strip_range(&name) } else { self.world.delete_range(&name) }
    }

    fn suspend_range(&mut self) {
        let Some(name) = self.some_range() else { return };
        let suspend = !self.ranges[&name]["suspend"].as_bool().unwrap_or(false);
        self.ranges.get_mut(&name).unwrap()["suspend"] = json!(suspend);
        self.world.change_range(&name, "suspend", json!(suspend));
    }

    fn change_services(&mut self) {
        let all = ["10.0.0.64/26", "10.0.3.0/25", "fd00::40/122"];
        let chosen: Vec<&str> = all.into_iter().filter(|_| self.dice.one_in(2)).collect();
        self.services = chosen.iter().map(|cidr| Cidr::strict(cidr).unwrap()).collect();
        self.world.services(&chosen);
    }

    /// Nodes and ranges come and go, some at once again, while nobody looks.
    fn look_away(&mut self) {
        self.world.watching = false;
        for _ in 0..3 {
            match self.dice.below(3) {
                0 => self.add_node(),
                1 => self.drop_node(),
                _ => {
                    if let Some(name) = self.some_node() {
                        self.world.delete_node(&name);
                        let zone = self.zones[&name].clone();
                        self.world.make_node(&name, &[("zone", &zone)], &[]);
                    }
                }
            }
        }
        self.world.watch_again();
    }

    /// When nothing is on its way any more, whoever has no block could not have one.
    fn check_served(&mut self) {
        self.world.fates.clear();
        for _ in 0..3 {
            self.world.pass(30_000);
        }
        for (name, zone) in &self.zones {
            if !self.world.cidrs(name).is_empty() {
                continue;
            }
            for (range, spec) in &self.ranges {
                let open = spec["suspend"] != json!(true) && selects(spec, zone);
                let room = open && has_room(&self.world, spec, &self.services);
                assert!(!room, "{name} waits although {range} has room: {spec}");
            }
        }
    }

    /// When all nodes are gone, every range is whole again, and every range that was deleted is gone.
    fn check_nothing_leaked(&mut self) {
        for name in self.world.node_names() {
            self.world.delete_node(&name);
        }
        self.world.services(&[]);
        self.world.pass(REST);
        for (key, range) in self.world.plan.index().ranges() {
            assert!(self.ranges.contains_key(&*range.name), "{} should be gone", range.name);
            let (v4, v6) = self.world.plan.index().counts(key);
            for counts in v4.into_iter().chain(v6) {
                assert_eq!((counts.allocated, counts.free), (0, counts.capacity), "{} leaks", range.name);
            }
        }
    }
}

#[test]
fn nothing_overlaps_nothing_leaks_and_whoever_can_be_served_is() {
    for_seeds(40, |seed| {
        let mut run = Run::new(seed);
        for step in 0..STEPS {
            run.step();
            if step % 40 == 39 {
                run.check_served();
            }
        }
        run.check_nothing_leaked();
    });
}
