//! Pods: the programs that run on nodes. Nothing runs them here; they are kept and shown as clients know them.

mod change;
mod containers;
mod defaults;
mod host;
mod placement;
mod row;
mod rules;
mod security;
mod sources;
mod volumes;
mod warnings;

use crate::kind::{Column, Kind, Selectable, Stored, Subresource};
use crate::object::Object;
use crate::reading::{flag, items, number, part, text};

pub(super) static KIND: Kind = Kind {
    kind: "Pod",
    plural: "pods",
    singular: "pod",
    short_names: &["po"],
    categories: &["all"],
    subresources: &[Subresource::Status],
    stored: Stored { prefix: "pods", api_version: "v1" },
    schema: "io.k8s.api.core.v1.Pod",
    counts_generation: true,
    status_ignores: &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
    answers_deleted: true,
    grace,
    default: defaults::default,
    prepare_create: Some(defaults::prepare_create),
    prepare_update: defaults::prepare_update,
    prepare_status: defaults::prepare_status,
    validate: rules::validate,
    validate_update: change::validate_update,
    validate_status: change::validate_status,
    warnings: warnings::warnings,
    selectable: &[
        Selectable { label: "spec.nodeName", value: |pod| spec(pod, "nodeName") },
        Selectable { label: "spec.host", value: |pod| spec(pod, "nodeName") },
        Selectable { label: "spec.restartPolicy", value: |pod| spec(pod, "restartPolicy") },
        Selectable { label: "spec.schedulerName", value: |pod| spec(pod, "schedulerName") },
        Selectable { label: "spec.serviceAccountName", value: |pod| spec(pod, "serviceAccountName") },
        Selectable { label: "spec.hostNetwork", value: |pod| flag(part(pod, "spec"), "hostNetwork").to_string() },
        Selectable { label: "status.phase", value: |pod| status(pod, "phase") },
        Selectable { label: "status.podIP", value: first_ip },
        Selectable { label: "status.podIPs", value: |_| String::new() },
        Selectable { label: "status.nominatedNodeName", value: |pod| status(pod, "nominatedNodeName") },
    ],
    columns: &[
        Column::NAME,
        Column::text("Ready", "How many of its containers are ready, of how many"),
        Column::text("Status", "What it is doing"),
        Column::text("Restarts", "How often its containers were restarted, and how long ago"),
        Column::AGE,
        Column::wide("IP", "Its first address"),
        Column::wide("Node", "Where it runs"),
        Column::wide("Nominated Node", "Where room is being made for it"),
        Column::wide("Readiness Gates", "How many further conditions hold, of how many"),
    ],
    row: row::row,
    ..Kind::BASE
};

/// How long the containers of a deleted pod have to end: as long as was asked for, unless there is nobody to wait for.
fn grace(pod: &Object, asked: Option<i64>) -> i64 {
    let spec = part(pod, "spec");
    let wound_down = matches!(text(part(pod, "status"), "phase"), "Failed" | "Succeeded");
    if text(spec, "nodeName").is_empty() || wound_down {
        return 0;
    }
    match asked.or(number(spec, "terminationGracePeriodSeconds")).unwrap_or(0) {
        ..0 => 1,
        seconds => seconds,
    }
}

fn spec(pod: &Object, name: &str) -> String {
    text(part(pod, "spec"), name).to_owned()
}

fn status(pod: &Object, name: &str) -> String {
    text(part(pod, "status"), name).to_owned()
}

fn first_ip(pod: &Object) -> String {
    items(part(pod, "status"), "podIPs").first().map(|ip| text(ip, "ip").to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selector::{FieldSelector, values};
    use serde_json::json;

    #[test]
    fn pods_are_found_by_where_they_run_and_what_they_do() {
        let pod = Object::from_value(json!({
            "spec": {"nodeName": "n"}, "status": {"phase": "Running", "podIPs": [{"ip": "1.2.3.4"}, {"ip": "fd00::1"}]},
        }))
        .unwrap();
        for (selector, chosen) in [
            ("spec.nodeName=n,status.phase!=Succeeded", true),
            ("spec.host=n", true),
            ("status.podIP=1.2.3.4", true),
            ("status.podIP=fd00::1", false),
            ("spec.hostNetwork=false", true),
        ] {
            assert_eq!(
                FieldSelector::parse(selector, &KIND).unwrap().matches(&values(&pod, &KIND)),
                chosen,
                "{selector}"
            );
        }
    }

    #[test]
    fn a_pod_that_runs_is_given_time() {
        let pod = |node: &str, phase: &str| {
            let spec = json!({"nodeName": node, "terminationGracePeriodSeconds": 30});
            Object::from_value(json!({"spec": spec, "status": {"phase": phase}})).unwrap()
        };
        for (node, phase, asked, given) in [
            ("n", "Running", None, 30),
            ("n", "Running", Some(5), 5),
            ("n", "Running", Some(0), 0),
            ("n", "Running", Some(-3), 1),
            ("", "Pending", Some(5), 0),
            ("n", "Succeeded", None, 0),
        ] {
            assert_eq!(grace(&pod(node, phase), asked), given, "{node} {phase} {asked:?}");
        }
    }
}
