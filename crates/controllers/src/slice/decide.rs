//! Who should have which slices of one network: a function of what is known.
//!
//! It begins from the entries that are stored, not from anything remembered, so that a decision is worth exactly as much as the
//! revision it is made from. What is stored is put into a register; what is granted is taken from that register, so nothing that
//! any node holds, in any generation of the network, can be given to another.
//!
//! A slice is of the present generation if it lies in a range of the network as it is now and has its size. Generations have no
//! number. What is of none takes no new pods and goes when its node says that it is empty. A slice of another size that
//! lies in a range goes on serving until its node has one of the right size.
//!
//! A slice that two nodes have takes no new pods on either of them, and both get another: neither knows which of its addresses the
//! other has given to a pod. When one of them has given it back, it serves the other again. The same is true of a slice that a
//! network shares with another one whose addresses must be others, and of one with addresses that pods have from a pool of the whole
//! range.

use std::collections::{BTreeMap, BTreeSet};

use api::slices::{Ask, Entry, SlicedNetwork, SlicedRange, ip_pool_name};
use jiff::Timestamp;
use space::{Cidr, Fit, Registers, View, ViewId};

use super::node::Node;

/// What a node asks, by the name of the `IPPool` on which it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The slice.
    pub slice: Cidr,
    /// What is asked.
    pub ask: Ask,
}

/// What a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The network as it should be.
    pub network: &'a SlicedNetwork,
    /// The nodes, by name.
    pub nodes: &'a BTreeMap<String, Node>,
    /// The entries as they are stored.
    pub held: &'a BTreeMap<String, Entry>,
    /// What is not for its nodes, though it lies in its ranges.
    pub elsewhere: &'a Elsewhere,
    /// The highest epoch that was ever given.
    pub epoch: u64,
    /// Nodes whose entries somebody else has changed.
    pub edited: &'a BTreeSet<String>,
    /// Whether what is stored was lost in whole or in part, so that nobody who has read it before knows it.
    pub is_lost: bool,
    /// What nodes ask.
    pub asked: &'a BTreeMap<String, Asked>,
    /// The nodes that are gone and of which it is certain that nothing on them runs any more.
    pub cleared: &'a BTreeSet<String>,
    /// The nodes that were fenced when they went: nothing on them can do anything.
    pub fenced: &'a BTreeSet<String>,
    /// What the clock shows.
    pub time: Timestamp,
    /// How long the slices of a node that is gone rest, in seconds.
    pub quarantine: i64,
}

/// What is not for the nodes of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Slices of other networks whose addresses must be unlike those of this one.
    pub networks: Vec<Cidr>,
    /// Addresses of pods that got them when all nodes shared the range.
    pub pods: Vec<Cidr>,
}

impl Elsewhere {
    fn each(&self) -> impl Iterator<Item = (&'static str, Cidr)> {
        let of = |whose, all: &[Cidr]| all.iter().map(move |one| (whose, *one)).collect::<Vec<_>>();
        of(NETWORKS, &self.networks).into_iter().chain(of(PODS, &self.pods))
    }
}

/// What should be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The entries.
    pub entries: BTreeMap<String, Entry>,
    /// The highest epoch that was ever given.
    pub epoch: u64,
    /// Whether all nodes have to look what they have, whatever changes.
    pub is_news: bool,
    /// Nodes that asked for what changes for them: who asks looks in any case.
    pub heard: BTreeSet<String>,
    /// Ranges that have nothing left, and the nodes that wait for a slice of each.
    pub waiting: Vec<Waiting>,
    /// Slices that several nodes hold, which only somebody else can have made.
    pub conflicts: Vec<String>,
    /// Nodes that are gone and whose slices could go to others if nothing ran on them.
    pub unsure: BTreeSet<String>,
    /// When a quarantine ends.
    pub wake: Option<Timestamp>,
    /// How many there are.
    pub counts: Counts,
}

/// Nodes that wait for a slice of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The range.
    pub range: Cidr,
    /// The prefix length of a slice.
    pub length: u8,
    /// The nodes.
    pub nodes: Vec<String>,
}

/// How many slices of a network there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// That nodes have and that take new pods.
    pub granted: usize,
    /// That nodes have and that take none.
    pub draining: usize,
    /// Of nodes that are gone.
    pub quarantined: usize,
    /// That nobody has.
    pub free: u128,
    /// That nodes wait for.
    pub waiting: usize,
    /// That nodes have and of which another one has a part, or all of it.
    pub conflicting: usize,
}

/// Decides.
pub fn decide(known: Known<'_>) -> Decision {
    let (contested, decision) = (BTreeSet::new(), Decision::default());
    let mut bench = Bench { known, entries: known.held.clone(), contested, decision };
    bench.look_for_nodes();
    bench.hear_releases();
    let mut registers = bench.registers();
    bench.look_for_conflicts(&registers);
    let views = bench.views(&mut registers);
    bench.serve(&mut registers, &views);
    bench.hear_wishes(&mut registers, &views);
    bench.drain();
    bench.finish(&registers, &views)
}

/// Where a decision is worked out.
struct Bench<'a> {
    known: Known<'a>,
    entries: BTreeMap<String, Entry>,
    /// What a node has of which another one has a part.
    contested: BTreeSet<(String, Cidr)>,
    decision: Decision,
}

/// Nodes are known here by their names; nothing is kept beyond the decision.
type Book = Registers<String>;

/// Whose is what is not for nodes. No node is called that.
const NETWORKS: &str = "/networks";
const PODS: &str = "/pods";

impl Bench<'_> {
    /// A node that is gone rests; one that came back under its name has its slices again, as another one.
    fn look_for_nodes(&mut self) {
        let Known { nodes, cleared, fenced, time, quarantine, .. } = self.known;
        let decision = &mut self.decision;
        self.entries.retain(|name, entry| {
            if let Some(node) = nodes.get(name) {
                node.uid.clone_into(&mut entry.uid);
                entry.gone_at = None;
                return true;
            }
            // What cannot be read counts from now on.
            let Some(since) = entry.gone_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok()) else {
                entry.gone_at = Some(shown(time));
                wake(&mut decision.wake, time, quarantine);
                return true;
            };
            if time.as_second() < since.as_second().saturating_add(quarantine) && !fenced.contains(name) {
                wake(&mut decision.wake, since, quarantine);
                return true;
            }
            if !cleared.contains(name) {
                decision.unsure.insert(name.clone());
                return true;
            }
            false
        });
    }

    /// Who drains a slice and says that it is empty gives it back.
    fn hear_releases(&mut self) {
        for (pool, asked) in self.known.asked {
            let Ask::Release(epoch) = asked.ask else { continue };
            let Some(name) = self.asker(pool, asked, epoch) else { continue };
            if let Some(entry) = self.entries.get_mut(&name).filter(|entry| entry.draining.contains(&asked.slice)) {
                entry.slices.retain(|slice| *slice != asked.slice);
                entry.draining.retain(|slice| *slice != asked.slice);
                self.decision.heard.insert(name);
            }
        }
        self.entries.retain(|_, entry| !entry.slices.is_empty());
    }

    /// The node that asks, if it has the slice and knows its entry as it is stored.
    fn asker(&self, pool: &str, asked: &Asked, epoch: u64) -> Option<String> {
        let network = self.known.network.is_named.then_some(self.known.network.name.as_str());
        let holds = |(name, entry): &(&String, &Entry)| {
            entry.epoch == epoch
                && entry.slices.contains(&asked.slice)
                && ip_pool_name(network, name, asked.slice) == pool
        };
        let (name, _) = self.known.held.iter().find(holds)?;
        self.known.nodes.get(name).filter(|node| node.uid == self.known.held[name].uid)?;
        Some(name.clone())
    }

    /// Everything that anybody has.
    fn registers(&self) -> Book {
        let mut registers = Book::new();
        for (whose, block) in self.known.elsewhere.each() {
            occupy(&mut registers, block, whose);
        }
        for (name, entry) in &self.entries {
            for slice in &entry.slices {
                occupy(&mut registers, *slice, name);
            }
        }
        registers
    }

    fn look_for_conflicts(&mut self, registers: &Book) {
        for (name, entry) in &self.entries {
            for slice in &entry.slices {
                for (other, theirs) in overlaps(registers, *slice).into_iter().filter(|(other, _)| *other != name) {
                    self.contested.insert((name.clone(), *slice));
                    let text = match other.as_str() {
                        NETWORKS => format!("{slice} of node {name} overlaps {theirs} of another network"),
                        PODS => {
                            format!("{slice} of node {name} has {theirs}, which the IPPool of the whole range has too")
                        }
                        // Each pair is told once.
                        other if other < name.as_str() => continue,
                        other => format!("{slice} of node {name} overlaps {theirs} of node {other}"),
                    };
                    self.decision.conflicts.push(text);
                }
            }
        }
        self.decision.counts.conflicting = self.contested.len();
    }

    fn is_contested(&self, name: &str, slice: Cidr) -> bool {
        // Almost always there are none.
        !self.contested.is_empty() && self.contested.contains(&(name.to_owned(), slice))
    }

    fn views(&self, registers: &mut Book) -> Vec<(SlicedRange, ViewId)> {
        let add = |range: &SlicedRange| {
            let id = match range {
                SlicedRange::V4(one) => registers.v4.add_view(View::new(one.range, one.length, &one.useless).ok()?),
                SlicedRange::V6(one) => registers.v6.add_view(View::new(one.range, one.length, &one.useless).ok()?),
            };
            Some((range.clone(), id))
        };
        self.known.network.ranges.iter().filter_map(add).collect()
    }

    /// Every node that the network is for gets a slice of each range, in the order of names.
    fn serve(&mut self, registers: &mut Book, views: &[(SlicedRange, ViewId)]) {
        for (range, id) in views {
            let mut waiting = Vec::new();
            for (name, node) in self.known.nodes {
                if !self.selects(node) || self.serves(name, range) {
                    continue;
                }
                if self.grant(registers, range, *id, name).is_none() {
                    waiting.push(name.clone());
                }
            }
            self.wait(range, waiting);
        }
    }

    /// Who says that a slice is full gets another of its range.
    fn hear_wishes(&mut self, registers: &mut Book, views: &[(SlicedRange, ViewId)]) {
        for (pool, asked) in self.known.asked {
            let Ask::More(epoch) = asked.ask else { continue };
            let Some(name) = self.asker(pool, asked, epoch) else { continue };
            let Some((range, id)) = views.iter().find(|(range, _)| is_of(range, asked.slice)) else { continue };
            if !self.known.nodes.get(&name).is_some_and(|node| self.selects(node)) {
                continue;
            }
            if self.grant(registers, range, *id, &name).is_some() {
                self.decision.heard.insert(name);
            } else {
                self.wait(range, vec![name]);
            }
        }
    }

    fn selects(&self, node: &Node) -> bool {
        self.known.network.selector.as_ref().is_none_or(|selector| selector.matches(Some(&node.labels)))
    }

    /// Whether a node has a slice of a range as it is now, for itself.
    fn serves(&self, name: &str, range: &SlicedRange) -> bool {
        let is_one = |slice: &Cidr| is_of(range, *slice) && !self.is_contested(name, *slice);
        self.entries.get(name).is_some_and(|entry| entry.slices.iter().any(is_one))
    }

    fn grant(&mut self, registers: &mut Book, range: &SlicedRange, id: ViewId, name: &str) -> Option<Cidr> {
        let slice: Cidr = match range {
            SlicedRange::V4(one) => registers.v4.grant(id, one.length, Fit::First, name.to_owned()).ok()?.into(),
            SlicedRange::V6(one) => registers.v6.grant(id, one.length, Fit::First, name.to_owned()).ok()?.into(),
        };
        let entry = self.entries.entry(name.to_owned()).or_default();
        if let Some(node) = self.known.nodes.get(name) {
            node.uid.clone_into(&mut entry.uid);
        }
        entry.slices.push(slice);
        Some(slice)
    }

    fn wait(&mut self, range: &SlicedRange, nodes: Vec<String>) {
        if nodes.is_empty() {
            return;
        }
        self.decision.counts.waiting += nodes.len();
        let (range, length) = (range.range(), range.length());
        match self.decision.waiting.iter_mut().find(|one| (one.range, one.length) == (range, length)) {
            Some(one) => one.nodes.extend(nodes),
            None => self.decision.waiting.push(Waiting { range, length, nodes }),
        }
    }

    /// Which slices take no new pods. Those of nodes that are gone stay as they were: nobody is there to do anything.
    fn drain(&mut self) {
        let network = self.known.network;
        let mut entries = std::mem::take(&mut self.entries);
        for (name, entry) in &mut entries {
            let Some(node) = self.known.nodes.get(name) else { continue };
            let is_selected = self.selects(node);
            let slices = entry.slices.clone();
            let is_open = |slice: &Cidr| {
                let ranges = || network.ranges.iter().filter(|range| range.contains(*slice));
                let outgrown = |range: &SlicedRange| slices.iter().any(|other| is_of(range, *other));
                is_selected
                    && !self.is_contested(name, *slice)
                    && (ranges().any(|range| is_of(range, *slice)) || ranges().any(|range| !outgrown(range)))
            };
            let place = |slice: &Cidr| {
                let range = network.ranges.iter().position(|range| range.contains(*slice));
                (!is_open(slice), range.unwrap_or(usize::MAX), *slice)
            };
            entry.slices.sort_by_key(place);
            entry.draining = entry.slices.iter().copied().filter(|slice| !is_open(slice)).collect();
        }
        self.entries = entries;
    }

    /// What changed gets a new epoch, which is higher than any other was, also if everything was lost in between.
    fn finish(mut self, registers: &Book, views: &[(SlicedRange, ViewId)]) -> Decision {
        let Known { held, epoch, time, nodes, edited, is_lost, .. } = self.known;
        let next = next_epoch(epoch, time);
        let mut decision = self.decision;
        decision.is_news = is_lost || !edited.is_empty();
        // That somebody has nothing any more has an epoch too, although there is no entry that could say it.
        let mut is_changed = decision.is_news || held.keys().any(|name| !self.entries.contains_key(name));
        for (name, entry) in &mut self.entries {
            entry.epoch = held.get(name).map_or(0, |entry| entry.epoch);
            if held.get(name) != Some(entry) || entry.epoch == 0 || edited.contains(name) {
                entry.epoch = next;
                is_changed = true;
            }
        }
        let counts = &mut decision.counts;
        for (name, entry) in &self.entries {
            if nodes.contains_key(name) {
                counts.draining += entry.draining.len();
                counts.granted += entry.slices.len() - entry.draining.len();
            } else {
                counts.quarantined += entry.slices.len();
            }
        }
        let free = views.iter().filter_map(|(range, id)| match range {
            SlicedRange::V4(_) => registers.v4.counts(*id),
            SlicedRange::V6(_) => registers.v6.counts(*id),
        });
        counts.free = free.fold(0, |sum: u128, counts| sum.saturating_add(counts.free));
        Decision { entries: self.entries, epoch: if is_changed { next } else { epoch }, ..decision }
    }
}

/// An epoch that is higher than the highest that is known of, and than any that was given a second ago or before.
pub(super) fn next_epoch(highest: u64, time: Timestamp) -> u64 {
    highest.saturating_add(1).max(u64::try_from(time.as_second()).unwrap_or(0))
}

/// Whether a slice is one that the range gives.
fn is_of(range: &SlicedRange, slice: Cidr) -> bool {
    slice.length() == range.length() && range.contains(slice)
}

fn wake(slot: &mut Option<Timestamp>, since: Timestamp, quarantine: i64) {
    let until = Timestamp::from_second(since.as_second().saturating_add(quarantine)).unwrap_or(Timestamp::MAX);
    *slot = Some(slot.map_or(until, |other| other.min(until)));
}

/// A time as it is written.
pub(super) fn shown(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn occupy(registers: &mut Book, slice: Cidr, name: &str) {
    match slice {
        Cidr::V4(slice) => drop(registers.v4.occupy(slice, name.to_owned())),
        Cidr::V6(slice) => drop(registers.v6.occupy(slice, name.to_owned())),
    }
}

/// The claims that share an address with a slice.
fn overlaps(registers: &Book, slice: Cidr) -> Vec<(&String, Cidr)> {
    match slice {
        Cidr::V4(slice) => registers.v4.overlaps(slice).map(|(block, name)| (name, block.into())).collect(),
        Cidr::V6(slice) => registers.v6.overlaps(slice).map(|(block, name)| (name, block.into())).collect(),
    }
}
