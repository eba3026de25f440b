//! One of the two servers: takes a step, and says what came of it in a form that can be compared.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use serde_json::{Value, json};

use super::holdings::{self, Faults, addresses, is_services};
use super::ranges::{Heirs, Ranges};
use super::shown::{self, Depth};
use super::steps::{About, Step};
use crate::e2e::client::{Client, Reply, Target};
use crate::e2e::method::Method;

pub(super) const SERVICES: &str = "/api/v1/namespaces/default/services";
/// The code of an answer to a write that made something.
const CREATED: u16 = 201;
/// How long what controllers do may take; the real one waits for ten seconds before it lets a range go.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long it may take that a server knows of its ranges what is written of them.
const SOON: Duration = Duration::from_secs(15);

/// A server.
pub(super) struct Side {
    client: Client,
    /// Which ranges a deleted one may leave its addresses to.
    pub(super) heirs: Heirs,
    picked: Regex,
    /// The Services that are or were of the type `ExternalName`, by name.
    elsewhere: BTreeSet<String>,
}

/// What came of a step.
#[derive(Debug, PartialEq)]
pub(super) struct Taken {
    /// Zero if the server hung up.
    pub(super) code: u16,
    /// The object or the refusal, without what is each server's own.
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
    pub(super) fn new(target: &Arc<Target>, heirs: Heirs) -> Result<Self> {
        Ok(Self { client: Client::new(target), heirs, picked: shown::picked()?, elsewhere: BTreeSet::new() })
    }

    /// Takes a step.
    pub(super) fn take(&mut self, step: &Step) -> Result<Taken> {
        let body = match step.method {
            Method::Delete => None,
            Method::Edit => {
                let (code, mut there) = self.ask("GET", &step.object())?;
                if code != 200 {
                    return Ok(self.taken(step, code, there));
                }
                // What is null goes.
                for (part, fields) in step.body.as_object().into_iter().flatten() {
                    for (name, value) in fields.as_object().into_iter().flatten() {
                        there[part][name] = value.clone();
                    }
                }
                Some(there)
            }
            _ => Some(step.body.clone()),
        };
        match self.client.send_as(step.method.media(), step.method.verb(), &step.path(), body.as_ref()) {
            Reply::Answer(code, body) => Ok(self.taken(step, code, body)),
            // The real server ends a request that it stumbles over by hanging up.
            Reply::Lost => Ok(self.taken(step, 0, Value::Null)),
            Reply::Unsent => bail!("nobody is there"),
        }
    }

    /// Removes an object, so that both sides have the same again.
    pub(super) fn remove(&mut self, about: About, name: &str) -> Result<()> {
        let path = format!("{}/{name}", about.collection("v1"));
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
        let (_, range) = self.ask("GET", &format!("{}/kubernetes", About::Range.collection("v1")))?;
        let ranges = range["spec"]["cidrs"].as_array().context("the cluster has no range")?;
        let family = |range: &Value| if range.to_string().contains(':') { "IPv6" } else { "IPv4" };
        Ok(ranges.iter().map(family).collect())
    }

    /// All objects of a sort.
    pub(super) fn all(&mut self, about: About) -> Result<Vec<Value>> {
        holdings::items(&mut self.client, &about.collection("v1"))
    }

    /// All ranges, and all addresses.
    pub(super) fn ranges(&mut self) -> Result<Ranges> {
        Ok(Ranges { all: self.all(About::Range)?, addresses: self.all(About::Address)? })
    }

    /// The names of the Services that have that address, by what they say.
    pub(super) fn holders(&mut self, address: IpAddr) -> Result<Vec<String>> {
        let services = self.all(About::Service)?.into_iter();
        let has = |service: &Value| addresses(&service["spec"]).any(|own| own == address);
        Ok(services.filter(has).filter_map(|service| Some(service["metadata"]["name"].as_str()?.to_owned())).collect())
    }

    /// The names of the Services that have that port of the nodes.
    pub(super) fn port_holders(&mut self, port: u64) -> Result<Vec<String>> {
        let services = self.all(About::Service)?.into_iter();
        let has = |service: &Value| holdings::held(&service["spec"]).contains(&port.to_string());
        Ok(services.filter(has).filter_map(|service| Some(service["metadata"]["name"].as_str()?.to_owned())).collect())
    }

    /// Whether a Service has that port of the nodes.
    pub(super) fn has_port(&mut self, port: u64) -> Result<bool> {
        Ok(!self.port_holders(port)?.is_empty())
    }

    /// What is written of an address, if there is something.
    pub(super) fn written(&mut self, address: IpAddr) -> Result<Option<Value>> {
        let (code, object) = self.ask("GET", &format!("{}/{address}", About::Address.collection("v1")))?;
        Ok((code == 200).then_some(object))
    }

    /// Whether an address is written down as that of a Service that does not have it.
    pub(super) fn has_leaked(&mut self, address: IpAddr) -> Result<bool> {
        // What is marked waits for somebody's finalizer.
        let counts = |object: &Value| is_services(object) && object["metadata"]["deletionTimestamp"].is_null();
        let Some(object) = self.written(address)?.filter(counts) else { return Ok(false) };
        let parent = object["spec"]["parentRef"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(!self.holders(address)?.contains(&parent))
    }

    /// Whether a Service has an address of which nothing is written.
    pub(super) fn has_lost(&mut self, address: IpAddr) -> Result<bool> {
        let holders = self.holders(address)?;
        let written = self.written(address)?.filter(is_services);
        let parent = written.map(|object| object["spec"]["parentRef"]["name"].clone()).unwrap_or_default();
        Ok(holders.iter().any(|holder| parent != **holder))
    }

    /// Holds what is written of who has what against what Services say.
    pub(super) fn agrees(&mut self) -> Result<()> {
        Faults::of(&mut self.client)?.none()
    }

    /// Waits until the ranges are as is asked for, which watches of them tell.
    pub(super) fn until(&mut self, what: &str, holds: impl Fn(&Ranges) -> bool) -> Result<Ranges> {
        let (path, began) = (About::Range.collection("v1"), Instant::now());
        loop {
            let (_, list) = self.ask("GET", &path)?;
            let ranges = self.ranges()?;
            if holds(&ranges) {
                return Ok(ranges);
            }
            ensure!(began.elapsed() < PATIENCE, "{what} not after {PATIENCE:?}: {ranges:?}");
            let from = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            let watch = self.client.watch(&format!("{path}?watch=true&resourceVersion={from}"))?;
            // One that is silent for long says nothing more than that it is to be looked at again.
            if let Ok(mut events) = watch {
                let _ = events.next();
            }
        }
    }

    /// Whether a Service can be had that names this address; it does not stay.
    pub(super) fn gives(&mut self, address: IpAddr) -> Result<bool> {
        let body = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "probe"},
            "spec": {"clusterIP": address.to_string(), "ports": [{"port": 80}]},
        });
        match self.client.send("POST", SERVICES, Some(&body)) {
            Reply::Answer(201, _) => {
                self.ask("DELETE", &format!("{SERVICES}/probe"))?;
                Ok(true)
            }
            Reply::Answer(422, refusal) if refusal.to_string().contains("does not match the current range") => {
                Ok(false)
            }
            other => bail!("a Service that names {address}: {other:?}; written of it: {:?}", self.written(address)?),
        }
    }

    /// Waits until the real server gives an address, or does not; whether it came to that.
    pub(super) fn until_gives(&mut self, address: IpAddr, whether: bool) -> Result<bool> {
        let began = Instant::now();
        while began.elapsed() <= SOON {
            // The real server leaves behind what a Service had when its range was gone before it.
            if self.has_leaked(address)? {
                self.remove(About::Address, &address.to_string())?;
            }
            if self.gives(address)? == whether {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn ask(&mut self, method: &str, path: &str) -> Result<(u16, Value)> {
        match self.client.send(method, path, None) {
            Reply::Answer(code, body) => Ok((code, body)),
            other => bail!("{method} {path}: {other:?}"),
        }
    }

    fn taken(&mut self, step: &Step, code: u16, mut body: Value) -> Taken {
        if code == CREATED && step.about == About::Service {
            self.elsewhere.remove(&step.name);
        }
        self.plain(&mut body, Depth::Asked);
        Taken { code, body: shown::without_picks(&self.picked, &body) }
    }

    /// An object as it can be compared.
    pub(super) fn shown(&mut self, mut object: Value) -> Value {
        self.plain(&mut object, Depth::Settled);
        shown::without_picks(&self.picked, &object)
    }

    fn plain(&mut self, body: &mut Value, depth: Depth) {
        shown::plain(body, depth);
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) else { return };
        if spec.get("type").is_some_and(|kind| kind == "ExternalName") {
            self.elsewhere.insert(name.clone());
        }
        // The real server keeps what an ExternalName has no use for, and does not show it until the type changes again.
        if self.elsewhere.contains(&name) {
            spec.remove("internalTrafficPolicy");
        }
    }
}
