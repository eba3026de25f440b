//! `Service`: what there is to read and to fill in of a Service when it is given addresses and ports.

use std::net::IpAddr;

use api::{Object, names};
use serde_json::{Map, Value, json};

/// The address of a Service that wants none.
pub(super) const NONE: &str = "None";

/// A Service, as far as it matters to what it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) has_selector: bool,
    pub(super) address: String,
    pub(super) addresses: Vec<String>,
    pub(super) families: Vec<String>,
    pub(super) policy: Option<String>,
    pub(super) ports: Vec<Port>,
    /// Whether each of its ports gets a node port, if it is a load balancer.
    pub(super) allocates_node_ports: bool,
    pub(super) is_local: bool,
    pub(super) health_check: i64,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) number: i64,
    pub(super) protocol: String,
    /// Zero if it has none.
    pub(super) on_nodes: i64,
}

impl Service {
    pub(super) fn read(object: &Object) -> Self {
        let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_i64).unwrap_or(0);
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let list = |name: &str| spec.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let texts = |name: &str| list(name).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let port = |port: &Value| Port {
            number: number(port, "port"),
            protocol: text(port, "protocol"),
            on_nodes: number(port, "nodePort"),
        };
        Self {
            name: object.name().to_owned(),
            kind: text(spec, "type"),
            has_selector: spec.get("selector").and_then(Value::as_object).is_some_and(|selector| !selector.is_empty()),
            address: text(spec, "clusterIP"),
            addresses: texts("clusterIPs"),
            families: texts("ipFamilies"),
            policy: spec.get("ipFamilyPolicy").and_then(Value::as_str).map(str::to_owned),
            ports: list("ports").iter().map(port).collect(),
            allocates_node_ports: spec.get("allocateLoadBalancerNodePorts") != Some(&json!(false)),
            is_local: text(spec, "externalTrafficPolicy") == "Local",
            health_check: number(spec, "healthCheckNodePort"),
        }
    }

    /// The same of a Service that is stored. One that was not written by this server may lack what is worked out of the rest.
    pub(super) fn read_stored(object: &Object) -> Self {
        Self::read(object).completed()
    }

    /// The same with what is worked out of the rest.
    pub(super) fn completed(mut self) -> Self {
        if self.addresses.is_empty() && !self.address.is_empty() {
            self.addresses = vec![self.address.clone()];
        }
        if self.families.is_empty() && self.has_addresses() {
            self.families = self.held_addresses().map(|address| family(&address).to_owned()).collect();
        }
        self
    }

    /// Whether it is more than another name for something outside.
    pub(super) fn is_external_name(&self) -> bool {
        self.kind == "ExternalName"
    }

    pub(super) fn is_headless(&self) -> bool {
        self.addresses.first().is_some_and(|first| first == NONE)
    }

    /// Whether its addresses are addresses.
    pub(super) fn has_addresses(&self) -> bool {
        !self.is_external_name() && !self.is_headless()
    }

    pub(super) fn has_node_ports(&self) -> bool {
        matches!(self.kind.as_str(), "NodePort" | "LoadBalancer")
    }

    /// Whether a port of it that names no node port gets one.
    pub(super) fn wants_node_ports(&self) -> bool {
        self.kind == "NodePort" || self.kind == "LoadBalancer" && self.allocates_node_ports
    }

    /// Whether load balancers ask each node if it has a pod of it.
    pub(super) fn needs_health_check(&self) -> bool {
        self.kind == "LoadBalancer" && self.is_local
    }

    pub(super) fn is_single(&self) -> bool {
        self.policy.as_deref() == Some("SingleStack")
    }

    /// The addresses that it was given.
    pub(super) fn held_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let addresses = if self.has_addresses() { self.addresses.as_slice() } else { &[] };
        addresses.iter().filter_map(|text| names::read_address(text))
    }

    /// What it says for addresses and is none. Only what was written past this server can have that.
    pub(super) fn flaws(&self) -> impl Iterator<Item = &str> {
        let addresses = if self.has_addresses() { self.addresses.as_slice() } else { &[] };
        addresses.iter().map(String::as_str).filter(|text| names::read_address(text).is_none())
    }

    /// The node ports that it was given for its ports. What a Service says that has none was never given to it.
    pub(super) fn held_node_ports(&self) -> impl Iterator<Item = u16> {
        let ports = if self.has_node_ports() { self.ports.as_slice() } else { &[] };
        ports.iter().filter_map(|port| u16::try_from(port.on_nodes).ok()).filter(|port| *port != 0)
    }

    /// The port on which it was given to be asked for its health.
    pub(super) fn held_health_check(&self) -> Option<u16> {
        u16::try_from(self.health_check).ok().filter(|port| *port != 0 && self.needs_health_check())
    }
}

/// What a Service is given that it did not ask for in so many words. Most Services are given something, and hardly ever in vain, so
/// it is written into the object itself, and taken out of it again if need be.
pub(crate) struct Given {
    asked: Service,
    becomes: Service,
}

impl Given {
    /// What makes the one of the other, if there is a difference.
    pub(super) fn between(asked: Service, becomes: Service) -> Option<Self> {
        (asked != becomes).then_some(Self { asked, becomes })
    }

    /// Writes it into the object that asked.
    pub(crate) fn fill(&self, object: &mut Object) {
        turn(object, &self.asked, &self.becomes);
    }

    /// Makes the object ask again.
    pub(crate) fn take_back(&self, object: &mut Object) {
        turn(object, &self.becomes, &self.asked);
    }
}

/// Writes into an object that says the one what is another in the other.
fn turn(object: &mut Object, from: &Service, to: &Service) {
    fn put(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
        match value {
            Some(value) => drop(fields.insert(name.to_owned(), value)),
            None => drop(fields.remove(name)),
        }
    }
    let number = |number: i64| (number != 0).then(|| Value::from(number));
    let list = |list: &[String]| (!list.is_empty()).then(|| Value::from(list.to_vec()));
    let spec = object.fields_mut().entry("spec").or_insert_with(|| json!({}));
    let Some(spec) = spec.as_object_mut() else { return };
    if from.address != to.address {
        put(spec, "clusterIP", Some(to.address.as_str()).filter(|address| !address.is_empty()).map(Value::from));
    }
    if from.addresses != to.addresses {
        put(spec, "clusterIPs", list(&to.addresses));
    }
    if from.families != to.families {
        put(spec, "ipFamilies", list(&to.families));
    }
    if from.policy != to.policy {
        put(spec, "ipFamilyPolicy", to.policy.as_deref().map(Value::from));
    }
    if from.health_check != to.health_check {
        put(spec, "healthCheckNodePort", number(to.health_check));
    }
    if from.ports != to.ports {
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
        for (port, to) in ports.filter_map(Value::as_object_mut).zip(&to.ports) {
            put(port, "nodePort", number(to.on_nodes));
        }
    }
}

/// The family of an address, as Services name it.
pub(super) fn family(address: &IpAddr) -> &'static str {
    if address.is_ipv6() { "IPv6" } else { "IPv4" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(spec: &Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
    }

    #[test]
    fn what_is_given_is_in_the_object_until_it_is_taken_back() {
        let given = json!({
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "clusterIP": "10.0.0.7",
            "clusterIPs": ["10.0.0.7", "fd00::7"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack",
            "healthCheckNodePort": 30_005, "ports": [{"port": 80, "nodePort": 30_001}, {"port": 81, "nodePort": 30_002}],
        });
        let mut names: Vec<&String> = given.as_object().unwrap().keys().collect();
        names.retain(|name| !matches!(name.as_str(), "type" | "externalTrafficPolicy" | "ports"));
        let lone = json!([{"port": 80}, {"port": 81, "nodePort": 30_002}]);
        for bits in 0..1_u32 << (names.len() + 1) {
            let mut asked = given.clone();
            for (bit, name) in names.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1) {
                assert!(asked.as_object_mut().unwrap().remove(*name).is_some(), "{bit}");
            }
            if bits >> names.len() == 1 {
                asked["ports"] = lone.clone();
            }
            let (before, after) = (object(&asked), object(&given));
            let difference = Given::between(Service::read(&before), Service::read(&after));
            assert_eq!(difference.is_some(), before != after);
            let Some(difference) = difference else { continue };
            let mut it = before.clone();
            difference.fill(&mut it);
            assert_eq!(it, after);
            difference.take_back(&mut it);
            assert_eq!(it, before);
        }
    }
}
