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
use api::{Errors, Kind, Object};
use http::StatusCode;
use store::{Compare, Entry, Store};

pub(crate) use self::book::Suspect;
pub(crate) use self::decision::Wanted;
pub(crate) use self::exhaustion::unmet;
pub(crate) use self::ledger::{Hold, Ledger, Usage};
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

/// The behaviour of Services.
pub(crate) struct Services;

impl Behaviour for Services {
    fn accompany(&self, around: &Surroundings, kind: &Kind, change: Change<'_>) -> Result<Along, Failure> {
        match change {
            Change::Create(new) => give(around, kind, None, new),
            Change::Update { old, new } => give(around, kind, Some(old), new),
            Change::Delete(old) => {
                let mut along = Along::default();
                let freed = held(&Service::read_stored(old));
                free(around, &Holder::of(old), &freed, &mut along)?;
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
    for taken in decision.taken {
        let (condition, write) = taken.grant.take(&holder);
        along.compares.push(condition);
        along.writes.push(write);
    }
    free(around, &holder, &decision.freed, &mut along)?;
    along.given = Given::between(asked, decision.service).map(Box::new);
    Ok(along)
}

fn free(around: &Surroundings, holder: &Holder<'_>, freed: &[Grant], along: &mut Along) -> Result<(), Failure> {
    let own = holder.key();
    for grant in freed {
        let mut others = around.ledger.having(*grant).into_iter().filter(|key| *key != own);
        let heir = others.find_map(|key| having(&around.store, &key, *grant));
        let taker = heir.as_ref().map(|(_, service)| Holder::of(service));
        let (condition, write) = grant.free(&around.store, holder, taker.as_ref())?;
        along.compares.push(condition);
        if write.is_some() {
            // It may be the heir of much.
            let same = heir.map(|(entry, _)| Compare::At(entry.key.clone(), entry.revision));
            along.compares.extend(same.filter(|same| !along.compares.contains(same)));
        }
        along.writes.extend(write);
    }
    Ok(())
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
