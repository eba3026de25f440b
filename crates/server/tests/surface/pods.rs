//! What a new Pod gets from the rest of the store: a token of its account, and a priority.

use serde_json::{Value, json};

use crate::fixture::Fixture;

const PODS: &str = "/api/v1/namespaces/default/pods";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "x"}]}});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

#[tokio::test]
async fn a_pod_has_the_token_and_the_secrets_of_its_account() {
    let fixture = Fixture::new().await;
    let account = json!({"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "pull"}]});
    fixture.post(ACCOUNTS, &account).await.expect(201);
    let made = fixture.post(PODS, &pod("a", &json!({}))).await.expect(201);
    let volume = &made["spec"]["volumes"][0];
    let name = volume["name"].as_str().unwrap();
    assert!(name.starts_with("kube-api-access-"), "{name}");
    assert_eq!(
        volume["projected"]["sources"][0]["serviceAccountToken"],
        json!({"expirationSeconds": 3607, "path": "token"})
    );
    assert_eq!(
        made["spec"]["containers"][0]["volumeMounts"],
        json!([{"name": name, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}])
    );
    assert_eq!(made["spec"]["imagePullSecrets"], json!([{"name": "pull"}]));
    let without = json!({"automountServiceAccountToken": false});
    let made = fixture.post(PODS, &pod("b", &without)).await.expect(201);
    assert_eq!(
        (&made["spec"]["volumes"], &made["spec"]["containers"][0]["volumeMounts"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn a_pod_that_asks_for_what_is_not_there_is_refused() {
    let fixture = Fixture::new().await;
    fixture.account().await;
    for (spec, why) in [
        (
            json!({"serviceAccountName": "robot"}),
            "error looking up service account default/robot: serviceaccount \"robot\" not found",
        ),
        (json!({"priorityClassName": "high"}), "no PriorityClass with name high was found"),
        (
            json!({"priority": 5}),
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 \
             from the given PriorityClass name",
        ),
        (
            json!({"preemptionPolicy": "Never"}),
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller \
             computed PreemptLowerPriority from the given PriorityClass name",
        ),
        (json!({"runtimeClassName": "r"}), "pod rejected: RuntimeClass \"r\" not found"),
        (
            json!({"overhead": {"memory": "1"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    ] {
        let answer = fixture.post(PODS, &pod("a", &spec)).await;
        assert_eq!((answer.code.as_u16(), answer.message()), (403, format!("pods \"a\" is forbidden: {why}")));
    }
    // It is refused before it gets a name.
    let spec = json!({"runtimeClassName": "r"});
    for (metadata, name) in [(json!({"generateName": "gen-"}), "gen-"), (json!({}), "Unknown")] {
        let mut pod = pod("", &spec);
        pod["metadata"] = metadata;
        let answer = fixture.post(PODS, &pod).await;
        let why = format!("pods {name:?} is forbidden: pod rejected: RuntimeClass \"r\" not found");
        assert_eq!((answer.code.as_u16(), answer.message()), (403, why));
    }
    let critical = fixture.post(PODS, &pod("a", &json!({"priorityClassName": "system-node-critical"}))).await;
    assert_eq!(critical.expect(201)["spec"]["priority"], 2_000_001_000);
}
