//! What a register promises, one property to a test. The models are in `model.rs`; here each promise can be read alone.
#![allow(clippy::unwrap_used, reason = "a test that has to give up says where")]

use space::{
    COOLING_LIMIT, Cidr, Fit, GrantRefusal, Moment, Occupied, Prefix, Register, ReleaseRefusal, View, ViewId,
    ViewRefusal,
};

fn v4(text: &str) -> Prefix<u32> {
    Cidr::strict(text).unwrap().v4().unwrap()
}

fn v6(text: &str) -> Prefix<u128> {
    Cidr::strict(text).unwrap().v6().unwrap()
}

fn add_view(register: &mut Register<u32, &'static str>, range: &str, length: u8, excluded: &[&str]) -> ViewId {
    let excluded: Vec<_> = excluded.iter().map(|text| v4(text)).collect();
    register.add_view(View::new(v4(range), length, &excluded).unwrap())
}

/// What a grant gave, as text.
fn granted(grant: Result<Prefix<u32>, GrantRefusal<u32>>) -> String {
    grant.map_or_else(|refusal| refusal.to_string(), |block| block.to_string())
}

#[test]
fn space_with_two_owners_is_free_when_the_last_is_gone_and_both_are_reported() {
    let mut register = Register::new();
    let block = v4("10.0.0.0/24");
    assert_eq!(register.occupy(block, "a"), Occupied::Alone);
    assert_eq!(register.occupy(block, "b"), Occupied::Shared);
    assert_eq!(register.occupy(block, "b"), Occupied::Already);
    assert_eq!(register.owners(block).collect::<Vec<_>>(), [&"b", &"a"]);
    assert_eq!(register.release(block, &"a"), Ok(()));
    assert!(!register.is_free(block));
    assert_eq!(register.claim(block, "c"), Err(GrantRefusal::Taken(block)));
    assert_eq!(register.release(block, &"b"), Ok(()));
    assert_eq!(register.claim(block, "c"), Ok(()));
}

#[test]
fn a_refused_release_leaves_everything_as_it_was() {
    let mut register = Register::new();
    let block = v4("10.0.0.0/24");
    register.claim(block, "a").unwrap();
    assert_eq!(register.release(block, &"stranger"), Err(ReleaseRefusal::HeldByOthers(block)));
    for other in [v4("10.0.0.0/23"), v4("10.0.0.0/25"), v4("10.0.1.0/24")] {
        assert_eq!(register.release(other, &"a"), Err(ReleaseRefusal::Unheld(other)));
        assert_eq!(register.release_cooling(other, &"a", Moment(9)), Err(ReleaseRefusal::Unheld(other)));
    }
    assert_eq!(register.iter().collect::<Vec<_>>(), [(block, &"a")]);
    assert_eq!(register.cooling().count(), 0);
    register.release(block, &"a").unwrap();
    assert_eq!(register.release(block, &"a"), Err(ReleaseRefusal::Unheld(block)));
    assert_eq!(register.audit(), Ok(()));
}

#[test]
fn a_block_that_comes_around_a_range_ends_its_grants_at_once() {
    // Each around the range from further up: in its own node of the trie, in the ones above it, in the root.
    for around in ["10.0.0.0/16", "10.0.0.0/14", "10.0.0.0/12", "10.0.0.0/8", "0.0.0.0/1", "0.0.0.0/0"] {
        let mut register = Register::new();
        let view = add_view(&mut register, "10.0.0.0/16", 24, &[]);
        for index in 0..20 {
            assert_eq!(granted(register.grant(view, 24, Fit::Best, "node")), format!("10.0.{index}.0/24"));
        }
        register.occupy(v4(around), "other");
        assert_eq!(granted(register.grant(view, 24, Fit::Best, "node")), "no free /24 is left in 10.0.0.0/16");
        register.release(v4(around), &"other").unwrap();
        assert_eq!(granted(register.grant(view, 24, Fit::Best, "node")), "10.0.20.0/24", "after {around}");
    }
}

#[test]
fn grants_in_a_row_go_back_for_what_was_released() {
    let mut register = Register::new();
    let view = add_view(&mut register, "10.0.0.0/16", 24, &[]);
    let grant = |register: &mut Register<u32, &'static str>| granted(register.grant(view, 24, Fit::Best, "node"));
    (0..200).for_each(|_| drop(grant(&mut register)));
    register.release(v4("10.0.7.0/24"), &"node").unwrap();
    assert_eq!(grant(&mut register), "10.0.7.0/24");
    assert_eq!(grant(&mut register), "10.0.200.0/24");
}

#[test]
fn a_block_that_cools_is_granted_when_there_is_no_other() {
    let mut register = Register::new();
    let view = add_view(&mut register, "10.0.0.0/30", 31, &[]);
    let first = register.grant(view, 31, Fit::Best, "a").unwrap();
    register.release_cooling(first, &"a", Moment(10)).unwrap();
    assert!(register.is_free(first), "it is free and only rests");
    let second = register.grant(view, 31, Fit::Best, "b").unwrap();
    assert_eq!(second.to_string(), "10.0.0.2/31");
    assert_eq!(register.grant(view, 31, Fit::Best, "c"), Ok(first));
    assert_eq!(register.cooling().count(), 0, "who is granted does not rest");
}

#[test]
fn cooling_ends_when_its_moment_has_come_and_not_before() {
    let mut register = Register::new();
    let (low, range) = (v4("10.0.0.0/32"), v4("10.0.0.0/24"));
    register.claim(low, "a").unwrap();
    register.release_cooling(low, &"a", Moment(10)).unwrap();
    register.pass_time(Moment(9));
    assert_eq!(register.cooling().collect::<Vec<_>>(), [(low, Moment(10))]);
    assert_eq!(register.find(range, 32, Fit::First), Some(v4("10.0.0.1/32")));
    register.pass_time(Moment(10));
    assert_eq!(register.cooling().count(), 0);
    assert_eq!(register.find(range, 32, Fit::First), Some(low));
}

#[test]
fn a_flood_of_releases_lets_those_closest_to_their_end_go() {
    let mut register = Register::new();
    let host = |index: usize| Prefix::host(0x0a00_0000 + index as u32);
    let extra = 3;
    for index in 0..COOLING_LIMIT + extra {
        register.claim(host(index), "a").unwrap();
        // The later ones are closer to their end, so it is not the order of release that counts.
        register.release_cooling(host(index), &"a", Moment(1_000_000 - index as u64)).unwrap();
    }
    assert_eq!(register.cooling().count(), COOLING_LIMIT);
    let resting: Vec<_> = register.cooling().map(|(block, _)| block).collect();
    assert!(resting.contains(&host(COOLING_LIMIT - 1)) && !resting.contains(&host(COOLING_LIMIT)));
    assert_eq!(register.audit(), Ok(()));
    register.pass_time(Moment(1_000_000));
    assert_eq!((register.cooling().count(), register.audit()), (0, Ok(())));
}

#[test]
fn views_of_any_overlap_and_size_never_grant_the_same_address_twice() {
    let mut register = Register::new();
    let views = [("10.0.0.0/16", 24), ("10.0.0.0/18", 26), ("10.0.64.0/18", 25), ("10.0.0.0/15", 20)];
    let ids = views.map(|(range, length)| (add_view(&mut register, range, length, &["10.0.1.0/24"]), length));
    let mut blocks: Vec<Prefix<u32>> = Vec::new();
    loop {
        let grants = ids.map(|(view, length)| register.grant(view, length, Fit::Best, "node"));
        if grants.iter().all(Result::is_err) {
            break;
        }
        blocks.extend(grants.into_iter().flatten());
    }
    blocks.sort_unstable();
    assert!(ids.iter().all(|(view, _)| register.counts(*view).unwrap().free == 0));
    assert!(blocks.is_sorted_by(|below, above| below.last() < above.first()));
    assert!(blocks.iter().all(|block| !block.overlaps(&v4("10.0.1.0/24"))), "an exclusion was granted");
}

#[test]
fn counts_are_exact_where_they_pass_128_bits() {
    let mut register = Register::<u128, &str>::new();
    assert_eq!(register.count_free(Prefix::ALL, 128), u128::MAX);
    let all = register.add_view(View::new(Prefix::ALL, 64, &[]).unwrap());
    let counts = register.counts(all).unwrap();
    assert_eq!((counts.capacity, counts.free, counts.free_addresses), (1 << 64, 1 << 64, u128::MAX));
    register.claim(Prefix::host(u128::MAX), "a").unwrap();
    let counts = register.counts(all).unwrap();
    assert_eq!((counts.free, counts.allocated), ((1 << 64) - 1, 1));
    assert_eq!((counts.free_addresses, counts.largest_free), (u128::MAX, Some(1)));
    register.claim(Prefix::host(0), "a").unwrap();
    let counts = register.counts(all).unwrap();
    assert_eq!((counts.free_addresses, counts.largest_free), (u128::MAX - 1, Some(2)));
    register.occupy(Prefix::ALL, "b");
    let counts = register.counts(all).unwrap();
    assert_eq!((counts.free, counts.free_addresses, counts.largest_free), (0, 0, None));
    assert_eq!(Some(counts), register.recount(all));
}

#[test]
fn every_host_of_the_whole_space_is_counted() {
    let mut register = Register::<u128, &str>::new();
    let hosts = register.add_view(View::new(Prefix::ALL, 128, &[]).unwrap());
    for (number, host) in [0, 7, u128::MAX].into_iter().enumerate() {
        let counts = register.counts(hosts).unwrap();
        assert_eq!((counts.capacity, counts.allocated), (u128::MAX, number as u128));
        register.claim(Prefix::host(host), "a").unwrap();
        assert_eq!(register.counts(hosts), register.recount(hosts));
    }
    assert_eq!(register.audit(), Ok(()));
}

#[test]
fn no_block_is_longer_than_an_address() {
    let mut register = Register::new();
    register.claim(v4("10.0.0.0/24"), "a").unwrap();
    for within in [v4("10.0.0.0/8"), v4("10.0.0.0/24"), v4("11.0.0.0/8")] {
        assert_eq!(register.count_free(within, 33), 0, "{within}");
        assert_eq!(register.find(within, 255, Fit::Best), None);
        let refused = GrantRefusal::ImpossibleSize { length: 33, range: within };
        assert_eq!(register.grant_within(within, 33, Fit::Best, "a"), Err(refused));
    }
}

#[test]
fn the_whole_space_and_its_last_address_can_be_granted_and_released() {
    let mut register = Register::new();
    let last = v6("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128");
    assert_eq!(register.grant_within(last, 128, Fit::Best, "a"), Ok(last));
    assert_eq!(register.find(Prefix::ALL, 128, Fit::Next(u128::MAX)), Some(v6("::/128")));
    register.release(last, &"a").unwrap();
    assert_eq!(register.find(Prefix::ALL, 128, Fit::Next(u128::MAX)), Some(last));
    assert_eq!(register.grant_within(Prefix::ALL, 0, Fit::Best, "a"), Ok(Prefix::ALL));
    assert_eq!(register.find(Prefix::ALL, 128, Fit::First), None);
    register.release(Prefix::ALL, &"a").unwrap();
    assert!(register.is_free(Prefix::ALL));
}

#[test]
fn fragmentation_is_the_share_outside_the_largest_hole() {
    let mut register = Register::new();
    let view = add_view(&mut register, "10.0.0.0/24", 26, &[]);
    let fragmentation =
        |register: &Register<u32, &'static str>| (register.counts(view).unwrap().fragmentation * 100.0).round();
    assert!(fragmentation(&register).abs() < 0.5, "all in one piece");
    register.claim(v4("10.0.0.64/26"), "a").unwrap();
    assert!((fragmentation(&register) - 33.0).abs() < 0.5, "a half and a quarter are left");
    register.claim(v4("10.0.0.128/26"), "a").unwrap();
    assert!((fragmentation(&register) - 50.0).abs() < 0.5, "two quarters are left");
    register.occupy(v4("10.0.0.0/24"), "a");
    assert!(fragmentation(&register).abs() < 0.5, "nothing is left");
}

#[test]
fn refusals_say_what_was_wrong() {
    let mut register = Register::new();
    let view = add_view(&mut register, "10.0.0.0/24", 25, &[]);
    register.occupy(v4("10.0.0.0/24"), "a");
    assert_eq!(granted(register.grant(view, 25, Fit::Best, "b")), "no free /25 is left in 10.0.0.0/24");
    assert_eq!(granted(register.grant(view, 23, Fit::Best, "b")), "a /23 cannot come from 10.0.0.0/24");
    assert_eq!(granted(register.grant(view, 33, Fit::Best, "b")), "a /33 cannot come from 10.0.0.0/24");
    let claim = register.claim(v4("10.0.0.0/25"), "b").unwrap_err();
    assert_eq!(claim.to_string(), "10.0.0.0/25 is taken, in whole or in part");
    register.remove_view(view);
    assert_eq!(granted(register.grant(view, 25, Fit::Best, "b")), "the view is not there any more");

    let stranger = register.release(v4("10.0.0.0/24"), &"b").unwrap_err();
    assert_eq!(stranger.to_string(), "10.0.0.0/24 is held by others, not by this owner");
    let unheld = register.release(v4("10.0.0.0/25"), &"a").unwrap_err();
    assert_eq!(unheld.to_string(), "nobody holds 10.0.0.0/25");

    let refused = |length, excluded: &[Prefix<u32>]| View::new(v4("10.0.0.0/24"), length, excluded).unwrap_err();
    assert_eq!(refused(33, &[]), ViewRefusal::TooLong { length: 33, longest: 32 });
    assert_eq!(refused(33, &[]).to_string(), "blocks of /33 do not exist: the longest prefix is /32");
    assert_eq!(refused(23, &[]).to_string(), "a block of /23 is larger than the /24 range");
    let halves = [v4("10.0.0.0/32"), v4("10.0.0.128/32")];
    assert_eq!(refused(25, &halves).to_string(), "the exclusions leave no whole /25 in the range");
}

#[test]
fn next_fit_leaves_a_block_around_the_cursor_for_last() {
    let mut register = Register::new();
    let view = add_view(&mut register, "10.0.0.0/24", 26, &["10.0.0.64/26"]);
    let next = Fit::Next(v4("10.0.0.32/32").first());
    for expected in ["10.0.0.128/26", "10.0.0.192/26", "10.0.0.0/26", "no free /26 is left in 10.0.0.0/24"] {
        assert_eq!(granted(register.grant(view, 26, next, "node")), expected);
    }
}
