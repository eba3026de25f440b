//! Pools that cannot be read, and disks and journals that are lost.

use super::*;

#[test]
fn a_pool_whose_range_is_not_the_slice_is_told_and_left_alone_until_it_is_mended() {
    for range in ["10.0.9.0/27", "x"] {
        let mut world = World::new(7);
        world.rest();
        assert!(world.add("a/one"));
        world.read();
        world.rest();
        let (held, pools) = (world.held(), world.pools.clone());
        world.edit_specification(&json!({"range": range}));
        assert_eq!(world.pass(20_000), (0, 0), "{range}: nothing is written, to the server or the disk");
        assert_eq!((world.held(), world.has_told("PoolUnreadable")), (held, 1), "{range}");
        assert_eq!((world.has_told("AddressInUse"), world.has_told("AddressOfTwo")), (0, 0), "{range}");
        // The journal knows all that the pool said before.
        assert!(world.add("a/two"), "{range}");
        world.edit("20", &json!({"id": "c", "podref": "x/late", "ifname": "net1"}));
        world.read();
        world.rest();
        world.edit_specification(&json!({"range": pools[POOL]["spec"]["range"]}));
        world.rest();
        assert_eq!((world.held().len(), world.shown()), (3, world.held()), "{range}");
    }
}

#[test]
fn a_slice_whose_pool_cannot_be_read_is_not_granted_before_it_is_mended() {
    let entry = json!({"id": "c", "podref": "x/early", "ifname": "net1"});
    let unreadable = [("10.0.9.0/27", "3"), ("x", "3"), ("10.0.0.0/27", "x"), ("10.0.0.0/27", "99")];
    for ((range, offset), is_labelled) in unreadable.into_iter().flat_map(|what| [(what, true), (what, false)]) {
        let mut world = World::new(7);
        world.found(is_labelled, &json!({"range": range, "allocations": {offset: entry}}));
        let (asked, worked) = world.pass(60_000);
        assert!(!world.place().grants().exists(), "{range} {offset}");
        assert_eq!(world.has_told("PoolUnreadable"), 1, "{range} {offset}");
        // One that nobody shows us is looked at again and again.
        let most = if is_labelled { 1 } else { 15 };
        assert!(asked <= most && worked <= 1, "{range} {offset}: {asked} {worked}");
        world.edit_specification(&json!({"range": "10.0.0.0/27", "allocations": {offset: null, "3": entry}}));
        world.rest();
        assert!(world.place().grants().exists(), "{range} {offset}");
        assert_eq!(world.held().keys().copied().collect::<Vec<_>>(), [ip(3)], "{range} {offset}");
    }
}

#[test]
fn a_lost_journal_is_not_written_anew_while_a_pool_cannot_be_read() {
    let mut world = World::new(7);
    world.rest();
    assert!(world.add("a/one"));
    world.read();
    world.rest();
    let range = world.pools[POOL]["spec"]["range"].clone();
    world.edit_specification(&json!({"range": "x"}));
    world.rest();
    std::fs::remove_file(world.place().journal()).unwrap();
    world.read();
    assert_eq!(world.pass(20_000), (0, 0));
    assert!(!world.place().journal().exists());
    assert_eq!((world.has_told("JournalLost"), world.has_told("PoolUnreadable")), (1, 1));
    world.edit_specification(&json!({"range": range}));
    world.rest();
    assert_eq!(world.held().keys().copied().collect::<Vec<_>>(), [ip(1)]);
}

/// The journal may be read before, and the grants after they name the new one.
#[test]
fn what_is_read_while_the_journal_is_written_anew_is_no_further_loss() {
    let mut world = World::new(7);
    world.rest();
    assert!(world.add("a/one"));
    world.read();
    world.rest();
    std::fs::remove_file(world.place().journal()).unwrap();
    world.read();
    let intents = world.plan.step(world.now, |_| Liveness::Alive);
    let (mut mending, mut told) = (Vec::new(), 0);
    for intent in intents {
        match intent {
            Intent::Work(_, local @ Local::Mend(_)) => mending.push(local),
            Intent::Tell(Cause { reason: "JournalLost", .. }) => told += 1,
            other => world.serve(other),
        }
    }
    assert_eq!((mending.len(), told), (1, 1));
    disk::work(&world.place(), &mending[0], cni::journal::BootId([1; 16])).unwrap();
    let aside = world.place().journal().with_extension("aside");
    std::fs::rename(world.place().journal(), &aside).unwrap();
    world.read();
    world.act(Liveness::Alive);
    assert_eq!(world.has_told("JournalLost"), 0, "once more");
    std::fs::rename(&aside, world.place().journal()).unwrap();
    world.read();
    world.plan.worked("net", true, world.now);
    world.rest();
    assert_eq!((world.has_told("JournalLost"), world.held().len()), (0, 1));
    // What is lost again is told again.
    std::fs::remove_file(world.place().journal()).unwrap();
    world.read();
    world.rest();
    assert_eq!(world.has_told("JournalLost"), 1);
}

#[test]
fn what_changes_nothing_is_not_done_all_the_time() {
    let mut world = World::new(7);
    world.rest();
    assert!(world.add("a/one"));
    world.read();
    world.is_pruning = true;
    world.edit("20", &json!({"id": "c", "podref": "x/late"}));
    world.pass(1_000);
    // What the server made of what was written is seen with the next change of somebody else.
    world.edit_specification(&json!({"note": "a change"}));
    let (asked, _) = world.pass(60_000);
    assert!((2..40).contains(&asked), "asked {asked} times in a minute");
    world.is_pruning = false;
    world.pass(2 * LONGEST_PAUSE);
    assert_eq!(world.shown(), world.held());
    world.is_idle = true;
    world.edit("21", &json!({"id": "c", "podref": "x/later"}));
    let (_, worked) = world.pass(60_000);
    assert!((2..20).contains(&worked), "worked {worked} times in a minute");
    world.is_idle = false;
    world.pass(2 * LONGEST_PAUSE);
    assert_eq!((world.shown().len(), world.shown()), (3, world.held()));
}

/// A pod that says that it has this address.
fn having(last: u8) -> Pod {
    Pod { uid: "u".into(), ips: vec![(ip(last), "net1".to_owned())], ..Pod::default() }
}

#[test]
fn a_node_that_lost_its_disk_gives_nothing_that_its_pods_say_they_have() {
    let mut world = World::new(7);
    world.found(
        true,
        &json!({"range": "10.0.0.0/27", "allocations": {"3": {"id": "c", "podref": "a/three", "ifname": "net1"}}}),
    );
    world.says("a/one", having(1));
    world.says("a/three", having(3));
    world.says("a/ended", Pod { is_ended: true, ..having(2) });
    world.says("a/elsewhere", having(200));
    world.restart();
    world.rest();
    let expected = [(ip(1), "a/one"), (ip(3), "a/three")];
    let held = world.held();
    assert_eq!(held.iter().map(|(ip, one)| (*ip, one.podref.as_str())).collect::<Vec<_>>(), expected);
    assert!(world.place().grants().exists());
    assert!(world.add("a/new"));
    world.read();
    world.rest();
    assert_eq!((world.held()[&ip(2)].podref.as_str(), world.shown()), ("a/new", world.held()));
    // From then on the journal knows better: what a pod said before it got another address is nothing to go by.
    world.says("a/stale", having(9));
    world.show_all();
    world.rest();
    assert_eq!(world.held().len(), 3);
}

#[test]
fn a_slice_is_not_granted_before_the_pods_are_known() {
    let mut world = World::new(7);
    world.says("a/one", having(1));
    world.plan = Plan::new("n", "kube-system");
    world.plan.see_folders([]);
    world.plan.see_node(Some("u"));
    world.show_meta();
    world.plan.see_all_pools(Vec::new());
    world.rest();
    assert!(!world.place().grants().exists());
    world.plan.see_all_pods(world.pods.clone());
    world.rest();
    assert!(world.place().grants().exists());
    assert_eq!(world.held().keys().copied().collect::<Vec<_>>(), [ip(1)]);
}

#[test]
fn a_journal_that_is_lost_is_written_anew_with_what_the_pods_say() {
    let mut world = World::new(7);
    world.rest();
    assert!(world.add("a/one"));
    world.read();
    world.rest();
    world.is_away = true;
    assert!(world.add("a/two"));
    world.read();
    world.pass(1_000);
    world.says("a/one", having(1));
    world.says("a/two", having(2));
    std::fs::remove_file(world.place().journal()).unwrap();
    world.restart();
    assert_eq!(world.pass(20_000), (0, 0), "nobody knows yet what is in use");
    world.is_away = false;
    world.show_all();
    world.rest();
    let expected = [(ip(1), "a/one"), (ip(2), "a/two")];
    let held = world.held();
    assert_eq!(held.iter().map(|(ip, one)| (*ip, one.podref.as_str())).collect::<Vec<_>>(), expected);
    assert_eq!(world.shown(), held);
}
