//! Writers that create, update, patch, apply and delete at random, on both replicas, and write down what became of it.
//!
//! Each has names of its own and changes an object only where it is as the writer knows it, so that the history of an object is a
//! chain.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

use super::kinds::{KINDS, Kind, NAMESPACES, identity, namespace};
use crate::e2e::client::{Client, Promise, Reply, Target};
use crate::e2e::history::{Act, Fate, Look, Mark, Revision, State, Write};

const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
/// How long a writer waits before it asks the other replica, if nobody was there.
const BETWEEN_TRIES: Duration = Duration::from_millis(5);
/// How many names of each kind a writer has.
const NAMES: u64 = 50;

/// How far the writers are.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) acknowledged: AtomicU64,
    /// How many are wanted.
    pub(super) wanted: u64,
}

struct Object {
    kind: &'static Kind,
    namespace: String,
    name: String,
    /// As far as it is known.
    state: Option<State>,
}

impl Object {
    fn key(&self) -> String {
        format!("{}/{}/{}", self.kind.resource, self.namespace, self.name)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.kind.of(&self.namespace), self.name)
    }
}

/// One writer: where it writes, what it knows, and what it did.
pub(super) struct Writer {
    clients: Vec<Client>,
    /// Whom it asks now.
    at: usize,
    random: Seeded,
    objects: Vec<Object>,
    next: Mark,
    pub(super) writes: Vec<Write>,
    pub(super) looks: Vec<Look>,
}

impl Writer {
    /// A writer that begins at one of the replicas.
    pub(super) fn new(targets: &[Arc<Target>], number: u64, seed: u64) -> Self {
        let mut objects = Vec::new();
        for kind in &KINDS {
            for name in 0..NAMES {
                let namespace = namespace(name % NAMESPACES);
                objects.push(Object { kind, namespace, name: format!("w{number}-{name}"), state: Some(None) });
            }
        }
        Self {
            clients: targets.iter().map(Client::new).collect(),
            at: number as usize % targets.len(),
            random: Seeded::new(seed ^ (number + 1)),
            objects,
            // No two writers make the same mark.
            next: (number + 1) << 32,
            writes: Vec::new(),
            looks: Vec::new(),
        }
    }

    /// Writes until enough was acknowledged.
    pub(super) fn run(&mut self, progress: &Progress) {
        while progress.acknowledged.load(Ordering::Relaxed) < progress.wanted {
            let object = self.random.below(self.objects.len() as u64) as usize;
            let done = match self.objects[object].state {
                None => self.look(object),
                Some(None) => self.write(object, Act::Create, None),
                Some(Some((base, _))) => {
                    let act = if self.random.below(7) == 0 { Act::Delete } else { Act::Update };
                    self.write(object, act, Some(base))
                }
            };
            progress.acknowledged.fetch_add(u64::from(done), Ordering::Relaxed);
        }
    }

    /// Nobody was there, or what was there broke off: the other replica may do better.
    fn turn(&mut self) {
        self.at = (self.at + 1) % self.clients.len();
        thread::sleep(BETWEEN_TRIES);
    }

    /// Reads an object whose last write has an unknown end.
    fn look(&mut self, object: usize) -> bool {
        let began = Instant::now();
        let path = self.objects[object].path();
        let found = match self.clients[self.at].send("GET", &path, None) {
            Reply::Answer(200, body) => state(self.objects[object].kind, &body),
            Reply::Answer(404, _) => None,
            _ => {
                self.turn();
                return false;
            }
        };
        self.looks.push(Look { object: self.objects[object].key(), began, state: found });
        self.objects[object].state = Some(found);
        false
    }

    /// Makes one write; whether it was acknowledged.
    fn write(&mut self, object: usize, act: Act, base: Option<Revision>) -> bool {
        self.next += 1;
        let mark = self.next;
        let began = Instant::now();
        let reply = self.send(object, act, base, mark);
        let kind = self.objects[object].kind;
        let (fate, known) = match reply {
            Reply::Unsent => {
                self.turn();
                return false;
            }
            Reply::Lost => {
                self.turn();
                (Fate::Unknown, None)
            }
            Reply::Answer(200 | 201, _) if act == Act::Delete => (Fate::Done(None), Some(None)),
            Reply::Answer(200 | 201, body) => match state(kind, &body) {
                Some((revision, _)) => (Fate::Done(Some(revision)), Some(Some((revision, mark)))),
                None => (Fate::Unknown, None),
            },
            Reply::Answer(status, _) => (Fate::answered(Promise::Ours, status), None),
        };
        self.objects[object].state = known;
        let object = self.objects[object].key();
        self.writes.push(Write { object, act, mark, base, began, ended: Instant::now(), fate });
        matches!(fate, Fate::Done(_))
    }

    fn send(&mut self, object: usize, act: Act, base: Option<Revision>, mark: Mark) -> Reply {
        let object = &self.objects[object];
        let (client, path) = (&mut self.clients[self.at], object.path());
        let body = object.kind.body(&object.name, mark, base);
        match act {
            Act::Create => client.send("POST", &object.kind.of(&object.namespace), Some(&body)),
            Act::Delete => {
                let condition = json!({"preconditions": {"resourceVersion": base.map(|base| base.to_string())}});
                client.send("DELETE", &path, Some(&condition))
            }
            Act::Update => match self.random.below(3) {
                0 => client.send("PUT", &path, Some(&body)),
                1 => client.send_as(MERGE, "PATCH", &path, Some(&body)),
                _ => client.send_as(APPLY, "PATCH", &format!("{path}?fieldManager=soak&force=true"), Some(&body)),
            },
        }
    }
}

/// The revision of an object, and the mark of the write that made it.
pub(super) fn state(kind: &Kind, object: &Value) -> State {
    let revision = object["metadata"]["resourceVersion"].as_str()?.parse().ok()?;
    Some((revision, identity(kind, object)?.1))
}
