//! What pods hold is shown, and what they lost is taken back.

use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::machine::{Machine, POOLS, RESERVATIONS, define, grant_slices, shown};

fn ipam() -> Value {
    json!({"range": "10.0.0.0/24", "node_slice_size": "/28"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_gets_its_slice_and_what_its_pods_hold_is_shown() {
    let fixture = Fixture::new().await;
    let controller = grant_slices(&fixture);
    let machine = Machine::join(&fixture, "a", ipam()).await;
    let agent = machine.start(&fixture);
    define(&fixture, "net", ipam()).await;
    let grants = machine.granted(|_| true).await;
    assert_eq!((grants.network.as_str(), grants.node.as_str()), ("net", "a"));
    assert_eq!(grants.ranges[0].slices[0].cidr.to_string(), "10.0.0.0/28");
    assert_eq!(machine.add("one"), Ok("10.0.0.1".to_owned()));
    let name = "a-10.0.0.0-28";
    let pool = fixture.until(POOLS, name, |pool| shown(pool) == ["10.0.0.1 default/one"]).await;
    assert_eq!(pool["spec"]["range"], "10.0.0.0/28");
    assert_eq!(pool["spec"]["allocations"]["1"], json!({"id": "c-one", "podref": "default/one", "ifname": "net1"}));
    let reserved = fixture.until(RESERVATIONS, "10.0.0.1", |one| !one.is_null()).await;
    assert_eq!(reserved["spec"]["podref"], "default/one");
    assert_eq!(machine.add("two"), Ok("10.0.0.2".to_owned()));
    machine.del("one");
    fixture.until(POOLS, name, |pool| shown(pool) == ["10.0.0.2 default/two"]).await;
    fixture.until(RESERVATIONS, "10.0.0.1", Value::is_null).await;
    let text = machine.report.meters.text();
    assert!(text.contains("cadastre_agent_addresses{network=\"net\"} 16"), "{text}");
    agent.stop().await;
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_vanished_loses_its_address_though_no_del_came() {
    let fixture = Fixture::new().await;
    let (_controller, machine, _agent) = Machine::served(&fixture, "a", ipam()).await;
    machine.add("stays").unwrap();
    machine.add("vanishes").unwrap();
    // Before, one of the two alone may be shown because the other is not yet.
    let both = ["10.0.0.1 default/stays", "10.0.0.2 default/vanishes"];
    fixture.until(POOLS, "a-10.0.0.0-28", |pool| shown(pool) == both).await;
    machine.vanish("vanishes");
    fixture.until(POOLS, "a-10.0.0.0-28", |pool| shown(pool) == ["10.0.0.1 default/stays"]).await;
    assert_eq!(machine.held(), ["10.0.0.1 default/stays"]);
    let text = machine.report.meters.text();
    assert!(text.contains("cadastre_agent_reclaimed_total{reason=\"namespace\"} 1"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_says_so_reserves_nothing_across_ranges() {
    let fixture = Fixture::new().await;
    let _controller = grant_slices(&fixture);
    let machine = Machine::join(&fixture, "a", ipam()).await;
    define(&fixture, "net", ipam()).await;
    let pools = crate::machine::SLICE_POOLS;
    fixture.until(pools, "net", |pool| !pool["status"]["allocations"][0].is_null()).await;
    let patch = json!({"metadata": {"annotations": {"ipam.cadastre.dev/overlapping": "false"}}});
    fixture.send(http::Method::PATCH, &format!("{pools}/net"), &patch).await.unwrap();
    let _agent = machine.start(&fixture);
    machine.granted(|_| true).await;
    machine.add("one").unwrap();
    fixture.until(POOLS, "a-10.0.0.0-28", |pool| shown(pool) == ["10.0.0.1 default/one"]).await;
    machine.del("one");
    fixture.until(POOLS, "a-10.0.0.0-28", |pool| shown(pool).is_empty()).await;
    let all = fixture.get(RESERVATIONS).await;
    assert_eq!(all["items"], json!([]));
}
