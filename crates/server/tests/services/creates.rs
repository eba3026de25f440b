//! New Services: what they get, what they are refused, and what is there of it afterwards.

use serde_json::json;

use crate::cluster::{ADDRESSES, Cluster, PORTS, RANGES, SERVICES, at, node_port, service};

#[tokio::test]
async fn what_the_cluster_itself_has_is_there_from_the_beginning() {
    let cluster = Cluster::new(&["10.7.0.0/24", "fd07::/64"]).await;
    let own = cluster.get(&at("kubernetes")).await.expect(200);
    assert_eq!(own["spec"]["clusterIPs"], json!(["10.7.0.1"]));
    assert_eq!((&own["spec"]["ipFamilyPolicy"], &own["spec"]["ipFamilies"]), (&json!("SingleStack"), &json!(["IPv4"])));
    assert_eq!(own["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));
    assert_eq!(own["spec"]["ports"][0]["port"], 443);
    let range = cluster.get(&format!("{RANGES}/kubernetes")).await.expect(200);
    assert_eq!(range["spec"]["cidrs"], json!(["10.7.0.0/24", "fd07::/64"]));
    assert_eq!(range["status"]["conditions"][0]["status"], "True");
    let ports = cluster.get("/apis/ipam.cadastre.dev/v1alpha1/nodeportranges/kubernetes").await.expect(200);
    assert_eq!(ports["spec"]["ports"], "30000-32767");
    cluster.agrees().await;
}

#[tokio::test]
async fn a_service_its_address_and_its_port_come_and_go_together() {
    let cluster = Cluster::new(&["10.7.0.0/24", "fd07::/64"]).await;
    let made = cluster.make("web", json!({"type": "NodePort", "ipFamilyPolicy": "RequireDualStack"})).await;
    let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let object = cluster.get(&format!("{ADDRESSES}/{address}")).await.expect(200);
    assert_eq!(object["spec"]["parentRef"], json!({"resource": "services", "namespace": "default", "name": "web"}));
    assert_eq!(
        object["metadata"]["labels"],
        json!({"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"})
    );
    let port = cluster.get(&format!("{PORTS}/{}", node_port(&made))).await.expect(200);
    assert_eq!(port["spec"]["parentRef"]["uid"], made["metadata"]["uid"]);
    for written in [&object, &port] {
        assert_eq!(written["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"], "one transaction");
    }
    cluster.agrees().await;
    cluster.delete(&at("web")).await.expect(200);
    cluster.get(&format!("{ADDRESSES}/{address}")).await.expect(404);
    cluster.get(&format!("{PORTS}/{}", node_port(&made))).await.expect(404);
    cluster.agrees().await;
}

#[tokio::test]
async fn what_is_taken_or_out_of_range_is_refused_in_the_words_that_clients_know() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    cluster
        .make("a", json!({"type": "NodePort", "clusterIP": "10.7.0.9", "ports": [{"port": 80, "nodePort": 30009}]}))
        .await;
    let taken = cluster.refused("b", json!({"clusterIP": "10.7.0.9"}), 422).await;
    assert_eq!(
        taken,
        "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.7.0.9\"]: failed to allocate IP 10.7.0.9: provided IP is already allocated"
    );
    let outside = cluster.refused("b", json!({"clusterIP": "10.8.0.9"}), 422).await;
    assert!(outside.ends_with("failed to allocate IP 10.8.0.9: the provided network does not match the current range"));
    let port = |port: u32| json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    let taken = cluster.refused("b", port(30_009), 422).await;
    assert_eq!(
        taken,
        "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: 30009: provided port is already allocated"
    );
    let outside = cluster.refused("b", port(99), 422).await;
    assert!(outside.contains("99: provided port is not in the valid range. The range of valid ports is 30000-32767"));
    cluster.agrees().await;
    // What is free again can be had at once.
    cluster.delete(&at("a")).await.expect(200);
    cluster
        .make("b", json!({"type": "NodePort", "clusterIP": "10.7.0.9", "ports": [{"port": 80, "nodePort": 30009}]}))
        .await;
    cluster.agrees().await;
}

#[tokio::test]
async fn a_range_is_given_out_to_the_last_address_and_again_when_one_is_free() {
    let cluster = Cluster::new(&["10.7.0.0/29"]).await;
    for n in 0..5 {
        cluster.make(&format!("s{n}"), json!({})).await;
    }
    let full = cluster.refused("more", json!({}), 500).await;
    assert_eq!(full, "Internal error occurred: failed to allocate a serviceIP for Service \"more\": range is full");
    let gone = cluster.delete(&at("s3")).await.expect(200);
    let made = cluster.make("more", json!({})).await;
    assert_eq!(made["spec"]["clusterIP"], gone["spec"]["clusterIP"]);
    cluster.agrees().await;
}

#[tokio::test]
async fn a_create_that_is_refused_or_tried_leaves_nothing_behind() {
    let cluster = Cluster::new(&["10.7.0.0/29"]).await;
    let before = cluster.server.store().revision();
    for _ in 0..20 {
        let mut wrong = service("a", json!({"type": "NodePort"}));
        wrong["metadata"]["labels"] = json!({"-": "x"});
        cluster.post(SERVICES, &wrong).await.expect(422);
        cluster.post(SERVICES, &service("kubernetes", json!({}))).await.expect(409);
        cluster.post("/api/v1/namespaces/nowhere/services", &service("a", json!({}))).await.expect(404);
        cluster.post(&format!("{SERVICES}?dryRun=All"), &service("a", json!({"type": "NodePort"}))).await.expect(201);
    }
    assert_eq!(cluster.server.store().revision(), before);
    for n in 0..5 {
        cluster.make(&format!("s{n}"), json!({})).await;
    }
    cluster.agrees().await;
}

#[tokio::test]
async fn many_creates_at_once_get_an_address_each() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let made = (0..200).map(|n| cluster.make_owned(n));
    futures_util::future::join_all(made).await;
    assert_eq!(cluster.items(ADDRESSES).await.len(), 201);
    cluster.agrees().await;
    let gone = cluster.delete(SERVICES).await.expect(200);
    assert_eq!(gone["items"].as_array().unwrap().len(), 201);
    assert_eq!(cluster.items(ADDRESSES).await.len(), 0);
    assert_eq!(cluster.items(PORTS).await.len(), 0);
}

impl Cluster {
    async fn make_owned(&self, n: usize) {
        self.make(&format!("s{n}"), json!({"type": "NodePort"})).await;
    }
}

#[tokio::test]
async fn a_write_that_never_happens_keeps_nothing_from_others() {
    let cluster = Cluster::new(&["10.7.0.0/29"]).await;
    for n in 0..4 {
        cluster.make(&format!("s{n}"), json!({})).await;
    }
    // One address is left. It is wanted under names that are taken, in dry runs, and by one that can have it.
    let (tried, web, taken) = (format!("{SERVICES}?dryRun=All"), service("web", json!({})), service("s0", json!({})));
    for _ in 0..10 {
        let vain = (0..8).flat_map(|_| [cluster.post(SERVICES, &taken), cluster.post(&tried, &web)]);
        let (_, made) = tokio::join!(futures_util::future::join_all(vain), cluster.post(SERVICES, &web));
        made.expect(201);
        cluster.delete(&at("web")).await.expect(200);
    }
    cluster.agrees().await;
}
