//! Which node ports a Service gets and keeps.
//!
//! A number is given once in the cluster, whatever the protocol. Inside of one Service it may serve several protocols.

use std::collections::{HashMap, HashSet};

use api::{Errors, Path};
use serde_json::json;

use super::decision::{PortRefusal, Refusal, Taking};
use super::service::{Port, Service};

/// Gives a new Service its ports: those that it names, and any for the rest. Ports of one number share one.
///
/// What is named comes first, the port for the check of its health too, so that a random pick never takes what is named further down.
pub(super) fn create(after: &mut Service, taking: &mut Taking<'_>) -> Result<(), Refusal> {
    let needs_health_check = after.needs_health_check();
    let mut named: HashMap<i64, i64> = HashMap::new();
    for port in after.ports.iter().filter(|port| port.on_nodes != 0) {
        named.entry(port.number).or_insert(port.on_nodes);
    }
    let mut given: HashMap<i64, i64> = HashMap::new();
    for turn in [Turn::Named, Turn::Any] {
        if after.has_node_ports() {
            let wants = after.wants_node_ports();
            let is_named = |port: &Port| named.contains_key(&port.number);
            let has_turn = |port: &Port| (wants || port.on_nodes != 0) && is_named(port) == (turn == Turn::Named);
            for (index, port) in after.ports.iter_mut().enumerate().filter(|(_, port)| has_turn(port)) {
                match given.get(&port.number) {
                    None => {
                        port.on_nodes = match named.get(&port.number) {
                            Some(&named) => taken(taking, index, named)?,
                            None => any(taking)?,
                        };
                        given.insert(port.number, port.on_nodes);
                    }
                    Some(&given) if port.on_nodes == 0 => port.on_nodes = given,
                    Some(&given) if port.on_nodes != given => drop(taken(taking, index, port.on_nodes)?),
                    Some(_) => {}
                }
            }
        }
        if needs_health_check {
            health_check(after, turn, taking)?;
        }
    }
    Ok(())
}

/// Gives a Service what it needs now and did not need before, in the same order.
pub(super) fn update(before: &Service, after: &mut Service, taking: &mut Taking<'_>) -> Result<(), Refusal> {
    let needs_health_check = after.needs_health_check() && !before.needs_health_check();
    if after.has_node_ports() {
        let mut seen = HashSet::new();
        let mut own: HashSet<i64> = before.held_node_ports().map(i64::from).collect();
        for (index, port) in after.ports.iter().enumerate().filter(|(_, port)| port.on_nodes != 0) {
            if own.insert(port.on_nodes) {
                taken(taking, index, port.on_nodes)?;
            }
            if !seen.insert((&port.protocol, port.on_nodes)) {
                return Err(Refusal::Plain(format!("duplicate nodePort: {{{} {}}}", port.protocol, port.on_nodes)));
            }
        }
    }
    if needs_health_check {
        health_check(after, Turn::Named, taking)?;
    }
    let wants = after.wants_node_ports();
    for port in after.ports.iter_mut().filter(|port| wants && port.on_nodes == 0) {
        port.on_nodes = any(taking)?;
    }
    if needs_health_check { health_check(after, Turn::Any, taking) } else { Ok(()) }
}

/// Whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// What the Service names.
    Named,
    /// What any would do for.
    Any,
}

fn taken(taking: &mut Taking<'_>, index: usize, port: i64) -> Result<i64, Refusal> {
    match taking.port(port) {
        Ok(()) => Ok(port),
        Err(refusal) => {
            let mut errors = Errors::new();
            let path = Path::new("spec").child("ports").index(index).child("nodePort");
            errors.invalid(&path, &json!(port), refusal);
            Err(Refusal::Invalid(errors))
        }
    }
}

fn any(taking: &mut Taking<'_>) -> Result<i64, Refusal> {
    taking.any_port().map_err(|refusal| Refusal::Internal(format!("failed to allocate a nodePort: {refusal}")))
}

/// Gives a Service the port on which it is asked for its health, if that has its turn. When those have it that any would do for, one
/// that was named is there.
fn health_check(after: &mut Service, turn: Turn, taking: &mut Taking<'_>) -> Result<(), Refusal> {
    let named = after.health_check;
    let failed = |what: &str, refusal: PortRefusal| {
        Refusal::Internal(format!("failed to allocate {what} HealthCheck NodePort {named}: {refusal}"))
    };
    match turn {
        Turn::Named if named != 0 => taking.port(named).map_err(|refusal| failed("requested", refusal)),
        Turn::Any if named == 0 => {
            after.health_check = taking.any_port().map_err(|refusal| failed("a", refusal))?;
            Ok(())
        }
        Turn::Named | Turn::Any => Ok(()),
    }
}
