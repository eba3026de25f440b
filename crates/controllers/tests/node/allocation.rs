//! Blocks come from ranges, stay with their nodes, and come back.

use serde_json::json;

use crate::world::{Fate, REST, World, cut, cut_for};

#[test]
fn the_first_free_block_is_taken_beside_services_and_other_nodes() {
    let mut world = World::new();
    world.range("r", cut(4, "127.123.234.0/24"));
    assert_eq!(world.node("first", &[]), "127.123.234.0/28");
    world.delete_node("first");
    world.services(&["127.123.234.0/26"]);
    for (name, block) in [("a", 64), ("b", 80), ("c", 96), ("d", 128)] {
        world.served(name, &[], &[&format!("127.123.234.{block}/28")]);
    }
    assert_eq!(world.node("n", &[]), "127.123.234.112/28");
}

#[test]
fn ranges_that_overlap_share_their_blocks() {
    let mut world = World::new();
    world.range("wide", cut_for(8, "10.0.0.0/8,ace:cab:deca::/112", &[("l0", "x")]));
    world.range("narrow", cut_for(8, "10.0.0.0/16,ace:cab:deca::/112", &[("l0", "x"), ("l1", "y")]));
    for (index, cidr) in ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.4.0/24"].iter().enumerate() {
        world.served(&format!("old-{index}"), &[], &[cidr]);
    }
    world.served("old-six", &[], &["ace:cab:deca::/120"]);
    assert_eq!(world.node("n", &[("l0", "x"), ("l1", "y")]), "10.0.3.0/24,ace:cab:deca::100/120");
}

#[test]
fn blocks_of_six_sizes_come_from_one_range() {
    let mut world = World::new();
    let sizes = [("tiny", 5), ("small", 6), ("medium", 7), ("large", 8), ("xlarge", 9), ("huge", 10)];
    for (size, bits) in sizes {
        world.range(size, cut_for(bits, "10.244.0.0/16", &[("size", size)]));
    }
    let mut blocks = Vec::new();
    for round in 0..5 {
        for (size, bits) in sizes {
            let block = world.node(&format!("{size}-{round}"), &[("size", size)]);
            assert!(block.ends_with(&format!("/{}", 32 - bits)), "{size}: {block}");
            blocks.push(block);
        }
    }
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), 30);
    // A size that nobody has any more can go, although nodes of other sizes hold parts of the same range.
    for round in 0..5 {
        world.delete_node(&format!("tiny-{round}"));
    }
    world.delete_range("tiny");
    world.delete_range("small");
    assert_eq!((world.has_range("tiny"), world.has_range("small")), (false, true));
}

#[test]
fn the_example_of_the_proposal_works() {
    let mut world = World::new();
    world.range("r", cut(10, "10.0.0.0/20,fd12:3456:789a:1::/64"));
    let blocks: Vec<String> = (0..5).map(|index| world.node(&format!("n{index}"), &[])).collect();
    assert_eq!(
        blocks,
        [
            "10.0.0.0/22,fd12:3456:789a:1::/118",
            "10.0.4.0/22,fd12:3456:789a:1::400/118",
            "10.0.8.0/22,fd12:3456:789a:1::800/118",
            "10.0.12.0/22,fd12:3456:789a:1::c00/118",
            "",
        ]
    );
    assert_eq!(
        world.told(),
        ["n4: CIDRNotAvailable: no ClusterCIDR serves this node: r: IPv4: no free /22 is left in 10.0.0.0/20"]
    );
}

#[test]
fn a_full_range_is_passed_over() {
    let mut world = World::new();
    world.range("small", cut_for(8, "10.1.0.0/24", &[("zone", "a")]));
    world.range("all", cut(8, "10.2.0.0/16"));
    assert_eq!(world.node("a", &[("zone", "a")]), "10.1.0.0/24");
    assert_eq!(world.node("b", &[("zone", "a")]), "10.2.0.0/24");
}

#[test]
fn a_block_that_was_freed_is_given_again_when_there_is_no_other() {
    let mut world = World::new();
    world.range("r", cut(8, "192.168.0.0/23"));
    assert_eq!((&*world.node("a", &[]), &*world.node("b", &[])), ("192.168.0.0/24", "192.168.1.0/24"));
    assert_eq!(world.node("c", &[]), "");
    world.delete_node("a");
    assert_eq!(world.cidrs("c"), "192.168.0.0/24");
}

#[test]
fn a_block_rests_while_there_are_others_and_waits_for_its_node() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/16"));
    assert_eq!(world.node("a", &[]), "10.0.0.0/24");
    assert_eq!(world.node("b", &[]), "10.0.1.0/24");
    world.delete_node("a");
    world.delete_node("b");
    assert_eq!(world.node("c", &[]), "10.0.2.0/24");
    assert_eq!(world.node("b", &[]), "10.0.1.0/24", "it came back");
    world.pass(REST);
    assert_eq!(world.node("d", &[]), "10.0.0.0/24");
    assert_eq!(world.node("a", &[]), "10.0.3.0/24");
}

#[test]
fn a_node_that_comes_back_for_another_size_gets_another_block() {
    let mut world = World::new();
    world.range("small", cut_for(8, "10.0.0.0/16", &[("size", "s")]));
    world.range("large", cut_for(9, "10.0.0.0/16", &[("size", "l")]));
    assert_eq!(world.node("n", &[("size", "s")]), "10.0.0.0/24");
    world.delete_node("n");
    assert_eq!(world.node("n", &[("size", "l")]), "10.0.2.0/23");
}

#[test]
fn nodes_keep_what_they_have_whoever_gave_it() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/16,fd00::/112"));
    for (name, cidrs) in [
        ("right", &["10.0.0.0/24", "fd00::/120"][..]),
        ("single", &["10.0.1.0/24"]),
        ("host-bits", &["10.0.2.7/24", "fd00::101/120"]),
        ("larger", &["10.0.4.0/22"]),
        ("foreign", &["172.16.0.0/24"]),
        ("other-family", &["2001:db8::/64"]),
        ("reversed", &["fd00::200/120", "10.0.3.0/24"]),
    ] {
        world.served(name, &[], cidrs);
        assert_eq!(world.cidrs(name), cidrs.join(","));
    }
    assert_eq!(world.writes, 0);
    assert_eq!(
        world.told(),
        [
            "foreign: CIDROutOfRange: pod CIDR 172.16.0.0/24 lies in no ClusterCIDR",
            "other-family: CIDROutOfRange: pod CIDR 2001:db8::/64 lies in no ClusterCIDR",
        ]
    );
    assert_eq!(world.node("new", &[]), "10.0.8.0/24,fd00::300/120");
    world.restart();
    assert_eq!(world.writes, 1, "a restart wrote to nodes");
    assert_eq!(world.node("newer", &[]), "10.0.9.0/24,fd00::400/120");
}

#[test]
fn what_nobody_can_read_is_kept_and_told() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/16"));
    world.served("odd", &[], &["10.0.0.0/24", "not-a-cidr"]);
    assert_eq!(world.cidrs("odd"), "10.0.0.0/24,not-a-cidr");
    assert_eq!(world.node("n", &[]), "10.0.1.0/24");
    let told = world.told();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("odd: CIDRUnreadable: \"not-a-cidr\" is no pod CIDR: "), "{told:?}");
}

#[test]
fn two_nodes_with_the_same_addresses_are_both_told_once() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/16"));
    world.served("a", &[], &["10.0.0.0/24"]);
    world.served("b", &[], &["10.0.0.128/25"]);
    assert_eq!(
        world.told(),
        [
            "a: CIDRConflict: pod CIDR 10.0.0.0/24 overlaps 10.0.0.128/25 of node b",
            "b: CIDRConflict: pod CIDR 10.0.0.128/25 overlaps 10.0.0.0/24 of node a",
        ]
    );
    world.change_node("a", "/metadata/labels", json!({"x": "y"}));
    assert_eq!(world.told(), [""; 0]);
    // The space is free when both are gone.
    world.delete_node("a");
    assert_eq!(world.node("n", &[]), "10.0.1.0/24");
    world.delete_node("b");
    world.pass(REST);
    assert_eq!(world.node("m", &[]), "10.0.0.0/24");
}

#[test]
fn the_addresses_of_nodes_themselves_are_never_given() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/23"));
    world.served("a", &[], &["172.16.0.0/24"]);
    world.change_node("a", "/status", json!({"addresses": [{"type": "InternalIP", "address": "10.0.0.77"}]}));
    assert_eq!(world.node("b", &[]), "10.0.1.0/24");
    assert_eq!(world.node("c", &[]), "");
    world.change_node("a", "/status", json!({"addresses": [{"type": "InternalIP", "address": "192.168.0.1"}]}));
    assert_eq!(world.cidrs("c"), "10.0.0.0/24");
}

#[test]
fn those_who_wait_are_served_as_soon_as_something_can_serve_them() {
    let mut world = World::new();
    assert_eq!(world.node("n", &[("zone", "a")]), "");
    assert_eq!(world.told(), ["n: CIDRNotAvailable: no ClusterCIDR selects this node"]);
    world.range("other", cut_for(8, "10.0.0.0/16", &[("zone", "b")]));
    assert_eq!((world.cidrs("n"), world.plan.waiting()), (String::new(), 1));
    // A new range, a label, a range that is open again, Services that went: each by itself.
    world.range("own", cut_for(8, "10.1.0.0/24", &[("zone", "a")]));
    assert_eq!((world.cidrs("n"), world.plan.waiting()), ("10.1.0.0/24".to_owned(), 0));
    assert_eq!(world.node("m", &[]), "");
    world.change_node("m", "/metadata/labels", json!({"zone": "b"}));
    assert_eq!(world.cidrs("m"), "10.0.0.0/24");
    world.change_range("other", "suspend", json!(true));
    assert_eq!(world.node("k", &[("zone", "b")]), "");
    assert!(world.told().last().unwrap().ends_with("other: it is suspended"));
    world.change_range("other", "suspend", json!(false));
    assert_eq!(world.cidrs("k"), "10.0.1.0/24");
    world.services(&["10.1.0.0/25"]);
    world.delete_node("n");
    assert_eq!(world.node("l", &[("zone", "a")]), "");
    world.services(&[]);
    assert_eq!(world.cidrs("l"), "10.1.0.0/24");
}

#[test]
fn why_a_node_waits_is_told_once_and_again_when_the_reasons_change() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/24"));
    world.node("a", &[]);
    world.node("b", &[]);
    let full = "b: CIDRNotAvailable: no ClusterCIDR serves this node: r: IPv4: no free /24 is left in 10.0.0.0/24";
    assert_eq!(world.told(), [full]);
    for round in 0..5 {
        world.change_node("b", "/metadata/labels", json!({"round": round.to_string()}));
    }
    assert_eq!(world.told(), [""; 0]);
    world.change_range("r", "suspend", json!(true));
    assert_eq!(world.told(), ["b: CIDRNotAvailable: no ClusterCIDR serves this node: r: it is suspended"]);
}

#[test]
fn one_block_that_comes_back_costs_one_try_however_many_wait() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/24"));
    world.node("holder", &[]);
    for index in 0..200 {
        world.node(&format!("n{index:03}"), &[]);
    }
    world.told();
    world.delete_node("holder");
    assert_eq!(world.cidrs("n000"), "10.0.0.0/24");
    assert_eq!((world.plan.waiting(), world.writes), (199, 2));
}

#[test]
fn a_node_waits_until_it_has_the_labels_that_its_range_wants() {
    let mut world = World::new();
    let mut gated = cut(8, "10.0.0.0/16");
    gated["requiredNodeLabels"] = json!(["zone"]);
    world.range("all", gated);
    world.range("zone", cut_for(8, "10.1.0.0/16", &[("zone", "a")]));
    assert_eq!(world.node("n", &[]), "");
    assert!(world.told()[0].ends_with("all: the node has no label zone yet"));
    world.change_node("n", "/metadata/labels", json!({"zone": "a"}));
    assert_eq!(world.cidrs("n"), "10.1.0.0/24");
}

#[test]
fn a_node_gets_a_block_of_the_size_that_it_needs() {
    let mut world = World::new();
    let mut sized = cut(8, "10.0.0.0/16,fd00::/48");
    sized["sizing"] = json!({"from": "PodCapacity", "minHostBits": 5, "maxHostBits": 10});
    sized["perNodeHostBitsIPv6"] = json!(64);
    sized["primaryFamily"] = json!("IPv6");
    world.range("r", sized);
    assert_eq!(world.node("n", &[]), "", "its capacity is not known yet");
    world.change_node("n", "/status", json!({"capacity": {"pods": "500"}}));
    assert_eq!(world.cidrs("n"), "fd00::/64,10.0.0.0/23");
}

#[test]
fn exclusions_are_never_given_and_may_come_later() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/22"));
    assert_eq!(world.node("a", &[]), "10.0.0.0/24");
    world.change_range("r", "exclude", json!(["10.0.0.0/24", "10.0.2.0/26"]));
    assert_eq!((&*world.node("b", &[]), &*world.node("c", &[])), ("10.0.1.0/24", "10.0.3.0/24"));
    assert_eq!((world.node("d", &[]), world.cidrs("a")), (String::new(), "10.0.0.0/24".to_owned()));
    world.change_range("r", "exclude", json!([]));
    assert_eq!(world.cidrs("d"), "10.0.2.0/24");
}

#[test]
fn a_write_that_fails_is_tried_again_with_the_same_block_and_told_once() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/16"));
    world.fates.extend([Fate::Lost; 4]);
    assert_eq!(world.node("n", &[]), "");
    assert_eq!(world.node("m", &[]), "");
    for _ in 0..10 {
        world.pass(30_000);
    }
    assert_eq!((world.cidrs("n"), world.cidrs("m")), ("10.0.0.0/24".to_owned(), "10.0.1.0/24".to_owned()));
    assert_eq!(
        world.told(),
        [
            "n: CIDRAssignmentFailed: 10.0.0.0/24 could not be written: connection reset",
            "m: CIDRAssignmentFailed: 10.0.1.0/24 could not be written: connection reset",
        ]
    );
}

#[test]
fn a_node_that_somebody_else_serves_meanwhile_keeps_that_and_gives_the_reservation_back() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/16"));
    world.fates.push_back(Fate::Lost);
    world.node("n", &[]);
    world.change_node("n", "/spec", json!({"podCIDR": "10.0.9.0/24", "podCIDRs": ["10.0.9.0/24"]}));
    assert_eq!((world.node("m", &[]), world.cidrs("n")), ("10.0.0.0/24".to_owned(), "10.0.9.0/24".to_owned()));
    world.pass(60_000);
    assert_eq!(world.writes, 2, "it was written although it has a block");
}

#[test]
fn a_range_goes_when_its_last_node_is_gone() {
    let mut world = World::new();
    world.range("r", cut(8, "192.168.0.0/23"));
    assert!(world.is_protected("r"));
    world.node("n", &[]);
    world.delete_range("r");
    assert!(world.has_range("r"));
    assert_eq!(world.node("m", &[]), "", "it is being deleted");
    world.delete_node("m");
    world.delete_node("n");
    assert!(!world.has_range("r"), "it should go at once");
    world.range("unused", cut(8, "192.168.0.0/23"));
    world.delete_range("unused");
    assert!(!world.has_range("unused"));
}

#[test]
fn a_range_that_is_wrong_hurts_nobody_else() {
    let mut world = World::new();
    world.range("bad", cut(2, "10.0.0.0/16"));
    world.range("good", cut(8, "10.0.0.0/16"));
    assert_eq!(world.node("n", &[]), "10.0.0.0/24");
    assert_eq!(
        world.told(),
        ["bad: InvalidClusterCIDR: spec.perNodeHostBits: Invalid value: 2: must be greater than or equal to 4"]
    );
    world.delete_range("bad");
    assert!(!world.has_range("bad"));
}
