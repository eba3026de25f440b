//! `default/kubernetes`: where servers publish that they are.

use serde_json::{Value, json};
use server::front::Trigger;

use crate::fixture::Fixture;

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// The addresses in the Endpoints and in the slice, which have to be the same.
async fn published(fixture: &Fixture) -> Vec<String> {
    let texts = |list: &Value, name: &str| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.map(|one| one.pointer(name).and_then(Value::as_str).unwrap_or_default().to_owned()).collect()
    };
    let endpoints = fixture.get(ENDPOINTS).await.expect(200);
    let slice = fixture.get(SLICE).await.expect(200);
    let addresses = texts(&endpoints["subsets"][0]["addresses"], "/ip");
    assert_eq!(addresses, texts(&slice["endpoints"], "/addresses/0"));
    addresses
}

/// Publishes an address until the trigger is pulled and everything is done that it makes necessary.
async fn publishing(fixture: &Fixture, address: &str, shared: bool) -> (Trigger, tokio::task::JoinHandle<()>) {
    let trigger = Trigger::default();
    let store = fixture.server.store();
    let mut watch = store.watch("", store.revision()).unwrap();
    let task = fixture.server.publish(address.parse().unwrap(), shared, trigger.shutdown());
    let task = tokio::spawn(task);
    let ip = address.split(':').next().unwrap();
    // The slice is written last.
    while !fixture.get(SLICE).await.text().contains(ip) {
        watch.next().await.unwrap();
    }
    (trigger, task)
}

#[tokio::test]
async fn a_server_is_published_as_long_as_it_serves() {
    let fixture = Fixture::new().await;
    let (trigger, task) = publishing(&fixture, "192.0.2.7:6443", false).await;
    let endpoints = fixture.get(ENDPOINTS).await.expect(200);
    assert_eq!(
        endpoints["subsets"],
        json!([{
            "addresses": [{"ip": "192.0.2.7"}], "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]
        }])
    );
    assert_eq!(endpoints["metadata"]["labels"], json!({"endpointslice.kubernetes.io/skip-mirror": "true"}));
    let slice = fixture.get(SLICE).await.expect(200);
    assert_eq!(slice["metadata"]["labels"], json!({"kubernetes.io/service-name": "kubernetes"}));
    assert_eq!(slice["endpoints"], json!([{"addresses": ["192.0.2.7"], "conditions": {"ready": true}}]));
    assert_eq!(slice["ports"], json!([{"name": "https", "port": 6443, "protocol": "TCP"}]));
    assert_eq!(fixture.get(LEASES).await.expect(200)["items"], json!([]), "nobody else needs to know");
    trigger.begin();
    task.await.unwrap();
    assert!(published(&fixture).await.is_empty());
}

#[tokio::test]
async fn servers_that_share_a_store_are_all_published_and_leave_one_by_one() {
    let fixture = Fixture::new().await;
    let (first, first_task) = publishing(&fixture, "192.0.2.1:6443", true).await;
    let (second, second_task) = publishing(&fixture, "192.0.2.2:6443", true).await;
    assert_eq!(published(&fixture).await, ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(fixture.get(LEASES).await.expect(200)["items"].as_array().unwrap().len(), 2);
    first.begin();
    first_task.await.unwrap();
    assert_eq!(published(&fixture).await, ["192.0.2.2"]);
    second.begin();
    second_task.await.unwrap();
    assert!(published(&fixture).await.is_empty());
    assert_eq!(fixture.get(LEASES).await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn an_address_that_nobody_reaches_is_not_published() {
    let fixture = Fixture::new().await;
    fixture.server.publish("127.0.0.1:6443".parse().unwrap(), true, fixture.trigger.shutdown()).await;
    fixture.get(ENDPOINTS).await.expect(404);
}

#[tokio::test]
async fn a_slice_of_the_other_family_makes_place() {
    let fixture = Fixture::new().await;
    let other = json!({
        "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": "IPv6", "endpoints": [{"addresses": ["2001:db8::7"]}], "ports": [],
    });
    fixture.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &other).await.expect(201);
    let (trigger, task) = publishing(&fixture, "192.0.2.7:6443", false).await;
    assert_eq!(published(&fixture).await, ["192.0.2.7"]);
    assert_eq!(fixture.get(SLICE).await.expect(200)["addressType"], "IPv4");
    trigger.begin();
    task.await.unwrap();
}
