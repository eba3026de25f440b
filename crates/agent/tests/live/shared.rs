//! Networks without slices: what DELs could not say and what was lost without any is taken out of the pools that all nodes share.

use http::Method;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::machine::{Machine, POOLS, RESERVATIONS, run_pod, shown};

const POOL: &str = "10.0.0.0-24";

fn ipam() -> Value {
    json!({"range": "10.0.0.0/24"})
}

/// An entry that whereabouts made, of a pod that no journal knows.
async fn adopted(fixture: &Fixture, offset: &str, pod: &str) {
    let entry = json!({"id": format!("w-{pod}"), "podref": format!("default/{pod}"), "ifname": "net1"});
    let patch = json!({"spec": {"allocations": {offset: entry}}});
    fixture.send(Method::PATCH, &format!("{POOLS}/{POOL}"), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_del_could_not_say_is_said_when_the_server_is_there_again() {
    let fixture = Fixture::new().await;
    let machine = Machine::sharing(&fixture, "a", ipam()).await;
    let _agent = machine.start(&fixture);
    machine.add("one").unwrap();
    machine.add("two").unwrap();
    machine.cut(true);
    machine.del("one");
    assert_eq!(machine.add("three"), Err(11), "no address without the server");
    machine.cut(false);
    fixture.until(POOLS, POOL, |pool| shown(pool) == ["10.0.0.2 default/two"]).await;
    fixture.until(RESERVATIONS, "10.0.0.1", Value::is_null).await;
    let is_settled = || (machine.held() == ["10.0.0.2 default/two"]).then_some(());
    machine.eventually("that nothing is owed", is_settled).await;
    assert_eq!(machine.add("four"), Ok("10.0.0.1".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_vanished_is_given_back_and_what_others_have_is_not() {
    let fixture = Fixture::new().await;
    let named = json!({"range": "10.0.0.0/24", "network_name": "net"});
    let machine = Machine::sharing(&fixture, "a", named).await;
    let other = Machine::sharing(&fixture, "b", ipam()).await;
    let _agents = [machine.start(&fixture), other.start(&fixture)];
    for name in ["one", "two"] {
        machine.add(name).unwrap();
    }
    // The same addresses of another network, and of another node.
    for name in ["three", "four"] {
        other.add(name).unwrap();
    }
    adopted(&fixture, "9", "old").await;
    // Those that live are in no pod list of the server: that their namespaces are seen is enough.
    machine.vanish("one");
    fixture.until(POOLS, "net-10.0.0.0-24", |pool| shown(pool) == ["10.0.0.2 default/two"]).await;
    fixture.until(RESERVATIONS, "net-10.0.0.1", Value::is_null).await;
    let expected = ["10.0.0.1 default/three", "10.0.0.2 default/four", "10.0.0.9 default/old"];
    fixture.until(POOLS, POOL, |pool| shown(pool) == expected).await;
    other.vanish("four");
    fixture.until(POOLS, POOL, |pool| shown(pool) == ["10.0.0.1 default/three", "10.0.0.9 default/old"]).await;
    assert_eq!(fixture.get(&format!("{RESERVATIONS}/10.0.0.1")).await["spec"]["podref"], "default/three");
}

/// The controller would take their entries out. None of these pods is in the API, as after a deletion by force.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_said_which_containers_run_on_though_their_pods_are_gone() {
    let fixture = Fixture::new().await;
    let machine = Machine::sharing(&fixture, "a", ipam()).await;
    let other = Machine::sharing(&fixture, "b", ipam()).await;
    let _agents = [machine.start(&fixture), other.start(&fixture)];
    run_pod(&fixture, "there", "a", &[]).await;
    for name in ["one", "two", "there"] {
        machine.add(name).unwrap();
    }
    other.add("three").unwrap();
    let said = |pool: &Value| {
        let notes = &pool["metadata"]["annotations"];
        ["a", "b"].map(|node| notes[format!("held-on.ipam.cadastre.dev/{node}")].as_str().map(str::to_owned))
    };
    let id = |pool: &Value, at: &str| pool["spec"]["allocations"][at]["id"].as_str().unwrap().to_owned();
    let pool = fixture.get(&format!("{POOLS}/{POOL}")).await;
    let [one, two, three] = ["1", "2", "4"].map(|at| id(&pool, at));
    let mut both = [one, two.clone()];
    both.sort();
    let all = [Some(both.join(",")), Some(three)];
    fixture.until(POOLS, POOL, |pool| said(pool) == all).await;
    machine.del("one");
    fixture.until(POOLS, POOL, |pool| said(pool)[0].as_ref() == Some(&two)).await;
    machine.del("two");
    fixture.until(POOLS, POOL, |pool| said(pool) == [None, all[1].clone()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reboot_only_pods_that_are_still_there_keep_their_entries() {
    let fixture = Fixture::new().await;
    let mut machine = Machine::sharing(&fixture, "a", ipam()).await;
    run_pod(&fixture, "stays", "a", &[]).await;
    machine.add("stays").unwrap();
    machine.add("goes").unwrap();
    machine.reboot();
    let _agent = machine.start(&fixture);
    fixture.until(POOLS, POOL, |pool| shown(pool) == ["10.0.0.1 default/stays"]).await;
    assert_eq!(machine.add("stays"), Ok("10.0.0.1".to_owned()));
}
