//! The row of a pod: what it is doing, put together from the states of its containers.

use serde_json::Value;

use crate::object::Object;
use crate::printing;
use crate::reading::{flag, items, number, part, text};
use crate::row::Cell;

/// What is gathered while looking through the containers.
struct Summary {
    reason: String,
    ready: usize,
    restarts: i64,
    /// When the last of the restarts was; RFC 3339 in UTC sorts as text.
    last_restart: String,
}

pub(super) fn row(pod: &Object) -> Vec<Cell> {
    let (spec, status) = (part(pod, "spec"), part(pod, "status"));
    let init = items(spec, "initContainers");
    let total = items(spec, "containers").len() + init.iter().filter(|container| is_sidecar(container)).count();
    let summary = summarize(pod);
    let restarts = summary.restarts.to_string();
    let restarts = match summary.last_restart.as_str() {
        last if summary.restarts != 0 && !last.is_empty() => {
            Cell::since_within(&format!("{restarts} ("), last, " ago)")
        }
        _ => restarts.into(),
    };
    let ip = items(status, "podIPs").first().map_or("", |ip| text(ip, "ip"));
    vec![
        pod.name().into(),
        format!("{}/{total}", summary.ready).into(),
        summary.reason.into(),
        restarts,
        printing::age(pod),
        printing::or_none(ip).into(),
        printing::or_none(text(spec, "nodeName")).into(),
        printing::or_none(text(status, "nominatedNodeName")).into(),
        gates(spec, status).into(),
    ]
}

fn gates(spec: &Value, status: &Value) -> String {
    let gates = items(spec, "readinessGates");
    if gates.is_empty() {
        return printing::NONE.to_owned();
    }
    let open = gates.iter().filter(|gate| condition(status, text(gate, "conditionType")) == "True").count();
    format!("{open}/{}", gates.len())
}

fn condition<'a>(status: &'a Value, wanted: &str) -> &'a str {
    let found = items(status, "conditions").iter().find(|condition| text(condition, "type") == wanted);
    found.map_or("", |condition| text(condition, "status"))
}

/// Whether an init container goes on running beside the others.
fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

fn summarize(pod: &Object) -> Summary {
    let (spec, status) = (part(pod, "spec"), part(pod, "status"));
    let phase = text(status, "phase");
    let mut reason = if text(status, "reason").is_empty() { phase } else { text(status, "reason") }.to_owned();
    let gated = |condition: &&Value| {
        text(condition, "type") == "PodScheduled" && text(condition, "reason") == "SchedulingGated"
    };
    if items(status, "conditions").iter().any(|condition| gated(&condition)) {
        "SchedulingGated".clone_into(&mut reason);
    }
    let mut summary = Summary { reason, ready: 0, restarts: 0, last_restart: String::new() };
    let (initializing, sidecars) = look_at_init(spec, status, &mut summary);
    if !initializing || condition(status, "Initialized") == "True" {
        (summary.restarts, summary.last_restart) = sidecars;
        look_at_containers(status, &mut summary);
    }
    if pod.is_terminating() {
        if text(status, "reason") == "NodeLost" {
            "Unknown".clone_into(&mut summary.reason);
        } else if !matches!(phase, "Failed" | "Succeeded") {
            "Terminating".clone_into(&mut summary.reason);
        }
    }
    summary
}

fn finished(container: &Value) -> &str {
    container.pointer("/lastState/terminated/finishedAt").and_then(Value::as_str).unwrap_or_default()
}

fn count(restarts: &mut i64, last: &mut String, container: &Value) {
    *restarts += number(container, "restartCount").unwrap_or(0);
    if finished(container) > last.as_str() {
        finished(container).clone_into(last);
    }
}

/// Why a container ended, in one word.
fn ending(terminated: &Value) -> String {
    match (text(terminated, "reason"), number(terminated, "signal").unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "exitCode").unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Looks through the init containers, and says whether one of them holds up the pod, and how often sidecars restarted.
fn look_at_init(spec: &Value, status: &Value, summary: &mut Summary) -> (bool, (i64, String)) {
    let mut sidecars = (0, String::new());
    let all = items(spec, "initContainers");
    for (index, container) in items(status, "initContainerStatuses").iter().enumerate() {
        count(&mut summary.restarts, &mut summary.last_restart, container);
        let name = text(container, "name");
        let sidecar = all.iter().any(|spec| text(spec, "name") == name && is_sidecar(spec));
        if sidecar {
            count(&mut sidecars.0, &mut sidecars.1, container);
        }
        let state = container.get("state").unwrap_or(&Value::Null);
        let terminated = state.get("terminated").filter(|it| it.is_object());
        let waiting = state.get("waiting").map_or("", |it| text(it, "reason"));
        match terminated {
            Some(it) if number(it, "exitCode").unwrap_or(0) == 0 => continue,
            _ if sidecar && flag(container, "started") => {
                summary.ready += usize::from(flag(container, "ready"));
                continue;
            }
            Some(it) => summary.reason = format!("Init:{}", ending(it)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => summary.reason = format!("Init:{waiting}"),
            None => summary.reason = format!("Init:{index}/{}", all.len()),
        }
        return (true, sidecars);
    }
    (false, sidecars)
}

fn look_at_containers(status: &Value, summary: &mut Summary) {
    let mut running = false;
    let mut failure = String::new();
    for container in items(status, "containerStatuses").iter().rev() {
        count(&mut summary.restarts, &mut summary.last_restart, container);
        let state = container.get("state").unwrap_or(&Value::Null);
        let waiting = state.get("waiting").map_or("", |it| text(it, "reason"));
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.reason);
        } else if let Some(terminated) = state.get("terminated").filter(|it| it.is_object()) {
            summary.reason = ending(terminated);
            if number(terminated, "exitCode").unwrap_or(0) != 0 {
                failure.clone_from(&summary.reason);
            }
        } else if flag(container, "ready") && state.get("running").is_some_and(Value::is_object) {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" {
        if running && condition(status, "Ready") == "True" {
            "Running".clone_into(&mut summary.reason);
        } else if !failure.is_empty() {
            summary.reason = failure;
        } else if running {
            "NotReady".clone_into(&mut summary.reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::checking::row;
    use super::super::KIND;
    use serde_json::{Value, json};

    fn shown(spec: &Value, status: &Value) -> String {
        let pod = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
        row(&KIND, pod, "2026-01-01T00:10:00Z")
    }

    #[test]
    fn the_state_is_told_by_the_containers() {
        let two = json!({"containers": [{"name": "x"}, {"name": "y"}]});
        let states = |x: Value, y: Value| {
            json!({"phase": "Running", "containerStatuses": [
                {"name": "x", "state": x, "ready": true, "restartCount": 2, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}}},
                {"name": "y", "state": y, "ready": true},
            ]})
        };
        let tail = "|<unknown>|<none>|<none>|<none>|<none>";
        for (status, expected) in [
            (json!({"phase": "Pending"}), "a|0/2|Pending|0"),
            (states(json!({"running": {}}), json!({"running": {}})), "a|2/2|Running|2 (10m ago)"),
            (
                states(json!({"waiting": {"reason": "CrashLoopBackOff"}}), json!({"running": {}})),
                "a|1/2|CrashLoopBackOff|2 (10m ago)",
            ),
            (states(json!({"terminated": {"exitCode": 3}}), json!({"running": {}})), "a|1/2|ExitCode:3|2 (10m ago)"),
            (states(json!({"terminated": {"signal": 9}}), json!({"running": {}})), "a|1/2|Signal:9|2 (10m ago)"),
            (
                states(
                    json!({"terminated": {"reason": "Completed"}}),
                    json!({"terminated": {"reason": "Error", "exitCode": 1}}),
                ),
                "a|0/2|Error|2 (10m ago)",
            ),
            (
                states(json!({"terminated": {"reason": "Completed"}}), json!({"running": {}})),
                "a|1/2|NotReady|2 (10m ago)",
            ),
        ] {
            assert_eq!(shown(&two, &status), format!("{expected}{tail}"), "{status}");
        }
    }

    #[test]
    fn init_containers_come_first() {
        let spec =
            json!({"containers": [{}], "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]});
        let status = |state: Value| json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": state, "restartCount": 1}]});
        for (state, expected) in [
            (json!({"running": {}}), "a|0/2|Init:0/2|1|"),
            (json!({"waiting": {"reason": "ErrImagePull"}}), "a|0/2|Init:ErrImagePull|1|"),
            (json!({"terminated": {"exitCode": 1}}), "a|0/2|Init:ExitCode:1|1|"),
            (json!({"terminated": {"exitCode": 0}}), "a|0/2|Pending|0|"),
        ] {
            assert!(shown(&spec, &status(state.clone())).starts_with(expected), "{state}");
        }
        let sidecar = json!({"phase": "Running", "initContainerStatuses": [
            {"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "s", "state": {"running": {}}, "started": true, "ready": true, "restartCount": 4},
        ]});
        assert!(shown(&spec, &sidecar).starts_with("a|1/2|Running|4|"));
    }

    #[test]
    fn a_pod_that_is_going_says_so() {
        let pod = |phase: &str, reason: &str| {
            let metadata = json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"});
            row(
                &KIND,
                json!({"metadata": metadata, "status": {"phase": phase, "reason": reason}}),
                "2026-01-01T00:10:00Z",
            )
        };
        assert!(pod("Running", "").starts_with("a|0/0|Terminating|"));
        assert!(pod("Running", "NodeLost").starts_with("a|0/0|Unknown|"));
        assert!(pod("Succeeded", "").starts_with("a|0/0|Succeeded|"));
    }

    #[test]
    fn the_wide_row_tells_where_it_is() {
        let spec = json!({"nodeName": "n", "readinessGates": [{"conditionType": "A"}, {"conditionType": "B"}]});
        let status = json!({"phase": "Running", "podIPs": [{"ip": "1.2.3.4"}], "nominatedNodeName": "m", "conditions": [
            {"type": "A", "status": "True"}, {"type": "PodScheduled", "reason": "SchedulingGated"}]});
        assert_eq!(shown(&spec, &status), "a|0/0|SchedulingGated|0|<unknown>|1.2.3.4|n|m|1/2");
    }
}
