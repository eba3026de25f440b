//! The rules for the containers of a pod.

use std::collections::HashSet;

use serde_json::Value;

use super::super::node::validate_amount;
use super::super::port;
use super::{security, sources, volumes};
use crate::field::{Errors, Path};
use crate::quantity::Amount;
use crate::reading::{fields, flag, items, number, text};
use crate::{meta, names};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Resources of a container that have no domain in their name.
const RESOURCES: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];

/// Notes what is wrong with all containers of a pod that has those volumes.
pub(super) fn validate(spec: &Value, volumes: &HashSet<&str>, errors: &mut Errors) {
    let grace = number(spec, "terminationGracePeriodSeconds");
    let host_users = spec.get("hostUsers").and_then(Value::as_bool).unwrap_or(true);
    let path = Path::new("spec").child("containers");
    let containers = items(spec, "containers");
    if containers.is_empty() {
        errors.required(&path, "");
    }
    let mut seen = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        validate_container(&path, container, volumes, host_users, errors);
        if !seen.insert(text(container, "name")) {
            errors.duplicate(&path.child("name"), &Value::from(text(container, "name")));
        }
        validate_probes(&path, container, grace, errors);
        validate_restart(&path, container, errors);
    }
    validate_host_ports(&path, containers, errors);

    let path = Path::new("spec").child("initContainers");
    let init = items(spec, "initContainers");
    for (index, container) in init.iter().enumerate() {
        let path = path.index(index);
        validate_container(&path, container, volumes, host_users, errors);
        validate_restart(&path, container, errors);
        if !seen.insert(text(container, "name")) {
            errors.duplicate(&path.child("name"), &Value::from(text(container, "name")));
        }
        if text(container, "restartPolicy") == "Always" {
            validate_probes(&path, container, grace, errors);
        } else {
            for name in ["lifecycle"].into_iter().chain(PROBES) {
                if container.get(name).is_some_and(|it| !it.is_null()) {
                    let detail = "may not be set for init containers without restartPolicy=Always";
                    errors.forbidden(&path.child(name), detail);
                }
            }
        }
    }
}

/// Notes images that begin or end with a space: nothing finds them.
pub(super) fn validate_images(spec: &Value, errors: &mut Errors) {
    for list in ["containers", "initContainers"] {
        for (index, container) in items(spec, list).iter().enumerate() {
            let image = text(container, "image");
            if image.trim() != image {
                let path = Path::new("spec").child(list).index(index).child("image");
                errors.invalid(&path, &Value::from(image), "must not have leading or trailing whitespace");
            }
        }
    }
}

fn validate_container(path: &Path, container: &Value, volumes: &HashSet<&str>, host_users: bool, errors: &mut Errors) {
    let (name, image) = (text(container, "name"), text(container, "image"));
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        meta::invalid_text(&path.child("name"), name, names::label(name, false), errors);
    }
    if image.is_empty() {
        errors.required(&path.child("image"), "");
    }
    let policy = text(container, "terminationMessagePolicy");
    if !["File", "FallbackToLogsOnError"].contains(&policy) {
        let path = path.child("terminationMessagePolicy");
        errors.not_supported(&path, &Value::from(policy), &["File", "FallbackToLogsOnError"]);
    }
    validate_ports(&path.child("ports"), items(container, "ports"), errors);
    sources::validate(path, container, errors);
    validate_mounts(&path.child("volumeMounts"), items(container, "volumeMounts"), volumes, errors);
    let policy = text(container, "imagePullPolicy");
    if !PULL_POLICIES.contains(&policy) {
        errors.not_supported(&path.child("imagePullPolicy"), &Value::from(policy), &PULL_POLICIES);
    }
    validate_resources(&path.child("resources"), container.get("resources").unwrap_or(&Value::Null), errors);
    security::validate_container(path, container, host_users, errors);
}

fn validate_restart(path: &Path, container: &Value, errors: &mut Errors) {
    const POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
    if let Some(policy) = container.get("restartPolicy").and_then(Value::as_str)
        && !POLICIES.contains(&policy)
    {
        errors.not_supported(&path.child("restartPolicy"), &Value::from(policy), &POLICIES);
    }
}

fn validate_ports(path: &Path, ports: &[Value], errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let faults = names::port_name(name);
            if !seen.insert(name) && faults.is_empty() {
                errors.duplicate(&path.child("name"), &Value::from(name));
            }
            meta::invalid_text(&path.child("name"), name, faults, errors);
        }
        for name in ["containerPort", "hostPort"] {
            match number(port, name).unwrap_or(0) {
                0 if name == "containerPort" => errors.required(&path.child(name), ""),
                0 => {}
                number => {
                    if let Some(fault) = names::port_number(number) {
                        errors.invalid(&path.child(name), &Value::from(number), fault);
                    }
                }
            }
        }
        port::validate_protocol(&path, port, errors);
    }
}

/// No two containers want the same port of the node.
fn validate_host_ports(path: &Path, containers: &[Value], errors: &mut Errors) {
    let mut taken = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (at, port) in items(container, "ports").iter().enumerate() {
            let Some(number) = number(port, "hostPort").filter(|port| *port != 0) else { continue };
            let wanted = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if taken.contains(&wanted) {
                let path = path.index(index).child("ports").index(at).child("hostPort");
                errors.duplicate(&path, &Value::from(wanted));
            } else {
                taken.insert(wanted);
            }
        }
    }
}

fn validate_mounts(list: &Path, mounts: &[Value], volumes: &HashSet<&str>, errors: &mut Errors) {
    let mut targets = HashSet::new();
    for (index, mount) in mounts.iter().enumerate() {
        let path = list.index(index);
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        }
        if !volumes.contains(name) {
            errors.not_found(&path.child("name"), &Value::from(name));
        }
        if target.is_empty() {
            errors.required(&path.child("mountPath"), "");
        }
        if !targets.insert(target) {
            errors.invalid(&path.child("mountPath"), &Value::from(target), "must be unique");
        }
        validate_sub_path(list, mount, errors);
    }
}

/// Clients know these faults without the place in the list.
fn validate_sub_path(path: &Path, mount: &Value, errors: &mut Errors) {
    const RECURSION: [&str; 3] = ["Disabled", "Enabled", "IfPossible"];
    let (sub_path, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
    volumes::within(&path.child("subPath"), sub_path, errors);
    volumes::within(&path.child("subPathExpr"), expression, errors);
    let path = path.child("recursiveReadOnly");
    match text(mount, "recursiveReadOnly") {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !flag(mount, "readOnly") {
                errors.forbidden(&path, "may only be specified when readOnly is true");
            }
        }
        other => errors.not_supported(&path, &Value::from(other), &RECURSION),
    }
}

/// Notes what is wrong with what a container asks for and may use.
fn validate_resources(path: &Path, resources: &Value, errors: &mut Errors) {
    let read = |value: &Value| value.as_str().and_then(Amount::parse);
    for (name, value) in fields(resources, "limits").into_iter().flatten() {
        validate_resource(&path.child("limits").key(name), name, value, errors);
    }
    for (name, value) in fields(resources, "requests").into_iter().flatten() {
        validate_resource(&path.child("requests").key(name), name, value, errors);
        let limit = fields(resources, "limits").and_then(|limits| limits.get(name));
        let Some(limit) = limit else {
            if !may_be_exceeded(name) {
                errors.required(&path.child("limits"), "Limit must be set for non overcommitable resources");
            }
            continue;
        };
        let (request, most) = (read(value), read(limit));
        let relation = if !may_be_exceeded(name) && request != most {
            "equal"
        } else if request > most {
            "less than or equal"
        } else {
            continue;
        };
        let detail = format!("must be {relation} to {name} limit of {}", limit.as_str().unwrap_or_default());
        errors.invalid(&path.child("requests"), value, detail);
    }
    let has = |wanted: fn(&str) -> bool| {
        ["limits", "requests"]
            .iter()
            .any(|list| fields(resources, list).into_iter().flatten().any(|(name, _)| wanted(name)))
    };
    if has(|name| name.starts_with("hugepages-")) && !has(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

/// Whether more of it may be used than was asked for. What others count is given to one container alone.
fn may_be_exceeded(resource: &str) -> bool {
    let is_native = !resource.contains('/') || resource.contains("kubernetes.io/");
    is_native && !resource.starts_with("hugepages-")
}

fn validate_resource(path: &Path, name: &str, value: &Value, errors: &mut Errors) {
    let faults = names::qualified_name(name);
    let is_known = RESOURCES.contains(&name) || name.starts_with("hugepages-");
    if faults.is_empty() && !name.contains('/') && !is_known {
        let shown = Value::from(name);
        errors.invalid(path, &shown, "must be a standard resource type or fully qualified");
        errors.invalid(path, &shown, "must be a standard resource for containers");
    }
    meta::invalid_text(path, name, faults, errors);
    validate_amount(path, name, value, errors);
}

fn validate_probes(path: &Path, container: &Value, grace: Option<i64>, errors: &mut Errors) {
    const TIMES: [&str; 5] =
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
    if let Some(lifecycle) = container.get("lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(hook) = lifecycle.get(name).filter(|hook| hook.is_object()) {
                validate_handler(&path.child("lifecycle").child(name), hook, grace, errors);
            }
        }
    }
    for name in PROBES {
        let Some(probe) = container.get(name).filter(|probe| probe.is_object()) else { continue };
        let path = path.child(name);
        validate_handler(&path, probe, grace, errors);
        for name in TIMES {
            let value = number(probe, name).unwrap_or(0);
            if value < 0 {
                errors.invalid(&path.child(name), &Value::from(value), "must be greater than or equal to 0");
            }
        }
        match number(probe, "terminationGracePeriodSeconds") {
            Some(seconds) if seconds <= 0 => {
                let path = path.child("terminationGracePeriodSeconds");
                errors.invalid(&path, &Value::from(seconds), "must be greater than 0");
            }
            _ => {}
        }
        if let Some(seconds) = number(probe, "terminationGracePeriodSeconds")
            && name == "readinessProbe"
        {
            let path = path.child("terminationGracePeriodSeconds");
            errors.invalid(&path, &Value::from(seconds), "must not be set for readinessProbes");
        }
        let threshold = number(probe, "successThreshold").unwrap_or(1);
        if name != "readinessProbe" && threshold != 1 {
            errors.invalid(&path.child("successThreshold"), &Value::from(threshold), "must be 1");
        }
    }
}

fn validate_handler(path: &Path, handler: &Value, grace: Option<i64>, errors: &mut Errors) {
    let mut found = false;
    for name in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = handler.get(name).filter(|action| action.is_object()) else { continue };
        let path = path.child(name);
        if found {
            errors.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match name {
            "exec" if items(action, "command").is_empty() => errors.required(&path.child("command"), ""),
            "httpGet" | "tcpSocket" | "grpc" => {
                port::validate_number_or_name(&path.child("port"), action.get("port"), errors);
                let scheme = text(action, "scheme");
                if name == "httpGet" && !["HTTP", "HTTPS"].contains(&scheme) {
                    errors.not_supported(&path.child("scheme"), &Value::from(scheme), &["HTTP", "HTTPS"]);
                }
                for header in items(action, "httpHeaders") {
                    let header = text(header, "name");
                    meta::invalid_text(&path.child("httpHeaders"), header, names::header_name(header), errors);
                }
            }
            "sleep" => {
                let seconds = number(action, "seconds").unwrap_or(0);
                if let Some(grace) = grace
                    && !(0..=grace).contains(&seconds)
                {
                    let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    errors.invalid(&path, &Value::from(seconds), why);
                }
            }
            _ => {}
        }
    }
    if !found {
        errors.required(path, "must specify a handler type");
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::checking::create_faults;
    use super::super::KIND;
    use serde_json::{Value, json};

    fn faults(container: Value) -> Vec<String> {
        let mut container = container;
        for (name, value) in [("name", "a"), ("image", "x")] {
            if container.get(name).is_none() {
                container[name] = json!(value);
            }
        }
        let pod = json!({"spec": {"containers": [container], "volumes": [{"name": "v"}]}});
        create_faults(&KIND, pod).iter().map(|fault| fault.replacen("spec.containers[0].", "", 1)).collect()
    }

    #[test]
    fn a_container_has_a_name_an_image_and_known_policies() {
        assert_eq!(faults(json!({})), [""; 0]);
        assert_eq!(
            faults(json!({"name": "", "image": "", "imagePullPolicy": "X", "terminationMessagePolicy": "Y"})),
            [
                "name: Required value",
                "image: Required value",
                "terminationMessagePolicy: Unsupported value: \"Y\": supported values: \"File\", \"FallbackToLogsOnError\"",
                "imagePullPolicy: Unsupported value: \"X\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
            ]
        );
        assert_eq!(
            faults(json!({"image": " x"})),
            ["image: Invalid value: \" x\": must not have leading or trailing whitespace"]
        );
    }

    #[test]
    fn ports_and_mounts_are_sound() {
        assert_eq!(
            faults(
                json!({"ports": [{"hostPort": 70000, "name": "a"}, {"containerPort": 1, "name": "a", "protocol": "Q"}]})
            ),
            [
                "ports[0].containerPort: Required value",
                "ports[0].hostPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "ports[1].name: Duplicate value: \"a\"",
                "ports[1].protocol: Unsupported value: \"Q\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ]
        );
        assert_eq!(
            faults(json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "w", "mountPath": "/a"}, {}]})),
            [
                "volumeMounts[1].name: Not found: \"w\"",
                "volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique",
                "volumeMounts[2].name: Required value",
                "volumeMounts[2].name: Not found: \"\"",
                "volumeMounts[2].mountPath: Required value",
            ]
        );
    }

    #[test]
    fn no_more_is_asked_for_than_may_be_used() {
        assert_eq!(
            faults(json!({"resources": {"requests": {"cpu": "2", "memory": "-1"}, "limits": {"cpu": "1"}}})),
            [
                "resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
                "resources.requests[memory]: Invalid value: \"-1\": must be greater than or equal to 0",
            ]
        );
        assert_eq!(
            faults(json!({"resources": {"requests": {"foo": "1"}}})),
            [
                "resources.requests[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
                "resources.requests[foo]: Invalid value: \"foo\": must be a standard resource for containers",
            ]
        );
    }

    #[test]
    fn a_probe_asks_in_one_way() {
        assert_eq!(
            faults(json!({
                "livenessProbe": {"periodSeconds": -1},
                "readinessProbe": {"exec": {"command": []}, "tcpSocket": {"port": 1}},
                "startupProbe": {"httpGet": {"port": "AA"}, "successThreshold": 2},
            })),
            [
                "livenessProbe: Required value: must specify a handler type",
                "livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
                "readinessProbe.exec.command: Required value",
                "readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
                "startupProbe.httpGet.port: Invalid value: \"AA\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "startupProbe.httpGet.port: Invalid value: \"AA\": must contain at least one letter (a-z)",
                "startupProbe.successThreshold: Invalid value: 2: must be 1",
            ]
        );
    }

    #[test]
    fn names_are_unique_over_all_containers() {
        let pod = json!({"spec": {
            "containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}],
            "initContainers": [{"name": "a", "image": "x", "readinessProbe": {"exec": {"command": ["b"]}}}],
        }});
        assert_eq!(
            create_faults(&KIND, pod),
            [
                "spec.containers[1].name: Duplicate value: \"a\"",
                "spec.initContainers[0].name: Duplicate value: \"a\"",
                "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            ]
        );
        assert_eq!(create_faults(&KIND, json!({})), ["spec.containers: Required value"]);
        let port = json!([{"containerPort": 80, "hostPort": 80}]);
        assert_eq!(
            create_faults(
                &KIND,
                json!({"spec": {"containers": [{"name": "a", "image": "x", "ports": port}, {"name": "b", "image": "x", "ports": port}]}})
            ),
            ["spec.containers[1].ports[0].hostPort: Duplicate value: \"TCP//80\""]
        );
    }
}
