//! Several servers over one store.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use server::access::{MASTERS, User};
use server::{Request, Server};

use crate::cluster::{ADDRESSES, Cluster, SERVICES, config, service};

async fn send(server: &Server, cluster: &Cluster, body: &Value) -> u16 {
    let request = Request {
        method: Method::POST,
        path: SERVICES.to_owned(),
        query: String::new(),
        headers: HeaderMap::new(),
        body: Bytes::from(body.to_string()),
        user: Arc::new(User::authenticated("admin", [MASTERS.to_owned()])),
    };
    server.call(request, &cluster.shutdown).await.status.as_u16()
}

#[tokio::test]
async fn of_two_servers_that_are_asked_for_the_same_address_one_gives_it() {
    let cluster = Cluster::new(&["10.7.0.0/24"]).await;
    let other = Server::new(cluster.server.store().clone(), config(&["10.7.0.0/24"]));
    for n in 2..102 {
        let spec = json!({"clusterIP": format!("10.7.0.{n}")});
        let (a, b) = (service(&format!("a{n}"), spec.clone()), service(&format!("b{n}"), spec));
        let (a, b) = tokio::join!(send(&cluster.server, &cluster, &a), send(&other, &cluster, &b));
        assert!(matches!((a, b), (201, 422) | (422, 201)), "{a} {b}");
    }
    assert_eq!(cluster.items(ADDRESSES).await.len(), 101);
    cluster.agrees().await;
}

#[tokio::test]
async fn random_creates_on_two_servers_fill_the_range_and_nothing_is_given_twice() {
    let cluster = Cluster::new(&["10.7.0.0/25"]).await;
    let other = Server::new(cluster.server.store().clone(), config(&["10.7.0.0/25"]));
    let all = (0..124).map(|n| {
        let server = if n % 2 == 0 { &cluster.server } else { &other };
        let cluster = &cluster;
        async move { send(server, cluster, &service(&format!("s{n}"), json!({"type": "NodePort"}))).await }
    });
    let codes = futures_util::future::join_all(all).await;
    assert!(codes.iter().all(|code| *code == 201), "{codes:?}");
    assert_eq!(cluster.items(ADDRESSES).await.len(), 125);
    cluster.agrees().await;
}
