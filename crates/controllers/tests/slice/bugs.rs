//! A test for each fault that was found in whereabouts' controller, and for what was adopted from it.

use serde_json::json;

use crate::world::{Fate, Kind, QUARANTINE, World, conf};

/// An IPv6 range let the controller crash, for everybody; a size that is no number made an empty pool.
#[test]
fn an_ipv6_range_is_cut_and_a_size_that_is_no_number_is_refused() {
    let mut world = World::new();
    world.node("a");
    world.network("six", "2001:db8::/32", "/64");
    world.network("bad", "10.0.0.0/8", "twenty");
    world.network("four", "10.0.0.0/8", "/20");
    world.settle();
    assert_eq!((world.shown("six"), world.shown("four")), ("a=2001:db8::/64".to_owned(), "a=10.0.0.0/20".to_owned()));
    assert_eq!(world.get(Kind::Pool, "bad"), None);
    assert_eq!(world.told().len(), 1);
}

/// Slices were given before those of nodes that are gone were freed, and who got none was forgotten until something else happened.
#[test]
fn a_node_that_replaces_another_while_everything_is_taken_is_served_by_itself() {
    let mut world = World::new();
    world.network("net", "10.0.0.0/30", "/31");
    world.node("a");
    world.node("b");
    world.settle();
    world.remove(Kind::Node, "b");
    world.node("c");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/31, b=10.0.0.2/31 gone");
    assert_eq!(world.told(), ["kube-system/net: SlicesExhausted: no free /31 is left in 10.0.0.0/30 for c"]);
    world.pass(QUARANTINE);
    assert_eq!(world.shown("net"), "a=10.0.0.0/31, c=10.0.0.2/31");
}

/// A slice went to another node in the moment in which the first one was deleted, pods or no pods.
#[test]
fn the_slice_of_a_node_that_is_gone_rests_until_nothing_runs_there() {
    let mut world = World::new();
    world.network("net", "10.0.0.0/31", "/31");
    world.node("a");
    world.running.insert("a".to_owned());
    world.settle();
    world.remove(Kind::Node, "a");
    world.node("b");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/31 gone");
    world.pass(QUARANTINE - 10);
    world.running.clear();
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/31 gone", "time is not up");
    world.running.insert("a".to_owned());
    world.pass(3_600);
    assert_eq!(world.shown("net"), "a=10.0.0.0/31 gone", "pods run");
    world.running.clear();
    world.pass(10);
    assert_eq!(world.shown("net"), "b=10.0.0.0/31");
}

/// The time in which slices rest goes on while nobody is there to count it.
#[test]
fn a_restart_does_not_begin_the_rest_anew() {
    let mut world = World::new();
    world.network("net", "10.0.0.0/31", "/31");
    world.node("a");
    world.settle();
    world.remove(Kind::Node, "a");
    world.settle();
    world.now += 1_000 * u64::try_from(QUARANTINE).unwrap();
    world.restart();
    world.node("b");
    world.settle();
    assert_eq!(world.shown("net"), "b=10.0.0.0/31");
}

#[test]
fn a_node_that_went_while_it_was_fenced_need_not_be_waited_for_but_for_its_pods() {
    let mut world = World::new();
    world.network("net", "10.0.0.0/31", "/31");
    let taints = json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
    world.put(Kind::Node, "a", json!({"metadata": {}, "spec": {"taints": taints}}));
    world.running.insert("a".to_owned());
    world.settle();
    world.remove(Kind::Node, "a");
    world.node("b");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.0/31 gone");
    world.running.clear();
    world.pass(10);
    assert_eq!(world.shown("net"), "b=10.0.0.0/31");
}

/// A node that was made again under its name inherited what the one before had written, and nobody could tell them apart.
#[test]
fn a_node_that_comes_back_under_its_name_has_its_slices_under_a_new_epoch() {
    let mut world = World::new();
    world.network("net", "10.0.0.0/24", "/28");
    world.node("a");
    world.node("b");
    world.settle();
    let (before, other) = (world.epoch("net", "a"), world.epoch("net", "b"));
    world.remove(Kind::Node, "a");
    world.settle();
    world.node("a");
    world.settle();
    let uid = world.get(Kind::Node, "a").unwrap()["metadata"]["uid"].clone();
    let entry = world.get(Kind::Pool, "net").unwrap()["status"]["allocations"][0].clone();
    assert_eq!((&entry["nodeName"], &entry["nodeUID"], &entry["goneAt"]), (&json!("a"), &uid, &json!(null)));
    assert!(world.epoch("net", "a") > before);
    assert_eq!((world.shown("net").as_str(), world.epoch("net", "b")), ("a=10.0.0.0/28, b=10.0.0.16/28", other));
    // The same while nobody looked: the names are the same, the nodes are not.
    let before = world.epoch("net", "a");
    world.remove(Kind::Node, "a");
    world.node("a");
    world.restart();
    world.settle();
    assert!(world.epoch("net", "a") > before);
}

/// The pool was cut anew from scratch, whatever pods had.
#[test]
fn a_change_of_range_leaves_live_slices_where_they_are() {
    let mut world = World::new();
    world.network("net", "10.0.0.0/24", "/28");
    world.node("a");
    world.node("b");
    world.settle();
    world.network("net", "10.1.0.0/24", "/28");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.1.0.0/28 (10.0.0.0/28), b=10.1.0.16/28 (10.0.0.16/28)");
    assert_eq!(world.get(Kind::Pool, "net").unwrap()["spec"]["range"], "10.1.0.0/24");
}

/// An owner in another namespace is not found where it is looked for, and the pool was collected as an orphan.
#[test]
fn only_definitions_beside_the_pool_own_it_and_only_if_there_are_no_others() {
    let mut world = World::new();
    world.node("a");
    let config = conf("net", &json!({"range": "10.0.0.0/24", "node_slice_size": "/28"}));
    let owners = |world: &World| world.get(Kind::Pool, "net").unwrap()["metadata"]["ownerReferences"].clone();
    world.define("apps/one", &config);
    world.settle();
    assert_eq!(owners(&world), json!(null));
    world.define("kube-system/two", &config);
    world.settle();
    assert_eq!(owners(&world), json!(null), "it would go with the one although the other is there");
    world.remove(Kind::Definition, "apps/one");
    world.settle();
    assert_eq!(owners(&world)[0]["name"], "two");
    world.define("apps/one", &config);
    world.remove(Kind::Definition, "kube-system/two");
    world.settle();
    assert_eq!((owners(&world), world.shown("net").as_str()), (json!(null), "a=10.0.0.0/28"));
    world.remove(Kind::Definition, "apps/one");
    world.settle();
    assert_eq!(world.get(Kind::Pool, "net"), None, "nobody else would delete it");
}

/// What comes through a watch does not say its version and kind, and a reference without them is refused.
#[test]
fn references_to_owners_are_whole() {
    let mut world = World::new();
    let config = conf("net", &json!({"range": "10.0.0.0/24", "node_slice_size": "/28"}));
    world.define("kube-system/one", &config);
    world.define("kube-system/two", &config);
    world.settle();
    for owner in world.get(Kind::Pool, "net").unwrap()["metadata"]["ownerReferences"].as_array().unwrap() {
        let key = format!("kube-system/{}", owner["name"].as_str().unwrap());
        let uid = &world.get(Kind::Definition, &key).unwrap()["metadata"]["uid"];
        assert_eq!(
            (&owner["apiVersion"], &owner["kind"]),
            (&json!("k8s.cni.cncf.io/v1"), &json!("NetworkAttachmentDefinition"))
        );
        assert_eq!(&owner["uid"], uid);
    }
}

/// Every slice of a large range was listed, until the object was too large to be stored.
#[test]
fn free_slices_are_not_listed_however_many_there_are() {
    let mut world = World::new();
    world.node("a");
    world.network("large", "10.0.0.0/8", "/27");
    world.network("larger", "fd00::/16", "/127");
    world.settle();
    assert!(world.largest < 1_000, "{} bytes", world.largest);
}

/// A pool that whereabouts made is taken over where it is: nodes keep what they have, and what is free is not listed any more.
#[test]
fn a_pool_of_whereabouts_is_adopted_in_place() {
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        world.node(name);
    }
    let slice = |node: &str, index: u8| json!({"nodeName": node, "sliceRange": format!("10.0.0.{}/28", 16 * index)});
    let allocations = json!([slice("b", 0), slice("", 1), slice("a", 2), slice("gone", 3), slice("", 4)]);
    let pool = json!({
        "metadata": {"namespace": "kube-system", "labels": {"own": "label"}},
        "spec": {"range": "10.0.0.0/24", "sliceSize": "/28"}, "status": {"allocations": allocations},
    });
    world.put(Kind::Pool, "net", pool);
    world.settle();
    assert_eq!(world.writes, 0, "no definition says that it is ours");
    world.network("net", "10.0.0.0/24", "/28");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.32/28, b=10.0.0.0/28, c=10.0.0.16/28, gone=10.0.0.48/28 gone");
    assert_eq!(world.get(Kind::Pool, "net").unwrap()["metadata"]["labels"], json!({"own": "label"}));
    world.pass(QUARANTINE);
    assert_eq!(world.shown("net"), "a=10.0.0.32/28, b=10.0.0.0/28, c=10.0.0.16/28");
}

/// A pool with which no definition has anything to do is somebody else's.
#[test]
fn pools_that_are_not_ours_are_left_alone() {
    let mut world = World::new();
    let pool = json!({
        "metadata": {"namespace": "kube-system"}, "spec": {"range": "10.0.0.0/24", "sliceSize": "/28"},
        "status": {"allocations": [{"nodeName": "x", "sliceRange": "10.0.0.0/28"}]},
    });
    world.put(Kind::Pool, "theirs", pool);
    world.pass(10 * QUARANTINE);
    world.restart();
    world.pass(10 * QUARANTINE);
    assert!(world.get(Kind::Pool, "theirs").is_some());
}

/// A server that drops the fields it does not know would make us write for ever.
#[test]
fn a_server_that_does_not_know_our_fields_is_told_of_and_not_worn_out() {
    let mut world = World::new();
    world.unknown = &["nodeUID", "epoch"];
    world.node("a");
    world.network("net", "10.0.0.0/24", "/28");
    world.pass(25);
    let told = world.told();
    assert!(told[0].contains("SlicePoolNotWritten: the server dropped what it does not know"), "{told:?}");
    assert!(world.writes <= 2, "{} writes", world.writes);
}

#[test]
fn a_write_that_fails_is_made_again_and_one_that_was_not_heard_of_is_not() {
    let mut world = World::new();
    world.node("a");
    world.fates.extend([Fate::Lost, Fate::Lost, Fate::MadeUnheard]);
    world.network("net", "10.0.0.0/24", "/28");
    world.pass(1);
    world.pass(1);
    world.pass(1);
    assert_eq!((world.shown("net").as_str(), world.writes), ("a=10.0.0.0/28", 1));
}

/// Networks without a `network_name` were all taken for one (whereabouts#739), and those of lists had no name at all (#518).
#[test]
fn networks_without_a_network_name_have_a_pool_each() {
    let mut world = World::new();
    world.node("a");
    let ipam = |range: &str| json!({"type": "whereabouts", "range": range, "node_slice_size": "/28"});
    world.define("apps/x", &json!({"name": "plain", "type": "macvlan", "ipam": ipam("10.0.0.0/24")}));
    world.define("apps/y", &json!({"name": "list", "plugins": [{"type": "macvlan", "ipam": ipam("10.1.0.0/24")}]}));
    world.define("apps/z", &json!({"name": "other", "type": "macvlan", "ipam": {"type": "host-local"}}));
    world.settle();
    assert_eq!((world.shown("plain"), world.shown("list")), ("a=10.0.0.0/28".to_owned(), "a=10.1.0.0/28".to_owned()));
    assert_eq!((world.names(Kind::Pool).len(), world.told()), (2, Vec::new()));
}

/// Who was known by the first part of its name did not find what the whole name had (whereabouts#703).
#[test]
fn nodes_have_slices_under_their_whole_names() {
    let mut world = World::new();
    world.network("net", "10.0.0.0/24", "/28");
    world.node("worker.example.com");
    world.node("worker");
    world.settle();
    assert_eq!(world.shown("net"), "worker=10.0.0.0/28, worker.example.com=10.0.0.16/28");
    world.ask("worker.example.com", "10.0.0.16/28", "more");
    assert_eq!(world.shown("net"), "worker=10.0.0.0/28, worker.example.com=10.0.0.16/28 10.0.0.32/28");
}

/// What a node had written stayed for ever when the node was gone, and whoever came later found it in use.
#[test]
fn what_a_gone_node_wrote_goes_with_what_it_had() {
    let mut world = World::new();
    world.network("net", "10.0.0.0/24", "/28");
    world.node("a");
    world.node("b");
    world.settle();
    world.ip_pool("net-a-10.0.0.0-28", "10.0.0.0/28", None, true);
    world.ip_pool("net-b-10.0.0.16-28", "10.0.0.16/28", None, true);
    world.remove(Kind::Node, "a");
    world.settle();
    world.pass(QUARANTINE - 10);
    assert_eq!(world.names(Kind::IpPool).len(), 2, "it may come back");
    world.pass(10);
    assert_eq!(world.names(Kind::IpPool), ["net-b-10.0.0.16-28"]);
}

/// What nodes that are gone had written stayed for ever if nobody was there when it could go.
#[test]
fn what_a_node_left_behind_goes_also_if_its_slices_were_taken_back_by_somebody_who_ended_then() {
    let mut world = World::new();
    world.network("net", "10.0.0.0/24", "/28");
    world.node("a");
    world.node("b");
    world.settle();
    let label = |node: &str| json!({"ipam.cadastre.dev/node": node});
    for (pool, node, range) in [
        ("net-a-10.0.0.0-28", "a", "10.0.0.0/28"),
        ("net-b-10.0.0.16-28", "b", "10.0.0.16/28"),
        ("net-c-10.0.0.32-28", "c", "10.0.0.32/28"),
        ("net-d-10.0.0.48-28", "d", "10.0.0.48/28"),
    ] {
        let pool_object = json!({"metadata": {"labels": label(node)}, "spec": {"range": range, "allocations": {}}});
        world.put(Kind::IpPool, pool, pool_object);
    }
    // Of b the slices rest; c has none any more, and nobody knows of d but its pool. That is all that tells that d uses it, if it does.
    world.running.insert("d".to_owned());
    world.pass(QUARANTINE / 2);
    world.remove(Kind::Node, "b");
    world.settle();
    world.restart();
    world.settle();
    world.pass(QUARANTINE - 1);
    assert_eq!(world.names(Kind::IpPool).len(), 4, "what runs there may not be known yet");
    world.pass(1);
    assert_eq!(world.names(Kind::IpPool), ["net-a-10.0.0.0-28", "net-d-10.0.0.48-28"]);
    world.running.clear();
    world.pass(QUARANTINE);
    assert_eq!(world.names(Kind::IpPool), ["net-a-10.0.0.0-28"]);
}

/// The slices of networks without a `network_name` have the same names, and so have their addresses: two of them on one range shared
/// what they knew nothing of.
#[test]
fn networks_without_a_name_that_share_a_range_share_no_slice_of_it() {
    let mut world = World::new();
    let plain = |name: &str, range: &str| {
        let mut conf = conf("", &json!({"range": range, "node_slice_size": "/28"}));
        conf["ipam"].as_object_mut().unwrap().remove("network_name");
        conf["name"] = json!(name);
        conf
    };
    world.define("kube-system/one", &plain("one", "10.0.0.0/26"));
    world.network("named", "10.0.0.0/26", "/28");
    world.node("a");
    world.settle();
    // What of the first is in use is not taken for the second's.
    world.ip_pool("a-10.0.0.0-28", "10.0.0.0/28", None, true);
    world.define("kube-system/two", &plain("two", "10.0.0.0/26"));
    world.settle();
    let shown = |world: &World| ["one", "two", "named"].map(|network| world.shown(network));
    assert_eq!(shown(&world), ["a=10.0.0.0/28", "a=10.0.0.16/28", "a=10.0.0.0/28"]);
    world.node("b");
    world.node("c");
    world.settle();
    assert_eq!(shown(&world)[0], "a=10.0.0.0/28, b=10.0.0.32/28, c=10.0.0.48/28");
    assert_eq!(shown(&world)[1], "a=10.0.0.16/28");
    assert_eq!(world.told(), ["kube-system/two: SlicesExhausted: no free /28 is left in 10.0.0.0/26 for b, c"]);
    // What the one gives back is the other's, by itself.
    world.define("kube-system/one", &plain("one", "10.9.0.0/26"));
    world.remove(Kind::Node, "c");
    world.settle();
    world.pass(QUARANTINE);
    assert_eq!(shown(&world)[1], "a=10.0.0.16/28, b=10.0.0.48/28");
    // Somebody else has given both the same.
    world.told();
    let mut pool = world.get(Kind::Pool, "two").unwrap().clone();
    pool["status"]["allocations"][1]["sliceRange"] = json!("10.0.0.32/28");
    world.put(Kind::Pool, "two", pool);
    world.settle();
    assert_eq!(shown(&world)[1], "a=10.0.0.16/28, b=10.0.0.48/28 (10.0.0.32/28)");
    assert_eq!(
        world.told(),
        ["kube-system/two: SliceConflict: 10.0.0.32/28 of node b overlaps 10.0.0.32/28 of another network"]
    );
}

/// Whoever switched slices on while pods had addresses of the whole range gave these a second time.
#[test]
fn no_node_gets_a_slice_of_which_pods_have_addresses_from_the_pool_of_the_range() {
    let mut world = World::new();
    // Three pods, two of them in one slice of four.
    let pool = |offsets: &[u32]| {
        let entry = json!({"id": "i", "podref": "p"});
        let all: serde_json::Map<_, _> = offsets.iter().map(|offset| (offset.to_string(), entry.clone())).collect();
        json!({"metadata": {}, "spec": {"range": "10.0.0.0/26", "allocations": all}})
    };
    world.put(Kind::IpPool, "net-10.0.0.0-26", pool(&[1, 2, 33]));
    world.network("net", "10.0.0.0/26", "/28");
    for node in ["a", "b", "c"] {
        world.node(node);
    }
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.16/28, b=10.0.0.48/28");
    assert_eq!(world.told(), ["kube-system/net: SlicesExhausted: no free /28 is left in 10.0.0.0/26 for c"]);
    world.restart();
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.16/28, b=10.0.0.48/28");
    world.told();
    // When they are gone, what they had is for nodes.
    world.put(Kind::IpPool, "net-10.0.0.0-26", pool(&[1]));
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.16/28, b=10.0.0.48/28, c=10.0.0.32/28");
    // Somebody goes on as if nothing had been cut.
    world.put(Kind::IpPool, "net-10.0.0.0-26", pool(&[1, 49]));
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.16/28, b=(10.0.0.48/28), c=10.0.0.32/28");
    assert_eq!(
        world.told(),
        [
            "kube-system/net: SlicesExhausted: no free /28 is left in 10.0.0.0/26 for b",
            "kube-system/net: SliceConflict: 10.0.0.48/28 of node b has 10.0.0.49/32, which the IPPool of the whole range has too",
        ]
    );
    world.remove(Kind::IpPool, "net-10.0.0.0-26");
    world.settle();
    assert_eq!(world.shown("net"), "a=10.0.0.16/28, b=10.0.0.48/28, c=10.0.0.32/28");
}

/// Events end, and who looks later should see what is still so.
#[test]
fn what_goes_on_is_told_again_after_a_while_and_what_does_not_is_not() {
    let mut world = World::new();
    world.network("net", "10.0.0.0/31", "/32");
    world.network("odd", "10.0.0.0/24", "/99");
    for node in ["a", "b", "c"] {
        world.node(node);
    }
    world.settle();
    let mut first = world.told();
    assert_eq!(first.len(), 2, "{first:?}");
    first.sort();
    for _ in 0..2 {
        world.pass(300);
    }
    assert_eq!(world.told(), [""; 0], "not yet");
    for _ in 0..2 {
        world.pass(300);
    }
    let mut again = world.told();
    again.sort();
    assert_eq!(again, first);
    world.remove(Kind::Node, "c");
    world.pass(QUARANTINE);
    world.network("odd", "10.0.0.0/24", "/28");
    world.settle();
    for _ in 0..4 {
        world.pass(300);
    }
    assert_eq!(world.told(), [""; 0]);
}
