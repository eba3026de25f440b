//! The load: writers that change objects as fast as they are answered, and watchers that follow all of it and go on where
//! they were cut off. Both write down what they did and saw; neither judges it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

use crate::e2e::client::{Client, Reply, Target};
use crate::e2e::history::{Act, Change, Fate, History, Listed, Look, Mark, Revision, Seen, State, Watched, Write};

const NAMESPACE: &str = "crash";
const PATH: &str = "/api/v1/namespaces/crash/configmaps";
/// The object that is created when all is done, so that watchers know that they have seen everything.
const LAST: &str = "the-end";
/// How long everybody may take to come to an end.
const PATIENCE: Duration = Duration::from_secs(90);
/// How many seconds watchers ask to watch, one after the other: the whole run, and so short that there are bookmarks, which a
/// server says two seconds before the end, and ends in order.
const WATCH_SECONDS: [u32; 3] = [600, 1, 3];
/// How long a client waits before it looks again for a server that is not there.
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// How much load.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) writers: u64,
    pub(super) objects: u64,
    pub(super) watchers: usize,
    /// How many bytes each object carries besides its mark.
    pub(super) ballast: usize,
}

/// How far the writers are, for faults that wait for load.
#[derive(Default)]
pub(super) struct Progress {
    acknowledged: AtomicU64,
    failures: AtomicU64,
    failure: Mutex<Option<(u16, Value)>>,
    ended: AtomicU64,
    writers_end: AtomicBool,
    watchers_end: AtomicBool,
}

impl Progress {
    /// Writes that were acknowledged so far.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Writes that the server answered with a failure of its own so far.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// The status and the body of the latest of them.
    pub(super) fn failure(&self) -> Option<(u16, Value)> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Watches that the server ended in order so far.
    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    fn failed(&self, status: u16, body: Value) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some((status, body));
    }
}

/// Traffic that runs.
pub(super) struct Traffic {
    pub(super) progress: Arc<Progress>,
    target: Arc<Target>,
    writers: Vec<JoinHandle<Writer>>,
    watchers: Vec<JoinHandle<Watched>>,
}

impl Traffic {
    /// Makes the namespace and begins.
    pub(super) fn start(target: &Arc<Target>, load: Load, seed: u64) -> Result<Self> {
        let mut client = Client::new(target);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        match client.send("POST", "/api/v1/namespaces", Some(&namespace)) {
            Reply::Answer(201, _) => {}
            other => bail!("could not create the namespace: {other:?}"),
        }
        let start = list(&mut client).context("no list to start from")?;
        ensure!(start.objects.is_empty(), "there is something in the new namespace");
        let progress = Arc::new(Progress::default());
        // Watchers first: every write is to be seen.
        let watchers = (0..load.watchers).zip(WATCH_SECONDS.into_iter().cycle()).map(|(_, seconds)| {
            let (target, progress) = (Arc::clone(target), Arc::clone(&progress));
            thread::spawn(move || follow(&Client::new(&target), start.revision, seconds, &progress))
        });
        let watchers = watchers.collect();
        let writers = (0..load.writers).map(|number| {
            let mut writer = Writer::new(target, &progress, number, load, seed);
            thread::spawn(move || {
                writer.run();
                writer
            })
        });
        let writers = writers.collect();
        Ok(Self { progress, target: Arc::clone(target), writers, watchers })
    }

    /// Lets everybody come to an end; what they did and saw.
    pub(super) fn finish(self) -> Result<History> {
        self.progress.writers_end.store(true, Ordering::Relaxed);
        let mut history = History::default();
        for writer in self.writers {
            let writer = writer.join().map_err(|_| anyhow::anyhow!("a writer fell over"))?;
            history.writes.extend(writer.writes);
            history.looks.extend(writer.looks);
        }
        let mut client = Client::new(&self.target);
        history.end = retried(|| list(&mut client)).context("no list at the end")?;
        let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": LAST}});
        // 409: an earlier try was done and its answer lost.
        retried(|| matches!(client.send("POST", PATH, Some(&last)), Reply::Answer(201 | 409, _)).then_some(()))
            .context("the last write is not accepted")?;
        let began = Instant::now();
        while began.elapsed() < PATIENCE && !self.watchers.iter().all(JoinHandle::is_finished) {
            thread::sleep(BETWEEN_TRIES);
        }
        self.progress.watchers_end.store(true, Ordering::Relaxed);
        for watcher in self.watchers {
            history.watchers.push(watcher.join().map_err(|_| anyhow::anyhow!("a watcher fell over"))?);
        }
        Ok(history)
    }
}

/// Asks until there is an answer, or patience is at its end.
fn retried<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        let answer = ask();
        if answer.is_some() || began.elapsed() > PATIENCE {
            return answer;
        }
        thread::sleep(BETWEEN_TRIES);
    }
}

/// Everything there is.
pub(super) fn list(client: &mut Client) -> Option<Listed> {
    let Reply::Answer(200, list) = client.send("GET", PATH, None) else { return None };
    let object = |item: &Value| {
        let (revision, mark) = state(item)?;
        Some((item["metadata"]["name"].as_str()?.to_owned(), revision, mark))
    };
    let objects = list["items"].as_array()?.iter().map(object).collect::<Option<_>>()?;
    Some(Listed { revision: revision(&list)?, objects })
}

fn revision(object: &Value) -> Option<Revision> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// The revision of an object, and the mark of the write that made it.
fn state(object: &Value) -> State {
    Some((revision(object)?, object["data"]["mark"].as_str()?.parse().ok()?))
}

/// What a writer knows of one of its objects.
#[derive(Clone, Copy)]
enum Known {
    Sure(State),
    Unsure,
}

struct Writer {
    client: Client,
    progress: Arc<Progress>,
    random: Seeded,
    names: Vec<String>,
    known: Vec<Known>,
    ballast: String,
    next: Mark,
    writes: Vec<Write>,
    looks: Vec<Look>,
}

impl Writer {
    fn new(target: &Arc<Target>, progress: &Arc<Progress>, number: u64, load: Load, seed: u64) -> Self {
        let names: Vec<_> = (0..load.objects).map(|object| format!("w{number}-{object}")).collect();
        Self {
            client: Client::new(target),
            progress: Arc::clone(progress),
            random: Seeded::new(seed ^ (number + 1)),
            known: vec![Known::Sure(None); names.len()],
            names,
            ballast: "x".repeat(load.ballast),
            // No two writers make the same mark.
            next: number << 32,
            writes: Vec::new(),
            looks: Vec::new(),
        }
    }

    fn run(&mut self) {
        while !self.progress.writers_end.load(Ordering::Relaxed) {
            let object = self.random.below(self.names.len() as u64) as usize;
            match self.known[object] {
                Known::Unsure => self.look(object),
                Known::Sure(None) => self.write(object, Act::Create, None),
                Known::Sure(Some((revision, mark))) => {
                    // One in eight is deleted, so that objects also come and go.
                    let act = if self.random.below(8) == 0 { Act::Delete } else { Act::Update };
                    self.write(object, act, Some((revision, mark)));
                }
            }
        }
    }

    /// Reads an object whose last write has an unknown end.
    fn look(&mut self, object: usize) {
        let began = Instant::now();
        let found = match self.client.send("GET", &format!("{PATH}/{}", self.names[object]), None) {
            Reply::Answer(200, body) => state(&body),
            Reply::Answer(404, _) => None,
            _ => return thread::sleep(BETWEEN_TRIES),
        };
        self.looks.push(Look { object: self.names[object].clone(), began, state: found });
        self.known[object] = Known::Sure(found);
    }

    fn write(&mut self, object: usize, act: Act, state: State) {
        self.next += 1;
        let (mark, base) = (self.next, state.map(|(revision, _)| revision));
        let (method, path, body) = self.request(object, act, base, mark);
        let began = Instant::now();
        let reply = self.client.send(method, &path, Some(&body));
        let (fate, known) = match reply {
            // Nobody was there to do it.
            Reply::Unsent => return thread::sleep(BETWEEN_TRIES),
            Reply::Lost => (Fate::Unknown, Known::Unsure),
            Reply::Answer(200 | 201, _) if act == Act::Delete => (Fate::Done(None), Known::Sure(None)),
            Reply::Answer(200 | 201, body) => match revision(&body) {
                Some(revision) => (Fate::Done(Some(revision)), Known::Sure(Some((revision, mark)))),
                None => (Fate::Unknown, Known::Unsure),
            },
            Reply::Answer(status, body) => {
                if status >= 500 {
                    self.progress.failed(status, body);
                }
                (Fate::answered(self.client.promise(), status), Known::Unsure)
            }
        };
        if matches!(fate, Fate::Done(_)) {
            self.progress.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        self.known[object] = known;
        let object = self.names[object].clone();
        self.writes.push(Write { object, act, mark, base, began, ended: Instant::now(), fate });
    }

    fn request(&self, object: usize, act: Act, base: Option<Revision>, mark: Mark) -> (&'static str, String, Value) {
        let name = &self.names[object];
        let base = base.map(|base| base.to_string());
        if act == Act::Delete {
            let options =
                json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": base}});
            return ("DELETE", format!("{PATH}/{name}"), options);
        }
        let mut body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"mark": mark.to_string(), "ballast": self.ballast}});
        match base {
            None => ("POST", PATH.to_owned(), body),
            Some(base) => {
                body["metadata"]["resourceVersion"] = json!(base);
                ("PUT", format!("{PATH}/{name}"), body)
            }
        }
    }
}

/// Follows all objects from that revision on until the last one comes, whatever happens to the server meanwhile. Each watch
/// is asked to last that many seconds.
fn follow(client: &Client, from: Revision, seconds: u32, progress: &Progress) -> Watched {
    let mut watched = Watched::default();
    let mut last = from;
    while !progress.watchers_end.load(Ordering::Relaxed) {
        let path =
            format!("{PATH}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={last}");
        let mut lines = match client.watch(&path) {
            Ok(Ok(lines)) => lines,
            Ok(Err((status @ 400..500, body))) if status != 429 => {
                watched.broken = Some(format!("{status} {body}"));
                return watched;
            }
            Ok(Err(_)) | Err(_) => {
                thread::sleep(BETWEEN_TRIES);
                continue;
            }
        };
        loop {
            let event = match lines.next() {
                Ok(Some(event)) => event,
                Ok(None) => {
                    watched.ended += 1;
                    progress.ended.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                Err(_) => break,
            };
            match said(&event) {
                Said::Seen(Seen::Event { object, .. }) if object == LAST => return watched,
                Said::Seen(seen) => {
                    last = match &seen {
                        Seen::Event { revision, .. } | Seen::Bookmark(revision) => *revision,
                    };
                    watched.seen.push(seen);
                }
                Said::Again => break,
                Said::Broken(why) => {
                    watched.broken = Some(why);
                    return watched;
                }
            }
        }
        watched.resumed += 1;
    }
    watched.broken = Some(format!("it never saw the last write; the newest it saw is {last}"));
    watched
}

/// What a line of a watch means.
enum Said {
    Seen(Seen),
    /// The server gave up for now.
    Again,
    /// There is no going on.
    Broken(String),
}

fn said(event: &Value) -> Said {
    let object = &event["object"];
    let change = match event["type"].as_str() {
        Some("ADDED") => Change::Added,
        Some("MODIFIED") => Change::Modified,
        Some("DELETED") => Change::Deleted,
        Some("BOOKMARK") => {
            return revision(object).map_or_else(|| odd(event), |revision| Said::Seen(Seen::Bookmark(revision)));
        }
        Some("ERROR") if object["code"].as_u64().is_some_and(|code| code >= 500) => return Said::Again,
        _ => return odd(event),
    };
    let name = object["metadata"]["name"].as_str();
    if name == Some(LAST) {
        return Said::Seen(Seen::Event { change, object: LAST.to_owned(), revision: 0, mark: 0 });
    }
    match (name, state(object)) {
        (Some(name), Some((revision, mark))) => {
            Said::Seen(Seen::Event { change, object: name.to_owned(), revision, mark })
        }
        _ => odd(event),
    }
}

fn odd(event: &Value) -> Said {
    Said::Broken(format!("the watch said {event}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_watch_is_read() {
        let object = json!({"metadata": {"name": "a", "resourceVersion": "7"}, "data": {"mark": "3"}});
        let expected = Seen::Event { change: Change::Modified, object: "a".to_owned(), revision: 7, mark: 3 };
        assert!(matches!(said(&json!({"type": "MODIFIED", "object": object})), Said::Seen(seen) if seen == expected));
        let bookmark = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}});
        assert!(matches!(said(&bookmark), Said::Seen(Seen::Bookmark(9))));
    }

    #[test]
    fn an_expired_watch_is_broken_and_a_failing_one_is_tried_again() {
        let error = |code: u16| json!({"type": "ERROR", "object": {"kind": "Status", "code": code}});
        assert!(matches!(said(&error(410)), Said::Broken(_)));
        assert!(matches!(said(&error(500)), Said::Again));
        assert!(matches!(said(&json!({"type": "ADDED", "object": {}})), Said::Broken(_)));
    }
}
