//! What is told of ranges.

use serde_json::{Value, json};

use crate::world::{World, cut};

const TIME: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-01T01:00:00Z";

/// The conditions of a range as one text: `Accepted=True/Accepted`.
fn conditions(world: &World, range: &str) -> String {
    let conditions = world.range_object(range)["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |condition: &Value| {
        let of = |name: &str| condition[name].as_str().unwrap().to_owned();
        format!("{}={}/{}", of("type"), of("status"), of("reason"))
    };
    conditions.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_status_counts_each_family_and_is_written_when_it_changes() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/20,fd00::/48"));
    world.node("n", &[]);
    assert_eq!(world.write_statuses(TIME), 1);
    let status = &world.range_object("r")["status"];
    assert_eq!(status["ipv4"], json!({"capacity": 16, "allocated": 1, "free": 15, "largestFreeBlock": "/21"}));
    assert_eq!(status["ipv6"]["capacity"], json!(i64::MAX), "there are 2^72 blocks");
    assert_eq!(
        conditions(&world, "r"),
        "Accepted=True/Accepted Overlapping=False/NoOverlap NearlyFull=False/EnoughLeft Exhausted=False/BlocksLeft \
         Terminating=False/NotDeleted"
    );
    assert_eq!(world.write_statuses(LATER), 0, "nothing changed");
    world.node("m", &[]);
    assert_eq!(world.write_statuses(LATER), 1);
    let status = &world.range_object("r")["status"];
    assert_eq!(
        (&status["ipv4"]["allocated"], &status["conditions"][0]["lastTransitionTime"]),
        (&json!(2), &json!(TIME))
    );
    world.restart();
    assert_eq!(world.write_statuses(LATER), 0, "a restart changes nothing");
}

#[test]
fn conditions_say_what_keeps_nodes_from_being_served() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/20"));
    world.range("other", cut(8, "10.0.0.0/16"));
    world.services(&["10.0.0.0/24"]);
    for index in 0..14 {
        world.served(&format!("n{index:02}"), &[], &[&format!("10.0.{}.0/24", index + 1)]);
    }
    world.write_statuses(TIME);
    assert_eq!(
        conditions(&world, "r"),
        "Accepted=True/Accepted Overlapping=True/ClusterCIDRAndServiceRange NearlyFull=True/FewBlocksLeft \
         Exhausted=False/BlocksLeft Terminating=False/NotDeleted"
    );
    world.served("last", &[], &["10.0.15.0/24"]);
    world.change_range("r", "suspend", json!(true));
    world.write_statuses(LATER);
    let text = conditions(&world, "r");
    assert!(text.starts_with("Accepted=True/Suspended") && text.contains("Exhausted=True/NoBlockLeft"), "{text}");
    assert_eq!(world.range_object("r")["status"]["ipv4"], json!({"capacity": 16, "allocated": 16, "free": 0}));
    world.delete_range("r");
    world.write_statuses(LATER);
    let status = &world.range_object("r")["status"];
    assert_eq!((&status["nodeCount"], status["nodes"].as_array().unwrap().len()), (&json!(15), 15));
    assert!(conditions(&world, "r").ends_with("Terminating=True/NodesHoldBlocks"));
    world.range("bad", json!({"perNodeHostBits": 2, "ipv4": "10.0.0.0/16"}));
    world.write_statuses(LATER);
    assert!(conditions(&world, "bad").starts_with("Accepted=False/InvalidSpec"));
}

#[test]
fn a_status_that_could_not_be_written_is_wanted_again() {
    let mut world = World::new();
    world.range("r", cut(8, "10.0.0.0/20"));
    let writes = world.plan.statuses(TIME);
    assert_eq!((writes.len(), world.plan.statuses(TIME).len()), (1, 0));
    world.plan.status_failed(writes[0].key);
    assert_eq!(world.plan.statuses(TIME), writes);
}
