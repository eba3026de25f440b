//! Lanes: the disjoint stretches that a pool's ranges come to, and how much is free in each.
//!
//! Ranges may overlap, be closed, and have a band at their low end. For picking, all of that comes down to two lanes: the
//! stretches where picks go first, and those that are used last. A point lies in at most one stretch of at most one lane,
//! so that nothing is counted twice and no range is favoured.

use super::{Range, points::Points};
use crate::word::Word;

/// Disjoint stretches in order, with a running count of what is free in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lane<P> {
    stretches: Vec<Stretch<P>>,
    /// A Fenwick tree over the free points of each stretch: both a change and a search take one step for each bit of the
    /// number of stretches.
    sums: Vec<u128>,
    free: u128,
}

/// Names a stretch of a lane, until ranges change.
#[derive(Clone, Copy, Debug)]
pub(super) struct StretchIndex(usize);

/// Consecutive points, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch<P> {
    first: P,
    last: P,
}

impl<P: Word> Lane<P> {
    fn new(stretches: Vec<Stretch<P>>, points: &Points<P>) -> Self {
        let mut lane = Self { sums: vec![0; stretches.len()], stretches, free: 0 };
        for index in 0..lane.stretches.len() {
            let Stretch { first, last } = lane.stretches[index];
            lane.add(index, span(first, last).wrapping_sub(u128::from(held(points, first, last))));
        }
        lane
    }

    /// How many points of the lane are free.
    pub(super) const fn free(&self) -> u128 {
        self.free
    }

    /// Whether `point` lies in the lane.
    pub(super) fn contains(&self, point: P) -> bool {
        self.stretch_of(point).is_some()
    }

    /// Counts a point as taken, if it lies in this lane.
    pub(super) fn take(&mut self, point: P) {
        if let Some(index) = self.stretch_of(point) {
            self.take_in(StretchIndex(index));
        }
    }

    /// Counts a point as free, if it lies in this lane.
    pub(super) fn give_back(&mut self, point: P) {
        if let Some(index) = self.stretch_of(point) {
            self.add(index, 1);
        }
    }

    /// The free point that has `skip` free points of this lane below it, and the stretch it lies in; `skip` must be less
    /// than [`Lane::free`].
    pub(super) fn nth_free(&self, skip: u128, points: &Points<P>) -> Option<(P, StretchIndex)> {
        let (index, skip) = self.search(skip);
        let first = self.stretches.get(index)?.first;
        let missing_below = first.minus_wrapping(P::narrow(u128::from(points.rank(first))));
        let point = points.nth_missing(missing_below.plus_wrapping(P::narrow(skip)));
        Some((point, StretchIndex(index)))
    }

    /// Counts a point of a stretch as taken.
    pub(super) fn take_in(&mut self, stretch: StretchIndex) {
        self.add(stretch.0, 1_u128.wrapping_neg());
    }

    fn stretch_of(&self, point: P) -> Option<usize> {
        let after = self.stretches.partition_point(|stretch| stretch.first <= point);
        let index = after.checked_sub(1)?;
        (point <= self.stretches[index].last).then_some(index)
    }

    fn add(&mut self, index: usize, change: u128) {
        self.free = self.free.wrapping_add(change);
        let mut at = index + 1;
        while let Some(sum) = self.sums.get_mut(at - 1) {
            *sum = sum.wrapping_add(change);
            at += at & at.wrapping_neg();
        }
    }

    /// The stretch in which the free point with `skip` free points below it lies, and how many of those lie in it.
    fn search(&self, skip: u128) -> (usize, u128) {
        let (mut at, mut left) = (0, skip);
        let mut step = self.sums.len().next_power_of_two();
        while step > 0 {
            if let Some(sum) = self.sums.get(at + step - 1).filter(|sum| **sum <= left) {
                at += step;
                left -= sum;
            }
            step /= 2;
        }
        (at, left)
    }
}

/// The lanes of these ranges: where picks go first, and where they go last.
///
/// A point goes last when it lies in the band of any open range: whoever set a range aside for static use keeps that
/// even where another range overlaps it. A point that lies in closed ranges only is in no lane.
pub(super) fn lanes<'a, P: Word>(ranges: impl Iterator<Item = &'a Range<P>>, points: &Points<P>) -> [Lane<P>; 2] {
    // Each range is open from its first point to its last, and in its band for a while at the start.
    let mut edges: Vec<(P, i32, i32)> = Vec::new();
    let mut open_at_end = 0;
    for range in ranges.filter(|range| range.open) {
        edges.push((range.first, 1, 0));
        let mut edge_after = |last: P, open: i32, banded: i32| match last.plus(P::ONE) {
            Some(after) => edges.push((after, open, banded)),
            None => open_at_end += 1,
        };
        edge_after(range.last, -1, 0);
        if let Some(last) = range.band_last() {
            edge_after(last, 0, -1);
            edges.push((range.first, 0, 1));
        }
    }
    edges.sort_unstable();

    let mut found = [Vec::new(), Vec::new()];
    let (mut open, mut banded) = (0, 0);
    for (index, (point, opens, bands)) in edges.iter().enumerate() {
        open += opens;
        banded += bands;
        let next = edges.get(index + 1).map(|(next, ..)| *next);
        let last = match next {
            Some(next) if next == *point => continue,
            Some(next) => next.minus_wrapping(P::ONE),
            // Only a range that ends at the highest point has no edge after it.
            None if open_at_end > 0 => P::MAX,
            None => continue,
        };
        if open > 0 {
            push(&mut found[usize::from(banded > 0)], Stretch { first: *point, last });
        }
    }
    found.map(|stretches| Lane::new(stretches, points))
}

/// Adds a stretch, as one with the stretch before it where they touch.
fn push<P: Word>(stretches: &mut Vec<Stretch<P>>, stretch: Stretch<P>) {
    match stretches.last_mut() {
        Some(before) if before.last.plus(P::ONE) == Some(stretch.first) => before.last = stretch.last,
        _ => stretches.push(stretch),
    }
}

/// How many points lie from `first` to `last`. Ranges are limited so that this cannot overflow.
pub(super) fn span<P: Word>(first: P, last: P) -> u128 {
    last.wide().wrapping_sub(first.wide()).wrapping_add(1)
}

/// How many points of the set lie from `first` to `last`.
pub(super) fn held<P: Word>(points: &Points<P>, first: P, last: P) -> u32 {
    let up_to_last = last.plus(P::ONE).map_or(points.count(), |after| points.rank(after));
    up_to_last - points.rank(first)
}
