//! Both replicas at work at the same time.

use std::thread;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::{Pair, map, revision, until};
use crate::e2e::client::{Client, Reply};
use crate::e2e::gateway;
use crate::e2e::stand::done;

const MERGE: &str = "application/merge-patch+json";
/// What an object that is deleted may cost in writes: its mark, and its end.
const WRITES_EACH: u64 = 3;
/// And what a namespace may cost besides: what it is furnished with, its conditions, and tries that came second.
const WRITES_BESIDES: u64 = 30;

/// What was acknowledged by one is in every get, list and patch of the other that begins after that.
pub(super) fn current(pair: &mut Pair) -> Result<String> {
    let path = pair.namespace("current")?;
    let [mut a, mut b] = pair.clients()?;
    done(a.send("POST", &path, Some(&map("one", 0))))?;
    let one = format!("{path}/one");
    let rounds = if pair.quick { 300 } else { 3000 };
    for round in 1..=rounds {
        let wrote = revision(&done(a.send("PUT", &one, Some(&map("one", round))))?);
        let got = match round % 3 {
            0 => done(b.send("GET", &one, None))?,
            1 => {
                let list = done(b.send("GET", &path, None))?;
                ensure!(revision(&list) >= wrote, "a list of revision {}, after {wrote}", revision(&list));
                // There is also what every namespace is furnished with.
                let found = list["items"].as_array().and_then(|items| items.iter().find(|item| named(item, "one")));
                found.context("it is not in the list")?.clone()
            }
            // A patch that changes nothing, if it is applied to what is there now.
            _ => done(b.send_as(MERGE, "PATCH", &one, Some(&json!({"data": {"n": round.to_string()}}))))?,
        };
        ensure!(
            revision(&got) == wrote && got["data"]["n"] == json!(round.to_string()),
            "round {round}: written at {wrote}, read {got}"
        );
        std::mem::swap(&mut a, &mut b);
    }
    Ok(format!("{rounds} times, a third each by get, list and a patch that changes nothing"))
}

fn named(object: &Value, name: &str) -> bool {
    object["metadata"]["name"] == name
}

/// A watch is cut off after some events and goes on at the other, from the last revision.
pub(super) fn resumed(pair: &mut Pair) -> Result<String> {
    let path = pair.namespace("resumed")?;
    let [mut a, mut b] = pair.clients()?;
    let from = revision(&done(a.send("GET", &path, None))?);
    let writes = if pair.quick { 200 } else { 2000 };
    let watchers = [pair.stand.client(0)?, pair.stand.client(1)?];
    let watching = {
        let path = path.clone();
        thread::spawn(move || watch_in_turns(&watchers, &path, from, writes))
    };
    let mut expected = Vec::new();
    for write in 0..writes {
        let name = format!("n{}", write % 20);
        let body = map(&name, write);
        let client = if write % 3 == 0 { &mut b } else { &mut a };
        let wrote = if write < 20 {
            client.send("POST", &path, Some(&body))
        } else {
            client.send("PUT", &format!("{path}/{name}"), Some(&body))
        };
        expected.push(revision(&done(wrote)?));
    }
    let (seen, turns) = watching.join().map_err(|_| anyhow::anyhow!("the watcher fell over"))??;
    if seen != expected {
        let at = seen.iter().zip(&expected).take_while(|(a, b)| a == b).count();
        bail!("event {at}: {:?} was seen, {:?} was written", seen.get(at), expected.get(at));
    }
    Ok(format!("{writes} events in order on {turns} watches, none missing and none twice"))
}

/// The revisions of so many events, and how many watches they took: each is left after some events, in the middle of what it says.
fn watch_in_turns(clients: &[Client; 2], path: &str, from: u64, events: usize) -> Result<(Vec<u64>, usize)> {
    let (mut seen, mut last, mut turns) = (Vec::new(), from, 0);
    while seen.len() < events {
        let asked = format!("{path}?watch=true&resourceVersion={last}");
        let mut lines = clients[turns % 2].watch(&asked)?.map_err(|refused| anyhow::anyhow!("{refused:?}"))?;
        turns += 1;
        for _ in 0..=(turns * 7 % 23) {
            let event = lines.next()?.context("the watch ended")?;
            ensure!(event["type"] != "ERROR", "{event}");
            // What a namespace is furnished with comes by itself.
            last = revision(&event["object"]);
            if !named(&event["object"], "kube-root-ca.crt") {
                seen.push(last);
            }
            if seen.len() == events {
                break;
            }
        }
    }
    Ok((seen, turns))
}

/// Get, add one, and put on top of what was read, on both at the same time.
pub(super) fn counted(pair: &mut Pair) -> Result<String> {
    const EACH: usize = 2;
    let path = pair.namespace("counted")?;
    done(pair.stand.client(0)?.send("POST", &path, Some(&map("counter", 0))))?;
    let counter = format!("{path}/counter");
    let turns = if pair.quick { 25 } else { 250 };
    let mut counting = Vec::new();
    for number in 0..2 * EACH {
        let (mut client, counter) = (pair.stand.client(number % 2)?, counter.clone());
        counting.push(thread::spawn(move || -> Result<usize> {
            let (mut done_so_far, mut second) = (0, 0);
            while done_so_far < turns {
                let mut object = done(client.send("GET", &counter, None))?;
                let now: usize = object["data"]["n"].as_str().and_then(|n| n.parse().ok()).context("no number")?;
                object["data"]["n"] = json!((now + 1).to_string());
                match client.send("PUT", &counter, Some(&object)) {
                    Reply::Answer(200, _) => done_so_far += 1,
                    Reply::Answer(409, _) => second += 1,
                    other => bail!("{other:?}"),
                }
            }
            Ok(second)
        }));
    }
    let mut second = 0;
    for count in counting {
        second += count.join().map_err(|_| anyhow::anyhow!("a counter fell over"))??;
    }
    let end = done(pair.stand.client(1)?.send("GET", &counter, None))?;
    ensure!(end["data"]["n"] == json!((2 * EACH * turns).to_string()), "counted to {}", end["data"]["n"]);
    Ok(format!("counted to {}, {second} came second and tried again", 2 * EACH * turns))
}

/// Dependents go with their owner and objects with their namespace, without more writes than that takes; then there is silence.
pub(super) fn cleaned(pair: &mut Pair) -> Result<String> {
    let objects = if pair.quick { 40 } else { 200 };
    let path = pair.namespace("cleaned")?;
    let [mut a, mut b] = pair.clients()?;
    // Servers that have just begun have this to say still: their own Service has taken an address.
    until("the range to say how much of it is in use", || {
        let range = done(a.send("GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", None))?;
        Ok(range["status"]["conditions"].to_string().contains(": 1 used, "))
    })?;
    let owner = done(a.send("POST", &path, Some(&map("owner", 0))))?;
    for number in 0..objects {
        let mut body = map(&format!("n{number}"), number);
        if number % 2 == 0 {
            body["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}]);
        }
        let client = if number % 3 == 0 { &mut b } else { &mut a };
        done(client.send("POST", &path, Some(&body)))?;
    }
    let url = pair.etcd.url().to_owned();
    let before = gateway::revision(&url)?;
    done(b.send("DELETE", &format!("{path}/owner"), None))?;
    until("dependents to go with their owner", || {
        let list = done(a.send("GET", &path, None))?;
        let mut items = list["items"].as_array().context("no list")?.iter();
        Ok(!items.any(|item| item["metadata"]["ownerReferences"].is_array()))
    })?;
    let collected = gateway::revision(&url)? - before;
    let gone = objects as u64 / 2 + 1;
    ensure!(collected <= gone * WRITES_EACH, "{gone} objects went in {collected} writes");
    let before = gateway::revision(&url)?;
    done(a.send("DELETE", "/api/v1/namespaces/cleaned", None))?;
    until("the namespace to go", || {
        Ok(matches!(b.send("GET", "/api/v1/namespaces/cleaned", None), Reply::Answer(404, _)))
    })?;
    let emptied = gateway::revision(&url)? - before;
    let gone = objects as u64 / 2;
    ensure!(
        emptied <= gone * WRITES_EACH + WRITES_BESIDES,
        "{gone} objects and their namespace went in {emptied} writes"
    );
    let before = gateway::revision(&url)?;
    // Long enough for whoever would do something again to have done it.
    thread::sleep(std::time::Duration::from_secs(3));
    let after = gateway::revision(&url)?;
    ensure!(before == after, "there is nothing to do, and there were {} writes", after - before);
    Ok(format!("{objects} objects: {collected} writes for dependents, {emptied} for the namespace, then none"))
}
