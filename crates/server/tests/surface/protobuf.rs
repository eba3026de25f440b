//! Bodies in protobuf, as Kubernetes' own clients send them.

use http::Method;
use serde_json::{Value, json};

use crate::fixture::{CONFIG_MAPS, Fixture, config_map};

/// Sends bytes that are no text.
async fn send(fixture: &Fixture, method: Method, url: &str, body: &[u8]) -> (u16, Value) {
    let headers = [("content-type", "application/vnd.kubernetes.protobuf"), ("accept", "application/json")];
    let answer = fixture.send_bytes(method, url, &headers, body).await;
    (answer.code.as_u16(), answer.json())
}

#[tokio::test]
async fn an_object_in_protobuf_is_the_same_as_in_json() {
    let fixture = Fixture::new().await;
    let bytes = api::protobuf::encode("v1", "ConfigMap", &config_map("a")).unwrap();
    let (code, made) = send(&fixture, Method::POST, CONFIG_MAPS, &bytes).await;
    assert_eq!((code, &made["data"]), (201, &json!({"key": "value"})), "{made}");
    let json = fixture.config_map("b").await;
    assert_eq!(json["data"], made["data"]);
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "another"}});
    let options = api::protobuf::encode("v1", "DeleteOptions", &options).unwrap();
    assert_eq!(send(&fixture, Method::DELETE, &format!("{CONFIG_MAPS}/a"), &options).await.0, 409);
}

#[tokio::test]
async fn what_is_no_protobuf_is_refused() {
    let fixture = Fixture::new().await;
    let (code, status) = send(&fixture, Method::POST, CONFIG_MAPS, b"{}").await;
    assert_eq!(code, 400);
    assert!(status["message"].as_str().unwrap().contains("does not appear to be a protobuf message"), "{status}");
    let whole = api::protobuf::encode("v1", "ConfigMap", &config_map("a")).unwrap();
    for length in 0..whole.len() / 2 {
        // What ends after the envelope's head is an object with nothing in it, not even a name.
        let (code, status) = send(&fixture, Method::POST, CONFIG_MAPS, &whole[..length]).await;
        assert!(matches!(code, 400 | 422), "{length} bytes: {status}");
    }
    let ranges = "/apis/networking.x-k8s.io/v1/clustercidrs";
    let (code, status) = send(&fixture, Method::POST, ranges, &whole).await;
    assert_eq!((code, &status["reason"]), (415, &json!("UnsupportedMediaType")), "a kind without protobuf");
}
