//! What an update of a Service carries over from before, and what it lets go: clients send what they know, and a client
//! that knows neither the second address nor the node ports must not lose them.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::rules::POLICIES;
use super::spec::Spec;
use crate::meta;
use crate::object::Object;
use crate::reading::{items, number, part, text};

/// One address means the list of that one address.
fn name_all_addresses(service: &mut Object) {
    let address = text(part(service, "spec"), "clusterIP").to_owned();
    if !address.is_empty() && items(part(service, "spec"), "clusterIPs").is_empty() {
        service.set(&["spec", "clusterIPs"], json!([address]));
    }
}

pub(super) fn prepare_create(service: &mut Object) {
    service.set(&["status"], json!({"loadBalancer": {}}));
    name_all_addresses(service);
    drop_unused(service);
}

/// Where traffic inside of the cluster goes is nothing that a mere name can say. A policy that there is not stays, to be refused.
fn drop_unused(service: &mut Object) {
    let policy = text(part(service, "spec"), "internalTrafficPolicy");
    if !has_addresses(service) && POLICIES.contains(&policy) {
        service.remove(&["spec", "internalTrafficPolicy"]);
    }
}

pub(super) fn prepare_update(new: &mut Object, old: &Object) {
    keep_granted(new, old);
    align_addresses(new, old);
    drop_by_type(new, old);
    drop_unused(new);
}

fn has_addresses(service: &Object) -> bool {
    text(part(service, "spec"), "type") != "ExternalName"
}

fn has_node_ports(service: &Object) -> bool {
    matches!(text(part(service, "spec"), "type"), "NodePort" | "LoadBalancer")
}

/// Whether each of its ports gets a node port. A load balancer may do without them.
fn wants_node_ports(service: &Object) -> bool {
    has_node_ports(service) && service.at(&["spec", "allocateLoadBalancerNodePorts"]) != Some(&json!(false))
}

fn set_from(new: &mut Object, old: &Object, name: &str) {
    if let Some(value) = old.at(&["spec", name]) {
        new.set(&["spec", name], value.clone());
    }
}

fn is_unset(service: &Object, name: &str) -> bool {
    service.at(&["spec", name]).is_none_or(|value| meta::is_empty(value) || *value == json!(0))
}

/// What was granted and is not mentioned stays granted, so that the same manifest can be applied again.
fn keep_granted(new: &mut Object, old: &Object) {
    if has_addresses(old) && has_addresses(new) {
        for name in ["clusterIP", "clusterIPs"] {
            if is_unset(new, name) {
                set_from(new, old, name);
            }
        }
    }
    if wants_node_ports(old) && wants_node_ports(new) {
        keep_node_ports(new, old);
    }
    if Spec::of(old).needs_health_check() && Spec::of(new).needs_health_check() && is_unset(new, "healthCheckNodePort")
    {
        set_from(new, old, "healthCheckNodePort");
    }
}

/// A port without a node port gets the one that the port of its name had, unless that one is in use already.
fn keep_node_ports(new: &mut Object, old: &Object) {
    fn ports(service: &Object) -> &[Value] {
        items(part(service, "spec"), "ports")
    }
    let taken: HashSet<i64> = ports(new).iter().filter_map(|port| number(port, "nodePort")).collect();
    // Of two ports of one name, the last counts.
    let former: HashMap<&str, i64> =
        ports(old).iter().map(|port| (text(port, "name"), number(port, "nodePort").unwrap_or(0))).collect();
    let Some(Value::Array(ports)) = new.fields_mut().get_mut("spec").and_then(|spec| spec.get_mut("ports")) else {
        return;
    };
    for port in ports {
        if number(port, "nodePort").unwrap_or(0) == 0
            && let Some(former) = former.get(text(port, "name")).filter(|port| **port != 0 && !taken.contains(*port))
            && let Some(port) = port.as_object_mut()
        {
            port.insert("nodePort".into(), (*former).into());
        }
    }
}

/// `clusterIP` and `clusterIPs` say the same; the one that changed is the one that was meant.
fn align_addresses(new: &mut Object, old: &Object) {
    let single = |service: &Object| text(part(service, "spec"), "clusterIP").to_owned();
    let list = |service: &Object| items(part(service, "spec"), "clusterIPs").to_vec();
    let same_single = single(new) == single(old);
    if !list(old).is_empty() && list(new).is_empty() && same_single {
        set_from(new, old, "clusterIPs");
    }
    if !same_single && list(new) == list(old) {
        match single(new) {
            cleared if cleared.is_empty() => {
                new.remove(&["spec", "clusterIPs"]);
            }
            changed => new.set(&["spec", "clusterIPs"], json!([changed])),
        }
    }
}

/// What only the former type of the Service had a use for goes, unless the client changed it in the same breath.
fn drop_by_type(new: &mut Object, old: &Object) {
    let unchanged = |new: &Object, name: &str| meta::same(new.at(&["spec", name]), old.at(&["spec", name]));
    if has_addresses(old) && !has_addresses(new) {
        if unchanged(new, "clusterIP") && unchanged(new, "clusterIPs") {
            new.remove(&["spec", "clusterIP"]);
            new.remove(&["spec", "clusterIPs"]);
        }
        for name in ["ipFamilies", "ipFamilyPolicy"] {
            if unchanged(new, name) {
                new.remove(&["spec", name]);
            }
        }
    }
    if has_node_ports(old) && !has_node_ports(new) {
        drop_node_ports(new, old);
    }
    let (before, after) = (Spec::of(old), Spec::of(new));
    let is_balanced = after.is_balanced();
    let was_balanced = before.is_balanced() && !is_balanced;
    let lost = [
        ("healthCheckNodePort", before.needs_health_check() && !after.needs_health_check()),
        ("allocateLoadBalancerNodePorts", was_balanced),
        ("loadBalancerClass", was_balanced),
        ("externalTrafficPolicy", before.is_external() && !after.is_external()),
    ];
    for (name, lost) in lost {
        if lost && unchanged(new, name) {
            new.remove(&["spec", name]);
        }
    }
    if !is_balanced {
        new.remove(&["status", "loadBalancer"]);
    }
}

fn drop_node_ports(new: &mut Object, old: &Object) {
    let former: HashSet<_> =
        items(part(old, "spec"), "ports").iter().filter_map(|port| number(port, "nodePort")).collect();
    let Some(Value::Array(ports)) = new.fields_mut().get_mut("spec").and_then(|spec| spec.get_mut("ports")) else {
        return;
    };
    let is_former = |port: &Value| number(port, "nodePort").is_none_or(|port| port == 0 || former.contains(&port));
    if ports.iter().all(is_former) {
        for port in ports.iter_mut().filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updated(new: Value, old: Value) -> Value {
        let object = |spec: Value| Object::from_value(json!({"spec": spec})).unwrap();
        let mut new = object(new);
        prepare_update(&mut new, &object(old));
        new.at(&["spec"]).cloned().unwrap()
    }

    #[test]
    fn the_same_manifest_applied_again_changes_nothing() {
        let granted = json!({
            "type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"],
            "ports": [{"name": "a", "port": 80, "nodePort": 30001}, {"name": "b", "port": 81, "nodePort": 30002}],
        });
        let manifest = json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]});
        assert_eq!(updated(manifest, granted.clone()), granted);
    }

    #[test]
    fn a_load_balancer_that_does_without_node_ports_is_given_none_back() {
        let with = |allocate: bool, port: Value| json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": allocate, "ports": [port]});
        let (granted, bare) = (json!({"name": "a", "port": 80, "nodePort": 30001}), json!({"name": "a", "port": 80}));
        assert_eq!(updated(with(false, bare.clone()), with(true, granted.clone())), with(false, bare.clone()));
        assert_eq!(updated(with(true, bare), with(true, granted.clone())), with(true, granted));
    }

    #[test]
    fn a_node_port_that_moved_is_not_kept_in_its_old_place_as_well() {
        let old = json!({"type": "NodePort", "ports": [{"name": "a", "port": 80, "nodePort": 30001}]});
        let new = json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81, "nodePort": 30001}]});
        assert_eq!(updated(new.clone(), old)["ports"], new["ports"]);
    }

    #[test]
    fn the_field_that_changed_is_the_one_that_was_meant() {
        let old = json!({"type": "ExternalName", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]});
        let both =
            |single: &str, list: &[&str]| json!({"type": "ExternalName", "clusterIP": single, "clusterIPs": list});
        let list = |new: Value| updated(new, old.clone()).get("clusterIPs").cloned();
        assert_eq!(list(both("10.0.0.2", &["10.0.0.1", "fd00::1"])), Some(json!(["10.0.0.2"])));
        assert_eq!(list(both("10.0.0.1", &[])), Some(json!(["10.0.0.1", "fd00::1"])));
        assert_eq!(list(both("", &["10.0.0.1", "fd00::1"])), None);
    }

    #[test]
    fn what_only_the_former_type_used_goes_with_it() {
        let balanced = json!({
            "type": "LoadBalancer", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "allocateLoadBalancerNodePorts": true, "loadBalancerClass": "a/b",
            "externalTrafficPolicy": "Local", "internalTrafficPolicy": "Cluster", "healthCheckNodePort": 30009, "ports": [{"port": 80, "nodePort": 30001}],
        });
        let mut new = balanced.clone();
        new["type"] = json!("ClusterIP");
        assert_eq!(
            updated(new.clone(), balanced.clone()),
            json!({
                "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "ports": [{"port": 80}],
            })
        );
        new["ports"] = json!([{"port": 80, "nodePort": 30002}]);
        assert_eq!(
            updated(new.clone(), balanced.clone())["ports"],
            new["ports"],
            "the client changed it, so it is judged"
        );
        new["type"] = json!("ExternalName");
        new["ports"] = json!([]);
        assert_eq!(updated(new, balanced), json!({"type": "ExternalName", "ports": []}));
    }
}
