//! `Ledger`: what is free, in memory: pools of the ranges and grants that the store has.
//!
//! It is brought up to date from watches whenever somebody asks, and built anew from the store when a watch was lost. It makes
//! picks good; that they are right is decided by the store, in the transaction that makes a pick a grant. What was picked and
//! is not decided yet is claimed as well, so that requests at the same time do not pick the same.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::{Errors, Object, names};
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use space::{Cidr, Pool, RangeId};
use store::{Compare, Event, Key, Range, Revision, Store, Watch, What};

use super::decision::{self, Cluster, Decision, Pools, Refusal};
use super::service::Service;
use crate::registry::grants::Grant;
use crate::registry::service_cidrs::{self, Usable};
use crate::registry::{ip_addresses, node_ports};

/// What is watched.
const PREFIXES: [&str; 4] = [ip_addresses::PREFIX, node_ports::PREFIX, service_cidrs::PREFIX, node_ports::RANGES];

/// See the module.
pub(crate) struct Ledger {
    store: Store,
    cluster: Cluster,
    book: Mutex<Option<Book>>,
}

/// The state of the ledger.
struct Book {
    pools: Pools,
    ranges: HashMap<Key, Known>,
    /// What was picked and is not decided yet, and whether it is in the store as well.
    under_way: HashMap<Grant, bool>,
    watches: Vec<Watch>,
}

/// A range object that is known.
struct Known {
    revision: Revision,
    is_open: bool,
    text: Vec<String>,
    v4: Option<Part<u32>>,
    v6: Option<Part<u128>>,
    ports: Option<Part<u16>>,
}

/// How much of a range is given out.
pub(crate) struct Usage {
    /// The range, as it is written.
    pub(crate) range: String,
    /// Whether it is one of ports.
    pub(crate) is_ports: bool,
    pub(crate) given: u64,
    pub(crate) free: u64,
}

/// A range of one sort, and how the pool knows it.
type Part<P> = (RangeId, space::Range<P>);

/// What was picked for a write that is under way. It is let go when this is dropped, unless it has become a grant.
pub(crate) struct Hold {
    ledger: Arc<Ledger>,
    grants: Vec<Grant>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.ledger.let_go(&self.grants);
    }
}

impl Ledger {
    pub(crate) fn new(store: Store, ranges: &[Cidr]) -> Self {
        let cluster = Cluster::new(ranges.iter().map(Cidr::family));
        Self { store, cluster, book: Mutex::new(None) }
    }

    /// Decides what a Service is given, and under which conditions on the ranges it is.
    pub(super) fn decide(
        self: &Arc<Self>,
        before: Option<&Service>,
        after: Service,
        faults: impl FnOnce() -> Errors,
    ) -> Result<(Decision, Vec<Compare>, Hold), Refusal> {
        let mut place = self.book.lock();
        let book = self.current(&mut place)?;
        let decision = decision::decide(&self.cluster, &mut book.pools, before, after, faults, &mut dice)?;
        let mut conditions: Vec<Compare> = Vec::new();
        for grant in &decision.taken {
            if let Some(condition) = book.condition(*grant).filter(|condition| !conditions.contains(condition)) {
                conditions.push(condition);
            }
            book.under_way.insert(*grant, false);
        }
        let hold = Hold { ledger: Arc::clone(self), grants: decision.taken.clone() };
        Ok((decision, conditions, hold))
    }

    /// Something that was given to a Service out of that range and that no other open range has: what keeps the range.
    pub(crate) fn alone(&self, key: &str) -> Option<Grant> {
        self.others(key).err()
    }

    /// That the ranges are as they are which have what was given to Services out of that range; or what none of them has.
    pub(crate) fn others(&self, key: &str) -> Result<Vec<Compare>, Grant> {
        let mut place = self.book.lock();
        // Without a book nothing is known of what was given, and a range that is kept does no harm.
        let Ok(book) = self.current(&mut place) else { return Ok(Vec::new()) };
        let mut conditions = Vec::new();
        for grant in book.given(key) {
            let is_services = self.store.get(&grant.key()).is_some_and(|entry| grant.is_services(&entry.value));
            match book.condition_beside(grant, key) {
                Some(condition) if !conditions.contains(&condition) => conditions.push(condition),
                None if is_services => return Err(grant),
                _ => {}
            }
        }
        Ok(conditions)
    }

    /// How much of each range is given out.
    pub(crate) fn usage(&self) -> Vec<Usage> {
        let mut place = self.book.lock();
        self.current(&mut place).map(|book| book.usage()).unwrap_or_default()
    }

    fn let_go(&self, grants: &[Grant]) {
        if grants.is_empty() {
            return;
        }
        let mut place = self.book.lock();
        let Ok(book) = self.current(&mut place) else { return };
        for grant in grants {
            if book.under_way.remove(grant) == Some(false) {
                book.pools.release(*grant);
            }
        }
    }

    /// The book as of what reads of the store see.
    fn current<'a>(&self, place: &'a mut Option<Book>) -> Result<&'a mut Book, Refusal> {
        if !place.as_mut().is_some_and(Book::catch_up) {
            let under_way = place.take().map(|book| book.under_way).unwrap_or_default();
            *place = Book::read(&self.store, under_way);
        }
        place.as_mut().ok_or_else(|| Refusal::Internal("the addresses in use cannot be read".to_owned()))
    }
}

impl Book {
    /// What the store has. Reads of the present are answered from memory, so there is nothing to wait for.
    fn read(store: &Store, mut under_way: HashMap<Grant, bool>) -> Option<Self> {
        for stored in under_way.values_mut() {
            *stored = false;
        }
        let mut book = Self { pools: Pools::default(), ranges: HashMap::new(), under_way, watches: Vec::new() };
        for prefix in PREFIXES {
            let prefix = format!("{prefix}/");
            let page = store.range(Range { prefix: &prefix, ..Range::default() }).now_or_never()?.ok()?;
            for entry in &page.entries {
                book.put(&entry.key, &entry.value, entry.revision);
            }
            book.watches.push(store.watch(&prefix, page.revision).ok()?);
        }
        for grant in book.under_way.keys() {
            book.pools.adopt(*grant);
        }
        Some(book)
    }

    /// Takes in what has happened. False if that cannot be found out any more.
    fn catch_up(&mut self) -> bool {
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
        match event.what {
            What::Put => self.put(&entry.key, &entry.value, entry.revision),
            What::Delete => self.delete(&entry.key),
        }
    }

    fn put(&mut self, key: &Key, value: &[u8], revision: Revision) {
        match Grant::of(key) {
            Some(grant) => {
                if let Some(stored) = self.under_way.get_mut(&grant) {
                    *stored = true;
                }
                self.pools.adopt(grant);
            }
            None => self.put_range(key, value, revision),
        }
    }

    fn delete(&mut self, key: &Key) {
        match Grant::of(key) {
            Some(grant) => match self.under_way.get_mut(&grant) {
                Some(stored) => *stored = false,
                None => self.pools.release(grant),
            },
            None => {
                if let Some(known) = self.ranges.remove(key) {
                    self.remove(&known);
                }
            }
        }
    }

    fn put_range(&mut self, key: &Key, value: &[u8], revision: Revision) {
        let Ok(object) = Object::parse(value) else { return };
        let text = range_text(&object);
        let is_open = service_cidrs::is_open(&object);
        if self.ranges.get(key).is_none_or(|known| known.text != text) {
            if let Some(known) = self.ranges.remove(key) {
                self.remove(&known);
            }
            let known = self.add(text, revision);
            self.ranges.insert(Arc::clone(key), known);
        }
        let Some(known) = self.ranges.get_mut(key) else { return };
        known.revision = revision;
        known.is_open = is_open;
        let _ = known.v4.map(|(id, _)| self.pools.v4.set_open(id, is_open));
        let _ = known.v6.map(|(id, _)| self.pools.v6.set_open(id, is_open));
        let _ = known.ports.map(|(id, _)| self.pools.ports.set_open(id, is_open));
    }

    fn add(&mut self, text: Vec<String>, revision: Revision) -> Known {
        let mut known = Known { revision, is_open: true, text: Vec::new(), v4: None, v6: None, ports: None };
        for text in &text {
            if let Some((first, last)) = names::port_range(text) {
                let range = space::Range::ports(first, last).ok();
                known.ports = range.map(|range| (self.pools.ports.add_range(range), range));
                continue;
            }
            match service_cidrs::usable(text) {
                Ok(Usable::V4(range)) => known.v4 = Some((self.pools.v4.add_range(range), range)),
                Ok(Usable::V6(range)) => known.v6 = Some((self.pools.v6.add_range(range), range)),
                Err(_) => {}
            }
        }
        known.text = text;
        known
    }

    fn remove(&mut self, known: &Known) {
        let _ = known.v4.map(|(id, _)| self.pools.v4.remove_range(id));
        let _ = known.v6.map(|(id, _)| self.pools.v6.remove_range(id));
        let _ = known.ports.map(|(id, _)| self.pools.ports.remove_range(id));
    }

    /// That a range which has the grant is as it is now, so that it still gives out what it has.
    fn condition(&self, grant: Grant) -> Option<Compare> {
        self.condition_beside(grant, "")
    }

    /// The same, of any range but one.
    fn condition_beside(&self, grant: Grant, beside: &str) -> Option<Compare> {
        let has = |known: &Known| match grant {
            Grant::Address(IpAddr::V4(address)) => covers(known.v4, address.into()),
            Grant::Address(IpAddr::V6(address)) => covers(known.v6, address.into()),
            Grant::Port(port) => covers(known.ports, port),
        };
        let fits = |(key, known): &(&Key, &Known)| known.is_open && &***key != beside && has(known);
        let (key, known) = self.ranges.iter().find(fits)?;
        Some(Compare::At(Arc::clone(key), known.revision))
    }

    fn usage(&self) -> Vec<Usage> {
        fn of<P: space::Word>(pool: &Pool<P>, part: Option<Part<P>>, range: String) -> Option<Usage> {
            let counts = pool.counts(part?.0).ok()?;
            let number = |count: u128| u64::try_from(count).unwrap_or(u64::MAX);
            Some(Usage { range, is_ports: false, given: number(counts.claimed), free: number(counts.free) })
        }
        let mut all = Vec::new();
        for known in self.ranges.values() {
            for text in &known.text {
                let is_v6 = text.contains(':');
                let v4 = of(&self.pools.v4, known.v4.filter(|_| !is_v6), text.clone());
                let v6 = of(&self.pools.v6, known.v6.filter(|_| is_v6), text.clone());
                let ports = of(&self.pools.ports, known.ports, text.clone());
                all.extend(v4.into_iter().chain(v6));
                all.extend(ports.map(|usage| Usage { is_ports: true, ..usage }));
            }
        }
        all.sort_unstable_by(|a, b| a.range.cmp(&b.range));
        all
    }

    /// What is claimed in a range.
    fn given(&self, key: &str) -> Vec<Grant> {
        let Some(known) = self.ranges.get(key) else { return Vec::new() };
        let pools = &self.pools;
        let v4 = known.v4.map(|(_, range)| pools.v4.claimed(range.first(), range.last()));
        let v6 = known.v6.map(|(_, range)| pools.v6.claimed(range.first(), range.last()));
        let ports = known.ports.map(|(_, range)| pools.ports.claimed(range.first(), range.last()));
        let v4 = v4.into_iter().flatten().map(|bits| Grant::Address(IpAddr::V4(bits.into())));
        let v6 = v6.into_iter().flatten().map(|bits| Grant::Address(IpAddr::V6(bits.into())));
        v4.chain(v6).chain(ports.into_iter().flatten().map(Grant::Port)).collect()
    }
}

fn covers<P: PartialOrd + Copy + space::Word>(part: Option<Part<P>>, point: P) -> bool {
    part.is_some_and(|(_, range)| range.first() <= point && point <= range.last())
}

/// The ranges of a range object, as they are written.
fn range_text(object: &Object) -> Vec<String> {
    let cidrs = object.at(&["spec", "cidrs"]).and_then(Value::as_array).into_iter().flatten();
    let ports = object.at(&["spec", "ports"]);
    cidrs.chain(ports).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// 64 random bits. A machine without them picks the same point again; the store then refuses it, as it must.
fn dice() -> u64 {
    let mut bytes = [0; 8];
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
