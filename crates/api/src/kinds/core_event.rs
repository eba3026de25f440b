//! Events of the core group: what happened to an object, as it is stored and as most clients read it.

use serde_json::Value;

use crate::field::{Errors, Path};
use crate::kind::{Column, Kind, Selectable, Stored};
use crate::object::Object;
use crate::reading::{number, part, text};
use crate::row::Cell;
use crate::{meta, names};

pub(super) static KIND: Kind = Kind {
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    stored: Stored { prefix: "events", api_version: "v1" },
    schema: "io.k8s.api.core.v1.Event",
    name_faults: names::path_segment,
    create_on_update: true,
    validate: |object, errors| validate(object, "reportingComponent", errors),
    validate_update: |new, _, errors| validate(new, "reportingComponent", errors),
    selectable: &[
        Selectable { label: "involvedObject.kind", value: |object| involved(object, "kind") },
        Selectable { label: "involvedObject.namespace", value: |object| involved(object, "namespace") },
        Selectable { label: "involvedObject.name", value: |object| involved(object, "name") },
        Selectable { label: "involvedObject.uid", value: |object| involved(object, "uid") },
        Selectable { label: "involvedObject.apiVersion", value: |object| involved(object, "apiVersion") },
        Selectable { label: "involvedObject.resourceVersion", value: |object| involved(object, "resourceVersion") },
        Selectable { label: "involvedObject.fieldPath", value: |object| involved(object, "fieldPath") },
        Selectable { label: "reason", value: |object| object.text(&["reason"]).to_owned() },
        Selectable { label: "reportingComponent", value: |object| object.text(&["reportingComponent"]).to_owned() },
        Selectable { label: "source", value: |object| source(object).to_owned() },
        Selectable { label: "type", value: |object| object.text(&["type"]).to_owned() },
    ],
    columns: COLUMNS,
    row,
    ..Kind::BASE
};

pub(super) const COLUMNS: &[Column] = &[
    Column::text("Last Seen", "How long ago it happened last"),
    Column::text("Type", "Whether it is normal or a warning"),
    Column::text("Reason", "Why it happened, in one word"),
    Column::text("Object", "What it happened to"),
    Column::wide("Subobject", "Which part of the object it happened to"),
    Column::wide("Source", "Who reported it"),
    Column::text("Message", "What happened"),
    Column::wide("First Seen", "How long ago it happened first"),
    Column::wide("Count", "How often it happened"),
    Column { priority: 1, ..Column::NAME },
];

/// The rules for an event in the core form. Events with an `eventTime` come from the newer interface and have to say more.
pub(super) fn validate(object: &Object, reporter: &str, errors: &mut Errors) {
    let namespace = object.namespace();
    let involved = object.text(&["involvedObject", "namespace"]);
    let is_new = !object.text(&["eventTime"]).is_empty();
    let matches = match (is_new, involved.is_empty()) {
        (false, true) => namespace.is_empty() || namespace == "default",
        (false, false) => namespace == involved,
        (true, true) => namespace == "default" || namespace == "kube-system",
        (true, false) => true,
    };
    if !matches {
        let path = Path::new("involvedObject").child("namespace");
        errors.invalid(&path, &Value::from(involved), "does not match event.namespace");
    }
    if is_new {
        let controller = object.text(&["reportingComponent"]);
        if controller.is_empty() {
            errors.required(&Path::new(reporter), "");
        }
        meta::invalid_text(&Path::new(reporter), controller, names::qualified_name(controller), errors);
        for (name, limit) in [("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024)] {
            let value = object.text(&[name]);
            if value.is_empty() && name != "message" {
                errors.required(&Path::new(name), "");
            }
            if value.len() > limit {
                errors.invalid(&Path::new(name), &Value::from(""), format!("can have at most {limit} characters"));
            }
        }
    }
    meta::invalid_text(&Path::new("namespace"), namespace, names::subdomain(namespace, false), errors);
}

fn involved(object: &Object, name: &str) -> String {
    object.text(&["involvedObject", name]).to_owned()
}

fn source(object: &Object) -> &str {
    match object.text(&["source", "component"]) {
        "" => object.text(&["reportingComponent"]),
        component => component,
    }
}

pub(super) fn row(object: &Object) -> Vec<Cell> {
    let either = |first: &str, second: &str| {
        let first = object.text(&[first]);
        if first.is_empty() { object.text(&[second]).to_owned() } else { first.to_owned() }
    };
    let first = either("firstTimestamp", "eventTime");
    let last = object.text(&["lastTimestamp"]);
    let mut last = if last.is_empty() { first.clone() } else { last.to_owned() };
    let mut count = object.at(&["count"]).and_then(Value::as_i64).unwrap_or(0).max(1);
    let series = part(object, "series");
    if series.is_object() {
        text(series, "lastObservedTime").clone_into(&mut last);
        count = number(series, "count").unwrap_or(0);
    }
    let involved = part(object, "involvedObject");
    let mut target = text(involved, "kind").to_lowercase();
    if !text(involved, "name").is_empty() {
        target = format!("{target}/{}", text(involved, "name"));
    }
    let host = match object.text(&["source", "host"]) {
        "" => object.text(&["reportingInstance"]),
        host => host,
    };
    let source = if host.is_empty() { source(object).to_owned() } else { format!("{}, {host}", source(object)) };
    vec![
        Cell::since(&last),
        object.text(&["type"]).into(),
        object.text(&["reason"]).into(),
        target.into(),
        text(involved, "fieldPath").into(),
        source.into(),
        object.text(&["message"]).trim().into(),
        Cell::since(&first),
        count.into(),
        object.name().into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, row};
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_lives_where_its_object_lives() {
        let with = |namespace: &str, involved: &str| json!({"metadata": {"name": "a", "namespace": namespace}, "involvedObject": {"namespace": involved}});
        let fault = |involved: &str| {
            format!("involvedObject.namespace: Invalid value: \"{involved}\": does not match event.namespace")
        };
        check_creates(
            &KIND,
            &[
                (with("a", "a"), &[]),
                (with("default", ""), &[]),
                (with("a", "b"), &[&fault("b")]),
                (with("a", ""), &[&fault("")]),
            ],
        );
    }

    #[test]
    fn an_event_with_a_time_says_who_reports_what() {
        let event = json!({
            "metadata": {"name": "a", "namespace": "kube-system"}, "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingComponent": "example.com/c", "reportingInstance": "i", "action": "a", "reason": "r",
        });
        let mut long = event.clone();
        long["action"] = json!("x".repeat(129));
        long["message"] = json!("x".repeat(1025));
        let mut bare = event.clone();
        for name in ["reportingComponent", "reportingInstance", "action", "reason"] {
            bare[name] = json!("");
        }
        check_creates(
            &KIND,
            &[
                (event, &[]),
                (
                    long,
                    &[
                        "action: Invalid value: \"\": can have at most 128 characters",
                        "message: Invalid value: \"\": can have at most 1024 characters",
                    ],
                ),
                (
                    bare,
                    &[
                        "reportingComponent: Required value",
                        "reportingComponent: Invalid value: \"\": name part must be non-empty",
                        "reportingComponent: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                        "reportingInstance: Required value",
                        "action: Required value",
                        "reason: Required value",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn rows_tell_when_what_happened_to_whom() {
        let now = "2026-01-01T00:01:00Z";
        let old = json!({
            "metadata": {"name": "e"}, "type": "Normal", "reason": "R", "message": " hello ", "count": 3,
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "f"}, "source": {"component": "c", "host": "h"},
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:30Z",
        });
        assert_eq!(row(&KIND, old, now), "30s|Normal|R|pod/p|f|c, h|hello|60s|3|e");
        let new = json!({
            "metadata": {"name": "e"}, "involvedObject": {"kind": "Node"}, "reportingComponent": "c",
            "eventTime": "2026-01-01T00:00:00.500000Z", "series": {"count": 7, "lastObservedTime": "2026-01-01T00:00:50.250000Z"},
        });
        assert_eq!(row(&KIND, new, now), "9s|||node||c||59s|7|e");
        assert_eq!(row(&KIND, json!({}), now), "<unknown>|||||||<unknown>|1|");
    }
}
