//! Several servers over one store, and a watch that is lost.

use serde_json::json;
use server::{Config, Server};
use store::WatchLimits;

use crate::fixture::config_map;
use crate::tended::{AUTHORITY, Tended, at, authority, config, owner};

#[tokio::test]
async fn any_number_of_servers_can_tend_one_store() {
    let tended = Tended::new().await;
    tended.tend();
    tended.tend();
    for round in 0..5 {
        let name = format!("n{round}");
        tended.namespace(&name).await;
        let inside = format!("/api/v1/namespaces/{name}/configmaps");
        tended.there(&format!("{inside}/kube-root-ca.crt")).await;
        let owning = tended.post(&inside, &config_map("a")).await.expect(201);
        for n in 0..20 {
            let body = json!({"metadata": {"name": format!("d{n}"), "ownerReferences": [owner(&owning)]}});
            tended.post(&inside, &body).await.expect(201);
        }
        tended.delete(&format!("{inside}/a?propagationPolicy=Foreground")).await.expect(200);
        tended.delete(&format!("/api/v1/namespaces/{name}")).await.expect(200);
        tended.gone(&format!("/api/v1/namespaces/{name}")).await;
    }
}

#[tokio::test]
async fn servers_with_authorities_of_their_own_publish_both_and_then_rest() {
    let tended = Tended::new().await;
    let other = authority();
    let second = Server::new(tended.server.store().clone(), Config { authority: other.clone(), ..config() });
    tokio::spawn(second.tend(tended.trigger.shutdown()));
    let url = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
    let both = tended
        .until(url, |now| {
            let text = now.json()["data"]["ca.crt"].as_str().unwrap_or_default().to_owned();
            text.contains(AUTHORITY.as_str()) && text.contains(&other)
        })
        .await
        .json();
    tended.calm().await;
    tended.calm().await;
    assert_eq!(tended.get(url).await.json(), both, "nobody takes the other's away");
}

#[tokio::test]
async fn a_lost_watch_begins_again_by_itself() {
    let watch = WatchLimits { events: 4, ..WatchLimits::default() };
    let tended = Tended::with(config(), store::embedded::Options { watch, ..Default::default() }).await;
    tended.calm().await;
    let a = tended.config_map("a").await;
    tended.owned("one", &[owner(&a)]).await;
    // A watch that is lost already cannot be lost by what follows.
    tended.calm().await;
    let lagged = tended.server.store().stats().lagged;
    // As long as this thread waits for the other, nobody reads the watch.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for n in 0..50 {
                    tended.config_map(&format!("more-{n}")).await;
                }
                tended.delete(&at("a")).await.expect(200);
            });
        });
    });
    assert!(tended.server.store().stats().lagged > lagged, "the watch was lost");
    tended.gone(&at("one")).await;
}
