//! Writes of ranges. They have the low ends in common from which addresses are named, so that an address can be in several of them.

use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

use super::{About, FINALIZER, Step, TOGETHER, metadata, metadata_patch, some};
use crate::e2e::method::Method;

/// Few enough that most writes find something there.
const NAMES: u64 = 5;
/// The range that the cluster was started with; it stays.
const FIRST: &str = "kubernetes";

const V4: [&str; 4] = ["10.98.0.0/24", "10.98.0.0/25", "10.99.0.0/24", "10.96.0.0/24"];
const V6: [&str; 4] = ["fd00:98::/112", "fd00:98::/120", "fd00:99::/64", "fd00:96::/120"];
/// They can never give an address.
const USELESS: [&str; 3] = ["10.97.0.0/31", "10.97.0.4/32", "fd00:97::/48"];
const WRONG: [&str; 9] = [
    "10.98.0.1/24",
    "10.098.0.0/24",
    "10.98.0.0/024",
    "10.98.0.0",
    "FD00:98::/112",
    "fd00:98:0::/112",
    "::ffff:10.98.0.0/120",
    "wrong",
    "",
];

pub(super) fn choose(random: &mut Seeded) -> Step {
    use Method::{Apply, Delete, Edit, Json, Merge, Post, Put, Strategic};
    let method = random.one_of(&[
        Post, Post, Post, Post, Post, Post, Put, Edit, Edit, Merge, Merge, Merge, Strategic, Strategic, Json, Apply,
        Apply, Delete, Delete,
    ]);
    let version = random.one_of(&["v1", "v1", "v1", "v1beta1"]);
    let own = format!("r{}", random.below(NAMES));
    let may_be_first = matches!(method, Edit | Merge | Strategic) && random.below(6) == 0;
    let name = if may_be_first { FIRST.to_owned() } else { own };
    let (mut part, mut query) = ("", "");
    let body = match method {
        Post | Put | Apply => {
            if method == Apply && random.below(3) == 0 {
                part = "status";
            }
            query = match method {
                Apply => random.one_of(&["force=true", "force=true", "force=true", ""]),
                _ => some(random, 10, &["dryRun=All"]).unwrap_or_default(),
            };
            let mut body = json!({
                "apiVersion": format!("networking.k8s.io/{version}"), "kind": "ServiceCIDR", "metadata": {"name": name},
            });
            if part.is_empty() {
                body["metadata"] = metadata(random, &name);
                body["spec"] = json!({"cidrs": cidrs(random)});
            }
            if !part.is_empty() || random.below(10) == 0 {
                body["status"] = status(random);
            }
            body
        }
        Delete if random.below(6) == 0 => {
            query = "labelSelector=example.com/together%3Dyes";
            return Step {
                about: About::Range,
                method,
                version,
                namespace: "",
                name: String::new(),
                part,
                query,
                body: Value::Null,
            };
        }
        Delete => {
            query = some(random, 6, &["dryRun=All", "propagationPolicy=Background"]).unwrap_or_default();
            Value::Null
        }
        Json => json_patch(random),
        _ => {
            let body = patch(random, name == FIRST);
            if body.get("status").is_some() && random.below(4) != 0 {
                part = "status";
            }
            body
        }
    };
    Step { about: About::Range, method, version, namespace: "", name, part, query, body }
}

/// The ranges of one object, right or wrong.
fn cidrs(random: &mut Seeded) -> Value {
    let (v4, v6) = (random.one_of(&V4), random.one_of(&V6));
    match random.below(16) {
        0..=4 => json!([v4]),
        5..=7 => json!([v6]),
        8 | 9 => json!([v4, v6]),
        10 => json!([v6, v4]),
        11 => json!([random.one_of(&USELESS)]),
        12 => json!([random.one_of(&WRONG)]),
        13 => json!([v4, random.one_of(&WRONG)]),
        14 => json!([v4, random.one_of(&V4)]),
        _ if random.below(2) == 0 => json!([]),
        _ => json!([v4, v6, v4]),
    }
}

/// What people and programs say of a range, right or wrong.
fn status(random: &mut Seeded) -> Value {
    let time = "2026-01-02T03:04:05Z";
    match random.below(5) {
        0 => {
            json!({"conditions": [{"type": "Ready", "status": "False", "reason": "Mine", "message": "m", "lastTransitionTime": time}]})
        }
        1 => json!({"conditions": [{"type": "Ready", "status": "Maybe"}]}),
        2 => json!({"conditions": null}),
        _ => {
            json!({"conditions": [{"type": "example.com/Mine", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": time}]})
        }
    }
}

/// A change of something that is there. The first range of the cluster gets nothing that it could not lose again, and is not deleted
/// together with others.
fn patch(random: &mut Seeded, first: bool) -> Value {
    match random.below(8) {
        0 | 1 if !first => json!({"spec": {"cidrs": cidrs(random)}}),
        0 => json!({"spec": {"cidrs": [random.one_of(&WRONG)]}}),
        1 => json!({"spec": {"cidrs": null}}),
        2 => json!({"spec": {}}),
        3 | 4 => json!({"status": status(random)}),
        5 if !first => json!({"metadata": {"finalizers": [FINALIZER]}}),
        _ if first => {
            json!({"metadata": {"finalizers": null, "annotations": {"example.com/note": random.one_of(&["a", "b"])}}})
        }
        _ => json!({"metadata": metadata_patch(random)}),
    }
}

fn json_patch(random: &mut Seeded) -> Value {
    match random.below(4) {
        0 => json!([{"op": "replace", "path": "/spec/cidrs/0", "value": random.one_of(&V4)}]),
        1 => json!([{"op": "test", "path": "/spec/cidrs/0", "value": random.one_of(&V4)}]),
        2 => json!([{"op": "add", "path": "/metadata/labels", "value": {TOGETHER: "yes"}}]),
        _ => json!([{"op": "add", "path": "/spec/cidrs/-", "value": random.one_of(&V6)}]),
    }
}
