//! kill -9 again and again while Services are created, changed and deleted. After each, what was acknowledged is there, and what is
//! written of who has what is what Services say: nothing is given twice, nothing is written of a Service that does not have it, and
//! nothing had to be mended to come to that. In the end, when all Services are gone, nothing is left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

use super::holdings::{Faults, held, items, written};
use super::side::SERVICES;
use crate::e2e::client::{Client, Reply, Target};
use crate::e2e::method::Method;
use crate::e2e::stand::Stand;

const WRITERS: u64 = 8;
/// How many names each writer has.
const NAMES: u64 = 6;
/// How many writes are acknowledged before the server is killed, at most.
const MOST_WRITES: u64 = 40;
/// How long that may take.
const PATIENCE: Duration = Duration::from_mins(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// What there was to count.
#[derive(Default)]
struct Counts {
    acknowledged: u64,
    unknown: u64,
    refused: u64,
}

/// A writer, and what it knows of its Services: what was given to each, nothing if it is gone; those of which the last write has an
/// unknown end are not among them.
struct Writer {
    number: u64,
    random: Seeded,
    known: BTreeMap<String, Option<Vec<String>>>,
    counts: Counts,
}

/// Kills the server so often.
pub(super) fn run(stand: &mut Stand, rounds: u32, seed: u64) -> Result<String> {
    let target = stand.target(&stand.addresses[0])?;
    let mut random = Seeded::new(seed);
    let mut writers: Vec<_> = (0..WRITERS).map(|number| Writer::new(number, seed)).collect();
    let (mut faults, mut mended) = (Faults::default(), 0);
    for round in 1..=rounds {
        let (wanted, done) = (random.below(MOST_WRITES) + 1, AtomicU64::new(0));
        let server = stand.replicas.first_mut().context("no server")?;
        thread::scope(|scope| {
            for writer in &mut writers {
                scope.spawn(|| writer.write_until_nobody_answers(&target, &done));
            }
            let began = Instant::now();
            while done.load(Ordering::Relaxed) < wanted && began.elapsed() < PATIENCE {
                thread::sleep(BETWEEN_LOOKS);
            }
            server.kill()
        })?;
        ensure!(done.load(Ordering::Relaxed) >= wanted, "the server acknowledges nothing before kill {round}");
        server.again()?;
        let mut client = Client::new(&target);
        faults.add(Faults::of(&mut client)?);
        mended = mended.max(mendings(&mut client)?);
        acknowledged(&target, &mut writers).with_context(|| format!("after kill {round}"))?;
        ensure!(faults.none().is_ok() && mended == 0, "after kill {round}: {faults}, {mended} mended\n{faults:?}");
    }
    let mut counts = Counts::default();
    for Writer { counts: own, .. } in &writers {
        counts.acknowledged += own.acknowledged;
        counts.unknown += own.unknown;
        counts.refused += own.refused;
    }
    let left = emptied(&target)?;
    let Counts { acknowledged, unknown, refused } = counts;
    Ok(format!(
        "{rounds} times kill -9: {acknowledged} writes acknowledged and none lost, {unknown} with unknown end, {refused} refused; \
         {faults}, {mended} mended, {left} left in the end"
    ))
}

impl Writer {
    fn new(number: u64, seed: u64) -> Self {
        let known = (0..NAMES).map(|name| (format!("k{number}-{name}"), None)).collect();
        Self { number, random: Seeded::new(seed ^ (number + 1)), known, counts: Counts::default() }
    }

    fn write_until_nobody_answers(&mut self, target: &Arc<Target>, done: &AtomicU64) {
        let mut client = Client::new(target);
        loop {
            let name = format!("k{}-{}", self.number, self.random.below(NAMES));
            let (method, body) = self.choose(&name);
            let path = if method == Method::Post { SERVICES.to_owned() } else { format!("{SERVICES}/{name}") };
            let body = Some(&body).filter(|_| method != Method::Delete);
            match client.send_as(method.media(), method.verb(), &path, body) {
                Reply::Unsent => return,
                Reply::Lost => {
                    self.counts.unknown += 1;
                    self.known.remove(&name);
                    return;
                }
                Reply::Answer(200 | 201, service) => {
                    self.counts.acknowledged += 1;
                    done.fetch_add(1, Ordering::Relaxed);
                    let has = (method != Method::Delete).then(|| held(&service["spec"]));
                    self.known.insert(name, has);
                }
                // Nothing has changed.
                Reply::Answer(..) => self.counts.refused += 1,
            }
        }
    }

    /// Any write; mostly one that finds what it is about.
    fn choose(&mut self, name: &str) -> (Method, Value) {
        let is_there = self.known.get(name).is_some_and(Option::is_some);
        let kind = self.random.one_of(&["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]);
        let mut spec = json!({"type": kind, "ports": [{"port": 80}], "externalName": null});
        if kind == "ExternalName" {
            spec = json!({"type": kind, "externalName": "a.b", "clusterIP": null, "clusterIPs": null});
        } else if self.random.below(3) == 0 {
            spec["ipFamilyPolicy"] = json!("PreferDualStack");
        }
        match (is_there, self.random.below(5)) {
            (true, 0) => (Method::Delete, Value::Null),
            (true, _) => (Method::Merge, json!({"spec": spec})),
            (false, _) => {
                (Method::Post, json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}))
            }
        }
    }
}

/// Holds what was acknowledged against what there is, and learns what became of the rest.
fn acknowledged(target: &Arc<Target>, writers: &mut [Writer]) -> Result<()> {
    let list = match Client::new(target).send("GET", SERVICES, None) {
        Reply::Answer(200, list) => list,
        other => bail!("{other:?}"),
    };
    let mut there: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for service in list["items"].as_array().into_iter().flatten() {
        let name = service["metadata"]["name"].as_str().unwrap_or_default();
        there.insert(name.to_owned(), held(&service["spec"]));
    }
    for writer in writers {
        for name in (0..NAMES).map(|name| format!("k{}-{name}", writer.number)) {
            let is = there.get(&name).cloned();
            if let Some(was) = writer.known.insert(name.clone(), is.clone()) {
                ensure!(was == is, "{name} was acknowledged with {was:?}, and has {is:?}");
            }
        }
    }
    Ok(())
}

/// How often the server had to mend something, by the Events that it tells of that.
fn mendings(client: &mut Client) -> Result<usize> {
    let events = items(client, "/apis/events.k8s.io/v1/events")?;
    Ok(events.iter().filter(|event| event["reportingController"].as_str().is_some_and(is_repair)).count())
}

fn is_repair(reporter: &str) -> bool {
    matches!(reporter, "ipallocator-repair-controller" | "portallocator-repair-controller")
}

/// Deletes all Services of the suite, and counts what stays behind besides what the server's own Service has.
fn emptied(target: &Arc<Target>) -> Result<usize> {
    let mut client = Client::new(target);
    for name in (0..WRITERS).flat_map(|number| (0..NAMES).map(move |name| format!("k{number}-{name}"))) {
        match client.send("DELETE", &format!("{SERVICES}/{name}"), None) {
            Reply::Answer(200 | 404, _) => {}
            other => bail!("{name} cannot be deleted: {other:?}"),
        }
    }
    Faults::of(&mut client)?.none()?;
    let mut left = written(&mut client)?;
    left.retain(|what, _| what != "10.96.0.1");
    ensure!(left.is_empty(), "all Services but the server's own are gone, and this is still given out: {left:?}");
    Ok(left.len())
}
