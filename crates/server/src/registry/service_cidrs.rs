//! `ServiceCIDR`s: which of them give out addresses, and when a deleted one goes.
//!
//! What upstream's controllers do some time after a write is done with the write: the finalizer and the condition are there from
//! the beginning, and stay right, unless those controllers are at work here too. They are written in the names of those controllers,
//! so that it is the same conflict to apply something else. A deleted range gives out nothing from the moment of its deletion,
//! because every grant is under the condition that its range is as it was. It goes when no address is left that no other range has;
//! `lifecycle` sees to that.

use api::kind::Subresource;
use api::{Kind, Object};
use serde_json::{Value, json};
use space::{Cidr, Range};
use thiserror::Error;

use super::{Along, Behaviour, Change, Surroundings, bootstrap};
use crate::machinery::{Failure, apply_as, catalog, now, sign};

/// Where `ServiceCIDR`s are stored.
pub(crate) const PREFIX: &str = "servicecidrs.networking.k8s.io";

/// Keeps a deleted range until none of its addresses is in use.
pub(crate) const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

/// Who gives ranges their finalizer elsewhere.
const KEEPER: &str = "kube-controller-manager";

/// Who says elsewhere whether they are ready.
const TELLER: &str = "service-cidr-controller";

/// Who says it first of the range that the cluster itself has.
const FIRST_TELLER: &str = "kubernetes-service-cidr-controller";

/// Why a range is not ready that can never give out an address.
const UNUSABLE: &str = "Unusable";

/// The shortest prefix of an IPv6 range.
const SHORTEST_V6: u8 = 64;

/// The addresses of a range.
pub(crate) enum Usable {
    V4(Range<u32>),
    V6(Range<u128>),
}

/// Why a range can never give out an address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Useless {
    #[error("{0} is no CIDR")]
    Unreadable(String),
    #[error("{0} has no address to give: the first of a range, and the last of an IPv4 range, are never given")]
    TooSmall(String),
    #[error("{0} is too large: the shortest allowed prefix length for an IPv6 range is {SHORTEST_V6}")]
    TooLarge(String),
}

/// The addresses that a range gives out.
pub(crate) fn usable(text: &str) -> Result<Usable, Useless> {
    let small = |_| Useless::TooSmall(text.to_owned());
    match Cidr::tolerant(text).map_err(|_| Useless::Unreadable(text.to_owned()))?.value {
        Cidr::V6(prefix) if prefix.length() < SHORTEST_V6 => Err(Useless::TooLarge(text.to_owned())),
        Cidr::V4(prefix) => Range::service(prefix).map(Usable::V4).map_err(small),
        Cidr::V6(prefix) => Range::service(prefix).map(Usable::V6).map_err(small),
    }
}

/// Whether that is the key of a range.
pub(crate) fn is_at(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| prefix == PREFIX)
}

/// Whether a range gives out what it has: it is not on its way out, and nobody has said that it is not ready.
pub(crate) fn is_open(object: &Object) -> bool {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array);
    let not_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "False";
    !object.is_terminating() && !conditions.into_iter().flatten().any(not_ready)
}

/// The behaviour of `ServiceCIDR`s.
pub(crate) struct ServiceCidrs;

impl Behaviour for ServiceCidrs {
    fn is_held(&self, around: &Surroundings, object: &Object) -> bool {
        around.ledger.keeps(&format!("{PREFIX}/{}", object.name()))
    }

    fn is_marked_first(&self) -> bool {
        true
    }

    fn signs(&self) -> bool {
        true
    }

    fn accompany(&self, around: &Surroundings, _: &Kind, change: Change<'_>) -> Result<Along, Failure> {
        let new = match change {
            Change::Create(new) | Change::Update { new, .. } if around.tended => new,
            Change::Create(_) | Change::Update { .. } | Change::Delete(_) => return Ok(Along::default()),
        };
        let mut kept = new.clone();
        if matches!(change, Change::Create(_)) && new.name() == bootstrap::NAME {
            // When and why is said by whoever says it next.
            let message = "Kubernetes default Service CIDR is ready";
            say(&mut kept, FIRST_TELLER, &json!({"type": "Ready", "status": "True", "message": message}));
        }
        // A deleted range that is needed cannot be robbed of what keeps it, either.
        let is_robbed =
            || matches!(change, Change::Update { old, .. } if is_protected(old)) && self.is_held(around, new);
        if !new.is_terminating() || is_robbed() {
            keep(&mut kept);
        }
        put_right(&mut kept);
        Ok(Along { object: (kept != *new).then_some(kept), ..Along::default() })
    }

    fn restate(&self, around: &Surroundings, object: &mut Object) {
        if around.tended {
            put_right(object);
        }
    }

    fn terminating(&self, around: &Surroundings, object: &mut Object) {
        if around.tended {
            put_right(object);
        }
    }
}

/// Whoever else says whether a range is ready is not believed, because that decides whether it gives out anything.
fn put_right(object: &mut Object) {
    let right = readiness(object);
    if condition(object).is_none_or(|said| !right.is_said_by(said)) {
        set_condition(object, &right);
    }
}

/// What the condition of a range says.
struct Readiness {
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Readiness {
    fn is_said_by(&self, condition: &Value) -> bool {
        condition["status"] == self.status && condition["reason"] == self.reason && condition["message"] == self.message
    }
}

fn is_protected(object: &Object) -> bool {
    object.finalizers().any(|name| name == FINALIZER)
}

/// Gives it the finalizer, if it has not got it.
fn keep(object: &mut Object) {
    if !is_protected(object) {
        let before = object.clone();
        let finalizers: Vec<String> = object.finalizers().chain([FINALIZER]).map(str::to_owned).collect();
        object.set(&["metadata", "finalizers"], json!(finalizers));
        if let Some(kind) = own_kind() {
            sign(kind, KEEPER, &before, object);
        }
    }
}

/// The kind as controllers write it, whatever version a request is in.
fn own_kind() -> Option<&'static Kind> {
    catalog().resource("networking.k8s.io", "v1", "servicecidrs").map(|resource| resource.kind)
}

/// Whether it gives out addresses. One family is enough.
fn readiness(object: &Object) -> Readiness {
    if object.is_terminating() {
        let message =
            "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";
        return Readiness { status: "False", reason: "Terminating", message: message.to_owned() };
    }
    let cidrs = object.at(&["spec", "cidrs"]).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let parts: Vec<_> = cidrs.map(usable).collect();
    if parts.iter().any(Result::is_ok) {
        return Readiness { status: "True", reason: "", message: "Kubernetes Service CIDR is ready".to_owned() };
    }
    let useless: Vec<String> = parts.into_iter().filter_map(Result::err).map(|why| why.to_string()).collect();
    Readiness { status: "False", reason: UNUSABLE, message: useless.join("; ") }
}

fn condition(object: &Object) -> Option<&Value> {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array)?;
    conditions.iter().find(|condition| condition["type"] == "Ready")
}

/// Why a range is not ready, if somebody has said that it is not: the reason and the message.
pub(crate) fn not_ready(object: &Object) -> Option<(&str, &str)> {
    let condition = condition(object).filter(|condition| condition["status"] == "False")?;
    Some((condition["reason"].as_str()?, condition["message"].as_str()?))
}

fn set_condition(object: &mut Object, right: &Readiness) {
    let Readiness { status, reason, message } = right;
    let ready = json!({
        "type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": now(),
    });
    if say(object, TELLER, &ready) {
        return;
    }
    // Nothing can be applied to an object whose `managedFields` cannot be read. They came past this server.
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array);
    let mut all: Vec<Value> = conditions.cloned().unwrap_or_default();
    match all.iter_mut().find(|condition| condition["type"] == "Ready") {
        Some(known) => *known = ready,
        None => all.push(ready),
    }
    object.set(&["status", "conditions"], json!(all));
}

/// Applies a condition in the name of a manager; whether that can be done.
fn say(object: &mut Object, manager: &str, condition: &Value) -> bool {
    let Some(kind) = own_kind() else { return false };
    let config = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": object.name()},
        "status": {"conditions": [condition]},
    });
    let config = Object::from_value(config).unwrap_or_default();
    apply_as(kind, manager, Some(Subresource::Status), object, &config).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_can_never_give_an_address_is_not_ready_and_says_why() {
        let readiness = |cidrs: &[&str]| {
            let object = Object::from_value(json!({"spec": {"cidrs": cidrs}})).unwrap();
            let Readiness { status, message, .. } = readiness(&object);
            format!("{status} {message}")
        };
        assert_eq!(readiness(&["10.0.0.0/30", "fd00::/63"]), "True Kubernetes Service CIDR is ready");
        let small = "has no address to give: the first of a range, and the last of an IPv4 range, are never given";
        assert_eq!(readiness(&["10.0.0.0/31"]), format!("False 10.0.0.0/31 {small}"));
        assert_eq!(readiness(&["fd00::/128", "10.0.0.0/32"]), format!("False fd00::/128 {small}; 10.0.0.0/32 {small}"));
        assert!(readiness(&["fd00::/63"]).starts_with("False fd00::/63 is too large"));
    }

    #[test]
    fn a_range_is_open_unless_it_goes_or_somebody_said_that_it_is_not_ready() {
        let open = |object: Value| is_open(&Object::from_value(object).unwrap());
        assert!(open(json!({})));
        assert!(open(
            json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "X", "status": "False"}]}})
        ));
        assert!(!open(json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})));
        assert!(!open(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})));
    }
}
