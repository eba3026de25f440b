//! Agents that are away, servers that are away, and journals that are lost.

use std::fs;

use http::Method;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::machine::{Machine, POOLS, RESERVATIONS, run_pod, shown};

const POOL: &str = "a-10.0.0.0-28";

fn ipam() -> Value {
    json!({"range": "10.0.0.0/24", "node_slice_size": "/28"})
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_come_and_go_while_the_server_is_away_and_then_everything_is_shown() {
    let fixture = Fixture::new().await;
    let (_controller, machine, _agent) = Machine::served(&fixture, "a", ipam()).await;
    machine.add("before").unwrap();
    fixture.until(POOLS, POOL, |pool| shown(pool).len() == 1).await;
    machine.cut(true);
    machine.add("during").unwrap();
    machine.del("before");
    machine.add("after").unwrap();
    // The failure was noticed before the line is whole again.
    let is_noticed = || !machine.report.meters.text().contains("cadastre_agent_write_failures_total 0");
    machine.eventually("a failure", || is_noticed().then_some(())).await;
    machine.cut(false);
    let expected = ["10.0.0.1 default/after", "10.0.0.2 default/during"];
    fixture.until(POOLS, POOL, |pool| shown(pool) == expected).await;
    fixture.until(RESERVATIONS, "10.0.0.1", |one| one["spec"]["podref"] == "default/after").await;
    assert_eq!(machine.held(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_was_away_goes_on_from_what_is_there() {
    let fixture = Fixture::new().await;
    let (_controller, machine, agent) = Machine::served(&fixture, "a", ipam()).await;
    machine.add("one").unwrap();
    machine.add("two").unwrap();
    fixture.until(POOLS, POOL, |pool| shown(pool).len() == 2).await;
    fixture.until(RESERVATIONS, "10.0.0.2", |one| !one.is_null()).await;
    agent.stop().await;
    machine.del("one");
    machine.add("three").unwrap();
    machine.add("four").unwrap();
    machine.vanish("two");
    let _agent = machine.start(&fixture);
    let expected = ["10.0.0.1 default/three", "10.0.0.3 default/four"];
    fixture.until(POOLS, POOL, |pool| shown(pool) == expected).await;
    fixture.until(RESERVATIONS, "10.0.0.2", Value::is_null).await;
    assert_eq!(machine.held(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_is_lost_is_written_anew_from_the_pools() {
    let fixture = Fixture::new().await;
    let (_controller, machine, agent) = Machine::served(&fixture, "a", ipam()).await;
    machine.add("one").unwrap();
    machine.add("nowhere").unwrap();
    fixture.until(POOLS, POOL, |pool| shown(pool).len() == 2).await;
    let known = machine.granted(|grants| grants.journal.is_some()).await;
    agent.stop().await;
    // It has no addresses to tell: those are from the pool.
    run_pod(&fixture, "one", "a", &[]).await;
    fs::remove_file(machine.place().journal()).unwrap();
    assert_eq!(machine.add("two"), Err(11), "who holds what was lost");
    let _agent = machine.start(&fixture);
    machine.granted(|grants| grants.journal.is_some() && grants.journal != known.journal).await;
    // How long the one whose pod is nowhere stays is a matter of seconds.
    let held = machine.held().into_iter().filter(|one| !one.ends_with("default/nowhere")).collect::<Vec<_>>();
    assert_eq!(held, ["10.0.0.1 default/one"]);
    let two = machine.add("two").unwrap();
    // Whose pod is nowhere, and whose namespace nobody knows any more, is taken back when the server was asked.
    let expected = ["10.0.0.1 default/one".to_owned(), format!("{two} default/two")];
    fixture.until(POOLS, POOL, |pool| shown(pool) == expected).await;
    // Also if its pod was there for a while.
    let pod = "/api/v1/namespaces/default/pods/one?gracePeriodSeconds=0";
    fixture.send(Method::DELETE, pod, &Value::Null).await.unwrap();
    fixture.until(POOLS, POOL, |pool| shown(pool) == expected[1..]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_was_made_anew_under_its_name_knows_what_is_in_use() {
    let fixture = Fixture::new().await;
    let (_controller, machine, agent) = Machine::served(&fixture, "a", ipam()).await;
    machine.add("one").unwrap();
    fixture.until(POOLS, POOL, |pool| shown(pool).len() == 1).await;
    agent.stop().await;
    // It has no addresses to tell: that one is in use is known from the pool. Without the pod it would soon be taken back.
    run_pod(&fixture, "one", "a", &[]).await;
    let anew = Machine::new("a", ipam());
    let _agent = anew.start(&fixture);
    anew.granted(|_| true).await;
    assert_eq!(anew.held(), ["10.0.0.1 default/one"]);
    assert_eq!(anew.add("two"), Ok("10.0.0.2".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_pool_was_told_of_before_the_disk_was_lost_is_known_from_the_pods() {
    let fixture = Fixture::new().await;
    let (_controller, machine, agent) = Machine::served(&fixture, "a", ipam()).await;
    machine.add("one").unwrap();
    fixture.until(POOLS, POOL, |pool| shown(pool).len() == 1).await;
    machine.cut(true);
    machine.add("two").unwrap();
    agent.stop().await;
    for (pod, ip) in [("one", "10.0.0.1"), ("two", "10.0.0.2")] {
        run_pod(&fixture, pod, "a", &[ip]).await;
    }
    let anew = Machine::new("a", ipam());
    let _agent = anew.start(&fixture);
    anew.granted(|_| true).await;
    let expected = ["10.0.0.1 default/one", "10.0.0.2 default/two"];
    assert_eq!(anew.held(), expected);
    fixture.until(POOLS, POOL, |pool| shown(pool) == expected).await;
    assert_eq!(anew.add("three"), Ok("10.0.0.3".to_owned()));
    // A pod that comes again in another sandbox has the address that it had.
    assert_eq!(anew.add("two"), Ok("10.0.0.2".to_owned()));
}
