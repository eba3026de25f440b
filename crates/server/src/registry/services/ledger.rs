//! `Ledger`: what is free, in memory: pools of the ranges and grants that the store has.
//!
//! It is brought up to date from watches whenever somebody asks, and built anew from the store when a watch was lost. It makes
//! picks good; that they are right is decided by the store, in the transaction that makes a pick a grant. What was picked and
//! is not decided yet is claimed as well, so that requests at the same time do not pick the same.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use api::Errors;
use parking_lot::Mutex;
use space::Cidr;
use store::{Compare, Key, Store};
use tokio::sync::Notify;

use super::book::{Book, Suspect};
use super::decision::{self, Cluster, Decision, Refusal, Refused, Wanted, held};
use super::meters::{Meter, Meters, Scope};
use super::service::Service;
use crate::registry::grants::{Grant, Holder};

/// See the module.
pub(crate) struct Ledger {
    store: Store,
    cluster: Cluster,
    book: Mutex<Option<Book>>,
    holds: Mutex<Holds>,
    /// Rings when a hold is dropped.
    dropped: Notify,
    meters: Arc<Meters>,
}

/// The holds that there are, by number. A later one has a higher number.
#[derive(Default)]
struct Holds {
    next: u64,
    there: BTreeSet<u64>,
}

/// How much of a range is given out.
pub(crate) struct Usage {
    /// The range object.
    pub(crate) key: Key,
    /// The range, as it is written.
    pub(crate) range: String,
    /// Whether it is one of ports.
    pub(crate) is_ports: bool,
    /// Whether it gives out what it has.
    pub(crate) is_open: bool,
    pub(crate) given: u64,
    pub(crate) free: u64,
}

/// How many ports are given out, and how many can be, of all ranges together: what several have counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortUsage {
    pub(crate) given: u64,
    /// In ranges that are open.
    pub(crate) free: u64,
}

/// What was picked for a write that is under way. It is let go when this is dropped, unless it has become a grant.
pub(crate) struct Hold {
    ledger: Arc<Ledger>,
    number: u64,
    /// The Service, if it is new.
    promised: Option<Key>,
    picks: Vec<Pick>,
    begun: Instant,
}

/// Something that was picked, and where it is counted if it becomes a grant.
struct Pick {
    grant: Grant,
    scope: Scope,
    meter: Option<Arc<Meter>>,
}

impl Hold {
    /// What was picked has become a grant.
    pub(crate) fn granted(&self) {
        let took = self.begun.elapsed();
        for pick in &self.picks {
            if let Some(meter) = &pick.meter {
                meter.grant(pick.scope, took);
            }
        }
    }

    /// Something was not as it was when it was picked.
    pub(crate) fn lost(&self) {
        if !self.picks.is_empty() {
            self.ledger.meters.lose();
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.ledger.let_go(self);
    }
}

impl Ledger {
    pub(crate) fn new(store: Store, ranges: &[Cidr]) -> Self {
        let cluster = Cluster::new(ranges.iter().map(Cidr::family));
        Self {
            store,
            cluster,
            book: Mutex::new(None),
            holds: Mutex::default(),
            dropped: Notify::new(),
            meters: Arc::default(),
        }
    }

    /// What is counted of what is given out.
    pub(crate) fn meters(&self) -> &Arc<Meters> {
        &self.meters
    }

    /// Decides what a Service is given, and under which conditions on the ranges it is.
    pub(super) fn decide(
        self: &Arc<Self>,
        holder: &Holder<'_>,
        before: Option<&Service>,
        after: Service,
        faults: impl FnOnce() -> Errors,
    ) -> Result<(Decision, Vec<Compare>, Hold), Refused> {
        let begun = Instant::now();
        let mut place = self.book.lock();
        let book = self.current(&mut place)?;
        let decision = decision::decide(&self.cluster, &mut book.pools, before, after, faults, &mut dice)?;
        let mut conditions: Vec<Compare> = Vec::new();
        let mut picks = Vec::with_capacity(decision.taken.len());
        for taken in &decision.taken {
            let (condition, meter) = book.condition(taken.grant).unzip();
            if let Some(condition) = condition.filter(|condition| !conditions.contains(condition)) {
                conditions.push(condition);
            }
            book.hold(taken.grant);
            picks.push(Pick { grant: taken.grant, scope: taken.scope, meter: meter.flatten() });
        }
        let promised = before.is_none().then(|| holder.key());
        if let Some(key) = &promised {
            book.promise(key, holder.uid, held(&decision.service));
        }
        let hold = Hold { ledger: Arc::clone(self), number: self.holds.lock().add(), promised, picks, begun };
        Ok((decision, conditions, hold))
    }

    /// Waits until what is under way now is decided. Who was refused because of it can be refused no longer, or for good.
    pub(crate) async fn decided(&self) {
        let Some(last) = self.holds.lock().there.last().copied() else { return };
        loop {
            let dropped = self.dropped.notified();
            if self.holds.lock().there.first().is_none_or(|first| *first > last) {
                return;
            }
            dropped.await;
        }
    }

    /// Whether something keeps that range: it was given to a Service, and no other open range has it. Where that cannot be found
    /// out the range is kept, which does no harm.
    pub(crate) fn keeps(&self, key: &str) -> bool {
        let mut place = self.book.lock();
        let Ok(book) = self.current(&mut place) else { return true };
        let is_services =
            |grant: Grant| self.store.get(&grant.key()).is_some_and(|entry| grant.is_services(&entry.value));
        book.alone(key, is_services).is_some()
    }

    /// The Services that have it, in the same order on all servers.
    pub(super) fn having(&self, grant: Grant) -> Vec<Key> {
        let mut place = self.book.lock();
        self.current(&mut place).map(|book| book.having(grant)).unwrap_or_default()
    }

    /// The Service that has it, if that is one, and it is written, and some range has it.
    pub(super) fn sole_holder(&self, grant: Grant) -> Option<Key> {
        let mut place = self.book.lock();
        self.current(&mut place).ok().and_then(|book| book.sole_holder(grant).cloned())
    }

    /// Whether some range has it, as far as that is known.
    pub(super) fn is_within(&self, grant: Grant) -> bool {
        let mut place = self.book.lock();
        self.current(&mut place).map_or(true, |book| book.is_within(grant))
    }

    /// The ranges of ports that are open.
    pub(super) fn valid_ports(&self) -> String {
        let mut place = self.book.lock();
        self.current(&mut place).map(|book| decision::valid_ports(&book.pools.ports)).unwrap_or_default()
    }

    /// What has become suspect since this was asked last.
    pub(crate) fn suspects(&self) -> Vec<Suspect> {
        let mut place = self.book.lock();
        self.current(&mut place).map(|book| book.take_suspects().into_iter().collect()).unwrap_or_default()
    }

    /// Everything that is suspect.
    pub(crate) fn disagreements(&self) -> Vec<Suspect> {
        let mut place = self.book.lock();
        self.current(&mut place).map(|book| book.disagreements().collect()).unwrap_or_default()
    }

    /// How much of each range is given out.
    pub(crate) fn usage(&self) -> Vec<Usage> {
        let mut place = self.book.lock();
        self.current(&mut place).map(|book| book.usage()).unwrap_or_default()
    }

    /// How many ports are given out, and how many can be.
    pub(crate) fn port_usage(&self) -> PortUsage {
        let mut place = self.book.lock();
        self.current(&mut place).map(|book| book.port_usage()).unwrap_or_default()
    }

    /// Counts that something could not be given, and says which ranges could not.
    pub(super) fn refuse(&self, wanted: Wanted) -> Vec<(Key, String)> {
        let mut place = self.book.lock();
        self.current(&mut place).map(|book| book.refuse(wanted, &self.meters)).unwrap_or_default()
    }

    fn let_go(&self, hold: &Hold) {
        if !hold.picks.is_empty() || hold.promised.is_some() {
            let mut place = self.book.lock();
            if let Ok(book) = self.current(&mut place) {
                for pick in &hold.picks {
                    book.let_go(pick.grant);
                }
                if let Some(key) = &hold.promised {
                    book.forget_promise(key);
                }
            }
        }
        self.holds.lock().there.remove(&hold.number);
        self.dropped.notify_waiters();
    }

    /// The book as of what reads of the store see.
    fn current<'a>(&self, place: &'a mut Option<Book>) -> Result<&'a mut Book, Refusal> {
        if !place.as_mut().is_some_and(Book::catch_up) {
            let under_way = place.take().map(Book::close).unwrap_or_default();
            *place = Book::read(&self.store, &self.meters, under_way);
        }
        place.as_mut().ok_or_else(|| Refusal::Internal("the addresses in use cannot be read".to_owned()))
    }
}

impl Holds {
    fn add(&mut self) -> u64 {
        self.next += 1;
        self.there.insert(self.next);
        self.next
    }
}

/// 64 random bits. A machine without them picks the same point again; the store then refuses it, as it must.
fn dice() -> u64 {
    let mut bytes = [0; 8];
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use api::Object;
    use futures_util::FutureExt as _;
    use serde_json::{Value, json};
    use store::{Txn, WatchLimits, Write};

    use super::*;

    struct Rig {
        ledger: Arc<Ledger>,
        store: Store,
        _folder: tempfile::TempDir,
    }

    impl Rig {
        /// A ledger over a store with one range of two addresses, whose watches are lost after a few events.
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let watch = WatchLimits { events: 4, ..WatchLimits::default() };
            let store = Store::open(folder.path(), store::embedded::Options { watch, ..Default::default() }).unwrap();
            let ledger = Arc::new(Ledger::new(store.clone(), &[Cidr::strict("10.0.0.0/30").unwrap()]));
            let rig = Self { ledger, store, _folder: folder };
            rig.put("servicecidrs.networking.k8s.io/a", json!({"spec": {"cidrs": ["10.0.0.0/30"]}})).await;
            rig
        }

        async fn put(&self, key: &str, object: Value) {
            let value = Object::from_value(object).unwrap().encode();
            let write = Write::Put { key: key.into(), value };
            self.store.txn(Txn { compares: vec![], writes: vec![write] }).await.unwrap();
        }

        /// An address for a Service, which is held.
        fn pick(&self) -> Result<(String, Hold), Refused> {
            let spec = json!({"metadata": {"name": "web"}, "spec": {"type": "ClusterIP", "ports": [{"port": 80}]}});
            let asked = Service::read(&Object::from_value(spec).unwrap());
            let web = Holder { namespace: "n", name: "web", uid: "u" };
            let (decision, _, hold) = self.ledger.decide(&web, None, asked, Errors::new)?;
            Ok((decision.service.address, hold))
        }
    }

    #[tokio::test]
    async fn what_is_under_way_is_kept_when_a_watch_was_lost_and_let_go_after_that() {
        let rig = Rig::new().await;
        let (first, hold) = rig.pick().unwrap();
        let lagged = rig.store.stats().lagged;
        for n in 0..20 {
            rig.put(&format!("services/n/s{n}"), json!({"spec": {"type": "ExternalName"}})).await;
        }
        let (second, other) = rig.pick().unwrap();
        assert!(rig.store.stats().lagged > lagged, "the watch was lost");
        assert_ne!(first, second);
        assert!(rig.pick().is_err(), "there are two");
        drop(hold);
        assert_eq!(rig.pick().unwrap().0, first);
        drop(other);
    }

    #[tokio::test]
    async fn a_service_that_is_being_created_has_what_was_decided_and_another_of_that_name_what_it_says() {
        let rig = Rig::new().await;
        let named = |uid: &str| json!({"metadata": {"name": "web", "namespace": "n", "uid": uid}});
        for (uid, has) in [("u", true), ("x", false)] {
            let (address, _hold) = rig.pick().unwrap();
            rig.put("services/n/web", named(uid)).await;
            let having = rig.ledger.having(Grant::Address(address.parse().unwrap()));
            assert_eq!(having.iter().any(|key| **key == *"services/n/web"), has, "{uid}");
            let delete = Write::Delete { key: "services/n/web".into() };
            rig.store.txn(Txn { compares: vec![], writes: vec![delete] }).await.unwrap();
            assert_eq!(rig.ledger.having(Grant::Address(address.parse().unwrap())), []);
        }
    }

    #[tokio::test]
    async fn who_waits_for_what_is_under_way_waits_for_that_and_no_longer() {
        let rig = Rig::new().await;
        rig.ledger.decided().await;
        let (_, hold) = rig.pick().unwrap();
        let mut waiting = pin!(rig.ledger.decided());
        assert!(waiting.as_mut().now_or_never().is_none());
        let (_, later) = rig.pick().unwrap();
        drop(hold);
        assert!(waiting.now_or_never().is_some(), "what came later is not waited for");
        drop(later);
    }

    #[tokio::test]
    async fn what_is_only_picked_is_not_counted_as_given() {
        let rig = Rig::new().await;
        let counted = || rig.ledger.usage().iter().map(|one| (one.given, one.free)).collect::<Vec<_>>();
        let (address, hold) = rig.pick().unwrap();
        assert_eq!(counted(), [(0, 2)]);
        rig.put(&format!("ipaddresses.networking.k8s.io/{address}"), json!({})).await;
        assert_eq!(counted(), [(1, 1)]);
        drop(hold);
        assert_eq!(counted(), [(1, 1)]);
    }

    #[tokio::test]
    async fn what_a_service_has_is_taken_whether_it_is_written_or_not() {
        let rig = Rig::new().await;
        let service = |address: &str| json!({"spec": {"type": "ClusterIP", "clusterIP": address}});
        rig.put("services/n/web", service("10.0.0.1")).await;
        for _ in 0..20 {
            assert_eq!(rig.pick().unwrap().0, "10.0.0.2");
        }
        let first = Suspect::Grant(Grant::Address([10, 0, 0, 1].into()));
        assert_eq!(rig.ledger.suspects(), std::slice::from_ref(&first));
        assert_eq!((rig.ledger.suspects(), rig.ledger.disagreements()), (vec![], vec![first]));
        rig.put("ipaddresses.networking.k8s.io/10.0.0.1", json!({})).await;
        assert_eq!((rig.ledger.suspects(), rig.ledger.disagreements()), (vec![], vec![]));
        assert!(rig.ledger.keeps("servicecidrs.networking.k8s.io/a"));
    }
}
