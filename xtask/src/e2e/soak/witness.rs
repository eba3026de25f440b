//! Witnesses: one plain watch for each kind, which goes on at the other replica without delay when it breaks, and so has to see
//! everything. What libraries made of it is held against what they saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::kinds::{Kind, LAST, identity};
use crate::e2e::client::{Client, Target};
use crate::e2e::history::{Change, Revision, Seen, Watched};

const BETWEEN_TRIES: Duration = Duration::from_millis(10);
/// How long each watch lasts at most: short enough that there are bookmarks, and ends in order.
const SECONDS: u32 = 20;

/// Follows one kind from a revision on until what is last of it comes, or until it is told to give up.
pub(super) fn follow(targets: &[Arc<Target>], kind: &Kind, from: Revision, give_up: &AtomicBool) -> Watched {
    let clients: Vec<_> = targets.iter().map(Client::new).collect();
    let mut watched = Watched::default();
    let (mut last, mut turn) = (from, 0);
    let end = format!("{}/{LAST}", kind.resource);
    while !give_up.load(Ordering::Relaxed) {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={SECONDS}&resourceVersion={last}",
            kind.all()
        );
        turn += 1;
        let mut lines = match clients[turn % clients.len()].watch(&path) {
            Ok(Ok(lines)) => lines,
            Ok(Err((410, said))) => {
                watched.broken = Some(format!("it cannot go on after {last}: {said}"));
                return watched;
            }
            Ok(Err(_)) | Err(_) => {
                thread::sleep(BETWEEN_TRIES);
                continue;
            }
        };
        loop {
            match lines.next() {
                Ok(Some(event)) => match heard(kind, &event) {
                    Ok(Some(seen)) => {
                        last = match &seen {
                            Seen::Event { revision, .. } | Seen::Bookmark(revision) => *revision,
                        };
                        let ended = matches!(&seen, Seen::Event { object, .. } if *object == end);
                        watched.seen.push(seen);
                        if ended {
                            return watched;
                        }
                    }
                    Ok(None) => break,
                    Err(why) => {
                        watched.broken = Some(why);
                        return watched;
                    }
                },
                Ok(None) => {
                    watched.ended += 1;
                    break;
                }
                Err(_) => break,
            }
        }
        watched.resumed += 1;
    }
    watched.broken = Some(format!("it never saw what is last; the newest it saw is {last}"));
    watched
}

/// What a line of a watch says; nothing if the server gave up for now, and an error if there is no going on.
fn heard(kind: &Kind, event: &Value) -> Result<Option<Seen>, String> {
    let object = &event["object"];
    let odd = || format!("the watch said {event}");
    let revision = || object["metadata"]["resourceVersion"].as_str()?.parse().ok();
    let change = match event["type"].as_str() {
        Some("ADDED") => Change::Added,
        Some("MODIFIED") => Change::Modified,
        Some("DELETED") => Change::Deleted,
        Some("BOOKMARK") => return revision().map(|at| Some(Seen::Bookmark(at))).ok_or_else(odd),
        Some("ERROR") if object["code"].as_u64().is_some_and(|code| code >= 500) => return Ok(None),
        _ => return Err(odd()),
    };
    let revision = revision().ok_or_else(odd)?;
    // What no writer of ours made says nothing but how far the watch has come.
    let seen = identity(kind, object).map_or(Seen::Bookmark(revision), |(object, mark)| Seen::Event {
        change,
        object,
        revision,
        mark,
    });
    Ok(Some(seen))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::kinds::KINDS;
    use super::*;

    #[test]
    fn only_what_writers_marked_is_an_event() {
        let of = |annotations: Value| {
            json!({"type": "ADDED", "object": {"metadata": {"name": "a", "namespace": "soak-0", "resourceVersion": "7",
                "annotations": annotations}, "data": {"mark": "3"}}})
        };
        let marked = heard(&KINDS[0], &of(json!({"mark": "3"}))).unwrap();
        let object = "configmaps/soak-0/a".to_owned();
        assert_eq!(marked, Some(Seen::Event { change: Change::Added, object, revision: 7, mark: 3 }));
        assert_eq!(heard(&KINDS[0], &of(json!({}))).unwrap(), Some(Seen::Bookmark(7)));
    }

    #[test]
    fn a_server_that_fails_is_asked_again_and_one_that_forgot_is_not() {
        let error = |code: u16| json!({"type": "ERROR", "object": {"code": code}});
        assert_eq!(heard(&KINDS[0], &error(500)).unwrap(), None);
        assert!(heard(&KINDS[0], &error(410)).is_err());
    }
}
