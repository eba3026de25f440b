//! Watchers, each on a connection of its own, while writers create objects at a fixed rate.
//!
//! Every object says when it was sent, and every watcher sees when it came: both by the clock of this process. The rate is
//! kept whatever the server does, as long as no write takes longer than a writer has until its next one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::connection::{Connection, Rest, Server};
use super::latencies::Latencies;
use super::object::{self, Create, Sort};

/// Some events fit in.
const BUFFER: usize = 16 * 1024;
/// How long events may take that are still on their way when the last write is done.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is looked whether all have come.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Watchers and a writer for each of some namespaces, which are empty.
#[derive(Serialize, Deserialize)]
pub(crate) struct Watching {
    pub(crate) namespaces: Vec<String>,
    /// On each namespace.
    pub(crate) watchers: u32,
    /// In all namespaces together.
    pub(crate) writes_per_second: u32,
    /// How long it goes on before it counts.
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// What the watchers saw.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Watched {
    /// How many writes there were in a second.
    pub(crate) writes_per_second: f64,
    pub(crate) events: u64,
    /// Events that some watcher did not get; one that it got twice or that nobody wrote counts too.
    pub(crate) wrong: u64,
    /// From the moment when the write was sent to the moment when the event was there.
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
}

/// Objects, told by their stamps.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    number: u64,
    /// Of all stamps: it differs if one was missed and another came twice.
    sum: u64,
}

impl Tally {
    fn count(&mut self, stamp: u64) {
        self.number += 1;
        self.sum = self.sum.wrapping_add(stamp);
    }

    /// How many events are wrong if these are the right ones.
    fn wrong(self, right: Self) -> u64 {
        self.number.abs_diff(right.number).max(u64::from(self != right))
    }
}

/// What one watcher has got.
#[derive(Default)]
struct Seen {
    tally: Tally,
    latencies: Latencies,
    /// The beginning of an event whose end is still to come.
    partial: Vec<u8>,
    /// Why there will be no more.
    ended: Option<anyhow::Error>,
}

/// When things happen.
#[derive(Clone, Copy)]
struct Clock {
    zero: Instant,
    starts: Instant,
    counts: Instant,
}

impl Clock {
    fn stamp(&self) -> u64 {
        u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

pub(super) async fn run(server: &Server, watching: &Watching) -> Result<Watched> {
    let mut watchers = Vec::new();
    for namespace in &watching.namespaces {
        for _ in 0..watching.watchers {
            watchers.push(begin(server, namespace).await?);
        }
    }
    let mut writers = Vec::new();
    for namespace in &watching.namespaces {
        writers.push((server.connect(BUFFER).await?, Create::new(server, namespace, Sort::ConfigMap)));
    }
    let zero = Instant::now();
    let starts = zero + Duration::from_millis(100);
    let clock = Clock { zero, starts, counts: starts + watching.warm_up };
    let seen: Vec<_> = watchers.into_iter().map(|(connection, rest)| spawn(connection, rest, clock)).collect();

    let written = write(writers, watching, clock).await?;
    let took = clock.starts.elapsed();
    let objects: u64 = written.iter().map(|tally| tally.number).sum();
    let events = objects * u64::from(watching.watchers);
    until_seen(&seen, events).await?;

    let each = written.iter().flat_map(|tally| std::iter::repeat_n(*tally, watching.watchers as usize));
    let wrong = seen.iter().zip(each).map(|(seen, right)| seen.lock().tally.wrong(right)).sum();
    let mut latencies = Latencies::default();
    for seen in &seen {
        latencies.add(&seen.lock().latencies);
    }
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 writes, more than there can be")]
    let writes_per_second = objects as f64 / took.as_secs_f64();
    let (p50_ns, p99_ns) = (latencies.percentile(50), latencies.percentile(99));
    Ok(Watched { writes_per_second, events, wrong, p50_ns, p99_ns })
}

/// Opens a watch on a namespace; what is written after this returns has to come.
async fn begin(server: &Server, namespace: &str) -> Result<(Connection, Rest)> {
    let mut connection = server.connect(BUFFER).await?;
    let target = format!("/api/v1/namespaces/{namespace}/configmaps?watch=true");
    connection.send(&server.get(&target, "Accept: application/json\r\n")).await?;
    let head = connection.head().await?;
    ensure!(head.status == 200, "the server answered {} to a watch", head.status);
    Ok((connection, head.rest))
}

/// Follows a watch from now on.
fn spawn(mut connection: Connection, mut rest: Rest, clock: Clock) -> Arc<Mutex<Seen>> {
    let seen = Arc::new(Mutex::new(Seen { latencies: Latencies::with_room(256), ..Seen::default() }));
    let noted = Arc::clone(&seen);
    tokio::spawn(async move {
        let ended = loop {
            match connection.piece(&mut rest).await {
                Ok(Some(piece)) => {
                    if let Err(error) = noted.lock().take(piece, &clock) {
                        break error;
                    }
                }
                Ok(None) => break anyhow::anyhow!("the server ended a watch"),
                Err(error) => break error,
            }
        };
        noted.lock().ended = Some(ended);
    });
    seen
}

impl Seen {
    /// Notes the events that end in these bytes, which are the next ones.
    fn take(&mut self, mut bytes: &[u8], clock: &Clock) -> Result<()> {
        let now = clock.stamp();
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (last, more) = bytes.split_at(end + 1);
            bytes = more;
            if self.partial.is_empty() {
                self.event(last, now, clock)?;
            } else {
                let mut event = std::mem::take(&mut self.partial);
                event.extend_from_slice(last);
                self.event(&event, now, clock)?;
                event.clear();
                self.partial = event;
            }
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    fn event(&mut self, event: &[u8], now: u64, clock: &Clock) -> Result<()> {
        let Some(stamp) = object::stamp(event) else {
            bail!("not an event of a write: {}", String::from_utf8_lossy(event));
        };
        self.tally.count(stamp);
        if clock.zero + Duration::from_nanos(stamp) >= clock.counts {
            self.latencies.note(Duration::from_nanos(now.saturating_sub(stamp)));
        }
        Ok(())
    }
}

/// Creates objects in all namespaces in turn, at the rate that is wanted: what was written to each.
async fn write(writers: Vec<(Connection, Create)>, watching: &Watching, clock: Clock) -> Result<Vec<Tally>> {
    let number = u32::try_from(writers.len()).context("too many writers")?;
    let between = Duration::from_secs(1) / watching.writes_per_second;
    let seconds = (watching.warm_up + watching.measured).as_secs();
    let rounds = u64::from(watching.writes_per_second) * seconds / u64::from(number);
    let mut all = JoinSet::new();
    for (turn, (mut connection, mut create)) in (0_u32..).zip(writers) {
        all.spawn(async move {
            let mut written = Tally::default();
            let mut next = clock.starts + between * turn;
            for round in 0..rounds {
                sleep_until(next).await;
                next += between * number;
                let stamp = clock.stamp();
                connection.done(create.request(round, stamp), 201).await?;
                written.count(stamp);
            }
            anyhow::Ok((turn, written))
        });
    }
    let mut written = vec![Tally::default(); number as usize];
    while let Some(done) = all.join_next().await {
        let (turn, tally) = done??;
        written[turn as usize] = tally;
    }
    Ok(written)
}

/// Waits until all events have come, for as long as that makes sense.
async fn until_seen(seen: &[Arc<Mutex<Seen>>], events: u64) -> Result<()> {
    let given_up = Instant::now() + PATIENCE;
    loop {
        if let Some(error) = seen.iter().find_map(|seen| seen.lock().ended.take()) {
            return Err(error.context("a watch came to its end"));
        }
        let come: u64 = seen.iter().map(|seen| seen.lock().tally.number).sum();
        if come >= events || Instant::now() > given_up {
            return Ok(());
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(stamp: u64) -> String {
        format!("{{\"type\":\"ADDED\",\"object\":{{\"data\":{{\"sent\":\"{stamp:020}\"}}}}}}\n")
    }

    #[test]
    fn events_are_found_however_they_are_cut() {
        let now = Instant::now();
        let clock = Clock { zero: now, starts: now, counts: now + Duration::from_nanos(2) };
        let stream = event(1) + &event(2) + &event(3);
        for size in 1..stream.len() {
            let mut seen = Seen::default();
            for piece in stream.as_bytes().chunks(size) {
                seen.take(piece, &clock).unwrap();
            }
            assert_eq!((seen.tally.number, seen.tally.sum, seen.latencies.number()), (3, 6, 2), "in pieces of {size}");
        }
    }

    #[test]
    fn an_error_in_the_stream_is_no_event() {
        let now = Instant::now();
        let clock = Clock { zero: now, starts: now, counts: now };
        let error = Seen::default().take(b"{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n", &clock).unwrap_err();
        assert!(error.to_string().contains("410"), "{error}");
    }

    #[test]
    fn an_event_that_is_missed_or_comes_twice_is_wrong() {
        let tally = |stamps: &[u64]| {
            let mut tally = Tally::default();
            for stamp in stamps {
                tally.count(*stamp);
            }
            tally
        };
        let right = tally(&[1, 2, 3]);
        assert_eq!(tally(&[3, 2, 1]).wrong(right), 0);
        assert_eq!(tally(&[1, 3]).wrong(right), 1);
        assert_eq!(tally(&[1, 3, 3]).wrong(right), 1);
    }
}
