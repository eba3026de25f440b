//! One of the two servers: takes a step, and says what came of it in a form that can be compared.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use serde_json::{Value, json};

use super::holdings::{self, Faults, Held, addresses};
use super::ranges::{Heirs, Ranges};
use super::shown::{self, Depth};
use super::steps::{About, ITS_OWN, OTHER, Step};
use super::unseen::Unseen;
use crate::e2e::client::{Client, Reply, Target};
use crate::e2e::method::Method;

pub(super) const SERVICES: &str = "/api/v1/namespaces/default/services";
/// The code of an answer to a write that made something.
pub(super) const CREATED: u16 = 201;
/// How long what controllers do may take on a busy machine; the real one waits for ten seconds before it lets a range go, and longer
/// when it tries again what failed.
pub(super) const PATIENCE: Duration = Duration::from_mins(3);

/// How many seconds a watch lasts before everything is looked at again: not all that matters is an event of a range.
const GLANCE: u32 = 2;

/// How long the real server may take what is free for taken: it hears of it by a watch.
const LATE: Duration = Duration::from_secs(10);

/// How often an object is read again that somebody else changes while it is edited.
const MOST_EDITS: usize = 10;

/// How long what is asked for again and again is left alone in between.
const PAUSE: Duration = Duration::from_millis(20);

/// A server.
pub(super) struct Side {
    client: Client,
    /// Which ranges a deleted one may leave its addresses to.
    pub(super) heirs: Heirs,
    picked: Regex,
    /// Whether that address or port is one that steps name.
    is_named: fn(&str) -> bool,
    unseen: Unseen,
    /// The ports of the nodes that Services of the type `ExternalName` have said.
    said: BTreeSet<i64>,
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

    /// Whether nothing was left to be picked.
    pub(super) fn is_full(&self) -> bool {
        self.code == 500 && self.message().ends_with("range is full")
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.body)
    }
}

impl Side {
    pub(super) fn new(target: &Arc<Target>, heirs: Heirs, is_named: fn(&str) -> bool) -> Result<Self> {
        let (client, picked) = (Client::new(target), shown::picked()?);
        let mut side = Self { client, heirs, picked, is_named, unseen: Unseen::default(), said: BTreeSet::new() };
        side.make_other()?;
        Ok(side)
    }

    /// Takes a step.
    pub(super) fn take(&mut self, step: &Step) -> Result<Taken> {
        match step.method {
            Method::Delete => self.delete(step),
            Method::Edit => self.edit(step),
            _ => self.send(step, Some(&step.body)),
        }
    }

    /// Deletes an object, or several; if it is to be one of which something holds, and that is so, what that is is read first.
    fn delete(&mut self, step: &Step) -> Result<Taken> {
        if step.body.is_null() {
            return self.send(step, None);
        }
        let mut options = step.body.clone();
        for (name, asked) in options["preconditions"].as_object_mut().into_iter().flatten() {
            if asked == ITS_OWN {
                let (_, there) = self.ask("GET", &step.object())?;
                // Of what is not there nothing holds.
                *asked = there["metadata"].get(name).unwrap_or(asked).clone();
            }
        }
        self.send(step, Some(&options))
    }

    /// Reads an object, changes it and puts it back. Controllers write as well: what one of them wrote in between is read again, as a
    /// person who edits would. A conflict with nobody is an answer.
    fn edit(&mut self, step: &Step) -> Result<Taken> {
        let mut last: Option<(Value, Taken)> = None;
        for _ in 0..MOST_EDITS {
            let (code, mut there) = self.ask("GET", &step.object())?;
            if code != 200 {
                return Ok(self.taken(step, code, there));
            }
            let revision = there["metadata"]["resourceVersion"].clone();
            match last {
                Some((before, taken)) if before == revision => return Ok(taken),
                _ => {}
            }
            // What is null goes.
            for (part, fields) in step.body.as_object().into_iter().flatten() {
                for (name, value) in fields.as_object().into_iter().flatten() {
                    there[part][name] = value.clone();
                }
            }
            let taken = self.send(step, Some(&there))?;
            if taken.code != 409 {
                return Ok(taken);
            }
            last = Some((revision, taken));
        }
        bail!("{}: somebody else was faster {MOST_EDITS} times", step.path())
    }

    fn send(&mut self, step: &Step, body: Option<&Value>) -> Result<Taken> {
        match self.client.send_as(step.method.media(), step.method.verb(), &step.path(), body) {
            Reply::Answer(code, body) => Ok(self.taken(step, code, body)),
            // The real server ends a request that it stumbles over by hanging up.
            Reply::Lost => Ok(self.taken(step, 0, Value::Null)),
            Reply::Unsent => bail!("nobody is there"),
        }
    }

    /// Removes an object, so that both sides have the same again. Whatever finalizers it has, it goes.
    pub(super) fn remove(&mut self, about: About, name: &str) -> Result<()> {
        let path = about.object("v1", name);
        let began = Instant::now();
        loop {
            let (code, deleted) = self.ask("DELETE", &path)?;
            if code == 404 {
                return Ok(());
            }
            let mut freed = self.patch(&path, &json!({"metadata": {"finalizers": null}}))?;
            // One that the real server let become invalid cannot be written any more, but for its status.
            if freed.0 == 422 {
                freed = self.patch(&format!("{path}/status"), &json!({"metadata": {"finalizers": null}}))?;
            }
            ensure!(began.elapsed() < PATIENCE, "{path} does not go: {code} {deleted}, then {freed:?}");
        }
    }

    /// Writes a range without changing it, so that whoever follows it looks at it again.
    pub(super) fn touch(&mut self, name: &str) -> Result<()> {
        let path = About::Range.object("v1", name);
        for mark in [json!("yes"), Value::Null] {
            self.patch(&path, &json!({"metadata": {"annotations": {"example.com/touched": mark}}}))?;
        }
        Ok(())
    }

    fn patch(&mut self, path: &str, change: &Value) -> Result<(u16, Value)> {
        match self.client.send_as(Method::Merge.media(), "PATCH", path, Some(change)) {
            Reply::Answer(code, body) => Ok((code, body)),
            other => bail!("PATCH {path}: {other:?}"),
        }
    }

    /// The spec of a Service; null if there is none.
    pub(super) fn spec(&mut self, name: &str) -> Result<Value> {
        let (_, mut service) = self.ask("GET", &About::Service.object("v1", name))?;
        Ok(service["spec"].take())
    }

    /// The families of the cluster, the preferred one first.
    pub(super) fn families(&mut self) -> Result<Vec<&'static str>> {
        let (_, range) = self.ask("GET", &About::Range.object("v1", "kubernetes"))?;
        let ranges = range["spec"]["cidrs"].as_array().context("the cluster has no range")?;
        let family = |range: &Value| if range.to_string().contains(':') { "IPv6" } else { "IPv4" };
        Ok(ranges.iter().map(family).collect())
    }

    /// All objects of a sort.
    pub(super) fn all(&mut self, about: About) -> Result<Vec<Value>> {
        holdings::items(&mut self.client, &about.all("v1"))
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
    pub(super) fn port_holders(&mut self, port: i64) -> Result<Vec<String>> {
        let services = self.all(About::Service)?.into_iter();
        let has = |service: &Value| holdings::held(&service["spec"]).contains(&port.to_string());
        Ok(services.filter(has).filter_map(|service| Some(service["metadata"]["name"].as_str()?.to_owned())).collect())
    }

    /// Whether a Service of the type `ExternalName` has ever said that port of the nodes.
    pub(super) fn has_been_said(&self, port: i64) -> bool {
        self.said.contains(&port)
    }

    /// All Services, and all addresses.
    pub(super) fn held(&mut self) -> Result<Held> {
        Ok(Held { services: self.all(About::Service)?, addresses: self.all(About::Address)? })
    }

    /// Holds what is written of who has what against what Services say.
    pub(super) fn agrees(&mut self) -> Result<()> {
        Faults::of(&mut self.client)?.none()
    }

    /// All ranges, and the revision from which a change of them can be waited for.
    pub(super) fn look(&mut self) -> Result<(Ranges, String)> {
        let (_, list) = self.ask("GET", &About::Range.all("v1"))?;
        Ok((self.ranges()?, list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()))
    }

    /// Waits until a range changes, or it is time to look again.
    pub(super) fn wait(&mut self, from: &str) -> Result<()> {
        let path = About::Range.all("v1");
        let watch = self.client.watch(&format!("{path}?watch=true&timeoutSeconds={GLANCE}&resourceVersion={from}"))?;
        if let Ok(mut events) = watch {
            let _ = events.next();
        }
        Ok(())
    }

    /// Waits until the other namespace, which was deleted, has nothing left but what waits for somebody's finalizer.
    pub(super) fn until_emptied(&mut self) -> Result<()> {
        let is_left = |service: &Value| {
            service["metadata"]["namespace"] == OTHER && service["metadata"]["deletionTimestamp"].is_null()
        };
        let began = Instant::now();
        while self.all(About::Service)?.iter().any(is_left) {
            ensure!(began.elapsed() < PATIENCE, "the namespace {OTHER} is not emptied");
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Makes the other namespace; if it was deleted, as soon as it is gone.
    pub(super) fn make_other(&mut self) -> Result<()> {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHER}});
        let began = Instant::now();
        loop {
            match self.client.send("POST", &About::Namespace.all("v1"), Some(&body)) {
                Reply::Answer(CREATED, _) => return Ok(()),
                Reply::Answer(409, refusal) => {
                    let (_, there) = self.ask("GET", &About::Namespace.object("v1", OTHER))?;
                    if there["metadata"]["name"] == OTHER && there["metadata"]["deletionTimestamp"].is_null() {
                        return Ok(());
                    }
                    ensure!(began.elapsed() < PATIENCE, "the namespace {OTHER} does not go: {refusal}, {there}");
                    thread::sleep(PAUSE);
                }
                other => bail!("the namespace {OTHER} cannot be made: {other:?}"),
            }
        }
    }

    /// Takes a step that was refused because a range is full, again and again while it is, for as long as that may be a mistake.
    pub(super) fn insist(&mut self, step: &Step, refused: Taken) -> Result<Taken> {
        let began = Instant::now();
        let mut taken = refused;
        while taken.is_full() && began.elapsed() < LATE {
            thread::sleep(PAUSE);
            taken = self.take(step)?;
        }
        Ok(taken)
    }

    /// Whether a Service can be had that names this address; it does not stay. None if somebody has it.
    pub(super) fn gives(&mut self, address: IpAddr) -> Result<Option<bool>> {
        let body = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "probe"},
            "spec": {"clusterIP": address.to_string(), "ports": [{"port": 80}]},
        });
        match self.client.send("POST", SERVICES, Some(&body)) {
            Reply::Answer(201, _) => {
                self.ask("DELETE", &format!("{SERVICES}/probe"))?;
                Ok(Some(true))
            }
            Reply::Answer(422, refusal) if refusal.to_string().contains("does not match the current range") => {
                Ok(Some(false))
            }
            Reply::Answer(422, refusal) if refusal.to_string().contains("provided IP is already allocated") => Ok(None),
            other => bail!("a Service that names {address}: {other:?}"),
        }
    }

    fn ask(&mut self, method: &str, path: &str) -> Result<(u16, Value)> {
        match self.client.send(method, path, None) {
            Reply::Answer(code, body) => Ok((code, body)),
            other => bail!("{method} {path}: {other:?}"),
        }
    }

    fn taken(&mut self, step: &Step, code: u16, mut body: Value) -> Taken {
        let before = step.is_dry().then(|| (self.unseen.clone(), self.said.clone()));
        self.unseen.follow(step, code);
        self.plain(&mut body, Depth::Asked);
        // What was only tried has not been.
        if let Some(before) = before {
            (self.unseen, self.said) = before;
        }
        Taken { code, body: shown::without_picks(&self.picked, self.is_named, &body) }
    }

    /// What was taken, also without what steps name.
    pub(super) fn without_all_picks(&self, taken: &Taken) -> Taken {
        Taken { code: taken.code, body: shown::without_picks(&self.picked, shown::is_never_named, &taken.body) }
    }

    /// An object as it can be compared.
    pub(super) fn shown(&mut self, mut object: Value) -> Value {
        self.plain(&mut object, Depth::Settled);
        shown::without_picks(&self.picked, self.is_named, &object)
    }

    fn plain(&mut self, body: &mut Value, depth: Depth) {
        shown::plain(body, depth);
        self.without_unseen(body);
        for item in body.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
            self.without_unseen(item);
        }
    }

    /// Takes out what the real server keeps of a Service and does not always show.
    fn without_unseen(&mut self, body: &mut Value) {
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let said: Vec<_> = holdings::node_ports(&body["spec"]).collect();
        let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) else { return };
        if spec.get("type").is_some_and(|kind| kind == "ExternalName") {
            self.unseen.begin(&name);
            self.said.extend(said);
        }
        self.unseen.hide(&name, spec);
    }
}
