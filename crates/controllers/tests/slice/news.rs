//! What a pool says about itself in its metadata, for who watches nothing else.

use controllers::slice::plan::Settings;
use serde_json::json;

use crate::world::{Kind, QUARANTINE, World, conf};

fn started() -> World {
    let mut world = World::new();
    world.network("net", "10.0.0.0/24", "/28");
    world.node("a");
    world.settle();
    world
}

/// Does something, and says whether everybody who has slices should look.
fn is_told(world: &mut World, what: impl FnOnce(&mut World)) -> bool {
    let before = world.changed("net");
    what(world);
    world.settle();
    let after = world.changed("net");
    assert!(after >= before);
    after > before
}

#[test]
fn only_what_changes_for_those_who_have_slices_is_told_in_the_metadata() {
    let mut world = started();
    assert!(!is_told(&mut world, |world| world.node("b")), "who has nothing looks in any case");
    assert!(!is_told(&mut world, |world| world.ask("a", "10.0.0.0/28", "more")), "who asks looks in any case");
    assert!(is_told(&mut world, |world| world.network("net", "10.1.0.0/24", "/28")), "others drain");
    assert_eq!(world.changed("net"), world.epoch("net", "a"));
    assert!(!is_told(&mut world, |world| world.ask("b", "10.0.0.16/28", "release")), "it asked to give it back");
    assert!(!is_told(&mut world, |world| world.remove(Kind::Node, "b")), "nobody is there to look");
    assert!(is_told(&mut world, |world| world.node("b")), "it is another one of that name");
    assert!(!is_told(&mut world, |world| world.remove(Kind::Node, "b")));
    assert!(!is_told(&mut world, |world| world.pass(QUARANTINE)), "what it had is taken back from nobody");
    assert_eq!(world.shown("net"), "a=10.1.0.0/28 (10.0.0.0/28) (10.0.0.32/28)");
    assert!(!is_told(&mut world, World::restart));
}

#[test]
fn what_changes_for_those_in_shards_is_told_in_the_metadata_of_the_pool() {
    let mut world = World::with(Settings { quarantine: QUARANTINE, limit: 400, ..Settings::default() }, 1);
    world.network("net", "10.0.0.0/24", "/28");
    world.node("n00");
    world.settle();
    let is_told_of_joins = is_told(&mut world, |world| {
        for index in 1..14 {
            world.node(&format!("n{index:02}"));
        }
    });
    assert!(!is_told_of_joins && world.names(Kind::Pool).len() > 2);
    let of_shard: Vec<String> = world.slices("net.shard-1").into_keys().collect();
    assert!(!is_told(&mut world, |world| world.remove(Kind::Node, &of_shard[0])));
    assert!(!is_told(&mut world, |world| world.pass(QUARANTINE)), "taken back from nobody");
    assert!(!world.all("net").contains(&of_shard[0]));
    let again = is_told(&mut world, |world| {
        world.remove(Kind::Node, &of_shard[1]);
        world.node(&of_shard[1]);
    });
    assert!(again, "it is another one of that name");
    assert!(is_told(&mut world, |world| world.network("net", "10.1.0.0/24", "/28")), "all drain");
}

#[test]
fn the_metadata_says_what_reservations_need() {
    let mut world = started();
    assert_eq!(world.annotation("net", "overlapping"), None);
    assert_eq!(world.annotation("net", "network-name"), Some("net"));
    let mut config = conf("net", &json!({"range": "10.0.0.0/24", "node_slice_size": "/28"}));
    config["ipam"]["enable_overlapping_ranges"] = json!(false);
    world.define("kube-system/net", &config);
    world.settle();
    assert_eq!(world.annotation("net", "overlapping"), Some("false"));
    config["ipam"]["network_name"] = json!(null);
    config["name"] = json!("net");
    config["ipam"]["enable_overlapping_ranges"] = json!(true);
    world.define("kube-system/net", &config);
    world.settle();
    assert_eq!((world.annotation("net", "overlapping"), world.annotation("net", "network-name")), (None, None));
}

/// A pod may come by a definition that does not name it.
#[test]
fn the_metadata_names_the_gateways_of_all_definitions() {
    let mut world = started();
    assert_eq!(world.annotation("net", "gateways"), None);
    for (key, gateway) in [("dev/one", "10.0.0.9"), ("dev/two", "10.0.0.1"), ("dev/three", "10.0.0.9")] {
        let ipam = json!({"range": "10.0.0.0/24", "node_slice_size": "/28", "gateway": gateway});
        world.define(key, &conf("net", &ipam));
    }
    world.settle();
    assert_eq!(world.annotation("net", "gateways"), Some("10.0.0.1,10.0.0.9"));
    world.remove(Kind::Definition, "dev/two");
    world.settle();
    assert_eq!(world.annotation("net", "gateways"), Some("10.0.0.9"));
}
