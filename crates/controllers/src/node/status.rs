//! What is told of a range: how much is left of it, and what state it is in.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use space::Counts;

use super::index::{Index, NodeKey};
use super::range::{Range, RangeKey, Refusal};

/// How many of the nodes that hold a range are named.
const MOST_NODES: usize = 100;

/// How many others are named that a range overlaps.
const MOST_OVERLAPS: usize = 10;

/// A range is nearly full when at most one block in so many is free.
const NEARLY_FULL: u128 = 10;

/// The status of a range. A condition that is as it was keeps its time.
pub fn of(index: &Index, key: RangeKey, range: &Range, time: &str) -> Value {
    let mut status = Map::new();
    let (v4, v6) = index.counts(key);
    let families = [("ipv4", v4), ("ipv6", v6)];
    for (name, counts) in families {
        if let Some(counts) = counts {
            status.insert(name.to_owned(), usage(&counts));
        }
    }
    let holders: BTreeSet<NodeKey> = if range.terminating { index.holders(key).collect() } else { BTreeSet::new() };
    if range.terminating {
        let names = holders.iter().filter_map(|key| index.node(*key)).map(|known| &*known.node.name);
        status.insert("nodeCount".to_owned(), json!(holders.len()));
        status.insert("nodes".to_owned(), names.take(MOST_NODES).collect());
    }
    let mut conditions = vec![accepted(range), overlapping(index, key)];
    if range.spec.is_ok() {
        conditions.extend(fullness(&families));
    }
    conditions.push(terminating(range, holders.len()));
    let before: Value = serde_json::from_str(&range.status).unwrap_or_default();
    let before = before["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let conditions: Vec<Value> =
        conditions.into_iter().map(|condition| condition.written(range.generation, before, time)).collect();
    status.insert("conditions".to_owned(), conditions.into());
    Value::Object(status)
}

struct Condition {
    name: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Condition {
    fn written(self, generation: i64, before: &[Value], time: &str) -> Value {
        let Self { name, holds, reason, message } = self;
        let status = if holds { "True" } else { "False" };
        let before = before.iter().find(|before| before["type"] == name && before["status"] == status);
        let since = before.and_then(|before| before["lastTransitionTime"].as_str()).unwrap_or(time);
        json!({
            "type": name, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": since, "observedGeneration": generation,
        })
    }
}

fn usage(counts: &Counts) -> Value {
    let capped = |count: u128| i64::try_from(count).unwrap_or(i64::MAX);
    let mut usage = json!({
        "capacity": capped(counts.capacity), "allocated": capped(counts.allocated), "free": capped(counts.free),
    });
    if let Some(length) = counts.largest_free {
        usage["largestFreeBlock"] = json!(format!("/{length}"));
    }
    usage
}

fn accepted(range: &Range) -> Condition {
    let (holds, reason, message) = match &range.spec {
        Err(fault) => (false, "InvalidSpec", fault.clone()),
        Ok(spec) => match range.closed(spec) {
            None => (true, "Accepted", "nodes are served".to_owned()),
            Some(Refusal::Suspended) => (true, "Suspended", "no new node is served".to_owned()),
            Some(refusal @ Refusal::Terminating) => (false, "Terminating", refusal.to_string()),
            Some(refusal) => (false, "Pending", refusal.to_string()),
        },
    };
    Condition { name: "Accepted", holds, reason, message }
}

fn overlapping(index: &Index, key: RangeKey) -> Condition {
    let (ranges, services) = index.overlapping(key);
    let named = |names: &BTreeSet<Arc<str>>| {
        let mut text = names.iter().take(MOST_OVERLAPS).map(|name| &**name).collect::<Vec<_>>().join(", ");
        if let Some(more) = names.len().checked_sub(MOST_OVERLAPS).filter(|more| *more > 0) {
            text = format!("{text} and {more} more");
        }
        text
    };
    let services = services.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (holds, reason, message) = match (ranges.is_empty(), services.is_empty()) {
        (true, true) => (false, "NoOverlap", "nothing else has addresses of it".to_owned()),
        (false, true) => (true, "ClusterCIDR", format!("it shares addresses with {}", named(&ranges))),
        (true, false) => (true, "ServiceRange", format!("Services have {services} of it, which no node gets")),
        (false, false) => (
            true,
            "ClusterCIDRAndServiceRange",
            format!("it shares addresses with {}; Services have {services} of it, which no node gets", named(&ranges)),
        ),
    };
    Condition { name: "Overlapping", holds, reason, message }
}

fn fullness(families: &[(&str, Option<Counts>); 2]) -> [Condition; 2] {
    let those = |full: fn(&Counts) -> bool| {
        let full = families.iter().filter(|(_, counts)| counts.as_ref().is_some_and(full));
        full.map(|(name, _)| *name).collect::<Vec<_>>().join(" and ")
    };
    let nearly = those(|counts| counts.free <= counts.capacity / NEARLY_FULL);
    let wholly = those(|counts| counts.free == 0);
    let condition = |name, holds: bool, (reason, message): (_, String), otherwise: (_, &str)| {
        let (reason, message) = if holds { (reason, message) } else { (otherwise.0, otherwise.1.to_owned()) };
        Condition { name, holds, reason, message }
    };
    let little = ("FewBlocksLeft", format!("at most one block in {NEARLY_FULL} of {nearly} is free"));
    let nothing = ("NoBlockLeft", format!("no block of {wholly} is free"));
    [
        condition("NearlyFull", !nearly.is_empty(), little, ("EnoughLeft", "enough is free")),
        condition("Exhausted", !wholly.is_empty(), nothing, ("BlocksLeft", "there are free blocks")),
    ]
}

fn terminating(range: &Range, holders: usize) -> Condition {
    let (reason, message) = match (range.terminating, holders) {
        (false, _) => ("NotDeleted", "it is not being deleted".to_owned()),
        (true, 0) => ("Released", "no node holds a block of it".to_owned()),
        (true, 1) => ("NodesHoldBlocks", "1 node holds a block of it".to_owned()),
        (true, count) => ("NodesHoldBlocks", format!("{count} nodes hold blocks of it")),
    };
    Condition { name: "Terminating", holds: range.terminating, reason, message }
}
