//! As many nodes and networks as a cluster may have, measured in writes and bytes.

use controllers::slice::layout::LIMIT;
use controllers::slice::plan::Settings;
use serde_json::{Value, json};

use crate::world::{Kind, World, conf};

const NODES: usize = 5_000;
const NETWORKS: usize = 10;
/// What no object may be larger than.
const LARGEST: usize = 1_000_000;

/// A name as long as those that clouds give.
fn name(index: usize) -> String {
    format!("ip-10-{:03}-{:03}-{:03}.eu-central-1.compute.internal", index / 65_536, index / 256 % 256, index % 256)
}

/// A node whose identity is as long as identities are.
fn join(world: &mut World, index: usize) {
    let uid = format!("4f9c2f6e-5a3b-4c1d-9e8f-{index:012}");
    world.put(Kind::Node, &name(index), json!({"metadata": {"uid": uid}}));
}

fn networks(world: &mut World, count: usize, ipam: &Value) {
    for index in 0..count {
        world.define(&format!("apps/net-{index}"), &conf(&format!("net-{index}"), ipam));
    }
}

/// How many nodes have a slice of a network, in the pool and its shards, each slice once.
fn served(world: &World, network: &str) -> usize {
    let mut slices = std::collections::BTreeSet::new();
    let mut nodes = std::collections::BTreeSet::new();
    for pool in world.names(Kind::Pool) {
        let shard = &world.get(Kind::Pool, &pool).unwrap()["metadata"]["annotations"]["ipam.cadastre.dev/shard-of"];
        if pool == network || *shard == network {
            for (node, held) in world.slices(&pool) {
                nodes.insert(node);
                slices.extend(held.split(' ').take(1).map(str::to_owned));
            }
        }
    }
    assert_eq!(nodes.len(), slices.len());
    nodes.len()
}

#[test]
fn five_thousand_nodes_that_join_at_once_cost_one_write_for_each_network() {
    let mut world = World::new();
    networks(&mut world, NETWORKS, &json!({"range": "10.0.0.0/8", "node_slice_size": "/20"}));
    world.settle();
    assert_eq!(world.writes, NETWORKS);
    // Only 4,096 of them can be served.
    for index in 0..NODES {
        join(&mut world, index);
    }
    world.settle();
    println!("{} writes, the largest {} bytes", world.writes - NETWORKS, world.largest);
    assert_eq!(world.writes, 2 * NETWORKS);
    for network in 0..NETWORKS {
        assert_eq!(served(&world, &format!("net-{network}")), 4_096);
    }
    assert!(world.largest < LARGEST, "{} bytes", world.largest);
    let told = world.told();
    assert_eq!(told.len(), NETWORKS);
    assert!(told[0].ends_with("and 894 more"), "{}", told[0]);
}

#[test]
fn the_longer_writes_take_the_more_nodes_join_with_one() {
    const JOINING: usize = 1_000;
    let mut world = World::new();
    networks(&mut world, 1, &json!({"range": "10.0.0.0/8", "node_slice_size": "/24"}));
    world.settle();
    let before = world.writes;
    // One joins every 20 ms, and what is written is seen after half a second.
    for index in 0..JOINING {
        join(&mut world, index);
        world.now += 20;
        if index % 25 == 0 {
            world.deliver(0, usize::MAX);
        }
        world.act(0, usize::MAX);
    }
    assert!(world.writes - before < 8, "{} writes in 20 s", world.writes - before);
    world.pass(6);
    assert_eq!(served(&world, "net-0"), JOINING);
}

#[test]
fn five_thousand_nodes_with_slices_of_both_families_never_make_an_object_too_large() {
    let mut world = World::new();
    let ranges = json!([{"range": "10.0.0.0/8"}, {"range": "fd00:1234:5678::/48", "node_slice_size": "/64"}]);
    networks(&mut world, 2, &json!({"ipRanges": ranges, "node_slice_size": "/24"}));
    for index in 0..NODES {
        join(&mut world, index);
    }
    world.settle();
    println!("{} writes, the largest {} bytes", world.writes, world.largest);
    for network in 0..2 {
        assert_eq!(served(&world, &format!("net-{network}")), NODES);
    }
    assert!(world.largest < LARGEST, "{} bytes", world.largest);
    assert!(world.writes <= 2 * 5, "{} writes", world.writes);
    // Who begins now finds everything as it should be.
    let writes = world.writes;
    world.restart();
    world.settle();
    assert_eq!(world.writes, writes);
}

#[test]
fn a_join_writes_one_object_of_each_network_however_many_shards_it_has() {
    let settings = Settings { limit: LIMIT / 100, ..Settings::default() };
    let mut world = World::with(settings, 1);
    world.network("net", "10.0.0.0/8", "/24");
    for index in 0..200 {
        join(&mut world, index);
    }
    world.settle();
    let pools = world.names(Kind::Pool);
    assert!(pools.len() > 3, "{pools:?}");
    assert_eq!(served(&world, "net"), 200);
    let mut most = 0;
    for index in 200..230 {
        let before = world.writes;
        join(&mut world, index);
        world.settle();
        most = most.max(world.writes - before);
    }
    assert_eq!(served(&world, "net"), 230);
    assert!(most <= 3, "{most} writes for one node");
    assert!(world.largest < LIMIT / 100 + 2_000, "{} bytes", world.largest);
}

#[test]
fn nodes_in_shards_come_and_go_like_others() {
    let settings = Settings { limit: 1_000, quarantine: 300, ..Settings::default() };
    let mut world = World::with(settings, 1);
    world.network("net", "10.0.0.0/24", "/28");
    for index in 0..16 {
        join(&mut world, index);
    }
    world.settle();
    assert_eq!(served(&world, "net"), 16);
    assert!(world.names(Kind::Pool).len() > 1);
    // One of a shard goes, another takes its slice after the rest; one that comes back keeps its own.
    let shard = world.names(Kind::Pool)[1].clone();
    let of_shard: Vec<(String, String)> = world.slices(&shard).into_iter().collect();
    let ((gone, slice), (again, kept)) = (of_shard[0].clone(), of_shard[1].clone());
    world.remove(Kind::Node, &gone);
    world.remove(Kind::Node, &again);
    world.settle();
    world.node(&again);
    world.node("new");
    world.pass(300);
    world.pass(300);
    let held: std::collections::BTreeMap<String, String> =
        world.names(Kind::Pool).iter().rev().flat_map(|pool| world.slices(pool)).collect();
    assert_eq!((held.get("new"), held.get(&again), held.get(&gone)), (Some(&slice), Some(&kept), None));
    // All of them go with the network.
    world.remove(Kind::Definition, "kube-system/net");
    world.settle();
    assert_eq!(world.names(Kind::Pool), [""; 0]);
}
