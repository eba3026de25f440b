//! Which object to write next, so that what was decided is what is stored.
//!
//! A network has one `NodeSlicePool` under its name, and shards when that one would grow too large. Two controllers may act at
//! once, each with a view that lags behind, and only a write to one object is atomic. So:
//!
//! - Whatever is new is written to the pool itself, never to a shard: a grant is based on the revision of the pool that was read.
//! - Entries are moved in two writes: into the shard, then out of the pool. The second says in the pool up to which version of the
//!   shard entries count. So what somebody moves who does not know that it is gone already counts for nothing, and is taken out of
//!   the shard before the pool says more.
//! - Pool and shards are of one kind in one namespace, and a watch shows them in the order in which they were written, so who
//!   sees the pool without the entries has seen them in the shard.
//! - What is taken back is first taken out of the shard, then out of the pool, so that no older entry comes to light.
//!
//! One write is made at a time, and the next when that one was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::Object;
use api::slices::{
    CHANGED, DEFINITIONS, Entry, GATEWAYS, NETWORK_NAME, OVERLAPPING, RANGES, SHARD_OF, SlicePool, SlicedNetwork,
    latest,
};
use serde_json::{Value, json};

use super::decide::Decision;

/// How many bytes of entries an object has at most before some are moved. An API server takes 1.5 MB, and a change sends an
/// object to everybody who watches it.
pub const LIMIT: usize = 900_000;

/// An object as it is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// All of it but its status.
    pub shell: Object,
    /// Its status.
    pub pool: SlicePool,
    /// Whether its status is written as we would.
    pub is_tidy: bool,
}

impl Stored {
    /// Takes an object apart.
    pub fn read(mut object: Object) -> Self {
        let pool = SlicePool::read(&object);
        let is_tidy = object.remove(&["status"]).is_some_and(|status| status == pool.to_status());
        Self { shell: object, pool, is_tidy }
    }

    /// The network that it is a shard of, if it is one.
    pub fn shard_of(&self) -> Option<&str> {
        Some(self.shell.text(&["metadata", "annotations", SHARD_OF])).filter(|name| !name.is_empty())
    }

    /// Whether we have ever written it.
    pub fn is_ours(&self) -> bool {
        self.shard_of().is_some() || !self.shell.text(&["metadata", "annotations", RANGES]).is_empty()
    }

    /// Whether it was written for a network with a `network_name`.
    pub fn is_named(&self) -> bool {
        !self.shell.text(&["metadata", "annotations", NETWORK_NAME]).is_empty()
    }

    /// The epoch of the last write that changed what a node had.
    fn changed(&self) -> u64 {
        self.shell.text(&["metadata", "annotations", CHANGED]).parse().unwrap_or(0)
    }

    /// The definitions that it was written for, as `namespace/name`.
    pub fn definitions(&self) -> impl Iterator<Item = &str> {
        self.shell.text(&["metadata", "annotations", DEFINITIONS]).split(',').filter(|one| !one.is_empty())
    }
}

/// All objects of a network.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The pool.
    pub pool: Option<Stored>,
    /// Its shards, by name.
    pub shards: BTreeMap<String, Stored>,
}

impl Objects {
    /// Whether something is missing: there is no pool, or not all the shards that it names.
    pub fn lack(&self) -> bool {
        self.pool.is_none() || self.missing().next().is_some()
    }

    /// The shards that the pool names and that are not there.
    fn missing(&self) -> impl Iterator<Item = &String> {
        let named = self.pool.iter().flat_map(|pool| pool.pool.shards.keys());
        named.filter(|name| !self.shards.contains_key(*name))
    }

    /// What nodes have, wherever it is stored.
    pub fn entries(&self) -> BTreeMap<String, Entry> {
        latest(self.pool.as_ref().map(|pool| &pool.pool), self.shard_pools())
    }

    fn shard_pools(&self) -> impl Iterator<Item = (&String, &SlicePool)> {
        self.shards.iter().map(|(name, shard)| (name, &shard.pool))
    }

    /// The highest epoch that was ever given.
    pub fn epoch(&self) -> u64 {
        self.each().map(|stored| stored.pool.epoch.max(stored.changed())).max().unwrap_or(0)
    }

    /// The epoch of the last write that changed what a node had.
    pub fn changed(&self) -> u64 {
        self.each().map(Stored::changed).max().unwrap_or(0)
    }

    /// All of them.
    pub fn each(&self) -> impl Iterator<Item = &Stored> {
        self.pool.iter().chain(self.shards.values())
    }

    /// The version of a shard up to which its entries count.
    fn known(&self, shard: &str) -> u64 {
        self.pool.as_ref().and_then(|pool| pool.pool.shards.get(shard).copied()).unwrap_or(0)
    }
}

/// What a pool says besides its entries.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The namespace that it is in.
    pub namespace: String,
    /// The network.
    pub network: SlicedNetwork,
    /// The definitions that it is for, as `namespace/name`.
    pub definitions: String,
    /// The gateways that any of them names: no pod may have the address of one, whichever definition it comes by.
    pub gateways: BTreeSet<IpAddr>,
    /// Who it goes with.
    pub owners: Vec<Value>,
}

/// An object that should be written; it says its revision if it is to replace one.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Its name.
    pub name: String,
    /// The object without its status.
    pub shell: Object,
    /// Its status.
    pub pool: SlicePool,
}

/// The next write, if there is one to make. What does not fit into it comes with the next.
pub fn next_write(
    objects: &Objects,
    stored: &BTreeMap<String, Entry>,
    frame: &Frame,
    decision: &Decision,
    limit: usize,
) -> Option<Write> {
    let (entries, epoch) = (&decision.entries, decision.epoch);
    let change = Change { objects, stored, decision };
    let Some(pool) = &objects.pool else {
        if bytes(stored) > limit {
            return remake(&change, frame, limit);
        }
        // Nothing in shards counts for a pool that does not name them.
        let entries = fitting(entries.clone(), stored, &Objects::default(), limit);
        return change.pool_write(frame, SlicePool { epoch, entries, ..SlicePool::default() });
    };
    if let Some(name) = objects.missing().next() {
        return Some(change.restore(name, frame, limit));
    }
    for (name, shard) in &objects.shards {
        let known = objects.known(name);
        let stays = |node: &String, entry: &Entry| {
            if shard.pool.moved_with(node) <= known {
                // Older ones go at once: no two are left, of which the newer might be taken out first.
                entries.contains_key(node) && stored.get(node) == Some(entry)
            } else {
                pool.pool.entries.get(node) == Some(entry) && entries.get(node) == Some(entry)
            }
        };
        if !shard.pool.entries.iter().all(|(node, entry)| stays(node, entry)) {
            let kept = shard.pool.entries.iter().filter(|(node, entry)| stays(node, entry));
            let kept = kept.map(|(node, entry)| (node.clone(), entry.clone())).collect();
            return Some(change.cleared(shard_write(name, shard, kept)));
        }
    }
    let own = entries.iter().filter(|(name, entry)| !is_settled(objects, name, entry));
    let own: BTreeMap<String, Entry> = own.map(|(name, entry)| (name.clone(), entry.clone())).collect();
    // The version is said anew only when something came since.
    let version = |(name, shard): (&String, &Stored)| {
        let known = objects.known(name);
        let is_known = shard.pool.entries.keys().all(|node| shard.pool.moved_with(node) <= known);
        (name.clone(), if is_known { known } else { shard.pool.version })
    };
    let shards = objects.shards.iter().map(version).collect();
    let movable = if bytes(&own) > limit { movable(objects, entries) } else { BTreeMap::new() };
    if !movable.is_empty() {
        return Some(move_out(objects, &objects.entries(), frame, movable, limit));
    }
    let own = fitting(own, stored, objects, limit);
    change.pool_write(frame, SlicePool { epoch, shards, entries: own, ..SlicePool::default() })
}

/// A pool that is lost, and was so large that it had shards: these say what is known of their nodes now, new ones take what the pool
/// has no room for, and then the pool is made, which says that all of that counts. Nothing is taken back or granted before.
fn remake(change: &Change<'_>, frame: &Frame, limit: usize) -> Option<Write> {
    let Change { objects, stored, decision } = *change;
    for (name, shard) in &objects.shards {
        let known = shard.pool.entries.keys().filter_map(|node| Some((node.clone(), stored.get(node)?.clone())));
        let known: BTreeMap<String, Entry> = known.collect();
        if known != shard.pool.entries {
            return Some(shard_write(name, shard, known));
        }
    }
    let own = stored.iter().filter(|(name, entry)| !is_settled(objects, name, entry));
    let own: BTreeMap<String, Entry> = own.map(|(name, entry)| (name.clone(), entry.clone())).collect();
    if bytes(&own) > limit {
        return Some(move_out(objects, stored, frame, own, limit));
    }
    let shards = objects.shards.iter().map(|(name, shard)| (name.clone(), shard.pool.version)).collect();
    change.pool_write(frame, SlicePool { epoch: decision.epoch, shards, entries: own, ..SlicePool::default() })
}

/// What is stored, and what was decided from it.
#[derive(Clone, Copy)]
struct Change<'a> {
    objects: &'a Objects,
    stored: &'a BTreeMap<String, Entry>,
    decision: &'a Decision,
}

impl Change<'_> {
    /// Whether what nodes have is another after a write that leaves these entries; nodes that know it in any case do not count.
    fn is_news(&self, after: &BTreeMap<String, Entry>, knows: impl Fn(&String) -> bool) -> bool {
        let mut others = self.stored.iter().filter(|(name, _)| !knows(name));
        others.any(|(name, entry)| entry.is_outdated_by(after.get(name)))
    }

    /// The write of the pool, unless it is all of that already.
    fn pool_write(&self, frame: &Frame, pool: SlicePool) -> Option<Write> {
        let is_news = self.decision.is_news || {
            // Who asks looks whenever the pool is written.
            let asks = |name: &String| self.decision.heard.contains(name);
            self.is_news(&latest(Some(&pool), self.objects.shard_pools()), asks)
        };
        let changed = if is_news { self.decision.epoch } else { self.objects.changed() };
        pool_write(self.objects.pool.as_ref(), frame, pool, changed)
    }

    /// Makes a shard again that the pool names and that is gone, with what it said: that counts at once, as it did. When several are
    /// gone, the last takes all that is left.
    fn restore(&self, name: &str, frame: &Frame, limit: usize) -> Write {
        let Self { objects, stored, decision } = *self;
        let (counted, is_last) = (objects.entries(), objects.missing().count() == 1);
        let (mut entries, mut size) = (BTreeMap::new(), 0);
        for (node, entry) in stored.iter().filter(|(node, entry)| counted.get(*node) != Some(*entry)) {
            size += entry.bytes(node);
            if size > limit && !is_last {
                break;
            }
            entries.insert(node.clone(), entry.clone());
        }
        let (version, Stored { mut shell, .. }) = (objects.known(name), new_shard(name, frame));
        let moved = entries.keys().filter(|_| version > 0).map(|node| (node.clone(), version)).collect();
        shell.set(&["metadata", "annotations", CHANGED], json!(decision.epoch.to_string()));
        let pool = SlicePool { epoch: decision.epoch, version, entries, moved, ..SlicePool::default() };
        Write { name: name.to_owned(), shell, pool }
    }

    /// The write of a shard from which something is taken, which says so itself; the pool will say it too.
    fn cleared(&self, mut write: Write) -> Write {
        let others = self.objects.shard_pools().filter(|(name, _)| **name != write.name);
        let after = latest(
            self.objects.pool.as_ref().map(|pool| &pool.pool),
            others.chain(std::iter::once((&write.name, &write.pool))),
        );
        // Nobody looks because a shard was written, not even who asks.
        if self.is_news(&after, |_| false) {
            write.shell.set(&["metadata", "annotations", CHANGED], json!(self.decision.epoch.to_string()));
        }
        write
    }
}

/// As much of what a pool should have as there is room for. What is taken back comes first, and where not all of it fits nothing is
/// granted: it could be the same. What does not fit stays as it is stored.
fn fitting(
    own: BTreeMap<String, Entry>,
    stored: &BTreeMap<String, Entry>,
    objects: &Objects,
    limit: usize,
) -> BTreeMap<String, Entry> {
    if bytes(&own) <= limit {
        return own;
    }
    let is_stored = |name: &str, entry: &Entry| stored.get(name) == Some(entry);
    let takes_back = |name: &str, entry: &Entry| {
        stored.get(name).is_some_and(|before| before.slices.iter().any(|slice| !entry.slices.contains(slice)))
    };
    let (mut fitting, changed): (BTreeMap<_, _>, BTreeMap<_, _>) =
        own.into_iter().partition(|(name, entry)| is_stored(name, entry));
    let (first, then): (Vec<_>, Vec<_>) = changed.into_iter().partition(|(name, entry)| takes_back(name, entry));
    let (mut size, mut is_full) = (bytes(&fitting), false);
    for (name, entry) in first.into_iter().chain(then) {
        let before = stored.get(&name).filter(|before| !is_settled(objects, &name, before));
        // One change is made in any case, or nothing would ever be.
        is_full = is_full || (size + entry.bytes(&name) > limit && size > 0);
        let kept = if is_full { before.cloned() } else { Some(entry) };
        if let Some(kept) = kept {
            size += kept.bytes(&name);
            fitting.insert(name, kept);
        }
    }
    fitting
}

/// Whether an entry is in a shard as it should be.
fn is_settled(objects: &Objects, name: &str, entry: &Entry) -> bool {
    objects.shards.values().any(|shard| shard.pool.entries.get(name) == Some(entry))
}

/// The entries of the pool that are as they should be and in no shard yet.
fn movable(objects: &Objects, entries: &BTreeMap<String, Entry>) -> BTreeMap<String, Entry> {
    let stored = objects.pool.iter().flat_map(|pool| &pool.pool.entries);
    stored
        .filter(|(name, entry)| entries.get(*name) == Some(*entry) && !is_settled(objects, name, entry))
        .map(|(name, entry)| (name.clone(), entry.clone()))
        .collect()
}

/// Moves as many entries as there is room for into the first shard that has some, or into a new one. What the shard has of
/// nodes of which something else is the latest goes.
fn move_out(
    objects: &Objects,
    latest: &BTreeMap<String, Entry>,
    frame: &Frame,
    movable: BTreeMap<String, Entry>,
    limit: usize,
) -> Write {
    let kept = |shard: &Stored| {
        let kept = shard.pool.entries.iter().filter(|(name, entry)| latest.get(*name) == Some(*entry));
        kept.map(|(name, entry)| (name.clone(), entry.clone())).collect::<BTreeMap<_, _>>()
    };
    let first = movable.first_key_value().map_or(0, |(name, entry)| entry.bytes(name));
    let mut number = 1;
    let (name, shard, mut kept) = loop {
        let name = format!("{}.shard-{number}", frame.network.name);
        let shard = objects.shards.get(&name).cloned().unwrap_or_else(|| new_shard(&name, frame));
        let kept = kept(&shard);
        if kept.is_empty() || bytes(&kept) + first <= limit {
            break (name, shard, kept);
        }
        number += 1;
    };
    let mut size = bytes(&kept);
    for (name, entry) in movable {
        size += entry.bytes(&name);
        if size > limit && !kept.is_empty() {
            break;
        }
        kept.insert(name, entry);
    }
    shard_write(&name, &shard, kept)
}

fn new_shard(name: &str, frame: &Frame) -> Stored {
    let mut shell = bare(name, &frame.namespace);
    shell.set(&["metadata", "annotations", SHARD_OF], json!(frame.network.name));
    shell.set(&["spec"], spec(&frame.network));
    Stored { shell, pool: SlicePool::default(), is_tidy: true }
}

fn shard_write(name: &str, shard: &Stored, entries: BTreeMap<String, Entry>) -> Write {
    let epoch = entries.values().map(|entry| entry.epoch).fold(shard.pool.epoch, u64::max);
    let version = shard.pool.version + 1;
    let moved = entries.iter().map(|(node, entry)| {
        let was_there = shard.pool.entries.get(node) == Some(entry);
        (node.clone(), if was_there { shard.pool.moved_with(node) } else { version })
    });
    let moved = moved.collect();
    let pool = SlicePool { epoch, version, entries, moved, ..SlicePool::default() };
    Write { name: name.to_owned(), shell: shard.shell.clone(), pool }
}

/// The write of the pool, unless it is all of that already.
fn pool_write(stored: Option<&Stored>, frame: &Frame, pool: SlicePool, changed: u64) -> Option<Write> {
    let Frame { network, definitions, gateways, .. } = frame;
    let name = &network.name;
    let gateways = gateways.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut shell = stored.map_or_else(|| bare(name, &frame.namespace), |stored| stored.shell.clone());
    for (annotation, text) in [
        (RANGES, Some(ranges(network))),
        (DEFINITIONS, Some(definitions.clone())),
        (CHANGED, (changed > 0).then(|| changed.to_string())),
        (OVERLAPPING, (!network.overlapping).then(|| false.to_string())),
        (NETWORK_NAME, network.is_named.then(|| name.clone())),
        (GATEWAYS, Some(gateways).filter(|all| !all.is_empty())),
    ] {
        let path = ["metadata", "annotations", annotation];
        match text {
            Some(text) => shell.set(&path, json!(text)),
            None => drop(shell.remove(&path)),
        }
    }
    set_owners(&mut shell, &frame.owners);
    shell.set(&["spec"], spec(&frame.network));
    let is_stored = stored.is_some_and(|stored| {
        let epoch = stored.pool.epoch;
        stored.is_tidy && stored.shell == shell && stored.pool == SlicePool { epoch, ..pool.clone() }
    });
    (!is_stored).then(|| Write { name: name.clone(), shell, pool })
}

fn bare(name: &str, namespace: &str) -> Object {
    let mut shell = Object::default();
    shell.set(&["apiVersion"], json!("whereabouts.cni.cncf.io/v1alpha1"));
    shell.set(&["kind"], json!("NodeSlicePool"));
    shell.set(&["metadata"], json!({"name": name, "namespace": namespace}));
    shell
}

/// The definitions that it goes with stand for all that were noted before; what others are for is theirs.
fn set_owners(shell: &mut Object, owners: &[Value]) {
    let listed = shell.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let others = listed.into_iter().filter(|owner| owner["kind"] != "NetworkAttachmentDefinition");
    let all: Vec<Value> = others.chain(owners.iter().cloned()).collect();
    if all.is_empty() {
        shell.remove(&["metadata", "ownerReferences"]);
    } else {
        shell.set(&["metadata", "ownerReferences"], Value::from(all));
    }
}

/// The first range, in the fields that there are for one.
fn spec(network: &SlicedNetwork) -> Value {
    let first = network.ranges.first().map(|range| (range.range().to_string(), range.length()));
    let (range, length) = first.unwrap_or_default();
    json!({"range": range, "sliceSize": format!("/{length}")})
}

/// All ranges, as people and nodes read them.
pub(super) fn ranges(network: &SlicedNetwork) -> String {
    let shown = network.ranges.iter().map(|range| format!("{} by /{}", range.range(), range.length()));
    shown.collect::<Vec<_>>().join(", ")
}

fn bytes(entries: &BTreeMap<String, Entry>) -> usize {
    entries.iter().map(|(name, entry)| entry.bytes(name)).sum()
}
