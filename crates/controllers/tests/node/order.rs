//! Which range of several serves a node.

use api::selector::Terms;
use controllers::node::plan::Settings;
use serde_json::{Value, json};

use crate::world::{REST, World, cut, cut_for, selecting_all};

/// The ranges are there before the node, in this order and in the other; the node gets the same block.
fn served_from(ranges: &[(&str, Value)], labels: &[(&str, &str)]) -> String {
    let block = |ranges: &mut dyn Iterator<Item = &(&str, Value)>| {
        let mut world = World::new();
        for (name, spec) in ranges {
            world.range(name, spec.clone());
        }
        world.node("node0", labels)
    };
    let one_way = block(&mut ranges.iter());
    assert_eq!(one_way, block(&mut ranges.iter().rev()), "the order of ranges matters");
    one_way
}

/// The peers' vectors for two ranges side by side: host bits, range and labels of each, and whether the first is better. Where
/// theirs give a number of matches, the labels here match as many.
#[test]
fn of_two_ranges_the_peers_choice_is_ours() {
    let (two, one): (&[_], &[_]) = (&[("foo", "bar"), ("name", "n")], &[("foo", "bar")]);
    let abc = |name: &'static str| [("abc", "bar"), ("name", name)];
    let foo = |name: &'static str| [("foo", "bar"), ("name", name)];
    let xyz = |name: &'static str| [("xyz", "bar"), ("name", name)];
    let node = [("foo", "bar"), ("abc", "bar"), ("xyz", "bar"), ("name", "n")];
    let vectors = [
        ((8, "192.168.0.0/16", two), (8, "10.1.0.0/24", one), true),
        ((8, "192.168.0.0/16", one), (8, "10.1.0.0/24", two), false),
        ((8, "10.1.0.0/24", &foo("n")[..]), (8, "172.16.0.0/16", &foo("n")[..]), true),
        ((8, "10.1.0.0/16", &foo("n")[..]), (8, "172.16.0.0/24", &foo("n")[..]), false),
        ((6, "10.1.0.0/26", &foo("n")[..]), (8, "10.1.1.0/24", &abc("n")[..]), true),
        ((8, "10.1.0.0/24", &foo("n")[..]), (6, "10.1.1.0/26", &abc("n")[..]), false),
        ((6, "10.1.1.0/26", &abc("n")[..]), (6, "10.1.2.0/26", &foo("n")[..]), true),
        ((6, "10.1.1.0/26", &xyz("n")[..]), (6, "10.1.2.0/26", &foo("n")[..]), false),
        ((6, "10.1.1.0/26", &abc("n")[..]), (6, "10.1.3.0/26", &abc("n")[..]), true),
        ((6, "10.1.1.0/26", &xyz("n")[..]), (6, "10.0.3.0/26", &abc("n")[..]), false),
    ];
    for ((bits, range, labels), (other_bits, other_range, other_labels), first) in vectors {
        let ranges = [("a", cut_for(bits, range, labels)), ("b", cut_for(other_bits, other_range, other_labels))];
        let from = |cidr: &str, range: &str| cidr.split('.').take(3).eq(range.split('.').take(3));
        let block = served_from(&ranges, &node);
        assert_eq!(from(&block, range), first, "{range} {labels:?} or {other_range} {other_labels:?}: {block}");
    }
}

/// The peers' vectors for a node among several ranges, smaller sizes than we allow scaled up.
#[test]
fn a_node_gets_the_block_that_the_peers_would_give_it() {
    let node = [("l0", "node0"), ("l1", "label1"), ("l2", "label2")];
    let with = |bits, cidrs, labels: &[(&str, &str)]| {
        let mut spec = cut(bits, cidrs);
        spec["nodeSelector"] = selecting_all(labels);
        spec
    };
    let (first, second) = (&[("l0", "node0"), ("l1", "label1")], &[("l0", "node0"), ("l2", "label2")]);
    for (what, one, other, block) in [
        (
            "more labels",
            with(8, "10.0.0.0/8,ace:cab:deca::/112", &[("l0", "node0")]),
            with(8, "127.123.234.0/8,abc:def:deca::/112", first),
            "127.0.0.0/24,abc:def:deca::/120",
        ),
        (
            "fewer blocks",
            with(8, "127.123.234.0/8,abc:def:deca::/112", first),
            with(8, "10.0.0.0/24,ace:cab:deca::/120", second),
            "10.0.0.0/24,ace:cab:deca::/120",
        ),
        (
            "fewer blocks, of the scarcer family",
            with(8, "127.123.234.0/23", first),
            with(8, "10.0.0.0/16,ace:cab:deca::/120", second),
            "10.0.0.0/24,ace:cab:deca::/120",
        ),
        (
            "smaller blocks",
            with(8, "127.123.234.0/24,abc:def:deca::/120", first),
            with(4, "10.0.0.0/28,ace:cab:deca::/124", second),
            "10.0.0.0/28,ace:cab:deca::/124",
        ),
        (
            "the lower selector",
            with(8, "127.123.234.0/16,abc:def:deca::/112", first),
            with(8, "10.0.0.0/16,ace:cab:deca::/112", second),
            "127.123.0.0/24,abc:def:deca::/120",
        ),
        (
            "the lower range",
            with(8, "127.123.234.0/16,abc:def:deca::/112", first),
            with(8, "10.0.0.0/16,ace:cab:deca::/112", first),
            "10.0.0.0/24,ace:cab:deca::/120",
        ),
    ] {
        assert_eq!(served_from(&[("a", one), ("b", other)], &node), block, "{what}");
    }
}

#[test]
fn the_name_decides_last_also_among_ranges_for_all_nodes() {
    let twice = [("a", cut(8, "10.0.0.0/16")), ("b", cut(8, "10.0.0.0/16"))];
    let mut world = World::new();
    for (name, spec) in twice.into_iter().rev() {
        world.range(name, spec);
    }
    world.node("n", &[]);
    assert_eq!(world.from["n"], "a");
    world.change_range("a", "suspend", json!(true));
    world.node("m", &[]);
    assert_eq!((&*world.from["m"], &*world.cidrs("m")), ("b", "10.0.1.0/24"));
    // Among ranges without a selector the same rules hold: fewer blocks first, whichever came first.
    assert_eq!(served_from(&[("a", cut(8, "10.0.0.0/8")), ("b", cut(8, "172.16.0.0/16"))], &[]), "172.16.0.0/24");
}

#[test]
fn a_range_for_all_nodes_serves_only_whom_no_other_serves() {
    let ranges = [("all", cut(4, "10.0.0.0/28")), ("zone", cut_for(8, "10.1.0.0/16", &[("zone", "a")]))];
    assert_eq!(served_from(&ranges, &[("zone", "a")]), "10.1.0.0/24");
    assert_eq!(served_from(&ranges, &[("zone", "b")]), "10.0.0.0/28");
}

#[test]
fn the_priority_comes_before_everything_else() {
    let mut urgent = cut(8, "10.0.0.0/8");
    urgent["priority"] = json!(1);
    let ranges = [("all", urgent), ("zone", cut_for(8, "10.1.0.0/16", &[("zone", "a")]))];
    assert_eq!(served_from(&ranges, &[("zone", "a")]), "10.0.0.0/24");
}

#[test]
fn the_size_of_a_block_is_compared_and_not_its_mask() {
    // By their masks, /120 and /24, the IPv6 range would always come first.
    let ranges = [("four", cut(6, "10.0.0.0/16")), ("six", cut(8, "fd00::/110"))];
    assert_eq!(served_from(&ranges, &[]), "10.0.0.0/26");
}

#[test]
fn the_terms_of_a_selector_are_alternatives_unless_it_is_said_otherwise() {
    let labels = [("zone", "a"), ("disk", "ssd")];
    let mut world = World::new();
    world.range("either", cut_for(8, "10.0.0.0/16", &labels));
    assert_eq!(world.node("one", &[("zone", "a")]), "10.0.0.0/24");
    assert_eq!(world.plan.depending_on_terms().collect::<Vec<_>>(), ["either"]);
    let mut world = World::with(Settings { terms: Terms::All, rest: REST });
    world.range("both", cut_for(8, "10.0.0.0/16", &labels));
    assert_eq!(world.node("one", &[("zone", "a")]), "");
    assert_eq!(world.node("two", &labels), "10.0.0.0/24");
}
