//! Granting block after block: the search goes on where the last one ended.
//!
//! A growing cluster asks for one size from one range again and again, and best fit then comes to the same node many times
//! in a row. The finger remembers that node, and the hole that a search from the root had chosen: the smallest there was,
//! and the lowest of its size. While nothing but grants by this finger happens, smaller holes can only come from splitting
//! that one, and the smallest of them are in the node that decides the blocks. So if the node has a hole that is no larger,
//! it is what a search from the root would find.

use super::find::longest;
use super::node::{Leaves, Mood, leaves, maximal_rows};
use super::path::{End, Path, Way};
use super::{Fit, Trie};
use crate::prefix::Prefix;
use crate::word::Address;

/// Where the last search for the best fit ended.
#[derive(Debug)]
pub(super) struct Finger<A: Address> {
    /// What was asked for, and the prefix length; nothing when something else has happened since.
    asked: Option<(Source<A>, u8)>,
    /// The piece of it that the search chose.
    within: Prefix<A>,
    /// The hole that the search chose, as a prefix length.
    hole: u8,
    /// The way to the node that decides the block.
    path: Path,
}

impl<A: Address> Finger<A> {
    fn new() -> Self {
        Self { asked: None, within: Prefix::ALL, hole: 0, path: Path::from_root() }
    }
}

/// Names what a grant comes from. The same name means the same pieces, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source<A: Address> {
    /// A range, which is its only piece.
    Range(Prefix<A>),
    /// A view, by its number.
    View(u64),
}

impl<A: Address, O: Eq> Trie<A, O> {
    /// Finds a free block inside one of the `pieces` of a source, which are disjoint and in order, and occupies it on the
    /// same way down. In between, `before` may look at the trie as it is without the block.
    pub(crate) fn grant(
        &mut self,
        (source, pieces): (Source<A>, &[Prefix<A>]),
        length: u8,
        fit: Fit<A>,
        owner: O,
        before: impl FnOnce(&Self, Prefix<A>),
    ) -> Option<Prefix<A>> {
        if fit == Fit::Best && self.cooling == 0 {
            return self.grant_by_finger((source, pieces), length, owner, before);
        }
        let block = self.find_among(pieces, length, fit)?;
        before(self, block);
        self.occupy(block, owner);
        Some(block)
    }

    /// Whatever was remembered is worth nothing after any other change. While something cools, there is nothing to forget:
    /// the release that began it did, and grants do without the finger until it ends.
    pub(super) fn forget_finger(&mut self) {
        if let Some(finger) = &mut self.finger {
            finger.asked = None;
        }
    }

    #[inline]
    fn grant_by_finger(
        &mut self,
        (source, pieces): (Source<A>, &[Prefix<A>]),
        length: u8,
        owner: O,
        before: impl FnOnce(&Self, Prefix<A>),
    ) -> Option<Prefix<A>> {
        let mut finger = self.finger.take().unwrap_or_else(|| Box::new(Finger::new()));
        let next = if finger.asked == Some((source, length)) { self.next_at(&finger, length) } else { None };
        let block = if let Some(block) = next {
            before(self, block);
            self.occupy_here(Way { end: End::Decides, covered: false }, &finger.path, block, owner);
            Some(block)
        } else {
            finger.asked = None;
            finger.path.restart();
            let within = if let [only] = pieces { Some(*only) } else { self.best_piece(pieces, length, Mood::Free) };
            within.and_then(|within| {
                let (block, hole) = self.find_best(within, length, Mood::Free, &mut finger.path)?;
                before(self, block);
                (finger.asked, finger.within, finger.hole) = (Some((source, length)), within, hole);
                self.occupy_from(&mut finger.path, block, owner);
                Some(block)
            })
        };
        self.finger = Some(finger);
        block
    }

    /// The block that a search from the root would find, if it is in the node that the finger is on.
    #[inline]
    fn next_at(&self, finger: &Finger<A>, length: u8) -> Option<Prefix<A>> {
        let within = finger.within;
        let node = self.nodes.get(finger.path.last());
        // The range may be a part of what this node divides.
        let among = if within.length() > node.depth { leaves(node.place(within)) } else { Leaves::MAX };
        let open = among & !(node.covered(Mood::Free) | node.busy);
        let hole = longest(node.own_sizes(open), length).filter(|hole| *hole >= finger.hole)?;
        let leaf = maximal_rows(open)[usize::from(hole - node.depth)].trailing_zeros();
        Some(Prefix::cut(node.first_of(leaf), length))
    }
}
