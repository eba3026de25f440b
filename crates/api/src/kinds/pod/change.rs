//! What of a pod may change once it is there: little.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::Value;

use super::rules;
use crate::field::{Errors, Path};
use crate::object::Object;
use crate::reading::{items, number, part, text};
use crate::{meta, names};

const ALLOWED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn validate_update(new: &Object, old: &Object, errors: &mut Errors) {
    rules::validate_spec(new, errors);
    let path = Path::new("spec");
    let (new, old) = (part(new, "spec"), part(old, "spec"));
    for list in ["containers", "initContainers"] {
        if items(new, list).len() != items(old, list).len() {
            return errors.forbidden(&path.child(list), "pod updates may not add or remove containers");
        }
    }
    let path_of_deadline = path.child("activeDeadlineSeconds");
    match (number(new, "activeDeadlineSeconds"), number(old, "activeDeadlineSeconds")) {
        (Some(after), Some(before)) if after > before => {
            let detail = "must be less than or equal to previous value";
            return errors.invalid(&path_of_deadline, &Value::from(after), detail);
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.invalid(&path_of_deadline, &Value::Null, detail);
        }
        _ => {}
    }
    validate_tolerations(new, old, errors);
    let known: HashSet<_> = items(old, "schedulingGates").iter().map(|gate| text(gate, "name")).collect();
    for (index, gate) in items(new, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        if !known.contains(name) {
            let path = path.child("schedulingGates").index(index).child("name");
            errors.forbidden(&path, format!("only deletion is allowed, but found new scheduling gate '{name}'"));
        }
    }
    let changed = changes(new, old);
    if !changed.is_empty() {
        errors.forbidden(&path, format!("{ALLOWED}\n{}", changed.join("\n")));
    }
}

/// Tolerations may be added, and wait longer or shorter; none may go.
fn validate_tolerations(new: &Value, old: &Value, errors: &mut Errors) {
    let without_time = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(fields) = toleration.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        toleration
    };
    let kept: HashSet<_> = items(new, "tolerations").iter().map(without_time).collect();
    if items(old, "tolerations").iter().any(|toleration| !kept.contains(&without_time(toleration))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden(&Path::new("spec").child("tolerations"), detail);
    }
}

/// The fields that differ and must not, each with its value before and after.
fn changes(new: &Value, old: &Value) -> Vec<String> {
    let mut allowed = new.clone();
    let Some(fields) = allowed.as_object_mut() else { return Vec::new() };
    for name in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        match old.get(name) {
            Some(value) => fields.insert(name.into(), value.clone()),
            None => fields.remove(name),
        };
    }
    for list in ["containers", "initContainers"] {
        let Some(containers) = fields.get_mut(list).and_then(Value::as_array_mut) else { continue };
        for (container, before) in containers.iter_mut().zip(items(old, list)) {
            container["image"] = before.get("image").cloned().unwrap_or(Value::Null);
        }
    }
    let negative = number(old, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0);
    if negative && number(new, "terminationGracePeriodSeconds") == Some(1) {
        fields.insert("terminationGracePeriodSeconds".into(), old["terminationGracePeriodSeconds"].clone());
    }
    // A pod that is held back may still be told where to go.
    if !items(old, "schedulingGates").is_empty() {
        for name in ["nodeSelector", "affinity"] {
            match old.get(name) {
                Some(value) => fields.insert(name.into(), value.clone()),
                None => fields.remove(name),
            };
        }
    }
    let mut names: Vec<_> = fields.keys().chain(old.as_object().into_iter().flat_map(|old| old.keys())).collect();
    names.sort_unstable();
    names.dedup();
    let differs = |name: &&&String| !meta::same(fields.get(**name), old.get(name.as_str()));
    let shown = |value: Option<&Value>| value.map_or_else(|| "null".to_owned(), Value::to_string);
    let line = |name: &String| format!("- {name:?}: {}\n+ {name:?}: {}", shown(old.get(name)), shown(fields.get(name)));
    names.iter().filter(|name| differs(name)).map(|name| line(name)).collect()
}

pub(super) fn validate_status(new: &Object, old: &Object, errors: &mut Errors) {
    let path = Path::new("status");
    let (new, old) = (part(new, "status"), part(old, "status"));
    let nominated = text(new, "nominatedNodeName");
    if !nominated.is_empty() && nominated != text(old, "nominatedNodeName") {
        let path = path.child("nominatedNodeName");
        meta::invalid_text(&path, nominated, names::subdomain(nominated, false), errors);
    }
    // The kubelet may leave out the class; it is what it was.
    if !text(new, "qosClass").is_empty() {
        meta::immutable(&path.child("qosClass"), new.get("qosClass"), old.get("qosClass"), errors);
    }
    let path = path.child("podIPs");
    let after: Vec<_> = items(new, "podIPs").iter().map(|ip| text(ip, "ip")).collect();
    let before: HashSet<_> = items(old, "podIPs").iter().map(|ip| text(ip, "ip")).collect();
    for (index, address) in after.iter().enumerate().filter(|(_, address)| !before.contains(*address)) {
        meta::invalid_text(&path.index(index), address, names::address(address), errors);
    }
    let is_v6 = |address: &&str| matches!(names::read_address(address), Some(IpAddr::V6(_)));
    let both = after.iter().any(is_v6) && !after.iter().all(is_v6);
    if after.len() > 2 || after.len() == 2 && !both {
        let shown: Vec<_> = after.iter().map(|address| format!("{{\"IP\":{address:?}}}")).collect();
        let detail = "may specify no more than one IP for each IP family";
        errors.invalid_shown(&path, &format!("[{}]", shown.join(",")), detail);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::checking::{update_faults, with};
    use super::super::KIND;
    use super::*;
    use serde_json::json;

    fn pod() -> Value {
        json!({"spec": {"containers": [{"name": "a", "image": "x"}], "activeDeadlineSeconds": 9, "tolerations": [{"key": "k", "operator": "Exists"}]}})
    }

    #[test]
    fn images_deadlines_and_more_tolerations_may_change() {
        let new = with(pod(), "/spec/containers/0/image", "y");
        let new = with(new, "/spec/containers/0/imagePullPolicy", "Always");
        let new = with(new, "/spec/activeDeadlineSeconds", 5);
        let new = with(
            new,
            "/spec/tolerations",
            json!([{"key": "l", "operator": "Exists"}, {"key": "k", "operator": "Exists"}]),
        );
        assert_eq!(update_faults(&KIND, new, pod()), [""; 0]);
    }

    #[test]
    fn everything_else_stays() {
        let faults = update_faults(&KIND, with(pod(), "/spec/hostname", "h"), pod());
        assert_eq!(faults, [format!("spec: Forbidden: {ALLOWED}\n- \"hostname\": null\n+ \"hostname\": \"h\"")]);
        let faults = update_faults(&KIND, with(pod(), "/spec/containers/0/name", "b"), pod());
        assert!(faults[0].starts_with(&format!("spec: Forbidden: {ALLOWED}\n- \"containers\": ")), "{faults:?}");
        for (pointer, value, fault) in [
            (
                "/spec/containers",
                json!([{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]),
                "spec.containers: Forbidden: pod updates may not add or remove containers",
            ),
            (
                "/spec/activeDeadlineSeconds",
                json!(10),
                "spec.activeDeadlineSeconds: Invalid value: 10: must be less than or equal to previous value",
            ),
            (
                "/spec/activeDeadlineSeconds",
                Value::Null,
                "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
            ),
            (
                "/spec/tolerations",
                json!([]),
                "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
            ),
            (
                "/spec/schedulingGates",
                json!([{"name": "g"}]),
                "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'",
            ),
        ] {
            assert_eq!(update_faults(&KIND, with(pod(), pointer, value), pod()), [fault]);
        }
    }

    #[test]
    fn addresses_are_one_for_each_family_and_the_class_stays() {
        let faults = |status: Value| {
            let object = |status: Value| Object::from_value(json!({"status": status})).unwrap();
            let mut errors = Errors::new();
            validate_status(&object(status), &object(json!({"qosClass": "BestEffort"})), &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(faults(json!({"podIPs": [{"ip": "1.2.3.4"}, {"ip": "fd00::1"}]})), [""; 0]);
        assert_eq!(
            faults(json!({"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}], "qosClass": "Burstable"})),
            [
                "status.qosClass: Invalid value: \"Burstable\": field is immutable",
                "status.podIPs: Invalid value: [{\"IP\":\"1.2.3.4\"},{\"IP\":\"1.2.3.5\"}]: may specify no more than one IP for each IP family",
            ]
        );
        assert_eq!(
            faults(json!({"podIPs": [{"ip": "x"}], "nominatedNodeName": "n"})),
            ["status.podIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
        );
    }
}
