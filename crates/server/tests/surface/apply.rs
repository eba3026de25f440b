//! Server-side apply, and the account of who owns what that every write keeps.

use http::Method;
use serde_json::{Value, json};

use crate::fixture::{Answer, CONFIG_MAPS, Fixture, config_map};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const NODES: &str = "/api/v1/nodes";
const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";

impl Fixture {
    async fn apply(&self, url: &str, body: &Value) -> Answer {
        self.apply_text(url, &body.to_string()).await
    }

    async fn apply_text(&self, url: &str, body: &str) -> Answer {
        self.send(Method::PATCH, url, &[("content-type", "application/apply-patch+yaml")], body).await
    }
}

/// Who has what: manager, operation, subresource and fields of each entry.
///
/// Entries are in the order of their times, which are whole seconds, and then of their names. Where several managers write
/// one after the other, give them names in alphabetical order: then it is one order, whenever a second ends.
fn account(object: &Value) -> Vec<(&str, &str, &str, &Value)> {
    let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    entries
        .iter()
        .map(|entry| {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            assert_eq!(text("fieldsType"), "FieldsV1");
            (text("manager"), text("operation"), text("subresource"), &entry["fieldsV1"])
        })
        .collect()
}

fn data(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

#[tokio::test]
async fn every_way_of_writing_makes_the_writer_the_owner_of_what_it_changed() {
    let fixture = Fixture::new().await;
    let url = format!("{CONFIG_MAPS}/a");
    let made = fixture
        .send(Method::POST, CONFIG_MAPS, &[("user-agent", "maker/1.0 (x)")], &config_map("a").to_string())
        .await
        .expect(201);
    assert_eq!(account(&made), [("maker", "Update", "", &json!({"f:data": {".": {}, "f:key": {}}}))]);

    let body = json!({"data": {"b": "1"}});
    let patched = fixture.patch(&format!("{url}?fieldManager=merger"), "merge-patch", &body).await.expect(200);
    assert_eq!(
        account(&patched),
        [
            ("maker", "Update", "", &json!({"f:data": {".": {}, "f:key": {}}})),
            ("merger", "Update", "", &json!({"f:data": {"f:b": {}}})),
        ]
    );
    let body = json!([{"op": "replace", "path": "/data/key", "value": "2"}]);
    let patched = fixture.patch(&format!("{url}?fieldManager=patcher"), "json-patch", &body).await.expect(200);
    assert_eq!(account(&patched)[0], ("maker", "Update", "", &json!({"f:data": {}})));
    assert_eq!(account(&patched)[2], ("patcher", "Update", "", &json!({"f:data": {"f:key": {}}})));

    // A PUT that does not know of managedFields does not lose them.
    let put = fixture.put(&format!("{url}?fieldManager=putter"), &data("a", &json!({"c": "3"}))).await.expect(200);
    assert_eq!(
        account(&put),
        [("maker", "Update", "", &json!({"f:data": {}})), ("putter", "Update", "", &json!({"f:data": {"f:c": {}}})),]
    );
    let body = json!({"data": {"d": "4"}});
    let url = format!("{url}?fieldManager=putter");
    let patched = fixture.patch(&url, "strategic-merge-patch", &body).await.expect(200);
    assert_eq!(account(&patched)[1].3, &json!({"f:data": {"f:c": {}, "f:d": {}}}));
}

#[tokio::test]
async fn an_apply_creates_merges_and_withdraws() {
    let fixture = Fixture::new().await;
    let url = format!("{CONFIG_MAPS}/a");
    let one = format!("{url}?fieldManager=one");
    let made = fixture.apply(&one, &data("a", &json!({"a": "1", "b": "2"}))).await.expect(201);
    assert_eq!(account(&made), [("one", "Apply", "", &json!({"f:data": {"f:a": {}, "f:b": {}}}))]);
    let two = fixture.apply(&format!("{url}?fieldManager=two"), &data("a", &json!({"b": "2", "c": "3"}))).await;
    assert_eq!(two.expect(200)["data"], json!({"a": "1", "b": "2", "c": "3"}));
    let nothing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let left = fixture.apply(&one, &nothing).await.expect(200);
    assert_eq!(left["data"], json!({"b": "2", "c": "3"}), "what somebody else applies stays");
    assert_eq!(account(&left), [("two", "Apply", "", &json!({"f:data": {"f:b": {}, "f:c": {}}}))]);
}

#[tokio::test]
async fn an_apply_that_changes_nothing_writes_nothing() {
    let fixture = Fixture::new().await;
    let body = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "labels": {"x": "y"}},
        "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
    });
    let url = format!("{SERVICES}/a?fieldManager=me");
    let made = fixture.apply(&url, &body).await;
    made.expect(201);
    let revision = fixture.server.store().revision();
    let again = fixture.apply(&url, &body).await;
    again.expect(200);
    assert_eq!(again.body, made.body);
    assert_eq!(fixture.server.store().revision(), revision);
}

#[tokio::test]
async fn what_others_have_is_taken_only_by_force() {
    let fixture = Fixture::new().await;
    let url = format!("{CONFIG_MAPS}/a");
    fixture.put(&url, &json!({})).await.expect(400);
    fixture.post(&format!("{CONFIG_MAPS}?fieldManager=maker"), &config_map("a")).await.expect(201);
    let taken = data("a", &json!({"key": "mine"}));
    let refused = fixture.apply(&format!("{url}?fieldManager=me"), &taken).await.expect(409);
    assert_eq!(refused["reason"], "Conflict");
    assert_eq!(refused["message"], "Apply failed with 1 conflict: conflict with \"maker\" using v1: .data.key");
    assert_eq!(
        refused["details"],
        json!({"causes": [
            {"reason": "FieldManagerConflict", "message": "conflict with \"maker\" using v1", "field": ".data.key"},
        ]})
    );
    let forced = fixture.apply(&format!("{url}?fieldManager=me&force=true"), &taken).await.expect(200);
    assert_eq!(forced["data"]["key"], "mine");
    assert_eq!(
        account(&forced),
        [("me", "Apply", "", &json!({"f:data": {"f:key": {}}})), ("maker", "Update", "", &json!({"f:data": {}})),]
    );
}

#[tokio::test]
async fn the_status_is_owned_by_who_writes_it_there_and_by_nobody_else() {
    let fixture = Fixture::new().await;
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"a": "b"}},
        "spec": {"podCIDR": "10.0.0.0/24"}, "status": {"phase": "Running"},
    });
    let made = fixture.apply(&format!("{NODES}/n?fieldManager=me"), &node).await.expect(201);
    let whole = json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:podCIDR": {}}});
    assert_eq!(account(&made), [("me", "Apply", "", &whole)]);
    let status = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.1.0/24"},
        "status": {"phase": "Running"},
    });
    let written = fixture.apply(&format!("{NODES}/n/status?fieldManager=me&force=true"), &status).await.expect(200);
    assert_eq!((&written["spec"]["podCIDR"], &written["status"]["phase"]), (&json!("10.0.0.0/24"), &json!("Running")));
    assert_eq!(
        account(&written),
        [("me", "Apply", "", &whole), ("me", "Apply", "status", &json!({"f:status": {"f:phase": {}}}))]
    );
    let absent = fixture.apply(&format!("{NODES}/none/status?fieldManager=me"), &status).await;
    assert_eq!(absent.expect(404)["message"], "nodes \"none\" not found");
}

#[tokio::test]
async fn a_status_without_a_say_in_metadata_still_keeps_account() {
    let fixture = Fixture::new().await;
    let cidr = |rest: Value| {
        let mut cidr = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": "c", "labels": {"a": "b"}},
        });
        cidr.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        cidr
    };
    let spec = cidr(json!({"spec": {"cidrs": ["10.9.0.0/16"]}}));
    fixture.apply(&format!("{CIDRS}/c?fieldManager=me"), &spec).await.expect(201);
    let condition = json!({
        "type": "Seen", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2020-01-02T03:04:05Z",
    });
    let status = cidr(json!({"status": {"conditions": [condition]}}));
    let written = fixture.apply(&format!("{CIDRS}/c/status?fieldManager=keeper"), &status).await.expect(200);
    let own = account(&written).into_iter().find(|(manager, ..)| *manager == "keeper");
    let (_, operation, part, fields) = own.unwrap();
    assert_eq!((operation, part), ("Apply", "status"));
    assert_eq!(fields.as_object().unwrap().keys().collect::<Vec<_>>(), ["f:status"]);
}

#[tokio::test]
async fn what_is_only_tried_is_not_kept() {
    let fixture = Fixture::new().await;
    let url = format!("{CONFIG_MAPS}/a?fieldManager=me&dryRun=All");
    let tried = fixture.apply(&url, &data("a", &json!({"a": "1"}))).await.expect(201);
    assert_eq!(account(&tried).len(), 1);
    fixture.get(&format!("{CONFIG_MAPS}/a")).await.expect(404);
    fixture.config_map("a").await;
    let tried = fixture.apply(&url, &data("a", &json!({"a": "1"}))).await.expect(200);
    assert_eq!(tried["data"], json!({"a": "1", "key": "value"}));
    assert_eq!(fixture.get(&format!("{CONFIG_MAPS}/a")).await.expect(200)["data"], json!({"key": "value"}));
}

#[tokio::test]
async fn who_edits_managed_fields_is_believed_and_an_empty_list_forgets() {
    let fixture = Fixture::new().await;
    let url = format!("{CONFIG_MAPS}/a");
    let made = fixture.config_map("a").await;
    assert_eq!(account(&made).len(), 1);
    let body = json!({"metadata": {"managedFields": [{}]}});
    let forgotten = fixture.patch(&url, "merge-patch", &body).await.expect(200);
    assert_eq!(forgotten["metadata"].get("managedFields"), None);
    let kept = fixture.patch(&url, "merge-patch", &json!({"data": {"b": "1"}})).await.expect(200);
    assert_eq!(account(&kept), [], "of what no account is kept, none is begun by an update");
    let applied = fixture.apply(&format!("{url}?fieldManager=me"), &data("a", &json!({"c": "2"}))).await.expect(200);
    let managers: Vec<_> = account(&applied).iter().map(|entry| entry.0).collect();
    assert_eq!(managers, ["me", "before-first-apply"]);
    for empty in [json!([]), json!([{}])] {
        let mut object = fixture.get(&url).await.expect(200);
        object["metadata"]["managedFields"] = empty;
        let forgotten = fixture.put(&url, &object).await.expect(200);
        assert_eq!(forgotten["metadata"].get("managedFields"), None);
        fixture.apply(&format!("{url}?fieldManager=me"), &data("a", &json!({"c": "2"}))).await.expect(200);
    }
    let mut object = fixture.get(&url).await.expect(200);
    object["metadata"]["managedFields"][0]["manager"] = json!("other");
    let edited = fixture.put(&url, &object).await.expect(200);
    assert!(account(&edited).iter().any(|entry| entry.0 == "other"));
}

#[tokio::test]
async fn a_configuration_that_is_none_is_refused_in_the_words_that_clients_know() {
    let fixture = Fixture::new().await;
    let url = format!("{CONFIG_MAPS}/a?fieldManager=me");
    let unwell = |code: u16, message: &'static str, body: &'static str| (code, message, body);
    for (code, message, body) in [
        unwell(400, "invalid object type: /, Kind=", ""),
        unwell(400, "invalid object type: /v2, Kind=ConfigMap", r#"{"apiVersion":"v2","kind":"ConfigMap"}"#),
        unwell(
            400,
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value \
             of type map[string]interface {}",
            "[1]",
        ),
        unwell(
            400,
            "the name of the object (a based on URL) was undeterminable: name must be provided",
            r#"{"apiVersion":"v1","kind":"ConfigMap"}"#,
        ),
        unwell(
            400,
            "the name of the object (b) does not match the name on the URL (a)",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}"#,
        ),
        unwell(
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"}}"#,
        ),
        unwell(
            400,
            "metadata.managedFields must be nil",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":[]}}"#,
        ),
        unwell(
            409,
            "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object specified uid x, and no \
             existing object was found",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"x"}}"#,
        ),
        unwell(
            500,
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .x: field not declared in schema",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":1}"#,
        ),
        unwell(
            500,
            "failed to convert new object (/a; /v1, Kind=ConfigMap) to proper version: unable to convert unstructured object \
             to /v1, Kind=ConfigMap: parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","deletionTimestamp":"x"}}"#,
        ),
    ] {
        let answer = fixture.apply_text(&url, body).await;
        assert_eq!(answer.expect(code)["message"], message, "{body}");
    }
    let broken = fixture.apply_text(&url, "a: [b").await;
    assert!(broken.message().starts_with("error decoding YAML: error converting YAML to JSON: yaml: "));
    broken.expect(400);
    let nameless = fixture.apply(&format!("{CONFIG_MAPS}/a"), &data("a", &json!({}))).await;
    assert_eq!(
        nameless.expect(422)["message"],
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
    );
    let cbor = fixture.send(Method::PATCH, &url, &[("content-type", "application/apply-patch+cbor")], "x").await;
    assert_eq!(cbor.expect(415)["message"], "415: Unsupported Media Type");
    fixture.get(&format!("{CONFIG_MAPS}/a")).await.expect(404);
}

#[tokio::test]
async fn a_revision_in_a_configuration_is_a_condition_where_there_is_an_object() {
    let fixture = Fixture::new().await;
    let url = format!("{CONFIG_MAPS}/a?fieldManager=me");
    let mut body = data("a", &json!({"a": "1"}));
    body["metadata"]["resourceVersion"] = json!("1");
    let made = fixture.apply(&url, &body).await.expect(201);
    assert!(fixture.apply(&url, &body).await.expect(409)["message"].as_str().unwrap().contains("has been modified"));
    body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    fixture.apply(&url, &body).await.expect(200);
}

#[tokio::test]
async fn keys_given_twice_are_refused_told_or_ignored() {
    let fixture = Fixture::new().await;
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: '1'\n  a: '2'\n";
    let url = |mode: &str| format!("{CONFIG_MAPS}/a?fieldManager=me&fieldValidation={mode}");
    let strict = fixture.apply_text(&url("Strict"), body).await;
    assert_eq!(
        strict.expect(400)["message"],
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 6: key \"a\" already \
         set in map"
    );
    let told = fixture.apply_text(&url("Warn"), body).await;
    told.expect(201);
    assert_eq!(told.headers["warning"], "299 - \"line 6: key \\\"a\\\" already set in map\"");
    let ignored = fixture.apply_text(&url("Ignore"), body).await;
    assert_eq!(ignored.expect(200)["data"]["a"], "2");
    assert_eq!(ignored.headers.get("warning"), None);
}

#[tokio::test]
async fn a_deletion_changes_no_account_and_the_last_finalizer_can_go_by_apply() {
    let fixture = Fixture::new().await;
    let url = format!("{CONFIG_MAPS}/a?fieldManager=me");
    let mut body = data("a", &json!({"a": "1"}));
    body["metadata"]["finalizers"] = json!(["x.y/z"]);
    let made = fixture.apply(&url, &body).await.expect(201);
    let marked = fixture.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(account(&marked), account(&made));
    fixture.apply(&url, &data("a", &json!({"a": "1"}))).await.expect(200);
    fixture.get(&format!("{CONFIG_MAPS}/a")).await.expect(404);
}

#[tokio::test]
async fn what_is_always_there_is_the_server_s() {
    let fixture = Fixture::new().await;
    let namespace = fixture.get("/api/v1/namespaces/default").await.expect(200);
    let labels = json!({"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}});
    assert_eq!(account(&namespace), [("kube-apiserver", "Update", "", &labels)]);
}

#[tokio::test]
async fn another_version_of_a_kind_has_entries_of_its_own() {
    let fixture = Fixture::new().await;
    let beta = "/apis/networking.k8s.io/v1beta1/servicecidrs";
    let body = json!({"metadata": {"name": "c"}, "spec": {"cidrs": ["10.9.0.0/16"]}});
    fixture.post(&format!("{CIDRS}?fieldManager=me"), &body).await.expect(201);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let both = fixture.patch(&format!("{beta}/c?fieldManager=me"), "merge-patch", &labels).await.expect(200);
    let entries = both["metadata"]["managedFields"].as_array().unwrap().iter();
    let versions: Vec<_> = entries.filter(|entry| entry["manager"] == "me").map(|entry| &entry["apiVersion"]).collect();
    assert_eq!(versions, ["networking.k8s.io/v1", "networking.k8s.io/v1beta1"]);
}
