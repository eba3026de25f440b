//! `Orphans`: entries of the pools that all nodes share whose pods are not there. The DEL of a pod gives its entry back, or the agent whose
//! journal has it; of a node that is gone for good, or of a lost journal, nobody does.
//!
//! A pod must be missing twice, and long enough in between; and no node may say that the container still runs there. Nothing here is
//! remembered for long: an entry that was not taken out is still there, and the next survey tells of it.

use std::collections::{BTreeMap, BTreeSet};

use space::Moment;

use super::shared::{AGAIN, PodEntry, SharedPool};

/// How long a pod must at least have been missing, in milliseconds: much longer than an agent needs to say that it runs on.
pub(super) const MISSING: u64 = 60_000;
/// How many are looked for again and taken out at a time. It is a part of what is done at a time, so that slices do not wait for it.
const MOST_AT_ONCE: usize = 16;

/// An entry that may be nobody's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Orphan {
    /// The name of its `IPPool`.
    pub pool: String,
    /// The `network_name` of the networks that the pool is of, if they have one.
    pub network: Option<String>,
    /// What it says.
    pub entry: PodEntry,
}

impl Orphan {
    /// All entries of a pool.
    pub(super) fn all(pool: &SharedPool) -> impl Iterator<Item = Self> {
        let SharedPool { name, network, entries, .. } = pool;
        entries.iter().map(|entry| Self { pool: name.clone(), network: network.clone(), entry: entry.clone() })
    }
}

/// What a second look showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Whether the pod is there.
    pub pod: bool,
    /// The nodes, by their labels, that say that the container still runs there.
    pub nodes: BTreeSet<String>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Orphans {
    /// How long a pod must be missing.
    patience: u64,
    /// Those that are in question while all pods are listed.
    asked: Option<Vec<Orphan>>,
    /// When all pods were last listed.
    listed: Option<Moment>,
    /// Those whose pods were missing, and since when.
    missing: BTreeMap<Orphan, Moment>,
    /// Those that are being looked for again or taken out.
    under_way: BTreeSet<Orphan>,
    /// When nodes went on which something may still run, by their labels.
    departed: BTreeMap<String, Moment>,
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
            under_way: BTreeSet::new(),
            departed: BTreeMap::new(),
        }
    }

    /// These are all entries that there are. Of which pods it should be looked whether they are there, if so. A survey may be made whenever
    /// a definition changes; a list of all pods is too large for that.
    pub(super) fn see(&mut self, entries: Vec<Orphan>, now: Moment) -> Option<BTreeSet<String>> {
        let there: BTreeSet<&Orphan> = entries.iter().collect();
        self.missing.retain(|orphan, _| there.contains(orphan));
        let rests = self.listed.is_some_and(|at| now.0.saturating_sub(at.0) < AGAIN);
        if entries.is_empty() || self.asked.is_some() || rests {
            return None;
        }
        self.listed = Some(now);
        let pods = entries.iter().map(|orphan| orphan.entry.podref.clone()).collect();
        self.asked = Some(entries);
        Some(pods)
    }

    /// Those of the pods that are there, or nothing if they could not be listed.
    pub(super) fn find(&mut self, there: Option<&BTreeSet<String>>, now: Moment) {
        let asked = self.asked.take().unwrap_or_default();
        let Some(there) = there else {
            self.listed = None;
            return;
        };
        for orphan in asked {
            if there.contains(&orphan.entry.podref) {
                self.missing.remove(&orphan);
            } else if !self.under_way.contains(&orphan) {
                self.missing.entry(orphan).or_insert(now);
            }
        }
    }

    /// A node went on which something may still run.
    pub(super) fn lose_node(&mut self, label: String, now: Moment) {
        self.departed.retain(|_, at| now.0.saturating_sub(at.0) < self.patience);
        self.departed.insert(label, now);
    }

    /// When the next one should be looked for again.
    pub(super) fn due_at(&self) -> Option<Moment> {
        let first = self.missing.values().min().filter(|_| self.under_way.len() < MOST_AT_ONCE)?;
        Some(Moment(first.0.saturating_add(self.patience)))
    }

    /// One that should be looked for again now; it is, then.
    pub(super) fn begin(&mut self, now: Moment) -> Option<Orphan> {
        if self.due_at()? > now {
            return None;
        }
        let orphan = self.missing.iter().min_by_key(|(_, since)| **since)?.0.clone();
        self.missing.remove(&orphan);
        self.under_way.insert(orphan.clone());
        Some(orphan)
    }

    /// Whether that is how one is found that is nobody's: its pod is missing, and who says that the container runs is no node any more,
    /// and has not been for long.
    pub(super) fn is_one(&self, found: &Found, is_node: impl Fn(&String) -> bool, now: Moment) -> bool {
        let was_node =
            |label: &String| self.departed.get(label).is_some_and(|at| now.0.saturating_sub(at.0) < self.patience);
        !found.pod && !found.nodes.iter().any(|label| is_node(label) || was_node(label))
    }

    /// Nothing more is done about it.
    pub(super) fn end(&mut self, orphan: &Orphan) {
        self.under_way.remove(orphan);
    }
}
