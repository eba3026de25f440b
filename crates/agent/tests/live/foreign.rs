//! What others write into `IPPool`s counts, and two owners of one address are told.

use http::Method;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::machine::{Machine, POOLS, RESERVATIONS, SLICE_POOLS, shown, told, uid};

const POOL: &str = "a-10.0.0.0-28";

fn ipam() -> Value {
    json!({"range": "10.0.0.0/24", "node_slice_size": "/28"})
}

async fn edit(fixture: &Fixture, offset: &str, entry: &Value) {
    let patch = json!({"spec": {"allocations": {offset: entry}}});
    fixture.send(Method::PATCH, &format!("{POOLS}/{POOL}"), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_others_put_into_the_pool_goes_to_its_pod_and_to_nobody_else() {
    let fixture = Fixture::new().await;
    let (_controller, machine, _agent) = Machine::served(&fixture, "a", ipam()).await;
    fixture.until(POOLS, POOL, |pool| !pool.is_null()).await;
    edit(&fixture, "1", &json!({"id": "elsewhere", "podref": "default/late", "ifname": "net1"})).await;
    machine.eventually("the reservation", || (machine.held() == ["10.0.0.1 default/late"]).then_some(())).await;
    assert_eq!(machine.add("other"), Ok("10.0.0.2".to_owned()));
    assert_eq!(machine.add("late"), Ok("10.0.0.1".to_owned()));
    fixture.until(POOLS, POOL, |pool| pool["spec"]["allocations"]["1"]["id"] == "c-late").await;
    // One that is not for anybody goes as it came.
    edit(&fixture, "3", &json!({"id": "", "podref": ""})).await;
    machine.eventually("the reservation", || machine.held().contains(&"10.0.0.3 ".to_owned()).then_some(())).await;
    edit(&fixture, "3", &Value::Null).await;
    machine.eventually("the end of it", || (machine.held().len() == 2).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_others_take_out_is_put_back_while_it_is_used() {
    let fixture = Fixture::new().await;
    let (_controller, machine, _agent) = Machine::served(&fixture, "a", ipam()).await;
    machine.add("live").unwrap();
    fixture.until(POOLS, POOL, |pool| shown(pool) == ["10.0.0.1 default/live"]).await;
    edit(&fixture, "1", &Value::Null).await;
    fixture.until(POOLS, POOL, |pool| shown(pool) == ["10.0.0.1 default/live"]).await;
    let event = told(&fixture, "a", "AddressInUse").await;
    let message =
        "10.0.0.1 of network net was taken out of the IPPool of 10.0.0.0/28, but default/live uses it; it is put back";
    assert_eq!((&event["message"], &event["type"]), (&json!(message), &json!("Warning")));
    assert_eq!(machine.held(), ["10.0.0.1 default/live"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_whose_range_was_edited_is_told_and_left_alone_until_it_is_mended() {
    let fixture = Fixture::new().await;
    let (_controller, machine, _agent) = Machine::served(&fixture, "a", ipam()).await;
    machine.add("one").unwrap();
    fixture.until(POOLS, POOL, |pool| shown(pool) == ["10.0.0.1 default/one"]).await;
    let of = |range: &str| json!({"spec": {"range": range}});
    fixture.send(Method::PATCH, &format!("{POOLS}/{POOL}"), &of("10.0.9.0/28")).await.unwrap();
    let event = told(&fixture, "a", "PoolUnreadable").await;
    let message =
        format!("The IPPool {POOL} of network net cannot be read: its spec.range is 10.0.9.0/28, and not 10.0.0.0/28");
    assert_eq!(event["message"], message);
    assert_eq!(machine.add("two"), Ok("10.0.0.2".to_owned()));
    // That the agent has seen the pod shows in what it reserves.
    fixture.until(RESERVATIONS, "10.0.0.2", |one| !one.is_null()).await;
    assert_eq!(shown(&fixture.get(&format!("{POOLS}/{POOL}")).await), ["10.0.0.1 default/one"]);
    fixture.send(Method::PATCH, &format!("{POOLS}/{POOL}"), &of("10.0.0.0/28")).await.unwrap();
    let expected = ["10.0.0.1 default/one", "10.0.0.2 default/two"];
    fixture.until(POOLS, POOL, |pool| shown(pool) == expected).await;
    assert_eq!(machine.held(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_that_were_given_one_slice_are_told() {
    let fixture = Fixture::new().await;
    let (one, two) = (Machine::join(&fixture, "a", ipam()).await, Machine::join(&fixture, "b", ipam()).await);
    let entry =
        |node: &str, uid: &str| json!({"nodeName": node, "nodeUID": uid, "epoch": 5, "sliceRange": "10.0.0.0/28"});
    let pool = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "NodeSlicePool", "metadata": {"name": "net"},
        "spec": {"range": "10.0.0.0/24", "sliceSize": "/28"},
        "status": {"epoch": 5, "allocations": [
            entry("a", &uid(&fixture, "a").await), entry("b", &uid(&fixture, "b").await),
        ]},
    });
    fixture.send(Method::POST, SLICE_POOLS, &pool).await.unwrap();
    let _agents = (one.start(&fixture), two.start(&fixture));
    told(&fixture, "a", "SliceOfTwoNodes").await;
    told(&fixture, "b", "SliceOfTwoNodes").await;
    one.granted(|_| true).await;
    two.granted(|_| true).await;
    assert_eq!(one.add("first"), Ok("10.0.0.1".to_owned()));
    fixture.until(RESERVATIONS, "10.0.0.1", |one| one["spec"]["podref"] == "default/first").await;
    assert_eq!(two.add("second"), Ok("10.0.0.1".to_owned()));
    let event = told(&fixture, "b", "AddressOfTwo").await;
    let message = "10.0.0.1 is held by default/second on this node, and reserved for default/first (10.0.0.1)";
    assert_eq!(event["message"], message);
    let reserved = fixture.get(&format!("{RESERVATIONS}/10.0.0.1")).await;
    assert_eq!(reserved["spec"]["podref"], "default/first");
}
