//! Events of the server itself: what people are told about an object.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use api::Object;
use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::{debug, warn};

use super::Surroundings;
use crate::machinery::{New, catalog, insert};

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

/// Tells it, in an Event and in the log, unless it has been told, by whichever server. That it cannot be told is no reason to stop.
pub(crate) async fn tell(around: &Surroundings, told: &Told) {
    let Some(resource) = catalog().resource("events.k8s.io", "v1", "events") else { return };
    let (namespace, event) = event(told, Timestamp::now());
    if around.store.get(&resource.key(&namespace, event.name())).is_some() {
        return;
    }
    warn!(regarding = %told.regarding["name"], reason = told.reason, "{}", told.note);
    let new = New { object: event, manager: Some("kube-apiserver") };
    match insert(around, resource, &namespace, new, false, &mut Vec::new()).await {
        Err(failure) if failure.reason != "AlreadyExists" => {
            debug!(why = failure.message, note = told.note, "an Event cannot be written");
        }
        _ => {}
    }
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
}
