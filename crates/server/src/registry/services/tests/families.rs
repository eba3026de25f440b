//! Families and policies, in the four shapes of a cluster.

use serde_json::{Value, json};

use super::{Rig, said};

/// The policy and the families that a new Service gets, or why it gets none.
fn settled(shape: &str, mut spec: Value) -> String {
    spec["type"] = json!("ClusterIP");
    if let Some(first) = spec["clusterIPs"].get(0).cloned() {
        spec["clusterIP"] = first;
    }
    match Rig::new(shape).decide(None, &spec) {
        Ok(decision) => {
            let service = decision.service;
            let policy = service.policy.unwrap_or_default();
            assert_eq!(
                service.addresses.first(),
                Some(&service.address),
                "the first of all is the only one of old clients"
            );
            format!("{policy} {}", service.families.join(","))
        }
        Err(refusal) => said(&refusal),
    }
}

fn check(cases: &[(&str, Value, &str)]) {
    for (shapes, spec, expected) in cases {
        for shape in shapes.split(' ') {
            assert_eq!(settled(shape, spec.clone()), *expected, "{shape}: {spec}");
        }
    }
}

const ALONE: &str =
    "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services";

#[test]
fn what_is_not_said_is_what_the_cluster_prefers() {
    check(&[
        ("4 46", json!({}), "SingleStack IPv4"),
        ("6 64", json!({}), "SingleStack IPv6"),
        ("4", json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv4"),
        ("6", json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv6"),
        ("46", json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv4,IPv6"),
        ("64", json!({"ipFamilyPolicy": "RequireDualStack"}), "RequireDualStack IPv6,IPv4"),
        ("4 6", json!({"ipFamilyPolicy": "RequireDualStack"}), ALONE),
    ]);
}

#[test]
fn families_that_are_named_come_first_and_have_to_be_there() {
    check(&[
        ("64", json!({"ipFamilies": ["IPv4"]}), "SingleStack IPv4"),
        ("46", json!({"ipFamilies": ["IPv6"], "ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv6,IPv4"),
        (
            "46 64",
            json!({"ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "RequireDualStack"}),
            "RequireDualStack IPv6,IPv4",
        ),
        (
            "4",
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            "46",
            json!({"ipFamilies": ["IPv4", "IPv6"]}),
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        ),
        (
            "4",
            json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services; spec.ipFamilies[1]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            "46",
            json!({"ipFamilies": ["X"]}),
            "spec.ipFamilies[0]: Unsupported value: \"X\": supported values: \"IPv4\", \"IPv6\"",
        ),
    ]);
}

#[test]
fn addresses_say_of_which_family_they_are() {
    check(&[
        ("46 64", json!({"clusterIPs": ["fd00::1"]}), "SingleStack IPv6"),
        ("46", json!({"clusterIPs": ["fd00::1"], "ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv6,IPv4"),
        (
            "46",
            json!({"clusterIPs": ["10.0.0.1", "fd00::1"]}),
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified",
        ),
        (
            "4",
            json!({"clusterIPs": ["fd00::1"]}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
        ),
        (
            "6",
            json!({"clusterIPs": ["fd00::1", "10.0.0.1"], "ipFamilyPolicy": "PreferDualStack"}),
            "spec.clusterIPs[1]: Invalid value: [\"fd00::1\",\"10.0.0.1\"]: IPv4 is not configured on this cluster",
        ),
    ]);
}

#[test]
fn a_name_without_addresses_and_selector_is_of_any_family() {
    let headless = |mut spec: Value| {
        spec["clusterIPs"] = json!(["None"]);
        spec
    };
    check(&[
        ("4 46", headless(json!({})), "RequireDualStack IPv4,IPv6"),
        ("6 64", headless(json!({})), "RequireDualStack IPv6,IPv4"),
        ("4", headless(json!({"ipFamilies": ["IPv6"]})), "RequireDualStack IPv6,IPv4"),
        ("4", headless(json!({"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"})), "SingleStack IPv6"),
        // With a selector it is like any other.
        ("4 46", headless(json!({"selector": {"a": "b"}})), "SingleStack IPv4"),
        ("4", headless(json!({"selector": {"a": "b"}, "ipFamilyPolicy": "RequireDualStack"})), ALONE),
        (
            "46",
            headless(json!({"selector": {"a": "b"}, "ipFamilyPolicy": "PreferDualStack"})),
            "PreferDualStack IPv4,IPv6",
        ),
    ]);
}

#[test]
fn what_is_wrong_by_itself_is_said_before_anything_is_given() {
    let mut rig = Rig::new("46");
    let refusal = rig.decide(None, &json!({"type": "ClusterIP", "clusterIP": "x", "clusterIPs": ["x"]})).unwrap_err();
    assert!(said(&refusal).starts_with("spec.clusterIPs[0]: Invalid value: \"x\": must be a valid IP address"));
    assert_eq!(rig.claims(), 0);
}
