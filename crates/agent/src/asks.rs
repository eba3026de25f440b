//! What the node asks for about its slices: more of a range whose slices are nearly full, and to be rid of one that drained.

use std::collections::BTreeMap;

use api::slices::Ask;
use cni::grants::{Grants, RangeGrant, Slice, SliceState};
use space::Cidr;

use crate::address::capacity;

/// How full the slices of a range are on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fullness {
    /// There is enough.
    Ample,
    /// There is little left.
    Low,
    /// There is nothing left.
    Full,
}

/// The slices of a range that take new pods, and how full they are; `used` says how many addresses of a slice are held.
pub fn fullness(range: &RangeGrant, used: impl Fn(Cidr) -> u128) -> Fullness {
    let (mut all, mut held) = (0_u128, 0_u128);
    for slice in open(range) {
        all = all.saturating_add(capacity(slice.cidr));
        held = held.saturating_add(used(slice.cidr));
    }
    let free = all.saturating_sub(held);
    if all == 0 || free > spare(all) {
        Fullness::Ample
    } else if free > 0 {
        Fullness::Low
    } else {
        Fullness::Full
    }
}

/// So many addresses should be left: a tenth; and two, where that is no more than a quarter, because the ends of the range and a gateway
/// are among those that are left and never given.
fn spare(capacity: u128) -> u128 {
    (capacity / 10).max((capacity / 4).min(2))
}

fn open(range: &RangeGrant) -> impl DoubleEndedIterator<Item = &Slice> {
    range.slices.iter().filter(|slice| slice.state == SliceState::Granted)
}

/// What is asked on the pool of each slice. The grants are those on the disk: when they say that a slice drains, nobody takes an
/// address of it any more, so one of which nothing is held stays empty. `is_exhausted` says of a range that a pod was refused
/// for want of an address; what is never given may be more than we know.
pub fn asks(grants: &Grants, used: impl Fn(Cidr) -> u128, is_exhausted: impl Fn(Cidr) -> bool) -> BTreeMap<Cidr, Ask> {
    let mut asks = BTreeMap::new();
    for range in &grants.ranges {
        if (fullness(range, &used) != Fullness::Ample || is_exhausted(range.range))
            && let Some(last) = open(range).next_back()
        {
            asks.insert(last.cidr, Ask::More(last.epoch));
        }
        let drained = range.slices.iter().filter(|slice| slice.state == SliceState::Draining && used(slice.cidr) == 0);
        asks.extend(drained.map(|slice| (slice.cidr, Ask::Release(slice.epoch))));
    }
    asks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(slices: &[(&str, SliceState)]) -> Grants {
        let slice = |(text, state): &(&str, SliceState)| Slice {
            cidr: Cidr::strict(text).unwrap(),
            generation: 0,
            epoch: 7,
            state: *state,
        };
        let range = Cidr::strict("10.0.0.0/8").unwrap();
        Grants { ranges: vec![RangeGrant { range, slices: slices.iter().map(slice).collect() }], ..Grants::default() }
    }

    const GRANTED: SliceState = SliceState::Granted;
    const DRAINING: SliceState = SliceState::Draining;

    #[test]
    fn more_is_asked_for_when_little_is_left_of_all_slices() {
        for (slice, least) in [
            ("10.0.0.0/32", 1),
            ("10.0.0.0/31", 2),
            ("10.0.0.0/30", 3),
            ("10.0.0.0/29", 6),
            ("10.0.0.0/28", 14),
            ("10.0.0.0/24", 231),
        ] {
            let grants = grants(&[(slice, GRANTED)]);
            assert_eq!(asks(&grants, |_| least - 1, |_| false).len(), 0, "{slice}");
            let asked = asks(&grants, |_| least, |_| false);
            assert_eq!(asked.values().collect::<Vec<_>>(), [&Ask::More(7)], "{slice}");
        }
        let two = grants(&[("10.0.0.0/28", GRANTED), ("10.0.1.0/28", GRANTED)]);
        let first = |slice: Cidr| if slice.to_string() == "10.0.0.0/28" { 16 } else { 0 };
        assert_eq!(asks(&two, first, |_| false).len(), 0);
        let asked = asks(&two, |_| 15, |_| false);
        assert_eq!(asked.keys().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.1.0/28"]);
    }

    #[test]
    fn a_pod_that_was_refused_is_reason_enough() {
        assert_eq!(asks(&grants(&[("10.0.0.0/24", GRANTED)]), |_| 3, |_| true).len(), 1);
        assert_eq!(asks(&grants(&[("10.0.0.0/24", DRAINING)]), |_| 3, |_| true).len(), 0);
    }

    #[test]
    fn a_slice_that_drained_is_given_back_when_nothing_of_it_is_held() {
        let grants = grants(&[("10.0.0.0/24", GRANTED), ("10.9.0.0/24", DRAINING)]);
        assert_eq!(asks(&grants, |_| 1, |_| false).len(), 0);
        let asked = asks(&grants, |_| 0, |_| false);
        assert_eq!(asked.values().collect::<Vec<_>>(), [&Ask::Release(7)]);
    }

    #[test]
    fn low_is_before_full() {
        let range = &grants(&[("10.0.0.0/28", GRANTED)]).ranges[0];
        let of = |held| fullness(range, |_| held);
        assert_eq!((of(13), of(14), of(16)), (Fullness::Ample, Fullness::Low, Fullness::Full));
        assert_eq!(fullness(&grants(&[("10.0.0.0/28", DRAINING)]).ranges[0], |_| 16), Fullness::Ample);
    }
}
