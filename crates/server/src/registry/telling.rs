//! Events of the server itself: what people are told about an object. What is told again is counted in the Event that is there, once a
//! minute at most, so it does not end while it goes on, and what happens all the time does not become a flood of writes.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use api::Object;
use jiff::Timestamp;
use serde_json::{Value, json};
use store::{Compare, Txn, Write};
use tracing::{debug, warn};

use super::Surroundings;
use crate::machinery::{New, catalog, insert, sign};

/// For how long what was told is not told again, by whichever server.
const REPEAT: Duration = Duration::from_mins(1);

/// Whose the fields of Events are.
const MANAGER: &str = "kube-apiserver";

/// Something to be told about an object.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// The object, by a reference.
    pub(crate) regarding: Value,
    pub(crate) action: &'static str,
    pub(crate) reporter: &'static str,
    pub(crate) reason: String,
    pub(crate) note: String,
    /// What makes it another time and not the same once more; often nothing.
    pub(crate) occasion: String,
    /// Whether it is the same cause for all objects of the namespace, and is told once, of the first.
    pub(crate) is_shared: bool,
}

/// A reference to an object of that kind.
pub(crate) fn reference(object: &Object, api_version: &str, kind: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "namespace": object.namespace(), "name": object.name(),
        "uid": object.uid(), "resourceVersion": object.resource_version(),
    })
}

/// Tells it, in an Event and in the log, unless it has been told a moment ago, by whichever server. That it cannot be told is no reason
/// to stop.
pub(crate) async fn tell(around: &Surroundings, told: &Told) {
    let Some(resource) = catalog().resource("events.k8s.io", "v1", "events") else { return };
    let now = Timestamp::now();
    let (namespace, event) = event(told, now);
    if let Some(there) = around.store.get(&resource.key(&namespace, event.name())) {
        let known = Object::parse(&there.value).ok();
        let Some(again) = known.and_then(|event| again(&event, now)) else { return };
        warn!(regarding = %told.regarding["name"], reason = told.reason, "{}", told.note);
        let write = Write::Put { key: there.key.clone(), value: again.encode() };
        let txn = Txn { compares: vec![Compare::At(there.key.clone(), there.revision)], writes: vec![write] };
        // Whoever was faster has told the same, or has deleted it; then the next time makes it anew.
        if let Err(why) = around.store.txn(txn).await {
            debug!(%why, note = told.note, "an Event cannot be counted up");
        }
        return;
    }
    warn!(regarding = %told.regarding["name"], reason = told.reason, "{}", told.note);
    let new = New { object: event, manager: Some(MANAGER) };
    match insert(around, resource, &namespace, new, false, &mut Vec::new()).await {
        Err(failure) if failure.reason != "AlreadyExists" => {
            debug!(why = failure.message, note = told.note, "an Event cannot be written");
        }
        _ => {}
    }
}

/// An Event that is there, told once more; nothing if it was told a moment ago.
fn again(event: &Object, now: Timestamp) -> Option<Object> {
    // The stored form is that of the core group, which has a count and a last time.
    let kind = catalog().resource("", "v1", "events")?.kind;
    let time = |field| event.text(&[field]).parse::<Timestamp>().ok();
    let last = time("lastTimestamp").or_else(|| time("eventTime"));
    // A time far in the future is no reason to be silent until then.
    if last.is_some_and(|last| now.duration_since(last).unsigned_abs() < REPEAT) {
        return None;
    }
    let count = event.at(&["count"]).and_then(Value::as_i64).unwrap_or(0).max(1);
    let mut again = event.clone();
    again.set(&["count"], json!(count.saturating_add(1).min(i64::from(i32::MAX))));
    again.set(&["lastTimestamp"], json!(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()));
    sign(kind, MANAGER, event, &mut again);
    Some(again)
}

/// The Event, and the namespace that it is in. One cause has one name.
fn event(told: &Told, now: Timestamp) -> (String, Object) {
    let text = |field: &str| told.regarding[field].as_str().unwrap_or_default();
    let namespace = Some(text("namespace")).filter(|own| !own.is_empty()).unwrap_or("default").to_owned();
    let mut hasher = DefaultHasher::new();
    let uid = if told.is_shared { "" } else { text("uid") };
    (uid, &told.reason, &told.note, &told.occasion).hash(&mut hasher);
    // Names of Events are those of their objects and a number; an address of IPv6 is no name.
    let stem = if told.is_shared { told.reason.to_lowercase() } else { text("name").replace(':', "-") };
    let name = format!("{stem}.{:016x}", hasher.finish());
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        "reportingController": told.reporter, "reportingInstance": "cadastre",
        "action": told.action, "reason": told.reason, "note": told.note, "type": "Warning",
        "regarding": told.regarding,
    });
    (namespace, Object::from_value(event).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cause_has_one_event_and_another_has_another() {
        let name = |uid: &str, note: &str, occasion: &str, is_shared: bool| {
            let told = Told {
                regarding: json!({"namespace": "n", "name": "web", "uid": uid}),
                action: "A",
                reporter: "r",
                reason: "R".to_owned(),
                note: note.to_owned(),
                occasion: occasion.to_owned(),
                is_shared,
            };
            let (namespace, event) = event(&told, Timestamp::now());
            assert_eq!(namespace, "n");
            event.name().to_owned()
        };
        let first = name("u", "note", "", false);
        assert_eq!(name("u", "note", "", false), first);
        let others = [("v", "note", ""), ("u", "other", ""), ("u", "note", "7")];
        assert!(others.iter().all(|(uid, note, occasion)| name(uid, note, occasion, false) != first));
        let shared = name("u", "note", "", true);
        assert_eq!(name("v", "note", "", true), shared);
        assert!(shared != first && shared != name("u", "other", "", true));
        assert!(first.starts_with("web."), "{first}");
    }

    #[test]
    fn what_is_told_again_counts_once_a_minute_whatever_the_event_says() {
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let counted = |event: Value| {
            let again = again(&Object::from_value(event).unwrap(), now)?;
            Some((again.at(&["count"]).cloned().unwrap_or_default(), again.text(&["lastTimestamp"]).to_owned()))
        };
        let told = |count: i64| Some((json!(count), "2026-01-01T01:00:00Z".to_owned()));
        for (event, expected) in [
            (json!({"eventTime": "2026-01-01T00:59:00.000001Z"}), None),
            (json!({"eventTime": "2026-01-01T00:59:00.000000Z"}), told(2)),
            (json!({"eventTime": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:59:30Z", "count": 7}), None),
            (
                json!({"eventTime": "2026-01-01T00:59:30Z", "lastTimestamp": "2026-01-01T00:58:00Z", "count": 7}),
                told(8),
            ),
            (json!({"eventTime": "2026-01-01T01:00:30Z"}), None),
            (json!({"eventTime": "2999-01-01T00:00:00Z"}), told(2)),
            (json!({"eventTime": "soon", "count": "many"}), told(2)),
            (json!({"count": i32::MAX}), told(i32::MAX.into())),
        ] {
            assert_eq!(counted(event.clone()), expected, "{event}");
        }
    }
}
