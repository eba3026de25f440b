//! The rules for the addresses and the families of a Service, and for how they may change.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::spec::{Spec, texts};
use crate::field::{Errors, Path};
use crate::object::Object;
use crate::{meta, names};

const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const ONCE: &str = "may not change once set";

fn addresses<'a>(spec: &Spec<'a>) -> Vec<&'a str> {
    texts(spec.addresses).collect()
}

fn families<'a>(spec: &Spec<'a>) -> Vec<&'a str> {
    texts(spec.families).collect()
}

/// Notes what is wrong with the addresses, the families and the policy of a Service. Whoever gives it addresses has to know
/// that before the rest is judged.
pub fn validate(service: &Object, old: Option<&Object>, errors: &mut Errors) {
    validate_spec(&Spec::of(service), old, errors);
}

/// The same of what a Service says.
pub(super) fn validate_spec(spec: &Spec<'_>, old: Option<&Object>, errors: &mut Errors) {
    if spec.kind == "ExternalName" {
        return;
    }
    let path = Path::new("spec").child("clusterIPs");
    let (addresses, families) = (addresses(spec), families(spec));
    let all = || Value::from(addresses.clone());
    match (spec.address, addresses.first()) {
        ("", Some(_)) => errors.invalid(&path, &all(), "must be empty when `clusterIP` is not specified"),
        ("", None) => {}
        (_, None) => errors.required(&path, ""),
        (single, Some(first)) if single != *first => {
            errors.invalid(&path, &all(), "first value must match `clusterIP`");
        }
        _ => {}
    }
    validate_families(spec, &families, errors);

    let known: Vec<_> = old.map(|old| self::addresses(&Spec::of(old))).unwrap_or_default();
    let before = errors.len();
    for (index, address) in addresses.iter().enumerate() {
        if index == 0 && *address == "None" {
            if addresses.len() > 1 {
                errors.invalid(&path, &all(), "'None' must be the first and only value");
            }
        } else if !known.contains(address) {
            meta::invalid_text(&path.index(index), address, names::address(address), errors);
        }
    }
    let readable = errors.len() == before;
    if addresses.len() > 2 {
        errors.invalid(&path, &all(), "may only hold up to 2 values");
    }
    if !readable {
        return;
    }
    let is_v6 = |address: &&str| matches!(names::read_address(address), Some(IpAddr::V6(_)));
    if addresses.len() > 1 && (addresses.iter().all(is_v6) || !addresses.iter().any(is_v6)) {
        errors.invalid(&path, &all(), "may specify no more than one IP for each IP family");
    }
    if spec.is_headless() {
        return;
    }
    for (index, (address, family)) in addresses.iter().zip(&families).enumerate() {
        let expected = match (*family, is_v6(address)) {
            ("IPv4", true) => "an IPv4",
            ("IPv6", false) => "an IPv6",
            _ => continue,
        };
        let detail = format!("expected {expected} value as indicated by `ipFamilies[{index}]`");
        errors.invalid(&path.index(index), &Value::from(*address), detail);
    }
}

fn validate_families(spec: &Spec<'_>, families: &[&str], errors: &mut Errors) {
    let path = Path::new("spec").child("ipFamilies");
    let mut seen = HashSet::new();
    for (index, family) in families.iter().enumerate() {
        if !["IPv4", "IPv6"].contains(family) {
            errors.not_supported(&path.index(index), &Value::from(*family), &["IPv4", "IPv6"]);
        }
        if families.len() > 1 && !seen.insert(family) {
            errors.duplicate(&path.index(index), &Value::from(*family));
        }
    }
    if let Some(policy) = spec.family_policy.and_then(Value::as_str)
        && !POLICIES.contains(&policy)
    {
        errors.not_supported(&Path::new("spec").child("ipFamilyPolicy"), &Value::from(policy), &POLICIES);
    }
}

/// Notes what changed that must not: a first address stays, a second may come, and goes only if the policy says so.
pub(super) fn validate_change(new: &Object, old: &Object, errors: &mut Errors) {
    let (new, old) = (Spec::of(new), Spec::of(old));
    if [new.kind, old.kind].contains(&"ExternalName") {
        return;
    }
    validate_addresses_change(&new, &old, errors);
    if !new.is_headless() && !old.is_headless() {
        validate_families_change(&new, &old, errors);
    }
}

fn validate_addresses_change(new: &Spec<'_>, old: &Spec<'_>, errors: &mut Errors) {
    let path = Path::new("spec").child("clusterIPs");
    let (after, before) = (addresses(new), addresses(old));
    let shown = json!(after);
    if after.len() == before.len() {
        for index in 0..after.len() {
            if after[index] != before[index] {
                errors.invalid(&path.index(index), &shown, ONCE);
            }
        }
        return;
    }
    if after.is_empty() {
        errors.invalid(&path.index(0), &Value::Null, "primary clusterIP can not be unset");
    } else if !before.is_empty() && after[0] != before[0] {
        errors.invalid(&path.index(0), &shown, ONCE);
    }
    if after.len() < before.len() && after.len() == 1 {
        validate_release(new, "clusterIP", errors);
    }
}

fn validate_families_change(new: &Spec<'_>, old: &Spec<'_>, errors: &mut Errors) {
    let path = Path::new("spec").child("ipFamilies").index(0);
    let (after, before) = (families(new), families(old));
    if after.len() == before.len() {
        for _ in after.iter().zip(&before).filter(|(after, before)| after != before) {
            errors.invalid(&path, &json!(after), ONCE);
        }
        return;
    }
    if after.len() < before.len() && new.addresses.is_empty() {
        errors.invalid(&path, &json!(after), "primary ipFamily can not be unset");
    }
    if !after.is_empty() && !before.is_empty() && after[0] != before[0] {
        errors.invalid(&path, &json!(addresses(new)), ONCE);
    }
    if after.len() < before.len() && after.len() == 1 {
        validate_release(new, "ipFamily", errors);
    }
}

fn validate_release(spec: &Spec<'_>, what: &str, errors: &mut Errors) {
    if spec.family_policy.and_then(Value::as_str) != Some("SingleStack") {
        errors.invalid(
            &Path::new("spec").child("ipFamilyPolicy"),
            spec.family_policy.unwrap_or(&Value::Null),
            format!("must be set to 'SingleStack' when releasing the secondary {what}"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(spec: &Value) -> Object {
        Object::from_value(json!({"spec": spec})).unwrap()
    }

    fn faults(spec: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate(&object(spec), None, &mut errors);
        errors.iter().map(|error| error.to_string().replacen("spec.", "", 1)).collect()
    }

    fn changes(new: &Value, old: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate_change(&object(new), &object(old), &mut errors);
        errors.iter().map(|error| error.to_string().replacen("spec.", "", 1)).collect()
    }

    #[test]
    fn addresses_agree_with_one_another_and_with_the_families() {
        let list = |list: &[&str]| json!({"clusterIP": list[0], "clusterIPs": list});
        for (spec, expected) in [
            (json!({}), vec![]),
            (list(&["10.0.0.1", "fd00::1"]), vec![]),
            (list(&["None"]), vec![]),
            (json!({"clusterIP": "10.0.0.1"}), vec!["clusterIPs: Required value"]),
            (
                json!({"clusterIPs": ["10.0.0.1"]}),
                vec!["clusterIPs: Invalid value: [\"10.0.0.1\"]: must be empty when `clusterIP` is not specified"],
            ),
            (
                json!({"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.1"]}),
                vec!["clusterIPs: Invalid value: [\"10.0.0.1\"]: first value must match `clusterIP`"],
            ),
            (
                list(&["None", "10.0.0.1"]),
                vec!["clusterIPs: Invalid value: [\"None\",\"10.0.0.1\"]: 'None' must be the first and only value"],
            ),
            (
                list(&["x"]),
                vec![
                    "clusterIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                ],
            ),
            (list(&["010.0.0.1"]), vec!["clusterIPs[0]: Invalid value: \"010.0.0.1\": must not have leading 0s"]),
            (
                list(&["10.0.0.1", "10.0.0.2"]),
                vec![
                    "clusterIPs: Invalid value: [\"10.0.0.1\",\"10.0.0.2\"]: may specify no more than one IP for each IP family",
                ],
            ),
            (
                list(&["10.0.0.1", "fd00::1", "fd00::2"]),
                vec!["clusterIPs: Invalid value: [\"10.0.0.1\",\"fd00::1\",\"fd00::2\"]: may only hold up to 2 values"],
            ),
            (
                json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"], "ipFamilies": ["IPv4"]}),
                vec![
                    "clusterIPs[0]: Invalid value: \"fd00::1\": expected an IPv4 value as indicated by `ipFamilies[0]`",
                ],
            ),
            (
                json!({"ipFamilies": ["A", "A"], "ipFamilyPolicy": "X"}),
                vec![
                    "ipFamilies[0]: Unsupported value: \"A\": supported values: \"IPv4\", \"IPv6\"",
                    "ipFamilies[1]: Unsupported value: \"A\": supported values: \"IPv4\", \"IPv6\"",
                    "ipFamilies[1]: Duplicate value: \"A\"",
                    "ipFamilyPolicy: Unsupported value: \"X\": supported values: \"PreferDualStack\", \"RequireDualStack\", \"SingleStack\"",
                ],
            ),
            (json!({"type": "ExternalName", "clusterIP": "x"}), vec![]),
        ] {
            assert_eq!(faults(&spec), expected, "{spec}");
        }
    }

    #[test]
    fn a_first_address_stays_and_a_second_goes_only_by_policy() {
        let spec = |ips: &[&str], families: &[&str], policy: &str| json!({"type": "ClusterIP", "clusterIPs": ips, "ipFamilies": families, "ipFamilyPolicy": policy});
        let (v4, v6) = ("10.0.0.1", "fd00::1");
        let dual = spec(&[v4, v6], &["IPv4", "IPv6"], "PreferDualStack");
        let single = spec(&[v4], &["IPv4"], "SingleStack");
        let headless = spec(&["None"], &["IPv4"], "SingleStack");
        let external = json!({"type": "ExternalName"});
        for (new, old, expected) in [
            (&dual, &single, vec![]),
            (&single, &dual, vec![]),
            (&single, &external, vec![]),
            (&external, &single, vec![]),
            (
                &spec(&[v4], &["IPv4"], "PreferDualStack"),
                &dual,
                vec![
                    "ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing the secondary clusterIP",
                    "ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing the secondary ipFamily",
                ],
            ),
            (
                &spec(&["10.0.0.2"], &["IPv4"], "SingleStack"),
                &single,
                vec!["clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"],
            ),
            (
                &spec(&["10.0.0.2", v6], &["IPv4", "IPv6"], "PreferDualStack"),
                &single,
                vec!["clusterIPs[0]: Invalid value: [\"10.0.0.2\",\"fd00::1\"]: may not change once set"],
            ),
            (&headless, &single, vec!["clusterIPs[0]: Invalid value: [\"None\"]: may not change once set"]),
            (&spec(&["None"], &["IPv6"], "SingleStack"), &headless, vec![]),
            (
                &spec(&[v4], &["IPv6"], "SingleStack"),
                &single,
                vec!["ipFamilies[0]: Invalid value: [\"IPv6\"]: may not change once set"],
            ),
            (
                &json!({"type": "ClusterIP"}),
                &single,
                vec![
                    "clusterIPs[0]: Invalid value: null: primary clusterIP can not be unset",
                    "ipFamilies[0]: Invalid value: []: primary ipFamily can not be unset",
                ],
            ),
        ] {
            assert_eq!(changes(new, old), expected, "{old} -> {new}");
        }
    }
}
