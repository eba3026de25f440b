//! What a client is told of a pod that is accepted although something about it is odd or deprecated.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::names;
use crate::object::Object;
use crate::quantity::Amount;
use crate::reading::{fields, items, number, part, text, texts};

/// Labels of nodes that have other names now.
const OLD_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// Annotations that nobody reads any more.
const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];

/// Sources of volumes that are gone or going.
const OLD_SOURCES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const SECCOMP: &str = "use the \"seccompProfile\" field instead";

/// The lists of containers, in the order in which they are looked at.
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Of a change nothing is told: it is mostly made by programs, and often.
pub(super) fn warnings(pod: &Object, old: Option<&Object>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let spec = part(pod, "spec");
    let mut told = Told(Vec::new());
    let faults = names::label(pod.name(), false);
    if !pod.name().is_empty() && !faults.is_empty() {
        told.say(
            "metadata.name",
            format!(
                "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
                faults.join(" ")
            ),
        );
    }
    told.placement(spec);
    let empty = Map::new();
    let annotations = pod.at(&["metadata", "annotations"]).and_then(Value::as_object).unwrap_or(&empty);
    for (name, message) in OLD_ANNOTATIONS {
        if annotations.contains_key(name) {
            told.say(&format!("metadata.annotations[{name}]"), message);
        }
    }
    told.volumes(spec);
    told.repeated(spec, "hostAliases", "ip", "duplicate ip");
    told.repeated(spec, "imagePullSecrets", "name", "duplicate name");
    for (index, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            told.say(&format!("spec.imagePullSecrets[{index}].name"), "invalid empty name \"\"");
        }
    }
    told.fractions("spec.overhead", fields(spec, "overhead"));
    told.seccomp(annotations, "seccomp.security.alpha.kubernetes.io/pod", spec.get("securityContext"));
    for (path, container) in containers(spec) {
        let key = format!("container.seccomp.security.alpha.kubernetes.io/{}", text(container, "name"));
        told.seccomp(annotations, &key, container.get("securityContext"));
        for list in ["limits", "requests"] {
            let amounts = container.get("resources").and_then(|resources| fields(resources, list));
            told.fractions(&format!("{path}.resources.{list}"), amounts);
        }
        told.hidden_variables(&path, container);
    }
    told.ports(spec);
    told.affinity(spec);
    for (index, address) in spec.get("dnsConfig").into_iter().flat_map(|dns| texts(dns, "nameservers")).enumerate() {
        told.0.extend(names::address_warning(format_args!("spec.dnsConfig.nameservers[{index}]"), address));
    }
    for (index, alias) in items(spec, "hostAliases").iter().enumerate() {
        told.0.extend(names::address_warning(format_args!("spec.hostAliases[{index}].ip"), text(alias, "ip")));
    }
    told.0
}

/// All containers of a pod, each with its path.
fn containers(spec: &Value) -> impl Iterator<Item = (String, &Value)> {
    LISTS.into_iter().flat_map(move |list| {
        let all = items(spec, list).iter().enumerate();
        all.map(move |(index, container)| (format!("spec.{list}[{index}]"), container))
    })
}

/// What is told so far.
struct Told(Vec<String>);

impl Told {
    fn say(&mut self, path: &str, message: impl std::fmt::Display) {
        self.0.push(format!("{path}: {message}"));
    }

    fn placement(&mut self, spec: &Value) {
        for (name, _) in fields(spec, "nodeSelector").into_iter().flatten() {
            if let Some(message) = old_label(name) {
                self.say(&format!("spec.nodeSelector[{name}]"), message);
            }
        }
        if let Some(nodes) = spec.get("affinity").and_then(|affinity| affinity.get("nodeAffinity")) {
            let path = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
            for (index, term) in
                nodes.get(REQUIRED).into_iter().flat_map(|one| items(one, "nodeSelectorTerms")).enumerate()
            {
                self.node_term(&format!("{path}[{index}]"), term, false);
            }
            for (index, preferred) in items(nodes, PREFERRED).iter().enumerate() {
                let path = format!("spec.affinity.nodeAffinity.{PREFERRED}[{index}].preference");
                self.node_term(&path, preferred.get("preference").unwrap_or(&Value::Null), true);
            }
        }
        for (index, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
            let path = format!("spec.topologySpreadConstraints[{index}]");
            let key = text(constraint, "topologyKey");
            if let Some(message) = old_label(key) {
                self.say(&format!("{path}.topologyKey"), format!("{key} is {message}"));
            }
            self.selector(&format!("{path}.labelSelector"), constraint);
        }
    }

    fn node_term(&mut self, path: &str, term: &Value, look_at_values: bool) {
        for (index, expression) in items(term, "matchExpressions").iter().enumerate() {
            let path = format!("{path}.matchExpressions[{index}]");
            let key = text(expression, "key");
            if let Some(message) = old_label(key) {
                self.say(&format!("{path}.key"), format!("{key} is {message}"));
            }
            for (index, value) in texts(expression, "values").enumerate().filter(|_| look_at_values) {
                for fault in names::label_value(value) {
                    self.say(&format!("{path}.values[{index}]"), format!("{value} is invalid, {fault}"));
                }
            }
        }
    }

    /// A selector that is not there chooses nothing, and not everything.
    fn selector(&mut self, path: &str, holder: &Value) {
        if holder.get("labelSelector").is_none_or(Value::is_null) {
            self.say(path, "a null labelSelector results in matching no pod");
        }
    }

    fn affinity(&mut self, spec: &Value) {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let Some(affinity) = spec.get("affinity").and_then(|affinity| affinity.get(kind)) else { continue };
            for (index, term) in items(affinity, REQUIRED).iter().enumerate() {
                self.selector(&format!("spec.affinity.{kind}.{REQUIRED}[{index}].labelSelector"), term);
            }
            for (index, weighted) in items(affinity, PREFERRED).iter().enumerate() {
                let path = format!("spec.affinity.{kind}.{PREFERRED}[{index}].podAffinityTerm.labelSelector");
                self.selector(&path, weighted.get("podAffinityTerm").unwrap_or(&Value::Null));
            }
        }
    }

    fn volumes(&mut self, spec: &Value) {
        for (index, volume) in items(spec, "volumes").iter().enumerate() {
            for (name, message) in OLD_SOURCES {
                if volume.get(name).is_some_and(|source| !source.is_null()) {
                    // Clients know this one by another name than its own.
                    let shown = if name == "storageos" { "storageOS" } else { name };
                    self.say(&format!("spec.volumes[{index}].{shown}"), message);
                }
            }
        }
    }

    fn repeated(&mut self, spec: &Value, list: &str, name: &str, message: &str) {
        let mut seen = HashSet::new();
        for (index, item) in items(spec, list).iter().enumerate() {
            if !seen.insert(text(item, name)) {
                self.say(&format!("spec.{list}[{index}].{name}"), format!("{message} {:?}", text(item, name)));
            }
        }
    }

    fn fractions(&mut self, path: &str, amounts: Option<&Map<String, Value>>) {
        for name in ["memory", "ephemeral-storage"] {
            let Some(value) = amounts.and_then(|amounts| amounts.get(name)).and_then(Value::as_str) else { continue };
            if Amount::parse(value).is_some_and(|amount| !amount.is_whole()) {
                let message = format!("fractional byte value {value:?} is invalid, must be an integer");
                self.say(&format!("{path}[{name}]"), message);
            }
        }
    }

    fn seccomp(&mut self, annotations: &Map<String, Value>, key: &str, context: Option<&Value>) {
        let has_profile = context.is_some_and(|context| context.get("seccompProfile").is_some_and(Value::is_object));
        if !has_profile && annotations.contains_key(key) {
            self.say(&format!("metadata.annotations[{key}]"), format!("non-functional in v1.27+; {SECCOMP}"));
        }
    }

    /// A variable that is set twice may build on what it was; otherwise the first one is lost.
    fn hidden_variables(&mut self, path: &str, container: &Value) {
        let mut seen = HashSet::new();
        for (index, variable) in items(container, "env").iter().enumerate() {
            let (name, value) = (text(variable, "name"), text(variable, "value"));
            let reference = format!("$({name})");
            let replaces = variable.get("valueFrom").is_some_and(Value::is_object)
                || value == reference
                || !value.contains(&reference);
            if !seen.insert(name) && replaces {
                let message = format!("hides previous definition of {name:?}, which may be dropped when using apply");
                self.say(&format!("{path}.env[{index}]"), message);
            }
        }
    }

    fn ports(&mut self, spec: &Value) {
        let mut known: HashMap<(i64, &str), Vec<(String, &Value)>> = HashMap::new();
        let mut named: HashMap<&str, String> = HashMap::new();
        let mut same_names = Vec::new();
        let of = |port: &Value, name: &str| number(port, name).unwrap_or(0);
        for (path, container) in containers(spec) {
            for (index, port) in items(container, "ports").iter().enumerate() {
                let path = format!("{path}.ports[{index}]");
                let (ip, host) = (text(port, "hostIP"), of(port, "hostPort"));
                let (number, protocol) = (of(port, "containerPort"), text(port, "protocol"));
                if !ip.is_empty() && host == 0 {
                    let name = text(port, "name");
                    let shown =
                        format!("{{Name:{name} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}");
                    self.say(&path, format!("hostIP set without hostPort: {shown}"));
                }
                let others = known.entry((number, protocol)).or_default();
                // A list of ports that all are the same would be told of each pair.
                for (other, there) in others.iter().take(MOST_COMPARED) {
                    let (other_ip, other_host) = (text(there, "hostIP"), of(there, "hostPort"));
                    let what = if ip == other_ip && host == other_host {
                        "duplicate"
                    } else if host == 0 || other_host == 0 {
                        "overlapping"
                    } else if host == other_host && ip.is_empty() != other_ip.is_empty() {
                        "dangerously ambiguous"
                    } else {
                        continue;
                    };
                    self.say(&path, format!("{what} port definition with {other}"));
                }
                others.push((path.clone(), port));
                match text(port, "name") {
                    "" => {}
                    name => match named.get(name) {
                        Some(other) => same_names.push(format!(
                            "{path}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"
                        )),
                        None => drop(named.insert(name, path)),
                    },
                }
            }
        }
        self.0.append(&mut same_names);
    }
}

/// How many earlier ports a port is held against.
const MOST_COMPARED: usize = 64;

fn old_label(name: &str) -> Option<&'static str> {
    OLD_LABELS.iter().find(|(old, _)| *old == name).map(|(_, message)| *message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(pod: Value) -> Vec<String> {
        warnings(&Object::from_value(pod).unwrap(), None)
    }

    #[test]
    fn odd_names_and_hidden_variables_are_warned_of() {
        let env = json!([
            {"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "A", "value": "$(A)3"}, {"name": "A", "value": "$(A)"}
        ]);
        assert_eq!(
            told(json!({"metadata": {"name": "a.b"}, "spec": {"containers": [{"env": env}]}})),
            [
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
                "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
                "spec.containers[0].env[3]: hides previous definition of \"A\", which may be dropped when using apply",
            ]
        );
    }

    #[test]
    fn a_change_is_not_warned_of() {
        let pod = Object::from_value(json!({"metadata": {"name": "a.b"}})).unwrap();
        assert_eq!(warnings(&pod, Some(&pod)), [""; 0]);
    }

    #[test]
    fn what_is_deprecated_is_told_with_what_to_use() {
        assert_eq!(
            told(json!({
                "metadata": {"annotations": {"scheduler.alpha.kubernetes.io/critical-pod": ""}},
                "spec": {
                    "nodeSelector": {"beta.kubernetes.io/os": "linux"},
                    "volumes": [{"storageos": {}}, {"gitRepo": {}}],
                    "topologySpreadConstraints": [{"topologyKey": "a"}],
                },
            })),
            [
                "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
                "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
                "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the \"priorityClassName\" field instead",
                "spec.volumes[0].storageOS: deprecated in v1.22, non-functional in v1.25+",
                "spec.volumes[1].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
            ]
        );
    }

    #[test]
    fn ports_that_are_the_same_or_may_be_are_told() {
        let ports = json!([
            {"containerPort": 80, "protocol": "TCP", "hostPort": 80, "hostIP": "10.0.0.1", "name": "a"},
            {"containerPort": 80, "protocol": "TCP", "hostPort": 80, "name": "a"},
            {"containerPort": 80, "protocol": "TCP"},
            {"containerPort": 80, "protocol": "UDP", "hostIP": "10.0.0.1"},
        ]);
        let path = "spec.containers[0].ports";
        assert_eq!(
            told(json!({"spec": {"containers": [{"ports": ports}]}})),
            [
                format!("{path}[1]: dangerously ambiguous port definition with {path}[0]"),
                format!("{path}[2]: overlapping port definition with {path}[0]"),
                format!("{path}[2]: overlapping port definition with {path}[1]"),
                format!(
                    "{path}[3]: hostIP set without hostPort: {{Name: HostPort:0 ContainerPort:80 Protocol:UDP HostIP:10.0.0.1}}"
                ),
                format!(
                    "{path}[1]: duplicate port name \"a\" with {path}[0], services and probes that select ports by name will use {path}[0]"
                ),
            ]
        );
    }

    #[test]
    fn fractions_of_bytes_and_repeated_names_are_told() {
        assert_eq!(
            told(json!({"spec": {
                "imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}],
                "containers": [{"resources": {"requests": {"memory": "1500m", "cpu": "1500m"}}}],
            }})),
            [
                "spec.imagePullSecrets[1].name: duplicate name \"a\"",
                "spec.imagePullSecrets[2].name: invalid empty name \"\"",
                "spec.containers[0].resources.requests[memory]: fractional byte value \"1500m\" is invalid, must be an integer",
            ]
        );
    }
}
