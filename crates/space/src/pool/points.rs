//! A set of points that knows its order: how many points lie below any point, and which is the n-th that is missing.
//!
//! Sixty-four points share a word; words hang in a path-compressed tree of sixteen children to a node, which counts the
//! points below each child. Memory follows the points, not the width of the space; every operation is bounded by the
//! width, whether the set is empty or full.

use crate::arena::Arena;
use crate::word::Word;

/// Bits of a point that its word decides.
const WORD_BITS: u8 = 6;
/// Bits of a point that a node decides.
const STRIDE: u8 = 4;
const KIDS: usize = 1 << STRIDE;
/// Points to words are told from points to nodes by the highest bit.
const WORD: u32 = 1 << 31;
const NONE: u32 = u32::MAX;

/// How many points a set can hold: far beyond what memory can, so that counts fit their fields.
pub(super) const MOST: u32 = WORD - 1;

#[derive(Clone, Debug)]
struct Node<P> {
    /// The first point below this node.
    base: P,
    /// How many bits of a point are decided below each child.
    shift: u8,
    kids: [u32; KIDS],
    counts: [u32; KIDS],
}

#[derive(Clone, Copy, Debug)]
struct Points64<P> {
    base: P,
    bits: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Points<P> {
    root: u32,
    count: u32,
    nodes: Arena<Node<P>>,
    words: Arena<Points64<P>>,
}

impl<P: Word> Default for Points<P> {
    fn default() -> Self {
        Self { root: NONE, count: 0, nodes: Arena::default(), words: Arena::default() }
    }
}

impl<P: Word> Points<P> {
    /// How many points there are.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn contains(&self, point: P) -> bool {
        let mut at = self.root;
        loop {
            if at == NONE {
                return false;
            }
            if let Some(word) = self.word(at) {
                return word.base == word_base(point) && word.bits & bit(point) != 0;
            }
            let node = self.nodes.get(at);
            if !node.covers(point) {
                return false;
            }
            at = node.kids[node.slot(point)];
        }
    }

    /// Puts a point in; whether it was missing.
    pub(super) fn insert(&mut self, point: P) -> bool {
        let missing = !self.contains(point);
        if missing {
            self.insert_missing(point);
        }
        missing
    }

    /// Puts a point in that is known to be missing: counts change on the way down, so the way must not be in vain.
    pub(super) fn insert_missing(&mut self, point: P) {
        self.count += 1;
        let mut link = Link::Root;
        loop {
            let at = self.follow(link);
            if at == NONE {
                let word = self.new_word(point);
                self.set(link, word);
                return;
            }
            if let Some(word) = self.word(at) {
                if word.base == word_base(point) {
                    self.words.get_mut(at ^ WORD).bits |= bit(point);
                    return;
                }
                self.fork(link, at, word.base, word.bits.count_ones(), point);
                return;
            }
            let node = self.nodes.get_mut(at);
            if !node.covers(point) {
                let (base, below) = (node.base, node.counts.iter().sum());
                self.fork(link, at, base, below, point);
                return;
            }
            let slot = node.slot(point);
            node.counts[slot] += 1;
            link = Link::Kid(at, slot);
        }
    }

    /// Takes a point out; whether it was there.
    pub(super) fn remove(&mut self, point: P) -> bool {
        if !self.contains(point) {
            return false;
        }
        self.count -= 1;
        let mut link = Link::Root;
        let mut above = None;
        loop {
            let at = self.follow(link);
            if let Some(word) = self.word(at) {
                let bits = word.bits & !bit(point);
                self.words.get_mut(at ^ WORD).bits = bits;
                if bits == 0 {
                    self.words.remove(at ^ WORD);
                    self.set(link, NONE);
                    self.shorten(link, above);
                }
                return true;
            }
            let node = self.nodes.get_mut(at);
            let slot = node.slot(point);
            node.counts[slot] -= 1;
            above = Some(link);
            link = Link::Kid(at, slot);
        }
    }

    /// How many points lie below `point`.
    pub(super) fn rank(&self, point: P) -> u32 {
        let mut at = self.root;
        let mut rank = 0;
        loop {
            if at == NONE {
                return rank;
            }
            if let Some(word) = self.word(at) {
                return rank
                    + match word.base.cmp(&word_base(point)) {
                        std::cmp::Ordering::Less => word.bits.count_ones(),
                        std::cmp::Ordering::Equal => (word.bits & (bit(point) - 1)).count_ones(),
                        std::cmp::Ordering::Greater => 0,
                    };
            }
            let node = self.nodes.get(at);
            if !node.covers(point) {
                return if node.base < point { rank + node.counts.iter().sum::<u32>() } else { rank };
            }
            let slot = node.slot(point);
            rank += node.counts[..slot].iter().sum::<u32>();
            at = node.kids[slot];
        }
    }

    /// The missing point that has exactly `index` missing points below it. There must be one.
    pub(super) fn nth_missing(&self, index: P) -> P {
        // Where it would be if no further points lay below it: points are added as they turn out to.
        let mut found = index;
        let mut at = self.root;
        while at != NONE {
            if let Some(word) = self.word(at) {
                return nth_missing_of_word(word, found);
            }
            let node = self.nodes.get(at);
            if found < node.base {
                return found;
            }
            let mut next = NONE;
            let mut last = node.base | P::MAX.down(P::WIDTH - node.shift);
            for slot in 0..KIDS {
                match found.plus(P::narrow(u128::from(node.counts[slot]))) {
                    // The points of this child do not push it beyond the child's end: it lies there.
                    Some(end) if end <= last => {
                        next = node.kids[slot];
                        break;
                    }
                    Some(end) => found = end,
                    None => return found,
                }
                last = last.plus_wrapping(P::ONE.up(node.shift));
            }
            at = next;
        }
        found
    }

    /// The points from `first` to `last`, in order.
    pub(super) fn between(&self, first: P, last: P) -> impl Iterator<Item = P> {
        let mut ahead = vec![self.root];
        let mut word = Points64 { base: P::ZERO, bits: 0 };
        std::iter::from_fn(move || {
            loop {
                if word.bits != 0 {
                    let point = word.base | P::narrow(u128::from(word.bits.trailing_zeros()));
                    word.bits &= word.bits - 1;
                    return Some(point);
                }
                let at = ahead.pop()?;
                if at == NONE {
                    continue;
                }
                if let Some(next) = self.word(at) {
                    word = next.clipped(first, last);
                    continue;
                }
                let node = self.nodes.get(at);
                let end = node.base | P::MAX.down(P::WIDTH.saturating_sub(node.shift + STRIDE));
                if end >= first && node.base <= last {
                    ahead.extend(node.kids.iter().rev());
                }
            }
        })
    }

    fn word(&self, at: u32) -> Option<Points64<P>> {
        (at & WORD != 0).then(|| *self.words.get(at ^ WORD))
    }

    fn follow(&self, link: Link) -> u32 {
        match link {
            Link::Root => self.root,
            Link::Kid(at, slot) => self.nodes.get(at).kids[slot],
        }
    }

    fn set(&mut self, link: Link, to: u32) {
        match link {
            Link::Root => self.root = to,
            Link::Kid(at, slot) => self.nodes.get_mut(at).kids[slot] = to,
        }
    }

    fn new_word(&mut self, point: P) -> u32 {
        let word = Points64 { base: word_base(point), bits: bit(point) };
        WORD | self.words.insert(word)
    }

    /// Puts a node where `there` hangs, with `there` (whose first point is `base`, with `below` points) and `point` under it.
    fn fork(&mut self, link: Link, there: u32, base: P, below: u32, point: P) {
        let highest = P::WIDTH - 1 - (base ^ point).leading_zeros();
        let shift = WORD_BITS + (highest - WORD_BITS) / STRIDE * STRIDE;
        let mask = P::MAX.up(shift.saturating_add(STRIDE));
        let mut node = Node { base: point & mask, shift, kids: [NONE; KIDS], counts: [0; KIDS] };
        let (old, new) = (node.slot(base), node.slot(point));
        node.kids[old] = there;
        node.counts[old] = below;
        node.kids[new] = self.new_word(point);
        node.counts[new] = 1;
        let fork = self.nodes.insert(node);
        self.set(link, fork);
    }

    /// Takes out the node that `link` starts from if it leads to one child only; `above` leads to it.
    fn shorten(&mut self, link: Link, above: Option<Link>) {
        let (Link::Kid(at, _), Some(above)) = (link, above) else { return };
        let mut kids = self.nodes.get(at).kids.iter().filter(|kid| **kid != NONE);
        if let (Some(&only), None) = (kids.next(), kids.next()) {
            self.set(above, only);
            self.nodes.remove(at);
        }
    }
}

/// Where something hangs.
#[derive(Clone, Copy)]
enum Link {
    Root,
    Kid(u32, usize),
}

impl<P: Word> Node<P> {
    fn covers(&self, point: P) -> bool {
        (self.base ^ point).down(self.shift + STRIDE) == P::ZERO
    }

    fn slot(&self, point: P) -> usize {
        (point.down(self.shift).wide() & 0xf) as usize
    }
}

impl<P: Word> Points64<P> {
    /// Without the points below `first` and above `last`.
    fn clipped(self, first: P, last: P) -> Self {
        let end = self.base | P::narrow(63);
        if end < first || self.base > last {
            return Self { bits: 0, ..self };
        }
        let from = if self.base < first { !(bit(first) - 1) } else { u64::MAX };
        let to = if end > last { bit(last) | (bit(last) - 1) } else { u64::MAX };
        Self { bits: self.bits & from & to, ..self }
    }
}

/// The answer of `nth_missing` when only the points of this word may lie below it.
fn nth_missing_of_word<P: Word>(word: Points64<P>, found: P) -> P {
    if found < word.base {
        return found;
    }
    let skip = found.minus_wrapping(word.base).wide();
    let missing = u128::from(word.bits.count_zeros());
    if skip >= missing {
        return found.plus_wrapping(P::narrow(u128::from(word.bits.count_ones())));
    }
    word.base | P::narrow(u128::from(nth_one(!word.bits, skip as u32)))
}

/// The index of the set bit that has `skip` set bits below it: halves the word six times.
fn nth_one(bits: u64, skip: u32) -> u32 {
    let (mut bits, mut skip, mut index) = (bits, skip, 0);
    for half in [32, 16, 8, 4, 2, 1] {
        let low = (bits & ((1 << half) - 1)).count_ones();
        if skip >= low {
            skip -= low;
            bits >>= half;
            index += half;
        }
    }
    index
}

fn word_base<P: Word>(point: P) -> P {
    point & P::MAX.up(WORD_BITS)
}

fn bit<P: Word>(point: P) -> u64 {
    1 << (point.wide() & 63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use testkit::choices::{Choices, Seeded};

    /// What hangs at `at`: points, nodes and words. Nothing may hang there without need.
    fn walk<P: Word>(points: &Points<P>, at: u32) -> (u32, usize, usize) {
        if let Some(word) = points.word(at) {
            assert_ne!(word.bits, 0, "a word without points");
            return (word.bits.count_ones(), 0, 1);
        }
        let node = points.nodes.get(at);
        let kids = node.kids.iter().zip(node.counts).filter(|(kid, _)| **kid != NONE);
        assert!(kids.clone().count() > 1, "a node that leads to one child only");
        let mut found = (0, 1, 0);
        for (kid, count) in kids {
            let below = walk(points, *kid);
            assert_eq!(below.0, count, "what a node counts below a child");
            found = (found.0 + below.0, found.1 + below.1, found.2 + below.2);
        }
        assert_eq!(node.counts.iter().sum::<u32>(), found.0, "a count without a child");
        found
    }

    fn check_memory<P: Word>() {
        let mut choices = Seeded::new(1);
        let (mut points, mut expected) = (Points::<P>::default(), BTreeSet::new());
        for round in 0..4_000 {
            let near = P::narrow(u128::from(choices.below(200)));
            let point = near ^ P::ONE.up(choices.below(u64::from(P::WIDTH)) as u8);
            // Waves: more come than go, then more go than come.
            if choices.below(8) < if round / 500 % 2 == 0 { 6 } else { 2 } {
                assert_eq!(points.insert(point), expected.insert(point));
            } else {
                assert_eq!(points.remove(point), expected.remove(&point));
            }
            let found = if points.root == NONE { (0, 0, 0) } else { walk(&points, points.root) };
            assert_eq!((points.count, points.nodes.used(), points.words.used()), found);
            assert_eq!(points.count as usize, expected.len());
        }
        assert!(expected.into_iter().all(|point| points.remove(point)));
        assert_eq!((points.root, points.nodes.used(), points.words.used()), (NONE, 0, 0));
    }

    #[test]
    fn memory_follows_the_points() {
        check_memory::<u16>();
        check_memory::<u32>();
        check_memory::<u128>();
    }
}
