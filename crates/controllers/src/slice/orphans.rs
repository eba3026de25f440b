//! `Orphans`: entries of the pools that all nodes share whose pods are not there. The DEL of a pod gives its entry back, or the agent whose
//! journal has it; of a node that is gone for good, or of a lost journal, nobody does.
//!
//! A pod must be missing twice, and long enough in between. Nothing here is remembered for long: an entry that was not taken out is still
//! there, and the next survey tells of it.

use std::collections::{BTreeMap, BTreeSet};

use space::Moment;

use super::shared::{AGAIN, PodEntry, SharedPool};

/// How long a pod must have been missing, in milliseconds: longer than the 50 seconds or so after which a node that is silent is known to be.
/// From then on the quarantine counts, because a pod that was deleted by force may still run there.
pub(super) const MISSING: u64 = 60_000;
/// How many are looked for again and taken out at a time. It is a part of what is done at a time, so that slices do not wait for it.
const MOST_AT_ONCE: usize = 16;
/// When something happened since it was last known what time it is, which may be a minute ago.
const JUST_NOW: Moment = Moment(u64::MAX);

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

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// Those that are in question while all pods are listed.
    asked: Option<Vec<Orphan>>,
    /// When all pods were last listed.
    listed: Option<Moment>,
    /// Those whose pods were missing, and since when.
    missing: BTreeMap<Orphan, Moment>,
    /// Those that are being looked for again or taken out.
    under_way: BTreeSet<Orphan>,
    /// When a node went on which nobody vouches that nothing runs, or may have gone.
    vanished: Option<Moment>,
}

impl Orphans {
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

    /// A node went on which nobody vouches that nothing runs, or may have gone.
    pub(super) fn lose_node(&mut self) {
        self.vanished = Some(JUST_NOW);
    }

    /// So late it is.
    pub(super) fn tick(&mut self, now: Moment) {
        self.vanished = self.vanished.map(|at| at.min(now));
    }

    /// Whether a node went within that time.
    pub(super) fn lost_node(&self, now: Moment, within: u64) -> bool {
        self.vanished.is_some_and(|at| now.0.saturating_sub(at.0) < within)
    }

    /// Whether there is nothing to wait for.
    pub(super) fn is_idle(&self) -> bool {
        self.missing.is_empty() || self.under_way.len() >= MOST_AT_ONCE
    }

    /// When the next one should be looked for again, if it must be missing for so long.
    pub(super) fn due_at(&self, patience: u64) -> Option<Moment> {
        let first = self.missing.values().min().filter(|_| !self.is_idle())?;
        Some(Moment(first.0.saturating_add(patience)))
    }

    /// One that should be looked for again now; it is, then.
    pub(super) fn begin(&mut self, now: Moment, patience: u64) -> Option<Orphan> {
        if self.due_at(patience)? > now {
            return None;
        }
        let orphan = self.missing.iter().min_by_key(|(_, since)| **since)?.0.clone();
        self.missing.remove(&orphan);
        self.under_way.insert(orphan.clone());
        Some(orphan)
    }

    /// Nothing more is done about it.
    pub(super) fn end(&mut self, orphan: &Orphan) {
        self.under_way.remove(orphan);
    }
}
