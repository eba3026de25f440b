//! Listing: pages, selectors, revisions and forms.

use http::Method;
use serde_json::{Value, json};

use crate::fixture::{CONFIG_MAPS, Fixture, config_map};

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn pages_together_are_the_list_as_it_was_when_the_first_was_asked_for() {
    let fixture = Fixture::new().await;
    for index in 0..7 {
        fixture.config_map(&format!("c{index}")).await;
    }
    let first = fixture.get(&format!("{CONFIG_MAPS}?limit=3")).await.expect(200);
    assert_eq!(first["metadata"]["remainingItemCount"], 4);
    fixture.delete(&format!("{CONFIG_MAPS}/c5")).await.expect(200);
    fixture.config_map("c9").await;
    let mut all = names(&first);
    let mut next = first["metadata"]["continue"].as_str().unwrap().to_owned();
    while !next.is_empty() {
        let page = fixture.get(&format!("{CONFIG_MAPS}?limit=3&continue={next}")).await.expect(200);
        assert_eq!(page["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
        all.extend(names(&page));
        let left = page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        assert_eq!(all.len() as u64 + left, 7, "what is left is what was left then");
        next = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!(all, ["c0", "c1", "c2", "c3", "c4", "c5", "c6"]);
}

#[tokio::test]
async fn a_page_whose_revision_is_gone_says_so_and_offers_the_rest() {
    let fixture = Fixture::new().await;
    for index in 0..4 {
        fixture.config_map(&format!("c{index}")).await;
    }
    let first = fixture.get(&format!("{CONFIG_MAPS}?limit=2")).await.expect(200);
    fixture.delete(&format!("{CONFIG_MAPS}/c3")).await.expect(200);
    fixture.server.store().compact(fixture.server.store().revision()).await.unwrap();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let expired = fixture.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.expect(410);
    assert_eq!(expired["reason"], "Expired");
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let rest = fixture.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.expect(200);
    assert_eq!(names(&rest), ["c2"]);
}

#[tokio::test]
async fn selectors_choose_by_labels_and_fields() {
    let fixture = Fixture::new().await;
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let mut body = config_map(name);
        body["metadata"]["labels"] = json!({"color": color});
        fixture.post(CONFIG_MAPS, &body).await.expect(201);
    }
    for (query, expected) in [
        ("labelSelector=color%3Dred", vec!["a", "c"]),
        ("labelSelector=color%21%3Dred", vec!["b"]),
        ("labelSelector=color+in+%28blue%29", vec!["b"]),
        ("labelSelector=color%3Dred&fieldSelector=metadata.name%3Dc", vec!["c"]),
        ("fieldSelector=metadata.name%3Db", vec!["b"]),
        ("labelSelector=%21color", vec![]),
    ] {
        assert_eq!(names(&fixture.get(&format!("{CONFIG_MAPS}?{query}")).await.expect(200)), expected, "{query}");
    }
    let page = fixture.get(&format!("{CONFIG_MAPS}?labelSelector=color%3Dred&limit=1")).await.expect(200);
    assert_eq!(names(&page), ["a"]);
    assert_eq!(page["metadata"].get("remainingItemCount"), None);
    fixture.get(&format!("{CONFIG_MAPS}?labelSelector=a%3D%3D%3Db")).await.expect(400);
    let field = fixture.get(&format!("{CONFIG_MAPS}?fieldSelector=spec.none%3D1")).await;
    assert_eq!(field.code, 400, "{}", field.text());
}

#[tokio::test]
async fn a_revision_of_the_future_is_waited_for_and_then_refused() {
    let fixture = Fixture::new().await;
    let status = fixture.get(&format!("{CONFIG_MAPS}?resourceVersion=1000000")).await.expect(504);
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert!(status["message"].as_str().unwrap().contains("Too large resource version: 1000000"));
}

#[tokio::test]
async fn a_table_has_a_row_for_each_object_and_the_columns_of_the_kind() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let table = fixture.send(Method::GET, CONFIG_MAPS, &accept, "").await.expect(200);
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let heads: Vec<_> = table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!(heads, ["Name", "Data", "Age"]);
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["cells"][1], 1);
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let one =
        fixture.send(Method::GET, &format!("{CONFIG_MAPS}/a?includeObject=Object"), &accept, "").await.expect(200);
    assert_eq!(one["rows"][0]["object"]["data"], json!({"key": "value"}));
    let accept = [("accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")];
    let partial = fixture.send(Method::GET, CONFIG_MAPS, &accept, "").await.expect(200);
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert_eq!(partial["items"][0].get("data"), None);
}

#[tokio::test]
async fn a_view_of_another_version_shows_the_same_objects() {
    let fixture = Fixture::new().await;
    let cidr = json!({"metadata": {"name": "extra"}, "spec": {"cidrs": ["10.5.0.0/24"]}});
    fixture.post("/apis/networking.k8s.io/v1beta1/servicecidrs", &cidr).await.expect(201);
    let v1 = fixture.get("/apis/networking.k8s.io/v1/servicecidrs/extra").await.expect(200);
    assert_eq!(v1["apiVersion"], "networking.k8s.io/v1");
    let v1beta1 = fixture.get("/apis/networking.k8s.io/v1beta1/servicecidrs").await.expect(200);
    assert_eq!(v1beta1["kind"], "ServiceCIDRList");
    assert_eq!(v1beta1["items"][0]["spec"], v1["spec"]);
    let one = fixture.get("/apis/networking.k8s.io/v1beta1/servicecidrs/extra").await.expect(200);
    assert_eq!(one["apiVersion"], "networking.k8s.io/v1beta1");
}

#[tokio::test]
async fn an_answer_is_yaml_for_those_who_ask_for_it() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    let answer = fixture.send(Method::GET, &format!("{CONFIG_MAPS}/a"), &[("accept", "application/yaml")], "").await;
    assert_eq!(answer.headers["content-type"], "application/yaml");
    assert!(answer.text().contains("name: a"), "{}", answer.text());
}

#[tokio::test]
async fn a_long_list_is_whole() {
    let fixture = Fixture::new().await;
    for index in 0..600 {
        let mut body = config_map(&format!("c{index:03}"));
        body["data"]["filler"] = json!("x".repeat(1000));
        fixture.post(CONFIG_MAPS, &body).await.expect(201);
    }
    let list = fixture.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 600);
    assert_eq!(list["items"][0].get("kind"), None, "items of a list do not repeat their kind");
}

#[tokio::test]
async fn a_list_of_one_name_is_of_the_revision_that_it_says() {
    let fixture = Fixture::new().await;
    let first = fixture.config_map("a").await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    fixture.patch(&format!("{CONFIG_MAPS}/a"), "merge-patch", &json!({"data": {"key": "later"}})).await.expect(200);
    let one = format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Da");
    let exact = fixture.get(&format!("{one}&resourceVersion={first}&resourceVersionMatch=Exact")).await.expect(200);
    assert_eq!(
        (&exact["items"][0]["data"]["key"], &exact["metadata"]["resourceVersion"]),
        (&json!("value"), &json!(first))
    );
    let latest = fixture.get(&one).await.expect(200);
    assert_eq!(latest["items"][0]["data"]["key"], "later");
    fixture.server.store().compact(fixture.server.store().revision()).await.unwrap();
    fixture.get(&format!("{one}&resourceVersion={first}&resourceVersionMatch=Exact")).await.expect(410);
}

#[tokio::test]
async fn a_field_selector_follows_an_object_that_changes() {
    let fixture = Fixture::new().await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pods = "/api/v1/namespaces/default/pods";
    fixture.account().await;
    fixture.post(pods, &pod).await.expect(201);
    let pending = format!("{pods}?fieldSelector=status.phase%3DPending");
    assert_eq!(names(&fixture.get(&pending).await.expect(200)), ["p"]);
    fixture
        .patch(&format!("{pods}/p/status"), "merge-patch", &json!({"status": {"phase": "Running"}}))
        .await
        .expect(200);
    assert_eq!(names(&fixture.get(&pending).await.expect(200)), [""; 0]);
    assert_eq!(names(&fixture.get(&format!("{pods}?fieldSelector=status.phase!%3DPending")).await.expect(200)), ["p"]);
}

#[tokio::test]
async fn a_wish_for_a_table_that_cannot_be_read_changes_nothing() {
    let fixture = Fixture::new().await;
    let url = format!("{CONFIG_MAPS}?includeObject=bogus");
    let headers = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io"), ("content-type", "application/json")];
    fixture.send(Method::POST, &url, &headers, &config_map("a").to_string()).await.expect(400);
    fixture.get(&format!("{CONFIG_MAPS}/a")).await.expect(404);
    // Nobody who does not want a table is asked about it.
    fixture.post(&url, &config_map("a")).await.expect(201);
}
