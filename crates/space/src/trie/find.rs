//! Looking for free space.
//!
//! Every node has the set of sizes that are free below it, so a search never goes where there is nothing for it: best
//! fit is one descent, and first fit looks at each leaf of the nodes on its way once. Neither depends on how full the trie
//! is. Counting does: it visits what is taken inside the block that is counted.

#![allow(clippy::inline_always, reason = "one copy for each mood, so that the search does not ask at each step")]

use super::node::{
    LEAVES, Leaves, Mood, Node, STRIDE, Sizes, leaves, lengths, maximal_rows, ones, places_above, up_to,
};
use super::path::Path;
use super::{ROOT, Trie};
use crate::prefix::Prefix;
use crate::word::Address;

/// Which of the free blocks to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit<A> {
    /// The smallest hole that is large enough, then the lowest address: keeps large holes whole.
    #[default]
    Best,
    /// The lowest address.
    First,
    /// The lowest address that is not below this one, then from the start again.
    Next(A),
}

/// What a block looks like from the inside.
#[derive(Clone, Copy)]
enum Region {
    /// Nothing in it is taken.
    Open,
    /// It lies inside something that is taken.
    Taken,
    /// Some of it is taken.
    Part(Part),
}

/// Some leaves of a node and, when those are all, the free space beside the compressed edge that leads to it.
#[derive(Clone, Copy)]
struct Part {
    node: u32,
    among: Leaves,
    /// The length at which the edge begins; the depth of the node where there is none to look at.
    edge_from: u8,
}

impl Part {
    /// A node and the edge to it, from `length` down.
    fn below(length: u8, node: u32) -> Self {
        Self { node, among: Leaves::MAX, edge_from: length }
    }
}

impl<A: Address, O: Eq> Trie<A, O> {
    /// Whether nobody holds any of `prefix`.
    pub(crate) fn is_free(&self, prefix: Prefix<A>) -> bool {
        matches!(self.region(prefix, Mood::Free, &mut Path::from_root()), Region::Open)
    }

    /// A free block of `length` inside `within`. Blocks that are cooling down are taken only when there is no other.
    pub(crate) fn find(&self, within: Prefix<A>, length: u8, fit: Fit<A>) -> Option<Prefix<A>> {
        let path = &mut Path::from_root();
        if self.cooling > 0 {
            let rested = self.find_in_mood(within, length, fit, Mood::Rested, path);
            if rested.is_some() {
                return rested;
            }
            path.restart();
        }
        self.find_in_mood(within, length, fit, Mood::Free, path)
    }

    /// The same inside one of `pieces`, which are disjoint and in order.
    pub(crate) fn find_among(&self, pieces: &[Prefix<A>], length: u8, fit: Fit<A>) -> Option<Prefix<A>> {
        if let [within] = pieces {
            return self.find(*within, length, fit);
        }
        let careful = [Mood::Rested].into_iter().filter(|_| self.cooling > 0);
        careful.chain([Mood::Free]).find_map(|mood| self.find_among_in_mood(pieces, length, fit, mood))
    }

    fn find_among_in_mood(&self, pieces: &[Prefix<A>], length: u8, fit: Fit<A>, mood: Mood) -> Option<Prefix<A>> {
        let path = &mut Path::from_root();
        let mut find_by = |piece: &Prefix<A>, fit| {
            path.restart();
            self.find_in_mood(*piece, length, fit, mood, path)
        };
        match fit {
            Fit::First => pieces.iter().find_map(|piece| find_by(piece, fit)),
            Fit::Best => self.best_piece(pieces, length, mood).and_then(|piece| find_by(&piece, fit)),
            Fit::Next(from) => {
                // Only the piece around `from` may have to be searched twice, before and after all others.
                let passed = pieces.partition_point(|piece| piece.last() < from);
                let (before, after) = pieces.split_at(passed);
                let not_below = |block: &Prefix<A>| block.first() >= from;
                let around = after.iter().take(1).find_map(|piece| find_by(piece, fit).filter(not_below));
                around.or_else(|| {
                    let rest = after.iter().skip(1).chain(before).chain(after.iter().take(1));
                    rest.into_iter().find_map(|piece| find_by(piece, Fit::First))
                })
            }
        }
    }

    #[inline(always)]
    fn find_in_mood(
        &self,
        within: Prefix<A>,
        length: u8,
        fit: Fit<A>,
        mood: Mood,
        path: &mut Path,
    ) -> Option<Prefix<A>> {
        if length < within.length() || length > A::WIDTH {
            return None;
        }
        if fit == Fit::Best {
            return self.find_best(within, length, mood, path).map(|(block, _)| block);
        }
        let region = self.region(within, mood, path);
        let from = if let Fit::Next(from) = fit { from } else { within.first() };
        let first_from = |from| match region {
            Region::Open => first_in(within, length, from),
            Region::Taken => None,
            Region::Part(part) => self.first(part, length, from, mood),
        };
        first_from(from).or_else(|| if from == within.first() { None } else { first_from(within.first()) })
    }

    /// A free block by best fit, and the hole it comes from as a prefix length.
    #[inline(always)]
    pub(super) fn find_best(
        &self,
        within: Prefix<A>,
        length: u8,
        mood: Mood,
        path: &mut Path,
    ) -> Option<(Prefix<A>, u8)> {
        if length < within.length() || length > A::WIDTH {
            return None;
        }
        match self.region(within, mood, path) {
            Region::Open => Some((Prefix::cut(within.first(), length), within.length())),
            Region::Taken => None,
            Region::Part(part) => self.best(part, length, mood, path),
        }
    }

    /// The length of the largest block inside `within` that nobody holds.
    pub(crate) fn largest_free(&self, within: Prefix<A>) -> Option<u8> {
        let sizes = match self.region(within, Mood::Free, &mut Path::from_root()) {
            Region::Open => return Some(within.length()),
            Region::Taken => return None,
            Region::Part(part) => self.sizes(part, Mood::Free),
        };
        (sizes != A::ZERO).then(|| sizes.trailing_zeros() + 1)
    }

    /// The piece that has the smallest hole for `length`, the first of those that have it.
    pub(super) fn best_piece(&self, pieces: &[Prefix<A>], length: u8, mood: Mood) -> Option<Prefix<A>> {
        let mut best = None;
        for piece in pieces.iter().filter(|piece| piece.length() <= length) {
            let hole = self.best_hole(*piece, length, mood);
            if hole > best.map(|(hole, _)| hole) {
                best = hole.map(|hole| (hole, *piece));
                // No hole fits better than one of the very size.
                if hole == Some(length) {
                    break;
                }
            }
        }
        best.map(|(_, piece)| piece)
    }

    /// The size of the hole that best fit would take for `length` inside `within`, as a prefix length.
    fn best_hole(&self, within: Prefix<A>, length: u8, mood: Mood) -> Option<u8> {
        match self.region(within, mood, &mut Path::from_root()) {
            Region::Open => Some(within.length()).filter(|hole| *hole <= length),
            Region::Taken => None,
            Region::Part(part) => longest(self.sizes(part, mood), length),
        }
    }

    /// How many blocks of `length` inside `within` nobody holds any part of, modulo 2^128.
    pub(crate) fn count_free(&self, within: Prefix<A>, length: u8) -> u128 {
        if length > A::WIDTH {
            return 0;
        }
        match self.region(within, Mood::Free, &mut Path::from_root()) {
            Region::Open => count_in(within.length(), length),
            Region::Taken => 0,
            Region::Part(part) => self.count(part, length),
        }
    }

    /// Walks to `prefix` and tells what it looks like.
    #[inline(always)]
    fn region(&self, prefix: Prefix<A>, mood: Mood, path: &mut Path) -> Region {
        loop {
            let at = path.last();
            let node = self.nodes.get(at);
            let (covered, busy) = (node.covered(mood), node.busy(mood));
            let leaf = node.leaf(prefix.first());
            if node.decides(prefix.length()) {
                let place = node.place(prefix);
                let below = leaves(place);
                if node.taken(mood) & places_above(place) != 0 {
                    return Region::Taken;
                }
                if below & (covered | busy) == 0 {
                    return Region::Open;
                }
                return Region::Part(match self.kid(node, leaf) {
                    Some(kid) if place >= LEAVES => Part::below(prefix.length(), kid),
                    _ => Part { node: at, among: below, edge_from: node.depth },
                });
            }
            if covered & (1 << leaf) != 0 {
                return Region::Taken;
            }
            let Some(kid) = self.kid(node, leaf).filter(|_| busy & (1 << leaf) != 0) else {
                return Region::Open;
            };
            let child = self.nodes.get(kid);
            if child.shared(prefix.first()) < child.depth.min(prefix.length()) {
                return Region::Open;
            }
            if prefix.length() <= child.depth {
                return Region::Part(Part::below(prefix.length(), kid));
            }
            path.push(leaf, kid);
        }
    }

    /// The maximal free blocks of a part.
    #[inline]
    fn sizes(&self, part: Part, mood: Mood) -> Sizes<A> {
        let node = self.nodes.get(part.node);
        if part.node == ROOT {
            let own = node.sizes(None, part.among, mood);
            return self.below_root(part.among, mood).fold(own, |sizes, (_, below)| sizes | below);
        }
        if part.among == Leaves::MAX {
            return node.summary.of(mood) | lengths(part.edge_from + 1, node.depth);
        }
        node.sizes(self.branch(node), part.among, mood)
    }

    /// The leaves of the root among these that have a child, and the sizes free below each.
    fn below_root(&self, among: Leaves, mood: Mood) -> impl Iterator<Item = (usize, Sizes<A>)> {
        let root = self.nodes.get(ROOT);
        ones(among & root.busy(mood) & !root.covered(mood)).filter_map(move |leaf| {
            let child = self.nodes.get(self.kid(root, leaf)?);
            Some((leaf, child.state().seen_from(STRIDE, child.depth).of(mood)))
        })
    }

    /// The lowest block in the smallest hole of a part that is large enough, and that hole as a prefix length.
    #[inline(always)]
    fn best(&self, part: Part, length: u8, mood: Mood, path: &mut Path) -> Option<(Prefix<A>, u8)> {
        // The hole to take is known before the descent; the way down only looks for its size.
        let hole = longest(self.sizes(part, mood), length)?;
        let (mut node, mut among) = (self.nodes.get(part.node), part.among);
        if part.node != path.last() && hole > node.depth {
            path.push(self.nodes.get(path.last()).leaf(node.bits), part.node);
        }
        loop {
            if hole <= node.depth {
                let beside = Prefix::cut(node.bits, hole).sibling()?;
                return Some((Prefix::cut(beside.first(), length), hole));
            }
            let open = among & !node.covered(mood);
            if node.decides(hole) {
                let rows = maximal_rows(open & !node.busy(mood));
                let leaf = rows[usize::from(hole - node.depth)].trailing_zeros();
                return Some((Prefix::cut(node.first_of(leaf), length), hole));
            }
            let branch = self.branches.get(node.branch);
            let leaf = if node.depth > 0 {
                (branch.having(hole, mood) & open).trailing_zeros() as usize % LEAVES
            } else {
                let size = A::ONE.up(hole - 1);
                self.below_root(among, mood).find(|(_, sizes)| *sizes & size != A::ZERO)?.0
            };
            let kid = branch.kids[leaf];
            (node, among) = (self.nodes.get(kid), Leaves::MAX);
            if hole > node.depth {
                path.push(leaf, kid);
            }
        }
    }

    /// The lowest free block of `length` in a part that begins at `from` or above.
    fn first(&self, part: Part, length: u8, from: A, mood: Mood) -> Option<Prefix<A>> {
        longest(self.sizes(part, mood), length)?;
        let node = self.nodes.get(part.node);
        let beside = |depth: u8| Prefix::cut(node.bits, depth).sibling();
        let edge = part.edge_from + 1..=node.depth;
        let before = edge.clone().filter_map(beside).filter(|block| block.first() < node.bits);
        let after = edge.rev().filter_map(beside).filter(|block| block.first() > node.bits);
        let first_in = |block: Prefix<A>| first_in(block, length, from);
        before
            .into_iter()
            .find_map(first_in)
            .or_else(|| self.first_below(node, part.among, length, from, mood))
            .or_else(|| after.into_iter().find_map(first_in))
    }

    /// The same below some leaves of a node.
    fn first_below(&self, node: &Node<A>, among: Leaves, length: u8, from: A, mood: Mood) -> Option<Prefix<A>> {
        let mut left = among & !node.covered(mood);
        while left != 0 {
            let leaf = left.trailing_zeros();
            let (block, kid) = self.next_block(node, leaf, left, mood);
            left &= !leaves(node.place(block));
            if block.last() < from {
                continue;
            }
            let found = match kid {
                None => first_in(block, length, from),
                Some(kid) => self.first(Part::below(node.depth + STRIDE, kid), length, from, mood),
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// What begins at `leaf`: the largest open block among `left`, or a leaf that has a child.
    fn next_block(&self, node: &Node<A>, leaf: u32, left: Leaves, mood: Mood) -> (Prefix<A>, Option<u32>) {
        let busy = node.busy(mood);
        let of_row = |row| Prefix::cut(node.first_of(leaf), node.depth + row);
        if busy & (1 << leaf) != 0 {
            return (of_row(STRIDE), self.kid(node, leaf as usize));
        }
        let rows = maximal_rows(left & !busy);
        let row = (1..=STRIDE).find(|row| rows[usize::from(*row)] & (1 << leaf) != 0);
        (of_row(row.unwrap_or(STRIDE)), None)
    }

    /// How many free blocks of `length` a part has, modulo 2^128.
    fn count(&self, part: Part, length: u8) -> u128 {
        if longest(self.sizes(part, Mood::Free), length).is_none() {
            return 0;
        }
        let node = self.nodes.get(part.node);
        let open = part.among & !node.covered(Mood::Free);
        let beside = (part.edge_from + 1..=node.depth).map(|depth| count_in(depth, length));
        let rows = maximal_rows(open & !node.busy);
        let own = (1..=STRIDE).map(|row| {
            let blocks = u128::from(rows[usize::from(row)].count_ones());
            blocks.wrapping_mul(count_in(node.depth + row, length))
        });
        let kids = ones(open & node.busy).filter_map(|leaf| self.kid(node, leaf));
        let below = kids.map(|kid| self.count(Part::below(node.depth + STRIDE, kid), length));
        beside.chain(own).chain(below).fold(0, u128::wrapping_add)
    }
}

/// The smallest of the free sizes that is large enough for `length`, as a prefix length.
#[inline]
pub(super) fn longest<A: Address>(sizes: Sizes<A>, length: u8) -> Option<u8> {
    let fitting = sizes & up_to::<A>(length);
    (fitting != A::ZERO).then(|| A::WIDTH - fitting.leading_zeros())
}

/// The first block of `length` in an open block that begins at `from` or above.
fn first_in<A: Address>(open: Prefix<A>, length: u8, from: A) -> Option<Prefix<A>> {
    if length < open.length() {
        return None;
    }
    if from <= open.first() {
        return Some(Prefix::cut(open.first(), length));
    }
    let around = Prefix::cut(from, length);
    let start = if around.first() == from { from } else { around.last().plus(A::ONE)? };
    (start <= open.last()).then(|| Prefix::cut(start, length))
}

/// How many blocks of `length` an open block of length `open` holds, modulo 2^128.
fn count_in(open: u8, length: u8) -> u128 {
    length.checked_sub(open).map_or(0, |bits| 1_u128.checked_shl(u32::from(bits)).unwrap_or(0))
}
