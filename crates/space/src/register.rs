//! The register of one family: who holds which block, which views look at it, and what was released a moment ago.
//!
//! There is one for each family of a cluster, and every grant of a block is in it, whatever it was for. Because all views
//! look at the same register, blocks of different sizes from overlapping ranges cannot overlap: there is nothing to keep
//! in step. Two owners on one address can only come from outside (adopted or damaged state), through
//! [`Register::occupy`]; they are kept, reported, and the space is free when the last of them is gone.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::prefix::Prefix;
use crate::trie::{Claims, Fit, NotReleased, Occupied, Source, Trie};
use crate::view::{Counts, View, ViewId, Views, fragmentation};
use crate::word::Address;

/// How many released blocks are remembered as cooling down. Beyond it the ones closest to their end are let go: cooling
/// down is a courtesy, and its memory must not grow with a flood of releases.
pub const COOLING_LIMIT: usize = 1 << 16;

/// A point in time, in whatever unit the caller counts. The register has no clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

/// Why a block was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GrantRefusal<A: Address> {
    /// Somebody holds some of it.
    #[error("{0} is taken, in whole or in part")]
    Taken(Prefix<A>),
    /// No free block of that size is left.
    #[error("no free /{length} is left in {range}")]
    Exhausted {
        /// The block length that was asked for.
        length: u8,
        /// Where it should have come from.
        range: Prefix<A>,
    },
    /// A block of that size cannot come from there.
    #[error("a /{length} cannot come from {range}")]
    ImpossibleSize {
        /// The block length that was asked for.
        length: u8,
        /// Where it should have come from.
        range: Prefix<A>,
    },
    /// There is no such view.
    #[error("the view is not there any more")]
    UnknownView,
}

/// Why a block was not released. The register is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReleaseRefusal<A: Address> {
    /// Nobody holds exactly this block.
    #[error("nobody holds {0}")]
    Unheld(Prefix<A>),
    /// Others hold it, this owner does not.
    #[error("{0} is held by others, not by this owner")]
    HeldByOthers(Prefix<A>),
}

/// See the module.
#[derive(Debug)]
pub struct Register<A: Address, O> {
    trie: Trie<A, O>,
    views: Views<A>,
    cooling: Cooling<A>,
}

/// Released blocks and when each may be given out again without hesitation.
#[derive(Debug)]
struct Cooling<A: Address> {
    until: BTreeMap<Prefix<A>, Moment>,
    queue: BTreeSet<(Moment, Prefix<A>)>,
}

impl<A: Address> Cooling<A> {
    /// Checks that both orders have the same blocks, as many as are marked in the trie.
    fn audit(&self, marked: usize) -> Result<(), String> {
        let queued = self.until.iter().all(|(prefix, until)| self.queue.contains(&(*until, *prefix)));
        if queued && self.until.len() == self.queue.len() && self.until.len() == marked {
            return Ok(());
        }
        let (until, queue) = (self.until.len(), self.queue.len());
        Err(format!("{until} blocks are cooling, {queue} are queued and {marked} are marked"))
    }
}

impl<A: Address, O: Eq> Default for Register<A, O> {
    fn default() -> Self {
        Self {
            trie: Trie::new(),
            views: Views::new(),
            cooling: Cooling { until: BTreeMap::new(), queue: BTreeSet::new() },
        }
    }
}

/// Claims.
impl<A: Address, O: Eq> Register<A, O> {
    /// An empty register.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that `owner` holds `prefix`, whatever else is held there: for state that is a fact already.
    pub fn occupy(&mut self, prefix: Prefix<A>, owner: O) -> Occupied {
        self.views.count(&self.trie, prefix, View::taken);
        let occupied = self.trie.occupy(prefix, owner);
        self.end_cooling(prefix);
        occupied
    }

    /// Grants exactly `prefix`, if nobody holds any of it.
    pub fn claim(&mut self, prefix: Prefix<A>, owner: O) -> Result<(), GrantRefusal<A>> {
        if !self.trie.is_free(prefix) {
            return Err(GrantRefusal::Taken(prefix));
        }
        self.occupy(prefix, owner);
        Ok(())
    }

    /// Grants a free block of `length` from a view: never one that touches an exclusion.
    pub fn grant(&mut self, id: ViewId, length: u8, fit: Fit<A>, owner: O) -> Result<Prefix<A>, GrantRefusal<A>> {
        let view = self.views.get(id).ok_or(GrantRefusal::UnknownView)?;
        let (range, pieces) = (view.range(), view.shared_pieces());
        self.grant_from((Source::View(id.0), &pieces), range, length, fit, owner)
    }

    /// Grants a free block of `length` inside `range`, whatever the views say.
    pub fn grant_within(
        &mut self,
        range: Prefix<A>,
        length: u8,
        fit: Fit<A>,
        owner: O,
    ) -> Result<Prefix<A>, GrantRefusal<A>> {
        self.grant_from((Source::Range(range), &[range]), range, length, fit, owner)
    }

    #[inline]
    fn grant_from(
        &mut self,
        source: (Source<A>, &[Prefix<A>]),
        range: Prefix<A>,
        length: u8,
        fit: Fit<A>,
        owner: O,
    ) -> Result<Prefix<A>, GrantRefusal<A>> {
        possible(range, length)?;
        let Self { trie, views, .. } = self;
        let block = trie.grant(source, length, fit, owner, |trie, block| views.count_grant(trie, block));
        let block = block.ok_or(GrantRefusal::Exhausted { length, range })?;
        self.end_cooling(block);
        Ok(block)
    }

    /// Takes back exactly the claim of `owner` on exactly `prefix`.
    pub fn release(&mut self, prefix: Prefix<A>, owner: &O) -> Result<(), ReleaseRefusal<A>> {
        self.release_with(prefix, owner, None)
    }

    /// The same; until the given moment the block is granted again only when there is no other. The moment has passed
    /// when [`Register::pass_time`] says so.
    pub fn release_cooling(&mut self, prefix: Prefix<A>, owner: &O, until: Moment) -> Result<(), ReleaseRefusal<A>> {
        self.release_with(prefix, owner, Some(until))
    }

    fn release_with(&mut self, prefix: Prefix<A>, owner: &O, cool: Option<Moment>) -> Result<(), ReleaseRefusal<A>> {
        let last = self.trie.release(prefix, owner, cool.is_some()).map_err(|refusal| match refusal {
            NotReleased::Unheld => ReleaseRefusal::Unheld(prefix),
            NotReleased::HeldByOthers => ReleaseRefusal::HeldByOthers(prefix),
        })?;
        if last {
            self.views.count(&self.trie, prefix, View::freed);
            if let Some(until) = cool {
                self.begin_cooling(prefix, until);
            }
        }
        Ok(())
    }

    /// How many claims there are, every owner of every block counted.
    pub fn claims(&self) -> usize {
        self.trie.claims()
    }

    /// All claims in address order, a block before those inside it.
    pub fn iter(&self) -> Claims<'_, A, O> {
        self.trie.iter()
    }

    /// The owners of exactly `prefix`, newest first.
    pub fn owners(&self, prefix: Prefix<A>) -> impl Iterator<Item = &O> {
        self.trie.owners(prefix)
    }

    /// The claims on `prefix` and on blocks inside it, in address order.
    pub fn owners_in(&self, prefix: Prefix<A>) -> Claims<'_, A, O> {
        self.trie.inside(prefix)
    }

    /// The claims on blocks around `prefix`, itself not counted, the largest block first.
    pub fn covering(&self, prefix: Prefix<A>) -> Vec<(Prefix<A>, &O)> {
        self.trie.around(prefix)
    }

    /// Every claim that shares an address with `prefix`: those around it, then those on and inside it.
    pub fn overlaps(&self, prefix: Prefix<A>) -> impl Iterator<Item = (Prefix<A>, &O)> {
        self.trie.around(prefix).into_iter().chain(self.trie.inside(prefix))
    }
}

impl<'a, A: Address, O: Eq> IntoIterator for &'a Register<A, O> {
    type Item = (Prefix<A>, &'a O);
    type IntoIter = Claims<'a, A, O>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Free space.
impl<A: Address, O: Eq> Register<A, O> {
    /// Whether nobody holds any of `prefix`.
    pub fn is_free(&self, prefix: Prefix<A>) -> bool {
        self.trie.is_free(prefix)
    }

    /// A free block of `length` inside `within`. Blocks that are cooling down are taken only when there is no other.
    pub fn find(&self, within: Prefix<A>, length: u8, fit: Fit<A>) -> Option<Prefix<A>> {
        self.trie.find(within, length, fit)
    }

    /// The prefix length of the largest block inside `within` that nobody holds.
    pub fn largest_free(&self, within: Prefix<A>) -> Option<u8> {
        self.trie.largest_free(within)
    }

    /// How many blocks of `length` inside `within` nobody holds any part of; `u128::MAX` stands for 2^128.
    pub fn count_free(&self, within: Prefix<A>, length: u8) -> u128 {
        // Only hosts can be as many as that; for blocks that do not exist, none is none.
        if length > A::WIDTH { 0 } else { self.shown(self.trie.count_free(within, length), within) }
    }

    /// A count that was kept modulo 2^128: an open `::/0` has 2^128 hosts, which looks like none.
    fn shown(&self, count: u128, range: Prefix<A>) -> u128 {
        if count == 0 && range.size() == u128::MAX && self.trie.is_free(range) { u128::MAX } else { count }
    }
}

/// Views.
impl<A: Address, O: Eq> Register<A, O> {
    /// Begins to keep count for a view.
    pub fn add_view(&mut self, view: View<A>) -> ViewId {
        self.views.add(&self.trie, view)
    }

    /// Forgets a view; what was granted from it stays granted.
    pub fn remove_view(&mut self, id: ViewId) -> Option<View<A>> {
        self.views.remove(id)
    }

    /// A view.
    pub fn view(&self, id: ViewId) -> Option<&View<A>> {
        self.views.get(id)
    }

    /// A free block of `length` from a view: never one that touches an exclusion.
    pub fn find_in_view(&self, id: ViewId, length: u8, fit: Fit<A>) -> Result<Prefix<A>, GrantRefusal<A>> {
        let view = self.views.get(id).ok_or(GrantRefusal::UnknownView)?;
        let range = view.range();
        possible(range, length)?;
        self.trie.find_among(view.pieces(), length, fit).ok_or(GrantRefusal::Exhausted { length, range })
    }

    /// What a view has and what is left of it, from the counts that are kept.
    pub fn counts(&self, id: ViewId) -> Option<Counts> {
        let view = self.views.get(id)?;
        Some(self.counts_of(view, view.free()))
    }

    /// The same with the free blocks and addresses counted anew, claim by claim.
    pub fn recount(&self, id: ViewId) -> Option<Counts> {
        let view = self.views.get(id)?;
        Some(self.counts_of(view, view.recount_free(&self.trie)))
    }

    /// Checks everything that is kept against what it was made from; says what does not agree.
    pub fn audit(&self) -> Result<(), String> {
        self.trie.audit()?;
        self.cooling.audit(self.trie.cooling())?;
        self.views.audit(&self.trie)
    }

    fn counts_of(&self, view: &View<A>, (blocks, addresses): (u128, u128)) -> Counts {
        let capacity = view.capacity();
        let free = if view.length() == A::WIDTH { self.shown(blocks, view.range()) } else { blocks };
        // Modulo 2^128 the difference is exact also where the capacity is 2^128 and is only shown as less.
        let whole = if capacity == u128::MAX { 0 } else { capacity };
        let free_addresses = self.shown(addresses, view.range());
        let largest_free = view.pieces().iter().filter_map(|piece| self.trie.largest_free(*piece)).min();
        Counts {
            capacity,
            allocated: whole.wrapping_sub(blocks),
            free,
            free_addresses,
            largest_free,
            fragmentation: fragmentation::<A>(free_addresses, largest_free),
        }
    }
}

/// Cooling down.
impl<A: Address, O: Eq> Register<A, O> {
    /// Ends the cooling of every block whose moment has come.
    pub fn pass_time(&mut self, now: Moment) {
        while let Some(&(until, prefix)) = self.cooling.queue.first() {
            if until > now {
                return;
            }
            self.end_cooling(prefix);
        }
    }

    /// The blocks that are cooling down and until when.
    pub fn cooling(&self) -> impl Iterator<Item = (Prefix<A>, Moment)> {
        self.cooling.until.iter().map(|(prefix, until)| (*prefix, *until))
    }

    fn begin_cooling(&mut self, prefix: Prefix<A>, until: Moment) {
        if let Some(before) = self.cooling.until.insert(prefix, until) {
            self.cooling.queue.remove(&(before, prefix));
        }
        self.cooling.queue.insert((until, prefix));
        if self.cooling.until.len() > COOLING_LIMIT
            && let Some(&(_, soonest)) = self.cooling.queue.first()
        {
            self.end_cooling(soonest);
        }
    }

    fn end_cooling(&mut self, prefix: Prefix<A>) {
        if self.cooling.until.is_empty() {
            return;
        }
        if let Some(until) = self.cooling.until.remove(&prefix) {
            self.cooling.queue.remove(&(until, prefix));
            self.trie.warm(prefix);
        }
    }
}

/// Refuses a block length that cannot come from `range`.
fn possible<A: Address>(range: Prefix<A>, length: u8) -> Result<(), GrantRefusal<A>> {
    if length < range.length() || length > A::WIDTH {
        return Err(GrantRefusal::ImpossibleSize { length, range });
    }
    Ok(())
}
