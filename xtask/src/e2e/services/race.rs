//! Two servers on one etcd that give out of the same ranges at the same time.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::holdings::Faults;
use super::side::SERVICES;
use crate::e2e::client::{Client, Reply, Target};
use crate::e2e::gateway;
use crate::e2e::stand::{Stand, done};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// How often both are asked for one address, and for one port.
const DUELS: u16 = 100;
/// The last byte of the first of these addresses, which are in the first 256 of the range: who names none is given one behind them, and
/// could be given what both name next.
const FIRST_NAMED: u16 = 100;
/// Clients that create at once, half of them on each server, and how many Services each creates.
const CLIENTS: u64 = 16;
const EACH: u64 = 50;
/// How many of a hundred creates may be tried once more because two servers picked the same: where there is room, and where there are
/// hardly more addresses than Services.
const ROOMY: u64 = 10;
const TIGHT: u64 = 50;
/// A range for as many Services as are created and a few more: two servers often pick the same.
const TIGHT_EACH: u64 = 15;

/// Who asks both servers for the same: exactly one of them gives it.
pub(super) fn duels(stand: &Stand) -> Result<String> {
    let targets = targets(stand)?;
    let mut won = vec![0; targets.len()];
    for number in 0..DUELS {
        let address = format!("10.96.0.{}", FIRST_NAMED + number);
        let wants =
            json!({"type": "NodePort", "clusterIP": address, "ports": [{"port": 80, "nodePort": 31_000 + number}]});
        let port = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31_500 + number}]});
        for (what, spec, refusal) in
            [("a", &wants, "provided IP is already allocated"), ("p", &port, "provided port is already allocated")]
        {
            let start = Arc::new(Barrier::new(targets.len()));
            let asked = targets.iter().enumerate().map(|(server, target)| {
                let (start, mut client) = (start.clone(), Client::new(target));
                let body = service(&format!("{what}{server}-{number}"), spec);
                thread::spawn(move || {
                    start.wait();
                    client.send("POST", SERVICES, Some(&body))
                })
            });
            let asked: Vec<_> = asked.collect();
            let said: Vec<_> = asked.into_iter().map(|one| one.join().unwrap_or(Reply::Lost)).collect();
            let given = said.iter().filter(|reply| matches!(reply, Reply::Answer(201, _))).count();
            let refused = said.iter().filter(|reply| is_refusal(reply, refusal)).count();
            ensure!((given, refused) == (1, targets.len() - 1), "{what}{number}: {said:?}");
            for (won, said) in won.iter_mut().zip(&said) {
                *won += u16::from(matches!(said, Reply::Answer(201, _)));
            }
        }
    }
    Faults::of(&mut Client::new(&targets[1]))?.none()?;
    Ok(format!(
        "{DUELS} addresses and {DUELS} ports that both were asked for: exactly one gave each, {won:?} of them each server"
    ))
}

/// Many create on both servers where there is room: everybody gets something, and hardly anybody's create is tried again.
pub(super) fn crowd(stand: &Stand) -> Result<String> {
    create(stand, EACH, ROOMY)
}

/// The same in a range that is almost full in the end.
pub(super) fn crush(stand: &Stand) -> Result<String> {
    create(stand, TIGHT_EACH, TIGHT)
}

/// Has all clients create so many Services each at once, and counts the transactions that it took.
fn create(stand: &Stand, each: u64, most: u64) -> Result<String> {
    let targets = targets(stand)?;
    let etcd = stand.etcd.as_ref().map(testkit::real::Etcd::url).unwrap_or_default();
    begun(&mut Client::new(&targets[0]))?;
    let before = gateway::transactions(etcd)?;
    let crowd = (0..CLIENTS).map(|number| {
        let mut client = Client::new(&targets[number as usize % targets.len()]);
        thread::spawn(move || -> Result<()> {
            for create in 0..each {
                let kind = if create % 2 == 0 { "NodePort" } else { "ClusterIP" };
                let body = service(&format!("c{number}-{create}"), &json!({"type": kind, "ports": [{"port": 80}]}));
                let said = client.send("POST", SERVICES, Some(&body));
                ensure!(matches!(said, Reply::Answer(201, _)), "{said:?}");
            }
            Ok(())
        })
    });
    let crowd: Vec<_> = crowd.collect();
    for one in crowd {
        one.join().map_err(|_| anyhow::anyhow!("a client fell over"))??;
    }
    let creates = CLIENTS * each;
    let sent = gateway::transactions(etcd)? - before;
    let faults = Faults::of(&mut Client::new(&targets[0]))?;
    faults.none()?;
    let retries = sent.saturating_sub(creates);
    ensure!(retries * 100 <= creates * most, "{creates} creates took {sent} transactions");
    Ok(format!(
        "{creates} Services created on two servers at once in {sent} transactions, {retries} of them once more; {faults}"
    ))
}

/// Waits until servers that have just begun have said what they have to say: their own Service has taken an address.
fn begun(client: &mut Client) -> Result<()> {
    let began = Instant::now();
    loop {
        let range = done(client.send("GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", None))?;
        if range["status"]["conditions"].to_string().contains(": 1 used, ") {
            return Ok(());
        }
        ensure!(began.elapsed() < PATIENCE, "it does not say how much of the range is in use: {range}");
        thread::sleep(BETWEEN_LOOKS);
    }
}

pub(super) fn targets(stand: &Stand) -> Result<Vec<Arc<Target>>> {
    stand.addresses.iter().map(|address| stand.target(address)).collect()
}

pub(super) fn service(name: &str, spec: &Value) -> Value {
    let mut body = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    if body["spec"]["ports"].is_null() {
        body["spec"]["ports"] = json!([{"port": 80}]);
    }
    body
}

fn is_refusal(reply: &Reply, why: &str) -> bool {
    matches!(reply, Reply::Answer(422, body) if body["message"].as_str().is_some_and(|message| message.contains(why)))
}
