//! One register of each family through half a million operations: it grows to tens of thousands of claims and shrinks
//! again, twice, so that what it is made of is given back and used again.
//!
//! The model is a map of the held blocks. It does not say which block a grant must give, as the small models do, but
//! whatever is granted must be free in it. A run that fails prints its seed; `CADASTRE_SEED=17 cargo test -p space --test
//! long_run` repeats it.

use std::collections::BTreeMap;

use space::{Address, COOLING_LIMIT, Cidr, Fit, GrantRefusal, Moment, Prefix, Register, ReleaseRefusal, View, ViewId};
use testkit::choices::{Choices, Seeded};

const OPERATIONS: u64 = 500_000;
/// After how many operations everything is compared.
const OFTEN: u64 = 50_000;
/// Growing and shrinking again take this many operations, of which the first `GROWING` grow.
const TIDE: u64 = 250_000;
const GROWING: u64 = 130_000;
/// Of so many refused grants one is checked, claim by claim.
const REFUSALS: u64 = 1_000;

#[test]
fn half_a_million_operations_on_ipv4_blocks() {
    let prefix = |text| Cidr::strict(text).unwrap().v4().unwrap();
    run(17, |seeded| {
        let views = [(prefix("10.0.0.0/8"), 24, Some(prefix("10.32.0.0/12"))), (prefix("10.0.0.0/9"), 26, None)];
        Run::<u32>::new(seeded, views, [18, 26, 30])
    });
}

#[test]
fn half_a_million_operations_on_ipv6_blocks() {
    let prefix = |text| Cidr::strict(text).unwrap().v6().unwrap();
    run(18, |seeded| {
        let views = [(prefix("2001:db8::/32"), 64, Some(prefix("2001:db8::/49"))), (prefix("2001:db8::/48"), 68, None)];
        Run::<u128>::new(seeded, views, [56, 68, 72])
    });
}

fn run<A: Address>(seed: u64, new: impl Fn(Seeded) -> Run<A>) {
    let seed = std::env::var("CADASTRE_SEED").map_or(seed, |seed| match seed.parse() {
        Ok(seed) => seed,
        Err(error) => panic!("CADASTRE_SEED={seed}: {error}"),
    });
    let _told = TellSeed(seed);
    let mut run = new(Seeded::new(seed));
    for number in 1..=OPERATIONS {
        run.operate(number);
        if number % OFTEN == 0 {
            run.compare();
        }
    }
    // Or the run was not what it is for.
    assert!((10_000..=200_000).contains(&run.most), "at most {} claims", run.most);
    assert!(run.refused > REFUSALS && run.granted > OPERATIONS / 4, "{} granted, {} not", run.granted, run.refused);
    run.empty();
}

/// A window that grants come from.
struct Window<A: Address> {
    id: ViewId,
    range: Prefix<A>,
    hole: Option<Prefix<A>>,
}

struct Run<A: Address> {
    choices: Seeded,
    register: Register<A, u32>,
    windows: [Window<A>; 2],
    /// The shortest block that is granted, the shortest that is granted often, and the longest.
    lengths: [u8; 3],
    /// The model: held blocks, which are disjoint.
    held: BTreeMap<Prefix<A>, u32>,
    /// The same in any order, to choose from.
    order: Vec<Prefix<A>>,
    now: u64,
    granted: u64,
    refused: u64,
    most: usize,
}

impl<A: Address> Run<A> {
    fn new(choices: Seeded, views: [(Prefix<A>, u8, Option<Prefix<A>>); 2], lengths: [u8; 3]) -> Self {
        let mut register = Register::new();
        let windows = views.map(|(range, length, hole)| {
            let view = View::new(range, length, hole.as_slice());
            let Ok(view) = view else { panic!("no view of {range}: {view:?}") };
            Window { id: register.add_view(view), range, hole }
        });
        let (held, order) = (BTreeMap::new(), Vec::new());
        Self { choices, register, windows, lengths, held, order, now: 0, granted: 0, refused: 0, most: 0 }
    }

    fn operate(&mut self, number: u64) {
        let grants_in_ten = if number % TIDE < GROWING { 9 } else { 1 };
        if self.choices.below(10) < grants_in_ten {
            self.grant(number as u32);
        } else {
            self.release();
        }
        if self.choices.below(64) == 0 {
            self.now = number;
            self.register.pass_time(Moment(number));
        }
    }

    fn grant(&mut self, owner: u32) {
        let [shortest, usual, longest] = self.lengths;
        let from = if self.choices.below(16) == 0 { shortest } else { usual };
        let length = from + self.choices.below(u64::from(longest - from) + 1) as u8;
        let Window { id, range, hole } = self.windows[self.choices.below(2) as usize];
        let fit = match self.choices.below(4) {
            0 => Fit::First,
            1 => Fit::Next(self.somewhere(range, A::WIDTH).first()),
            _ => Fit::Best,
        };
        if self.choices.below(4) == 0 {
            let deeper = 1 + self.choices.below(u64::from(shortest - range.length())) as u8;
            let range = self.somewhere(range, range.length() + deeper);
            let granted = self.register.grant_within(range, length, fit, owner);
            self.was_granted(granted, (range, length, None), owner);
        } else {
            let granted = self.register.grant(id, length, fit, owner);
            self.was_granted(granted, (range, length, hole), owner);
        }
    }

    /// A block of `length` somewhere in `range`.
    fn somewhere(&mut self, range: Prefix<A>, length: u8) -> Prefix<A> {
        let index = u128::from(self.choices.bits()) << 64 | u128::from(self.choices.bits());
        let block = range.block(index % range.blocks(length), length);
        block.unwrap_or_else(|error| panic!("{error}"))
    }

    fn was_granted(
        &mut self,
        granted: Result<Prefix<A>, GrantRefusal<A>>,
        (range, length, hole): (Prefix<A>, u8, Option<Prefix<A>>),
        owner: u32,
    ) {
        let block = match granted {
            Ok(block) => block,
            Err(refusal) => {
                assert_eq!(refusal, GrantRefusal::Exhausted { length, range });
                if self.refused.is_multiple_of(REFUSALS) {
                    for piece in range.without(hole.as_slice()) {
                        let largest = self.register.largest_free(piece);
                        assert!(largest.is_none_or(|largest| largest > length), "{largest:?} in {piece} for /{length}");
                        assert!(!self.has_room(piece, length), "there is a free /{length} in {piece}");
                    }
                }
                self.refused += 1;
                return;
            }
        };
        assert!(range.contains(&block) && block.length() == length, "{block} for a /{length} from {range}");
        assert!(hole.is_none_or(|hole| !hole.overlaps(&block)), "{block} is excluded from {range}");
        let before = self.held.range(..=block).next_back();
        let after = self.held.range(block..).next();
        for (held, _) in before.into_iter().chain(after) {
            assert!(!held.overlaps(&block), "{block} was granted and {held} is held");
        }
        self.held.insert(block, owner);
        self.order.push(block);
        self.granted += 1;
        self.most = self.most.max(self.held.len());
    }

    /// Whether the model has a free block of `length` in `piece`, gap by gap. No piece here is at the end of the space.
    fn has_room(&self, piece: Prefix<A>, length: u8) -> bool {
        if self.held.range(..piece).next_back().is_some_and(|(held, _)| held.contains(&piece)) {
            return false;
        }
        let size = 1_u128 << (A::WIDTH - length);
        let fits = |from: u128, to: u128| from.next_multiple_of(size) + size <= to;
        let mut from = piece.first().wide();
        for (held, _) in self.held.range(piece..).take_while(|(held, _)| piece.contains(held)) {
            if fits(from, held.first().wide()) {
                return true;
            }
            from = held.last().wide() + 1;
        }
        fits(from, piece.last().wide() + 1)
    }

    /// Releases a held block, once.
    fn release(&mut self) {
        if self.order.is_empty() {
            return;
        }
        let at = self.choices.below(self.order.len() as u64) as usize;
        let block = self.order.swap_remove(at);
        let Some(owner) = self.held.remove(&block) else { panic!("the model lost {block}") };
        let refused = self.register.release(block, &(owner + 1));
        assert_eq!(refused, Err(ReleaseRefusal::HeldByOthers(block)));
        let released = if self.choices.below(4) == 0 {
            self.register.release(block, &owner)
        } else {
            let soon = self.choices.one_of(&[1_000, OPERATIONS]);
            let until = Moment(self.now + self.choices.below(soon));
            self.register.release_cooling(block, &owner, until)
        };
        assert_eq!(released, Ok(()), "release {block}");
        assert_eq!(self.register.release(block, &owner), Err(ReleaseRefusal::Unheld(block)));
    }

    fn compare(&self) {
        assert_eq!(self.register.audit(), Ok(()));
        for window in &self.windows {
            let counts = self.register.counts(window.id);
            assert!(counts.is_some(), "the view of {} is gone", window.range);
            assert_eq!(counts, self.register.recount(window.id), "the view of {}", window.range);
        }
        assert_eq!(self.register.claims(), self.held.len());
        assert!(self.register.iter().eq(self.held.iter().map(|(held, owner)| (*held, owner))), "other claims");
        assert!(self.register.cooling().count() <= COOLING_LIMIT);
    }

    /// Releases everything: nothing may be left.
    fn empty(&mut self) {
        while !self.order.is_empty() {
            self.release();
        }
        self.compare();
        self.register.pass_time(Moment(u64::MAX));
        self.compare();
        assert_eq!(self.register.cooling().count(), 0);
        assert!(self.register.is_free(Prefix::ALL));
        for window in &self.windows {
            let Some(counts) = self.register.counts(window.id) else { panic!("the view of {} is gone", window.range) };
            assert_eq!((counts.free, counts.allocated), (counts.capacity, 0), "the view of {}", window.range);
        }
    }
}

/// Says on the way out of a failure how to repeat it.
struct TellSeed(u64);

impl Drop for TellSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the run failed from this seed; repeat it with CADASTRE_SEED={}", self.0);
        }
    }
}
