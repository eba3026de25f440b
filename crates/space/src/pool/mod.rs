//! The pool: single addresses and ports, picked at random from any number of ranges.
//!
//! A pool has ranges, which may overlap and come and go while it is in use, and claims, which stay whatever happens to the
//! ranges. A pick is uniform over everything that is free, so no range is favoured by its place, its size or its overlap
//! with others; the bands at the low ends are used when nothing else is left. The pool has no randomness of its own, and
//! it does not know who owns a point: the object that is named after the point does.

mod band;
mod lanes;
mod points;

use std::collections::BTreeMap;

use thiserror::Error;

pub use band::{address_band, port_band};
use lanes::{Lane, StretchIndex, held, lanes, span};
use points::Points;

use crate::prefix::Prefix;
use crate::word::{Address, Word};

/// The most points a range may have, as a power of two: an IPv6 `/32`. Sums over all ranges then fit a `u128`.
pub const LARGEST_RANGE_BITS: u8 = 96;

/// How many random numbers in a row a pick throws away before it takes the lowest point. Numbers that are random come to
/// that once in 2^128 picks; a source that is stuck must not hang whoever asked.
const PATIENCE: u8 = 128;

/// Names a range of one pool; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeId(u64);

/// Consecutive points that a pool may grant, the lowest few of them last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<P> {
    first: P,
    last: P,
    band: u128,
    open: bool,
}

/// Why a range cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RangeRefusal {
    /// It has no points: a prefix without usable addresses, or a last point before the first.
    #[error("the range has nothing to grant")]
    Empty,
    /// It has more points than the pool counts.
    #[error("the range is too large: at most 2^{LARGEST_RANGE_BITS} points (an IPv6 /32)")]
    TooLarge,
    /// There is no such range.
    #[error("the range is not there any more")]
    Unknown,
}

/// Why a point was not granted. The pool is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PoolRefusal {
    /// Somebody holds it.
    #[error("it is claimed already")]
    Claimed,
    /// No range has it.
    #[error("no range has it")]
    OutOfRange,
    /// Only ranges have it that give out nothing new.
    #[error("its range is closed to new grants")]
    Closed,
    /// All open ranges are full, or there is none.
    #[error("no open range has a free point left")]
    Exhausted,
    /// The pool holds as many points as it can count.
    #[error("the pool cannot count more claims")]
    TooMany,
    /// Nobody holds it.
    #[error("nobody holds it")]
    Unclaimed,
}

/// What a range has and what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeCounts {
    /// Points in the range.
    pub size: u128,
    /// How many of them are claimed.
    pub claimed: u128,
    /// How many are not.
    pub free: u128,
    /// How many points at the low end form the static band.
    pub band: u128,
}

impl<P: Word> Range<P> {
    /// The points from `first` to `last`, the lowest `band` of them used last.
    pub fn new(first: P, last: P, band: u128) -> Result<Self, RangeRefusal> {
        if last < first {
            return Err(RangeRefusal::Empty);
        }
        if last.wide() - first.wide() >= 1 << LARGEST_RANGE_BITS {
            return Err(RangeRefusal::TooLarge);
        }
        Ok(Self { first, last, band: band.min(span(first, last)), open: true })
    }

    /// The first point.
    pub const fn first(&self) -> P {
        self.first
    }

    /// The last point.
    pub const fn last(&self) -> P {
        self.last
    }

    /// Whether the range gives out new grants.
    pub const fn is_open(&self) -> bool {
        self.open
    }

    fn contains(&self, point: P) -> bool {
        self.first <= point && point <= self.last
    }

    /// The last point of the band, if there is a band.
    fn band_last(&self) -> Option<P> {
        let beyond_first = self.band.checked_sub(1)?;
        self.first.plus(P::narrow(beyond_first))
    }
}

impl<A: Address> Range<A> {
    /// The addresses of a Service range: the usable ones, with the band that Services have.
    pub fn service(prefix: Prefix<A>) -> Result<Self, RangeRefusal> {
        let (first, last) = prefix.usable().ok_or(RangeRefusal::Empty)?;
        Self::new(first, last, address_band(prefix.size()))
    }

    /// All addresses of a prefix, without a band.
    pub fn whole(prefix: Prefix<A>) -> Result<Self, RangeRefusal> {
        Self::new(prefix.first(), prefix.last(), 0)
    }
}

impl Range<u16> {
    /// Node ports, with the band that they have.
    pub fn ports(first: u16, last: u16) -> Result<Self, RangeRefusal> {
        let size = u128::from(last).saturating_sub(u128::from(first)) + 1;
        Self::new(first, last, port_band(size))
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Pool<P: Word> {
    claimed: Points<P>,
    ranges: BTreeMap<RangeId, Range<P>>,
    next_range: u64,
    /// Where picks go first, and where they go last.
    lanes: [Lane<P>; 2],
}

impl<P: Word> Default for Pool<P> {
    fn default() -> Self {
        let claimed = Points::default();
        let lanes = lanes([].iter(), &claimed);
        Self { claimed, ranges: BTreeMap::new(), next_range: 0, lanes }
    }
}

/// Ranges.
impl<P: Word> Pool<P> {
    /// A pool without ranges.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a range. Each change of the ranges looks at all of them: many at once are for [`Pool::add_ranges`].
    pub fn add_range(&mut self, range: Range<P>) -> RangeId {
        let id = self.insert_range(range);
        self.lay_lanes();
        id
    }

    /// Adds ranges, at the cost of adding one.
    pub fn add_ranges(&mut self, ranges: impl IntoIterator<Item = Range<P>>) -> Vec<RangeId> {
        let ids = ranges.into_iter().map(|range| self.insert_range(range)).collect();
        self.lay_lanes();
        ids
    }

    fn insert_range(&mut self, range: Range<P>) -> RangeId {
        let id = RangeId(self.next_range);
        self.next_range += 1;
        self.ranges.insert(id, range);
        id
    }

    /// Removes a range; what is claimed in it stays claimed.
    pub fn remove_range(&mut self, id: RangeId) -> Result<Range<P>, RangeRefusal> {
        let range = self.ranges.remove(&id).ok_or(RangeRefusal::Unknown)?;
        self.lay_lanes();
        Ok(range)
    }

    /// Closes a range to new grants, or opens it again. Releases go on either way.
    pub fn set_open(&mut self, id: RangeId, open: bool) -> Result<(), RangeRefusal> {
        let range = self.ranges.get_mut(&id).ok_or(RangeRefusal::Unknown)?;
        if range.open != open {
            range.open = open;
            self.lay_lanes();
        }
        Ok(())
    }

    /// The ranges, oldest first.
    pub fn ranges(&self) -> impl Iterator<Item = (RangeId, &Range<P>)> {
        self.ranges.iter().map(|(id, range)| (*id, range))
    }

    /// What a range has and what is left of it.
    pub fn counts(&self, id: RangeId) -> Result<RangeCounts, RangeRefusal> {
        let range = self.ranges.get(&id).ok_or(RangeRefusal::Unknown)?;
        let size = span(range.first, range.last);
        let claimed = u128::from(held(&self.claimed, range.first, range.last));
        Ok(RangeCounts { size, claimed, free: size - claimed, band: range.band })
    }

    /// Checks the counts that are kept against the claims; says what does not agree.
    pub fn audit(&self) -> Result<(), String> {
        let counted = self.claimed.between(P::ZERO, P::MAX).count();
        if counted != self.claimed.count() as usize {
            return Err(format!("{} claims are kept, {counted} are there", self.claimed.count()));
        }
        if lanes(self.ranges.values(), &self.claimed) != self.lanes {
            return Err("what is kept of the free points is not what the ranges and claims say".to_owned());
        }
        Ok(())
    }

    fn lay_lanes(&mut self) {
        self.lanes = lanes(self.ranges.values(), &self.claimed);
    }
}

/// Claims.
impl<P: Word> Pool<P> {
    /// Claims exactly `point`, if an open range has it and nobody holds it.
    pub fn claim(&mut self, point: P) -> Result<(), PoolRefusal> {
        if !self.lanes.iter().any(|lane| lane.contains(point)) {
            let known = self.ranges.values().any(|range| range.contains(point));
            return Err(if known { PoolRefusal::Closed } else { PoolRefusal::OutOfRange });
        }
        self.adopt(point)
    }

    /// Records that `point` is held, whatever the ranges say: for state that is a fact already.
    pub fn adopt(&mut self, point: P) -> Result<(), PoolRefusal> {
        if self.claimed.count() == points::MOST {
            return Err(PoolRefusal::TooMany);
        }
        if !self.claimed.insert(point) {
            return Err(PoolRefusal::Claimed);
        }
        self.lanes.iter_mut().for_each(|lane| lane.take(point));
        Ok(())
    }

    /// Gives `point` back.
    pub fn release(&mut self, point: P) -> Result<(), PoolRefusal> {
        if !self.claimed.remove(point) {
            return Err(PoolRefusal::Unclaimed);
        }
        self.lanes.iter_mut().for_each(|lane| lane.give_back(point));
        Ok(())
    }

    /// A free point, each of those that are not in a band with the same chance; from the bands when no other is left.
    /// `random` gives 64 random bits a call; one call is enough almost always.
    pub fn pick(&self, random: impl FnMut() -> u64) -> Result<P, PoolRefusal> {
        self.pick_in_lane(random).map(|(point, ..)| point)
    }

    /// Picks a free point and claims it.
    pub fn grant(&mut self, random: impl FnMut() -> u64) -> Result<P, PoolRefusal> {
        let (point, lane, stretch) = self.pick_in_lane(random)?;
        if self.claimed.count() == points::MOST {
            return Err(PoolRefusal::TooMany);
        }
        self.claimed.insert_missing(point);
        self.lanes[lane].take_in(stretch);
        Ok(point)
    }

    fn pick_in_lane(&self, random: impl FnMut() -> u64) -> Result<(P, usize, StretchIndex), PoolRefusal> {
        let lane = self.lanes.iter().position(|lane| lane.free() > 0).ok_or(PoolRefusal::Exhausted)?;
        let skip = below(self.lanes[lane].free(), random);
        let (point, stretch) = self.lanes[lane].nth_free(skip, &self.claimed).ok_or(PoolRefusal::Exhausted)?;
        Ok((point, lane, stretch))
    }

    /// Whether somebody holds `point`.
    pub fn is_claimed(&self, point: P) -> bool {
        self.claimed.contains(point)
    }

    /// How many points are claimed, in ranges or not.
    pub fn claims(&self) -> u32 {
        self.claimed.count()
    }

    /// How many points the open ranges have left, outside the bands and in them.
    pub fn free(&self) -> (u128, u128) {
        (self.lanes[0].free(), self.lanes[1].free())
    }

    /// How many claimed points are lower than `point`.
    pub fn rank(&self, point: P) -> u32 {
        self.claimed.rank(point)
    }

    /// The claimed points from `first` to `last`, in order.
    pub fn claimed(&self, first: P, last: P) -> impl Iterator<Item = P> {
        self.claimed.between(first, last)
    }
}

/// A number below `bound`, each with the same chance.
fn below(bound: u128, mut random: impl FnMut() -> u64) -> u128 {
    let Ok(bound) = u64::try_from(bound) else {
        // Beyond 64 bits: cut random bits to size and throw away what is too large; two tries on average at the worst.
        let unused = bound.leading_zeros();
        let mut tries = (0..PATIENCE).map(|_| (u128::from(random()) << 64 | u128::from(random())) >> unused);
        return tries.find(|wide| *wide < bound).unwrap_or(0);
    };
    // The upper half of a product is uniform, but for a few lower halves that are thrown away.
    let unfair = bound.wrapping_neg() % bound.max(1);
    let mut tries = (0..PATIENCE).map(|_| u128::from(random()) * u128::from(bound));
    tries.find(|product| *product as u64 >= unfair).map_or(0, |product| product >> 64)
}
