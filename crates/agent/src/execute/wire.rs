//! What goes over the wire: where objects are, the parts of them that are read, and the requests that are made.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::slices;
use controllers::events::{Event, Reference};
use controllers::follow::{Revisioned, encoded};
use controllers::slice::node::NODE;
use controllers::writer::{self, Asked, Refused, Writer};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::network::{Cause, Fetched, PoolMeta};
use crate::plan::Outcome;
use crate::pool::{Allocation, PoolWrite, SeenPool};
use crate::reclaim::{Doubt, Pod};
use crate::reservations::{self, SeenReservation, Step, is_ours};

/// Who writes, in `managedFields` and Events.
pub(super) const MANAGER: &str = "cadastre-agent";
const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";

/// Where whereabouts' objects are.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    namespace: String,
    node: String,
    label: String,
}

impl Paths {
    pub(super) fn new(namespace: &str, node: &str, label: &str) -> Self {
        Self { namespace: namespace.to_owned(), node: node.to_owned(), label: label.to_owned() }
    }

    fn collection(&self, plural: &str) -> String {
        format!("/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/{}/{plural}", self.namespace)
    }

    pub(super) fn node_only(&self) -> String {
        format!("/api/v1/nodes?fieldSelector={}", encoded(&format!("metadata.name={}", self.node)))
    }

    pub(super) fn pods(&self) -> String {
        format!("/api/v1/pods?fieldSelector={}", encoded(&format!("spec.nodeName={}", self.node)))
    }

    pub(super) fn slice_pools(&self) -> String {
        self.collection("nodeslicepools")
    }

    fn pools(&self) -> String {
        self.collection("ippools")
    }

    fn reservations(&self) -> String {
        self.collection("overlappingrangeipreservations")
    }

    pub(super) fn own_pools(&self) -> String {
        format!("{}?labelSelector={}", self.pools(), self.selector())
    }

    pub(super) fn own_reservations(&self) -> String {
        format!("{}?labelSelector={}", self.reservations(), self.selector())
    }

    fn selector(&self) -> String {
        encoded(&format!("{NODE}={}", self.label))
    }
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    annotations: Option<BTreeMap<String, String>>,
}

/// The metadata of an object, and no more of it.
#[derive(Clone, Deserialize)]
pub(super) struct MetadataOnly {
    #[serde(default)]
    metadata: Metadata,
}

impl Revisioned for MetadataOnly {
    type Kept = PoolMeta;
    const IS_PARTIAL: bool = true;

    fn revision(&self) -> &str {
        &self.metadata.resource_version
    }

    fn keep(self) -> PoolMeta {
        let Metadata { name, uid, resource_version: revision, annotations, .. } = self.metadata;
        PoolMeta { name, uid, revision, annotations: annotations.unwrap_or_default() }
    }
}

/// What is read of a Pod.
#[derive(Clone, Deserialize)]
pub(super) struct PodPart {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: String,
}

impl PodPart {
    fn is_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }
}

impl Revisioned for PodPart {
    type Kept = (String, Pod);

    fn revision(&self) -> &str {
        &self.metadata.resource_version
    }

    fn keep(self) -> (String, Pod) {
        let is_ended = self.is_ended();
        let Metadata { name, namespace, uid, annotations, .. } = self.metadata;
        let mut annotations = annotations.unwrap_or_default();
        let static_uid = STATIC_UIDS.iter().find_map(|name| annotations.remove(*name)).unwrap_or_default();
        let ips = annotations.get(NETWORK_STATUS).map(|text| addresses(text)).unwrap_or_default();
        (format!("{namespace}/{name}"), Pod { uid, static_uid, is_ended, ips })
    }
}

/// The annotations of a static pod's stand-in with the UID that the kubelet gave the pod.
const STATIC_UIDS: [&str; 2] = ["kubernetes.io/config.hash", "kubernetes.io/config.mirror"];
/// The annotation of a pod with what it has on which network; Multus writes it.
const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// What is read of one network there.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Attachment {
    interface: String,
    ips: Option<Vec<String>>,
}

/// The addresses in that annotation, each with its interface. One that cannot be read says nothing of the others.
fn addresses(text: &str) -> Vec<(IpAddr, String)> {
    let all: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    let all = all.into_iter().filter_map(|one| serde_json::from_value::<Attachment>(one).ok());
    let mut found = Vec::new();
    for Attachment { interface, ips } in all {
        let ips = ips.into_iter().flatten().filter_map(|ip| ip.split('/').next()?.parse().ok());
        found.extend(ips.map(|ip: IpAddr| (ip, interface.clone())));
    }
    // There are many pods, and most have one or two.
    found.shrink_to_fit();
    found
}

/// An object of which all is read, and some kept.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct PoolObject(Value);

impl Revisioned for PoolObject {
    type Kept = SeenPool;

    fn revision(&self) -> &str {
        self.0.revision()
    }

    fn keep(self) -> SeenPool {
        SeenPool::read(&self.0)
    }
}

/// The same of a reservation.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct ReservationObject(Value);

impl Revisioned for ReservationObject {
    type Kept = SeenReservation;

    fn revision(&self) -> &str {
        self.0.revision()
    }

    fn keep(self) -> SeenReservation {
        SeenReservation::read(&self.0)
    }
}

/// What is read of the answer to a write.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    metadata: Metadata,
}

impl Answer {
    fn revision(&self) -> u64 {
        self.metadata.resource_version.parse().unwrap_or_default()
    }
}

/// What an outcome came with, if it was no success.
pub(super) type Why = Option<String>;

/// Reads a `NodeSlicePool` and its shards.
pub(super) async fn fetch(writer: &Writer, paths: &Paths, name: &str) -> (Outcome<Fetched>, Why) {
    let collection = paths.slice_pools();
    let pool = match writer.look(&format!("{collection}/{name}")).await {
        Ok(Some(pool)) => pool,
        Ok(None) => return (Outcome::Absent, None),
        Err(error) => return (Outcome::Failed, Some(error.to_string())),
    };
    let mut shards = Vec::new();
    for shard in pool["status"]["shards"].as_array().into_iter().flatten() {
        let Some(shard) = shard["name"].as_str() else { continue };
        match writer.look(&format!("{collection}/{shard}")).await {
            Ok(shard) => shards.extend(shard),
            Err(error) => return (Outcome::Failed, Some(error.to_string())),
        }
    }
    let fetched = Fetched::read(pool, shards, &paths.node);
    fetched.map_or((Outcome::Failed, Some("it is no object".to_owned())), |fetched| (Outcome::Is(fetched), None))
}

/// Writes an `IPPool`. One that is in the way, or that somebody else wrote first, is shown as it is.
pub(super) async fn write_pool(
    writer: &Writer,
    paths: &Paths,
    name: &str,
    write: PoolWrite,
    before: Option<SeenPool>,
) -> (Outcome<SeenPool>, Why) {
    let (collection, body) = (paths.pools(), write.body(name));
    let path = format!("{collection}/{name}");
    let asked = match write.revision {
        None => Asked::new(Method::POST, collection, JSON, &body),
        Some(_) => Asked::new(Method::PATCH, path.clone(), MERGE, &body),
    };
    match writer.ask::<Answer>(asked).await {
        Ok(answer) => {
            let before = before.filter(|_| write.revision.is_some());
            (Outcome::Is(write.written(name, before.as_ref(), answer.revision())), None)
        }
        Err(Refused::Gone) if write.revision.is_some() => (Outcome::Absent, None),
        Err(Refused::Gone) => (Outcome::Failed, Some("the namespace or the kind is not there".to_owned())),
        Err(Refused::Conflict(_)) => match writer.look(&path).await {
            Ok(Some(object)) => (Outcome::Is(SeenPool::read(&object)), None),
            Ok(None) => (Outcome::Absent, None),
            Err(error) => (Outcome::Failed, Some(error.to_string())),
        },
        Err(Refused::Failed(why)) => (Outcome::Failed, Some(why)),
    }
}

/// Deletes an `IPPool` of that revision; why not, if not.
pub(super) async fn discard(writer: &Writer, paths: &Paths, name: &str, revision: u64) -> Why {
    match writer.ask::<writer::Anything>(delete(format!("{}/{name}", paths.pools()), revision)).await {
        Ok(_) | Err(Refused::Gone) => None,
        Err(Refused::Conflict(why) | Refused::Failed(why)) => Some(why),
    }
}

/// Says in a pool that all nodes share which containers run on this node though their pods are gone; why not, if not. Where there is no
/// pool any more there is nothing to be said.
pub(super) async fn say(writer: &Writer, paths: &Paths, name: &str, containers: &BTreeSet<String>) -> Why {
    let said: Vec<&str> = containers.iter().map(String::as_str).collect();
    let said = if said.is_empty() { Value::Null } else { json!(said.join(",")) };
    let body = json!({"metadata": {"annotations": {slices::held_on(&paths.label): said}}});
    let asked = Asked::new(Method::PATCH, format!("{}/{name}", paths.pools()), MERGE, &body);
    match writer.ask::<writer::Anything>(asked).await {
        Ok(_) | Err(Refused::Gone) => None,
        Err(Refused::Conflict(why) | Refused::Failed(why)) => Some(why),
    }
}

fn delete(path: String, revision: u64) -> Asked {
    let body = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": revision.to_string()},
    });
    Asked::new(Method::DELETE, path, JSON, &body)
}

/// Does something about a reservation.
pub(super) async fn reserve(
    writer: &Writer,
    paths: &Paths,
    name: &str,
    step: &Step,
) -> (Outcome<SeenReservation>, Why) {
    let path = format!("{}/{name}", paths.reservations());
    let body = |holder: &Allocation, revision| reservations::body(name, &paths.label, holder, revision);
    let change =
        |holder: &Allocation, revision| Asked::new(Method::PATCH, path.clone(), MERGE, &body(holder, Some(revision)));
    let (asked, holder) = match step {
        Step::Make(holder) => (Asked::new(Method::POST, paths.reservations(), JSON, &body(holder, None)), Some(holder)),
        Step::Change(revision, holder) => (change(holder, *revision), Some(holder)),
        Step::Delete(revision) => (delete(path.clone(), *revision), None),
    };
    let written = |holder: &Allocation, answer: &Answer| {
        let mut object = body(holder, Some(answer.revision()));
        object["metadata"]["name"] = json!(name);
        SeenReservation::read(&object)
    };
    let failed = |why: String| (Outcome::Failed, Some(why));
    match (writer.ask::<Answer>(asked).await, holder) {
        (Ok(answer), Some(holder)) => return (Outcome::Is(written(holder, &answer)), None),
        (Ok(_), None) => return (Outcome::Absent, None),
        (Err(Refused::Gone), _) if !matches!(step, Step::Make(_)) => return (Outcome::Absent, None),
        (Err(Refused::Gone), _) => return failed("the namespace or the kind is not there".to_owned()),
        (Err(Refused::Failed(why)), _) => return failed(why),
        (Err(Refused::Conflict(_)), _) => {}
    }
    let found = match writer.look(&path).await {
        Ok(Some(object)) => SeenReservation::read(&object),
        Ok(None) => return (Outcome::Absent, None),
        Err(error) => return failed(error.to_string()),
    };
    match holder.filter(|holder| is_ours(&found, holder)) {
        None => (Outcome::Is(found), None),
        // It is for the same attachment, and somebody else made it: we look after it from now on.
        Some(holder) => match writer.ask::<Answer>(change(holder, found.revision)).await {
            Ok(answer) => (Outcome::Is(written(holder, &answer)), None),
            Err(Refused::Gone) => (Outcome::Absent, None),
            Err(Refused::Conflict(why) | Refused::Failed(why)) => failed(why),
        },
    }
}

/// Whether a pod is gone, or nothing of it runs any more.
pub(super) async fn is_gone(writer: &Writer, doubt: &Doubt) -> Result<bool, String> {
    let Some((namespace, name)) = doubt.pod.split_once('/') else { return Ok(false) };
    let found = writer.look(&format!("/api/v1/namespaces/{namespace}/pods/{name}")).await;
    let Some(found) = found.map_err(|error| error.to_string())? else { return Ok(true) };
    let pod: PodPart = serde_json::from_value(found).map_err(|error| error.to_string())?;
    let (_, pod) = pod.keep();
    Ok(!pod.is(&doubt.uid) || pod.is_ended)
}

/// The UID of the node, if it is there; why not, if the server does not answer.
pub(super) async fn beat(writer: &Writer, paths: &Paths) -> Result<Option<String>, String> {
    let listed = controllers::follow::list::<MetadataOnly>(&writer.client, &paths.node_only()).await;
    let (nodes, _) = listed.map_err(|error| error.to_string())?;
    Ok(nodes.into_iter().next().map(|node| node.uid))
}

/// An Event of the node.
pub(super) fn event(cause: &Cause, node: &str, uid: &str) -> Event {
    let about = Reference { api_version: "v1", kind: "Node", namespace: "", name: node, uid };
    Event::new(&about, cause.reason, &cause.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: &Value) -> Pod {
        let metadata = json!({"name": "b", "namespace": "a", "uid": "u", "annotations": annotations});
        let part: PodPart =
            serde_json::from_value(json!({"metadata": metadata, "status": {"phase": "Running"}})).unwrap();
        let (name, pod) = part.keep();
        assert_eq!((name.as_str(), pod.uid.as_str(), pod.is_ended), ("a/b", "u", false));
        pod
    }

    #[test]
    fn the_uid_of_a_static_pod_is_in_an_annotation_of_its_stand_in() {
        for (annotations, is) in [
            (Value::Null, false),
            (json!({"kubernetes.io/config.source": "file"}), false),
            (json!({"kubernetes.io/config.hash": "k"}), true),
            (json!({"kubernetes.io/config.mirror": "k"}), true),
            (json!({"kubernetes.io/config.mirror": "k", "kubernetes.io/config.hash": "k"}), true),
        ] {
            let pod = pod(&annotations);
            assert_eq!(pod.is("k"), is, "{annotations}");
            assert!(pod.is("u") && pod.is("") && !pod.is("other"));
        }
    }

    #[test]
    fn of_what_a_pod_says_of_its_networks_the_addresses_are_kept() {
        let said = |text: &str| pod(&json!({"k8s.v1.cni.cncf.io/network-status": text})).ips;
        let text = r#"[
            {"name": "cluster", "interface": "eth0", "ips": ["10.244.0.5"], "default": true, "dns": {}},
            {"name": "default/none", "interface": "net1", "mac": "02:00:00:00:00:01"},
            {"name": "default/storage", "interface": "net2", "ips": ["10.0.0.7", "fd00::7/64", "x"]},
            {"name": "default/odd", "interface": 5}, "odd", {"ips": null}, {"ips": ["10.0.0.8"]}
        ]"#;
        let expected = [("10.244.0.5", "eth0"), ("10.0.0.7", "net2"), ("fd00::7", "net2"), ("10.0.0.8", "")];
        assert_eq!(said(text), expected.map(|(ip, ifname)| (ip.parse().unwrap(), ifname.to_owned())));
        for text in ["", "null", "{}", "[", "[]"] {
            assert_eq!(said(text), [], "{text}");
        }
    }
}
