//! `ServiceCIDR`s: the ranges that Services get their addresses from.

use serde_json::{Value, json};
use space::Cidr;

use crate::field::{Errors, Path};
use crate::kind::{Column, Kind, Scope, Stored, Subresource};
use crate::object::Object;
use crate::reading::{part, texts};
use crate::{meta, names, printing};

pub(super) static KIND: Kind = Kind {
    group: "networking.k8s.io",
    kind: "ServiceCIDR",
    plural: "servicecidrs",
    singular: "servicecidr",
    scope: Scope::Cluster,
    subresources: &[Subresource::Status],
    stored: Stored { prefix: "servicecidrs.networking.k8s.io", api_version: "networking.k8s.io/v1" },
    schema: "io.k8s.api.networking.v1.ServiceCIDR",
    status_writes_metadata: false,
    status_ignores: &[&["metadata"], &["spec"]],
    prepare_create: Some(|object| {
        object.remove(&["status"]);
    }),
    validate,
    validate_update,
    columns: &[Column::NAME, Column::text("CIDRs", "Its ranges, one for each family"), Column::AGE],
    row: |object| vec![object.name().into(), cidrs(object).join(",").into(), printing::age(object)],
    ..Kind::BASE
};

/// The same in its older version.
pub(super) static V1BETA1: Kind = Kind {
    version: "v1beta1",
    schema: "io.k8s.api.networking.v1beta1.ServiceCIDR",
    deprecation: "networking.k8s.io/v1beta1 ServiceCIDR is deprecated in v1.34+, unavailable in v1.37+",
    ..KIND
};

fn cidrs(object: &Object) -> Vec<&str> {
    texts(part(object, "spec"), "cidrs").collect()
}

fn validate(object: &Object, errors: &mut Errors) {
    let path = Path::new("spec").child("cidrs");
    let cidrs = cidrs(object);
    if cidrs.is_empty() {
        return errors.required(&path, "at least one CIDR required");
    }
    if cidrs.len() > 2 {
        return errors.invalid(&path, &json!({"CIDRs": cidrs}), "may only hold up to 2 values");
    }
    for (index, cidr) in cidrs.iter().enumerate() {
        meta::invalid_text(&path.index(index), cidr, names::canonical_cidr(cidr), errors);
    }
    let family = |cidr: &&str| Cidr::tolerant(cidr).ok().map(|reading| reading.value.family());
    if let [Some(first), Some(second)] = cidrs.iter().map(family).collect::<Vec<_>>()[..]
        && first == second
    {
        errors.invalid(
            &path,
            &Value::from(cidrs),
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
        );
    }
}

/// Ranges stay; a second family may join the first.
fn validate_update(new: &Object, old: &Object, errors: &mut Errors) {
    let path = Path::new("spec").child("cidrs");
    let (new_cidrs, old_cidrs) = (cidrs(new), cidrs(old));
    let grows = old_cidrs.len() == 1 && new_cidrs.len() == 2;
    if new_cidrs.len() != old_cidrs.len() && !grows {
        let shown = new.at(&["spec", "cidrs"]).unwrap_or(&Value::Null);
        return errors.invalid(&path, shown, meta::IMMUTABLE);
    }
    for (index, (new, old)) in new_cidrs.iter().zip(&old_cidrs).enumerate() {
        if new != old {
            errors.invalid(&path.index(index), &Value::from(*new), meta::IMMUTABLE);
        }
    }
    if grows {
        validate(new, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, created, row, update_faults};
    use super::*;

    fn with(cidrs: &[&str]) -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"cidrs": cidrs}})
    }

    #[test]
    fn there_are_one_or_two_ranges_of_different_families_in_canonical_form() {
        check_creates(
            &KIND,
            &[
                (with(&["10.0.0.0/24"]), &[]),
                (with(&["fd00::/64", "10.0.0.0/24"]), &[]),
                (with(&[]), &["spec.cidrs: Required value: at least one CIDR required"]),
                (
                    with(&["a", "b", "c"]),
                    &["spec.cidrs: Invalid value: {\"CIDRs\":[\"a\",\"b\",\"c\"]}: may only hold up to 2 values"],
                ),
                (
                    with(&["10.0.0.1/24"]),
                    &["spec.cidrs[0]: Invalid value: \"10.0.0.1/24\": must not have bits set beyond the prefix length"],
                ),
                (
                    with(&["FD00::/64"]),
                    &["spec.cidrs[0]: Invalid value: \"FD00::/64\": must be in canonical form (\"fd00::/64\")"],
                ),
                (
                    with(&["10.0.0.0/24", "10.0.1.0/24"]),
                    &[
                        "spec.cidrs: Invalid value: [\"10.0.0.0/24\",\"10.0.1.0/24\"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn ranges_stay_and_a_second_family_may_join() {
        let (v4, v6) = ("10.0.0.0/24", "fd00::/64");
        for (new, old, faults) in [
            (vec![v4], vec![v4], vec![]),
            (vec![v4, v6], vec![v4], vec![]),
            (vec![v6], vec![v4], vec!["spec.cidrs[0]: Invalid value: \"fd00::/64\": field is immutable"]),
            (vec![v6, v4], vec![v4], vec!["spec.cidrs[0]: Invalid value: \"fd00::/64\": field is immutable"]),
            (vec![v4], vec![v4, v6], vec!["spec.cidrs: Invalid value: [\"10.0.0.0/24\"]: field is immutable"]),
            // No ranges and an empty list of them are the same once stored.
            (vec![], vec![v4], vec!["spec.cidrs: Invalid value: null: field is immutable"]),
            (
                vec![v4, "10.1.0.0/24"],
                vec![v4],
                vec![
                    "spec.cidrs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
                ],
            ),
        ] {
            assert_eq!(update_faults(&KIND, with(&new), with(&old)), faults, "{old:?} -> {new:?}");
        }
    }

    #[test]
    fn a_create_says_nothing_about_the_status() {
        let mut object = with(&["10.0.0.0/24"]);
        object["status"] = json!({"conditions": [{"type": "Ready"}]});
        assert_eq!(created(&KIND, object).at(&["status"]), Some(&json!({})));
    }

    #[test]
    fn the_row_joins_the_ranges() {
        assert_eq!(
            row(&KIND, with(&["10.0.0.0/24", "fd00::/64"]), "2026-01-01T00:00:00Z"),
            "a|10.0.0.0/24,fd00::/64|<unknown>"
        );
    }
}
