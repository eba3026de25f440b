//! What kube-apiserver makes of the node ports that a Service of the type `ExternalName` says: it has none of them, but they are freed
//! with it, are not looked for when its type changes, and are taken for used by what repairs the ports. So some port there is given
//! although a Service has it, or refused although none has, or is in no range.

use anyhow::Result;
use serde_json::Value;

use super::super::holdings::node_ports;
use super::super::pair::Pair;
use super::super::side::Taken;
use super::super::steps::Step;

/// Whether all that differs is what became of a port that an `ExternalName` said.
pub(super) fn differ(step: &Step, ours: &Taken, theirs: &Taken, pair: &mut Pair) -> Result<bool> {
    // Who does not find a port taken goes on, and may refuse the Service for what is looked at after that.
    let goes_on = |taken: &Taken| taken.is_done() || taken.code == 422;
    if !goes_on(ours) || !goes_on(theirs) {
        return Ok(false);
    }
    if let Some(port) = outside(ours.message()) {
        return Ok(outside(theirs.message()).is_none() && says(&pair.ours.spec(&step.name)?, port));
    }
    let (mine, expected) = (taken(ours.message()), taken(theirs.message()));
    let (Some(port), true) = (mine.or(expected), mine.is_none() || expected.is_none()) else { return Ok(false) };
    let mut holders = [pair.ours.port_holders(port)?, pair.theirs.port_holders(port)?];
    for holders in &mut holders {
        // What the step has come to is no reason for it.
        holders.retain(|name| *name != step.name);
    }
    Ok(pair.theirs.has_been_said(port) && tells(mine.is_some(), &holders))
}

/// Whether it is right of ours that it says, or does not say, that a port is taken: the same Services have it on both sides, apart
/// from the one that is written.
fn tells(is_taken: bool, holders: &[Vec<String>; 2]) -> bool {
    holders[0] == holders[1] && holders[0].is_empty() != is_taken
}

/// Whether that is an `ExternalName` which says that port.
fn says(spec: &Value, port: i64) -> bool {
    spec["type"] == "ExternalName" && node_ports(spec).any(|said| said == port)
}

/// Whether the real server says in a dry run that a port is taken which it has picked itself: it picks what comes after the highest of
/// those that it has seen, whoever names that further on.
pub(super) fn is_own_pick(spec: &Value, theirs: &Taken) -> bool {
    let Some(port) = taken(theirs.message()) else { return false };
    let named: Vec<i64> = node_ports(spec).collect();
    let is_picked = |one: &&Value| one["nodePort"].as_i64().unwrap_or_default() == 0;
    let picks = spec["ports"].as_array().map_or(0, |ports| ports.iter().filter(is_picked).count());
    named.contains(&port) && (1..).take(picks).any(|further| named.contains(&(port - further)))
}

/// The port that is said to be taken.
pub(in super::super) fn taken(message: &str) -> Option<i64> {
    before(message, ": provided port is already allocated")
}

/// The port that is said to be in no range.
fn outside(message: &str) -> Option<i64> {
    before(message, ": provided port is not in the valid range")
}

fn before(message: &str, why: &str) -> Option<i64> {
    message.split_once(why)?.0.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_port_is_read_from_the_refusal() {
        let refusal = |value: &str, why: &str| {
            format!("Service \"a\" is invalid: spec.ports[0].nodePort: Invalid value: {value}: provided port is {why}")
        };
        let (held, beyond) = ("already allocated", "not in the valid range. The range of valid ports is 30000-32767");
        assert_eq!((taken(&refusal("30000", held)), outside(&refusal("30000", held))), (Some(30_000), None));
        assert_eq!((taken(&refusal("99", beyond)), outside(&refusal("99", beyond))), (None, Some(99)));
        assert_eq!(taken("failed to allocate a nodePort: range is full"), None);
    }

    #[test]
    fn only_a_port_that_others_have_on_both_sides_is_rightly_said_to_be_taken() {
        let holders = |all: [&[&str]; 2]| all.map(|names| names.iter().map(ToString::to_string).collect());
        assert!(tells(true, &holders([&["s1"], &["s1"]])));
        assert!(!tells(true, &holders([&[], &[]])), "nobody has it");
        assert!(!tells(true, &holders([&["s1"], &[]])), "nobody has it there");
        assert!(!tells(true, &holders([&["s1"], &["s2"]])), "they do not have the same");
        assert!(tells(false, &holders([&[], &[]])));
        assert!(!tells(false, &holders([&["s1"], &["s1"]])), "ours gave what somebody has");
        assert!(!tells(false, &holders([&[], &["s1"]])), "it is taken there");
    }

    #[test]
    fn only_what_follows_a_named_port_can_be_its_own_pick() {
        let spec =
            |ports: &[i64]| json!({"ports": ports.iter().map(|port| json!({"nodePort": port})).collect::<Vec<_>>()});
        let message = "spec.ports[2].nodePort: Invalid value: 30003: provided port is already allocated";
        let refused = Taken { code: 422, body: json!({"message": message}) };
        assert!(is_own_pick(&spec(&[30_002, 0, 30_003]), &refused));
        assert!(is_own_pick(&spec(&[30_001, 0, 0, 30_003]), &refused));
        assert!(!is_own_pick(&spec(&[30_001, 0, 30_003]), &refused), "it is further away");
        assert!(!is_own_pick(&spec(&[30_002, 30_003]), &refused), "nothing is picked");
        assert!(!is_own_pick(&spec(&[30_002, 0]), &refused), "nobody names it");
        assert!(!is_own_pick(&spec(&[30_002, 0, 30_003]), &Taken { code: 201, body: json!({}) }));
    }

    #[test]
    fn only_an_external_name_says_a_port_that_it_does_not_have() {
        let spec = |kind: &str| json!({"type": kind, "ports": [{"port": 80}, {"port": 81, "nodePort": 99}]});
        assert!(says(&spec("ExternalName"), 99));
        assert!(!says(&spec("ExternalName"), 30_000) && !says(&spec("NodePort"), 99));
    }
}
