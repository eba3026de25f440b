//! `NodePort`s: which Service was given which port of the nodes. The name of one is the number itself.

use super::custom::CUSTOM;
use super::ip_address;
use crate::field::{Errors, Path};
use crate::kind::{Column, Kind, Naming, Scope, Stored};
use crate::object::Object;
use crate::{meta, names, printing};

pub(super) static KIND: Kind = Kind {
    group: "ipam.cadastre.dev",
    version: "v1alpha1",
    kind: "NodePort",
    plural: "nodeports",
    singular: "nodeport",
    scope: Scope::Cluster,
    stored: Stored { prefix: "nodeports.ipam.cadastre.dev", api_version: "ipam.cadastre.dev/v1alpha1" },
    schema: "dev.cadastre.ipam.v1alpha1.NodePort",
    naming: Naming::Verbatim,
    name_faults: |name, _| names::canonical_port(name),
    validate: ip_address::validate,
    validate_update,
    columns: &[Column::NAME, Column::text("ParentRef", "Whose port it is"), Column { ty: "date", ..Column::AGE }],
    row: |object| vec![object.name().into(), ip_address::parent(object).into(), printing::age(object)],
    ..CUSTOM
};

/// The same as of addresses, and that it stays with the very Service that it was given to.
fn validate_update(new: &Object, old: &Object, errors: &mut Errors) {
    ip_address::validate_update(new, old, errors);
    let uid = |object: &Object| object.text(&["spec", "parentRef", "uid"]).to_owned();
    if uid(new) != uid(old) {
        let path = Path::new("spec").child("parentRef").child("uid");
        errors.invalid(&path, &uid(new).into(), meta::IMMUTABLE);
    }
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, row, update_faults};
    use super::*;
    use serde_json::{Value, json};

    fn with(parent: &Value) -> Value {
        json!({"metadata": {"name": "30080"}, "spec": {"parentRef": parent}})
    }

    #[test]
    fn a_port_has_a_parent_that_stays() {
        let parent = json!({"resource": "services", "name": "a", "namespace": "b", "uid": "u"});
        check_creates(&KIND, &[(with(&parent), &[]), (json!({}), &["spec.parentRef: Required value"])]);
        let other = json!({"resource": "services", "name": "c", "namespace": "b", "uid": "u"});
        assert_eq!(update_faults(&KIND, with(&parent), with(&parent)), [""; 0]);
        assert_eq!(update_faults(&KIND, with(&other), with(&parent)).len(), 1);
        let mut another = parent.clone();
        another["uid"] = json!("v");
        assert_eq!(
            update_faults(&KIND, with(&another), with(&parent)),
            ["spec.parentRef.uid: Invalid value: \"v\": field is immutable"]
        );
    }

    #[test]
    fn the_name_is_a_port_as_it_is_counted() {
        assert_eq!((KIND.name_faults)("30080", false), [""; 0]);
        for wrong in ["", "0", "65536", "030080", "+1", "x"] {
            assert_eq!((KIND.name_faults)(wrong, false), ["must be a port number between 1 and 65535"], "{wrong}");
        }
    }

    #[test]
    fn the_row_says_whose_it_is() {
        let parent = json!({"resource": "services", "namespace": "n", "name": "a"});
        assert_eq!(row(&KIND, with(&parent), "2026-01-01T00:00:00Z"), "30080|services/n/a|<unknown>");
    }
}
