//! What happened goes in, what should be written comes out.
//!
//! Nothing is taken for written until the watch shows it. Every write of a pool is decided from one revision of it and names that
//! revision, so of two that decide at once one is refused, and begins again from what the other wrote. That is all the safety
//! there is; that only one leads saves work.
//!
//! Until [`Plan::begin`] all that happens is taken in and nothing is decided: first everything that is there must be known.

mod told;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::Object;
use api::slices::{ASKS, Entry, SlicedNetwork, SlicedRange, ip_pool_name, shared_pool_name};
use jiff::Timestamp;
use space::{Cidr, Moment};

use super::decide::{Asked, Counts, Decision, Elsewhere, Known, decide};
use super::definition::{self, Definition};
use super::intent::{Deletion, Intent, Outcome, Remains, Subject, Used};
use super::layout::{self, Frame, Stored, next_write};
use super::network::Network;
use super::node::{Node, is_shortened, node_label};
use super::orphans::{Found, Listed, MISSING, Orphan, OrphanEntry, Orphans, Step};
use super::shared::{SharedPool, Survey};

/// How long after pods were seen on a node that is gone they are looked for again, in milliseconds.
const LOOK_PAUSE: u64 = 5_000;
/// How long after the pools could not be listed it is tried again.
const RECALL_PAUSE: u64 = 1_000;

/// How the controller is meant to work.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where pools are.
    pub namespace: String,
    /// How long the slices of a node that is gone rest before they may go to others, in seconds.
    pub quarantine: i64,
    /// How long a pod must be missing at least until its entry in a pool that all nodes share is taken out, in milliseconds; if the
    /// quarantine is longer, that long.
    pub missing: u64,
    /// How long changes are gathered before they are acted upon, in milliseconds.
    pub gather: u64,
    /// How many bytes of entries an object has before some are moved.
    pub limit: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let namespace = "kube-system".to_owned();
        Self { namespace, quarantine: 300, missing: MISSING, gather: 50, limit: layout::LIMIT }
    }
}

/// Whether it was looked what nodes that went had left behind, while nobody was there to see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sweep {
    Due(Moment),
    UnderWay,
    Over,
}

/// `IPPool`s of a node that is gone and has nothing of any network.
#[derive(Debug)]
struct Left {
    pools: Vec<Remains>,
    /// When it is looked whether anything still runs there; nothing while that is under way.
    look: Option<Moment>,
}

/// See the module.
#[derive(Debug)]
pub struct Plan {
    settings: Settings,
    begun: bool,
    now: Moment,
    time: Timestamp,
    nodes: BTreeMap<String, Node>,
    definitions: BTreeMap<String, Definition>,
    networks: BTreeMap<String, Network>,
    /// What nodes ask, by the name of the `IPPool`.
    asked: BTreeMap<String, Asked>,
    /// Which `IPPool`s of whole ranges there are.
    survey: Survey,
    /// What pods have of whole ranges, by the name of the `IPPool`; one that is not here was not looked for yet.
    shared: BTreeMap<String, Vec<Cidr>>,
    /// What pods that are gone have of whole ranges.
    orphans: Orphans,
    /// Nodes that went while they were fenced.
    fenced: BTreeSet<String>,
    /// Nodes that are gone, and nothing runs on them.
    cleared: BTreeSet<String>,
    /// Nodes that are gone and whose pods are being looked for, and when they may be looked for again.
    looking: BTreeMap<String, Option<Moment>>,
    recalling: bool,
    sweep: Sweep,
    /// What was found that nodes which are gone have left, by their labels.
    left: BTreeMap<String, Left>,
    outbox: VecDeque<Intent>,
    /// What was told last and when, by whom it is about and why: the same is not told again for a while.
    told: BTreeMap<(Subject, &'static str), (String, Moment)>,
}

impl Plan {
    /// Nothing is known yet.
    pub fn new(settings: Settings) -> Self {
        let orphans = Orphans::new(settings.missing, settings.quarantine);
        Self {
            settings,
            begun: false,
            now: Moment(0),
            time: Timestamp::UNIX_EPOCH,
            nodes: BTreeMap::new(),
            definitions: BTreeMap::new(),
            networks: BTreeMap::new(),
            asked: BTreeMap::new(),
            survey: Survey::default(),
            shared: BTreeMap::new(),
            orphans,
            fenced: BTreeSet::new(),
            cleared: BTreeSet::new(),
            looking: BTreeMap::new(),
            recalling: false,
            sweep: Sweep::Over,
            left: BTreeMap::new(),
            outbox: VecDeque::new(),
            told: BTreeMap::new(),
        }
    }

    /// All that is there is known: from now on there are decisions.
    pub fn begin(&mut self) {
        self.begun = true;
        self.sweep = Sweep::Due(self.now);
        self.survey.want(self.now);
        for network in self.networks.values_mut() {
            network.touch(self.now);
        }
        let keys: Vec<String> = self.definitions.keys().cloned().collect();
        for key in keys {
            self.judge(&key);
        }
    }

    /// Whether there have been decisions.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// The names of the nodes that are known.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// The definitions that are known, as `namespace/name`.
    pub fn definitions(&self) -> impl Iterator<Item = &str> {
        self.definitions.keys().map(String::as_str)
    }

    /// The names of the pools and shards that are known.
    pub fn pools(&self) -> impl Iterator<Item = &str> {
        self.networks.values().flat_map(|network| {
            network
                .objects
                .pool
                .iter()
                .map(|pool| pool.shell.name())
                .chain(network.objects.shards.keys().map(String::as_str))
        })
    }

    /// The names of the `IPPool`s on which something is asked.
    pub fn asked(&self) -> impl Iterator<Item = &str> {
        self.asked.keys().map(String::as_str)
    }

    /// The names of the `IPPool`s in which pods may have addresses of ranges that are cut, from when all nodes shared them.
    pub fn shared_pools(&self) -> BTreeSet<String> {
        let networks = self.definitions.values().filter_map(Definition::network);
        networks.flat_map(|network| self.shared_pools_of(network)).collect()
    }

    /// How many slices each network has.
    pub fn counts(&self) -> impl Iterator<Item = (&str, Counts)> {
        let is_there = |network: &Network| network.objects.pool.is_some();
        self.networks
            .iter()
            .filter(move |(_, network)| is_there(network))
            .map(|(name, one)| (name.as_str(), one.counts))
    }
}

/// What happens.
impl Plan {
    /// A node is as it is given.
    pub fn see_node(&mut self, node: Node) {
        self.fenced.remove(&node.name);
        self.cleared.remove(&node.name);
        if self.nodes.get(&node.name) != Some(&node) {
            self.orphans.see_node(&node_label(&node.name));
            self.nodes.insert(node.name.clone(), node);
            self.touch_all();
        }
    }

    /// There is no node of that name any more: the watch says so.
    pub fn lose_node(&mut self, name: &str) {
        let Some(node) = self.nodes.remove(name) else { return };
        if node.fenced {
            self.fenced.insert(node.name);
        }
        self.touch_all();
    }

    /// A definition is as it is given.
    pub fn see_definition(&mut self, object: &Object) {
        let (definition, key) = (Definition::read(object), definition::key(object.namespace(), object.name()));
        if self.definitions.get(&key) == Some(&definition) {
            return;
        }
        self.lose_definition(&key);
        if let Some(network) = definition.network() {
            let name = network.name.clone();
            self.touch(&name);
        }
        self.look_for_shared_pools(&definition);
        self.definitions.insert(key.clone(), definition);
        self.judge(&key);
    }

    /// There is no definition of that name any more.
    pub fn lose_definition(&mut self, key: &str) {
        let Some(definition) = self.definitions.remove(key) else { return };
        match definition.network() {
            Some(network) => self.touch(&network.name.clone()),
            // What it could have been of, nobody knows; pools that it held may go.
            None => self.touch_all(),
        }
        self.look_for_shared_pools(&definition);
        self.told.retain(|(subject, _), _| *subject != definition.subject);
    }

    /// A pool or a shard is as it is given.
    pub fn see_pool(&mut self, object: Object) {
        let stored = Stored::read(object);
        let name = stored.shard_of().unwrap_or(stored.shell.name()).to_owned();
        let (now, at) = (self.now, self.soon());
        let network = self.networks.entry(name.clone()).or_default();
        network.see(stored);
        network.touch(at);
        network.land(now);
        self.touch_rivals(&name);
        self.complain(&name);
    }

    /// There is no pool or shard of that name any more.
    pub fn lose_pool(&mut self, name: &str) {
        let (now, at) = (self.now, self.soon());
        let mut losers = Vec::new();
        for (of, network) in &mut self.networks {
            let own = network.objects.pool.as_ref().is_some_and(|pool| pool.shell.name() == name);
            if own || network.objects.shards.contains_key(name) {
                network.lose(name);
                network.touch(at);
                network.land(now);
                losers.push(of.clone());
            }
        }
        for loser in losers {
            self.touch_rivals(&loser);
        }
    }

    /// An `IPPool` is as it is given; nothing is kept of one on which nothing is asked.
    pub fn see_ip_pool(&mut self, object: &Object) {
        let ask = object.text(&["metadata", "labels", ASKS]).parse().ok();
        let slice = Cidr::tolerant(object.text(&["spec", "range"])).ok().map(|reading| reading.value);
        match ask.zip(slice) {
            Some((ask, slice)) => {
                self.asked.insert(object.name().to_owned(), Asked { slice, ask });
                self.touch_all();
            }
            None => self.lose_ip_pool(object.name()),
        }
    }

    /// There is no `IPPool` of that name any more, or nothing is asked on it.
    pub fn lose_ip_pool(&mut self, name: &str) {
        if self.asked.remove(name).is_some() {
            self.touch_all();
        }
    }

    /// Pods have these addresses, by an `IPPool` of a whole range. There may be no such `IPPool`: then they have none.
    pub fn see_shared_pool(&mut self, name: &str, held: Vec<Cidr>) {
        if self.shared.get(name) == Some(&held) {
            return;
        }
        self.shared.insert(name.to_owned(), held);
        let networks = self.definitions.values().filter_map(Definition::network);
        let concerned = networks.filter(|network| self.shared_pools_of(network).contains(name));
        let concerned: Vec<String> = concerned.map(|network| network.name.clone()).collect();
        for network in concerned {
            self.touch(&network);
        }
    }

    /// Nobody follows that `IPPool` any more.
    pub fn forget_shared_pool(&mut self, name: &str) {
        if self.shared.remove(name).is_some_and(|held| !held.is_empty()) {
            self.touch_all();
        }
    }

    /// The `IPPool`s that no node has, or nothing if they could not be listed.
    pub fn surveyed(&mut self, pools: Option<&[SharedPool]>) {
        if self.survey.end(pools, self.now) {
            for network in self.networks.values_mut() {
                network.touch(self.now);
            }
        }
        if let Some(pools) = pools {
            self.look_for_orphans(pools);
        }
        self.forget_the_gone();
        self.tell_again();
    }

    /// What an [`Intent::FindPods`] showed, or nothing if something could not be listed.
    pub fn pods_found(&mut self, listed: Option<&Listed>) {
        let labels: BTreeSet<String> = self.nodes.keys().map(|name| node_label(name)).collect();
        self.orphans.find(listed, |label| labels.contains(label), self.now);
    }

    /// What an [`Intent::FindPod`] showed; nothing if nobody knows.
    pub fn pod_found(&mut self, orphan: Orphan, found: Option<&Found>) {
        if !found.is_some_and(|found| self.orphans.is_one(found, self.now)) {
            return self.orphans.end(&orphan);
        }
        match orphan {
            Orphan::Entry(entry) => self.orphans.ready(entry),
            Orphan::Reservation(ref one, _) => {
                let one = one.clone();
                self.outbox.push_back(Intent::Release(orphan, one));
            }
        }
    }

    /// An [`Intent::TakeOut`] came to its end. If an entry is still there, the next survey tells.
    pub fn taken_out(&mut self, entries: &[OrphanEntry]) {
        if let Some(one) = entries.first() {
            self.orphans.written(&one.pool);
        }
    }

    /// An [`Intent::Hush`] of that pool came to its end. If something is still there, the next survey tells.
    pub fn hushed(&mut self, pool: &str) {
        self.orphans.written(pool);
    }

    /// An [`Intent::Release`] came to its end. If the reservation is still there, the next look tells.
    pub fn released(&mut self, orphan: &Orphan) {
        self.orphans.end(orphan);
    }

    /// Entries of pools that are of no node. whereabouts' own pools of slices have no label, so they are known by their names.
    fn look_for_orphans(&mut self, pools: &[SharedPool]) {
        let of_slices: BTreeSet<String> = self.networks.iter().flat_map(|(name, one)| one.ip_pools(name)).collect();
        // Of a network whose pool is lost, what is in use is all that tells what it said.
        let lacking = self.networks.iter().filter(|(_, network)| network.objects.lack());
        let lacking: Vec<&SlicedNetwork> = lacking.filter_map(|(name, _)| Some(self.deciding(name)?.0)).collect();
        let may_be_its = |pool: &SharedPool| {
            lacking.iter().any(|network| {
                let has_its_name = network.is_named && pool.name.starts_with(&format!("{}-", network.name));
                has_its_name || network.ranges.iter().any(|range| range.range().overlaps(&pool.range))
            })
        };
        let kept = pools.iter().filter(|pool| of_slices.contains(&pool.name) || may_be_its(pool));
        let kept = kept.map(|pool| pool.name.clone()).collect();
        if let Some(pods) = self.orphans.see(pools.to_vec(), kept, self.now) {
            self.outbox.push_back(Intent::FindPods(pods));
        }
    }

    /// A definition comes or goes. The pools of its ranges stay when it goes, and only pools tell then which these were.
    fn look_for_shared_pools(&mut self, definition: &Definition) {
        if !definition.ranges.is_empty() {
            self.survey.want(self.soon());
        }
    }

    /// What came of an [`Intent::Write`] or an [`Intent::Delete`].
    pub fn written(&mut self, name: &str, outcome: &Outcome) {
        let now = self.now;
        let Some((of, network)) = self.networks.iter_mut().find(|(_, network)| network.is_written(name)) else {
            return;
        };
        network.written(outcome, now);
        let of = of.clone();
        self.complain(&of);
    }

    /// The `IPPool`s that have addresses in use, or nothing if they could not be listed.
    pub fn recalled(&mut self, used: Option<&[Used]>) {
        self.recalling = false;
        let (now, time, later) = (self.now, self.time, Moment(self.now.0.saturating_add(RECALL_PAUSE)));
        let wanted: Vec<SlicedNetwork> =
            self.networks.keys().filter_map(|name| Some(self.deciding(name)?.0.clone())).collect();
        for wanted in wanted {
            let elsewhere = self.elsewhere(&wanted);
            let Some(network) = self.networks.get_mut(&wanted.name) else { continue };
            if !network.objects.lack() || network.remembered.is_some() {
                continue;
            }
            if let Some(used) = used {
                network.recall(&wanted, used, &elsewhere, time);
            }
            network.due = Some(if used.is_some() { now } else { later });
        }
    }

    /// The `IPPool`s that nodes have, by their labels, or nothing if they could not be listed. What is left of a node that is gone and
    /// has nothing of any network goes: whoever took its slices back ended before that. Or its networks ended while pods ran on it:
    /// if they begin again, this is all that tells what it uses. So it rests as a slice does, and then it is looked for its pods.
    pub fn swept(&mut self, pools: Option<Vec<Remains>>) {
        let Some(pools) = pools else {
            self.sweep = Sweep::Due(Moment(self.now.0.saturating_add(RECALL_PAUSE)));
            return;
        };
        self.sweep = Sweep::Over;
        // What is in use is all that tells what a pool said that is lost.
        if self.networks.values().any(|network| network.objects.lack()) {
            return;
        }
        let (known, look) = (self.known_labels(), Some(self.rested()));
        // Of a node of which there is no more than a part of its name nobody can say what runs on it.
        for pool in pools.into_iter().filter(|pool| !known.contains(&pool.node) && !is_shortened(&pool.node)) {
            let left = self.left.entry(pool.node.clone()).or_insert_with(|| Left { pools: Vec::new(), look });
            left.pools.push(pool);
        }
    }

    /// The labels of all nodes that are there or have something.
    fn known_labels(&self) -> BTreeSet<String> {
        let held = self.networks.values().flat_map(Network::entries).map(|(node, _)| node);
        self.nodes.keys().map(|node| node_label(node)).chain(held.map(|node| node_label(&node))).collect()
    }

    /// When what is left behind now has rested.
    fn rested(&self) -> Moment {
        let rest = u64::try_from(self.settings.quarantine).unwrap_or(0).saturating_mul(1_000);
        Moment(self.now.0.saturating_add(rest))
    }

    /// The next node that left something for which it is time to look.
    fn next_left(&mut self) -> Option<Intent> {
        let now = self.now;
        let is_due = |left: &Left| left.look.is_some_and(|at| at <= now);
        if !self.left.values().any(is_due) {
            return None;
        }
        let known = self.known_labels();
        self.left.retain(|label, _| !known.contains(label));
        let (label, left) = self.left.iter_mut().find(|(_, left)| is_due(left))?;
        left.look = None;
        Some(Intent::Look(label.clone()))
    }

    /// Whether pods that have not ended are bound to a node that is gone; nothing if nobody knows.
    pub fn looked(&mut self, node: &str, running: Option<bool>) {
        self.looked_for_left(node, running);
        if !self.looking.contains_key(node) {
            return;
        }
        if running == Some(false) && !self.nodes.contains_key(node) {
            self.looking.remove(node);
            self.cleared.insert(node.to_owned());
        } else {
            self.looking.insert(node.to_owned(), Some(Moment(self.now.0.saturating_add(LOOK_PAUSE))));
        }
        self.touch_all();
    }

    fn looked_for_left(&mut self, node: &str, running: Option<bool>) {
        let again = self.rested().max(Moment(self.now.0.saturating_add(LOOK_PAUSE)));
        let Some(left) = self.left.get_mut(node).filter(|left| left.look.is_none()) else { return };
        if running != Some(false) {
            left.look = Some(again);
            return;
        }
        let pools = std::mem::take(&mut left.pools);
        self.left.remove(node);
        if !self.known_labels().contains(node) {
            self.outbox.extend(pools.into_iter().map(Intent::Discard));
        }
    }

    /// What was noted of nodes that are gone is needed as long as they have something.
    fn forget_the_gone(&mut self) {
        if self.networks.values().any(|network| network.objects.lack()) {
            return;
        }
        let held: BTreeSet<String> = self.networks.values().flat_map(Network::entries).map(|(node, _)| node).collect();
        self.fenced.retain(|node| held.contains(node));
        self.cleared.retain(|node| held.contains(node));
        self.looking.retain(|node, _| held.contains(node));
    }

    fn soon(&self) -> Moment {
        Moment(self.now.0.saturating_add(self.settings.gather))
    }

    fn touch(&mut self, network: &str) {
        let at = self.soon();
        self.networks.entry(network.to_owned()).or_default().touch(at);
    }

    /// What a network has changed, so others that cannot have the same may have to look: those on its ranges, and those that lack
    /// something, which may be what it had in ranges of before.
    fn touch_rivals(&mut self, name: &str) {
        let network = self.deciding(name).map(|(network, _)| network);
        if network.is_some_and(|network| network.is_named) {
            return;
        }
        let is_rival = |other: &SlicedNetwork| {
            let ranges = || network.iter().flat_map(|network| &network.ranges);
            let meets = |range: &SlicedRange| ranges().any(|own| own.range().overlaps(&range.range()));
            let lacks = |other: &Network| other.counts.waiting > 0 || other.counts.conflicting > 0;
            let is_short = || self.networks.get(&other.name).is_some_and(lacks);
            other.name != name && !other.is_named && (is_short() || other.ranges.iter().any(meets))
        };
        let rivals = self.definitions.values().filter_map(Definition::network).filter(|other| is_rival(other));
        let rivals: Vec<String> = rivals.map(|rival| rival.name.clone()).collect();
        for rival in rivals {
            self.touch(&rival);
        }
    }

    fn touch_all(&mut self) {
        let at = self.soon();
        for network in self.networks.values_mut() {
            network.touch(at);
        }
    }
}

/// What should be done.
impl Plan {
    /// The next thing that should be done; nothing while there is nothing to do.
    pub fn next(&mut self, now: Moment, time: Timestamp) -> Option<Intent> {
        (self.now, self.time) = (self.now.max(now), time);
        if !self.begun {
            return None;
        }
        loop {
            if let Some(intent) = self.outbox.pop_front() {
                return Some(intent);
            }
            if matches!(self.sweep, Sweep::Due(at) if at <= self.now) {
                self.sweep = Sweep::UnderWay;
                return Some(Intent::Sweep);
            }
            if let Some(intent) = self.next_left() {
                return Some(intent);
            }
            if self.survey.begin(self.now) {
                return Some(Intent::Survey);
            }
            match self.orphans.begin(self.now) {
                Some(Step::Look(orphan)) => return Some(Intent::FindPod(orphan)),
                Some(Step::TakeOut(entries)) => return Some(Intent::TakeOut(entries)),
                Some(Step::Hush(wanted)) => return Some(Intent::Hush(wanted)),
                None => {}
            }
            let ready = |(_, network): &(&String, &Network)| network.ready_at().is_some_and(|due| due <= self.now);
            let name = self.networks.iter().find(ready)?.0.clone();
            self.step(&name);
        }
    }

    /// When there will be something to do although nothing happens.
    pub fn due_at(&self) -> Option<Moment> {
        let sweep = if let Sweep::Due(at) = self.sweep { Some(at) } else { None };
        let left = self.left.values().filter_map(|left| left.look);
        let networks = self.networks.values().filter_map(Network::ready_at);
        networks.chain(sweep).chain(left).chain(self.survey.due_at()).chain(self.orphans.due_at()).min()
    }

    /// Looks at a network.
    fn step(&mut self, name: &str) {
        let Some(network) = self.networks.get_mut(name) else { return };
        network.due = None;
        let Some((wanted, subject)) = self.deciding(name).map(|(network, subject)| (network.clone(), subject.clone()))
        else {
            return self.end(name);
        };
        // It is looked at again when they were.
        if !self.survey.is_known() || self.shared_pools_of(&wanted).iter().any(|pool| !self.shared.contains_key(pool)) {
            return;
        }
        let Some(network) = self.networks.get_mut(name) else { return };
        network.ended = None;
        if network.objects.lack() && network.remembered.is_none() {
            if !std::mem::replace(&mut self.recalling, true) {
                self.outbox.push_back(Intent::Recall);
            }
            return;
        }
        let held = network.entries();
        let left = std::mem::take(&mut network.leaving);
        let elsewhere = self.elsewhere(&wanted);
        let Some(network) = self.networks.get(name) else { return };
        let decision = decide(Known {
            network: &wanted,
            nodes: &self.nodes,
            held: &held,
            elsewhere: &elsewhere,
            epoch: network.epoch(),
            edited: &network.edited,
            is_lost: network.objects.lack(),
            asked: &self.asked,
            cleared: &self.cleared,
            fenced: &self.fenced,
            time: self.time,
            quarantine: self.settings.quarantine,
        });
        let frame = self.frame(wanted);
        self.discard(&frame.network, left, &held, &decision);
        self.act(name, &frame, &held, &decision);
        self.look_for_pods(name, &decision);
        self.report(name, &subject, &decision);
    }

    /// What nodes that are gone had written goes when their entries are seen to be gone: who looks later what is in use should not
    /// find it. Not before: who decides from what is old may be wrong, and its write is refused then.
    fn discard(
        &mut self,
        network: &SlicedNetwork,
        left: BTreeMap<String, Vec<Cidr>>,
        held: &BTreeMap<String, Entry>,
        decision: &Decision,
    ) {
        let named = network.is_named.then_some(network.name.as_str());
        for (node, slices) in left {
            if !held.contains_key(&node) && !self.nodes.contains_key(&node) {
                let pools = slices.iter().map(|slice| ip_pool_name(named, &node, *slice));
                self.outbox.extend(pools.map(|pool| Intent::Discard(Remains { node: node.clone(), pool })));
            }
        }
        let goes = |node: &String| !decision.entries.contains_key(node) && !self.nodes.contains_key(node);
        let leaving = held.iter().filter(|(node, _)| goes(node));
        let leaving = leaving.map(|(node, entry)| (node.clone(), entry.slices.clone())).collect();
        if let Some(network) = self.networks.get_mut(&network.name) {
            network.leaving = leaving;
        }
    }

    /// Sends out the write that is due.
    fn act(&mut self, name: &str, frame: &Frame, held: &BTreeMap<String, Entry>, decision: &Decision) {
        let Some(network) = self.networks.get_mut(name) else { return };
        network.counts = decision.counts;
        let write = next_write(&network.objects, held, frame, decision, self.settings.limit);
        if let Some(write) = write {
            network.send(&write.name, write.shell.resource_version(), Some(write.pool.clone()), self.now);
            network.touch(self.now);
            self.outbox.push_back(Intent::Write(Box::new(write)));
        }
        if let Some(wake) = decision.wake {
            let milliseconds = wake.as_second().saturating_sub(self.time.as_second()).max(0).saturating_mul(1_000);
            let at = self.now.0.saturating_add(u64::try_from(milliseconds).unwrap_or(0)).saturating_add(1);
            if let Some(network) = self.networks.get_mut(name) {
                network.touch(Moment(at));
            }
        }
    }

    fn look_for_pods(&mut self, name: &str, decision: &Decision) {
        for node in &decision.unsure {
            match self.looking.get(node) {
                Some(None) => {}
                Some(Some(again)) if *again > self.now => {
                    let again = *again;
                    if let Some(network) = self.networks.get_mut(name) {
                        network.touch(again);
                    }
                }
                _ => {
                    self.looking.insert(node.clone(), None);
                    self.outbox.push_back(Intent::Look(node.clone()));
                }
            }
        }
    }

    /// There are no definitions of a network any more: its objects go, the pool first, without which shards mean nothing. Objects that we have never written are not
    /// ours to delete, and those whose definition is there and cannot be read just now are still wanted.
    fn end(&mut self, name: &str) {
        let Some(network) = self.networks.get_mut(name) else { return };
        let ended = *network.ended.get_or_insert(self.time);
        let is_held = network
            .objects
            .pool
            .iter()
            .flat_map(Stored::definitions)
            .any(|key| self.definitions.get(key).is_some_and(|definition| definition.reading.is_err()));
        let ours = network.objects.pool.iter().chain(network.objects.shards.values()).find(|stored| stored.is_ours());
        if let Some(stored) = ours.filter(|_| !is_held) {
            let (object, resource_version) =
                (stored.shell.name().to_owned(), stored.shell.resource_version().to_owned());
            network.send(&object, &resource_version, None, self.now);
            self.outbox.push_back(Intent::Delete(Deletion { name: object, resource_version }));
        } else if network.is_over(self.time, self.settings.quarantine) {
            self.networks.remove(name);
        } else if network.objects.pool.is_none() {
            let left = ended.as_second().saturating_add(self.settings.quarantine).saturating_sub(self.time.as_second());
            let left = u64::try_from(left.max(1)).unwrap_or(1).saturating_mul(1_000);
            network.touch(Moment(self.now.0.saturating_add(left)));
        }
    }

    /// All definitions of a network, the one that decides first.
    fn of<'a>(&'a self, name: &'a str) -> Vec<&'a Definition> {
        let is_its = |one: &&Definition| one.network().is_some_and(|network| network.name == name);
        let mut all: Vec<&Definition> = self.definitions.values().filter(is_its).collect();
        all.sort_by_key(|one| one.rank());
        all
    }

    fn deciding(&self, name: &str) -> Option<(&SlicedNetwork, &Subject)> {
        let is_its = |one: &&Definition| one.network().is_some_and(|network| network.name == name);
        let first = self.definitions.values().filter(is_its).min_by_key(|one| one.rank())?;
        Some((first.network()?, &first.subject))
    }

    /// What in the ranges of a network is not for its nodes. `IPPool`s and reservations of networks without a `network_name` have the same
    /// names, so the same address would be one object of both. And nodes do not know what pods have from a pool of the whole range.
    fn elsewhere(&self, network: &SlicedNetwork) -> Elsewhere {
        let is_unnamed = |name: &str, other: &Network| match self.deciding(name) {
            Some((wanted, _)) => !wanted.is_named,
            None => other.objects.pool.as_ref().is_some_and(|pool| pool.is_ours() && !pool.is_named()),
        };
        let others = self
            .networks
            .iter()
            .filter(|(name, other)| !network.is_named && **name != network.name && is_unnamed(name, other));
        let is_near = |slice: &Cidr| network.ranges.iter().any(|range| range.range().overlaps(slice));
        let pools = self.shared_pools_of(network);
        let pods: BTreeSet<Cidr> = pools
            .iter()
            .filter_map(|pool| self.shared.get(pool))
            .flatten()
            .filter(|one| is_near(one))
            .copied()
            .collect();
        Elsewhere {
            networks: others.flat_map(|(_, other)| other.slices()).filter(is_near).collect(),
            pods: pods.into_iter().collect(),
        }
    }

    /// The names of the `IPPool`s in which pods may have addresses of a network: those of its ranges; those of ranges that overlap with
    /// them, which definitions name; and those that there are, whoever named them. Networks with different names know nothing of each
    /// other.
    fn shared_pools_of(&self, network: &SlicedNetwork) -> BTreeSet<String> {
        let named = network.is_named.then_some(network.name.as_str());
        let is_near = |range: Cidr| network.ranges.iter().any(|own| own.range().overlaps(&range));
        let own = network.ranges.iter().map(|range| shared_pool_name(named, range.range()));
        let said = self.definitions.values().flat_map(|definition| &definition.ranges);
        let said = said.filter(|(of, range)| of.as_deref() == named && is_near(*range));
        let said = said.map(|(_, range)| shared_pool_name(named, *range));
        let there = self.survey.there().filter(|(_, of, range)| *of == named && is_near(*range));
        own.chain(said).chain(there.map(|(name, ..)| name.to_owned())).collect()
    }

    /// A reference to an owner is looked up in the namespace of the object that has it, and what is not found there is taken for
    /// gone; and who has owners goes when they are gone, whoever else uses it. So only where all definitions are beside the
    /// pool they are its owners. Elsewhere we delete it.
    fn frame(&self, network: SlicedNetwork) -> Frame {
        let all = self.of(&network.name);
        let is_beside = all.iter().all(|one| one.subject.namespace == self.settings.namespace);
        let mut keys: Vec<String> = all.iter().map(|one| one.key()).collect();
        keys.sort_unstable();
        let owners = if is_beside { all.iter().map(|one| one.subject.owner()).collect() } else { Vec::new() };
        let gateways = all.iter().filter_map(|one| one.network()?.gateway).collect();
        Frame { namespace: self.settings.namespace.clone(), network, definitions: keys.join(","), gateways, owners }
    }
}
