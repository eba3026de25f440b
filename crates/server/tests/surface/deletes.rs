//! Deleting one object and many, and what keeps an object from going.

use http::Method;
use serde_json::json;

use crate::fixture::{CONFIG_MAPS, Fixture, config_map};

#[tokio::test]
async fn a_deleted_object_is_gone_and_named_in_the_answer() {
    let fixture = Fixture::new().await;
    let made = fixture.config_map("a").await;
    let done = fixture.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    assert_eq!(done["status"], "Success");
    assert_eq!(done["details"], json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}));
    let gone = fixture.get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(gone.expect(404)["message"], "configmaps \"a\" not found");
    fixture.delete(&format!("{CONFIG_MAPS}/a")).await.expect(404);
}

#[tokio::test]
async fn preconditions_protect_an_object_that_is_not_the_one_that_was_meant() {
    let fixture = Fixture::new().await;
    let made = fixture.config_map("a").await;
    let url = format!("{CONFIG_MAPS}/a");
    let with =
        |preconditions: serde_json::Value| json!({"kind": "DeleteOptions", "preconditions": preconditions}).to_string();
    let json = [("content-type", "application/json")];
    let other = fixture.send(Method::DELETE, &url, &json, &with(json!({"uid": "other"}))).await;
    other.expect(409);
    assert!(other.message().contains("the UID in the precondition (other) does not match"), "{}", other.text());
    let old = fixture.send(Method::DELETE, &url, &json, &with(json!({"resourceVersion": "1"}))).await;
    old.expect(409);
    let right = with(json!({"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}));
    fixture.send(Method::DELETE, &url, &json, &right).await.expect(200);
}

#[tokio::test]
async fn an_object_with_a_finalizer_goes_when_the_last_one_does() {
    let fixture = Fixture::new().await;
    let mut body = config_map("a");
    body["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    fixture.post(CONFIG_MAPS, &body).await.expect(201);
    let url = format!("{CONFIG_MAPS}/a");
    let marked = fixture.delete(&url).await.expect(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(fixture.delete(&url).await.expect(200), marked, "a second delete changes nothing");
    let taken = fixture.post(CONFIG_MAPS, &config_map("a")).await;
    assert!(taken.message().starts_with("object is being deleted: "), "{}", taken.text());
    let one = json!({"metadata": {"finalizers": ["example.com/b"]}});
    fixture.patch(&url, "merge-patch", &one).await.expect(200);
    fixture.get(&url).await.expect(200);
    fixture.patch(&url, "merge-patch", &json!({"metadata": {"finalizers": null}})).await.expect(200);
    fixture.get(&url).await.expect(404);
}

#[tokio::test]
async fn a_collection_is_deleted_by_what_selects_it() {
    let fixture = Fixture::new().await;
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let mut body = config_map(name);
        body["metadata"]["labels"] = json!({"color": color});
        fixture.post(CONFIG_MAPS, &body).await.expect(201);
    }
    let gone = fixture.delete(&format!("{CONFIG_MAPS}?labelSelector=color%3Dred")).await.expect(200);
    assert_eq!(gone["items"].as_array().unwrap().len(), 2);
    let left = fixture.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    assert_eq!(left["items"][0]["metadata"]["name"], "b");
}

#[tokio::test]
async fn a_namespace_that_goes_takes_nothing_in_and_leaves_when_it_is_finalized() {
    let fixture = Fixture::new().await;
    fixture.post("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await.expect(201);
    let going = fixture.delete("/api/v1/namespaces/n").await.expect(200);
    assert_eq!(going["status"]["phase"], "Terminating");
    let refused = fixture.post("/api/v1/namespaces/n/configmaps", &config_map("a")).await;
    let status = refused.expect(403);
    assert_eq!(status["details"]["causes"][0]["reason"], "NamespaceTerminating");
    assert!(refused.message().contains("because it is being terminated"), "{}", refused.text());
    let wrong = json!({"metadata": {"generateName": "gen-"}, "data": {"a/b": ""}});
    let refused = fixture.post("/api/v1/namespaces/n/configmaps", &wrong).await;
    assert!(refused.message().starts_with("configmaps \"gen-\" is forbidden: "), "{}", refused.text());
    let mut finalized = going.clone();
    finalized["spec"]["finalizers"] = json!([]);
    fixture.put("/api/v1/namespaces/n/finalize", &finalized).await.expect(200);
    fixture.get("/api/v1/namespaces/n").await.expect(404);
    let kept = fixture.delete("/api/v1/namespaces/default").await;
    assert!(kept.message().contains("this namespace may not be deleted"), "{}", kept.text());
    kept.expect(403);
}

#[tokio::test]
async fn options_that_cannot_be_read_are_not_taken_for_none() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    let url = format!("{CONFIG_MAPS}/a");
    for options in [
        json!({"dryRun": "All"}),
        json!({"preconditions": {"resourceVersion": 123}}),
        json!({"preconditions": "x"}),
        json!({"gracePeriodSeconds": "0"}),
    ] {
        let headers = [("content-type", "application/json")];
        let answer = fixture.send(Method::DELETE, &url, &headers, &options.to_string()).await;
        assert!(answer.expect(400)["message"].as_str().unwrap().contains("cannot unmarshal"), "{}", answer.text());
        fixture.get(&url).await.expect(200);
    }
}

#[tokio::test]
async fn a_generation_that_cannot_grow_does_not_keep_an_object() {
    let fixture = Fixture::new().await;
    let mut object = config_map("a");
    object["metadata"]["generation"] = json!(i64::MAX);
    object["metadata"]["finalizers"] = json!(["example.com/x"]);
    fixture.post(CONFIG_MAPS, &object).await.expect(201);
    let url = format!("{CONFIG_MAPS}/a");
    fixture.delete(&url).await.expect(200);
    fixture.patch(&url, "merge-patch", &json!({"metadata": {"finalizers": null}})).await.expect(200);
    fixture.get(&url).await.expect(404);
}

#[tokio::test]
async fn a_condition_that_is_not_met_is_told_in_the_words_of_its_kind() {
    let fixture = Fixture::new().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let made = fixture.post("/api/v1/namespaces", &namespace).await.expect(201);
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.123456Z", "type": "Normal", "reportingController": "a.b/c",
        "reportingInstance": "i", "action": "a", "reason": "r", "note": "n", "regarding": {"namespace": "default"},
    });
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    fixture.post(events, &event).await.expect(201);
    let options = json!({"preconditions": {"uid": "another"}}).to_string();
    let json = [("content-type", "application/json")];
    let refused = fixture.send(Method::DELETE, "/api/v1/namespaces/n", &json, &options).await.expect(409);
    let uid = made["metadata"]["uid"].as_str().unwrap();
    let why = format!("Precondition failed: UID in precondition: another, UID in object meta: {uid}");
    assert_eq!(refused["message"], format!("Operation cannot be fulfilled on namespaces \"n\": {why}"));
    let refused = fixture.send(Method::DELETE, &format!("{events}/e"), &json, &options).await.expect(409);
    assert_eq!(refused["details"], json!({"name": "e", "kind": "Event"}), "Events are stored in the core group");
}

#[tokio::test]
async fn a_namespace_that_ends_has_no_period_in_which_it_does() {
    let fixture = Fixture::new().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    fixture.post("/api/v1/namespaces", &namespace).await.expect(201);
    let ending = fixture.delete("/api/v1/namespaces/n").await.expect(200);
    assert!(ending["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(ending["metadata"].get("deletionGracePeriodSeconds"), None);
}
