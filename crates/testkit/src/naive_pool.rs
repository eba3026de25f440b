//! The naive pool: a set of claimed points, a list of ranges, and answers by looking at all of them.

use std::collections::BTreeSet;

use space::Word;

/// A range, as it was asked for.
#[derive(Clone, Copy, Debug)]
pub struct NaiveRange<P> {
    /// The first point.
    pub first: P,
    /// The last point.
    pub last: P,
    /// How many of the lowest points are used last; possibly more than there are.
    pub band: u128,
    /// Whether it gives out anything.
    pub open: bool,
}

impl<P: Word> NaiveRange<P> {
    /// Whether `point` lies in it.
    pub fn contains(&self, point: P) -> bool {
        self.first <= point && point <= self.last
    }

    /// Whether `point` is one of the lowest few.
    pub fn has_in_band(&self, point: P) -> bool {
        self.contains(point) && point.wide() - self.first.wide() < self.band
    }

    /// How many points it has.
    pub fn size(&self) -> u128 {
        self.last.wide() - self.first.wide() + 1
    }
}

/// When picks come to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Before those of the bands.
    First,
    /// When nothing else is left.
    Last,
    /// Never: no open range has it.
    Never,
}

/// Claims as a set, ranges as a list. `I` names a range.
#[derive(Clone, Debug)]
pub struct NaivePool<P, I> {
    /// What is claimed.
    pub claimed: BTreeSet<P>,
    /// The ranges, oldest first.
    pub ranges: Vec<(I, NaiveRange<P>)>,
}

impl<P: Word, I> Default for NaivePool<P, I> {
    fn default() -> Self {
        Self { claimed: BTreeSet::new(), ranges: Vec::new() }
    }
}

impl<P: Word, I> NaivePool<P, I> {
    /// Whether any range has `point`, open or not.
    pub fn has(&self, point: P) -> bool {
        self.ranges.iter().any(|(_, range)| range.contains(point))
    }

    /// When picks come to `point`, if it is free then.
    pub fn turn(&self, point: P) -> Turn {
        let mut open = self.ranges.iter().map(|(_, range)| range).filter(|range| range.open);
        if open.clone().any(|range| range.has_in_band(point)) {
            return Turn::Last;
        }
        if open.any(|range| range.contains(point)) { Turn::First } else { Turn::Never }
    }

    /// The claimed points from `first` to `last`.
    pub fn between(&self, first: P, last: P) -> Vec<P> {
        self.claimed.iter().copied().filter(|point| first <= *point && *point <= last).collect()
    }

    /// The space cut wherever anything begins or ends. The points of a stretch are all alike: its first speaks for them.
    fn stretches(&self) -> Vec<(P, P)> {
        let mut starts = vec![P::ZERO];
        for (_, range) in &self.ranges {
            starts.push(range.first);
            starts.extend(range.last.plus(P::ONE));
            if range.band < range.size() {
                starts.extend(range.first.plus(P::narrow(range.band)));
            }
        }
        for point in &self.claimed {
            starts.push(*point);
            starts.extend(point.plus(P::ONE));
        }
        starts.sort_unstable();
        starts.dedup();
        let ends = starts.iter().skip(1).map(|next| next.minus_wrapping(P::ONE)).chain([P::MAX]);
        starts.iter().copied().zip(ends).collect()
    }

    /// The free points of this turn, in order, as stretches: the first point and how many there are.
    pub fn free(&self, turn: Turn) -> Vec<(P, u128)> {
        let stretches = self.stretches().into_iter();
        let free = stretches.filter(|(first, _)| self.turn(*first) == turn && !self.claimed.contains(first));
        free.map(|(first, last)| (first, last.wide() - first.wide() + 1)).collect()
    }

    /// What is free where picks go now: outside the bands if there is anything, otherwise in them.
    pub fn free_now(&self) -> Vec<(P, u128)> {
        let outside = self.free(Turn::First);
        if outside.is_empty() { self.free(Turn::Last) } else { outside }
    }
}

/// The free point that random numbers mean: each with the same chance.
pub fn pick<P: Word>(free: &[(P, u128)], mut random: impl FnMut() -> u64) -> Option<P> {
    let many = Some(count(free)).filter(|many| *many > 0)?;
    loop {
        if let Some(index) = index(many, &mut random) {
            return nth(free, index);
        }
    }
}

/// How many points there are in these stretches.
pub fn count<P: Word>(stretches: &[(P, u128)]) -> u128 {
    stretches.iter().map(|(_, size)| size).sum()
}

/// The point with this index in these stretches.
pub fn nth<P: Word>(stretches: &[(P, u128)], index: u128) -> Option<P> {
    let mut left = index;
    for (first, size) in stretches {
        if left < *size {
            return first.plus(P::narrow(left));
        }
        left -= size;
    }
    None
}

/// The index below `many` that random bits mean; nothing when they have to be thrown away.
///
/// The 2^64 values are dealt out in order: index `i` gets those from `i * 2^64 / many` up to where the next one's begin.
/// Some get one value more than others, so the first few of everybody's are thrown away until each has exactly
/// `2^64 / many`, rounded down.
pub fn index(many: u128, mut random: impl FnMut() -> u64) -> Option<u128> {
    const VALUES: u128 = 1 << 64;
    if many < VALUES {
        let scaled = u128::from(random()) * many;
        let (index, beyond_start) = (scaled / VALUES, scaled % VALUES);
        return (beyond_start >= VALUES % many).then_some(index);
    }
    // Two values make a number of 128 bits, of which as many are used as `many` has.
    let (high, low) = (u128::from(random()), u128::from(random()));
    let number = (high * VALUES + low) >> many.leading_zeros();
    (number < many).then_some(number)
}
