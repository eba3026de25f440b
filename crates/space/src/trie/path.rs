//! Ways through the trie: walking towards a block, and remembering how.

use super::node::{Mood, STRIDE};
use super::{Occupied, ROOT, Trie};
use crate::prefix::Prefix;
use crate::word::Address;

/// The longest way from the root to a node: one node for each digit of an IPv6 address.
const LONGEST_PATH: usize = 128 / STRIDE as usize;

/// What a walk from the root towards a block found.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub(super) end: End,
    /// Whether somebody holds a block around it in a node above the last.
    pub(super) covered: bool,
}

impl Way {
    pub(super) fn found(self, in_the_way: bool) -> Occupied {
        if self.covered || in_the_way { Occupied::Shared } else { Occupied::Alone }
    }
}

/// Where a way ends.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// At the node that decides the block.
    Decides,
    /// Below a leaf with no child.
    NoChild,
    /// On the compressed edge to this child.
    OnEdgeTo(u32),
}

/// The nodes from the root downwards.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) nodes: [u32; LONGEST_PATH],
    /// The leaf of each node that leads to the next.
    pub(super) leaves: [u8; LONGEST_PATH],
    pub(super) used: usize,
}

impl Path {
    pub(super) fn from_root() -> Self {
        Self { nodes: [ROOT; LONGEST_PATH], leaves: [0; LONGEST_PATH], used: 1 }
    }

    pub(super) fn restart(&mut self) {
        self.used = 1;
    }

    pub(super) fn push(&mut self, leaf: usize, node: u32) {
        self.leaves[self.used - 1] = leaf as u8;
        self.nodes[self.used] = node;
        self.used += 1;
    }

    #[inline]
    pub(super) fn last(&self) -> u32 {
        self.nodes[self.used - 1]
    }

    /// The nodes above the one at `index` but for the root, the nearest first, each with its leaf that leads down.
    #[inline]
    pub(super) fn upwards(&self, index: usize) -> impl Iterator<Item = (u32, usize)> {
        let above = 1..index.max(1);
        let leaves = self.leaves[above.clone()].iter().rev().map(|leaf| usize::from(*leaf));
        self.nodes[above].iter().rev().copied().zip(leaves)
    }
}

impl<A: Address, O: Eq> Trie<A, O> {
    /// Walks towards `prefix` as far as there are nodes.
    #[inline]
    pub(super) fn walk_towards(&self, prefix: Prefix<A>, path: &mut Path) -> Way {
        let mut covered = false;
        loop {
            let node = self.nodes.get(path.last());
            if node.decides(prefix.length()) {
                return Way { end: End::Decides, covered };
            }
            let leaf = node.leaf(prefix.first());
            covered |= node.covered(Mood::Free) & (1 << leaf) != 0;
            let Some(kid) = self.kid(node, leaf) else {
                return Way { end: End::NoChild, covered };
            };
            let child = self.nodes.get(kid);
            if prefix.length() <= child.depth || child.shared(prefix.first()) < child.depth {
                return Way { end: End::OnEdgeTo(kid), covered };
            }
            path.push(leaf, kid);
        }
    }

    /// Walks to the node that decides `prefix`; whether that node is there.
    pub(super) fn walk_to(&self, prefix: Prefix<A>, path: &mut Path) -> bool {
        matches!(self.walk_towards(prefix, path).end, End::Decides)
    }
}
