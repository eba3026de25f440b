//! `ClusterCIDR`s: ranges that nodes get their pod ranges from.

use serde_json::Value;
use space::{Cidr, Family, Flaw};

use super::custom::CUSTOM;
use super::node_selector;
use crate::field::{Errors, Path};
use crate::kind::{Column, Kind, Scope, Stored};
use crate::object::Object;
use crate::reading::{number, part, text};
use crate::{meta, printing};

pub(super) static KIND: Kind = Kind {
    group: "networking.x-k8s.io",
    kind: "ClusterCIDR",
    plural: "clustercidrs",
    singular: "clustercidr",
    short_names: &["cc"],
    scope: Scope::Cluster,
    stored: Stored { prefix: "clustercidrs.networking.x-k8s.io", api_version: "networking.x-k8s.io/v1" },
    schema: "io.x-k8s.networking.v1.ClusterCIDR",
    validate,
    validate_update,
    columns: &[
        Column::NAME,
        Column::text("PerNodeHostBits", "How large the block of a node is, in bits"),
        Column::text("IPv4", "The IPv4 range"),
        Column::text("IPv6", "The IPv6 range"),
        Column { ty: "date", ..Column::AGE },
        Column::wide("NodeSelector", "Which nodes it is for"),
    ],
    row: |object| {
        let spec = part(object, "spec");
        vec![
            object.name().into(),
            number(spec, "perNodeHostBits").unwrap_or(0).to_string().into(),
            printing::or_none(text(spec, "ipv4")).into(),
            printing::or_none(text(spec, "ipv6")).into(),
            printing::age(object),
            printing::or_none(&node_selector::shown(spec.get("nodeSelector").unwrap_or(&Value::Null))).into(),
        ]
    },
    ..CUSTOM
};

/// Fewer addresses than 2 to the power of this are too few for a node.
const FEWEST_HOST_BITS: i64 = 4;

const FAMILIES: [(&str, &str, Family); 2] = [("ipv4", "IPv4", Family::V4), ("ipv6", "IPv6", Family::V6)];

fn validate(object: &Object, errors: &mut Errors) {
    let path = Path::new("spec");
    let spec = part(object, "spec");
    if let Some(selector) = spec.get("nodeSelector").filter(|selector| selector.is_object()) {
        node_selector::validate(&path.child("nodeSelector"), selector, errors);
    }
    if FAMILIES.iter().all(|(name, ..)| text(spec, name).is_empty()) {
        errors.invalid_whole(&path, "A CIDR must be specified for ipv4 or ipv6.");
    }
    for (name, shown, family) in FAMILIES {
        let written = text(spec, name);
        if written.is_empty() {
            continue;
        }
        match read(written, family) {
            Some(cidr) => validate_host_bits(&path, spec, family.width() - cidr.length(), errors),
            None => errors.invalid(
                &path.child(name),
                &Value::from(written),
                format!("{shown} must be a valid {shown} CIDR."),
            ),
        }
    }
}

/// The range in a text. Host bits are let pass, as they always were; what others read otherwise is not.
fn read(written: &str, family: Family) -> Option<Cidr> {
    let reading = Cidr::tolerant(written).ok()?;
    let ambiguous = reading.flaws.iter().any(|flaw| matches!(flaw, Flaw::LeadingZeros | Flaw::Mapped));
    (!ambiguous && reading.value.family() == family).then_some(reading.value)
}

fn validate_host_bits(path: &Path, spec: &Value, most: u8, errors: &mut Errors) {
    let Some(bits) = number(spec, "perNodeHostBits") else { return };
    let detail = match bits {
        ..FEWEST_HOST_BITS => format!("must be greater than or equal to {FEWEST_HOST_BITS}"),
        bits if bits > i64::from(most) => format!("must be less than or equal to {most}"),
        _ => return,
    };
    errors.invalid(&path.child("perNodeHostBits"), &Value::from(bits), detail);
}

/// A range that blocks were given from stays as it is: nothing may be changed, added or taken away. As nothing changes,
/// nothing is judged again: what was let in under other rules can still be labelled and finalized.
fn validate_update(new: &Object, old: &Object, errors: &mut Errors) {
    let path = Path::new("spec");
    for (name, shown) in
        [("ipv4", "IPv4"), ("ipv6", "IPv6"), ("nodeSelector", "NodeSelector"), ("perNodeHostBits", "PerNodeHostBits")]
    {
        let (new, old) = (new.at(&["spec", name]), old.at(&["spec", name]));
        if meta::same(new, old) {
            continue;
        }
        let detail = format!("{shown} cannot be changed.");
        match new {
            Some(value) if !value.is_object() => errors.invalid(&path.child(name), value, detail),
            _ => errors.invalid_whole(&path.child(name), detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, update_faults, with};
    use super::*;
    use serde_json::json;

    fn spec(bits: i64, ipv4: &str, ipv6: &str) -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"perNodeHostBits": bits, "ipv4": ipv4, "ipv6": ipv6}})
    }

    #[test]
    fn a_range_has_a_family_and_room_for_nodes() {
        let bounds = |bits: i64, bound: &str| format!("spec.perNodeHostBits: Invalid value: {bits}: must be {bound}");
        let (v4, v6) = ("10.0.0.0/16", "fd00::/64");
        for (object, faults) in [
            (spec(8, v4, ""), vec![]),
            (spec(16, v4, ""), vec![]),
            (spec(4, v4, v6), vec![]),
            (spec(64, "", v6), vec![]),
            (spec(100, "", "fd00::/16"), vec![]),
            (spec(8, "10.0.0.1/16", ""), vec![]),
            (spec(8, "", ""), vec!["spec: Invalid value: A CIDR must be specified for ipv4 or ipv6.".to_owned()]),
            (
                spec(8, "test", ""),
                vec!["spec.ipv4: Invalid value: \"test\": IPv4 must be a valid IPv4 CIDR.".to_owned()],
            ),
            (spec(8, v6, ""), vec![format!("spec.ipv4: Invalid value: \"{v6}\": IPv4 must be a valid IPv4 CIDR.")]),
            (spec(8, "", v4), vec![format!("spec.ipv6: Invalid value: \"{v4}\": IPv6 must be a valid IPv6 CIDR.")]),
            (
                spec(8, "010.0.0.0/16", "::ffff:10.0.0.0/112"),
                vec![
                    "spec.ipv4: Invalid value: \"010.0.0.0/16\": IPv4 must be a valid IPv4 CIDR.".to_owned(),
                    "spec.ipv6: Invalid value: \"::ffff:10.0.0.0/112\": IPv6 must be a valid IPv6 CIDR.".to_owned(),
                ],
            ),
            (spec(2, v4, ""), vec![bounds(2, "greater than or equal to 4")]),
            (spec(17, v4, ""), vec![bounds(17, "less than or equal to 16")]),
            (spec(24, v4, v6), vec![bounds(24, "less than or equal to 16")]),
            (spec(12, "", "fd00::/120"), vec![bounds(12, "less than or equal to 8")]),
        ] {
            assert_eq!(super::super::checking::create_faults(&KIND, object.clone()), faults, "{object}");
        }
    }

    #[test]
    fn the_row_shows_ranges_and_whom_they_are_for() {
        let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]);
        let object = with(spec(8, "10.0.0.0/16", ""), "/spec/nodeSelector", json!({"nodeSelectorTerms": terms}));
        let now = "2026-01-01T00:00:00Z";
        assert_eq!(super::super::checking::row(&KIND, object, now), "a|8|10.0.0.0/16|<none>|<unknown>|zone in (a,b)");
    }

    #[test]
    fn the_size_of_a_block_must_be_said() {
        check_creates(
            &KIND,
            &[
                (json!({"spec": {"ipv4": "10.0.0.0/16"}}), &["spec.perNodeHostBits: Required value"]),
                (json!({}), &["spec: Invalid value: A CIDR must be specified for ipv4 or ipv6."]),
            ],
        );
    }

    #[test]
    fn nothing_of_a_range_may_change_or_come_or_go() {
        let term =
            |key: &str| json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]});
        let old = with(spec(8, "10.0.0.0/16", "fd00::/64"), "/spec/nodeSelector", term("a"));
        assert_eq!(update_faults(&KIND, old.clone(), old.clone()), [""; 0]);
        let labelled = with(old.clone(), "/metadata/labels", json!({"a": "b"}));
        assert_eq!(update_faults(&KIND, labelled, old.clone()), [""; 0]);
        assert_eq!(
            update_faults(
                &KIND,
                with(spec(9, "10.1.0.0/16", "fd01::/64"), "/spec/nodeSelector", term("b")),
                old.clone()
            ),
            [
                "spec.ipv4: Invalid value: \"10.1.0.0/16\": IPv4 cannot be changed.",
                "spec.ipv6: Invalid value: \"fd01::/64\": IPv6 cannot be changed.",
                "spec.nodeSelector: Invalid value: NodeSelector cannot be changed.",
                "spec.perNodeHostBits: Invalid value: 9: PerNodeHostBits cannot be changed.",
            ]
        );
        assert_eq!(
            update_faults(&KIND, json!({"spec": {"perNodeHostBits": 8, "ipv4": "10.0.0.0/16"}}), old),
            [
                "spec.ipv6: Invalid value: IPv6 cannot be changed.",
                "spec.nodeSelector: Invalid value: NodeSelector cannot be changed.",
            ]
        );
    }
}
