//! `ClusterCIDR`s: ranges that nodes get their pod ranges from.

mod declared;
mod spec;

use serde_json::Value;

use super::custom::CUSTOM;
use super::node_selector;
use crate::field::{Errors, Path};
use crate::kind::{Column, Kind, Scope, Stored, Subresource};
use crate::object::Object;
use crate::reading::{number, part, text};
use crate::selector::Terms;
use crate::{meta, printing};

pub use spec::{ClusterCidr, FamilyRange, SizeFrom, Sizing};

pub(super) static KIND: Kind = Kind {
    group: "networking.x-k8s.io",
    kind: "ClusterCIDR",
    plural: "clustercidrs",
    singular: "clustercidr",
    short_names: &["cc"],
    scope: Scope::Cluster,
    subresources: &[Subresource::Status],
    status_writes_metadata: false,
    stored: Stored { prefix: "clustercidrs.networking.x-k8s.io", api_version: "networking.x-k8s.io/v1" },
    schema: "io.x-k8s.networking.v1.ClusterCIDR",
    prepare_create: Some(|object| drop(object.remove(&["status"]))),
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
    custom: Some(&declared::CUSTOM_RESOURCE),
    ..CUSTOM
};

fn validate(object: &Object, errors: &mut Errors) {
    spec::read(part(object, "spec"), Terms::Any, errors);
}

/// The fields that stay as they are, and how messages name them.
const IMMUTABLE: [(&str, &str); 6] = [
    ("ipv4", "IPv4"),
    ("ipv6", "IPv6"),
    ("nodeSelector", "NodeSelector"),
    ("perNodeHostBits", "PerNodeHostBits"),
    ("perNodeHostBitsIPv4", "PerNodeHostBitsIPv4"),
    ("perNodeHostBitsIPv6", "PerNodeHostBitsIPv6"),
];

/// Of a range that blocks were given from, nothing that they were cut by may be changed, added or taken away. While its spec
/// is as it was, nothing is judged again: what was let in under other rules can still be labelled and finalized.
fn validate_update(new: &Object, old: &Object, errors: &mut Errors) {
    let path = Path::new("spec");
    let before = errors.len();
    for (name, shown) in IMMUTABLE {
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
    if errors.len() == before && new.fields().get("spec") != old.fields().get("spec") {
        validate(new, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, create_faults, created, row, update_faults, with};
    use super::*;
    use serde_json::json;

    fn spec(bits: i64, ipv4: &str, ipv6: &str) -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"perNodeHostBits": bits, "ipv4": ipv4, "ipv6": ipv6}})
    }

    /// The tables of peers that have this kind: what they take and what they refuse, by the host bits and the two ranges.
    #[test]
    fn a_range_has_a_family_and_room_for_nodes() {
        let bounds = |bits: i64, bound: &str| format!("spec.perNodeHostBits: Invalid value: {bits}: must be {bound}");
        let none = "spec: Invalid value: A CIDR must be specified for ipv4 or ipv6.".to_owned();
        let not_v4 = |text: &str| format!("spec.ipv4: Invalid value: {text:?}: IPv4 must be a valid IPv4 CIDR.");
        let not_v6 = |text: &str| format!("spec.ipv6: Invalid value: {text:?}: IPv6 must be a valid IPv6 CIDR.");
        let (v4, v6) = ("10.0.0.0/16", "fd00::/64");
        for (object, faults) in [
            (spec(8, v4, ""), vec![]),
            (spec(16, v4, ""), vec![]),
            (spec(4, v4, ""), vec![]),
            (spec(8, "", v6), vec![]),
            (spec(64, "", v6), vec![]),
            (spec(4, "", v6), vec![]),
            (spec(100, "", "fd00::/16"), vec![]),
            (spec(8, v4, v6), vec![]),
            (spec(10, "10.0.0.0/20", "fd12:3456:789a:1::/64"), vec![]),
            (spec(8, "10.0.0.1/16", ""), vec![]),
            (spec(8, "", ""), vec![none]),
            (spec(8, "test", ""), vec![not_v4("test")]),
            (spec(8, "", "testv6"), vec![not_v6("testv6")]),
            (spec(8, v6, ""), vec![not_v4(v6)]),
            (spec(8, "", v4), vec![not_v6(v4)]),
            (spec(8, v4, "testv6"), vec![not_v6("testv6")]),
            (spec(8, "testv4", v6), vec![not_v4("testv4")]),
            (
                spec(8, "010.0.0.0/16", "::ffff:10.0.0.0/112"),
                vec![not_v4("010.0.0.0/16"), not_v6("::ffff:10.0.0.0/112")],
            ),
            (spec(100, v4, ""), vec![bounds(100, "less than or equal to 16")]),
            (spec(17, v4, ""), vec![bounds(17, "less than or equal to 16")]),
            (spec(24, v4, v6), vec![bounds(24, "less than or equal to 16")]),
            (spec(12, "", "fd00::/120"), vec![bounds(12, "less than or equal to 8")]),
            (spec(2, v4, ""), vec![bounds(2, "greater than or equal to 4")]),
            (spec(-1, v4, ""), vec![bounds(-1, "greater than or equal to 4")]),
            (spec(3, "", v6), vec![bounds(3, "greater than or equal to 4")]),
        ] {
            assert_eq!(create_faults(&KIND, object.clone()), faults, "{object}");
        }
    }

    #[test]
    fn a_selector_can_be_matched() {
        let selector = |one: Value| {
            with(
                spec(8, "10.0.0.0/16", ""),
                "/spec/nodeSelector",
                json!({"nodeSelectorTerms": [{"matchExpressions": [one]}]}),
            )
        };
        let faults = |one: Value| create_faults(&KIND, selector(one));
        assert_eq!(faults(json!({"key": "foo", "operator": "In", "values": ["bar"]})), [""; 0]);
        let keys = faults(json!({"key": "NoUppercaseOrSpecialCharsLike=Equals", "operator": "In", "values": ["bar"]}));
        assert_eq!(keys.len(), 1, "{keys:?}");
        assert!(keys[0].starts_with("spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].key: Invalid value"));
        let numbers = faults(json!({"key": "foo", "operator": "Gt", "values": ["bar"]}));
        assert_eq!(numbers.len(), 1, "{numbers:?}");
        assert!(numbers[0].contains("the value must be an integer"), "{numbers:?}");
        let empty = with(spec(8, "10.0.0.0/16", ""), "/spec/nodeSelector", json!({"nodeSelectorTerms": []}));
        let none = "spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term";
        assert_eq!(create_faults(&KIND, empty), [none]);
    }

    /// A dual-stack range with one more field.
    fn more(name: &str, value: Value) -> Value {
        with(spec(8, "10.0.0.0/16", "fd00::/48"), &format!("/spec/{name}"), value)
    }

    #[test]
    fn each_family_can_have_a_size_of_its_own() {
        let wide = more("perNodeHostBitsIPv6", json!(64));
        assert_eq!(create_faults(&KIND, wide.clone()), [""; 0]);
        let read = ClusterCidr::read(&wide["spec"], Terms::Any).unwrap();
        let (v4, v6) = (read.ipv4.unwrap(), read.ipv6.unwrap());
        assert_eq!((v4.host_bits, v4.sized, v6.host_bits, v6.sized), (8, true, 64, false));
        let lone = with(spec(8, "10.0.0.0/16", ""), "/spec/perNodeHostBitsIPv6", 64);
        for (object, fault) in [
            (lone, "spec.perNodeHostBitsIPv6: Forbidden: may not be specified without `ipv6`"),
            (
                more("perNodeHostBitsIPv4", json!(17)),
                "spec.perNodeHostBitsIPv4: Invalid value: 17: must be less than or equal to 16",
            ),
            (
                more("perNodeHostBitsIPv6", json!(1)),
                "spec.perNodeHostBitsIPv6: Invalid value: 1: must be greater than or equal to 4",
            ),
        ] {
            assert_eq!(create_faults(&KIND, object), [fault]);
        }
    }

    #[test]
    fn exclusions_are_exact_and_leave_something() {
        assert_eq!(create_faults(&KIND, more("exclude", json!(["10.0.4.0/22", "192.168.0.0/16"]))), [""; 0]);
        for (excluded, fault) in [
            (
                json!(["10.0.0.1/24"]),
                "spec.exclude[0]: Invalid value: \"10.0.0.1/24\": must be a CIDR: bits are set beyond the prefix length (write 10.0.0.0/24)",
            ),
            (
                json!(["10.0.0.0/8"]),
                "spec.exclude: Invalid value: [\"10.0.0.0/8\"]: ipv4 10.0.0.0/16: the exclusions leave no whole /24 in the range",
            ),
            (json!(vec!["10.0.0.0/24"; 65]), "spec.exclude: Too many: 65: must have at most 64 items"),
        ] {
            assert_eq!(create_faults(&KIND, more("exclude", excluded)), [fault]);
        }
    }

    #[test]
    fn sizes_follow_from_nodes_within_bounds() {
        let sizing = |sizing: Value| create_faults(&KIND, more("sizing", sizing));
        let of = |object: &Value| ClusterCidr::read(&object["spec"], Terms::Any).unwrap().sizing.unwrap();
        let open = of(&more("sizing", json!({"from": "PodCapacity"})));
        assert_eq!(open, Sizing { from: SizeFrom::PodCapacity(1), bits: 4..=16 });
        let bound = of(&more("sizing", json!({"from": "Annotation", "minHostBits": 6, "maxHostBits": 10})));
        assert_eq!(bound, Sizing { from: SizeFrom::Annotation, bits: 6..=10 });
        for (written, fault) in [
            (json!({}), "spec.sizing.from: Required value"),
            (
                json!({"from": "Mood"}),
                "spec.sizing.from: Unsupported value: \"Mood\": supported values: \"Annotation\", \"PodCapacity\"",
            ),
            (
                json!({"from": "PodCapacity", "maxHostBits": 17}),
                "spec.sizing.maxHostBits: Invalid value: 17: must be less than or equal to 16",
            ),
            (
                json!({"from": "PodCapacity", "minHostBits": 9, "maxHostBits": 8}),
                "spec.sizing.minHostBits: Invalid value: 9: must be less than or equal to `maxHostBits`, 8",
            ),
            (
                json!({"from": "PodCapacity", "addressesPerPod": 0}),
                "spec.sizing.addressesPerPod: Invalid value: 0: must be between 1 and 64, inclusive",
            ),
            (
                json!({"from": "Annotation", "addressesPerPod": 2}),
                "spec.sizing.addressesPerPod: Forbidden: may only be specified when `from` is 'PodCapacity'",
            ),
        ] {
            assert_eq!(sizing(written), [fault]);
        }
        let own = with(more("perNodeHostBitsIPv6", json!(64)), "/spec/perNodeHostBitsIPv4", 8);
        let vain = "spec.sizing: Forbidden: may not be specified when every family has host bits of its own";
        assert_eq!(create_faults(&KIND, with(own, "/spec/sizing", json!({"from": "Annotation"}))), [vain]);
    }

    #[test]
    fn labels_to_wait_for_are_keys_and_ipv6_comes_first_only_of_two() {
        assert_eq!(create_faults(&KIND, more("requiredNodeLabels", json!(["topology.kubernetes.io/zone"]))), [""; 0]);
        let bad = create_faults(&KIND, more("requiredNodeLabels", json!(["a=b"])));
        assert!(bad[0].starts_with("spec.requiredNodeLabels[0]: Invalid value: \"a=b\": name part"), "{bad:?}");
        let first = more("primaryFamily", json!("IPv6"));
        assert_eq!(create_faults(&KIND, first.clone()), [""; 0]);
        assert!(ClusterCidr::read(&first["spec"], Terms::Any).unwrap().ipv6_first);
        for (object, fault) in [
            (
                with(spec(8, "10.0.0.0/16", ""), "/spec/primaryFamily", "IPv6"),
                "spec.primaryFamily: Forbidden: may only be 'IPv6' when both `ipv4` and `ipv6` are specified",
            ),
            (
                more("primaryFamily", json!("IPv5")),
                "spec.primaryFamily: Unsupported value: \"IPv5\": supported values: \"IPv4\", \"IPv6\"",
            ),
        ] {
            assert_eq!(create_faults(&KIND, object), [fault]);
        }
    }

    #[test]
    fn what_only_new_grants_look_at_may_change() {
        let old = spec(8, "10.0.0.0/16", "fd00::/48");
        for (name, value) in [
            ("priority", json!(5)),
            ("suspend", json!(true)),
            ("exclude", json!(["10.0.0.0/24"])),
            ("sizing", json!({"from": "PodCapacity"})),
            ("requiredNodeLabels", json!(["zone"])),
            ("primaryFamily", json!("IPv6")),
        ] {
            assert_eq!(update_faults(&KIND, more(name, value), old.clone()), [""; 0], "{name}");
        }
        let fault = "spec.primaryFamily: Unsupported value: \"x\": supported values: \"IPv4\", \"IPv6\"";
        assert_eq!(update_faults(&KIND, more("primaryFamily", json!("x")), old), [fault]);
    }

    #[test]
    fn what_was_let_in_under_other_rules_can_be_labelled() {
        let old = spec(1, "10.0.0.0/16", "");
        let labelled = with(old.clone(), "/metadata/labels", json!({"a": "b"}));
        assert_eq!(update_faults(&KIND, labelled, old), [""; 0]);
    }

    #[test]
    fn a_create_says_nothing_about_the_status() {
        let object = with(spec(8, "10.0.0.0/16", ""), "/status", json!({"nodeCount": 5}));
        assert_eq!(created(&KIND, object).at(&["status"]), None);
    }

    #[test]
    fn the_row_shows_ranges_and_whom_they_are_for() {
        let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]);
        let object = with(spec(8, "10.0.0.0/16", ""), "/spec/nodeSelector", json!({"nodeSelectorTerms": terms}));
        let now = "2026-01-01T00:00:00Z";
        assert_eq!(row(&KIND, object, now), "a|8|10.0.0.0/16|<none>|<unknown>|zone in (a,b)");
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
            update_faults(&KIND, with(old.clone(), "/spec/perNodeHostBitsIPv6", 64), old.clone()),
            ["spec.perNodeHostBitsIPv6: Invalid value: 64: PerNodeHostBitsIPv6 cannot be changed."]
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
