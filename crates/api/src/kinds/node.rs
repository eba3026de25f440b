//! Nodes: the machines, and the pod ranges they were given.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value, json};
use space::Cidr;

use crate::field::{Errors, Path};
use crate::kind::{Column, Kind, Scope, Selectable, Stored, Subresource};
use crate::object::Object;
use crate::quantity::Amount;
use crate::reading::{child_mut, fill, flag, items, part, shown, text, texts};
use crate::row::Cell;
use crate::{meta, names, printing};

/// The taint that keeps pods off a node until it is ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub(super) static KIND: Kind = Kind {
    kind: "Node",
    plural: "nodes",
    singular: "node",
    short_names: &["no"],
    scope: Scope::Cluster,
    subresources: &[Subresource::Status],
    stored: Stored { prefix: "nodes", api_version: "v1" },
    schema: "io.k8s.api.core.v1.Node",
    default,
    prepare_create: Some(prepare_create),
    prepare_update: |new, old| {
        if old.at(&["spec", "configSource"]).is_none() {
            new.remove(&["spec", "configSource"]);
        }
    },
    validate,
    validate_update: |new, old, errors| {
        validate(new, errors);
        validate_change(new, old, errors);
    },
    validate_status: |new, old, errors| {
        validate_resources(new, errors);
        validate_change(new, old, errors);
    },
    warnings,
    selectable: &[Selectable {
        label: "spec.unschedulable",
        value: |object| flag(part(object, "spec"), "unschedulable").to_string(),
    }],
    columns: &[
        Column::NAME,
        Column::text("Status", "Whether it is ready and takes pods"),
        Column::text("Roles", "Its roles, from its labels"),
        Column::AGE,
        Column::text("Version", "The version of its kubelet"),
        Column::wide("Internal-IP", "Its first address in the cluster"),
        Column::wide("External-IP", "Its first address outside of the cluster"),
        Column::wide("OS-Image", "Its operating system"),
        Column::wide("Kernel-Version", "Its kernel"),
        Column::wide("Container-Runtime", "What runs its containers"),
    ],
    row,
    ..Kind::BASE
};

fn default(object: &mut Object) {
    if let Some(spec) = child_mut(object.fields_mut(), "spec") {
        default_ranges(spec);
    }
    if let Some(status) = child_mut(object.fields_mut(), "status")
        && let Some(capacity) = status.get("capacity").filter(|capacity| capacity.is_object()).cloned()
    {
        fill(status, "allocatable", capacity);
    }
}

/// `podCIDR` is the first of `podCIDRs`, and whichever is given says what the other is; if they differ, the older field
/// is right, because a client that knows only that one has changed it.
fn default_ranges(spec: &mut Map<String, Value>) {
    let single = spec.get("podCIDR").and_then(Value::as_str).unwrap_or_default().to_owned();
    let first = spec.get("podCIDRs").and_then(Value::as_array).and_then(|all| all.first()).cloned();
    match first {
        Some(first) if single.is_empty() => {
            spec.insert("podCIDR".into(), first);
        }
        Some(first) if first == single.as_str() => {}
        None if single.is_empty() => {}
        _ => {
            spec.insert("podCIDRs".into(), json!([single]));
        }
    }
}

fn prepare_create(object: &mut Object) {
    object.remove(&["spec", "configSource"]);
    object.remove(&["status", "config"]);
    let mut taints = match object.remove(&["spec", "taints"]) {
        Some(Value::Array(taints)) => taints,
        _ => Vec::new(),
    };
    let is_not_ready = |taint: &Value| text(taint, "key") == NOT_READY && text(taint, "effect") == "NoSchedule";
    if !taints.iter().any(is_not_ready) {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
    object.set(&["spec", "taints"], taints.into());
}

fn pod_cidrs(object: &Object) -> Vec<&str> {
    texts(part(object, "spec"), "podCIDRs").collect()
}

fn validate(object: &Object, errors: &mut Errors) {
    validate_taints(object, errors);
    validate_resources(object, errors);
    let path = Path::new("spec").child("podCIDRs");
    let cidrs = pod_cidrs(object);
    for (index, cidr) in cidrs.iter().enumerate() {
        meta::invalid_text(&path.index(index), cidr, names::cidr(cidr), errors);
    }
    if cidrs.len() > 1 {
        let families: HashSet<_> =
            cidrs.iter().filter_map(|cidr| Cidr::tolerant(cidr).ok()).map(|reading| reading.value.family()).collect();
        if families.len() < 2 || cidrs.len() > 2 {
            errors.invalid(&path, &Value::from(cidrs), "may specify no more than one CIDR for each IP family");
        }
    }
}

fn validate_taints(object: &Object, errors: &mut Errors) {
    let taints = items(part(object, "spec"), "taints");
    let mut seen = HashSet::new();
    for (index, taint) in taints.iter().enumerate() {
        // Clients know this list by this path, although it is in `spec`.
        let path = Path::new("metadata").child("taints").index(index);
        let (key, value) = (text(taint, "key"), text(taint, "value"));
        meta::invalid_text(&path.child("key"), key, names::qualified_name(key), errors);
        let faults = names::label_value(value);
        if !faults.is_empty() {
            errors.invalid(&path.child("value"), &Value::from(value), faults.join(";"));
        }
        match text(taint, "effect") {
            "" => errors.required(&path.child("effect"), ""),
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
            other => errors.not_supported(
                &path.child("effect"),
                &Value::from(other),
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            ),
        }
        if !seen.insert((key, text(taint, "effect"))) {
            let mut shown = shown(taint, &[("Key", "key"), ("Value", "value"), ("Effect", "effect")]);
            shown.insert_str(shown.len() - 1, ",\"TimeAdded\":null");
            errors.duplicate_shown(&path, &shown, "taints must be unique by key and effect pair");
        }
    }
}

fn validate_resources(object: &Object, errors: &mut Errors) {
    let status = part(object, "status");
    for list in ["capacity", "allocatable"] {
        for (name, value) in status.get(list).and_then(Value::as_object).into_iter().flatten() {
            let path = Path::new("status").child(list).child(name);
            validate_amount(&path, name, value, errors);
        }
    }
}

/// Notes what is wrong with an amount of a resource.
pub(super) fn validate_amount(path: &Path, resource: &str, value: &Value, errors: &mut Errors) {
    let Some(amount) = value.as_str().and_then(Amount::parse) else { return };
    if amount.is_negative() {
        errors.invalid(path, value, "must be greater than or equal to 0");
    }
    // What is counted is whole: pods, and everything that has a domain which is not Kubernetes' own.
    let counted = resource == "pods" || resource.contains('/') && !resource.contains("kubernetes.io/");
    if counted && !amount.is_whole() {
        errors.invalid(path, value, "must be an integer");
    }
}

fn validate_change(new: &Object, old: &Object, errors: &mut Errors) {
    let addresses = items(part(new, "status"), "addresses");
    let mut seen = HashSet::new();
    for (index, address) in addresses.iter().enumerate() {
        if !seen.insert(address) {
            errors.duplicate(&Path::new("status").child("addresses").index(index), address);
        }
    }
    let (new_cidrs, old_cidrs) = (pod_cidrs(new), pod_cidrs(old));
    if !old_cidrs.is_empty() && new_cidrs != old_cidrs {
        errors.forbidden(
            &Path::new("spec").child("podCIDRs"),
            "node updates may not change podCIDR except from \"\" to valid",
        );
    }
    let provider = |object: &Object| object.text(&["spec", "providerID"]).to_owned();
    if !provider(old).is_empty() && provider(new) != provider(old) {
        errors.forbidden(
            &Path::new("spec").child("providerID"),
            "node updates may not change providerID except from \"\" to valid",
        );
    }
    if !meta::same(new.at(&["spec", "externalID"]), old.at(&["spec", "externalID"])) {
        errors.forbidden(&Path::new("spec").child("externalID"), "may not be updated");
    }
}

fn warnings(object: &Object, _old: Option<&Object>) -> Vec<String> {
    let mut warnings = Vec::new();
    if object.at(&["spec", "configSource"]).is_some() {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !object.text(&["spec", "externalID"]).is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    for (index, cidr) in pod_cidrs(object).iter().enumerate() {
        warnings.extend(names::cidr_warning(&format!("spec.podCIDRs[{index}]"), cidr));
    }
    warnings
}

fn row(object: &Object) -> Vec<Cell> {
    let (spec, status) = (part(object, "spec"), part(object, "status"));
    let info = status.get("nodeInfo").unwrap_or(&Value::Null);
    let ready = items(status, "conditions").iter().rev().find(|condition| text(condition, "type") == "Ready");
    let mut state = match ready {
        Some(condition) if text(condition, "status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if flag(spec, "unschedulable") {
        state.push_str(",SchedulingDisabled");
    }
    let address = |wanted: &str| {
        let found = items(status, "addresses").iter().find(|address| text(address, "type") == wanted);
        found.map_or(printing::NONE, |address| text(address, "address"))
    };
    let known = |name: &str| match text(info, name) {
        "" => printing::UNKNOWN.to_owned(),
        text => text.to_owned(),
    };
    let mut kernel = known("kernelVersion");
    let architecture = text(info, "architecture");
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        object.name().into(),
        state.into(),
        printing::list(roles(object).iter().map(String::as_str)).into(),
        printing::age(object),
        text(info, "kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        known("osImage").into(),
        kernel.into(),
        known("containerRuntimeVersion").into(),
    ]
}

fn roles(object: &Object) -> BTreeSet<String> {
    let labels = object.at(&["metadata", "labels"]).and_then(Value::as_object);
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        None => None,
    };
    labels.into_iter().flatten().filter_map(role).filter(|role| !role.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, created, row, update_faults};
    use super::*;

    #[test]
    fn a_new_node_is_not_ready_and_has_all_it_has_capacity_for() {
        let node = created(&KIND, json!({"status": {"capacity": {"cpu": "2000m", "memory": "1024Mi"}}}));
        assert_eq!(node.at(&["spec", "taints"]), Some(&json!([{"key": NOT_READY, "effect": "NoSchedule"}])));
        assert_eq!(node.at(&["status", "allocatable"]), Some(&json!({"cpu": "2", "memory": "1Gi"})));
        let twice = created(&KIND, node.into_value());
        assert_eq!(twice.at(&["spec", "taints"]).unwrap().as_array().unwrap().len(), 1);
    }

    #[test]
    fn the_older_range_field_is_the_first_of_the_newer() {
        for (spec, single, all) in [
            (json!({}), None, None),
            (json!({"podCIDR": "10.0.0.0/24"}), Some(json!("10.0.0.0/24")), Some(json!(["10.0.0.0/24"]))),
            (json!({"podCIDRs": ["a", "b"]}), Some(json!("a")), Some(json!(["a", "b"]))),
            (json!({"podCIDR": "c", "podCIDRs": ["a", "b"]}), Some(json!("c")), Some(json!(["c"]))),
            (json!({"podCIDR": "a", "podCIDRs": ["a", "b"]}), Some(json!("a")), Some(json!(["a", "b"]))),
        ] {
            let node = created(&KIND, json!({"spec": spec}));
            assert_eq!(node.at(&["spec", "podCIDR"]), single.as_ref());
            assert_eq!(node.at(&["spec", "podCIDRs"]), all.as_ref());
        }
    }

    #[test]
    fn ranges_are_sound_and_of_different_families() {
        let with = |cidrs: &[&str]| json!({"spec": {"podCIDRs": cidrs}});
        let families = "may specify no more than one CIDR for each IP family";
        check_creates(
            &KIND,
            &[
                (with(&["10.0.0.0/24", "fd00::/64"]), &[]),
                (
                    with(&["10.0.0.1/24"]),
                    &[
                        "spec.podCIDRs[0]: Invalid value: \"10.0.0.1/24\": must not have bits set beyond the prefix length",
                    ],
                ),
                (
                    with(&["10.0.0.0/24", "10.0.1.0/24"]),
                    &[&format!("spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.0.1.0/24\"]: {families}")],
                ),
                (
                    with(&["10.0.0.0/24", "fd00::/64", "fd01::/64"]),
                    &[&format!(
                        "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"fd00::/64\",\"fd01::/64\"]: {families}"
                    )],
                ),
            ],
        );
    }

    #[test]
    fn a_range_once_given_stays() {
        let with = |cidrs: &[&str]| json!({"spec": {"podCIDRs": cidrs}});
        let fault = "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid";
        assert_eq!(update_faults(&KIND, with(&["10.0.0.0/24"]), with(&[])), [""; 0]);
        assert_eq!(update_faults(&KIND, with(&["10.0.1.0/24"]), with(&["10.0.0.0/24"])), [fault]);
        assert_eq!(update_faults(&KIND, with(&[]), with(&["10.0.0.0/24"])), [fault]);
        assert_eq!(update_faults(&KIND, with(&["10.0.0.0/24", "fd00::/64"]), with(&["10.0.0.0/24"])), [fault]);
        assert_eq!(
            update_faults(&KIND, json!({"spec": {"providerID": "b"}}), json!({"spec": {"providerID": "a"}})),
            ["spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid"]
        );
    }

    #[test]
    fn taints_are_known_and_different() {
        let with = |taints: Value| json!({"spec": {"taints": taints}});
        check_creates(
            &KIND,
            &[
                (with(json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}])), &[]),
                (with(json!([{"key": "a"}])), &["metadata.taints[0].effect: Required value"]),
                (
                    with(json!([{"key": "a", "effect": "X"}])),
                    &[
                        "metadata.taints[0].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                    ],
                ),
                (
                    with(json!([{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}])),
                    &[
                        "metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"\",\"Effect\":\"NoExecute\",\"TimeAdded\":null}: taints must be unique by key and effect pair",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn amounts_are_not_negative_and_what_is_counted_is_whole() {
        check_creates(
            &KIND,
            &[
                (
                    json!({"status": {"capacity": {"cpu": "-1"}, "allocatable": {"cpu": "1"}}}),
                    &["status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0"],
                ),
                (
                    json!({"status": {"capacity": {"pods": "1.5", "example.com/x": "500m", "cpu": "1.5"}, "allocatable": {"cpu": "1"}}}),
                    &[
                        "status.capacity.example.com/x: Invalid value: \"500m\": must be an integer",
                        "status.capacity.pods: Invalid value: \"1500m\": must be an integer",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn the_row_tells_state_roles_and_addresses() {
        let now = "2026-01-01T00:00:00Z";
        let node = json!({
            "metadata": {"name": "a", "creationTimestamp": "2025-12-31T00:00:00Z", "labels": {
                "node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge", "node-role.kubernetes.io/": ""}},
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6", "architecture": "arm64"},
            },
        });
        assert_eq!(
            row(&KIND, node, now),
            "a|Ready,SchedulingDisabled|edge,worker|24h|v1|10.0.0.1|<none>|<unknown>|6 (arm64)|<unknown>"
        );
        assert_eq!(
            row(&KIND, json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}), now),
            "|NotReady|<none>|<unknown>||<none>|<none>|<unknown>|<unknown>|<unknown>"
        );
    }
}
