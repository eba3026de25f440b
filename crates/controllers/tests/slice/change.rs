//! What becomes of slices while pods live: growth, other sizes, other ranges, and back.

use serde_json::json;

use crate::world::{Kind, World, conf};

fn started(range: &str, size: &str, nodes: &[&str]) -> World {
    let mut world = World::new();
    for name in nodes {
        world.node(name);
    }
    world.network("net", range, size);
    world.settle();
    world
}

#[test]
fn a_node_whose_slice_is_full_gets_a_further_one_once_for_each_time_it_asks() {
    let mut world = started("10.0.0.0/26", "/28", &["a", "b"]);
    world.ask("a", "10.0.0.0/28", "more");
    assert_eq!(world.shown("net"), "a=10.0.0.0/28 10.0.0.32/28, b=10.0.0.16/28");
    // The label is still there, but what it asks was heard.
    world.node("c");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/28 10.0.0.32/28, b=10.0.0.16/28, c=10.0.0.48/28");
    world.restart();
    world.pass(60);
    assert_eq!(world.plan().counts().next().unwrap().1.waiting, 0);
    world.ask("a", "10.0.0.32/28", "more");
    assert_eq!(world.told(), ["kube-system/net: SlicesExhausted: no free /28 is left in 10.0.0.0/26 for a"]);
}

#[test]
fn a_node_without_a_slice_comes_before_one_that_wants_another() {
    let mut world = started("10.0.0.0/27", "/28", &["a"]);
    world.node("b");
    world.ask("a", "10.0.0.0/28", "more");
    assert_eq!(world.shown("net"), "a=10.0.0.0/28, b=10.0.0.16/28");
}

#[test]
fn growth_is_of_the_range_that_is_full() {
    let mut world = World::new();
    world.node("a");
    let ranges = json!([{"range": "10.0.0.0/24"}, {"range": "fd00::/64"}]);
    world.define("apps/net", &conf("net", &json!({"ipRanges": ranges, "node_slice_size": "/28"})));
    world.settle();
    world.ask("a", "fd00::/124", "more");
    assert_eq!(world.shown("net"), "a=10.0.0.0/28 fd00::/124 fd00::10/124");
}

#[test]
fn asks_of_others_and_of_other_times_are_not_heard() {
    let mut world = started("10.0.0.0/24", "/28", &["a", "b"]);
    let before = world.shown("net");
    let epoch = world.epoch("net", "a");
    for (pool, range, ask) in [
        ("net-a-10.0.0.0-28", "10.0.0.0/28", format!("more-{}", epoch - 1)),
        ("net-a-10.0.0.16-28", "10.0.0.16/28", format!("more-{epoch}")),
        ("net-b-10.0.0.0-28", "10.0.0.0/28", format!("more-{epoch}")),
        ("other-a-10.0.0.0-28", "10.0.0.0/28", format!("more-{epoch}")),
        ("net-a-10.0.0.0-28", "10.0.0.0/28", format!("release-{epoch}")),
        ("net-a-10.0.0.0-28", "10.0.0.0/28", "nonsense".to_owned()),
        ("net-a-10.0.0.0-28", "nonsense", format!("more-{epoch}")),
    ] {
        world.ip_pool(pool, range, Some(ask.clone()), true);
        world.settle();
        assert_eq!(world.shown("net"), before, "{pool} {range} {ask}");
        world.remove(Kind::IpPool, pool);
    }
}

#[test]
fn slices_of_another_range_drain_and_go_when_their_node_says_they_are_empty() {
    let mut world = started("10.0.0.0/24", "/28", &["a", "b"]);
    world.network("net", "10.1.0.0/24", "/28");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.1.0.0/28 (10.0.0.0/28), b=10.1.0.16/28 (10.0.0.16/28)");
    world.ask("a", "10.0.0.0/28", "release");
    assert_eq!(world.shown("net"), "a=10.1.0.0/28, b=10.1.0.16/28 (10.0.0.16/28)");
    // Back to the first range while b still has a slice of it, which is as good as new.
    world.network("net", "10.0.0.0/24", "/28");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/28 (10.1.0.0/28), b=10.0.0.16/28 (10.1.0.16/28)");
}

#[test]
fn slices_of_another_size_never_overlap_those_before() {
    let mut world = started("10.0.0.0/24", "/28", &["a", "b", "c"]);
    world.network("net", "10.0.0.0/24", "/27");
    world.settle();
    assert_eq!(
        world.shown("net"),
        "a=10.0.0.64/27 (10.0.0.0/28), b=10.0.0.96/27 (10.0.0.16/28), c=10.0.0.128/27 (10.0.0.32/28)"
    );
    world.ask("a", "10.0.0.0/28", "release");
    world.ask("b", "10.0.0.16/28", "release");
    world.node("d");
    world.settle();
    assert!(world.shown("net").ends_with("d=10.0.0.0/27"), "{}", world.shown("net"));
}

/// Where there is no room for slices of the new size, the old ones go on serving instead of leaving nodes without any.
#[test]
fn a_slice_of_another_size_serves_until_there_is_one_of_the_right_size() {
    let mut world = started("10.0.0.0/26", "/27", &["a", "b"]);
    world.network("net", "10.0.0.0/26", "/28");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/27, b=10.0.0.32/27");
    assert_eq!(world.told(), ["kube-system/net: SlicesExhausted: no free /28 is left in 10.0.0.0/26 for a, b"]);
    world.network("net", "10.0.0.0/25", "/28");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.64/28 (10.0.0.0/27), b=10.0.0.80/28 (10.0.0.32/27)");
}

#[test]
fn a_slice_that_is_wholly_excluded_now_drains() {
    let mut world = started("10.0.0.0/24", "/28", &["a"]);
    let ipam = json!({"range": "10.0.0.0/24", "node_slice_size": "/28", "exclude": ["10.0.0.0/27"]});
    world.define("kube-system/net", &conf("net", &ipam));
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.32/28 (10.0.0.0/28)");
}

#[test]
fn a_range_that_is_added_or_taken_away_touches_no_other() {
    let mut world = started("10.0.0.0/24", "/28", &["a"]);
    let dual = json!({"range": "10.0.0.0/24", "ipRanges": [{"range": "fd00::/64"}], "node_slice_size": "/28"});
    world.define("kube-system/net", &conf("net", &dual));
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/28 fd00::/124");
    world.network("net", "10.0.0.0/24", "/28");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/28 (fd00::/124)");
}
