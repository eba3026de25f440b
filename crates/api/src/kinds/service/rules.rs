//! The rules for everything a Service says but its addresses: ports, type, affinity, traffic policies, load balancing.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::port;
use super::families;
use super::spec::{Spec, texts};
use crate::field::{Errors, Path};
use crate::object::Object;
use crate::reading::{number, text};
use crate::{meta, names};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
pub(super) const POLICIES: [&str; 2] = ["Cluster", "Local"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
const LONGEST_AFFINITY: i64 = 86_400;
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

pub(super) fn validate(service: &Object, old: Option<&Object>, errors: &mut Errors) {
    let spec = &Spec::of(service);
    validate_topology(service, errors);
    validate_type(spec, errors);
    validate_ports(spec, errors);
    let path = Path::new("spec");
    meta::validate_labels(spec.selector, &path.child("selector"), errors);
    validate_affinity(spec, errors);
    families::validate_spec(spec, old, errors);
    validate_external_ips(spec, old, errors);
    if !TYPES.contains(&spec.kind) {
        errors.not_supported(&path.child("type"), &Value::from(spec.kind), &TYPES);
    }
    validate_numbers(spec, errors);
    validate_source_ranges(service, spec, old, errors);
    validate_balancing(spec, errors);
    validate_policies(spec, errors);
}

pub(super) fn validate_update(new: &Object, old: &Object, errors: &mut Errors) {
    families::validate_change(new, old, errors);
    let (after, before) = (Spec::of(new), Spec::of(old));
    if after.is_balanced() && before.is_balanced() && after.class != before.class {
        let class = after.class.unwrap_or(&Value::Null);
        errors.invalid(&Path::new("spec").child("loadBalancerClass"), class, "may not change once set");
    }
    // Clients are told twice.
    validate_class(&after, errors);
    let need_health_checks = after.needs_health_check() && before.needs_health_check();
    if need_health_checks && after.health_check != before.health_check {
        errors.forbidden(&Path::new("spec").child("healthCheckNodePort"), meta::IMMUTABLE);
    }
    validate(new, Some(old), errors);
}

fn validate_topology(service: &Object, errors: &mut Errors) {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    const MODE: &str = "service.kubernetes.io/topology-mode";
    let annotation = |name| service.at(&["metadata", "annotations", name]);
    if let (Some(hints), Some(mode)) = (annotation(HINTS), annotation(MODE))
        && hints != mode
    {
        let path = Path::new("metadata").child("annotations").key(MODE);
        errors.invalid(&path, mode, format!("must match annotations[{HINTS}] when both are specified"));
    }
}

fn validate_type(spec: &Spec<'_>, errors: &mut Errors) {
    let path = Path::new("spec");
    let kind = spec.kind;
    if spec.ports.is_empty() && !spec.is_headless() && kind != "ExternalName" {
        errors.required(&path.child("ports"), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if spec.is_headless() => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.invalid(&path.child("clusterIPs").index(0), &Value::from("None"), detail);
        }
        "ExternalName" => {
            for (name, is_set) in [
                ("clusterIPs", !spec.addresses.is_empty()),
                ("ipFamilies", !spec.families.is_empty()),
                ("ipFamilyPolicy", spec.family_policy.is_some_and(|policy| !meta::is_empty(policy))),
            ] {
                if is_set {
                    errors.forbidden(&path.child(name), "may not be set for ExternalName services");
                }
            }
            let name = spec.external_name.strip_suffix('.').unwrap_or(spec.external_name);
            if name.is_empty() {
                errors.required(&path.child("externalName"), "");
            } else {
                meta::invalid_text(&path.child("externalName"), name, names::subdomain(name, false), errors);
            }
        }
        _ => {}
    }
}

fn validate_ports(spec: &Spec<'_>, errors: &mut Errors) {
    let ports = spec.ports;
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = Path::new("spec").child("ports").index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            meta::invalid_text(&path.child("name"), name, names::label(name, false), errors);
            if !seen.insert(name) {
                errors.duplicate(&path.child("name"), &Value::from(name));
            }
        } else if ports.len() > 1 {
            errors.required(&path.child("name"), "");
        }
        port::validate_number(&path, port, "port", errors);
        port::validate_protocol(&path, port, errors);
        port::validate_number_or_name(&path.child("targetPort"), port.get("targetPort"), errors);
        port::validate_app_protocol(&path, port, errors);
    }
}

/// No two ports of a Service are the same, inside or on the nodes.
fn validate_numbers(spec: &Spec<'_>, errors: &mut Errors) {
    let ports = spec.ports;
    let path = |index: usize| Path::new("spec").child("ports").index(index);
    let node_port = |port: &Value| number(port, "nodePort").unwrap_or(0);
    if spec.kind == "ClusterIP" {
        for (index, _) in ports.iter().enumerate().filter(|(_, port)| node_port(port) != 0) {
            errors.forbidden(&path(index).child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    if ports.len() < 2 {
        return;
    }
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate().filter(|(_, port)| node_port(port) != 0) {
        if !seen.insert((node_port(port), text(port, "protocol"))) {
            errors.duplicate(&path(index).child("nodePort"), &Value::from(node_port(port)));
        }
    }
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let (number, protocol) = (number(port, "port").unwrap_or(0), text(port, "protocol"));
        if !seen.insert((number, protocol)) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{protocol:?},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}"
            );
            errors.duplicate_shown(&path(index), &shown, "");
        }
    }
}

fn validate_affinity(spec: &Spec<'_>, errors: &mut Errors) {
    let path = Path::new("spec");
    let config = path.child("sessionAffinityConfig");
    match spec.affinity {
        "None" => {
            if spec.affinity_config.is_some() {
                errors.forbidden(&config, "must not be set when session affinity is None");
            }
        }
        "ClientIP" => {
            let seconds = spec.affinity_config.and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
            let seconds = seconds.and_then(Value::as_i64);
            if let Some(seconds) = seconds
                && !(1..=LONGEST_AFFINITY).contains(&seconds)
            {
                let detail = format!("must be greater than 0 and less than {LONGEST_AFFINITY}");
                errors.invalid(&config.child("clientIP").child("timeoutSeconds"), &Value::from(seconds), detail);
            }
        }
        other => errors.not_supported(&path.child("sessionAffinity"), &Value::from(other), &["ClientIP", "None"]),
    }
}

fn validate_external_ips(spec: &Spec<'_>, old: Option<&Object>, errors: &mut Errors) {
    let known: HashSet<_> = old.into_iter().flat_map(|old| texts(Spec::of(old).external_ips)).collect();
    for (index, ip) in texts(spec.external_ips).enumerate() {
        let path = Path::new("spec").child("externalIPs").index(index);
        let mut faults = if known.contains(ip) { Vec::new() } else { names::address(ip) };
        if faults.is_empty() {
            faults = names::endpoint_address(ip);
        }
        meta::invalid_text(&path, ip, faults, errors);
    }
}

fn validate_source_ranges(service: &Object, spec: &Spec<'_>, old: Option<&Object>, errors: &mut Errors) {
    let is_balanced = spec.is_balanced();
    let annotation = |service: &Object| service.at(&["metadata", "annotations", SOURCE_RANGES]).cloned();
    if !spec.source_ranges.is_empty() {
        // Clients know this list by this path, capital letter and all.
        let path = Path::new("spec").child("LoadBalancerSourceRanges");
        if !is_balanced {
            errors.forbidden(&path, ONLY_BALANCED);
        }
        let before = old.map(|old| Spec::of(old).source_ranges).unwrap_or_default();
        let known: HashSet<_> = texts(before).map(str::trim).collect();
        for (index, range) in
            texts(spec.source_ranges).map(str::trim).enumerate().filter(|(_, range)| !known.contains(*range))
        {
            meta::invalid_text(&path.index(index), range, names::cidr(range), errors);
        }
    } else if let Some(written) = annotation(service) {
        let path = Path::new("metadata").child("annotations").key(SOURCE_RANGES);
        if !is_balanced {
            errors.forbidden(&path, ONLY_BALANCED);
        }
        let text = written.as_str().unwrap_or_default().trim();
        if !text.is_empty() && old.and_then(annotation).as_ref() != Some(&written) {
            for range in text.split(',').map(str::trim) {
                meta::invalid_text(&path, range, names::cidr(range), errors);
            }
        }
    }
}

fn validate_balancing(spec: &Spec<'_>, errors: &mut Errors) {
    if spec.allocates_node_ports.is_some() && !spec.is_balanced() {
        errors.forbidden(&Path::new("spec").child("allocateLoadBalancerNodePorts"), ONLY_BALANCED);
    }
    validate_class(spec, errors);
}

/// Only load balancers are of a class.
fn validate_class(spec: &Spec<'_>, errors: &mut Errors) {
    let Some(class) = spec.class else { return };
    let (path, class) = (Path::new("spec").child("loadBalancerClass"), class.as_str().unwrap_or_default());
    if spec.is_balanced() {
        meta::invalid_text(&path, class, names::qualified_name(class), errors);
    } else {
        errors.forbidden(&path, ONLY_BALANCED);
    }
}

fn validate_policies(spec: &Spec<'_>, errors: &mut Errors) {
    let path = Path::new("spec");
    let external = spec.external_policy;
    if !spec.is_external() {
        if !external.is_empty() {
            let detail = "may only be set for externally-accessible services";
            errors.invalid(&path.child("externalTrafficPolicy"), &Value::from(external), detail);
        }
    } else if !POLICIES.contains(&external) {
        errors.not_supported(&path.child("externalTrafficPolicy"), &Value::from(external), &POLICIES);
    }
    let health_check = spec.health_check;
    let fault = if spec.needs_health_check() {
        // A Service that needs one and names none is given one; that is not this module's affair.
        names::port_number(health_check).filter(|_| health_check != 0)
    } else {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        (health_check != 0).then(|| detail.to_owned())
    };
    if let Some(fault) = fault {
        errors.invalid(&path.child("healthCheckNodePort"), &json!(health_check), fault);
    }
    if let Some(internal) = spec.internal_policy
        && !POLICIES.contains(&internal)
    {
        errors.not_supported(&path.child("internalTrafficPolicy"), &Value::from(internal), &POLICIES);
    }
    if let Some(distribution) = spec.distribution
        && !DISTRIBUTIONS.contains(&distribution)
    {
        errors.not_supported(&path.child("trafficDistribution"), &Value::from(distribution), &DISTRIBUTIONS);
    }
}

pub(super) fn validate_status(new: &Object, old: &Object, errors: &mut Errors) {
    fn ingress(service: &Object) -> &[Value] {
        let list = service.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
        list.map_or(&[], Vec::as_slice)
    }
    let path = Path::new("status").child("loadBalancer").child("ingress");
    let all = ingress(new);
    if !Spec::of(new).is_balanced() {
        if !all.is_empty() {
            errors.forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'");
        }
        return;
    }
    let known: HashSet<_> = ingress(old).iter().map(|one| text(one, "ip")).collect();
    for (index, one) in all.iter().enumerate() {
        let path = path.index(index);
        let (ip, hostname) = (text(one, "ip"), text(one, "hostname"));
        if !ip.is_empty() && !known.contains(ip) {
            meta::invalid_text(&path.child("ip"), ip, names::address(ip), errors);
        }
        match one.get("ipMode").and_then(Value::as_str) {
            None if !ip.is_empty() => errors.required(&path.child("ipMode"), "must be specified when `ip` is set"),
            Some(_) if ip.is_empty() => {
                errors.forbidden(&path.child("ipMode"), "may not be specified when `ip` is not set");
            }
            Some(mode) if !["Proxy", "VIP"].contains(&mode) => {
                errors.not_supported(&path.child("ipMode"), &Value::from(mode), &["Proxy", "VIP"]);
            }
            _ => {}
        }
        if !hostname.is_empty() {
            meta::invalid_text(&path.child("hostname"), hostname, names::subdomain(hostname, false), errors);
            if names::read_address(hostname).is_some() {
                let detail = "must be a DNS name, not an IP address";
                errors.invalid(&path.child("hostname"), &Value::from(hostname), detail);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::checking::{create_faults, update_faults};
    use super::super::KIND;
    use super::*;

    fn faults(spec: &Value) -> Vec<String> {
        let faults = create_faults(&KIND, json!({"metadata": {"name": "a"}, "spec": spec}));
        faults.iter().map(|fault| fault.replacen("spec.", "", 1)).collect()
    }

    fn check(cases: &[(Value, &[&str])]) {
        for (spec, expected) in cases {
            assert_eq!(faults(spec), *expected, "{spec}");
        }
    }

    #[test]
    fn ports_are_there_sound_and_different() {
        check(&[
            (json!({"ports": [{"port": 80}]}), &[]),
            (json!({"clusterIP": "None"}), &[]),
            (json!({}), &["ports: Required value"]),
            (
                json!({"ports": [{"port": 0, "targetPort": 70000}]}),
                &[
                    "ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "ports[0].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                ],
            ),
            (
                json!({"ports": [{"port": 80}, {"port": 81, "name": "a", "targetPort": "AA", "protocol": "X"}]}),
                &[
                    "ports[0].name: Required value",
                    "ports[1].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                    "ports[1].targetPort: Invalid value: \"AA\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                    "ports[1].targetPort: Invalid value: \"AA\": must contain at least one letter (a-z)",
                ],
            ),
            (
                json!({"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "a"}]}),
                &[
                    "ports[1].name: Duplicate value: \"a\"",
                    "ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":80,\"TargetPort\":0,\"NodePort\":0}",
                ],
            ),
            (
                json!({"type": "NodePort", "ports": [{"port": 80, "name": "a", "nodePort": 30001}, {"port": 81, "name": "b", "nodePort": 30001}]}),
                &["ports[1].nodePort: Duplicate value: 30001"],
            ),
            (
                json!({"ports": [{"port": 80, "nodePort": 30001}]}),
                &["ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
            ),
            (
                json!({"type": "NodePort", "ports": [{"port": 53, "name": "a", "nodePort": 30001}, {"port": 53, "name": "b", "protocol": "UDP", "nodePort": 30001}]}),
                &[],
            ),
        ]);
    }

    #[test]
    fn each_type_has_its_own_fields() {
        let port = json!([{"port": 80}]);
        check(&[
            (json!({"type": "ExternalName", "externalName": "a.b."}), &[]),
            (json!({"type": "ExternalName"}), &["externalName: Required value"]),
            (
                json!({"type": "ExternalName", "externalName": "a", "clusterIPs": ["x"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}),
                &[
                    "clusterIPs: Forbidden: may not be set for ExternalName services",
                    "ipFamilies: Forbidden: may not be set for ExternalName services",
                    "ipFamilyPolicy: Forbidden: may not be set for ExternalName services",
                ],
            ),
            (
                json!({"type": "NodePort", "clusterIP": "None", "ports": port}),
                &["clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"],
            ),
            (
                json!({"type": "X", "ports": port}),
                &[
                    "type: Unsupported value: \"X\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
                ],
            ),
            (
                json!({"ports": port, "allocateLoadBalancerNodePorts": false, "loadBalancerClass": "a/b", "loadBalancerSourceRanges": ["10.0.0.1/8"]}),
                &[
                    "LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
                    "LoadBalancerSourceRanges[0]: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length",
                    "allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
                    "loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
                ],
            ),
        ]);
    }

    #[test]
    fn affinity_and_traffic_have_known_values() {
        let port = json!([{"port": 80}]);
        check(&[
            (
                json!({"ports": port, "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}}),
                &[
                    "sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than 86400",
                ],
            ),
            (
                json!({"ports": port, "sessionAffinity": "X"}),
                &["sessionAffinity: Unsupported value: \"X\": supported values: \"ClientIP\", \"None\""],
            ),
            (
                json!({"ports": port, "externalTrafficPolicy": "Local", "healthCheckNodePort": 30000}),
                &[
                    "externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
                    "healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
                ],
            ),
            (json!({"ports": port, "type": "LoadBalancer", "externalTrafficPolicy": "Local"}), &[]),
            (
                json!({"ports": port, "type": "NodePort", "externalTrafficPolicy": "X", "internalTrafficPolicy": "Y", "trafficDistribution": "Z"}),
                &[
                    "externalTrafficPolicy: Unsupported value: \"X\": supported values: \"Cluster\", \"Local\"",
                    "internalTrafficPolicy: Unsupported value: \"Y\": supported values: \"Cluster\", \"Local\"",
                    "trafficDistribution: Unsupported value: \"Z\": supported values: \"PreferClose\", \"PreferSameZone\", \"PreferSameNode\"",
                ],
            ),
            (
                json!({"ports": port, "externalIPs": ["127.0.0.1", "x"], "selector": {"a": "b c"}}),
                &[
                    "selector: Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                    "externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                    "externalIPs[1]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                ],
            ),
        ]);
    }

    #[test]
    fn a_class_without_a_load_balancer_is_told_twice_of_an_update() {
        let with = |class: Option<&str>| json!({"spec": {"type": "ClusterIP", "loadBalancerClass": class, "ports": [{"port": 80}]}});
        let fault = "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'";
        assert_eq!(update_faults(&KIND, with(Some("a/b")), with(None)), [fault, fault]);
    }

    #[test]
    fn what_a_load_balancer_relies_on_stays() {
        let with = |class: &str, health: i64| json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerClass": class, "healthCheckNodePort": health, "ports": [{"port": 80}]}});
        assert_eq!(update_faults(&KIND, with("a/b", 30000), with("a/b", 30000)), [""; 0]);
        assert_eq!(
            update_faults(&KIND, with("a/c", 30001), with("a/b", 30000)),
            [
                "spec.loadBalancerClass: Invalid value: \"a/c\": may not change once set",
                "spec.healthCheckNodePort: Forbidden: field is immutable",
            ]
        );
    }

    #[test]
    fn only_load_balancers_have_ingress_points() {
        let status = |kind: &str, ingress: Value| {
            let object = json!({"spec": {"type": kind}, "status": {"loadBalancer": {"ingress": ingress}}});
            let mut errors = Errors::new();
            validate_status(&Object::from_value(object).unwrap(), &Object::default(), &mut errors);
            errors.iter().map(|error| error.to_string().replacen("status.loadBalancer.", "", 1)).collect::<Vec<_>>()
        };
        assert_eq!(
            status("ClusterIP", json!([{}])),
            ["ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"]
        );
        assert_eq!(status("LoadBalancer", json!([{"ip": "1.2.3.4", "ipMode": "VIP"}, {"hostname": "a.b"}])), [""; 0]);
        assert_eq!(
            status(
                "LoadBalancer",
                json!([{"ip": "1.2.3.4"}, {"ipMode": "VIP"}, {"ip": "x", "ipMode": "X"}, {"hostname": "1.2.3.4"}])
            ),
            [
                "ingress[0].ipMode: Required value: must be specified when `ip` is set",
                "ingress[1].ipMode: Forbidden: may not be specified when `ip` is not set",
                "ingress[2].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "ingress[2].ipMode: Unsupported value: \"X\": supported values: \"Proxy\", \"VIP\"",
                "ingress[3].hostname: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address",
            ]
        );
    }
}
