//! Namespaces: what they take in, and how they go.

use api::{Kind, Object};
use http::StatusCode;
use serde_json::{Value, json};
use store::{Compare, Entry, Store};

use super::{Behaviour, Condition, Surroundings};
use crate::machinery::{Facts, Failure};

/// Where Namespaces are stored.
pub(crate) const PREFIX: &str = "namespaces";

/// The namespaces that are always there.
pub(crate) const ALWAYS: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// What `spec.finalizers` of a namespace has until it is empty.
pub(crate) const FINALIZER: &str = "kubernetes";

/// Those of them that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The behaviour of Namespaces.
pub(crate) struct Namespaces;

impl Behaviour for Namespaces {
    /// Clients know another text from namespaces.
    fn unmet(&self, kind: &Kind, name: &str, condition: Condition, asked: &str, is: &str) -> Failure {
        let (what, _) = condition.words();
        let why = format!("Precondition failed: {what} in precondition: {asked}, {what} in object meta: {is}");
        Failure::conflict(kind, name, why)
    }

    fn refuse_delete(&self, _: &Surroundings, kind: &Kind, object: &Object) -> Result<(), Failure> {
        if IMMORTAL.contains(&object.name()) {
            return Err(Failure::forbidden(kind, object.name(), "this namespace may not be deleted"));
        }
        Ok(())
    }

    fn is_held(&self, _: &Surroundings, object: &Object) -> bool {
        object.at(&["spec", "finalizers"]).and_then(Value::as_array).is_some_and(|finalizers| !finalizers.is_empty())
    }

    fn terminating(&self, _: &Surroundings, object: &mut Object) {
        object.set(&["status", "phase"], json!("Terminating"));
        // It ends when it is empty, which takes as long as it takes.
        object.metadata_mut().remove("deletionGracePeriodSeconds");
    }
}

/// The condition under which a namespace takes a new object: that it is still what it is now.
///
/// With the condition in the transaction that creates the object, nothing can get into a namespace behind the back of
/// its deletion.
pub(crate) async fn admit(store: &Store, kind: &Kind, namespace: &str, object: &Object) -> Result<Compare, Failure> {
    let key = format!("{PREFIX}/{namespace}");
    let takes = |entry: &Entry| !Facts::of(entry).is_terminating();
    let mut entry = store.get(&key);
    if !entry.as_deref().is_some_and(takes) {
        // It may have been made a moment ago through another server.
        store.settle().await?;
        entry = store.get(&key);
    }
    match entry {
        Some(entry) if takes(&entry) => Ok(Compare::At(key.into(), entry.revision)),
        Some(_) => Err(terminating(kind, namespace, object)),
        None => {
            let message = format!("namespaces {namespace:?} not found");
            let mut failure = Failure::new(StatusCode::NOT_FOUND, "NotFound", message);
            namespace.clone_into(&mut failure.details.name);
            PREFIX.clone_into(&mut failure.details.kind);
            Err(failure)
        }
    }
}

fn terminating(kind: &Kind, namespace: &str, object: &Object) -> Failure {
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    Failure::not_admitted(kind, object, why).because(
        "NamespaceTerminating",
        format!("namespace {namespace} is being terminated"),
        "metadata.namespace",
    )
}
