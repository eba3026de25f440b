//! The socket through which the plugin reaches the server.

use std::path::Path;

use agent::meters::Meters;
use agent::relay::{SOCKET, listen, serve};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixStream;

use crate::fixture::{Fixture, NODES};
use crate::machine::{POOLS, shown};

/// A relay to the server, at a socket in this folder; and a pool.
async fn relay(fixture: &Fixture) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let listener = listen(folder.path()).await.unwrap();
    tokio::spawn(serve(listener, fixture.client.clone(), Meters::default()));
    let pool = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool", "metadata": {"name": "p"},
        "spec": {"range": "10.0.0.0/24", "allocations": {}},
    });
    fixture.send(Method::POST, POOLS, &pool).await.unwrap();
    folder
}

/// Asks over a connection of its own, as a plugin does.
async fn ask(folder: &Path, method: Method, path: &str, body: Value) -> (u16, Value) {
    let stream = UnixStream::connect(folder.join(SOCKET)).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", "agent");
    let request = request.header("content-type", "application/json-patch+json");
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let response = sender.send_request(request.body(Full::new(body)).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_come_through_to_whereabouts_objects_and_to_no_others() {
    let fixture = Fixture::new().await;
    let folder = relay(&fixture).await;
    for (path, status) in [(format!("{POOLS}/p"), 200), (format!("{POOLS}/q"), 404), (NODES.to_owned(), 403)] {
        let (said, found) = ask(folder.path(), Method::GET, &path, Value::Null).await;
        assert_eq!(said, status, "{path}");
        if status == 200 {
            assert_eq!(found["spec"]["range"], "10.0.0.0/24");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_patches_at_once_each_has_the_answer_to_its_own() {
    let fixture = Fixture::new().await;
    let folder = relay(&fixture).await;
    // Of each address there are two that want it.
    let asks = (0..120_u8).map(|number| {
        let (folder, offset) = (folder.path().to_owned(), number % 60);
        let at = format!("/spec/allocations/{offset}");
        let entry = json!({"id": format!("c{number}"), "podref": format!("default/p{number}"), "ifname": "net1"});
        let patch = json!([{"op": "test", "path": at, "value": null}, {"op": "add", "path": at, "value": entry}]);
        tokio::spawn(async move {
            let (status, _) = ask(&folder, Method::PATCH, &format!("{POOLS}/p"), patch).await;
            (status, format!("10.0.0.{offset} default/p{number}"))
        })
    });
    let mut taken = Vec::new();
    for ask in asks.collect::<Vec<_>>() {
        let (status, entry) = ask.await.unwrap();
        assert!(matches!(status, 200 | 422), "{status}");
        taken.extend((status == 200).then_some(entry));
    }
    assert_eq!(taken.len(), 60);
    let mut found = shown(&fixture.get(&format!("{POOLS}/p")).await);
    taken.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, taken);
}
