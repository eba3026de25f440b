//! Services with more node ports than one transaction can give or free.

use serde_json::{Value, json};
use store::{Txn, Write};

use crate::cluster::{Cluster, PORTS, SERVICES, at, service};
use crate::fixture::Answer;

/// As many node ports as a new Service with one address can have.
const MOST: usize = 123;

fn ports(count: usize) -> Value {
    (0..count).map(|n| json!({"name": format!("p{n}"), "port": n + 1})).collect()
}

fn spec(count: usize) -> Value {
    json!({"type": "NodePort", "ports": ports(count)})
}

#[track_caller]
fn is_refused(answer: &Answer) {
    let status = answer.expect(422);
    assert_eq!(status["reason"], "Invalid");
    assert_eq!(status["details"]["causes"][0]["field"], "spec.ports");
    let message = answer.message();
    assert!(message.contains("cannot be given and freed in one write"), "{message}");
}

/// A Service of that many node ports, made in several writes.
async fn grown(cluster: &Cluster, count: usize) -> Value {
    let mut made = cluster.make("web", spec(100)).await;
    for count in (100..count).step_by(100).map(|from| count.min(from + 100)) {
        let all = made["spec"]["ports"].as_array_mut().unwrap();
        all.extend(ports(count).as_array().unwrap()[all.len()..].iter().cloned());
        made = cluster.put(&at("web"), &made).await.expect(200);
    }
    made
}

#[tokio::test]
async fn a_write_that_would_take_or_free_too_much_is_refused_by_the_field_that_is_too_long() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    cluster.make("most", spec(MOST)).await;
    cluster.agrees().await;
    cluster.delete(&at("most")).await.expect(200);
    cluster.agrees().await;

    let before = cluster.server.store().revision();
    is_refused(&cluster.post(SERVICES, &service("web", spec(MOST + 1))).await);
    is_refused(&cluster.post(&format!("{SERVICES}?dryRun=All"), &service("web", spec(MOST + 1))).await);
    assert_eq!(cluster.server.store().revision(), before);
    cluster.make("web", json!({})).await;
    is_refused(&cluster.patch(&at("web"), "merge-patch", &json!({"spec": spec(MOST + 10)})).await);
    cluster.delete(&at("web")).await.expect(200);

    grown(&cluster, 200).await;
    is_refused(&cluster.patch(&at("web"), "merge-patch", &json!({"spec": {"type": "ClusterIP"}})).await);
    cluster.patch(&at("web"), "merge-patch", &json!({"spec": {"sessionAffinity": "ClientIP"}})).await.expect(200);
    cluster.agrees().await;
}

#[tokio::test]
async fn a_service_of_any_size_goes_and_what_it_leaves_stays_taken_until_it_is_removed() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    for is_shared in [false, true] {
        let mut made = grown(&cluster, 300).await;
        if is_shared {
            made["metadata"]["name"] = json!("twin");
            made["metadata"]["uid"] = json!("another");
            made["metadata"]["resourceVersion"] = json!("");
            let value = api::Object::from_value(made).unwrap().encode();
            let write = Write::Put { key: "services/default/twin".into(), value };
            cluster.server.store().txn(Txn { compares: vec![], writes: vec![write] }).await.unwrap();
        }
        cluster.delete(&at("web")).await.expect(200);
        cluster.get(&at("web")).await.expect(404);
        let left = cluster.items(PORTS).await;
        let left = left.iter().find(|port| port["spec"]["parentRef"]["name"] == "web").unwrap();
        let left: u16 = left["metadata"]["name"].as_str().unwrap().parse().unwrap();
        let same = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": left}]});
        assert!(cluster.refused("next", same.clone(), 422).await.contains("already allocated"));
        cluster.age(PORTS).await;
        cluster.server.prepare().await.unwrap();
        cluster.agrees().await;
        if is_shared {
            assert!(cluster.refused("next", same, 422).await.contains("already allocated"));
            cluster.delete(&at("twin")).await.expect(200);
            cluster.age(PORTS).await;
            cluster.server.prepare().await.unwrap();
            cluster.agrees().await;
        } else {
            cluster.make("next", same).await;
            cluster.delete(&at("next")).await.expect(200);
        }
    }
}
