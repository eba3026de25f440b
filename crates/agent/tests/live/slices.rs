//! Slices are asked for, drained and given back.

use cni::grants::{Grants, SliceState};
use serde_json::{Value, json};

use crate::fixture::{Fixture, NODES};
use crate::machine::{Machine, POOLS, SLICE_POOLS, define, grant_slices, is_there, shown, told};

fn words(grants: &Grants) -> Vec<String> {
    let slices = grants.ranges.iter().flat_map(|range| &range.slices);
    let drains = |state| if state == SliceState::Draining { " draining" } else { "" };
    slices.map(|slice| format!("{}{}", slice.cidr, drains(slice.state))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_slice_is_nearly_full_gets_a_further_one() {
    let fixture = Fixture::new().await;
    let _controller = grant_slices(&fixture);
    let ipam = json!({"range": "10.0.0.0/24", "node_slice_size": "/30"});
    let machine = Machine::join(&fixture, "a", ipam.clone()).await;
    let _agent = machine.start(&fixture);
    define(&fixture, "net", ipam).await;
    machine.granted(|grants| words(grants) == ["10.0.0.0/30"]).await;
    for pod in ["one", "two", "three"] {
        machine.add(pod).unwrap();
    }
    told(&fixture, "a", "SlicesLow").await;
    machine.granted(|grants| words(grants) == ["10.0.0.0/30", "10.0.0.4/30"]).await;
    for pod in ["four", "five"] {
        machine.add(pod).unwrap();
    }
    // Nothing more is asked for when there is room.
    fixture.until(POOLS, "a-10.0.0.0-30", |pool| pool["metadata"]["labels"]["ipam.cadastre.dev/asks"].is_null()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_range_drains_the_slices_of_the_one_before_and_they_go_back_when_they_are_empty() {
    let fixture = Fixture::new().await;
    let _controller = grant_slices(&fixture);
    let machine = Machine::join(&fixture, "a", json!({"range": "10.1.0.0/24", "node_slice_size": "/28"})).await;
    let _agent = machine.start(&fixture);
    define(&fixture, "net", json!({"range": "10.1.0.0/24", "node_slice_size": "/28"})).await;
    machine.granted(|grants| words(grants) == ["10.1.0.0/28"]).await;
    machine.add("one").unwrap();
    define(&fixture, "net", json!({"range": "10.2.0.0/24", "node_slice_size": "/28"})).await;
    machine.granted(|grants| words(grants) == ["10.2.0.0/28", "10.1.0.0/28 draining"]).await;
    machine.del("one");
    machine.granted(|grants| words(grants) == ["10.2.0.0/28"]).await;
    fixture.until(POOLS, "a-10.1.0.0-28", Value::is_null).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_is_gone_drains_and_leaves_nothing_behind() {
    let fixture = Fixture::new().await;
    let _controller = grant_slices(&fixture);
    let ipam = json!({"range": "10.0.0.0/24", "node_slice_size": "/28"});
    let machine = Machine::join(&fixture, "a", ipam.clone()).await;
    let _agent = machine.start(&fixture);
    define(&fixture, "net", ipam).await;
    machine.granted(|_| true).await;
    machine.add("one").unwrap();
    fixture.until(POOLS, "a-10.0.0.0-28", |pool| shown(pool).len() == 1).await;
    fixture.delete(crate::machine::DEFINITIONS, "net").await;
    fixture.until(SLICE_POOLS, "net", Value::is_null).await;
    machine.granted(|grants| words(grants) == ["10.0.0.0/28 draining"]).await;
    assert_eq!(machine.add("two"), Err(101));
    machine.del("one");
    let grants = machine.place().grants();
    machine.eventually("the end of the grants", || (!is_there(&grants)).then_some(())).await;
    fixture.until(POOLS, "a-10.0.0.0-28", Value::is_null).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_made_anew_under_its_name_goes_on_with_its_slices() {
    let fixture = Fixture::new().await;
    let _controller = grant_slices(&fixture);
    let ipam = json!({"range": "10.0.0.0/24", "node_slice_size": "/28"});
    let machine = Machine::join(&fixture, "a", ipam.clone()).await;
    let _agent = machine.start(&fixture);
    define(&fixture, "net", ipam).await;
    let before = machine.granted(|_| true).await;
    machine.add("one").unwrap();
    fixture.delete(NODES, "a").await;
    machine.granted(|grants| words(grants) == ["10.0.0.0/28 draining"]).await;
    fixture.node("a", json!({})).await;
    let after = machine.granted(|grants| words(grants) == ["10.0.0.0/28"]).await;
    assert_ne!(before.node_uid, after.node_uid);
    assert!(before.ranges[0].slices[0].epoch < after.ranges[0].slices[0].epoch);
    assert_eq!(machine.held(), ["10.0.0.1 default/one"]);
}
