//! Which ranges serve a node, and in which order they are tried.
//!
//! A range with a selector serves the nodes that it selects, one without serves all. In order:
//!
//! 1. the higher priority (ours: what an owner says outright);
//! 2. ranges with a selector before those without;
//! 3. the most requirements matched, of all terms that hold;
//! 4. the fewest blocks that the range has in all;
//! 5. the fewest addresses in a block;
//! 6. the selector, then the range, then the name, as texts.
//!
//! So the order is the same wherever and whenever it is asked for. What is left of a range does not matter to it: a range
//! that is full is passed over when it is tried.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use api::kinds::{ClusterCidr, FamilyRange};
use api::selector::{Anchor, NodeSelector};
use space::{Address, View};

use super::range::RangeKey;
use super::trimmed::Node;

/// Where a range stands for one node: the least is tried first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    priority: Reverse<i32>,
    is_default: bool,
    matched: Reverse<usize>,
    order: Arc<Order>,
    key: RangeKey,
}

/// The part of the rank that is the same for every node.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    capacity: u128,
    host_bits: u8,
    selector: String,
    range: String,
    name: Arc<str>,
}

#[derive(Debug)]
struct Candidate {
    selector: Option<NodeSelector>,
    /// As it stands for a node of which nothing matched.
    rank: Rank,
}

/// All ranges, by whom they serve.
#[derive(Debug, Default)]
pub struct Selection {
    candidates: BTreeMap<RangeKey, Candidate>,
    defaults: BTreeSet<Rank>,
    /// The ranges with a selector, by what a node must have to be selected.
    anchors: Anchors,
}

#[derive(Debug, Default)]
struct Anchors {
    names: HashMap<String, BTreeSet<RangeKey>>,
    labels: HashMap<String, Labelled>,
    any: BTreeSet<RangeKey>,
}

/// The ranges that want a label, whatever its value, and those that want a value.
#[derive(Debug, Default)]
struct Labelled {
    any: BTreeSet<RangeKey>,
    values: HashMap<String, BTreeSet<RangeKey>>,
}

impl Selection {
    /// Adds a range.
    pub fn insert(&mut self, key: RangeKey, name: &Arc<str>, spec: &ClusterCidr) {
        let order = Order {
            capacity: capacity(spec.ipv4.as_ref()).min(capacity(spec.ipv6.as_ref())),
            host_bits: host_bits(spec),
            selector: spec.selector.as_ref().map(ToString::to_string).unwrap_or_default(),
            range: range_text(spec),
            name: Arc::clone(name),
        };
        let rank = Rank {
            priority: Reverse(spec.priority),
            is_default: spec.selector.is_none(),
            matched: Reverse(0),
            order: Arc::new(order),
            key,
        };
        match &spec.selector {
            None => drop(self.defaults.insert(rank.clone())),
            Some(selector) => {
                for anchor in selector.anchors() {
                    self.anchors.slot(anchor).insert(key);
                }
            }
        }
        self.candidates.insert(key, Candidate { selector: spec.selector.clone(), rank });
    }

    /// Removes a range.
    pub fn remove(&mut self, key: RangeKey) {
        let Some(Candidate { selector, rank }) = self.candidates.remove(&key) else { return };
        match selector {
            None => drop(self.defaults.remove(&rank)),
            Some(selector) => {
                for anchor in selector.anchors() {
                    self.anchors.drop_from(anchor, key);
                }
            }
        }
    }

    /// Whether a range serves a node.
    pub fn serves(&self, key: RangeKey, node: &Node) -> bool {
        self.candidates.get(&key).is_some_and(|candidate| candidate.matched(node).is_some())
    }

    /// The ranges that serve a node, in the order to try them.
    pub fn ranked<'a>(&'a self, node: &Node) -> impl Iterator<Item = RangeKey> + 'a {
        let mut selected: Vec<Rank> = self
            .anchors
            .of(node)
            .into_iter()
            .filter_map(|key| {
                let candidate = self.candidates.get(&key)?;
                let matched = Reverse(candidate.matched(node)?);
                Some(Rank { matched, ..candidate.rank.clone() })
            })
            .collect();
        selected.sort_unstable();
        merged(selected, self.defaults.iter())
    }
}

impl Candidate {
    fn matched(&self, node: &Node) -> Option<usize> {
        match &self.selector {
            None => Some(0),
            Some(selector) => selector.matched(&node.name, |key| node.label(key)),
        }
    }
}

/// Two sorted sequences as one. There may be very many ranges without a selector, and mostly the first serves.
fn merged<'a>(
    selected: Vec<Rank>,
    defaults: impl Iterator<Item = &'a Rank> + 'a,
) -> impl Iterator<Item = RangeKey> + 'a {
    let (mut selected, mut defaults) = (selected.into_iter().peekable(), defaults.peekable());
    std::iter::from_fn(move || match (selected.peek(), defaults.peek()) {
        (Some(one), Some(other)) if one < other => selected.next().map(|rank| rank.key),
        (_, Some(_)) => defaults.next().map(|rank| rank.key),
        (_, None) => selected.next().map(|rank| rank.key),
    })
}

impl Anchors {
    fn slot(&mut self, anchor: Anchor) -> &mut BTreeSet<RangeKey> {
        match anchor {
            Anchor::Name(name) => self.names.entry(name).or_default(),
            Anchor::Label(key, value) => self.labels.entry(key).or_default().values.entry(value).or_default(),
            Anchor::Key(key) => &mut self.labels.entry(key).or_default().any,
            Anchor::Any => &mut self.any,
        }
    }

    /// Takes a range out, and what is empty then.
    fn drop_from(&mut self, anchor: Anchor, range: RangeKey) {
        self.slot(anchor.clone()).remove(&range);
        match anchor {
            Anchor::Name(name) => {
                if self.names.get(&name).is_some_and(BTreeSet::is_empty) {
                    self.names.remove(&name);
                }
            }
            Anchor::Label(key, _) | Anchor::Key(key) => {
                if let Some(labelled) = self.labels.get_mut(&key) {
                    labelled.values.retain(|_, ranges| !ranges.is_empty());
                    if labelled.values.is_empty() && labelled.any.is_empty() {
                        self.labels.remove(&key);
                    }
                }
            }
            Anchor::Any => {}
        }
    }

    /// The ranges that may select a node, each once.
    fn of(&self, node: &Node) -> BTreeSet<RangeKey> {
        let mut found = self.any.clone();
        found.extend(self.names.get(&*node.name).into_iter().flatten());
        for (key, value) in node.labels() {
            if let Some(labelled) = self.labels.get(key) {
                found.extend(&labelled.any);
                found.extend(labelled.values.get(value).into_iter().flatten());
            }
        }
        found
    }
}

/// How many blocks a family has in all; an absent one limits nothing.
fn capacity<A: Address>(family: Option<&FamilyRange<A>>) -> u128 {
    let Some(family) = family else { return u128::MAX };
    View::new(family.range, A::WIDTH - family.host_bits, &family.excluded).map_or(0, |view| view.capacity())
}

/// The size of a block; of two families IPv4 counts, where addresses are few.
fn host_bits(spec: &ClusterCidr) -> u8 {
    let v6 = || spec.ipv6.as_ref().map(|family| family.host_bits);
    spec.ipv4.as_ref().map(|family| family.host_bits).or_else(v6).unwrap_or(0)
}

fn range_text(spec: &ClusterCidr) -> String {
    let v6 = || spec.ipv6.as_ref().map(|family| family.range.to_string());
    spec.ipv4.as_ref().map(|family| family.range.to_string()).or_else(v6).unwrap_or_default()
}
