//! Answers in a form that can be compared: without what is each server's own, and without what was picked at random.
//!
//! What is left out here is listed in docs/reference/differences.md by the names in `LEFT_OUT`.

use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::ranges::FINALIZER;
use super::steps::{ITS_OWN, PORTS, V4, V6};

/// The differences that no answer shows after this.
#[cfg(test)]
pub(super) const LEFT_OUT: [&str; 7] = [
    "range-at-once",
    "no-grace",
    "from-flags-label",
    "capacity-condition",
    "address-annotations",
    "policy-of-external-names",
    "order-of-conflicts",
];

/// How much of a range is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// All but what a controller adds some time later.
    Asked,
    /// All.
    Settled,
}

/// Finds what may have been picked at random: an address or a port.
pub(super) fn picked() -> Result<Regex, regex::Error> {
    Regex::new(r"(10\.9[6-9]\.\d+\.\d+|fd00:9[6-9]:(?:[0-9a-f:]*[0-9a-f]|:))(/\d+)?|\b3[0-2]\d\d\d\b")
}

/// Takes out of an answer what is each server's own.
pub(super) fn plain(body: &mut Value, depth: Depth) {
    if let Some(details) = body.get_mut("details").and_then(Value::as_object_mut) {
        details.remove("uid");
        // Those with one manager stay in their order.
        if let Some(causes) = details.get_mut("causes").and_then(Value::as_array_mut)
            && causes.iter().all(|cause| cause["reason"] == "FieldManagerConflict")
        {
            causes.sort_by_key(|cause| cause["message"].to_string());
        }
    }
    if let Some(Value::String(message)) = body.get_mut("message") {
        *message = without_record(message);
    }
    if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
        for item in items {
            plain(item, depth);
        }
    }
    let is_range = body["spec"].get("cidrs").is_some();
    let is_address = body["spec"].get("parentRef").is_some();
    let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for name in ["uid", "resourceVersion", "creationTimestamp"] {
        metadata.remove(name);
    }
    match metadata.remove("managedFields") {
        Some(entries) if (is_range || is_address) && depth == Depth::Settled => {
            metadata.insert("managedFields".to_owned(), managers(&entries));
        }
        _ => {}
    }
    if let Some(time) = metadata.get_mut("deletionTimestamp") {
        *time = json!("<time>");
    }
    for (part, name) in [
        ("annotations", "ipam.cadastre.dev/parent-uid"),
        ("labels", "networking.kubernetes.io/service-cidr-from-flags"),
    ] {
        if let Some(part) = metadata.get_mut(part).and_then(Value::as_object_mut) {
            part.remove(name);
        }
        if metadata.get(part).is_some_and(|part| part.as_object().is_some_and(serde_json::Map::is_empty)) {
            metadata.remove(part);
        }
    }
    // They are a set.
    if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
        finalizers.sort_by_key(Value::to_string);
    }
    if is_range && depth == Depth::Asked {
        if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
            finalizers.retain(|name| name != FINALIZER);
            if finalizers.is_empty() {
                metadata.remove("finalizers");
            }
        }
        if let Some(body) = body.as_object_mut() {
            body.remove("status");
        }
    } else if is_range && let Some(all) = body.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        all.retain(|condition| condition["type"] != "ipam.cadastre.dev/Capacity");
        for condition in all.iter_mut().filter_map(Value::as_object_mut) {
            condition.remove("lastTransitionTime");
        }
        all.sort_by_key(|condition| condition["type"].to_string());
    }
}

/// Takes out of the refusal of a delete that was meant for another object, or another state of it, what that object is.
fn without_record(message: &str) -> String {
    let parts = message.split_once(" in record (").and_then(|(before, after)| Some((before, after.split_once(')')?.1)));
    parts.map_or_else(|| message.to_owned(), |(before, after)| format!("{before} in record ({ITS_OWN}){after}"))
}

/// Who has which fields of a range or an address, but for what only ours has, and whenever it was.
fn managers(entries: &Value) -> Value {
    let mut all: Vec<Value> = entries.as_array().cloned().unwrap_or_default();
    for entry in &mut all {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("time");
        }
        let fields = &mut entry["fieldsV1"];
        for (place, name) in [
            ("/f:status/f:conditions", r#"k:{"type":"ipam.cadastre.dev/Capacity"}"#),
            ("/f:metadata/f:labels", "f:networking.kubernetes.io/service-cidr-from-flags"),
            ("/f:metadata/f:annotations", "f:ipam.cadastre.dev/parent-uid"),
        ] {
            if let Some(part) = fields.pointer_mut(place).and_then(Value::as_object_mut)
                && part.remove(name).is_some()
                && part.keys().all(|left| left == ".")
            {
                part.clear();
            }
        }
        prune(fields);
    }
    all.retain(|entry| entry["fieldsV1"] != json!({}));
    all.sort_by_key(Value::to_string);
    json!(all)
}

/// Takes out of a range who has what of its status.
pub(super) fn without_status_managers(range: &mut Value) {
    if let Some(entries) = range.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) {
        entries.retain(|entry| entry["subresource"] != "status");
    }
}

/// Takes out the parts of which nothing is left. A field that is itself had is written as an empty one.
fn prune(fields: &mut Value) {
    for part in ["f:conditions", "f:status", "f:labels", "f:annotations", "f:metadata"] {
        for place in ["", "/f:status", "/f:metadata"] {
            if let Some(around) = fields.pointer_mut(place).and_then(Value::as_object_mut)
                && around.get(part) == Some(&json!({}))
            {
                around.remove(part);
            }
        }
    }
}

/// Puts a sign in place of everything that may have been picked, but not of what is named.
pub(super) fn without_picks(picked: &Regex, is_named: fn(&str) -> bool, body: &Value) -> Value {
    let body = body.to_string();
    let shown = picked.replace_all(&body, |found: &Captures<'_>| {
        let (found, is_range) = (&found[0], found.get(2).is_some());
        // A number must stay one.
        if is_range || is_named(found) {
            found.to_owned()
        } else if found.starts_with('3') {
            "1".to_owned()
        } else {
            "<picked>".to_owned()
        }
    });
    serde_json::from_str(&shown).unwrap_or_else(|_| json!(shown))
}

/// Where nothing is named.
pub(super) fn is_never_named(_: &str) -> bool {
    false
}

/// Whether that is an address or a port that steps name.
pub(super) fn is_named(text: &str) -> bool {
    V4.contains(&text) || V6.contains(&text) || PORTS.iter().any(|port| port.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_picked_is_not_shown_and_what_was_named_is() {
        let picked = picked().unwrap();
        let shown = |text: &str| without_picks(&picked, is_named, &json!(text));
        assert_eq!(shown("10.96.17.4 and 10.96.0.2"), "<picked> and 10.96.0.2");
        assert_eq!(shown("fd00:99::1:2:3:4, fd00:98::2"), "<picked>, fd00:98::2");
        assert_eq!(shown("10.98.0.0/24 fd00:98::/112"), "10.98.0.0/24 fd00:98::/112");
        assert_eq!(
            shown("IP fd00:96::3: taken, fd00:96::ff: taken, fd00:96::"),
            "IP fd00:96::3: taken, <picked>: taken, fd00:96::"
        );
        let port = |number: u16, is_named| without_picks(&picked, is_named, &json!({"nodePort": number}));
        assert_eq!(port(31_234, is_named), json!({"nodePort": 1}));
        assert_eq!(port(30_001, is_named), json!({"nodePort": 30_001}));
        assert_eq!(port(30_001, is_never_named), json!({"nodePort": 1}));
    }

    #[test]
    fn conflicts_with_several_managers_come_in_any_order() {
        let refused = |reason: &str, causes: &[(&str, &str)]| {
            let cause = |(field, message): &(&str, &str)| json!({"field": field, "message": message, "reason": reason});
            let mut body = json!({"details": {"causes": causes.iter().map(cause).collect::<Vec<_>>()}});
            plain(&mut body, Depth::Asked);
            body
        };
        let conflicts = |causes: &[(&str, &str)]| refused("FieldManagerConflict", causes);
        assert_eq!(conflicts(&[("a", "with x"), ("b", "with y")]), conflicts(&[("b", "with y"), ("a", "with x")]));
        assert_ne!(conflicts(&[("a", "with x"), ("b", "with x")]), conflicts(&[("b", "with x"), ("a", "with x")]));
        let faults = |causes: &[(&str, &str)]| refused("FieldValueInvalid", causes);
        assert_ne!(faults(&[("a", "x"), ("b", "y")]), faults(&[("b", "y"), ("a", "x")]));
    }

    #[test]
    fn what_a_refused_delete_says_of_the_object_is_not_shown() {
        let message =
            "Precondition failed: the UID in the precondition (a) does not match the UID in record (b). The object";
        let shown = "Precondition failed: the UID in the precondition (a) does not match the UID in record (<its own>). The object";
        assert_eq!(without_record(message), shown);
        assert_eq!(without_record("in record (b"), "in record (b");
    }

    #[test]
    fn only_what_ours_alone_has_is_left_out_of_managers() {
        let ready = json!({r#"k:{"type":"Ready"}"#: {".": {}, "f:status": {}}});
        let mut conditions = ready.clone();
        let capacity = r#"k:{"type":"ipam.cadastre.dev/Capacity"}"#;
        conditions[capacity] = json!({".": {}});
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "fieldsV1": fields});
        let label = json!({".": {}, "f:networking.kubernetes.io/service-cidr-from-flags": {}});
        let shown = managers(&json!([
            {"manager": "c", "time": "t", "fieldsV1": {"f:status": {"f:conditions": conditions}}},
            entry("b", json!({"f:status": {"f:conditions": {capacity: {".": {}}}}})),
            entry("a", json!({"f:metadata": {"f:labels": label, "f:annotations": {".": {}}}, "f:spec": {"f:cidrs": {}}})),
        ]));
        let fields = json!({"f:metadata": {"f:annotations": {".": {}}}, "f:spec": {"f:cidrs": {}}});
        assert_eq!(shown, json!([entry("a", fields), entry("c", json!({"f:status": {"f:conditions": ready}}))]));
    }

    #[test]
    fn who_has_what_of_an_address_is_compared() {
        let address = |annotations: &Value, manager: &str| {
            let mut metadata = json!({"f:labels": {".": {}, "f:a": {}}});
            if !annotations.is_null() {
                metadata["f:annotations"] = annotations.clone();
            }
            let entry = json!({"manager": manager, "time": "t", "fieldsV1": {"f:metadata": metadata}});
            let mut address = json!({"metadata": {"managedFields": [entry]}, "spec": {"parentRef": {"name": "web"}}});
            plain(&mut address, Depth::Settled);
            address
        };
        let ours = json!({".": {}, "f:ipam.cadastre.dev/parent-uid": {}});
        assert_eq!(address(&ours, "kube-apiserver"), address(&Value::Null, "kube-apiserver"));
        assert_ne!(address(&ours, "kube-apiserver"), address(&Value::Null, "curl"));
        let another = json!({".": {}, "f:ipam.cadastre.dev/parent-uid": {}, "f:b": {}});
        assert_ne!(address(&another, "kube-apiserver"), address(&Value::Null, "kube-apiserver"));
    }

    #[test]
    fn what_a_controller_adds_later_is_compared_when_it_has_settled() {
        let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "x"}]);
        let range = |finalizers: &[&str]| {
            json!({
                "metadata": {"name": "r", "finalizers": finalizers}, "spec": {"cidrs": ["10.98.0.0/24"]},
                "status": {"conditions": conditions},
            })
        };
        let mut asked = range(&[FINALIZER]);
        plain(&mut asked, Depth::Asked);
        assert_eq!(asked, json!({"metadata": {"name": "r"}, "spec": {"cidrs": ["10.98.0.0/24"]}}));
        let mut settled = range(&["networking.k8s.io/a", "example.com/e2e", FINALIZER]);
        plain(&mut settled, Depth::Settled);
        assert_eq!(settled["metadata"]["finalizers"], json!(["example.com/e2e", "networking.k8s.io/a", FINALIZER]));
        assert_eq!(settled["status"]["conditions"], json!([{"type": "Ready", "status": "True"}]));
    }
}
