//! `IPAddress`es: addresses that were given to somebody, mostly to Services.

use std::net::IpAddr;

use api::Object;
use serde_json::json;

use super::grants::Holder;

/// Where `IPAddress`es are stored.
pub(crate) const PREFIX: &str = "ipaddresses.networking.k8s.io";

const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
const MANAGER: &str = "ipaddress.kubernetes.io/managed-by";
/// Who looks after the addresses of Services.
pub(super) const OWN: &str = "ipallocator.k8s.io";
/// Whose the fields of those addresses are.
pub(super) const FIELD_MANAGER: &str = "kube-apiserver";
/// Which Service of that name has the address. Upstream's objects do not say; without it, one that was deleted and made anew
/// would look like the same.
const HOLDER: &str = "ipam.cadastre.dev/parent-uid";

/// The object that says that a Service has an address.
pub(crate) fn object(address: IpAddr, holder: &Holder<'_>) -> Object {
    let object = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {
            "name": address.to_string(), "labels": {FAMILY: family(address), MANAGER: OWN}, "annotations": {HOLDER: holder.uid},
        },
        "spec": {"parentRef": {"resource": "services", "namespace": holder.namespace, "name": holder.name}},
    });
    Object::from_value(object).unwrap_or_default()
}

/// The family of an address, as its label says it.
pub(super) fn family(address: IpAddr) -> &'static str {
    if address.is_ipv6() { "IPv6" } else { "IPv4" }
}

/// What an object says to be a Service's, besides its parent.
pub(crate) const MARKS: [[&str; 3]; 3] =
    [["metadata", "labels", FAMILY], ["metadata", "labels", MANAGER], ["metadata", "annotations", HOLDER]];

/// Puts right what an object says besides its parent.
pub(crate) fn mark(object: &mut Object, address: IpAddr, holder: &Holder<'_>) {
    let right = self::object(address, holder);
    for mark in MARKS {
        if object.text(&mark) != right.text(&mark) {
            object.set(&mark, json!(right.text(&mark)));
        }
    }
}

/// The uid of the Service that has an address, if the object says it.
pub(crate) fn holder_uid(object: &Object) -> &str {
    object.text(&["metadata", "annotations", HOLDER])
}

/// Whether it is one of those that this server makes, and not somebody else's.
pub(crate) fn is_own(object: &Object) -> bool {
    object.text(&["metadata", "labels", MANAGER]) == OWN
}
