//! What a server takes for a `ClusterCIDR` and what it refuses, as a built-in kind of ours and as a custom resource of any server: the
//! peers' tables, and every way to change a range that is in use.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Case;
use super::cluster::{Cluster, LIMIT, RANGES, cut, cut_for, range};
use crate::e2e::method::Method;

pub(super) const CASES: &[Case] = &[
    Case { name: "ranges that nodes can be served from are taken", run: taken },
    Case { name: "ranges that could never serve a node are refused", run: refused },
    Case { name: "nothing that blocks are cut by comes or goes", run: frozen },
    Case { name: "what only new nodes look at can be changed", run: changeable },
    Case { name: "ranges are shown with their sizes, also by their short name", run: shown },
];

/// A range for nodes with a label, with that term in its selector.
fn selecting(expression: &Value) -> Value {
    let mut spec = cut(8, "10.0.0.0/16");
    spec["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
    spec
}

fn taken(cluster: &mut Cluster) -> Result<()> {
    let six = |bits, range: &str| cut_for(bits, range, &[("foo", "bar")]);
    for (number, spec) in [
        six(8, "10.0.0.0/16"),
        six(16, "10.0.0.0/16"),
        six(4, "10.0.0.0/16"),
        six(8, "fd00::/64"),
        six(64, "fd00::/64"),
        six(4, "fd00::/64"),
        six(100, "fd00::/16"),
        six(8, "10.0.0.0/16,fd00::/64"),
        cut(8, "10.0.0.0/16,fd00::/64"),
        // The example of KEP-2593.
        cut(10, "10.0.0.0/20,fd12:3456:789a:1::/64"),
        selecting(&json!({"key": "a", "operator": "Exists"})),
        selecting(&json!({"key": "a", "operator": "Gt", "values": ["5"]})),
    ]
    .iter()
    .enumerate()
    {
        let (code, said) = cluster.ask(Method::Post, RANGES, Some(&range(&format!("taken-{number}"), spec)))?;
        ensure!(code == 201, "{spec}: {code} {said}");
        cluster.delete_range(&format!("taken-{number}"))?;
        cluster.until_range_gone(&format!("taken-{number}"), LIMIT)?;
    }
    Ok(())
}

fn refused(cluster: &mut Cluster) -> Result<()> {
    let no_terms = |terms: Value| {
        let mut spec = cut(8, "10.0.0.0/16");
        spec["nodeSelector"] = terms;
        spec
    };
    for (spec, text) in [
        (json!({"perNodeHostBits": 8}), "A CIDR must be specified"),
        (json!({"ipv4": "10.0.0.0/16"}), "perNodeHostBits"),
        (cut(8, "test"), "valid IPv4 CIDR"),
        (cut(8, "test:v6"), "valid IPv6 CIDR"),
        (json!({"perNodeHostBits": 8, "ipv6": "10.0.0.0/16"}), "valid IPv6 CIDR"),
        (json!({"perNodeHostBits": 8, "ipv4": "fd00::/64"}), "valid IPv4 CIDR"),
        (json!({"perNodeHostBits": 8, "ipv4": "10.0.0.0/16", "ipv6": "testv6"}), "valid IPv6 CIDR"),
        (json!({"perNodeHostBits": 8, "ipv4": "testv4", "ipv6": "fd00::/64"}), "valid IPv4 CIDR"),
        (cut(100, "10.0.0.0/16"), "less than or equal to"),
        (cut(24, "10.0.0.0/16,fd00::/64"), "less than or equal to"),
        (cut(12, "fd00::/120"), "less than or equal to"),
        (cut(2, "10.0.0.0/16"), "greater than or equal to 4"),
        (cut(3, "fd00::/64"), "greater than or equal to 4"),
        (json!({"perNodeHostBits": -1, "ipv4": "10.0.0.0/16"}), "greater than or equal to 4"),
        (selecting(&json!({"key": "NoUppercaseOrSpecialCharsLike=Equals", "operator": "In", "values": ["bar"]})), ""),
        (selecting(&json!({"key": "a", "operator": "Like", "values": ["b"]})), ""),
        (selecting(&json!({"key": "a", "operator": "In"})), ""),
        (selecting(&json!({"key": "a", "operator": "Exists", "values": ["b"]})), ""),
        (selecting(&json!({"key": "a", "operator": "Gt", "values": ["1", "2"]})), ""),
        (selecting(&json!({"key": "a", "operator": "Gt", "values": ["many"]})), ""),
        (no_terms(json!({"nodeSelectorTerms": []})), ""),
        (no_terms(json!({})), ""),
    ] {
        let (code, said) = cluster.ask(Method::Post, RANGES, Some(&range("refused", &spec)))?;
        let message = said["message"].as_str().unwrap_or_default();
        ensure!(code == 422 && message.contains(text), "{spec}: {code} {message} {said}");
        ensure!(message.contains("spec"), "it does not say where: {message}");
    }
    Ok(())
}

fn frozen(cluster: &mut Cluster) -> Result<()> {
    let selector =
        |key: &str| json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]});
    let mut all = cut(8, "10.0.0.0/16,fd00::/64");
    all["nodeSelector"] = selector("a");
    cluster.ready_range("whole", &all)?;
    cluster.ready_range("v4", &cut(8, "10.0.0.0/16"))?;
    cluster.ready_range("v6", &cut(8, "fd00::/64"))?;
    for (name, patch) in [
        ("whole", json!({"ipv4": "10.1.0.0/16"})),
        ("whole", json!({"ipv6": "fd01::/64"})),
        ("whole", json!({"perNodeHostBits": 9})),
        ("whole", json!({"nodeSelector": null})),
        ("whole", json!({"nodeSelector": selector("b")})),
        ("whole", json!({"ipv4": null})),
        ("whole", json!({"ipv6": null})),
        ("v4", json!({"ipv6": "fd00::/64"})),
        ("v6", json!({"ipv4": "10.0.0.0/16"})),
        ("v4", json!({"nodeSelector": selector("a")})),
        ("v4", json!({"perNodeHostBitsIPv4": 7})),
    ] {
        let (code, said) = cluster.ask(Method::Merge, &format!("{RANGES}/{name}"), Some(&json!({"spec": patch})))?;
        let message = said["message"].as_str().unwrap_or_default();
        ensure!(code == 422 && message.contains("cannot be changed."), "{name} {patch}: {code} {said}");
    }
    cluster.change(&format!("{RANGES}/whole"), &json!({"metadata": {"labels": {"a": "b"}}})).map(drop)
}

fn changeable(cluster: &mut Cluster) -> Result<()> {
    cluster.ready_range("open", &cut(8, "10.0.0.0/16,fd00::/48"))?;
    for patch in [
        json!({"priority": 5}),
        json!({"suspend": true}),
        json!({"exclude": ["10.0.0.0/24"]}),
        json!({"sizing": {"from": "PodCapacity"}}),
        json!({"requiredNodeLabels": ["topology.kubernetes.io/zone"]}),
        json!({"primaryFamily": "IPv6"}),
    ] {
        cluster.change(&format!("{RANGES}/open"), &json!({"spec": patch}))?;
    }
    Ok(())
}

fn shown(cluster: &mut Cluster) -> Result<()> {
    cluster.ready_range("shown", &cut_for(8, "10.0.0.0/16", &[("zone", "a")]))?;
    cluster.until_status("shown", "how much is left", |status| {
        let accepted = |condition: &Value| condition["type"] == "Accepted" && condition["status"] == "True";
        let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        status["ipv4"]["capacity"] == 256 && status["ipv4"]["free"] == 256 && conditions.iter().any(accepted)
    })?;
    let resources = cluster.get("/apis/networking.x-k8s.io/v1")?.context("the group is not there")?;
    let kinds = resources["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    let kind = kinds.iter().find(|kind| kind["name"] == "clustercidrs").context("the kind is not there")?;
    ensure!(kind["shortNames"] == json!(["cc"]) && kind["namespaced"] == false, "{kind}");
    Ok(())
}
