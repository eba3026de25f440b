//! `Service`: what there is to read and to fill in of a Service when it is given addresses and ports.

use std::net::IpAddr;

use api::{Object, names};
use serde_json::{Value, json};

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

    /// Writes what may have been filled in.
    pub(super) fn fill(&self, object: &mut Object) {
        let mut set = |name: &str, value: Value| {
            let empty =
                matches!(&value, Value::Array(list) if list.is_empty()) || value == json!("") || value == json!(0);
            if empty || value.is_null() {
                object.remove(&["spec", name]);
            } else {
                object.set(&["spec", name], value);
            }
        };
        set("clusterIP", json!(self.address));
        set("clusterIPs", json!(self.addresses));
        set("ipFamilies", json!(self.families));
        set("ipFamilyPolicy", json!(self.policy));
        set("healthCheckNodePort", json!(self.health_check));
        let ports = object.fields_mut().get_mut("spec").and_then(|spec| spec.get_mut("ports"));
        let ports = ports.and_then(Value::as_array_mut).into_iter().flatten();
        for (port, filled) in ports.zip(&self.ports) {
            if let Some(port) = port.as_object_mut().filter(|_| filled.on_nodes != 0) {
                port.insert("nodePort".to_owned(), json!(filled.on_nodes));
            }
        }
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

/// The family of an address, as Services name it.
pub(super) fn family(address: &IpAddr) -> &'static str {
    if address.is_ipv6() { "IPv6" } else { "IPv4" }
}
