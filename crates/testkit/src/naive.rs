//! The naive register: a list of claims, and answers by looking at all of them.

use space::{Address, Fit, GrantRefusal, Moment, Prefix, ReleaseRefusal};

/// Claims as a list, blocks that are cooling as another.
#[derive(Clone, Debug)]
pub struct NaiveRegister<A: Address, O> {
    /// Who holds what.
    pub claims: Vec<(Prefix<A>, O)>,
    /// What was released, and until when it should rest.
    pub cooling: Vec<(Prefix<A>, Moment)>,
}

impl<A: Address, O> Default for NaiveRegister<A, O> {
    fn default() -> Self {
        Self { claims: Vec::new(), cooling: Vec::new() }
    }
}

impl<A: Address, O: Copy + Eq + Ord> NaiveRegister<A, O> {
    /// Whether the claim was new.
    pub fn occupy(&mut self, prefix: Prefix<A>, owner: O) -> bool {
        self.cooling.retain(|(cooling, _)| *cooling != prefix);
        let new = !self.claims.contains(&(prefix, owner));
        if new {
            self.claims.push((prefix, owner));
        }
        new
    }

    /// Takes a claim back and lets the block cool, if that was the last claim on it.
    pub fn release(&mut self, prefix: Prefix<A>, owner: O, until: Option<Moment>) -> Result<(), ReleaseRefusal<A>> {
        self.releasable(prefix, owner)?;
        self.claims.retain(|claim| *claim != (prefix, owner));
        if let Some(until) = until.filter(|_| !self.is_held(prefix)) {
            self.cooling.retain(|(cooling, _)| *cooling != prefix);
            self.cooling.push((prefix, until));
        }
        Ok(())
    }

    /// Whether the claim is there to be taken back.
    pub fn releasable(&self, prefix: Prefix<A>, owner: O) -> Result<(), ReleaseRefusal<A>> {
        if self.claims.contains(&(prefix, owner)) {
            return Ok(());
        }
        Err(if self.is_held(prefix) { ReleaseRefusal::HeldByOthers(prefix) } else { ReleaseRefusal::Unheld(prefix) })
    }

    /// The block that a grant from `range` without `excluded` has to give: a rested one if there is any.
    pub fn grantable(
        &self,
        range: Prefix<A>,
        excluded: &[Prefix<A>],
        length: u8,
        fit: Fit<A>,
    ) -> Result<Prefix<A>, GrantRefusal<A>> {
        if length < range.length() || length > A::WIDTH {
            return Err(GrantRefusal::ImpossibleSize { length, range });
        }
        let found = |careful| find(&free_blocks(range, &self.in_the_way(excluded, careful)), length, fit);
        found(true).or_else(|| found(false)).ok_or(GrantRefusal::Exhausted { length, range })
    }

    /// Whether anybody holds exactly this block.
    pub fn is_held(&self, prefix: Prefix<A>) -> bool {
        self.claims.iter().any(|(held, _)| *held == prefix)
    }

    /// Ends the cooling of what has cooled for long enough.
    pub fn pass_time(&mut self, now: Moment) {
        self.cooling.retain(|(_, until)| *until > now);
    }

    /// All claims that satisfy a condition on their block, in order.
    pub fn claims_where(&self, condition: impl Fn(&Prefix<A>) -> bool) -> Vec<(Prefix<A>, O)> {
        let mut found: Vec<_> = self.claims.iter().copied().filter(|(held, _)| condition(held)).collect();
        found.sort_unstable();
        found
    }

    /// The blocks in the way of a grant, in the careful mood also those that are cooling.
    pub fn in_the_way(&self, excluded: &[Prefix<A>], careful: bool) -> Vec<Prefix<A>> {
        let held = self.claims.iter().map(|(held, _)| *held);
        let cooling = self.cooling.iter().map(|(cooling, _)| *cooling).filter(|_| careful);
        held.chain(cooling).chain(excluded.iter().copied()).collect()
    }
}

/// The maximal free blocks inside `within`, in order: halve until a half is all free or all taken.
pub fn free_blocks<A: Address>(within: Prefix<A>, taken: &[Prefix<A>]) -> Vec<Prefix<A>> {
    let near: Vec<Prefix<A>> = taken.iter().copied().filter(|block| block.overlaps(&within)).collect();
    if near.is_empty() {
        return vec![within];
    }
    if near.iter().any(|block| block.contains(&within)) {
        return Vec::new();
    }
    within.halves().into_iter().flatten().flat_map(|half| free_blocks(half, &near)).collect()
}

/// Chooses among maximal free blocks.
pub fn find<A: Address>(free: &[Prefix<A>], length: u8, fit: Fit<A>) -> Option<Prefix<A>> {
    let mut large_enough = free.iter().filter(|block| block.length() <= length);
    let start = |block: &Prefix<A>| Prefix::enclosing_address(block.first(), length).ok();
    match fit {
        Fit::First => large_enough.next().and_then(start),
        Fit::Best => large_enough.min_by_key(|block| (u8::MAX - block.length(), block.first())).and_then(start),
        Fit::Next(from) => {
            let at_or_after = |block: &Prefix<A>| {
                let around = Prefix::enclosing_address(from.max(block.first()), length).ok()?;
                let found = if around.first() >= from {
                    around
                } else {
                    Prefix::new(around.last().plus(A::ONE)?, length).ok()?
                };
                block.contains(&found).then_some(found)
            };
            large_enough.clone().find_map(at_or_after).or_else(|| large_enough.next().and_then(start))
        }
    }
}

/// How many blocks of `length` these free blocks hold.
pub fn count<A: Address>(free: &[Prefix<A>], length: u8) -> u128 {
    free.iter().fold(0, |sum: u128, block| sum.saturating_add(block.blocks(length)))
}
