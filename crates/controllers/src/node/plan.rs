//! What happened goes in, what should be written comes out.
//!
//! Nothing is written here, and nothing is taken for written until the watch shows it. A block is reserved before it is
//! written, and stays reserved for that very node until the node has it, has another, or is gone; an answer that got lost
//! changes nothing, because the same block is written again. So no block is ever meant for two nodes.
//!
//! Until [`Plan::begin`] all that happens is taken in and nothing is decided: first everything that is there must be known.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use api::Object;
use api::kinds::ClusterCidr;
use api::selector::Terms;
use space::{Cidr, Moment};

use super::index::{Holding, Index, NodeKey, Refused};
use super::intent::{About, Assignment, Event, Finalizers, Intent, Outcome, StatusWrite};
use super::range::{Range, RangeKey, Refusal};
use super::status;
use super::trimmed::Node;
use super::waiting::{self, Waiting};
use super::waybill::Note;

/// How long after a failed write it is tried again, in milliseconds, the first time and at most.
const FIRST_PAUSE: u64 = 250;
const LONGEST_PAUSE: u64 = 30_000;

/// How many refusals are told in one event; an event has room for a thousand characters.
const MOST_TOLD: usize = 6;

/// Why events are told of nodes; the first two are the words that node-ipam-controller has for it.
const NOT_AVAILABLE: &str = "CIDRNotAvailable";
const NOT_WRITTEN: &str = "CIDRAssignmentFailed";
const UNREADABLE: &str = "CIDRUnreadable";
const CONFLICT: &str = "CIDRConflict";
const OUT_OF_RANGE: &str = "CIDROutOfRange";
const NODE_REASONS: [&str; 5] = [NOT_AVAILABLE, NOT_WRITTEN, UNREADABLE, CONFLICT, OUT_OF_RANGE];
/// Why events are told of ranges.
const INVALID: &str = "InvalidClusterCIDR";
const NOT_FINALIZED: &str = "FinalizerFailed";
const RANGE_REASONS: [&str; 2] = [INVALID, NOT_FINALIZED];

/// After how many failures in a row a finalizer is told of.
const TELLING_FAILURES: u32 = 3;

/// How the controller is meant to work.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How the terms of a node selector belong together.
    pub terms: Terms,
    /// How long the block of a node that is gone is given to others only when there is no other, in milliseconds; as long it is
    /// given back to a node that comes back under the same name.
    pub rest: u64,
}

/// Why something is told, and about whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Node(NodeKey, &'static str),
    Range(RangeKey, &'static str),
}

/// Something that failed, and is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Again {
    Node(NodeKey),
    Range(RangeKey),
}

/// See the module.
#[derive(Debug)]
pub struct Plan {
    index: Index,
    settings: Settings,
    begun: bool,
    now: Moment,
    /// Nodes that should be looked at.
    todo: BTreeSet<NodeKey>,
    waiting: Waiting,
    /// What failed, by when it is tried again, and how often it did.
    again: BTreeSet<(Moment, Again)>,
    failures: BTreeMap<Again, u32>,
    outbox: VecDeque<Intent>,
    /// The revision of a range at which its finalizers were last sent out to be written.
    sent: HashMap<RangeKey, Box<str>>,
    terminating: BTreeSet<RangeKey>,
    /// What was told last: the same is not told again.
    told: BTreeMap<Told, String>,
    /// The status that was last sent out to be written, as text.
    statuses: HashMap<RangeKey, Box<str>>,
    /// Whether a status may be other than it was.
    stale: bool,
    /// Since when nodes without blocks are known.
    asked: HashMap<NodeKey, Moment>,
    /// How long those waited that have blocks by now, in milliseconds, until somebody asks.
    waits: Vec<u64>,
    /// How often a conflict was told.
    conflicts: u64,
}

impl Plan {
    /// Nothing is known yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            index: Index::new(settings.rest),
            settings,
            begun: false,
            now: Moment(0),
            todo: BTreeSet::new(),
            waiting: Waiting::default(),
            again: BTreeSet::new(),
            failures: BTreeMap::new(),
            outbox: VecDeque::new(),
            sent: HashMap::new(),
            terminating: BTreeSet::new(),
            told: BTreeMap::new(),
            statuses: HashMap::new(),
            stale: true,
            asked: HashMap::new(),
            waits: Vec::new(),
            conflicts: 0,
        }
    }

    /// It is later now. Time does not go back.
    pub fn pass_time(&mut self, now: Moment) {
        self.now = self.now.max(now);
        self.index.pass_time(self.now);
    }

    /// How long nodes waited for the blocks that were written on them since this was last asked, in milliseconds.
    pub fn take_waits(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.waits)
    }

    /// How often a node was told that it holds addresses of another one.
    pub fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// What is known.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// How many nodes could not be served.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The ranges that would be for other nodes if the terms of their selectors were read the other way.
    pub fn depending_on_terms(&self) -> impl Iterator<Item = &str> {
        let depends = |range: &Range| {
            let spec = range.spec.as_ref().ok();
            spec.and_then(|spec| spec.selector.as_ref()).is_some_and(api::selector::NodeSelector::depends_on_terms)
        };
        self.index.ranges().map(|(_, range)| range).filter(move |range| depends(range)).map(|range| &*range.name)
    }

    /// These blocks may be on their way to nodes, although nobody sees it yet. They are kept for those nodes, and are given; the rest
    /// cannot arrive any more: its node is gone, or has others.
    ///
    /// To be called when all that is there is known, and before there are decisions.
    pub fn take_over(&mut self, notes: &[Note]) -> Vec<Assignment> {
        let blocks: HashMap<&str, &Note> = notes.iter().map(|note| (note.node.as_str(), note)).collect();
        let all = self.index.nodes();
        let meant: Vec<(NodeKey, &Note)> =
            all.filter_map(|(key, known)| Some((key, *blocks.get(&*known.node.uid)?))).collect();
        let mut kept = Vec::new();
        for (key, note) in meant {
            let cidrs: Option<Vec<Cidr>> = note.blocks.iter().map(|block| Cidr::strict(block).ok()).collect();
            if self.index.keep(key, note.range.as_str().into(), cidrs.unwrap_or_default()) {
                self.todo.insert(key);
                kept.extend(self.assignment(key));
            }
        }
        kept
    }

    /// Whether an assignment can still be on its way: its node is there, and was not seen to have blocks.
    pub fn is_pending(&self, assignment: &Assignment) -> bool {
        let Assignment { key, name, uid, range, cidrs } = assignment;
        self.index.node(*key).is_some_and(|known| {
            let is_reserved =
                matches!(&known.holding, Holding::Reserved { range: from, cidrs: kept } if from == range && kept == cidrs);
            is_reserved && known.node.name == *name && known.node.uid == *uid
        })
    }

    /// All that is there is known: from now on there are decisions.
    pub fn begin(&mut self) {
        self.begun = true;
        let nodes: Vec<NodeKey> = self.index.nodes().map(|(key, _)| key).collect();
        for key in nodes {
            self.look_at(key);
        }
        let ranges: Vec<RangeKey> = self.index.ranges().map(|(key, _)| key).collect();
        for key in ranges {
            self.tend(key);
        }
    }
}

/// What happens.
impl Plan {
    /// A node is as it is given.
    pub fn see_node(&mut self, node: Node) {
        let before = self.index.node_named(&node.name);
        let seen = self.index.see_node(node);
        if let Some(before) = before.filter(|before| *before != seen.key) {
            self.forget_node(before);
        }
        self.freed(&seen.freed);
        if seen.changed {
            if seen.rewritten {
                self.rest(Again::Node(seen.key));
                self.stale = true;
            }
            self.look_at(seen.key);
        }
    }

    /// There is no node of that name any more: the watch says so. That it is about to be deleted says nothing, it may run
    /// for long.
    pub fn lose_node(&mut self, name: &str) {
        if let Some(key) = self.index.node_named(name) {
            let freed = self.index.lose_node(name);
            self.forget_node(key);
            self.freed(&freed);
        }
    }

    /// A `ClusterCIDR` is as it is given.
    pub fn see_range(&mut self, object: &Object) {
        let range = Range::read(object, self.settings.terms);
        let before = self.index.range_named(&range.name);
        let (key, changed) = self.index.see_range(range);
        if let Some(before) = before.filter(|before| *before != key) {
            self.forget_range(before);
        }
        if changed {
            self.stale = true;
            self.look_for(key);
        }
        self.tend(key);
    }

    /// There is no `ClusterCIDR` of that name any more.
    pub fn lose_range(&mut self, name: &str) {
        if let Some(key) = self.index.lose_range(name) {
            self.forget_range(key);
            self.stale = true;
        }
    }

    /// The Services have these ranges.
    pub fn see_services(&mut self, services: BTreeSet<Cidr>) {
        let freed = self.index.see_services(services);
        self.stale = true;
        self.freed(&freed);
    }

    /// What came of an [`Intent::Assign`].
    pub fn assigned(&mut self, key: NodeKey, outcome: Outcome) {
        let Some(known) = self.index.node(key) else { return };
        if !matches!(known.holding, Holding::Reserved { .. }) {
            return;
        }
        match outcome {
            // The watch will show it.
            Outcome::Written => self.rest(Again::Node(key)),
            // The watch will show that too; should it not, it was something else.
            Outcome::Gone => self.retry(Again::Node(key)),
            Outcome::Failed(why) => {
                self.retry(Again::Node(key));
                let blocks = shown(&known_blocks(&self.index, key));
                self.tell_node(key, NOT_WRITTEN, format!("{blocks} could not be written: {why}"));
            }
        }
    }

    /// What came of an [`Intent::Finalize`].
    pub fn finalized(&mut self, key: RangeKey, outcome: &Outcome) {
        match outcome {
            Outcome::Written => self.rest(Again::Range(key)),
            Outcome::Gone | Outcome::Failed(_) if self.index.range(key).is_none() => {}
            Outcome::Gone => {
                self.sent.remove(&key);
                self.retry(Again::Range(key));
            }
            Outcome::Failed(why) => {
                self.sent.remove(&key);
                self.retry(Again::Range(key));
                // That somebody else wrote first is no news.
                if self.failures.get(&Again::Range(key)).is_some_and(|failures| *failures >= TELLING_FAILURES) {
                    self.tell_range(key, NOT_FINALIZED, format!("its finalizer could not be written: {why}"));
                }
            }
        }
    }

    /// The status that was sent out could not be written.
    pub fn status_failed(&mut self, key: RangeKey) {
        self.statuses.remove(&key);
        self.stale = true;
    }
}

/// What should be done.
impl Plan {
    /// The next write that should be made; nothing while there is nothing to do.
    pub fn next(&mut self, now: Moment) -> Option<Intent> {
        loop {
            if let Some(intent) = self.next_old(now) {
                return Some(intent);
            }
            if !self.begun {
                return None;
            }
            if let Some(key) = self.todo.pop_first() {
                if self.serve(key).is_ok()
                    && let Some(assignment) = self.assignment(key)
                {
                    return Some(Intent::Assign(assignment));
                }
            } else if let Some((queue, key)) = self.waiting.next() {
                match self.serve(key) {
                    Ok(()) => {
                        if let Some(assignment) = self.assignment(key) {
                            return Some(Intent::Assign(assignment));
                        }
                    }
                    Err(refused) => {
                        if refused.iter().filter_map(waiting::queue).any(|stood| stood == queue) {
                            self.waiting.done(queue);
                        }
                    }
                }
            } else {
                return None;
            }
        }
    }

    /// The next write that should be made and that takes no space which nobody has yet.
    pub fn next_old(&mut self, now: Moment) -> Option<Intent> {
        self.pass_time(now);
        loop {
            if let Some(intent) = self.outbox.pop_front() {
                return Some(intent);
            }
            if !self.begun {
                return None;
            }
            match self.due()? {
                Again::Range(key) => self.tend(key),
                Again::Node(key) => {
                    if let Some(assignment) = self.assignment(key) {
                        return Some(Intent::Assign(assignment));
                    }
                }
            }
        }
    }

    /// Whether there have been decisions.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether a status may have to be written.
    pub fn has_statuses(&self) -> bool {
        self.begun && self.stale
    }

    /// When there will be something to do although nothing happens.
    pub fn due_at(&self) -> Option<Moment> {
        self.again.first().map(|(moment, _)| *moment)
    }

    /// The statuses that should be written; `time` is what the clock shows.
    pub fn statuses(&mut self, time: &str) -> Vec<StatusWrite> {
        if !self.begun || !std::mem::take(&mut self.stale) {
            return Vec::new();
        }
        let Self { index, statuses, .. } = self;
        let mut writes = Vec::new();
        for (key, range) in index.ranges() {
            let wanted = status::of(index, key, range, time);
            let text = wanted.to_string().into_boxed_str();
            if text == range.status || statuses.get(&key) == Some(&text) {
                continue;
            }
            statuses.insert(key, text);
            let (name, uid) = (Arc::clone(&range.name), Arc::clone(&range.uid));
            writes.push(StatusWrite { key, name, uid, status: wanted });
        }
        writes
    }

    /// What was due to be tried again.
    fn due(&mut self) -> Option<Again> {
        let (moment, again) = *self.again.first()?;
        if moment > self.now {
            return None;
        }
        self.again.pop_first();
        Some(again)
    }

    /// Tries to find blocks for a node.
    fn serve(&mut self, key: NodeKey) -> Result<(), Vec<Refused>> {
        match self.index.reserve(key) {
            Ok(()) => {
                self.waiting.leave(key);
                self.told.remove(&Told::Node(key, NOT_AVAILABLE));
                self.stale = true;
                Ok(())
            }
            Err(refused) => {
                self.waiting.stand(key, &refused);
                // A finalizer is stored in a moment; should it not be, that is told of the range.
                if refused.last().is_none_or(|last| last.refusal != Refusal::Unprotected) {
                    self.tell_node(key, NOT_AVAILABLE, refusal_text(&refused));
                }
                Err(refused)
            }
        }
    }

    fn assignment(&self, key: NodeKey) -> Option<Assignment> {
        let known = self.index.node(key)?;
        let Holding::Reserved { range, cidrs } = &known.holding else { return None };
        let (name, uid) = (Arc::clone(&known.node.name), Arc::clone(&known.node.uid));
        Some(Assignment { key, name, uid, range: Arc::clone(range), cidrs: cidrs.clone() })
    }

    /// A node is there, or is other than it was.
    fn look_at(&mut self, key: NodeKey) {
        let Some(known) = self.index.node(key) else { return };
        match known.holding {
            Holding::Nothing => {
                self.asked.entry(key).or_insert(self.now);
                self.todo.insert(key);
            }
            Holding::Reserved { .. } => {}
            Holding::Written => {
                if let Some(asked) = self.asked.remove(&key) {
                    self.waits.push(self.now.0.saturating_sub(asked.0));
                }
                self.todo.remove(&key);
                self.waiting.leave(key);
                if self.begun {
                    self.report(key);
                }
            }
        }
    }

    /// A range means something else to nodes: those who wait are looked at again, if it refused them or serves them now.
    fn look_for(&mut self, range: RangeKey) {
        let concerned = |(node, refused): (NodeKey, &[RangeKey])| {
            (refused.contains(&range) || self.index.serves(range, node)).then_some(node)
        };
        let concerned: Vec<NodeKey> = self.waiting.all().filter_map(concerned).collect();
        self.todo.extend(concerned);
    }

    /// Blocks became free: those who wait for some are called, and ranges that nobody holds any more may go.
    fn freed(&mut self, blocks: &[Cidr]) {
        if blocks.is_empty() {
            return;
        }
        self.stale = true;
        for range in blocks.iter().flat_map(|block| self.index.ranges_on(*block)).collect::<BTreeSet<_>>() {
            self.waiting.call(range);
            if self.terminating.contains(&range) {
                self.tend(range);
            }
        }
    }

    /// Sees to the finalizers of a range: it has ours before it is used, and until nobody holds a block of it.
    fn tend(&mut self, key: RangeKey) {
        let Some(range) = self.index.range(key) else { return };
        if range.terminating {
            self.terminating.insert(key);
        }
        if !self.begun {
            return;
        }
        let ours = ClusterCidr::FINALIZER;
        let finalizers: Vec<String> = match (range.terminating, range.is_protected(), &range.spec) {
            (true, true, _) if self.index.holders(key).next().is_none() => {
                range.finalizers.iter().filter(|name| *name != ours).cloned().collect()
            }
            (false, false, Ok(_)) => range.finalizers.iter().cloned().chain([ours.to_owned()]).collect(),
            (false, _, Err(fault)) => return self.tell_range(key, INVALID, fault.clone()),
            _ => return,
        };
        let (name, resource_version) = (Arc::clone(&range.name), range.resource_version.clone());
        if self.sent.insert(key, resource_version.clone()).is_none_or(|sent| sent != resource_version) {
            self.outbox.push_back(Intent::Finalize(Finalizers { key, name, resource_version, finalizers }));
        }
    }

    fn retry(&mut self, what: Again) {
        let failures = self.failures.entry(what).or_insert(0);
        let pause = FIRST_PAUSE.checked_shl(*failures).map_or(LONGEST_PAUSE, |pause| pause.min(LONGEST_PAUSE));
        *failures = failures.saturating_add(1).min(u64::BITS - 1);
        self.again.insert((Moment(self.now.0.saturating_add(pause)), what));
    }

    /// Nothing has to be tried again.
    fn rest(&mut self, what: Again) {
        if self.failures.remove(&what).is_some() {
            self.again.retain(|(_, other)| *other != what);
        }
    }

    fn forget_node(&mut self, key: NodeKey) {
        self.todo.remove(&key);
        self.asked.remove(&key);
        self.waiting.leave(key);
        self.rest(Again::Node(key));
        for reason in NODE_REASONS {
            self.told.remove(&Told::Node(key, reason));
        }
    }

    fn forget_range(&mut self, key: RangeKey) {
        self.rest(Again::Range(key));
        self.sent.remove(&key);
        self.statuses.remove(&key);
        self.terminating.remove(&key);
        for reason in RANGE_REASONS {
            self.told.remove(&Told::Range(key, reason));
        }
        self.look_for(key);
    }
}

/// What is told.
impl Plan {
    /// Tells what is odd about the blocks of a node: others hold them too, no range has them, nobody can read them.
    fn report(&mut self, key: NodeKey) {
        let Some(known) = self.index.node(key) else { return };
        let unreadable = known.node.pod_cidrs.iter().filter_map(|text| Some((text, Cidr::tolerant(text).err()?)));
        let unreadable: Vec<String> = unreadable.map(|(text, why)| format!("{text:?} is no pod CIDR: {why}")).collect();
        if !unreadable.is_empty() {
            self.tell_node(key, UNREADABLE, unreadable.join("; "));
        }
        let others: BTreeSet<NodeKey> = self.index.conflicts(key).iter().map(|conflict| conflict.other).collect();
        if !others.is_empty() {
            for key in others.into_iter().chain([key]) {
                self.tell_node(key, CONFLICT, self.conflict_text(key));
            }
        }
        let outside = self.index.outside(key);
        // Where there is no range at all, somebody else serves nodes.
        if !outside.is_empty() && self.index.ranges().next().is_some() {
            self.tell_node(key, OUT_OF_RANGE, format!("pod CIDR {} lies in no ClusterCIDR", shown(&outside)));
        }
    }

    /// Whose blocks the blocks of a node overlap.
    fn conflict_text(&self, key: NodeKey) -> String {
        let conflicts = self.index.conflicts(key);
        let told = conflicts.iter().take(MOST_TOLD).filter_map(|conflict| {
            let other = &self.index.node(conflict.other)?.node.name;
            Some(format!("pod CIDR {} overlaps {} of node {other}", conflict.own, conflict.theirs))
        });
        and_more(told.collect::<Vec<_>>().join("; "), conflicts.len())
    }

    fn tell_node(&mut self, key: NodeKey, reason: &'static str, message: String) {
        let Some(known) = self.index.node(key) else { return };
        let about = About::Node(Arc::clone(&known.node.name), Arc::clone(&known.node.uid));
        self.tell(Told::Node(key, reason), about, reason, message);
    }

    fn tell_range(&mut self, key: RangeKey, reason: &'static str, message: String) {
        let Some(range) = self.index.range(key) else { return };
        let about = About::Range(Arc::clone(&range.name), Arc::clone(&range.uid));
        self.tell(Told::Range(key, reason), about, reason, message);
    }

    fn tell(&mut self, told: Told, about: About, reason: &'static str, message: String) {
        if self.told.get(&told) != Some(&message) {
            self.told.insert(told, message.clone());
            self.conflicts += u64::from(reason == CONFLICT);
            self.outbox.push_back(Intent::Tell(Event { about, reason, message }));
        }
    }
}

fn known_blocks(index: &Index, key: NodeKey) -> Vec<Cidr> {
    index.node(key).map(|known| known.blocks.clone()).unwrap_or_default()
}

fn shown(blocks: &[Cidr]) -> String {
    blocks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Why a node waits, in words that stay the same as long as the reasons do.
fn refusal_text(refused: &[Refused]) -> String {
    if refused.is_empty() {
        return "no ClusterCIDR selects this node".to_owned();
    }
    let told = refused.iter().take(MOST_TOLD).map(|one| format!("{}: {}", one.name, one.refusal));
    let text = format!("no ClusterCIDR serves this node: {}", told.collect::<Vec<_>>().join("; "));
    and_more(text, refused.len())
}

/// The text, and how many more there are than could be told.
fn and_more(text: String, count: usize) -> String {
    match count.checked_sub(MOST_TOLD) {
        Some(more @ 1..) => format!("{text}; and {more} more"),
        _ => text,
    }
}
