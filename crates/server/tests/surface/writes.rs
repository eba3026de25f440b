//! Creating, replacing and patching.

use http::Method;
use serde_json::json;

use crate::fixture::{Answer, CONFIG_MAPS, Fixture, config_map};

#[tokio::test]
async fn a_created_object_has_what_the_server_decides_and_reads_back_the_same() {
    let fixture = Fixture::new().await;
    let made = fixture.config_map("a").await;
    assert_eq!(made["metadata"]["namespace"], "default");
    assert_eq!(made["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert!(made["metadata"]["creationTimestamp"].as_str().unwrap().ends_with('Z'));
    assert!(made["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(fixture.get(&format!("{CONFIG_MAPS}/a")).await.expect(200), made);
}

#[tokio::test]
async fn a_name_can_be_taken_only_once() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    let again = fixture.post(CONFIG_MAPS, &config_map("a")).await;
    let status = again.expect(409);
    assert_eq!(status["reason"], "AlreadyExists");
    assert_eq!(status["message"], "configmaps \"a\" already exists");
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
}

#[tokio::test]
async fn a_name_is_generated_where_only_its_beginning_is_given() {
    let fixture = Fixture::new().await;
    let body = json!({"metadata": {"generateName": "web-"}});
    let one = fixture.post(CONFIG_MAPS, &body).await.expect(201);
    let two = fixture.post(CONFIG_MAPS, &body).await.expect(201);
    let name = |object: &serde_json::Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name(&one).starts_with("web-") && name(&one).len() == 9 && name(&one) != name(&two));
    let none = fixture.post(CONFIG_MAPS, &json!({"metadata": {}})).await;
    assert!(none.message().contains("name or generateName is required"), "{}", none.text());
    none.expect(422);
}

#[tokio::test]
async fn nothing_gets_into_a_namespace_that_is_not_there() {
    let fixture = Fixture::new().await;
    let answer = fixture.post("/api/v1/namespaces/nowhere/configmaps", &config_map("a")).await;
    assert_eq!(answer.expect(404)["message"], "namespaces \"nowhere\" not found");
    let mut elsewhere = config_map("a");
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    let answer = fixture.post(CONFIG_MAPS, &elsewhere).await;
    answer.expect(400);
    assert!(answer.message().contains("does not match the namespace sent on the request"));
}

#[tokio::test]
async fn an_update_based_on_an_old_state_is_refused() {
    let fixture = Fixture::new().await;
    let url = format!("{CONFIG_MAPS}/a");
    let old = fixture.config_map("a").await;
    let mut new = old.clone();
    new["data"]["key"] = json!("other");
    let changed = fixture.put(&url, &new).await.expect(200);
    assert_ne!(changed["metadata"]["resourceVersion"], old["metadata"]["resourceVersion"]);
    assert_eq!(changed["metadata"]["uid"], old["metadata"]["uid"]);
    let refused = fixture.put(&url, &new).await;
    refused.expect(409);
    assert_eq!(
        refused.message(),
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to \
         the latest version and try again"
    );
    // Without a revision the last writer wins.
    new["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    new["data"]["key"] = json!("third");
    assert_eq!(fixture.put(&url, &new).await.expect(200)["data"]["key"], "third");
}

#[tokio::test]
async fn a_write_that_changes_nothing_takes_no_revision() {
    let fixture = Fixture::new().await;
    let made = fixture.config_map("a").await;
    let again = fixture.put(&format!("{CONFIG_MAPS}/a"), &made).await.expect(200);
    assert_eq!(again, made);
    let patched = fixture.patch(&format!("{CONFIG_MAPS}/a"), "merge-patch", &json!({"data": {"key": "value"}})).await;
    assert_eq!(patched.expect(200), made);
}

#[tokio::test]
async fn the_three_sorts_of_patch_change_an_object() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    let url = format!("{CONFIG_MAPS}/a");
    let merge = fixture.patch(&url, "merge-patch", &json!({"data": {"key": null, "b": "1"}})).await.expect(200);
    assert_eq!(merge["data"], json!({"b": "1"}));
    let ops = json!([{"op": "test", "path": "/data/b", "value": "1"}, {"op": "add", "path": "/data/c", "value": "2"}]);
    let json = fixture.patch(&url, "json-patch", &ops).await.expect(200);
    assert_eq!(json["data"], json!({"b": "1", "c": "2"}));
    let finalizers = json!({"metadata": {"finalizers": ["example.com/a"]}});
    fixture.patch(&url, "strategic-merge-patch", &finalizers).await.expect(200);
    let second = json!({"metadata": {"finalizers": ["example.com/b"]}});
    let strategic = fixture.patch(&url, "strategic-merge-patch", &second).await.expect(200);
    let mut both: Vec<_> = strategic["metadata"]["finalizers"].as_array().unwrap().clone();
    both.sort_by_key(ToString::to_string);
    assert_eq!(both, [json!("example.com/a"), json!("example.com/b")], "lists of finalizers merge");
    let failing = json!([{"op": "test", "path": "/data/b", "value": "x"}]);
    fixture.patch(&url, "json-patch", &failing).await.expect(422);
}

#[tokio::test]
async fn a_dry_run_says_what_would_happen_and_leaves_no_trace() {
    let fixture = Fixture::new().await;
    let tried = fixture.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a")).await.expect(201);
    assert_eq!(tried["metadata"]["name"], "a");
    fixture.get(&format!("{CONFIG_MAPS}/a")).await.expect(404);
    let made = fixture.config_map("a").await;
    fixture.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a")).await.expect(409);
    let patch = json!({"data": {"x": "y"}});
    let tried = fixture.patch(&format!("{CONFIG_MAPS}/a?dryRun=All"), "merge-patch", &patch).await.expect(200);
    assert_eq!(tried["data"]["x"], "y");
    fixture.send(Method::DELETE, &format!("{CONFIG_MAPS}/a?dryRun=All"), &[], "").await.expect(200);
    assert_eq!(fixture.get(&format!("{CONFIG_MAPS}/a")).await.expect(200), made);
    fixture.post(&format!("{CONFIG_MAPS}?dryRun=Some"), &config_map("b")).await.expect(422);
}

#[tokio::test]
async fn fields_that_a_kind_does_not_have_are_refused_told_or_ignored_as_the_client_wants() {
    let fixture = Fixture::new().await;
    let mut odd = config_map("a");
    odd["dta"] = json!({"a": "b"});
    let strict = fixture.post(&format!("{CONFIG_MAPS}?fieldValidation=Strict"), &odd).await;
    let text =
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dta\"";
    assert_eq!(strict.expect(400)["message"], text);
    let warned = fixture.post(&format!("{CONFIG_MAPS}?fieldValidation=Warn"), &odd).await;
    assert_eq!(warned.headers["warning"], "299 - \"unknown field \\\"dta\\\"\"");
    assert_eq!(warned.expect(201).get("dta"), None, "what a kind does not have is not stored");
    odd["metadata"]["name"] = json!("b");
    let ignored = fixture.post(&format!("{CONFIG_MAPS}?fieldValidation=Ignore"), &odd).await;
    assert!(!ignored.headers.contains_key("warning"));
    let mut wrong = odd.clone();
    wrong["metadata"]["name"] = json!("Not_A_Name");
    let failed = fixture.post(CONFIG_MAPS, &wrong).await;
    assert_eq!(
        (failed.code.as_u16(), &failed.headers["warning"]),
        (422, &warned.headers["warning"]),
        "told all the same"
    );
    ignored.expect(201);
    fixture.post(&format!("{CONFIG_MAPS}?fieldValidation=Sometimes"), &odd).await.expect(422);
}

#[tokio::test]
async fn a_body_that_is_not_what_it_should_be_is_refused_with_a_reason() {
    let fixture = Fixture::new().await;
    let json = [("content-type", "application/json")];
    for (body, code, word) in [
        ("{", 400, "unexpected end of JSON input"),
        ("[]", 400, "json"),
        ("{\"kind\":\"Secret\",\"apiVersion\":\"v1\"}", 400, "cannot be handled as a ConfigMap"),
        ("{\"apiVersion\":\"v2\"}", 400, "no kind \"ConfigMap\" is registered for version \"v2\""),
        ("{\"data\":\"text\"}", 400, "cannot unmarshal string"),
        ("{\"metadata\":{\"name\":\"No\"}}", 422, "RFC 1123"),
    ] {
        let answer = fixture.send(Method::POST, CONFIG_MAPS, &json, body).await;
        assert_eq!(answer.code, code, "{body}: {}", answer.text());
        assert!(answer.message().contains(word), "{body}: {}", answer.text());
    }
    let unknown = fixture.send(Method::POST, CONFIG_MAPS, &[("content-type", "text/html")], "<a>").await;
    assert_eq!(unknown.expect(415)["reason"], "UnsupportedMediaType");
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: from-yaml\ndata:\n  a: b\n";
    let made = fixture.send(Method::POST, CONFIG_MAPS, &[("content-type", "application/yaml")], yaml).await.expect(201);
    assert_eq!(made["data"], json!({"a": "b"}));
}

#[tokio::test]
async fn status_and_the_rest_of_an_object_are_written_apart() {
    let fixture = Fixture::new().await;
    let url = "/api/v1/nodes";
    let node = json!({"metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24"}, "status": {"phase": "Running"}});
    let made = fixture.post(url, &node).await.expect(201);
    let patch = json!({"status": {"phase": "Pending"}, "spec": {"unschedulable": true}});
    let main = fixture.patch(&format!("{url}/n"), "merge-patch", &patch).await.expect(200);
    assert_eq!(main["spec"]["unschedulable"], true);
    assert_eq!(main["status"], made["status"]);
    let patch = json!({"status": {"phase": "Terminated"}, "spec": {"unschedulable": false}});
    let status = fixture.patch(&format!("{url}/n/status"), "merge-patch", &patch).await.expect(200);
    assert_eq!(status["status"]["phase"], "Terminated");
    assert_eq!(status["spec"]["unschedulable"], true);
}

#[tokio::test]
async fn a_put_that_means_an_object_by_its_uid_does_not_make_another() {
    let fixture = Fixture::new().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}});
    let mut made = fixture.post(leases, &lease).await.expect(201);
    let url = format!("{leases}/l");
    fixture.delete(&url).await.expect(200);
    made["metadata"]["resourceVersion"] = json!("");
    let answer = fixture.put(&url, &made).await;
    assert!(answer.expect(409)["message"].as_str().unwrap().ends_with("UID in object meta: "), "{}", answer.text());
    fixture.put(&url, &lease).await.expect(201);
}

#[tokio::test]
async fn of_puts_that_all_would_create_one_does_and_the_others_replace() {
    let fixture = Fixture::new().await;
    for round in 0..10 {
        let url = format!("/api/v1/namespaces/default/endpoints/e{round}");
        let name = format!("e{round}");
        let endpoints = |n: usize| json!({"metadata": {"name": name, "labels": {"n": n.to_string()}}});
        let bodies: Vec<_> = (0..8).map(endpoints).collect();
        let answers = futures_util::future::join_all(bodies.iter().map(|body| fixture.put(&url, body))).await;
        let mut codes: Vec<u16> = answers.iter().map(|answer| answer.code.as_u16()).collect();
        codes.sort_unstable();
        assert_eq!(codes, [200, 200, 200, 200, 200, 200, 200, 201], "{}", answers[7].text());
    }
}

#[tokio::test]
async fn what_is_odd_about_a_write_is_told_also_if_it_fails() {
    let fixture = Fixture::new().await;
    let made = fixture.config_map("a").await;
    let url = format!("{CONFIG_MAPS}/a");
    let told = |answer: Answer, code: u16| {
        assert_eq!(answer.code.as_u16(), code, "{}", answer.text());
        answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let unknown = ["299 - \"unknown field \\\"dta\\\"\""];
    let mut old = made.clone();
    old["dta"] = json!(1);
    old["metadata"]["resourceVersion"] = json!("1");
    assert_eq!(told(fixture.put(&url, &old).await, 409), unknown);
    let mut other = old.clone();
    other["metadata"]["name"] = json!("b");
    assert_eq!(told(fixture.put(&url, &other).await, 400), unknown);
    let patch = json!({"dta": 1, "metadata": {"labels": {"a b": "c"}}});
    assert_eq!(told(fixture.patch(&url, "merge-patch", &patch).await, 422), unknown);
    assert_eq!(
        told(fixture.patch(&url, "merge-patch", &json!({"dta": 1, "metadata": {"name": "b"}})).await, 400),
        unknown
    );
    let media = [("content-type", "application/apply-patch+yaml")];
    let apply = async |name: &str| {
        let config = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  labels: {{'a b': c}}\ndata:\n  a: x\n  a: z\n"
        );
        fixture.send(Method::PATCH, &format!("{CONFIG_MAPS}/{name}?fieldManager=me"), &media, &config).await
    };
    let twice = ["299 - \"line 8: key \\\"a\\\" already set in map\""];
    assert_eq!(told(apply("a").await, 422), twice);
    assert_eq!(told(apply("new").await, 422), twice);
}

#[tokio::test]
async fn no_time_is_no_limit() {
    let fixture = Fixture::new().await;
    fixture.post(&format!("{CONFIG_MAPS}?timeout=0s"), &config_map("a")).await.expect(201);
}

#[tokio::test]
async fn a_patch_that_changes_nothing_is_answered_with_what_there_is() {
    let fixture = Fixture::new().await;
    let made = fixture.config_map("a").await;
    let patched = fixture.patch(&format!("{CONFIG_MAPS}/a"), "merge-patch", &json!({"data": {"key": "value"}})).await;
    assert_eq!(patched.expect(200), made);
}
