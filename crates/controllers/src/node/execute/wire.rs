//! What goes over the wire: the part of a Node that is read, and the requests that are made.

use std::collections::BTreeMap;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use space::Cidr;

use crate::events::{self, Reference};
use crate::follow::Revisioned;
use crate::node::intent::{About, Assignment, Event, Finalizers, StatusWrite};
use crate::node::trimmed::Node;
use crate::node::waybill;
use crate::writer::Asked;

/// Where Nodes are.
pub(super) const NODES: &str = "/api/v1/nodes";
/// Where `ClusterCIDR`s are.
pub(super) const RANGES: &str = "/apis/networking.x-k8s.io/v1/clustercidrs";
/// Where `ServiceCIDR`s are.
pub(super) const SERVICE_RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
/// Who writes, in `managedFields` and Events.
pub(super) const MANAGER: &str = "cadastre-node-ipam";

/// What is read of a Node; the rest is never kept.
#[derive(Clone, Deserialize)]
pub(super) struct WireNode {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    uid: String,
    resource_version: String,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<Annotations>,
}

#[derive(Clone, Default, Deserialize)]
struct Annotations {
    #[serde(rename = "ipam.cadastre.dev/host-bits")]
    host_bits: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(rename = "podCIDR")]
    pod_cidr: String,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Vec<String>>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Status {
    capacity: Option<Capacity>,
    addresses: Option<Vec<Address>>,
}

#[derive(Clone, Default, Deserialize)]
struct Capacity {
    pods: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Address {
    address: String,
}

impl Revisioned for WireNode {
    type Kept = Node;

    fn revision(&self) -> &str {
        &self.metadata.resource_version
    }

    fn keep(self) -> Node {
        self.into()
    }
}

impl From<WireNode> for Node {
    fn from(wire: WireNode) -> Self {
        let WireNode { metadata, spec, status } = wire;
        let labels = metadata.labels.unwrap_or_default();
        let mut node = Self::new(&metadata.name, &metadata.uid)
            .labelled(labels.iter().map(|(key, value)| (key.as_str(), value.as_str())))
            .holding(&spec.pod_cidr, spec.pod_cidrs.unwrap_or_default().iter().map(String::as_str));
        node.pods = status.capacity.and_then(|capacity| api::quantity::count(&capacity.pods?));
        node.host_bits = metadata.annotations.and_then(|all| all.host_bits).map(Into::into);
        node.reached_at(status.addresses.unwrap_or_default().iter().map(|one| one.address.as_str()))
    }
}

/// Creates the waybill, or replaces it as it was last seen.
pub(super) fn note(page: &Value) -> Asked {
    if page.revision().is_empty() {
        Asked::new(Method::POST, waybill_collection(), "application/json", page)
    } else {
        Asked::new(Method::PUT, waybill_path(), "application/json", page)
    }
}

fn waybill_collection() -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", waybill::NAMESPACE)
}

/// Where the waybill is.
pub(super) fn waybill_path() -> String {
    format!("{}/{}", waybill_collection(), waybill::NAME)
}

pub(super) fn assign(assignment: &Assignment) -> Asked {
    let cidrs: Vec<String> = assignment.cidrs.iter().map(ToString::to_string).collect();
    let body = json!({
        "metadata": {"uid": &*assignment.uid}, "spec": {"podCIDR": cidrs.first(), "podCIDRs": cidrs},
    });
    patch(format!("{NODES}/{}", assignment.name), "application/strategic-merge-patch+json", &body)
}

pub(super) fn finalize(wanted: &Finalizers) -> Asked {
    let body = json!({
        "metadata": {"resourceVersion": &*wanted.resource_version, "finalizers": wanted.finalizers},
    });
    patch(format!("{RANGES}/{}", wanted.name), "application/merge-patch+json", &body)
}

/// What is not in the new status must go, and a merge patch removes only what it names.
pub(super) fn status(wanted: &StatusWrite) -> Asked {
    let mut status = json!({"ipv4": null, "ipv6": null, "nodes": null, "nodeCount": null});
    for (name, value) in wanted.status.as_object().into_iter().flatten() {
        status[name] = value.clone();
        if value.get("free").is_some() && value.get("largestFreeBlock").is_none() {
            status[name]["largestFreeBlock"] = Value::Null;
        }
    }
    let body = json!({"metadata": {"uid": &*wanted.uid}, "status": status});
    patch(format!("{RANGES}/{}/status", wanted.name), "application/merge-patch+json", &body)
}

pub(super) fn event(event: &Event) -> events::Event {
    let (api_version, kind, name, uid) = match &event.about {
        About::Node(name, uid) => ("v1", "Node", name, uid),
        About::Range(name, uid) => ("networking.x-k8s.io/v1", "ClusterCIDR", name, uid),
    };
    let about = Reference { api_version, kind, namespace: "", name, uid };
    events::Event::new(&about, event.reason, &event.message)
}

pub(super) fn create_range(range: &Value) -> Asked {
    Asked::new(Method::POST, RANGES.to_owned(), "application/json", range)
}

pub(super) fn delete_range(name: &str) -> Asked {
    Asked::new(Method::DELETE, format!("{RANGES}/{name}"), "application/json", &json!({}))
}

fn patch(path: String, media: &'static str, body: &Value) -> Asked {
    Asked::new(Method::PATCH, path, media, body)
}

/// The ranges of a `ServiceCIDR`.
pub(super) fn cidrs(service: &Value) -> impl Iterator<Item = Cidr> {
    let cidrs = service["spec"]["cidrs"].as_array().into_iter().flatten();
    cidrs.filter_map(|cidr| Some(Cidr::tolerant(cidr.as_str()?).ok()?.value))
}
