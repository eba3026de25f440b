//! A server with ranges of its own, and what must be true of it at any time.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde_json::{Value, json};
use server::Config;
use space::Cidr;
use store::{Txn, Write};

use crate::fixture::Fixture;

/// Where the Services of `default` are.
pub(crate) const SERVICES: &str = "/api/v1/namespaces/default/services";
/// Where addresses are.
pub(crate) const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
/// Where ranges of addresses are.
pub(crate) const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
/// Where node ports are.
pub(crate) const PORTS: &str = "/apis/ipam.cadastre.dev/v1alpha1/nodeports";

/// A server whose Services get addresses of those ranges.
pub(crate) struct Cluster(Fixture);

impl Deref for Cluster {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.0
    }
}

/// A server with those ranges.
pub(crate) fn config(ranges: &[&str]) -> Config {
    let service_ranges = ranges.iter().map(|range| Cidr::strict(range).unwrap()).collect();
    Config { service_ranges, ..Config::default() }
}

impl Cluster {
    pub(crate) async fn new(ranges: &[&str]) -> Self {
        Self::with(config(ranges)).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        Self(Fixture::with(config, store::embedded::Options::default()).await)
    }

    /// Makes a Service.
    pub(crate) async fn make(&self, name: &str, spec: Value) -> Value {
        self.post(SERVICES, &service(name, spec)).await.expect(201)
    }

    /// Says why a Service cannot be made, if it is with that code.
    pub(crate) async fn refused(&self, name: &str, spec: Value, code: u16) -> String {
        let answer = self.post(SERVICES, &service(name, spec)).await;
        answer.expect(code);
        answer.message()
    }

    /// What is written of who has what, and what Services say that they have: they are the same.
    pub(crate) async fn agrees(&self) {
        let (mut written, mut said) = (BTreeMap::new(), BTreeMap::new());
        for url in [ADDRESSES, PORTS] {
            for object in self.items(url).await {
                let parent = &object["spec"]["parentRef"];
                if parent["resource"] == "services" {
                    let uid = &object["metadata"]["annotations"]["ipam.cadastre.dev/parent-uid"];
                    let uid = if url == PORTS { &parent["uid"] } else { uid };
                    written.insert(text(&object["metadata"]["name"]), text(uid));
                }
            }
        }
        for service in self.items("/api/v1/services").await {
            let (spec, uid) = (&service["spec"], text(&service["metadata"]["uid"]));
            let kind = text(&spec["type"]);
            let mut has = |what: String| {
                let other = said.insert(what.clone(), uid.clone());
                assert!(other.is_none_or(|other| other == uid), "{what} is given twice");
            };
            if kind != "ExternalName" {
                let addresses = spec["clusterIPs"].as_array().into_iter().flatten().map(text);
                addresses.filter(|address| address != "None").for_each(&mut has);
            }
            if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
                let ports = spec["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
                let ports = ports.chain([&spec["healthCheckNodePort"]]).filter_map(Value::as_u64);
                ports.map(|port| port.to_string()).for_each(&mut has);
            }
        }
        assert_eq!(written, said, "what is written, and what Services say");
    }

    /// Takes an object out of the store, behind the back of every server.
    pub(crate) async fn lose(&self, key: &str) {
        let write = Write::Delete { key: key.into() };
        self.server.store().txn(Txn { compares: vec![], writes: vec![write] }).await.unwrap();
    }

    /// Makes it seem as if what is at a URL, and in no namespace, had been there for long.
    pub(crate) async fn age(&self, url: &str) {
        let (path, plural) = url.rsplit_once('/').unwrap();
        let group = path.trim_start_matches("/apis/").split('/').next().unwrap_or_default();
        for shown in self.items(url).await {
            let key = format!("{plural}.{group}/{}", text(&shown["metadata"]["name"]));
            let stored = self.server.store().get(&key).unwrap();
            let mut object: Value = serde_json::from_slice(&stored.value).unwrap();
            object["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
            object["metadata"]["resourceVersion"] = json!("");
            let value = api::Object::from_value(object).unwrap().encode();
            let write = Write::Put { key: key.into(), value };
            self.server.store().txn(Txn { compares: vec![], writes: vec![write] }).await.unwrap();
        }
    }

    pub(crate) async fn items(&self, url: &str) -> Vec<Value> {
        self.get(url).await.expect(200)["items"].as_array().unwrap().clone()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A Service with a port, if it says nothing else.
pub(crate) fn service(name: &str, mut spec: Value) -> Value {
    if spec.get("ports").is_none() && spec["type"] != "ExternalName" {
        spec["ports"] = json!([{"port": 80}]);
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

/// Where a Service of `default` is.
pub(crate) fn at(name: &str) -> String {
    format!("{SERVICES}/{name}")
}

/// The first node port of a Service.
pub(crate) fn node_port(service: &Value) -> u64 {
    service["spec"]["ports"][0]["nodePort"].as_u64().unwrap_or_default()
}
