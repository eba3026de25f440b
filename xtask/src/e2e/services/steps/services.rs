//! Writes of Services.
//!
//! Addresses and ports that are named come from the low end of their ranges, from where nothing is picked at random.

use serde_json::{Map, Value, json};
use testkit::choices::{Choices, Seeded};

use super::{About, Step, deletes, metadata, metadata_patch, namespace_of, some, statuses};
use crate::e2e::method::Method;

/// Few enough that most writes find something there.
const NAMES: u64 = 12;
/// And those of the other namespace.
const OTHER_NAMES: u64 = 3;

/// The addresses that are named; some are had only while there are ranges that have them, and the last ones never.
pub(in super::super) const V4: [&str; 13] = [
    "10.96.0.2",
    "10.96.0.3",
    "10.96.0.4",
    "10.96.0.5",
    "10.96.0.6",
    "10.96.0.7",
    "10.96.0.8",
    "10.98.0.2",
    "10.98.0.3",
    "10.99.0.2",
    "10.96.0.0",
    "10.96.255.255",
    "192.0.2.1",
];
pub(in super::super) const V6: [&str; 12] = [
    "fd00:96::2",
    "fd00:96::3",
    "fd00:96::4",
    "fd00:96::5",
    "fd00:96::6",
    "fd00:96::7",
    "fd00:98::2",
    "fd00:98::3",
    "fd00:99::2",
    "FD00:96::0A",
    "fd00:96::",
    "fd00:97::1",
];
/// The ports that Services name; the last ones cannot be had.
pub(in super::super) const PORTS: [i64; 10] = [30_000, 30_001, 30_002, 30_003, 30_004, 30_005, 30_006, 99, 70_000, -1];

/// Any write.
pub(super) fn choose(random: &mut Seeded) -> Step {
    use Method::{Apply, Delete, Edit, Json, Merge, Post, Put, Strategic};
    let method = random.one_of(&[
        Post, Post, Post, Post, Post, Put, Put, Edit, Edit, Edit, Edit, Merge, Merge, Merge, Merge, Strategic,
        Strategic, Json, Apply, Delete, Delete,
    ]);
    if method == Delete {
        return deletes::choose(random);
    }
    let (namespace, name) = name(random);
    let (part, body) = match method {
        Post | Put | Apply => whole(random, method, &name),
        Edit if random.below(4) == 0 => ("status", json!({"status": statuses::status(random)})),
        Edit => ("", json!({"spec": edit(random)})),
        Json if random.below(3) == 0 => ("status", statuses::json_patch(random)),
        Json => ("", json_patch(random)),
        _ => match random.below(16) {
            0 | 1 => (random.one_of(&["", "status"]), json!({"metadata": {"finalizers": null}})),
            2 => ("", json!({"metadata": metadata_patch(random)})),
            3..=5 => {
                let mut body = json!({"status": statuses::status(random)});
                if random.below(4) == 0 {
                    body["spec"] = json!({"type": random.one_of(&["ClusterIP", "LoadBalancer"])});
                }
                (random.one_of(&["status", "status", "status", ""]), body)
            }
            _ => ("", patch(random)),
        },
    };
    let query = match (method == Apply, random.below(8) == 0) {
        (true, true) => "force=true&dryRun=All",
        (true, false) => "force=true",
        (false, true) => "dryRun=All",
        (false, false) => "",
    };
    Step { about: About::Service, method, version: "v1", namespace, name, part, query, body }
}

/// A namespace, and the name of a Service there.
pub(super) fn name(random: &mut Seeded) -> (&'static str, String) {
    let name = match random.below(8) {
        0 => format!("o{}", random.below(OTHER_NAMES)),
        _ => format!("s{}", random.below(NAMES)),
    };
    (namespace_of(&name), name)
}

/// A Service from beginning to end, or its status; and which part of it that is. What is said of the status of the whole counts for
/// nothing.
fn whole(random: &mut Seeded, method: Method, name: &str) -> (&'static str, Value) {
    let mut body = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}});
    if method == Method::Apply && random.below(4) == 0 {
        body["status"] = statuses::status(random);
        return ("status", body);
    }
    body["metadata"] = metadata(random, name);
    body["spec"] = spec(random);
    if random.below(16) == 0 {
        body["status"] = statuses::status(random);
    }
    ("", body)
}

fn address(random: &mut Seeded) -> &'static str {
    if random.below(2) == 0 { random.one_of(&V4) } else { random.one_of(&V6) }
}

fn ports(random: &mut Seeded, named: bool) -> Value {
    let count = random.one_of(&[1, 1, 1, 2, 2, 3]);
    let port = |index: usize, random: &mut Seeded| {
        let mut port = json!({"port": random.one_of(&[80, 81, 53, 443])});
        if count > 1 || random.below(3) == 0 {
            let own = ["a", "b", "c"][index];
            port["name"] = json!(some(random, 6, &["a", "b"]).unwrap_or(own));
        }
        if let Some(protocol) = some(random, 3, &["TCP", "UDP", "SCTP"]) {
            port["protocol"] = json!(protocol);
        }
        if named && let Some(on_nodes) = some(random, 3, &PORTS) {
            port["nodePort"] = json!(on_nodes);
        }
        port
    };
    (0..count).map(|index| port(index, random)).collect()
}

/// Any spec, right or wrong.
fn spec(random: &mut Seeded) -> Value {
    let kind =
        random.one_of(&["ClusterIP", "ClusterIP", "NodePort", "NodePort", "LoadBalancer", "ExternalName", "Other"]);
    let kind = if kind == "Other" && random.below(8) != 0 { "ClusterIP" } else { kind };
    let mut spec = json!({"type": kind});
    if kind == "ExternalName" {
        spec["externalName"] = json!("a.b");
        if random.below(2) == 0 {
            spec["ports"] = ports(random, false);
        }
        if random.below(16) == 0 {
            spec["clusterIP"] = json!(address(random));
        }
        return spec;
    }
    if random.below(20) != 0 {
        let named = kind != "ClusterIP" || random.below(10) == 0;
        spec["ports"] = ports(random, named);
    }
    match random.below(12) {
        0 => spec["clusterIP"] = json!("None"),
        1 | 2 => spec["clusterIP"] = json!(address(random)),
        3 => {
            let mut both = [random.one_of(&V4), random.one_of(&V6)];
            if random.below(2) == 0 {
                both.reverse();
            }
            spec["clusterIP"] = json!(both[0]);
            spec["clusterIPs"] = json!(both);
        }
        4 if random.below(4) == 0 => spec["clusterIPs"] = json!([address(random), address(random), address(random)]),
        5 if random.below(8) == 0 => spec["clusterIP"] = json!("wrong"),
        _ => {}
    }
    let families: [&[&str]; 5] = [&["IPv4"], &["IPv6"], &["IPv4", "IPv6"], &["IPv6", "IPv4"], &["IPv4", "IPv4"]];
    if let Some(families) = some(random, 4, &families) {
        spec["ipFamilies"] = json!(families);
    }
    if let Some(policy) = some(random, 2, &["SingleStack", "PreferDualStack", "PreferDualStack", "RequireDualStack"]) {
        spec["ipFamilyPolicy"] = json!(policy);
    }
    if random.below(2) == 0 {
        spec["selector"] = json!({"a": "b"});
    }
    if kind == "LoadBalancer" {
        if let Some(allocate) = some(random, 3, &[true, false]) {
            spec["allocateLoadBalancerNodePorts"] = json!(allocate);
        }
        if let Some(port) = some(random, 4, &PORTS) {
            spec["healthCheckNodePort"] = json!(port);
        }
        if random.below(10) == 0 {
            spec["loadBalancerClass"] = json!("a/b");
        }
    }
    if random.below(if kind == "LoadBalancer" { 2 } else { 16 }) == 0 {
        spec["externalTrafficPolicy"] = json!("Local");
    }
    if random.below(16) == 0 {
        spec["externalIPs"] = json!(["1.2.3.4"]);
    }
    traffic(random, &mut spec);
    spec
}

/// What is said of where traffic goes and comes from, right or wrong.
fn traffic(random: &mut Seeded, spec: &mut Value) {
    if let Some(affinity) = some(random, 8, &["ClientIP", "ClientIP", "ClientIP", "None"]) {
        spec["sessionAffinity"] = json!(affinity);
        if let Some(seconds) = some(random, 2, &[10, 86_400, 10, 0, 86_401]) {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": seconds}});
        }
    }
    if let Some(policy) = some(random, 8, &["Local", "Cluster"]) {
        spec["internalTrafficPolicy"] = json!(policy);
    }
    if let Some((field, value)) =
        some(random, 48, &[("sessionAffinity", "Other"), ("internalTrafficPolicy", "Other"), ("sessionAffinity", "")])
    {
        spec[field] = json!(value);
    }
    let one_in = if spec["type"] == "LoadBalancer" { 4 } else { 48 };
    if let Some(ranges) = some(
        random,
        one_in,
        &[["10.0.0.0/8", "2001:db8::/32"], ["10.0.0.0/8", " 192.0.2.0/24"], ["192.0.2.0/24", "wrong"]],
    ) {
        spec["loadBalancerSourceRanges"] = json!(ranges);
    }
}

/// A few fields of any spec, and some that go.
fn patch(random: &mut Seeded) -> Value {
    let Value::Object(all) = spec(random) else { return Value::Null };
    let mut fields: Map<String, Value> = all.into_iter().filter(|_| random.below(3) == 0).collect();
    if random.below(3) == 0 {
        fields.insert("externalName".to_owned(), random.one_of(&[None, Some("a.b")]).into());
    }
    if let Some(name) =
        some(random, 8, &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"])
    {
        fields.insert(name.to_owned(), Value::Null);
    }
    json!({"spec": fields})
}

/// The same field by field, for a JSON patch; or the number of a port.
fn json_patch(random: &mut Seeded) -> Value {
    if random.below(4) == 0 {
        let number = random.one_of(&PORTS);
        return json!([{"op": "add", "path": "/spec/ports/0/nodePort", "value": number}]);
    }
    let fields = patch(random);
    let ops = fields["spec"].as_object().into_iter().flatten().map(|(field, value)| {
        let path = format!("/spec/{field}");
        if value.is_null() {
            json!({"op": "remove", "path": path})
        } else {
            json!({"op": "add", "path": path, "value": value})
        }
    });
    ops.collect()
}

/// What people do to a Service that they have in front of them.
fn edit(random: &mut Seeded) -> Value {
    match random.below(8) {
        0 => json!({}),
        1 => json!({"clusterIP": null, "clusterIPs": null}),
        2 => json!({"externalTrafficPolicy": random.one_of(&["Local", "Cluster"])}),
        3 => json!({"ports": ports(random, true)}),
        4 => json!({"type": "ExternalName", "externalName": "a.b"}),
        5 => json!({"type": random.one_of(&["ClusterIP", "NodePort", "LoadBalancer"])}),
        _ => json!({"ipFamilyPolicy": random.one_of(&["SingleStack", "PreferDualStack", "RequireDualStack"])}),
    }
}
