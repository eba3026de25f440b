//! What the agent knows and what it has to do: all networks of the node, one after the other. Pure.
//!
//! Everything that is kept is a state, none a history: an agent that could not reach the API server for hours has as much to remember
//! as one that could, and brings everything up to date from what is there.

use std::collections::{BTreeMap, BTreeSet};

use api::slices::SHARD_OF;
use cni::allocate::Liveness;
use cni::journal::Holding;
use controllers::slice::node::node_label;

use crate::grants;
use crate::network::{Cause, Disk, Fetched, LOST, Local, Network, PoolMeta, Shared};
use crate::pool::{Allocation, PoolWrite, SeenPool};
use crate::reclaim::{Doubt, Pod, Pods};
use crate::reservations::{self, Reserved, SeenReservation, Step};
use crate::survivors::Survivors;

/// How often namespaces and pods are looked at, in milliseconds.
pub const LOOK_EVERY: u64 = 500;
/// How long a pool is left alone after it was written: what comes meanwhile goes in one write.
pub const GATHERING: u64 = 25;
/// How long to wait after something failed, the first time and at most.
const FIRST_PAUSE: u64 = 100;
const LONGEST_PAUSE: u64 = 10_000;
/// How long a reservation that somebody else has is left alone before it is looked at again.
const DISPUTE_PAUSE: u64 = 30_000;
/// So many reservations are on their way at a time.
const MOST_RESERVATIONS: usize = 16;
/// So many that are owed are settled at a time.
const MOST_DEBTS: usize = 64;
/// So many pods are asked about at a time.
const MOST_DOUBTS: usize = 16;

/// Something to be done. Each ends in a call of the method named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Read the `NodeSlicePool` of a network: [`Plan::fetched`].
    Fetch(String),
    /// Work on the files of a network: [`Plan::worked`].
    Work(String, Local),
    /// Write an `IPPool`: [`Plan::wrote`].
    Write(String, PoolWrite),
    /// Delete an `IPPool` of that revision: [`Plan::discarded`].
    Discard(String, u64),
    /// Do something about a reservation: [`Plan::reserved`].
    Reserve(String, Step),
    /// Settle what is owed to pools that all nodes share: [`Plan::settled`].
    Settle(String, Vec<u64>),
    /// Say in a pool that all nodes share which containers of this node run though their pods are gone: [`Plan::said`].
    Say(String, BTreeSet<String>),
    /// Ask whether a pod is gone: [`Plan::answered`].
    Ask(String, Doubt),
    /// Tell it; nothing comes back.
    Tell(Cause),
}

/// What came of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It is like this now; also if it was not written, because another one was in the way.
    Is(T),
    /// It is not there.
    Absent,
    /// It failed, or nobody knows.
    Failed,
}

/// Something that may be on its way, or wait after a failure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Fetch(String),
    Work(String),
    Pool(String),
    Reservation(String),
    Doubt(String, u64),
    Debts(String),
    Survivors(String),
}

/// What may not be done now.
#[derive(Debug, Default)]
struct Waiting {
    busy: BTreeSet<Key>,
    /// Until when, and for how long.
    pauses: BTreeMap<Key, (u64, u64)>,
    /// What is under way and should make a number grow, and what it was: the revision of a pool, or the next number in a journal.
    begun: BTreeMap<Key, u64>,
}

impl Waiting {
    fn is_free(&self, key: &Key, now: u64) -> bool {
        !self.busy.contains(key) && self.pauses.get(key).is_none_or(|(until, _)| *until <= now)
    }

    /// It begins.
    fn begin(&mut self, key: Key, number: Option<u64>) {
        if let Some(number) = number {
            self.begun.insert(key.clone(), number);
        }
        self.busy.insert(key);
    }

    /// Whether what should have made this number grow did not. What is decided again from the same would be done again, all the time.
    fn is_idle(&mut self, key: &Key, number: u64) -> bool {
        self.begun.remove(key) == Some(number)
    }

    /// It came to its end, well or not.
    fn settle(&mut self, key: &Key, is_well: bool, now: u64) {
        self.busy.remove(key);
        if is_well {
            self.pauses.remove(key);
        } else {
            let pause = self.pauses.get(key).map_or(FIRST_PAUSE, |(_, last)| (last * 2).min(LONGEST_PAUSE));
            self.pauses.insert(key.clone(), (now + pause, pause));
        }
    }

    fn rest(&mut self, key: Key, now: u64, pause: u64) {
        self.pauses.insert(key, (now + pause, FIRST_PAUSE));
    }

    /// When the next pause is over.
    fn due(&self, now: u64) -> Option<u64> {
        self.pauses.values().map(|(until, _)| *until).filter(|until| *until > now).min()
    }

    /// What has not failed for long is forgotten.
    fn forget(&mut self, now: u64) {
        self.pauses.retain(|_, (until, _)| until.saturating_add(LONGEST_PAUSE) > now);
    }
}

/// What is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Of each network: its granted slices, the addresses of them, and how many of those are held.
    pub networks: BTreeMap<String, (u64, u128, u128)>,
    /// What should be known to somebody, by reason.
    pub causes: BTreeMap<&'static str, u64>,
}

/// See the module.
#[derive(Debug)]
pub struct Plan {
    node: String,
    label: String,
    uid: Option<String>,
    heard_at: u64,
    metas: Option<BTreeMap<String, PoolMeta>>,
    pools: Option<BTreeMap<String, SeenPool>>,
    reservations: Option<BTreeMap<String, SeenReservation>>,
    pods: Pods,
    networks: BTreeMap<String, Network>,
    is_scanned: bool,
    waiting: Waiting,
    /// What stands in the way of reservations of ours.
    disputed: BTreeMap<String, SeenReservation>,
    told: BTreeSet<Cause>,
    looked_at: Option<u64>,
    doubts: BTreeMap<String, Vec<Doubt>>,
    survivors: Survivors,
}

impl Plan {
    /// For a node of that name, and whereabouts' objects in that namespace; nothing is known yet.
    pub fn new(node: &str, namespace: &str) -> Self {
        Self {
            node: node.to_owned(),
            label: node_label(node),
            uid: None,
            heard_at: 0,
            metas: None,
            pools: None,
            reservations: None,
            pods: None,
            networks: BTreeMap::new(),
            is_scanned: false,
            waiting: Waiting::default(),
            disputed: BTreeMap::new(),
            told: BTreeSet::new(),
            looked_at: None,
            doubts: BTreeMap::new(),
            survivors: Survivors::new(namespace),
        }
    }

    /// The label of this node's objects.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// An `IPPool` as it was last seen.
    pub fn pool(&self, name: &str) -> Option<&SeenPool> {
        self.pools.as_ref()?.get(name)
    }

    /// The UID of the node, if it is there.
    pub fn uid(&self) -> Option<&str> {
        self.uid.as_deref().filter(|uid| !uid.is_empty())
    }

    /// Whether everything that has to be was listed.
    pub fn is_ready(&self) -> bool {
        self.uid.is_some()
            && self.metas.is_some()
            && self.pools.is_some()
            && self.reservations.is_some()
            && self.pods.is_some()
            && self.is_scanned
    }

    /// The node has this UID; none: there is no such node.
    pub fn see_node(&mut self, uid: Option<&str>) {
        let uid = uid.unwrap_or_default();
        if self.uid.as_ref().is_some_and(|known| known != uid) {
            self.survivors.say_again();
        }
        self.uid = Some(uid.to_owned());
    }

    /// The server said at that time, in seconds since 1970, that the node is the one that we know.
    fn heard(&mut self, at: u64) {
        self.heard_at = self.heard_at.max(at);
    }

    /// The server said at that time which node there is. If it is not the one that we know, we are behind, and what we think that the node
    /// has is not renewed: an answer alone does not say that the watches hear.
    pub fn beat(&mut self, uid: Option<&str>, at: u64) {
        if self.uid.as_ref().is_some_and(|known| known == uid.unwrap_or_default()) {
            self.heard(at);
        }
    }

    /// These are all `NodeSlicePool`s.
    pub fn see_all_metas(&mut self, metas: Vec<PoolMeta>) {
        self.metas = Some(BTreeMap::new());
        for meta in metas {
            self.see_meta(meta);
        }
    }

    /// A `NodeSlicePool` is like this.
    pub fn see_meta(&mut self, meta: PoolMeta) {
        // Shards only hold entries of a pool, which says that they changed.
        if meta.annotations.contains_key(SHARD_OF) {
            return;
        }
        self.network(&meta.name);
        self.metas.get_or_insert_default().insert(meta.name.clone(), meta);
    }

    /// A `NodeSlicePool` is gone.
    pub fn lose_meta(&mut self, name: &str) {
        self.metas.get_or_insert_default().remove(name);
    }

    /// These are all `IPPool`s of the node. Others that were found by their names stay.
    pub fn see_all_pools(&mut self, pools: Vec<SeenPool>) {
        let label = self.label.clone();
        let known = self.pools.get_or_insert_default();
        let there: BTreeSet<&String> = pools.iter().map(|pool| &pool.name).collect();
        known.retain(|name, pool| there.contains(name) || pool.node.as_ref() != Some(&label));
        for pool in pools {
            self.see_pool(pool);
        }
    }

    /// An `IPPool` is like this. What is older than what is known says nothing.
    pub fn see_pool(&mut self, pool: SeenPool) {
        let pools = self.pools.get_or_insert_default();
        if pools.get(&pool.name).is_none_or(|known| known.revision < pool.revision) {
            pools.insert(pool.name.clone(), pool);
        }
    }

    /// An `IPPool` is gone since that revision.
    pub fn lose_pool(&mut self, name: &str, revision: u64) {
        let pools = self.pools.get_or_insert_default();
        if pools.get(name).is_some_and(|known| known.revision <= revision) {
            pools.remove(name);
        }
    }

    /// These are all reservations of the node.
    pub fn see_all_reservations(&mut self, reservations: Vec<SeenReservation>) {
        self.reservations = Some(BTreeMap::new());
        for reservation in reservations {
            self.see_reservation(reservation);
        }
    }

    /// A reservation of the node is like this.
    pub fn see_reservation(&mut self, seen: SeenReservation) {
        let all = self.reservations.get_or_insert_default();
        if all.get(&seen.name).is_none_or(|known| known.revision < seen.revision) {
            all.insert(seen.name.clone(), seen);
        }
    }

    /// A reservation is gone since that revision.
    pub fn lose_reservation(&mut self, name: &str, revision: u64) {
        let all = self.reservations.get_or_insert_default();
        if all.get(name).is_some_and(|known| known.revision <= revision) {
            all.remove(name);
        }
    }

    /// These are all pods of the node, by `namespace/name`.
    pub fn see_all_pods(&mut self, pods: Vec<(String, Pod)>) {
        self.pods = Some(pods.into_iter().collect());
    }

    /// A pod is like this.
    pub fn see_pod(&mut self, name: String, pod: Pod) {
        self.pods.get_or_insert_default().insert(name, pod);
    }

    /// A pod is gone.
    pub fn lose_pod(&mut self, name: &str, uid: &str) {
        let pods = self.pods.get_or_insert_default();
        // Another one of that name may be there already.
        if pods.get(name).is_some_and(|pod| pod.uid == uid) {
            pods.remove(name);
        }
    }

    /// The networks of which there are files. From now on all are known.
    pub fn see_folders(&mut self, networks: impl IntoIterator<Item = String>) {
        for name in networks {
            self.network(&name);
        }
        self.is_scanned = true;
    }

    /// The files of a network are like this.
    pub fn see_disk(&mut self, name: &str, disk: Disk) {
        self.network(name).see_disk(disk);
    }

    fn network(&mut self, name: &str) -> &mut Network {
        self.networks.entry(name.to_owned()).or_insert_with(|| Network::new(name))
    }

    /// The names of all networks.
    pub fn networks(&self) -> impl Iterator<Item = &str> {
        self.networks.keys().map(String::as_str)
    }

    /// When there may be something to do although nothing happens.
    pub fn due(&self, now: u64) -> u64 {
        let look = self.looked_at.map_or(0, |at| at + LOOK_EVERY);
        self.waiting.due(now).map_or(look, |due| due.min(look))
    }

    /// What is to be done now, in milliseconds of a clock that only goes forward. `liveness` says what can be seen of the namespace of a
    /// holding.
    pub fn step(&mut self, now: u64, liveness: impl Fn(&Holding<'_>) -> Liveness) -> Vec<Intent> {
        let mut intents = Vec::new();
        if self.looked_at.is_none_or(|at| at + LOOK_EVERY <= now) {
            self.looked_at = Some(now);
            self.waiting.forget(now);
            self.look(now, liveness);
        }
        self.ask(now, &mut intents);
        self.say(now, &mut intents);
        let mut networks = std::mem::take(&mut self.networks);
        if let Some(metas) = &self.metas {
            networks.retain(|name, network| {
                !network.is_over(metas) || self.waiting.busy.contains(&Key::Work(name.clone()))
            });
        }
        let mut causes = BTreeSet::new();
        for (name, network) in &mut networks {
            self.step_network(name, network, now, &mut causes, &mut intents);
        }
        self.networks = networks;
        self.discard(now, &mut intents);
        self.reserve(now, &mut causes, &mut intents);
        intents.extend(causes.difference(&self.told).cloned().map(Intent::Tell));
        self.told = causes;
        intents
    }

    fn shared(&self) -> Shared<'_> {
        Shared {
            node: &self.node,
            label: &self.label,
            uid: self.uid.as_deref(),
            heard_at: self.heard_at,
            pools: self.pools.as_ref(),
            metas: self.metas.as_ref(),
            pods: &self.pods,
        }
    }

    fn step_network(
        &mut self,
        name: &str,
        network: &mut Network,
        now: u64,
        causes: &mut BTreeSet<Cause>,
        intents: &mut Vec<Intent>,
    ) {
        let mut todo = network.step(self.shared());
        let work = Key::Work(name.to_owned());
        // Journal and grants are written one after the other, and read without the lock.
        if self.waiting.busy.contains(&work) {
            todo.causes.retain(|cause| cause.reason != LOST || self.told.contains(cause));
        }
        causes.extend(todo.causes);
        let fetch = Key::Fetch(name.to_owned());
        if todo.fetch && self.waiting.is_free(&fetch, now) {
            self.waiting.busy.insert(fetch);
            intents.push(Intent::Fetch(name.to_owned()));
        }
        if let Some(local) = todo.local.filter(|_| self.waiting.is_free(&work, now)) {
            let next = matches!(local, Local::Commit { .. }).then(|| network.next());
            self.waiting.begin(work, next);
            intents.push(Intent::Work(name.to_owned(), local));
        }
        let debts = Key::Debts(name.to_owned());
        if !network.owed.is_empty() && self.waiting.is_free(&debts, now) {
            self.waiting.busy.insert(debts);
            let owed = network.owed.iter().copied().take(MOST_DEBTS).collect();
            intents.push(Intent::Settle(name.to_owned(), owed));
        }
        let mut is_writing = false;
        for (pool, write) in todo.pools {
            let key = Key::Pool(pool.clone());
            if self.waiting.is_free(&key, now) {
                is_writing = true;
                let known = self.pools.as_ref().and_then(|pools| pools.get(&pool)).map(|known| known.revision);
                self.waiting.begin(key, known);
                intents.push(Intent::Write(pool, write));
            }
        }
        if is_writing {
            intents.extend(todo.put_back.into_iter().map(Intent::Tell));
        }
    }

    /// Looks for holdings that nobody uses.
    fn look(&mut self, now: u64, liveness: impl Fn(&Holding<'_>) -> Liveness) {
        self.doubts.clear();
        for (name, network) in &mut self.networks {
            let Some(image) = network.image().cloned() else { continue };
            let verdict = network.suspicions.look(&image.book(), &self.pods, &liveness, now);
            (network.dead, network.ends, network.owed) = (verdict.dead, verdict.ends, verdict.owed);
            if !verdict.doubts.is_empty() {
                self.doubts.insert(name.clone(), verdict.doubts);
            }
        }
        let readings = self.networks.values().filter_map(Network::reading);
        self.survivors.look(readings, &self.pods, now);
    }

    fn say(&mut self, now: u64, intents: &mut Vec<Intent>) {
        for (pool, containers) in self.survivors.steps() {
            let key = Key::Survivors(pool.clone());
            if self.waiting.is_free(&key, now) {
                self.waiting.busy.insert(key);
                intents.push(Intent::Say(pool, containers));
            }
        }
    }

    fn ask(&mut self, now: u64, intents: &mut Vec<Intent>) {
        let asked = |waiting: &Waiting| waiting.busy.iter().filter(|key| matches!(key, Key::Doubt(..))).count();
        for (name, doubts) in std::mem::take(&mut self.doubts) {
            for doubt in doubts {
                let key = Key::Doubt(name.clone(), doubt.sequence);
                if self.waiting.is_free(&key, now) && asked(&self.waiting) < MOST_DOUBTS {
                    self.waiting.busy.insert(key);
                    intents.push(Intent::Ask(name.clone(), doubt));
                }
            }
        }
    }

    /// Pools of ours that no network has any more, and of which nothing is held.
    fn discard(&mut self, now: u64, intents: &mut Vec<Intent>) {
        let is_known = |network: &Network| network.is_known(self.metas.as_ref());
        if !self.is_ready() || !self.networks.values().all(is_known) {
            return;
        }
        let shared = self.shared();
        let wanted: BTreeSet<String> = self.networks.values().flat_map(|network| network.pool_names(shared)).collect();
        let held: BTreeSet<std::net::IpAddr> = self.networks.values().flat_map(Network::addresses).collect();
        for (name, pool) in self.pools.iter().flatten() {
            let is_ours = pool.is_ours() && pool.node.as_ref() == Some(&self.label);
            let key = Key::Pool(name.clone());
            if is_ours
                && !wanted.contains(name)
                && pool.allocations.keys().all(|ip| !held.contains(ip))
                && self.waiting.is_free(&key, now)
            {
                self.waiting.busy.insert(key);
                intents.push(Intent::Discard(name.clone(), pool.revision));
            }
        }
    }

    fn reserve(&mut self, now: u64, causes: &mut BTreeSet<Cause>, intents: &mut Vec<Intent>) {
        let (Some(seen), true) = (&self.reservations, self.is_ready()) else { return };
        let (mut wanted, mut unclear) = (Reserved::new(), BTreeSet::new());
        let mut is_whole = true;
        for network in self.networks.values() {
            let (more, names) = network.reserved();
            wanted.extend(more);
            unclear.extend(names);
            is_whole &= network.is_known(self.metas.as_ref());
        }
        self.disputed.retain(|name, _| wanted.contains_key(name));
        for (name, found) in &self.disputed {
            let Some((ip, mine)) = wanted.get(name) else { continue };
            let message =
                format!("{ip} is held by {} on this node, and reserved for {} ({name})", mine.podref, found.podref);
            causes.insert(Cause { reason: "AddressOfTwo", message });
        }
        let mut room = MOST_RESERVATIONS
            .saturating_sub(self.waiting.busy.iter().filter(|key| matches!(key, Key::Reservation(_))).count());
        for (name, step) in reservations::steps(&wanted, seen, |name| !is_whole || unclear.contains(name)) {
            let key = Key::Reservation(name.clone());
            if room > 0 && self.waiting.is_free(&key, now) {
                room -= 1;
                self.waiting.busy.insert(key);
                intents.push(Intent::Reserve(name, step));
            }
        }
    }

    /// A `NodeSlicePool` was read; none: it is not there. It was asked for at that time, in seconds since 1970.
    pub fn fetched(&mut self, name: &str, outcome: Outcome<Fetched>, asked_at: u64, now: u64) {
        self.waiting.settle(&Key::Fetch(name.to_owned()), outcome != Outcome::Failed, now);
        match outcome {
            Outcome::Is(fetched) => {
                if self.uid().is_some_and(|uid| grants::own(fetched.entry.as_ref(), uid).is_some()) {
                    self.heard(asked_at);
                }
                self.network(name).see_fetched(Some(fetched));
            }
            Outcome::Absent => self.lose_meta(name),
            Outcome::Failed => {}
        }
    }

    /// Work on files came to its end. They are looked at anew before this is called.
    pub fn worked(&mut self, name: &str, is_done: bool, now: u64) {
        let key = Key::Work(name.to_owned());
        let next = self.networks.get(name).map_or(0, Network::next);
        let is_idle = self.waiting.is_idle(&key, next);
        self.waiting.settle(&key, is_done && !is_idle, now);
        if let Some(network) = self.networks.get_mut(name) {
            network.ends.clear();
        }
    }

    /// Something that was owed was settled. The files are looked at anew before this is called.
    pub fn settled(&mut self, name: &str, is_all: bool, now: u64) {
        self.waiting.settle(&Key::Debts(name.to_owned()), is_all, now);
        if let Some(network) = self.networks.get_mut(name) {
            // The next look says what is left.
            network.owed.clear();
        }
    }

    /// An `IPPool` was written, or it is as it is shown, and was not written.
    pub fn wrote(&mut self, name: &str, outcome: Outcome<SeenPool>, now: u64) {
        let key = Key::Pool(name.to_owned());
        let revision = if let Outcome::Is(pool) = &outcome { pool.revision } else { u64::MAX };
        let is_idle = self.waiting.is_idle(&key, revision);
        self.waiting.settle(&key, outcome != Outcome::Failed && !is_idle, now);
        match outcome {
            Outcome::Is(_) if is_idle => {}
            Outcome::Is(pool) => {
                self.waiting.rest(key, now, GATHERING);
                self.see_pool(pool);
            }
            Outcome::Absent => self.lose_pool(name, u64::MAX),
            Outcome::Failed => {}
        }
    }

    /// An `IPPool` was deleted, or not.
    pub fn discarded(&mut self, name: &str, is_gone: bool, now: u64) {
        self.waiting.settle(&Key::Pool(name.to_owned()), is_gone, now);
        if is_gone {
            self.lose_pool(name, u64::MAX);
        }
    }

    /// Something was done about a reservation: it is like this now, or gone.
    pub fn reserved(&mut self, name: &str, wanted: Option<&Allocation>, outcome: Outcome<SeenReservation>, now: u64) {
        let key = Key::Reservation(name.to_owned());
        self.waiting.settle(&key, outcome != Outcome::Failed, now);
        match outcome {
            // One with our label is of an address that passed from one pod to another before we knew that it was made.
            Outcome::Is(found)
                if found.node.as_ref() != Some(&self.label)
                    && wanted.is_some_and(|holder| !reservations::is_ours(&found, holder)) =>
            {
                self.waiting.rest(key, now, DISPUTE_PAUSE);
                self.disputed.insert(name.to_owned(), found);
            }
            Outcome::Is(seen) => {
                self.disputed.remove(name);
                self.see_reservation(seen);
            }
            Outcome::Absent => {
                self.disputed.remove(name);
                self.lose_reservation(name, u64::MAX);
            }
            Outcome::Failed => {}
        }
    }

    /// That was said in a pool, or could not be.
    pub fn said(&mut self, pool: &str, containers: BTreeSet<String>, is_done: bool, now: u64) {
        self.waiting.settle(&Key::Survivors(pool.to_owned()), is_done, now);
        if is_done {
            self.survivors.said(pool, containers);
        }
    }

    /// Whether the pod of a holding is gone; none: nobody knows.
    pub fn answered(&mut self, name: &str, sequence: u64, is_gone: Option<bool>, now: u64) {
        self.waiting.settle(&Key::Doubt(name.to_owned(), sequence), true, now);
        let Some(network) = self.networks.get_mut(name) else { return };
        match is_gone {
            Some(true) => network.suspicions.confirm(sequence),
            Some(false) => network.suspicions.dismiss(sequence),
            None => {}
        }
    }

    /// What is counted.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        for (name, network) in &self.networks {
            let (slices, all, held) = figures.networks.entry(name.clone()).or_default();
            for (slice, used) in network.usage() {
                *slices += 1;
                *all = all.saturating_add(crate::address::capacity(slice.cidr));
                *held = held.saturating_add(used);
            }
        }
        for cause in &self.told {
            *figures.causes.entry(cause.reason).or_default() += 1;
        }
        figures
    }
}

#[cfg(test)]
mod tests;
