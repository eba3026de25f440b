//! Views: named windows on a register, each a range cut into blocks of one size.
//!
//! A view owns nothing. It says where grants may come from and keeps count, so that a status page scans no claims. Any
//! number of views may overlap: they all look at the same register. This file knows arithmetic; [`crate::register`]
//! tells it what changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::prefix::Prefix;
use crate::trie::Trie;
use crate::word::Address;

/// Up to so many views, asking each is quicker than finding those that a change matters to.
const FEW_VIEWS: usize = 8;

/// Names a view of one register; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewId(pub(crate) u64);

/// Why a view cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ViewRefusal {
    /// The blocks are longer than the family's addresses.
    #[error("blocks of /{length} do not exist: the longest prefix is /{longest}")]
    TooLong {
        /// The block length that was asked for.
        length: u8,
        /// The longest there is.
        longest: u8,
    },
    /// The blocks are larger than the range.
    #[error("a block of /{length} is larger than the /{range} range")]
    TooLarge {
        /// The block length that was asked for.
        length: u8,
        /// The length of the range.
        range: u8,
    },
    /// The exclusions leave no whole block.
    #[error("the exclusions leave no whole /{length} in the range")]
    NothingLeft {
        /// The block length that was asked for.
        length: u8,
    },
}

/// A range, the size of its blocks and what is excluded from it.
#[derive(Clone, Debug)]
pub struct View<A: Address> {
    range: Prefix<A>,
    length: u8,
    /// The range without its exclusions, in order. A block is in the view when it lies in one of these. Shared, so that a
    /// grant can look at them while it changes the register.
    pieces: Arc<[Prefix<A>]>,
    capacity: u128,
    /// Modulo 2^128, like all counts until they are shown.
    free_blocks: u128,
    free_addresses: u128,
}

/// What a view has and what is left of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    /// Blocks of the view's size, exclusions left out.
    pub capacity: u128,
    /// Blocks of which somebody holds at least a part.
    pub allocated: u128,
    /// Blocks that nobody holds any part of.
    pub free: u128,
    /// Addresses that nobody holds, in blocks of any size; `u128::MAX` stands for 2^128.
    pub free_addresses: u128,
    /// The prefix length of the largest free block, if anything is free.
    pub largest_free: Option<u8>,
    /// The share of the free addresses that lies outside the largest free block: 0 when all is in one piece.
    pub fragmentation: f64,
}

/// The share of `free` addresses that lies outside the largest free block of this length.
pub(crate) fn fragmentation<A: Address>(free: u128, largest: Option<u8>) -> f64 {
    let Some(largest) = largest else { return 0.0 };
    #[allow(clippy::cast_precision_loss, reason = "a ratio for people: 52 bits are plenty")]
    let free = free.max(1) as f64;
    (1.0 - 2.0_f64.powi(i32::from(A::WIDTH - largest)) / free).max(0.0)
}

impl<A: Address> View<A> {
    /// A view of `range` in blocks of `length`, without `excluded`.
    pub fn new(range: Prefix<A>, length: u8, excluded: &[Prefix<A>]) -> Result<Self, ViewRefusal> {
        if length > A::WIDTH {
            return Err(ViewRefusal::TooLong { length, longest: A::WIDTH });
        }
        if length < range.length() {
            return Err(ViewRefusal::TooLarge { length, range: range.length() });
        }
        let pieces: Arc<[_]> = range.without(excluded).into();
        if !pieces.iter().any(|piece| piece.length() <= length) {
            return Err(ViewRefusal::NothingLeft { length });
        }
        let capacity = pieces.iter().fold(0, |sum: u128, piece| sum.saturating_add(piece.blocks(length)));
        Ok(Self { range, length, pieces, capacity, free_blocks: 0, free_addresses: 0 })
    }

    /// The range.
    pub const fn range(&self) -> Prefix<A> {
        self.range
    }

    /// The prefix length of its blocks.
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// The range without its exclusions, in order.
    pub fn pieces(&self) -> &[Prefix<A>] {
        &self.pieces
    }

    pub(crate) fn shared_pieces(&self) -> Arc<[Prefix<A>]> {
        Arc::clone(&self.pieces)
    }

    /// The free blocks and addresses as they are kept.
    pub(crate) fn free(&self) -> (u128, u128) {
        (self.free_blocks, self.free_addresses)
    }

    /// The free blocks and addresses, counted anew.
    pub(crate) fn count_free<O: Eq>(&self, trie: &Trie<A, O>) -> (u128, u128) {
        let count =
            |length| self.pieces.iter().fold(0, |sum: u128, piece| sum.wrapping_add(trie.count_free(*piece, length)));
        (count(self.length), count(A::WIDTH))
    }

    /// The same without a look at anything that the trie keeps but the claims: the gaps between them are measured.
    pub(crate) fn recount_free<O: Eq>(&self, trie: &Trie<A, O>) -> (u128, u128) {
        let (mut blocks, mut addresses) = (0_u128, 0_u128);
        for piece in self.pieces.iter().filter(|piece| trie.around(**piece).is_empty()) {
            let mut gap = |first: A, last: A| {
                blocks = blocks.wrapping_add(whole_blocks(first, last, self.length));
                addresses = addresses.wrapping_add(whole_blocks(first, last, A::WIDTH));
            };
            let mut from = Some(piece.first());
            for (claim, _) in trie.inside(*piece) {
                let Some(first) = from.filter(|first| *first <= claim.last()) else { continue };
                if first < claim.first() {
                    gap(first, claim.first().minus_wrapping(A::ONE));
                }
                from = claim.last().plus(A::ONE);
            }
            if let Some(first) = from.filter(|first| *first <= piece.last()) {
                gap(first, piece.last());
            }
        }
        (blocks, addresses)
    }

    /// Counts what became free or, the other way round, was taken.
    pub(crate) fn freed(&mut self, blocks: u128, addresses: u128) {
        self.free_blocks = self.free_blocks.wrapping_add(blocks);
        self.free_addresses = self.free_addresses.wrapping_add(addresses);
    }

    pub(crate) fn taken(&mut self, blocks: u128, addresses: u128) {
        self.free_blocks = self.free_blocks.wrapping_sub(blocks);
        self.free_addresses = self.free_addresses.wrapping_sub(addresses);
    }

    /// How many blocks of the view's size it has; `u128::MAX` stands for 2^128.
    pub const fn capacity(&self) -> u128 {
        self.capacity
    }

    /// The part of each piece that a change of `changed` can matter to, when blocks of `length` are counted: whole blocks
    /// only, so a change inside one block stands for that block.
    fn affected(&self, changed: Prefix<A>, length: u8) -> impl Iterator<Item = Prefix<A>> {
        let changed = changed.enclosing(length).unwrap_or(changed);
        // Pieces are disjoint and in order: one that holds the change, or a run of those inside it.
        let start = self.pieces.partition_point(|piece| piece.last() < changed.first());
        self.pieces[start..]
            .iter()
            .take_while(move |piece| piece.first() <= changed.last())
            .map(move |piece| if piece.contains(&changed) { changed } else { *piece })
    }
}

/// How many whole blocks of `length` lie from `first` to `last`, modulo 2^128.
fn whole_blocks<A: Address>(first: A, last: A, length: u8) -> u128 {
    let (shift, within) = (u32::from(A::WIDTH - length), A::MAX.down(length).wide());
    let number = |point: u128| point.checked_shr(shift).unwrap_or(0);
    let begins = number(first.wide()) + u128::from(first.wide() & within != 0);
    match last.wide().checked_sub(within).map(number) {
        Some(last_begins) if begins <= last_begins => (last_begins - begins).wrapping_add(1),
        _ => 0,
    }
}

/// The views of one register, and which of them a change matters to.
#[derive(Debug)]
pub(crate) struct Views<A: Address> {
    by_id: BTreeMap<ViewId, View<A>>,
    /// The views by their range.
    windows: Trie<A, ViewId>,
    next: u64,
}

impl<A: Address> Views<A> {
    pub(crate) fn new() -> Self {
        Self { by_id: BTreeMap::new(), windows: Trie::new(), next: 0 }
    }

    pub(crate) fn get(&self, id: ViewId) -> Option<&View<A>> {
        self.by_id.get(&id)
    }

    pub(crate) fn add<O: Eq>(&mut self, trie: &Trie<A, O>, mut view: View<A>) -> ViewId {
        let id = ViewId(self.next);
        self.next += 1;
        self.windows.occupy(view.range, id);
        (view.free_blocks, view.free_addresses) = view.count_free(trie);
        self.by_id.insert(id, view);
        id
    }

    pub(crate) fn remove(&mut self, id: ViewId) -> Option<View<A>> {
        let view = self.by_id.remove(&id)?;
        // The window went in with the view, so it is there.
        let _ = self.windows.release(view.range, &id, false);
        Some(view)
    }

    /// Counts a change of `prefix` in all views that it matters to. Called before it is taken, when all of it that is free
    /// is about to be taken, or after it was freed, when all of it that is free was not.
    #[inline]
    pub(crate) fn count<O: Eq>(&mut self, trie: &Trie<A, O>, prefix: Prefix<A>, change: fn(&mut View<A>, u128, u128)) {
        self.count_by(prefix, change, |block, length| trie.count_free(block, length));
    }

    /// Counts a grant of `granted` before it is made. All of it is free then, so mostly there is nothing to look up.
    #[inline]
    pub(crate) fn count_grant<O: Eq>(&mut self, trie: &Trie<A, O>, granted: Prefix<A>) {
        self.count_by(granted, View::taken, |block, length| match block.blocks(length) {
            _ if block.length() < granted.length() => trie.count_free(block, length),
            // All hosts of `::/0`: 2^128, which is nothing modulo 2^128.
            u128::MAX => 0,
            blocks => blocks,
        });
    }

    #[inline]
    fn count_by(
        &mut self,
        prefix: Prefix<A>,
        change: fn(&mut View<A>, u128, u128),
        count_free: impl Fn(Prefix<A>, u8) -> u128,
    ) {
        let count_in = |view: &mut View<A>| {
            let count = |length| {
                let blocks = view.affected(prefix, length);
                blocks.fold(0_u128, |sum, block| sum.wrapping_add(count_free(block, length)))
            };
            let (blocks, addresses) = (count(view.length), count(A::WIDTH));
            change(view, blocks, addresses);
        };
        let Self { by_id, windows, .. } = self;
        if by_id.len() <= FEW_VIEWS {
            return by_id.values_mut().filter(|view| view.range.overlaps(&prefix)).for_each(count_in);
        }
        windows.for_each_overlapping(prefix, |id| by_id.get_mut(id).into_iter().for_each(count_in));
    }

    /// Checks the counts that are kept against the trie.
    pub(crate) fn audit<O: Eq>(&self, trie: &Trie<A, O>) -> Result<(), String> {
        self.windows.audit()?;
        if self.windows.claims() != self.by_id.len() {
            return Err(format!("{} views have {} windows", self.by_id.len(), self.windows.claims()));
        }
        for view in self.by_id.values() {
            let (kept, counted) = (view.free(), view.recount_free(trie));
            if kept != counted {
                return Err(format!("the view of {} keeps {kept:?} free, counted {counted:?}", view.range));
            }
        }
        Ok(())
    }
}
