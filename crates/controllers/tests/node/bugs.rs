//! What went wrong elsewhere, each as a test that fails when it goes wrong here.

use controllers::node::intent::Intent;
use serde_json::json;
use space::Moment;

use crate::world::{Fate, REST, World, cut, cut_for};

/// Occupancy that follows labels: a node whose labels changed leaked its block, or another node got it after a restart.
#[test]
fn a_node_keeps_its_block_when_its_labels_change() {
    let mut world = World::new();
    world.range("zone", cut_for(8, "10.0.0.0/23", &[("zone", "a")]));
    assert_eq!(world.node("n", &[("zone", "a")]), "10.0.0.0/24");
    world.change_node("n", "/metadata/labels", json!({"zone": "b"}));
    world.restart();
    assert_eq!(world.node("m", &[("zone", "a")]), "10.0.1.0/24", "the block of a node that is there was given away");
    world.delete_node("n");
    world.pass(REST);
    assert_eq!(world.node("k", &[("zone", "a")]), "10.0.0.0/24", "the block leaked");
    world.delete_range("zone");
    world.delete_node("m");
    world.delete_node("k");
    assert!(!world.has_range("zone"), "nobody holds it");
}

/// A dual-stack grant that fails in its second half kept its first: every try leaked an IPv4 block.
#[test]
fn a_node_that_gets_no_ipv6_block_keeps_no_ipv4_block() {
    let mut world = World::new();
    world.range("dual", cut_for(8, "10.0.0.0/16,fd00::/119", &[("stack", "dual")]));
    world.range("single", cut_for(8, "10.0.0.0/16", &[("stack", "single")]));
    assert_eq!(world.node("a", &[("stack", "dual")]), "10.0.0.0/24,fd00::/120");
    assert_eq!(world.node("b", &[("stack", "dual")]), "10.0.1.0/24,fd00::100/120");
    for round in 0..20 {
        world.node("c", &[("stack", "dual"), ("round", &round.to_string())]);
    }
    assert_eq!(world.cidrs("c"), "");
    assert_eq!(world.node("d", &[("stack", "single")]), "10.0.2.0/24", "blocks leaked");
}

/// A range for all nodes was used although it was being deleted.
#[test]
fn a_range_for_all_nodes_that_is_being_deleted_serves_nobody() {
    let mut world = World::new();
    world.range("all", cut(8, "10.0.0.0/16"));
    world.node("n", &[]);
    world.delete_range("all");
    assert_eq!(world.node("m", &[]), "");
    assert!(world.told()[0].ends_with("all: it is being deleted"));
    world.range("next", cut(8, "10.1.0.0/16"));
    assert_eq!(world.cidrs("m"), "10.1.0.0/24");
}

/// After a restart a range that was being deleted went although nodes held it, and one whose spec had changed served nobody.
#[test]
fn a_restart_changes_nothing_about_a_range_that_is_being_deleted_or_was_changed() {
    let mut world = World::new();
    world.range("going", cut(8, "10.0.0.0/16"));
    world.node("n", &[]);
    world.delete_range("going");
    world.restart();
    assert!(world.has_range("going") && world.is_protected("going"));
    world.range("over", cut(8, "10.0.0.0/16"));
    assert_eq!(world.node("m", &[]), "10.0.1.0/24");
    world.delete_node("n");
    world.delete_node("m");
    assert!(!world.has_range("going"));
    world.change_range("over", "priority", json!(1));
    world.restart();
    assert_ne!(world.node("k", &[]), "");
}

/// An IPv6 range and a node with an IPv4 block: the controller crashed, again and again.
#[test]
fn a_range_of_one_family_and_a_node_of_the_other_get_along() {
    let mut world = World::new();
    world.range("six", cut(8, "fd00::/64"));
    world.served("n", &[], &["10.0.0.0/24"]);
    world.services(&["10.96.0.0/12"]);
    assert_eq!(world.node("m", &[]), "fd00::/120");
    world.restart();
    assert_eq!(world.node("k", &[]), "fd00::100/120");
}

/// A write whose answer was lost was taken for one that failed: its block went to another node as well. There is but one block, so
/// whoever frees it gives it to the other.
#[test]
fn a_block_whose_write_was_not_answered_is_nobody_elses() {
    for fate in [Fate::MadeUnheard, Fate::Lost] {
        let mut world = World::new();
        world.range("r", cut(8, "10.0.0.0/24"));
        world.make_node("n", &[], &[]);
        world.fates.push_back(fate);
        world.watching = false;
        world.settle();
        world.watching = true;
        assert_eq!(world.node("m", &[]), "", "{fate:?}");
        world.watch_again();
        world.pass(60_000);
        assert_eq!((&*world.cidrs("n"), &*world.cidrs("m")), ("10.0.0.0/24", ""), "{fate:?}");
        world.delete_node("n");
        assert_eq!(world.cidrs("m"), "10.0.0.0/24", "{fate:?}");
    }
}

/// A block was free as soon as its node was marked for deletion, while pods ran on it.
#[test]
fn a_node_that_is_being_deleted_holds_its_block_until_it_is_gone() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/24"));
    world.node("n", &[]);
    world.change_node("n", "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    assert_eq!(world.node("m", &[]), "");
    world.delete_range("r");
    assert!(world.has_range("r"));
    world.delete_node("n");
    assert!(!world.has_range("r"));
}

/// A node that was deleted and made again between two looks kept its old block occupied for ever.
#[test]
fn a_node_that_was_made_again_unseen_holds_only_its_new_block() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/23"));
    world.node("n", &[]);
    world.node("m", &[]);
    world.watching = false;
    world.delete_node("n");
    world.make_node("n", &[], &["172.16.0.0/24"]);
    world.watch_again();
    assert_eq!(world.node("k", &[]), "10.0.0.0/24");
    // And a write that was meant for the one before does not reach the one after.
    world.delete_node("k");
    world.make_node("k", &[], &[]);
    world.watching = false;
    world.delete_node("k");
    world.make_node("k", &[], &[]);
    world.pass(1_000);
    assert_eq!(world.cidrs("k"), "", "it was written to another node of the same name");
    world.watch_again();
    assert_eq!(world.cidrs("k"), "10.0.0.0/24");
}

/// Ranges with more than 2^16 blocks were taken and never used.
#[test]
fn an_ipv6_range_may_have_any_number_of_blocks() {
    let mut world = World::new();
    for (name, bits, range) in [("a", 8, "fd00:a::/48"), ("b", 64, "fd00:b::/32"), ("c", 4, "fc00::/16")] {
        world.range(name, cut_for(bits, range, &[("range", name)]));
        assert_ne!(world.node(name, &[("range", name)]), "", "{range}");
    }
}

/// Blocks without owners: of two smaller nodes in one block, the first to go freed the addresses of the other.
#[test]
fn what_two_nodes_hold_parts_of_is_free_when_both_are_gone() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/23"));
    world.served("low", &[], &["10.0.0.0/25"]);
    world.served("high", &[], &["10.0.0.128/25"]);
    world.delete_node("low");
    world.pass(REST);
    assert_eq!((&*world.node("n", &[]), &*world.node("m", &[])), ("10.0.1.0/24", ""));
    world.delete_node("high");
    assert_eq!(world.cidrs("m"), "10.0.0.0/24");
}

/// A block of one range was noted in another that overlaps it as well, and cleared in one of them only.
#[test]
fn a_block_that_lies_in_two_ranges_leaves_both_with_its_node() {
    let mut world = World::new();
    world.range("later-better", cut(8, "10.0.0.0/22"));
    assert_eq!(world.node("n", &[("zone", "a")]), "10.0.0.0/24");
    world.range("better", cut_for(8, "10.0.0.0/23", &[("zone", "a")]));
    world.change_node("n", "/metadata/labels", json!({"zone": "a", "x": "y"}));
    world.delete_node("n");
    world.pass(REST);
    let blocks: Vec<String> = (0..5).map(|index| world.node(&format!("n{index}"), &[("zone", "a")])).collect();
    assert_eq!(blocks, ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24", ""]);
    for name in world.node_names() {
        world.delete_node(&name);
    }
    world.delete_range("better");
    world.delete_range("later-better");
    assert!(!world.has_range("better") && !world.has_range("later-better"));
}

/// A range that vanished was used on, one that was made again under its name was not, and one that lost its selector was both.
#[test]
fn a_range_that_is_gone_is_not_used_and_one_of_its_name_is() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/16"));
    world.node("n", &[]);
    world.strip_range("r");
    assert_eq!(world.node("m", &[]), "");
    world.range("r", cut(8, "10.1.0.0/16"));
    assert_eq!(world.cidrs("m"), "10.1.0.0/24");
    world.watching = false;
    world.strip_range("r");
    world.make_range("r", &cut(8, "10.2.0.0/16"));
    world.watch_again();
    assert_eq!(world.node("k", &[]), "10.2.0.0/24");
    world.range("zone", cut_for(8, "10.3.0.0/16", &[("zone", "a")]));
    world.change_range("zone", "nodeSelector", json!(null));
    world.change_range("r", "suspend", json!(true));
    assert_eq!(world.node("l", &[]), "10.3.0.0/24");
    world.delete_range("zone");
    assert!(world.has_range("zone"), "a node holds a block of it");
    world.delete_node("l");
    assert!(!world.has_range("zone"));
}

/// A range over addresses that nodes had already gave them away until each of the nodes was looked at again.
#[test]
fn a_new_range_over_blocks_of_nodes_never_gives_them_away() {
    let mut world = World::new();
    for index in 0..4 {
        world.served(&format!("old{index}"), &[], &[&format!("10.0.{index}.0/24")]);
    }
    world.range("r", cut(8, "10.0.0.0/21"));
    assert_eq!(world.node("n", &[]), "10.0.4.0/24");
    world.delete_range("r");
    assert!(world.has_range("r"));
}

/// A range was used before its finalizer was stored: it could go with a node just served from it.
#[test]
fn a_range_is_not_used_before_its_finalizer_is_stored() {
    let mut world = World::new();
    world.make_range("r", &cut(8, "10.0.0.0/16"));
    world.make_node("n", &[], &[]);
    let mut intents = Vec::new();
    while let Some(intent) = world.plan.next(Moment(0)) {
        intents.push(intent);
    }
    let finalizes = |intent: &&Intent| matches!(intent, Intent::Finalize(wanted) if &*wanted.name == "r");
    assert_eq!(intents.iter().filter(finalizes).count(), 1, "{intents:?}");
    assert!(!intents.iter().any(|intent| matches!(intent, Intent::Assign(_))), "{intents:?}");
}

/// Alternatives were all required, fields matched nothing, and a term that asks for nothing matched everything.
#[test]
fn a_selector_means_what_kubernetes_says() {
    let select = |terms: serde_json::Value| {
        let mut spec = cut(8, "10.0.0.0/16");
        spec["nodeSelector"] = json!({"nodeSelectorTerms": terms});
        spec
    };
    let label = |key: &str| json!({"key": key, "operator": "In", "values": ["x"]});
    let name = json!({"key": "metadata.name", "operator": "In", "values": ["n"]});
    for (terms, served) in [
        (json!([{"matchExpressions": [label("a")]}, {"matchExpressions": [label("b")]}]), true),
        (json!([{"matchExpressions": [label("a"), label("b")]}]), false),
        (json!([{"matchFields": [name]}]), true),
        (json!([{"matchFields": [name], "matchExpressions": [label("b")]}]), false),
        (json!([{}]), false),
        (json!([]), false),
    ] {
        let mut world = World::new();
        world.range("r", select(terms.clone()));
        assert_eq!(world.node("n", &[("a", "x")]), if served { "10.0.0.0/24" } else { "" }, "{terms}");
    }
}

/// Ranges of Services were not excluded, or only from ranges that were there at the start.
#[test]
fn no_node_gets_addresses_of_services_whenever_they_came() {
    let mut world = World::new();
    world.services(&["10.0.0.0/24", "fd00::/120"]);
    world.range("r", cut(8, "10.0.0.0/21,fd00::/112"));
    assert_eq!(world.node("a", &[]), "10.0.1.0/24,fd00::100/120");
    world.services(&["10.0.0.0/24", "10.0.2.0/23", "fd00::/120"]);
    assert_eq!(world.node("b", &[]), "10.0.4.0/24,fd00::200/120");
    world.restart();
    assert_eq!(world.node("c", &[]), "10.0.5.0/24,fd00::300/120");
}
