//! What goes over the wire: the parts of objects that are read, and the requests that are made.

use api::slices;
use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::events::{self, Reference};
use crate::follow::Revisioned;
use crate::slice::intent::{Deletion, Event, Remains, Subject, Used};
use crate::slice::layout::Write;
use crate::slice::node::{NODE, Node, is_out_of_service, node_label};
use crate::slice::orphans::{Hush, OrphanEntry, Reservation};
use crate::slice::shared::SharedPool;
use crate::writer::Asked;

/// Who writes, in `managedFields` and Events.
pub(super) const MANAGER: &str = "cadastre-slices";

const JSON_PATCH: &str = "application/json-patch+json";

pub(super) const NODES: &str = "/api/v1/nodes";
pub(super) const DEFINITIONS: &str = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions";
pub(super) const PODS: &str = "/api/v1/pods";

/// Where `NodeSlicePool`s are.
pub(super) fn pools(namespace: &str) -> String {
    format!("/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/{namespace}/nodeslicepools")
}

/// Where `IPPool`s are.
pub(super) fn ip_pools(namespace: &str) -> String {
    format!("/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/{namespace}/ippools")
}

/// Where the `IPPool`s are that nodes have.
pub(super) fn labelled(namespace: &str) -> String {
    format!("{}?labelSelector={NODE}", ip_pools(namespace))
}

/// Where the `IPPool`s are that no node has.
pub(super) fn unlabelled(namespace: &str) -> String {
    format!("{}?labelSelector=%21{NODE}", ip_pools(namespace))
}

/// Where the `IPPool`s are on which something is asked.
pub(super) fn asking(namespace: &str) -> String {
    format!("{}?labelSelector={}", ip_pools(namespace), slices::ASKS)
}

/// Where the `IPPool` of that name is, if there is one.
pub(super) fn ip_pool(namespace: &str, name: &str) -> String {
    format!("{}?fieldSelector=metadata.name%3D{name}", ip_pools(namespace))
}

/// Where the node of that name is, if there is one.
pub(super) fn node(name: &str) -> String {
    format!("{NODES}?fieldSelector=metadata.name%3D{name}")
}

/// Where a pod is, if there is one.
pub(super) fn pod(podref: &str) -> String {
    let (namespace, name) = podref.split_once('/').unwrap_or_default();
    format!("/api/v1/namespaces/{namespace}/pods?fieldSelector=metadata.name%3D{name}")
}

/// Where reservations are.
fn reservations(namespace: &str) -> String {
    format!("/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/{namespace}/overlappingrangeipreservations")
}

/// Where the reservation of that name is.
pub(super) fn reservation(namespace: &str, name: &str) -> String {
    format!("{}/{name}", reservations(namespace))
}

/// Where the reservations are that no node has.
pub(super) fn unlabelled_reservations(namespace: &str) -> String {
    format!("{}?labelSelector=%21{NODE}", reservations(namespace))
}

/// Where the pods of a node are.
pub(super) fn pods(node: &str) -> String {
    format!("{PODS}?fieldSelector=spec.nodeName%3D{node}")
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    labels: Option<Map<String, Value>>,
    annotations: Option<Map<String, Value>>,
}

/// What is read of any object; `T` is what is read besides its metadata.
#[derive(Clone, Deserialize)]
pub(super) struct Part<T> {
    #[serde(default)]
    metadata: Metadata,
    #[serde(flatten)]
    rest: T,
}

/// What is kept of that part.
pub(super) trait Keep: Clone + DeserializeOwned + Send + 'static {
    type Kept: Send + 'static;
    /// Whether only the metadata is asked for.
    const IS_PARTIAL: bool = false;
    fn keep(part: Part<Self>) -> Self::Kept;
}

impl<T: Keep> Revisioned for Part<T> {
    type Kept = T::Kept;
    const IS_PARTIAL: bool = T::IS_PARTIAL;

    fn revision(&self) -> &str {
        &self.metadata.resource_version
    }

    fn keep(self) -> T::Kept {
        T::keep(self)
    }
}

/// What is read of a Node.
#[derive(Clone, Default, Deserialize)]
pub(super) struct NodePart {
    #[serde(default)]
    spec: NodeSpec,
}

#[derive(Clone, Default, Deserialize)]
struct NodeSpec {
    taints: Option<Vec<Taint>>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Taint {
    key: String,
}

impl Keep for NodePart {
    type Kept = Node;

    fn keep(part: Part<Self>) -> Node {
        let Part { metadata, rest } = part;
        Node {
            name: metadata.name,
            uid: metadata.uid,
            labels: metadata.labels.unwrap_or_default(),
            fenced: rest.spec.taints.unwrap_or_default().iter().any(|taint| is_out_of_service(&taint.key)),
        }
    }
}

/// What is read of a Pod.
#[derive(Clone, Default, Deserialize)]
pub(super) struct PodPart {
    #[serde(default)]
    status: PodStatus,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: String,
}

/// Whether something of it may still run.
impl Keep for PodPart {
    type Kept = bool;

    fn keep(part: Part<Self>) -> bool {
        !matches!(part.rest.status.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// What is read of an `IPPool`.
#[derive(Clone, Default, Deserialize)]
pub(super) struct IpPoolPart {
    #[serde(default)]
    spec: IpPoolSpec,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct IpPoolSpec {
    range: String,
    allocations: Option<Map<String, Value>>,
}

/// Its name and range, if somebody has an address of it.
impl Keep for IpPoolPart {
    type Kept = Option<Used>;

    fn keep(part: Part<Self>) -> Option<Used> {
        let IpPoolSpec { range, allocations } = part.rest.spec;
        allocations.is_some_and(|all| !all.is_empty()).then_some(Used { name: part.metadata.name, range })
    }
}

/// What is read of an `IPPool` of a whole range.
#[derive(Clone, Default, Deserialize)]
pub(super) struct SharedPart {
    #[serde(default)]
    spec: IpPoolSpec,
}

/// All of it, if it is one.
impl Keep for SharedPart {
    type Kept = Option<SharedPool>;

    fn keep(part: Part<Self>) -> Option<SharedPool> {
        let IpPoolSpec { range, allocations } = part.rest.spec;
        let mut pool = SharedPool::read(&part.metadata.name, &range, &allocations.unwrap_or_default())?;
        let annotations = part.metadata.annotations.unwrap_or_default();
        pool.said =
            slices::held_on_nodes(&annotations).map(|(label, said)| (label.to_owned(), said.to_owned())).collect();
        Some(pool)
    }
}

/// Of an `IPPool` that a node has: whose it is.
#[derive(Clone, Deserialize)]
pub(super) struct LabelledPool {}

impl Keep for LabelledPool {
    type Kept = Remains;
    const IS_PARTIAL: bool = true;

    fn keep(Part { metadata: Metadata { name, labels, .. }, .. }: Part<Self>) -> Remains {
        let node = labels.unwrap_or_default().get(NODE).and_then(Value::as_str).unwrap_or_default().to_owned();
        Remains { node, pool: name }
    }
}

/// Of a Pod: which it is, `namespace/name`.
#[derive(Clone, Deserialize)]
pub(super) struct PodName {}

impl Keep for PodName {
    type Kept = String;
    const IS_PARTIAL: bool = true;

    fn keep(Part { metadata, .. }: Part<Self>) -> String {
        format!("{}/{}", metadata.namespace, metadata.name)
    }
}

/// What is read of a reservation.
#[derive(Clone, Default, Deserialize)]
pub(super) struct ReservationPart {
    #[serde(default)]
    spec: Value,
}

impl Keep for ReservationPart {
    type Kept = Reservation;

    fn keep(Part { metadata, rest }: Part<Self>) -> Reservation {
        let text = |key: &str| rest.spec[key].as_str().unwrap_or_default().to_owned();
        Reservation { name: metadata.name, uid: metadata.uid, podref: text("podref"), id: text("containerid") }
    }
}

/// A reservation as it is.
pub(super) fn read_reservation(object: &Value) -> Reservation {
    Part::deserialize(object).map(ReservationPart::keep).unwrap_or_default()
}

/// Of an `IPPool` that nodes may have said something of: its annotations.
#[derive(Clone, Deserialize)]
pub(super) struct Notes {}

impl Keep for Notes {
    type Kept = Map<String, Value>;
    const IS_PARTIAL: bool = true;

    fn keep(part: Part<Self>) -> Map<String, Value> {
        part.metadata.annotations.unwrap_or_default()
    }
}

/// What is read of the answer to a write.
#[derive(Deserialize)]
pub(super) struct Answer {
    #[serde(default)]
    metadata: Metadata,
}

impl Answer {
    pub(super) fn revision(self) -> String {
        self.metadata.resource_version
    }
}

/// Creates a pool, or replaces the one of the revision that it says.
pub(super) fn write(namespace: &str, write: &Write) -> Asked {
    let mut object = write.shell.clone();
    object.set(&["status"], write.pool.to_status());
    let object = object.into_value();
    if write.shell.resource_version().is_empty() {
        Asked::new(Method::POST, pools(namespace), "application/json", &object)
    } else {
        Asked::new(Method::PUT, format!("{}/{}", pools(namespace), write.name), "application/json", &object)
    }
}

pub(super) fn delete(namespace: &str, deletion: &Deletion) -> Asked {
    let path = format!("{}/{}", pools(namespace), deletion.name);
    let body = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": deletion.resource_version},
    });
    Asked::new(Method::DELETE, path, "application/json", &body)
}

/// Deletes all reservations of a node.
pub(super) fn unreserve(namespace: &str, node: &str) -> Asked {
    let path = format!("{}?labelSelector={NODE}%3D{}", reservations(namespace), node_label(node));
    Asked::new(Method::DELETE, path, "application/json", &json!({}))
}

/// Deletes an `IPPool`.
pub(super) fn discard(namespace: &str, name: &str) -> Asked {
    Asked::new(Method::DELETE, format!("{}/{name}", ip_pools(namespace)), "application/json", &json!({}))
}

/// Deletes the reservation at a path, if it is as it was read.
pub(super) fn unreserve_one(path: String, reservation: &Value) -> Asked {
    let metadata = &reservation["metadata"];
    let body = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
    });
    Asked::new(Method::DELETE, path, "application/json", &body)
}

/// Whether an entry is as it was, in an `IPPool` as it is now.
pub(super) fn has(pool: &Value, OrphanEntry { entry, .. }: &OrphanEntry) -> bool {
    let there = &pool["spec"]["allocations"][entry.offset.to_string()];
    there["id"] == entry.id && there["podref"] == entry.podref
}

/// Takes out of an `IPPool` what these nodes say there, if it all still is that.
pub(super) fn hush(namespace: &str, Hush { pool, said }: &Hush) -> Asked {
    let steps = said.iter().flat_map(|(label, containers)| {
        let path = format!("/metadata/annotations/{}", slices::held_on(label).replace('~', "~0").replace('/', "~1"));
        [json!({"op": "test", "path": path, "value": containers}), json!({"op": "remove", "path": path})]
    });
    let patch = Value::Array(steps.collect());
    Asked::new(Method::PATCH, format!("{}/{pool}", ip_pools(namespace)), JSON_PATCH, &patch)
}

/// Takes entries out of their `IPPool`, if they all still are those.
pub(super) fn take_out(namespace: &str, pool: &str, entries: &[&OrphanEntry]) -> Asked {
    let steps = entries.iter().flat_map(|OrphanEntry { entry, .. }| {
        let at = format!("/spec/allocations/{}", entry.offset);
        [
            json!({"op": "test", "path": format!("{at}/id"), "value": entry.id}),
            json!({"op": "test", "path": format!("{at}/podref"), "value": entry.podref}),
            json!({"op": "remove", "path": at}),
        ]
    });
    let patch = Value::Array(steps.collect());
    Asked::new(Method::PATCH, format!("{}/{pool}", ip_pools(namespace)), JSON_PATCH, &patch)
}

pub(super) fn event(event: &Event) -> events::Event {
    let Subject { namespace, name, uid } = &event.about;
    let about = Reference { api_version: Subject::API_VERSION, kind: Subject::KIND, namespace, name, uid };
    events::Event::new(&about, event.reason, &event.message)
}
