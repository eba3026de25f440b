//! Events of `events.k8s.io`: the core group's Events under other field names. They are stored as core Events.

use serde_json::Value;

use super::core_event;
use crate::field::{Errors, Path};
use crate::kind::{Conversion, Kind, Selectable, Stored};
use crate::object::Object;
use crate::reading::{number, part, shown, text};
use crate::{meta, schema};

pub(super) static KIND: Kind = Kind {
    group: "events.k8s.io",
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    stored: Stored { prefix: "events", api_version: "v1" },
    conversion: Some(Conversion { from_stored, to_stored }),
    schema: "io.k8s.api.events.v1.Event",
    create_on_update: true,
    validate,
    validate_update,
    selectable: &[
        Selectable { label: "regarding.kind", value: |object| regarding(object, "kind") },
        Selectable { label: "regarding.namespace", value: |object| regarding(object, "namespace") },
        Selectable { label: "regarding.name", value: |object| regarding(object, "name") },
        Selectable { label: "regarding.uid", value: |object| regarding(object, "uid") },
        Selectable { label: "regarding.apiVersion", value: |object| regarding(object, "apiVersion") },
        Selectable { label: "regarding.resourceVersion", value: |object| regarding(object, "resourceVersion") },
        Selectable { label: "regarding.fieldPath", value: |object| regarding(object, "fieldPath") },
        Selectable { label: "reason", value: |object| object.text(&["reason"]).to_owned() },
        Selectable { label: "reportingController", value: |object| object.text(&["reportingController"]).to_owned() },
        Selectable { label: "type", value: |object| object.text(&["type"]).to_owned() },
    ],
    columns: core_event::COLUMNS,
    row: |object| core_event::row(&to_stored(object.clone())),
    ..Kind::BASE
};

/// What a field is called here and what it is called in the core group.
const NAMES: [(&str, &str); 7] = [
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

const REFERENCE: [(&str, &str); 7] = [
    ("Kind", "kind"),
    ("Namespace", "namespace"),
    ("Name", "name"),
    ("UID", "uid"),
    ("APIVersion", "apiVersion"),
    ("ResourceVersion", "resourceVersion"),
    ("FieldPath", "fieldPath"),
];
const SOURCE: [(&str, &str); 2] = [("Component", "component"), ("Host", "host")];

/// Faults name the fields of the stored form: that is where clients of either group look them up.
fn validate(object: &Object, errors: &mut Errors) {
    let stored = to_stored(object.clone());
    core_event::validate(&stored, "reportingController", errors);
    validate_series(&stored, errors);
    if stored.text(&["eventTime"]).is_empty() {
        errors.required(&Path::new("eventTime"), "");
    }
    let severity = stored.text(&["type"]);
    if severity != "Normal" && severity != "Warning" {
        errors.invalid(&Path::new("type"), &Value::from(""), format!("has invalid value: {severity}"));
    }
    let source = |name| !stored.text(&["source", name]).is_empty();
    for (name, is_set) in [
        ("firstTimestamp", !stored.text(&["firstTimestamp"]).is_empty()),
        ("lastTimestamp", !stored.text(&["lastTimestamp"]).is_empty()),
        ("count", stored.at(&["count"]).and_then(Value::as_i64).unwrap_or(0) != 0),
        ("source", source("component") || source("host")),
    ] {
        if is_set {
            errors.invalid(&Path::new(name), &Value::from(""), "needs to be unset");
        }
    }
}

fn validate_series(stored: &Object, errors: &mut Errors) {
    let series = part(stored, "series");
    if series.is_object() {
        if number(series, "count").unwrap_or(0) < 2 {
            errors.invalid(&Path::new("series.count"), &Value::from(""), "should be at least 2");
        }
        if text(series, "lastObservedTime").is_empty() {
            errors.required(&Path::new("series.lastObservedTime"), "");
        }
    }
}

/// What happened has happened; only the series may go on.
fn validate_update(new: &Object, old: &Object, errors: &mut Errors) {
    let (new, old) = (to_stored(new.clone()), to_stored(old.clone()));
    core_event::validate(&new, "reportingController", errors);
    if !meta::same(new.at(&["series"]), old.at(&["series"])) {
        validate_series(&new, errors);
    }
    for (name, fields) in [("involvedObject", &REFERENCE[..]), ("related", &REFERENCE), ("source", &SOURCE)] {
        if !meta::same(new.at(&[name]), old.at(&[name])) {
            errors.invalid_shown(&Path::new(name), &shown(part(&new, name), fields), meta::IMMUTABLE);
        }
    }
    for (name, shown) in [
        ("reason", "reason"),
        ("message", "message"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        meta::immutable(&Path::new(shown), new.at(&[name]), old.at(&[name]), errors);
    }
}

fn regarding(object: &Object, name: &str) -> String {
    object.text(&["regarding", name]).to_owned()
}

fn from_stored(object: Object) -> Object {
    renamed(object, &KIND, |name| NAMES.iter().find(|(_, core)| *core == name).map(|(here, _)| *here))
}

fn to_stored(object: Object) -> Object {
    renamed(object, &core_event::KIND, |name| NAMES.iter().find(|(here, _)| *here == name).map(|(_, core)| *core))
}

/// The object with other names for its fields. The two groups also differ in what they write where nothing is given.
fn renamed(mut object: Object, kind: &Kind, new_name: impl Fn(&str) -> Option<&'static str>) -> Object {
    let fields = std::mem::take(object.fields_mut());
    *object.fields_mut() =
        fields.into_iter().map(|(name, value)| (new_name(&name).map_or(name, str::to_owned), value)).collect();
    if let Some(definition) = schema::definition(kind.schema) {
        object.with_value(|value| schema::canonical(definition, value));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, created, row, update_faults};
    use super::*;
    use serde_json::json;

    fn event() -> Value {
        json!({
            "metadata": {"name": "e", "namespace": "default"}, "eventTime": "2026-01-01T00:00:00.123456Z",
            "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "type": "Normal", "note": "hello",
            "reportingController": "example.com/c", "reportingInstance": "i", "action": "a", "reason": "r",
        })
    }

    #[test]
    fn the_stored_form_is_a_core_event_and_leads_back() {
        let here = created(&KIND, event());
        let stored = to_stored(here.clone());
        assert_eq!(
            stored.clone().into_value(),
            json!({
                "metadata": {"name": "e", "namespace": "default"}, "eventTime": "2026-01-01T00:00:00.123456Z",
                "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "type": "Normal",
                "message": "hello", "reportingComponent": "example.com/c", "reportingInstance": "i", "action": "a",
                "reason": "r", "source": {}, "firstTimestamp": null, "lastTimestamp": null,
            })
        );
        assert_eq!(from_stored(stored), here);
    }

    #[test]
    fn a_core_event_is_shown_with_its_older_fields_renamed() {
        let core = json!({
            "involvedObject": {"kind": "Pod"}, "message": "m", "source": {"component": "c"}, "count": 2,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": null, "eventTime": null,
            "reportingComponent": "", "reportingInstance": "",
        });
        assert_eq!(
            from_stored(Object::from_value(core).unwrap()).into_value(),
            json!({
                "metadata": {}, "regarding": {"kind": "Pod"}, "note": "m", "deprecatedSource": {"component": "c"}, "deprecatedCount": 2,
                "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z", "deprecatedLastTimestamp": null, "eventTime": null,
            })
        );
    }

    #[test]
    fn an_event_is_whole_and_has_none_of_the_older_fields() {
        let mut bad = event();
        bad["type"] = json!("Odd");
        bad["deprecatedCount"] = json!(1);
        bad["deprecatedSource"] = json!({"host": "h"});
        bad["deprecatedFirstTimestamp"] = json!("2026-01-01T00:00:00Z");
        bad["series"] = json!({"count": 1});
        check_creates(
            &KIND,
            &[
                (event(), &[]),
                (
                    bad,
                    &[
                        "series.count: Invalid value: \"\": should be at least 2",
                        "series.lastObservedTime: Required value",
                        "type: Invalid value: \"\": has invalid value: Odd",
                        "firstTimestamp: Invalid value: \"\": needs to be unset",
                        "count: Invalid value: \"\": needs to be unset",
                        "source: Invalid value: \"\": needs to be unset",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn only_the_series_goes_on() {
        let mut new = event();
        new["series"] = json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:09.000000Z"});
        assert_eq!(update_faults(&KIND, new.clone(), event()), [""; 0]);
        new["note"] = json!("other");
        new["regarding"]["name"] = json!("q");
        new["reportingController"] = json!("example.com/d");
        assert_eq!(
            update_faults(&KIND, new, event()),
            [
                "involvedObject: Invalid value: {\"Kind\":\"Pod\",\"Namespace\":\"default\",\"Name\":\"q\",\"UID\":\"\",\"APIVersion\":\"\",\"ResourceVersion\":\"\",\"FieldPath\":\"\"}: field is immutable",
                "message: Invalid value: \"other\": field is immutable",
                "reportingController: Invalid value: \"example.com/d\": field is immutable",
            ]
        );
    }

    #[test]
    fn rows_are_those_of_core_events() {
        assert_eq!(
            row(&KIND, event(), "2026-01-01T00:00:10.200000Z"),
            "10s|Normal|r|pod/p||example.com/c, i|hello|10s|1|e"
        );
    }
}
