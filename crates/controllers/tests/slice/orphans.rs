//! Entries of pods that are gone, in pools that all nodes share: they go when their pods were missing twice, and nothing else does.

use controllers::slice::intent::Intent;
use controllers::slice::node::node_label;
use controllers::slice::orphans::{Found, Orphan, OrphanEntry, Reservation};
use controllers::slice::plan::Settings;
use controllers::slice::shared::SharedPool;
use jiff::Timestamp;
use serde_json::{Value, json};
use space::Moment;

use crate::world::{Fate, Kind, QUARANTINE, World};

const POOL: &str = "10.0.0.0-16";
/// How long it takes until all pools are looked at again, in seconds.
const SURVEY: i64 = 300;
/// How long a pod must be missing.
const MISSING: i64 = QUARANTINE;

/// An `IPPool` with these entries: offset, container and pod.
fn pool(range: &str, entries: &[(u32, &str, &str)]) -> Value {
    let entry = |&(offset, id, pod): &(u32, &str, &str)| {
        (offset.to_string(), json!({"id": id, "podref": pod, "ifname": "net1"}))
    };
    let all: serde_json::Map<_, _> = entries.iter().map(entry).collect();
    json!({"metadata": {}, "spec": {"range": range, "allocations": all}})
}

/// One in which a pod that is gone has the first address, and one that is there the second; and it was seen.
fn seen() -> World {
    seen_with(QUARANTINE)
}

fn seen_with(quarantine: i64) -> World {
    let mut world = World::with(Settings { quarantine, ..Settings::default() }, 1);
    world.node("n");
    world.settle();
    world.put(Kind::IpPool, POOL, pool("10.0.0.0/16", &[(1, "c1", "dev/gone"), (2, "c2", "dev/p")]));
    world.pass(SURVEY);
    world
}

/// The entries that a pool has.
fn held(world: &World, pool: &str) -> Vec<String> {
    let all = world.get(Kind::IpPool, pool).unwrap()["spec"]["allocations"].as_object().unwrap();
    all.iter().map(|(at, entry)| format!("{at} {}", entry["id"].as_str().unwrap())).collect()
}

#[test]
fn an_entry_goes_when_its_pod_was_missing_twice_and_not_before() {
    let mut world = seen();
    world.pass(MISSING - 1);
    assert_eq!(held(&world, POOL), ["1 c1", "2 c2"]);
    world.pass(2);
    assert_eq!(held(&world, POOL), ["2 c2"]);
}

#[test]
fn a_pod_that_comes_between_the_looks_keeps_its_entry() {
    let mut world = seen();
    world.pods.insert("dev/gone".to_owned());
    world.pass(2 * SURVEY);
    assert_eq!(held(&world, POOL), ["1 c1", "2 c2"]);
}

/// It was there when all pods were listed, so it has been missing for less.
#[test]
fn a_pod_that_goes_between_the_looks_keeps_its_entry_until_it_was_missing_twice() {
    let mut world = seen();
    world.pods.clear();
    world.pass(MISSING + 1);
    assert_eq!(held(&world, POOL), ["2 c2"]);
    world.pass(SURVEY - MISSING);
    assert_eq!(held(&world, POOL), ["2 c2"]);
    world.pass(MISSING + 1);
    assert_eq!(held(&world, POOL), [""; 0]);
}

/// Another sandbox of a pod of that name has taken it over.
#[test]
fn an_entry_that_changed_between_the_looks_stays() {
    let mut world = seen();
    world.put(Kind::IpPool, POOL, pool("10.0.0.0/16", &[(1, "c9", "dev/gone")]));
    world.pass(MISSING + 1);
    assert_eq!(held(&world, POOL), ["1 c9"]);
    world.pass(SURVEY - MISSING);
    assert_eq!(held(&world, POOL), ["1 c9"], "it is seen for the first time");
    world.pass(MISSING + 1);
    assert_eq!(held(&world, POOL), [""; 0]);
}

/// Says in the name of a node which containers run there.
fn say(world: &mut World, label: &str, containers: &str) {
    let mut pool = world.get(Kind::IpPool, POOL).unwrap().clone();
    pool["metadata"]["annotations"] = json!({format!("held-on.ipam.cadastre.dev/{label}"): containers});
    world.put(Kind::IpPool, POOL, pool);
}

#[test]
fn who_begins_begins_to_count() {
    let mut world = seen();
    world.pass(MISSING - 1);
    world.restart();
    world.settle();
    world.pass(MISSING - 1);
    assert_eq!(held(&world, POOL), ["1 c1", "2 c2"]);
    world.pass(2);
    assert_eq!(held(&world, POOL), ["2 c2"]);
}

#[test]
fn a_pod_must_be_missing_for_longer_than_an_agent_needs() {
    let mut world = seen_with(0);
    world.pass(59);
    assert_eq!(held(&world, POOL), ["1 c1", "2 c2"]);
    world.pass(2);
    assert_eq!(held(&world, POOL), ["2 c2"]);
}

#[test]
fn what_a_node_says_that_runs_there_keeps_its_entry_and_nothing_else_does() {
    for (label, containers, is_kept) in
        [("n", "c1", true), ("n", "c0,c1,c3", true), ("n", "", false), ("n", "c11,c", false), ("other", "c1", false)]
    {
        let mut world = seen();
        say(&mut world, label, containers);
        for _ in 0..4 {
            world.pass(SURVEY);
        }
        let expected: &[&str] = if is_kept { &["1 c1", "2 c2"] } else { &["2 c2"] };
        assert_eq!(held(&world, POOL), expected, "{label} {containers}");
    }
}

/// What nodes say.
fn said(world: &World) -> Vec<Value> {
    let annotations = world.get(Kind::IpPool, POOL).unwrap()["metadata"]["annotations"].as_object().cloned();
    annotations.unwrap_or_default().into_iter().map(|(_, containers)| containers).collect()
}

/// Nodes and containers come and go for years, and an object has room for so much.
#[test]
fn what_nodes_said_goes_when_it_says_nothing_any_more() {
    let mut world = seen();
    say(&mut world, "n", "c0,c1");
    world.pass(SURVEY);
    assert_eq!(said(&world), ["c0,c1"], "one of them has an entry");
    world.put(Kind::IpPool, POOL, pool("10.0.0.0/16", &[(2, "c2", "dev/p")]));
    say(&mut world, "n", "c0,c1");
    reserve(&mut world, "10.0.0.1", "dev/gone", "c1");
    world.pass(SURVEY);
    assert_eq!(said(&world), ["c0,c1"], "one of them has a reservation");
    world.reservations.clear();
    world.pass(SURVEY);
    assert_eq!(said(&world), [""; 0]);
    world.node("m");
    say(&mut world, "m", "c2");
    world.pass(SURVEY);
    assert_eq!(said(&world), ["c2"]);
    world.pass(SURVEY - 1);
    world.remove(Kind::Node, "m");
    world.pass(2);
    assert_eq!(said(&world), ["c2"], "it may run on where the node was");
    for _ in 0..2 {
        world.pass(SURVEY);
    }
    assert_eq!(said(&world), [""; 0], "there is no such node any more");
}

/// Who begins while a node is away does not know since when.
#[test]
fn what_a_node_said_that_comes_back_soon_still_counts() {
    let mut world = seen();
    say(&mut world, "n", "c1");
    world.remove(Kind::Node, "n");
    world.restart();
    world.settle();
    world.pass(SURVEY - 1);
    world.node("n");
    for _ in 0..3 {
        world.pass(SURVEY);
    }
    assert_eq!(held(&world, POOL), ["1 c1", "2 c2"]);
}

/// The name of a node that has no room in a label is known by what stands for it there.
#[test]
fn what_a_node_of_a_long_name_says_counts() {
    let mut world = seen();
    let name = "n".repeat(100);
    world.node(&name);
    say(&mut world, &node_label(&name), "c1");
    world.pass(2 * SURVEY);
    assert_eq!(held(&world, POOL), ["1 c1", "2 c2"]);
}

/// Its pods may run on, whoever deleted it; but not for ever.
#[test]
fn what_a_node_said_that_went_counts_as_long_as_its_slices_rest() {
    let mut world = seen();
    say(&mut world, "n", "c1");
    world.pass(MISSING - 1);
    world.remove(Kind::Node, "n");
    world.pass(2);
    assert_eq!(held(&world, POOL), ["1 c1", "2 c2"]);
    for _ in 0..4 {
        world.pass(SURVEY);
    }
    assert_eq!(held(&world, POOL), ["2 c2"]);
}

#[test]
fn what_a_node_said_that_went_twice_counts_from_the_second_time() {
    let mut world = seen();
    say(&mut world, "n", "c1");
    world.remove(Kind::Node, "n");
    world.pass(SURVEY);
    world.node("n");
    world.pass(SURVEY - 1);
    world.remove(Kind::Node, "n");
    world.pass(2);
    assert_eq!((held(&world, POOL).len(), said(&world)), (2, vec![json!("c1")]));
}

/// What is looked at is as it is now, and the nodes are as they were heard of: the word of one that nobody has heard of may be true.
#[test]
fn what_is_said_by_who_is_no_node_yet_counts_until_it_was_none_for_long() {
    let mut world = seen_with(0);
    say(&mut world, "new", "c1");
    world.pass(61);
    assert_eq!(held(&world, POOL), ["1 c1", "2 c2"]);
    for _ in 0..3 {
        world.pass(SURVEY);
    }
    assert_eq!(held(&world, POOL), ["2 c2"]);
}

/// whereabouts puts no label on the pools of its slices, which are called like that of a range of a network named after the node.
#[test]
fn pools_of_nodes_are_not_touched() {
    let gone: &[(u32, &str, &str)] = &[(1, "c1", "dev/gone")];
    let slices = ["net-n-10.0.0.0-28", "n-10.1.0.0-28"];
    let mut world = World::new();
    world.node("n");
    world.network("net", "10.0.0.0/24", "/28");
    let plain = json!({"type": "whereabouts", "range": "10.1.0.0/24", "node_slice_size": "/28"});
    let plain = json!({"cniVersion": "1.0.0", "name": "plain", "type": "macvlan", "ipam": plain});
    world.define("dev/plain", &plain);
    world.settle();
    assert_eq!((world.shown("net").as_str(), world.shown("plain").as_str()), ("n=10.0.0.0/28", "n=10.1.0.0/28"));
    world.put(Kind::IpPool, slices[0], pool("10.0.0.0/28", gone));
    world.put(Kind::IpPool, slices[1], pool("10.1.0.0/28", gone));
    let mut labelled = pool("10.2.0.0/28", gone);
    labelled["metadata"]["labels"] = json!({"ipam.cadastre.dev/node": "n"});
    world.put(Kind::IpPool, "10.2.0.0-28", labelled);
    world.put(Kind::IpPool, POOL, pool("10.0.0.0/16", gone));
    world.pass(SURVEY);
    world.pass(MISSING + 1);
    for untouched in [slices[0], slices[1], "10.2.0.0-28"] {
        assert_eq!(held(&world, untouched), ["1 c1"], "{untouched}");
    }
    assert_eq!(held(&world, POOL), [""; 0]);
}

/// Networks of a name each may have the same range, and then the same slice of it.
#[test]
fn a_reservation_beside_an_entry_of_a_slice_stays_whatever_other_networks_have_there() {
    let mut world = World::new();
    world.node("n");
    for (name, container) in [("net", "c1"), ("other", "c2")] {
        world.network(name, "10.0.0.0/24", "/28");
        world.put(Kind::IpPool, &format!("{name}-n-10.0.0.0-28"), pool("10.0.0.0/28", &[(1, container, "dev/gone")]));
        reserve(&mut world, &format!("{name}-10.0.0.1"), "dev/gone", container);
    }
    world.settle();
    for _ in 0..3 {
        world.pass(SURVEY);
    }
    assert_eq!(reserved(&world), ["net-10.0.0.1", "other-10.0.0.1"]);
}

/// The entries of whereabouts' pools of slices are all that tells whose they are then. What cannot be of that network is looked at all the
/// same: it may be long until the pool is there again.
#[test]
fn while_what_a_node_slice_pool_said_is_lost_nothing_of_its_network_is_touched() {
    let mut world = World::with(Settings { quarantine: 1, ..Settings::default() }, 1);
    world.node("n");
    world.network("net", "10.0.0.0/24", "/28");
    world.settle();
    let gone: &[(u32, &str, &str)] = &[(1, "c1", "dev/gone")];
    let its =
        [("net-n-10.0.0.0-28", "10.0.0.0/28"), ("net-n-10.9.0.0-28", "10.9.0.0/28"), ("n-10.0.0.0-28", "10.0.0.0/28")];
    for (name, range) in its {
        world.put(Kind::IpPool, name, pool(range, gone));
    }
    world.put(Kind::IpPool, "10.7.0.0-16", pool("10.7.0.0/16", gone));
    for name in ["net-10.0.0.1", "10.0.0.1", "10.7.0.1"] {
        reserve(&mut world, name, "dev/gone", "");
    }
    world.fates.extend([Fate::Lost; 100]);
    world.remove(Kind::Pool, "net");
    world.restart();
    world.settle();
    world.pass(MISSING + 1);
    assert!(!world.fates.is_empty(), "it was written again");
    for (name, _) in its {
        assert_eq!(held(&world, name), ["1 c1"], "{name}");
    }
    assert_eq!(held(&world, "10.7.0.0-16"), [""; 0]);
    assert_eq!(reserved(&world), ["10.0.0.1", "net-10.0.0.1"]);
}

/// A slice with such an address was given to nobody.
#[test]
fn what_is_taken_out_of_the_pool_of_a_range_that_is_cut_now_is_free_for_slices() {
    let mut world = seen();
    world.pods.clear();
    let conf = json!({"type": "whereabouts", "range": "10.0.0.0/28", "node_slice_size": "/28"});
    world.define("dev/a", &json!({"cniVersion": "1.0.0", "name": "a", "type": "macvlan", "ipam": conf}));
    world.settle();
    assert_eq!(world.shown("a"), "");
    for _ in 0..3 {
        world.pass(SURVEY);
    }
    assert_eq!(world.shown("a"), "n=10.0.0.0/28");
}

/// A reservation that no node has.
fn reserve(world: &mut World, name: &str, podref: &str, id: &str) {
    let [name, podref, id] = [name, podref, id].map(str::to_owned);
    let one = Reservation { uid: format!("uid-of-{name}"), podref, id, name: name.clone() };
    world.reservations.insert(name, one);
}

fn reserved(world: &World) -> Vec<&str> {
    world.reservations.keys().map(String::as_str).collect()
}

/// What whereabouts leaves behind that is killed between its two writes.
#[test]
fn a_reservation_alone_goes_when_its_pod_was_missing_twice_and_not_before() {
    let mut world = World::new();
    world.node("n");
    world.settle();
    world.put(Kind::IpPool, POOL, pool("10.0.0.0/16", &[(1, "c1", "dev/gone"), (2, "c2", "dev/p")]));
    for (name, podref, id) in [
        ("10.0.0.1", "dev/gone", ""),
        ("10.0.0.2", "dev/p", ""),
        ("10.0.0.3", "dev/gone", "c3"),
        ("10.0.0.4", "dev/p", "c4"),
        ("elsewhere-fd00--1", "dev/gone", ""),
        ("odd", "not a pod", ""),
    ] {
        reserve(&mut world, name, podref, id);
    }
    world.pass(SURVEY);
    world.pass(MISSING - 1);
    assert_eq!(world.reservations.len(), 6);
    world.pass(2);
    assert_eq!(reserved(&world), ["10.0.0.2", "10.0.0.4", "odd"]);
}

#[test]
fn a_reservation_alone_stays_whose_container_runs_or_whose_pod_came() {
    let mut world = seen();
    reserve(&mut world, "10.0.0.3", "dev/lives", "c3");
    reserve(&mut world, "10.0.0.4", "dev/comes", "c4");
    reserve(&mut world, "other-10.0.0.5", "dev/lives", "c3");
    say(&mut world, "n", "c3");
    world.pass(SURVEY);
    world.pods.insert("dev/comes".to_owned());
    for _ in 0..3 {
        world.pass(SURVEY);
    }
    assert_eq!(reserved(&world), ["10.0.0.3", "10.0.0.4"], "what is said in a pool is of its network");
}

/// Somebody wrote it, for a pod to come. What a pool has of the same address whose range overlaps does not matter.
#[test]
fn an_entry_without_a_container_stays_and_keeps_the_reservation_of_its_pod() {
    let mut world = World::new();
    world.node("n");
    world.settle();
    let by_hand: &[_] = &[(1, "", "dev/comes"), (2, "", "dev/comes"), (3, "", "dev/comes")];
    world.put(Kind::IpPool, POOL, pool("10.0.0.0/16", by_hand));
    world.put(Kind::IpPool, "10.0.0.0-8", pool("10.0.0.0/8", &[(1, "c1", "dev/p")]));
    for (name, podref, id) in
        [("10.0.0.1", "dev/comes", ""), ("10.0.0.2", "dev/comes", "c2"), ("10.0.0.3", "dev/gone", "")]
    {
        reserve(&mut world, name, podref, id);
    }
    for _ in 0..3 {
        world.pass(SURVEY);
    }
    assert_eq!(held(&world, POOL), ["1 ", "2 ", "3 "]);
    assert_eq!(reserved(&world), ["10.0.0.1", "10.0.0.2"]);
}

/// It may be the same name, and is another one.
#[test]
fn a_reservation_that_was_made_anew_begins_anew() {
    let mut world = seen();
    reserve(&mut world, "10.0.0.3", "dev/lives", "c3");
    world.pass(SURVEY);
    world.reservations.get_mut("10.0.0.3").unwrap().uid = "another".to_owned();
    world.pass(MISSING - 1);
    assert_eq!(reserved(&world), ["10.0.0.3"]);
    world.pass(SURVEY);
    world.pass(MISSING + 1);
    assert_eq!(reserved(&world), [""; 0]);
}

/// What the controller wants to do now, of what is about entries.
fn wants(world: &mut World) -> Vec<Intent> {
    let (now, time): (_, Timestamp) = (Moment(world.now), world.time());
    let plan = &mut world.leaders[0].plan;
    std::iter::from_fn(|| plan.next(now, time)).collect()
}

#[test]
fn nothing_goes_whose_pod_could_not_be_looked_for() {
    let mut world = seen_with(0);
    world.now += 61_000;
    let all = wants(&mut world);
    let [Intent::FindPod(orphan @ Orphan::Entry(_))] = &all[..] else { panic!("{all:?}") };
    world.leaders[0].plan.pod_found(orphan.clone(), None);
    assert_eq!(wants(&mut world), []);
    world.now += 300_000;
    assert_eq!(wants(&mut world), [Intent::Survey]);
    let allocations = json!({"1": {"id": "c1", "podref": "dev/gone"}});
    let pools = SharedPool::read(POOL, "10.0.0.0/16", allocations.as_object().unwrap());
    world.leaders[0].plan.surveyed(Some(&[pools.unwrap()]));
    assert!(matches!(&wants(&mut world)[..], [Intent::FindPods(pods)] if pods.contains("dev/gone")));
    world.leaders[0].plan.pods_found(None);
    world.now += 61_000;
    assert_eq!(wants(&mut world), []);
}

/// Slices are more urgent.
#[test]
fn few_entries_at_a_time_are_looked_for_and_in_the_end_all() {
    let names: Vec<String> = (1..=100).map(|at| format!("dev/gone-{at}")).collect();
    let entries: Vec<_> = (1..).zip(&names).map(|(at, name)| (at, "c", name.as_str())).collect();
    let mut world = World::with(Settings { quarantine: 0, ..Settings::default() }, 1);
    world.node("n");
    world.settle();
    world.put(Kind::IpPool, POOL, pool("10.0.0.0/16", &entries));
    world.pass(SURVEY);
    world.now += 61_000;
    let first = wants(&mut world);
    assert_eq!(first.len(), 16);
    assert!(first.iter().all(|one| matches!(one, Intent::FindPod(_))), "{first:?}");
    assert!(rests(&world), "it does not wake until one came to its end");
    for intent in first {
        if let Intent::FindPod(orphan) = intent {
            world.leaders[0].plan.pod_found(orphan, Some(&Found { pod: true, ..Found::default() }));
        }
    }
    world.settle();
    assert_eq!(held(&world, POOL).len(), 16);
}

/// Has all pods that are looked for be missing; the writes that then begin, none of which ends.
fn found_missing(world: &mut World) -> Vec<Vec<OrphanEntry>> {
    let (mut writes, mut todo) = (Vec::new(), wants(world));
    while let Some(intent) = todo.pop() {
        match intent {
            Intent::FindPod(orphan) => world.leaders[0].plan.pod_found(orphan, Some(&Found::default())),
            Intent::TakeOut(entries) => writes.push(entries),
            other => panic!("{other:?}"),
        }
        todo.extend(wants(world));
    }
    writes
}

/// The pools in which what nodes say is to be taken out, and nothing else is to be done.
fn hushes(world: &mut World) -> Vec<String> {
    let pool = |intent| match intent {
        Intent::Hush(one) => one.pool,
        other => panic!("{other:?}"),
    };
    wants(world).into_iter().map(pool).collect()
}

/// Each write of a pool is all of it.
#[test]
fn entries_that_are_found_while_their_pool_is_written_go_together() {
    let names: Vec<String> = (1..=100).map(|at| format!("dev/gone-{at}")).collect();
    let entries: Vec<_> = (1..).zip(&names).map(|(at, name)| (at, "c", name.as_str())).collect();
    let mut world = World::with(Settings { quarantine: 0, ..Settings::default() }, 1);
    world.node("n");
    world.settle();
    world.put(Kind::IpPool, POOL, pool("10.0.0.0/16", &entries));
    world.pass(SURVEY);
    world.now += 61_000;
    let writes = found_missing(&mut world);
    assert_eq!(writes.len(), 1, "one write of one pool at a time");
    world.leaders[0].plan.taken_out(&writes[0]);
    let next = wants(&mut world);
    assert!(matches!(&next[..], [Intent::TakeOut(entries)] if entries.len() == 64), "{next:?}");
}

/// Whether the controller sleeps until something happens, or time has passed.
fn rests(world: &World) -> bool {
    world.plan().due_at().is_none_or(|due| due.0 > world.now)
}

/// Slices are more urgent.
#[test]
fn few_pools_are_written_at_a_time_and_in_the_end_all() {
    let mut world = World::with(Settings { quarantine: 0, ..Settings::default() }, 1);
    world.node("n");
    world.settle();
    let names: Vec<String> = (1..=20).map(|at| format!("10.{at}.0.0-16")).collect();
    for (at, name) in (1..).zip(&names) {
        let mut one = pool(&format!("10.{at}.0.0/16"), &[(1, "c1", "dev/gone")]);
        one["metadata"]["annotations"] = json!({"held-on.ipam.cadastre.dev/n": "ended"});
        world.put(Kind::IpPool, name, one);
    }
    world.now += 300_000;
    assert_eq!(world.act(0, 2), 2, "a survey, and a list of the pods");
    let hushes = hushes(&mut world);
    assert_eq!(hushes.len(), 8);
    assert!(rests(&world));
    for pool in hushes {
        world.leaders[0].plan.hushed(&pool);
    }
    assert_eq!(world.act(0, 100), 12);
    world.now += 61_000;
    let writes = found_missing(&mut world);
    assert_eq!(writes.len(), 8);
    assert!(rests(&world));
    for entries in writes {
        world.leaders[0].plan.taken_out(&entries);
    }
    world.settle();
    assert_eq!(names.iter().filter(|name| held(&world, name).is_empty()).count(), 12);
}

/// Its agent may have said it again by then.
#[test]
fn what_a_node_said_that_comes_while_it_waits_to_be_taken_out_stays() {
    let mut world = World::with(Settings { quarantine: 0, ..Settings::default() }, 1);
    world.settle();
    for at in 1..=9 {
        let mut one = pool(&format!("10.{at}.0.0/16"), &[(1, "c2", "dev/p")]);
        one["metadata"]["annotations"] = json!({"held-on.ipam.cadastre.dev/n": "c2"});
        world.put(Kind::IpPool, &format!("10.{at}.0.0-16"), one);
    }
    world.now += 300_000;
    assert_eq!(world.act(0, 2), 2);
    world.now += 300_000;
    assert_eq!(world.act(0, 2), 2);
    let hushes = hushes(&mut world);
    assert_eq!(hushes.len(), 8);
    world.node("n");
    world.deliver(0, usize::MAX);
    for pool in hushes {
        world.leaders[0].plan.hushed(&pool);
    }
    assert_eq!(wants(&mut world), []);
}
