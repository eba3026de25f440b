//! What goes over the wire: the part of a Node that is read, and the requests that are made.

use std::collections::BTreeMap;

use http::{Method, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use space::Cidr;

use crate::node::intent::{About, Assignment, Event, Finalizers, StatusWrite};
use crate::node::trimmed::Node;

/// Where Nodes are.
pub(super) const NODES: &str = "/api/v1/nodes";
/// Where `ClusterCIDR`s are.
pub(super) const RANGES: &str = "/apis/networking.x-k8s.io/v1/clustercidrs";
/// Where `ServiceCIDR`s are.
pub(super) const SERVICE_RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
/// Where Events about what is in no namespace are.
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// How many objects are asked for at once.
const PAGE: usize = 500;
/// How many seconds one watch lasts; then it goes on with another.
const WATCH_SECONDS: u64 = 290;
/// How many seconds the server may take for a write. It gives up then, so that nothing is written long after we did.
const WRITE_SECONDS: u64 = 10;

/// Who writes, in `managedFields` and Events.
const MANAGER: &str = "cadastre-node-ipam";

/// An object that says its revision.
pub(super) trait Revisioned: Clone + DeserializeOwned + Send + 'static {
    /// Its name.
    fn name(&self) -> &str;
    /// Its revision.
    fn revision(&self) -> &str;
}

impl Revisioned for Value {
    fn name(&self) -> &str {
        self["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn revision(&self) -> &str {
        self["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    }
}

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
    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn revision(&self) -> &str {
        &self.metadata.resource_version
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
        let addresses = status.addresses.unwrap_or_default();
        let read = |one: &Address| Some(space::tolerant_address(&one.address).ok()?.value);
        node.addresses = addresses.iter().filter_map(read).collect();
        node
    }
}

/// A page of a list.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub(super) struct Page<T> {
    /// About the list.
    pub(super) metadata: PageMetadata,
    /// The objects; some servers say null for none.
    pub(super) items: Option<Vec<T>>,
}

/// About a list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageMetadata {
    /// The revision that it shows.
    #[serde(default)]
    pub(super) resource_version: String,
    /// Where the next page begins; nothing after the last.
    #[serde(default, rename = "continue")]
    pub(super) next: Option<String>,
}

/// Anything: what is answered to a write, and not looked at.
#[derive(Clone, Deserialize)]
pub(super) struct Anything {}

pub(super) type Asked = Result<Request<Vec<u8>>, http::Error>;

pub(super) fn list(path: &str, next: &str) -> Asked {
    let next = if next.is_empty() { String::new() } else { format!("&continue={}", encoded(next)) };
    Request::get(format!("{path}?limit={PAGE}{next}")).body(Vec::new())
}

pub(super) fn watch(path: &str, revision: &str) -> Asked {
    let url = format!(
        "{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}",
        encoded(revision)
    );
    Request::get(url).body(Vec::new())
}

pub(super) fn assign(assignment: &Assignment) -> Asked {
    let cidrs: Vec<String> = assignment.cidrs.iter().map(ToString::to_string).collect();
    let body = json!({
        "metadata": {"uid": &*assignment.uid}, "spec": {"podCIDR": cidrs.first(), "podCIDRs": cidrs},
    });
    patch(&format!("{NODES}/{}", assignment.name), "application/strategic-merge-patch+json", &body)
}

pub(super) fn finalize(wanted: &Finalizers) -> Asked {
    let body = json!({
        "metadata": {"resourceVersion": &*wanted.resource_version, "finalizers": wanted.finalizers},
    });
    patch(&format!("{RANGES}/{}", wanted.name), "application/merge-patch+json", &body)
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
    patch(&format!("{RANGES}/{}/status", wanted.name), "application/merge-patch+json", &body)
}

/// The same event has the same name, so that one that is told again after a restart is not there twice.
pub(super) fn tell(event: &Event, time: &str) -> Asked {
    let (api_version, kind, name, uid) = match &event.about {
        About::Node(name, uid) => ("v1", "Node", name, uid),
        About::Range(name, uid) => ("networking.x-k8s.io/v1", "ClusterCIDR", name, uid),
    };
    let identity = crate::node::flags::hash([format!("{uid}\n{}\n{}", event.reason, event.message)]);
    let body = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"namespace": "default", "name": format!("{name}.{identity:016x}")},
        "involvedObject": {"apiVersion": api_version, "kind": kind, "name": &**name, "uid": &**uid},
        "type": "Warning", "reason": event.reason, "message": event.message, "count": 1,
        "firstTimestamp": time, "lastTimestamp": time, "source": {"component": MANAGER},
        "reportingComponent": MANAGER, "reportingInstance": MANAGER,
    });
    write(Method::POST, EVENTS, "application/json", &body)
}

pub(super) fn create_range(range: &Value) -> Asked {
    write(Method::POST, RANGES, "application/json", range)
}

pub(super) fn delete_range(name: &str) -> Asked {
    Request::delete(format!("{RANGES}/{name}")).body(Vec::new())
}

fn patch(path: &str, media: &str, body: &Value) -> Asked {
    write(Method::PATCH, path, media, body)
}

fn write(method: Method, path: &str, media: &str, body: &Value) -> Asked {
    Request::builder()
        .method(method)
        .uri(format!("{path}?fieldManager={MANAGER}&timeout={WRITE_SECONDS}s"))
        .header(http::header::CONTENT_TYPE, media)
        // What was written is not looked at: the watch shows it.
        .header(http::header::ACCEPT, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json")
        .body(body.to_string().into_bytes())
}

/// The ranges of a `ServiceCIDR`.
pub(super) fn cidrs(service: &Value) -> impl Iterator<Item = Cidr> {
    let cidrs = service["spec"]["cidrs"].as_array().into_iter().flatten();
    cidrs.filter_map(|cidr| Some(Cidr::tolerant(cidr.as_str()?).ok()?.value))
}

/// A value in a query.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
