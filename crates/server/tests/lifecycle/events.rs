//! Events expire.

use std::time::Duration;

use serde_json::json;
use server::Config;

use crate::fixture::config_map;
use crate::tended::{Tended, at};

const EVENTS: &str = "/api/v1/namespaces/default/events";

#[tokio::test]
async fn an_event_goes_when_its_time_has_come_and_nothing_else_does() {
    // Also where controllers are at work: kube-apiserver does this by itself. The time is long enough to look at the event before.
    for tends in [true, false] {
        let config = Config { event_ttl: Duration::from_secs(2), tended: tends, ..Config::default() };
        let tended = Tended::with(config, store::embedded::Options::default()).await;
        tended.config_map("a").await;
        let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "r"});
        tended.post(EVENTS, &event).await.expect(201);
        tended.get(&format!("{EVENTS}/e")).await.expect(200);
        tended.gone(&format!("{EVENTS}/e")).await;
        tended.get(&at("a")).await.expect(200);
    }
}

#[tokio::test]
async fn an_event_has_no_dependents_to_wait_for() {
    let tended = Tended::new().await;
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "r"});
    tended.post(EVENTS, &event).await.expect(201);
    tended.delete(&format!("{EVENTS}/e?propagationPolicy=Foreground")).await.expect(200);
    tended.get(&format!("{EVENTS}/e")).await.expect(404);
    let mut foreground = config_map("c");
    foreground["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    tended.post(crate::fixture::CONFIG_MAPS, &foreground).await.expect(201);
    tended.delete(&at("c")).await.expect(200);
    tended.gone(&at("c")).await;
}
