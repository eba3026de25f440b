//! Kinds that need more than storage: one file each. The machinery asks here, and knows none of them by name.

pub(crate) mod identity;
pub(crate) mod namespaces;
mod pods;
mod reviews;

use api::{Errors, Kind, Object};
use store::{Compare, Store};

use crate::access::User;
use crate::machinery::{Failure, Machinery};

/// What a kind does beyond being stored.
pub(crate) trait Behaviour: Sync {
    /// Refuses the deletion of an object that must stay.
    fn refuse_delete(&self, _kind: &Kind, _object: &Object) -> Result<(), Failure> {
        Ok(())
    }

    /// Whether something besides its finalizers keeps a deleted object.
    fn is_held(&self, _object: &Object) -> bool {
        false
    }

    /// Whether its objects can own others, so that a deletion can wait for these.
    fn has_dependents(&self) -> bool {
        true
    }

    /// What changes in an object when its deletion begins.
    fn terminating(&self, _object: &mut Object) {}
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
pub(crate) async fn admit(store: &Store, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Compare>, Failure> {
    if !kind.is_namespaced() {
        return Ok(None);
    }
    namespaces::admit(store, kind, namespace, name).await.map(Some)
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
