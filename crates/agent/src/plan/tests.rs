//! The plan over real files and a server in a few maps, that loses writes and answers and shows everything late: whatever happens, in
//! the end both sides say the same, and nothing of anybody was lost.

mod lost;

use std::collections::VecDeque;

use api::slices::Entry;
use cni::api::{Answer, Verb, Way};
use cni::failure::{Code, Failure};
use cni::journal::{Book, Ip, Ips, Journal, Origin, Reason, Record, Renewal};
use cni::lock::{Lock, PATIENCE};
use cni::place::Place;
use serde_json::{Value, json};
use space::Cidr;

use super::*;
use crate::execute::disk;
use crate::pool::revision;
use crate::survivors::SURVIVAL;
use crate::tests::holding;

/// The same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

enum News {
    Pool(Value, bool),
    Reservation(Value, bool),
}

/// A node with one slice of one network, and the server.
struct World {
    folder: tempfile::TempDir,
    plan: Plan,
    now: u64,
    pools: BTreeMap<String, Value>,
    reservations: BTreeMap<String, Value>,
    revision: u64,
    news: VecDeque<News>,
    told: Vec<Cause>,
    /// What was said in pools that all nodes share.
    said: Vec<(String, BTreeSet<String>)>,
    fetches: u32,
    /// What was asked on pools, each once.
    wishes: BTreeSet<String>,
    /// One in so many requests fails before, and as many after it was served; none if zero.
    faults: u64,
    /// Whether no request is served, and how many were made.
    is_away: bool,
    asked: u32,
    dice: Dice,
    changed: Option<u64>,
    entry: Entry,
    shared: SharedPools,
    pods: Vec<(String, Pod)>,
    /// Whether the server leaves the interface out of entries.
    is_pruning: bool,
    /// Whether work on files does nothing, and says that it is done; and how often there was some.
    is_idle: bool,
    worked: u32,
}

/// Pools that all nodes share, of which nothing is known but whether they can be reached.
#[derive(Default)]
struct SharedPools {
    is_away: bool,
    asked: u32,
}

impl Way for SharedPools {
    fn send(&mut self, _: Verb, _: &str, _: &Value) -> Result<Answer, Failure> {
        self.asked += 1;
        let away = Failure::new(Code::TryLater, "away");
        if self.is_away { Err(away) } else { Ok(Answer { status: 404, body: Vec::new() }) }
    }
}

const POOL: &str = "n-10.0.0.0-27";

impl World {
    fn new(seed: u64) -> Self {
        let slice = Cidr::strict("10.0.0.0/27").unwrap();
        let memory = std::path::Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let mut world = Self {
            folder,
            plan: Plan::new("n", "kube-system"),
            now: 0,
            pools: BTreeMap::new(),
            reservations: BTreeMap::new(),
            revision: 1,
            news: VecDeque::new(),
            told: Vec::new(),
            said: Vec::new(),
            fetches: 0,
            wishes: BTreeSet::new(),
            faults: 0,
            is_away: false,
            asked: 0,
            dice: Dice(seed),
            changed: Some(0),
            entry: Entry { uid: "u".into(), epoch: 3, slices: vec![slice], ..Entry::default() },
            shared: SharedPools::default(),
            pods: Vec::new(),
            is_pruning: false,
            is_idle: false,
            worked: 0,
        };
        world.restart();
        world
    }

    /// Time passes in steps as short as the agent's shortest; how many requests and how much work on files there was.
    fn pass(&mut self, time: u64) -> (u32, u32) {
        let before = (self.asked, self.worked);
        for _ in 0..time / GATHERING {
            while !self.news.is_empty() {
                self.hear();
            }
            self.now += GATHERING;
            self.act(Liveness::Alive);
        }
        (self.asked - before.0, self.worked - before.1)
    }

    fn place(&self) -> Place {
        Place::new(self.folder.path(), "net")
    }

    /// Another agent begins.
    fn restart(&mut self) {
        self.plan = Plan::new("n", "kube-system");
        self.news.clear();
        self.plan.see_folders(disk::networks(self.folder.path()));
        self.read();
        if !self.is_away {
            self.show_all();
        }
        self.now += LONGEST_PAUSE;
    }

    /// The agent is shown all that there is.
    fn show_all(&mut self) {
        self.plan.see_node(Some("u"));
        self.show_meta();
        let pools = self.pools.values().map(SeenPool::read);
        self.plan.see_all_pools(pools.filter(|pool| self.is_watched(pool)).collect());
        self.plan.see_all_reservations(self.reservations.values().map(SeenReservation::read).collect());
        self.plan.see_all_pods(self.pods.clone());
    }

    /// Pools are watched by their label.
    fn is_watched(&self, pool: &SeenPool) -> bool {
        pool.node.as_deref() == Some(self.plan.label())
    }

    fn show_meta(&mut self) {
        let mut annotations =
            BTreeMap::from([("ipam.cadastre.dev/ranges".to_owned(), "10.0.0.0/24 by /27".to_owned())]);
        annotations.extend(self.changed.map(|epoch| (api::slices::CHANGED.to_owned(), epoch.to_string())));
        let (name, uid) = ("net".to_owned(), "p".to_owned());
        self.plan.see_all_metas(vec![PoolMeta { name, uid, revision: self.revision.to_string(), annotations }]);
    }

    fn read(&mut self) {
        if self.place().folder().exists() {
            self.plan.see_disk("net", disk::read(&self.place()));
        }
    }

    /// Does what the plan wants, once.
    fn act(&mut self, liveness: Liveness) -> bool {
        let intents = self.plan.step(self.now, |_| liveness);
        let is_busy = !intents.is_empty();
        for intent in intents {
            self.serve(intent);
        }
        is_busy
    }

    fn serve(&mut self, intent: Intent) {
        let now = self.now;
        match intent {
            Intent::Fetch(name) => {
                self.fetches += 1;
                let fetched = Fetched {
                    uid: "p".into(),
                    revision: self.revision.to_string(),
                    epoch: self.entry.epoch,
                    entry: Some(self.entry.clone()),
                    ..Fetched::default()
                };
                self.plan.fetched(&name, Outcome::Is(fetched), now / 1000, now);
            }
            Intent::Work(name, local) => {
                self.worked += 1;
                if !self.is_idle {
                    let done = disk::work(&self.place(), &local, cni::journal::BootId([1; 16]));
                    assert_eq!(done, Ok(()));
                }
                self.read();
                self.plan.worked(&name, true, now);
            }
            Intent::Settle(name, owed) => {
                let settled = disk::settle(&self.place(), &owed, cni::journal::BootId([1; 16]), &mut self.shared);
                self.read();
                self.plan.settled(&name, settled.unwrap().left == 0, now);
            }
            Intent::Write(name, write) => {
                self.wishes.extend(write.asks.clone());
                let before = self.plan.pool(&name).cloned();
                let is_patch = write.revision.is_some();
                let outcome = self.write(&name, &write.body(&name), is_patch, true);
                let outcome = match outcome {
                    Outcome::Is((object, true)) => {
                        let seen = write.written(&name, before.as_ref().filter(|_| is_patch), revision(&object));
                        let is_it = seen == SeenPool::read(&object) || self.is_pruning;
                        assert!(is_it, "what was written is what we take for written");
                        Outcome::Is(seen)
                    }
                    Outcome::Is((object, false)) => Outcome::Is(SeenPool::read(&object)),
                    Outcome::Absent => Outcome::Absent,
                    Outcome::Failed => Outcome::Failed,
                };
                self.plan.wrote(&name, outcome, now);
            }
            Intent::Discard(name, _) => {
                let is_done = self.take_away(&name, true);
                self.plan.discarded(&name, is_done, now);
            }
            Intent::Reserve(name, step) => {
                let label = self.plan.label().to_owned();
                let (holder, outcome) = match step {
                    Step::Make(holder) => {
                        let body = reservations::body(&name, &label, &holder, None);
                        (Some(holder), self.write(&name, &body, false, false))
                    }
                    Step::Change(revision, holder) => {
                        let body = reservations::body(&name, &label, &holder, Some(revision));
                        (Some(holder), self.write(&name, &body, true, false))
                    }
                    Step::Delete(_) => {
                        let is_done = self.take_away(&name, false);
                        (None, if is_done { Outcome::Absent } else { Outcome::Failed })
                    }
                };
                let outcome = match outcome {
                    Outcome::Is((object, _)) => Outcome::Is(SeenReservation::read(&object)),
                    Outcome::Absent => Outcome::Absent,
                    Outcome::Failed => Outcome::Failed,
                };
                self.plan.reserved(&name, holder.as_ref(), outcome, now);
            }
            Intent::Say(pool, containers) => {
                self.asked += 1;
                let is_done = !self.is_fault();
                if is_done {
                    self.said.push((pool.clone(), containers.clone()));
                }
                self.plan.said(&pool, containers, is_done, now);
            }
            Intent::Ask(name, doubt) => self.plan.answered(&name, doubt.sequence, Some(true), now),
            Intent::Tell(cause) => self.told.push(cause),
        }
    }

    fn is_fault(&mut self) -> bool {
        self.is_away || (self.faults > 0 && self.dice.roll(self.faults) == 0)
    }

    /// A deletion; whether it was served.
    fn take_away(&mut self, name: &str, is_pool: bool) -> bool {
        self.asked += 1;
        if !self.is_away {
            self.remove(name, is_pool);
        }
        !self.is_away
    }

    /// A write to the server: what is there then, and whether it is what was written.
    fn write(&mut self, name: &str, body: &Value, is_patch: bool, is_pool: bool) -> Outcome<(Value, bool)> {
        self.asked += 1;
        if self.is_fault() {
            return Outcome::Failed;
        }
        let all = if is_pool { &mut self.pools } else { &mut self.reservations };
        let mut object = match (all.get(name), is_patch) {
            (Some(there), false) => return Outcome::Is((there.clone(), false)),
            (Some(there), true) if revision(there) != revision(body) => return Outcome::Is((there.clone(), false)),
            (None, true) => return Outcome::Absent,
            (there, _) => there.cloned().unwrap_or_default(),
        };
        merge(&mut object, body);
        for entry in object["spec"]["allocations"].as_object_mut().into_iter().flatten().filter(|_| self.is_pruning) {
            entry.1.as_object_mut().unwrap().remove("ifname");
        }
        self.put(name, object.clone(), is_pool);
        let stored = if is_pool { &self.pools[name] } else { &self.reservations[name] };
        let answer = Outcome::Is((stored.clone(), true));
        if self.is_fault() { Outcome::Failed } else { answer }
    }

    fn put(&mut self, name: &str, mut object: Value, is_pool: bool) {
        let all = if is_pool { &mut self.pools } else { &mut self.reservations };
        // A write that changes nothing makes no new revision.
        if all.get(name) == Some(&object) {
            return;
        }
        self.revision += 1;
        object["metadata"]["name"] = json!(name);
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let all = if is_pool { &mut self.pools } else { &mut self.reservations };
        all.insert(name.to_owned(), object.clone());
        self.news.push_back(if is_pool { News::Pool(object, true) } else { News::Reservation(object, true) });
    }

    fn remove(&mut self, name: &str, is_pool: bool) {
        self.revision += 1;
        let all = if is_pool { &mut self.pools } else { &mut self.reservations };
        if let Some(mut object) = all.remove(name) {
            object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
            self.news.push_back(if is_pool { News::Pool(object, false) } else { News::Reservation(object, false) });
        }
    }

    /// The oldest of the news arrives.
    fn hear(&mut self) {
        match self.news.pop_front() {
            Some(News::Pool(object, true)) => {
                let pool = SeenPool::read(&object);
                if self.is_watched(&pool) {
                    self.plan.see_pool(pool);
                }
            }
            Some(News::Pool(object, false)) => {
                let pool = SeenPool::read(&object);
                self.plan.lose_pool(&pool.name, pool.revision);
            }
            Some(News::Reservation(object, true)) => self.plan.see_reservation(SeenReservation::read(&object)),
            Some(News::Reservation(object, false)) => {
                let one = SeenReservation::read(&object);
                self.plan.lose_reservation(&one.name, one.revision);
            }
            None => {}
        }
    }

    /// Until there is nothing left to do.
    fn rest(&mut self) {
        self.faults = 0;
        for _ in 0..1000 {
            while !self.news.is_empty() {
                self.hear();
            }
            self.now += LONGEST_PAUSE;
            if !self.act(Liveness::Alive) && self.news.is_empty() {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    /// A pod gets an address of the lower half, as the plugin would give it; whether there was one.
    fn add(&mut self, pod: &str) -> bool {
        if !self.place().grants().exists() {
            return false;
        }
        let lock = Lock::take(&self.place(), PATIENCE).unwrap();
        let (journal, image) = Journal::open(&self.place(), &lock).unwrap();
        let book = image.book();
        let held: BTreeSet<IpAddr> =
            book.holdings().iter().flat_map(|one| one.ips.iter()).map(|ip| ip.address).collect();
        let Some(ip) = (1..16).map(ip).find(|ip| !held.contains(ip)) else { return false };
        let ips = Ips::of(&[Ip { address: ip, length: 24 }]);
        let new = cni::journal::Holding { ips, ..holding(book.next(), pod, "10.0.0.1") };
        commit(journal, &image, &book, new);
        true
    }

    /// A DEL of a network without slices could not reach the server.
    fn owe(&mut self, pod: &str) {
        let lock = Lock::take(&self.place(), PATIENCE).unwrap();
        let (journal, image) = Journal::open(&self.place(), &lock).unwrap();
        let book = image.book();
        let new = holding(book.next(), pod, "10.9.0.1");
        let new = cni::journal::Holding { origin: Origin::Owed, home: "kube-system/".into(), ..new };
        commit(journal, &image, &book, new);
    }

    /// The pod with that number in the book goes.
    fn del(&mut self, index: u64) {
        self.end(Origin::Add, index);
    }

    /// One of the holdings of that origin ends.
    fn end(&mut self, origin: Origin, index: u64) {
        if !self.place().journal().exists() {
            return;
        }
        let lock = Lock::take(&self.place(), PATIENCE).unwrap();
        let (journal, image) = Journal::open(&self.place(), &lock).unwrap();
        let book = image.book();
        let own: Vec<u64> = book.holdings().iter().filter(|one| one.origin == origin).map(|one| one.sequence).collect();
        if let Some(sequence) = own.get(index as usize % own.len().max(1)) {
            let records = cni::plugin::ended(&book, &[(*sequence, Reason::Del)], 0);
            let header = image.header().unwrap();
            journal.commit(&book, &records, Renewal { id: header.id, boot: header.boot }).unwrap();
        }
    }

    /// Somebody else edits the pool.
    fn edit(&mut self, offset: &str, entry: &Value) {
        self.edit_specification(&json!({"allocations": {offset: entry}}));
    }

    fn edit_specification(&mut self, specification: &Value) {
        let Some(mut pool) = self.pools.get(POOL).cloned() else { return };
        merge(&mut pool, &json!({"spec": specification}));
        self.put(POOL, pool, true);
    }

    /// The pool was there before anybody held anything, as somebody else wrote it; with the label of the node or without.
    fn found(&mut self, is_labelled: bool, specification: &Value) {
        let label = is_labelled.then(|| self.plan.label());
        let object = json!({"metadata": {"labels": {"ipam.cadastre.dev/node": label}}, "spec": specification});
        self.put(POOL, object, true);
        self.restart();
    }

    /// The network status of a pod says this.
    fn says(&mut self, name: &str, pod: Pod) {
        self.pods.push((name.to_owned(), pod));
    }

    fn has_told(&self, reason: &str) -> usize {
        self.told.iter().filter(|cause| cause.reason == reason).count()
    }

    fn held(&self) -> Allocations {
        let image = cni::journal::Image::read(&self.place()).unwrap();
        let book = image.book();
        let all = book.holdings().iter().flat_map(|one| {
            let allocation = crate::mirror::allocation(one);
            one.ips.iter().map(move |ip| (ip.address, allocation.clone())).collect::<Vec<_>>()
        });
        all.collect()
    }

    fn shown(&self) -> Allocations {
        self.pools.get(POOL).map(|pool| SeenPool::read(pool).allocations).unwrap_or_default()
    }
}

use std::net::IpAddr;

use crate::pool::Allocations;

fn commit(journal: Journal<'_>, image: &cni::journal::Image, book: &Book<'_>, new: Holding<'_>) {
    let id = image.header().map_or([9; 16], |header| header.id);
    let renewal = Renewal { id, boot: cni::journal::BootId([1; 16]) };
    journal.commit(book, &[Record::Hold(new)], renewal).unwrap();
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        object.clone_from(patch);
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in fields {
        match (value, object.as_object_mut()) {
            (Value::Null, Some(object)) => drop(object.remove(name)),
            _ => merge(&mut object[name], value),
        }
    }
}

#[test]
fn both_sides_say_the_same_in_the_end_whatever_is_lost_or_late() {
    let first: u64 = std::env::var("CADASTRE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + 20 {
        let mut world = World::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        world.rest();
        // What others have put in and not taken out.
        let mut foreign: BTreeMap<u64, String> = BTreeMap::new();
        for step in 0..300 {
            world.faults = 6;
            world.now += world.dice.roll(400);
            match world.dice.roll(12) {
                0..=2 => drop(world.add(&format!("a/p{step}"))),
                3..=4 => {
                    let index = world.dice.roll(64);
                    world.del(index);
                }
                5 => {
                    let offset = 16 + world.dice.roll(16);
                    if world.pools.contains_key(POOL) && !foreign.contains_key(&offset) {
                        let pod = format!("x/f{step}");
                        world.edit(&offset.to_string(), &json!({"id": "", "podref": pod, "ifname": "net1"}));
                        foreign.insert(offset, pod);
                    }
                }
                6 => {
                    if let Some((offset, _)) = foreign.pop_first() {
                        world.edit(&offset.to_string(), &Value::Null);
                    }
                }
                7 => {
                    // Of what is in use, too.
                    let offset = 1 + world.dice.roll(15);
                    world.edit(&offset.to_string(), &Value::Null);
                }
                8 if world.dice.roll(4) == 0 => world.restart(),
                9 if world.dice.roll(8) == 0 => world.remove(POOL, true),
                _ => {}
            }
            if world.dice.roll(3) > 0 {
                world.read();
            }
            for _ in 0..world.dice.roll(4) {
                world.hear();
            }
            world.act(Liveness::Alive);
        }
        world.read();
        world.rest();
        assert_eq!(world.shown(), world.held(), "seed {seed}");
        let (found, expected) = reserved(&world);
        assert_eq!(found, expected, "seed {seed}");
        assert!(!world.told.iter().any(|cause| cause.reason == "AddressOfTwo"), "seed {seed}: {:?}", world.told);
    }
}

/// The names of what is reserved, and of what should be.
fn reserved(world: &World) -> (BTreeSet<String>, BTreeSet<String>) {
    let names = world.held().keys().map(|ip| crate::address::reservation("", *ip)).collect();
    (world.reservations.keys().cloned().collect(), names)
}

#[test]
fn pods_come_and_go_for_an_hour_without_a_server_and_it_is_told_all_in_a_few_writes() {
    let mut world = World::new(7);
    world.rest();
    (world.is_away, world.shared.is_away, world.asked) = (true, true, 0);
    let (mut given, mut wanted) = (0, 0);
    for second in 0..3600 {
        world.now += 1_000;
        // Half of the time an agent that has never seen the server.
        if second == 1800 {
            world.restart();
        }
        match world.dice.roll(4) {
            0 | 1 if world.held().len() < 12 => {
                wanted += 1;
                given += u32::from(world.add(&format!("a/p{second}")));
            }
            0 | 1 => {}
            _ => {
                let index = world.dice.roll(64);
                world.del(index);
            }
        }
        world.read();
        world.act(Liveness::Alive);
    }
    assert!(given == wanted && given > 1_000, "{given} of {wanted} pods were served");
    // A pool and a dozen reservations, each tried every ten seconds, in the half of which something is known of them.
    assert!((100..3_600).contains(&world.asked), "asked {} times in an hour", world.asked);
    assert!(!world.held().is_empty());
    assert_ne!(world.shown(), world.held());
    (world.is_away, world.shared.is_away, world.asked) = (false, false, 0);
    world.show_all();
    world.rest();
    assert_eq!(world.shown(), world.held());
    let (found, expected) = reserved(&world);
    assert_eq!(found, expected);
    assert!(world.asked <= 40, "{} writes for all that happened in an hour", world.asked);
    assert!(world.told.is_empty(), "{:?}", world.told);
}

#[test]
fn a_pool_is_read_in_full_only_when_it_may_say_something_new_of_this_node() {
    let mut world = World::new(7);
    world.rest();
    assert_eq!(world.fetches, 1);
    let changes = |world: &mut World, changed: Option<u64>| {
        let before = world.fetches;
        world.revision += 1;
        world.changed = changed;
        world.show_meta();
        world.rest();
        world.fetches - before
    };
    assert_eq!(changes(&mut world, Some(0)), 0, "others joined");
    assert_eq!(changes(&mut world, Some(3)), 0, "what we know already");
    world.entry.epoch = 9;
    assert_eq!(changes(&mut world, Some(9)), 1, "somebody's entry changed");
    assert_eq!(changes(&mut world, Some(9)), 0);
    assert_eq!(changes(&mut world, None), 1, "nobody says when entries changed");
    world.entry.uid = "another".into();
    world.entry.epoch = 10;
    assert_eq!(changes(&mut world, Some(10)), 1);
    assert_eq!(changes(&mut world, Some(10)), 1, "we have none");
    assert!(!world.place().grants().exists());
    assert!(world.pools.is_empty(), "{:?}", world.pools);
}

#[test]
fn what_is_found_dead_ends_and_is_taken_out() {
    let mut world = World::new(7);
    world.rest();
    assert!(world.add("a/one"));
    world.read();
    world.rest();
    assert_eq!(world.shown().len(), 1);
    for _ in 0..10 {
        world.now += LOOK_EVERY;
        world.act(Liveness::Gone(Reason::NetnsGone));
    }
    assert_eq!((world.held().len(), world.shown().len()), (0, 0));
}

#[test]
fn what_is_owed_is_tried_again_until_the_server_is_there_and_not_all_the_time() {
    let mut world = World::new(7);
    world.rest();
    world.owe("a/gone");
    world.read();
    let pass = |world: &mut World, time: u64| {
        for _ in 0..time / LOOK_EVERY {
            world.now += LOOK_EVERY;
            world.act(Liveness::Unknown);
        }
        world.held().len()
    };
    world.shared.is_away = true;
    assert_eq!(pass(&mut world, 60_000), 1);
    let asked = world.shared.asked;
    assert!((6..20).contains(&asked), "{asked} times in a minute");
    world.shared.is_away = false;
    assert_eq!(pass(&mut world, LONGEST_PAUSE + LOOK_EVERY), 0);
}

#[test]
fn what_ends_in_a_network_without_slices_is_owed_and_settled() {
    let mut world = World::new(7);
    world.rest();
    assert!(world.add("a/one"));
    let lock = Lock::take(&world.place(), PATIENCE).unwrap();
    let (journal, image) = Journal::open(&world.place(), &lock).unwrap();
    let book = image.book();
    let shared = holding(book.next(), "a/two", "10.9.0.1");
    commit(journal, &image, &book, Holding { origin: Origin::Shared, home: "kube-system/".into(), ..shared });
    drop(lock);
    world.read();
    world.shared.is_away = true;
    for _ in 0..10 {
        world.now += LOOK_EVERY;
        world.act(Liveness::Gone(Reason::NetnsGone));
    }
    let owed = |world: &World| {
        let image = cni::journal::Image::read(&world.place()).unwrap();
        image.book().holdings().iter().map(|one| (one.origin, one.pod.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(owed(&world), [(Origin::Owed, "a/two".to_owned())], "the slice needs nobody to hear of it");
    assert!(world.shared.asked > 0);
}

/// A holding with these addresses, whoever has them otherwise.
fn hold(world: &World, origin: Origin, pod: &str, ips: impl Iterator<Item = u8>) {
    let lock = Lock::take(&world.place(), PATIENCE).unwrap();
    let (journal, image) = Journal::open(&world.place(), &lock).unwrap();
    let book = image.book();
    let ips: Vec<Ip> = ips.map(|last| Ip { address: ip(last), length: 24 }).collect();
    let home = if origin == Origin::Shared { "kube-system/" } else { "" };
    let new = holding(book.next(), pod, "10.0.0.1");
    commit(journal, &image, &book, Holding { origin, home: home.into(), ips: Ips::of(&ips), ..new });
}

#[test]
fn that_a_container_outlives_its_pod_is_said_until_it_was_heard_and_again_when_it_ended() {
    let mut world = World::new(7);
    world.rest();
    hold(&world, Origin::Shared, "a/shared", 20..21);
    world.read();
    world.is_away = true;
    assert!(world.pass(2 * SURVIVAL).0 > 1, "it is tried again");
    assert_eq!(world.said, []);
    world.is_away = false;
    world.pass(LONGEST_PAUSE);
    let said = |containers: &[&str]| ("10.0.0.0-24".to_owned(), containers.iter().map(ToString::to_string).collect());
    assert_eq!(world.said, [said(&["c-a-shared"])]);
    world.plan.see_pod("a/shared".to_owned(), Pod::default());
    world.pass(LOOK_EVERY);
    assert_eq!(world.said[1..], [], "another pod of that name has another container");
    world.end(Origin::Shared, 0);
    world.read();
    world.pass(LOOK_EVERY);
    assert_eq!(world.said[1..], [said(&[])]);
}

#[test]
fn what_others_put_in_where_a_shared_pool_has_somebody_is_told_and_left_alone() {
    let mut world = World::new(7);
    world.rest();
    hold(&world, Origin::Shared, "a/shared", 20..21);
    world.read();
    world.rest();
    world.edit("20", &json!({"id": "z", "podref": "x/other", "ifname": "net1"}));
    world.rest();
    let told = world.told.iter().find(|cause| cause.reason == "AddressOfTwo").expect("it is told");
    assert!(
        told.message.contains("10.0.0.20 of network net is held by a/shared on this node, and by x/other"),
        "{told:?}"
    );
    assert_eq!(world.shown().len(), 1, "what others wrote stays");
}

#[test]
fn for_one_shortage_there_is_one_further_slice() {
    let mut world = World::new(7);
    world.rest();
    hold(&world, Origin::Add, "a/many", 1..30);
    world.read();
    world.rest();
    assert_eq!(world.wishes, BTreeSet::from(["more-3".to_owned()]));
    // It is given at once, and its pool is made before it can be used.
    world.entry.slices.push(Cidr::strict("10.0.0.32/27").unwrap());
    world.entry.epoch = 4;
    world.changed = Some(4);
    world.revision += 1;
    world.show_meta();
    world.rest();
    let grants = cni::grants::Grants::read(&world.place()).unwrap();
    assert_eq!(grants.ranges[0].slices.len(), 2);
    assert_eq!(world.wishes, BTreeSet::from(["more-3".to_owned()]));
}

#[test]
fn a_pod_that_was_refused_is_reason_to_ask_until_something_changes() {
    let mut world = World::new(7);
    world.rest();
    assert!(world.add("a/one"));
    let next = cni::journal::Image::read(&world.place()).unwrap().book().next();
    let range = Cidr::strict("10.0.0.0/24").unwrap();
    cni::shortage::Shortage { range, next }.leave(&world.place());
    world.read();
    world.rest();
    assert_eq!(world.pools[POOL]["metadata"]["labels"]["ipam.cadastre.dev/asks"], "more-3");
    assert!(world.told.iter().any(|cause| cause.reason == "SlicesFull"), "{:?}", world.told);
    world.del(0);
    world.read();
    world.rest();
    assert_eq!(world.pools[POOL]["metadata"]["labels"]["ipam.cadastre.dev/asks"], Value::Null);
}

/// A server that answers is no proof that the watches hear: the node may have been made anew, and its slices be others'.
#[test]
fn an_answer_about_another_node_renews_nothing() {
    let mut plan = Plan::new("n", "kube-system");
    plan.beat(Some("u"), 10);
    assert_eq!(plan.heard_at, 0, "nothing is known of the node yet");
    plan.see_node(Some("u"));
    plan.beat(Some("u"), 20);
    plan.beat(Some("v"), 30);
    plan.beat(None, 40);
    assert_eq!(plan.heard_at, 20);
    let entry = |uid: &str| Some(Entry { uid: uid.to_owned(), ..Entry::default() });
    for (entry, heard_at) in [(None, 20), (entry("v"), 20), (entry("u"), 50)] {
        plan.fetched("net", Outcome::Is(Fetched { entry, ..Fetched::default() }), 50, 0);
        assert_eq!(plan.heard_at, heard_at);
    }
    plan.see_node(None);
    plan.beat(None, 60);
    assert_eq!(plan.heard_at, 60);
}
