//! `NodePortRange`s: where node ports come from.

use serde_json::Value;

use super::custom::CUSTOM;
use crate::field::{Errors, Path};
use crate::kind::{Column, Kind, Scope, Stored};
use crate::object::Object;
use crate::{meta, names, printing};

pub(super) static KIND: Kind = Kind {
    group: "ipam.cadastre.dev",
    version: "v1alpha1",
    kind: "NodePortRange",
    plural: "nodeportranges",
    singular: "nodeportrange",
    scope: Scope::Cluster,
    stored: Stored { prefix: "nodeportranges.ipam.cadastre.dev", api_version: "ipam.cadastre.dev/v1alpha1" },
    schema: "dev.cadastre.ipam.v1alpha1.NodePortRange",
    validate,
    validate_update,
    columns: &[
        Column::NAME,
        Column::text("Ports", "The first and the last port"),
        Column { ty: "date", ..Column::AGE },
    ],
    row: |object| vec![object.name().into(), ports(object).into(), printing::age(object)],
    ..CUSTOM
};

fn ports(object: &Object) -> &str {
    object.text(&["spec", "ports"])
}

fn path() -> Path {
    Path::new("spec").child("ports")
}

fn validate(object: &Object, errors: &mut Errors) {
    if !ports(object).is_empty() && names::port_range(ports(object)).is_none() {
        errors.invalid(&path(), &Value::from(ports(object)), "must be FROM-TO, two ports between 1 and 65535");
    }
}

fn validate_update(new: &Object, old: &Object, errors: &mut Errors) {
    validate(new, errors);
    if ports(new) != ports(old) {
        errors.invalid(&path(), &Value::from(ports(new)), meta::IMMUTABLE);
    }
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, row, update_faults};
    use super::*;
    use serde_json::json;

    #[test]
    fn a_range_has_two_ends_and_stays() {
        let with = |ports: &str| json!({"metadata": {"name": "a"}, "spec": {"ports": ports}});
        let wrong = "must be FROM-TO, two ports between 1 and 65535";
        check_creates(
            &KIND,
            &[
                (with("30000-32767"), &[]),
                (json!({"spec": {}}), &["spec.ports: Required value"]),
                (with("2-1"), &[&format!("spec.ports: Invalid value: \"2-1\": {wrong}")]),
                (with("0-9"), &[&format!("spec.ports: Invalid value: \"0-9\": {wrong}")]),
            ],
        );
        assert_eq!(
            update_faults(&KIND, with("30000-30001"), with("30000-32767")),
            ["spec.ports: Invalid value: \"30000-30001\": field is immutable"]
        );
        assert_eq!(row(&KIND, with("30000-32767"), "2026-01-01T00:00:00Z"), "a|30000-32767|<unknown>");
    }
}
