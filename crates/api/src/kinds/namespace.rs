//! Namespaces: what everything namespaced lives in.

use serde_json::{Value, json};

use crate::field::{Errors, Path};
use crate::kind::{Column, Kind, Scope, Selectable, Stored, Subresource};
use crate::object::Object;
use crate::reading::{child_mut, fill_text, part, texts};
use crate::{meta, names, printing};

/// The finalizer that a namespace keeps until it is empty.
const FINALIZER: &str = "kubernetes";

pub(super) static KIND: Kind = Kind {
    kind: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    short_names: &["ns"],
    scope: Scope::Cluster,
    subresources: &[Subresource::Finalize, Subresource::Status],
    stored: Stored { prefix: "namespaces", api_version: "v1" },
    schema: "io.k8s.api.core.v1.Namespace",
    name_faults: names::label,
    answers_deleted: true,
    deletes_collection: false,
    default,
    prepare_create: Some(prepare_create),
    prepare_update,
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    validate_status,
    selectable: &[Selectable { label: "status.phase", value: |object| object.text(&["status", "phase"]).to_owned() }],
    columns: &[Column::NAME, Column::text("Status", "Whether it is active or being emptied"), Column::AGE],
    row: |object| vec![object.name().into(), object.text(&["status", "phase"]).into(), printing::age(object)],
    ..Kind::BASE
};

fn default(object: &mut Object) {
    if !object.name().is_empty() {
        let name = Value::from(object.name());
        object.set(&["metadata", "labels", "kubernetes.io/metadata.name"], name);
    }
    if let Some(status) = child_mut(object.fields_mut(), "status") {
        fill_text(status, "phase", "Active");
    }
}

fn prepare_create(object: &mut Object) {
    default(object);
    object.set(&["status"], json!({"phase": "Active"}));
    let mut finalizers = match object.remove(&["spec", "finalizers"]) {
        Some(Value::Array(finalizers)) => finalizers,
        _ => Vec::new(),
    };
    if !finalizers.iter().any(|name| name == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    object.set(&["spec", "finalizers"], finalizers.into());
}

/// The finalizers of a namespace change through `/finalize` alone.
fn prepare_update(new: &mut Object, old: &Object) {
    match old.at(&["spec", "finalizers"]) {
        Some(finalizers) => new.set(&["spec", "finalizers"], finalizers.clone()),
        None => {
            new.remove(&["spec", "finalizers"]);
        }
    }
}

fn validate(object: &Object, errors: &mut Errors) {
    let path = Path::new("spec").child("finalizers");
    for name in texts(part(object, "spec"), "finalizers") {
        meta::validate_finalizer(&path, name, errors);
    }
}

fn validate_status(new: &Object, _old: &Object, errors: &mut Errors) {
    let (wanted, state) = if new.is_terminating() { ("Terminating", "not empty") } else { ("Active", "empty") };
    let phase = new.text(&["status", "phase"]);
    if phase != wanted {
        errors.invalid(
            &Path::new("status").child("Phase"),
            &Value::from(phase),
            format!("may only be '{wanted}' if `deletionTimestamp` is {state}"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, created};
    use super::*;

    #[test]
    fn a_new_namespace_is_active_and_labelled_with_its_name() {
        let namespace = created(&KIND, json!({"metadata": {"name": "a"}, "status": {"phase": "Terminating"}}));
        assert_eq!(
            namespace.into_value(),
            json!({
                "metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a"}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            })
        );
    }

    #[test]
    fn finalizers_are_qualified_or_known() {
        let message = "name is neither a standard finalizer name nor is it fully qualified";
        check_creates(
            &KIND,
            &[
                (json!({"spec": {"finalizers": ["kubernetes", "example.com/a"]}}), &[]),
                (
                    json!({"spec": {"finalizers": ["a"]}}),
                    &[&format!("spec.finalizers: Invalid value: \"a\": {message}")],
                ),
            ],
        );
    }

    #[test]
    fn an_update_leaves_the_finalizers_alone() {
        let old = created(&KIND, json!({"metadata": {"name": "a"}}));
        let mut new = Object::from_value(json!({"metadata": {"name": "a"}, "spec": {}})).unwrap();
        prepare_update(&mut new, &old);
        assert_eq!(new.at(&["spec"]), Some(&json!({"finalizers": ["kubernetes"]})));
    }

    #[test]
    fn the_phase_follows_the_deletion() {
        let with = |phase: &str, deleted: bool| {
            let mut object = Object::from_value(json!({"status": {"phase": phase}})).unwrap();
            if deleted {
                object.set(&["metadata", "deletionTimestamp"], json!("2026-01-01T00:00:00Z"));
            }
            let mut errors = Errors::new();
            validate_status(&object, &object, &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(with("Active", false), [""; 0]);
        assert_eq!(with("Terminating", true), [""; 0]);
        assert_eq!(
            with("Terminating", false),
            ["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"]
        );
        assert_eq!(
            with("Active", true),
            ["status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"]
        );
    }
}
