//! The rules for where a pod may run: affinity, and how pods are spread.

use std::collections::HashSet;

use serde_json::Value;

use super::super::node_selector;
use crate::field::{Errors, Path};
use crate::reading::{fields, items, number, text, texts};
use crate::{meta, names};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const UNSATISFIABLE: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];

pub(super) fn validate_affinity(spec: &Value, errors: &mut Errors) {
    let Some(affinity) = spec.get("affinity") else { return };
    let path = Path::new("spec").child("affinity");
    if let Some(nodes) = affinity.get("nodeAffinity") {
        let path = path.child("nodeAffinity");
        if let Some(required) = nodes.get(REQUIRED).filter(|selector| selector.is_object()) {
            node_selector::validate(&path.child(REQUIRED), required, errors);
        }
        for (index, term) in items(nodes, PREFERRED).iter().enumerate() {
            let path = path.child(PREFERRED).index(index);
            validate_weight(&path, term, errors);
            let preference = term.get("preference").unwrap_or(&Value::Null);
            node_selector::validate_preference(&path.child("preference"), preference, errors);
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = affinity.get(kind) else { continue };
        let path = path.child(kind);
        for (index, term) in items(pods, REQUIRED).iter().enumerate() {
            validate_pod_term(&path.child(REQUIRED).index(index), term, errors);
        }
        for (index, weighted) in items(pods, PREFERRED).iter().enumerate() {
            let path = path.child(PREFERRED).index(index);
            validate_weight(&path, weighted, errors);
            let term = weighted.get("podAffinityTerm").unwrap_or(&Value::Null);
            validate_pod_term(&path.child("podAffinityTerm"), term, errors);
        }
    }
}

fn validate_weight(path: &Path, term: &Value, errors: &mut Errors) {
    let weight = number(term, "weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.child("weight"), &Value::from(weight), "must be in the range 1-100");
    }
}

fn validate_pod_term(path: &Path, term: &Value, errors: &mut Errors) {
    for name in ["labelSelector", "namespaceSelector"] {
        validate_selector(&path.child(name), term.get(name), errors);
    }
    for name in texts(term, "namespaces") {
        meta::invalid_text(&path.child("namespace"), name, names::label(name, false), errors);
    }
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.required(&path.child("topologyKey"), "can not be empty");
    }
    meta::invalid_text(&path.child("topologyKey"), key, names::qualified_name(key), errors);
}

/// Notes what is wrong with a selector by labels.
fn validate_selector(path: &Path, selector: Option<&Value>, errors: &mut Errors) {
    let Some(selector) = selector.filter(|selector| selector.is_object()) else { return };
    meta::validate_labels(fields(selector, "matchLabels"), &path.child("matchLabels"), errors);
    for (index, expression) in items(selector, "matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(index);
        let given = !items(expression, "values").is_empty();
        match text(expression, "operator") {
            "In" | "NotIn" if !given => {
                errors.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if given => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.forbidden(&path.child("values"), why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(&path.child("operator"), &Value::from(other), "not a valid selector operator"),
        }
        let key = text(expression, "key");
        meta::invalid_text(&path.child("key"), key, names::qualified_name(key), errors);
        for (index, value) in texts(expression, "values").enumerate() {
            meta::invalid_text(&path.child("values").index(index), value, names::label_value(value), errors);
        }
    }
}

pub(super) fn validate_spread(spec: &Value, errors: &mut Errors) {
    let constraints = items(spec, "topologySpreadConstraints");
    let name = |constraint: &Value| {
        (text(constraint, "topologyKey").to_owned(), text(constraint, "whenUnsatisfiable").to_owned())
    };
    // Of two that are alike, clients know the first to be wrong.
    let mut later: HashSet<_> = HashSet::new();
    let repeated: Vec<bool> = constraints.iter().rev().map(|one| !later.insert(name(one))).collect();
    for (index, (constraint, repeated)) in constraints.iter().zip(repeated.into_iter().rev()).enumerate() {
        let path = Path::new("spec").child("topologySpreadConstraints").index(index);
        let skew = number(constraint, "maxSkew").unwrap_or(0);
        if skew <= 0 {
            errors.invalid(&path.child("maxSkew"), &Value::from(skew), "must be greater than zero");
        }
        let (key, policy) = name(constraint);
        if key.is_empty() {
            errors.required(&path.child("topologyKey"), "can not be empty");
        }
        if !UNSATISFIABLE.contains(&policy.as_str()) {
            errors.not_supported(&path.child("whenUnsatisfiable"), &Value::from(policy.clone()), &UNSATISFIABLE);
        }
        if repeated {
            let shown = format!("{{{key}, {policy}}}");
            errors.duplicate(&path.child("{topologyKey, whenUnsatisfiable}"), &Value::from(shown));
        }
        if let Some(domains) = number(constraint, "minDomains") {
            if domains <= 0 {
                errors.invalid(&path.child("minDomains"), &Value::from(domains), "must be greater than zero");
            }
            if policy == "ScheduleAnyway" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {policy}");
                errors.invalid(&path.child("minDomains"), &Value::from(domains), why);
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = text(constraint, name);
            if !policy.is_empty() && !["Honor", "Ignore"].contains(&policy) {
                errors.not_supported(&path.child(name), &Value::from(policy), &["Honor", "Ignore"]);
            }
        }
        validate_selector(&path.child("labelSelector"), constraint.get("labelSelector"), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(spec: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate_affinity(spec, &mut errors);
        validate_spread(spec, &mut errors);
        errors.iter().map(|error| error.to_string().replacen("spec.", "", 1)).collect()
    }

    #[test]
    fn affinity_has_terms_weights_and_keys() {
        let term = json!({"weight": 101, "podAffinityTerm": {"topologyKey": "a", "namespaces": ["B"], "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}});
        let preference =
            json!({"weight": 0, "preference": {"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]}});
        let found = faults(&json!({"affinity": {
            "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}, PREFERRED: [preference]},
            "podAffinity": {PREFERRED: [term]},
        }}));
        let (node, pod) =
            (format!("affinity.nodeAffinity.{PREFERRED}[0]"), format!("affinity.podAffinity.{PREFERRED}[0]"));
        assert_eq!(
            found[..5],
            [
                format!(
                    "affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: Required value: must have at least one node selector term"
                ),
                format!("{node}.weight: Invalid value: 0: must be in the range 1-100"),
                format!(
                    "{node}.preference.matchExpressions[0].operator: Invalid value: \"Is\": not a valid selector operator"
                ),
                format!("{pod}.weight: Invalid value: 101: must be in the range 1-100"),
                format!(
                    "{pod}.podAffinityTerm.labelSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
                ),
            ]
        );
        assert!(found[5].starts_with(&format!("{pod}.podAffinityTerm.namespace: Invalid value: \"B\"")), "{found:?}");
    }

    #[test]
    fn spreading_is_by_something_and_said_once() {
        let same = json!({"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"});
        assert_eq!(
            faults(&json!({"topologySpreadConstraints": [{"maxSkew": 0, "whenUnsatisfiable": "X"}, same, same]})),
            [
                "topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                "topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                "topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"X\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
                "topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{a, DoNotSchedule}\"",
            ]
        );
    }
}
