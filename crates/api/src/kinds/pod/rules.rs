//! The rules for a new pod, its containers aside.

use std::collections::HashSet;

use serde_json::Value;

use super::{containers, host, placement, security, volumes};
use crate::field::{Errors, Path};
use crate::object::Object;
use crate::reading::{flag, items, number, part, text};
use crate::{meta, names};

const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn validate(pod: &Object, errors: &mut Errors) {
    validate_spec(pod, errors);
    let spec = part(pod, "spec");
    let path = Path::new("spec");
    if !items(spec, "ephemeralContainers").is_empty() {
        errors.forbidden(&path.child("ephemeralContainers"), "cannot be set on create");
    }
    if !text(spec, "nodeName").is_empty() && !items(spec, "schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(&path.child("nodeName"), detail);
    }
}

/// The rules that hold for every pod, new or changed.
pub(super) fn validate_spec(pod: &Object, errors: &mut Errors) {
    let spec = part(pod, "spec");
    let path = Path::new("spec");
    let volumes = volumes::validate(pod.name(), spec, errors);
    containers::validate(spec, &volumes, errors);
    validate_host_network(spec, errors);
    for (name, known) in [("restartPolicy", &RESTART_POLICIES[..]), ("dnsPolicy", &DNS_POLICIES)] {
        let value = text(spec, name);
        if !known.contains(&value) {
            errors.not_supported(&path.child(name), &Value::from(value), known);
        }
    }
    meta::validate_labels(spec.get("nodeSelector").and_then(Value::as_object), &path.child("nodeSelector"), errors);
    security::validate_pod(spec, errors);
    placement::validate_affinity(spec, errors);
    security::validate_dns(spec, errors);
    validate_gates(spec, errors);
    placement::validate_spread(spec, errors);
    host::validate_users(spec, errors);
    host::validate_name(spec, errors);
    let check = |name: &str, rule: fn(&str, bool) -> Vec<String>, errors: &mut Errors| {
        let value = text(spec, name);
        if !value.is_empty() {
            meta::invalid_text(&path.child(name), value, rule(value, false), errors);
        }
    };
    check("serviceAccountName", names::subdomain, errors);
    check("nodeName", names::subdomain, errors);
    if let Some(seconds) = number(spec, "activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = names::between(1, i64::from(i32::MAX));
        errors.invalid(&path.child("activeDeadlineSeconds"), &Value::from(seconds), detail);
    }
    check("hostname", names::label, errors);
    check("subdomain", names::label, errors);
    check("priorityClassName", names::subdomain, errors);
    validate_tolerations(spec, errors);
    for (index, alias) in items(spec, "hostAliases").iter().enumerate() {
        let (path, ip) = (path.child("hostAliases").index(index), text(alias, "ip"));
        meta::invalid_text(&path.child("ip"), ip, names::address(ip), errors);
        for (index, name) in items(alias, "hostnames").iter().enumerate() {
            let (path, name) = (path.child("hostnames").index(index), name.as_str().unwrap_or_default());
            meta::invalid_text(&path, name, names::subdomain(name, false), errors);
        }
    }
    if let Some(policy) = spec.get("preemptionPolicy").and_then(Value::as_str)
        && !["PreemptLowerPriority", "Never"].contains(&policy)
    {
        let path = path.child("preemptionPolicy");
        errors.not_supported(&path, &Value::from(policy), &["PreemptLowerPriority", "Never"]);
    }
    validate_system(spec, errors);
    containers::validate_images(spec, errors);
}

fn validate_system(spec: &Value, errors: &mut Errors) {
    let Some(system) = spec.get("os").filter(|system| system.is_object()) else { return };
    let path = Path::new("spec").child("os");
    match text(system, "name") {
        "" => errors.required(&path.child("name"), ""),
        "linux" | "windows" => {}
        other => errors.not_supported(&path, &Value::from(other), &["linux", "windows"]),
    }
}

fn validate_host_network(spec: &Value, errors: &mut Errors) {
    if !flag(spec, "hostNetwork") {
        return;
    }
    for (index, container) in items(spec, "containers").iter().enumerate() {
        for (at, port) in items(container, "ports").iter().enumerate() {
            let host = number(port, "hostPort").unwrap_or(0);
            if host != number(port, "containerPort").unwrap_or(0) {
                let path = Path::new("spec").child("containers").index(index).child("ports").index(at);
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&path.child("hostPort"), &Value::from(host), detail);
            }
        }
    }
}

fn validate_gates(spec: &Value, errors: &mut Errors) {
    for (index, gate) in items(spec, "readinessGates").iter().enumerate() {
        let path = Path::new("spec").child("readinessGates").index(index).child("conditionType");
        let name = text(gate, "conditionType");
        meta::invalid_text(&path, name, names::qualified_name(name), errors);
    }
    let mut seen = HashSet::new();
    for (index, gate) in items(spec, "schedulingGates").iter().enumerate() {
        let (path, name) = (Path::new("spec").child("schedulingGates").index(index), text(gate, "name"));
        meta::invalid_text(&path, name, names::qualified_name(name), errors);
        if !seen.insert(name) {
            errors.duplicate(&path, &Value::from(name));
        }
    }
}

/// Notes what is wrong with what a pod puts up with.
pub(super) fn validate_tolerations(spec: &Value, errors: &mut Errors) {
    for (index, toleration) in items(spec, "tolerations").iter().enumerate() {
        let path = Path::new("spec").child("tolerations").index(index);
        let (key, value) = (text(toleration, "key"), text(toleration, "value"));
        let (operator, effect) = (text(toleration, "operator"), text(toleration, "effect"));
        if !key.is_empty() {
            meta::invalid_text(&path.child("key"), key, names::qualified_name(key), errors);
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&path.child("operator"), &Value::from(operator), detail);
        }
        if number(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&path.child("effect"), &Value::from(effect), detail);
        }
        match operator {
            "" | "Equal" => {
                let faults = names::label_value(value);
                if !faults.is_empty() {
                    errors.invalid(&path.child("operator"), &Value::from(value), faults.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    errors.invalid(&path.child("operator"), &Value::from(value), detail);
                }
            }
            other => errors.not_supported(&path.child("operator"), &Value::from(other), &["Equal", "Exists"]),
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            errors.not_supported(&path.child("effect"), &Value::from(effect), &EFFECTS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::checking::create_faults;
    use super::super::KIND;
    use super::*;
    use serde_json::json;

    fn faults(spec: Value) -> Vec<String> {
        let mut spec = spec;
        if spec.get("containers").is_none() {
            spec["containers"] = json!([{"name": "a", "image": "x"}]);
        }
        let faults = create_faults(&KIND, json!({"spec": spec}));
        faults.iter().map(|fault| fault.replacen("spec.", "", 1)).collect()
    }

    #[test]
    fn policies_names_and_times_are_known() {
        assert_eq!(
            faults(
                json!({"restartPolicy": "R", "dnsPolicy": "D", "hostname": "a.b", "activeDeadlineSeconds": 0, "preemptionPolicy": "P"})
            ),
            [
                "restartPolicy: Unsupported value: \"R\": supported values: \"Always\", \"OnFailure\", \"Never\"",
                "dnsPolicy: Unsupported value: \"D\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\"",
                "activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
                "hostname: Invalid value: \"a.b\": must not contain dots",
                "preemptionPolicy: Unsupported value: \"P\": supported values: \"PreemptLowerPriority\", \"Never\"",
            ]
        );
    }

    #[test]
    fn tolerations_and_gates_are_sound() {
        assert_eq!(
            faults(json!({"tolerations": [
                {"operator": "Equal"}, {"key": "a", "operator": "Exists", "value": "b", "tolerationSeconds": 3, "effect": "X"}, {"key": "a", "operator": "Z"},
            ], "schedulingGates": [{"name": "a"}, {"name": "a"}], "nodeName": "n"})),
            [
                "schedulingGates[1]: Duplicate value: \"a\"",
                "tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                "tolerations[1].effect: Invalid value: \"X\": effect must be 'NoExecute' when `tolerationSeconds` is set",
                "tolerations[1].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
                "tolerations[1].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                "tolerations[2].operator: Unsupported value: \"Z\": supported values: \"Equal\", \"Exists\"",
                "nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
            ]
        );
    }

    #[test]
    fn the_hosts_network_has_the_hosts_ports() {
        let containers = json!([{"name": "a", "image": "x", "ports": [{"containerPort": 80, "hostPort": 81}]}]);
        assert_eq!(
            faults(json!({"hostNetwork": true, "containers": containers})),
            [
                "containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true"
            ]
        );
        assert_eq!(
            faults(json!({"hostAliases": [{"ip": "x", "hostnames": ["a"]}], "ephemeralContainers": [{}]})),
            [
                "hostAliases[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "ephemeralContainers: Forbidden: cannot be set on create",
            ]
        );
    }
}
