//! What a pool promises, one property to a test. The models are in `model.rs`; here each promise can be read alone.
#![allow(clippy::unwrap_used, reason = "a test that has to give up says where")]

use std::collections::BTreeMap;

use space::{
    Address, Cidr, Pool, PoolRefusal, Prefix, Range, RangeCounts, RangeId, RangeRefusal, Word, address_band, port_band,
};

fn v4(text: &str) -> Prefix<u32> {
    Cidr::strict(text).unwrap().v4().unwrap()
}

fn v6(text: &str) -> Prefix<u128> {
    Cidr::strict(text).unwrap().v6().unwrap()
}

fn range<P: Word>(first: P, last: P, band: u128) -> Range<P> {
    Range::new(first, last, band).unwrap()
}

fn pool<P: Word>(ranges: &[Range<P>]) -> Pool<P> {
    let mut pool = Pool::new();
    for range in ranges {
        pool.add_range(*range);
    }
    pool
}

/// The point that these random bits mean; nothing when the pool asks for more.
fn picked<P: Word>(pool: &Pool<P>, bits: u64) -> Option<P> {
    let mut asked = 0;
    let point = pool.pick(|| {
        asked += 1;
        if asked == 1 { bits } else { u64::MAX }
    });
    (asked == 1).then(|| point.unwrap())
}

/// Who gets how many of the 65,536 values that the upper sixteen bits of a random number have.
fn shares<P: Word>(pool: &Pool<P>) -> BTreeMap<P, u32> {
    let mut shares = BTreeMap::new();
    for bits in 0..1 << 16 {
        *shares.entry(picked(pool, bits << 48).unwrap()).or_default() += 1;
    }
    shares
}

fn all_alike<P: Word>(points: impl IntoIterator<Item = P>, share: u32) -> BTreeMap<P, u32> {
    points.into_iter().map(|point| (point, share)).collect()
}

/// Everything that a pool knows.
#[derive(Debug, PartialEq)]
struct Answers<P> {
    free: (u128, u128),
    claimed: Vec<P>,
    ranges: Vec<(RangeId, Range<P>, RangeCounts)>,
}

fn answers<P: Word>(pool: &Pool<P>) -> Answers<P> {
    let ranges = pool.ranges().map(|(id, range)| (id, *range, pool.counts(id).unwrap()));
    assert_eq!(pool.claims() as usize, pool.claimed(P::ZERO, P::MAX).count());
    Answers { free: pool.free(), claimed: pool.claimed(P::ZERO, P::MAX).collect(), ranges: ranges.collect() }
}

/// A source of random numbers that is good enough for filling a pool.
fn random() -> impl FnMut() -> u64 {
    let mut seeded = testkit::choices::Seeded::new(1);
    move || seeded.bits()
}

#[test]
fn every_free_point_has_exactly_as_many_random_numbers_as_any_other() {
    for free in 1..=70_u16 {
        let mut pool = pool(&[range(1_000, 1_999, 0)]);
        // What is left lies scattered.
        let left: Vec<u16> = (0..free).map(|index| 1_000 + index * 13 % 1_000).collect();
        (1_000..2_000).filter(|point| !left.contains(point)).for_each(|point| pool.adopt(point).unwrap());
        let mut left = left;
        left.sort_unstable();

        // Each point has one run of this many numbers; what is thrown away lies between the runs.
        let each = (1_u128 << 64) / u128::from(free);
        let mut next = 0;
        for (index, point) in (1_u128..).zip(left) {
            let last = (index << 64).div_ceil(u128::from(free)) - 1;
            let first = last + 1 - each;
            for bits in [first, first + each / 3, first + each / 2, last] {
                assert_eq!(picked(&pool, bits as u64), Some(point), "{bits} of {free}");
            }
            for thrown_away in next..first {
                assert_eq!(picked(&pool, thrown_away as u64), None, "{thrown_away} of {free}");
            }
            next = last + 1;
        }
        assert_eq!(next, 1 << 64, "all numbers are dealt out");
    }
}

#[test]
fn a_pick_is_uniform_over_all_values_of_sixteen_random_bits() {
    let mut pool = pool(&[range(100_u32, 149, 0)]);
    let left = [100, 101, 107, 120, 121, 122, 148, 149];
    (100..150).filter(|point| !left.contains(point)).for_each(|point| pool.claim(point).unwrap());
    assert_eq!(shares(&pool), all_alike(left, 65_536 / 8));
}

#[test]
fn ranges_are_weighted_by_free_space_and_not_by_position() {
    let ranges = [range(9_u16, 9, 0), range(20, 22, 0), range(40, 51, 0)];
    let everything = || (9..=9).chain(20..=22).chain(40..=51);
    for [a, b, c] in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut pool = pool(&[ranges[a], ranges[b], ranges[c]]);
        assert_eq!(shares(&pool), all_alike(everything(), 65_536 / 16));
        (40..48).for_each(|point| pool.claim(point).unwrap());
        let left = everything().filter(|point| !(40..48).contains(point));
        assert_eq!(shares(&pool), all_alike(left, 65_536 / 8));
    }
}

#[test]
fn overlapping_ranges_do_not_double_the_chance_of_a_point() {
    let pool = pool(&[range(0_u16, 9, 0), range(5, 15, 0), range(5, 9, 0), range(0, 15, 0)]);
    assert_eq!(pool.free(), (16, 0));
    assert_eq!(shares(&pool), all_alike(0..=15, 65_536 / 16));
}

#[test]
fn a_thousand_ranges_are_as_fair_as_one() {
    let mut pool = Pool::new();
    for index in 0..1_024_u32 {
        pool.add_range(range(index * 100, index * 100 + 1, 0));
        pool.claim(index * 100).unwrap();
    }
    assert_eq!(shares(&pool), all_alike((0..1_024).map(|index| index * 100 + 1), 65_536 / 1_024));
}

#[test]
fn the_band_is_used_last() {
    let mut pool = pool(&[range(100_u16, 119, 4)]);
    assert_eq!(pool.free(), (16, 4));
    assert_eq!(shares(&pool), all_alike(104..=119, 65_536 / 16));
    (104..=118).for_each(|point| pool.claim(point).unwrap());
    assert_eq!(shares(&pool), all_alike([119], 65_536));
    pool.claim(119).unwrap();
    assert_eq!(shares(&pool), all_alike(100..=103, 65_536 / 4));
    // And no longer than it has to be.
    pool.release(110).unwrap();
    assert_eq!(shares(&pool), all_alike([110], 65_536));
}

#[test]
fn a_band_is_used_last_where_another_range_overlaps_it_too() {
    let mut pool = Pool::new();
    let banded = pool.add_range(range(100_u16, 115, 8));
    pool.add_range(range(104, 111, 0));
    assert_eq!(pool.free(), (8, 8));
    assert_eq!(shares(&pool), all_alike(108..=115, 65_536 / 8));
    // A closed range gives nothing, so there is nothing to keep in it either.
    pool.set_open(banded, false).unwrap();
    assert_eq!(pool.free(), (8, 0));
    assert_eq!(shares(&pool), all_alike(104..=111, 65_536 / 8));
}

#[test]
fn a_band_larger_than_its_range_is_all_of_it() {
    let mut pool = Pool::new();
    let id = pool.add_range(range(65_520_u16, 65_535, 1_000));
    assert_eq!(pool.counts(id), Ok(RangeCounts { size: 16, claimed: 0, free: 16, band: 16 }));
    assert_eq!(pool.free(), (0, 16));
    assert_eq!(shares(&pool), all_alike(65_520..=65_535, 65_536 / 16));
}

#[test]
fn a_closed_range_gives_nothing_and_takes_releases() {
    let mut pool = Pool::new();
    let id = pool.add_range(range(10_u32, 13, 0));
    pool.claim(10).unwrap();
    pool.set_open(id, false).unwrap();
    assert_eq!(pool.free(), (0, 0));
    assert_eq!(pool.pick(random()), Err(PoolRefusal::Exhausted));
    assert_eq!(pool.grant(random()), Err(PoolRefusal::Exhausted));
    assert_eq!(pool.claim(11), Err(PoolRefusal::Closed));
    // The claim is refused for being closed first: that is what has to change.
    assert_eq!(pool.claim(10), Err(PoolRefusal::Closed));
    assert_eq!(pool.counts(id), Ok(RangeCounts { size: 4, claimed: 1, free: 3, band: 0 }));
    assert_eq!(pool.release(10), Ok(()));
    assert_eq!(pool.counts(id), Ok(RangeCounts { size: 4, claimed: 0, free: 4, band: 0 }));
    pool.set_open(id, true).unwrap();
    assert_eq!(shares(&pool), all_alike(10..=13, 65_536 / 4));
}

#[test]
fn a_point_in_a_closed_and_an_open_range_is_open() {
    let mut pool = Pool::new();
    let closed = pool.add_range(range(10_u32, 17, 8));
    pool.add_range(range(14, 21, 0));
    pool.set_open(closed, false).unwrap();
    assert_eq!(pool.claim(14), Ok(()));
    assert_eq!(pool.claim(13), Err(PoolRefusal::Closed));
    assert_eq!(pool.claim(22), Err(PoolRefusal::OutOfRange));
}

#[test]
fn removing_a_range_keeps_its_claims() {
    let mut pool = Pool::new();
    let id = pool.add_range(range(10_u32, 13, 0));
    pool.claim(10).unwrap();
    pool.claim(12).unwrap();
    assert_eq!(pool.remove_range(id).map(|range| (range.first(), range.last())), Ok((10, 13)));
    assert_eq!((pool.claims(), pool.free()), (2, (0, 0)));
    assert!(pool.is_claimed(10) && pool.is_claimed(12));
    assert_eq!(pool.release(10), Ok(()));

    let again = pool.add_range(range(9, 12, 0));
    assert_ne!(again, id);
    assert_eq!(pool.counts(again), Ok(RangeCounts { size: 4, claimed: 1, free: 3, band: 0 }));
    assert_eq!(pool.claim(12), Err(PoolRefusal::Claimed));
}

#[test]
fn a_range_takes_over_what_was_adopted_before_it_came() {
    let mut pool = Pool::new();
    pool.adopt(12_u32).unwrap();
    pool.adopt(99).unwrap();
    pool.add_range(range(10, 14, 0));
    assert_eq!(pool.free(), (4, 0));
    assert_eq!(shares(&pool), all_alike([10, 11, 13, 14], 65_536 / 4));
    assert_eq!((pool.rank(12), pool.rank(13), pool.rank(u32::MAX)), (0, 1, 2));
}

#[test]
fn a_pool_that_is_999_parts_in_1000_full_still_picks_with_one_random_number() {
    let range = Range::whole(v4("10.1.0.0/16")).unwrap();
    let mut pool = pool(&[range]);
    let left: Vec<u32> = (range.first()..=range.last()).step_by(1_024).collect();
    (range.first()..=range.last()).filter(|point| point % 1_024 != 0).for_each(|point| pool.claim(point).unwrap());
    assert_eq!((left.len(), pool.free()), (64, (64, 0)));
    assert_eq!(shares(&pool), all_alike(left, 65_536 / 64));
    let mut random = random();
    for _ in 0..64 {
        pool.grant(&mut random).unwrap();
    }
    assert_eq!(pool.grant(&mut random), Err(PoolRefusal::Exhausted));
    assert_eq!(pool.claims(), 65_536);
}

#[test]
fn a_service_range_leaves_out_network_and_broadcast_address() {
    let ends = |range: Range<u32>| (range.first(), range.last());
    assert_eq!(Range::service(v4("10.0.0.0/24")).map(ends), Ok((0x0a00_0001, 0x0a00_00fe)));
    assert_eq!(Range::service(v4("10.0.0.0/30")).map(ends), Ok((0x0a00_0001, 0x0a00_0002)));
    assert_eq!(Range::service(v4("10.0.0.0/31")), Err(RangeRefusal::Empty));
    assert_eq!(Range::service(v4("10.0.0.0/32")), Err(RangeRefusal::Empty));
    assert_eq!(Range::whole(v4("10.0.0.7/32")).map(ends), Ok((0x0a00_0007, 0x0a00_0007)));
    let ends = |range: Range<u128>| (range.first(), range.last());
    assert_eq!(Range::service(v6("fd00::/120")).map(ends), Ok(((0xfd00 << 112) | 1, (0xfd00 << 112) | 0xff)));
    assert_eq!(Range::service(v6("fd00::/127")).map(ends), Ok(((0xfd00 << 112) | 1, (0xfd00 << 112) | 1)));
    assert_eq!(Range::service(v6("fd00::/128")), Err(RangeRefusal::Empty));
}

#[test]
fn the_largest_range_is_an_ipv6_32() {
    assert_eq!(Range::whole(v6("2001:db8::/31")), Err(RangeRefusal::TooLarge));
    assert_eq!(Range::service(v6("2001:db8::/31")), Err(RangeRefusal::TooLarge));
    assert_eq!(Range::whole(Prefix::<u128>::ALL), Err(RangeRefusal::TooLarge));
    assert_eq!(Range::new(0_u128, 1 << 96, 0), Err(RangeRefusal::TooLarge));
    assert_eq!(Range::new(0, u128::MAX, 0), Err(RangeRefusal::TooLarge));
    let mut pool = Pool::new();
    let whole = pool.add_range(Range::whole(v6("2001:db8::/32")).unwrap());
    assert_eq!(pool.counts(whole).map(|counts| counts.size), Ok(1 << 96));
    let service = pool.add_range(Range::service(v6("2001:db8::/32")).unwrap());
    assert_eq!(pool.counts(service).map(|counts| (counts.size, counts.band)), Ok(((1 << 96) - 1, 256)));
    // All 97 bits of the count are needed, so two numbers are drawn.
    let mut drawn = Vec::new();
    let lowest = pool.pick(|| {
        drawn.push(0);
        0
    });
    assert_eq!((lowest, drawn.len()), (Ok(0x2001_0db8 << 96), 2));
}

#[test]
fn a_range_whose_end_comes_first_is_empty() {
    assert_eq!(Range::new(2_u16, 1, 0), Err(RangeRefusal::Empty));
    assert_eq!(Range::ports(32_767, 30_000), Err(RangeRefusal::Empty));
}

#[test]
fn the_bands_are_those_of_the_kubernetes_formulas() {
    let addresses = |text| address_band(v4(text).size());
    let sizes =
        ["10.0.0.0/30", "10.0.0.0/28", "10.0.0.0/27", "10.0.0.0/24", "10.0.0.0/23", "10.0.0.0/20", "10.0.0.0/12"];
    assert_eq!(sizes.map(addresses), [0, 0, 16, 16, 32, 256, 256]);
    assert_eq!([1, 16, 17, 543, 544, 2_768, 4_096, 65_536].map(port_band), [0, 0, 16, 16, 17, 86, 128, 128]);
    assert_eq!(address_band(u128::MAX), 256);
}

#[test]
fn the_default_node_ports_have_their_band_from_30000_to_30085() {
    let mut pool = pool(&[Range::ports(30_000, 32_767).unwrap()]);
    assert_eq!(pool.free(), (2_682, 86));
    let lowest = |pool: &Pool<u16>| (0..).find_map(|bits| picked(pool, bits));
    assert_eq!((lowest(&pool), picked(&pool, u64::MAX)), (Some(30_086), Some(32_767)));
    let mut random = random();
    for _ in 0..2_682 {
        assert!(pool.grant(&mut random).unwrap() > 30_085);
    }
    assert_eq!((lowest(&pool), picked(&pool, u64::MAX)), (Some(30_000), Some(30_085)));
}

#[test]
fn the_last_point_of_a_space_can_be_claimed_picked_and_released() {
    fn check<P: Word>() {
        let mut pool = pool(&[range(P::MAX, P::MAX, 0), range(P::MAX, P::MAX, 1)]);
        assert_eq!(pool.free(), (0, 1));
        assert_eq!(picked(&pool, 0), Some(P::MAX));
        assert_eq!(pool.claim(P::MAX), Ok(()));
        assert_eq!((pool.free(), pool.claims(), pool.rank(P::MAX)), ((0, 0), 1, 0));
        assert_eq!(pool.pick(|| 0), Err(PoolRefusal::Exhausted));
        assert_eq!(pool.claimed(P::MAX, P::MAX).collect::<Vec<_>>(), [P::MAX]);
        assert_eq!(pool.release(P::MAX), Ok(()));
        assert_eq!(pool.grant(|| 0), Ok(P::MAX));
        assert!(pool.is_claimed(P::MAX));
        // The rest of the highest word, then the one before it.
        pool.add_range(range(P::MAX ^ P::narrow(63), P::MAX, 0));
        assert_eq!(pool.free(), (63, 0));
        assert_eq!(picked(&pool, u64::MAX), Some(P::MAX ^ P::ONE));
        pool.add_range(range(P::MAX ^ P::narrow(127), P::MAX, 100));
        assert_eq!(pool.free(), (27, 100));
    }
    check::<u16>();
    check::<u32>();
    check::<u128>();
}

#[test]
fn a_whole_space_of_ports_can_be_filled_and_emptied() {
    let mut pool = pool(&[range(0, u16::MAX, 0)]);
    let mut random = random();
    while pool.grant(&mut random).is_ok() {}
    assert_eq!((pool.claims(), pool.free()), (65_536, (0, 0)));
    assert!(pool.claimed(0, u16::MAX).eq(0..=u16::MAX));
    (0..=u16::MAX).for_each(|port| pool.release(port).unwrap());
    assert_eq!((pool.claims(), pool.free()), (0, (65_536, 0)));
}

#[test]
fn a_refusal_leaves_everything_as_it_was() {
    fn check<A: Address>(range: Range<A>) {
        let (inside, outside) = (range.first(), range.last().plus(A::ONE).unwrap());
        let mut pool = pool(&[range]);
        pool.claim(inside).unwrap();
        let before = answers(&pool);
        assert_eq!(pool.claim(inside), Err(PoolRefusal::Claimed));
        assert_eq!(pool.adopt(inside), Err(PoolRefusal::Claimed));
        assert_eq!(pool.claim(outside), Err(PoolRefusal::OutOfRange));
        assert_eq!(pool.release(outside), Err(PoolRefusal::Unclaimed));
        assert_eq!(pool.release(range.last()), Err(PoolRefusal::Unclaimed));
        assert_eq!(answers(&pool), before);

        pool.release(inside).unwrap();
        let before = answers(&pool);
        assert_eq!(pool.release(inside), Err(PoolRefusal::Unclaimed));
        assert_eq!(answers(&pool), before);
    }
    check(Range::service(v4("10.0.0.0/24")).unwrap());
    check(Range::service(v6("fd00::/112")).unwrap());
}

#[test]
fn a_range_that_is_gone_is_unknown() {
    let mut pool = pool(&[range(0_u16, 9, 0)]);
    let id = pool.add_range(range(20, 29, 0));
    pool.remove_range(id).unwrap();
    let before = answers(&pool);
    assert_eq!(pool.remove_range(id), Err(RangeRefusal::Unknown));
    assert_eq!(pool.set_open(id, false), Err(RangeRefusal::Unknown));
    assert_eq!(pool.counts(id), Err(RangeRefusal::Unknown));
    assert_eq!(answers(&pool), before);
}

#[test]
fn a_source_of_random_numbers_that_is_stuck_does_not_hang_a_pick() {
    let narrow = pool(&[range(10_u16, 12, 0)]);
    assert_eq!(narrow.pick(|| 0), Ok(10));
    let wide = pool(&[range(10_u128, (1 << 65) + 10, 0)]);
    assert!(wide.pick(|| u64::MAX).is_ok());
}

#[test]
fn refusals_say_what_was_wrong() {
    let ranges =
        [RangeRefusal::Empty, RangeRefusal::TooLarge, RangeRefusal::Unknown].map(|refusal| refusal.to_string());
    assert_eq!(
        ranges,
        [
            "the range has nothing to grant",
            "the range is too large: at most 2^96 points (an IPv6 /32)",
            "the range is not there any more",
        ]
    );
    let points = [
        PoolRefusal::Claimed,
        PoolRefusal::OutOfRange,
        PoolRefusal::Closed,
        PoolRefusal::Exhausted,
        PoolRefusal::TooMany,
        PoolRefusal::Unclaimed,
    ];
    assert_eq!(
        points.map(|refusal| refusal.to_string()),
        [
            "it is claimed already",
            "no range has it",
            "its range is closed to new grants",
            "no open range has a free point left",
            "the pool cannot count more claims",
            "nobody holds it",
        ]
    );
}
