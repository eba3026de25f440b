//! An `IPPool` of a slice as it is read, and as it is written.
//!
//! Every write of ours leaves a seal: the id of the journal that the pool was written from, and a mark for each entry that both sides agree
//! on then. So it shows from the pool alone, after any absence, which entries others put in, took out or changed. A pool with the
//! seal of another journal was written by a node that lost it.
//!
//! Entries are offsets, so all of them mean something else when `spec.range` was edited. A pool whose range is not the slice says nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use api::slices::ASKS;
use controllers::node::flags::hash;
use controllers::slice::node::NODE;
use serde_json::{Map, Value, json};
use space::Cidr;

use crate::address;

/// The annotation of an `IPPool` with the seal of what the agent last wrote; see the module.
pub const MIRRORED: &str = "ipam.cadastre.dev/mirrored";
/// The API version of whereabouts' kinds.
pub const API_VERSION: &str = "whereabouts.cni.cncf.io/v1alpha1";

/// Who holds an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The container.
    pub id: String,
    /// The pod, `namespace/name`.
    pub podref: String,
    /// The interface.
    pub ifname: String,
}

/// Who holds which address of a slice.
pub type Allocations = BTreeMap<IpAddr, Allocation>;

/// An `IPPool` as it was last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenPool {
    /// Its name.
    pub name: String,
    /// When it was like this; it only grows.
    pub revision: u64,
    /// The slice; none if it cannot be read.
    pub range: Option<Cidr>,
    /// Who holds what.
    pub allocations: Allocations,
    /// The first offset that means no address of the range, if there is one.
    pub stray: Option<String>,
    /// What is asked on it.
    pub asks: Option<String>,
    /// What we said of our last write.
    pub mirrored: Option<String>,
    /// The node that its label names.
    pub node: Option<String>,
}

impl SeenPool {
    /// Reads an object.
    pub fn read(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let range =
            object["spec"]["range"].as_str().and_then(|range| Cidr::tolerant(range).ok()).map(|read| read.value);
        let (mut allocations, mut stray) = (Allocations::new(), None);
        for (offset, entry) in object["spec"]["allocations"].as_object().into_iter().flatten() {
            let field = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            match range.and_then(|range| address::at(range, offset)) {
                Some(ip) => {
                    let one = Allocation { id: field("id"), podref: field("podref"), ifname: field("ifname") };
                    allocations.insert(ip, one);
                }
                None => drop(stray.get_or_insert_with(|| offset.chars().take(LONGEST_SHOWN).collect::<String>())),
            }
        }
        Self {
            name: text(&metadata["name"]).unwrap_or_default(),
            revision: revision(object),
            range,
            allocations,
            stray,
            asks: text(&metadata["labels"][ASKS]),
            mirrored: text(&metadata["annotations"][MIRRORED]),
            node: text(&metadata["labels"][NODE]),
        }
    }

    /// The marks of what both sides agreed on when it was last written, if that was from a journal that is the right one.
    pub fn marks(&self, is_right: impl Fn(&str) -> bool) -> Marks {
        let Some((from, marks)) = self.mirrored.as_deref().and_then(|seal| seal.split_once(':')) else {
            return Marks::new();
        };
        let read = |mark: &[u8; MARK_DIGITS]| u32::from_str_radix(str::from_utf8(mark).ok()?, 16).ok();
        if is_right(from) { marks.as_bytes().as_chunks().0.iter().filter_map(read).collect() } else { Marks::new() }
    }

    /// Why it cannot be taken for the pool of a slice, if it cannot: none of its entries means what it seems to.
    pub fn is_not_of(&self, slice: Cidr) -> Option<String> {
        match self.range {
            Some(range) if range == slice => None,
            Some(range) => Some(format!("its spec.range is {range}, and not {slice}")),
            None => Some(format!("its spec.range is no range, and should be {slice}")),
        }
    }

    /// Whether an agent of this node wrote it.
    pub fn is_ours(&self) -> bool {
        self.mirrored.is_some()
    }
}

/// The revision of an object, as a number.
pub fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// So many letters of an offset that means nothing are shown: an Event has room for a thousand.
const LONGEST_SHOWN: usize = 40;

/// Marks of entries.
pub type Marks = BTreeSet<u32>;
/// A mark is written in so many digits.
const MARK_DIGITS: usize = 8;

/// The mark of an entry: the same on every machine and in every version.
pub fn mark(ip: IpAddr, one: &Allocation) -> u32 {
    let hash = hash([format!("{ip}\n{}\n{}\n{}\n", one.id, one.podref, one.ifname)]);
    (hash >> 32) as u32 ^ hash as u32
}

/// The seal of what is agreed on.
pub fn seal(journal: &str, agreed: &Allocations) -> String {
    let marks: Marks = agreed.iter().map(|(ip, one)| mark(*ip, one)).collect();
    let mut seal = format!("{journal}:");
    for mark in marks {
        // Writing to a string cannot fail.
        let _ = write!(seal, "{mark:08x}");
    }
    seal
}

/// What is to be written to a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolWrite {
    /// The slice.
    pub slice: Option<Cidr>,
    /// The revision that it was decided from; none makes a new pool.
    pub revision: Option<u64>,
    /// Entries that are put in, or taken out.
    pub entries: BTreeMap<IpAddr, Option<Allocation>>,
    /// What the pool says then, but for what others say of addresses of ours.
    pub agreed: Allocations,
    /// The id of the journal.
    pub journal: String,
    /// The label of the node.
    pub node: String,
    /// What is asked then.
    pub asks: Option<String>,
}

impl PoolWrite {
    /// The body of the request: an object, or a merge patch of one.
    pub fn body(&self, name: &str) -> Value {
        let mut entries = Map::new();
        for (ip, entry) in &self.entries {
            let Some(offset) = self.slice.and_then(|slice| address::offset(slice, *ip)) else { continue };
            let value = match entry {
                None => Value::Null,
                Some(Allocation { id, podref, ifname }) => json!({"id": id, "podref": podref, "ifname": ifname}),
            };
            entries.insert(offset, value);
        }
        let mut labels = json!({NODE: self.node});
        if self.asks.is_some() || self.revision.is_some() {
            labels[ASKS] = json!(self.asks);
        }
        let mut metadata = json!({"labels": labels, "annotations": {MIRRORED: seal(&self.journal, &self.agreed)}});
        let mut spec = json!({"allocations": entries});
        if let Some(revision) = self.revision {
            metadata["resourceVersion"] = json!(revision.to_string());
        } else {
            metadata["name"] = json!(name);
            spec["range"] = json!(self.slice.map(|slice| slice.to_string()));
        }
        json!({"apiVersion": API_VERSION, "kind": "IPPool", "metadata": metadata, "spec": spec})
    }

    /// The pool as it is when this was written at that revision, as far as nobody else was there meanwhile: the revision says so.
    pub fn written(&self, name: &str, before: Option<&SeenPool>, revision: u64) -> SeenPool {
        let mut pool = before.cloned().unwrap_or_default();
        name.clone_into(&mut pool.name);
        for (ip, entry) in &self.entries {
            match entry {
                Some(entry) => drop(pool.allocations.insert(*ip, entry.clone())),
                None => drop(pool.allocations.remove(ip)),
            }
        }
        let (mirrored, node) = (Some(seal(&self.journal, &self.agreed)), Some(self.node.clone()));
        SeenPool { revision, range: self.slice, asks: self.asks.clone(), mirrored, node, ..pool }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write() -> PoolWrite {
        let ip: IpAddr = "10.0.0.3".parse().unwrap();
        let one = Allocation { id: "c".into(), podref: "a/b".into(), ifname: "net1".into() };
        PoolWrite {
            slice: Cidr::strict("10.0.0.0/28").ok(),
            entries: [(ip, Some(one.clone())), ("10.0.0.4".parse().unwrap(), None)].into(),
            agreed: [(ip, one)].into(),
            node: "n".into(),
            journal: "5d1e".into(),
            ..PoolWrite::default()
        }
    }

    #[test]
    fn what_is_written_is_read_again_and_each_entry_is_known_for_ours() {
        let mut write = write();
        write.entries.pop_last();
        let mut object = write.body("n-10.0.0.0-28");
        object["metadata"]["resourceVersion"] = json!("7");
        let seen = SeenPool::read(&object);
        let marks = |seen: &SeenPool, journal: &str| seen.marks(|from| from == journal).len();
        assert_eq!((marks(&seen, "5d1e"), marks(&seen, "other")), (1, 0));
        assert_eq!(seen, write.written("n-10.0.0.0-28", None, 7));
        object["spec"]["allocations"]["5"] = json!({"id": "", "podref": "x/y"});
        object["spec"]["allocations"]["99"] = json!({"id": "out of the slice", "podref": ""});
        let touched = SeenPool::read(&object);
        assert!(touched.is_ours());
        assert_eq!(touched.stray.as_deref(), Some("99"));
        let is_marked = |(ip, one): &(&IpAddr, &Allocation)| touched.marks(|_| true).contains(&mark(**ip, one));
        assert_eq!(touched.allocations.iter().filter(is_marked).count(), 1);
        assert_eq!(touched.allocations.len(), 2);
    }

    #[test]
    fn what_cannot_be_read_of_a_pool_is_known_for_that() {
        let read = |range: &str, offset: &str| {
            SeenPool::read(&json!({"spec": {"range": range, "allocations": {offset: {"id": "c", "podref": "a/b"}}}}))
        };
        let slice = Cidr::strict("10.0.0.0/28").unwrap();
        // Some wrote the range as a person had written it, with bits of a host.
        for range in ["10.0.0.0/28", "10.0.0.9/28"] {
            assert_eq!(read(range, "3").is_not_of(slice), None);
            assert_eq!((read(range, "3").stray, read(range, "3").allocations.len()), (None, 1));
        }
        for range in ["10.0.1.0/28", "10.0.0.0/27", "x", ""] {
            assert!(read(range, "3").is_not_of(slice).is_some(), "{range}");
        }
        // Two spellings of one offset would be two owners of one address.
        for offset in ["x", "-1", "16", "03", "+3", "3 ", ""] {
            let pool = read("10.0.0.0/28", offset);
            assert_eq!((pool.stray.as_deref(), pool.allocations.len()), (Some(offset), 0));
        }
        assert_eq!(read("10.0.0.0/28", &"9".repeat(1 << 20)).stray.map(|shown| shown.len()), Some(LONGEST_SHOWN));
    }

    #[test]
    fn a_patch_names_its_revision_and_takes_out_by_null() {
        let patch = PoolWrite { revision: Some(7), ..write() }.body("p");
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(patch["metadata"]["labels"], json!({NODE: "n", ASKS: null}));
        let entries = json!({"3": {"id": "c", "podref": "a/b", "ifname": "net1"}, "4": null});
        assert_eq!(patch["spec"], json!({"allocations": entries}));
    }
}
