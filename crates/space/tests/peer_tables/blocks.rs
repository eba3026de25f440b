//! Blocks: which one an index means, which ones are used, which one is next.

use space::{Fit, GrantRefusal, Occupied, ReleaseRefusal};

use crate::Text;
use crate::set::{NODE, Set};

/// Range, block length, index and block.
const INDEXED: &[(&str, u8, u128, &str)] = &[
    ("127.123.3.0/16", 24, 0, "127.123.0.0/24"),
    ("127.123.0.0/16", 24, 15, "127.123.15.0/24"),
    ("192.168.5.219/28", 32, 5, "192.168.5.213/32"),
    ("2001:0db8:1234:3::/48", 64, 0, "2001:db8:1234::/64"),
    ("2001:0db8:1234::/48", 64, 15, "2001:db8:1234:f::/64"),
    ("2001:0db8:85a3::8a2e:0370:7334/50", 63, 6425, "2001:db8:85a3:3232::/63"),
    ("2001:0db8::/32", 48, 0, "2001:db8::/48"),
    ("2001:0db8::/32", 48, 15, "2001:db8:f::/48"),
    ("2001:0db8:85a3::8a2e:0370:7334/32", 48, 6425, "2001:db8:1919::/48"),
    ("2001:0db8:1234:ff00::/56", 72, 0, "2001:db8:1234:ff00::/72"),
    ("2001:0db8:1234:ff00::/56", 72, 15, "2001:db8:1234:ff00:f00::/72"),
    ("2001:0db8:1234:ff00::0370:7334/56", 72, 6425, "2001:db8:1234:ff19:1900::/72"),
    ("2001:0db8:1234:0:1234::/80", 96, 0, "2001:db8:1234:0:1234::/96"),
    ("2001:0db8:1234:0:1234::/80", 96, 15, "2001:db8:1234:0:1234:f::/96"),
    ("2001:0db8:1234:ff00::0370:7334/80", 96, 6425, "2001:db8:1234:ff00:0:1919::/96"),
    ("127.0.0.0/8", 16, 0, "127.0.0.0/16"),
    ("127.0.0.0/8", 16, 123, "127.123.0.0/16"),
    ("127.0.0.0/8", 16, 168, "127.168.0.0/16"),
    ("127.0.0.0/8", 16, 224, "127.224.0.0/16"),
    ("192.168.0.0/16", 24, 12, "192.168.12.0/24"),
    ("192.168.0.0/16", 24, 151, "192.168.151.0/24"),
    ("be00::/8", 16, 0, "be00::/16"),
    ("be00::/8", 16, 0xef, "beef::/16"),
    ("be00::/8", 16, 0x68, "be68::/16"),
    ("be00::/8", 16, 0x24, "be24::/16"),
    ("beef::/16", 24, 0x12, "beef:1200::/24"),
    ("beef::/16", 24, 0x97, "beef:9700::/24"),
];

#[test]
fn the_block_at_an_index_and_the_index_of_a_block_are_the_peers() {
    fn check<A: Text>(range: &str, length: u8, index: u128, expected: &str) {
        let (range, expected) = (A::prefix(range), A::prefix(expected));
        assert_eq!(range.block(index, length), Ok(expected));
        assert_eq!(range.block_index(expected.first(), length), Some(index), "{expected} in {range}");
        assert_eq!(range.block_index(expected.last(), length), Some(index), "the end of {expected} in {range}");
    }
    for &(range, length, index, expected) in INDEXED {
        by_family!(check(range, length, index, expected));
    }
    // The peers refuse these two as well.
    assert_eq!(u32::prefix("192.168.0.0/16").block_index(u32::prefix("127.168.224.0/24").first(), 24), None);
    assert_eq!(u128::prefix("beef::/16").block_index(u128::prefix("2001:db00::/24").first(), 24), None);
}

#[test]
fn a_range_of_one_block_is_granted_once_and_again_after_its_release() {
    fn check<A: Text>(range: &str) {
        for fit in Set::<A>::fits(range) {
            let mut set = Set::<A>::new(range, 30, &[]);
            for _ in 0..2 {
                assert_eq!(set.grant(fit), Ok(A::prefix(range)));
                assert_eq!(set.grant(fit), Err(set.exhausted()));
                assert_eq!(set.release(range), Ok(()));
            }
        }
    }
    for range in ["127.123.234.0/30", "beef:1234::/30"] {
        by_family!(check(range));
    }
}

#[test]
fn all_256_blocks_are_granted_in_the_same_order_again_and_around_what_is_occupied() {
    fn check<A: Text>(range: &str) {
        for fit in Set::<A>::fits(range) {
            let mut set = Set::<A>::new(range, 24, &[]);
            let in_order: Vec<_> = (0..256).map(|index| set.range.block(index, 24).unwrap()).collect();
            for _ in 0..2 {
                assert_eq!(set.grant_all(fit), in_order);
                for block in &in_order {
                    assert_eq!(set.register.release(*block, &NODE), Ok(()));
                }
            }
            // The upper half is occupied, the first block of it twice: the lower half is what is left.
            for block in &in_order[128..] {
                assert_eq!(set.register.occupy(*block, NODE), Occupied::Alone);
            }
            assert_eq!(set.register.occupy(in_order[128], NODE), Occupied::Already);
            assert_eq!(set.grant_all(fit), in_order[..128]);
        }
    }
    for range in ["127.123.234.0/16", "beef:1234::/16"] {
        by_family!(check(range));
    }
}

/// The peers keep a bit for each /24, so releasing a block frees what others hold of it, and releasing a /22 that nobody
/// holds frees a /24 in it. With us a claim ends by its own release only: the last column never falls below theirs.
#[test]
fn occupying_and_releasing_twice_counts_once_and_frees_nothing_that_is_held() {
    type Answer = Result<Occupied, ReleaseRefusal<u32>>;
    let unheld = |text| Err(ReleaseRefusal::Unheld(u32::prefix(text)));
    let table: [(&str, Option<Answer>, u128, u128); 7] = [
        ("10.42.5.0/24", Some(Ok(Occupied::Alone)), 1, 1),
        ("10.42.9.0/24", Some(Ok(Occupied::Alone)), 2, 2),
        ("10.42.8.0/22", Some(Ok(Occupied::Shared)), 5, 5),
        ("10.42.9.0/24", Some(Ok(Occupied::Already)), 5, 5),
        ("10.42.9.0/24", None, 4, 5),
        ("10.42.9.0/24", Some(unheld("10.42.9.0/24")), 4, 5),
        ("10.42.4.0/22", Some(unheld("10.42.4.0/22")), 3, 5),
    ];
    let mut set = Set::<u32>::new("10.42.0.0/16", 24, &[]);
    for (text, answer, _theirs, ours) in table {
        match answer {
            Some(Ok(occupied)) => assert_eq!(set.occupy(text), occupied, "{text}"),
            Some(Err(refusal)) => assert_eq!(set.release(text), Err(refusal)),
            None => assert_eq!(set.release(text), Ok(())),
        }
        assert_eq!(set.counts().allocated, ours, "after {text}");
    }
    let left = set.grant_all(Fit::Best);
    assert_eq!(left.len(), 256 - 5);
    assert!(left.iter().all(|block| *block != u32::prefix("10.42.5.0/24")));
    assert!(left.iter().all(|block| !block.overlaps(&u32::prefix("10.42.8.0/22"))));
}

/// Range, block length, what is occupied, and the first and last index that is used then.
const OCCUPIED: &[(&str, u8, &str, u128, u128)] = &[
    ("127.0.0.0/8", 16, "127.0.0.0/8", 0, 255),
    ("2001:beef:1200::/40", 48, "2001:beef:1200::/40", 0, 255),
    ("127.0.0.0/8", 16, "127.0.0.0/2", 0, 255),
    ("2001:beef:1200::/40", 48, "2001:beef:1234::/34", 0, 255),
    ("127.0.0.0/8", 16, "127.0.0.0/16", 0, 0),
    ("2001:beef:1200::/40", 48, "2001:beef:1200::/48", 0, 0),
    ("127.0.0.0/8", 32, "127.0.0.0/16", 0, 65535),
    ("2001:beef:1200::/48", 64, "2001:beef:1200::/48", 0, 65535),
    ("127.0.0.0/7", 16, "127.0.0.0/15", 256, 257),
    ("2001:beef:7f00::/39", 48, "2001:beef:7f00::/47", 256, 257),
    ("127.0.0.0/7", 15, "127.0.0.0/15", 128, 128),
    ("2001:beef:7f00::/39", 47, "2001:beef:7f00::/47", 128, 128),
    ("127.0.0.0/7", 18, "127.0.0.0/15", 1024, 1031),
    ("2001:beef:7f00::/39", 50, "2001:beef:7f00::/47", 1024, 1031),
    // The other way round, which the bitmaps round up likewise: a part of a block is enough to use it.
    ("10.10.0.0/16", 24, "10.10.3.77/32", 3, 3),
    ("0a00::/8", 24, "a00::/86", 0, 0),
];

#[test]
fn occupying_a_block_of_any_size_uses_exactly_the_blocks_that_it_touches() {
    fn check<A: Text>(range: &str, length: u8, occupied: &str, first: u128, last: u128) {
        let mut set = Set::<A>::new(range, length, &[]);
        let empty = set.counts();
        assert_eq!(set.occupy(occupied), Occupied::Alone);
        // As many as there should be, and those that should: no others.
        assert_eq!(set.counts().allocated, last - first + 1, "{occupied} in {range}");
        for index in first..=last {
            let block = set.range.block(index, length).unwrap();
            assert!(!set.register.is_free(block), "{block} after {occupied}");
        }
        assert_eq!(set.release(occupied), Ok(()));
        assert_eq!(set.counts(), empty);
    }
    for &(range, length, occupied, first, last) in OCCUPIED {
        by_family!(check(range, length, occupied, first, last));
    }
}

/// Range, block length, what is excluded (the Service range), what is taken, and the block that is granted next.
type Next = (&'static str, u8, &'static [&'static str], &'static [&'static str], &'static str);

const NEXT: &[Next] = &[
    ("127.123.234.0/24", 30, &[], &[], "127.123.234.0/30"),
    ("127.123.234.0/24", 30, &["127.123.234.0/26"], &[], "127.123.234.64/30"),
    (
        "127.123.234.0/24",
        30,
        &["127.123.234.0/26"],
        &["127.123.234.64/30", "127.123.234.68/30", "127.123.234.72/30", "127.123.234.80/30"],
        "127.123.234.76/30",
    ),
    ("abc:def:deca::/112", 120, &[], &[], "abc:def:deca::/120"),
    ("ace:cab:deca::/84", 98, &[], &[], "ace:cab:deca::/98"),
    ("10.0.0.0/16", 24, &[], &["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.4.0/24"], "10.0.3.0/24"),
    ("ace:cab:deca::/112", 120, &[], &["ace:cab:deca::/120"], "ace:cab:deca::100/120"),
    ("10.0.0.0/24", 24, &[], &[], "10.0.0.0/24"),
    ("10.0.0.0/32", 32, &[], &[], "10.0.0.0/32"),
    ("ace:cab:deca::/128", 128, &[], &[], "ace:cab:deca::/128"),
    ("10.10.0.0/22", 24, &[], &["10.10.0.0/24", "10.10.2.0/24"], "10.10.1.0/24"),
    ("10.10.0.0/16", 24, &[], &["10.10.0.1/24"], "10.10.1.0/24"),
    ("10.0.0.0/16", 24, &[], &["10.0.0.0/17"], "10.0.128.0/24"),
    ("127.123.234.0/28", 30, &[], &["127.123.234.4/30", "127.123.234.8/30", "127.123.234.12/30"], "127.123.234.0/30"),
    ("127.123.234.0/28", 30, &[], &["127.123.234.0/30", "127.123.234.8/30", "127.123.234.12/30"], "127.123.234.4/30"),
    ("127.0.0.0/8", 32, &[], &[], "127.0.0.0/32"),
    ("127.0.0.0/8", 32, &[], &["127.0.0.0/32"], "127.0.0.1/32"),
    ("2001:beef:1234:369b::/60", 64, &[], &[], "2001:beef:1234:3690::/64"),
    ("2001:beef:1234:369b::/60", 64, &[], &["2001:beef:1234:3690::/64"], "2001:beef:1234:3691::/64"),
];

/// The peers' answer to these is the first block. Ours is the same by first and next fit; best fit sees that the exclusion
/// in the middle has broken larger blocks already and takes the smallest whole one beside it.
const NEXT_BUT_FOR_BEST_FIT: &[(&str, &str, &str, &str)] = &[
    ("127.123.234.0/8", "127.123.234.0/26", "127.0.0.0/24", "127.123.235.0/24"),
    ("127.123.234.0/16", "127.123.234.0/26", "127.123.0.0/24", "127.123.235.0/24"),
];

/// Grants the expected block, and grants it again after its release but not before.
fn check_next<A: Text>(mut set: Set<A>, fit: Fit<A>, expected: &str) {
    let (view, length, expected) = (set.view, set.length, A::prefix(expected));
    assert_eq!(set.register.find_in_view(view, length, fit), Ok(expected), "{fit:?}");
    assert_eq!(set.grant(fit), Ok(expected), "{fit:?}");
    assert_eq!(set.register.claim(expected, "other"), Err(GrantRefusal::Taken(expected)));
    assert_ne!(set.register.find_in_view(view, length, fit), Ok(expected));
    assert_eq!(set.register.release(expected, &NODE), Ok(()));
    assert_eq!(set.grant(fit), Ok(expected), "{fit:?} after its release");
}

#[test]
fn the_next_block_is_the_first_that_is_neither_excluded_nor_taken() {
    fn check<A: Text>(range: &str, length: u8, excluded: &[&str], taken: &[&str], expected: &str) {
        for fit in Set::<A>::fits(range) {
            let mut set = Set::<A>::new(range, length, excluded);
            for text in taken {
                assert_eq!(set.occupy(text), Occupied::Alone);
            }
            check_next(set, fit, expected);
        }
    }
    for &(range, length, excluded, taken, expected) in NEXT {
        by_family!(check(range, length, excluded, taken, expected));
    }
    for (range, excluded, first, best) in NEXT_BUT_FOR_BEST_FIT {
        for fit in Set::<u32>::fits(range) {
            let expected = if fit == Fit::Best { best } else { first };
            check_next(Set::<u32>::new(range, 24, &[excluded]), fit, expected);
        }
    }
}

#[test]
fn a_full_range_grants_nothing_and_says_so() {
    let mut set = Set::<u32>::new("127.123.234.0/28", 30, &[]);
    for text in ["127.123.234.0/30", "127.123.234.4/30", "127.123.234.8/30", "127.123.234.12/30"] {
        set.occupy(text);
    }
    assert_eq!(set.grant_all(Fit::Best), []);
    assert_eq!(set.release("127.123.234.4/30"), Ok(()));
    assert_eq!(set.grant_all(Fit::Best), [u32::prefix("127.123.234.4/30")]);
}
