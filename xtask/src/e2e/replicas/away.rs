//! A replica that etcd is away from, and one that is away itself.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testkit::real::Passage;

use super::{PATIENCE, Pair, map, ready, revision, until};
use crate::e2e::client::{Client, Reply};
use crate::e2e::stand::done;

/// A read that must be current is refused at the latest after this, where the server has a minute for a request. It gives up on
/// etcd after ten seconds; the rest is for a machine that is busy.
const REFUSED_WITHIN: Duration = Duration::from_secs(30);

pub(super) fn cut_off(pair: &mut Pair) -> Result<String> {
    without_etcd(pair, Passage::Cut, "cut-off")
}

pub(super) fn silent(pair: &mut Pair) -> Result<String> {
    without_etcd(pair, Passage::Held, "silent")
}

fn without_etcd(pair: &mut Pair, passage: Passage, name: &str) -> Result<String> {
    let path = pair.namespace(name)?;
    let [mut here, mut away] = pair.clients()?;
    done(here.send("POST", &path, Some(&map("one", 1))))?;
    let one = format!("{path}/one");
    done(away.send("GET", &one, None))?;
    ensure!(ready(&mut away).0, "not ready before anything happened");
    pair.wire.set(passage);
    let came = left_alone(&mut here, &mut away, &path);
    // Whatever came of it, the next case begins with servers that are well.
    pair.wire.set(Passage::Open);
    let (refused, unready) = came?;
    let back = Instant::now();
    until("it to be ready again", || Ok(ready(&mut away).0))?;
    let back = back.elapsed();
    let got = done(away.send("GET", &one, None))?;
    ensure!(got["data"]["n"] == "2", "it is back and says {got}");
    done(away.send("PUT", &one, Some(&map("one", 3))))?;
    ensure!(done(here.send("GET", &one, None))?["data"]["n"] == "3", "what it wrote is not seen");
    Ok(format!(
        "unready after {:.1} s, the slowest refusal took {:.1} s, ready again after {:.1} s",
        unready.as_secs_f64(),
        refused.as_secs_f64(),
        back.as_secs_f64()
    ))
}

/// What a replica says that does not reach etcd, while the other goes on: how long its slowest refusal took, and how long it took
/// until it said that it is not ready.
fn left_alone(here: &mut Client, away: &mut Client, path: &str) -> Result<(Duration, Duration)> {
    let (one, began) = (format!("{path}/one"), Instant::now());
    done(here.send("PUT", &one, Some(&map("one", 2))))?;
    until("it to say that it is not ready", || Ok(!ready(away).0))?;
    let unready = began.elapsed();
    let mut slowest = Duration::ZERO;
    for (method, path, body) in [
        ("GET", one.clone(), None),
        ("GET", path.to_owned(), None),
        (
            "GET",
            format!(
                "{path}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
            ),
            None,
        ),
        ("POST", path.to_owned(), Some(map("two", 1))),
        ("PUT", one.clone(), Some(map("one", 9))),
        ("DELETE", one.clone(), None),
    ] {
        let asked = Instant::now();
        match away.send(method, &path, body.as_ref()) {
            Reply::Answer(503 | 504, said) => {
                ensure!(said["kind"] == "Status" && said["message"].is_string(), "{method} {path}: {said}");
            }
            other => bail!("{method} {path} without etcd: {other:?}"),
        }
        slowest = slowest.max(asked.elapsed());
    }
    ensure!(slowest < REFUSED_WITHIN, "a refusal took {:.1} s", slowest.as_secs_f64());
    let (_, said) = ready(away);
    ensure!(said.contains("store"), "why it is not ready: {said}");
    // Who says that anything will do may get what is in memory.
    match away.send("GET", &format!("{one}?resourceVersion=0"), None) {
        Reply::Answer(200, got) => ensure!(got["data"]["n"] == "1" || got["data"]["n"] == "2", "{got}"),
        Reply::Answer(503 | 504, _) => {}
        other => bail!("a read of any revision: {other:?}"),
    }
    match away.send("GET", "/livez", None) {
        Reply::Answer(200, _) => Ok((slowest, unready)),
        other => bail!("it lives, and says {other:?}"),
    }
}

/// A watch may end or be silent; once it is back, everything comes in order.
pub(super) fn watching(pair: &mut Pair) -> Result<String> {
    let path = pair.namespace("watching")?;
    let [mut here, _] = pair.clients()?;
    let from = revision(&done(here.send("GET", &path, None))?);
    let client = pair.stand.client(1)?;
    let rounds = if pair.quick { 3 } else { 10 };
    let events = rounds * 30;
    let followed = path.clone();
    let reader = thread::spawn(move || persistent(&client, &followed, from, events));
    let mut expected = Vec::new();
    for round in 0..rounds {
        pair.wire.set(match round % 3 {
            0 => Passage::Cut,
            1 => Passage::Held,
            _ => Passage::Open,
        });
        for number in 0..30 {
            if number == 20 {
                pair.wire.snip();
                pair.wire.set(Passage::Open);
            }
            let body = map(&format!("n{round}-{number}"), number);
            expected.push(revision(&done(here.send("POST", &path, Some(&body)))?));
        }
    }
    let (seen, watches) = reader.join().map_err(|_| anyhow::anyhow!("the watcher fell over"))??;
    ensure!(seen == expected, "seen {seen:?}\nwritten {expected:?}");
    Ok(format!("{events} events over {rounds} times without etcd, on {watches} watches"))
}

/// The revisions of so many events, however often the watch has to begin again.
fn persistent(client: &Client, path: &str, from: u64, events: usize) -> Result<(Vec<u64>, usize)> {
    let (mut seen, mut last, mut watches, began) = (Vec::new(), from, 0, Instant::now());
    while seen.len() < events {
        ensure!(began.elapsed() < 2 * PATIENCE, "{} of {events} events came", seen.len());
        let asked = format!("{path}?watch=true&resourceVersion={last}");
        let mut lines = match client.watch(&asked) {
            Ok(Ok(lines)) => lines,
            Ok(Err((410, said))) => bail!("it cannot go on after {last}: {said}"),
            _ => {
                thread::sleep(super::BETWEEN_LOOKS);
                continue;
            }
        };
        watches += 1;
        while seen.len() < events
            && let Ok(Some(event)) = lines.next()
        {
            if event["type"] == "ERROR" {
                ensure!(event["object"]["code"] != 410, "{event}");
                break;
            }
            last = revision(&event["object"]);
            if event["object"]["metadata"]["name"] != "kube-root-ca.crt" {
                seen.push(last);
            }
        }
    }
    Ok((seen, watches))
}

/// Killed under the eyes of a watch, which goes on when it is back.
pub(super) fn killed(pair: &mut Pair) -> Result<String> {
    let path = pair.namespace("killed")?;
    let [mut here, mut there] = pair.clients()?;
    let rounds = if pair.quick { 3 } else { 10 };
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        let from = revision(&done(there.send("GET", &path, None))?);
        let replica = pair.stand.replicas.get_mut(1).context("no second replica")?;
        replica.kill()?;
        let mut expected = Vec::new();
        for number in 0..20 {
            let body = map(&format!("n{round}-{number}"), number);
            expected.push(revision(&done(here.send("POST", &path, Some(&body)))?));
        }
        let began = Instant::now();
        replica.again()?;
        slowest = slowest.max(began.elapsed());
        there = pair.stand.client(1)?;
        let last = done(there.send("GET", &format!("{path}/n{round}-19"), None))?;
        ensure!(expected.last() == Some(&revision(&last)), "after it came back: {last}");
        let (seen, _) = persistent(&there, &path, from, expected.len())?;
        ensure!(seen == expected, "seen {seen:?}\nwritten {expected:?}");
    }
    Ok(format!("{rounds} times, ready again within {:.1} s", slowest.as_secs_f64()))
}
