//! What is on its way to nodes, written down before it is sent.
//!
//! A block that is being written on a node cannot be seen there yet, and a second controller would take it for free. So a block
//! stands on the waybill before it is sent: one object for the cluster, which is only ever written as it was last read. Who finds
//! that somebody else wrote it begins anew, with what stands there now and with lists that are younger than it. That holds with or
//! without a Lease that says who acts, however long a process was stopped, and whatever became of its writes.
//!
//! What a node was seen to get, or cannot get any more, is left out when the waybill is written the next time.

use std::collections::{BTreeMap, VecDeque};

use api::Object;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::index::NodeKey;
use super::intent::Assignment;

/// The namespace of the Lease that it is kept in: a place that every cluster has, and the same one for all controllers.
pub const NAMESPACE: &str = "kube-system";
/// The name of that Lease.
pub const NAME: &str = "cadastre-node-ipam-waybill";

/// Where the notes stand.
const NOTES: &str = "ipam.cadastre.dev/on-their-way";

/// How many assignments are written down at once, at most.
const MOST_AT_ONCE: usize = 256;
/// How few may be ready to be sent before more are written down: enough to go on with while that is done. Whoever wrote at once would
/// write for each node.
const FEW_READY: usize = 64;
/// How many assignments stand on the waybill, at most: they have to fit into an annotation, which has at most 256 KiB.
const MOST_NOTED: usize = 1000;

/// Blocks that may be on their way to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The uid of the node.
    pub node: String,
    /// The name of the range that they are from.
    pub range: String,
    /// The blocks, the primary one first.
    pub blocks: Vec<String>,
}

impl From<&Assignment> for Note {
    fn from(assignment: &Assignment) -> Self {
        let blocks = assignment.cidrs.iter().map(ToString::to_string).collect();
        Self { node: assignment.uid.to_string(), range: assignment.range.to_string(), blocks }
    }
}

/// What others have left on the waybill. What nobody can read is not there: only a person can have written it.
pub fn left(page: Option<&Object>) -> Vec<Note> {
    let text = page.map(|page| page.text(&["metadata", "annotations", NOTES])).unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

/// Somebody else wrote the waybill: nothing may be sent before it was read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overtaken;

/// See the module.
#[derive(Debug)]
pub struct Waybill {
    /// Who writes, unlike anybody else and unlike itself before it began anew.
    writer: String,
    /// The revision at which it was last seen; nothing if it was not there.
    revision: Option<String>,
    /// What stands on it and may be on its way.
    noted: BTreeMap<NodeKey, Assignment>,
    /// What is to be written down next.
    next: Vec<Assignment>,
    /// What is being written down.
    underway: Vec<Assignment>,
    /// What may be sent.
    ready: VecDeque<Assignment>,
}

impl Waybill {
    /// The waybill as it was read, before anything else was.
    pub fn new(writer: String, page: Option<&Object>) -> Self {
        Self {
            writer,
            revision: revision(page),
            noted: BTreeMap::new(),
            next: Vec::new(),
            underway: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    /// What others have left on it is meant as it stands there.
    pub fn keep(&mut self, assignments: Vec<Assignment>) {
        self.noted.extend(assignments.into_iter().map(|assignment| (assignment.key, assignment)));
    }

    /// Whether more can be taken; `is_pending` says what can still be on its way.
    pub fn has_room(&mut self, is_pending: impl Fn(&Assignment) -> bool) -> bool {
        let is_full = |own: &Self| own.noted.len() + own.underway.len() + own.next.len() >= MOST_NOTED;
        if is_full(self) {
            self.noted.retain(|_, assignment| is_pending(assignment));
        }
        self.next.len() < MOST_AT_ONCE && !is_full(self)
    }

    /// Whether nothing waits to be written down or sent.
    pub fn is_idle(&self) -> bool {
        self.next.is_empty() && self.underway.is_empty() && self.ready.is_empty()
    }

    /// This is to be sent, as soon as it stands here.
    pub fn want(&mut self, assignment: Assignment) {
        if self.noted.get(&assignment.key) == Some(&assignment) {
            self.ready.push_back(assignment);
        } else {
            self.next.push(assignment);
        }
    }

    /// What should be written now, if anything.
    pub fn turn(&mut self, is_pending: impl Fn(&Assignment) -> bool) -> Option<Value> {
        if self.next.is_empty() || !self.underway.is_empty() || self.ready.len() > FEW_READY {
            return None;
        }
        self.noted.retain(|_, assignment| is_pending(assignment));
        self.next.retain(|assignment| is_pending(assignment));
        self.underway = std::mem::take(&mut self.next);
        let notes: Vec<Note> = self.noted.values().chain(&self.underway).map(Note::from).collect();
        let mut page = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": NAMESPACE, "name": NAME, "annotations": {NOTES: json!(notes).to_string()}},
            "spec": {"holderIdentity": self.writer},
        });
        if let Some(revision) = &self.revision {
            page["metadata"]["resourceVersion"] = json!(revision);
        }
        Some(page)
    }

    /// It was written, and is at that revision.
    pub fn written(&mut self, revision: String) {
        self.revision = Some(revision);
        for assignment in self.underway.drain(..) {
            self.noted.insert(assignment.key, assignment.clone());
            self.ready.push_back(assignment);
        }
    }

    /// Nobody knows whether it was written; it is like this.
    pub fn looked(&mut self, page: Option<&Object>) -> Result<(), Overtaken> {
        let is_own = page.is_some_and(|page| page.text(&["spec", "holderIdentity"]) == self.writer);
        if !is_own && revision(page) != self.revision {
            return Err(Overtaken);
        }
        self.revision = revision(page);
        self.next.splice(..0, self.underway.drain(..));
        Ok(())
    }

    /// What may be sent.
    pub fn send(&mut self) -> Option<Assignment> {
        self.ready.pop_front()
    }
}

fn revision(page: Option<&Object>) -> Option<String> {
    page.map(|page| page.resource_version().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The waybill of a world in which every write is made at once, and `seen` says how many nodes were seen to have their blocks.
    fn send_all(count: u64, seen: impl Fn(u64) -> u64) -> u64 {
        let (mut waybill, mut wanted, mut sent, mut revision) = (Waybill::new("w".to_owned(), None), 0, 0, 0);
        loop {
            let is_pending = |assignment: &Assignment| assignment.key >= NodeKey::numbered(seen(sent));
            while wanted < count && waybill.has_room(is_pending) {
                let (key, cidrs) = (NodeKey::numbered(wanted), Vec::new());
                let (name, uid, range) = ("n".into(), wanted.to_string().into(), "r".into());
                waybill.want(Assignment { key, name, uid, range, cidrs });
                wanted += 1;
            }
            let Some(page) = waybill.turn(is_pending) else { return sent };
            assert!(left(Object::from_value(page).as_ref()).len() <= MOST_NOTED);
            revision += 1;
            waybill.written(revision.to_string());
            while waybill.send().is_some() {
                sent += 1;
            }
        }
    }

    #[test]
    fn what_has_arrived_makes_room_for_more() {
        assert_eq!(send_all(5_000, |sent| sent), 5_000);
    }

    #[test]
    fn as_long_as_there_is_enough_to_send_more_is_gathered() {
        let mut waybill = Waybill::new("w".to_owned(), None);
        let want = |waybill: &mut Waybill, number: u64| {
            let (key, cidrs, name) = (NodeKey::numbered(number), Vec::new(), "n".into());
            waybill.want(Assignment { key, name, uid: number.to_string().into(), range: "r".into(), cidrs });
        };
        for number in 0..100 {
            want(&mut waybill, number);
        }
        assert!(waybill.turn(|_| true).is_some());
        waybill.written("1".to_owned());
        let (mut pages, mut number) = (0, 100);
        while number < 400 {
            want(&mut waybill, number);
            assert!(waybill.send().is_some(), "there is always something to send");
            number += 1;
            if waybill.turn(|_| true).is_some() {
                pages += 1;
                waybill.written(number.to_string());
            }
        }
        assert!((4..=10).contains(&pages), "{pages} pages for 300 nodes that come one after the other");
    }

    #[test]
    fn what_may_be_on_its_way_is_limited() {
        assert_eq!(send_all(5_000, |_| 0), MOST_NOTED as u64);
    }
}
