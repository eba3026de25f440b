//! Properties of `Prefix`, in both families and at both ends of the address space.
//!
//! The arithmetic is held against plain `u128` sums: a block of `length` is the addresses from its first to its first
//! plus 2^(width - length) - 1, and nothing here trusts the crate for more than reading the first address and the length.

use proptest::prelude::*;
use space::{Address, Cidr, Family, Prefix, PrefixError};

/// Each property becomes one test per family.
macro_rules! in_both_families {
    ($($property:ident),* $(,)?) => {
        mod ipv4 {
            $(#[test] fn $property() { super::$property::<u32>(); })*
        }
        mod ipv6 {
            $(#[test] fn $property() { super::$property::<u128>(); })*
        }
    };
}

in_both_families!(
    a_prefix_is_its_first_address_to_its_last,
    host_bits_are_refused_by_new_and_cleared_by_enclosing,
    lengths_beyond_the_family_are_refused_everywhere,
    containment_and_overlap_are_those_of_the_address_ranges,
    a_sibling_is_the_other_half_of_the_same_parent,
    halves_are_siblings_that_make_up_the_whole,
    an_enclosing_prefix_holds_the_one_it_encloses,
    the_block_index_is_the_inverse_of_the_block,
    blocks_beyond_the_last_or_larger_than_the_prefix_are_refused,
    addresses_outside_have_no_block_index,
    a_block_sorts_right_before_those_inside_it,
    what_is_left_without_holes_is_the_fewest_blocks_of_a_brute_force_search,
    one_hole_at_either_end_leaves_one_block_of_each_size,
);

/// How much further the last address of a block is than its first.
fn beyond_first<A: Address>(length: u8) -> u128 {
    1_u128.checked_shl(u32::from(A::WIDTH - length)).map_or(u128::MAX, |size| size - 1)
}

/// First and last address, by sums.
fn ends<A: Address>(prefix: Prefix<A>) -> (u128, u128) {
    let first = prefix.first().wide();
    (first, first + beyond_first::<A>(prefix.length()))
}

fn block<A: Address>(address: A, length: u8) -> Prefix<A> {
    let first = A::narrow(address.wide() & !beyond_first::<A>(length));
    Prefix::new(first, length).unwrap_or_else(|refusal| panic!("{first}/{length}: {refusal}"))
}

/// Any address, the first and last few hundred more often.
fn addresses<A: Address>() -> impl Strategy<Value = A> {
    prop_oneof![
        any::<u128>().prop_map(A::narrow),
        (0_u128..300).prop_map(A::narrow),
        (0_u128..300).prop_map(|below| A::narrow(u128::MAX - below)),
    ]
}

/// Any length, the shortest and the longest more often.
fn lengths<A: Address>() -> impl Strategy<Value = u8> {
    prop_oneof![4 => 0..=A::WIDTH, 1 => 0..=1_u8, 2 => A::WIDTH - 2..=A::WIDTH]
}

fn prefixes<A: Address>() -> impl Strategy<Value = Prefix<A>> {
    (addresses(), lengths::<A>()).prop_map(|(address, length)| block(address, length))
}

/// Two prefixes that often have to do with each other: the same address, or one bit away.
fn relatives<A: Address>() -> impl Strategy<Value = (Prefix<A>, Prefix<A>)> {
    let apart = prop_oneof![Just(A::ZERO), (0..A::WIDTH).prop_map(|bit| A::ONE.up(bit)), addresses()];
    (addresses::<A>(), apart, lengths::<A>(), lengths::<A>())
        .prop_map(|(address, apart, one, other)| (block(address, one), block(address ^ apart, other)))
}

fn a_prefix_is_its_first_address_to_its_last<A: Address>() {
    proptest!(|(prefix in prefixes::<A>())| {
        let (first, last) = ends(prefix);
        prop_assert_eq!(prefix.last().wide(), last);
        prop_assert_eq!(prefix.size(), (last - first).saturating_add(1));
        prop_assert!(prefix.contains_address(prefix.first()) && prefix.contains_address(A::narrow(last)));
        prop_assert!(first == 0 || !prefix.contains_address(A::narrow(first - 1)));
        prop_assert!(last == A::MAX.wide() || !prefix.contains_address(A::narrow(last + 1)));
    });
    assert_eq!(ends(Prefix::<A>::ALL), (0, A::MAX.wide()));
    assert_eq!((Prefix::host(A::MAX).first(), Prefix::host(A::MAX).last()), (A::MAX, A::MAX));
    assert_eq!(Prefix::host(A::MAX).length(), A::WIDTH);
}

fn host_bits_are_refused_by_new_and_cleared_by_enclosing<A: Address>() {
    proptest!(|(address in addresses::<A>(), length in lengths::<A>())| {
        let around = block(address, length);
        prop_assert_eq!(Prefix::enclosing_address(address, length), Ok(around));
        let expected = if around.first() == address { Ok(around) } else { Err(PrefixError::HostBits { length }) };
        prop_assert_eq!(Prefix::new(address, length), expected);
    });
}

fn lengths_beyond_the_family_are_refused_everywhere<A: Address>() {
    for length in A::WIDTH + 1..=u8::MAX {
        let refusal = PrefixError::TooLong { family: A::FAMILY, length };
        for address in [A::ZERO, A::ONE, A::MAX] {
            assert_eq!(Prefix::new(address, length), Err(refusal));
            assert_eq!(Prefix::enclosing_address(address, length), Err(refusal));
            for prefix in [Prefix::ALL, Prefix::host(address)] {
                assert_eq!(prefix.block(0, length), Err(refusal));
                assert_eq!(prefix.blocks(length), 0);
                assert_eq!(prefix.block_index(address, length), None);
                assert_eq!(prefix.enclosing(length), None);
            }
        }
    }
}

fn containment_and_overlap_are_those_of_the_address_ranges<A: Address>() {
    proptest!(|((one, other) in relatives::<A>())| {
        let ((first, last), (other_first, other_last)) = (ends(one), ends(other));
        prop_assert_eq!(one.contains(&other), first <= other_first && other_last <= last);
        prop_assert_eq!(one.contains_address(other.first()), first <= other_first && other_first <= last);
        let overlap = first <= other_last && other_first <= last;
        prop_assert_eq!(one.overlaps(&other), overlap);
        prop_assert_eq!(other.overlaps(&one), overlap);
        prop_assert_eq!(overlap, one.contains(&other) || other.contains(&one));
    });
}

fn a_sibling_is_the_other_half_of_the_same_parent<A: Address>() {
    proptest!(|(prefix in prefixes::<A>())| {
        let Some(sibling) = prefix.sibling() else {
            prop_assert_eq!(prefix, Prefix::ALL);
            return Ok(());
        };
        let (lower, upper) = (prefix.min(sibling), prefix.max(sibling));
        prop_assert_eq!(sibling.length(), prefix.length());
        prop_assert_eq!(ends(upper).0, ends(lower).1 + 1);
        prop_assert_eq!(block(lower.first(), prefix.length() - 1), block(upper.first(), prefix.length() - 1));
        prop_assert_eq!(sibling.sibling(), Some(prefix));
    });
}

fn halves_are_siblings_that_make_up_the_whole<A: Address>() {
    proptest!(|(prefix in prefixes::<A>())| {
        let Some([lower, upper]) = prefix.halves() else {
            prop_assert_eq!(prefix, Prefix::host(prefix.first()));
            return Ok(());
        };
        prop_assert_eq!((lower.length(), upper.length()), (prefix.length() + 1, prefix.length() + 1));
        prop_assert_eq!((ends(lower).0, ends(upper).1), ends(prefix));
        prop_assert_eq!(ends(lower).1 + 1, ends(upper).0);
        prop_assert_eq!(lower.sibling(), Some(upper));
    });
}

fn an_enclosing_prefix_holds_the_one_it_encloses<A: Address>() {
    proptest!(|(prefix in prefixes::<A>(), length in lengths::<A>())| {
        let expected = (length <= prefix.length()).then(|| block(prefix.first(), length));
        prop_assert_eq!(prefix.enclosing(length), expected);
        prop_assert!(expected.is_none_or(|around| around.contains(&prefix)));
    });
}

fn the_block_index_is_the_inverse_of_the_block<A: Address>() {
    proptest!(|((one, other) in relatives::<A>(), index in any::<u128>(), from_end in 0_u128..3)| {
        let (prefix, length) = (if one.length() < other.length() { one } else { other }, one.length().max(other.length()));
        // Blocks are counted like addresses of a family that is as wide as the index has bits.
        let last_index = beyond_first::<A>(A::WIDTH - (length - prefix.length()));
        prop_assert_eq!(prefix.blocks(length), last_index.saturating_add(1));
        for index in [index & last_index, from_end & last_index, last_index.saturating_sub(from_end)] {
            let Ok(found) = prefix.block(index, length) else { panic!("{prefix} has no /{length} number {index}") };
            prop_assert_eq!(found.length(), length);
            let below = A::WIDTH - length;
            let offset = index.checked_shl(u32::from(below)).unwrap_or(0);
            prop_assert_eq!(found.first().wide(), prefix.first().wide() + offset);
            for address in [found.first(), found.last()] {
                prop_assert_eq!(prefix.block_index(address, length), Some(index));
            }
        }
    });
}

fn blocks_beyond_the_last_or_larger_than_the_prefix_are_refused<A: Address>() {
    proptest!(|(prefix in prefixes::<A>(), length in lengths::<A>(), more in any::<u128>())| {
        let within = prefix.length();
        if length < within {
            prop_assert_eq!(prefix.block(0, length), Err(PrefixError::TooLarge { length, within }));
            prop_assert_eq!(prefix.blocks(length), 0);
            prop_assert_eq!(prefix.block_index(prefix.first(), length), None);
        } else if length - within < 128 {
            let count = 1_u128 << (length - within);
            for index in [count, count.saturating_add(more), u128::MAX] {
                prop_assert_eq!(prefix.block(index, length), Err(PrefixError::BeyondLast { index }));
            }
        }
    });
}

fn addresses_outside_have_no_block_index<A: Address>() {
    proptest!(|((prefix, other) in relatives::<A>(), length in lengths::<A>())| {
        let (first, last) = ends(prefix);
        let inside = (first..=last).contains(&other.first().wide());
        let expected = inside && length >= prefix.length();
        prop_assert_eq!(prefix.block_index(other.first(), length).is_some(), expected);
    });
}

fn a_block_sorts_right_before_those_inside_it<A: Address>() {
    proptest!(|((one, other) in relatives::<A>(), length in lengths::<A>(), elsewhere in prefixes::<A>())| {
        let by_numbers = (ends(one).0, one.length()).cmp(&(ends(other).0, other.length()));
        prop_assert_eq!(one.cmp(&other), by_numbers);
        if one.contains(&other) && one != other {
            prop_assert!(one < other);
            // Nothing from elsewhere comes between a block and one inside it.
            for between in [block(other.first(), length), block(one.last(), length), elsewhere] {
                prop_assert!(!(one < between && between < other) || one.contains(&between));
            }
        }
    });
}

/// The largest aligned free block at each free address, in order: no cover has fewer blocks.
fn brute_force<A: Address>(range: Prefix<A>, holes: &[Prefix<A>]) -> Vec<Prefix<A>> {
    let (first, last) = ends(range);
    let free = |address| !holes.iter().any(|hole| (ends(*hole).0..=ends(*hole).1).contains(&address));
    let mut left = Vec::new();
    let mut at = first;
    while at <= last {
        let whole = |length: &u8| {
            let size = beyond_first::<A>(*length) + 1;
            at % size == 0 && at + (size - 1) <= last && (at..at + size).all(free)
        };
        match (range.length()..=A::WIDTH).find(whole) {
            Some(length) => {
                left.push(block(A::narrow(at), length));
                at += beyond_first::<A>(length) + 1;
            }
            None => at += 1,
        }
    }
    left
}

fn what_is_left_without_holes_is_the_fewest_blocks_of_a_brute_force_search<A: Address>() {
    // Away from the last address, so that the search can count past its range.
    let range = block(A::ONE.up(A::WIDTH - 1), A::WIDTH - 8);
    let hole = (any::<u8>(), A::WIDTH - 10..=A::WIDTH, prop_oneof![9 => Just(0_u128), 1 => Just(1 << 9)]);
    let holes = proptest::collection::vec(hole, 0..8).prop_map(move |holes| {
        let place = |(offset, length, away): (u8, u8, u128)| {
            block(A::narrow(range.first().wide() + u128::from(offset) + away), length)
        };
        holes.into_iter().map(place).collect::<Vec<_>>()
    });
    proptest!(|(holes in holes)| {
        let left = range.without(&holes);
        prop_assert_eq!(&left, &brute_force(range, &holes), "{} without {:?}", range, holes);
        prop_assert!(left.is_sorted() && left.windows(2).all(|pair| !pair[0].overlaps(&pair[1])));
        prop_assert!(left.iter().all(|block| !holes.iter().any(|hole| hole.overlaps(block))));
    });
    assert_eq!(range.without(&[]), [range]);
    assert_eq!(range.without(&[Prefix::ALL]), []);
    // A hole around half of everything is seen at once, or this never ends.
    assert_eq!(block(A::MAX, 1).without(&[Prefix::ALL]), []);
}

fn one_hole_at_either_end_leaves_one_block_of_each_size<A: Address>() {
    let all = Prefix::<A>::ALL;
    for (hole, rising) in [(A::ZERO, false), (A::MAX, true)] {
        let left = all.without(&[Prefix::host(hole)]);
        let mut lengths: Vec<u8> = left.iter().map(Prefix::length).collect();
        if !rising {
            lengths.reverse();
        }
        assert_eq!(lengths, (1..=A::WIDTH).collect::<Vec<_>>());
        let covered = left.iter().fold(0_u128, |sum, block| sum + block.size());
        assert_eq!(covered, A::MAX.wide());
    }
}

/// Either family's view of a text that must be canonical.
fn read(text: &str) -> Cidr {
    Cidr::strict(text).unwrap_or_else(|refusal| panic!("{text}: {refusal}"))
}

#[test]
fn sizes_and_ends_are_exact_at_the_extremes() {
    const LAST: &str = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let table = [
        ("0.0.0.0/0", "0.0.0.0", "255.255.255.255", 1 << 32),
        ("128.0.0.0/1", "128.0.0.0", "255.255.255.255", 1 << 31),
        ("0.0.0.0/32", "0.0.0.0", "0.0.0.0", 1),
        ("255.255.255.254/31", "255.255.255.254", "255.255.255.255", 2),
        ("255.255.255.255/32", "255.255.255.255", "255.255.255.255", 1),
        // 2^128 does not fit, and is the only size that does not.
        ("::/0", "::", LAST, u128::MAX),
        ("8000::/1", "8000::", LAST, 1 << 127),
        ("::/128", "::", "::", 1),
        ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", LAST, 2),
        ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", LAST, LAST, 1),
    ];
    for (text, first, last, size) in table {
        let (found_first, found_last, found_size) = match read(text) {
            Cidr::V4(prefix) => {
                (Prefix::host(prefix.first()).into(), Cidr::V4(Prefix::host(prefix.last())), prefix.size())
            }
            Cidr::V6(prefix) => {
                (Prefix::host(prefix.first()).into(), Cidr::V6(Prefix::host(prefix.last())), prefix.size())
            }
        };
        let host = |address: &str| read(&format!("{address}/{}", if text.contains(':') { 128 } else { 32 }));
        assert_eq!((found_first, found_last, found_size), (host(first), host(last), size), "{text}");
    }
}

#[test]
fn usable_addresses_leave_out_the_first_and_in_ipv4_the_last() {
    fn usable<A: Address>(prefix: Prefix<A>) -> Option<(String, String)> {
        let (first, last) = prefix.usable()?;
        Some((Prefix::host(first).to_string(), Prefix::host(last).to_string()))
    }
    let table = [
        ("10.0.0.0/24", Some(("10.0.0.1/32", "10.0.0.254/32"))),
        ("10.0.0.0/30", Some(("10.0.0.1/32", "10.0.0.2/32"))),
        ("10.0.0.0/31", None),
        ("10.0.0.0/32", None),
        ("0.0.0.0/31", None),
        ("0.0.0.0/32", None),
        ("255.255.255.252/30", Some(("255.255.255.253/32", "255.255.255.254/32"))),
        ("255.255.255.254/31", None),
        ("255.255.255.255/32", None),
        ("0.0.0.0/0", Some(("0.0.0.1/32", "255.255.255.254/32"))),
        ("2001:db8::/126", Some(("2001:db8::1/128", "2001:db8::3/128"))),
        ("2001:db8::/127", Some(("2001:db8::1/128", "2001:db8::1/128"))),
        ("2001:db8::/128", None),
        ("::/128", None),
        ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", None),
        ("::/0", Some(("::1/128", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"))),
    ];
    for (text, expected) in table {
        let found = match read(text) {
            Cidr::V4(prefix) => usable(prefix),
            Cidr::V6(prefix) => usable(prefix),
        };
        assert_eq!(found, expected.map(|(first, last)| (first.to_owned(), last.to_owned())), "{text}");
    }
}

#[test]
fn display_and_debug_are_the_canonical_text() {
    let v4 = Prefix::new(0x0a01_0200_u32, 24).unwrap();
    let v6 = Prefix::new(0x2001_0db8_u128 << 96, 32).unwrap();
    assert_eq!((v4.to_string(), format!("{v4:?}")), ("10.1.2.0/24".to_owned(), "10.1.2.0/24".to_owned()));
    assert_eq!((v6.to_string(), format!("{v6:?}")), ("2001:db8::/32".to_owned(), "2001:db8::/32".to_owned()));
    assert_eq!(Prefix::<u32>::ALL.to_string(), "0.0.0.0/0");
    assert_eq!(Prefix::<u128>::ALL.to_string(), "::/0");
    assert_eq!(Prefix::host(u32::MAX).to_string(), "255.255.255.255/32");
    assert_eq!(Prefix::host(u128::MAX).to_string(), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128");
}

#[test]
fn refusals_say_what_was_wrong() {
    let table = [
        (PrefixError::TooLong { family: Family::V4, length: 33 }, "prefix length 33 is too long: IPv4 has at most 32"),
        (
            PrefixError::TooLong { family: Family::V6, length: 129 },
            "prefix length 129 is too long: IPv6 has at most 128",
        ),
        (PrefixError::HostBits { length: 8 }, "the address has bits set beyond the prefix length 8"),
        (PrefixError::TooLarge { length: 8, within: 16 }, "a /8 is larger than the /16 it should come from"),
        (PrefixError::BeyondLast { index: 256 }, "block 256 is beyond the last block of the prefix"),
    ];
    for (refusal, text) in table {
        assert_eq!(refusal.to_string(), text);
    }
}
