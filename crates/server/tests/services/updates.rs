//! Changes of Services: by every sort of write, with what comes and goes by them.

use http::Method;
use serde_json::{Value, json};

use crate::cluster::{ADDRESSES, Cluster, PORTS, at, node_port, service};

#[tokio::test]
async fn the_same_manifest_again_changes_nothing() {
    let cluster = Cluster::new(&["10.7.0.0/24", "fd07::/64"]).await;
    let manifest = json!({"type": "NodePort", "ipFamilyPolicy": "PreferDualStack"});
    let made = cluster.make("web", manifest.clone()).await;
    let again = cluster.put(&at("web"), &service("web", manifest)).await.expect(200);
    assert_eq!(again, made);
    let merged = cluster.patch(&at("web"), "merge-patch", &json!({"spec": {"type": "NodePort"}})).await.expect(200);
    assert_eq!(merged, made);
    cluster.agrees().await;
}

#[tokio::test]
async fn a_service_goes_through_all_types_and_has_what_each_needs() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    cluster.make("web", json!({})).await;
    let mut had = Vec::new();
    for (patch, addresses, ports) in [
        (json!({"type": "NodePort"}), 1, 1),
        (json!({"type": "LoadBalancer"}), 1, 1),
        (json!({"externalTrafficPolicy": "Local"}), 1, 2),
        (json!({"type": "ClusterIP"}), 1, 0),
        (json!({"type": "ExternalName", "externalName": "a.b"}), 0, 0),
        (json!({"type": "NodePort", "externalName": null}), 1, 1),
        (json!({"type": "ExternalName", "externalName": "a.b"}), 0, 0),
    ] {
        for kind in ["merge-patch", "strategic-merge-patch"] {
            let now = cluster.patch(&at("web"), kind, &json!({"spec": patch})).await.expect(200);
            had.push(now["spec"]["clusterIP"].clone());
        }
        let own = |items: Vec<Value>| items.iter().filter(|item| item["spec"]["parentRef"]["name"] == "web").count();
        let now = (own(cluster.items(ADDRESSES).await), own(cluster.items(PORTS).await));
        assert_eq!(now, (addresses, ports), "{patch}");
        cluster.agrees().await;
    }
    assert!(had[..8].iter().all(|address| *address == had[0]), "it keeps its address: {had:?}");
}

#[tokio::test]
async fn a_second_family_comes_and_goes_by_the_policy() {
    let cluster = Cluster::new(&["10.7.0.0/24", "fd07::/64"]).await;
    let made = cluster.make("web", json!({})).await;
    let policy = |policy: &str| json!({"spec": {"ipFamilyPolicy": policy}});
    let dual = cluster.patch(&at("web"), "merge-patch", &policy("RequireDualStack")).await.expect(200);
    assert_eq!(dual["spec"]["clusterIPs"].as_array().unwrap().len(), 2);
    assert_eq!(dual["spec"]["clusterIPs"][0], made["spec"]["clusterIP"]);
    cluster.agrees().await;
    let single = cluster.patch(&at("web"), "merge-patch", &policy("SingleStack")).await.expect(200);
    assert_eq!(
        (&single["spec"]["clusterIPs"], &single["spec"]["ipFamilies"]),
        (&made["spec"]["clusterIPs"], &json!(["IPv4"]))
    );
    cluster.agrees().await;
}

#[tokio::test]
async fn an_update_that_is_refused_or_tried_changes_nothing() {
    let cluster = Cluster::new(&["10.7.0.0/24", "fd07::/64"]).await;
    cluster.make("web", json!({"type": "NodePort"})).await;
    cluster.make("other", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30009}]})).await;
    let before = cluster.server.store().revision();
    for (patch, code) in [
        (json!({"spec": {"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80, "nodePort": 30009}]}}), 422),
        // Below those that are picked from first, so that it is not by chance the one that it has.
        (json!({"spec": {"clusterIP": "10.7.0.7"}}), 422),
        (json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": 30010}]}}), 422),
        (json!({"metadata": {"resourceVersion": "1"}, "spec": {"type": "ClusterIP"}}), 409),
    ] {
        cluster.patch(&at("web"), "merge-patch", &patch).await.expect(code);
    }
    let tried = format!("{}?dryRun=All", at("web"));
    let dual = cluster
        .patch(&tried, "merge-patch", &json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}}))
        .await
        .expect(200);
    assert_eq!(dual["spec"]["clusterIPs"].as_array().unwrap().len(), 2);
    cluster.delete(&tried).await.expect(200);
    assert_eq!(cluster.server.store().revision(), before);
    cluster.agrees().await;
}

#[tokio::test]
async fn a_service_with_a_finalizer_keeps_what_it_has_until_it_goes() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    for (name, url) in [("a", at("a")), ("b", format!("{}/status", at("b")))] {
        let mut body = service(name, json!({"type": "NodePort"}));
        body["metadata"]["finalizers"] = json!(["example.com/x"]);
        let made = cluster.post(crate::cluster::SERVICES, &body).await.expect(201);
        cluster.delete(&at(name)).await.expect(200);
        let wanted = json!({"type": "NodePort", "clusterIP": made["spec"]["clusterIP"], "ports": [{"port": 80, "nodePort": node_port(&made)}]});
        assert!(cluster.refused("thief", wanted.clone(), 422).await.contains("already allocated"));
        cluster.agrees().await;
        cluster.patch(&url, "merge-patch", &json!({"metadata": {"finalizers": null}})).await.expect(200);
        cluster.get(&at(name)).await.expect(404);
        cluster.agrees().await;
        cluster.make("thief", wanted).await;
        cluster.delete(&at("thief")).await.expect(200);
    }
}

#[tokio::test]
async fn a_put_makes_a_service_that_is_not_there() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let made = cluster.put(&at("web"), &service("web", json!({"type": "NodePort"}))).await.expect(201);
    assert!(node_port(&made) >= 30_000);
    cluster.agrees().await;
}

#[tokio::test]
async fn what_is_in_use_cannot_be_deleted_by_hand() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let made = cluster.make("web", json!({"type": "NodePort", "clusterIP": "10.7.0.9"})).await;
    for url in [format!("{ADDRESSES}/10.7.0.9"), format!("{PORTS}/{}", node_port(&made))] {
        let refused = cluster.delete(&url).await;
        assert!(refused.message().contains("Service default/web has this"), "{}", refused.text());
        refused.expect(403);
    }
    // Those that nobody uses can: they are reservations.
    let foreign = json!({"metadata": {"name": "10.7.0.8"}, "spec": {"parentRef": {"resource": "x", "name": "y"}}});
    cluster.post(ADDRESSES, &foreign).await.expect(201);
    assert!(cluster.refused("b", json!({"clusterIP": "10.7.0.8"}), 422).await.contains("already allocated"));
    cluster.send(Method::DELETE, &format!("{ADDRESSES}/10.7.0.8"), &[], "").await.expect(200);
    cluster.make("b", json!({"clusterIP": "10.7.0.8"})).await;
    cluster.agrees().await;
}

#[tokio::test]
async fn every_sort_of_patch_gives_and_frees() {
    let cluster = Cluster::new(&["10.7.0.0/24", "fd07::/64"]).await;
    cluster.make("web", json!({})).await;
    let own = async |url: &str| {
        let items = cluster.items(url).await;
        items.iter().filter(|item| item["spec"]["parentRef"]["name"] == "web").count()
    };
    let typed = |kind: &str| json!([{"op": "replace", "path": "/spec/type", "value": kind}]);
    cluster.patch(&at("web"), "json-patch", &typed("NodePort")).await.expect(200);
    assert_eq!((own(ADDRESSES).await, own(PORTS).await), (1, 1));
    cluster.patch(&at("web"), "json-patch", &typed("ClusterIP")).await.expect(200);
    assert_eq!((own(ADDRESSES).await, own(PORTS).await), (1, 0));
    let apply = async |name: &str, spec: Value| {
        let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        let url = format!("{}?fieldManager=test&force=true", at(name));
        let headers = [("content-type", "application/apply-patch+yaml")];
        cluster.send(Method::PATCH, &url, &headers, &object.to_string()).await
    };
    let ports = json!([{"port": 80, "protocol": "TCP"}]);
    let dual = json!({"type": "NodePort", "ipFamilyPolicy": "RequireDualStack", "ports": ports});
    apply("web", dual.clone()).await.expect(200);
    assert_eq!((own(ADDRESSES).await, own(PORTS).await), (2, 1));
    let again = apply("web", dual).await.expect(200);
    assert_eq!(
        again["metadata"]["resourceVersion"],
        cluster.get(&at("web")).await.json()["metadata"]["resourceVersion"]
    );
    apply("web", json!({"type": "ClusterIP", "ipFamilyPolicy": "SingleStack", "ports": ports})).await.expect(200);
    assert_eq!((own(ADDRESSES).await, own(PORTS).await), (1, 0));
    apply("new", json!({"type": "NodePort", "ports": ports})).await.expect(201);
    cluster.agrees().await;
}

#[tokio::test]
async fn the_status_is_its_own_and_goes_when_there_is_no_load_balancer() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}});
    let mut body = service("web", json!({"type": "LoadBalancer"}));
    body["status"] = status.clone();
    let made = cluster.post(crate::cluster::SERVICES, &body).await.expect(201);
    assert_eq!(made["status"], json!({"loadBalancer": {}}), "a create has none");
    let url = format!("{}/status", at("web"));
    cluster.patch(&url, "merge-patch", &json!({"status": status})).await.expect(200);
    let other = json!({"status": {"loadBalancer": null}, "metadata": {"labels": {"a": "b"}}});
    let now = cluster.patch(&at("web"), "merge-patch", &other).await.expect(200);
    assert_eq!(now["status"], status, "a write of the rest does not change it");
    let now = cluster.patch(&at("web"), "merge-patch", &json!({"spec": {"type": "ClusterIP"}})).await.expect(200);
    assert_eq!(now["status"], json!({"loadBalancer": {}}));
    cluster.agrees().await;
}

/// Of two writes of one Service one is made in vain, and what it had picked is free again.
#[tokio::test]
async fn what_an_update_picks_in_vain_is_waited_for_by_others() {
    let cluster = Cluster::new(&["10.7.0.0/29"]).await;
    for n in 0..3 {
        cluster.make(&format!("s{n}"), json!({})).await;
    }
    let (name, address) =
        (json!({"type": "ExternalName", "externalName": "a.b", "clusterIP": null}), json!({"type": "ClusterIP"}));
    for name_of in ["one", "two"] {
        cluster.make(name_of, json!({"type": "ExternalName", "externalName": "a.b", "ports": [{"port": 80}]})).await;
    }
    // Two addresses are left.
    for round in 0..10 {
        let patch = json!({"spec": address, "metadata": {"labels": {"round": round.to_string()}}});
        let [first, again, other] =
            [at("one"), at("one"), at("two")].map(async |url| cluster.patch(&url, "merge-patch", &patch).await);
        let (first, again, other) = tokio::join!(first, again, other);
        for answer in [first, again, other] {
            answer.expect(200);
        }
        cluster.agrees().await;
        for service in ["one", "two"] {
            cluster.patch(&at(service), "merge-patch", &json!({"spec": name})).await.expect(200);
        }
    }
}
