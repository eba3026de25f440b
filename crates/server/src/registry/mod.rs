//! Kinds that need more than storage: one file each. The machinery asks here, and knows none of them by name.

pub(crate) mod bootstrap;
pub(crate) mod capacity;
pub(crate) mod extent;
pub(crate) mod from_flags;
pub(crate) mod grants;
pub(crate) mod identity;
pub(crate) mod ip_addresses;
pub(crate) mod namespaces;
pub(crate) mod node_ports;
mod pods;
mod reviews;
pub(crate) mod service_cidrs;
pub(crate) mod services;
pub(crate) mod telling;
mod wording;

use std::sync::Arc;

use api::{Errors, Kind, Object};
use serde_json::Value;
use space::Cidr;
use store::{Compare, Store, Write};

pub(crate) use self::bootstrap::{prepare, prepare_ranges};
use crate::access::User;
use crate::machinery::{Failure, Machinery};

/// What writes are done in: the store, and what is known of it beyond what is stored.
pub(crate) struct Surroundings {
    pub(crate) store: Store,
    pub(crate) ledger: Arc<services::Ledger>,
    /// Whether the server does by itself what elsewhere is left to controllers.
    pub(crate) tended: bool,
}

impl Surroundings {
    /// Writes in that store, in a cluster whose Services are of those families.
    pub(crate) fn new(store: Store, service_ranges: &[Cidr], tended: bool) -> Self {
        let ledger = Arc::new(services::Ledger::new(store.clone(), service_ranges));
        Self { store, ledger, tended }
    }
}

/// A change of an object.
#[derive(Clone, Copy)]
pub(crate) enum Change<'a> {
    /// It comes to be.
    Create(&'a Object),
    /// It becomes another.
    Update { old: &'a Object, new: &'a Object },
    /// It goes.
    Delete(&'a Object),
}

/// What comes along with a change of an object, in the same transaction.
#[derive(Default)]
pub(crate) struct Along {
    /// The object as it is to be written, if that is not how it was asked for.
    pub(crate) object: Option<Object>,
    /// What the object, if it is a Service, is given: it is to be written with that.
    pub(crate) given: Option<Box<services::Given>>,
    /// What must hold.
    pub(crate) compares: Vec<Compare>,
    /// What changes besides.
    pub(crate) writes: Vec<Write>,
    /// What is kept for it until it is decided.
    pub(crate) hold: Option<services::Hold>,
}

/// Something that could not be given, and the Service that it was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unmet {
    wanted: services::Wanted,
    /// The Service, by a reference. It may not be there.
    service: Value,
}

/// Counts that a client was refused something, and tells people if nothing is left of it.
pub(crate) async fn unmet(around: &Surroundings, unmet: &Unmet) {
    services::unmet(around, unmet).await;
}

/// What a deletion may say about the object that it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Uid,
    ResourceVersion,
}

impl Condition {
    /// Its name and, of an object that does not meet it, what may have happened.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Uid => ("UID", "deleted and then recreated"),
            Self::ResourceVersion => ("ResourceVersion", "modified"),
        }
    }
}

/// What a kind does beyond being stored.
pub(crate) trait Behaviour: Sync {
    /// A condition of a deletion that its object does not meet.
    fn unmet(&self, kind: &Kind, name: &str, condition: Condition, asked: &str, is: &str) -> Failure {
        let (what, happened) = condition.words();
        let why = format!(
            "the {what} in the precondition ({asked}) does not match the {what} in record ({is}). The object might have \
             been {happened}"
        );
        Failure::precondition(kind, name, why)
    }

    /// Refuses a new object that is valid and cannot be all the same.
    fn refuse_create(&self, _kind: &Kind, _object: &Object) -> Result<(), Failure> {
        Ok(())
    }

    /// Refuses the deletion of an object that must stay.
    fn refuse_delete(&self, _around: &Surroundings, _kind: &Kind, _object: &Object) -> Result<(), Failure> {
        Ok(())
    }

    /// What else a change of an object changes, or why it cannot be. A create or an update may be given things by it, so it is
    /// asked before the object is validated.
    fn accompany(&self, _around: &Surroundings, _kind: &Kind, _change: Change<'_>) -> Result<Along, Failure> {
        Ok(Along::default())
    }

    /// Whether something besides its finalizers keeps a deleted object.
    fn is_held(&self, _around: &Surroundings, _object: &Object) -> bool {
        false
    }

    /// Whether its objects are marked before they go, so that whoever counts on one has seen it change. Others go at once if
    /// nothing keeps them.
    fn is_marked_first(&self) -> bool {
        false
    }

    /// Whether what it changes in its objects is somebody's in `managedFields`.
    fn signs(&self) -> bool {
        false
    }

    /// Whether its objects can own others, so that a deletion can wait for these.
    fn has_dependents(&self) -> bool {
        true
    }

    /// Puts right what somebody wrote into its status.
    fn restate(&self, _around: &Surroundings, _object: &mut Object) {}

    /// What changes in an object when its deletion begins.
    fn terminating(&self, _around: &Surroundings, _object: &mut Object) {}
}

/// Events: nothing depends on them.
struct Events;

impl Behaviour for Events {
    fn has_dependents(&self) -> bool {
        false
    }
}

struct Stored;

impl Behaviour for Stored {}

/// The condition under which a new object may come to be, if there is one.
pub(crate) async fn admit(
    store: &Store,
    kind: &Kind,
    namespace: &str,
    object: &Object,
) -> Result<Option<Compare>, Failure> {
    if !kind.is_namespaced() {
        return Ok(None);
    }
    namespaces::admit(store, kind, namespace, object).await.map(Some)
}

/// Waits until what writes under way want is theirs, or free again.
pub(crate) async fn decided(around: &Surroundings) {
    around.ledger.decided().await;
}

/// Completes a new object with what only the rest of the store knows.
pub(crate) async fn complete(store: &Store, kind: &Kind, namespace: &str, object: &mut Object) -> Result<(), Failure> {
    match kind.stored.prefix {
        pods::PREFIX => pods::complete(store, kind, namespace, object).await,
        _ => Ok(()),
    }
}

/// The behaviour of a kind.
pub(crate) fn behaviour(kind: &Kind) -> &'static dyn Behaviour {
    match kind.stored.prefix {
        namespaces::PREFIX => &namespaces::Namespaces,
        services::PREFIX => &services::Services,
        ip_addresses::PREFIX | node_ports::PREFIX => &grants::Grants,
        service_cidrs::PREFIX => &service_cidrs::ServiceCidrs,
        node_ports::RANGES => &node_ports::Ranges,
        pods::PREFIX => &pods::Pods,
        "events" => &Events,
        _ => &Stored,
    }
}

/// Who asks a question, and where.
pub(crate) struct Asking<'a> {
    pub(crate) machinery: &'a Machinery,
    pub(crate) user: &'a User,
    pub(crate) namespace: &'a str,
    /// The name of the object that the question is asked of, or empty.
    pub(crate) name: &'a str,
}

/// The answer to a question.
pub(crate) async fn answer(kind: &Kind, question: Object, asking: &Asking<'_>) -> Result<Object, Failure> {
    match kind.kind {
        "SelfSubjectAccessReview" => reviews::of_self(kind, question, asking),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => reviews::of_subject(kind, question),
        "SelfSubjectRulesReview" => reviews::rules(&question, asking),
        "SelfSubjectReview" => Ok(identity::of_self(&question, asking)),
        "TokenReview" => identity::of_token(question, asking),
        "TokenRequest" => identity::token(kind, question, asking).await,
        _ => Err(Failure::method_not_allowed()),
    }
}

/// Refuses a question that is not valid.
fn invalid(kind: &Kind, name: &str, question: &Object) -> Result<(), Failure> {
    let mut errors = Errors::new();
    (kind.validate)(question, &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(Failure::invalid(kind, name, &errors)) }
}
