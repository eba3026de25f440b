//! Networks, nodes and their slices, against a server in this process.

use std::sync::Arc;
use std::time::Duration;

use api::slices::held_on;
use controllers::slice::duty::{self, Report};
use controllers::slice::execute::Options;
use controllers::slice::plan::Settings;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::fixture::{EVENTS, Fixture, NODES};

const POOLS: &str = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/nodeslicepools";
const IP_POOLS: &str = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools";
const RESERVATIONS: &str =
    "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/overlappingrangeipreservations";
const DEFAULT: &str = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions";
const BESIDE: &str = "/apis/k8s.cni.cncf.io/v1/namespaces/kube-system/network-attachment-definitions";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A controller that is stopped with the test.
struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    report: Arc<Report>,
}

impl Running {
    fn start(fixture: &Fixture, quarantine: i64) -> Self {
        Self::with(fixture, Settings { quarantine, ..Settings::default() })
    }

    fn with(fixture: &Fixture, settings: Settings) -> Self {
        let options = Options { settings, write_timeout: Duration::from_secs(10) };
        let (client, report) = (fixture.client.clone(), Arc::<Report>::default());
        let (stop, told) = oneshot::channel::<()>();
        let shown = Arc::clone(&report);
        let stopped = async move { drop(told.await) };
        let task = tokio::spawn(async move { duty::serve(client, options, None, shown, stopped).await.unwrap() });
        Self { stop: Some(stop), task, report }
    }

    /// Waits until a figure is as it should be: others may see a write before it is counted.
    async fn shows(&self, figure: &str) {
        let text = || controllers::node::meters::text(Arc::clone(&self.report));
        let counted = async {
            while !text().contains(figure) {
                tokio::task::yield_now().await;
            }
        };
        let outcome = tokio::time::timeout(Duration::from_mins(1), counted).await;
        assert!(outcome.is_ok(), "no {figure} in {}", text());
    }

    async fn stop(mut self) {
        drop(self.stop.take());
        self.task.await.unwrap();
    }
}

/// A definition of a network.
async fn define(fixture: &Fixture, collection: &str, name: &str, ipam: Value) {
    let mut ipam = ipam;
    ipam["type"] = json!("cadastre");
    let config = json!({"cniVersion": "1.0.0", "name": name, "plugins": [{"type": "macvlan", "ipam": ipam}]});
    let definition = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": name},
        "spec": {"config": config.to_string()},
    });
    if let Err((409, _)) = fixture.send(Method::POST, collection, &definition).await {
        let patch = json!({"spec": definition["spec"]});
        fixture.send(Method::PATCH, &format!("{collection}/{name}"), &patch).await.unwrap();
    }
}

fn entry<'a>(pool: &'a Value, node: &str) -> Option<&'a Value> {
    pool["status"]["allocations"].as_array()?.iter().find(|one| one["nodeName"] == node)
}

fn has(pool: &Value, node: &str, slice: &str) -> bool {
    entry(pool, node).is_some_and(|one| one["sliceRange"] == slice)
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_get_slices_of_both_families_and_the_pool_goes_with_its_definition() {
    let fixture = Fixture::new().await;
    let running = Running::start(&fixture, 300);
    fixture.node("a", json!({})).await;
    let ranges = json!([{"range": "10.0.0.0/8"}, {"range": "fd00::/64"}]);
    define(&fixture, DEFAULT, "net", json!({"ipRanges": ranges, "node_slice_size": "/20"})).await;
    let pool = fixture.until(POOLS, "net", |pool| has(pool, "a", "10.0.0.0/20")).await;
    let node = fixture.get(&format!("{NODES}/a")).await;
    let one = entry(&pool, "a").unwrap();
    assert_eq!((&one["nodeUID"], &one["furtherSlices"]), (&node["metadata"]["uid"], &json!(["fd00::/116"])));
    assert_eq!(pool["spec"], json!({"range": "10.0.0.0/8", "sliceSize": "/20"}));
    assert!(pool["metadata"]["ownerReferences"].is_null(), "its definition is in another namespace");
    fixture.node("b", json!({})).await;
    fixture.until(POOLS, "net", |pool| has(pool, "b", "10.0.16.0/20")).await;
    let text = controllers::node::meters::text(Arc::clone(&running.report));
    assert!(text.contains("cadastre_slices{network=\"net\",state="), "{text}");
    fixture.delete(DEFAULT, "net").await;
    fixture.until(POOLS, "net", Value::is_null).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_beside_the_pool_own_it() {
    let fixture = Fixture::new().await;
    let _running = Running::start(&fixture, 300);
    let ipam = json!({"network_name": "shared", "range": "10.0.0.0/24", "node_slice_size": "/28"});
    define(&fixture, BESIDE, "one", ipam.clone()).await;
    define(&fixture, BESIDE, "two", ipam).await;
    let owners = |pool: &Value| pool["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
    fixture.until(POOLS, "shared", |pool| owners(pool) == 2).await;
    fixture.delete(BESIDE, "one").await;
    fixture.until(POOLS, "shared", |pool| owners(pool) == 1).await;
    fixture.delete(BESIDE, "two").await;
    fixture.until(POOLS, "shared", Value::is_null).await;
}

/// A pod on the node `a`.
async fn pod(fixture: &Fixture, name: &str) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let _ = fixture.send(Method::POST, "/api/v1/namespaces/default/serviceaccounts", &account).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": "a", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]},
    });
    fixture.send(Method::POST, PODS, &pod).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_slice_of_a_node_that_is_gone_waits_for_its_pods() {
    let fixture = Fixture::new().await;
    let _running = Running::start(&fixture, 0);
    define(&fixture, DEFAULT, "net", json!({"range": "10.0.0.0/31", "node_slice_size": "/31"})).await;
    fixture.node("a", json!({})).await;
    fixture.until(POOLS, "net", |pool| has(pool, "a", "10.0.0.0/31")).await;
    pod(&fixture, "p").await;
    fixture.delete(NODES, "a").await;
    fixture.node("b", json!({})).await;
    fixture.until(POOLS, "net", |pool| entry(pool, "a").is_some_and(|one| !one["goneAt"].is_null())).await;
    fixture.send(Method::DELETE, &format!("{PODS}/p?gracePeriodSeconds=0"), &Value::Null).await.unwrap();
    fixture.until(POOLS, "net", |pool| has(pool, "b", "10.0.0.0/31")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_asks_for_more_and_gives_back_what_drained() {
    let fixture = Fixture::new().await;
    let _running = Running::start(&fixture, 300);
    define(&fixture, DEFAULT, "net", json!({"network_name": "net", "range": "10.0.0.0/24", "node_slice_size": "/28"}))
        .await;
    fixture.node("a", json!({})).await;
    let pool = fixture.until(POOLS, "net", |pool| has(pool, "a", "10.0.0.0/28")).await;
    let ask = format!("more-{}", entry(&pool, "a").unwrap()["epoch"]);
    let ip_pool = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
        "metadata": {"name": "net-a-10.0.0.0-28", "labels": {"ipam.cadastre.dev/asks": ask}},
        "spec": {"range": "10.0.0.0/28", "allocations": {}},
    });
    fixture.send(Method::POST, IP_POOLS, &ip_pool).await.unwrap();
    let further = |pool: &Value| entry(pool, "a").map(|one| one["furtherSlices"].clone());
    fixture.until(POOLS, "net", |pool| further(pool) == Some(json!(["10.0.0.16/28"]))).await;
    define(&fixture, DEFAULT, "net", json!({"network_name": "net", "range": "10.1.0.0/24", "node_slice_size": "/28"}))
        .await;
    let draining = |pool: &Value| entry(pool, "a").map_or(0, |one| one["draining"].as_array().map_or(0, Vec::len));
    let pool = fixture.until(POOLS, "net", |pool| draining(pool) == 2).await;
    let ask = format!("release-{}", entry(&pool, "a").unwrap()["epoch"]);
    let patch = json!({"metadata": {"labels": {"ipam.cadastre.dev/asks": ask}}});
    fixture.send(Method::PATCH, &format!("{IP_POOLS}/net-a-10.0.0.0-28"), &patch).await.unwrap();
    let pool = fixture.until(POOLS, "net", |pool| draining(pool) == 1).await;
    assert_eq!(further(&pool), Some(json!(["10.0.0.16/28"])));
    assert!(has(&pool, "a", "10.1.0.0/28"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_definition_is_told_beside_it() {
    let fixture = Fixture::new().await;
    let _running = Running::start(&fixture, 300);
    define(&fixture, DEFAULT, "bad", json!({"range": "10.0.0.0/24", "node_slice_size": "abc"})).await;
    let event = loop {
        let events = fixture.get(EVENTS).await;
        let told = |event: &&Value| event["involvedObject"]["name"] == "bad";
        match events["items"].as_array().unwrap().iter().find(told) {
            Some(event) => break event.clone(),
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("InvalidNetwork")));
    let message = "plugins[0].ipam.node_slice_size: \"abc\" is no prefix length, such as \"/26\"";
    assert_eq!(event["message"], message);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_controllers_at_once_give_every_node_a_slice_of_its_own() {
    let fixture = Fixture::new().await;
    let (one, two) = (Running::start(&fixture, 300), Running::start(&fixture, 300));
    define(&fixture, DEFAULT, "net", json!({"range": "10.0.0.0/16", "node_slice_size": "/24"})).await;
    for index in 0..60 {
        fixture.node(&format!("n{index:02}"), json!({})).await;
    }
    let count = |pool: &Value| pool["status"]["allocations"].as_array().map_or(0, Vec::len);
    let pool = fixture.until(POOLS, "net", |pool| count(pool) == 60).await;
    let slices: std::collections::BTreeSet<&str> = pool["status"]["allocations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["sliceRange"].as_str().unwrap())
        .collect();
    assert_eq!(slices.len(), 60);
    one.stop().await;
    two.stop().await;
    // Who begins now changes nothing.
    let three = Running::start(&fixture, 300);
    fixture.node("last", json!({})).await;
    let after = fixture.until(POOLS, "net", |pool| count(pool) == 61).await;
    assert_eq!(entry(&after, "n00"), entry(&pool, "n00"));
    three.stop().await;
}

/// Somebody gives the slice of one node to another as well: both are told in the pool, and people in an event.
#[tokio::test(flavor = "multi_thread")]
async fn one_slice_of_two_nodes_drains_on_both() {
    let fixture = Fixture::new().await;
    let running = Running::start(&fixture, 300);
    define(&fixture, DEFAULT, "net", json!({"range": "10.0.0.0/24", "node_slice_size": "/28"})).await;
    fixture.node("a", json!({})).await;
    fixture.until(POOLS, "net", |pool| has(pool, "a", "10.0.0.0/28")).await;
    fixture.node("b", json!({})).await;
    let mut pool = fixture.until(POOLS, "net", |pool| has(pool, "b", "10.0.0.16/28")).await;
    let changed = |pool: &Value| pool["metadata"]["annotations"]["ipam.cadastre.dev/changed"].clone();
    let before = changed(&pool);
    pool["status"]["allocations"][1]["sliceRange"] = json!("10.0.0.0/28");
    fixture.send(Method::PUT, &format!("{POOLS}/net"), &pool).await.unwrap();
    let drains =
        |pool: &Value, node: &str| entry(pool, node).is_some_and(|one| one["draining"] == json!(["10.0.0.0/28"]));
    let pool = fixture.until(POOLS, "net", |pool| drains(pool, "a") && drains(pool, "b")).await;
    assert!(has(&pool, "a", "10.0.0.16/28") && has(&pool, "b", "10.0.0.32/28"), "{pool}");
    assert_ne!(changed(&pool), before);
    running.shows("cadastre_slices{network=\"net\",state=\"conflicting\"} 2.0").await;
    running.stop().await;
}

/// A pod has an address of a larger range, from a pool of which no definition says anything.
#[tokio::test(flavor = "multi_thread")]
async fn no_node_gets_a_slice_of_which_a_pod_has_an_address_from_a_larger_range() {
    let fixture = Fixture::new().await;
    let held = json!({"id": "c", "podref": "dev/p", "ifname": "net1"});
    let ip_pool = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool", "metadata": {"name": "10.0.0.0-16"},
        "spec": {"range": "10.0.0.0/16", "allocations": {"1": held}},
    });
    fixture.send(Method::POST, IP_POOLS, &ip_pool).await.unwrap();
    let running = Running::start(&fixture, 300);
    fixture.node("a", json!({})).await;
    define(&fixture, DEFAULT, "net", json!({"range": "10.0.0.0/24", "node_slice_size": "/28"})).await;
    fixture.until(POOLS, "net", |pool| has(pool, "a", "10.0.0.16/28")).await;
    let patch = json!({"spec": {"allocations": {"17": held}}});
    fixture.send(Method::PATCH, &format!("{IP_POOLS}/10.0.0.0-16"), &patch).await.unwrap();
    let pool = fixture.until(POOLS, "net", |pool| has(pool, "a", "10.0.0.32/28")).await;
    assert_eq!(entry(&pool, "a").unwrap()["draining"], json!(["10.0.0.16/28"]));
    running.stop().await;
}

async fn reserve(fixture: &Fixture, name: &str, podref: &str, container: &str) {
    let reservation = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "OverlappingRangeIPReservation",
        "metadata": {"name": name}, "spec": {"podref": podref, "ifname": "net1", "containerid": container},
    });
    fixture.send(Method::POST, RESERVATIONS, &reservation).await.unwrap();
}

/// Pods are listed for their sake, too.
#[tokio::test(flavor = "multi_thread")]
async fn reservations_are_held_against_pods_also_where_no_pool_has_an_entry() {
    let fixture = Fixture::new().await;
    pod(&fixture, "p").await;
    let pool = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
        "metadata": {"name": "10.0.0.0-16"}, "spec": {"range": "10.0.0.0/16", "allocations": {}},
    });
    fixture.send(Method::POST, IP_POOLS, &pool).await.unwrap();
    reserve(&fixture, "10.0.0.1", "default/p", "c1").await;
    reserve(&fixture, "10.0.0.2", "default/gone", "c2").await;
    let running = Running::with(&fixture, Settings { quarantine: 0, missing: 0, ..Settings::default() });
    fixture.until(RESERVATIONS, "10.0.0.2", Value::is_null).await;
    running.stop().await;
    assert!(!fixture.get(&format!("{RESERVATIONS}/10.0.0.1")).await.is_null());
}

/// The namespace of one of the pods is gone as well, and the container of another runs on. Reservations go with the entries that they are of, or
/// by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn entries_and_reservations_of_pods_that_are_gone_are_taken_out_of_shared_pools() {
    let fixture = Fixture::new().await;
    fixture.node("a", json!({})).await;
    pod(&fixture, "p").await;
    let entry = |id: &str, podref: &str| json!({"id": id, "podref": podref, "ifname": "net1"});
    let pool = |name: &str, range: &str, labels: Value, allocations: Value| {
        json!({
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
            "metadata": {"name": name, "labels": labels}, "spec": {"range": range, "allocations": allocations},
        })
    };
    let gone = json!({"1": entry("c1", "nowhere/gone")});
    let shared = json!({
        "1": entry("c1", "nowhere/gone"), "2": entry("c2", "default/gone"), "3": entry("c3", "default/gone"),
        "4": entry("c4", "default/p"), "5": entry("c5", "unreadable"), "6": entry("c6", "default/gone"),
    });
    let mut shared = pool("10.0.0.0-16", "10.0.0.0/16", json!({}), shared);
    shared["metadata"]["annotations"] = json!({held_on("a"): "c6", held_on("b"): "c1,c2,c3"});
    for pool in [
        shared,
        pool("net-fd00---64", "fd00::/64", json!({}), gone.clone()),
        pool("a-10.1.0.0-28", "10.1.0.0/28", json!({"ipam.cadastre.dev/node": "a"}), gone),
    ] {
        fixture.send(Method::POST, IP_POOLS, &pool).await.unwrap();
    }
    for (name, podref, container) in [
        ("10.0.0.1", "nowhere/gone", "c1"),
        ("10.0.0.2", "default/gone", ""),
        ("10.0.0.3", "default/gone", "other"),
        ("10.0.0.4", "default/p", "c4"),
        ("net-fd00--1", "nowhere/gone", "c1"),
    ] {
        reserve(&fixture, name, podref, container).await;
    }
    let running = Running::with(&fixture, Settings { quarantine: 0, missing: 0, ..Settings::default() });
    let held = |pool: &Value| pool["spec"]["allocations"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    fixture.until(IP_POOLS, "10.0.0.0-16", |pool| held(pool) == ["4", "5", "6"]).await;
    fixture.until(IP_POOLS, "net-fd00---64", |pool| held(pool).is_empty()).await;
    // Of the pod of an entry that is gone, and of another container.
    fixture.until(RESERVATIONS, "10.0.0.3", Value::is_null).await;
    let reserved = fixture.get(RESERVATIONS).await;
    let names: Vec<_> = reserved["items"].as_array().unwrap().iter().map(|one| &one["metadata"]["name"]).collect();
    assert_eq!(names, ["10.0.0.4"]);
    // There is no node of that name.
    let silent = |pool: &Value| pool["metadata"]["annotations"][held_on("b")].is_null();
    let pool = fixture.until(IP_POOLS, "10.0.0.0-16", silent).await;
    assert_eq!(pool["metadata"]["annotations"][held_on("a")], "c6");
    running.shows("cadastre_slice_swept_entries_total 4").await;
    running.stop().await;
    assert_eq!(held(&fixture.get(&format!("{IP_POOLS}/a-10.1.0.0-28")).await), ["1"]);
}
