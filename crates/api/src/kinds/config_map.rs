//! `ConfigMap`s: text and bytes by key.

use serde_json::{Map, Value};

use crate::field::{Errors, Path};
use crate::kind::{Column, Kind, Stored};
use crate::object::Object;
use crate::{meta, names, printing};

pub(super) static KIND: Kind = Kind {
    kind: "ConfigMap",
    plural: "configmaps",
    singular: "configmap",
    short_names: &["cm"],
    stored: Stored { prefix: "configmaps", api_version: "v1" },
    schema: "io.k8s.api.core.v1.ConfigMap",
    validate,
    validate_update,
    columns: &[Column::NAME, Column::text("Data", "How many keys it has"), Column::AGE],
    row: |object| {
        let count = map(object, "data").map_or(0, Map::len) + map(object, "binaryData").map_or(0, Map::len);
        vec![object.name().into(), count.into(), printing::age(object)]
    },
    ..Kind::BASE
};

/// How many bytes the values of a `ConfigMap` or of a Secret may have.
pub(super) const SIZE_LIMIT: usize = 1024 * 1024;

/// What is said of a change of an object that is marked as immutable.
pub(super) const IMMUTABLE: &str = "field is immutable when `immutable` is set";

fn map<'a>(object: &'a Object, name: &str) -> Option<&'a Map<String, Value>> {
    object.fields().get(name).and_then(Value::as_object)
}

fn validate(object: &Object, errors: &mut Errors) {
    let binary = map(object, "binaryData");
    let mut size = 0;
    let path = Path::new("data");
    for (key, value) in map(object, "data").into_iter().flatten() {
        validate_key(&path, key, errors);
        if binary.is_some_and(|binary| binary.contains_key(key)) {
            errors.invalid(&path.key(key), &Value::from(key.as_str()), "duplicate of key present in binaryData");
        }
        size += value.as_str().map_or(0, str::len);
    }
    let path = Path::new("binaryData");
    for (key, value) in binary.into_iter().flatten() {
        validate_key(&path, key, errors);
        size += value.as_str().map_or(0, decoded_size);
    }
    if size > SIZE_LIMIT {
        errors.too_long(&Path::new(""), SIZE_LIMIT);
    }
}

fn validate_update(new: &Object, old: &Object, errors: &mut Errors) {
    validate_unchanged(new, old, &["data", "binaryData"], errors);
    validate(new, errors);
}

/// Notes what changed of an object that is marked as immutable.
pub(super) fn validate_unchanged(new: &Object, old: &Object, names: &[&str], errors: &mut Errors) {
    let is_immutable = |object: &Object| object.at(&["immutable"]) == Some(&Value::Bool(true));
    if !is_immutable(old) {
        return;
    }
    if !is_immutable(new) {
        errors.forbidden(&Path::new("immutable"), IMMUTABLE);
    }
    for name in names {
        if !meta::same(new.at(&[name]), old.at(&[name])) {
            errors.forbidden(&Path::new(name), IMMUTABLE);
        }
    }
}

/// Notes what is wrong with a key.
pub(super) fn validate_key(path: &Path, key: &str, errors: &mut Errors) {
    // Most keys are good, and only a bad one needs its path.
    let faults = names::config_key(key);
    if !faults.is_empty() {
        meta::invalid_text(&path.key(key), key, faults, errors);
    }
}

/// How many bytes a base64 text stands for.
pub(super) fn decoded_size(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, row, update_faults};
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_checked_and_unique_over_both_maps() {
        check_creates(
            &KIND,
            &[
                (json!({}), &[]),
                (json!({"data": {"a.b-C_1": "x"}, "binaryData": {"b": "eA=="}}), &[]),
                (json!({"data": {"..": "x"}}), &["data[..]: Invalid value: \"..\": must not be '..'"]),
                (
                    json!({"data": {"a": "x"}, "binaryData": {"a": "eA=="}}),
                    &["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
                ),
                (
                    json!({"binaryData": {"a b": "eA=="}}),
                    &[
                        "binaryData[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn all_values_together_have_a_limit() {
        let text = "x".repeat(SIZE_LIMIT);
        assert!(super::super::checking::create_faults(&KIND, json!({"data": {"a": text}})).is_empty());
        check_creates(
            &KIND,
            &[(
                json!({"data": {"a": text}, "binaryData": {"b": "eA=="}}),
                &[": Too long: may not be more than 1048576 bytes"],
            )],
        );
        assert_eq!([decoded_size("eA=="), decoded_size("eHg="), decoded_size("eHh4"), decoded_size("")], [1, 2, 3, 0]);
    }

    #[test]
    fn an_immutable_one_stays_as_it_is() {
        let old = json!({"immutable": true, "data": {"a": "x"}});
        assert_eq!(update_faults(&KIND, old.clone(), old.clone()), [""; 0]);
        assert_eq!(
            update_faults(&KIND, json!({"data": {"a": "y"}, "binaryData": {"b": "eA=="}}), old),
            ["immutable", "data", "binaryData"].map(|name| format!("{name}: Forbidden: {IMMUTABLE}")),
        );
        assert_eq!(update_faults(&KIND, json!({"data": {"a": "y"}}), json!({"data": {"a": "x"}})), [""; 0]);
    }

    #[test]
    fn the_row_counts_all_keys() {
        let object = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}, "data": {"a": "", "b": ""}, "binaryData": {"c": ""}});
        assert_eq!(row(&KIND, object, "2026-01-01T00:00:05Z"), "a|3|5s");
    }
}
