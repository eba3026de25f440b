//! Events, as they are there after they were told.

use std::time::Duration;

use controllers::events::{self, Event, Reference};
use controllers::lead::Holder;
use controllers::writer::Writer;
use tokio::sync::mpsc;

use crate::fixture::{EVENTS, Fixture};

/// Tells the same, so many times in a row, as a program does that was just started.
async fn tell(fixture: &Fixture, times: usize) {
    let (line, told) = mpsc::channel(times);
    for _ in 0..times {
        line.send(()).await.unwrap();
    }
    drop(line);
    let (client, term, timeout) = (fixture.client.clone(), Holder::unlimited().term(), Duration::from_secs(10));
    let about = Reference { api_version: "v1", kind: "Node", namespace: "", name: "a", uid: "u" };
    let event = |(): &()| Event::new(&about, "SlicesLow", "little is left");
    events::write(Writer { client, term, timeout, manager: "cadastre-test" }, told, event).await;
}

#[tokio::test]
async fn what_is_told_again_is_counted_and_what_is_repeated_at_once_is_not() {
    let fixture = Fixture::new().await;
    tell(&fixture, 3).await;
    let first = fixture.get(EVENTS).await["items"][0].clone();
    assert_eq!((&first["count"], &first["source"]["component"]), (&1.into(), &"cadastre-test".into()));
    for count in [2, 3] {
        tell(&fixture, 2).await;
        let there = fixture.get(EVENTS).await["items"].as_array().unwrap().clone();
        assert_eq!(there.len(), 1, "{there:?}");
        assert_eq!(there[0]["count"], count);
        assert_eq!(there[0]["firstTimestamp"], first["firstTimestamp"]);
        assert!(there[0]["lastTimestamp"].as_str() >= first["lastTimestamp"].as_str());
    }
}
