//! `Book`: the state of the ledger: what the store says of ranges, of grants and of Services, and the pools that follow from it.
//!
//! A point is taken if an object says so, or a Service that has it, or a write that is under way. Usually the first two agree.
//! Where they do not, the point is a [`Suspect`], and stays taken: what a Service has is never given to another, whatever became
//! of the object.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use api::Object;
use futures_util::FutureExt as _;
use space::{Family, RangeCounts, RangeId};
use store::{Compare, Entry, Event, Key, Range, Revision, Store, Watch, What};

use super::PREFIX as SERVICES;
use super::decision::{Pools, Wanted, held};
use super::ledger::{PortUsage, Usage};
use super::meters::{Meter, Meters, Scope};
use super::service::Service;
use crate::registry::extent::{self, Cover, Extent};
use crate::registry::grants::Grant;
use crate::registry::wording::uid;
use crate::registry::{ip_addresses, node_ports, service_cidrs};

/// What is watched. Ranges come first: what is given out of a new one is not to look as if it were out of range.
const PREFIXES: [&str; 5] =
    [service_cidrs::PREFIX, node_ports::RANGES, ip_addresses::PREFIX, node_ports::PREFIX, SERVICES];

/// Something that may not be as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Suspect {
    /// Its object and the Services do not agree, or it is in no range.
    Grant(Grant),
    /// It says addresses that are none.
    Service(Key),
}

/// See the module.
pub(super) struct Book {
    pub(super) pools: Pools,
    ranges: HashMap<Key, Known>,
    cover: Cover,
    /// What is taken by objects and Services.
    points: HashMap<Grant, Point>,
    /// What was picked and is not decided yet.
    under_way: HashSet<Grant>,
    /// What each Service has.
    services: HashMap<Key, Vec<Grant>>,
    /// The Services that say addresses that are none.
    flawed: HashSet<Key>,
    /// What new Services will have whose writes are under way.
    promises: HashMap<Key, Promise>,
    /// What has changed since somebody asked for suspects.
    changed: HashSet<Suspect>,
    watches: Vec<Watch>,
    meters: Arc<Meters>,
}

/// Who says that a point is taken.
#[derive(Default)]
struct Point {
    /// An object does.
    written: bool,
    /// These Services do.
    holders: Vec<Key>,
}

impl Point {
    fn is_free(&self) -> bool {
        !self.written && self.holders.is_empty()
    }
}

/// What a new Service will have if it is written.
struct Promise {
    uid: Box<str>,
    grants: Vec<Grant>,
}

/// A range object that is known.
struct Known {
    revision: Revision,
    is_open: bool,
    text: Vec<String>,
    parts: Vec<Part>,
}

/// A part of a range that is of one sort, and how the pool of that sort knows it.
struct Part {
    text: String,
    extent: Extent,
    id: RangeId,
    meter: Arc<Meter>,
}

impl Book {
    /// What the store has. Reads of the present are answered from memory, so there is nothing to wait for.
    pub(super) fn read(store: &Store, meters: &Arc<Meters>, under_way: HashSet<Grant>) -> Option<Self> {
        let mut book = Self {
            pools: Pools::default(),
            ranges: HashMap::new(),
            cover: Cover::default(),
            points: HashMap::new(),
            under_way,
            services: HashMap::new(),
            flawed: HashSet::new(),
            promises: HashMap::new(),
            changed: HashSet::new(),
            watches: Vec::new(),
            meters: Arc::clone(meters),
        };
        let mut ranges = Vec::new();
        for prefix in PREFIXES {
            let prefix = format!("{prefix}/");
            let page = store.range(Range { prefix: &prefix, ..Range::default() }).now_or_never()?.ok()?;
            for entry in &page.entries {
                match Grant::of(&entry.key) {
                    Some(grant) => book.point(grant).written = true,
                    None if is_service(&entry.key) => book.put_service(entry),
                    None => ranges.push(Arc::clone(entry)),
                }
            }
            book.watches.push(store.watch(&prefix, page.revision).ok()?);
        }
        for grant in book.points.keys().chain(&book.under_way) {
            book.pools.adopt(*grant);
        }
        book.add_all(&ranges);
        meters.prune();
        book.changed = book.disagreements().collect();
        Some(book)
    }

    /// Ends it. What is under way goes on.
    pub(super) fn close(self) -> HashSet<Grant> {
        self.under_way
    }

    /// Takes in what has happened. False if that cannot be found out any more.
    pub(super) fn catch_up(&mut self) -> bool {
        let mut watches = std::mem::take(&mut self.watches);
        let whole = watches.iter_mut().all(|watch| {
            while watch.progress().is_none() {
                match watch.next().now_or_never() {
                    Some(Ok(events)) => events.iter().for_each(|event| self.note(event)),
                    Some(Err(_)) => return false,
                    None => {}
                }
            }
            true
        });
        self.watches = watches;
        whole
    }

    fn note(&mut self, event: &Event) {
        let entry = &event.entry;
        match (Grant::of(&entry.key), event.what) {
            (Some(grant), what) => {
                self.point(grant).written = what == What::Put;
                self.settle(grant);
            }
            (None, What::Put) if is_service(&entry.key) => self.put_service(entry),
            (None, What::Delete) if is_service(&entry.key) => {
                self.flawed.remove(&entry.key);
                self.set_held(&entry.key, Vec::new());
            }
            (None, What::Put) => self.put_range(entry),
            (None, What::Delete) => {
                self.remove_range(&entry.key);
                self.meters.prune();
            }
        }
    }

    fn put_service(&mut self, entry: &Entry) {
        if let Some(grants) = self.kept_promise(entry) {
            return self.set_held(&entry.key, grants);
        }
        let service = Service::parse_stored(&entry.value);
        if service.flaws().next().is_none() {
            self.flawed.remove(&entry.key);
        } else {
            self.flawed.insert(Arc::clone(&entry.key));
            self.changed.insert(Suspect::Service(Arc::clone(&entry.key)));
        }
        self.set_held(&entry.key, held(&service));
    }

    /// Notes what a Service will have that is about to be created. Nobody else writes a Service of that uid before it is there.
    pub(super) fn promise(&mut self, key: &Key, uid: &str, grants: Vec<Grant>) {
        self.promises.insert(Arc::clone(key), Promise { uid: uid.into(), grants });
    }

    /// What became of the create is known.
    pub(super) fn forget_promise(&mut self, key: &Key) {
        self.promises.remove(key);
    }

    /// What was promised to a Service, if this is what was written then: there is no need to read it.
    fn kept_promise(&mut self, entry: &Entry) -> Option<Vec<Grant>> {
        let promise = self.promises.get_mut(&entry.key)?;
        let is_first = entry.created == entry.revision && !promise.uid.is_empty();
        (is_first && uid(&entry.value) == Some(&*promise.uid)).then(|| std::mem::take(&mut promise.grants))
    }

    fn point(&mut self, grant: Grant) -> &mut Point {
        self.points.entry(grant).or_default()
    }

    /// Notes what a Service has now.
    fn set_held(&mut self, key: &Key, now: Vec<Grant>) {
        let before = self.services.remove(key).unwrap_or_default();
        if before == now {
            if !now.is_empty() {
                self.services.insert(Arc::clone(key), now);
            }
            return;
        }
        for grant in &before {
            self.point(*grant).holders.retain(|one| one != key);
        }
        for grant in &now {
            self.point(*grant).holders.push(Arc::clone(key));
        }
        for grant in before.iter().chain(&now) {
            self.settle(*grant);
        }
        if !now.is_empty() {
            self.services.insert(Arc::clone(key), now);
        }
    }

    /// Makes the pools say of a point what is the case, and notes that it has changed.
    fn settle(&mut self, grant: Grant) {
        let is_taken = match self.points.get(&grant) {
            Some(point) if point.is_free() => {
                self.points.remove(&grant);
                false
            }
            point => point.is_some(),
        };
        if is_taken || self.under_way.contains(&grant) {
            self.pools.adopt(grant);
        } else {
            self.pools.release(grant);
        }
        self.changed.insert(Suspect::Grant(grant));
    }

    /// Whether one Service has what is written, and it is in a range. Of what is written and no Service has, it is not known here.
    fn agrees(&self, grant: Grant) -> bool {
        match self.points.get(&grant) {
            None => true,
            Some(Point { written, holders, .. }) if holders.is_empty() => !written,
            Some(_) => self.sole_holder(grant).is_some(),
        }
    }

    /// The Service that has it, if that is one, and it is written, and some range has it.
    pub(super) fn sole_holder(&self, grant: Grant) -> Option<&Key> {
        let Point { written: true, holders, .. } = self.points.get(&grant)? else { return None };
        let [only] = holders.as_slice() else { return None };
        self.is_within(grant).then_some(only)
    }

    /// Everything that is suspect.
    pub(super) fn disagreements(&self) -> impl Iterator<Item = Suspect> {
        let grants = self.points.keys().filter(|grant| !self.agrees(**grant)).map(|grant| Suspect::Grant(*grant));
        grants.chain(self.flawed.iter().map(|key| Suspect::Service(Arc::clone(key))))
    }

    /// What has become suspect since this was asked last.
    pub(super) fn take_suspects(&mut self) -> HashSet<Suspect> {
        let mut changed = std::mem::take(&mut self.changed);
        changed.retain(|suspect| match suspect {
            Suspect::Grant(grant) => !self.agrees(*grant),
            Suspect::Service(_) => true,
        });
        changed
    }

    /// The Services that have it, in the same order on all servers.
    pub(super) fn having(&self, grant: Grant) -> Vec<Key> {
        let mut all = self.holders(grant).to_vec();
        all.sort_unstable();
        all
    }

    fn holders(&self, grant: Grant) -> &[Key] {
        self.points.get(&grant).map_or(&[], |point| point.holders.as_slice())
    }

    /// Keeps it for a write that is under way.
    pub(super) fn hold(&mut self, grant: Grant) {
        self.under_way.insert(grant);
    }

    /// What became of the write is known.
    pub(super) fn let_go(&mut self, grant: Grant) {
        if self.under_way.remove(&grant) {
            self.settle(grant);
        }
    }

    fn put_range(&mut self, entry: &Arc<Entry>) {
        let Ok(object) = Object::parse(&entry.value) else { return };
        match self.ranges.get_mut(&entry.key) {
            Some(known) if known.text == extent::texts(&object) => {
                known.revision = entry.revision;
                known.is_open = service_cidrs::is_open(&object);
                self.pools.set_open(known);
            }
            _ => {
                self.remove_range(&entry.key);
                self.add_all(std::slice::from_ref(entry));
            }
        }
    }

    /// Adds ranges that are not known. Pools look at all of their ranges when one comes, so many come together.
    fn add_all(&mut self, entries: &[Arc<Entry>]) {
        let (mut v4, mut v6, mut ports) = (Vec::new(), Vec::new(), Vec::new());
        let mut read = Vec::new();
        for entry in entries {
            let Ok(object) = Object::parse(&entry.value) else { continue };
            let text = extent::texts(&object);
            let extents: Vec<_> =
                text.iter().filter_map(|text| Extent::read(text).map(|extent| (text.clone(), extent))).collect();
            for (_, extent) in &extents {
                match extent {
                    Extent::V4(range) => v4.push(*range),
                    Extent::V6(range) => v6.push(*range),
                    Extent::Ports(range) => ports.push(*range),
                }
            }
            read.push((entry, text, service_cidrs::is_open(&object), extents));
        }
        let mut v4 = self.pools.v4.add_ranges(v4).into_iter();
        let mut v6 = self.pools.v6.add_ranges(v6).into_iter();
        let mut ports = self.pools.ports.add_ranges(ports).into_iter();
        for (entry, text, is_open, extents) in read {
            let mut known = Known { revision: entry.revision, is_open, text, parts: Vec::new() };
            for (text, extent) in extents {
                let id = match extent {
                    Extent::V4(_) => v4.next(),
                    Extent::V6(_) => v6.next(),
                    Extent::Ports(_) => ports.next(),
                };
                let meter = match extent {
                    Extent::V4(_) | Extent::V6(_) => self.meters.of(&text),
                    Extent::Ports(_) => self.meters.of_ports(),
                };
                self.cover.add(extent, &entry.key);
                known.parts.extend(id.map(|id| Part { text, extent, id, meter }));
            }
            self.pools.set_open(&known);
            self.ranges.insert(Arc::clone(&entry.key), known);
        }
    }

    fn remove_range(&mut self, key: &Key) {
        let Some(known) = self.ranges.remove(key) else { return };
        for part in &known.parts {
            self.cover.remove(part.extent, key);
            match part.extent {
                Extent::V4(_) => drop(self.pools.v4.remove_range(part.id)),
                Extent::V6(_) => drop(self.pools.v6.remove_range(part.id)),
                Extent::Ports(_) => drop(self.pools.ports.remove_range(part.id)),
            }
        }
        let left: Vec<Grant> = known.parts.iter().flat_map(|part| self.pools.claimed(part.extent)).collect();
        for grant in left {
            self.settle(grant);
        }
    }

    /// Whether some range has it, open or not.
    pub(super) fn is_within(&self, grant: Grant) -> bool {
        self.cover.of(grant).next().is_some()
    }

    /// An open range that has it, besides that one.
    fn open_beside(&self, grant: Grant, beside: &str) -> Option<(&Key, &Known)> {
        let known = |key| self.ranges.get_key_value(key).filter(|(_, known)| known.is_open);
        self.cover.of(grant).filter(|key| &***key != beside).find_map(known)
    }

    /// That a range which has the grant is as it is now, so that it still gives out what it has; and where that is counted.
    pub(super) fn condition(&self, grant: Grant) -> Option<(Compare, Option<Arc<Meter>>)> {
        let (key, known) = self.open_beside(grant, "")?;
        let part = known.parts.iter().find(|part| part.extent.has(grant));
        Some((Compare::At(Arc::clone(key), known.revision), part.map(|part| Arc::clone(&part.meter))))
    }

    /// Counts that something could not be given, and says which open ranges could not, in the order of their names.
    pub(super) fn refuse(&self, wanted: Wanted, meters: &Meters) -> Vec<(Key, String)> {
        let is_one = |extent: Extent| match wanted {
            Wanted::Address(address) => extent.has(Grant::Address(address)),
            Wanted::AnyAddress(Family::V4) => matches!(extent, Extent::V4(_)),
            Wanted::AnyAddress(Family::V6) => matches!(extent, Extent::V6(_)),
            Wanted::Port | Wanted::AnyPort => matches!(extent, Extent::Ports(_)),
        };
        let open = self.ranges.iter().filter(|(_, known)| known.is_open);
        let parts = open.flat_map(|(key, known)| known.parts.iter().map(move |part| (key, part)));
        let mut those: Vec<(&Key, &Part)> = parts.filter(|(_, part)| is_one(part.extent)).collect();
        those.sort_unstable_by_key(|(key, part)| (*key, &part.text));
        match wanted {
            Wanted::Port => meters.of_ports().refuse(Scope::Static),
            Wanted::AnyPort => meters.of_ports().refuse(Scope::Dynamic),
            // It is in each of them, and was to be one of the first.
            Wanted::Address(_) => those.iter().take(1).for_each(|(_, part)| part.meter.refuse(Scope::Static)),
            Wanted::AnyAddress(_) => those.iter().for_each(|(_, part)| part.meter.refuse(Scope::Dynamic)),
        }
        those.into_iter().map(|(key, part)| (Arc::clone(key), part.text.clone())).collect()
    }

    /// Something that is taken in a range and that no other open range has, and that is of those that keep it.
    pub(super) fn alone(&self, key: &str, keeps: impl Fn(Grant) -> bool) -> Option<Grant> {
        let known = self.ranges.get(key)?;
        let taken = known.parts.iter().flat_map(|part| self.pools.claimed(part.extent));
        let mut alone = taken.filter(|grant| self.open_beside(*grant, key).is_none());
        // What is only picked does not count: the write that wants it finds the range changed.
        let has_holder = |grant: &Grant| !self.holders(*grant).is_empty();
        alone.find(|grant| has_holder(grant) || keeps(*grant))
    }

    /// How much of each range is given out. What is only picked does not count: it may never be.
    pub(super) fn usage(&self) -> Vec<Usage> {
        let mut picked: HashMap<&Key, Vec<Grant>> = HashMap::new();
        for grant in self.under_way.iter().filter(|grant| !self.points.contains_key(*grant)) {
            self.cover.of(*grant).for_each(|key| picked.entry(key).or_default().push(*grant));
        }
        let mut all = Vec::with_capacity(self.ranges.len());
        for (key, known) in &self.ranges {
            let picked = picked.get(key).map_or(&[][..], Vec::as_slice);
            for part in &known.parts {
                let Some(counts) = self.pools.counts(part) else { continue };
                let picked = picked.iter().filter(|grant| part.extent.has(**grant)).count() as u128;
                let number = |count: u128| u64::try_from(count).unwrap_or(u64::MAX);
                all.push(Usage {
                    key: Arc::clone(key),
                    range: part.text.clone(),
                    is_ports: matches!(part.extent, Extent::Ports(_)),
                    is_open: known.is_open,
                    given: number(counts.claimed.saturating_sub(picked)),
                    free: number(counts.free + picked),
                });
            }
        }
        all
    }

    /// How many ports of the ranges are given out, and how many the open ones have left. What is only picked does not count here either.
    pub(super) fn port_usage(&self) -> PortUsage {
        let ports = &self.pools.ports;
        let mut usage = PortUsage::default();
        for port in ports.claimed(0, u16::MAX) {
            let grant = Grant::Port(port);
            if self.points.contains_key(&grant) {
                usage.given += u64::from(self.is_within(grant));
            } else {
                usage.free += u64::from(self.open_beside(grant, "").is_some());
            }
        }
        let (outside, inside) = ports.free();
        usage.free += u64::try_from(outside + inside).unwrap_or(u64::MAX);
        usage
    }
}

impl Pools {
    /// Opens or closes the parts of a range.
    fn set_open(&mut self, known: &Known) {
        for part in &known.parts {
            let _ = match part.extent {
                Extent::V4(_) => self.v4.set_open(part.id, known.is_open),
                Extent::V6(_) => self.v6.set_open(part.id, known.is_open),
                Extent::Ports(_) => self.ports.set_open(part.id, known.is_open),
            };
        }
    }

    fn counts(&self, part: &Part) -> Option<RangeCounts> {
        match part.extent {
            Extent::V4(_) => self.v4.counts(part.id).ok(),
            Extent::V6(_) => self.v6.counts(part.id).ok(),
            Extent::Ports(_) => self.ports.counts(part.id).ok(),
        }
    }

    /// What is claimed there, the lowest first.
    fn claimed(&self, extent: Extent) -> Box<dyn Iterator<Item = Grant> + '_> {
        match extent {
            Extent::V4(range) => Box::new(
                self.v4.claimed(range.first(), range.last()).map(|bits| Grant::Address(IpAddr::V4(bits.into()))),
            ),
            Extent::V6(range) => Box::new(
                self.v6.claimed(range.first(), range.last()).map(|bits| Grant::Address(IpAddr::V6(bits.into()))),
            ),
            Extent::Ports(range) => Box::new(self.ports.claimed(range.first(), range.last()).map(Grant::Port)),
        }
    }
}

fn is_service(key: &str) -> bool {
    key.strip_prefix(SERVICES).is_some_and(|rest| rest.starts_with('/'))
}
