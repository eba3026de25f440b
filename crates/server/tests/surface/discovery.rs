//! Discovery, health, version and metrics.

use http::Method;
use serde_json::json;

use crate::fixture::Fixture;

#[tokio::test]
async fn every_kind_is_found_in_plain_and_in_aggregated_discovery() {
    let fixture = Fixture::new().await;
    let accept = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")];
    let mut aggregated = 0;
    for path in ["/api", "/apis"] {
        let answer = fixture.send(Method::GET, path, &accept, "").await;
        assert!(answer.headers["content-type"].to_str().unwrap().contains("as=APIGroupDiscoveryList"));
        let list = answer.expect(200);
        assert_eq!(list["kind"], "APIGroupDiscoveryList");
        for group in list["items"].as_array().unwrap() {
            for version in group["versions"].as_array().unwrap() {
                aggregated += version["resources"].as_array().unwrap().len();
            }
        }
    }
    let mut plain = 0;
    let groups = fixture.get("/apis").await.expect(200);
    let named = groups["groups"].as_array().unwrap().iter().flat_map(|group| group["versions"].as_array().unwrap());
    let paths: Vec<String> =
        named.map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap())).collect();
    for path in paths.iter().map(String::as_str).chain(["/api/v1"]) {
        let list = fixture.get(path).await.expect(200);
        let resources = list["resources"].as_array().unwrap();
        plain += resources.iter().filter(|resource| !resource["name"].as_str().unwrap().contains('/')).count();
    }
    let all = api::kinds::all().count();
    assert_eq!((plain, aggregated), (all, all));
    fixture.get("/apis/nobody.example.com").await.expect(404);
    fixture.get("/apis/apps/v1").await.expect(404);
}

#[tokio::test]
async fn what_is_not_served_is_not_found() {
    let fixture = Fixture::new().await;
    for path in ["/api/v1/gadgets", "/apis/apps/v1/deployments", "/nothing", "/api/v1/namespaces/default/nodes"] {
        assert_eq!(fixture.get(path).await.expect(404)["message"], "the server could not find the requested resource");
    }
    let answer = fixture.send(Method::POST, "/api/v1/configmaps", &[], "{}").await;
    assert_eq!(answer.expect(405)["reason"], "MethodNotAllowed");
}

#[tokio::test]
async fn health_version_and_metrics_answer() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.get("/livez").await.text(), "ok");
    assert!(fixture.get("/readyz?verbose").await.text().contains("[+]store ok\n"));
    let version = fixture.get("/version").await.expect(200);
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    let metrics = fixture.get("/metrics").await.text();
    assert!(metrics.contains("apiserver_request_total{verb=\"get\"") && metrics.ends_with("# EOF\n"), "{metrics}");
    assert!(metrics.contains("cadastre_store_objects 8"), "{metrics}");
}

#[tokio::test]
async fn openapi_has_a_document_for_each_version_in_its_index() {
    let fixture = Fixture::new().await;
    let index = fixture.get("/openapi/v3").await.expect(200);
    for (name, path) in index["paths"].as_object().unwrap() {
        let url = path["serverRelativeURL"].as_str().unwrap();
        let document = fixture.get(url).await.expect(200);
        assert!(document["openapi"].as_str().unwrap().starts_with("3."), "{name}");
        assert!(!document["components"]["schemas"].as_object().unwrap().is_empty(), "{name}");
    }
}
