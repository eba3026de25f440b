//! What goes wrong in kube-apiserver 1.36 and must not here. The names are those of the list in the service contract.

use serde_json::json;

use crate::cluster::{ADDRESSES, Cluster, RANGES, SERVICES, at, node_port, service};

/// A selectorless Service on a cluster of one family that is to become headless and of both ended the process.
#[tokio::test]
async fn k1_a_family_that_the_cluster_has_not_is_a_refusal() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    cluster.make("web", json!({})).await;
    let patch = json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"], "ipFamilyPolicy": "PreferDualStack"}});
    let refused = cluster.patch(&at("web"), "merge-patch", &patch).await;
    assert!(refused.message().contains("may not change once set"), "{}", refused.text());
    refused.expect(422);
    cluster.agrees().await;
}

/// A second address that was given right after the Service was made was taken away by the repair, and given to another.
#[tokio::test]
async fn k2_a_second_address_that_was_just_given_stays() {
    let cluster = Cluster::new(&["10.7.0.0/24", "fd07::/64"]).await;
    for n in 0..40 {
        let name = format!("s{n}");
        cluster.make(&name, json!({})).await;
        let dual = json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}});
        cluster.patch(&at(&name), "merge-patch", &dual).await.expect(200);
    }
    cluster.server.prepare().await.unwrap();
    assert_eq!(cluster.items(ADDRESSES).await.len(), 81);
    cluster.agrees().await;
}

/// A mere name that says a node port freed it when it was deleted, although another Service had it.
#[tokio::test]
async fn k3_a_mere_name_frees_nobodys_port() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let port = json!([{"port": 80, "nodePort": 30007}]);
    cluster.make("holder", json!({"type": "NodePort", "ports": port})).await;
    cluster.make("ext", json!({"type": "ExternalName", "externalName": "a.b", "ports": port})).await;
    cluster.delete(&at("ext")).await.expect(200);
    let refused = cluster.refused("third", json!({"type": "NodePort", "ports": port}), 422).await;
    assert!(refused.contains("30007: provided port is already allocated"), "{refused}");
    cluster.agrees().await;
}

/// A node port that a mere name says was never looked at when it became a Service with node ports.
#[tokio::test]
async fn k4_a_port_out_of_range_stays_out() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let port = json!([{"port": 80, "nodePort": 99}]);
    cluster.make("ext", json!({"type": "ExternalName", "externalName": "a.b", "ports": port})).await;
    let patch = json!({"spec": {"type": "NodePort", "externalName": null}});
    let refused = cluster.patch(&at("ext"), "merge-patch", &patch).await;
    assert!(refused.message().contains("99: provided port is not in the valid range"), "{}", refused.text());
    refused.expect(422);
    cluster.agrees().await;
}

/// The address of the first family leaked when that of the second was refused.
#[tokio::test]
async fn b3_a_refusal_of_the_second_family_gives_the_first_back() {
    let cluster = Cluster::new(&["10.7.0.0/29", "fd07::/64"]).await;
    cluster.make("holder", json!({"clusterIP": "fd07::9"})).await;
    let both = |first: &str, second: &str| json!({"clusterIP": first, "clusterIPs": [first, second], "ipFamilyPolicy": "RequireDualStack"});
    let before = cluster.items(ADDRESSES).await.len();
    for _ in 0..20 {
        cluster.refused("web", both("10.7.0.3", "fd07::9"), 422).await;
        cluster.put(&at("web"), &service("web", both("10.7.0.3", "fd07::9"))).await.expect(422);
    }
    cluster.make("name", json!({"type": "ExternalName", "externalName": "a.b"})).await;
    let mut patch = json!({"spec": both("10.7.0.3", "fd07::9")});
    patch["spec"]["type"] = json!("ClusterIP");
    patch["spec"]["ports"] = json!([{"port": 80}]);
    cluster.patch(&at("name"), "merge-patch", &patch).await.expect(422);
    assert_eq!(cluster.items(ADDRESSES).await.len(), before);
    cluster.make("web", json!({"clusterIP": "10.7.0.3"})).await;
    cluster.agrees().await;
}

/// Two ranges that overlap and are deleted together each took the other for the one that has the addresses.
#[tokio::test]
async fn b5_ranges_that_are_deleted_together_do_not_leave_an_address_alone() {
    let cluster = Cluster::new(&["10.7.0.0/29"]).await;
    for name in ["a", "b"] {
        let range = json!({"metadata": {"name": name}, "spec": {"cidrs": ["10.8.0.0/24"]}});
        cluster.post(RANGES, &range).await.expect(201);
    }
    cluster.make("web", json!({"clusterIP": "10.8.0.9"})).await;
    for name in ["a", "b"] {
        let going = cluster.delete(&format!("{RANGES}/{name}")).await.expect(200);
        assert_eq!(going["status"]["conditions"][0]["reason"], "Terminating");
    }
    // Whoever takes the finalizers away, as upstream's controller does, does not make them go while they are needed.
    let free = async |name: &str, code: u16| {
        let url = format!("{RANGES}/{name}");
        cluster.patch(&url, "merge-patch", &json!({"metadata": {"finalizers": null}})).await.expect(200);
        cluster.get(&url).await.expect(code);
    };
    for name in ["a", "b"] {
        free(name, 200).await;
    }
    cluster.agrees().await;
    cluster.delete(&at("web")).await.expect(200);
    for name in ["a", "b"] {
        free(name, 404).await;
    }
}

/// A dry run answered with the first address of a range and a port beyond the range, and found no conflict.
#[tokio::test]
async fn b8_a_dry_run_says_what_would_happen() {
    let cluster = Cluster::new(&["10.7.0.0/29"]).await;
    let more = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.8.0.0/29"]}});
    cluster.post(RANGES, &more).await.expect(201);
    cluster
        .make(
            "holder",
            json!({"type": "NodePort", "clusterIP": "10.8.0.2", "ports": [{"port": 80, "nodePort": 30007}]}),
        )
        .await;
    let tried = format!("{SERVICES}?dryRun=All");
    for _ in 0..50 {
        let made = cluster.post(&tried, &service("web", json!({"type": "NodePort"}))).await.expect(201);
        let address = made["spec"]["clusterIP"].as_str().unwrap();
        let last: u8 = address.rsplit('.').next().unwrap().parse().unwrap();
        assert!((1..=6).contains(&last) && address != "10.8.0.2" && address != "10.7.0.1", "{address}");
        assert!((30_000..=32_767).contains(&node_port(&made)) && node_port(&made) != 30_007);
    }
    let inside = cluster.post(&tried, &service("web", json!({"clusterIP": "10.8.0.3"}))).await.expect(201);
    assert_eq!(inside["spec"]["clusterIP"], "10.8.0.3");
    cluster.post(&tried, &service("web", json!({"clusterIP": "10.8.0.2"}))).await.expect(422);
    let port = |port: u32| service("web", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}));
    cluster.post(&tried, &port(30_007)).await.expect(422);
    cluster.post(&tried, &port(99)).await.expect(422);
    cluster.agrees().await;
}

/// An address that is not written as it should be was taken for nobody's, removed and made again, for ever.
#[tokio::test]
async fn b6_an_address_is_the_same_however_it_is_written() {
    let cluster = Cluster::new(&["fd07::/64"]).await;
    cluster.make("web", json!({"clusterIP": "FD07::0A"})).await;
    let before = cluster.server.store().revision();
    cluster.server.prepare().await.unwrap();
    assert_eq!(cluster.server.store().revision(), before);
    assert!(cluster.refused("other", json!({"clusterIP": "fd07::a"}), 422).await.contains("already allocated"));
    cluster.delete(&at("web")).await.expect(200);
    cluster.make("other", json!({"clusterIP": "fd07::a"})).await;
    cluster.agrees().await;
}

/// Deleting one of two Services that have the same port freed it for both.
#[tokio::test]
async fn b7_a_service_frees_only_what_is_its_own() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let made = cluster.make("web", json!({"clusterIP": "10.7.0.9"})).await;
    // A Service that says it has the same address, as a restored backup may.
    let mut twin = made.clone();
    twin["metadata"]["name"] = json!("twin");
    twin["metadata"]["uid"] = json!("another");
    twin["metadata"]["resourceVersion"] = json!("");
    let bytes = api::Object::from_value(twin).unwrap().encode();
    let write = store::Write::Put { key: "services/default/twin".into(), value: bytes };
    cluster.server.store().txn(store::Txn { compares: vec![], writes: vec![write] }).await.unwrap();
    cluster.delete(&at("twin")).await.expect(200);
    cluster.agrees().await;
    assert!(cluster.refused("third", json!({"clusterIP": "10.7.0.9"}), 422).await.contains("already allocated"));
}

/// An address that is in use could be deleted, and was then given again.
#[tokio::test]
async fn b1_an_address_in_use_stays_whoever_deletes_it() {
    let cluster = Cluster::new(&["10.7.0.0/29"]).await;
    cluster.make("web", json!({"clusterIP": "10.7.0.3"})).await;
    cluster.delete(&format!("{ADDRESSES}/10.7.0.3")).await.expect(403);
    assert_eq!(cluster.delete(ADDRESSES).await.code, 403);
    assert!(cluster.refused("thief", json!({"clusterIP": "10.7.0.3"}), 422).await.contains("already allocated"));
    cluster.agrees().await;
}

/// What an update frees was free before the update was written, also if it was never written.
#[tokio::test]
async fn b2_what_an_update_frees_is_free_when_it_is_written_and_not_before() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    for n in 0..20 {
        let made = cluster.make(&format!("s{n}"), json!({"type": "NodePort"})).await;
        let url = at(&format!("s{n}"));
        let mut plain = made.clone();
        plain["spec"]["type"] = json!("ClusterIP");
        plain["spec"]["ports"][0]["nodePort"] = json!(0);
        let status = json!({"status": {"loadBalancer": {}, "conditions": [{
            "type": "X", "status": "True", "reason": "Y", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}});
        let status_url = format!("{url}/status");
        let (put, patched) =
            tokio::join!(cluster.put(&url, &plain), cluster.patch(&status_url, "merge-patch", &status));
        patched.expect(200);
        let port = node_port(&made);
        let wanted = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
        match put.code.as_u16() {
            200 => drop(cluster.make(&format!("next{n}"), wanted).await),
            409 => drop(cluster.refused(&format!("next{n}"), wanted, 422).await),
            other => panic!("{other}: {}", put.text()),
        }
        // One that is certain to be too late.
        plain["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
        cluster.put(&url, &plain).await.expect(409);
        cluster.agrees().await;
    }
}

/// What only an object has, and no Service, was picked, and the create failed.
#[tokio::test]
async fn b4_picks_go_round_what_is_reserved() {
    let cluster = Cluster::new(&["10.7.0.0/29"]).await;
    for last in [2, 3, 5, 6] {
        let name = format!("10.7.0.{last}");
        let foreign = json!({"metadata": {"name": name}, "spec": {"parentRef": {"resource": "x", "name": "y"}}});
        cluster.post(ADDRESSES, &foreign).await.expect(201);
    }
    assert_eq!(cluster.make("web", json!({})).await["spec"]["clusterIP"], "10.7.0.4");
    cluster.refused("more", json!({}), 500).await;
}

/// Each attempt to create a Service that is there made an address and removed it, and left an Event.
#[tokio::test]
async fn b14_a_service_that_is_there_costs_nothing_when_it_is_created_again() {
    let cluster = Cluster::new(&["10.7.0.0/29"]).await;
    cluster.make("web", json!({"type": "NodePort"})).await;
    let before = cluster.server.store().revision();
    for _ in 0..20 {
        cluster.post(SERVICES, &service("web", json!({"type": "NodePort"}))).await.expect(409);
    }
    cluster.server.prepare().await.unwrap();
    assert_eq!(cluster.server.store().revision(), before);
    assert!(cluster.items("/apis/events.k8s.io/v1/events").await.is_empty());
}
