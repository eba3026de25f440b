//! What somebody else deletes or changes of what is stored: nodes go on using what they had, nobody gets that of another, and everybody
//! hears of it.

use controllers::slice::plan::Settings;
use serde_json::{Value, json};

use crate::world::{Kind, QUARANTINE, World};

/// A network of two nodes that did not come in the order of their names.
fn in_turn() -> World {
    let mut world = World::new();
    world.network("net", "10.0.0.0/24", "/28");
    world.node("c");
    world.settle();
    world.node("a");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.16/28, c=10.0.0.0/28");
    world
}

/// As many bytes of entries as a pool has here before it has shards: about four nodes.
const SMALL: usize = 400;

/// A network whose pool has shards, of so many nodes.
fn sharded(nodes: usize) -> World {
    let mut world = World::with(Settings { quarantine: QUARANTINE, limit: SMALL, ..Settings::default() }, 1);
    world.network("net", "10.0.0.0/24", "/28");
    for index in 0..nodes {
        world.node(&format!("n{index:02}"));
    }
    world.settle();
    assert!(world.names(Kind::Pool).len() > 2, "{:?}", world.names(Kind::Pool));
    world
}

/// Every node has a pod in each slice that it has.
fn use_all(world: &mut World) {
    for one in world.all("net").split(", ") {
        let (node, slices) = one.split_once('=').unwrap();
        for slice in slices.split(' ') {
            world.ip_pool(&format!("net-{node}-{}", slice.replace('/', "-")), slice, None, true);
        }
    }
}

/// A pool that was lost is made again as it was: nodes go on using what they have.
#[test]
fn a_pool_that_somebody_deletes_comes_back_as_it_was() {
    let mut world = in_turn();
    let before = world.shown("net");
    world.remove(Kind::Pool, "net");
    world.settle();
    assert_eq!(world.shown("net"), before);
    // The same while nobody looked: what is in use tells who has it.
    world.ip_pool("net-a-10.0.0.16-28", "10.0.0.16/28", None, true);
    world.ip_pool("net-old-10.0.0.32-28", "10.0.0.32/28", None, true);
    world.ip_pool("net-empty-10.0.0.48-28", "10.0.0.48/28", None, false);
    world.remove(Kind::Pool, "net");
    world.restart();
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.16/28, c=10.0.0.0/28, old=10.0.0.32/28 gone");
}

/// Tools that apply definitions delete and make them; the slices of the network are the same afterwards.
#[test]
fn a_definition_that_is_made_again_at_once_finds_its_slices() {
    let mut world = in_turn();
    let before = world.shown("net");
    world.remove(Kind::Definition, "kube-system/net");
    world.settle();
    assert_eq!(world.get(Kind::Pool, "net"), None);
    world.network("net", "10.0.0.0/24", "/28");
    world.settle();
    assert_eq!(world.shown("net"), before);
}

#[test]
fn everything_that_is_lost_comes_back_as_it_was_however_much_it_is() {
    for lost in [&["net"][..], &["net.shard-1"], &["net.shard-2", "net.shard-1"], &["net", "net.shard-1"]] {
        let mut world = sharded(14);
        let before = world.all("net");
        for name in lost {
            world.remove(Kind::Pool, name);
        }
        world.settle();
        assert_eq!(world.all("net"), before, "{lost:?} while we look");
        use_all(&mut world);
        let changed = world.changed("net");
        for name in lost {
            world.remove(Kind::Pool, name);
        }
        world.now += 60_000;
        world.restart();
        world.settle();
        assert_eq!(world.all("net"), before, "{lost:?} while nobody looks");
        assert!(world.changed("net") > changed, "{lost:?}: nobody hears of it");
        assert!(world.largest < SMALL + 1_200, "{lost:?}: an object of {} bytes", world.largest);
        // What is told now is what everybody goes on with.
        let writes = world.writes;
        world.restart();
        world.settle();
        assert_eq!(world.writes, writes, "{lost:?}");
    }
}

/// A pool that is made again does not name the shards there were, and what they say does not count any more.
#[test]
fn a_pool_that_is_made_again_forgets_nobody_for_what_is_in_old_shards() {
    let mut world = sharded(14);
    let kept: Vec<String> = world.slices("net.shard-1").into_keys().collect();
    for name in world.names(Kind::Node).iter().filter(|name| !kept.contains(name)) {
        world.remove(Kind::Node, name);
    }
    world.settle();
    world.pass(QUARANTINE);
    let before = world.all("net");
    assert_eq!(before.split(", ").count(), kept.len());
    // Every entry needs more room than before, in the same moment.
    world.remove(Kind::Pool, "net");
    world.network("net", "10.1.0.0/24", "/28");
    world.settle();
    for one in before.split(", ") {
        let (node, slice) = one.split_once('=').unwrap();
        let held = world.all("net").split(", ").find(|other| other.starts_with(node)).unwrap().to_owned();
        assert!(held.ends_with(&format!(" ({slice})")), "{node} had {slice}, and has {held}");
    }
}

/// An `IPPool` that a node left behind when it went says nothing about who has its slice today.
#[test]
fn what_was_taken_back_does_not_come_back_when_a_shard_is_lost() {
    let mut world = sharded(14);
    world.ip_pool("net-n00-10.0.0.0-28", "10.0.0.0/28", None, true);
    let left = world.get(Kind::IpPool, "net-n00-10.0.0.0-28").unwrap().clone();
    world.remove(Kind::Node, "n00");
    world.settle();
    world.pass(QUARANTINE);
    world.node("x");
    world.settle();
    assert!(world.all("net").ends_with("x=10.0.0.0/28"), "{}", world.all("net"));
    use_all(&mut world);
    world.remove(Kind::IpPool, "net-x-10.0.0.0-28");
    world.put(Kind::IpPool, "net-n00-10.0.0.0-28", left);
    let before = world.all("net");
    let has_x = |world: &World, name: &str| world.slices(name).contains_key("x");
    let shards = world.names(Kind::Pool).into_iter().filter(|name| name != "net" && !has_x(&world, name));
    for shard in shards.collect::<Vec<_>>() {
        world.remove(Kind::Pool, &shard);
    }
    world.restart();
    world.settle();
    assert_eq!((world.all("net"), world.told()), (before, Vec::new()));
}

/// Two nodes with one slice can only come from outside. Both keep it, neither begins pods in it, and no third one gets it.
#[test]
fn one_slice_of_two_nodes_is_told_and_drains_on_both() {
    let mut world = World::new();
    world.node("a");
    world.node("b");
    let slice = |node: &str, range: &str| json!({"nodeName": node, "sliceRange": range});
    let pool = json!({
        "metadata": {"namespace": "kube-system"}, "spec": {"range": "10.0.0.0/24", "sliceSize": "/28"},
        "status": {"allocations": [slice("a", "10.0.0.0/28"), slice("b", "10.0.0.0/28"), slice("c", "?")]},
    });
    world.put(Kind::Pool, "net", pool);
    world.network("net", "10.0.0.0/24", "/28");
    world.settle();
    let told = world.told();
    let conflict = "kube-system/net: SliceConflict: 10.0.0.0/28 of node a overlaps 10.0.0.0/28 of node b";
    assert!(told.iter().any(|event| event == conflict), "{told:?}");
    assert!(told.iter().any(|event| event.contains("SliceUnreadable: \"?\" of node c is no slice")), "{told:?}");
    assert_eq!(world.plan().counts().next().unwrap().1.conflicting, 2);
    world.node("d");
    world.settle();
    let both = "a=10.0.0.16/28 (10.0.0.0/28), b=10.0.0.32/28 (10.0.0.0/28), d=10.0.0.48/28";
    assert_eq!(world.shown("net"), both);
    // When one of them has given it back, it is the other's.
    world.ask("b", "10.0.0.0/28", "release");
    assert_eq!(world.shown("net"), "a=10.0.0.0/28 10.0.0.16/28, b=10.0.0.32/28, d=10.0.0.48/28");
    assert_eq!(world.plan().counts().next().unwrap().1.conflicting, 0);
}

/// Whoever holds a part of what another one holds is as much in conflict, there or gone.
#[test]
fn slices_that_overlap_in_part_are_in_conflict_too() {
    let mut world = in_turn();
    edit(&mut world, |allocations| allocations[0]["sliceRange"] = json!("10.0.0.0/27"));
    world.settle();
    assert_eq!(world.told(), ["kube-system/net: SliceConflict: 10.0.0.0/27 of node a overlaps 10.0.0.0/28 of node c"]);
    assert_eq!(world.shown("net"), "a=10.0.0.32/28 (10.0.0.0/27), c=10.0.0.48/28 (10.0.0.0/28)");
    world.remove(Kind::Node, "a");
    world.settle();
    world.pass(QUARANTINE);
    assert_eq!(world.shown("net"), "c=10.0.0.0/28 10.0.0.48/28");
}

/// Somebody changes what the pool of `in_turn` says.
fn edit(world: &mut World, change: impl FnOnce(&mut Vec<Value>)) {
    let mut pool = world.get(Kind::Pool, "net").unwrap().clone();
    change(pool["status"]["allocations"].as_array_mut().unwrap());
    world.put(Kind::Pool, "net", pool);
}

/// Nodes read the pool again only when it says that something changed, and who edits it does not think of that.
#[test]
fn nodes_hear_of_what_somebody_else_wrote() {
    let mut world = in_turn();
    let (changed, epochs) = (world.changed("net"), [world.epoch("net", "a"), world.epoch("net", "c")]);
    edit(&mut world, |allocations| allocations[0]["sliceRange"] = json!("10.0.0.64/28"));
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.64/28, c=10.0.0.0/28");
    assert!(world.changed("net") > changed && world.epoch("net", "a") > epochs[0]);
    assert_eq!(world.epoch("net", "c"), epochs[1], "nothing of it changed");
    let changed = world.changed("net");
    edit(&mut world, |allocations| drop(allocations.remove(1)));
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.64/28, c=10.0.0.0/28");
    assert!(world.changed("net") > changed);
    let writes = world.writes;
    world.pass(60);
    assert_eq!(world.writes, writes);
}
