//! Writes of `/status`.

use serde_json::json;

use crate::fixture::Fixture;

#[tokio::test]
async fn a_pod_keeps_its_class_if_a_status_does_not_repeat_it() {
    let fixture = Fixture::new().await;
    let pods = "/api/v1/namespaces/default/pods";
    fixture.account().await;
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "x"}]}});
    let mut pod = fixture.post(pods, &pod).await.expect(201);
    assert_eq!(pod["status"]["qosClass"], "BestEffort");
    pod["status"] = json!({"phase": "Running"});
    let written = fixture.put(&format!("{pods}/a/status"), &pod).await.expect(200);
    assert_eq!(written["status"], json!({"phase": "Running", "qosClass": "BestEffort"}));
}
