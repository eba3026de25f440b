//! Node ports: of several protocols, named and any, for load balancers with and without, and for the check of health.

use serde_json::{Value, json};

use super::{Rig, said, shown};

const TAKEN: &str = "provided port is already allocated";
const OUTSIDE: &str = "provided port is not in the valid range. The range of valid ports is 30000-30009";

/// A Service of that type with ports given as (port, protocol, node port).
fn spec(kind: &str, ports: &[(i64, &str, i64)]) -> Value {
    let port =
        |(port, protocol, node): &(i64, &str, i64)| json!({"port": port, "protocol": protocol, "nodePort": node});
    let ports: Vec<Value> = ports.iter().map(port).collect();
    json!({"type": kind, "ports": ports})
}

/// A Service that is there already, and has its address.
fn there(mut spec: Value) -> Value {
    spec["clusterIP"] = json!("10.0.0.9");
    spec["clusterIPs"] = json!(["10.0.0.9"]);
    spec["ipFamilies"] = json!(["IPv4"]);
    spec["ipFamilyPolicy"] = json!("SingleStack");
    spec
}

fn with(mut spec: Value, name: &str, value: impl Into<Value>) -> Value {
    spec[name] = value.into();
    spec
}

/// The node ports that come of it, of which the lowest free one is the next, and what is freed; or why it cannot be.
fn outcome(rig: &mut Rig, before: Option<&Value>, after: &Value) -> String {
    match rig.decide(before, after) {
        Ok(decision) => {
            let ports: Vec<_> = decision.service.ports.iter().map(|port| port.on_nodes.to_string()).collect();
            let health = Some(decision.service.health_check).filter(|port| *port != 0);
            let health = health.map(|port| format!(" health {port}")).unwrap_or_default();
            let freed = Some(shown(&decision.freed)).filter(|freed| !freed.is_empty());
            format!("{}{health}{}", ports.join(","), freed.map(|freed| format!(" -{freed}")).unwrap_or_default())
        }
        Err(refusal) => said(&refusal),
    }
}

fn created(after: &Value) -> String {
    let held = there(spec("NodePort", &[(1, "TCP", 30_007)]));
    outcome(&mut Rig::new("4").holds(&with(held, "clusterIPs", json!(["10.0.0.3"]))), None, after)
}

fn updated(before: Value, after: Value) -> String {
    let (before, after) = (there(before), there(after));
    outcome(&mut Rig::new("4").holds(&before), Some(&before), &after)
}

#[test]
fn a_new_service_gets_what_it_names_and_any_for_the_rest() {
    for (after, expected) in [
        (spec("ClusterIP", &[(80, "TCP", 0)]), "0"),
        (spec("NodePort", &[(80, "TCP", 0)]), "30000"),
        (spec("NodePort", &[(80, "TCP", 0), (81, "TCP", 0)]), "30000,30001"),
        (spec("NodePort", &[(53, "TCP", 0), (53, "UDP", 0)]), "30000,30000"),
        (spec("NodePort", &[(53, "TCP", 0), (53, "UDP", 30_005)]), "30005,30005"),
        (spec("NodePort", &[(53, "TCP", 30_004), (53, "UDP", 30_005)]), "30004,30005"),
        // What is named further down is not picked before.
        (spec("NodePort", &[(80, "TCP", 0), (81, "TCP", 30_000)]), "30001,30000"),
        (spec("LoadBalancer", &[(80, "TCP", 0)]), "30000"),
        (
            with(spec("LoadBalancer", &[(80, "TCP", 0), (81, "TCP", 30_002)]), "allocateLoadBalancerNodePorts", false),
            "0,30002",
        ),
        (spec("ExternalName", &[(80, "TCP", 30_007)]), "30007"),
    ] {
        assert_eq!(created(&after), expected, "{after}");
    }
}

#[test]
fn a_port_that_cannot_be_had_is_refused_in_the_words_that_clients_know() {
    let field =
        |index: usize, port: i64, why: &str| format!("spec.ports[{index}].nodePort: Invalid value: {port}: {why}");
    for (after, expected) in [
        (spec("NodePort", &[(80, "TCP", 30_007)]), field(0, 30_007, TAKEN)),
        (spec("NodePort", &[(80, "TCP", 0), (81, "TCP", 30_007)]), field(1, 30_007, TAKEN)),
        (spec("NodePort", &[(80, "TCP", 99)]), field(0, 99, OUTSIDE)),
        (spec("NodePort", &[(80, "TCP", 70_000)]), field(0, 70_000, OUTSIDE)),
        (spec("NodePort", &[(80, "TCP", -1)]), field(0, -1, OUTSIDE)),
        (spec("NodePort", &[(80, "TCP", 30_001), (81, "TCP", 30_001)]), field(1, 30_001, TAKEN)),
        (spec("NodePort", &[(80, "TCP", 30_001), (81, "UDP", 30_001)]), field(1, 30_001, TAKEN)),
    ] {
        assert_eq!(created(&after), expected, "{after}");
    }
    let ten: Vec<_> = (0..10).map(|port| (port, "TCP", 0)).collect();
    assert_eq!(created(&spec("NodePort", &ten)), "500: failed to allocate a nodePort: range is full");
}

#[test]
fn node_ports_come_and_go_with_the_type_and_the_ports() {
    let one = || spec("NodePort", &[(80, "TCP", 30_003)]);
    for (before, after, expected) in [
        (one(), one(), "30003"),
        (one(), spec("ClusterIP", &[(80, "TCP", 0)]), "0 -30003"),
        (one(), spec("LoadBalancer", &[(80, "TCP", 30_003)]), "30003"),
        (one(), spec("NodePort", &[(80, "TCP", 30_004)]), "30004 -30003"),
        (one(), spec("NodePort", &[(80, "TCP", 30_003), (81, "TCP", 0)]), "30003,30000"),
        (one(), spec("NodePort", &[(80, "TCP", 30_003), (80, "UDP", 30_003)]), "30003,30003"),
        (one(), spec("NodePort", &[(80, "TCP", 30_005), (81, "UDP", 30_005)]), "30005,30005 -30003"),
        (spec("ClusterIP", &[(80, "TCP", 0)]), spec("NodePort", &[(80, "TCP", 0)]), "30000"),
        (one(), with(spec("LoadBalancer", &[(80, "TCP", 30_003)]), "allocateLoadBalancerNodePorts", false), "30003"),
        (one(), with(spec("LoadBalancer", &[(80, "TCP", 0)]), "allocateLoadBalancerNodePorts", false), "0 -30003"),
        (
            one(),
            spec("NodePort", &[(80, "TCP", 30_003), (81, "TCP", 30_003)]),
            "500 plain: duplicate nodePort: {TCP 30003}",
        ),
        (
            spec("NodePort", &[(80, "TCP", 30_001), (80, "UDP", 30_001)]),
            spec("NodePort", &[(80, "TCP", 30_001)]),
            "30001",
        ),
    ] {
        assert_eq!(updated(before.clone(), after.clone()), expected, "{before} -> {after}");
    }
}

#[test]
fn the_check_of_health_has_a_port_as_long_as_there_is_one() {
    let local = |health: i64| {
        let balanced = with(spec("LoadBalancer", &[(80, "TCP", 30_003)]), "externalTrafficPolicy", "Local");
        with(balanced, "healthCheckNodePort", health)
    };
    let cluster = || with(spec("LoadBalancer", &[(80, "TCP", 30_003)]), "externalTrafficPolicy", "Cluster");
    assert_eq!(created(&local(0)), "30003 health 30000");
    assert_eq!(created(&local(30_005)), "30003 health 30005");
    let failed = |port: i64, why: &str| format!("500: failed to allocate requested HealthCheck NodePort {port}: {why}");
    assert_eq!(created(&local(30_007)), failed(30_007, TAKEN));
    assert_eq!(created(&local(30_003)), failed(30_003, TAKEN));
    assert_eq!(created(&local(99)), failed(99, OUTSIDE));
    assert_eq!(updated(cluster(), local(0)), "30003 health 30000");
    assert_eq!(updated(local(30_005), local(30_005)), "30003 health 30005");
    assert_eq!(updated(local(30_005), cluster()), "30003 -30005");
    assert_eq!(updated(local(30_005), spec("ClusterIP", &[(80, "TCP", 0)])), "0 -30003 30005");
    // What was restored may say one twice.
    assert_eq!(updated(local(30_003), cluster()), "30003");
    assert_eq!(updated(local(30_003), spec("ClusterIP", &[(80, "TCP", 0)])), "0 -30003");
}

/// What is picked takes the lowest free one, which here is what is named for the check of health.
#[test]
fn a_port_that_is_named_for_the_check_of_health_is_not_picked_for_anything_else() {
    let balanced = |ports: &[(i64, &str, i64)], health: i64| {
        let local = with(spec("LoadBalancer", ports), "externalTrafficPolicy", "Local");
        there(with(local, "healthCheckNodePort", health))
    };
    let before = there(spec("ClusterIP", &[(80, "TCP", 0)]));
    let last_free = |free: u16| {
        let mut rig = Rig::new("4");
        (30_000..30_010 - free).for_each(|port| rig.pools.ports.adopt(port).unwrap());
        rig
    };
    let full = "500: failed to allocate a nodePort: range is full";
    let no_health = "500: failed to allocate a HealthCheck NodePort 0: range is full";
    let twice = format!("500: failed to allocate requested HealthCheck NodePort 30008: {TAKEN}");
    for (free, after, expected) in [
        (2, balanced(&[(80, "TCP", 0)], 30_008), "30009 health 30008"),
        (3, balanced(&[(80, "TCP", 0), (81, "TCP", 30_007)], 30_008), "30009,30007 health 30008"),
        (2, balanced(&[(80, "TCP", 30_008)], 30_009), "30008 health 30009"),
        (2, balanced(&[(80, "TCP", 30_008)], 30_008), &twice),
        (2, balanced(&[(80, "TCP", 0)], 0), "30008 health 30009"),
        (1, balanced(&[(80, "TCP", 0)], 30_009), full),
        (1, balanced(&[(80, "TCP", 30_009)], 0), no_health),
    ] {
        for before in [None, Some(&before)] {
            let mut rig = last_free(free);
            if before.is_none() {
                let mut after = after.clone();
                // The address is asked for again.
                after.as_object_mut().unwrap().retain(|name, _| !name.starts_with("clusterIP"));
                assert_eq!(outcome(&mut rig, None, &after), expected, "{after}");
            } else {
                assert_eq!(outcome(&mut rig, before, &after), expected, "{after}");
            }
            rig.pools.ports.audit().unwrap();
        }
    }
}

/// Upstream's K3 and K4: an `ExternalName` may say a node port, and nobody looks at it until it is taken for a port that it has.
#[test]
fn k3_k4_what_a_mere_name_says_of_node_ports_was_never_given_to_it() {
    let name = spec("ExternalName", &[(80, "TCP", 30_007)]);
    assert!(
        super::held(&super::Service::read_stored(&api::Object::from_value(json!({"spec": name})).unwrap())).is_empty()
    );
    let field = |port: i64, why: &str| format!("spec.ports[0].nodePort: Invalid value: {port}: {why}");
    let mut rig = Rig::new("4");
    rig.pools.ports.adopt(30_007).unwrap();
    let asked = spec("NodePort", &[(80, "TCP", 30_007)]);
    assert_eq!(outcome(&mut rig, Some(&name), &asked), field(30_007, TAKEN));
    let name = spec("ExternalName", &[(80, "TCP", 99)]);
    assert_eq!(outcome(&mut rig, Some(&name), &spec("NodePort", &[(80, "TCP", 99)])), field(99, OUTSIDE));
}
