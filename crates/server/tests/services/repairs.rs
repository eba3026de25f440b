//! Damage that comes from outside, found and mended at the start.

use serde_json::json;
use store::{Txn, Write};

use crate::cluster::{ADDRESSES, Cluster, PORTS, at, node_port};

async fn write(cluster: &Cluster, write: Write) {
    cluster.server.store().txn(Txn { compares: vec![], writes: vec![write] }).await.unwrap();
}

fn gone(key: String) -> Write {
    Write::Delete { key: key.into() }
}

#[tokio::test]
async fn what_services_have_is_written_again_and_what_nobody_has_is_removed() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let kept = cluster.make("kept", json!({"type": "NodePort", "clusterIP": "10.7.0.9"})).await;
    cluster.make("lost", json!({"type": "NodePort", "clusterIP": "10.7.0.8"})).await;
    let foreign = json!({"metadata": {"name": "10.7.0.7"}, "spec": {"parentRef": {"resource": "x", "name": "y"}}});
    cluster.post(ADDRESSES, &foreign).await.expect(201);
    write(&cluster, gone("ipaddresses.networking.k8s.io/10.7.0.9".to_owned())).await;
    write(&cluster, gone(format!("nodeports.ipam.cadastre.dev/{}", node_port(&kept)))).await;
    write(&cluster, gone("services/default/lost".to_owned())).await;
    cluster.server.prepare().await.unwrap();
    cluster.agrees().await;
    cluster.get(&format!("{ADDRESSES}/10.7.0.9")).await.expect(200);
    cluster.get(&format!("{PORTS}/{}", node_port(&kept))).await.expect(200);
    cluster.get(&format!("{ADDRESSES}/10.7.0.8")).await.expect(404);
    cluster.get(&format!("{ADDRESSES}/10.7.0.7")).await.expect(200);
    let before = cluster.server.store().revision();
    cluster.server.prepare().await.unwrap();
    assert_eq!(cluster.server.store().revision(), before, "what agrees is left alone");
}

#[tokio::test]
async fn an_address_that_two_services_have_is_left_to_people() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let made = cluster.make("web", json!({"clusterIP": "10.7.0.9"})).await;
    let mut twin = made.clone();
    twin["metadata"]["name"] = json!("twin");
    twin["metadata"]["uid"] = json!("another");
    twin["metadata"]["resourceVersion"] = json!("");
    let value = api::Object::from_value(twin).unwrap().encode();
    write(&cluster, Write::Put { key: "services/default/twin".into(), value }).await;
    let before = cluster.server.store().revision();
    cluster.server.prepare().await.unwrap();
    assert_eq!(cluster.server.store().revision(), before);
    // When the one goes that it is written of, the next start gives it to the other.
    cluster.delete(&at("web")).await.expect(200);
    cluster.server.prepare().await.unwrap();
    cluster.agrees().await;
}

#[tokio::test]
async fn what_nobody_has_is_marked_and_stays_until_its_finalizers_are_gone() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    cluster.make("lost", json!({"clusterIP": "10.7.0.8"})).await;
    let url = format!("{ADDRESSES}/10.7.0.8");
    let keep = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    cluster.patch(&url, "merge-patch", &keep).await.expect(200);
    write(&cluster, gone("services/default/lost".to_owned())).await;
    cluster.server.prepare().await.unwrap();
    let marked = cluster.get(&url).await.expect(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    let before = cluster.server.store().revision();
    cluster.server.prepare().await.unwrap();
    assert_eq!(cluster.server.store().revision(), before, "it waits");
    assert!(cluster.refused("early", json!({"clusterIP": "10.7.0.8"}), 422).await.contains("already allocated"));
    cluster.patch(&url, "merge-patch", &json!({"metadata": {"finalizers": null}})).await.expect(200);
    cluster.make("next", json!({"clusterIP": "10.7.0.8"})).await;
    cluster.agrees().await;
}
