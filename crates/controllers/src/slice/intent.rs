//! What should be written, looked at and told, and what came of it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::layout::Write;
use super::orphans::{Hush, Orphan, OrphanEntry, Reservation};

/// Something that should be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Intent {
    /// Write a `NodeSlicePool`: create it if it has no revision, otherwise replace the one of that revision.
    /// [`Plan::written`](super::Plan::written) wants to know what came of it.
    Write(Box<Write>),
    /// Delete a `NodeSlicePool`. [`Plan::written`](super::Plan::written) wants to know what came of it.
    Delete(Deletion),
    /// List all `IPPool`s. [`Plan::recalled`](super::Plan::recalled) wants to know them.
    Recall,
    /// List the `IPPool`s that no node has. [`Plan::surveyed`](super::Plan::surveyed) wants to know them.
    Survey,
    /// See whether pods that have not ended are bound to that node, which is gone. [`Plan::looked`](super::Plan::looked) wants
    /// to know.
    Look(String),
    /// List the `IPPool`s that nodes have. [`Plan::swept`](super::Plan::swept) wants to know whose they are.
    Sweep,
    /// Delete an `IPPool` of a node that is gone, of which nothing uses anything any more, and all reservations of the node before it.
    Discard(Remains),
    /// List the reservations that no node has a label on, and then all pods. [`Plan::pods_found`](super::Plan::pods_found) wants to know them,
    /// and which of these pods, `namespace/name`, and of those of the reservations are there.
    FindPods(BTreeSet<String>),
    /// See whether the pod of an orphan is there, and which nodes say that its container runs. [`Plan::pod_found`](super::Plan::pod_found)
    /// wants to know.
    FindPod(Orphan),
    /// Take entries out of their `IPPool`, which is one, if they still are as they are given, and the reservations of the addresses before
    /// them. [`Plan::taken_out`](super::Plan::taken_out) wants to know when that came to its end.
    TakeOut(Vec<OrphanEntry>),
    /// Delete a reservation, if it still is as it is given. [`Plan::released`](super::Plan::released) wants to know when that came to its
    /// end.
    Release(Orphan, Reservation),
    /// Take out of an `IPPool` what nodes say there, if it still is that. Nothing comes back.
    Hush(Hush),
    /// Tell people.
    Tell(Event),
}

/// A `NodeSlicePool` that should go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Its name.
    pub name: String,
    /// It must be at this revision.
    pub resource_version: String,
}

/// An `IPPool` that a node left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// The node, or its label. If there is one of that name again, the `IPPool` is its.
    pub node: String,
    /// The name of the `IPPool`.
    pub pool: String,
}

/// What came of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was made; the object has this revision now.
    Written(String),
    /// It was refused, or nobody knows.
    Failed(String),
}

/// What people should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The definition that it is about.
    pub about: Subject,
    /// Why it is told, in one word.
    pub reason: &'static str,
    /// All of it.
    pub message: String,
}

/// A `NetworkAttachmentDefinition`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which of all that ever had this name it is.
    pub uid: String,
}

impl Subject {
    /// The version that definitions have.
    pub const API_VERSION: &str = "k8s.cni.cncf.io/v1";
    /// Their kind.
    pub const KIND: &str = "NetworkAttachmentDefinition";

    /// A reference by which something goes with the definition. It says all that a reference must say, wherever the definition
    /// was read.
    pub fn owner(&self) -> Value {
        json!({"apiVersion": Self::API_VERSION, "kind": Self::KIND, "name": self.name, "uid": self.uid})
    }
}

/// An `IPPool` with addresses that somebody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// Its name.
    pub name: String,
    /// Its range, as it is written.
    pub range: String,
}
