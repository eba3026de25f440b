//! `NodePort`s: ports of the nodes that were given to Services; and `NodePortRange`s, which go when none of their ports is in
//! use that no other range has.

use api::Object;
use serde_json::json;

use super::grants::Holder;
use super::{Behaviour, Surroundings};

/// Where `NodePort`s are stored.
pub(crate) const PREFIX: &str = "nodeports.ipam.cadastre.dev";

/// Where `NodePortRange`s are stored.
pub(crate) const RANGES: &str = "nodeportranges.ipam.cadastre.dev";

/// The object that says that a Service has a port.
pub(crate) fn object(port: u16, holder: &Holder<'_>) -> Object {
    let Holder { namespace, name, uid } = holder;
    let object = json!({
        "apiVersion": "ipam.cadastre.dev/v1alpha1", "kind": "NodePort", "metadata": {"name": port.to_string()},
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": name, "uid": uid}},
    });
    Object::from_value(object).unwrap_or_default()
}

/// The uid of the Service that has a port, if the object says it.
pub(crate) fn holder_uid(object: &Object) -> &str {
    object.text(&["spec", "parentRef", "uid"])
}

/// The behaviour of `NodePortRange`s.
pub(crate) struct Ranges;

impl Behaviour for Ranges {
    fn is_held(&self, around: &Surroundings, object: &Object) -> bool {
        around.ledger.keeps(&format!("{RANGES}/{}", object.name()))
    }

    fn is_marked_first(&self) -> bool {
        true
    }
}
