//! The trie's self-check: everything that is kept up to date is worked out again from the ground and compared.

use super::node::{LEAVES, Leaves, Mood, NONE, Node, STRIDE, ones};
use super::{ROOT, Trie};
use crate::prefix::Prefix;
use crate::word::Address;

impl<A: Address, O: Eq> Trie<A, O> {
    /// Checks every invariant of the trie; the first that does not hold is named.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let mut seen = Seen::default();
        self.audit_node(ROOT, &mut seen)?;
        let arenas = (self.nodes.used(), self.branches.used(), self.claims.used(), self.cooling);
        if arenas != (seen.nodes, seen.branches, seen.claims, seen.cooling) {
            return Err(format!("the trie counts {arenas:?}, a walk finds {seen:?}"));
        }
        Ok(())
    }

    /// Checks the subtree of a node; returns whether anything is held in it.
    fn audit_node(&self, at: u32, seen: &mut Seen) -> Result<bool, String> {
        let node = self.nodes.get(at);
        let name = node.prefix();
        seen.nodes += 1;
        seen.cooling += node.cooling.count_ones() as usize;
        if at != ROOT && (node.is_empty() || node.is_passage()) {
            return Err(format!("node {name} is of no use"));
        }
        if node.busy & !node.kids != 0 {
            return Err(format!("node {name} has busy leaves without a child"));
        }
        if (node.branch == NONE) != (node.kids == 0) {
            return Err(format!("node {name} and its branch disagree about having children"));
        }
        for place in 0..2 * LEAVES {
            let chained = self.chain(node.claims[place]).count();
            seen.claims += chained;
            if (chained > 0) != (node.held & (1 << place) != 0) {
                return Err(format!("place {place} of node {name} has {chained} claims but the mark says otherwise"));
            }
        }
        if let Some(branch) = self.branch(node) {
            seen.branches += 1;
            for leaf in ones(node.kids) {
                let kid = self.nodes.get(branch.kids[leaf]);
                let leaf_block: Prefix<A> = node.block(LEAVES + leaf);
                if kid.depth < leaf_block.length() || !leaf_block.contains(&kid.prefix()) {
                    return Err(format!("node {} hangs below leaf {leaf_block}", kid.prefix()));
                }
                let held = self.audit_node(branch.kids[leaf], seen)?;
                self.audit_notes(at, leaf, kid)?;
                if held != (node.busy & (1 << leaf) != 0) {
                    return Err(format!("node {name} is wrong about whether leaf {leaf_block} is busy"));
                }
            }
        }
        for mood in [Mood::Rested, Mood::Free] {
            if node.sizes(self.branch(node), Leaves::MAX, mood) != node.summary.of(mood) {
                return Err(format!("node {name} has an old summary of itself"));
            }
        }
        Ok(node.state().held)
    }

    /// Checks what a node has noted of the sizes below one leaf: nothing in the root, everything elsewhere.
    fn audit_notes(&self, at: u32, leaf: usize, kid: &Node<A>) -> Result<(), String> {
        let node = self.nodes.get(at);
        let Some(branch) = self.branch(node) else { return Ok(()) };
        let seen = kid.state().seen_from(node.depth + STRIDE, kid.depth);
        for mood in [Mood::Rested, Mood::Free] {
            for length in 1..=A::WIDTH {
                let there = at != ROOT && seen.of(mood) & A::ONE.up(length - 1) != A::ZERO;
                if there != (branch.having(length, mood) & (1 << leaf) != 0) {
                    return Err(format!("node {} is wrong about a free /{length} below leaf {leaf}", node.prefix()));
                }
            }
        }
        Ok(())
    }
}

/// What a walk from the root has met.
#[derive(Debug, Default)]
struct Seen {
    nodes: usize,
    branches: usize,
    claims: usize,
    cooling: usize,
}
