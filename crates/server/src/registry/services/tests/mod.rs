//! The decision, by tables: a cluster, what a Service was and what it is asked to be, and what comes of it. No store, no runtime.

mod addresses;
mod families;
mod ports;

use api::Object;
use api::kinds::validate_service_addresses;
use serde_json::{Value, json};
use space::{Cidr, Family, Range};

use super::decision::{Cluster, Decision, Pools, Refusal, Taken, decide, held};
use super::service::Service;
use crate::registry::grants::Grant;

/// A cluster of those families, with small ranges: 10.0.0.0/28, `fd00::/124` and the ports 30000 to 30009.
struct Rig {
    cluster: Cluster,
    pools: Pools,
}

impl Rig {
    /// `4`, `6`, `46` and `64` are the shapes that a cluster can have.
    fn new(shape: &str) -> Self {
        let family = |digit| if digit == '4' { Family::V4 } else { Family::V6 };
        let mut pools = Pools::default();
        if let Ok(Cidr::V4(prefix)) = Cidr::strict("10.0.0.0/28") {
            pools.v4.add_range(Range::service(prefix).unwrap());
        }
        if let Ok(Cidr::V6(prefix)) = Cidr::strict("fd00::/124") {
            pools.v6.add_range(Range::service(prefix).unwrap());
        }
        pools.ports.add_range(Range::ports(30_000, 30_009).unwrap());
        Self { cluster: Cluster::new(shape.chars().map(family)), pools }
    }

    /// Decides, with dice that always show the same, so that the lowest free point is picked.
    fn decide(&mut self, before: Option<&Value>, after: &Value) -> Result<Decision, Refusal> {
        let object = |spec: &Value| Object::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
        let (old, new) = (before.map(object), object(after));
        let faults = || {
            let mut errors = api::Errors::new();
            validate_service_addresses(&new, old.as_ref(), &mut errors);
            errors
        };
        let before = old.as_ref().map(Service::read_stored);
        decide(&self.cluster, &mut self.pools, before.as_ref(), Service::read(&new), faults, &mut || 0)
            .map_err(|refused| refused.why)
    }

    /// What is claimed in all pools.
    fn claims(&self) -> u32 {
        self.pools.v4.claims() + self.pools.v6.claims() + self.pools.ports.claims()
    }

    /// Claims what a Service holds.
    fn holds(mut self, spec: &Value) -> Self {
        let object = Object::from_value(json!({"spec": spec})).unwrap();
        for grant in held(&Service::read_stored(&object)) {
            self.pools.adopt(grant);
        }
        self
    }
}

/// A refusal as text: what a client sees of it, without the front.
fn said(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Invalid(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        Refusal::Internal(why) => format!("500: {why}"),
        Refusal::Plain(why) => format!("500 plain: {why}"),
    }
}

/// What was taken, as grants.
fn grants(taken: &[Taken]) -> Vec<Grant> {
    taken.iter().map(|taken| taken.grant).collect()
}

/// Grants as text.
fn shown(grants: &[Grant]) -> String {
    grants.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_refusal_leaves_the_pools_as_they_were() {
    // The first family is given before the second is refused.
    let taken = json!({"type": "ClusterIP", "clusterIPs": ["10.0.0.9"]});
    let mut rig = Rig::new("64").holds(&taken);
    let before = rig.claims();
    let asked = json!({
        "type": "NodePort", "clusterIP": "fd00::5", "clusterIPs": ["fd00::5", "10.0.0.9"], "ipFamilyPolicy": "RequireDualStack",
        "ports": [{"port": 80}],
    });
    let refusal = rig.decide(None, &asked).unwrap_err();
    assert_eq!(
        said(&refusal),
        "spec.clusterIPs: Invalid value: [\"fd00::5\",\"10.0.0.9\"]: failed to allocate IP 10.0.0.9: provided IP is already allocated"
    );
    assert_eq!(rig.claims(), before);
    rig.pools.v6.audit().unwrap();
    // Addresses are given before a port is refused.
    let asked = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}, {"port": 81, "nodePort": 99}]});
    assert!(rig.decide(None, &asked).is_err());
    assert_eq!(rig.claims(), before);
}
