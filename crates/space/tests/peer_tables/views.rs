//! Views: how many blocks a range has, what is counted, and what several views know of each other.

use space::{Fit, GrantRefusal, Occupied, Prefix, Register, View, ViewRefusal};

use crate::Text;
use crate::set::{NODE, Set};

/// Range, block length, and how many blocks that makes. The second half is beyond the 2^16 blocks of an IPv6 range that the
/// peers' bitmaps have room for: they refuse it, or accept the object and then cannot use it. We have no such limit.
const CAPACITIES: &[(&str, u8, u128)] = &[
    ("10.0.0.0/16", 24, 256),
    ("10.1.0.0/16", 16, 1),
    ("10.1.0.0/16", 28, 4096),
    ("127.123.234.0/23", 24, 2),
    ("127.123.234.0/8", 24, 65536),
    ("127.0.0.0/8", 32, 1 << 24),
    ("10.0.0.0/32", 32, 1),
    ("2001:db8::/48", 64, 65536),
    ("fd00:1:1::/64", 64, 1),
    ("fd00:1:1::/16", 28, 4096),
    ("ace:cab:deca::/112", 120, 256),
    ("ace:cab:deca::/120", 120, 1),
    ("ace:cab:deca::/128", 128, 1),
    ("beef:1234::/32", 49, 1 << 17),
    ("fd00:1:1::/64", 120, 1 << 56),
    ("fd00:1:1::/64", 124, 1 << 60),
    // The example of KEP-2593 that runs on neither peer, and a dual-stack cluster with the default masks.
    ("fd12:3456:789a:1::/64", 118, 1 << 54),
    ("2001:db8::/48", 120, 1 << 72),
];

#[test]
fn a_view_has_as_many_blocks_as_its_range_and_grants_the_first_two() {
    fn check<A: Text>(range: &str, length: u8, capacity: u128) {
        let mut set = Set::<A>::new(range, length, &[]);
        assert_eq!((set.counts().capacity, set.counts().free), (capacity, capacity), "/{length} in {range}");
        assert_eq!(set.range.blocks(length), capacity);
        for index in 0..capacity.min(2) {
            assert_eq!(set.grant(Fit::Best), set.range.block(index, length).map_err(|refusal| panic!("{refusal}")));
            assert_eq!(set.counts().allocated, index + 1);
        }
        let last = set.range.block(capacity - 1, length).unwrap();
        assert_eq!(last.last(), set.range.last());
    }
    for &(range, length, capacity) in CAPACITIES {
        by_family!(check(range, length, capacity));
    }
    let [first, second] = ["beef:1234::/49", "beef:1234:0:8000::/49"].map(u128::prefix);
    assert_eq!([0, 1].map(|index| u128::prefix("beef:1234::/32").block(index, 49)), [Ok(first), Ok(second)]);
}

#[test]
fn block_sizes_that_a_range_cannot_have_are_refused() {
    // Host bits 24 of a /16, and 12 of a /120.
    let refusal = View::new(u32::prefix("10.1.0.0/16"), 8, &[]).unwrap_err();
    assert_eq!(refusal, ViewRefusal::TooLarge { length: 8, range: 16 });
    assert_eq!(refusal.to_string(), "a block of /8 is larger than the /16 range");
    let refusal = View::new(u128::prefix("fd00::/120"), 116, &[]).unwrap_err();
    assert_eq!(refusal, ViewRefusal::TooLarge { length: 116, range: 120 });
    // A Service range that touches every block.
    let refusal = View::new(u32::prefix("127.123.234.0/24"), 24, &[u32::prefix("127.123.234.0/26")]).unwrap_err();
    assert_eq!(refusal, ViewRefusal::NothingLeft { length: 24 });
    assert_eq!(refusal.to_string(), "the exclusions leave no whole /24 in the range");

    // Where blocks of another size than the view's are asked for.
    let mut set = Set::<u32>::new("10.1.0.0/16", 24, &[]);
    for length in [15, 33] {
        let refusal = GrantRefusal::ImpossibleSize { length, range: set.range };
        assert_eq!(set.register.grant(set.view, length, Fit::Best, NODE), Err(refusal));
        assert_eq!(set.register.grant_within(set.range, length, Fit::Best, NODE), Err(refusal));
        assert_eq!(set.register.find_in_view(set.view, length, Fit::Best), Err(refusal));
        assert_eq!(set.register.find(set.range, length, Fit::Best), None);
    }
    assert_eq!(set.register.claims(), 0);
}

#[test]
fn counts_follow_every_grant_and_the_whole_range_at_once() {
    fn check<A: Text>(range: &str, length: u8, capacity: u128) {
        let mut set = Set::<A>::new(range, length, &[]);
        assert_eq!(set.occupy(range), Occupied::Alone);
        assert_eq!((set.counts().allocated, set.counts().largest_free), (capacity, None));
        assert_eq!(set.release(range), Ok(()));
        assert_eq!((set.counts().allocated, set.counts().largest_free), (0, Some(set.range.length())));
    }
    let mut set = Set::<u32>::new("10.0.0.0/16", 24, &[]);
    for granted in 1..=256 {
        set.grant(Fit::Best).unwrap();
        assert_eq!((set.counts().allocated, set.counts().free), (granted, 256 - granted));
    }
    // The peers release a whole range with one call; with us each claim is released by itself.
    for index in 0..256 {
        set.register.release(set.range.block(index, 24).unwrap(), &NODE).unwrap();
    }
    assert_eq!(set.counts().allocated, 0);
    for (range, length, capacity) in [("10.0.0.0/16", 24, 256), ("2001:db8::/48", 64, 65536)] {
        by_family!(check(range, length, capacity));
    }

    let mut set = Set::<u32>::new("10.0.0.0/16", 24, &[]);
    set.occupy("10.0.0.0/17");
    assert_eq!(set.counts().allocated, 128);
    assert_eq!(set.grant(Fit::First), Ok(u32::prefix("10.0.128.0/24")));
    assert_eq!(set.counts().allocated, 129);
}

#[test]
fn a_granted_block_is_taken_until_its_release_and_the_next_is_not() {
    fn check<A: Text>(range: &str, length: u8) {
        let mut set = Set::<A>::new(range, length, &[]);
        let granted = set.grant(Fit::Best).unwrap();
        assert!(!set.register.is_free(granted));
        let next = set.register.find(set.range, length, Fit::Best).unwrap();
        assert_ne!(next, granted);
        assert!(set.register.is_free(next));
        assert_eq!(set.register.release(granted, &NODE), Ok(()));
        assert!(set.register.is_free(granted));
    }
    for (range, length) in [("10.0.0.0/16", 24), ("2001:db8::/48", 64)] {
        by_family!(check(range, length));
    }
}

#[test]
fn overlaps_are_found_around_inside_and_on_a_claim_until_its_release() {
    fn check<A: Text>(occupied: &str, asked: &str, expected: bool) {
        let (occupied, asked) = (A::prefix(occupied), A::prefix(asked));
        let mut register = Register::new();
        let meets = |register: &Register<A, &'static str>| {
            let overlaps = register.overlaps(asked).map(|(block, owner)| (block, *owner)).collect::<Vec<_>>();
            assert_eq!(register.is_free(asked), overlaps.is_empty());
            overlaps
        };
        assert_eq!(meets(&register), []);
        register.occupy(occupied, NODE);
        let found = if expected { vec![(occupied, NODE)] } else { vec![] };
        assert_eq!(meets(&register), found, "{occupied} and {asked}");
        register.release(occupied, &NODE).unwrap();
        assert_eq!(meets(&register), []);
    }
    let table = [
        ("10.0.5.0/24", "10.0.5.0/24", true),
        ("10.0.5.0/24", "10.0.0.0/16", true),
        ("10.0.5.0/24", "10.0.5.128/25", true),
        ("10.0.5.0/24", "10.0.6.0/24", false),
        ("10.0.5.0/24", "10.0.4.0/22", true),
        ("2001:db8:0:1::/64", "2001:db8:0:1::/64", true),
        ("2001:db8:0:1::/64", "2001:db8:0:2::/64", false),
        ("2001:db8:0:1::/64", "2001:db8::/48", true),
    ];
    for (occupied, asked, expected) in table {
        by_family!(check(occupied, asked, expected));
    }
}

/// The peers refuse a node whose block is outside the range. The register keeps it, because it is a fact; the view tells
/// inside from outside, and does not count the latter.
#[test]
fn blocks_of_existing_nodes_count_in_the_ranges_that_they_lie_in() {
    fn check<A: Text>(range: &str, existing: &str, inside: bool) {
        let mut set = Set::<A>::new(range, 24, &[]);
        assert_eq!(set.range.contains(&A::prefix(existing)), inside, "{existing} in {range}");
        set.occupy(existing);
        assert_eq!(set.counts().allocated, u128::from(inside), "{existing} in {range}");
        assert_eq!(set.register.owners(A::prefix(existing)).collect::<Vec<_>>(), [&NODE]);
    }
    let table = [
        ("10.10.0.0/16", "10.10.0.1/24", true),
        ("10.10.0.0/16", "172.10.0.1/24", false),
        ("ace:cab:deca::/8", "a00::/86", true),
        ("ace:cab:deca::/8", "cdd::/86", false),
    ];
    for (range, existing, inside) in table {
        by_family!(check(range, existing, inside));
    }
}

#[test]
fn overlapping_ranges_see_each_others_blocks() {
    let mut set = Set::<u32>::new("10.0.0.0/16", 24, &[]);
    let around = set.register.add_view(View::new(u32::prefix("10.0.0.0/8"), 24, &[]).unwrap());
    for text in ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.4.0/24"] {
        set.occupy(text);
    }
    let next = u32::prefix("10.0.3.0/24");
    assert_eq!(set.register.find_in_view(around, 24, Fit::Best), Ok(next));
    assert_eq!(set.grant(Fit::Best), Ok(next));
    assert_eq!(set.register.counts(around).unwrap().allocated, 5);
    assert_eq!(set.register.grant(around, 24, Fit::Best, NODE), Ok(u32::prefix("10.0.5.0/24")));
    assert_eq!(set.counts().allocated, 6);
}

/// The peers' sets have one block size each, and two sets with different sizes scan each other's blocks. Here they may mix.
#[test]
fn overlapping_ranges_of_different_block_sizes_never_grant_the_same_address() {
    let mut register = Register::new();
    let ranges = [("10.0.0.0/16", 24), ("10.0.0.0/8", 26), ("10.0.0.0/20", 28), ("10.0.8.0/21", 22)];
    let views = ranges.map(|(range, length)| {
        let range = u32::prefix(range);
        (register.add_view(View::new(range, length, &[]).unwrap()), range, length)
    });
    let mut granted: Vec<Prefix<u32>> = Vec::new();
    for (turn, (view, range, length)) in views.into_iter().cycle().take(80).enumerate() {
        let fit = if turn % 8 < 4 { Fit::Best } else { Fit::First };
        let Ok(block) = register.grant(view, length, fit, NODE) else {
            // Nothing is refused that could have been had.
            let mut blocks = (0..range.blocks(length)).map(|index| range.block(index, length).unwrap());
            assert!(blocks.all(|block| granted.iter().any(|other| other.overlaps(&block))), "/{length} of {range}");
            continue;
        };
        assert!(range.contains(&block) && block.length() == length, "{block} from {range}");
        granted.push(block);
    }
    granted.sort_unstable();
    assert!(granted.windows(2).all(|pair| pair[0].last() < pair[1].first()), "{granted:?}");
    let taken: u128 = granted.iter().map(Prefix::size).sum();
    assert_eq!(register.counts(views[1].0).unwrap().free_addresses, (1 << 24) - taken);
    assert!((41..80).contains(&granted.len()), "most were granted and some refused: {}", granted.len());
}
