//! Owners and dependents.

use http::Method;
use serde_json::{Value, json};

use crate::fixture::config_map;
use crate::tended::{Tended, at, blocking, owner};

#[tokio::test]
async fn dependents_go_after_their_last_owner() {
    let tended = Tended::new().await;
    let (a, b) = (tended.config_map("a").await, tended.config_map("b").await);
    let one = tended.owned("one", &[owner(&a)]).await;
    tended.owned("two", &[owner(&one)]).await;
    tended.owned("both", &[owner(&a), owner(&b)]).await;
    tended.delete(&at("a")).await.expect(200);
    tended.gone(&at("one")).await;
    tended.gone(&at("two")).await;
    let both = tended
        .until(&at("both"), |both| {
            both.json()["metadata"]["ownerReferences"].as_array().is_some_and(|all| all.len() == 1)
        })
        .await;
    assert_eq!(both.json()["metadata"]["ownerReferences"], json!([owner(&b)]), "the dangling reference is removed");
    tended.delete(&at("b")).await.expect(200);
    tended.gone(&at("both")).await;
}

#[tokio::test]
async fn an_owner_that_was_never_there_is_as_good_as_gone() {
    let tended = Tended::new().await;
    let a = tended.config_map("a").await;
    let mut other = owner(&a);
    other["uid"] = json!("another");
    tended.owned("one", &[other.clone()]).await;
    tended.gone(&at("one")).await;
    tended.owned("two", &[owner(&a), other]).await;
    let two = tended.until(&at("two"), |two| two.json()["metadata"]["ownerReferences"] == json!([owner(&a)])).await;
    two.expect(200);
}

#[tokio::test]
async fn what_was_there_before_the_start_is_collected_too() {
    let tended = Tended::with(crate::tended::config(), store::embedded::Options::default()).await;
    tended.trigger.begin();
    let fixture = &*tended;
    let a = fixture.config_map("a").await;
    tended.owned("one", &[owner(&a)]).await;
    tended.delete(&at("a")).await.expect(200);
    tended.get(&at("one")).await.expect(200);
    let again = server::front::Trigger::default();
    tokio::spawn(tended.server.tend(again.shutdown()));
    tended.gone(&at("one")).await;
}

#[tokio::test]
async fn a_cluster_scoped_owner_takes_what_is_in_namespaces_with_it() {
    let tended = Tended::new().await;
    let node = tended.post("/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await.expect(201);
    tended.owned("one", &[owner(&node)]).await;
    tended.calm().await;
    tended.get(&at("one")).await.expect(200);
    tended.delete("/api/v1/nodes/n").await.expect(200);
    tended.gone(&at("one")).await;
}

#[tokio::test]
async fn an_owner_in_another_namespace_is_absent_and_an_event_says_so() {
    let tended = Tended::new().await;
    tended.namespace("far").await;
    let a = tended.post("/api/v1/namespaces/far/configmaps", &config_map("a")).await.expect(201);
    tended.owned("one", &[owner(&a)]).await;
    tended.gone(&at("one")).await;
    let events = tended.get("/api/v1/namespaces/default/events").await.expect(200);
    let event = &events["items"][0];
    assert_eq!((&event["reason"], &event["type"]), (&json!("OwnerRefInvalidNamespace"), &json!("Warning")));
    let uid = a["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        event["message"],
        format!(
            "ownerRef [v1/ConfigMap, namespace: default, name: a, uid: {uid}] does not exist in namespace \"default\""
        )
    );
    tended.get("/api/v1/namespaces/far/configmaps/a").await.expect(200);
}

#[tokio::test]
async fn an_object_of_the_cluster_stays_whatever_its_owner_in_a_namespace_is() {
    let tended = Tended::new().await;
    let a = tended.config_map("a").await;
    let node = json!({"metadata": {"name": "n", "ownerReferences": [owner(&a)]}});
    tended.post("/api/v1/nodes", &node).await.expect(201);
    tended.delete(&at("a")).await.expect(200);
    tended.calm().await;
    tended.get("/api/v1/nodes/n").await.expect(200);
    let events = tended.get("/api/v1/namespaces/default/events").await.expect(200);
    assert_eq!(events["items"][0]["reason"], "OwnerRefInvalidNamespace");
}

#[tokio::test]
async fn an_object_stays_whose_owner_is_of_a_kind_that_is_not_served() {
    let tended = Tended::new().await;
    let a = tended.config_map("a").await;
    let foreign = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r"});
    tended.owned("one", &[foreign, owner(&a)]).await;
    tended.delete(&at("a")).await.expect(200);
    tended.calm().await;
    let one = tended.get(&at("one")).await.expect(200);
    assert_eq!(one["metadata"]["ownerReferences"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn in_the_foreground_an_owner_waits_for_dependents_that_block_it() {
    let tended = Tended::new().await;
    let a = tended.config_map("a").await;
    let mut held = config_map("held");
    held["metadata"]["ownerReferences"] = json!([blocking(&a)]);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    tended.post(crate::fixture::CONFIG_MAPS, &held).await.expect(201);
    tended.owned("free", &[owner(&a)]).await;
    let going = tended.delete_with("a", "Foreground").await.expect(200);
    assert_eq!(going["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    tended.gone(&at("free")).await;
    tended.until(&at("held"), |held| held.json()["metadata"]["deletionTimestamp"].is_string()).await;
    tended.calm().await;
    tended.get(&at("a")).await.expect(200);
    tended.patch(&at("held"), "merge-patch", &json!({"metadata": {"finalizers": null}})).await.expect(200);
    tended.gone(&at("a")).await;
}

#[tokio::test]
async fn in_the_foreground_dependents_of_dependents_go_first() {
    let tended = Tended::new().await;
    let a = tended.config_map("a").await;
    let one = tended.owned("one", &[blocking(&a)]).await;
    tended.owned("two", &[blocking(&one)]).await;
    let mut events = tended.watch("/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0").await;
    tended.delete_with("a", "Foreground").await.expect(200);
    let mut order = Vec::new();
    while order.len() < 3 {
        let (what, name) = events.brief().await;
        if what == "DELETED" {
            order.push(name);
        }
    }
    assert_eq!(order, ["two", "one", "a"]);
}

#[tokio::test]
async fn objects_that_own_each_other_can_be_deleted_in_the_foreground() {
    let tended = Tended::new().await;
    let a = tended.config_map("a").await;
    let b = tended.owned("b", &[blocking(&a)]).await;
    let back = json!({"metadata": {"ownerReferences": [blocking(&b)]}});
    tended.patch(&at("a"), "merge-patch", &back).await.expect(200);
    tended.delete_with("a", "Foreground").await.expect(200);
    tended.gone(&at("a")).await;
    tended.gone(&at("b")).await;
}

#[tokio::test]
async fn orphans_stay_without_the_reference() {
    let tended = Tended::new().await;
    let (a, b) = (tended.config_map("a").await, tended.config_map("b").await);
    tended.owned("one", &[owner(&a)]).await;
    tended.owned("both", &[owner(&a), owner(&b)]).await;
    let going = tended.delete_with("a", "Orphan").await.expect(200);
    assert_eq!(going["metadata"]["finalizers"], json!(["orphan"]));
    tended.gone(&at("a")).await;
    tended.calm().await;
    let one = tended.get(&at("one")).await.expect(200);
    assert_eq!(one["metadata"].get("ownerReferences"), None);
    let both = tended.get(&at("both")).await.expect(200);
    assert_eq!(both["metadata"]["ownerReferences"], json!([owner(&b)]));
}

#[tokio::test]
async fn many_dependents_are_orphaned_or_collected_alike() {
    const MANY: usize = 300;
    let tended = Tended::new().await;
    for (policy, left) in [("Orphan", MANY), ("Background", 0), ("Foreground", 0)] {
        let a = tended.config_map("a").await;
        let tie = blocking(&a);
        let made = (0..MANY).map(|n| {
            let (tended, tie) = (&tended, &tie);
            let body =
                json!({"metadata": {"name": format!("{}-{n}", policy.to_lowercase()), "ownerReferences": [tie]}});
            async move { tended.post(crate::fixture::CONFIG_MAPS, &body).await.expect(201) }
        });
        futures_util::future::join_all(made).await;
        tended.delete_with("a", policy).await.expect(200);
        tended.gone(&at("a")).await;
        tended.calm().await;
        let mine = |list: &Value| {
            let names = list["items"].as_array().unwrap().iter();
            names.filter(|item| item["metadata"]["name"].as_str().unwrap().starts_with(&policy.to_lowercase())).count()
        };
        tended.until(crate::fixture::CONFIG_MAPS, |list| mine(&list.json()) == left).await;
    }
}

#[tokio::test]
async fn the_last_word_on_dependents_counts() {
    let tended = Tended::new().await;
    let a = tended.config_map("a").await;
    let mut held = config_map("held");
    held["metadata"]["ownerReferences"] = json!([blocking(&a)]);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    tended.post(crate::fixture::CONFIG_MAPS, &held).await.expect(201);
    tended.delete_with("a", "Foreground").await.expect(200);
    tended.until(&at("held"), |held| held.json()["metadata"]["deletionTimestamp"].is_string()).await;
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
    let json = [("content-type", "application/json")];
    tended.send(Method::DELETE, &at("a"), &json, &options.to_string()).await.expect(200);
    tended.get(&at("a")).await.expect(404);
}
