//! The nodes that could not be served, and what they wait for.
//!
//! Who waits because a range is full stands in a queue for blocks of that size from that range, and in one for each other range
//! that was full. When something becomes free in a range, its queues are called: the first of each is tried, and the next as
//! long as the one before was served. So one block that comes back costs one try, however many wait.

use std::collections::{BTreeMap, BTreeSet};

use super::index::{NodeKey, Refused};
use super::range::{Lengths, RangeKey, Refusal};

/// Blocks of one size from one range.
pub(super) type Queue = (RangeKey, Lengths);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The ranges that refused each node.
    nodes: BTreeMap<NodeKey, Vec<RangeKey>>,
    queues: BTreeMap<Queue, BTreeSet<NodeKey>>,
    stands: BTreeMap<NodeKey, Vec<Queue>>,
    called: BTreeSet<Queue>,
}

impl Waiting {
    /// A node that was refused begins to wait, or goes on.
    pub(super) fn stand(&mut self, node: NodeKey, refused: &[Refused]) {
        self.leave(node);
        self.nodes.insert(node, refused.iter().map(|one| one.range).collect());
        let queues: Vec<Queue> = refused.iter().filter_map(queue).collect();
        for queue in &queues {
            self.queues.entry(*queue).or_default().insert(node);
        }
        if !queues.is_empty() {
            self.stands.insert(node, queues);
        }
    }

    /// A node does not wait any more.
    pub(super) fn leave(&mut self, node: NodeKey) {
        self.nodes.remove(&node);
        for queue in self.stands.remove(&node).unwrap_or_default() {
            if let Some(nodes) = self.queues.get_mut(&queue) {
                nodes.remove(&node);
                if nodes.is_empty() {
                    self.queues.remove(&queue);
                    self.called.remove(&queue);
                }
            }
        }
    }

    /// Something became free in a range.
    pub(super) fn call(&mut self, range: RangeKey) {
        let least = (range, Lengths { v4: None, v6: None });
        let queues = self.queues.range(least..).take_while(|((key, _), _)| *key == range);
        self.called.extend(queues.map(|(queue, _)| *queue));
    }

    /// A queue that was called, and its first node.
    pub(super) fn next(&self) -> Option<(Queue, NodeKey)> {
        let queue = *self.called.first()?;
        let node = *self.queues.get(&queue)?.first()?;
        Some((queue, node))
    }

    /// The first node of a queue was refused what it stood for.
    pub(super) fn done(&mut self, queue: Queue) {
        self.called.remove(&queue);
    }

    /// All who wait, with the ranges that refused each.
    pub(super) fn all(&self) -> impl Iterator<Item = (NodeKey, &[RangeKey])> {
        self.nodes.iter().map(|(node, refused)| (*node, refused.as_slice()))
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }
}

/// Where a node that was refused stands, if it was because there was nothing left.
pub(super) fn queue(refused: &Refused) -> Option<Queue> {
    match refused.refusal {
        Refusal::Full(_, lengths) => Some((refused.range, lengths)),
        _ => None,
    }
}
