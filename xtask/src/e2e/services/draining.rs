//! Two servers on one etcd, of which one is told to delete a range while Services are created on both that get addresses of it, at random
//! and by name. From the moment at which the range is marked nothing is given out of it, on either server, by the order of the one
//! history that both share; what was given before keeps the range, and it goes when that is free.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::holdings::{ADDRESSES, Faults, items};
use super::race::{service, targets};
use super::ranges;
use super::side::SERVICES;
use crate::e2e::client::{Client, Lines, Reply, Target};
use crate::e2e::stand::{Stand, done};

/// The range that stays: room for all Services that are created at random.
pub(super) const STAYS: &str = "10.96.0.0/22";
/// The one that goes, four times as large, so that most of what is given at random is of it.
const GOES: &str = "10.98.0.0/20";
const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";

/// How often a range is made and deleted.
const ROUNDS: usize = 20;
/// Who creates, most of them on the server that is not asked to delete.
const WRITERS: u8 = 6;
/// The addresses that writers name begin here; each names every other one of so many.
const FIRST: u32 = u32::from_be_bytes([10, 98, 1, 0]);
const MOST_EACH: u32 = 600;
/// How many addresses of the range have been given when it is deleted.
const GIVEN: usize = 30;
/// How many Services each writer asks for after that.
const AFTER: u64 = 10;

/// How long that may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Where the writers are.
struct Progress {
    /// The delete was acknowledged.
    is_deleted: AtomicBool,
    /// Something failed, and nobody waits for them any more.
    is_over: AtomicBool,
    given: Sender<()>,
}

impl Progress {
    /// Waits until the delete was acknowledged, or nobody waits any more: who is that far ahead keeps some names for what comes after it.
    fn wait(&self) -> Result<()> {
        let began = Instant::now();
        while !self.is_deleted.load(Ordering::Acquire) && !self.is_over.load(Ordering::Acquire) {
            ensure!(began.elapsed() < PATIENCE, "the range is not deleted");
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// What the writers of a round saw.
#[derive(Default)]
struct Seen {
    /// The Services that they created.
    names: Vec<String>,
    /// Creates that were refused because the range was marked.
    refused: usize,
}

/// Deletes a range on one of the servers again and again while Services are created.
pub(super) fn run(stand: &Stand) -> Result<String> {
    let targets = targets(stand)?;
    let (mut given, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let (of_range, not_given) = drain(&targets, round).with_context(|| format!("round {round}"))?;
        given += of_range;
        refused += not_given;
    }
    Ok(format!(
        "{ROUNDS} ranges deleted on one server while both were asked for their addresses: {given} given before, none after, {refused} \
         refused; all ranges went with their last address"
    ))
}

/// One range from its create to its end; how many addresses of it were given, and how many refused.
fn drain(targets: &[Arc<Target>], round: usize) -> Result<(usize, usize)> {
    let name = format!("goes-{round}");
    // Each server deletes in its turn.
    let order: Vec<_> = (0..targets.len()).map(|number| &targets[(round + number) % targets.len()]).collect();
    let [mut deleting, mut other] = [0, 1].map(|number| Client::new(order[number]));
    let body = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": name}, "spec": {"cidrs": [GOES]},
    });
    let made = done(deleting.send("POST", RANGES, Some(&body)))?;
    let from = text(&made["metadata"]["resourceVersion"]);
    let follow = |target: &Arc<Target>, path: &str| {
        watch(&Client::new(target), &format!("{path}?watch=true&resourceVersion={from}"))
    };
    let mut of_ranges = order.iter().map(|target| follow(target, RANGES)).collect::<Result<Vec<_>>>()?;
    let mut of_addresses = follow(order[1], ADDRESSES)?;
    let (sender, receiver) = channel();
    let progress = Progress { is_deleted: AtomicBool::new(false), is_over: AtomicBool::new(false), given: sender };
    let (deleted, seen) = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                // One of them is on the server that deletes.
                let target = order[usize::from(writer != 0)];
                let progress = &progress;
                scope.spawn(move || write(target, round, writer, progress))
            })
            .collect();
        let deleted = wait_and_delete(&receiver, &mut deleting, &name);
        progress.is_over.store(deleted.is_err(), Ordering::Release);
        progress.is_deleted.store(true, Ordering::Release);
        (deleted, writers.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>())
    });
    deleted?;
    let mut all = Seen::default();
    for one in seen {
        let one = one.map_err(|_| anyhow::anyhow!("a writer fell over"))??;
        all.names.extend(one.names);
        all.refused += one.refused;
    }
    Faults::of(&mut deleting)?.none()?;
    let mark = of_ranges.iter_mut().map(|events| marked(events, &name)).collect::<Result<Vec<_>>>()?;
    ensure!(mark.windows(2).all(|two| two[0] == two[1]), "the servers tell of the mark at {mark:?}");
    let given = given_before(&mut of_addresses, &mut deleting, mark[0], round)?;
    // Those that keep the range go last, so that it is seen to stay until then.
    let mut services = items(&mut other, SERVICES)?;
    services.retain(|service| all.names.iter().any(|name| service["metadata"]["name"] == *name.as_str()));
    services.sort_by_key(|service| is_of_range(&service["spec"]["clusterIP"]));
    ensure!(services.last().is_some_and(|last| is_of_range(&last["spec"]["clusterIP"])), "no Service has any of it");
    for (number, service) in services.iter().enumerate() {
        if number + 1 == services.len() {
            let there = done(deleting.send("GET", &format!("{RANGES}/{name}"), None)).context("it went too early")?;
            ensure!(ranges::is_leaving(&there) && ranges::is_protected(&there), "nothing keeps it: {there}");
        }
        let path = format!("{SERVICES}/{}", text(&service["metadata"]["name"]));
        let client = if number % 2 == 0 { &mut deleting } else { &mut other };
        done(client.send("DELETE", &path, None))?;
    }
    of_ranges.iter_mut().try_for_each(|events| gone(events, &name))?;
    Faults::of(&mut other)?.none()?;
    Ok((given, all.refused))
}

/// Deletes the range when enough of it has been given.
fn wait_and_delete(given: &Receiver<()>, client: &mut Client, name: &str) -> Result<()> {
    for _ in 0..GIVEN {
        given.recv_timeout(PATIENCE).context("the range gives too little")?;
    }
    let deleted = done(client.send("DELETE", &format!("{RANGES}/{name}"), None))?;
    ensure!(ranges::is_leaving(&deleted), "it is not marked: {deleted}");
    Ok(())
}

/// Creates Services at random and with addresses of the range that nobody else asks for, until so many were asked for after it was
/// deleted.
fn write(target: &Arc<Target>, round: usize, writer: u8, progress: &Progress) -> Result<Seen> {
    let (mut client, mut seen, mut after) = (Client::new(target), Seen::default(), 0);
    for number in 0..MOST_EACH {
        // What is asked for from here on comes after the acknowledgement.
        if u64::from(MOST_EACH - number) <= AFTER {
            progress.wait()?;
        }
        let is_late = progress.is_deleted.load(Ordering::Acquire);
        if progress.is_over.load(Ordering::Acquire) || after == AFTER {
            return Ok(seen);
        }
        after += u64::from(is_late);
        let name = format!("d{round}-{writer}-{number}");
        let own = FIRST + u32::from(writer) * MOST_EACH + number;
        let asked = (number % 2 == 0).then(|| Ipv4Addr::from(own).to_string());
        let said = client.send("POST", SERVICES, Some(&service(&name, &json!({"clusterIP": asked}))));
        match (&said, &asked) {
            (Reply::Answer(201, service), _) => {
                let address = &service["spec"]["clusterIP"];
                ensure!(
                    asked.as_ref().is_none_or(|asked| address == asked.as_str()),
                    "{asked:?} was asked for: {service}"
                );
                if is_of_range(address) {
                    ensure!(!is_late, "{name} got {address} of a range that was deleted before it was asked for");
                    // Nobody waits for them when there are enough.
                    let _ = progress.given.send(());
                }
                seen.names.push(name);
            }
            (Reply::Answer(422, refusal), Some(_)) if says(refusal, "does not match the current range") => {
                seen.refused += 1;
            }
            // Who names nothing can be given what others name.
            (Reply::Answer(422, refusal), Some(_)) if says(refusal, "provided IP is already allocated") => {}
            _ => bail!("{name}, which asked for {asked:?}: {said:?}"),
        }
    }
    // Who waited has asked for the last of them with its last name.
    ensure!(after == AFTER, "writer {writer} has no names left");
    Ok(seen)
}

fn says(refusal: &Value, why: &str) -> bool {
    refusal["message"].as_str().is_some_and(|message| message.contains(why))
}

fn is_of_range(address: &Value) -> bool {
    let address = address.as_str().and_then(|address| address.parse().ok());
    address.is_some_and(|address| ranges::has(&json!({"spec": {"cidrs": [GOES]}}), address))
}

/// The revision at which the range was marked.
fn marked(events: &mut Lines, name: &str) -> Result<u64> {
    let is_mark = |event: &Value| event["object"]["metadata"]["name"] == name && ranges::is_leaving(&event["object"]);
    let event = next(events, is_mark).context("it is not marked")?;
    revision(&event["object"])
}

/// Waits until the range is gone.
fn gone(events: &mut Lines, name: &str) -> Result<()> {
    let is_end = |event: &Value| event["type"] == "DELETED" && event["object"]["metadata"]["name"] == name;
    next(events, is_end).context("the range does not go although its Services have").map(drop)
}

/// How many addresses of the range were ever written down; an error if one was after the mark. An address that is made by hand tells where
/// to stop.
fn given_before(events: &mut Lines, client: &mut Client, mark: u64, round: usize) -> Result<usize> {
    let last = format!("192.0.2.{}", round + 1);
    let parent = json!({"resource": "others", "name": "last"});
    let body = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": last}, "spec": {"parentRef": parent},
    });
    done(client.send("POST", ADDRESSES, Some(&body)))?;
    let mut given = 0;
    loop {
        let event = next(events, |event| event["type"] == "ADDED").context("addresses are not told of")?;
        let name = &event["object"]["metadata"]["name"];
        if *name == last.as_str() {
            return Ok(given);
        }
        if is_of_range(name) {
            let made = revision(&event["object"])?;
            ensure!(made < mark, "{name} was given at {made}, and the range was marked at {mark}");
            given += 1;
        }
    }
}

fn watch(client: &Client, path: &str) -> Result<Lines> {
    match client.watch(path).with_context(|| format!("no watch of {path}"))? {
        Ok(events) => Ok(events),
        Err(refusal) => bail!("no watch of {path}: {refusal:?}"),
    }
}

/// The next event that is the one; a server that says nothing for long has none.
fn next(events: &mut Lines, is_it: impl Fn(&Value) -> bool) -> Result<Value> {
    loop {
        let event = events.next()?.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        ensure!(event["type"] != "ERROR", "the watch ends: {event}");
        if is_it(&event) {
            return Ok(event);
        }
    }
}

fn revision(object: &Value) -> Result<u64> {
    text(&object["metadata"]["resourceVersion"]).parse().with_context(|| format!("no revision: {object}"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
