//! Damage that comes from outside, found and mended at the start and while the server runs.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use store::{Txn, Write};

use crate::cluster::{ADDRESSES, Cluster, PORTS, RANGES, SERVICES, at, config, node_port, service};
use crate::fixture::Fixture;
use crate::room::{figure, same};
use crate::tended::{Tended, until};

async fn write(cluster: &Fixture, write: Write) {
    cluster.server.store().txn(Txn { compares: vec![], writes: vec![write] }).await.unwrap();
}

/// What writes an object past the server.
fn raw(key: &str, mut object: Value) -> Write {
    object["metadata"]["resourceVersion"] = json!("");
    Write::Put { key: key.into(), value: api::Object::from_value(object).unwrap().encode() }
}

/// What no server writes: bytes that are no object, and an object that is not the one of its key.
const ODD: [&str; 4] = ["\u{0}\u{1}garbage", "", "{}", r#"{"metadata":7,"spec":[]}"#];

fn odd(key: &str, value: &'static str) -> Write {
    Write::Put { key: key.into(), value: value.into() }
}

/// The same Service, under another name.
fn twin_of(made: &Value) -> Value {
    let mut twin = made.clone();
    twin["metadata"]["name"] = json!("twin");
    twin["metadata"]["uid"] = json!("another");
    twin
}

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// Waits for an Event, and says it: reason, note and reporter.
async fn told(tended: &Tended, about: &str, reason: &str) -> (String, String) {
    let find = |list: &Value| {
        let mut all = list["items"].as_array().unwrap().iter();
        all.find(|one| one["regarding"]["name"] == about && one["reason"] == reason).cloned()
    };
    let answer = tended.until(EVENTS, |answer| find(&answer.json()).is_some()).await;
    let event = find(&answer.json()).unwrap();
    assert_eq!(event["type"], "Warning");
    (event["note"].as_str().unwrap().to_owned(), event["reportingController"].as_str().unwrap().to_owned())
}

async fn tended() -> Tended {
    Tended::with(config(&["10.7.0.0/24"]), store::embedded::Options::default()).await
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
    for url in [ADDRESSES, PORTS] {
        cluster.age(url).await;
    }
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
    write(&cluster, raw("services/default/twin", twin_of(&made))).await;
    let written = cluster.get(&format!("{ADDRESSES}/10.7.0.9")).await.expect(200);
    cluster.server.prepare().await.unwrap();
    let before = cluster.server.store().revision();
    cluster.server.prepare().await.unwrap();
    assert_eq!(cluster.server.store().revision(), before, "it is told once");
    assert_eq!(cluster.get(&format!("{ADDRESSES}/10.7.0.9")).await.expect(200), written);
    // When the one goes that it is written of, the other has it from that moment on.
    cluster.delete(&at("web")).await.expect(200);
    cluster.agrees().await;
    assert!(cluster.refused("third", json!({"clusterIP": "10.7.0.9"}), 422).await.contains("already allocated"));
    cluster.delete(&at("twin")).await.expect(200);
    cluster.make("third", json!({"clusterIP": "10.7.0.9"})).await;
    cluster.agrees().await;
}

/// Somebody may write addresses and ports now and their Services in a moment, while a server starts.
#[tokio::test]
async fn what_nobody_has_and_is_new_outlasts_a_start_and_goes_later() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let made = cluster.make("late", json!({"type": "NodePort", "clusterIP": "10.7.0.8"})).await;
    let (url, port) = (format!("{ADDRESSES}/10.7.0.8"), format!("{PORTS}/{}", node_port(&made)));
    write(&cluster, gone("services/default/late".to_owned())).await;
    cluster.server.prepare().await.unwrap();
    let before = cluster.get(&url).await.expect(200);
    cluster.get(&port).await.expect(200);
    write(&cluster, raw("services/default/late", made)).await;
    cluster.server.prepare().await.unwrap();
    cluster.agrees().await;
    assert_eq!(cluster.get(&url).await.expect(200), before);
    // If no Service comes, whoever tends the store looks at it when its time is over.
    write(&cluster, gone("services/default/late".to_owned())).await;
    cluster.server.prepare().await.unwrap();
    for url in [ADDRESSES, PORTS] {
        cluster.age(url).await;
    }
    tokio::spawn(cluster.server.tend(cluster.trigger.shutdown()));
    for url in [&url, &port] {
        until(&cluster, url, |answer| answer.code == 404).await;
    }
}

#[tokio::test]
async fn what_nobody_has_is_marked_and_stays_until_its_finalizers_are_gone() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    cluster.make("lost", json!({"clusterIP": "10.7.0.8"})).await;
    let url = format!("{ADDRESSES}/10.7.0.8");
    let keep = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    cluster.patch(&url, "merge-patch", &keep).await.expect(200);
    write(&cluster, gone("services/default/lost".to_owned())).await;
    cluster.age(ADDRESSES).await;
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

#[tokio::test]
async fn what_a_service_has_is_never_given_to_another_whatever_became_of_its_object() {
    let cluster = Cluster::new(&["10.7.0.0/29"]).await;
    let made = cluster.make("web", json!({"type": "NodePort", "clusterIP": "10.7.0.3"})).await;
    write(&cluster, gone("ipaddresses.networking.k8s.io/10.7.0.3".to_owned())).await;
    write(&cluster, gone(format!("nodeports.ipam.cadastre.dev/{}", node_port(&made)))).await;
    assert!(cluster.refused("thief", json!({"clusterIP": "10.7.0.3"}), 422).await.contains("already allocated"));
    let port = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": node_port(&made)}]});
    assert!(cluster.refused("thief", port, 422).await.contains("already allocated"));
    for n in 0..4 {
        cluster.make(&format!("s{n}"), json!({})).await;
    }
    assert!(cluster.refused("thief", json!({}), 500).await.contains("range is full"));
    cluster.server.prepare().await.unwrap();
    cluster.agrees().await;
}

#[tokio::test]
async fn what_is_lost_while_the_server_runs_is_written_again_and_told() {
    let tended = tended().await;
    let body = service("web", json!({"type": "NodePort", "clusterIP": "10.7.0.9"}));
    let made = tended.post(SERVICES, &body).await.expect(201);
    let (url, port) = (format!("{ADDRESSES}/10.7.0.9"), format!("{PORTS}/{}", node_port(&made)));
    let uid = tended.get(&url).await.expect(200)["metadata"]["uid"].clone();
    write(&tended, gone("ipaddresses.networking.k8s.io/10.7.0.9".to_owned())).await;
    write(&tended, gone(format!("nodeports.ipam.cadastre.dev/{}", node_port(&made)))).await;
    let again = tended.there(&url).await;
    assert_ne!(again["metadata"]["uid"], uid);
    assert_eq!(again["metadata"]["annotations"]["ipam.cadastre.dev/parent-uid"], made["metadata"]["uid"]);
    tended.there(&port).await;
    let (note, reporter) = told(&tended, "web", "ClusterIPNotAllocated").await;
    assert_eq!(note, "Cluster IP [IPv4]: 10.7.0.9 is not allocated; repairing");
    assert_eq!(reporter, "ipallocator-repair-controller");
    let (note, reporter) = told(&tended, "web", "PortNotAllocated").await;
    assert_eq!(note, format!("Port {} is not allocated; repairing", node_port(&made)));
    assert_eq!(reporter, "portallocator-repair-controller");
}

#[tokio::test]
async fn what_names_the_wrong_service_while_the_server_runs_is_put_right() {
    let tended = tended().await;
    tended.post(SERVICES, &service("web", json!({"clusterIP": "10.7.0.9"}))).await.expect(201);
    let url = format!("{ADDRESSES}/10.7.0.9");
    let mut wrong = tended.get(&url).await.expect(200);
    wrong["spec"]["parentRef"]["name"] = json!("ghost");
    write(&tended, raw("ipaddresses.networking.k8s.io/10.7.0.9", wrong.clone())).await;
    tended.until(&url, |now| now.json()["spec"]["parentRef"]["name"] == "web").await;
    let (note, _) = told(&tended, "web", "ClusterIPNotAllocated").await;
    assert_eq!(note, "the ClusterIP [IPv4]: 10.7.0.9 for Service default/web has a wrong reference; repairing");
    // What is inexact is put right without a word.
    wrong["spec"]["parentRef"]["name"] = json!("web");
    wrong["metadata"]["labels"] = json!({"mine": "yes"});
    write(&tended, raw("ipaddresses.networking.k8s.io/10.7.0.9", wrong)).await;
    let right = |now: &Value| now["metadata"]["labels"]["ipaddress.kubernetes.io/managed-by"] == "ipallocator.k8s.io";
    let now = tended.until(&url, |now| right(&now.json())).await.json();
    assert_eq!(now["metadata"]["labels"]["mine"], "yes");
}

#[tokio::test]
async fn what_no_service_has_goes_while_the_server_runs() {
    let tended = tended().await;
    tended.post(SERVICES, &service("web", json!({"clusterIP": "10.7.0.9"}))).await.expect(201);
    let mut leaked = tended.get(&format!("{ADDRESSES}/10.7.0.9")).await.expect(200);
    leaked["metadata"]["name"] = json!("10.7.0.8");
    leaked["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    write(&tended, raw("ipaddresses.networking.k8s.io/10.7.0.8", leaked.clone())).await;
    tended.gone(&format!("{ADDRESSES}/10.7.0.8")).await;
    let (note, _) = told(&tended, "10.7.0.8", "IPAddressWrongReference").await;
    assert_eq!(note, "IPAddress: 10.7.0.8 for Service default/web has a wrong reference; cleaning up");
    // A new one stays for a while: somebody may be about to make its Service.
    leaked["metadata"]["creationTimestamp"] = json!(Timestamp::now().to_string());
    write(&tended, raw("ipaddresses.networking.k8s.io/10.7.0.8", leaked.clone())).await;
    tended.calm().await;
    tended.get(&format!("{ADDRESSES}/10.7.0.8")).await.expect(200);
    // One of a clock that ran ahead is not new until then.
    leaked["metadata"]["name"] = json!("10.7.0.7");
    leaked["metadata"]["creationTimestamp"] = json!("2999-01-01T00:00:00Z");
    write(&tended, raw("ipaddresses.networking.k8s.io/10.7.0.7", leaked)).await;
    tended.gone(&format!("{ADDRESSES}/10.7.0.7")).await;
}

#[tokio::test]
async fn what_somebody_has_to_decide_is_told_in_one_event_for_as_long_as_it_is_so() {
    let tended = tended().await;
    let made = tended.post(SERVICES, &service("web", json!({"clusterIP": "10.7.0.9"}))).await.expect(201);
    write(&tended, raw("services/default/twin", twin_of(&made))).await;
    let (note, _) = told(&tended, "twin", "ClusterIPAlreadyAllocated").await;
    assert_eq!(note, "Cluster IP [IPv4]:10.7.0.9 was assigned to multiple services; please recreate service");
    for (name, address) in [("far", "192.168.0.9"), ("odd", "nonsense")] {
        let mut other = twin_of(&made);
        other["metadata"]["name"] = json!(name);
        other["spec"]["clusterIP"] = json!(address);
        other["spec"]["clusterIPs"] = json!([address]);
        write(&tended, raw(&format!("services/default/{name}"), other)).await;
    }
    let (note, _) = told(&tended, "far", "ClusterIPOutOfRange").await;
    assert_eq!(
        note,
        "Cluster IP [IPv4]: 192.168.0.9 is not within any configured Service CIDR; please recreate service"
    );
    let (note, _) = told(&tended, "odd", "ClusterIPNotValid").await;
    assert_eq!(note, "Cluster IP nonsense is not a valid IP; please recreate Service");
    for n in 0..3 {
        let touch = json!({"metadata": {"labels": {"n": n.to_string()}}});
        tended.patch(&at("twin"), "merge-patch", &touch).await.expect(200);
        tended.calm().await;
    }
    let duplicates = async || figure(&tended, "apiserver_clusterip_repair_ip_errors_total{type=\"duplicate\"}").await;
    let first = only(&tended, "twin").await;
    assert_eq!(first["deprecatedCount"], Value::Null);
    same(duplicates().await, 1);
    // It is looked at again and counted where all looks are. Who was told it a moment ago is not told again.
    look_again(&tended).await;
    same(duplicates().await, 2);
    assert_eq!(only(&tended, "twin").await, first);
    // Later the Event says how often it was told, and when it was last. A server that begins says it in the same one.
    for (count, again) in [(2, false), (3, false), (4, true)] {
        let before = told_long_ago(&tended, only(&tended, "twin").await).await;
        if again {
            let odd = only(&tended, "odd").await;
            tended.delete(&format!("{EVENTS}/{}", odd["metadata"]["name"].as_str().unwrap())).await.expect(200);
            tended.tend();
            told(&tended, "odd", "ClusterIPNotValid").await;
        } else {
            look_again(&tended).await;
        }
        tended.until(EVENTS, |events| in_list(&events.json(), "twin")["deprecatedCount"] == count).await;
        let event = only(&tended, "twin").await;
        assert!(time(&event, "deprecatedLastTimestamp") > time(&before, "eventTime"), "{event}");
        assert_eq!((&event["metadata"]["uid"], &event["note"]), (&before["metadata"]["uid"], &before["note"]));
    }
    // One that is gone is made anew.
    tended.delete(&format!("{EVENTS}/{}", first["metadata"]["name"].as_str().unwrap())).await.expect(200);
    look_again(&tended).await;
    tended.until(EVENTS, |events| in_list(&events.json(), "twin").is_object()).await;
    assert_eq!(only(&tended, "twin").await["deprecatedCount"], Value::Null);
    // What is as it should be is looked at no more.
    for name in ["twin", "far", "odd"] {
        tended.delete(&at(name)).await.expect(200);
    }
    look_again(&tended).await;
    let before = (counted(&tended).await, tended.get(EVENTS).await.expect(200)["items"].clone());
    look_again(&tended).await;
    let after = (counted(&tended).await, tended.get(EVENTS).await.expect(200)["items"].clone());
    assert_eq!(after, before, "there is silence");
}

/// What was counted of addresses that were wrong, of each sort.
async fn counted(tended: &Tended) -> Vec<String> {
    let text = tended.get("/metrics").await.text();
    let counters = text.lines().filter(|line| line.starts_with("apiserver_clusterip_repair_ip_errors_total{"));
    let counters: Vec<_> = counters.map(str::to_owned).collect();
    assert!(!counters.is_empty(), "{text}");
    counters
}

/// When what could only be told is looked at again, or a little later.
const LOOK: Duration = Duration::from_secs(3 * 60 + 5);

/// Lets so much time go by that the server looks again. What is written keeps its times.
async fn look_again(tended: &Tended) {
    tokio::time::pause();
    tokio::time::advance(LOOK).await;
    tokio::time::resume();
    tended.calm().await;
}

/// The Event about something, if there is one.
fn in_list(events: &Value, about: &str) -> Value {
    let mut all = events["items"].as_array().unwrap().iter();
    all.find(|one| one["regarding"]["name"] == about).cloned().unwrap_or_default()
}

/// The one Event about something.
async fn only(tended: &Tended, about: &str) -> Value {
    let events = tended.get(EVENTS).await.expect(200);
    let count = events["items"].as_array().unwrap().iter().filter(|one| one["regarding"]["name"] == about).count();
    assert_eq!(count, 1, "{events}");
    in_list(&events, about)
}

fn time(event: &Value, name: &str) -> String {
    event[name].as_str().unwrap_or_default().to_owned()
}

/// Makes it seem as if an Event had been told long ago, and says it.
async fn told_long_ago(tended: &Tended, mut event: Value) -> Value {
    let name = event["metadata"]["name"].as_str().unwrap().to_owned();
    let key = format!("events/default/{name}");
    let stored = tended.server.store().get(&key).unwrap();
    let mut stored: Value = serde_json::from_slice(&stored.value).unwrap();
    event["eventTime"] = json!("2020-01-01T00:00:00.000000Z");
    stored["eventTime"] = event["eventTime"].clone();
    if stored["lastTimestamp"].is_string() {
        stored["lastTimestamp"] = json!("2020-01-01T00:00:00Z");
    }
    write(tended, raw(&key, stored)).await;
    event
}

#[tokio::test]
async fn what_cannot_be_read_keeps_no_server_from_starting() {
    for value in ODD {
        let cluster = Cluster::new(&["10.7.0.0/24"]).await;
        let made = cluster.make("web", json!({"type": "NodePort", "clusterIP": "10.7.0.9"})).await;
        let port = node_port(&made);
        for address in ["10.7.0.9", "10.7.0.77"] {
            write(&cluster, odd(&format!("ipaddresses.networking.k8s.io/{address}"), value)).await;
        }
        for port in [port, 40_000] {
            write(&cluster, odd(&format!("nodeports.ipam.cadastre.dev/{port}"), value)).await;
        }
        cluster.server.prepare().await.unwrap();
        cluster.agrees().await;
        cluster.get(&format!("{ADDRESSES}/10.7.0.9")).await.expect(200);
        cluster.get(&format!("{ADDRESSES}/10.7.0.77")).await.expect(404);
        cluster.get(&format!("{PORTS}/40000")).await.expect(404);
        let mut told: Vec<String> = Vec::new();
        for event in cluster.items(EVENTS).await {
            let (about, note) = (&event["regarding"]["kind"], &event["note"]);
            assert_eq!(event["reason"], "UnknownError");
            told.push(format!("{}: {}", about.as_str().unwrap(), note.as_str().unwrap()));
        }
        told.sort();
        let port = format!("Service: Unable to allocate port {port} due to an unknown error");
        let expected = [
            "IPAddress: Unable to get parent Service for IPAddress 10.7.0.77 due to an unknown error",
            "NodePort: Unable to get parent Service for NodePort 40000 due to an unknown error",
            "Service: Unable to allocate ClusterIP [IPv4]: 10.7.0.9 due to an unknown error",
            &port,
        ];
        assert_eq!(told, expected);
        for metric in ["clusterip_repair_ip", "nodeport_repair_port"] {
            same(figure(&cluster, &format!("apiserver_{metric}_errors_total{{type=\"unknown\"}}")).await, 2);
        }
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_mended_while_the_server_runs() {
    let tended = tended().await;
    tended.post(SERVICES, &service("web", json!({"clusterIP": "10.7.0.9"}))).await.expect(201);
    for address in ["10.7.0.9", "10.7.0.77"] {
        write(&tended, odd(&format!("ipaddresses.networking.k8s.io/{address}"), ODD[0])).await;
    }
    // Until then it is shown as it is.
    tended.until(&format!("{ADDRESSES}/10.7.0.9"), |answer| answer.text().contains("\"name\":\"web\"")).await;
    tended.gone(&format!("{ADDRESSES}/10.7.0.77")).await;
    told(&tended, "web", "UnknownError").await;
    told(&tended, "10.7.0.77", "UnknownError").await;
}

#[tokio::test]
async fn a_service_goes_whose_address_cannot_be_read_and_who_has_it_too_has_it_then() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    for is_shared in [true, false] {
        let made = cluster.make("web", json!({"clusterIP": "10.7.0.9"})).await;
        if is_shared {
            write(&cluster, raw("services/default/twin", twin_of(&made))).await;
        }
        write(&cluster, odd("ipaddresses.networking.k8s.io/10.7.0.9", ODD[0])).await;
        cluster.delete(&at("web")).await.expect(200);
        cluster.agrees().await;
        let left = if is_shared { 200 } else { 404 };
        cluster.get(&format!("{ADDRESSES}/10.7.0.9")).await.expect(left);
        if is_shared {
            cluster.delete(&at("twin")).await.expect(200);
        }
    }
    cluster.make("next", json!({"clusterIP": "10.7.0.9"})).await;
    cluster.agrees().await;
}

#[tokio::test]
async fn a_service_goes_that_says_one_address_twice() {
    let cluster = Cluster::new(&["10.7.0.0/24", "fd07::/112"]).await;
    for twice in [["10.7.0.9", "10.7.0.9"], ["fd07::9", "FD07:0::0009"]] {
        let spec = json!({"clusterIP": twice[0], "clusterIPs": twice, "ports": [{"port": 80}], "type": "ClusterIP"});
        let metadata = json!({"name": "web", "namespace": "default", "uid": "u"});
        let restored = json!({"kind": "Service", "apiVersion": "v1", "metadata": metadata, "spec": spec});
        write(&cluster, raw("services/default/web", restored)).await;
        cluster.server.prepare().await.unwrap();
        let url = format!("{ADDRESSES}/{}", twice[0]);
        cluster.get(&url).await.expect(200);
        let again = cluster.server.store().revision();
        cluster.server.prepare().await.unwrap();
        assert_eq!(cluster.server.store().revision(), again, "it has it once");
        cluster.delete(&at("web")).await.expect(200);
        cluster.get(&url).await.expect(404);
        cluster.agrees().await;
    }
}

#[tokio::test]
async fn a_port_that_a_service_says_twice_is_freed_once_and_not_before_it_says_it_nowhere() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    for last in ["type", "traffic"] {
        let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
        let mut made = cluster.make("web", spec).await;
        let port = node_port(&made);
        made["spec"]["healthCheckNodePort"] = json!(port);
        write(&cluster, raw("services/default/web", made)).await;
        cluster.age(PORTS).await;
        cluster.server.prepare().await.unwrap();
        cluster.agrees().await;
        if last == "traffic" {
            let edit = json!({"spec": {"externalTrafficPolicy": "Cluster"}});
            cluster.patch(&at("web"), "merge-patch", &edit).await.expect(200);
            cluster.get(&format!("{PORTS}/{port}")).await.expect(200);
            cluster.agrees().await;
        }
        cluster.patch(&at("web"), "merge-patch", &json!({"spec": {"type": "ClusterIP"}})).await.expect(200);
        cluster.get(&format!("{PORTS}/{port}")).await.expect(404);
        cluster.agrees().await;
        cluster.delete(&at("web")).await.expect(200);
    }
}

#[tokio::test]
async fn an_address_that_is_marked_as_a_services_and_names_none_goes_and_its_range_with_it() {
    let tended = tended().await;
    let range = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.8.0.0/24"]}});
    tended.post(RANGES, &range).await.expect(201);
    let address = |name: &str, time: &str, labels: Value| {
        let parent = json!({"group": "example.com", "resource": "gateways", "namespace": "n", "name": "g"});
        let metadata = json!({"name": name, "uid": name, "creationTimestamp": time, "labels": labels});
        let spec = json!({"parentRef": parent});
        json!({"kind": "IPAddress", "apiVersion": "networking.k8s.io/v1", "metadata": metadata, "spec": spec})
    };
    let marked = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
    for (name, time, labels) in [
        ("10.8.0.7", "2020-01-01T00:00:00Z", json!({})),
        ("10.7.0.8", &*Timestamp::now().to_string(), marked.clone()),
        ("10.8.0.9", "2020-01-01T00:00:00Z", marked),
    ] {
        let object = address(name, time, labels);
        write(&tended, raw(&format!("ipaddresses.networking.k8s.io/{name}"), object)).await;
    }
    tended.delete(&format!("{RANGES}/more")).await.expect(200);
    tended.gone(&format!("{ADDRESSES}/10.8.0.9")).await;
    tended.gone(&format!("{RANGES}/more")).await;
    let (note, _) = told(&tended, "10.8.0.9", "IPAddressNotAllocated").await;
    assert_eq!(
        note,
        "IPAddress 10.8.0.9 appears to have been modified, not referencing a Service \
         &ParentReference{Group:example.com,Resource:gateways,Namespace:n,Name:g,}: cleaning up"
    );
    tended.calm().await;
    for kept in ["10.8.0.7", "10.7.0.8"] {
        tended.get(&format!("{ADDRESSES}/{kept}")).await.expect(200);
    }
}
