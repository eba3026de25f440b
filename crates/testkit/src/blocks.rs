//! Drives a register and the naive one side by side.

use space::{Address, Fit, GrantRefusal, Moment, Occupied, Prefix, Register, View, ViewId};

use crate::choices::Choices;
use crate::naive::{NaiveRegister, count, find, free_blocks};

/// Few owners, so that they meet.
type Owner = u8;
const OWNERS: u64 = 4;
/// The drivers work close to these addresses: both ends of the space and places between.
const ANCHORS: [u128; 4] = [0, 0x0a00_0000_0000_0000_0000_0000_0000_0000, 0x2001_0db8 << 96, u128::MAX];
/// More claims than this and the driver only releases: the naive register is slow.
const ENOUGH_CLAIMS: usize = 60;
/// Enough views that a register looks up which of them a change matters to, and few enough to ask each at other times.
const MOST_VIEWS: usize = 12;

/// A register, its naive twin and the views on them.
#[derive(Debug)]
pub struct Pair<A: Address> {
    real: Register<A, Owner>,
    naive: NaiveRegister<A, Owner>,
    views: Vec<(ViewId, View<A>, Vec<Prefix<A>>)>,
    now: u64,
}

impl<A: Address> Default for Pair<A> {
    fn default() -> Self {
        Self { real: Register::new(), naive: NaiveRegister::default(), views: Vec::new(), now: 0 }
    }
}

/// Runs operations until the choices end or `operations` were done, each compared. Panics at the first difference.
pub fn run<A: Address>(choices: &mut impl Choices, operations: usize) {
    run_comparing::<A>(choices, operations, 1);
}

/// The same for long runs: what operations answer is compared always, and everything else after every `often`-th.
pub fn run_comparing<A: Address>(choices: &mut impl Choices, operations: usize, often: usize) {
    let mut pair = Pair::<A>::default();
    for number in 1..=operations {
        let Some(operation) = choices.next() else { break };
        pair.operate(operation, choices);
        pair.compare_briefly(prefix(choices));
        if number % often == 0 {
            pair.compare(choices);
        }
    }
    pair.compare(choices);
    pair.empty();
}

impl<A: Address> Pair<A> {
    /// One operation on both.
    fn operate(&mut self, operation: u64, choices: &mut impl Choices) {
        if self.naive.claims.len() > ENOUGH_CLAIMS {
            return (0..=choices.below(ENOUGH_CLAIMS as u64)).for_each(|_| self.release_some(choices));
        }
        match operation % 16 {
            0 => self.occupy(prefix(choices), owner(choices)),
            1 => self.claim(prefix(choices), owner(choices)),
            2 => self.release(prefix(choices), owner(choices), None),
            3 | 4 => self.release_some(choices),
            5..=7 => {
                let source = self.view_source(choices);
                self.grant(&source, choices);
            }
            8 | 9 => self.grant(&range_source(choices), choices),
            10..=12 => self.grant_in_a_row(choices),
            13 => self.pass_time(choices),
            14 => self.add_view(choices),
            _ => self.remove_view(choices),
        }
    }

    fn occupy(&mut self, prefix: Prefix<A>, owner: Owner) {
        let alone = self.naive.claims_where(|held| held.overlaps(&prefix)).is_empty();
        let new = self.naive.occupy(prefix, owner);
        let expected = match (new, alone) {
            (false, _) => Occupied::Already,
            (true, true) => Occupied::Alone,
            (true, false) => Occupied::Shared,
        };
        assert_eq!(self.real.occupy(prefix, owner), expected, "occupy {prefix} by {owner}");
    }

    fn claim(&mut self, prefix: Prefix<A>, owner: Owner) {
        let free = self.naive.claims_where(|held| held.overlaps(&prefix)).is_empty();
        let expected = if free { Ok(()) } else { Err(GrantRefusal::Taken(prefix)) };
        assert_eq!(self.real.claim(prefix, owner), expected, "claim {prefix}");
        if free {
            self.naive.occupy(prefix, owner);
        }
    }

    fn release(&mut self, prefix: Prefix<A>, owner: Owner, until: Option<Moment>) {
        let expected = self.naive.release(prefix, owner, until);
        let released = match until {
            Some(until) => self.real.release_cooling(prefix, &owner, until),
            None => self.real.release(prefix, &owner),
        };
        assert_eq!(released, expected, "release {prefix} by {owner}");
    }

    /// Releases a claim that is there, with or without cooling.
    fn release_some(&mut self, choices: &mut impl Choices) {
        if self.naive.claims.is_empty() {
            return;
        }
        let claims = self.naive.claims.len() as u64;
        let (prefix, owner) = self.naive.claims[choices.below(claims) as usize];
        let until = (choices.below(2) == 0).then(|| Moment(self.now + choices.below(6)));
        self.release(prefix, owner, until);
    }

    fn pass_time(&mut self, choices: &mut impl Choices) {
        self.now += choices.below(4);
        self.real.pass_time(Moment(self.now));
        self.naive.pass_time(Moment(self.now));
    }

    /// One of the views, or a range when there is none.
    fn view_source(&self, choices: &mut impl Choices) -> Source<A> {
        let Some((id, view, excluded)) = pick(&self.views, choices) else { return range_source(choices) };
        let length = block_length(view, choices);
        Source { view: Some(*id), range: view.range(), excluded: excluded.clone(), length }
    }

    fn grant(&mut self, source: &Source<A>, choices: &mut impl Choices) {
        let (owner, fit) = (owner(choices), fit(source.range, choices));
        self.grant_by(source, fit, owner);
    }

    /// Grants one size from one place again and again by best fit, and now and then lets something else happen.
    fn grant_in_a_row(&mut self, choices: &mut impl Choices) {
        let source = if choices.below(3) == 0 { range_source(choices) } else { self.view_source(choices) };
        let seldom = choices.one_of(&[12, 40, 200]);
        for _ in 0..=choices.below(40) {
            self.grant_by(&source, Fit::Best, owner(choices));
            match choices.below(seldom) {
                0 => self.occupy(prefix(choices), owner(choices)),
                1 => self.occupy(near(&source, choices), owner(choices)),
                2 => self.claim(near(&source, choices), owner(choices)),
                3..=5 => self.release_some(choices),
                6 => self.grant(&range_source(choices), choices),
                7 => {
                    let other = self.view_source(choices);
                    self.grant(&other, choices);
                }
                8 => self.pass_time(choices),
                _ => {}
            }
        }
    }

    /// Grants a block from a view or from a range.
    fn grant_by(&mut self, source: &Source<A>, fit: Fit<A>, owner: Owner) {
        let Source { view, range, length, .. } = *source;
        let expected = self.naive.grantable(range, &source.excluded, length, fit);
        let granted = match view {
            Some(view) => self.real.grant(view, length, fit, owner),
            None => self.real.grant_within(range, length, fit, owner),
        };
        assert_eq!(granted, expected, "grant /{length} from {range} by {fit:?}");
        if let Ok(block) = granted {
            assert!(self.naive.claims_where(|held| held.overlaps(&block)).is_empty(), "{block} was held");
            self.naive.occupy(block, owner);
        }
    }

    fn add_view(&mut self, choices: &mut impl Choices) {
        let range = prefix::<A>(choices);
        let deeper = choices.below(u64::from(A::WIDTH - range.length()).min(9) + 1) as u8;
        let mut excluded = Vec::new();
        for _ in 0..choices.below(3) {
            let hole = prefix::<A>(choices);
            // Somewhere inside the range, most of the time.
            let length = range.length().saturating_add(1 + choices.below(8) as u8).min(A::WIDTH);
            let inside = Prefix::enclosing_address(range.first() | (hole.first() & !range_mask(range)), length);
            excluded.push(if choices.below(4) == 0 { hole } else { inside.unwrap_or(hole) });
        }
        if let Ok(view) = View::new(range, range.length() + deeper, &excluded) {
            let id = self.real.add_view(view.clone());
            self.views.push((id, view, excluded));
        } else {
            let whole = count(&free_blocks(range, &excluded), range.length() + deeper);
            assert_eq!(whole, 0, "a view of {range} without {excluded:?} was refused");
        }
        if self.views.len() > MOST_VIEWS {
            self.remove_view(choices);
        }
    }

    fn remove_view(&mut self, choices: &mut impl Choices) {
        if self.views.is_empty() {
            return;
        }
        let at = choices.below(self.views.len() as u64) as usize;
        let (id, ..) = self.views.swap_remove(at);
        assert!(self.real.remove_view(id).is_some());
        assert!(self.real.remove_view(id).is_none());
        assert_eq!(self.real.find_in_view(id, 0, Fit::Best), Err(GrantRefusal::UnknownView));
    }

    /// What costs little to ask.
    fn compare_briefly(&self, probe: Prefix<A>) {
        assert_eq!(self.real.claims(), self.naive.claims.len());
        let free = !self.naive.claims.iter().any(|(held, _)| held.overlaps(&probe));
        assert_eq!(self.real.is_free(probe), free, "is {probe} free");
    }

    /// Asks both everything there is to ask, about one place and about all views.
    fn compare(&self, choices: &mut impl Choices) {
        let (real, naive) = (&self.real, &self.naive);
        if let Err(what) = real.audit() {
            panic!("{what}");
        }
        assert_eq!(sorted(real.iter()), naive.claims_where(|_| true));
        let mut cooling = naive.cooling.clone();
        cooling.sort_unstable();
        assert_eq!(real.cooling().collect::<Vec<_>>(), cooling);

        let probe = prefix::<A>(choices);
        let free = free_blocks(probe, &naive.in_the_way(&[], false));
        assert_eq!(real.is_free(probe), free == [probe], "is {probe} free");
        assert_eq!(sorted(real.owners_in(probe)), naive.claims_where(|held| probe.contains(held)), "in {probe}");
        let around = naive.claims_where(|held| held.contains(&probe) && *held != probe);
        assert_eq!(sorted(real.covering(probe)), around, "around {probe}");
        assert_eq!(sorted(real.overlaps(probe)), naive.claims_where(|held| held.overlaps(&probe)), "over {probe}");
        let owners = naive.claims_where(|held| *held == probe);
        assert_eq!(sorted(real.owners(probe).map(|owner| (probe, owner))), owners, "of {probe}");
        assert_eq!(real.largest_free(probe), free.iter().map(Prefix::length).min(), "largest in {probe}");
        let length = choices.below(u64::from(A::WIDTH) + 1) as u8;
        assert_eq!(real.count_free(probe, length), count(&free, length), "/{length} in {probe}");
        let fit = fit(probe, choices);
        let rested = free_blocks(probe, &naive.in_the_way(&[], true));
        let expected = find(&rested, length, fit).or_else(|| find(&free, length, fit));
        assert_eq!(real.find(probe, length, fit), expected, "find /{length} in {probe} by {fit:?}");
        self.compare_views();
    }

    fn compare_views(&self) {
        for (id, view, excluded) in &self.views {
            let free = free_blocks(view.range(), &self.naive.in_the_way(excluded, false));
            let whole = free_blocks(view.range(), excluded);
            let Some(counts) = self.real.counts(*id) else { panic!("view {id:?} is gone") };
            assert_eq!(Some(counts), self.real.recount(*id));
            assert_eq!(counts.capacity, count(&whole, view.length()), "capacity of {}", view.range());
            assert_eq!(counts.free, count(&free, view.length()), "free of {}", view.range());
            assert_eq!(counts.allocated, counts.capacity - counts.free);
            assert_eq!(counts.free_addresses, count(&free, A::WIDTH), "free addresses of {}", view.range());
            assert_eq!(counts.largest_free, free.iter().map(Prefix::length).min());
        }
    }

    /// Releases everything and lets time pass: nothing may be left.
    fn empty(&mut self) {
        for (prefix, owner) in self.naive.claims.clone() {
            self.release(prefix, owner, None);
        }
        self.real.pass_time(Moment(u64::MAX));
        assert_eq!(self.real.iter().count(), 0);
        assert!(self.real.is_free(Prefix::ALL));
        assert_eq!(self.real.audit(), Ok(()));
    }
}

/// Where blocks of one size come from: a view, or a range that needs none.
#[derive(Clone, Debug)]
struct Source<A: Address> {
    view: Option<ViewId>,
    range: Prefix<A>,
    excluded: Vec<Prefix<A>>,
    length: u8,
}

/// A range, mostly a small one, and sometimes a size that it cannot have.
fn range_source<A: Address>(choices: &mut impl Choices) -> Source<A> {
    let range = prefix::<A>(choices);
    let length = match choices.below(16) {
        0 => range.length().wrapping_sub(1),
        1 => A::WIDTH + 1,
        deeper => range.length().saturating_add(deeper as u8 / 2).min(A::WIDTH),
    };
    Source { view: None, range, excluded: Vec::new(), length }
}

/// A block of a similar size in the same range.
fn near<A: Address>(source: &Source<A>, choices: &mut impl Choices) -> Prefix<A> {
    let length = (source.length.min(A::WIDTH) + choices.below(3) as u8).saturating_sub(1).min(A::WIDTH);
    let index = A::narrow(u128::from(choices.below(64))).up(A::WIDTH - length);
    let bits = source.range.first() | (index & !range_mask(source.range));
    Prefix::enclosing_address(bits, length).unwrap_or(Prefix::ALL)
}

/// Claims in one order, whatever the order of several owners of one block.
fn sorted<'a, A: Address, O: Copy + Ord + std::fmt::Debug + 'a>(
    claims: impl IntoIterator<Item = (Prefix<A>, &'a O)>,
) -> Vec<(Prefix<A>, O)> {
    let mut claims: Vec<_> = claims.into_iter().map(|(prefix, owner)| (prefix, *owner)).collect();
    assert!(claims.is_sorted_by_key(|(prefix, _)| *prefix), "not in address order: {claims:?}");
    claims.sort_unstable();
    claims
}

fn range_mask<A: Address>(range: Prefix<A>) -> A {
    range.first() ^ range.last() ^ A::MAX
}

fn pick<'a, T>(options: &'a [T], choices: &mut impl Choices) -> Option<&'a T> {
    let at = choices.below(options.len() as u64) as usize;
    options.get(at)
}

fn owner(choices: &mut impl Choices) -> Owner {
    choices.below(OWNERS) as Owner
}

fn fit<A: Address>(within: Prefix<A>, choices: &mut impl Choices) -> Fit<A> {
    match choices.below(6) {
        0 | 1 => Fit::Best,
        2 => Fit::First,
        3 => Fit::Next(prefix::<A>(choices).first()),
        // From the middle of something inside.
        _ => {
            let bits = A::narrow(u128::from(choices.below(256))).up(choices.below(u64::from(A::WIDTH)) as u8);
            let middle = bits ^ A::narrow(u128::from(choices.below(256)));
            Fit::Next(within.first() | (middle & !range_mask(within)))
        }
    }
}

fn block_length<A: Address>(view: &View<A>, choices: &mut impl Choices) -> u8 {
    let deeper = choices.below(4) as u8;
    if deeper == 3 { (view.length() + 1).min(A::WIDTH) } else { view.length() }
}

/// A block that is likely to meet others: near an anchor, mostly among its last few hundred hosts or first few bits.
fn prefix<A: Address>(choices: &mut impl Choices) -> Prefix<A> {
    let anchor = A::narrow(choices.one_of(&ANCHORS) >> (128 - A::WIDTH));
    let (bits, length) = match choices.below(8) {
        // A small neighbourhood at the low end.
        0..=4 => (anchor ^ A::narrow(u128::from(choices.below(256))), A::WIDTH - choices.below(9) as u8),
        // Large blocks at the top of the trie.
        5 => (A::narrow(u128::from(choices.below(256))).up(A::WIDTH - 8), choices.below(9) as u8),
        // Anything, one bit away from an anchor.
        _ => {
            let flipped = A::ONE.up(choices.below(u64::from(A::WIDTH)) as u8);
            (anchor ^ flipped, choices.below(u64::from(A::WIDTH) + 1) as u8)
        }
    };
    Prefix::enclosing_address(bits, length).unwrap_or(Prefix::ALL)
}
