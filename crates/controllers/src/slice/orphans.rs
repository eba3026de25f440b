//! `Orphans`: entries of the pools that all nodes share, and reservations, whose pods are not there. The DEL of a pod gives them back, or the
//! agent whose journal has them; of a node that is gone for good, or of a lost journal, nobody does.
//!
//! A pod must be missing twice, and long enough in between; and no node may say that the container still runs there. Nothing here is
//! remembered for long: what was not taken out is still there, and the next survey tells of it.

use std::collections::{BTreeMap, BTreeSet};

use api::slices::{reservation_name, reserved_address};
use space::Moment;

use super::shared::{AGAIN, PodEntry, SharedPool, host, is_podref};

/// How long a pod must at least have been missing, in milliseconds: much longer than an agent needs to say that it runs on.
pub(super) const MISSING: u64 = 60_000;
/// How many are looked for again at a time. It is a part of what is done at a time, so that slices do not wait for it.
const MOST_LOOKS: usize = 16;
/// How many pools are written at a time, for the same reason.
const MOST_WRITES: usize = 8;
/// How many wait until they can be taken out, or are being.
const MOST_READY: usize = 256;
/// How many entries one write takes out. A pool may have a megabyte, and each write of it is one in the history of the store.
const MOST_IN_A_WRITE: usize = 64;

/// An entry of a pool that may be nobody's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrphanEntry {
    /// The name of its `IPPool`.
    pub pool: String,
    /// The `network_name` of the networks that the pool is of, if they have one.
    pub network: Option<String>,
    /// What it says.
    pub entry: PodEntry,
}

impl OrphanEntry {
    /// All entries of a pool.
    fn all(pool: &SharedPool) -> impl Iterator<Item = Self> {
        let SharedPool { name, network, entries, .. } = pool;
        entries.iter().map(|entry| Self { pool: name.clone(), network: network.clone(), entry: entry.clone() })
    }

    /// The reservation that is beside it, if one is.
    pub(super) fn reservation(&self) -> String {
        reservation_name(self.network.as_deref(), self.entry.address)
    }
}

/// A reservation that no node has a label on.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reservation {
    /// Its name.
    pub name: String,
    /// Which of that name it is.
    pub uid: String,
    /// The pod, `namespace/name`.
    pub podref: String,
    /// The container; empty if it does not say, as those of whereabouts.
    pub id: String,
}

impl Reservation {
    /// Whether it is of the pod and the container of an entry, as far as both say.
    pub(super) fn is_of(&self, entry: &PodEntry) -> bool {
        self.podref == entry.podref && (self.id == entry.id || self.id.is_empty() || entry.id.is_empty())
    }

    /// What may be its address in its name, which begins with that of the network if that has one.
    fn ends(&self) -> impl Iterator<Item = &str> {
        let after = self.name.match_indices('-').filter_map(|(at, _)| self.name.get(at + 1..));
        std::iter::once(self.name.as_str()).chain(after)
    }

    /// Whether its address is one of the range of that pool, and it is one of its network.
    fn is_near(&self, pool: &SharedPool) -> bool {
        let address = reserved_address(pool.network.as_deref(), &self.name);
        address.is_some_and(|address| pool.range.overlaps(&host(address)))
    }
}

/// Something that may be nobody's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Orphan {
    /// An entry, with the reservation beside it.
    Entry(OrphanEntry),
    /// A reservation without an entry, and the pools in which an entry could be.
    Reservation(Reservation, Vec<String>),
}

impl Orphan {
    /// The pod that has it, `namespace/name`.
    pub fn podref(&self) -> &str {
        match self {
            Self::Entry(one) => &one.entry.podref,
            Self::Reservation(one, _) => &one.podref,
        }
    }

    /// The container that has it, if it is said.
    pub fn container(&self) -> &str {
        match self {
            Self::Entry(one) => &one.entry.id,
            Self::Reservation(one, _) => &one.id,
        }
    }

    /// The pools in which nodes may say that the container still runs.
    pub fn pools(&self) -> &[String] {
        match self {
            Self::Entry(one) => std::slice::from_ref(&one.pool),
            Self::Reservation(_, pools) => pools,
        }
    }
}

/// What the first look showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The reservations that no node has a label on, listed before the pods.
    pub reservations: Vec<Reservation>,
    /// Those of the pods that were asked for, or that reservations are of, that are there.
    pub pods: BTreeSet<String>,
}

/// What a second look showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Whether the pod is there.
    pub pod: bool,
    /// The nodes, by their labels, that say that the container still runs there.
    pub nodes: BTreeSet<String>,
}

/// What nodes say in a pool that says nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hush {
    /// The name of the `IPPool`.
    pub pool: String,
    /// The labels of the nodes, and what they say.
    pub said: Vec<(String, String)>,
}

/// What should be done about those that are nobody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// One should be looked for again.
    Look(Orphan),
    /// These entries, all of one pool, should be taken out.
    TakeOut(Vec<OrphanEntry>),
    /// What nodes say in a pool should be taken out.
    Hush(Hush),
}

/// What is in question while all pods are listed.
#[derive(Debug, Default)]
struct Asked {
    /// All pools.
    pools: Vec<SharedPool>,
    /// The names of those whose entries others look after.
    kept: BTreeSet<String>,
}

impl Asked {
    /// All entries that others do not look after.
    fn entries(&self) -> impl Iterator<Item = OrphanEntry> {
        self.pools.iter().filter(|pool| !self.kept.contains(&pool.name)).flat_map(OrphanEntry::all)
    }

    /// Those of them that may be nobody's. One without a container was written by hand, for a pod to come, and no node can say that it is
    /// used.
    fn in_question(&self) -> impl Iterator<Item = OrphanEntry> {
        self.entries().filter(|one| !one.entry.id.is_empty())
    }

    /// The entries that others look after, by the names that reservations of their addresses have without a network: the name of
    /// whereabouts' pool of a slice does not tell which network it is of.
    fn kept_addresses(&self) -> BTreeMap<String, Vec<&PodEntry>> {
        let mut kept: BTreeMap<String, Vec<&PodEntry>> = BTreeMap::new();
        let pools = self.pools.iter().filter(|pool| self.kept.contains(&pool.name));
        for entry in pools.flat_map(|pool| &pool.entries) {
            kept.entry(reservation_name(None, entry.address)).or_default().push(entry);
        }
        kept
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Orphans {
    /// How long a pod must be missing.
    patience: u64,
    /// What is in question while all pods are listed.
    asked: Option<Asked>,
    /// When all pods were last listed.
    listed: Option<Moment>,
    /// Those whose pods were missing, and since when.
    missing: BTreeMap<Orphan, Moment>,
    /// Those that are being looked for again, or are reservations that are being deleted.
    looking: BTreeSet<Orphan>,
    /// Entries that should be taken out, by their pools.
    ready: BTreeMap<String, BTreeSet<OrphanEntry>>,
    /// The pools that are being written, and the entries that are being taken out of them.
    writing: BTreeMap<String, Vec<OrphanEntry>>,
    /// Labels by which something is said in pools though no node has them, and since when surveys have seen that.
    silent: BTreeMap<String, Moment>,
    /// What nodes say that should be taken out.
    hush: Vec<Hush>,
}

impl Orphans {
    /// A pod must be missing for so many milliseconds, and as long as slices of a node that is gone rest, which is in seconds: what was
    /// deleted by force may run on.
    pub(super) fn new(missing: u64, quarantine: i64) -> Self {
        Self {
            patience: missing.max(u64::try_from(quarantine).unwrap_or(0).saturating_mul(1_000)),
            asked: None,
            listed: None,
            missing: BTreeMap::new(),
            looking: BTreeSet::new(),
            ready: BTreeMap::new(),
            writing: BTreeMap::new(),
            silent: BTreeMap::new(),
            hush: Vec::new(),
        }
    }

    /// These are all pools that there are; the entries of those of these names are looked after by others. Of which pods it should be
    /// looked whether they are there, if so. A survey may be made whenever a definition changes; a list of all pods is too large for that.
    pub(super) fn see(
        &mut self,
        pools: Vec<SharedPool>,
        kept: BTreeSet<String>,
        now: Moment,
    ) -> Option<BTreeSet<String>> {
        let asked = Asked { pools, kept };
        let there: BTreeSet<OrphanEntry> = asked.in_question().collect();
        self.missing.retain(|orphan, _| match orphan {
            Orphan::Entry(entry) => there.contains(entry),
            Orphan::Reservation(..) => true,
        });
        let rests = self.listed.is_some_and(|at| now.0.saturating_sub(at.0) < AGAIN);
        if asked.pools.is_empty() || self.asked.is_some() || rests {
            return None;
        }
        self.listed = Some(now);
        self.asked = Some(asked);
        Some(there.into_iter().map(|one| one.entry.podref).collect())
    }

    /// What the first look showed, or nothing if it could not be made. And which labels are of nodes.
    pub(super) fn find(&mut self, listed: Option<&Listed>, is_node: impl Fn(&String) -> bool, now: Moment) {
        let asked = self.asked.take().unwrap_or_default();
        let Some(listed) = listed else {
            self.listed = None;
            return;
        };
        self.see_silent(&asked.pools, &is_node, now);
        self.hush = asked.pools.iter().filter_map(|pool| self.hush(pool, listed, now)).collect();
        // Pools whose ranges overlap may each have an entry of an address.
        let mut beside: BTreeMap<String, Vec<PodEntry>> = BTreeMap::new();
        for one in asked.entries() {
            beside.entry(one.reservation()).or_default().push(one.entry);
        }
        let kept = asked.kept_addresses();
        // Who takes an entry out takes the reservation beside it, and who looks after an entry looks after that too.
        let is_alone = |one: &&Reservation| {
            let theirs = one.ends().filter_map(|end| kept.get(end)).flatten().copied();
            let mut its = beside.get(&one.name).into_iter().flatten().chain(theirs);
            is_podref(&one.podref) && !its.any(|entry| one.is_of(entry))
        };
        let alone = listed.reservations.iter().filter(is_alone);
        let alone = alone.map(|one| {
            let near = asked.pools.iter().filter(|pool| one.is_near(pool));
            Orphan::Reservation(one.clone(), near.map(|pool| pool.name.clone()).collect())
        });
        let all: BTreeSet<Orphan> = asked.in_question().map(Orphan::Entry).chain(alone).collect();
        self.missing.retain(|orphan, _| all.contains(orphan));
        for orphan in all {
            if listed.pods.contains(orphan.podref()) {
                self.missing.remove(&orphan);
            } else if !self.is_under_way(&orphan) {
                self.missing.entry(orphan).or_insert(now);
            }
        }
    }

    /// A node that was away for a moment must not lose what it said: it may not know that it has to say it again.
    fn see_silent(&mut self, pools: &[SharedPool], is_node: impl Fn(&String) -> bool, now: Moment) {
        let said = pools.iter().flat_map(|pool| &pool.said).map(|(label, _)| label);
        let silent: BTreeSet<&String> = said.filter(|label| !is_node(label)).collect();
        self.silent.retain(|label, _| silent.contains(label));
        for label in silent {
            self.silent.entry(label.clone()).or_insert(now);
        }
    }

    /// What nodes say in a pool that says nothing any more: of a node that has been gone for long, or of containers that have nothing.
    fn hush(&self, pool: &SharedPool, listed: &Listed, now: Moment) -> Option<Hush> {
        if pool.said.is_empty() {
            return None;
        }
        let near: Vec<&Reservation> = listed.reservations.iter().filter(|one| one.is_near(pool)).collect();
        let has_something = |container: &str| {
            pool.entries.iter().any(|entry| entry.id == container)
                || near.iter().any(|one| one.id == container || one.id.is_empty())
        };
        let counts = |(label, containers): &&(String, String)| {
            self.counts(label, now) && containers.split(',').filter(|one| !one.is_empty()).any(has_something)
        };
        let said: Vec<_> = pool.said.iter().filter(|said| !counts(said)).take(MOST_IN_A_WRITE).cloned().collect();
        (!said.is_empty()).then(|| Hush { pool: pool.name.clone(), said })
    }

    /// Whether what is said by that label counts: unless it has been no node's for long. One that no survey has seen yet counts.
    fn counts(&self, label: &str, now: Moment) -> bool {
        self.silent.get(label).is_none_or(|since| now.0.saturating_sub(since.0) < self.patience)
    }

    /// There is a node of that label, maybe again: what it says stays, and if it goes, the time begins anew.
    pub(super) fn see_node(&mut self, label: &str) {
        self.silent.remove(label);
        for Hush { said, .. } in &mut self.hush {
            said.retain(|(one, _)| one != label);
        }
        self.hush.retain(|one| !one.said.is_empty());
    }

    /// When the next thing should be done.
    pub(super) fn due_at(&self) -> Option<Moment> {
        if self.hush.iter().any(|one| self.may_write(&one.pool)) || self.ready.keys().any(|pool| self.may_write(pool)) {
            return Some(Moment(0));
        }
        let first = self.missing.values().min().filter(|_| self.has_room())?;
        Some(Moment(first.0.saturating_add(self.patience)))
    }

    /// The next thing that should be done now; it is, then.
    pub(super) fn begin(&mut self, now: Moment) -> Option<Step> {
        if self.due_at()? > now {
            return None;
        }
        if let Some(at) = self.hush.iter().position(|one| self.may_write(&one.pool)) {
            let wanted = self.hush.swap_remove(at);
            self.writing.insert(wanted.pool.clone(), Vec::new());
            return Some(Step::Hush(wanted));
        }
        if let Some(pool) = self.ready.keys().find(|pool| self.may_write(pool)).cloned() {
            let waiting = self.ready.remove(&pool)?;
            let mut waiting = waiting.into_iter();
            let now: Vec<OrphanEntry> = waiting.by_ref().take(MOST_IN_A_WRITE).collect();
            let later: BTreeSet<OrphanEntry> = waiting.collect();
            if !later.is_empty() {
                self.ready.insert(pool.clone(), later);
            }
            self.writing.insert(pool, now.clone());
            return Some(Step::TakeOut(now));
        }
        let orphan = self.missing.iter().min_by_key(|(_, since)| **since)?.0.clone();
        self.missing.remove(&orphan);
        self.looking.insert(orphan.clone());
        Some(Step::Look(orphan))
    }

    /// Whether that is how one is found that is nobody's: its pod is missing, and nobody says that the container runs whose word counts.
    pub(super) fn is_one(&self, found: &Found, now: Moment) -> bool {
        !found.pod && !found.nodes.iter().any(|label| self.counts(label, now))
    }

    /// An entry is nobody's: it goes with the next write of its pool.
    pub(super) fn ready(&mut self, entry: OrphanEntry) {
        self.looking.remove(&Orphan::Entry(entry.clone()));
        self.ready.entry(entry.pool.clone()).or_default().insert(entry);
    }

    /// Nothing more is done about one that was looked for.
    pub(super) fn end(&mut self, orphan: &Orphan) {
        self.looking.remove(orphan);
    }

    /// Nothing is written in that pool any more.
    pub(super) fn written(&mut self, pool: &str) {
        self.writing.remove(pool);
    }

    /// Whether a write of that pool may begin. What begins one asks the same as what wakes for it, or the loop would not rest.
    fn may_write(&self, pool: &str) -> bool {
        self.writing.len() < MOST_WRITES && !self.writing.contains_key(pool)
    }

    fn has_room(&self) -> bool {
        let ready: usize = self.ready.values().map(BTreeSet::len).sum();
        let writing: usize = self.writing.values().map(Vec::len).sum();
        self.looking.len() < MOST_LOOKS && self.looking.len() + ready + writing < MOST_READY
    }

    fn is_under_way(&self, orphan: &Orphan) -> bool {
        let is_taken_out = |entry: &OrphanEntry| {
            self.ready.get(&entry.pool).is_some_and(|all| all.contains(entry))
                || self.writing.get(&entry.pool).is_some_and(|all| all.contains(entry))
        };
        self.looking.contains(orphan) || matches!(orphan, Orphan::Entry(entry) if is_taken_out(entry))
    }
}
