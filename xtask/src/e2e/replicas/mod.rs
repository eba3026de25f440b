//! The suite `replicas`: two of our servers on one etcd, of which one can be cut off from it. Whoever asks must not be able to tell
//! how many there are.

mod away;
mod together;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::real::{Etcd, Wire};

use super::client::{Client, Reply};
use super::report::{Outcome, Report};
use super::servers::Servers;
use super::stand::{Stand, done};
use super::{Options, Place};
use crate::parts::Part;

pub(super) const SUITE: &str = "replicas";
/// Whatever is waited for comes within this time, or not at all.
const PATIENCE: Duration = Duration::from_mins(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Two servers: the first reaches etcd itself, the second over a wire.
struct Pair {
    stand: Stand,
    wire: Wire,
    etcd: Etcd,
    quick: bool,
}

type Case = (&'static str, fn(&mut Pair) -> Result<String>);

const CASES: [Case; 8] = [
    ("what one wrote the other reads at once", together::current),
    ("a watch goes on where the other's was cut off", together::resumed),
    ("a counter that both increment loses nothing", together::counted),
    ("both clean up after what is deleted, and do not get in each other's way", together::cleaned),
    ("one that is cut off from etcd says so, answers nothing old, and comes back by itself", away::cut_off),
    ("one whose etcd is silent says so, answers nothing old, and comes back by itself", away::silent),
    ("a watch on one that was cut off misses nothing", away::watching),
    ("one that is killed and started again has what was written meanwhile", away::killed),
];

/// Runs the cases one after the other on the same servers.
pub(super) fn run(servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
    let folder = servers.folder(SUITE, place)?;
    let etcd = Etcd::start(&servers.part(Part::Etcd)?, &folder.join("etcd"))?;
    let wire = Wire::to(etcd.url().trim_start_matches("http://"))?;
    let over_wire = format!("http://{}", wire.address());
    // Controllers renew their Leases all the time, and here every write is counted.
    let stand = Stand::ours(servers, &folder, &[Some(etcd.url()), Some(&over_wire)], &["--no-controllers"])?;
    let mut pair = Pair { stand, wire, etcd, quick: options.quick };
    let only = options.only.as_deref().unwrap_or_default();
    for (name, case) in CASES.iter().filter(|(name, _)| name.contains(only)) {
        let began = Instant::now();
        let outcome = case(&mut pair).map_or_else(|why| Outcome::Failed(format!("{why:#}")), Outcome::Ok);
        report.case(SUITE, place, name, &outcome, began.elapsed());
    }
    Ok(())
}

impl Pair {
    /// A namespace of that name, and where its `ConfigMaps` are.
    fn namespace(&self, name: &str) -> Result<String> {
        let body = json!({"metadata": {"name": name}});
        done(self.stand.client(0)?.send("POST", "/api/v1/namespaces", Some(&body)))?;
        Ok(format!("/api/v1/namespaces/{name}/configmaps"))
    }

    fn clients(&self) -> Result<[Client; 2]> {
        Ok([self.stand.client(0)?, self.stand.client(1)?])
    }
}

/// A `ConfigMap` with one number.
fn map(name: &str, number: usize) -> Value {
    json!({"metadata": {"name": name}, "data": {"n": number.to_string()}})
}

/// The revision of an object or a list.
fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Waits until something holds; an error if it does not in time.
fn until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !holds()? {
        ensure!(began.elapsed() < PATIENCE, "waited {} s for {what}", PATIENCE.as_secs());
        std::thread::sleep(BETWEEN_LOOKS);
    }
    Ok(())
}

/// Whether a server says that it is ready, and all that it says of it.
fn ready(client: &mut Client) -> (bool, String) {
    match client.send("GET", "/readyz?verbose", None) {
        Reply::Answer(status, body) => (status == 200, body.as_str().map_or_else(|| body.to_string(), str::to_owned)),
        other => (false, format!("{other:?}")),
    }
}
