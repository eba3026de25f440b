//! Keeping the trie true after a change: summaries, the notes that parents keep of their children, and its shape.
//!
//! A change begins at one node and goes up. Mostly only the free sizes differ, and of those a parent is told only what
//! no other child of it has; so a change goes as far up as it matters, and no further.

use super::node::{Branch, LEAVES, Mood, NONE, STRIDE, State, Summary, leaves};
use super::path::Path;
use super::{ROOT, Trie};
use crate::word::Address;

impl<A: Address, O: Eq> Trie<A, O> {
    /// Brings the summary of a node up to date after one of its places was taken or let go.
    #[inline]
    pub(super) fn places_changed(&mut self, at: u32, place: usize) {
        let node = self.nodes.get_mut(at);
        node.summarise_places();
        if leaves(place) & node.kids != 0 && at != ROOT {
            // Children came under cover or out from under it: rare, since that takes two owners of one address.
            let node = self.nodes.get(at);
            let branch = self.branch(node);
            let [free, rested] = [Mood::Free, Mood::Rested].map(|mood| node.sizes(branch, u16::MAX, mood));
            self.nodes.get_mut(at).summary = Summary { free, unrested: free ^ rested };
        }
    }

    /// Hangs `kid`, or nothing, below a leaf of `parent`. `before` is what was free there as the parent knew it.
    pub(super) fn hang(&mut self, parent: u32, leaf: usize, kid: Option<u32>, before: Summary<A>) {
        let from = self.nodes.get(parent).depth + STRIDE;
        let (after, held) = match kid.map(|kid| self.nodes.get(kid)) {
            Some(child) => (child.state().seen_from(from, child.depth), child.state().held),
            None => (Summary::default(), false),
        };
        let node = self.nodes.get_mut(parent);
        if node.branch == NONE {
            node.branch = self.branches.insert(Branch::new());
        }
        let branch = self.branches.get_mut(node.branch);
        branch.kids[leaf] = kid.unwrap_or(NONE);
        if parent != ROOT {
            node.flip(branch, leaf, before.differs(&after), self.cooling > 0);
        }
        let kids = node.kids & !(1 << leaf) | u16::from(kid.is_some()) << leaf;
        let busy = node.busy & !(1 << leaf) | u16::from(held) << leaf;
        if (kids, busy) != (node.kids, node.busy) {
            (node.kids, node.busy) = (kids, busy);
            node.summarise_places();
        }
        if kids == 0 {
            self.branches.remove(node.branch);
            node.branch = NONE;
        }
    }

    /// After the last node of a path changed from the state it was in: takes out nodes that are of no more use, and tells
    /// each parent what it has to know, up to where nothing is news any more.
    #[inline]
    pub(super) fn climb(&mut self, path: &Path, was: State<A>) {
        let mut was = was;
        for index in (1..path.used).rev() {
            let (at, parent) = (path.nodes[index], path.nodes[index - 1]);
            let node = self.nodes.get(at);
            let now = node.state();
            let useless = node.is_empty() || node.is_passage();
            if !useless && now.held == was.held {
                let flips = now.summary.differs(&was.summary);
                if now.held {
                    return self.spread(path, index, flips);
                }
                // Only cooling changed: what is free is the parent's own while nobody holds anything here.
                let unrested = flips.free ^ flips.unrested;
                return self.spread(path, index, Summary { free: A::ZERO, unrested });
            }
            let above = self.nodes.get(parent);
            let before = was.seen_from(above.depth + STRIDE, node.depth);
            was = above.state();
            let stays = if useless { self.kid(node, node.kids.trailing_zeros() as usize % LEAVES) } else { Some(at) };
            self.hang(parent, usize::from(path.leaves[index - 1]), stays, before);
            if useless {
                self.remove_node(at);
            }
        }
    }

    /// The rest of a climb, and mostly all of it: sizes came or went in the node at `index` of a path, nothing else
    /// changed, and so nothing else can change above it.
    #[inline]
    fn spread(&mut self, path: &Path, index: usize, flips: Summary<A>) {
        if self.cooling > 0 {
            return self.spread_in_both_moods(path, index, flips);
        }
        let mut flips = flips.free;
        for (at, leaf) in path.upwards(index) {
            if flips == A::ZERO {
                return;
            }
            let node = self.nodes.get_mut(at);
            let covered = node.covered(Mood::Free);
            flips = self.branches.get_mut(node.branch).flip(leaf, flips, covered);
            node.summary.free = node.summary.free ^ flips;
        }
    }

    fn spread_in_both_moods(&mut self, path: &Path, index: usize, flips: Summary<A>) {
        let mut flips = flips;
        for (at, leaf) in path.upwards(index) {
            let node = self.nodes.get_mut(at);
            flips = node.flip(self.branches.get_mut(node.branch), leaf, flips, true);
        }
    }

    fn remove_node(&mut self, at: u32) {
        let branch = self.nodes.get(at).branch;
        if branch != NONE {
            self.branches.remove(branch);
        }
        self.nodes.remove(at);
    }
}
