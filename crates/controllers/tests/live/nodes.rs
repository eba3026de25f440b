//! Nodes, ranges and what becomes of them.

use std::collections::BTreeSet;

use controllers::node::flags::Flags;
use http::Method;
use serde_json::{Value, json};

use crate::fixture::{EVENTS, Fixture, NODES, RANGES};

fn select(label: &str, value: &str) -> Value {
    json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]}]})
}

fn condition(range: &Value, name: &str) -> Option<bool> {
    let conditions = range["status"]["conditions"].as_array()?;
    Some(conditions.iter().find(|condition| condition["type"] == name)?["status"] == "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_gets_its_blocks_and_the_range_says_so_and_goes_with_it() {
    let fixture = Fixture::running().await;
    fixture.range("r", json!({"perNodeHostBits": 8, "ipv4": "192.168.0.0/23", "ipv6": "fd00:30:100::/112"})).await;
    fixture.node("n", json!({})).await;
    assert_eq!(fixture.cidrs("n").await, "192.168.0.0/24,fd00:30:100::/120");
    let range = fixture.until(RANGES, "r", |range| range["status"]["ipv4"]["allocated"] == json!(1)).await;
    assert_eq!(range["metadata"]["finalizers"], json!(["networking.x-k8s.io/cluster-cidr-finalizer"]));
    assert_eq!((condition(&range, "Accepted"), condition(&range, "Exhausted")), (Some(true), Some(false)));
    fixture.delete(RANGES, "r").await;
    let going = fixture.until(RANGES, "r", |range| range["status"]["nodeCount"] == json!(1)).await;
    assert_eq!((&going["status"]["nodes"], condition(&going, "Terminating")), (&json!(["n"]), Some(true)));
    fixture.delete(NODES, "n").await;
    fixture.until(RANGES, "r", Value::is_null).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_range_serves_and_who_waits_is_told_why_and_served_when_it_can_be() {
    let fixture = Fixture::running().await;
    fixture
        .range("zone", json!({"perNodeHostBits": 8, "ipv4": "10.1.0.0/24", "nodeSelector": select("zone", "a")}))
        .await;
    fixture.node("a", json!({"zone": "a"})).await;
    assert_eq!(fixture.cidrs("a").await, "10.1.0.0/24");
    fixture.node("b", json!({"zone": "a"})).await;
    let told = |event: &Value| event["involvedObject"]["name"] == "b";
    let event = loop {
        let events = fixture.get(EVENTS).await;
        match events["items"].as_array().unwrap().iter().find(|event| told(event)) {
            Some(event) => break event.clone(),
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("CIDRNotAvailable")));
    assert_eq!(event["message"], "no ClusterCIDR serves this node: zone: IPv4: no free /24 is left in 10.1.0.0/24");
    fixture.range("all", json!({"perNodeHostBits": 8, "ipv4": "10.2.0.0/16"})).await;
    assert_eq!(fixture.cidrs("b").await, "10.2.0.0/24");
    fixture.node("c", json!({})).await;
    assert_eq!(fixture.cidrs("c").await, "10.2.1.0/24");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_nodes_get_a_block_each() {
    let fixture = Fixture::new().await;
    for index in 0..300 {
        fixture.node(&format!("n{index}"), json!({"group": (index % 3).to_string()})).await;
    }
    for group in 0..3 {
        let spec = json!({
            "perNodeHostBits": 5 + group, "ipv4": "10.0.0.0/16", "nodeSelector": select("group", &group.to_string()),
        });
        fixture.range(&format!("g{group}"), spec).await;
    }
    let mut fixture = fixture;
    fixture.start(Flags::default());
    let mut blocks = BTreeSet::new();
    for index in 0..300 {
        let block = fixture.cidrs(&format!("n{index}")).await;
        assert!(block.ends_with(&format!("/{}", 27 - index % 3)), "{block}");
        blocks.insert(block);
    }
    assert_eq!(blocks.len(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_controllers_that_both_act_give_no_block_twice() {
    let mut fixture = Fixture::new().await;
    fixture.range("r", json!({"perNodeHostBits": 4, "ipv4": "10.0.0.0/20"})).await;
    fixture.start(Flags::default());
    fixture.start(Flags::default());
    for index in 0..200 {
        fixture.node(&format!("n{index}"), json!({})).await;
    }
    let mut blocks = BTreeSet::new();
    for index in 0..200 {
        blocks.insert(fixture.cidrs(&format!("n{index}")).await);
    }
    assert_eq!(blocks.len(), 200);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_takes_over_changes_nothing_and_goes_on() {
    let mut fixture = Fixture::running().await;
    fixture.range("r", json!({"perNodeHostBits": 8, "ipv4": "10.9.0.0/16"})).await;
    fixture.node("a", json!({})).await;
    let first = fixture.cidrs("a").await;
    fixture.until(RANGES, "r", |range| range["status"]["ipv4"]["allocated"] == json!(1)).await;
    fixture.stop().await;
    let before = fixture.get(&format!("{NODES}/a")).await;
    let range = fixture.get(&format!("{RANGES}/r")).await;
    // Somebody else served this one.
    let other = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"},
        "spec": {"podCIDR": "10.9.1.0/24", "podCIDRs": ["10.9.1.0/24"]},
    });
    fixture.send(Method::POST, NODES, &other).await.unwrap();
    fixture.start(Flags::default());
    fixture.node("c", json!({})).await;
    assert_eq!((first.as_str(), &*fixture.cidrs("c").await), ("10.9.0.0/24", "10.9.2.0/24"));
    assert_eq!(fixture.get(&format!("{NODES}/a")).await, before);
    let after = fixture.until(RANGES, "r", |range| range["status"]["ipv4"]["allocated"] == json!(3)).await;
    assert_eq!(after["metadata"]["generation"], range["metadata"]["generation"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_make_a_range_and_other_flags_another() {
    let flags = |cidr: &str| Flags { cluster_cidr: cidr.to_owned(), ..Flags::default() };
    let name = |flags: &Flags| flags.range().unwrap().unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    let (one, other) = (flags("10.96.0.0/12,fd00:10:96::/48"), flags("10.112.0.0/12"));
    let mut fixture = Fixture::new().await;
    fixture.start(one.clone());
    fixture.node("a", json!({})).await;
    assert_eq!(fixture.cidrs("a").await, "10.96.0.0/24,fd00:10:96::/64");
    fixture.stop().await;
    fixture.start(other.clone());
    fixture.node("b", json!({})).await;
    assert_eq!(fixture.cidrs("b").await, "10.112.0.0/24");
    let before = fixture.until(RANGES, &name(&one), |range| !range["metadata"]["deletionTimestamp"].is_null()).await;
    assert!(!before["metadata"]["finalizers"].is_null(), "a node holds a block of it");
    fixture.delete(NODES, "a").await;
    fixture.until(RANGES, &name(&one), Value::is_null).await;
    fixture.get(&format!("{RANGES}/{}", name(&other))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_that_come_back_while_nodes_hold_their_range_serve_again() {
    let flags = |mask| Flags { cluster_cidr: "10.96.0.0/12".to_owned(), mask_size: Some(mask), ..Flags::default() };
    let name = |mask| flags(mask).range().unwrap().unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    let mut fixture = Fixture::new().await;
    for (mask, node, block) in [(24, "a", "10.96.0.0/24"), (25, "b", "10.96.1.0/25"), (24, "c", "10.96.2.0/24")] {
        fixture.start(flags(mask));
        fixture.node(node, json!({})).await;
        assert_eq!(fixture.cidrs(node).await, block);
        fixture.stop().await;
    }
    let is_going = |range: Value| !range["metadata"]["deletionTimestamp"].is_null();
    for (range, going) in [(name(24), true), (name(25), true), (format!("{}-1", name(24)), false)] {
        assert_eq!(is_going(fixture.get(&format!("{RANGES}/{range}")).await), going, "{range}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_node_gets_what_services_have() {
    let fixture = Fixture::running().await;
    let service = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "more"},
        "spec": {"cidrs": ["10.5.0.0/24"]},
    });
    fixture.send(Method::POST, "/apis/networking.k8s.io/v1/servicecidrs", &service).await.unwrap();
    // The server's own range is 10.0.0.0/24.
    fixture
        .range("first", json!({"perNodeHostBits": 8, "ipv4": "10.0.0.0/16", "nodeSelector": select("r", "first")}))
        .await;
    fixture.node("a", json!({"r": "first"})).await;
    assert_eq!(fixture.cidrs("a").await, "10.0.1.0/24");
    fixture
        .range("more", json!({"perNodeHostBits": 8, "ipv4": "10.5.0.0/16", "nodeSelector": select("r", "more")}))
        .await;
    fixture.until(RANGES, "more", |range| condition(range, "Overlapping") == Some(true)).await;
    fixture.node("b", json!({"r": "more"})).await;
    assert_eq!(fixture.cidrs("b").await, "10.5.1.0/24");
}
