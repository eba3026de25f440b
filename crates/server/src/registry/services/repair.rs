//! Repair: what is written of addresses and ports is made to agree with what Services say they have.
//!
//! Writes of this server cannot make them disagree. Objects that were restored, imported or edited in the store can. The ledger
//! sees that ([`Suspect`]), `mending` says what is to be done, and here it is done, under the condition that all is as it was seen.
//! At the start everything is looked at, and then what changes (`lifecycle`).

use std::sync::Arc;
use std::time::Duration;

use api::Object;
use jiff::Timestamp;
use serde_json::json;
use store::{Compare, Entry, Outcome, Range, Store, Txn, Write};
use tracing::info;

use super::book::Suspect;
use super::mending::{self, Because, Found, Notice, Verdict, Written, judge};
use super::meters::{Fault, Repairs};
use super::service::Service;
use super::{having, held_by};
use crate::machinery::Failure;
use crate::registry::grants::{Grant, Holder, Parent};
use crate::registry::telling::{Told, reference, tell};
use crate::registry::wording::is_said;
use crate::registry::{Surroundings, ip_addresses, node_ports};

/// What can be done about a suspect now.
pub(crate) enum Mending {
    Nothing,
    /// It is to be looked at again when so much time has passed.
    Later(Duration),
    Now(Box<Mend>),
}

/// Something to be mended, and what people are told.
pub(crate) struct Mend {
    sort: Sort,
    repair: Option<Repair>,
    /// What somebody has to decide.
    told: Vec<(Fault, Told)>,
}

/// What mends something.
struct Repair {
    txn: Txn,
    /// What is wrong.
    fault: Fault,
    /// What is told if it is mended.
    told: Option<Told>,
}

/// What became of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mended {
    /// It is mended.
    Well,
    /// There was nothing that could be mended.
    Told,
    /// Something changed in the meantime, and need not be suspect for that: look again.
    Lost,
}

/// How long something stays that is written of a Service which has it not: somebody may be about to make the Service.
const LEAK_GRACE: Duration = Duration::from_mins(1);

/// How often something is looked at again that changes while it is mended, before the server starts all the same.
const MOST_TRIES: usize = 8;

/// Mends what can be mended. What cannot, and what is too new for anybody to say whether it is wrong, is for whoever tends the store, who
/// looks at everything again.
pub(crate) async fn repair(around: &Surroundings) -> Result<(), Failure> {
    let mut suspects = around.ledger.disagreements();
    // That an object names the wrong one is seen only in the object.
    for prefix in [ip_addresses::PREFIX, node_ports::PREFIX] {
        let entries = all(&around.store, prefix).await;
        suspects.extend(entries.iter().filter_map(|entry| Grant::of(&entry.key)).map(Suspect::Grant));
    }
    let mut mended = 0_usize;
    for suspect in suspects {
        for _ in 0..MOST_TRIES {
            let Mending::Now(mend) = mend(around, &suspect)? else { break };
            match (Mend { told: Vec::new(), ..*mend }).perform(around).await? {
                Mended::Lost => {}
                Mended::Told => break,
                Mended::Well => {
                    mended += 1;
                    break;
                }
            }
        }
    }
    if mended > 0 {
        info!(mended, "what is written of addresses and ports agrees again with what Services have");
    }
    Ok(())
}

async fn all(store: &Store, prefix: &str) -> Vec<Arc<Entry>> {
    let prefix = format!("{prefix}/");
    store.range(Range { prefix: &prefix, ..Range::default() }).await.map(|page| page.entries).unwrap_or_default()
}

/// What can be done about a suspect.
pub(crate) fn mend(around: &Surroundings, suspect: &Suspect) -> Result<Mending, Failure> {
    match suspect {
        Suspect::Grant(grant) => of_grant(around, *grant),
        Suspect::Service(key) => Ok(of_service(&around.store, key)),
    }
}

fn of_service(store: &Store, key: &str) -> Mending {
    let Some(object) = store.get(key).and_then(|entry| Object::parse(&entry.value).ok()) else {
        return Mending::Nothing;
    };
    let service = Service::read_stored(&object);
    let sort = Sort::Addresses;
    let tell = |text| (Fault::Invalid, about_service(&object, mending::not_valid(text), sort));
    let told: Vec<(Fault, Told)> = service.flaws().map(tell).collect();
    if told.is_empty() { Mending::Nothing } else { Mending::Now(Box::new(Mend { sort, repair: None, told })) }
}

fn of_grant(around: &Surroundings, grant: Grant) -> Result<Mending, Failure> {
    let store = &around.store;
    // The object first: whoever has seen it has seen the Service that it was written with. The other way round, a Service that
    // comes between the two looks would seem not to be there, and its grant to be nobody's.
    let entry = store.get(&grant.key());
    if entry.as_ref().is_some_and(|entry| is_well(around, grant, entry)) {
        return Ok(Mending::Nothing);
    }
    let services: Vec<(Arc<Entry>, Object)> =
        around.ledger.having(grant).iter().filter_map(|key| having(store, key, grant)).collect();
    let holders: Vec<Holder<'_>> = services.iter().map(|(_, service)| Holder::of(service)).collect();
    let object = entry.as_ref().and_then(|entry| grant.read(&entry.value));
    let found = match (&entry, &object) {
        (None, _) => Found::Nothing,
        (Some(_), None) => Found::Unreadable,
        (Some(_), Some(object)) => Found::Written(written(grant, object, &holders)),
    };
    let same = entry.as_ref().map_or(Compare::Absent(grant.key()), |entry| Compare::At(grant.key(), entry.revision));
    let sort = Sort::of(grant);

    let mut told = Vec::new();
    let mut owner = object.as_ref().and_then(|object| grant.holder(object));
    let repair = match judge(&holders, found, LEAK_GRACE) {
        Verdict::Nothing => None,
        Verdict::Later(time) => return Ok(Mending::Later(time)),
        Verdict::Give(number, because) => {
            let ((service, parsed), holder) = (&services[number], &holders[number]);
            let write = match &object {
                Some(object) => grant.hand_over(object, holder)?,
                None => grant.take(holder).1,
            };
            owner = Some(*holder);
            let compares = vec![same, Compare::At(service.key.clone(), service.revision)];
            let fault = if because == Because::Unreadable { Fault::Unknown } else { Fault::Repair };
            let notice = mending::given(grant, holder, because);
            let told = notice.map(|notice| about_service(parsed, notice, sort));
            Some(Repair { txn: Txn { compares, writes: vec![write] }, fault, told })
        }
        Verdict::Remove => match object.clone() {
            Some(object) => leaked(store, grant, same, object)?,
            None => Some(unreadable(grant, same)),
        },
    };
    for ((_, service), holder) in services.iter().zip(&holders) {
        if !owner.is_some_and(|owner| owner.is(holder)) {
            told.push((Fault::Duplicate, about_service(service, mending::shared(grant), sort)));
        }
        if !around.ledger.is_within(grant) {
            let notice = mending::out_of_range(grant, &around.ledger.valid_ports());
            told.push((Fault::OutOfRange, about_service(service, notice, sort)));
        }
    }
    let is_well = repair.is_none() && told.is_empty();
    Ok(if is_well { Mending::Nothing } else { Mending::Now(Box::new(Mend { sort, repair, told })) })
}

/// What removes an object that says it is a Service's, unless the Service that it names has it after all.
fn leaked(store: &Store, grant: Grant, same: Compare, object: Object) -> Result<Option<Repair>, Failure> {
    let mut compares = vec![same];
    let mut is_there = false;
    if let Some(named) = grant.holder(&object) {
        let service = store.get(&named.key());
        if service.as_ref().is_some_and(|service| held_by(&service.value).contains(&grant)) {
            return Ok(None);
        }
        is_there = service.is_some();
        compares.push(
            service.map_or(Compare::Absent(named.key()), |service| Compare::At(service.key.clone(), service.revision)),
        );
    }
    let told = match grant {
        Grant::Address(address) => {
            let notice = match grant.holder(&object) {
                Some(named) => mending::removed(address, &named, is_there),
                None => mending::of_no_service(address, &Parent::of(&object)),
            };
            Some(about_grant(grant, &object, notice))
        }
        Grant::Port(_) => None,
    };
    let write = grant.remove(object)?;
    Ok(write.map(|write| Repair { txn: Txn { compares, writes: vec![write] }, fault: Fault::Leak, told }))
}

/// What removes something that cannot be read and that no Service has.
fn unreadable(grant: Grant, same: Compare) -> Repair {
    let mut object = Object::default();
    object.set(&["metadata", "name"], json!(grant.name()));
    let told = about_grant(grant, &object, mending::unreadable(grant));
    let txn = Txn { compares: vec![same], writes: vec![Write::Delete { key: grant.key() }] };
    Repair { txn, fault: Fault::Unknown, told: Some(told) }
}

/// Whether one Service has what is written, and that is what is written. Nearly always it is, and then there is nothing to judge.
fn is_well(around: &Surroundings, grant: Grant, entry: &Entry) -> bool {
    let service = around.ledger.sole_holder(grant).and_then(|key| around.store.get(&key));
    service.is_some_and(|service| is_said(grant, &entry.value, &service.key, &service.value))
}

/// What an object says of a grant that those Services have.
fn written<'a>(grant: Grant, object: &'a Object, holders: &[Holder<'_>]) -> Written<'a> {
    let names = grant.holder(object);
    let holder = holders.iter().find(|holder| names.is_some_and(|names| names.is(holder)));
    let is_right = holder.is_none_or(|holder| {
        let mut right = object.clone();
        grant.assign(&mut right, holder);
        right == *object
    });
    let made = object.text(&["metadata", "creationTimestamp"]).parse::<Timestamp>().unwrap_or(Timestamp::UNIX_EPOCH);
    // A clock that ran ahead makes nothing new for ever.
    let age = Timestamp::now().duration_since(made).unsigned_abs();
    Written { names, is_own: grant.is_own(object), is_right, age }
}

/// Which of kube-apiserver's repair loops looks after it.
#[derive(Clone, Copy)]
enum Sort {
    Addresses,
    Ports,
}

impl Sort {
    fn of(grant: Grant) -> Self {
        match grant {
            Grant::Address(_) => Self::Addresses,
            Grant::Port(_) => Self::Ports,
        }
    }

    /// Where it is counted.
    fn repairs(self, around: &Surroundings) -> &Repairs {
        match self {
            Self::Addresses => &around.ledger.meters().address_repairs,
            Self::Ports => &around.ledger.meters().port_repairs,
        }
    }
}

fn about_service(service: &Object, notice: Notice, sort: Sort) -> Told {
    let action = match sort {
        Sort::Addresses => "ClusterIPAllocation",
        Sort::Ports => "PortAllocation",
    };
    about(reference(service, "v1", "Service"), action, notice, sort)
}

fn about_grant(grant: Grant, object: &Object, notice: Notice) -> Told {
    let (regarding, action) = match grant {
        Grant::Address(_) => (reference(object, "networking.k8s.io/v1", "IPAddress"), "IPAddressAllocation"),
        Grant::Port(_) => (reference(object, "ipam.cadastre.dev/v1alpha1", "NodePort"), "PortAllocation"),
    };
    about(regarding, action, notice, Sort::of(grant))
}

fn about(regarding: serde_json::Value, action: &'static str, notice: Notice, sort: Sort) -> Told {
    let reporter = match sort {
        Sort::Addresses => "ipallocator-repair-controller",
        Sort::Ports => "portallocator-repair-controller",
    };
    let Notice { reason, note } = notice;
    Told { regarding, action, reporter, reason: reason.to_owned(), note, occasion: String::new(), is_shared: false }
}

impl Mend {
    /// Does it.
    pub(crate) async fn perform(self, around: &Surroundings) -> Result<Mended, Failure> {
        let repairs = self.sort.repairs(around);
        let mut mended = Mended::Told;
        if let Some(Repair { txn, fault, told }) = self.repair {
            let outcome = around.store.txn(txn).await.inspect_err(|_| repairs.failed())?;
            let Outcome::Committed { revision, .. } = outcome else { return Ok(Mended::Lost) };
            repairs.found(fault);
            mended = Mended::Well;
            if let Some(told) = told {
                // Each time that it is mended is another.
                let told = Told { occasion: revision.to_string(), ..told };
                tell(around, &told).await;
            }
        }
        for (fault, told) in &self.told {
            repairs.found(*fault);
            tell(around, told).await;
        }
        Ok(mended)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use space::Cidr;

    use super::*;

    async fn put(around: &Surroundings, key: &str, object: Value) {
        let write = Write::Put { key: key.into(), value: Object::from_value(object).unwrap().encode() };
        around.store.txn(Txn { compares: vec![], writes: vec![write] }).await.unwrap();
    }

    fn now(around: &Surroundings, grant: Grant) -> Mend {
        match mend(around, &Suspect::Grant(grant)).unwrap() {
            Mending::Now(mend) => *mend,
            Mending::Nothing | Mending::Later(_) => panic!("there is something to be mended"),
        }
    }

    #[tokio::test]
    async fn what_changes_while_it_is_mended_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), store::embedded::Options::default()).unwrap();
        let around = Surroundings::new(store, &[Cidr::strict("10.0.0.0/30").unwrap()], true);
        put(&around, "servicecidrs.networking.k8s.io/a", json!({"spec": {"cidrs": ["10.0.0.0/30"]}})).await;
        let service = |label: &str| {
            json!({
                "metadata": {"namespace": "n", "name": "web", "labels": {"a": label}},
                "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1"},
            })
        };
        put(&around, "services/n/web", service("before")).await;
        let grant = Grant::Address([10, 0, 0, 1].into());
        let late = now(&around, grant);
        put(&around, "services/n/web", service("after")).await;
        assert_eq!(late.perform(&around).await.unwrap(), Mended::Lost);
        assert_eq!(around.ledger.disagreements(), [Suspect::Grant(grant)]);
        assert_eq!(now(&around, grant).perform(&around).await.unwrap(), Mended::Well);
        assert_eq!(around.ledger.disagreements(), []);
    }
}
