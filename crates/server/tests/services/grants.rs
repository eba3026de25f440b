//! The objects that say whose an address or a port is, and people who edit them.

use serde_json::{Value, json};
use store::{Txn, Write};

use crate::cluster::{ADDRESSES, Cluster, PORTS, RANGES, at, node_port};

const UID: &str = "ipam.cadastre.dev/parent-uid";
const MANAGER: &str = "ipaddress.kubernetes.io/managed-by";

/// What a person might write over the object of an address that is in use.
fn edits() -> [Value; 4] {
    [
        json!({"metadata": {"annotations": {UID: "x"}}}),
        json!({"metadata": {"annotations": null}}),
        json!({"metadata": {"labels": {MANAGER: null}}}),
        json!({"metadata": {"labels": {MANAGER: "me", "ipaddress.kubernetes.io/ip-family": "IPv6", "mine": "yes"}}}),
    ]
}

#[tokio::test]
async fn an_address_in_use_says_whose_it_is_whatever_is_written_over_it() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    cluster.make("web", json!({"clusterIP": "10.7.0.9"})).await;
    let url = format!("{ADDRESSES}/10.7.0.9");
    let before = cluster.get(&url).await.expect(200);
    for edit in edits() {
        let after = cluster.patch(&url, "merge-patch", &edit).await.expect(200);
        assert_eq!(after["metadata"]["annotations"], before["metadata"]["annotations"], "{edit}");
        assert_eq!(after["metadata"]["labels"][MANAGER], before["metadata"]["labels"][MANAGER], "{edit}");
        let refused = cluster.delete(&url).await;
        refused.expect(403);
        assert!(refused.message().contains("Service default/web has this address"), "{}", refused.text());
        cluster.agrees().await;
    }
    assert_eq!(cluster.get(&url).await.expect(200)["metadata"]["labels"]["mine"], "yes", "the rest is theirs");
    cluster.delete(&at("web")).await.expect(200);
    cluster.get(&url).await.expect(404);
}

#[tokio::test]
async fn a_range_stays_whatever_is_written_over_its_addresses() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let range = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.8.0.0/24"]}});
    cluster.post(RANGES, &range).await.expect(201);
    cluster.make("web", json!({"clusterIP": "10.8.0.9"})).await;
    let edit = json!({"metadata": {"labels": {MANAGER: null}}});
    cluster.patch(&format!("{ADDRESSES}/10.8.0.9"), "merge-patch", &edit).await.expect(200);
    let url = format!("{RANGES}/more");
    cluster.delete(&url).await.expect(200);
    cluster.patch(&url, "merge-patch", &json!({"metadata": {"finalizers": null}})).await.expect(200);
    cluster.get(&url).await.expect(200);
}

#[tokio::test]
async fn a_port_stays_with_the_very_service_that_has_it() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let made = cluster.make("web", json!({"type": "NodePort"})).await;
    let url = format!("{PORTS}/{}", node_port(&made));
    let edit = json!({"spec": {"parentRef": {"uid": "x"}}});
    cluster.patch(&url, "merge-patch", &edit).await.expect(422);
    cluster.delete(&url).await.expect(403);
    cluster.delete(&at("web")).await.expect(200);
    cluster.get(&url).await.expect(404);
}

#[tokio::test]
async fn what_a_service_has_is_not_deleted_because_its_object_says_another_uid() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    cluster.make("web", json!({"clusterIP": "10.7.0.9"})).await;
    let url = format!("{ADDRESSES}/10.7.0.9");
    let mut damaged = cluster.get(&url).await.expect(200);
    damaged["metadata"]["annotations"][UID] = json!("x");
    damaged["metadata"]["resourceVersion"] = json!("");
    let value = api::Object::from_value(damaged).unwrap().encode();
    let write = Write::Put { key: "ipaddresses.networking.k8s.io/10.7.0.9".into(), value };
    cluster.server.store().txn(Txn { compares: vec![], writes: vec![write] }).await.unwrap();
    cluster.delete(&url).await.expect(403);
    // Any write of it makes it right again.
    cluster.patch(&url, "merge-patch", &json!({"metadata": {"labels": {"mine": "yes"}}})).await.expect(200);
    cluster.agrees().await;
}
