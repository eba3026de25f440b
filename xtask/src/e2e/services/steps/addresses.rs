//! Writes of addresses by hand: those that Services name as well, so that they are in each other's way.
//!
//! Those that are made and say that they are looked after like those of Services are removed at once, on both sides: nobody has them,
//! so each server sweeps them away after a while, and each has its own while. Nothing is changed to say that.

use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

use super::super::holdings::{MANAGER, OWN};
use super::services::{V4, V6};
use super::{About, FINALIZER, Step, metadata, metadata_patch, some};
use crate::e2e::method::Method;

/// Names that are no addresses, or are not written as they should be; and some that no range has.
const ODD: [&str; 10] = [
    "10.96.0.02",
    "fd00:96::0a",
    "FD00:96::A",
    "fd00:96:0::a",
    "::ffff:10.96.0.9",
    "10.96.0.9/32",
    "wrong",
    "10.96.0",
    "192.0.2.7",
    "2001:db8::7",
];

pub(super) fn choose(random: &mut Seeded) -> Step {
    use Method::{Apply, Delete, Edit, Json, Merge, Post, Put, Strategic};
    let method = random.one_of(&[
        Post, Post, Post, Post, Post, Put, Edit, Merge, Merge, Strategic, Json, Apply, Delete, Delete, Delete,
    ]);
    let version = random.one_of(&["v1", "v1", "v1", "v1beta1"]);
    let name = match random.below(5) {
        0 => random.one_of(&ODD),
        1 | 2 => random.one_of(&V6),
        _ => random.one_of(&V4),
    };
    let name = name.replace('/', "%2F");
    let mut query = "";
    let body = match method {
        Post | Put | Apply => {
            query = match method {
                Apply => "force=true",
                _ => some(random, 10, &["dryRun=All"]).unwrap_or_default(),
            };
            let name = name.replace("%2F", "/");
            let mut body = json!({
                "apiVersion": format!("networking.k8s.io/{version}"), "kind": "IPAddress",
                "metadata": metadata(random, &name), "spec": {"parentRef": parent(random)},
            });
            if random.below(8) == 0 {
                let manager = if method == Post { random.one_of(&["example.com", OWN]) } else { "example.com" };
                body["metadata"]["labels"][MANAGER] = json!(manager);
            }
            if random.below(16) == 0 {
                body["spec"] = json!({});
            }
            body
        }
        Delete if random.below(8) == 0 => {
            query = "labelSelector=example.com/together%3Dyes";
            return Step {
                about: About::Address,
                method,
                version,
                namespace: "",
                name: String::new(),
                part: "",
                query,
                body: Value::Null,
            };
        }
        Delete => {
            query = some(random, 6, &["dryRun=All", "propagationPolicy=Background"]).unwrap_or_default();
            Value::Null
        }
        Json => json!([{"op": "replace", "path": "/spec/parentRef/name", "value": random.one_of(&["s1", "other"])}]),
        _ => patch(random),
    };
    Step { about: About::Address, method, version, namespace: "", name, part: "", query, body }
}

/// Who has it: somebody, or nobody that could be.
fn parent(random: &mut Seeded) -> Value {
    match random.below(8) {
        0 => json!({"resource": "services", "namespace": "default", "name": "s1"}),
        1 => json!({"group": "", "resource": "services", "namespace": "elsewhere", "name": "nobody"}),
        2 => json!({"group": "Not_A_Group", "resource": "gateways", "name": "g"}),
        3 => json!({"group": "gateway.networking.k8s.io", "resource": "gate/ways", "namespace": "..", "name": "%"}),
        4 => random_part(random),
        _ => {
            json!({"group": "gateway.networking.k8s.io", "resource": "gateways", "namespace": "default", "name": "g"})
        }
    }
}

fn random_part(random: &mut Seeded) -> Value {
    match random.below(3) {
        0 => json!({"resource": "services"}),
        1 => json!({"name": "a"}),
        _ => json!({}),
    }
}

/// A change of something that is there.
fn patch(random: &mut Seeded) -> Value {
    match random.below(8) {
        0 => json!({"spec": {"parentRef": {"name": "other"}}}),
        1 => json!({"spec": {"parentRef": null}}),
        2 => json!({"spec": {"parentRef": {"group": "example.com"}}}),
        3 => json!({"metadata": {"finalizers": [FINALIZER]}}),
        4 => {
            json!({"metadata": {"labels": {MANAGER: random.one_of(&[None, Some("example.com")])}}})
        }
        _ => json!({"metadata": metadata_patch(random)}),
    }
}
