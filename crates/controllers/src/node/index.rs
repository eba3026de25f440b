//! Everything side by side: the nodes, the ranges, who holds which block, and where a node could get one.
//!
//! There is one register for the cluster. Ranges are only views on it, so blocks of any sizes from ranges that overlap never
//! overlap; and whoever holds something holds it by its addresses, whatever happens to labels and ranges.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use api::kinds::ClusterCidr;
use space::{Address, Cidr, Counts, Fit, Moment, Prefix, Register, Registers, Reservation, View, ViewId, Wish};

use super::meters::RangeFigures;
use super::range::{self, Lengths, Range, RangeKey, Refusal};
use super::selection::Selection;
use super::sticky::Sticky;
use super::trimmed::Node;

/// Names a node in the index; never used twice, so a node that comes again under its name is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey(u64);

#[cfg(test)]
impl NodeKey {
    /// A key, for tests of what only keeps it.
    pub(super) fn numbered(number: u64) -> Self {
        Self(number)
    }
}

/// Who holds a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// A node, for its pods.
    Node(NodeKey),
    /// A node, for itself.
    Address(NodeKey),
    /// The Services.
    Services,
}

/// A node, and what it holds.
#[derive(Debug)]
pub struct Known {
    /// The node as it was last seen.
    pub node: Node,
    /// Its blocks, written on it or reserved for it.
    pub blocks: Vec<Cidr>,
    /// How far it has come.
    pub holding: Holding,
}

/// How far a node has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holding {
    /// It has no block.
    Nothing,
    /// Blocks are kept for it, and may or may not be written on it by now.
    Reserved {
        /// The name of the range that they are from.
        range: Arc<str>,
        /// The blocks in the order they are to be written in.
        cidrs: Vec<Cidr>,
    },
    /// Blocks are written on it.
    Written,
}

/// A range that refused a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The range.
    pub range: RangeKey,
    /// Its name.
    pub name: Arc<str>,
    /// Why.
    pub refusal: Refusal,
}

/// What came of a look at a node.
#[derive(Debug)]
pub struct Seen {
    /// Its key.
    pub key: NodeKey,
    /// Whether anything that matters is other than before.
    pub changed: bool,
    /// Whether other blocks are written on it than before.
    pub rewritten: bool,
    /// What became free.
    pub freed: Vec<Cidr>,
}

/// Two nodes that hold the same addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The block of the node that was asked about.
    pub own: Cidr,
    /// The other node.
    pub other: NodeKey,
    /// Its block.
    pub theirs: Cidr,
}

#[derive(Debug)]
struct Entry {
    range: Range,
    v4: Option<ViewId>,
    v6: Option<ViewId>,
    /// Of IPv4, of IPv6.
    traffic: [Traffic; 2],
}

/// How many blocks of a family were given to nodes, and came back.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    given: u64,
    returned: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Index {
    registers: Registers<Owner>,
    nodes: BTreeMap<NodeKey, Known>,
    node_names: HashMap<Arc<str>, NodeKey>,
    ranges: BTreeMap<RangeKey, Entry>,
    range_names: HashMap<Arc<str>, RangeKey>,
    /// The ranges by their addresses.
    windows: Registers<RangeKey>,
    selection: Selection,
    services: BTreeSet<Cidr>,
    sticky: Sticky,
    /// How long a block rests, and is kept in mind for its node, after the node is gone.
    rest: u64,
    now: Moment,
    next: u64,
}

impl Index {
    /// An empty index; blocks rest for `rest` after their node is gone.
    pub fn new(rest: u64) -> Self {
        Self {
            registers: Registers::new(),
            nodes: BTreeMap::new(),
            node_names: HashMap::new(),
            ranges: BTreeMap::new(),
            range_names: HashMap::new(),
            windows: Registers::new(),
            selection: Selection::default(),
            services: BTreeSet::new(),
            sticky: Sticky::default(),
            rest,
            now: Moment(0),
            next: 0,
        }
    }

    /// It is later now. Time does not go back.
    pub fn pass_time(&mut self, now: Moment) {
        self.now = self.now.max(now);
        self.registers.v4.pass_time(self.now);
        self.registers.v6.pass_time(self.now);
        self.sticky.pass_time(self.now);
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Nodes.
impl Index {
    /// A node is as it is given.
    pub fn see_node(&mut self, node: Node) -> Seen {
        let known = self.node_names.get(&node.name).copied();
        let same = known.filter(|key| self.nodes.get(key).is_some_and(|known| known.node.uid == node.uid));
        let mut freed = Vec::new();
        let key = if let Some(key) = same {
            key
        } else {
            // One that was deleted and made again while nobody looked is another one.
            freed = self.lose_node(&node.name);
            let key = NodeKey(self.fresh());
            self.node_names.insert(Arc::clone(&node.name), key);
            let empty = Node::new(&node.name, &node.uid);
            self.nodes.insert(key, Known { node: empty, blocks: Vec::new(), holding: Holding::Nothing });
            key
        };
        let Some(known) = self.nodes.get_mut(&key) else {
            return Seen { key, changed: false, rewritten: false, freed };
        };
        let changed = known.node != node;
        if !changed {
            return Seen { key, changed: same.is_none(), rewritten: false, freed };
        }
        for address in known.node.addresses.iter().filter(|address| !node.addresses.contains(address)) {
            release(&mut self.registers, host(*address), Owner::Address(key), None);
            freed.push(host(*address));
        }
        for address in node.addresses.iter().filter(|address| !known.node.addresses.contains(address)) {
            occupy(&mut self.registers, host(*address), Owner::Address(key));
        }
        let rewritten = known.node.pod_cidrs != node.pod_cidrs;
        known.node = node;
        if rewritten {
            let blocks = readable(&known.node);
            for block in known.blocks.iter().filter(|block| !blocks.contains(block)) {
                release(&mut self.registers, *block, Owner::Node(key), None);
                freed.push(*block);
            }
            for block in blocks.iter().filter(|block| !known.blocks.contains(block)) {
                occupy(&mut self.registers, *block, Owner::Node(key));
            }
            known.blocks = blocks;
            known.holding = if known.node.pod_cidrs.is_empty() { Holding::Nothing } else { Holding::Written };
        }
        Seen { key, changed: true, rewritten, freed }
    }

    /// There is no node of that name any more; what it held is free, and is given.
    pub fn lose_node(&mut self, name: &str) -> Vec<Cidr> {
        let Some((name, key)) = self.node_names.remove_entry(name) else { return Vec::new() };
        let Some(known) = self.nodes.remove(&key) else { return Vec::new() };
        let until = (self.rest > 0).then(|| Moment(self.now.0.saturating_add(self.rest)));
        let mut freed = known.blocks;
        for block in &freed {
            release(&mut self.registers, *block, Owner::Node(key), until);
            self.count_returned(*block);
        }
        if let (Some(until), Some(had)) = (until, as_reservation(&freed)) {
            self.sticky.remember(&name, had, until);
        }
        for address in &known.node.addresses {
            release(&mut self.registers, host(*address), Owner::Address(key), None);
            freed.push(host(*address));
        }
        freed
    }

    /// A block is back in the ranges that give blocks of its size.
    fn count_returned(&mut self, block: Cidr) {
        let around: Vec<RangeKey> = match block {
            Cidr::V4(block) => around(&self.windows.v4, block).collect(),
            Cidr::V6(block) => around(&self.windows.v6, block).collect(),
        };
        for key in around {
            if let Some(entry) = self.ranges.get_mut(&key).filter(|entry| entry.gives(block)) {
                entry.traffic[family_of(block)].returned += 1;
            }
        }
    }

    /// The node of that key.
    pub fn node(&self, key: NodeKey) -> Option<&Known> {
        self.nodes.get(&key)
    }

    /// The key of the node of that name.
    pub fn node_named(&self, name: &str) -> Option<NodeKey> {
        self.node_names.get(name).copied()
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeKey, &Known)> {
        self.nodes.iter().map(|(key, known)| (*key, known))
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Who else holds addresses of a node.
    pub fn conflicts(&self, key: NodeKey) -> Vec<Conflict> {
        let Some(known) = self.nodes.get(&key) else { return Vec::new() };
        let others = |own: &Cidr| {
            let others = match own {
                Cidr::V4(block) => others_on(&self.registers.v4, *block, key),
                Cidr::V6(block) => others_on(&self.registers.v6, *block, key),
            };
            let own = *own;
            others.into_iter().map(move |(theirs, other)| Conflict { own, other, theirs })
        };
        known.blocks.iter().flat_map(others).collect()
    }

    /// The blocks of a node that lie in no range.
    pub fn outside(&self, key: NodeKey) -> Vec<Cidr> {
        let blocks = self.nodes.get(&key).map(|known| known.blocks.as_slice()).unwrap_or_default();
        let is_outside = |block: &&Cidr| match block {
            Cidr::V4(block) => around(&self.windows.v4, *block).next().is_none(),
            Cidr::V6(block) => around(&self.windows.v6, *block).next().is_none(),
        };
        blocks.iter().filter(is_outside).copied().collect()
    }

    /// Keeps a block of each family for a node that has none, from the first range that serves it.
    pub fn reserve(&mut self, key: NodeKey) -> Result<(), Vec<Refused>> {
        let Self { registers, nodes, ranges, selection, sticky, .. } = self;
        let Some(known) = nodes.get_mut(&key).filter(|known| known.holding == Holding::Nothing) else { return Ok(()) };
        let mut refused = Vec::new();
        for range in selection.ranked(&known.node) {
            let Some(entry) = ranges.get_mut(&range) else { continue };
            let Ok(spec) = &entry.range.spec else { continue };
            match entry.grant(spec, registers, sticky.had(&known.node.name), &known.node, key) {
                Ok(granted) => {
                    sticky.forget(&known.node.name);
                    let mut cidrs: Vec<Cidr> = granted.v4.map(Cidr::V4).into_iter().collect();
                    cidrs.extend(granted.v6.map(Cidr::V6));
                    known.blocks.clone_from(&cidrs);
                    if spec.ipv6_first {
                        cidrs.reverse();
                    }
                    for cidr in &cidrs {
                        entry.traffic[family_of(*cidr)].given += 1;
                    }
                    known.holding = Holding::Reserved { range: Arc::clone(&entry.range.name), cidrs };
                    return Ok(());
                }
                Err(refusal) => {
                    let ends = refusal.is_for_now();
                    refused.push(Refused { range, name: Arc::clone(&entry.range.name), refusal });
                    if ends {
                        break;
                    }
                }
            }
        }
        Err(refused)
    }

    /// Keeps exactly these blocks for a node that has none, unless somebody holds one of them; says whether it did.
    pub fn keep(&mut self, key: NodeKey, range: Arc<str>, cidrs: Vec<Cidr>) -> bool {
        let Self { registers, nodes, .. } = self;
        let Some(known) = nodes.get_mut(&key).filter(|known| known.holding == Holding::Nothing) else { return false };
        let is_free = |block: &Cidr| match block {
            Cidr::V4(block) => registers.v4.is_free(*block),
            Cidr::V6(block) => registers.v6.is_free(*block),
        };
        if cidrs.is_empty() || !cidrs.iter().all(is_free) {
            return false;
        }
        for block in &cidrs {
            occupy(registers, *block, Owner::Node(key));
        }
        known.blocks.clone_from(&cidrs);
        known.holding = Holding::Reserved { range, cidrs };
        true
    }
}

/// Ranges.
impl Index {
    /// A `ClusterCIDR` is as it is given. Says what it is called, and whether what it means for nodes is other than before.
    pub fn see_range(&mut self, range: Range) -> (RangeKey, bool) {
        let known = self.range_names.get(&range.name).copied();
        if let Some(key) = known
            && let Some(entry) = self.ranges.get_mut(&key)
            && entry.range.uid == range.uid
            && entry.range.spec == range.spec
        {
            let standing = |range: &Range| (range.terminating, range.is_protected());
            let changed = standing(&entry.range) != standing(&range);
            entry.range = range;
            return (key, changed);
        }
        let same = known.filter(|key| self.ranges.get(key).is_some_and(|entry| entry.range.uid == range.uid));
        self.lose_range(&range.name);
        let key = same.unwrap_or_else(|| RangeKey(self.fresh()));
        let (mut v4, mut v6) = (None, None);
        if let Ok(spec) = &range.spec {
            if let Some(family) = &spec.ipv4 {
                v4 = add_view(&mut self.registers.v4, &mut self.windows.v4, key, family);
            }
            if let Some(family) = &spec.ipv6 {
                v6 = add_view(&mut self.registers.v6, &mut self.windows.v6, key, family);
            }
            self.selection.insert(key, &range.name, spec);
        }
        self.range_names.insert(Arc::clone(&range.name), key);
        self.ranges.insert(key, Entry { range, v4, v6, traffic: Default::default() });
        (key, true)
    }

    /// There is no `ClusterCIDR` of that name any more. What was granted from it stays granted.
    pub fn lose_range(&mut self, name: &str) -> Option<RangeKey> {
        let key = self.range_names.remove(name)?;
        let entry = self.ranges.remove(&key)?;
        self.selection.remove(key);
        if let Some(view) = entry.v4.and_then(|id| self.registers.v4.remove_view(id)) {
            let _ = self.windows.v4.release(view.range(), &key);
        }
        if let Some(view) = entry.v6.and_then(|id| self.registers.v6.remove_view(id)) {
            let _ = self.windows.v6.release(view.range(), &key);
        }
        Some(key)
    }

    /// The range of that key.
    pub fn range(&self, key: RangeKey) -> Option<&Range> {
        self.ranges.get(&key).map(|entry| &entry.range)
    }

    /// The key of the range of that name.
    pub fn range_named(&self, name: &str) -> Option<RangeKey> {
        self.range_names.get(name).copied()
    }

    /// All ranges.
    pub fn ranges(&self) -> impl Iterator<Item = (RangeKey, &Range)> {
        self.ranges.iter().map(|(key, entry)| (*key, &entry.range))
    }

    /// Whether a range serves a node, or would if it were open.
    pub fn serves(&self, range: RangeKey, node: NodeKey) -> bool {
        self.nodes.get(&node).is_some_and(|known| self.selection.serves(range, &known.node))
    }

    /// What there is of a range, of each family.
    pub fn counts(&self, key: RangeKey) -> (Option<Counts>, Option<Counts>) {
        let Some(entry) = self.ranges.get(&key) else { return (None, None) };
        (entry.v4.and_then(|id| self.registers.v4.counts(id)), entry.v6.and_then(|id| self.registers.v6.counts(id)))
    }

    /// What is counted of every family of every range.
    pub fn figures(&self) -> Vec<RangeFigures> {
        let mut figures = Vec::new();
        for (key, entry) in &self.ranges {
            let (v4, v6) = self.counts(*key);
            for cidr in self.blocks_of(*key) {
                let family = family_of(cidr);
                let Some(counts) = [&v4, &v6][family] else { continue };
                let Traffic { given, returned } = entry.traffic[family];
                figures.push(RangeFigures {
                    name: Arc::clone(&entry.range.name),
                    cidr: cidr.to_string(),
                    capacity: counts.capacity,
                    allocated: counts.allocated,
                    free: counts.free,
                    given,
                    returned,
                });
            }
        }
        figures
    }

    /// The ranges that share addresses with a block.
    pub fn ranges_on(&self, block: Cidr) -> BTreeSet<RangeKey> {
        match block {
            Cidr::V4(block) => self.windows.v4.overlaps(block).map(|(_, key)| *key).collect(),
            Cidr::V6(block) => self.windows.v6.overlaps(block).map(|(_, key)| *key).collect(),
        }
    }

    /// The ranges and the Service ranges that a range shares addresses with, by name and as text.
    pub fn overlapping(&self, key: RangeKey) -> (BTreeSet<Arc<str>>, Vec<Cidr>) {
        let (mut ranges, mut services) = (BTreeSet::new(), Vec::new());
        for block in self.blocks_of(key) {
            let others = self.ranges_on(block).into_iter().filter(|other| *other != key);
            ranges.extend(others.filter_map(|other| Some(Arc::clone(&self.range(other)?.name))));
            services.extend(self.services.iter().filter(|service| service.overlaps(&block)));
        }
        (ranges, services)
    }

    fn blocks_of(&self, key: RangeKey) -> Vec<Cidr> {
        let spec = self.range(key).and_then(|range| range.spec.as_ref().ok());
        let v4 = spec.and_then(|spec| spec.ipv4.as_ref()).map(|family| Cidr::V4(family.range));
        let v6 = spec.and_then(|spec| spec.ipv6.as_ref()).map(|family| Cidr::V6(family.range));
        v4.into_iter().chain(v6).collect()
    }

    /// The nodes that hold a block of a range, in the order of their addresses; one with two blocks may come twice.
    ///
    /// A block is of the ranges that it lies in and that give blocks of its size. If none does, it is of all that it lies in: it
    /// was given by a range that is not there any more, or by somebody else.
    pub fn holders(&self, key: RangeKey) -> impl Iterator<Item = NodeKey> {
        let spec = self.range(key).and_then(|range| range.spec.as_ref().ok());
        let v4 = spec.and_then(|spec| spec.ipv4.as_ref()).map(|family| {
            let gives = move |other: RangeKey, length| {
                self.spec(other)
                    .is_some_and(|spec| spec.ipv4.as_ref().is_some_and(|family| range::gives(spec, family, length)))
            };
            holders_in(&self.registers.v4, &self.windows.v4, family.range, key, gives)
        });
        let v6 = spec.and_then(|spec| spec.ipv6.as_ref()).map(|family| {
            let gives = move |other: RangeKey, length| {
                self.spec(other)
                    .is_some_and(|spec| spec.ipv6.as_ref().is_some_and(|family| range::gives(spec, family, length)))
            };
            holders_in(&self.registers.v6, &self.windows.v6, family.range, key, gives)
        });
        v4.into_iter().flatten().chain(v6.into_iter().flatten())
    }

    fn spec(&self, key: RangeKey) -> Option<&ClusterCidr> {
        self.range(key)?.spec.as_ref().ok()
    }
}

/// Services.
impl Index {
    /// The Services have these ranges. What they do not have any more is free, and is given.
    pub fn see_services(&mut self, services: BTreeSet<Cidr>) -> Vec<Cidr> {
        let freed: Vec<Cidr> = self.services.difference(&services).copied().collect();
        for block in &freed {
            release(&mut self.registers, *block, Owner::Services, None);
        }
        for block in services.difference(&self.services) {
            occupy(&mut self.registers, *block, Owner::Services);
        }
        self.services = services;
        freed
    }
}

/// Checks.
impl Index {
    /// Checks everything that is kept against what it was made from; says what does not agree.
    pub fn audit(&self) -> Result<(), String> {
        self.registers.v4.audit()?;
        self.registers.v6.audit()?;
        self.windows.v4.audit()?;
        self.windows.v6.audit()?;
        let held: usize = self.nodes.values().map(|known| known.blocks.len() + known.node.addresses.len()).sum();
        let claims = self.registers.v4.claims() + self.registers.v6.claims();
        if claims != held + self.services.len() {
            return Err(format!("{claims} claims, but nodes hold {held} and Services {}", self.services.len()));
        }
        Ok(())
    }
}

impl Entry {
    /// Whether blocks of that size are what it gives.
    fn gives(&self, block: Cidr) -> bool {
        let Ok(spec) = &self.range.spec else { return false };
        match block {
            Cidr::V4(block) => spec.ipv4.as_ref().is_some_and(|family| range::gives(spec, family, block.length())),
            Cidr::V6(block) => spec.ipv6.as_ref().is_some_and(|family| range::gives(spec, family, block.length())),
        }
    }

    fn grant(
        &self,
        spec: &ClusterCidr,
        registers: &mut Registers<Owner>,
        had: Option<Reservation>,
        node: &Node,
        key: NodeKey,
    ) -> Result<Reservation, Refusal> {
        if let Some(refusal) = self.range.closed(spec) {
            return Err(refusal);
        }
        let lengths = range::lengths(spec, node)?;
        let owner = Owner::Node(key);
        if let Some(had) = had.filter(|had| self.can_give(registers, *had, lengths)) {
            had.v4.into_iter().for_each(|block| occupy(registers, block.into(), owner));
            had.v6.into_iter().for_each(|block| occupy(registers, block.into(), owner));
            return Ok(had);
        }
        let v4 = self.v4.zip(lengths.v4).map(|(view, length)| Wish { view, length, fit: Fit::First });
        let v6 = self.v6.zip(lengths.v6).map(|(view, length)| Wish { view, length, fit: Fit::First });
        registers.reserve(v4, v6, &owner).map_err(|refusal| Refusal::Full(refusal, lengths))
    }

    /// Whether exactly these blocks could be granted from here.
    fn can_give(&self, registers: &Registers<Owner>, blocks: Reservation, lengths: Lengths) -> bool {
        can_give(&registers.v4, self.v4, blocks.v4, lengths.v4)
            && can_give(&registers.v6, self.v6, blocks.v6, lengths.v6)
    }
}

fn can_give<A: Address>(
    register: &Register<A, Owner>,
    view: Option<ViewId>,
    block: Option<Prefix<A>>,
    length: Option<u8>,
) -> bool {
    let Some(block) = block else { return length.is_none() };
    let is_inside = |view: &View<A>| view.pieces().iter().any(|piece| piece.contains(&block));
    length == Some(block.length())
        && view.and_then(|id| register.view(id)).is_some_and(is_inside)
        && register.is_free(block)
}

fn add_view<A: Address>(
    register: &mut Register<A, Owner>,
    windows: &mut Register<A, RangeKey>,
    key: RangeKey,
    family: &api::kinds::FamilyRange<A>,
) -> Option<ViewId> {
    // What is read is known to make a view.
    let view = View::new(family.range, A::WIDTH - family.host_bits, &family.excluded).ok()?;
    windows.occupy(family.range, key);
    Some(register.add_view(view))
}

/// The ranges that a block lies in.
fn around<A: Address>(windows: &Register<A, RangeKey>, block: Prefix<A>) -> impl Iterator<Item = RangeKey> {
    windows.owners(block).copied().chain(windows.covering(block).into_iter().map(|(_, key)| *key))
}

fn holders_in<A: Address>(
    register: &Register<A, Owner>,
    windows: &Register<A, RangeKey>,
    range: Prefix<A>,
    key: RangeKey,
    gives: impl Fn(RangeKey, u8) -> bool,
) -> impl Iterator<Item = NodeKey> {
    register.owners_in(range).filter_map(move |(block, owner)| {
        let Owner::Node(node) = owner else { return None };
        let length = block.length();
        let is_own = gives(key, length) || !around(windows, block).any(|other| gives(other, length));
        is_own.then_some(*node)
    })
}

fn others_on<A: Address>(register: &Register<A, Owner>, block: Prefix<A>, own: NodeKey) -> Vec<(Cidr, NodeKey)>
where
    Cidr: From<Prefix<A>>,
{
    let other = |(block, owner): (Prefix<A>, &Owner)| match owner {
        Owner::Node(other) if *other != own => Some((Cidr::from(block), *other)),
        _ => None,
    };
    register.overlaps(block).filter_map(other).collect()
}

/// The blocks that are written on a node, each once. What cannot be read is nobody's.
fn readable(node: &Node) -> Vec<Cidr> {
    let mut blocks: Vec<Cidr> = Vec::new();
    for reading in node.pod_cidrs.iter().filter_map(|text| Cidr::tolerant(text).ok()) {
        if !blocks.contains(&reading.value) {
            blocks.push(reading.value);
        }
    }
    blocks
}

/// At most one block of each family, as they were granted together.
fn as_reservation(blocks: &[Cidr]) -> Option<Reservation> {
    let mut reservation = Reservation { v4: None, v6: None };
    for block in blocks {
        let second = match block {
            Cidr::V4(block) => reservation.v4.replace(*block).is_some(),
            Cidr::V6(block) => reservation.v6.replace(*block).is_some(),
        };
        if second {
            return None;
        }
    }
    (!blocks.is_empty()).then_some(reservation)
}

/// The place of a family among both.
fn family_of(cidr: Cidr) -> usize {
    match cidr {
        Cidr::V4(_) => 0,
        Cidr::V6(_) => 1,
    }
}

fn host(address: IpAddr) -> Cidr {
    match address {
        IpAddr::V4(address) => Cidr::V4(Prefix::host(u32::from(address))),
        IpAddr::V6(address) => Cidr::V6(Prefix::host(u128::from(address))),
    }
}

fn occupy(registers: &mut Registers<Owner>, block: Cidr, owner: Owner) {
    match block {
        Cidr::V4(block) => registers.v4.occupy(block, owner),
        Cidr::V6(block) => registers.v6.occupy(block, owner),
    };
}

/// Gives a block back. It is the owner's: the index knows what it has occupied for whom.
fn release(registers: &mut Registers<Owner>, block: Cidr, owner: Owner, until: Option<Moment>) {
    let released = match (block, until) {
        (Cidr::V4(block), Some(until)) => registers.v4.release_cooling(block, &owner, until).is_ok(),
        (Cidr::V6(block), Some(until)) => registers.v6.release_cooling(block, &owner, until).is_ok(),
        (Cidr::V4(block), None) => registers.v4.release(block, &owner).is_ok(),
        (Cidr::V6(block), None) => registers.v6.release(block, &owner).is_ok(),
    };
    debug_assert!(released, "{block} was not {owner:?}'s");
}
