//! Watching: what is told, in which order, and how it ends.

use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::fixture::{CONFIG_MAPS, Fixture, config_map};

fn pair(what: &str, name: &str) -> (String, String) {
    (what.to_owned(), name.to_owned())
}

#[tokio::test]
async fn a_watch_from_a_revision_tells_everything_after_it_in_order() {
    let fixture = Fixture::new().await;
    let made = fixture.config_map("a").await;
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    fixture.config_map("b").await;
    let mut events = fixture.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}")).await;
    assert_eq!(events.brief().await, pair("ADDED", "b"), "history first");
    fixture.patch(&format!("{CONFIG_MAPS}/a"), "merge-patch", &json!({"data": {"x": "y"}})).await.expect(200);
    assert_eq!(events.brief().await, pair("MODIFIED", "a"));
    fixture.delete(&format!("{CONFIG_MAPS}/b")).await.expect(200);
    let deleted = events.next().await.unwrap();
    assert_eq!(deleted["type"], "DELETED");
    assert_eq!(deleted["object"]["data"], json!({"key": "value"}), "with its last state");
    let revision = |value: &Value| value["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(revision(&deleted["object"]), fixture.server.store().revision().0, "and the revision of its deletion");
}

#[tokio::test]
async fn a_watch_without_a_revision_begins_with_what_is_there() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    let mut events = fixture.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(events.brief().await, pair("ADDED", "a"));
    fixture.config_map("b").await;
    assert_eq!(events.brief().await, pair("ADDED", "b"));
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark_that_says_so() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    let url = format!(
        "{CONFIG_MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut events = fixture.watch(&url).await;
    assert_eq!(events.brief().await, pair("ADDED", "a"));
    let bookmark = events.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["kind"], "ConfigMap");
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    fixture.config_map("b").await;
    assert_eq!(events.brief().await, pair("ADDED", "b"));
    let without = fixture.get(&format!("{CONFIG_MAPS}?watch=true&sendInitialEvents=true")).await;
    assert!(
        without.message().contains("sendInitialEvents requires setting resourceVersionMatch"),
        "{}",
        without.text()
    );
}

#[tokio::test]
async fn an_object_that_leaves_a_selection_is_deleted_for_those_who_select() {
    let fixture = Fixture::new().await;
    let mut events = fixture.watch(&format!("{CONFIG_MAPS}?watch=1&labelSelector=color%3Dred&resourceVersion=1")).await;
    let mut body = config_map("a");
    body["metadata"]["labels"] = json!({"color": "blue"});
    fixture.post(CONFIG_MAPS, &body).await.expect(201);
    let url = format!("{CONFIG_MAPS}/a");
    let paint = |color: &str| json!({"metadata": {"labels": {"color": color}}});
    fixture.patch(&url, "merge-patch", &paint("red")).await.expect(200);
    assert_eq!(events.brief().await, pair("ADDED", "a"));
    let blue = fixture.patch(&url, "merge-patch", &paint("blue")).await.expect(200);
    let left = events.next().await.unwrap();
    assert_eq!(left["type"], "DELETED");
    assert_eq!(left["object"]["metadata"]["labels"]["color"], "red", "the last state that was selected");
    assert_eq!(left["object"]["metadata"]["resourceVersion"], blue["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_watch_of_one_name_tells_of_no_other() {
    let fixture = Fixture::new().await;
    let url = format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Db&resourceVersion=1");
    let mut events = fixture.watch(&url).await;
    fixture.config_map("a").await;
    fixture.config_map("b").await;
    assert_eq!(events.brief().await, pair("ADDED", "b"));
}

#[tokio::test]
async fn a_watch_from_what_is_forgotten_ends_with_an_error_that_says_so() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    fixture.config_map("b").await;
    fixture.server.store().compact(fixture.server.store().revision()).await.unwrap();
    let mut events = fixture.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=1")).await;
    let error = events.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    assert_eq!((&error["object"]["code"], &error["object"]["reason"]), (&json!(410), &json!("Expired")));
    assert!(error["object"]["message"].as_str().unwrap().starts_with("too old resource version: 1 ("));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_watch_lasts_as_long_as_it_was_asked_for_and_ends_with_a_bookmark() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    let version = fixture.server.store().revision();
    // From here on time passes when everybody waits. (The store's thread knows only real time.)
    tokio::time::pause();
    let started = tokio::time::Instant::now();
    let url = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=90&allowWatchBookmarks=true&resourceVersion={version}");
    let mut pieces = fixture.pieces(&url).await;
    let mut at = Vec::new();
    while let Some(piece) = pieces.next().await {
        let event: Value = serde_json::from_slice(&piece.unwrap()).unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(event["object"]["metadata"]["resourceVersion"], version.to_string());
        at.push(started.elapsed().as_secs());
    }
    assert_eq!((at, started.elapsed().as_secs()), (vec![60, 88, 90], 90));
}

#[tokio::test]
async fn a_watch_that_always_has_events_gets_its_bookmarks_and_its_end_on_time() {
    let fixture = Fixture::new().await;
    let version = fixture.server.store().revision();
    let url = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=90&allowWatchBookmarks=true&resourceVersion={version}");
    let mut pieces = fixture.pieces(&url).await;
    let mut told = Vec::new();
    // There is something to tell whenever the watch is looked at.
    for (name, passes) in [("a", 0), ("b", 61), ("c", 0), ("d", 30)] {
        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_secs(passes)).await;
        tokio::time::resume();
        fixture.config_map(name).await;
        let piece = pieces.next().await.unwrap().unwrap();
        for line in piece.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_slice(line).unwrap();
            let object = &event["object"]["metadata"];
            let version: u64 = object["resourceVersion"].as_str().unwrap().parse().unwrap();
            told.push((event["type"].as_str().unwrap().to_owned(), version));
        }
    }
    let last = fixture.server.store().revision().0;
    let what = |what: &str, before: u64| (what.to_owned(), last - before);
    let (added, bookmark) = (|before| what("ADDED", before), |before| what("BOOKMARK", before));
    assert_eq!(told, [added(3), added(2), bookmark(2), added(1), added(0), bookmark(0)]);
    assert!(pieces.next().await.is_none(), "it was asked for 90 seconds");
}

#[tokio::test]
async fn a_watch_from_the_past_comes_in_pieces_of_a_bounded_size() {
    let fixture = Fixture::new().await;
    let before = fixture.server.store().revision();
    for number in 0..12 {
        let mut object = config_map(&format!("large-{number}"));
        object["data"]["key"] = json!("x".repeat(100_000));
        fixture.post(CONFIG_MAPS, &object).await.expect(201);
    }
    let mut pieces = fixture.pieces(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={before}")).await;
    let mut lines = 0;
    while lines < 12 {
        let piece = pieces.next().await.unwrap().unwrap();
        assert!(piece.len() < 400_000, "{} bytes at once", piece.len());
        lines += piece.split(|byte| *byte == b'\n').count() - 1;
    }
    assert_eq!(lines, 12);
}

#[tokio::test]
async fn a_watch_may_be_asked_for_longer_than_a_clock_counts() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    let mut events = fixture.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds={}", i64::MAX)).await;
    assert_eq!(events.brief().await, pair("ADDED", "a"));
}

#[tokio::test]
async fn a_shutdown_ends_watches() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    let mut events = fixture.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(events.brief().await, pair("ADDED", "a"));
    fixture.trigger.begin();
    assert_eq!(events.next().await, None);
    let ready = fixture.get("/readyz").await;
    assert_eq!((ready.code.as_u16(), ready.text().contains("shutting down")), (500, true));
}

#[tokio::test]
async fn a_table_of_a_watch_has_its_columns_in_the_first_event_only() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    fixture.config_map("b").await;
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let reply = fixture.send(http::Method::GET, &format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1"), &accept, "").await;
    let lines: Vec<Value> = reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{}", reply.text());
    assert!(lines[0]["object"]["columnDefinitions"].is_array() && lines[1]["object"]["columnDefinitions"].is_null());
    assert_eq!(lines[1]["object"]["rows"][0]["cells"][0], "b");
}
