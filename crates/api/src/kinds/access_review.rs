//! Access reviews: may somebody do something? Asked of oneself, of anybody, and of anybody in one namespace.

use serde_json::Value;

use crate::field::{Errors, Path};
use crate::kind::{Kind, Scope, Stored};
use crate::object::Object;
use crate::reading::{items, part, shown, text};
use crate::{meta, names};

pub(super) static OF_SELF: Kind = Kind {
    kind: "SelfSubjectAccessReview",
    plural: "selfsubjectaccessreviews",
    singular: "selfsubjectaccessreview",
    schema: "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    validate: |object, errors| {
        validate_attributes(object, errors);
        validate_selectors(object, errors);
        validate_metadata(object, &[], "must be empty", errors);
    },
    ..BASE
};

pub(super) static OF_SUBJECT: Kind = Kind {
    kind: "SubjectAccessReview",
    plural: "subjectaccessreviews",
    singular: "subjectaccessreview",
    schema: "io.k8s.api.authorization.v1.SubjectAccessReview",
    validate: |object, errors| {
        validate_subject(object, errors);
        validate_metadata(object, &[], "must be empty", errors);
    },
    ..BASE
};

pub(super) static LOCAL: Kind = Kind {
    kind: "LocalSubjectAccessReview",
    plural: "localsubjectaccessreviews",
    singular: "localsubjectaccessreview",
    scope: Scope::Namespaced,
    schema: "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    validate: validate_local,
    ..BASE
};

const BASE: Kind = Kind {
    group: "authorization.k8s.io",
    scope: Scope::Cluster,
    is_question: true,
    stored: Stored { prefix: "", api_version: "authorization.k8s.io/v1" },
    ..Kind::BASE
};

fn attributes<'a>(object: &'a Object, name: &str) -> Option<&'a Value> {
    part(object, "spec").get(name).filter(|attributes| !attributes.is_null())
}

fn path() -> Path {
    Path::new("spec")
}

fn shown_path(attributes: &Value) -> String {
    shown(attributes, &[("Path", "path"), ("Verb", "verb")])
}

fn validate_attributes(object: &Object, errors: &mut Errors) {
    match (attributes(object, "resourceAttributes"), attributes(object, "nonResourceAttributes")) {
        (Some(_), Some(other)) => errors.invalid_shown(
            &path().child("nonResourceAttributes"),
            &shown_path(other),
            "cannot be specified in combination with resourceAttributes",
        ),
        (None, None) => errors.invalid(
            &path().child("resourceAttributes"),
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        _ => {}
    }
}

fn validate_subject(object: &Object, errors: &mut Errors) {
    validate_attributes(object, errors);
    let spec = part(object, "spec");
    if text(spec, "user").is_empty() && items(spec, "groups").is_empty() {
        errors.invalid(&path().child("user"), &Value::from(""), "at least one of user or group must be specified");
    }
    validate_selectors(object, errors);
}

fn validate_local(object: &Object, errors: &mut Errors) {
    validate_subject(object, errors);
    validate_metadata(object, &["namespace"], "must be empty except for namespace", errors);
    if let Some(attributes) = attributes(object, "resourceAttributes")
        && text(attributes, "namespace") != object.namespace()
    {
        let namespace = Value::from(text(attributes, "namespace"));
        errors.invalid(
            &path().child("resourceAttributes").child("namespace"),
            &namespace,
            "must match metadata.namespace",
        );
    }
    if let Some(attributes) = attributes(object, "nonResourceAttributes") {
        let why = "disallowed on this kind of request";
        errors.invalid_shown(&path().child("nonResourceAttributes"), &shown_path(attributes), why);
    }
}

fn validate_metadata(object: &Object, allowed: &[&str], why: &str, errors: &mut Errors) {
    let given = object.metadata().into_iter().flatten();
    let mut given = given.filter(|(name, value)| !value.is_null() && !allowed.contains(&name.as_str()));
    if given.any(|(name, _)| name != "managedFields") {
        errors.invalid(&Path::new("metadata"), part(object, "metadata"), why);
    }
}

fn validate_selectors(object: &Object, errors: &mut Errors) {
    let Some(attributes) = attributes(object, "resourceAttributes") else { return };
    for (name, validate) in
        [("fieldSelector", validate_field as fn(&Path, &Value, &mut Errors)), ("labelSelector", validate_label)]
    {
        let Some(selector) = attributes.get(name).filter(|selector| !selector.is_null()) else { continue };
        let path = path().child("resourceAttributes").child(name);
        let (raw, requirements) = (text(selector, "rawSelector"), items(selector, "requirements"));
        if !raw.is_empty() && !requirements.is_empty() {
            let why = "may not specified at the same time as requirements";
            errors.invalid(&path.child("rawSelector"), &Value::from(raw), why);
        }
        if raw.is_empty() && requirements.is_empty() {
            let why = format!("when {path} is specified, requirements or rawSelector is required");
            errors.required(&path.child("requirements"), why);
        }
        for (index, requirement) in requirements.iter().enumerate() {
            validate(&path.child("requirements").index(index), requirement, errors);
        }
    }
}

fn validate_field(path: &Path, requirement: &Value, errors: &mut Errors) {
    if text(requirement, "key").is_empty() {
        errors.required(&path.child("key"), "must be specified");
    }
    validate_values(path, requirement, errors);
}

fn validate_label(path: &Path, requirement: &Value, errors: &mut Errors) {
    validate_values(path, requirement, errors);
    let key = text(requirement, "key");
    meta::invalid_text(&path.child("key"), key, names::qualified_name(key), errors);
    for (index, value) in items(requirement, "values").iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        meta::invalid_text(&path.child("values").index(index), value, names::label_value(value), errors);
    }
}

/// Operators that nobody knows are let through: a newer client may ask with them, and is told that they were ignored.
fn validate_values(path: &Path, requirement: &Value, errors: &mut Errors) {
    let given = !items(requirement, "values").is_empty();
    match text(requirement, "operator") {
        "In" | "NotIn" if !given => {
            errors.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if given => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&path.child("values"), why);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::checking::check_creates;
    use super::*;
    use serde_json::json;

    #[test]
    fn one_thing_is_asked_of_somebody() {
        let get = json!({"verb": "get", "resource": "pods"});
        let path = json!({"verb": "get", "path": "/x"});
        check_creates(
            &OF_SELF,
            &[
                (json!({"spec": {"resourceAttributes": get}}), &[]),
                (json!({"spec": {"nonResourceAttributes": path}, "metadata": {"creationTimestamp": null}}), &[]),
                (
                    json!({}),
                    &[
                        "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
                    ],
                ),
                (
                    json!({"spec": {"resourceAttributes": get, "nonResourceAttributes": path}, "metadata": {"name": "x"}}),
                    &[
                        "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"get\"}: cannot be specified in combination with resourceAttributes",
                        "metadata: Invalid value: {\"name\":\"x\"}: must be empty",
                    ],
                ),
            ],
        );
        check_creates(
            &OF_SUBJECT,
            &[
                (json!({"spec": {"groups": ["a"], "resourceAttributes": get}}), &[]),
                (
                    json!({"spec": {"resourceAttributes": get}}),
                    &["spec.user: Invalid value: \"\": at least one of user or group must be specified"],
                ),
            ],
        );
    }

    #[test]
    fn a_local_question_is_about_its_namespace() {
        let asked = |namespace: &str| json!({"metadata": {"namespace": "a"}, "spec": {"user": "u", "resourceAttributes": {"namespace": namespace}}});
        check_creates(
            &LOCAL,
            &[
                (asked("a"), &[]),
                (
                    asked("b"),
                    &["spec.resourceAttributes.namespace: Invalid value: \"b\": must match metadata.namespace"],
                ),
                (
                    json!({"metadata": {"namespace": "a"}, "spec": {"user": "u", "nonResourceAttributes": {"path": "/"}}}),
                    &[
                        "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/\",\"Verb\":\"\"}: disallowed on this kind of request",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn selectors_are_raw_or_in_parts() {
        let asked = |name: &str, selector: Value| json!({"spec": {"resourceAttributes": {name: selector}}});
        check_creates(
            &OF_SELF,
            &[
                (
                    asked("labelSelector", json!({"requirements": [{"key": "a", "operator": "New", "values": ["x"]}]})),
                    &[],
                ),
                (
                    asked("fieldSelector", json!({})),
                    &[
                        "spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
                    ],
                ),
                (
                    asked(
                        "fieldSelector",
                        json!({"rawSelector": "a=b", "requirements": [{"operator": "Exists", "values": ["x"]}]}),
                    ),
                    &[
                        "spec.resourceAttributes.fieldSelector.rawSelector: Invalid value: \"a=b\": may not specified at the same time as requirements",
                        "spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified",
                        "spec.resourceAttributes.fieldSelector.requirements[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                    ],
                ),
                (
                    asked("labelSelector", json!({"requirements": [{"key": "a", "operator": "In"}]})),
                    &[
                        "spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                    ],
                ),
            ],
        );
    }
}
