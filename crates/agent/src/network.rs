//! One network on this node: what is known of it, and what has to be done about it.
//!
//! The journal comes first: what others put into a pool is held before the slice is granted and before the pool is written. Then the
//! grants, then the pools. Nothing here does I/O; the plan asks again whenever something changed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use api::Object;
use api::slices::{Ask, CHANGED, Entry, GATEWAYS, NETWORK_NAME, OVERLAPPING, RANGES, SlicePool, ip_pool_name, latest};
use cni::config::{Span, contains};
use cni::grants::{Grants, Slice};
use cni::journal::{Book, Holding, Image, Origin, Reason};
use cni::plugin::hexadecimal;
use cni::shortage::Shortage;
use serde_json::Value;
use space::Cidr;

use crate::address;
use crate::asks::{self, Fullness};
use crate::grants::{self, Claim, Wanted};
use crate::mirror::{self, Merge};
use crate::pool::{Allocation, Allocations, Marks, PoolWrite, SeenPool, mark, seal};
use crate::reclaim::{Pod, Pods, Suspicions};
use crate::reservations::Reserved;
use crate::survivors::Reading;

/// Why it is told that a journal is lost.
pub const LOST: &str = "JournalLost";

/// What the metadata of a `NodeSlicePool` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolMeta {
    /// Its name: that of the network.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its revision.
    pub revision: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// What it says about the network besides its slices.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    network_name: String,
    is_overlapping: bool,
    ranges: Vec<(Cidr, u8)>,
    gateways: Vec<IpAddr>,
}

impl PoolMeta {
    fn annotation(&self, name: &str) -> &str {
        self.annotations.get(name).map(String::as_str).unwrap_or_default()
    }

    fn settings(&self) -> Settings {
        Settings {
            network_name: self.annotation(NETWORK_NAME).to_owned(),
            is_overlapping: self.annotation(OVERLAPPING) != "false",
            ranges: grants::ranges(self.annotation(RANGES)),
            gateways: self.annotation(GATEWAYS).split(',').filter_map(|text| text.parse().ok()).collect(),
        }
    }
}

/// What a `NodeSlicePool` and its shards say of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The UID of the pool.
    pub uid: String,
    /// Its revision.
    pub revision: String,
    /// The highest epoch in it.
    pub epoch: u64,
    /// What this node has.
    pub entry: Option<Entry>,
    /// The one range of a pool that does not say how all are cut.
    pub range: Option<(Cidr, u8)>,
    /// Slices of other nodes that overlap with those of this one, and whose they are.
    pub doubled: Vec<(String, Cidr)>,
}

impl Fetched {
    /// Reads a pool and its shards for a node.
    pub fn read(pool: Value, shards: Vec<Value>, node: &str) -> Option<Self> {
        let pool = Object::from_value(pool)?;
        let shards: Vec<Object> = shards.into_iter().filter_map(Object::from_value).collect();
        let shards: BTreeMap<String, SlicePool> =
            shards.iter().map(|shard| (shard.name().to_owned(), SlicePool::read(shard))).collect();
        let main = SlicePool::read(&pool);
        let mut entries = latest(Some(&main), shards.iter());
        let entry = entries.remove(node);
        let own = || entry.iter().flat_map(|entry| &entry.slices);
        let overlaps =
            |one: Cidr, other: Cidr| one.family() == other.family() && Span::of(one).and(Span::of(other)).is_some();
        let others = entries.iter().flat_map(|(name, other)| other.slices.iter().map(move |slice| (name, *slice)));
        let doubled = others.filter(|(_, slice)| own().any(|mine| overlaps(*mine, *slice)));
        let doubled = doubled.map(|(name, slice)| (name.clone(), slice)).collect();
        let length = pool.text(&["spec", "sliceSize"]).trim_start_matches('/').parse().ok();
        let range = Cidr::tolerant(pool.text(&["spec", "range"])).ok().map(|read| read.value).zip(length);
        let (uid, revision) = (pool.uid().to_owned(), pool.resource_version().to_owned());
        Some(Self { uid, revision, epoch: main.epoch, entry, range, doubled })
    }
}

/// What the files of the network say.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// The grants; none if there is no such file.
    pub grants: Option<Grants>,
    /// The journal, or why it cannot be read.
    pub journal: Option<Result<Arc<Image>, String>>,
    /// Of what nothing was left for a pod.
    pub shortage: Option<Shortage>,
}

/// An address that is to be held for somebody who got it elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The address.
    pub ip: IpAddr,
    /// The prefix length of its range.
    pub length: u8,
    /// For whom.
    pub holder: Allocation,
    /// Who says so.
    pub origin: Origin,
}

/// Work on the files of a network, done with its lock held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Local {
    /// The grants are to be these; none: the file is to go.
    Grants(Option<Grants>),
    /// Holdings end, and others begin.
    Commit {
        /// By their numbers, and why.
        ends: Vec<(u64, Reason)>,
        /// Where nobody holds the address.
        holds: Vec<Hold>,
    },
    /// The journal is lost or damaged: it is to be written anew, with what can still be read of it and these.
    Mend(Vec<Hold>),
}

/// Something that a person should know, as long as it is so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// In one word.
    pub reason: &'static str,
    /// In a sentence.
    pub message: String,
}

/// What is to be done for a network.
#[derive(Clone, Debug, Default)]
pub struct Todo {
    /// Whether its `NodeSlicePool` has to be read.
    pub fetch: bool,
    /// Work on its files.
    pub local: Option<Local>,
    /// Pools to be written, by name.
    pub pools: BTreeMap<String, PoolWrite>,
    /// What is to be told.
    pub causes: BTreeSet<Cause>,
    /// What others took out of a pool and is put back; told each time.
    pub put_back: BTreeSet<Cause>,
}

/// What all networks share.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    /// The node.
    pub node: &'a str,
    /// Its label.
    pub label: &'a str,
    /// Its UID; none before it was looked for, empty if there is no such node.
    pub uid: Option<&'a str>,
    /// When the API server was last heard of: seconds since 1970.
    pub heard_at: u64,
    /// The `IPPool`s of this node by name; none before they were listed.
    pub pools: Option<&'a BTreeMap<String, SeenPool>>,
    /// The `NodeSlicePool`s; none before they were listed.
    pub metas: Option<&'a BTreeMap<String, PoolMeta>>,
    /// The pods of this node.
    pub pods: &'a Pods,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Network {
    name: String,
    fetched: Option<Fetched>,
    settings: Option<Settings>,
    disk: Disk,
    /// What is suspected of the holdings.
    pub suspicions: Suspicions,
    /// Holdings that nobody uses, as far as was seen.
    pub dead: BTreeSet<u64>,
    /// Holdings whose time is up.
    pub ends: Vec<(u64, Reason)>,
    /// What is owed to pools that all nodes share.
    pub owed: Vec<u64>,
    /// The highest epoch of an entry of which anything was ever asked. Nobody but who asked is told what came of it.
    asked: u64,
}

impl Network {
    /// Nothing is known of it yet.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Its files are like this.
    pub fn see_disk(&mut self, disk: Disk) {
        self.disk = disk;
    }

    /// Its pool was read; none: it is gone.
    pub fn see_fetched(&mut self, fetched: Option<Fetched>) {
        self.fetched = fetched;
    }

    /// The first number that no record of the journal has.
    pub fn next(&self) -> u64 {
        self.image().map_or_else(|| Image::default().book().next(), |image| image.book().next())
    }

    /// The journal, if it can be read.
    pub fn image(&self) -> Option<&Arc<Image>> {
        self.disk.journal.as_ref().and_then(|journal| journal.as_ref().ok())
    }

    /// The grants on the disk.
    pub fn grants(&self) -> Option<&Grants> {
        self.disk.grants.as_ref()
    }

    /// Whether nothing is left of it: nobody grants slices, and there are no files of it.
    pub fn is_over(&self, metas: &BTreeMap<String, PoolMeta>) -> bool {
        !metas.contains_key(&self.name) && self.disk.grants.is_none() && self.image().is_none()
    }

    /// Whether all is known that decides what of its objects can go.
    pub fn is_known(&self, metas: Option<&BTreeMap<String, PoolMeta>>) -> bool {
        let is_read = metas.is_some_and(|metas| !metas.contains_key(&self.name) || self.fetched.is_some());
        is_read && self.flaw().is_none()
    }

    /// The addresses that are held.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let Some(image) = self.image() else { return Vec::new() };
        let book = image.book();
        book.holdings().iter().flat_map(|holding| holding.ips.iter()).map(|ip| ip.address).collect()
    }

    fn journal_id(&self) -> Option<String> {
        self.image()?.header().map(|header| hexadecimal(&header.id))
    }

    /// The journal as far as it can be read.
    pub fn reading(&self) -> Option<Reading<'_>> {
        let (book, journal) = (self.image()?.book(), self.journal_id().unwrap_or_default());
        Some(Reading { network: &self.name, journal, book, is_whole: self.flaw().is_none() })
    }

    /// Why the journal cannot be trusted, if it cannot.
    fn flaw(&self) -> Option<String> {
        match (&self.disk.journal, self.grants().and_then(|grants| grants.journal.as_ref())) {
            (Some(Err(why)), _) => Some(why.clone()),
            (Some(Ok(image)), _) if image.book().damage().is_some() => Some("it is damaged".to_owned()),
            (_, Some(known)) if self.journal_id().as_ref() != Some(known) => Some(format!("journal {known} is gone")),
            _ => None,
        }
    }

    /// The slices that may be in use here: granted, or to be granted.
    fn slices(&self, uid: &str) -> BTreeSet<Cidr> {
        let entry = grants::own(self.fetched.as_ref().and_then(|fetched| fetched.entry.as_ref()), uid);
        let listed = entry.into_iter().flat_map(|entry| entry.slices.iter().copied());
        listed.chain(granted(self.grants()).map(|slice| slice.cidr)).collect()
    }

    /// The name of the pool of a slice. If nobody says any more whether the network has a `network_name`, the pools that are there do.
    pub fn pool_name(&self, slice: Cidr, shared: Shared<'_>) -> Option<String> {
        let name = |named: bool| ip_pool_name(named.then_some(self.name.as_str()), shared.node, slice);
        match &self.settings {
            Some(settings) => Some(name(!settings.network_name.is_empty())),
            None => [name(true), name(false)]
                .into_iter()
                .find(|name| shared.pools.is_some_and(|pools| pools.contains_key(name))),
        }
    }

    /// The names of all its pools.
    pub fn pool_names(&self, shared: Shared<'_>) -> BTreeSet<String> {
        let slices = self.slices(shared.uid.unwrap_or_default());
        slices.into_iter().filter_map(|slice| self.pool_name(slice, shared)).collect()
    }

    /// What is to be reserved for it across ranges, and the names under which it may already be.
    pub fn reserved(&self) -> (Reserved, BTreeSet<String>) {
        let (mut wanted, mut names) = (Reserved::new(), BTreeSet::new());
        let Some(image) = self.image() else { return (wanted, names) };
        for holding in image.book().holdings().iter().filter(|holding| holding.origin.is_local()) {
            for ip in holding.ips.iter().map(|ip| ip.address) {
                match &self.settings {
                    None => names.extend(["", self.name.as_str()].map(|network| address::reservation(network, ip))),
                    Some(settings) if settings.is_overlapping && !holding.pod.is_empty() => {
                        let name = address::reservation(&settings.network_name, ip);
                        wanted.insert(name, (ip, mirror::allocation(holding)));
                    }
                    Some(_) => {}
                }
            }
        }
        (wanted, names)
    }

    /// How many addresses of each granted slice are held, and whether it takes new pods.
    pub fn usage(&self) -> Vec<(Slice, u128)> {
        let nothing = Image::default();
        let book = self.image().map_or(&nothing, |image| &**image).book();
        granted(self.grants()).map(|slice| (*slice, used(&book, slice.cidr))).collect()
    }

    /// What is to be done.
    pub fn step(&mut self, shared: Shared<'_>) -> Todo {
        let mut todo = Todo::default();
        let meta = shared.metas.and_then(|metas| metas.get(&self.name));
        if let Some(meta) = meta {
            self.settings = Some(meta.settings());
        } else if shared.metas.is_some() {
            self.fetched = None;
        }
        if let (Some(meta), Some(uid)) = (meta, shared.uid) {
            todo.fetch = self.has_to_be_read(meta, uid, shared);
        }
        if let Some(fetched) = &self.fetched {
            todo.causes.extend(fetched.doubled.iter().map(|(other, slice)| Cause {
                reason: "SliceOfTwoNodes",
                message: format!("Slice {slice} of network {} is node {other}'s too", self.name),
            }));
        }
        if let Some(why) = self.flaw() {
            let message = format!(
                "The journal of network {} on this node is lost: {why}. Nothing new is given until it is written anew from the IPPools",
                self.name
            );
            todo.causes.insert(Cause { reason: LOST, message });
            let unreadable: Vec<Cause> =
                self.pools(shared).filter_map(|(slice, pool)| self.unreadable(pool, slice)).collect();
            // The slices stay granted, so what is missing in the new journal would be given again.
            if unreadable.is_empty() && shared.pools.is_some() {
                todo.local = shared.pods.as_ref().map(|pods| Local::Mend(self.known_elsewhere(pods, shared)));
            }
            todo.causes.extend(unreadable);
            return todo;
        }
        self.step_on_sound_journal(shared, meta, &mut todo);
        let asks = todo.pools.values().filter_map(|write| write.asks.as_ref()?.parse::<Ask>().ok());
        self.asked = asks.map(Ask::epoch).fold(self.asked, u64::max);
        todo
    }

    fn step_on_sound_journal(&self, shared: Shared<'_>, meta: Option<&PoolMeta>, todo: &mut Todo) {
        let nothing = Image::default();
        let image = self.image().map_or(&nothing, |image| &**image);
        let book = image.book();
        let uid = shared.uid.unwrap_or_default();
        let Some(pools) = shared.pools else {
            // Namespaces and what was told of them need no pools.
            todo.local = self.ending();
            return;
        };
        let journal = self.journal_id().unwrap_or_default();
        let wanted_asks = self.asks(&book, uid);
        let elsewhere = |ip: IpAddr| {
            let shared = book.holdings().iter().filter(|holding| !holding.origin.is_local());
            shared.flat_map(|holding| holding.ips.iter()).any(|held| held.address == ip)
        };
        let (mut merges, mut in_use, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
        for slice in self.slices(uid) {
            let Some(name) = self.pool_name(slice, shared) else { continue };
            let kept = mirror::kept(&book, slice);
            let asks = wanted_asks.get(&slice).map(ToString::to_string);
            let write = PoolWrite {
                slice: Some(slice),
                node: shared.label.to_owned(),
                journal: journal.clone(),
                asks,
                ..PoolWrite::default()
            };
            let seen = pools.get(&name);
            let unreadable = seen.and_then(|seen| self.unreadable(seen, slice));
            let is_readable = unreadable.is_none();
            todo.causes.extend(unreadable);
            // Whatever is done about a pool of other addresses is done to addresses that nobody meant.
            let Some(seen) = seen.filter(|seen| seen.is_not_of(slice).is_none()) else {
                // One without our label no watch shows. That it is to be made, and cannot, shows whether it was mended.
                if seen.is_none_or(|seen| seen.node.as_deref() != Some(shared.label)) {
                    let agreed: Allocations = kept.iter().map(|(ip, kept)| (*ip, kept.allocation.clone())).collect();
                    let entries = agreed.iter().map(|(ip, one)| (*ip, Some(one.clone()))).collect();
                    todo.pools.insert(name, PoolWrite { entries, agreed, ..write });
                }
                continue;
            };
            let mut merge = mirror::merge(&kept, seen, &journal, |sequence| self.dead.contains(&sequence));
            merge.dispute(elsewhere);
            self.tell_of(&merge, &book, slice, todo);
            if !merge.is_for_the_journal() {
                let is_shown = |ip| kept.contains_key(&ip) || seen.allocations.contains_key(&ip) || elsewhere(ip);
                match shared.pods {
                    // What is granted already is in the journal, which knows better than the pods.
                    Some(pods) if is_readable && !granted(self.grants()).any(|one| one.cidr == slice) => {
                        let missing = self.of_pods(pods, slice, is_shown);
                        if missing.is_empty() {
                            known.insert(slice);
                        }
                        in_use.extend(missing);
                    }
                    _ => {}
                }
                let write = PoolWrite {
                    revision: Some(seen.revision),
                    entries: merge.write.clone(),
                    agreed: merge.agreed.clone(),
                    ..write
                };
                let is_labelled = seen.node.as_deref() == Some(shared.label) && seen.asks == write.asks;
                let is_sealed = seen.mirrored.as_ref() == Some(&seal(&journal, &write.agreed));
                if !write.entries.is_empty() || !is_labelled || !is_sealed {
                    todo.pools.insert(name, write);
                }
            }
            merges.push((slice, merge, seen.marks(|_| true)));
        }
        todo.local = self.for_the_journal(&merges, in_use).or_else(|| self.ending());
        let can_decide = shared.uid.is_some() && shared.metas.is_some() && (meta.is_none() || self.fetched.is_some());
        if todo.local.is_none() && can_decide {
            todo.local = self.for_the_grants(shared, &book, &known);
        }
        self.tell_of_room(&book, todo);
    }

    /// What is to be asked on the pool of each slice. No more of a range of which more was given already, and is not granted yet.
    fn asks(&self, book: &Book<'_>, uid: &str) -> BTreeMap<Cidr, Ask> {
        let Some(grants) = self.grants() else { return BTreeMap::new() };
        let ranges = self.ranges();
        let entry = grants::own(self.fetched.as_ref().and_then(|fetched| fetched.entry.as_ref()), uid);
        let is_granted = |slice: &Cidr| granted(Some(grants)).any(|granted| granted.cidr == *slice);
        let coming = entry.into_iter().flat_map(Entry::open).filter(|slice| !is_granted(slice));
        let coming: BTreeSet<Cidr> = coming.map(|slice| grants::range_of(&ranges, slice)).collect();
        let mut asks = asks::asks(grants, |slice| used(book, slice), |range| self.is_short(range, book));
        asks.retain(|slice, ask| {
            matches!(ask, Ask::Release(_)) || !coming.contains(&grants::range_of(&ranges, *slice))
        });
        asks
    }

    /// Whether a pod was refused an address of a range, and nothing changed since.
    fn is_short(&self, range: Cidr, book: &Book<'_>) -> bool {
        self.disk.shortage == Some(Shortage { range, next: book.next() })
    }

    /// What others put in or took out, and what pods have besides.
    fn for_the_journal(&self, merges: &[(Cidr, Merge, Marks)], in_use: Vec<Hold>) -> Option<Local> {
        let mut ends: BTreeMap<u64, Reason> = self.ends.iter().copied().collect();
        let mut holds = in_use;
        for (slice, merge, marks) in merges {
            ends.extend(merge.ends.iter().map(|sequence| (*sequence, Reason::Foreign)));
            holds.extend(merge.reserve.iter().map(|(ip, holder)| self.hold(*ip, holder, *slice, marks)));
        }
        let is_needed = !holds.is_empty() || merges.iter().any(|(_, merge, _)| merge.is_for_the_journal());
        is_needed.then(|| Local::Commit { ends: ends.into_iter().collect(), holds })
    }

    fn ending(&self) -> Option<Local> {
        (!self.ends.is_empty()).then(|| Local::Commit { ends: self.ends.clone(), holds: Vec::new() })
    }

    fn for_the_grants(&self, shared: Shared<'_>, book: &Book<'_>, known: &BTreeSet<Cidr>) -> Option<Local> {
        let (id, ranges) = (self.journal_id(), self.ranges());
        let said = self.settings.as_ref().map(|settings| settings.gateways.as_slice());
        let gateways = said.or(self.grants().map(|grants| grants.gateways.as_slice())).unwrap_or_default();
        let claim = Claim {
            network: &self.name,
            node: shared.node,
            uid: shared.uid.unwrap_or_default(),
            ranges: &ranges,
            gateways,
            entry: self.fetched.as_ref().and_then(|fetched| fetched.entry.as_ref()),
            journal: id.as_deref(),
            heard_at: shared.heard_at,
        };
        match grants::plan(self.grants(), claim, |slice| known.contains(&slice), |slice| used(book, slice) > 0) {
            Wanted::Keep => None,
            Wanted::Write(grants) => Some(Local::Grants(Some(grants))),
            Wanted::Remove => Some(Local::Grants(None)),
        }
    }

    /// The pools of its slices, as far as they are there.
    fn pools<'s>(&'s self, shared: Shared<'s>) -> impl Iterator<Item = (Cidr, &'s SeenPool)> {
        let slices = self.slices(shared.uid.unwrap_or_default());
        slices.into_iter().filter_map(move |slice| {
            let name = self.pool_name(slice, shared)?;
            Some((slice, shared.pools?.get(&name)?))
        })
    }

    /// Why a pool does not say who holds what of its slice, if it does not. A slice that is granted already stays so: what the pool said
    /// before is in the journal, and one wrong edit of an object should not stop the pods of a node. One that is new is not granted.
    fn unreadable(&self, pool: &SeenPool, slice: Cidr) -> Option<Cause> {
        let stray = || {
            Some(format!("\"{}\" in its spec.allocations is no offset of an address of {slice}", pool.stray.as_ref()?))
        };
        let why = pool.is_not_of(slice).or_else(stray)?;
        let message = format!("The IPPool {} of network {} cannot be read: {why}", pool.name, self.name);
        Some(Cause { reason: "PoolUnreadable", message })
    }

    /// What the pools say that this node holds, and what its pods have besides.
    fn known_elsewhere(&self, pods: &BTreeMap<String, Pod>, shared: Shared<'_>) -> Vec<Hold> {
        let mut holds = Vec::new();
        for (slice, pool) in self.pools(shared) {
            let marks = pool.marks(|_| true);
            holds.extend(pool.allocations.iter().map(|(ip, holder)| self.hold(*ip, holder, slice, &marks)));
        }
        let shown: BTreeSet<IpAddr> = holds.iter().map(|hold| hold.ip).collect();
        let slices = self.slices(shared.uid.unwrap_or_default());
        holds.extend(slices.into_iter().flat_map(|slice| self.of_pods(pods, slice, |ip| shown.contains(&ip))));
        holds
    }

    /// The addresses of a slice that pods of this node have and that are not known. What was given while the server was away was shown
    /// to nobody, but the pods say it themselves.
    fn of_pods(&self, pods: &BTreeMap<String, Pod>, slice: Cidr, is_known: impl Fn(IpAddr) -> bool) -> Vec<Hold> {
        let length = grants::range_of(&self.ranges(), slice).length();
        let mut holds: BTreeMap<IpAddr, Hold> = BTreeMap::new();
        for (name, pod) in pods.iter().filter(|(_, pod)| !pod.is_ended) {
            for (ip, ifname) in pod.ips.iter().filter(|(ip, _)| contains(slice, *ip) && !is_known(*ip)) {
                // Nobody says in which container.
                let holder = Allocation { id: String::new(), podref: name.clone(), ifname: ifname.clone() };
                holds.entry(*ip).or_insert(Hold { ip: *ip, length, holder, origin: Origin::Add });
            }
        }
        holds.into_values().collect()
    }

    /// What was written from a journal that is lost was given by this node; the rest is others'.
    fn hold(&self, ip: IpAddr, holder: &Allocation, slice: Cidr, marks: &Marks) -> Hold {
        let origin = if marks.contains(&mark(ip, holder)) { Origin::Add } else { Origin::Foreign };
        let range = grants::range_of(&self.ranges(), slice);
        Hold { ip, length: range.length(), holder: holder.clone(), origin }
    }

    fn ranges(&self) -> Vec<(Cidr, u8)> {
        let said = self.settings.iter().flat_map(|settings| settings.ranges.iter().copied());
        let only = self.fetched.iter().filter_map(|fetched| fetched.range);
        said.chain(only).collect()
    }

    fn has_to_be_read(&self, meta: &PoolMeta, uid: &str, shared: Shared<'_>) -> bool {
        let Some(fetched) = self.fetched.as_ref().filter(|fetched| fetched.uid == meta.uid) else { return true };
        if fetched.revision == meta.revision {
            return false;
        }
        let is_asking =
            |name: &String| shared.pools.and_then(|pools| pools.get(name)).is_some_and(|pool| pool.asks.is_some());
        // A pool that does not say when entries changed may have changed ours at any time.
        let changed = meta.annotations.get(CHANGED).and_then(|text| text.parse::<u64>().ok());
        grants::own(fetched.entry.as_ref(), uid).is_none_or(|entry| entry.epoch <= self.asked)
            || changed.is_none_or(|changed| changed > fetched.epoch)
            || self.pool_names(shared).iter().any(is_asking)
    }

    fn tell_of(&self, merge: &Merge, book: &Book<'_>, slice: Cidr, todo: &mut Todo) {
        for (ip, theirs) in &merge.disputed {
            let is_its = |holding: &&Holding<'_>| holding.ips.iter().any(|held| held.address == *ip);
            let mine = book.holdings().iter().find(is_its).map(|holding| holding.pod.as_ref()).unwrap_or_default();
            todo.causes.insert(Cause {
                reason: "AddressOfTwo",
                message: format!(
                    "{ip} of network {} is held by {mine} on this node, and by {} in the IPPool of {slice}",
                    self.name, theirs.podref
                ),
            });
        }
        for (ip, mine) in &merge.put_back {
            todo.put_back.insert(Cause {
                reason: "AddressInUse",
                message: format!(
                    "{ip} of network {} was taken out of the IPPool of {slice}, but {} uses it; it is put back",
                    self.name, mine.podref
                ),
            });
        }
    }

    fn tell_of_room(&self, book: &Book<'_>, todo: &mut Todo) {
        for range in self.grants().into_iter().flat_map(|grants| &grants.ranges) {
            let (reason, words) = match asks::fullness(range, |slice| used(book, slice)) {
                _ if self.is_short(range.range, book) => ("SlicesFull", "Nothing is left"),
                Fullness::Ample => continue,
                Fullness::Low => ("SlicesLow", "Little is left"),
                Fullness::Full => ("SlicesFull", "Nothing is left"),
            };
            let slices: Vec<String> = range.slices.iter().map(|slice| slice.cidr.to_string()).collect();
            let message = format!(
                "{words} of {} of network {} on this node: its slices are {}",
                range.range,
                self.name,
                slices.join(", ")
            );
            todo.causes.insert(Cause { reason, message });
        }
    }
}

fn granted(grants: Option<&Grants>) -> impl Iterator<Item = &Slice> {
    grants.into_iter().flat_map(|grants| &grants.ranges).flat_map(|range| &range.slices)
}

/// How many addresses of a slice are held.
fn used(book: &Book<'_>, slice: Cidr) -> u128 {
    mirror::kept(book, slice).len() as u128
}
