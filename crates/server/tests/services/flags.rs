//! A command line that changes between starts.

use serde_json::{Value, json};
use server::Server;

use crate::cluster::{Cluster, RANGES, at, config};
use crate::tended::until;

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// Starts a server over the same store with another command line.
async fn restart(cluster: &Cluster, ranges: &[&str]) -> Server {
    let server = Server::new(cluster.server.store().clone(), config(ranges));
    server.prepare().await.unwrap();
    server
}

/// The ranges that there are, by name.
async fn ranges(cluster: &Cluster) -> Vec<(String, Value)> {
    let items = cluster.items(RANGES).await;
    items
        .iter()
        .map(|one| (one["metadata"]["name"].as_str().unwrap().to_owned(), one["spec"]["cidrs"].clone()))
        .collect()
}

async fn reasons(cluster: &Cluster) -> Vec<String> {
    let events = cluster.items(EVENTS).await;
    events.iter().map(|one| one["reason"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_part_of_the_range_that_is_there_changes_nothing_and_is_told() {
    let cluster = Cluster::new(&["10.7.0.0/16"]).await;
    let before = ranges(&cluster).await;
    restart(&cluster, &["10.7.0.0/24"]).await;
    assert_eq!(ranges(&cluster).await, before);
    assert_eq!(reasons(&cluster).await, ["KubernetesDefaultServiceCIDRInconsistent"]);
}

#[tokio::test]
async fn a_larger_or_another_range_is_given_out_beside_the_one_that_is_there() {
    for (flags, name) in [("10.0.0.0/8", "from-flags-10.0.0.0-8"), ("192.168.0.0/24", "from-flags-192.168.0.0-24")] {
        let cluster = Cluster::new(&["10.7.0.0/29"]).await;
        for n in 0..5 {
            cluster.make(&format!("s{n}"), json!({})).await;
        }
        restart(&cluster, &[flags]).await;
        restart(&cluster, &[flags]).await;
        let there = ranges(&cluster).await;
        assert_eq!(there, [(name.to_owned(), json!([flags])), ("kubernetes".to_owned(), json!(["10.7.0.0/29"]))]);
        let made = cluster.get(&format!("{RANGES}/{name}")).await.expect(200);
        assert_eq!(made["metadata"]["labels"]["networking.kubernetes.io/service-cidr-from-flags"], "true");
        // Whoever runs with the old command line gives out of it too.
        cluster.make("more", json!({})).await;
        assert_eq!(reasons(&cluster).await, ["KubernetesDefaultServiceCIDRInconsistent"]);
        cluster.agrees().await;
    }
}

#[tokio::test]
async fn a_server_without_lifecycle_makes_no_range_but_that_of_the_cluster() {
    let cluster = Cluster::new(&["10.7.0.0/29"]).await;
    let bare = server::Config { tended: false, ..config(&["10.9.0.0/24"]) };
    Server::new(cluster.server.store().clone(), bare).prepare().await.unwrap();
    assert_eq!(ranges(&cluster).await, [("kubernetes".to_owned(), json!(["10.7.0.0/29"]))]);
    assert_eq!(reasons(&cluster).await, ["KubernetesDefaultServiceCIDRInconsistent"]);
}

#[tokio::test]
async fn a_second_family_before_the_first_is_given_out_too() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let other = restart(&cluster, &["fd07::/64", "10.7.0.0/24"]).await;
    let names: Vec<String> = ranges(&cluster).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["from-flags-fd07---64-10.7.0.0-24", "kubernetes"]);
    drop(other);
    cluster.make("six", json!({"clusterIP": "10.7.0.9"})).await;
    // The same families the other way round are there already.
    let cluster = Cluster::new(&["10.7.0.0/24", "fd07::/64"]).await;
    restart(&cluster, &["fd07::/64", "10.7.0.0/24"]).await;
    assert_eq!(ranges(&cluster).await.len(), 1);
}

/// A server that looks after the store, and has looked at all that was there.
async fn at_work(cluster: &Cluster, server: Server) {
    tokio::spawn(server.tend(cluster.trigger.shutdown()));
    for _ in 0..2 {
        cluster.delete(&at("kubernetes")).await.expect(200);
        until(cluster, &at("kubernetes"), |now| now.code == 200).await;
    }
}

/// Deletes are no reason to be without what the command line says, whoever made the range that had it.
#[tokio::test]
async fn a_range_that_goes_is_replaced_while_it_is_drained_if_the_command_line_says_something_else() {
    // A part of the range of the cluster is what the command line says.
    let cluster = Cluster::new(&["10.7.0.0/16"]).await;
    let server = restart(&cluster, &["10.7.0.0/24"]).await;
    at_work(&cluster, server).await;
    cluster.make("held", json!({"clusterIP": "10.7.9.9"})).await;
    cluster.delete(&format!("{RANGES}/kubernetes")).await.expect(200);
    until(&cluster, &format!("{RANGES}/from-flags-10.7.0.0-24"), |now| now.code == 200).await;
    cluster.make("more", json!({})).await;
    cluster.agrees().await;
    // A range of somebody's own has it.
    let cluster = Cluster::new(&["10.7.0.0/29"]).await;
    let mine = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "mine"},
        "spec": {"cidrs": ["10.0.0.0/8"]},
    });
    cluster.post(RANGES, &mine).await.expect(201);
    let server = restart(&cluster, &["10.9.0.0/24"]).await;
    at_work(&cluster, server).await;
    assert_eq!(ranges(&cluster).await.len(), 2);
    cluster.delete(&format!("{RANGES}/mine")).await.expect(200);
    until(&cluster, &format!("{RANGES}/from-flags-10.9.0.0-24"), |now| now.code == 200).await;
}

#[tokio::test]
async fn a_second_family_joins_whenever_a_server_with_one_has_made_the_range() {
    let cluster = Cluster::new(&["10.7.0.0/24", "fd07::/64"]).await;
    let one = Server::new(cluster.server.store().clone(), config(&["10.7.0.0/24"]));
    let both = Server::new(cluster.server.store().clone(), config(&["10.7.0.0/24", "fd07::/64"]));
    tokio::spawn(both.tend(cluster.trigger.shutdown()));
    // As if one server with the old command line had made it again, after it was deleted.
    let own = format!("{RANGES}/kubernetes");
    for _ in 0..2 {
        cluster.lose("servicecidrs.networking.k8s.io/kubernetes").await;
        one.prepare().await.unwrap();
        until(&cluster, &own, |now| now.code == 200 && now.json()["spec"]["cidrs"].as_array().unwrap().len() == 2)
            .await;
    }
}

#[tokio::test]
async fn a_server_says_so_when_one_with_another_command_line_makes_the_range_of_the_cluster_again() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let other = Server::new(cluster.server.store().clone(), config(&["10.9.0.0/24"]));
    tokio::spawn(cluster.server.tend(cluster.trigger.shutdown()));
    // Both make it; whoever is first has made it.
    let mut attempts = 0;
    loop {
        cluster.lose("servicecidrs.networking.k8s.io/kubernetes").await;
        other.prepare().await.unwrap();
        let own = cluster.get(&format!("{RANGES}/kubernetes")).await.expect(200);
        if own["spec"]["cidrs"] == json!(["10.9.0.0/24"]) {
            break;
        }
        attempts += 1;
        assert!(attempts < 20, "the other one never makes it: {own}");
    }
    let why = "The default ServiceCIDR [10.9.0.0/24] does not match the controller flag configurations [10.7.0.0/24]";
    until(&cluster, EVENTS, |events| events.text().contains(why)).await;
}

#[tokio::test]
async fn people_are_told_when_the_range_of_the_cluster_cannot_be_made() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    cluster.lose("servicecidrs.networking.k8s.io/kubernetes").await;
    // No command line can say that.
    let odd = Server::new(cluster.server.store().clone(), config(&["10.8.0.0/24", "10.9.0.0/24"]));
    assert!(odd.prepare().await.is_err());
    assert_eq!(reasons(&cluster).await, ["KubernetesDefaultServiceCIDRError"]);
    let events = cluster.items(EVENTS).await;
    assert_eq!(events[0]["note"], "The default ServiceCIDR can not be created");
    assert_eq!(
        (&events[0]["regarding"]["kind"], &events[0]["regarding"]["name"]),
        (&json!("ServiceCIDR"), &json!("kubernetes"))
    );
}

#[tokio::test]
async fn services_that_come_with_a_store_are_not_told_that_they_are_out_of_range_before_there_are_ranges() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    cluster.make("web", json!({})).await;
    cluster.lose("servicecidrs.networking.k8s.io/kubernetes").await;
    restart(&cluster, &["10.7.0.0/24"]).await;
    assert_eq!(reasons(&cluster).await, [""; 0]);
    cluster.agrees().await;
}

/// The whole way from one range to another: restart with the new one, delete the old one, and recreate what has addresses of it.
#[tokio::test]
async fn a_stand_in_goes_when_the_range_of_the_cluster_is_what_the_command_line_says() {
    let cluster = Cluster::new(&["10.7.0.0/29"]).await;
    cluster.make("web", json!({})).await;
    let server = restart(&cluster, &["10.8.0.0/24"]).await;
    tokio::spawn(server.tend(cluster.trigger.shutdown()));
    let stand_in = format!("{RANGES}/from-flags-10.8.0.0-24");
    // It comes back as long as it is needed.
    let uid = cluster.get(&stand_in).await.expect(200)["metadata"]["uid"].clone();
    cluster.delete(&stand_in).await.expect(200);
    until(&cluster, &stand_in, |now| now.code == 200 && now.json()["metadata"]["uid"] != uid).await;
    cluster.delete(&format!("{RANGES}/kubernetes")).await.expect(200);
    for name in ["web", "kubernetes"] {
        cluster.delete(&at(name)).await.expect(200);
    }
    let is_new = |range: &Value| range["spec"]["cidrs"] == json!(["10.8.0.0/24"]);
    until(&cluster, &format!("{RANGES}/kubernetes"), |now| now.code == 200 && is_new(&now.json())).await;
    until(&cluster, &stand_in, |now| now.code == 404).await;
    let first = until(&cluster, &at("kubernetes"), |now| now.code == 200).await.json();
    assert_eq!(first["spec"]["clusterIP"], "10.8.0.1");
    cluster.make("web", json!({})).await;
    cluster.agrees().await;
}
