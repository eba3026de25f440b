//! Kinds that need more than storage: one file each. The machinery asks here, and knows none of them by name.

pub(crate) mod namespaces;

use api::{Kind, Object};
use store::{Compare, Store};

use crate::machinery::Failure;

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

/// The behaviour of a kind.
pub(crate) fn behaviour(kind: &Kind) -> &'static dyn Behaviour {
    match kind.stored.prefix {
        namespaces::PREFIX => &namespaces::Namespaces,
        "events" => &Events,
        _ => &Stored,
    }
}
