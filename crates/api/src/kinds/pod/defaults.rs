//! What a pod gets where it says nothing.

use serde_json::{Map, Value, json};

use crate::object::Object;
use crate::quantity::Amount;
use crate::reading::{child_mut, each_mut, fill, fill_text, items, part, text};

/// How long a pod stays on a node that is lost.
const PATIENCE: i64 = 300;

/// The mode of files in volumes: `rw-r--r--`.
const FILE_MODE: i64 = 0o644;

pub(super) fn default(pod: &mut Object) {
    if let Some(spec) = child_mut(pod.fields_mut(), "spec") {
        default_spec(spec);
    }
    if let Some(status) = child_mut(pod.fields_mut(), "status") {
        align(status, "podIP", "podIPs", |ip| json!({ "ip": ip }), |one| one.get("ip").cloned());
    }
}

fn default_spec(spec: &mut Map<String, Value>) {
    for (name, value) in [
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        // Some account a pod always has; the older field repeats it.
        ("serviceAccountName", spec_account(spec).as_str()),
    ] {
        fill_text(spec, name, value);
    }
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        spec.insert("serviceAccount".into(), account);
    }
    child_mut(spec, "securityContext");
    fill(spec, "terminationGracePeriodSeconds", 30);
    // Once such pods were taken; what was meant is as little as there is.
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
    fill(spec, "enableServiceLinks", true);
    let on_host = spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in each_mut(spec, list) {
            default_container(container, on_host && list != "ephemeralContainers");
        }
    }
    for volume in each_mut(spec, "volumes") {
        default_volume(volume);
    }
}

fn spec_account(spec: &Map<String, Value>) -> String {
    match spec.get("serviceAccount").and_then(Value::as_str) {
        Some(account) if !account.is_empty() => account.to_owned(),
        _ => "default".to_owned(),
    }
}

fn default_container(container: &mut Map<String, Value>, on_host: bool) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if is_latest(image) { "Always" } else { "IfNotPresent" };
    fill_text(container, "imagePullPolicy", policy);
    fill_text(container, "terminationMessagePath", "/dev/termination-log");
    fill_text(container, "terminationMessagePolicy", "File");
    for port in each_mut(container, "ports") {
        fill_text(port, "protocol", "TCP");
        if on_host && port.get("hostPort").is_none_or(|port| *port == json!(0)) {
            let number = port.get("containerPort").cloned().unwrap_or(Value::Null);
            port.insert("hostPort".into(), number);
        }
    }
    for variable in each_mut(container, "env") {
        if let Some(field) = variable.get_mut("valueFrom").and_then(|from| from.get_mut("fieldRef"))
            && let Some(field) = field.as_object_mut()
        {
            fill_text(field, "apiVersion", "v1");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(name).and_then(Value::as_object_mut) {
            for (name, value) in
                [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
            {
                if probe.get(name).is_none_or(|value| value.is_null() || *value == json!(0)) {
                    probe.insert(name.into(), value.into());
                }
            }
            default_handler(probe);
        }
    }
    for name in ["postStart", "preStop"] {
        if let Some(hook) = container.get_mut("lifecycle").and_then(|hooks| hooks.get_mut(name)) {
            hook.as_object_mut().into_iter().for_each(default_handler);
        }
    }
    if let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) {
        default_resources(resources);
    }
}

fn default_handler(handler: &mut Map<String, Value>) {
    if let Some(http) = handler.get_mut("httpGet").and_then(Value::as_object_mut) {
        fill_text(http, "path", "/");
        fill_text(http, "scheme", "HTTP");
    }
    if let Some(grpc) = handler.get_mut("grpc").and_then(Value::as_object_mut) {
        fill(grpc, "service", "");
    }
}

/// What is limited and not asked for is asked for up to the limit.
fn default_resources(resources: &mut Map<String, Value>) {
    if let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned()
        && let Some(requests) = child_mut(resources, "requests")
    {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// Whether an image is whatever was pushed last: it has no tag but `latest`, and no digest.
fn is_latest(image: &str) -> bool {
    if image.is_empty() || image.contains('@') || image.bytes().any(|byte| byte.is_ascii_whitespace()) {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn default_volume(volume: &mut Map<String, Value>) {
    if volume.iter().all(|(name, value)| name == "name" || value.is_null()) {
        volume.insert("emptyDir".into(), json!({}));
    }
    for name in ["configMap", "secret", "downwardAPI", "projected"] {
        let Some(source) = volume.get_mut(name).and_then(Value::as_object_mut) else { continue };
        fill(source, "defaultMode", FILE_MODE);
        default_items(source);
        for projected in each_mut(source, "sources") {
            if let Some(token) = projected.get_mut("serviceAccountToken").and_then(Value::as_object_mut) {
                fill(token, "expirationSeconds", 3600);
            }
            if let Some(downward) = projected.get_mut("downwardAPI").and_then(Value::as_object_mut) {
                default_items(downward);
            }
        }
    }
    if let Some(rbd) = volume.get_mut("rbd").and_then(Value::as_object_mut) {
        for (name, value) in [("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")] {
            fill_text(rbd, name, value);
        }
    }
    if let Some(claim) = volume.get_mut("ephemeral").and_then(|source| source.get_mut("volumeClaimTemplate"))
        && let Some(spec) = claim.as_object_mut().and_then(|claim| child_mut(claim, "spec"))
    {
        fill_text(spec, "volumeMode", "Filesystem");
    }
    if let Some(path) = volume.get_mut("hostPath").and_then(Value::as_object_mut) {
        fill(path, "type", "");
    }
}

fn default_items(source: &mut Map<String, Value>) {
    for item in each_mut(source, "items") {
        if let Some(field) = item.get_mut("fieldRef").and_then(Value::as_object_mut) {
            fill_text(field, "apiVersion", "v1");
        }
    }
}

/// The older field holds the first of the newer list; if they differ, the older one is right.
fn align(
    fields: &mut Map<String, Value>,
    single: &str,
    list: &str,
    wrap: fn(&str) -> Value,
    unwrap: fn(&Value) -> Option<Value>,
) {
    let one = fields.get(single).and_then(Value::as_str).unwrap_or_default().to_owned();
    let first = fields.get(list).and_then(Value::as_array).and_then(|all| all.first()).and_then(unwrap);
    match first {
        Some(first) if one.is_empty() => {
            fields.insert(single.into(), first);
        }
        Some(first) if first == one.as_str() => {}
        None if one.is_empty() => {}
        _ => {
            fields.insert(list.into(), json!([wrap(&one)]));
        }
    }
}

pub(super) fn prepare_create(pod: &mut Object) {
    tolerate_lost_nodes(pod);
    if let Some(spec) = child_mut(pod.fields_mut(), "spec") {
        fill(spec, "priority", 0);
        fill(spec, "preemptionPolicy", "PreemptLowerPriority");
    }
    let mut status = json!({"phase": "Pending", "qosClass": quality(pod)});
    if !items(part(pod, "spec"), "schedulingGates").is_empty() {
        // It has been so since the pod is there.
        let since = pod.at(&["metadata", "creationTimestamp"]);
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": since,
            "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod.set(&["status"], status);
}

/// A client that sends its own manifest again knows nothing of what was filled in at the first time.
pub(super) fn prepare_update(new: &mut Object, old: &Object) {
    tolerate_lost_nodes(new);
    for name in ["priority", "preemptionPolicy"] {
        if new.at(&["spec", name]).is_none_or(Value::is_null)
            && let Some(value) = old.at(&["spec", name])
        {
            new.set(&["spec", name], value.clone());
        }
    }
}

/// The class follows from what the containers ask for, which does not change: a kubelet need not repeat it.
pub(super) fn prepare_status(new: &mut Object, old: &Object) {
    if new.text(&["status", "qosClass"]).is_empty()
        && let Some(class) = old.at(&["status", "qosClass"])
    {
        new.set(&["status", "qosClass"], class.clone());
    }
}

/// A pod stays for a while on a node that stopped answering, unless it says something else about that.
fn tolerate_lost_nodes(pod: &mut Object) {
    let mut tolerations = items(part(pod, "spec"), "tolerations").to_vec();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covers = |toleration: &Value| {
            ["", key].contains(&text(toleration, "key")) && ["", "NoExecute"].contains(&text(toleration, "effect"))
        };
        if !tolerations.iter().any(covers) {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE}));
        }
    }
    pod.set(&["spec", "tolerations"], tolerations.into());
}

/// How sure a pod can be of what it asked for: it asks for nothing, for exactly its limits everywhere, or in between.
fn quality(pod: &Object) -> &'static str {
    let spec = part(pod, "spec");
    let mut asks = false;
    let mut exact = true;
    for container in items(spec, "containers").iter().chain(items(spec, "initContainers")) {
        let amount = |list: &str, name: &str| {
            let text = container.pointer(&format!("/resources/{list}/{name}")).and_then(Value::as_str);
            text.and_then(Amount::parse).filter(|amount| !amount.is_zero())
        };
        for name in ["cpu", "memory"] {
            let (request, limit) = (amount("requests", name), amount("limits", name));
            asks |= request.is_some() || limit.is_some();
            exact &= limit.is_some() && request == limit;
        }
    }
    match (asks, exact) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::checking::created;
    use super::super::KIND;
    use super::*;

    #[test]
    fn a_small_pod_is_filled_in_as_clients_expect() {
        let pod = json!({
            "metadata": {"name": "a"},
            "spec": {
                "containers": [{
                    "name": "a", "image": "x", "ports": [{"containerPort": 80}],
                    "readinessProbe": {"httpGet": {"port": 80}},
                }],
                "volumes": [{"name": "v"}, {"name": "w", "configMap": {"name": "x"}}, {"name": "h", "hostPath": {"path": "/x"}}],
            },
            "status": {"phase": "Running"},
        });
        let patience = |key: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        assert_eq!(
            created(&KIND, pod).into_value(),
            json!({
                "metadata": {"name": "a"},
                "spec": {
                    "containers": [{
                        "name": "a", "image": "x", "ports": [{"containerPort": 80, "protocol": "TCP"}], "resources": {},
                        "readinessProbe": {
                            "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1,
                            "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
                        },
                        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                        "imagePullPolicy": "Always",
                    }],
                    "volumes": [
                        {"name": "v", "emptyDir": {}},
                        {"name": "w", "configMap": {"name": "x", "defaultMode": 420}},
                        {"name": "h", "hostPath": {"path": "/x", "type": ""}},
                    ],
                    "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                    "serviceAccountName": "default", "serviceAccount": "default", "securityContext": {},
                    "schedulerName": "default-scheduler", "tolerations": [patience("not-ready"), patience("unreachable")],
                    "priority": 0, "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
                },
                "status": {"phase": "Pending", "qosClass": "BestEffort"},
            })
        );
    }

    #[test]
    fn a_status_without_a_class_keeps_the_one_that_was_found() {
        let old = created(&KIND, json!({"spec": {"containers": [{"name": "a", "image": "x"}]}}));
        for (status, expected) in [
            (json!({"phase": "Running"}), json!({"phase": "Running", "qosClass": "BestEffort"})),
            (json!({"qosClass": "Burstable"}), json!({"qosClass": "Burstable"})),
        ] {
            let mut new = old.clone();
            new.set(&["status"], status);
            (KIND.prepare_status)(&mut new, &old);
            assert_eq!(new.at(&["status"]), Some(&expected));
        }
    }

    #[test]
    fn only_an_image_without_a_fixed_tag_is_always_pulled() {
        for (image, latest) in [
            ("x", true),
            ("x:latest", true),
            ("x:1", false),
            ("host:5000/x", true),
            ("host:5000/x:1", false),
            ("x@sha256:00", false),
            ("x:latest@sha256:00", false),
            ("", false),
        ] {
            assert_eq!(is_latest(image), latest, "{image}");
        }
    }

    #[test]
    fn limits_are_asked_for_and_decide_the_quality() {
        let with = |resources: Value| {
            let pod = created(&KIND, json!({"spec": {"containers": [{"resources": resources}]}}));
            let status = pod.text(&["status", "qosClass"]).to_owned();
            (pod.into_value()["spec"]["containers"][0]["resources"].clone(), status)
        };
        let (resources, quality) = with(json!({"limits": {"cpu": "0.5", "memory": "1024Mi"}}));
        assert_eq!(quality, "Guaranteed");
        assert_eq!(resources["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
        assert_eq!(with(json!({"requests": {"cpu": "1"}})).1, "Burstable");
        assert_eq!(with(json!({"limits": {"cpu": "1"}})).1, "Burstable");
        assert_eq!(with(json!({"requests": {"cpu": "0"}})).1, "BestEffort");
    }

    #[test]
    fn time_to_end_is_never_less_than_none() {
        let seconds = |asked: i64| {
            let pod = json!({"spec": {"terminationGracePeriodSeconds": asked, "containers": [{"name": "a"}]}});
            created(&KIND, pod).into_value()["spec"]["terminationGracePeriodSeconds"].clone()
        };
        assert_eq!([seconds(-7), seconds(0), seconds(7)], [json!(1), json!(0), json!(7)]);
    }

    #[test]
    fn a_pod_that_tolerates_everything_needs_no_more() {
        let pod = created(&KIND, json!({"spec": {"tolerations": [{"operator": "Exists"}]}}));
        assert_eq!(pod.at(&["spec", "tolerations"]), Some(&json!([{"operator": "Exists"}])));
    }

    #[test]
    fn the_older_address_is_the_first_of_the_newer() {
        let mut pod = Object::from_value(json!({"status": {"podIP": "1.2.3.4"}})).unwrap();
        default(&mut pod);
        assert_eq!(pod.at(&["status", "podIPs"]), Some(&json!([{"ip": "1.2.3.4"}])));
        let mut pod =
            Object::from_value(json!({"status": {"podIPs": [{"ip": "1.2.3.4"}, {"ip": "fd00::1"}]}})).unwrap();
        default(&mut pod);
        assert_eq!(pod.text(&["status", "podIP"]), "1.2.3.4");
    }

    #[test]
    fn ports_of_a_pod_on_the_hosts_network_are_the_hosts() {
        let pod =
            created(&KIND, json!({"spec": {"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}]}]}}));
        assert_eq!(pod.into_value()["spec"]["containers"][0]["ports"][0]["hostPort"], 80);
    }
}
