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
async fn no_odd_spelling_keeps_an_object_from_those_who_read_protobuf() {
    let fixture = Fixture::new().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let odd = json!({
        "metadata": {"name": "odd", "managedFields": [{
            "manager": "m", "operation": "Apply", "apiVersion": "v1", "time": "9999-12-31T23:59:59Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:nothing": {}},
        }]},
        "type": "kubernetes.io/dockerconfigjson", "immutable": true,
        "data": {".dockerconfigjson": "e30=\n", "bits": "QR=="},
    });
    let stored = fixture.post(secrets, &odd).await.expect(201);
    assert_eq!(stored["data"], json!({".dockerconfigjson": "e30=", "bits": "QQ=="}));
    for url in [secrets.to_owned(), format!("{secrets}/odd")] {
        let accept = [("accept", "application/vnd.kubernetes.protobuf")];
        let answer = fixture.send(Method::GET, &url, &accept, "").await;
        assert_eq!(answer.code.as_u16(), 200, "{}", answer.text());
        let read = api::protobuf::decode(&answer.body).unwrap().value;
        let read = read.pointer("/items/0").unwrap_or(&read);
        assert_eq!(read["data"], stored["data"]);
        assert_eq!(read["metadata"]["managedFields"][0]["time"], "9999-12-31T23:59:59Z");
    }
    // The same bytes in another spelling are no change.
    fixture.put(&format!("{secrets}/odd"), &odd).await.expect(200);
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

/// An envelope with these bytes as its object.
fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8][..], bytes].concat();
    let types = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &types), field(2, raw)].concat()
}

#[tokio::test]
async fn an_envelope_need_not_say_what_is_expected() {
    let fixture = Fixture::new().await;
    for (version, kind, raw) in [
        ("", "", &b"\x0a\x03\x0a\x01a"[..]),
        ("v1", "", b"\x0a\x03\x0a\x01b"),
        ("", "ConfigMap", b"\x0a\x03\x0a\x01c"),
        ("a/b/c", "ConfigMap", b"\x0a\x03\x0a\x01d"),
    ] {
        let (code, made) = send(&fixture, Method::POST, CONFIG_MAPS, &envelope(version, kind, raw)).await;
        assert_eq!((code, &made["kind"]), (201, &json!("ConfigMap")), "{version} {kind}: {made}");
    }
    let replaced = envelope("", "", b"\x0a\x03\x0a\x01a\x12\x06\x0a\x01k\x12\x01v");
    let (code, made) = send(&fixture, Method::PUT, &format!("{CONFIG_MAPS}/a"), &replaced).await;
    assert_eq!((code, &made["data"]), (200, &json!({"k": "v"})), "{made}");
    let options = envelope("", "", b"\x12\x05\x0a\x03uid");
    assert_eq!(send(&fixture, Method::DELETE, &format!("{CONFIG_MAPS}/a"), &options).await.0, 409);
}

#[tokio::test]
async fn what_is_wrong_with_a_body_is_told_as_far_as_it_could_be_read() {
    let fixture = Fixture::new().await;
    let message = async |method: Method, body: &[u8]| {
        let url = if method == Method::POST { CONFIG_MAPS.to_owned() } else { format!("{CONFIG_MAPS}/a") };
        let (code, status) = send(&fixture, method, &url, body).await;
        assert_eq!(code, 400, "{status}");
        status["message"].as_str().unwrap().to_owned()
    };
    let scheme = "in scheme \"pkg/runtime/scheme.go:111\"";
    let posted = [
        (
            b"k8s\0".to_vec(),
            "the object provided is unrecognized (must be of type ConfigMap): empty body (6b387300)".to_owned(),
        ),
        (
            envelope("v1", "ConfigMap", b"\x08\x05"),
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: proto: wrong wireType = 0 for field ObjectMeta"
                .to_owned(),
        ),
        (
            envelope("v1", "Nope", b""),
            format!("Nope in version \"v1\" cannot be handled as a ConfigMap: no kind \"Nope\" is registered for version \"v1\" {scheme}"),
        ),
        (
            envelope("v9", "ConfigMap", b""),
            format!("ConfigMap in version \"v9\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"v9\" {scheme}"),
        ),
        (
            envelope("v1", "ConfigMapList", b""),
            "ConfigMapList in version \"v1\" cannot be handled as a ConfigMap: converting (v1.ConfigMapList) to (core.ConfigMap): \
             unknown conversion"
                .to_owned(),
        ),
    ];
    for (body, expected) in posted {
        assert_eq!(message(Method::POST, &body).await, expected);
    }
    // Of options nothing is said but what is wrong.
    assert_eq!(message(Method::DELETE, b"k8s\0").await, "empty body");
    let wrong = envelope("v1", "DeleteOptions", b"\x0a\x01x");
    assert_eq!(message(Method::DELETE, &wrong).await, "proto: wrong wireType = 2 for field GracePeriodSeconds");
    let kind = envelope("v1", "ConfigMap", b"");
    let expected = format!("no kind \"ConfigMap\" is registered for version \"v1\" {scheme}");
    assert_eq!(message(Method::DELETE, &kind).await, expected);
}

#[tokio::test]
async fn a_body_that_says_little_cannot_become_an_object_of_any_size() {
    assert_eq!(api::protobuf::MOST_JSON, server::MOST_REQUEST_BYTES);
    let fixture = Fixture::new().await;
    let containers = json!({"spec": {"containers": vec![json!({}); 200_000]}});
    let small = api::protobuf::encode("v1", "Pod", &json!({"spec": {"containers": [{}]}})).unwrap();
    let body = api::protobuf::encode("v1", "Pod", &containers).unwrap();
    let account = json!({"metadata": {"name": "default"}});
    let account = api::protobuf::encode("v1", "ServiceAccount", &account).unwrap();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(send(&fixture, Method::POST, accounts, &account).await.0, 201);
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(send(&fixture, Method::POST, pods, &small).await.0, 422);
    let (code, status) = send(&fixture, Method::POST, pods, &body).await;
    assert_eq!((code, &status["reason"]), (413, &json!("RequestEntityTooLarge")), "{status}");
}
