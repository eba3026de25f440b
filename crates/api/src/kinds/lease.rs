//! Leases: who leads, and until when. Controllers renew them every few seconds, so their rules are few and cheap.

use serde_json::Value;

use crate::field::{Errors, Path};
use crate::kind::{Column, Kind, Stored};
use crate::object::Object;
use crate::printing;
use crate::reading::{number, part};

pub(super) static KIND: Kind = Kind {
    group: "coordination.k8s.io",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    stored: Stored { prefix: "leases.coordination.k8s.io", api_version: "coordination.k8s.io/v1" },
    schema: "io.k8s.api.coordination.v1.Lease",
    unconditional_update: false,
    create_on_update: true,
    // These two belong to coordinated election, which nobody here takes part in.
    prepare_create: Some(|object| {
        object.remove(&["spec", "strategy"]);
        object.remove(&["spec", "preferredHolder"]);
    }),
    prepare_update,
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    columns: &[Column::NAME, Column::text("Holder", "Who holds it"), Column::AGE],
    row: |object| vec![object.name().into(), object.text(&["spec", "holderIdentity"]).into(), printing::age(object)],
    ..Kind::BASE
};

fn prepare_update(new: &mut Object, old: &Object) {
    for name in ["strategy", "preferredHolder"] {
        if old.at(&["spec", name]).is_none_or(Value::is_null) {
            new.remove(&["spec", name]);
        }
    }
}

fn validate(object: &Object, errors: &mut Errors) {
    let spec = part(object, "spec");
    let path = || Path::new("spec");
    if let Some(seconds) = number(spec, "leaseDurationSeconds")
        && seconds <= 0
    {
        errors.invalid(&path().child("leaseDurationSeconds"), &Value::from(seconds), "must be greater than 0");
    }
    if let Some(count) = number(spec, "leaseTransitions")
        && count < 0
    {
        errors.invalid(&path().child("leaseTransitions"), &Value::from(count), "must be greater than or equal to 0");
    }
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, created, row, update_faults};
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_are_positive_and_transitions_not_negative() {
        check_creates(
            &KIND,
            &[
                (json!({}), &[]),
                (json!({"spec": {"leaseDurationSeconds": 1, "leaseTransitions": 0}}), &[]),
                (
                    json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
                    &[
                        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
                    ],
                ),
            ],
        );
        assert_eq!(
            update_faults(&KIND, json!({"spec": {"leaseDurationSeconds": -1}}), json!({})),
            ["spec.leaseDurationSeconds: Invalid value: -1: must be greater than 0"]
        );
    }

    #[test]
    fn the_fields_of_coordinated_election_are_dropped() {
        let lease = created(&KIND, json!({"spec": {"strategy": "x", "preferredHolder": "y", "holderIdentity": "z"}}));
        assert_eq!(lease.at(&["spec"]), Some(&json!({"holderIdentity": "z"})));
    }

    #[test]
    fn the_row_names_the_holder() {
        let object = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}});
        assert_eq!(row(&KIND, object, "2026-01-01T00:00:00Z"), "a|me|<unknown>");
    }
}
