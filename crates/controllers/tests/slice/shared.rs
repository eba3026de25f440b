//! Networks that are cut beside others that are not, on ranges that overlap.

use serde_json::{Value, json};

use crate::world::{Kind, World};

/// A configuration without a `network_name`.
fn plain(name: &str, ipam: &Value) -> Value {
    let mut ipam = ipam.clone();
    ipam["type"] = json!("whereabouts");
    json!({"cniVersion": "1.0.0", "name": name, "type": "macvlan", "ipam": ipam})
}

/// An `IPPool` of a whole range in which pods have these offsets.
fn pool(range: &str, offsets: &[u32]) -> Value {
    let entry =
        |offset: &u32| (offset.to_string(), json!({"id": format!("c{offset}"), "podref": "dev/p", "ifname": "net1"}));
    let all: serde_json::Map<_, _> = offsets.iter().map(entry).collect();
    json!({"metadata": {}, "spec": {"range": range, "allocations": all}})
}

fn cut(range: &str) -> Value {
    json!({"range": range, "node_slice_size": "/28"})
}

/// A pod of the network that is not cut had 10.0.0.1, and so had the first pod of the first node.
#[test]
fn no_node_gets_a_slice_of_which_a_pod_has_an_address_from_a_larger_range() {
    let mut world = World::new();
    world.define("dev/a", &plain("a", &json!({"range": "10.0.0.0/16"})));
    world.put(Kind::IpPool, "10.0.0.0-16", pool("10.0.0.0/16", &[1, 0x0100]));
    world.define("dev/b", &plain("b", &cut("10.0.0.0/24")));
    world.node("n");
    world.settle();
    assert_eq!((world.shown("b").as_str(), world.told()), ("n=10.0.0.16/28", Vec::new()));
    world.restart();
    world.node("o");
    world.settle();
    assert_eq!(world.shown("b"), "n=10.0.0.16/28, o=10.0.0.32/28");
    // Who takes an address of a slice that is given already is seen, and when it is free again that too.
    world.put(Kind::IpPool, "10.0.0.0-16", pool("10.0.0.0/16", &[1, 17]));
    world.settle();
    assert_eq!(world.shown("b"), "n=10.0.0.48/28 (10.0.0.16/28), o=10.0.0.32/28");
    world.put(Kind::IpPool, "10.0.0.0-16", pool("10.0.0.0/16", &[]));
    world.node("p");
    world.settle();
    assert_eq!(world.slices("b")["p"], "10.0.0.0/28");
}

/// A smaller range is a part of one that is cut.
#[test]
fn a_pool_of_a_smaller_range_counts_too() {
    let mut world = World::new();
    world.put(Kind::IpPool, "10.0.0.16-29", pool("10.0.0.16/29", &[2]));
    world.put(Kind::IpPool, "fd00---64", pool("fd00::/64", &[0x11]));
    world.define("dev/b", &plain("b", &cut("10.0.0.0/24")));
    world.define("dev/six", &plain("six", &json!({"range": "fd00::/120", "node_slice_size": "/124"})));
    for node in ["m", "n"] {
        world.node(node);
    }
    world.settle();
    assert_eq!(world.shown("b"), "m=10.0.0.0/28, n=10.0.0.32/28");
    assert_eq!(world.shown("six"), "m=fd00::/124, n=fd00::20/124");
}

/// Its definition may be gone, or say another range by now; and whoever has it may be on no definition at all.
#[test]
fn a_pool_counts_as_long_as_it_is_there_whatever_definitions_say() {
    let mut world = World::new();
    world.define("dev/a", &plain("a", &json!({"range": "10.0.0.0/16"})));
    world.settle();
    world.put(Kind::IpPool, "10.0.0.0-16", pool("10.0.0.0/16", &[1]));
    world.node("n");
    world.settle();
    // The network itself is cut and has another range from one write on.
    world.define("dev/a", &plain("a", &cut("10.0.0.0/24")));
    world.settle();
    assert_eq!(world.shown("a"), "n=10.0.0.16/28");
    world.define("dev/a", &plain("a", &cut("10.0.0.0/25")));
    world.settle();
    assert_eq!(world.shown("a"), "n=10.0.0.16/28");
}

/// Nodes may have configurations that are in no definition.
#[test]
fn a_pool_that_no_definition_names_is_found_in_time() {
    let mut world = World::new();
    world.define("dev/b", &plain("b", &cut("10.0.0.0/24")));
    world.node("n");
    world.settle();
    world.put(Kind::IpPool, "10.0.0.0-16", pool("10.0.0.0/16", &[1]));
    world.pass(300);
    assert_eq!(world.shown("b"), "n=10.0.0.16/28 (10.0.0.0/28)");
}

/// The same rules as for one range: names keep networks apart.
#[test]
fn networks_with_different_names_do_not_know_of_each_others_pools() {
    let mut world = World::new();
    world.put(Kind::IpPool, "10.0.0.0-16", pool("10.0.0.0/16", &[1]));
    world.put(Kind::IpPool, "net-10.0.0.0-15", pool("10.0.0.0/15", &[17]));
    world.put(Kind::IpPool, "other-10.0.0.0-16", pool("10.0.0.0/16", &[33]));
    world.network("net", "10.0.0.0/24", "/28");
    world.define("dev/plain", &plain("plain", &cut("10.0.0.0/24")));
    for node in ["m", "n", "o"] {
        world.node(node);
    }
    world.settle();
    assert_eq!(world.shown("net"), "m=10.0.0.0/28, n=10.0.0.32/28, o=10.0.0.48/28");
    assert_eq!(world.shown("plain"), "m=10.0.0.16/28, n=10.0.0.32/28, o=10.0.0.48/28");
}

/// What a node has of a slice is in a pool of its own, which says so by a label or by its name.
#[test]
fn pools_of_nodes_are_no_pools_of_ranges() {
    let mut world = World::new();
    world.define("dev/b", &plain("b", &cut("10.0.0.0/24")));
    world.node("n");
    world.settle();
    world.put(Kind::IpPool, "n-10.0.0.0-28", pool("10.0.0.0/28", &[1]));
    let mut labelled = pool("10.0.0.0/28", &[1]);
    labelled["metadata"]["labels"] = json!({"ipam.cadastre.dev/node": "n"});
    world.put(Kind::IpPool, "10.0.0.0-28", labelled);
    world.restart();
    world.settle();
    assert_eq!((world.shown("b").as_str(), world.told()), ("n=10.0.0.0/28", Vec::new()));
}
