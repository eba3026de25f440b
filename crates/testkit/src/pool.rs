//! Drives a pool and the naive one side by side.

use space::{LARGEST_RANGE_BITS, Pool, PoolRefusal, Range, RangeCounts, RangeId, RangeRefusal, Word, address_band};

use crate::choices::{Choices, Seeded};
use crate::naive_pool::{NaivePool, NaiveRange, Turn, count, index, pick};

/// The driver works close to these points: both ends of the space and places between.
const ANCHORS: [u128; 4] = [0, 0x7530 << 112, 0x8000 << 112, u128::MAX];
/// More claims than this and the driver only releases: the naive pool is slow.
const ENOUGH_CLAIMS: usize = 150;
/// More ranges than this and the driver takes one away.
const ENOUGH_RANGES: usize = 6;

/// A pool and its naive twin.
#[derive(Debug)]
struct Pair<P: Word> {
    real: Pool<P>,
    naive: NaivePool<P, RangeId>,
    /// A range that was there once.
    removed: Option<RangeId>,
}

/// Runs operations until the choices end or `operations` were done, each compared. Panics at the first difference.
pub fn run<P: Word>(choices: &mut impl Choices, operations: usize) {
    run_comparing::<P>(choices, operations, 1);
}

/// The same for long runs: what operations answer is compared always, and everything else after every `often`-th.
pub fn run_comparing<P: Word>(choices: &mut impl Choices, operations: usize, often: usize) {
    let mut pair = Pair::<P> { real: Pool::new(), naive: NaivePool::default(), removed: None };
    for number in 1..=operations {
        let Some(operation) = choices.next() else { break };
        pair.operate(operation, choices);
        pair.compare_briefly(point(choices));
        if number % often == 0 {
            pair.compare(choices);
        }
    }
    pair.compare(choices);
    pair.empty();
}

impl<P: Word> Pair<P> {
    /// One operation on both.
    fn operate(&mut self, operation: u64, choices: &mut impl Choices) {
        if self.naive.claimed.len() > ENOUGH_CLAIMS {
            return self.release_between(P::ZERO, point(choices));
        }
        match operation % 16 {
            0 | 1 => self.add_range(choices),
            2 => self.remove_range(choices),
            3 => self.set_open(choices),
            4 => self.claim(point(choices)),
            5 | 6 => self.claim(self.edge(choices)),
            7 => self.adopt(point(choices)),
            8 => self.adopt_some_in_a_row(choices),
            9 => self.release(point(choices)),
            10 => self.release_some(choices),
            11 => {
                let from = point::<P>(choices);
                self.release_between(from, from.plus(P::narrow(u128::from(choices.below(100)))).unwrap_or(P::MAX));
            }
            12 => {
                let _ = self.pick(choices);
            }
            _ => self.grant(choices),
        }
    }

    fn add_range(&mut self, choices: &mut impl Choices) {
        let range = self.range(choices);
        let expected = if range.last < range.first {
            Err(RangeRefusal::Empty)
        } else if (range.last.wide() - range.first.wide()) >> LARGEST_RANGE_BITS > 0 {
            Err(RangeRefusal::TooLarge)
        } else {
            Ok((range.first, range.last, true))
        };
        let made = Range::new(range.first, range.last, range.band);
        assert_eq!(made.map(|made| (made.first(), made.last(), made.is_open())), expected, "{range:?}");
        if let Ok(made) = made {
            let id = self.real.add_range(made);
            assert!(self.naive.ranges.iter().all(|(other, _)| *other != id), "{id:?} is used twice");
            self.naive.ranges.push((id, range));
        }
        if self.naive.ranges.len() > ENOUGH_RANGES {
            self.remove_range(choices);
        }
    }

    fn remove_range(&mut self, choices: &mut impl Choices) {
        if self.naive.ranges.is_empty() {
            return;
        }
        let at = choices.below(self.naive.ranges.len() as u64) as usize;
        let (id, range) = self.naive.ranges.remove(at);
        let removed = self.real.remove_range(id).map(|removed| (removed.first(), removed.last(), removed.is_open()));
        assert_eq!(removed, Ok((range.first, range.last, range.open)));
        self.removed = Some(id);
    }

    fn set_open(&mut self, choices: &mut impl Choices) {
        let ranges = self.naive.ranges.len() as u64;
        let (at, open) = (choices.below(ranges) as usize, choices.below(3) == 0);
        if let Some((id, range)) = self.naive.ranges.get_mut(at) {
            range.open = open;
            assert_eq!(self.real.set_open(*id, open), Ok(()));
        }
    }

    fn claim(&mut self, point: P) {
        let expected = match (self.naive.turn(point), self.naive.has(point)) {
            (Turn::Never, false) => Err(PoolRefusal::OutOfRange),
            (Turn::Never, true) => Err(PoolRefusal::Closed),
            _ => newly(self.naive.claimed.insert(point)),
        };
        assert_eq!(self.real.claim(point), expected, "claim {point}");
    }

    fn adopt(&mut self, point: P) {
        let expected = newly(self.naive.claimed.insert(point));
        assert_eq!(self.real.adopt(point), expected, "adopt {point}");
    }

    /// Fills whole words of the set.
    fn adopt_some_in_a_row(&mut self, choices: &mut impl Choices) {
        let mut next = Some(point::<P>(choices));
        for _ in 0..choices.below(90) {
            let Some(point) = next else { return };
            self.adopt(point);
            next = point.plus(P::ONE);
        }
    }

    fn release(&mut self, point: P) {
        let expected = if self.naive.claimed.remove(&point) { Ok(()) } else { Err(PoolRefusal::Unclaimed) };
        assert_eq!(self.real.release(point), expected, "release {point}");
    }

    /// Releases a point that is claimed, and then once more.
    fn release_some(&mut self, choices: &mut impl Choices) {
        let at = choices.below(self.naive.claimed.len() as u64) as usize;
        if let Some(point) = self.naive.claimed.iter().nth(at).copied() {
            self.release(point);
            self.release(point);
        }
    }

    fn release_between(&mut self, first: P, last: P) {
        for point in self.naive.between(first, last) {
            self.release(point);
        }
    }

    /// The pick has to be the one that the random numbers mean, with as many of them used.
    fn pick(&self, choices: &mut impl Choices) -> Option<(P, Script)> {
        let free = self.naive.free_now();
        let script = Script::new(count(&free), choices);
        let (mut ours, mut theirs) = (script.clone(), script.clone());
        let expected = pick(&free, || theirs.draw());
        let picked = self.real.pick(|| ours.draw());
        assert_eq!(picked, expected.ok_or(PoolRefusal::Exhausted), "pick by {script:?}");
        assert_eq!(ours.drawn, theirs.drawn, "random numbers used");
        let point = expected?;
        // What the model says at length, once more in short.
        assert!(!self.naive.claimed.contains(&point), "{point} was claimed");
        match self.naive.turn(point) {
            Turn::First => {}
            Turn::Last => assert!(self.naive.free(Turn::First).is_empty(), "{point} was picked before its turn"),
            Turn::Never => panic!("{point} is in no open range"),
        }
        Some((point, script))
    }

    /// Grants a few points in a row, so that small ranges fill up.
    fn grant(&mut self, choices: &mut impl Choices) {
        for _ in 0..=choices.below(24) {
            let Some((point, mut script)) = self.pick(choices) else {
                assert_eq!(self.real.grant(|| 0), Err(PoolRefusal::Exhausted));
                return;
            };
            assert_eq!(self.real.grant(|| script.draw()), Ok(point), "grant {point}");
            self.naive.claimed.insert(point);
        }
    }

    /// What costs little to ask.
    fn compare_briefly(&self, probe: P) {
        let (real, naive) = (&self.real, &self.naive);
        assert_eq!(real.claims() as usize, naive.claimed.len(), "claims");
        assert_eq!(real.is_claimed(probe), naive.claimed.contains(&probe), "is {probe} claimed");
        assert_eq!(real.rank(probe) as usize, naive.claimed.range(..probe).count(), "rank of {probe}");
    }

    /// Asks both everything there is to ask.
    fn compare(&self, choices: &mut impl Choices) {
        assert_eq!(self.real.audit(), Ok(()));
        let (real, naive) = (&self.real, &self.naive);
        assert_eq!(real.free(), (count(&naive.free(Turn::First)), count(&naive.free(Turn::Last))), "free");
        assert!(real.claimed(P::ZERO, P::MAX).eq(naive.claimed.iter().copied()), "all claimed");
        let (first, last) = (point(choices), point(choices));
        let claimed: Vec<P> = real.claimed(first, last).collect();
        assert_eq!(claimed, naive.between(first, last), "claimed from {first} to {last}");
        let ranges = real.ranges().map(|(id, range)| (id, range.first(), range.last(), range.is_open()));
        let expected = naive.ranges.iter().map(|(id, range)| (*id, range.first, range.last, range.open));
        assert!(ranges.eq(expected), "ranges");
        for (id, range) in &naive.ranges {
            let (size, claimed) = (range.size(), naive.between(range.first, range.last).len() as u128);
            let expected = RangeCounts { size, claimed, free: size - claimed, band: range.band.min(size) };
            assert_eq!(real.counts(*id), Ok(expected), "counts of {range:?}");
        }
        self.compare_refusals();
    }

    /// A range that is gone is unknown.
    fn compare_refusals(&self) {
        let Some(gone) = self.removed else { return };
        let mut real = self.real.clone();
        assert_eq!(real.counts(gone), Err(RangeRefusal::Unknown));
        assert_eq!(real.remove_range(gone), Err(RangeRefusal::Unknown));
        assert_eq!(real.set_open(gone, true), Err(RangeRefusal::Unknown));
        assert!(real.ranges().eq(self.real.ranges()));
        assert_eq!(real.free(), self.real.free());
    }

    /// Releases everything and removes all ranges: nothing may be left.
    fn empty(&mut self) {
        self.release_between(P::ZERO, P::MAX);
        assert_eq!(self.real.claims(), 0);
        assert_eq!(self.real.claimed(P::ZERO, P::MAX).count(), 0);
        while let Some((id, _)) = self.naive.ranges.pop() {
            assert!(self.real.remove_range(id).is_ok());
        }
        assert_eq!(self.real.free(), (0, 0));
        assert_eq!(self.real.pick(|| 0), Err(PoolRefusal::Exhausted));
    }

    /// A range that is likely to meet others, and sometimes cannot be.
    fn range(&self, choices: &mut impl Choices) -> NaiveRange<P> {
        let beyond_first = P::narrow(match choices.below(10) {
            0..=4 => u128::from(choices.below(20)),
            5..=7 => u128::from(choices.below(64)) * 64 + 63,
            8 => (1 << choices.below(u64::from(P::WIDTH.min(LARGEST_RANGE_BITS)) + 1)) - 1,
            _ => 1 << choices.below(u64::from(P::WIDTH)),
        });
        let some = choices.below(self.naive.ranges.len() as u64) as usize;
        let other = self.naive.ranges.get(some).map(|(_, range)| *range);
        let first = match (choices.below(8), other) {
            (0, _) => P::ZERO,
            (1, _) => P::MAX.minus_wrapping(beyond_first),
            // Touching another from above or from below, or beginning inside it.
            (2, Some(other)) => other.last.plus(P::ONE).unwrap_or(P::MAX),
            (3, Some(other)) => other.first.minus_wrapping(P::ONE).minus_wrapping(beyond_first),
            (4, Some(other)) => other.first.plus_wrapping(P::narrow(u128::from(choices.below(64)))),
            _ => point(choices),
        };
        let mut last = first.plus(beyond_first).unwrap_or(P::MAX);
        if choices.below(32) == 31 {
            last = point(choices);
        }
        let size = last.wide().saturating_sub(first.wide()).saturating_add(1);
        let band = match choices.below(5) {
            0 => 0,
            1 => address_band(size),
            2 => u128::MAX,
            _ => u128::from(choices.below(24)),
        };
        NaiveRange { first, last, band, open: true }
    }

    /// A point where a range or its band begins or ends, or the one beside it.
    fn edge(&self, choices: &mut impl Choices) -> P {
        let some = choices.below(self.naive.ranges.len() as u64) as usize;
        let Some((_, range)) = self.naive.ranges.get(some) else { return point(choices) };
        let at = match choices.below(3) {
            0 => range.first,
            1 => range.first.plus_wrapping(P::narrow(range.band)),
            _ => range.last,
        };
        at.plus_wrapping(choices.one_of(&[P::MAX, P::ZERO, P::ONE]))
    }
}

/// Random numbers to pick by: two that were chosen, then whatever comes.
#[derive(Clone, Debug)]
struct Script {
    chosen: [u64; 2],
    then: Seeded,
    drawn: usize,
}

impl Script {
    /// The first numbers are extreme, or close to where those begin that mean another of `many` points.
    fn new(many: u128, choices: &mut impl Choices) -> Self {
        let mut then = Seeded::new(choices.below(256));
        let chosen = match choices.below(4) {
            0 => [choices.one_of(&[0, u64::MAX]); 2],
            1 | 2 => close_to_another(many, &mut then, choices),
            _ => [then.bits(), then.bits()],
        };
        Self { chosen, then, drawn: 0 }
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.chosen.get(self.drawn - 1).copied().unwrap_or_else(|| self.then.bits())
    }
}

fn close_to_another(many: u128, then: &mut Seeded, choices: &mut impl Choices) -> [u64; 2] {
    let beside = choices.below(3);
    if many < 1 << 64 {
        let some = index(many.max(1), || then.bits()).unwrap_or(0);
        let start = (some << 64).div_ceil(many.max(1)) as u64;
        return [start.wrapping_sub(beside).wrapping_add(1), then.bits()];
    }
    // The last index, and the number after it, which is none.
    let number = (many - u128::from(beside) + 1) << many.leading_zeros();
    [(number >> 64) as u64, number as u64]
}

fn newly(new: bool) -> Result<(), PoolRefusal> {
    if new { Ok(()) } else { Err(PoolRefusal::Claimed) }
}

/// A point that is likely to meet others: near an anchor, in the same word of the set or a few words away.
fn point<P: Word>(choices: &mut impl Choices) -> P {
    let anchor = P::narrow(choices.one_of(&ANCHORS) >> (128 - P::WIDTH));
    let near = P::narrow(u128::from(choices.below(256)));
    match choices.below(8) {
        0..=4 => anchor ^ near,
        5 | 6 => anchor ^ near.up(choices.below(8) as u8),
        // Anything, one bit away from an anchor.
        _ => anchor ^ P::ONE.up(choices.below(u64::from(P::WIDTH)) as u8),
    }
}
