//! Services: what they are given comes and goes with them, in one transaction.
//!
//! `decision` says what a Service gets, as a pure function of pools; `ledger` keeps the pools. Here the decision becomes
//! conditions and writes of the transaction that writes the Service. Nothing is given before that transaction, and nothing is
//! freed but by it, so there is nothing to undo when it does not happen.

mod addresses;
mod book;
mod decision;
mod exhaustion;
mod families;
mod ledger;
mod mending;
mod meters;
mod ports;
mod repair;
mod service;
mod stored;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::kinds::validate_service_addresses;
use api::{Errors, Kind, Object, Path};
use http::StatusCode;
use store::{Compare, Entry, Store, TXN_OPS};

pub(crate) use self::book::Suspect;
pub(crate) use self::decision::Wanted;
pub(crate) use self::exhaustion::unmet;
pub(crate) use self::ledger::{Hold, Ledger, PortUsage, Usage};
pub(crate) use self::meters::Meters;
pub(crate) use self::repair::{Mended, Mending, mend, repair};
pub(crate) use self::service::Given;

use self::decision::{Refusal, Refused, held};
use self::service::Service;
use super::grants::{Grant, Holder};
use super::telling::reference;
use super::{Along, Behaviour, Change, Surroundings, Unmet};
use crate::machinery::Failure;

/// Where Services are stored.
pub(crate) const PREFIX: &str = "services";

/// The most conditions that may come along with a change of a Service. The Service and its namespace have one each.
const MOST_COMPARES: usize = TXN_OPS - 2;

/// As many conditions as there are on one thing that is freed, or more: on its object, and on the Service that has it then.
const COMPARES_OF_FREED: usize = 2;

/// The behaviour of Services.
pub(crate) struct Services;

impl Behaviour for Services {
    fn accompany(&self, around: &Surroundings, kind: &Kind, change: Change<'_>) -> Result<Along, Failure> {
        match change {
            Change::Create(new) => give(around, kind, None, new),
            Change::Update { old, new } => give(around, kind, Some(old), new),
            Change::Delete(old) => {
                let mut along = Along::default();
                for grant in held(&Service::read_stored(old)) {
                    // What does not fit is left to repair: when the Service is gone, nobody has it.
                    if along.compares.len() + COMPARES_OF_FREED > MOST_COMPARES {
                        break;
                    }
                    free(around, &Holder::of(old), grant, &mut along)?;
                }
                Ok(along)
            }
        }
    }
}

/// The Service of that name, if it has that.
pub(crate) fn find(store: &Store, holder: &Holder<'_>, grant: Grant) -> Option<Object> {
    having(store, &holder.key(), grant).map(|(_, service)| service)
}

/// The Service at that key, if it has that.
fn having(store: &Store, key: &str, grant: Grant) -> Option<(Arc<Entry>, Object)> {
    let entry = store.get(key)?;
    let service = Object::parse(&entry.value).ok()?;
    held(&Service::read_stored(&service)).contains(&grant).then_some((entry, service))
}

/// What a Service has, as it is stored.
pub(crate) fn held_by(value: &[u8]) -> Vec<Grant> {
    held(&Service::parse_stored(value))
}

/// What a Service becomes, and what comes and goes with that.
fn give(around: &Surroundings, kind: &Kind, old: Option<&Object>, new: &Object) -> Result<Along, Failure> {
    let before = old.map(Service::read_stored);
    let asked = Service::read(new);
    let faults = || {
        let mut errors = Errors::new();
        validate_service_addresses(new, old, &mut errors);
        errors
    };
    let holder = Holder::of(new);
    let (decision, conditions, hold) = around
        .ledger
        .decide(&holder, before.as_ref(), asked.clone(), faults)
        .map_err(|refused| failure(kind, new, refused))?;
    let mut along = Along { compares: conditions, hold: Some(hold), ..Along::default() };
    for taken in &decision.taken {
        let (condition, write) = taken.grant.take(&holder);
        along.compares.push(condition);
        along.writes.push(write);
    }
    for grant in &decision.freed {
        free(around, &holder, *grant, &mut along)?;
    }
    if along.compares.len() > MOST_COMPARES {
        return Err(failure(kind, new, too_many(decision.taken.len() + decision.freed.len())));
    }
    along.given = Given::between(asked, decision.service).map(Box::new);
    Ok(along)
}

fn free(around: &Surroundings, holder: &Holder<'_>, grant: Grant, along: &mut Along) -> Result<(), Failure> {
    let own = holder.key();
    let mut others = around.ledger.having(grant).into_iter().filter(|key| *key != own);
    let heir = others.find_map(|key| having(&around.store, &key, grant));
    let taker = heir.as_ref().map(|(_, service)| Holder::of(service));
    let (condition, write) = grant.free(&around.store, holder, taker.as_ref())?;
    along.compares.push(condition);
    if write.is_some() {
        // It may be the heir of much.
        let same = heir.map(|(entry, _)| Compare::At(entry.key.clone(), entry.revision));
        along.compares.extend(same.filter(|same| !along.compares.contains(same)));
    }
    along.writes.extend(write);
    Ok(())
}

/// Why a Service cannot gain and lose so many addresses and ports at once.
fn too_many(count: usize) -> Refused {
    let mut errors = Errors::new();
    let why = format!(
        "{count} addresses and node ports cannot be given and freed in one write, which has room for about 120; \
         add or remove at most 100 at a time"
    );
    errors.invalid_whole(&Path::new("spec").child("ports"), why);
    Refusal::Invalid(errors).into()
}

fn failure(kind: &Kind, service: &Object, refused: Refused) -> Failure {
    let mut failure = match refused.why {
        Refusal::Invalid(errors) => Failure::invalid(kind, service.name(), &errors),
        Refusal::Internal(why) => Failure::internal(why),
        Refusal::Plain(why) => Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", why),
    };
    failure.details.unmet = refused.wanted.map(|wanted| Unmet { wanted, service: reference(service, "v1", "Service") });
    failure
}
