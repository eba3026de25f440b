//! Namespaces: what they are furnished with, and how they are emptied.

use serde_json::{Value, json};

use crate::fixture::config_map;
use crate::tended::{AUTHORITY, Tended};

const ACCOUNT: &str = "/api/v1/namespaces/n/serviceaccounts/default";
const ROOT: &str = "/api/v1/namespaces/n/configmaps/kube-root-ca.crt";

#[tokio::test]
async fn every_namespace_gets_an_account_and_the_authority() {
    let tended = Tended::new().await;
    tended.namespace("n").await;
    for namespace in ["n", "default", "kube-system", "kube-public", "kube-node-lease"] {
        tended.there(&format!("/api/v1/namespaces/{namespace}/serviceaccounts/default")).await;
        let root = tended.there(&format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt")).await;
        assert_eq!(root["data"], json!({"ca.crt": *AUTHORITY}));
        assert!(root["metadata"]["annotations"]["kubernetes.io/description"].is_string());
    }
}

#[tokio::test]
async fn what_a_namespace_is_furnished_with_is_made_again() {
    let tended = Tended::new().await;
    tended.namespace("n").await;
    let account = tended.there(ACCOUNT).await;
    tended.delete(ACCOUNT).await.expect(200);
    tended.until(ACCOUNT, |now| now.code == 200 && now.json()["metadata"]["uid"] != account["metadata"]["uid"]).await;
    let root = tended.there(ROOT).await;
    tended.delete(ROOT).await.expect(200);
    tended.until(ROOT, |now| now.code == 200 && now.json()["metadata"]["uid"] != root["metadata"]["uid"]).await;
    for data in [json!({"ca.crt": ""}), json!({"ca.crt": "nonsense"}), json!({"ca.crt": *AUTHORITY, "more": "x"})] {
        let mut changed = root.clone();
        changed["metadata"] = json!({"name": "kube-root-ca.crt"});
        changed["data"] = data;
        tended.put(ROOT, &changed).await.expect(200);
        tended.until(ROOT, |now| now.json()["data"] == root["data"]).await;
    }
}

#[tokio::test]
async fn a_deleted_namespace_is_emptied_and_goes() {
    let tended = Tended::new().await;
    tended.namespace("n").await;
    tended.there(ROOT).await;
    tended.post("/api/v1/namespaces/n/configmaps", &config_map("a")).await.expect(201);
    tended.post("/api/v1/namespaces/n/secrets", &json!({"metadata": {"name": "a"}})).await.expect(201);
    let lease = json!({"metadata": {"name": "a"}});
    tended.post("/apis/coordination.k8s.io/v1/namespaces/n/leases", &lease).await.expect(201);
    tended.delete("/api/v1/namespaces/n").await.expect(200);
    tended.gone("/api/v1/namespaces/n").await;
    let store = tended.server.store();
    let all = store.range(store::Range::default()).await.unwrap().entries;
    assert!(!all.iter().any(|entry| entry.key.contains("/n/")), "nothing is left");
}

#[tokio::test]
async fn finalizers_of_others_keep_a_namespace() {
    let tended = Tended::new().await;
    let body = json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["example.com/mine"]}});
    tended.post("/api/v1/namespaces", &body).await.expect(201);
    tended.there(ROOT).await;
    tended.delete("/api/v1/namespaces/n").await.expect(200);
    let url = "/api/v1/namespaces/n";
    let kept = tended.until(url, |now| now.json()["spec"]["finalizers"] == json!(["example.com/mine"])).await.json();
    assert_eq!(kept["status"]["phase"], "Terminating");
    tended.get(ROOT).await.expect(404);
    let mut finalized = kept;
    finalized["spec"]["finalizers"] = json!([]);
    tended.put("/api/v1/namespaces/n/finalize", &finalized).await.expect(200);
    tended.get(url).await.expect(404);
}

fn condition(namespace: &Value, sort: &str) -> Value {
    let all = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|condition| condition["type"] == sort).unwrap_or_default()
}

#[tokio::test]
async fn a_namespace_says_what_it_waits_for_and_goes_with_it() {
    let tended = Tended::new().await;
    tended.namespace("n").await;
    tended.there(ROOT).await;
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    tended.post("/api/v1/namespaces/n/configmaps", &held).await.expect(201);
    tended.delete("/api/v1/namespaces/n").await.expect(200);
    let url = "/api/v1/namespaces/n";
    let waits = |now: &Value| condition(now, "NamespaceFinalizersRemaining")["status"] == "True";
    let namespace = tended.until(url, |now| waits(&now.json())).await.json();
    for (sort, reason, message) in [
        (
            "NamespaceFinalizersRemaining",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
        ),
        (
            "NamespaceContentRemaining",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 1 resource instances",
        ),
        ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
    ] {
        let condition = condition(&namespace, sort);
        assert_eq!((&condition["reason"], &condition["message"]), (&json!(reason), &json!(message)));
    }
    tended.get(ACCOUNT).await.expect(404);
    tended.calm().await;
    tended.get(ACCOUNT).await.expect(404);
    let held = "/api/v1/namespaces/n/configmaps/held";
    tended.patch(held, "merge-patch", &json!({"metadata": {"finalizers": null}})).await.expect(200);
    tended.gone(url).await;
}

#[tokio::test]
async fn pods_go_before_everything_else() {
    let tended = Tended::new().await;
    tended.namespace("n").await;
    tended.there(ROOT).await;
    let pod = json!({
        "metadata": {"name": "p", "finalizers": ["example.com/hold"]},
        "spec": {"containers": [{"name": "a", "image": "x"}]},
    });
    tended.post("/api/v1/namespaces/n/pods", &pod).await.expect(201);
    tended.post("/api/v1/namespaces/n/configmaps", &config_map("a")).await.expect(201);
    tended.delete("/api/v1/namespaces/n").await.expect(200);
    let waits = |now: &Value| condition(now, "NamespaceContentRemaining")["status"] == "True";
    tended.until("/api/v1/namespaces/n", |now| waits(&now.json())).await;
    tended.get("/api/v1/namespaces/n/configmaps/a").await.expect(200);
    let pod = "/api/v1/namespaces/n/pods/p";
    tended.patch(pod, "merge-patch", &json!({"metadata": {"finalizers": null}})).await.expect(200);
    tended.gone("/api/v1/namespaces/n").await;
}

#[tokio::test]
async fn a_namespace_with_more_than_a_batch_is_emptied() {
    let tended = Tended::new().await;
    tended.namespace("n").await;
    let made = (0..1100).map(|n| {
        let tended = &tended;
        async move { tended.post("/api/v1/namespaces/n/configmaps", &config_map(&format!("c{n}"))).await.expect(201) }
    });
    futures_util::future::join_all(made).await;
    tended.delete("/api/v1/namespaces/n").await.expect(200);
    tended.gone("/api/v1/namespaces/n").await;
}
