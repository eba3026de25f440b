//! `Service`: what there is to read and to fill in of a Service when it is given addresses and ports.

use std::net::IpAddr;

use api::{Object, names};
use serde::Deserialize;
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

/// What says what a stored Service has.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Stored {
    spec: StoredSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredSpec {
    r#type: String,
    #[serde(rename = "clusterIP")]
    address: String,
    #[serde(rename = "clusterIPs")]
    addresses: Vec<String>,
    ports: Vec<StoredPort>,
    external_traffic_policy: String,
    health_check_node_port: i64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredPort {
    node_port: i64,
}

impl Service {
    /// What is stored, as far as it says what the Service has. Every write of a Service is read like this, so nothing else is
    /// looked at, unless something in it is of the wrong type: then that is left out and the rest counts.
    pub(super) fn read_held(value: &[u8]) -> Self {
        let Ok(Stored { spec }) = serde_json::from_slice(value) else {
            return Object::parse(value).map(|object| Self::read_stored(&object)).unwrap_or_default();
        };
        let mut addresses = spec.addresses;
        if addresses.is_empty() && !spec.address.is_empty() {
            addresses.push(spec.address);
        }
        let port = |port: StoredPort| Port { on_nodes: port.node_port, ..Port::default() };
        Self {
            kind: spec.r#type,
            addresses,
            ports: spec.ports.into_iter().map(port).collect(),
            is_local: spec.external_traffic_policy == "Local",
            health_check: spec.health_check_node_port,
            ..Self::default()
        }
    }

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
        let mut service = Self::read(object);
        if service.addresses.is_empty() && !service.address.is_empty() {
            service.addresses = vec![service.address.clone()];
        }
        if service.families.is_empty() && service.has_addresses() {
            service.families = service.held_addresses().map(|address| family(&address).to_owned()).collect();
        }
        service
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

#[cfg(test)]
mod tests {
    use super::super::decision::held;
    use super::*;

    #[test]
    fn what_a_stored_service_has_is_read_the_same_from_its_bytes() {
        let ports = json!([{"port": 80, "nodePort": 30_001}, {"port": 81}, {"port": 82, "protocol": "UDP", "nodePort": 30_001}]);
        for spec in [
            json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]}),
            json!({"type": "ClusterIP", "clusterIP": "10.0.0.1"}),
            json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}),
            json!({"type": "ClusterIP", "clusterIP": "none of it", "clusterIPs": ["none of it", "FD00::1"]}),
            json!({"type": "NodePort", "clusterIP": "10.0.0.1", "ports": ports}),
            json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "ports": ports}),
            json!({"type": "ExternalName", "clusterIP": "10.0.0.1", "ports": ports}),
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_002, "ports": ports}),
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Cluster", "healthCheckNodePort": 30_002}),
            json!({"type": "NodePort", "clusterIP": "10.0.0.1", "ports": null}),
            json!({"type": "NodePort", "clusterIP": 7, "clusterIPs": ["10.0.0.1", 8], "ports": [{"nodePort": "x"}, {"nodePort": 30_003}]}),
            json!({}),
            Value::Null,
        ] {
            let object = Object::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
            let (whole, brief) = (Service::read_stored(&object), Service::read_held(&object.encode()));
            assert_eq!(held(&brief), held(&whole), "{spec}");
            assert_eq!(brief.flaws().collect::<Vec<_>>(), whole.flaws().collect::<Vec<_>>(), "{spec}");
        }
        assert_eq!(held(&Service::read_held(b"no object")), []);
    }
}
