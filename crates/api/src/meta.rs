//! The rules for `metadata`, which every kind shares: names, labels, annotations, owners, finalizers, and what may never
//! change.
//!
//! Knows a kind only through its declaration. What the server itself writes into the metadata (revision, generation, times)
//! is the server's affair and is checked here only against change.

use std::cell::LazyCell;
use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::field::{Errors, Path};
use crate::kind::Kind;
use crate::names;
use crate::object::Object;
use crate::reading::shown;

/// How many bytes all annotations of an object may have, keys included.
pub const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// What is said of a field that may not change.
pub const IMMUTABLE: &str = "field is immutable";

/// The most bytes that the name of a manager may have.
pub const LONGEST_MANAGER: usize = 128;

/// The most bytes that the subresource in an entry of `managedFields` may have.
const LONGEST_SUBRESOURCE: usize = 256;

const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Finds what is wrong with the metadata of a new object.
pub fn validate_create(kind: &Kind, object: &Object, errors: &mut Errors) {
    let path = Path::new("metadata");
    let prefix = object.text(&["metadata", "generateName"]);
    if !prefix.is_empty() {
        invalid_text(&path.child("generateName"), prefix, (kind.name_faults)(prefix, true), errors);
    }
    let name = object.name();
    if name.is_empty() {
        errors.required(&path.child("name"), "name or generateName is required");
    } else {
        invalid_text(&path.child("name"), name, (kind.name_faults)(name, false), errors);
    }
    validate_common(kind, object, errors);
}

/// Finds what is wrong with the metadata of a changed object.
pub fn validate_update(kind: &Kind, new: &Object, old: &Object, errors: &mut Errors) {
    let path = Path::new("metadata");
    if old.is_terminating() {
        let known: HashSet<_> = old.finalizers().collect();
        let mut added: Vec<_> = new.finalizers().filter(|name| !known.contains(name)).collect();
        added.sort_unstable();
        if !added.is_empty() {
            let list = added.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
            errors.forbidden(
                &path.child("finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
                ),
            );
        }
    }
    for name in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        immutable(&path.child(name), new.at(&["metadata", name]), old.at(&["metadata", name]), errors);
    }
    validate_common(kind, new, errors);
}

/// Notes a fault if a field changed. Absent, null and empty are the same.
pub fn immutable(field: &Path, new: Option<&Value>, old: Option<&Value>, errors: &mut Errors) {
    if !same(new, old) {
        errors.invalid(field, new.unwrap_or(&Value::Null), IMMUTABLE);
    }
}

/// Whether two values are equal, where absent, null and empty are the same.
pub fn same(new: Option<&Value>, old: Option<&Value>) -> bool {
    let present = |value: Option<&Value>| value.is_some_and(|value| !is_empty(value));
    match (present(new), present(old)) {
        (true, true) => new == old,
        (new, old) => new == old,
    }
}

/// Whether a value is as good as absent.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Finds what is wrong with a map of labels.
pub fn validate_labels(labels: Option<&Map<String, Value>>, path: &Path, errors: &mut Errors) {
    for (key, value) in labels.into_iter().flatten() {
        invalid_text(path, key, names::qualified_name(key), errors);
        let value = value.as_str().unwrap_or_default();
        invalid_text(path, value, names::label_value(value), errors);
    }
}

/// Notes each of the faults of a text.
pub fn invalid_text(path: &Path, text: &str, faults: Vec<String>, errors: &mut Errors) {
    for fault in faults {
        errors.invalid(path, &Value::from(text), fault);
    }
}

/// Notes what is wrong with a finalizer of a kind that Kubernetes has by itself.
pub fn validate_finalizer(path: &Path, name: &str, errors: &mut Errors) {
    invalid_text(path, name, names::qualified_name(name), errors);
    validate_known(path, name, errors);
}

fn validate_known(path: &Path, name: &str, errors: &mut Errors) {
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        errors.invalid(path, &Value::from(name), "name is neither a standard finalizer name nor is it fully qualified");
    }
}

fn validate_common(kind: &Kind, object: &Object, errors: &mut Errors) {
    let path = Path::new("metadata");
    let namespace = object.namespace();
    match (kind.is_namespaced(), namespace.is_empty()) {
        (true, true) => errors.required(&path.child("namespace"), ""),
        (true, false) => invalid_text(&path.child("namespace"), namespace, names::label(namespace, false), errors),
        (false, false) => errors.forbidden(&path.child("namespace"), "not allowed on this type"),
        (false, true) => {}
    }
    if object.generation() < 0 {
        errors.invalid(
            &path.child("generation"),
            &Value::from(object.generation()),
            "must be greater than or equal to 0",
        );
    }
    // Most objects have few of these. The order is that in which clients are told.
    let metadata = object.metadata();
    for name in ["labels", "annotations", "ownerReferences", "finalizers", "managedFields"] {
        match (name, metadata.and_then(|metadata| metadata.get(name))) {
            ("labels", Some(Value::Object(labels))) => validate_labels(Some(labels), &path.child(name), errors),
            ("finalizers", Some(_)) => validate_finalizers(kind, object, &path.child(name), errors),
            ("ownerReferences", Some(Value::Array(owners))) => validate_owners(owners, &path.child(name), errors),
            ("managedFields", Some(Value::Array(entries))) => validate_managed_fields(entries, errors),
            ("annotations", Some(Value::Object(all))) => validate_annotations(all, &path.child(name), errors),
            _ => {}
        }
    }
}

fn validate_annotations(annotations: &Map<String, Value>, path: &Path, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations {
        invalid_text(path, key, names::qualified_name(&key.to_lowercase()), errors);
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        errors.too_long(path, ANNOTATIONS_LIMIT);
    }
}

fn validate_owners(owners: &[Value], path: &Path, errors: &mut Errors) {
    let all = LazyCell::new(|| format!("[{}]", owners.iter().map(shown_owner).collect::<Vec<_>>().join(",")));
    let mut controller: Option<String> = None;
    for owner in owners {
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let version = api_version.rsplit('/').next().unwrap_or_default();
        if version.is_empty() {
            errors.invalid(&path.child("apiVersion"), &Value::from(api_version), "version must not be empty");
        }
        for name in ["kind", "name", "uid"] {
            if text(name).is_empty() {
                errors.invalid(&path.child(name), &Value::from(""), "must not be empty");
            }
        }
        if api_version == "v1" && kind == "Event" {
            errors.invalid_shown(path, &shown_owner(owner), "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{kind}/{}", text("name"));
            match &controller {
                Some(first) => errors.invalid_shown(
                    path,
                    &all,
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    ),
                ),
                None => controller = Some(this),
            }
        }
    }
}

fn shown_owner(owner: &Value) -> String {
    let all = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let given = |name: &&str| !matches!(*name, "controller" | "blockOwnerDeletion") || owner.get(name).is_some();
    shown(owner, &all.into_iter().filter(given).map(|name| (name, name)).collect::<Vec<_>>())
}

fn validate_finalizers(kind: &Kind, object: &Object, path: &Path, errors: &mut Errors) {
    for name in object.finalizers() {
        invalid_text(path, name, names::qualified_name(name), errors);
    }
    let has = |wanted: &str| object.finalizers().any(|name| name == wanted);
    if has("orphan") && has("foregroundDeletion") {
        let all = object.finalizers().collect::<Vec<_>>();
        errors.invalid(path, &Value::from(all), "finalizer orphan and foregroundDeletion cannot be both set");
    }
    for (index, name) in object.finalizers().enumerate().filter(|_| kind.is_built_in()) {
        validate_known(&path.index(index), name, errors);
    }
}

/// Every object has entries, and hardly one is wrong: a path is made only then.
fn validate_managed_fields(entries: &[Value], errors: &mut Errors) {
    for (index, entry) in entries.iter().enumerate() {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = |name: &str| Path::new("metadata").child("managedFields").index(index).child(name);
        let operation = text("operation");
        if !matches!(operation, "Apply" | "Update") {
            errors.invalid(&path("operation"), &Value::from(operation), "must be `Apply` or `Update`");
        }
        let fields_type = text("fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.invalid(&path("fieldsType"), &Value::from(fields_type), "must be `FieldsV1`");
        }
        validate_manager(|| path("manager"), text("manager"), errors);
        if text("subresource").len() > LONGEST_SUBRESOURCE {
            errors.too_long(&path("subresource"), LONGEST_SUBRESOURCE);
        }
    }
}

/// Finds what is wrong with the name of a manager.
pub fn validate_manager(path: impl Fn() -> Path, name: &str, errors: &mut Errors) {
    if name.len() > LONGEST_MANAGER {
        errors.too_long(&path(), LONGEST_MANAGER);
    }
    for (at, c) in name.char_indices().filter(|(_, c)| !is_print(*c)) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
        errors.invalid(&path(), &Value::from(name), detail);
    }
}

/// Whether a character can be printed, as Go sees it: of all white space only the space itself.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || c.is_ascii_graphic();
    }
    // `escape_debug` spares what is printable. Marks it spares only behind something that they can stand on.
    let mut text = String::from('a');
    text.push(c);
    !c.is_whitespace() && text.escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    static KIND: Kind = Kind { schema: "io.k8s.api.core.v1.ConfigMap", ..Kind::BASE };
    static CLUSTER: Kind = Kind { scope: crate::Scope::Cluster, ..Kind::BASE };

    fn object(metadata: &Value) -> Object {
        Object::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn created(kind: &Kind, metadata: &Value) -> String {
        let mut errors = Errors::new();
        validate_create(kind, &object(metadata), &mut errors);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    fn updated(new: &Value, old: &Value) -> String {
        let mut errors = Errors::new();
        validate_update(&KIND, &object(new), &object(old), &mut errors);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_good_object_has_no_faults() {
        let metadata = json!({
            "name": "a", "namespace": "b", "labels": {"x": "y"}, "annotations": {"Example.com/A": "any thing"},
            "finalizers": ["example.com/f", "orphan"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}],
        });
        assert_eq!(created(&KIND, &metadata), "");
        assert_eq!(updated(&metadata, &metadata), "");
    }

    #[test]
    fn each_part_of_the_metadata_is_checked() {
        let with = |name: &str, value: Value| {
            let mut metadata = json!({"name": "a", "namespace": "b"});
            metadata[name] = value;
            metadata
        };
        for (metadata, expected) in [
            (json!({"namespace": "b"}), "metadata.name: Required value: name or generateName is required"),
            (with("name", json!("A")), "metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain"),
            (with("generateName", json!("_a-")), "metadata.generateName: Invalid value: \"_a-\": a lowercase"),
            (with("namespace", json!("")), "metadata.namespace: Required value"),
            (with("namespace", json!("a.b")), "metadata.namespace: Invalid value: \"a.b\": must not contain dots"),
            (with("labels", json!({"a b": "c"})), "metadata.labels: Invalid value: \"a b\": name part must consist"),
            (with("labels", json!({"a": "b c"})), "metadata.labels: Invalid value: \"b c\": a valid label must be"),
            (with("annotations", json!({"a b": ""})), "metadata.annotations: Invalid value: \"a b\": name part"),
            (
                with("annotations", json!({"a": "x".repeat(ANNOTATIONS_LIMIT)})),
                "metadata.annotations: Too long: may not be more than 262144 bytes",
            ),
            (
                with("finalizers", json!(["plain"])),
                "metadata.finalizers[0]: Invalid value: \"plain\": name is neither a standard finalizer name nor is it fully qualified",
            ),
            (
                with("finalizers", json!(["orphan", "foregroundDeletion"])),
                "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
            ),
            (
                with("ownerReferences", json!([{"apiVersion": "v1", "kind": "Pod", "name": "p"}])),
                "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
            ),
            (
                with("ownerReferences", json!([{"apiVersion": "v1", "kind": "Event", "name": "p", "uid": "u"}])),
                "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"p\",\"uid\":\"u\"}: /v1, Kind=Event is disallowed",
            ),
            (
                with("managedFields", json!([{"operation": "Update"}, {"operation": "Patch"}])),
                "metadata.managedFields[1].operation: Invalid value: \"Patch\": must be `Apply` or `Update`",
            ),
            (
                with("managedFields", json!([{"operation": "Apply", "fieldsType": "FieldsV2"}])),
                "metadata.managedFields[0].fieldsType: Invalid value: \"FieldsV2\": must be `FieldsV1`",
            ),
            (
                with("managedFields", json!([{"operation": "Apply", "manager": "x".repeat(129)}])),
                "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
            ),
            (
                with("managedFields", json!([{"operation": "Apply", "manager": "a\u{301}\u{7}"}])),
                "metadata.managedFields[0].manager: Invalid value: \"a\u{301}\\u0007\": invalid character U+0007 (at position 3)",
            ),
            (
                with("managedFields", json!([{"operation": "Apply", "subresource": "x".repeat(257)}])),
                "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
            ),
            (
                with("generation", json!(-1)),
                "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
            ),
        ] {
            let faults = created(&KIND, &metadata);
            assert!(faults.starts_with(expected), "{faults}\n  expected {expected}");
        }
        assert_eq!(
            created(&CLUSTER, &json!({"name": "a", "namespace": "b"})),
            "metadata.namespace: Forbidden: not allowed on this type"
        );
        assert_eq!(
            created(&CLUSTER, &json!({"name": "a", "finalizers": ["plain"]})),
            "",
            "only built-in kinds are strict"
        );
    }

    #[test]
    fn letters_marks_numbers_and_signs_can_be_printed() {
        assert!(" ~aä1½\u{301}\u{903}\u{20dd}\u{ff0c}€😀'\"\\".chars().all(is_print));
        assert!(!"\t\u{7f}\u{a0}\u{ad}\u{200b}\u{2028}\u{3000}\u{e000}\u{feff}\u{fffff}".chars().any(is_print));
    }

    #[test]
    fn two_controllers_are_one_too_many() {
        let owner =
            |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": true});
        let faults =
            created(&KIND, &json!({"name": "a", "namespace": "b", "ownerReferences": [owner("p"), owner("q")]}));
        assert!(faults.ends_with("Found \"true\" in references for Pod/p and Pod/q"), "{faults}");
    }

    #[test]
    fn identity_and_times_never_change() {
        let old = json!({"name": "a", "namespace": "b", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"});
        for (name, value) in [
            ("name", json!("c")),
            ("namespace", json!("c")),
            ("uid", json!("v")),
            ("creationTimestamp", json!("2027-01-01T00:00:00Z")),
            ("deletionTimestamp", json!("2027-01-01T00:00:00Z")),
            ("deletionGracePeriodSeconds", json!(3)),
        ] {
            let mut new = old.clone();
            new[name] = value.clone();
            assert_eq!(updated(&new, &old), format!("metadata.{name}: Invalid value: {value}: field is immutable"));
        }
    }

    #[test]
    fn an_object_that_is_being_deleted_gets_no_new_finalizers() {
        let metadata = |finalizers: Value| json!({"name": "a", "namespace": "b", "deletionTimestamp": "2027-01-01T00:00:00Z", "finalizers": finalizers});
        assert_eq!(
            updated(&metadata(json!(["a.b/d", "a.b/c"])), &metadata(json!(["a.b/d"]))),
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a.b/c\"}",
        );
        assert_eq!(updated(&metadata(json!([])), &metadata(json!(["a.b/d"]))), "");
    }
}
