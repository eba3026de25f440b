//! One of the two servers: takes a step, and says what came of it in a form that can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::steps::{PORTS, Step, V4, V6};
use crate::e2e::client::{Client, Reply, Target};
use crate::e2e::method::Method;

pub(super) const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
/// The code of an answer to a write that made a Service.
const CREATED: u16 = 201;
const NODE_PORTS: &str = "/apis/ipam.cadastre.dev/v1alpha1/nodeports";

/// A server.
pub(super) struct Side {
    client: Client,
    /// An address or a port that may have been picked.
    picked: Regex,
    /// The Services that are or were of the type `ExternalName`, by name.
    elsewhere: BTreeSet<String>,
}

/// What came of a step.
#[derive(Debug, PartialEq)]
pub(super) struct Taken {
    /// Zero if the server hung up.
    pub(super) code: u16,
    /// The Service or the refusal, without what is each server's own.
    pub(super) body: Value,
}

impl Taken {
    pub(super) fn is_done(&self) -> bool {
        (200..300).contains(&self.code)
    }

    pub(super) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.body)
    }
}

impl Side {
    pub(super) fn new(target: &Arc<Target>) -> Result<Self> {
        let picked = Regex::new(r"10\.96\.\d+\.\d+|fd00:96::[0-9a-f]+|\b3[0-2]\d\d\d\b")?;
        Ok(Self { client: Client::new(target), picked, elsewhere: BTreeSet::new() })
    }

    /// Takes a step.
    pub(super) fn take(&mut self, step: &Step) -> Result<Taken> {
        let object = format!("{SERVICES}/{}", step.name);
        let path = match step.method {
            Method::Post => SERVICES.to_owned(),
            Method::Apply => format!("{object}?fieldManager=e2e&force=true"),
            _ if step.part.is_empty() => object.clone(),
            _ => format!("{object}/{}", step.part),
        };
        let body = match step.method {
            Method::Delete => None,
            Method::Edit => {
                let (code, mut there) = self.ask("GET", &object)?;
                if code != 200 {
                    return Ok(self.taken(&step.name, code, there));
                }
                // What is null goes.
                for (name, value) in step.body.as_object().into_iter().flatten() {
                    there["spec"][name] = value.clone();
                }
                Some(there)
            }
            _ => Some(step.body.clone()),
        };
        match self.client.send_as(step.method.media(), step.method.verb(), &path, body.as_ref()) {
            Reply::Answer(code, body) => Ok(self.taken(&step.name, code, body)),
            // The real server ends a request that it stumbles over by hanging up.
            Reply::Lost => Ok(self.taken(&step.name, 0, Value::Null)),
            Reply::Unsent => bail!("nobody is there"),
        }
    }

    /// Removes the Service of a step, so that both sides have the same again.
    pub(super) fn forget(&mut self, step: &Step) -> Result<()> {
        let path = format!("{SERVICES}/{}", step.name);
        self.ask("DELETE", &path)?;
        let free = json!({"metadata": {"finalizers": null}});
        self.client.send_as(Method::Merge.media(), "PATCH", &path, Some(&free));
        Ok(())
    }

    /// The spec of a Service; null if there is none.
    pub(super) fn spec(&mut self, name: &str) -> Result<Value> {
        let (_, mut service) = self.ask("GET", &format!("{SERVICES}/{name}"))?;
        Ok(service["spec"].take())
    }

    /// The families of the cluster, the preferred one first.
    pub(super) fn families(&mut self) -> Result<Vec<&'static str>> {
        let (_, range) = self.ask("GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes")?;
        let ranges = range["spec"]["cidrs"].as_array().context("the cluster has no range")?;
        Ok(ranges.iter().map(|range| if text(range).contains(':') { "IPv6" } else { "IPv4" }).collect())
    }

    /// Whether an address is written down as that of a Service that does not have it.
    pub(super) fn has_leaked(&mut self, address: &str) -> Result<bool> {
        let name = address.parse::<IpAddr>().map(|address| address.to_string()).unwrap_or_default();
        let (code, object) = self.ask("GET", &format!("{ADDRESSES}/{name}"))?;
        let parent = object["spec"]["parentRef"]["name"].as_str().unwrap_or_default().to_owned();
        let (_, service) = self.ask("GET", &format!("{SERVICES}/{parent}"))?;
        let mut has = service["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let same = |text: &str| text.parse::<IpAddr>().is_ok_and(|own| own.to_string() == name);
        Ok(code == 200 && !has.any(same))
    }

    /// Holds what is written of who has what against what Services say.
    pub(super) fn agrees(&mut self) -> Result<()> {
        let (written, mut said) = (self.written()?, BTreeMap::new());
        for service in self.items("/api/v1/services")? {
            let (spec, uid) = (&service["spec"], text(&service["metadata"]["uid"]));
            for what in held(spec) {
                let other = said.insert(what.clone(), uid.clone());
                ensure!(other.is_none_or(|other| other == uid), "{what} is given twice");
            }
        }
        ensure!(written == said, "what is written of who has what:\n{written:?}\nwhat Services say:\n{said:?}");
        Ok(())
    }

    /// What is written of who has what: addresses and ports, and the uid of the Service that has each.
    pub(super) fn written(&mut self) -> Result<BTreeMap<String, String>> {
        let mut written = BTreeMap::new();
        for object in self.items(ADDRESSES)? {
            let uid = object["metadata"]["annotations"]["ipam.cadastre.dev/parent-uid"].clone();
            written.insert(text(&object["metadata"]["name"]), text(&uid));
        }
        for object in self.items(NODE_PORTS)? {
            written.insert(text(&object["metadata"]["name"]), text(&object["spec"]["parentRef"]["uid"]));
        }
        Ok(written)
    }

    fn items(&mut self, path: &str) -> Result<Vec<Value>> {
        let (_, list) = self.ask("GET", path)?;
        list["items"].as_array().cloned().with_context(|| format!("{path} is no list"))
    }

    fn ask(&mut self, method: &str, path: &str) -> Result<(u16, Value)> {
        match self.client.send(method, path, None) {
            Reply::Answer(code, body) => Ok((code, body)),
            other => bail!("{method} {path}: {other:?}"),
        }
    }

    fn taken(&mut self, name: &str, code: u16, mut body: Value) -> Taken {
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            for name in ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields"] {
                metadata.remove(name);
            }
        }
        if code == CREATED {
            self.elsewhere.remove(name);
        }
        if let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) {
            if spec.get("type").is_some_and(|kind| kind == "ExternalName") {
                self.elsewhere.insert(name.to_owned());
            }
            // The real server keeps what an ExternalName has no use for, and does not show it until the type changes again.
            if self.elsewhere.contains(name) {
                spec.remove("internalTrafficPolicy");
            }
        }
        let body = body.to_string();
        let shown = self.picked.replace_all(&body, |found: &Captures<'_>| {
            let found = &found[0];
            let named =
                V4.contains(&found) || V6.contains(&found) || PORTS.iter().any(|port| port.to_string() == found);
            // A number must stay one.
            if named {
                found.to_owned()
            } else if found.starts_with('3') {
                "1".to_owned()
            } else {
                "<picked>".to_owned()
            }
        });
        let body = serde_json::from_str(&shown).unwrap_or_else(|_| json!(shown));
        Taken { code, body }
    }
}

/// What a Service has, by what it says.
pub(super) fn held(spec: &Value) -> Vec<String> {
    let kind = text(&spec["type"]);
    let mut held = Vec::new();
    if kind != "ExternalName" {
        let addresses = spec["clusterIPs"].as_array().into_iter().flatten();
        let addresses = addresses.filter_map(|address| text(address).parse::<IpAddr>().ok());
        held.extend(addresses.map(|address| address.to_string()));
    }
    if kind == "NodePort" || kind == "LoadBalancer" {
        let ports = spec["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
        let ports = ports.chain([&spec["healthCheckNodePort"]]).filter_map(Value::as_u64);
        held.extend(ports.map(|port| port.to_string()));
    }
    held
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
