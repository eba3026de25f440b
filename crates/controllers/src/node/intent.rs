//! What should be written, and what came of it.

use std::sync::Arc;

use serde_json::Value;
use space::Cidr;

use super::index::NodeKey;
use super::range::RangeKey;

/// A write that should be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Write blocks on a node. [`Plan::assigned`](super::Plan::assigned) wants to know what came of it.
    Assign(Assignment),
    /// Write the finalizers of a `ClusterCIDR`. [`Plan::finalized`](super::Plan::finalized) wants to know what came of it.
    Finalize(Finalizers),
    /// Tell people.
    Tell(Event),
}

/// Blocks for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The node.
    pub key: NodeKey,
    /// Its name.
    pub name: Arc<str>,
    /// It must be this one.
    pub uid: Arc<str>,
    /// The range that they are from.
    pub range: Arc<str>,
    /// The blocks, the first is the primary one.
    pub cidrs: Vec<Cidr>,
}

/// Finalizers for a `ClusterCIDR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finalizers {
    /// The range.
    pub key: RangeKey,
    /// Its name.
    pub name: Arc<str>,
    /// It must be at this revision.
    pub resource_version: Box<str>,
    /// All that it should have.
    pub finalizers: Vec<String>,
}

/// What people should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub about: About,
    /// Why it is told, in one word.
    pub reason: &'static str,
    /// All of it.
    pub message: String,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A node.
    Node(Arc<str>, Arc<str>),
    /// A `ClusterCIDR`.
    Range(Arc<str>, Arc<str>),
}

/// What came of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was made.
    Written,
    /// What should have been written to is not there, or is another one.
    Gone,
    /// It was refused, or nobody knows.
    Failed(String),
}

/// A status that should be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusWrite {
    /// The range.
    pub key: RangeKey,
    /// Its name.
    pub name: Arc<str>,
    /// It must be this one.
    pub uid: Arc<str>,
    /// The status.
    pub status: Value,
}
