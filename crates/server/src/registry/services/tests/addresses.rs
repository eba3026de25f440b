//! Addresses: given, kept and freed with every change that a Service can go through.

use serde_json::{Value, json};

use super::{Rig, grants, said, shown};

const TAKEN: &str = "provided IP is already allocated";
const OUTSIDE: &str = "the provided network does not match the current range";

fn spec(kind: &str, addresses: &[&str], families: &[&str], policy: &str) -> Value {
    let mut spec = json!({"type": kind});
    if let Some(first) = addresses.first() {
        spec["clusterIP"] = json!(first);
        spec["clusterIPs"] = json!(addresses);
    }
    if !families.is_empty() {
        spec["ipFamilies"] = json!(families);
    }
    if !policy.is_empty() {
        spec["ipFamilyPolicy"] = json!(policy);
    }
    spec
}

/// What an update does: the addresses after it, what is taken and what is freed; or why it cannot be.
fn updated(shape: &str, before: &Value, after: &Value) -> String {
    let mut rig = Rig::new(shape).holds(before);
    match rig.decide(Some(before), after) {
        Ok(decision) => {
            let addresses = decision.service.addresses.join(",");
            format!("{addresses} +{} -{}", shown(&grants(&decision.taken)), shown(&decision.freed))
        }
        Err(refusal) => said(&refusal),
    }
}

#[test]
fn a_new_service_gets_one_of_each_family_named_or_any() {
    for (shape, asked, expected) in [
        ("4", spec("ClusterIP", &[], &[], ""), "10.0.0.1"),
        ("6", spec("NodePort", &[], &[], ""), "fd00::1"),
        ("46", spec("LoadBalancer", &[], &[], "PreferDualStack"), "10.0.0.1,fd00::1"),
        ("64", spec("ClusterIP", &["10.0.0.7"], &[], "RequireDualStack"), "10.0.0.7,fd00::1"),
        ("46", spec("ClusterIP", &["fd00::f", "10.0.0.e"], &[], "RequireDualStack"), ""),
        ("46", spec("ClusterIP", &["fd00::f", "10.0.0.14"], &[], "RequireDualStack"), "fd00::f,10.0.0.14"),
        ("46", spec("ClusterIP", &["FD00::0A"], &[], ""), "FD00::0A"),
        ("46", spec("ClusterIP", &["None"], &[], ""), "None"),
    ] {
        let given = Rig::new(shape).decide(None, &asked);
        let given = given.map(|decision| decision.service.addresses.join(",")).unwrap_or_default();
        assert_eq!(given, expected, "{shape}: {asked}");
    }
    let external = Rig::new("46").decide(None, &spec("ExternalName", &[], &[], "")).unwrap();
    assert_eq!((external.taken, external.service.families.len(), external.service.policy), (vec![], 0, None));
}

#[test]
fn an_address_that_cannot_be_had_is_refused_in_the_words_that_clients_know() {
    let held = spec("ClusterIP", &["10.0.0.3"], &["IPv4"], "SingleStack");
    for (address, why) in [
        ("10.0.0.3", TAKEN),
        ("10.0.0.0", OUTSIDE),
        ("10.0.0.15", OUTSIDE),
        ("10.0.1.1", OUTSIDE),
        ("192.0.2.1", OUTSIDE),
    ] {
        let mut rig = Rig::new("46").holds(&held);
        let refusal = rig.decide(None, &spec("ClusterIP", &[address], &[], "")).unwrap_err();
        let shown = format!("spec.clusterIPs: Invalid value: [\"{address}\"]: failed to allocate IP {address}: {why}");
        assert_eq!(said(&refusal), shown);
    }
    // A family that has no address yet is shown as it is: empty.
    let mut rig = Rig::new("46").holds(&held);
    let refusal = rig.decide(None, &spec("ClusterIP", &["10.0.0.3"], &[], "PreferDualStack")).unwrap_err();
    assert!(
        said(&refusal).starts_with("spec.clusterIPs: Invalid value: [\"10.0.0.3\",\"\"]: failed"),
        "{}",
        said(&refusal)
    );
}

#[test]
fn a_full_range_says_so_and_a_freed_address_is_given_again() {
    let mut rig = Rig::new("4");
    for _ in 0..14 {
        rig.decide(None, &spec("ClusterIP", &[], &[], "")).unwrap();
    }
    let refusal = rig.decide(None, &spec("ClusterIP", &[], &[], "")).unwrap_err();
    assert_eq!(said(&refusal), "500: failed to allocate a serviceIP for Service \"web\": range is full");
    rig.pools.v4.release(0x0a00_0005).unwrap();
    let given = rig.decide(None, &spec("ClusterIP", &[], &[], "")).unwrap();
    assert_eq!(given.service.address, "10.0.0.5");
}

#[test]
fn addresses_come_and_go_with_the_type_and_the_families() {
    let (v4, v6) = ("10.0.0.9", "fd00::9");
    let single = spec("ClusterIP", &[v4], &["IPv4"], "SingleStack");
    let preferring = spec("ClusterIP", &[v4], &["IPv4"], "PreferDualStack");
    let dual = spec("ClusterIP", &[v4, v6], &["IPv4", "IPv6"], "RequireDualStack");
    let twice = spec("ClusterIP", &[v4, v4], &["IPv4", "IPv4"], "PreferDualStack");
    let spelt = spec("ClusterIP", &[v6, "FD00:0::0009"], &["IPv6", "IPv6"], "PreferDualStack");
    let headless = spec("ClusterIP", &["None"], &["IPv4"], "SingleStack");
    let external = json!({"type": "ExternalName", "externalName": "a.b"});
    let to = |before: &Value, policy: &str| {
        let mut after = before.clone();
        after["ipFamilyPolicy"] = json!(policy);
        after
    };
    for (shape, before, after, expected) in [
        ("46", &single, &single.clone(), "10.0.0.9 + -"),
        ("46", &single, &spec("NodePort", &[v4], &["IPv4"], "SingleStack"), "10.0.0.9 + -"),
        ("46", &external, &spec("ClusterIP", &[], &[], ""), "10.0.0.1 +10.0.0.1 -"),
        ("46", &external, &spec("ClusterIP", &[v4], &[], "PreferDualStack"), "10.0.0.9,fd00::1 +10.0.0.9 fd00::1 -"),
        ("46", &external, &spec("ClusterIP", &["None"], &[], ""), "None + -"),
        ("46", &single, &external, " + -10.0.0.9"),
        ("46", &dual, &external, " + -10.0.0.9 fd00::9"),
        ("46", &headless, &external, " + -"),
        ("46", &headless, &to(&headless, "SingleStack"), "None + -"),
        ("46", &single, &to(&single, "PreferDualStack"), "10.0.0.9,fd00::1 +fd00::1 -"),
        ("46", &single, &to(&single, "RequireDualStack"), "10.0.0.9,fd00::1 +fd00::1 -"),
        ("46", &single, &spec("ClusterIP", &[v4, v6], &["IPv4"], "PreferDualStack"), "10.0.0.9,fd00::9 +fd00::9 -"),
        ("4", &single, &to(&single, "PreferDualStack"), "10.0.0.9 + -"),
        ("46", &dual, &to(&dual, "SingleStack"), "10.0.0.9 + -fd00::9"),
        ("46", &dual, &spec("ClusterIP", &[v4], &["IPv4", "IPv6"], "SingleStack"), "10.0.0.9 + -fd00::9"),
        // What was restored may say one twice.
        ("46", &twice, &external, " + -10.0.0.9"),
        ("46", &twice, &single.clone(), "10.0.0.9 + -"),
        ("46", &spelt, &external, " + -fd00::9"),
        // A cluster that got a second family changes nothing about those that take what they can get.
        ("46", &preferring, &preferring.clone(), "10.0.0.9 + -"),
        ("46", &preferring, &to(&preferring, "RequireDualStack"), "10.0.0.9,fd00::1 +fd00::1 -"),
    ] {
        assert_eq!(updated(shape, before, after), expected, "{shape}: {before} -> {after}");
    }
}

#[test]
fn a_second_address_goes_only_if_the_policy_says_so() {
    let dual = spec("ClusterIP", &["10.0.0.9", "fd00::9"], &["IPv4", "IPv6"], "RequireDualStack");
    let policy =
        "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary";
    let fewer = |addresses: &[&str], families: &[&str]| spec("ClusterIP", addresses, families, "RequireDualStack");
    assert_eq!(updated("46", &dual, &fewer(&["10.0.0.9"], &["IPv4", "IPv6"])), format!("{policy} cluster IP"));
    assert_eq!(updated("46", &dual, &fewer(&["10.0.0.9", "fd00::9"], &["IPv4"])), format!("{policy} IP family"));
}

/// Upstream's K1: there is no allocator of a family that the cluster does not have, and asking it anyway ended the process.
#[test]
fn k1_becoming_headless_and_dual_on_a_cluster_of_one_family_gives_nothing() {
    let single = spec("ClusterIP", &["10.0.0.9"], &["IPv4"], "SingleStack");
    let asked = spec("ClusterIP", &["None"], &["IPv4"], "PreferDualStack");
    assert_eq!(updated("4", &single, &asked), "None + -10.0.0.9", "the rules refuse the change afterwards");
}
