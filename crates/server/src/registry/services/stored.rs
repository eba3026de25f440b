//! Reading a stored Service without making a tree of all that it says: the ledger reads every one that anybody writes.

use api::Object;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::service::{Port, Service};
use crate::machinery::metadata_of;

/// How a Service begins as it is stored.
const FRONT: &[u8] = b"{\"kind\":\"Service\",\"apiVersion\":\"v1\",\"metadata\":";
/// What comes after its metadata.
const SPEC: &[u8] = b",\"spec\":";

/// What of the bytes is looked at.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(rename = "")]
    _no_list: NoList,
    r#type: String,
    #[serde(rename = "clusterIP")]
    cluster_ip: String,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Vec<String>,
    ip_families: Vec<String>,
    ip_family_policy: Option<String>,
    ports: Vec<SpecPort>,
    allocate_load_balancer_node_ports: Option<bool>,
    external_traffic_policy: String,
    health_check_node_port: i64,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecPort {
    #[serde(rename = "")]
    _no_list: NoList,
    port: i64,
    protocol: String,
    node_port: i64,
}

/// What is read by names is also read from a list, unless the first of the list cannot be read.
#[derive(Default)]
struct NoList;

impl<'de> Deserialize<'de> for NoList {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("a list"))
    }
}

impl Service {
    /// The Service in what is stored; an empty one if it is none. One that is written oddly is read like any other object. What it
    /// has does not depend on its name or its selector, so these are left out.
    pub(super) fn parse_stored(value: &[u8]) -> Self {
        let service = match spec(value) {
            Some(spec) => Self::from(spec).completed(),
            None => Self::read_stored(&Object::parse(value).unwrap_or_default()),
        };
        service.nameless()
    }

    fn nameless(self) -> Self {
        Self { name: String::new(), has_selector: false, ..self }
    }
}

/// The spec of a Service that is written as this server does it.
fn spec(value: &[u8]) -> Option<Spec> {
    let metadata = metadata_of(value.starts_with(FRONT).then_some(value)?)?;
    let rest = value.get(FRONT.len() + metadata.len()..)?.strip_prefix(SPEC)?;
    Spec::deserialize(&mut serde_json::Deserializer::from_slice(rest)).ok()
}

impl From<Spec> for Service {
    fn from(spec: Spec) -> Self {
        let port = |port: SpecPort| Port { number: port.port, protocol: port.protocol, on_nodes: port.node_port };
        Self {
            name: String::new(),
            kind: spec.r#type,
            has_selector: false,
            address: spec.cluster_ip,
            addresses: spec.cluster_ips,
            families: spec.ip_families,
            policy: spec.ip_family_policy,
            ports: spec.ports.into_iter().map(port).collect(),
            allocates_node_ports: spec.allocate_load_balancer_node_ports != Some(false),
            is_local: spec.external_traffic_policy == "Local",
            health_check: spec.health_check_node_port,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A Service that says everything that there is to read.
    fn whole() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "n", "managedFields": [{"manager": "a\"b"}]},
            "spec": {
                "type": "LoadBalancer", "selector": {"app": "w\n"}, "clusterIP": "10.0.0.7",
                "clusterIPs": ["10.0.0.7", "fd00::7"], "ipFamilies": ["IPv4", "IPv6"],
                "ipFamilyPolicy": "PreferDualStack", "allocateLoadBalancerNodePorts": false,
                "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_005, "sessionAffinity": "None",
                "ports": [
                    {"name": "a", "port": 80, "protocol": "TCP", "targetPort": "http", "nodePort": 30_001},
                    {"port": 81, "protocol": "UDP"},
                ],
            },
        })
    }

    #[test]
    fn what_is_read_is_what_the_object_says_whatever_its_values() {
        let odd = [json!(null), json!(7), json!(-1.5), json!(""), json!("x"), json!([]), json!([1]), json!(["x", 1])];
        let mut values = vec![whole(), json!({}), json!([]), json!({"spec": {"clusterIP": "10.0.0.9"}})];
        for name in whole()["spec"].as_object().unwrap().keys() {
            let mut without = whole();
            without["spec"].as_object_mut().unwrap().remove(name);
            values.push(without);
            for odd in &odd {
                let mut value = whole();
                value["spec"][name] = odd.clone();
                values.push(value);
            }
        }
        for odd in &odd {
            for place in ["/spec/ports/0/nodePort", "/spec/ports/1", "/spec/clusterIPs/1", "/metadata/name", "/spec"] {
                let mut value = whole();
                *value.pointer_mut(place).unwrap() = odd.clone();
                values.push(value);
            }
        }
        for value in values {
            let object = Object::from_value(value.clone()).unwrap_or_default();
            let right = Service::read_stored(&object).nameless();
            for bytes in [value.to_string().into_bytes(), object.encode().to_vec()] {
                assert_eq!(Service::parse_stored(&bytes), right, "{value}");
            }
        }
        assert_eq!(Service::parse_stored(b"{\"spec\":"), Service::read_stored(&Object::default()));
    }

    #[test]
    fn what_is_stored_is_read_without_a_tree() {
        let stored = Object::from_value(whole()).unwrap().encode();
        assert!(spec(&stored).is_some_and(|spec| spec.cluster_ip == "10.0.0.7"));
    }
}
