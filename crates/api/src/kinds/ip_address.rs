//! `IPAddress`es: who was given which address. The name of one is the address itself.

use crate::field::{Errors, Path};
use crate::kind::{Column, Kind, Naming, Scope, Stored};
use crate::object::Object;
use crate::reading::{shown, text};
use crate::row::Cell;
use crate::{meta, names, printing};

pub(super) static KIND: Kind = Kind {
    group: "networking.k8s.io",
    kind: "IPAddress",
    plural: "ipaddresses",
    singular: "ipaddress",
    short_names: &["ip"],
    scope: Scope::Cluster,
    stored: Stored { prefix: "ipaddresses.networking.k8s.io", api_version: "networking.k8s.io/v1" },
    schema: "io.k8s.api.networking.v1.IPAddress",
    naming: Naming::Verbatim,
    name_faults: names::canonical_address,
    validate,
    validate_update,
    columns: &[Column::NAME, Column::text("ParentRef", "Whose address it is")],
    row,
    ..Kind::BASE
};

/// The same in its older version.
pub(super) static V1BETA1: Kind = Kind {
    version: "v1beta1",
    schema: "io.k8s.api.networking.v1beta1.IPAddress",
    deprecation: "networking.k8s.io/v1beta1 IPAddress is deprecated in v1.34+, unavailable in v1.37+",
    ..KIND
};

/// Holds the parent of an object against the rules: the same for all that stand for something that was given to somebody.
pub(super) fn validate(object: &Object, errors: &mut Errors) {
    let path = Path::new("spec").child("parentRef");
    let Some(parent) = object.at(&["spec", "parentRef"]).filter(|parent| parent.is_object()) else {
        return errors.required(&path, "");
    };
    let group = text(parent, "group");
    if !group.is_empty() {
        meta::invalid_text(&path.child("group"), group, names::subdomain(group, false), errors);
    }
    for name in ["resource", "name", "namespace"] {
        let value = text(parent, name);
        if value.is_empty() && name != "namespace" {
            errors.required(&path.child(name), "");
        }
        meta::invalid_text(&path.child(name), value, names::path_segment(value, false), errors);
    }
}

/// Notes a change of the parent, which is none that can be made.
pub(super) fn validate_update(new: &Object, old: &Object, errors: &mut Errors) {
    validate(new, errors);
    let parent = |object: &Object| {
        let names = [("Group", "group"), ("Resource", "resource"), ("Namespace", "namespace"), ("Name", "name")];
        object.at(&["spec", "parentRef"]).map_or_else(|| "null".to_owned(), |parent| shown(parent, &names))
    };
    if parent(new) != parent(old) {
        errors.invalid_shown(&Path::new("spec").child("parentRef"), &parent(new), meta::IMMUTABLE);
    }
}

fn row(object: &Object) -> Vec<Cell> {
    vec![object.name().into(), parent(object).into()]
}

/// Whose it is, in short: `services/default/web`.
pub(super) fn parent(object: &Object) -> String {
    match object.at(&["spec", "parentRef"]) {
        Some(parent) if parent.is_object() => {
            let (resource, group) = (text(parent, "resource"), text(parent, "group"));
            let dot = if group.is_empty() { "" } else { "." };
            let resource = format!("{resource}{dot}{group}").to_lowercase();
            let namespace = Some(text(parent, "namespace")).filter(|it| !it.is_empty());
            let parts = [Some(resource.as_str()), namespace, Some(text(parent, "name"))];
            parts.into_iter().flatten().collect::<Vec<_>>().join("/")
        }
        _ => printing::NONE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, row, update_faults};
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn an_address_has_a_parent_that_can_stand_in_a_path() {
        let with = |parent: Value| json!({"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": parent}});
        check_creates(
            &KIND,
            &[
                (with(json!({"resource": "services", "name": "a", "namespace": "b"})), &[]),
                (json!({}), &["spec.parentRef: Required value"]),
                (
                    with(json!({"group": "A"})),
                    &[
                        "spec.parentRef.group: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                        "spec.parentRef.resource: Required value",
                        "spec.parentRef.name: Required value",
                    ],
                ),
                (
                    with(json!({"resource": "a/b", "name": "..", "namespace": "%"})),
                    &[
                        "spec.parentRef.resource: Invalid value: \"a/b\": may not contain '/'",
                        "spec.parentRef.name: Invalid value: \"..\": may not be '..'",
                        "spec.parentRef.namespace: Invalid value: \"%\": may not contain '%'",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn the_name_is_an_address_in_canonical_form() {
        assert_eq!((KIND.name_faults)("fd00::1", false), [""; 0]);
        assert_eq!((KIND.name_faults)("FD00::1", false), ["must be in canonical form (\"fd00::1\")"]);
    }

    #[test]
    fn the_parent_never_changes() {
        let with = |name: &str| json!({"spec": {"parentRef": {"resource": "services", "name": name}}});
        assert_eq!(update_faults(&KIND, with("a"), with("a")), [""; 0]);
        assert_eq!(
            update_faults(&KIND, with("b"), with("a")),
            [
                "spec.parentRef: Invalid value: {\"Group\":\"\",\"Resource\":\"services\",\"Namespace\":\"\",\"Name\":\"b\"}: field is immutable"
            ]
        );
    }

    #[test]
    fn the_row_says_whose_it_is() {
        let now = "2026-01-01T00:00:00Z";
        let parent = json!({"group": "G.io", "resource": "Services", "namespace": "n", "name": "A"});
        assert_eq!(row(&KIND, json!({"spec": {"parentRef": parent}}), now), "|services.g.io/n/A");
        assert_eq!(
            row(&KIND, json!({"spec": {"parentRef": {"resource": "services", "name": "a"}}}), now),
            "|services/a"
        );
        assert_eq!(row(&KIND, json!({"metadata": {"name": "10.0.0.1"}}), now), "10.0.0.1|<none>");
    }
}
