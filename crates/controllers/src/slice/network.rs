//! One network: its objects as they are stored, the write that is on its way, and when it should be looked at.

use std::collections::{BTreeMap, BTreeSet};

use api::slices::{Entry, SlicePool, SlicedNetwork, ip_pool_name};
use jiff::Timestamp;
use space::{Cidr, Moment, Registers};

use super::decide::{Counts, Elsewhere, next_epoch};
use super::intent::{Outcome, Used};
use super::layout::{Objects, Stored};

/// How long after a failed write it is tried again, in milliseconds, the first time and at most.
const FIRST_PAUSE: u64 = 250;
const LONGEST_PAUSE: u64 = 30_000;

/// How long after a write the next one waits, as a multiple of what that one took, and at most, in milliseconds. An object of thousands of
/// nodes costs the server a fifth of a second, and its history a megabyte; nodes that join meanwhile join together.
const RESTS: u64 = 10;
const LONGEST_REST: u64 = 5_000;

/// After how many failures in a row people are told; that somebody else wrote first is no news.
const TELLING_FAILURES: u32 = 3;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Network {
    pub(super) objects: Objects,
    /// What nodes had in objects that are gone, or what is known of it from what they use; nothing if nobody has looked yet.
    pub(super) remembered: Option<BTreeMap<String, Entry>>,
    /// Nodes whose entries somebody else has changed or taken away, until they are told.
    pub(super) edited: BTreeSet<String>,
    /// The highest epoch that was ever seen.
    highest: u64,
    /// What nodes that are gone had, and should not have any more.
    pub(super) leaving: BTreeMap<String, Vec<Cidr>>,
    /// When there were no definitions of it any more.
    pub(super) ended: Option<Timestamp>,
    /// When it should be looked at.
    pub(super) due: Option<Moment>,
    pub(super) counts: Counts,
    flight: Option<Flight>,
    /// Nothing is written before that.
    rested: Option<Moment>,
    failures: u32,
    /// Why writes fail, if they have for a while.
    pub(super) trouble: Option<String>,
}

/// A write that is on its way, or whose effect was not seen yet.
#[derive(Debug)]
struct Flight {
    name: String,
    /// The revision that it is based on; empty if the object is to be made.
    base: String,
    /// What is to be stored; nothing if the object is to go.
    pool: Option<SlicePool>,
    /// The revision that it made, once the answer came.
    revision: Option<String>,
    sent: Moment,
}

impl Network {
    /// It should be looked at, by then at the latest.
    pub(super) fn touch(&mut self, at: Moment) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// When it can be looked at.
    pub(super) fn ready_at(&self) -> Option<Moment> {
        self.due.filter(|_| self.flight.is_none()).map(|due| self.rested.map_or(due, |rested| due.max(rested)))
    }

    /// A write is on its way.
    pub(super) fn send(&mut self, name: &str, base: &str, pool: Option<SlicePool>, sent: Moment) {
        self.flight = Some(Flight { name: name.to_owned(), base: base.to_owned(), pool, revision: None, sent });
    }

    /// The highest epoch that is known of.
    pub(super) fn epoch(&self) -> u64 {
        self.objects.epoch().max(self.highest)
    }

    /// What nodes have, wherever it is known from.
    pub(super) fn entries(&self) -> BTreeMap<String, Entry> {
        let Some(remembered) = self.remembered.as_ref().filter(|_| self.objects.lack()) else {
            return self.objects.entries();
        };
        // Without a pool nobody says which entries of shards count; what is remembered has those that did.
        let mut entries = if self.objects.pool.is_some() { self.objects.entries() } else { BTreeMap::new() };
        for (name, entry) in remembered {
            if entries.get(name).is_none_or(|other| other.epoch < entry.epoch) {
                entries.insert(name.clone(), entry.clone());
            }
        }
        entries
    }

    /// The names of the `IPPool`s of its slices, with the name of the network in them and without: pools that others wrote do not say which.
    pub(super) fn ip_pools(&self, network: &str) -> Vec<String> {
        let entries = self.entries();
        let slices = entries.iter().flat_map(|(node, entry)| entry.slices.iter().map(move |slice| (node, *slice)));
        slices.flat_map(|(node, slice)| [Some(network), None].map(|named| ip_pool_name(named, node, slice))).collect()
    }

    /// Everything that nodes have or are about to have, some of it twice.
    pub(super) fn slices(&self) -> impl Iterator<Item = Cidr> {
        let stored = self.objects.each().map(|stored| &stored.pool.entries);
        let flying = self.flight.iter().filter_map(|flight| flight.pool.as_ref()).map(|pool| &pool.entries);
        let all = stored.chain(&self.remembered).chain(flying);
        all.flat_map(BTreeMap::values).flat_map(|entry| entry.slices.iter().copied())
    }

    /// Where nothing is remembered, what is known from what nodes use, and from shards. Whoever is known only in this way may
    /// have known more, so its entry is a new one.
    pub(super) fn recall(&mut self, network: &SlicedNetwork, used: &[Used], elsewhere: &Elsewhere, time: Timestamp) {
        let in_use = recall(network, used, elsewhere);
        let epoch = next_epoch(self.epoch(), time);
        let mut entries = match &self.objects.pool {
            Some(_) => beside(&self.objects.entries(), in_use),
            None => self.merged(in_use),
        };
        for entry in entries.values_mut() {
            entry.epoch = epoch;
        }
        self.remembered = Some(entries);
    }

    /// Without a pool, what is in use is held; of what shards say besides, the latest is: nothing is ever granted that somebody
    /// else holds, so who held it before has given it back.
    fn merged(&self, mut entries: BTreeMap<String, Entry>) -> BTreeMap<String, Entry> {
        let mut registers: Registers<()> = Registers::new();
        let mut is_free = |slice: &Cidr| match slice {
            Cidr::V4(slice) => registers.v4.claim(*slice, ()).is_ok(),
            Cidr::V6(slice) => registers.v6.claim(*slice, ()).is_ok(),
        };
        for slice in entries.values().flat_map(|entry| &entry.slices) {
            is_free(slice);
        }
        let mut stored: Vec<(String, Entry)> = self.objects.entries().into_iter().collect();
        stored.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.epoch));
        for (name, mut entry) in stored {
            let in_use = entries.remove(&name).map(|entry| entry.slices).unwrap_or_default();
            entry.slices.retain(|slice| in_use.contains(slice) || is_free(slice));
            entry
                .slices
                .extend(in_use.iter().filter(|slice| !entry.slices.contains(slice)).copied().collect::<Vec<_>>());
            entry.draining.retain(|slice| entry.slices.contains(slice));
            entries.insert(name, entry);
        }
        entries.retain(|_, entry| !entry.slices.is_empty());
        entries
    }

    /// An object of it is as it is given. What one of us changes of what nodes have, it says so; what changes without that,
    /// somebody else has changed, and the nodes do not know.
    pub(super) fn see(&mut self, stored: Stored) {
        let (before, changed) = (self.entries(), self.objects.changed());
        let is_own = |flight: &Flight| flight.name == stored.shell.name() && flight.pool.as_ref() == Some(&stored.pool);
        let is_own = self.flight.as_ref().is_some_and(is_own);
        self.put(stored);
        self.highest = self.epoch();
        if is_own || self.objects.changed() > changed {
            self.edited.clear();
            return;
        }
        let after = self.entries();
        let edited = before.into_iter().filter(|(node, entry)| entry.is_outdated_by(after.get(node)));
        self.edited.extend(edited.map(|(node, _)| node));
    }

    fn put(&mut self, stored: Stored) {
        if stored.shard_of().is_some() {
            self.objects.shards.insert(stored.shell.name().to_owned(), stored);
        } else {
            self.objects.pool = Some(stored);
        }
        if !self.objects.lack() {
            self.remembered = None;
        }
    }

    /// An object of it is gone. Nodes go on using what it said they have.
    pub(super) fn lose(&mut self, name: &str) {
        // Who did not know everything before does not know it now.
        let is_known = !self.objects.lack() || self.remembered.is_some();
        let mut entries = self.entries();
        match self.objects.shards.remove(name) {
            // The pool still says what it says, and a write of it that is on its way may take some of that back.
            Some(shard) if self.objects.pool.is_some() => {
                let before = self.remembered.take().unwrap_or_default();
                let is_lost = |node: &String, entry: &Entry| {
                    shard.pool.entries.get(node) == Some(entry) || before.get(node) == Some(entry)
                };
                entries.retain(|node, entry| is_lost(node, entry));
            }
            Some(_) => {}
            None => self.objects.pool = None,
        }
        self.remembered = is_known.then_some(entries);
    }

    fn object(&self, name: &str) -> Option<&Stored> {
        let pool = self.objects.pool.as_ref().filter(|pool| pool.shell.name() == name);
        pool.or_else(|| self.objects.shards.get(name))
    }

    /// Whether a write of that object is on its way.
    pub(super) fn is_written(&self, name: &str) -> bool {
        self.flight.as_ref().is_some_and(|flight| flight.name == name)
    }

    /// Takes in what came of the write.
    pub(super) fn written(&mut self, outcome: &Outcome, now: Moment) {
        match (outcome, &mut self.flight) {
            (Outcome::Written(revision), Some(flight)) => {
                flight.revision = Some(revision.clone());
                self.land(now);
            }
            (Outcome::Failed(why), _) => {
                self.flight = None;
                self.fail(why.clone(), now);
            }
            (Outcome::Written(_), None) => {}
        }
    }

    /// Ends the write if what it did can be seen: the next revision after the one it is based on is its own.
    pub(super) fn land(&mut self, now: Moment) {
        let Some(Flight { name, base, pool, revision: Some(revision), sent }) = &self.flight else { return };
        let seen = self.object(name);
        if seen.map_or("", |stored| stored.shell.resource_version()) == base {
            return;
        }
        let is_other = |stored: &Stored| {
            stored.shell.resource_version() == revision && pool.as_ref().is_some_and(|pool| *pool != stored.pool)
        };
        let pruned = seen.is_some_and(is_other);
        let rest = now.0.saturating_sub(sent.0).saturating_mul(RESTS).min(LONGEST_REST);
        self.rested = Some(Moment(now.0.saturating_add(rest)));
        self.flight = None;
        if pruned {
            self.failures = u32::MAX - 1;
            let why = "the server dropped what it does not know: apply the definitions of `cadastre manifests crds`";
            return self.fail(why.to_owned(), now);
        }
        (self.failures, self.trouble) = (0, None);
        self.touch(now);
    }

    fn fail(&mut self, why: String, now: Moment) {
        let pause = FIRST_PAUSE.checked_shl(self.failures).map_or(LONGEST_PAUSE, |pause| pause.min(LONGEST_PAUSE));
        self.failures = self.failures.saturating_add(1);
        self.trouble = (self.failures >= TELLING_FAILURES).then_some(why);
        self.due = Some(Moment(now.0.saturating_add(pause)));
    }

    /// Whether it can be forgotten: nothing is stored, nothing is on its way, and nobody would want to know.
    pub(super) fn is_over(&self, time: Timestamp, quarantine: i64) -> bool {
        let rests = |ended: Timestamp| time.as_second() < ended.as_second().saturating_add(quarantine);
        let has_memories = self.remembered.as_ref().is_some_and(|entries| !entries.is_empty());
        self.objects.pool.is_none()
            && self.objects.shards.is_empty()
            && self.flight.is_none()
            && self.ended.is_some_and(|ended| !(has_memories && rests(ended)))
    }
}

/// What is in use and not known of, of nodes of which nothing is known: it was in a shard that is lost. Of a node that is known, what is
/// stored is all that it has; and what is stored for somebody is not another's, whatever was left behind there.
fn beside(known: &BTreeMap<String, Entry>, in_use: BTreeMap<String, Entry>) -> BTreeMap<String, Entry> {
    let mut registers: Registers<()> = Registers::new();
    for slice in known.values().flat_map(|entry| &entry.slices) {
        match slice {
            Cidr::V4(slice) => drop(registers.v4.occupy(*slice, ())),
            Cidr::V6(slice) => drop(registers.v6.occupy(*slice, ())),
        }
    }
    let is_free = |slice: &Cidr| match slice {
        Cidr::V4(slice) => registers.v4.overlaps(*slice).next().is_none(),
        Cidr::V6(slice) => registers.v6.overlaps(*slice).next().is_none(),
    };
    let unknown = in_use.into_iter().filter(|(node, _)| !known.contains_key(node));
    let lost = unknown.map(|(node, mut entry)| {
        entry.slices.retain(is_free);
        (node, entry)
    });
    lost.filter(|(_, entry)| !entry.slices.is_empty()).collect()
}

/// Who holds which slices of a network, by the `IPPool`s that have addresses in use: all that is left to tell when a pool was
/// lost.
fn recall(network: &SlicedNetwork, used: &[Used], elsewhere: &Elsewhere) -> BTreeMap<String, Entry> {
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    for one in used {
        let Ok(slice) = Cidr::tolerant(&one.range) else { continue };
        let normal = format!("-{}", one.range.replace([':', '/'], "-"));
        let Some(rest) = one.name.strip_suffix(&normal) else { continue };
        let node = if network.is_named { rest.strip_prefix(&format!("{}-", network.name)) } else { Some(rest) };
        // A network without a name shares its names with others; what lies in none of its ranges, or is another's, is not of it.
        let is_near = || network.ranges.iter().any(|range| range.contains(slice.value));
        let is_anothers = || elsewhere.networks.iter().any(|other| other.overlaps(&slice.value));
        let is_its = network.is_named || (is_near() && !is_anothers());
        if let Some(node) = node.filter(|node| !node.is_empty() && is_its) {
            entries.entry(node.to_owned()).or_default().slices.push(slice.value);
        }
    }
    entries
}
