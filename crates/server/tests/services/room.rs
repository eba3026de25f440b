//! How much is given out and how much is left: what metrics count, what ranges say, and what people are told when nothing is left.

use std::time::Instant;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use server::{Config, Server};

use crate::cluster::{ADDRESSES, Cluster, RANGES, SERVICES, at, config, service};
use crate::fixture::{Answer, Fixture};
use crate::tended::{Tended, until};

/// Where ranges are stored.
const RANGE_KEYS: &str = "servicecidrs.networking.k8s.io/";

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// A figure of `/metrics`.
pub(crate) async fn figure(fixture: &Fixture, name: &str) -> f64 {
    let text = fixture.get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
}

#[track_caller]
pub(crate) fn same(is: f64, should: u32) {
    assert!((is - f64::from(should)).abs() < f64::EPSILON, "{is} is not {should}");
}

fn addresses(what: &str, cidr: &str, scope: &str) -> String {
    format!("kube_apiserver_clusterip_allocator_{what}_total{{cidr=\"{cidr}\",scope=\"{scope}\"}}")
}

fn ports(what: &str, scope: &str) -> String {
    format!("kube_apiserver_nodeport_allocator_{what}_total{{scope=\"{scope}\"}}")
}

#[tokio::test]
async fn what_is_given_is_counted_by_range_and_by_whether_it_was_named() {
    let cluster = Cluster::new(&["10.7.0.0/24", "fd07::/64"]).await;
    let (v4, v6) = ("10.7.0.0/24", "fd07::/64");
    let port = json!([{"name": "a", "port": 80, "nodePort": 30_007}, {"name": "b", "port": 81}]);
    let spec =
        json!({"type": "NodePort", "clusterIP": "10.7.0.9", "ipFamilyPolicy": "RequireDualStack", "ports": port});
    cluster.make("web", named(spec)).await;
    cluster.make("any", json!({})).await;
    // The first address of the cluster itself was named too.
    same(figure(&cluster, &addresses("allocation", v4, "static")).await, 2);
    same(figure(&cluster, &addresses("allocation", v4, "dynamic")).await, 1);
    same(figure(&cluster, &addresses("allocation", v6, "dynamic")).await, 1);
    same(figure(&cluster, &addresses("allocation", v6, "static")).await, 0);
    same(figure(&cluster, &ports("allocation", "static")).await, 1);
    same(figure(&cluster, &ports("allocation", "dynamic")).await, 1);
    let seconds = "kube_apiserver_clusterip_allocator_allocation_duration_seconds";
    same(figure(&cluster, &format!("{seconds}_count{{cidr=\"{v4}\"}}")).await, 3);
    assert!(figure(&cluster, &format!("{seconds}_sum{{cidr=\"{v4}\"}}")).await > 0.0);
    // A change counts what comes by it. What goes is no error, and is not taken back.
    cluster.patch(&at("any"), "merge-patch", &json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}})).await.expect(200);
    cluster.delete(&at("web")).await.expect(200);
    same(figure(&cluster, &addresses("allocation", v6, "dynamic")).await, 2);
    same(figure(&cluster, &addresses("allocation", v4, "static")).await, 2);
}

/// With the list of addresses that goes with the one.
fn named(mut spec: Value) -> Value {
    spec["clusterIPs"] = json!([spec["clusterIP"]]);
    spec
}

#[tokio::test]
async fn what_is_refused_is_counted_once_and_what_is_tried_not_at_all() {
    let config = Config { node_ports: (20_000, 20_000), ..config(&["10.7.0.0/29"]) };
    let cluster = Cluster::with(config).await;
    cluster.make("web", json!({"type": "NodePort", "clusterIP": "10.7.0.3"})).await;
    let (cidr, tried) = ("10.7.0.0/29", format!("{SERVICES}?dryRun=All"));
    for url in [SERVICES, tried.as_str()] {
        let code = |spec: Value, code: u16| {
            let body = service("b", spec);
            let cluster = &cluster;
            async move { cluster.post(url, &body).await.expect(code) }
        };
        code(json!({"clusterIP": "10.7.0.3"}), 422).await;
        code(json!({"clusterIP": "10.9.0.3"}), 422).await;
        code(json!({"type": "NodePort"}), 500).await;
        code(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 20_000}]}), 422).await;
        code(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 99}]}), 422).await;
        same(figure(&cluster, &addresses("allocation_errors", cidr, "static")).await, 1);
        same(figure(&cluster, &addresses("allocation_errors", cidr, "dynamic")).await, 0);
        same(figure(&cluster, &ports("allocation_errors", "dynamic")).await, 1);
        same(figure(&cluster, &ports("allocation_errors", "static")).await, 2);
        same(figure(&cluster, &addresses("allocation", cidr, "dynamic")).await, 0);
    }
    for n in 0..4 {
        cluster.make(&format!("s{n}"), json!({})).await;
    }
    cluster.refused("more", json!({}), 500).await;
    same(figure(&cluster, &addresses("allocation_errors", cidr, "dynamic")).await, 1);
    // What is tried and would do counts nothing either.
    cluster.delete(&at("s0")).await.expect(200);
    cluster.post(&tried, &service("more", json!({}))).await.expect(201);
    cluster.post(SERVICES, &service("s1", json!({}))).await.expect(409);
    same(figure(&cluster, &addresses("allocation", cidr, "dynamic")).await, 4);
}

#[tokio::test]
async fn everything_is_counted_right_after_a_restart() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    cluster.make("web", json!({"type": "NodePort"})).await;
    let again = Server::new(cluster.server.store().clone(), config(&["10.7.0.0/24"]));
    let reply = again.call(metrics(), &cluster.shutdown).await;
    let server::Content::Whole(text) = reply.content else { panic!("metrics are one text") };
    let text = String::from_utf8(text.to_vec()).unwrap();
    for line in [
        "kube_apiserver_clusterip_allocator_allocated_ips{cidr=\"10.7.0.0/24\"} 2",
        "kube_apiserver_clusterip_allocator_allocation_total{cidr=\"10.7.0.0/24\",scope=\"dynamic\"} 0",
        "kube_apiserver_clusterip_allocator_allocation_errors_total{cidr=\"10.7.0.0/24\",scope=\"static\"} 0",
        "kube_apiserver_nodeport_allocator_allocation_total{scope=\"static\"} 0",
        "apiserver_nodeport_repair_port_errors_total{type=\"leak\"} 0",
        "apiserver_clusterip_repair_reconcile_errors_total 0",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert_eq!(text.matches("# EOF").count(), 1);
}

fn metrics() -> server::Request {
    server::Request {
        method: http::Method::GET,
        path: "/metrics".to_owned(),
        query: String::new(),
        headers: http::HeaderMap::new(),
        body: bytes::Bytes::new(),
        user: std::sync::Arc::new(server::access::User::authenticated("admin", [server::access::MASTERS.to_owned()])),
    }
}

#[tokio::test]
async fn what_is_mended_is_counted_by_what_was_wrong() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let made = cluster.make("web", json!({"type": "NodePort", "clusterIP": "10.7.0.9"})).await;
    cluster.make("lost", json!({"clusterIP": "10.7.0.8"})).await;
    let mut twin = made.clone();
    twin["metadata"] = json!({"namespace": "default", "name": "twin", "uid": "another", "resourceVersion": ""});
    twin["spec"]["clusterIPs"] = json!(["10.9.0.9"]);
    twin["spec"]["clusterIP"] = json!("10.9.0.9");
    let port = crate::cluster::node_port(&made);
    let writes = vec![
        store::Write::Delete { key: "ipaddresses.networking.k8s.io/10.7.0.9".into() },
        store::Write::Delete { key: "services/default/lost".into() },
        store::Write::Put {
            key: "services/default/twin".into(),
            value: api::Object::from_value(twin).unwrap().encode(),
        },
    ];
    cluster.server.store().txn(store::Txn { compares: vec![], writes }).await.unwrap();
    cluster.age(ADDRESSES).await;
    cluster.server.prepare().await.unwrap();
    let ip = |sort: &str| format!("apiserver_clusterip_repair_ip_errors_total{{type=\"{sort}\"}}");
    // The address of the one, and that which the other says it has and nobody wrote.
    same(figure(&cluster, &ip("repair")).await, 2);
    same(figure(&cluster, &ip("leak")).await, 1);
    // What people have to decide is told and counted by who tends the store: once at a start, whatever else happens.
    tokio::spawn(cluster.server.tend(cluster.trigger.shutdown()));
    let has = |reason: &str, answer: &Answer| answer.text().contains(&format!("\"reason\":\"{reason}\""));
    let both = |answer: &Answer| has("ClusterIPOutOfRange", answer) && has("PortAlreadyAllocated", answer);
    until(&cluster, EVENTS, both).await;
    cluster.make("other", json!({})).await;
    let leaked =
        json!({"metadata": {"name": "10.7.0.7"}, "spec": {"parentRef": {"resource": "services", "name": "x"}}});
    let mut leaked = cluster.post(ADDRESSES, &leaked).await.expect(201);
    leaked["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    leaked["metadata"]["labels"] = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
    leaked["metadata"]["resourceVersion"] = json!("");
    let value = api::Object::from_value(leaked).unwrap().encode();
    let write = store::Write::Put { key: "ipaddresses.networking.k8s.io/10.7.0.7".into(), value };
    cluster.server.store().txn(store::Txn { compares: vec![], writes: vec![write] }).await.unwrap();
    until(&cluster, &format!("{ADDRESSES}/10.7.0.7"), |answer| answer.code == 404).await;
    same(figure(&cluster, &ip("outOfRange")).await, 1);
    let duplicate = "apiserver_nodeport_repair_port_errors_total{type=\"duplicate\"}";
    assert!((figure(&cluster, duplicate).await - 1.0).abs() < f64::EPSILON, "both have the port {port}");
    same(figure(&cluster, "apiserver_clusterip_repair_reconcile_errors_total").await, 0);
}

/// What the range says of its room: status, reason and message.
fn room(answer: &Value) -> Option<(String, String, String)> {
    let conditions = answer["status"]["conditions"].as_array()?;
    let own = conditions.iter().find(|condition| condition["type"] == "ipam.cadastre.dev/Capacity")?;
    let text = |name: &str| own[name].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

async fn says(tended: &Tended, name: &str, status: &str, reason: &str) -> String {
    let right = |said: &Option<(String, String, String)>| {
        said.as_ref().is_some_and(|(is, why, _)| is == status && why == reason)
    };
    let answer = tended.until(&format!("{RANGES}/{name}"), |answer| right(&room(&answer.json()))).await;
    room(&answer.json()).unwrap().2
}

#[tokio::test]
async fn a_range_says_how_much_of_it_is_in_use_and_what_to_do_when_it_is_full() {
    let tended = Tended::with(config(&["10.7.0.0/29"]), store::embedded::Options::default()).await;
    assert_eq!(says(&tended, "kubernetes", "True", "Free").await, "10.7.0.0/29: 1 used, 5 free");
    for n in 0..5 {
        tended.post(SERVICES, &service(&format!("s{n}"), json!({}))).await.expect(201);
    }
    let message = says(&tended, "kubernetes", "False", "Full").await;
    assert_eq!(
        message,
        "10.7.0.0/29: 6 used, 0 free; create another ServiceCIDR, or delete Services that are not needed"
    );
    let range = tended.get(&format!("{RANGES}/kubernetes")).await.expect(200);
    let ready = &range["status"]["conditions"][0];
    assert_eq!((&ready["type"], &ready["status"]), (&json!("Ready"), &json!("True")), "the other condition stays");
    // A range that goes gives out nothing, and says so.
    tended.post(RANGES, &json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.8.0.0/29"]}})).await.expect(201);
    tended.post(SERVICES, &service("more", json!({}))).await.expect(201);
    says(&tended, "more", "True", "Free").await;
    tended.delete(&format!("{RANGES}/more")).await.expect(200);
    let message = says(&tended, "more", "False", "Closed").await;
    assert_eq!(message, "10.8.0.0/29: 1 used, 5 free; nothing new is given out of it");
    tended.delete(&at("more")).await.expect(200);
    tended.gone(&format!("{RANGES}/more")).await;
}

/// How often a range was written that somebody has watched.
fn writes(watch: &mut store::Watch) -> usize {
    let mut writes = 0;
    while let Some(Ok(events)) = watch.next().now_or_never() {
        writes += events.len();
    }
    writes
}

#[tokio::test]
async fn services_cost_no_writes_of_their_range() {
    let tended = Tended::with(config(&["10.7.0.0/16"]), store::embedded::Options::default()).await;
    says(&tended, "kubernetes", "True", "Free").await;
    let (store, begin) = (tended.server.store(), Instant::now());
    let mut watch = store.watch(RANGE_KEYS, store.revision()).unwrap();
    for n in 0..300 {
        tended.post(SERVICES, &service(&format!("s{n}"), json!({}))).await.expect(201);
    }
    tended.calm().await;
    let (writes, lost) = (writes(&mut watch), figure(&tended, "cadastre_service_picks_lost_total").await);
    // They may be written anew every ten seconds, which a slow machine may have taken.
    let most = 1 + begin.elapsed().as_secs() / 10;
    assert!(writes as u64 <= most, "{writes} writes");
    assert!(lost <= f64::from(u32::try_from(most).unwrap()), "{lost} picks were refused");
}

#[tokio::test]
async fn several_servers_say_it_once() {
    let tended = Tended::with(config(&["10.7.0.0/29"]), store::embedded::Options::default()).await;
    for _ in 0..3 {
        let other = Server::new(tended.server.store().clone(), config(&["10.7.0.0/29"]));
        tokio::spawn(other.tend(tended.trigger.shutdown()));
    }
    says(&tended, "kubernetes", "True", "Free").await;
    let (store, begin) = (tended.server.store(), Instant::now());
    let mut watch = store.watch(RANGE_KEYS, store.revision()).unwrap();
    for n in 0..5 {
        tended.post(SERVICES, &service(&format!("s{n}"), json!({}))).await.expect(201);
    }
    says(&tended, "kubernetes", "False", "Full").await;
    // Another range is seen to by all of them after that.
    tended.post(RANGES, &json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.8.0.0/29"]}})).await.expect(201);
    says(&tended, "more", "True", "Free").await;
    tended.calm().await;
    let writes = writes(&mut watch);
    // On the way it may have been nearly full, and a slow machine may have seen other figures.
    let most = 4 + begin.elapsed().as_secs() / 10;
    assert!((3..=most).contains(&(writes as u64)), "{writes}: full, made, free");
}

#[tokio::test]
async fn ranges_are_left_alone_where_controllers_are_at_work() {
    let config = Config { tended: false, ..config(&["10.7.0.0/29"]) };
    let tended = Tended::with(config, store::embedded::Options::default()).await;
    let url = format!("{RANGES}/kubernetes");
    let before = tended.get(&url).await.expect(200);
    for n in 0..5 {
        tended.post(SERVICES, &service(&format!("s{n}"), json!({}))).await.expect(201);
    }
    tended.post(SERVICES, &service("more", json!({}))).await.expect(500);
    // What the server does here in any case comes after all that was to be done before.
    tended.delete(&at("kubernetes")).await.expect(200);
    tended.there(&at("kubernetes")).await;
    assert_eq!(tended.get(&url).await.expect(200), before);
    let events = tended.get(EVENTS).await.expect(200);
    assert_eq!(events["items"], json!([]));
}

#[tokio::test]
async fn a_controller_that_applies_its_condition_does_not_disturb_the_other() {
    let tended = Tended::with(config(&["10.7.0.0/29"]), store::embedded::Options::default()).await;
    let message = says(&tended, "kubernetes", "True", "Free").await;
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let applied = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
        "status": {"conditions": [condition]},
    });
    let url = format!("{RANGES}/kubernetes/status?fieldManager=service-cidr-controller&force=true");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let now = tended.send(http::Method::PATCH, &url, &headers, &applied.to_string()).await.expect(200);
    assert_eq!(now["status"]["conditions"][0], condition);
    assert_eq!(room(&now).unwrap().2, message);
    for n in 0..5 {
        tended.post(SERVICES, &service(&format!("s{n}"), json!({}))).await.expect(201);
    }
    says(&tended, "kubernetes", "False", "Full").await;
    let now = tended.get(&format!("{RANGES}/kubernetes")).await.expect(200);
    assert_eq!(now["status"]["conditions"][0], condition);
    let managers = now["metadata"]["managedFields"].as_array().unwrap();
    let owner = managers.iter().find(|one| one["manager"] == "service-cidr-controller").unwrap();
    assert!(owner.to_string().contains("Ready") && !owner.to_string().contains("Capacity"), "{owner}");
}

#[tokio::test]
async fn when_nothing_is_left_people_are_told_once_which_ranges_are_full() {
    let cluster = Cluster::with(Config { node_ports: (20_000, 20_000), ..config(&["10.7.0.0/29"]) }).await;
    cluster.make("web", json!({"type": "NodePort"})).await;
    for n in 0..4 {
        cluster.make(&format!("s{n}"), json!({})).await;
    }
    for n in 0..3 {
        let full = cluster.refused("more", json!({}), 500).await;
        assert_eq!(full, "Internal error occurred: failed to allocate a serviceIP for Service \"more\": range is full");
        cluster.refused(&format!("other{n}"), json!({}), 500).await;
        let tried = cluster.post(&format!("{SERVICES}?dryRun=All"), &service("tried", json!({}))).await;
        tried.expect(500);
    }
    cluster.delete(&at("s0")).await.expect(200);
    cluster.refused("ports", json!({"type": "NodePort"}), 500).await;
    let mut told: Vec<_> = cluster.items(EVENTS).await;
    told.sort_by_key(|one| one["reason"].as_str().map(str::to_owned));
    let shown: Vec<_> = told
        .iter()
        .map(|one| [&one["reason"], &one["regarding"]["kind"], &one["regarding"]["name"], &one["type"]])
        .collect();
    let (warning, kind) = (&json!("Warning"), &json!("Service"));
    assert_eq!(
        shown,
        [
            [&json!("ClusterIPRangeFull"), kind, &json!("more"), warning],
            [&json!("PortRangeFull"), kind, &json!("ports"), warning],
        ]
    );
    assert_eq!(
        told[0]["note"],
        "no IPv4 address is left: ServiceCIDR kubernetes (10.7.0.0/29) is full; create another ServiceCIDR, or delete Services \
         that are not needed"
    );
    assert_eq!(
        told[1]["note"],
        "no node port is left: NodePortRange kubernetes (20000-20000) is full; create another NodePortRange, or delete Services \
         that are not needed"
    );
    assert_eq!(cluster.items(ADDRESSES).await.len(), 5);
    cluster.agrees().await;
}

/// Whoever is refused tries again, and many do so at the same time.
#[tokio::test]
async fn what_goes_on_being_refused_is_counted_in_its_event_at_most_once_a_minute() {
    let cluster = Cluster::new(&["10.7.0.0/29"]).await;
    for n in 0..5 {
        cluster.make(&format!("s{n}"), json!({})).await;
    }
    let store = cluster.server.store();
    let mut watch = store.watch("events/", store.revision()).unwrap();
    for (count, long_ago) in [(0, false), (2, true), (3, true)] {
        if long_ago {
            let page = store.range(store::Range { prefix: "events/", ..store::Range::default() }).await.unwrap();
            let mut event: Value = serde_json::from_slice(&page.entries[0].value).unwrap();
            for name in ["eventTime", "lastTimestamp"] {
                if event[name].is_string() {
                    event[name] = json!("2020-01-01T00:00:00Z");
                }
            }
            event["metadata"]["resourceVersion"] = json!("");
            let value = api::Object::from_value(event).unwrap().encode();
            let write = store::Write::Put { key: page.entries[0].key.clone(), value };
            store.txn(store::Txn { compares: vec![], writes: vec![write] }).await.unwrap();
        }
        writes(&mut watch);
        let tried = (0..20).map(async |n| cluster.refused(&format!("more{n}"), json!({}), 500).await);
        futures_util::future::join_all(tried).await;
        assert_eq!(writes(&mut watch), 1, "one write of 20");
        let [event] = &cluster.items(EVENTS).await[..] else { panic!("there is one Event") };
        assert_eq!(event["deprecatedCount"].as_i64().unwrap_or(0), count);
        let last = event["deprecatedLastTimestamp"].as_str().unwrap_or_default();
        assert!(!long_ago || last > "2020-01-01T00:00:00Z", "{event}");
    }
}
