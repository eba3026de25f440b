//! Who gets which slices: whereabouts' own tables of its controller, and what it cannot do.

use serde_json::json;

use crate::world::{Kind, QUARANTINE, World, conf};

#[test]
fn a_network_without_nodes_has_a_pool_that_is_empty() {
    let mut world = World::new();
    world.network("net", "10.0.0.0/8", "/20");
    world.settle();
    let pool = world.get(Kind::Pool, "net").unwrap();
    assert_eq!(pool["spec"], json!({"range": "10.0.0.0/8", "sliceSize": "/20"}));
    assert_eq!(pool["status"]["allocations"], json!([]));
    let counts: Vec<_> = world.plan().counts().collect();
    assert_eq!((counts[0].0, counts[0].1.free), ("net", 4096));
}

#[test]
fn nodes_get_slices_in_the_order_of_their_names() {
    let mut world = World::new();
    for name in ["c", "a", "b"] {
        world.node(name);
    }
    world.network("net", "10.0.0.0/8", "/20");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/20, b=10.0.16.0/20, c=10.0.32.0/20");
    assert_eq!(world.writes, 1, "one write for all");
    let pool = world.get(Kind::Pool, "net").unwrap();
    let uid = &world.get(Kind::Node, "a").unwrap()["metadata"]["uid"];
    assert_eq!(&pool["status"]["allocations"][0]["nodeUID"], uid);
}

#[test]
fn a_node_that_joins_gets_the_next_slice_and_the_others_keep_theirs() {
    let mut world = World::new();
    world.node("b");
    world.network("net", "10.0.0.0/8", "/20");
    world.settle();
    let before = world.epoch("net", "b");
    world.node("a");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.16.0/20, b=10.0.0.0/20");
    assert_eq!(world.epoch("net", "b"), before);
    assert!(world.epoch("net", "a") > before);
}

#[test]
fn a_heartbeat_writes_nothing() {
    let mut world = World::new();
    world.node("a");
    world.network("net", "10.0.0.0/8", "/20");
    world.settle();
    let writes = world.writes;
    let mut node = world.get(Kind::Node, "a").unwrap().clone();
    node["status"] = json!({"conditions": [{"type": "Ready"}]});
    world.put(Kind::Node, "a", node);
    world.network("net", "10.0.0.0/8", "20");
    world.pass(1_000);
    assert_eq!(world.writes, writes);
}

#[test]
fn other_definitions_are_left_alone() {
    let mut world = World::new();
    world.node("a");
    for (key, config) in [
        ("kube-system/host-local", json!({"name": "n", "type": "x", "ipam": {"type": "host-local"}})),
        ("kube-system/none", json!({"name": "n", "type": "x"})),
        ("kube-system/normal", conf("normal", &json!({"range": "10.0.0.0/8"}))),
    ] {
        world.define(key, &config);
    }
    world.settle();
    assert_eq!((world.names(Kind::Pool), world.told()), (vec![], vec![]));
}

#[test]
fn a_second_definition_of_a_network_shares_its_pool_and_is_an_owner() {
    let mut world = World::new();
    world.node("a");
    let config = conf("net", &json!({"range": "10.0.0.0/8", "node_slice_size": "/20"}));
    world.define("kube-system/one", &config);
    world.settle();
    world.define("kube-system/two", &config);
    world.settle();
    let owners = world.get(Kind::Pool, "net").unwrap()["metadata"]["ownerReferences"].clone();
    let names: Vec<&str> = owners.as_array().unwrap().iter().map(|owner| owner["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["one", "two"]);
    world.remove(Kind::Definition, "kube-system/one");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/20");
    world.remove(Kind::Definition, "kube-system/two");
    world.settle();
    assert_eq!(world.get(Kind::Pool, "net"), None);
}

#[test]
fn a_definition_that_differs_from_the_oldest_is_told_and_changes_nothing() {
    let mut world = World::new();
    world.node("a");
    world.network("net", "10.0.0.0/8", "/20");
    world.settle();
    world.now += 1_000;
    world.define("other/second", &conf("net", &json!({"range": "10.0.0.0/8", "node_slice_size": "/24"})));
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/20");
    assert_eq!(
        world.told(),
        [
            "other/second: NetworkMismatch: ipam.node_slice_size: network net is cut by kube-system/net, and this differs from it"
        ]
    );
    // When the oldest is gone, the next decides.
    world.remove(Kind::Definition, "kube-system/net");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.16.0/24 (10.0.0.0/20)");
}

#[test]
fn every_family_and_range_has_its_slices() {
    let mut world = World::new();
    for name in ["a", "b"] {
        world.node(name);
    }
    let ipam = json!({
        "range": "10.0.0.0/16", "node_slice_size": "/26",
        "ipRanges": [{"range": "fd00::/64"}, {"range": "192.168.0.0/24", "node_slice_size": "/31"}],
    });
    world.define("default/net", &conf("net", &ipam));
    world.settle();
    assert_eq!(
        world.shown("net"),
        "a=10.0.0.0/26 fd00::/122 192.168.0.0/31, b=10.0.0.64/26 fd00::40/122 192.168.0.2/31"
    );
    let pool = world.get(Kind::Pool, "net").unwrap();
    assert_eq!(
        pool["metadata"]["annotations"]["ipam.cadastre.dev/ranges"],
        "10.0.0.0/16 by /26, fd00::/64 by /122, 192.168.0.0/24 by /31"
    );
}

#[test]
fn slices_of_one_address_leave_out_what_no_pod_can_have() {
    for (range, size, more, expected) in [
        ("10.0.0.0/29", "/32", json!({"gateway": "10.0.0.1"}), "a=10.0.0.2/32, b=10.0.0.3/32"),
        ("10.0.0.0/29", "/31", json!({"exclude": ["10.0.0.2/31"]}), "a=10.0.0.0/31, b=10.0.0.4/31"),
        ("fd00::/125", "/128", json!({}), "a=fd00::1/128, b=fd00::2/128"),
        ("fd00::/48", "/64", json!({"exclude": ["fd00::/63"]}), "a=fd00:0:0:2::/64, b=fd00:0:0:3::/64"),
        ("10.0.0.0/24", "/28", json!({"range_start": "10.0.0.40"}), "a=10.0.0.32/28, b=10.0.0.48/28"),
    ] {
        let mut world = World::new();
        world.node("a");
        world.node("b");
        let mut ipam = more.clone();
        (ipam["range"], ipam["node_slice_size"]) = (json!(range), json!(size));
        world.define("default/net", &conf("net", &ipam));
        world.settle();
        assert_eq!(world.shown("net"), expected, "{ipam}");
    }
}

#[test]
fn only_the_nodes_that_are_selected_get_slices_and_others_give_theirs_back() {
    let mut world = World::new();
    world.labelled("a", &json!({"zone": "x"}));
    world.labelled("b", &json!({"zone": "y"}));
    let ipam = json!({"range": "10.0.0.0/24", "node_slice_size": "/28", "node_selector": "zone=x"});
    world.define("default/net", &conf("net", &ipam));
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/28");
    let mut node = world.get(Kind::Node, "a").unwrap().clone();
    node["metadata"]["labels"] = json!({"zone": "y"});
    world.put(Kind::Node, "a", node);
    world.settle();
    assert_eq!(world.shown("net"), "a=(10.0.0.0/28)");
    let ask = format!("release-{}", world.epoch("net", "a"));
    world.ip_pool("net-a-10.0.0.0-28", "10.0.0.0/28", Some(ask), false);
    world.settle();
    assert_eq!(world.shown("net"), "");
}

#[test]
fn two_networks_of_one_range_are_apart() {
    let mut world = World::new();
    world.node("a");
    world.network("one", "10.0.0.0/24", "/28");
    world.network("two", "10.0.0.0/24", "/28");
    world.settle();
    assert_eq!((world.shown("one"), world.shown("two")), ("a=10.0.0.0/28".to_owned(), "a=10.0.0.0/28".to_owned()));
}

#[test]
fn when_nothing_is_left_the_nodes_that_wait_are_named_and_served_when_they_can_be() {
    let mut world = World::new();
    world.network("net", "10.0.0.0/30", "/31");
    for name in ["a", "b", "c", "d"] {
        world.node(name);
    }
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/31, b=10.0.0.2/31");
    assert_eq!(world.told(), ["kube-system/net: SlicesExhausted: no free /31 is left in 10.0.0.0/30 for c, d"]);
    assert_eq!(world.plan().counts().next().unwrap().1.waiting, 2);
    world.remove(Kind::Node, "a");
    world.settle();
    world.pass(QUARANTINE);
    assert_eq!(world.shown("net"), "b=10.0.0.2/31, c=10.0.0.0/31");
    assert_eq!(world.told(), ["kube-system/net: SlicesExhausted: no free /31 is left in 10.0.0.0/30 for d"]);
}

#[test]
fn a_bad_definition_is_told_by_its_field_and_hurts_no_other() {
    let mut world = World::new();
    world.node("a");
    world.network("good", "10.0.0.0/24", "/28");
    world.define("apps/bad", &conf("bad", &json!({"range": "10.0.0.0/24", "node_slice_size": "abc"})));
    world.settle();
    assert_eq!(world.shown("good"), "a=10.0.0.0/28");
    assert_eq!(
        world.told(),
        ["apps/bad: InvalidNetwork: ipam.node_slice_size: \"abc\" is no prefix length, such as \"/26\""]
    );
    world.define("apps/bad", &conf("bad", &json!({"range": "10.0.0.0/24", "node_slice_size": "/26"})));
    world.settle();
    assert_eq!((world.shown("bad"), world.told()), ("a=10.0.0.0/26".to_owned(), vec![]));
}

/// A slip of the pen in the only definition of a network must not take its slices away, not even after a restart.
#[test]
fn a_definition_that_cannot_be_read_any_more_keeps_its_pool() {
    let mut world = World::new();
    world.node("a");
    world.network("net", "10.0.0.0/24", "/28");
    world.settle();
    world.define("kube-system/net", &json!({"name": 7, "ipam": {"type": "cadastre", "fast_ipam": true, "range": "?"}}));
    world.settle();
    world.restart();
    world.node("b");
    world.pass(QUARANTINE);
    assert_eq!(world.shown("net"), "a=10.0.0.0/28", "kept, and nothing is given until it can be read");
    world.network("net", "10.0.0.0/24", "/28");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/28, b=10.0.0.16/28");
}
