//! One node of the trie: one hexadecimal digit of the address.
//!
//! A node at depth `d` decides the blocks of lengths `d + 1` to `d + 4`. They form a small binary tree that is numbered
//! like a heap: place 1 is the node's own block, places 2 and 3 its halves, and so on to places 16..32, its sixteen
//! leaves. Longer blocks live in the children, which hang below the leaves. Everything in this file is arithmetic on
//! sixteen bits, one for each leaf, the lowest address in the lowest bit.
//!
//! ```text
//!   row 0                          1                       length d (used in the root only)
//!   row 1              2                       3           length d+1
//!   row 2        4           5           6           7     length d+2
//!   row 3     8     9     10    11    12    13    14    15 length d+3
//!   row 4   16 17 18 19  20 21 22 23 24 25 26 27 28 29 ... length d+4
//! ```

use crate::prefix::Prefix;
use crate::word::Address;

/// How many address bits one node decides.
pub(super) const STRIDE: u8 = 4;
/// How many leaves, and so how many possible children, a node has.
pub(super) const LEAVES: usize = 1 << STRIDE;
/// How many places the heap of a node has; place 0 is never used.
pub(super) const PLACES: usize = 2 * LEAVES;
/// An index that points nowhere.
pub(super) const NONE: u32 = u32::MAX;

/// A set of places of one node, a bit for each.
pub(super) type Places = u32;
/// A set of leaves of one node, a bit for each.
pub(super) type Leaves = u16;

/// Which block sizes are free somewhere: bit `length - 1` stands for a *maximal* free block of that length, one whose
/// enclosing block is not free as a whole. `/0` needs no bit: an empty trie is seen at its root.
pub(super) type Sizes<A> = A;

/// The free sizes below something, in both moods of looking for space.
///
/// The second mood is kept as its difference from the first: where nothing is cooling it is zero and costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary<A> {
    /// Sizes of space that nobody holds.
    pub(super) free: Sizes<A>,
    /// Sizes in which the space that is also rested differs from that.
    pub(super) unrested: Sizes<A>,
}

#[derive(Debug)]
pub(super) struct Node<A> {
    /// The block this node divides, of length `depth`.
    pub(super) bits: A,
    pub(super) depth: u8,
    /// Leaves that have a child.
    pub(super) kids: Leaves,
    /// Leaves that have a child below which somebody holds something. The others only remember what is cooling.
    pub(super) busy: Leaves,
    /// Places that somebody holds.
    pub(super) held: Places,
    /// Places that were released a short while ago.
    pub(super) cooling: Places,
    /// Where the children are, `NONE` while there is none.
    pub(super) branch: u32,
    pub(super) summary: Summary<A>,
    /// The first claim on each held place.
    pub(super) claims: [u32; PLACES],
}

/// The children of a node. Apart from `Node`, because fifteen nodes of sixteen have no children in a full trie.
#[derive(Debug)]
pub(super) struct Branch<A: Address> {
    pub(super) kids: [u32; LEAVES],
    /// For each size, the leaves below which it is free: a search picks its leaf with one look, and a change touches only
    /// the sizes that changed.
    free: A::PerLength,
    /// For each size, the leaves where that differs for space that is rested.
    unrested: A::PerLength,
}

impl<A: Address> Branch<A> {
    pub(super) fn new() -> Self {
        Self { kids: [NONE; LEAVES], free: A::NO_LENGTHS, unrested: A::NO_LENGTHS }
    }

    /// The leaves below which a maximal block of `length` is free.
    #[inline]
    pub(super) fn having(&self, length: u8, mood: Mood) -> Leaves {
        let index = usize::from(length) - 1;
        let free = self.free.as_ref()[index];
        match mood {
            Mood::Free => free,
            Mood::Rested => free ^ self.unrested.as_ref()[index],
        }
    }

    /// Takes note that some sizes came or went below a leaf, and tells which of them came or went below the whole node:
    /// those that no other leaf has. For a trie in which nothing is cooling.
    #[inline]
    pub(super) fn flip(&mut self, leaf: usize, flips: Sizes<A>, covered: Leaves) -> Sizes<A> {
        let mark = 1 << leaf;
        let others = !(covered | mark);
        let having = self.free.as_mut();
        let spread = flips.filter_ones(|index| {
            having[index] ^= mark;
            having[index] & others == 0
        });
        // What lies under cover is nobody's to find.
        if covered & mark == 0 { spread } else { A::ZERO }
    }

    /// The same in both moods.
    pub(super) fn flip_both(&mut self, leaf: usize, flips: Summary<A>, free: Leaves, rested: Leaves) -> Summary<A> {
        let mark = 1 << leaf;
        let free_spread = self.flip(leaf, flips.free, free);
        let unrested = self.unrested.as_mut();
        let _ = flips.unrested.filter_ones(|index| {
            unrested[index] ^= mark;
            false
        });
        // Seen in the careful mood, a size flips where exactly one of the two says so.
        let flipped = if rested & mark == 0 { flips.free ^ flips.unrested } else { A::ZERO };
        let rested_spread = flipped.filter_ones(|index| {
            let having = self.free.as_ref()[index] ^ self.unrested.as_ref()[index];
            having & !(rested | mark) == 0
        });
        Summary { free: free_spread, unrested: free_spread ^ rested_spread }
    }
}

impl<A: Address> Node<A> {
    pub(super) fn new(bits: A, depth: u8) -> Self {
        Self {
            bits: Prefix::cut(bits, depth).first(),
            depth,
            kids: 0,
            busy: 0,
            held: 0,
            cooling: 0,
            branch: NONE,
            summary: Summary::default(),
            claims: [NONE; PLACES],
        }
    }

    pub(super) fn prefix(&self) -> Prefix<A> {
        Prefix::cut(self.bits, self.depth)
    }

    /// How many leading bits `bits` shares with the block of this node, and possibly more.
    #[inline]
    pub(super) fn shared(&self, bits: A) -> u8 {
        (self.bits ^ bits).leading_zeros()
    }

    /// Whether a block of `length` is decided here and not further down.
    #[inline]
    pub(super) fn decides(&self, length: u8) -> bool {
        length <= self.depth + STRIDE
    }

    /// The place of `prefix`, which this node decides.
    #[inline]
    pub(super) fn place(&self, prefix: Prefix<A>) -> usize {
        let row = prefix.length() - self.depth;
        (LEAVES | self.leaf(prefix.first())) >> (STRIDE - row)
    }

    /// The leaf that `bits` fall into.
    #[inline]
    pub(super) fn leaf(&self, bits: A) -> usize {
        bits.digit(self.depth)
    }

    /// The block at `place`.
    pub(super) fn block(&self, place: usize) -> Prefix<A> {
        let row = row(place);
        let along = A::narrow((place ^ (1 << row)) as u128);
        let length = self.depth + row;
        Prefix::cut(self.bits | along.up(A::WIDTH - length), length)
    }

    /// The first address below `leaf`.
    #[inline]
    pub(super) fn first_of(&self, leaf: u32) -> A {
        self.bits | A::narrow(u128::from(leaf)).up(A::WIDTH - STRIDE - self.depth)
    }

    /// Leaves that are taken whole.
    #[inline]
    pub(super) fn covered(&self, mood: Mood) -> Leaves {
        leaves_below(self.taken(mood))
    }

    /// Places that are taken: held or, in the careful mood, cooling.
    #[inline]
    pub(super) fn taken(&self, mood: Mood) -> Places {
        match mood {
            Mood::Rested => self.held | self.cooling,
            Mood::Free => self.held,
        }
    }

    /// Leaves below which a child has something in the way.
    #[inline]
    pub(super) fn busy(&self, mood: Mood) -> Leaves {
        match mood {
            Mood::Rested => self.kids,
            Mood::Free => self.busy,
        }
    }

    /// Whether nothing keeps this node in the trie.
    pub(super) fn is_empty(&self) -> bool {
        self.held | self.cooling == 0 && self.kids == 0
    }

    /// Whether its only use is to lead to one child.
    pub(super) fn is_passage(&self) -> bool {
        self.held | self.cooling == 0 && self.kids.is_power_of_two()
    }

    /// The maximal free blocks of these leaves as sizes.
    #[inline]
    pub(super) fn own_sizes(&self, free: Leaves) -> Sizes<A> {
        let rows = maximal_rows(free);
        let found = (1..=4).fold(0, |found, row| found | u32::from(rows[row] != 0) << (row - 1));
        A::narrow(u128::from(found)).up(self.depth)
    }

    /// The maximal free blocks below some of the leaves, as sizes: from its places and from what its children report.
    pub(super) fn sizes(&self, branch: Option<&Branch<A>>, among: Leaves, mood: Mood) -> Sizes<A> {
        let (covered, busy) = (self.covered(mood), self.busy(mood));
        let mut sizes = self.own_sizes(among & !(covered | busy));
        let Some(branch) = branch else { return sizes };
        for length in self.depth + STRIDE + 1..=A::WIDTH {
            if branch.having(length, mood) & among & !covered != 0 {
                sizes |= A::ONE.up(length - 1);
            }
        }
        sizes
    }

    /// Works its own part of the summary out again: the sizes that it decides itself.
    #[inline]
    pub(super) fn summarise_places(&mut self) {
        let free = self.own_sizes(!(self.covered(Mood::Free) | self.busy));
        let unrested = if self.cooling == 0 && self.kids == self.busy {
            A::ZERO
        } else {
            free ^ self.own_sizes(!(self.covered(Mood::Rested) | self.kids))
        };
        let own = A::narrow(0xf).up(self.depth);
        self.summary.free = self.summary.free & !own | free;
        self.summary.unrested = self.summary.unrested & !own | unrested;
    }

    /// Takes over that some sizes came or went below a leaf, and tells which came or went below the whole node.
    #[inline]
    pub(super) fn flip(
        &mut self,
        branch: &mut Branch<A>,
        leaf: usize,
        flips: Summary<A>,
        any_cooling: bool,
    ) -> Summary<A> {
        let covered = self.covered(Mood::Free);
        let spread = if any_cooling {
            branch.flip_both(leaf, flips, covered, self.covered(Mood::Rested))
        } else {
            Summary { free: branch.flip(leaf, flips.free, covered), unrested: A::ZERO }
        };
        self.summary = self.summary.differs(&spread);
        spread
    }

    #[inline]
    pub(super) fn state(&self) -> State<A> {
        State { summary: self.summary, held: self.held != 0 || self.busy != 0 }
    }
}

/// What a parent has to know of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State<A> {
    pub(super) summary: Summary<A>,
    /// Whether anybody holds anything in the node or below it.
    pub(super) held: bool,
}

impl<A: Address> State<A> {
    /// What is free below a leaf of length `from` from which a node of `depth` in this state hangs.
    #[inline]
    pub(super) fn seen_from(&self, from: u8, depth: u8) -> Summary<A> {
        // Every length that the compressed edge skips leaves one free sibling beside it.
        let siblings = lengths(from + 1, depth);
        let rested = self.summary.of(Mood::Rested) | siblings;
        // Where nobody holds anything, the leaf itself is free as a whole, and the parent counts it as its own.
        let free = if self.held { self.summary.free | siblings } else { A::ZERO };
        Summary { free, unrested: free ^ rested }
    }
}

/// How to look at space that is cooling down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// Leave it alone.
    Rested,
    /// Take it as free.
    Free,
}

impl<A: Address> Summary<A> {
    /// The sizes that are in one of the two but not in both.
    #[inline]
    pub(super) fn differs(&self, other: &Self) -> Self {
        Self { free: self.free ^ other.free, unrested: self.unrested ^ other.unrested }
    }

    #[inline]
    pub(super) fn of(&self, mood: Mood) -> Sizes<A> {
        match mood {
            Mood::Rested => self.free ^ self.unrested,
            Mood::Free => self.free,
        }
    }
}

/// The sizes of lengths `from` to `to`, both included; none when `from` is past `to`.
#[inline]
pub(super) fn lengths<A: Address>(from: u8, to: u8) -> Sizes<A> {
    // Bit `length - 1`: everything up to `to`, less everything up to `from - 1`.
    up_to::<A>(to) & !up_to::<A>(from - 1)
}

/// The sizes of lengths 1 to `to`.
#[inline]
pub(super) fn up_to<A: Address>(to: u8) -> Sizes<A> {
    A::MAX.down(A::WIDTH - to)
}

/// The row of a place: how many lengths below the node's depth it is.
#[inline]
pub(super) fn row(place: usize) -> u8 {
    place.ilog2() as u8
}

/// The leaves below `place`.
#[inline]
pub(super) fn leaves(place: usize) -> Leaves {
    let width = LEAVES as u32 >> row(place);
    let first = (place as u32) * width - LEAVES as u32;
    (((1_u32 << width) - 1) << first) as Leaves
}

/// The leaves below any of `places`.
#[inline]
fn leaves_below(places: Places) -> Leaves {
    let mut found = (places >> LEAVES) as Leaves;
    let mut above = places & 0xffff;
    while above != 0 {
        found |= leaves(above.trailing_zeros() as usize);
        above &= above - 1;
    }
    found
}

/// The places from `place` up to the node's own block, both included.
#[inline]
pub(super) fn places_above(place: usize) -> Places {
    let mut place = place;
    let mut found = 0;
    while place > 0 {
        found |= 1 << place;
        place >>= 1;
    }
    found
}

/// For each row, the free blocks that are not part of a larger free block, as the first leaf of each. Two free halves of
/// the whole node count as two blocks of row 1. In 32 bits, which compile to plainer code than 16.
#[inline]
pub(super) fn maximal_rows(free: Leaves) -> [u32; 5] {
    let row4 = u32::from(free);
    let row3 = row4 & (row4 >> 1) & 0x5555;
    let row2 = row3 & (row3 >> 2) & 0x1111;
    let row1 = row2 & (row2 >> 4) & 0x0101;
    [0, row1, row2 & !(row1 * 0x11), row3 & !(row2 * 0x5), row4 & !(row3 * 0x3)]
}

/// The set bits, lowest first.
#[inline]
pub(super) fn ones(mut set: Leaves) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let leaf = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (leaf < LEAVES).then_some(leaf)
    })
}

/// `place` and all places below it.
#[inline]
pub(super) fn places_below(place: usize) -> Places {
    let mut row = 1_u32;
    let mut first = place as u32;
    let mut found = 0;
    while first < PLACES as u32 {
        found |= ((1_u32 << row) - 1) << first;
        first *= 2;
        row *= 2;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_and_its_block_name_each_other() {
        let node = Node::<u32>::new(0x0a00_0000, 8);
        for place in 1..PLACES {
            let block = node.block(place);
            assert_eq!(block.length(), 8 + row(place));
            assert_eq!(node.place(block), place);
        }
    }

    #[test]
    fn every_free_leaf_is_in_exactly_one_maximal_block() {
        for free in 0..=Leaves::MAX {
            let mut seen: Leaves = 0;
            for (row, firsts) in maximal_rows(free).into_iter().enumerate() {
                for first in ones(firsts as Leaves) {
                    let block = leaves((LEAVES | first) >> (usize::from(STRIDE) - row));
                    assert_eq!(seen & block, 0, "{free:016b}: two blocks overlap");
                    seen |= block;
                }
            }
            assert_eq!(seen, free);
        }
    }
}
