//! What a `NodeSlicePool` says: which node has which slices.
//!
//! The shape is the one that whereabouts has, with fields of our own beside it, all optional. Only slices that somebody has are
//! listed; an entry without a node, as whereabouts writes for every free slice, says nothing. A pool that would grow too large
//! has shards: objects of the same kind that only hold entries. Of two entries of one node the one with the higher epoch counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde_json::{Map, Value, json};
use space::Cidr;

use crate::object::Object;
use crate::reading::{items, number, text, texts};

/// The annotation of a pool that says how all its ranges are cut: `10.0.0.0/8 by /20, fd00::/64 by /120`.
pub const RANGES: &str = "ipam.cadastre.dev/ranges";
/// The annotation of a shard that names the pool that it belongs to.
pub const SHARD_OF: &str = "ipam.cadastre.dev/shard-of";
/// The annotation of a pool that lists the definitions that it is for: `namespace/name,namespace/name`.
pub const DEFINITIONS: &str = "ipam.cadastre.dev/definitions";
/// The annotation of a pool that says the epoch of the last write that changed what a node had: one that had nothing before does not
/// count. Who knows what it has reads the pool again when this is another. A shard has it for what was taken out of it.
pub const CHANGED: &str = "ipam.cadastre.dev/changed";
/// The annotation of a pool that says `false` if the network's addresses need not be unlike those of other networks.
pub const OVERLAPPING: &str = "ipam.cadastre.dev/overlapping";
/// The annotation of a pool that says the `network_name` of its network, if it has one.
pub const NETWORK_NAME: &str = "ipam.cadastre.dev/network-name";
/// The annotation with the gateways that definitions of the network name; not there if none does.
pub const GATEWAYS: &str = "ipam.cadastre.dev/gateways";
/// The label of an `IPPool` by which a node asks something about the slice; see [`Ask`].
pub const ASKS: &str = "ipam.cadastre.dev/asks";
/// What the names of annotations begin with in which nodes say what runs there.
const HELD_ON: &str = "held-on.ipam.cadastre.dev/";

/// What one node has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Which of all the nodes that ever had this name it is; empty if nobody has said so yet.
    pub uid: String,
    /// Grows whenever anything else here changes.
    pub epoch: u64,
    /// Its slices, those that take new pods first.
    pub slices: Vec<Cidr>,
    /// Those of its slices that take no new pods.
    pub draining: Vec<Cidr>,
    /// Since when there is no such node any more, as a time in RFC 3339.
    pub gone_at: Option<String>,
}

impl Entry {
    /// The slices that take new pods.
    pub fn open(&self) -> impl Iterator<Item = Cidr> {
        self.slices.iter().copied().filter(|slice| !self.draining.contains(slice))
    }

    /// Whether who knew this entry of its node has to know that other one, or that there is none. That a node is gone is no
    /// news to it, and that what it had is taken back then is news to nobody.
    pub fn is_outdated_by(&self, other: Option<&Self>) -> bool {
        other.map_or(self.gone_at.is_none(), |other| {
            let is_only_gone = || {
                let (epoch, gone_at) = (self.epoch, self.gone_at.clone());
                other.gone_at.is_some() && *self == Self { epoch, gone_at, ..other.clone() }
            };
            other != self && !is_only_gone()
        })
    }

    /// How many bytes it takes in the object.
    pub fn bytes(&self, node: &str) -> usize {
        let list = |name: &str, slices: &[Cidr]| {
            let texts: usize = slices.iter().map(|slice| slice.to_string().len() + r#""","#.len()).sum();
            if slices.is_empty() { 0 } else { field(name) + "[]".len() + texts - ",".len() }
        };
        let first = self.slices.first().map_or(0, |slice| slice.to_string().len());
        let uid = if self.uid.is_empty() { 0 } else { field("nodeUID") + quoted(&self.uid) };
        let gone = self.gone_at.as_ref().map_or(0, |at| field("goneAt") + quoted(at));
        // The comma of the first field stands for the one after the entry.
        field("nodeName")
            + quoted(node)
            + field("sliceRange")
            + r#""""#.len()
            + first
            + uid
            + field("epoch")
            + self.epoch.to_string().len()
            + list("furtherSlices", self.slices.get(1..).unwrap_or_default())
            + list("draining", &self.draining)
            + gone
            + "{}".len()
    }

    fn to_value(&self, node: &str) -> Value {
        let mut value = Map::new();
        let listed = |slices: &[Cidr]| slices.iter().map(ToString::to_string).collect::<Vec<_>>();
        value.insert("nodeName".to_owned(), json!(node));
        value.insert("sliceRange".to_owned(), json!(self.slices.first().map(ToString::to_string)));
        if !self.uid.is_empty() {
            value.insert("nodeUID".to_owned(), json!(self.uid));
        }
        value.insert("epoch".to_owned(), json!(self.epoch));
        if let Some(further) = self.slices.get(1..).filter(|further| !further.is_empty()) {
            value.insert("furtherSlices".to_owned(), json!(listed(further)));
        }
        if !self.draining.is_empty() {
            value.insert("draining".to_owned(), json!(listed(&self.draining)));
        }
        if let Some(gone_at) = &self.gone_at {
            value.insert("goneAt".to_owned(), json!(gone_at));
        }
        Value::Object(value)
    }
}

/// What the name of a field takes, with all that stands around it.
fn field(name: &str) -> usize {
    name.len() + r#""":,"#.len()
}

fn quoted(text: &str) -> usize {
    text.len() + r#""""#.len()
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlicePool {
    /// The highest epoch that was ever given here.
    pub epoch: u64,
    /// Of a shard: how often it was written.
    pub version: u64,
    /// Of a pool with shards: the version of each up to which its entries count.
    pub shards: BTreeMap<String, u64>,
    /// What nodes have, by their names.
    pub entries: BTreeMap<String, Entry>,
    /// Of a shard: the version with which each entry came.
    pub moved: BTreeMap<String, u64>,
    /// What could not be read.
    pub unreadable: Vec<String>,
}

/// What nodes have of a network, by the pool and its shards. What came to a shard with a version that the pool does not know of yet
/// does not count: it is in the pool as well, or was moved by somebody who did not know that it is gone. Without a pool all of it
/// counts. Of two entries of one node the one with the higher epoch counts.
pub fn latest<'a>(
    pool: Option<&'a SlicePool>,
    shards: impl Iterator<Item = (&'a String, &'a SlicePool)>,
) -> BTreeMap<String, Entry> {
    let mut entries = pool.map(|pool| pool.entries.clone()).unwrap_or_default();
    for (name, shard) in shards {
        let known = pool.map_or(u64::MAX, |pool| pool.shards.get(name).copied().unwrap_or(0));
        for (node, entry) in shard.entries.iter().filter(|(node, _)| shard.moved_with(node) <= known) {
            if entries.get(node).is_none_or(|other| other.epoch < entry.epoch) {
                entries.insert(node.clone(), entry.clone());
            }
        }
    }
    entries
}

impl SlicePool {
    /// Reads the status of a pool or a shard.
    pub fn read(object: &Object) -> Self {
        let status = object.at(&["status"]).unwrap_or(&Value::Null);
        let mut pool = Self {
            epoch: unsigned(status, "epoch"),
            version: unsigned(status, "version"),
            shards: items(status, "shards")
                .iter()
                .map(|one| (text(one, "name").to_owned(), unsigned(one, "version")))
                .collect(),
            ..Self::default()
        };
        for one in items(status, "allocations") {
            pool.take(one);
        }
        pool
    }

    fn take(&mut self, one: &Value) {
        let node = text(one, "nodeName");
        if node.is_empty() {
            return;
        }
        let unreadable = &mut self.unreadable;
        let mut cidr = |text: &str| match Cidr::tolerant(text) {
            Ok(reading) => Some(reading.value),
            Err(why) => {
                unreadable.push(format!("{text:?} of node {node} is no slice: {why}"));
                None
            }
        };
        let written = std::iter::once(text(one, "sliceRange")).chain(texts(one, "furtherSlices"));
        let slices: Vec<Cidr> = written.filter_map(&mut cidr).collect();
        let draining: Vec<Cidr> = texts(one, "draining").filter_map(&mut cidr).collect();
        if slices.is_empty() {
            return;
        }
        // Somebody else may have listed a node for each of its slices.
        let entry = self.entries.entry(node.to_owned()).or_default();
        for slice in slices {
            if !entry.slices.contains(&slice) {
                entry.slices.push(slice);
            }
        }
        entry.draining.extend(draining.into_iter().filter(|slice| entry.slices.contains(slice)));
        entry.epoch = entry.epoch.max(unsigned(one, "epoch"));
        text(one, "nodeUID").clone_into(&mut entry.uid);
        entry.gone_at = Some(text(one, "goneAt")).filter(|at| !at.is_empty()).map(str::to_owned);
        self.epoch = self.epoch.max(entry.epoch);
        let moved = unsigned(one, "moved");
        if moved > 0 {
            self.moved.insert(node.to_owned(), moved);
        }
    }

    /// The version of this shard with which the entry of a node came.
    pub fn moved_with(&self, node: &str) -> u64 {
        self.moved.get(node).copied().unwrap_or(0)
    }

    /// The status that says this.
    pub fn to_status(&self) -> Value {
        let allocation = |(node, entry): (&String, &Entry)| {
            let mut value = entry.to_value(node);
            if let Some(moved) = self.moved.get(node) {
                value["moved"] = json!(moved);
            }
            value
        };
        let allocations: Vec<Value> = self.entries.iter().map(allocation).collect();
        let mut status = json!({"allocations": allocations, "epoch": self.epoch});
        if self.version > 0 {
            status["version"] = json!(self.version);
        }
        if !self.shards.is_empty() {
            let shard = |(name, version): (&String, &u64)| json!({"name": name, "version": version});
            status["shards"] = self.shards.iter().map(shard).collect();
        }
        status
    }
}

fn unsigned(value: &Value, name: &str) -> u64 {
    number(value, name).and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

/// What a node asks about one of its slices, as the value of the label [`ASKS`] on the slice's `IPPool`. The epoch is that of the
/// node's entry as the node knows it; what is asked of an older one is not heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask {
    /// It is full: a further slice of the same range is wanted.
    More(u64),
    /// It drains and is empty: it can go to others.
    Release(u64),
}

impl Ask {
    /// The epoch of the entry that it is about.
    pub fn epoch(self) -> u64 {
        let (Self::More(epoch) | Self::Release(epoch)) = self;
        epoch
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::More(epoch) => write!(f, "more-{epoch}"),
            Self::Release(epoch) => write!(f, "release-{epoch}"),
        }
    }
}

impl FromStr for Ask {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (what, epoch) = text.split_once('-').ok_or(())?;
        let epoch = epoch.parse().map_err(drop)?;
        match what {
            "more" => Ok(Self::More(epoch)),
            "release" => Ok(Self::Release(epoch)),
            _ => Err(()),
        }
    }
}

/// The name of the `IPPool` of a node's slice, as whereabouts has it; a network without a `network_name` adds none.
pub fn ip_pool_name(network: Option<&str>, node: &str, slice: Cidr) -> String {
    let slice = slice.to_string().replace([':', '/'], "-");
    network.map_or_else(|| format!("{node}-{slice}"), |network| format!("{network}-{node}-{slice}"))
}

/// The annotation of the `IPPool` of a range that all nodes share in which a node, by its label, says which containers run there though
/// their pods are gone.
pub fn held_on(label: &str) -> String {
    format!("{HELD_ON}{label}")
}

/// What nodes, by their labels, say in the annotations of such a pool that runs there: containers with commas between them.
pub fn held_on_nodes(annotations: &Map<String, Value>) -> impl Iterator<Item = (&str, &str)> {
    annotations.iter().filter_map(|(name, said)| Some((name.strip_prefix(HELD_ON)?, said.as_str()?)))
}

/// Who says in the annotations of such a pool that a container runs there: nodes, by their labels.
pub fn holders(annotations: &Map<String, Value>, container: &str) -> BTreeSet<String> {
    let said = held_on_nodes(annotations).filter(|(_, said)| said.split(',').any(|one| one == container));
    said.map(|(label, _)| label.to_owned()).collect()
}

/// The name of the `IPPool` of a range that all nodes share, as whereabouts has it. A name cannot begin with a hyphen.
pub fn shared_pool_name(network: Option<&str>, range: Cidr) -> String {
    named(network, range.to_string().replace([':', '/'], "-"))
}

/// The name of the reservation of an address, as whereabouts has it. Nor can a name end with a hyphen.
pub fn reservation_name(network: Option<&str>, address: IpAddr) -> String {
    let mut address = address.to_string();
    if address.ends_with(':') {
        address.push('0');
    }
    named(network, address.replace(':', "-"))
}

/// The address of a reservation of that name, if it is one of that network.
pub fn reserved_address(network: Option<&str>, name: &str) -> Option<IpAddr> {
    let rest = match network {
        Some(network) => name.strip_prefix(network)?.strip_prefix('-')?,
        None => name,
    };
    let address: IpAddr = rest.parse().ok().or_else(|| rest.replace('-', ":").parse().ok())?;
    (reservation_name(network, address) == name).then_some(address)
}

fn named(network: Option<&str>, text: String) -> String {
    match network {
        Some(network) => format!("{network}-{text}"),
        None if text.starts_with('-') => format!("0{text}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: &Value) -> SlicePool {
        SlicePool::read(&Object::from_value(json!({"status": status})).unwrap())
    }

    #[test]
    fn what_is_written_is_read_again() {
        let status = json!({
            "allocations": [
                {"nodeName": "a", "sliceRange": "10.0.0.0/24", "nodeUID": "u", "epoch": 7, "moved": 2},
                {
                    "nodeName": "b", "sliceRange": "10.0.1.0/24", "nodeUID": "v", "epoch": 9, "furtherSlices": ["fd00::/64"],
                    "draining": ["fd00::/64"], "goneAt": "2026-01-01T00:00:00Z",
                },
            ],
            "epoch": 9, "version": 3, "shards": [{"name": "n.shard-1", "version": 4}],
        });
        let pool = read(&status);
        assert_eq!(pool.to_status(), status);
        assert_eq!(pool.entries["b"].open().map(|slice| slice.to_string()).collect::<Vec<_>>(), ["10.0.1.0/24"]);
        assert_eq!(pool.unreadable, [""; 0]);
    }

    #[test]
    fn what_a_shard_got_counts_when_the_pool_knows_of_it_and_the_newer_of_two() {
        let entry = |epoch: u64| Entry { epoch, ..Entry::default() };
        let shard = SlicePool {
            entries: [("a", 5), ("b", 6), ("c", 7)].map(|(node, epoch)| (node.to_owned(), entry(epoch))).into(),
            moved: [("a".to_owned(), 1), ("b".to_owned(), 2), ("c".to_owned(), 3)].into(),
            ..SlicePool::default()
        };
        let name = "n.shard-1".to_owned();
        let epochs = |pool: Option<&SlicePool>| {
            let latest = latest(pool, [(&name, &shard)].into_iter());
            latest.iter().map(|(node, entry)| format!("{node}{}", entry.epoch)).collect::<Vec<_>>().join(" ")
        };
        let mut pool = SlicePool { entries: [("a".to_owned(), entry(8))].into(), ..SlicePool::default() };
        assert_eq!(epochs(Some(&pool)), "a8");
        pool.shards.insert(name.clone(), 2);
        assert_eq!((epochs(Some(&pool)), epochs(None)), ("a8 b6".to_owned(), "a5 b6 c7".to_owned()));
    }

    #[test]
    fn a_node_has_to_know_whatever_changes_in_its_entry_but_that_it_is_gone() {
        let slice = |text: &str| Cidr::strict(text).unwrap();
        let gone_at = Some("2026-01-01T00:00:00Z".to_owned());
        let known = Entry { uid: "u".to_owned(), epoch: 5, slices: vec![slice("10.0.0.0/24")], ..Entry::default() };
        let gone = Entry { epoch: 6, gone_at, ..known.clone() };
        assert!(!known.is_outdated_by(Some(&known)) && !known.is_outdated_by(Some(&gone)));
        for (other, what) in [
            (None, "nothing"),
            (Some(Entry { uid: "v".to_owned(), ..known.clone() }), "another node"),
            (Some(Entry { epoch: 6, ..known.clone() }), "another epoch"),
            (Some(Entry { draining: known.slices.clone(), ..known.clone() }), "draining"),
            (Some(Entry { slices: vec![slice("10.0.1.0/24")], ..known.clone() }), "another slice"),
            (Some(Entry { slices: vec![slice("10.0.1.0/24")], ..gone.clone() }), "another slice, and gone"),
        ] {
            assert!(known.is_outdated_by(other.as_ref()), "{what}");
        }
        assert!(gone.is_outdated_by(Some(&Entry { epoch: 7, ..known })), "it is back");
        assert!(!gone.is_outdated_by(None));
    }

    #[test]
    fn a_pool_of_whereabouts_is_read_and_its_free_slices_say_nothing() {
        let pool = read(&json!({"allocations": [
            {"nodeName": "", "sliceRange": "10.0.0.0/24"}, {"nodeName": "a", "sliceRange": "10.0.1.0/24"},
            {"nodeName": "a", "sliceRange": "10.0.2.0/24"}, {"nodeName": "b", "sliceRange": "nonsense"},
        ]}));
        let slices: Vec<String> = pool.entries["a"].slices.iter().map(ToString::to_string).collect();
        assert_eq!((slices, pool.entries.len()), (vec!["10.0.1.0/24".to_owned(), "10.0.2.0/24".to_owned()], 1));
        assert_eq!(pool.entries["a"].uid, "");
        assert_eq!(pool.unreadable.len(), 1);
    }

    #[test]
    fn an_entry_takes_as_many_bytes_as_it_says() {
        let slice = |text: &str| Cidr::strict(text).unwrap();
        let long = slice("fd00:1111:2222:3333:4444:5555:6666:7700/120");
        let short = Entry { slices: vec![slice("10.0.0.0/24")], ..Entry::default() };
        let entry = Entry {
            uid: "0".repeat(36),
            epoch: 1 << 60,
            slices: vec![slice("255.255.255.240/28"), long, long],
            draining: vec![long],
            gone_at: Some("2026-01-01T00:00:00Z".to_owned()),
        };
        for entry in [short, entry] {
            assert_eq!(entry.to_value("node").to_string().len() + ",".len(), entry.bytes("node"));
        }
    }

    #[test]
    fn asks_are_labels_and_are_read_again() {
        for ask in [Ask::More(0), Ask::Release(1_794_960_000)] {
            let text = ask.to_string();
            assert_eq!((text.parse(), crate::names::label_value(&text)), (Ok(ask), Vec::new()));
        }
        for text in ["", "more", "more-", "more-x", "less-1"] {
            assert_eq!(text.parse::<Ask>(), Err(()), "{text}");
        }
    }

    #[test]
    fn ip_pools_have_the_names_that_whereabouts_gives_them() {
        let slice = |text: &str| Cidr::strict(text).unwrap();
        assert_eq!(ip_pool_name(Some("net"), "node", slice("10.0.0.0/24")), "net-node-10.0.0.0-24");
        assert_eq!(ip_pool_name(None, "node", slice("fd00::/120")), "node-fd00---120");
        // The plugin has a function of its own for these, and the same names.
        for (network, address, name) in [
            (None, "10.0.0.1", "10.0.0.1"),
            (Some("net"), "fd00::1", "net-fd00--1"),
            (None, "fd00::", "fd00--0"),
            (Some("net"), "::1", "net---1"),
            (None, "::1", "0--1"),
            (None, "::", "0--0"),
        ] {
            assert_eq!(reservation_name(network, address.parse().unwrap()), name);
        }
    }

    #[test]
    fn the_address_of_a_reservation_is_in_its_name() {
        for network in [None, Some("net"), Some("a-b")] {
            for address in ["10.0.0.1", "fd00::1", "fd00::", "::1", "::", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4"] {
                let address = address.parse().unwrap();
                let name = reservation_name(network, address);
                assert_eq!(reserved_address(network, &name), Some(address), "{name}");
                assert_eq!(reserved_address(Some("other"), &name), None, "{name}");
            }
        }
        for name in ["", "net", "net-", "10.0.0", "fd00-0-0-0-0-0-0-1", "10.0.0.1-"] {
            assert_eq!(reserved_address(None, name), None, "{name}");
        }
    }

    #[test]
    fn a_container_is_where_a_node_says_so() {
        let (own, other) = (held_on("n.example"), held_on("m"));
        let said = json!({own: "c1,c2", other: "c2", "held-on.ipam.cadastre.dev": "c3", "x": "c3", (held_on("o")): 3});
        let holders = |container| holders(said.as_object().unwrap(), container).into_iter().collect::<Vec<_>>();
        assert_eq!(holders("c1"), ["n.example"]);
        assert_eq!(holders("c2"), ["m", "n.example"]);
        assert!(["c3", "c", "", "c1,c2"].into_iter().all(|container| holders(container).is_empty()));
    }
}
