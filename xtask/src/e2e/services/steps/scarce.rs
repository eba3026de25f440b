//! Writes of Services in a cluster that has room for a few: most of the time some range is full. Nothing is named, because each server
//! picks what it likes, and what one has left to be named the other has not; how many there are left is the same on both.
//!
//! No Service gains a family: the real server can lose the address of one that does, and had then more left than ours.

use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

use super::{About, Step, USUAL};
use crate::e2e::method::Method;

/// More than there are addresses.
const NAMES: u64 = 12;

pub(super) fn choose(random: &mut Seeded) -> Step {
    use Method::{Delete, Edit, Merge, Post, Strategic};
    let method = random
        .one_of(&[Post, Post, Post, Post, Post, Post, Post, Edit, Merge, Merge, Strategic, Delete, Delete, Delete]);
    let name = format!("s{}", random.below(NAMES));
    let body = match method {
        Delete => Value::Null,
        Post => json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec(random)}),
        _ => json!({"spec": change(random)}),
    };
    let (about, namespace, version) = (About::Service, USUAL, "v1");
    Step { about, method, version, namespace, name, part: "", query: "", body }
}

fn spec(random: &mut Seeded) -> Value {
    let kind =
        random.one_of(&["ClusterIP", "ClusterIP", "ClusterIP", "NodePort", "NodePort", "LoadBalancer", "ExternalName"]);
    if kind == "ExternalName" {
        return json!({"type": kind, "externalName": "a.b"});
    }
    let mut spec = json!({"type": kind, "ports": ports(random)});
    match random.below(8) {
        0 if kind == "ClusterIP" => spec["clusterIP"] = json!("None"),
        1 => spec["ipFamilies"] = json!(["IPv6"]),
        2 => spec["ipFamilyPolicy"] = json!("PreferDualStack"),
        3 => {
            spec["ipFamilies"] = json!(random.one_of(&[["IPv4", "IPv6"], ["IPv6", "IPv4"]]));
            spec["ipFamilyPolicy"] = json!("RequireDualStack");
        }
        _ => {}
    }
    if kind == "LoadBalancer" {
        if random.below(3) == 0 {
            spec["allocateLoadBalancerNodePorts"] = json!(false);
        }
        if random.below(2) == 0 {
            spec["externalTrafficPolicy"] = json!("Local");
        }
    }
    spec
}

/// One port or two, or one number for two protocols.
fn ports(random: &mut Seeded) -> Value {
    match random.below(5) {
        0 => json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]),
        1 => json!([{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}]),
        _ => json!([{"name": "a", "port": 80}]),
    }
}

/// What needs more of something, or gives it up.
fn change(random: &mut Seeded) -> Value {
    match random.below(6) {
        0 => json!({"type": "ExternalName", "externalName": "a.b"}),
        1 => json!({"ports": ports(random)}),
        2 => json!({"externalTrafficPolicy": random.one_of(&["Local", "Cluster"])}),
        _ => {
            let kind = random.one_of(&["ClusterIP", "NodePort", "LoadBalancer"]);
            let mut change = json!({"type": kind, "externalName": null});
            if random.below(2) == 0 {
                change["ports"] = ports(random);
            }
            change
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::shown;
    use super::*;

    #[test]
    fn nothing_is_named_where_each_server_has_something_else_left() {
        let (picked, mut random) = (shown::picked().unwrap(), Seeded::new(1));
        for _ in 0..2000 {
            let step = choose(&mut random);
            assert!(!picked.is_match(&step.body.to_string()), "{step}");
        }
    }
}
