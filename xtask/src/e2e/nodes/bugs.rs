//! What goes wrong with the peers, each as a case that their behaviour fails. `crates/controllers/tests/node/bugs.rs` has the same of
//! the plan alone; here it is seen from outside, with a controller that is killed in between.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Case;
use super::cluster::{Cluster, LIMIT, NODES, PATIENCE, RANGES, Setup, cidrs_of, cut, cut_for, is_protected, node};
use crate::e2e::client::Client;
use crate::e2e::method::Method;

/// A range is as new although a case before had its addresses; [`rested`] has what happens otherwise.
pub(super) const FLAG: &str = "--pod-cidr-rest=1ms";

const SERVICE_RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";

pub(super) const CASES: &[Case] = &[
    Case { name: "a node keeps its block when its labels change, and gives it back (B1)", run: relabelled },
    Case { name: "a node that gets no IPv6 block keeps no IPv4 block (B2)", run: half_served },
    Case { name: "a range for all nodes that is being deleted serves nobody (B3)", run: default_terminates },
    Case {
        name: "a restart protects a range that is being deleted, and uses one that was changed (B4)",
        run: restarted,
    },
    Case { name: "an IPv6 range and a node of IPv4 get along (B5)", run: families },
    Case { name: "a node that is being deleted holds its block until it is gone (B7)", run: node_terminates },
    Case { name: "a node that was made again holds only its new block (B8)", run: made_again },
    Case { name: "an IPv6 range may have any number of blocks (B9)", run: large },
    Case { name: "two nodes in one block are both waited for (B10)", run: shared },
    Case { name: "a block that lies in two ranges leaves both with its node (B11)", run: twice_recorded },
    Case { name: "a range that lost its finalizer is not used, and one of its name is (B12)", run: stripped },
    Case { name: "a new range over blocks of nodes gives away none of them (B13)", run: over },
    Case { name: "a range is not used before its finalizer is stored (B14)", run: unprotected },
    Case { name: "a selector means what Kubernetes says (B15)", run: selectors },
    Case { name: "no node gets addresses of Services, whenever they came (B16)", run: services },
    Case { name: "two nodes with the same addresses are both told, and both keep them", run: duplicates },
    Case { name: "a block that no range has is kept and told", run: foreign },
    Case { name: "who waits is told once, with each range and its reason", run: told_once },
    Case { name: "a node that waits is served as soon as something could serve it", run: prompt },
    Case { name: "sizes, exclusions, priorities and required labels are heeded", run: extensions },
];

fn relabelled(cluster: &mut Cluster) -> Result<()> {
    cluster.ready_range("zone", &cut_for(8, "10.0.0.0/23", &[("zone", "a")]))?;
    cluster.make_node("n", &[("zone", "a")])?;
    cluster.until_has("n", "10.0.0.0/24", PATIENCE)?;
    cluster.relabel("n", &json!({"zone": "b"}))?;
    cluster.restart()?;
    cluster.make_node("m", &[("zone", "a")])?;
    cluster.until_has("m", "10.0.1.0/24", PATIENCE)?;
    cluster.delete_node("n")?;
    cluster.make_node("k", &[("zone", "a")])?;
    cluster.until_has("k", "10.0.0.0/24", LIMIT)?;
    cluster.delete_range("zone")?;
    cluster.delete_node("m")?;
    cluster.delete_node("k")?;
    cluster.until_range_gone("zone", LIMIT)
}

fn half_served(cluster: &mut Cluster) -> Result<()> {
    let dual = [("stack", "dual")];
    cluster.ready_range("dual", &cut_for(8, "10.0.0.0/16,fd00::/119", &dual))?;
    cluster.ready_range("single", &cut_for(8, "10.0.0.0/16", &[("stack", "single")]))?;
    cluster.make_node("a", &dual)?;
    cluster.make_node("b", &dual)?;
    cluster.until_served("a", PATIENCE)?;
    cluster.until_served("b", PATIENCE)?;
    cluster.make_node("c", &dual)?;
    cluster.until_refused("c", "dual:")?;
    for round in 0..20 {
        cluster.relabel("c", &json!({"round": round.to_string()}))?;
    }
    cluster.make_node("d", &[("stack", "single")])?;
    cluster.until_has("d", "10.0.2.0/24", PATIENCE)?;
    ensure!(cluster.cidrs("c")?.is_empty(), "c has {}", cluster.cidrs("c")?);
    let told = cluster.told("c", "CIDRNotAvailable")?;
    ensure!(told.len() == 1, "one cause is told once: {told:?}");
    cluster.delete_node("a")?;
    // Of IPv4 there are others than the one that was just given back.
    let cidrs = cluster.until_served("c", LIMIT)?;
    ensure!(cidrs.ends_with(",fd00::/120"), "c has {cidrs}");
    Ok(())
}

fn default_terminates(cluster: &mut Cluster) -> Result<()> {
    cluster.ready_range("all", &cut(8, "10.0.0.0/16"))?;
    cluster.served("n", &[])?;
    cluster.delete_range("all")?;
    cluster.make_node("m", &[])?;
    cluster.until_refused("m", "all: it is being deleted")?;
    cluster.make_range("next", &cut(8, "10.1.0.0/16"))?;
    cluster.until_has("m", "10.1.0.0/24", LIMIT)
}

fn restarted(cluster: &mut Cluster) -> Result<()> {
    cluster.ready_range("going", &cut(8, "10.0.0.0/16"))?;
    cluster.served("n", &[])?;
    cluster.delete_range("going")?;
    cluster.restart()?;
    cluster.settled()?;
    ensure!(cluster.range("going")?.is_some_and(|range| is_protected(&range)), "the range is gone with a node in it");
    cluster.ready_range("over", &cut(8, "10.0.0.0/16"))?;
    cluster.make_node("m", &[])?;
    cluster.until_has("m", "10.0.1.0/24", PATIENCE)?;
    cluster.delete_node("n")?;
    cluster.delete_node("m")?;
    cluster.until_range_gone("going", LIMIT)?;
    cluster.change(&format!("{RANGES}/over"), &json!({"spec": {"priority": 1}}))?;
    cluster.restart()?;
    cluster.served("k", &[]).map(drop)
}

fn families(cluster: &mut Cluster) -> Result<()> {
    cluster.make_served("n", &[], &["10.0.0.0/24"])?;
    cluster.ready_range("six", &cut(8, "fd00::/64"))?;
    cluster.make_node("m", &[])?;
    cluster.until_has("m", "fd00::/120", PATIENCE)?;
    cluster.restart()?;
    cluster.make_node("k", &[])?;
    cluster.until_has("k", "fd00::100/120", PATIENCE)
}

fn node_terminates(cluster: &mut Cluster) -> Result<()> {
    cluster.ready_range("r", &cut(8, "10.0.0.0/24"))?;
    let mut held = node("n", &[], &[]);
    held["metadata"]["finalizers"] = json!(["example.com/drain"]);
    cluster.make(NODES, &held)?;
    cluster.until_served("n", PATIENCE)?;
    cluster.delete_node("n")?;
    let marked = cluster.get(&format!("{NODES}/n"))?.context("it is gone")?;
    ensure!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    cluster.make_node("m", &[])?;
    cluster.until_refused("m", "r: ")?;
    cluster.delete_range("r")?;
    cluster.settled()?;
    ensure!(cluster.range("r")?.is_some(), "the range is gone with a node in it");
    cluster.change(&format!("{NODES}/n"), &json!({"metadata": {"finalizers": null}}))?;
    cluster.until_range_gone("r", LIMIT)?;
    ensure!(cluster.cidrs("m")?.is_empty(), "a range that is being deleted served a node");
    cluster.make_range("r", &cut(8, "10.0.0.0/24"))?;
    cluster.until_has("m", "10.0.0.0/24", LIMIT)
}

fn made_again(cluster: &mut Cluster) -> Result<()> {
    cluster.ready_range("r", &cut(8, "10.0.0.0/23"))?;
    cluster.served("n", &[])?;
    cluster.served("m", &[])?;
    // As fast as can be, and then while nobody looks.
    cluster.delete_node("n")?;
    cluster.make_served("n", &[], &["172.16.0.0/24"])?;
    cluster.make_node("k", &[])?;
    cluster.until_has("k", "10.0.0.0/24", LIMIT)?;
    let Ok(beside) = cluster.beside() else { return Ok(()) };
    let count = beside.kill()?;
    cluster.delete_node("k")?;
    cluster.make_served("k", &[], &["172.16.1.0/24"])?;
    cluster.make_node("l", &[])?;
    let beside = cluster.beside()?;
    (0..count).try_for_each(|_| beside.start_usual())?;
    cluster.until_has("l", "10.0.0.0/24", PATIENCE)
}

fn large(cluster: &mut Cluster) -> Result<()> {
    for (name, bits, range) in [("a", 8, "fd00:a::/48"), ("b", 64, "fd00:b::/32"), ("c", 4, "fc00::/16")] {
        cluster.make_range(name, &cut_for(bits, range, &[("range", name)]))?;
        cluster.make_node(name, &[("range", name)])?;
        let first = format!("{}/{}", range.split('/').next().unwrap_or_default(), 128 - bits);
        cluster.until_has(name, &first, LIMIT)?;
    }
    Ok(())
}

fn shared(cluster: &mut Cluster) -> Result<()> {
    cluster.make_served("low", &[], &["10.0.0.0/25"])?;
    cluster.make_served("high", &[], &["10.0.0.128/25"])?;
    cluster.ready_range("r", &cut(8, "10.0.0.0/23"))?;
    cluster.delete_node("low")?;
    cluster.make_node("n", &[])?;
    cluster.until_has("n", "10.0.1.0/24", PATIENCE)?;
    cluster.make_node("m", &[])?;
    cluster.until_refused("m", "r: ")?;
    cluster.delete_node("high")?;
    cluster.until_has("m", "10.0.0.0/24", LIMIT)
}

fn twice_recorded(cluster: &mut Cluster) -> Result<()> {
    let zone = [("zone", "a")];
    cluster.ready_range("wide", &cut(8, "10.0.0.0/22"))?;
    cluster.make_node("n", &zone)?;
    cluster.until_has("n", "10.0.0.0/24", PATIENCE)?;
    cluster.ready_range("better", &cut_for(8, "10.0.0.0/23", &zone))?;
    cluster.relabel("n", &json!({"x": "y"}))?;
    cluster.delete_node("n")?;
    for number in 0..4 {
        cluster.make_node(&format!("n{number}"), &zone)?;
    }
    let mut blocks = (0..4).map(|n| cluster.until_served(&format!("n{n}"), PATIENCE)).collect::<Result<Vec<_>>>()?;
    blocks.sort();
    ensure!(blocks == ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"], "{blocks:?}");
    cluster.make_node("n4", &zone)?;
    cluster.until_refused("n4", "better: ")?;
    for number in 0..5 {
        cluster.delete_node(&format!("n{number}"))?;
    }
    for range in ["better", "wide"] {
        cluster.delete_range(range)?;
        cluster.until_range_gone(range, LIMIT)?;
    }
    Ok(())
}

fn stripped(cluster: &mut Cluster) -> Result<()> {
    cluster.ready_range("r", &cut(8, "10.0.0.0/16"))?;
    cluster.served("n", &[])?;
    cluster.delete_range("r")?;
    cluster.change(&format!("{RANGES}/r"), &json!({"metadata": {"finalizers": null}}))?;
    cluster.until_range_gone("r", LIMIT)?;
    cluster.make_node("m", &[])?;
    cluster.until_refused("m", "no ClusterCIDR")?;
    cluster.make_range("r", &cut(8, "10.0.0.0/16"))?;
    cluster.until_has("m", "10.0.1.0/24", LIMIT)?;
    cluster.delete_range("r")?;
    cluster.settled()?;
    ensure!(cluster.range("r")?.is_some(), "the new range is gone with nodes in it");
    Ok(())
}

fn over(cluster: &mut Cluster) -> Result<()> {
    for index in 0..4 {
        cluster.make_served(&format!("old{index}"), &[], &[&format!("10.0.{index}.0/24")])?;
    }
    cluster.make_range("r", &cut(8, "10.0.0.0/21"))?;
    cluster.make_node("n", &[])?;
    cluster.until_has("n", "10.0.4.0/24", LIMIT)?;
    cluster.delete_range("r")?;
    cluster.delete_node("n")?;
    cluster.settled()?;
    ensure!(cluster.range("r")?.is_some(), "the range is gone with nodes in it");
    Ok(())
}

/// The revision of the first event that is as asked for, of a watch that began before.
fn first(cluster: &mut Cluster, path: &str, from: &str, holds: impl Fn(&Value) -> bool) -> Result<u64> {
    let client = Client::new(&cluster.target()?);
    let watch = client.watch(&format!("{path}?watch=true&timeoutSeconds=30&resourceVersion={from}"))?;
    let mut events = watch.map_err(|(code, said)| anyhow::anyhow!("no watch: {code} {said}"))?;
    while let Some(event) = events.next()? {
        if holds(&event["object"]) {
            let revision = event["object"]["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            return Ok(revision.parse()?);
        }
    }
    anyhow::bail!("the watch of {path} ended before it came to that")
}

fn unprotected(cluster: &mut Cluster) -> Result<()> {
    cluster.make_node("n", &[])?;
    cluster.until_refused("n", "")?;
    let list = cluster.get(NODES)?.unwrap_or_default();
    let from = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    cluster.make_range("r", &cut(8, "10.0.0.0/16"))?;
    cluster.until_has("n", "10.0.0.0/24", LIMIT)?;
    let finalized = first(cluster, RANGES, &from, is_protected)?;
    let served = first(cluster, NODES, &from, |node| !cidrs_of(node).is_empty())?;
    ensure!(finalized < served, "served at revision {served}, finalized at {finalized}");
    Ok(())
}

fn selectors(cluster: &mut Cluster) -> Result<()> {
    let select = |third: u8, terms: Value| {
        let mut spec = cut(8, &format!("10.{third}.0.0/16"));
        spec["nodeSelector"] = json!({"nodeSelectorTerms": terms});
        spec
    };
    let label = |key: &str| json!({"key": key, "operator": "In", "values": ["x"]});
    let name = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
    let specs = [
        select(1, json!([{"matchExpressions": [label("a")]}, {"matchExpressions": [label("b")]}])),
        select(2, json!([{"matchFields": [name("by-name")]}])),
        select(3, json!([{"matchFields": [name("by-name")], "matchExpressions": [label("c")]}])),
        select(4, json!([{"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["7"]}]}])),
        select(
            5,
            json!([{"matchExpressions": [{"key": "d", "operator": "Exists"}, {"key": "e", "operator": "DoesNotExist"}]}]),
        ),
    ];
    for (number, spec) in specs.iter().enumerate() {
        cluster.ready_range(&format!("r{number}"), spec)?;
    }
    for (node, labels, cidrs) in [
        ("first-term", &[("a", "x")][..], "10.1.0.0/24"),
        ("second-term", &[("b", "x")], "10.1.1.0/24"),
        ("by-name", &[], "10.2.0.0/24"),
        ("large", &[("cores", "8")], "10.4.0.0/24"),
        ("without", &[("d", "")], "10.5.0.0/24"),
    ] {
        cluster.make_node(node, labels)?;
        cluster.until_has(node, cidrs, PATIENCE)?;
    }
    for (node, labels) in [("none", &[][..]), ("small", &[("cores", "7")]), ("with", &[("d", ""), ("e", "")])] {
        cluster.make_node(node, labels)?;
        cluster.until_refused(node, "no ClusterCIDR selects this node")?;
    }
    Ok(())
}

fn services(cluster: &mut Cluster) -> Result<()> {
    let more = |name: &str, cidr: &str| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": name}, "spec": {"cidrs": [cidr]},
        })
    };
    // The cluster was started with 10.94.0.0/24.
    cluster.ready_range("r", &cut(8, "10.94.0.0/20"))?;
    cluster.make_node("a", &[])?;
    cluster.until_has("a", "10.94.1.0/24", PATIENCE)?;
    cluster.make(SERVICE_RANGES, &more("more", "10.94.2.0/23"))?;
    cluster.until_status("r", "that Services have some of it", |status| {
        status["conditions"].as_array().into_iter().flatten().any(|condition| {
            condition["type"] == "Overlapping"
                && condition["message"].as_str().is_some_and(|text| text.contains("10.94.2.0/23"))
        })
    })?;
    cluster.make_node("b", &[])?;
    cluster.until_has("b", "10.94.4.0/24", PATIENCE)?;
    cluster.restart()?;
    cluster.make_node("c", &[])?;
    cluster.until_has("c", "10.94.5.0/24", PATIENCE)?;
    // The real server has no controller here that lets a range go.
    let path = format!("{SERVICE_RANGES}/more");
    cluster.ask(Method::Delete, &path, None)?;
    cluster.ask(Method::Merge, &path, Some(&json!({"metadata": {"finalizers": null}})))?;
    Ok(())
}

fn duplicates(cluster: &mut Cluster) -> Result<()> {
    cluster.ready_range("r", &cut(8, "10.0.0.0/22"))?;
    cluster.make_served("one", &[], &["10.0.0.0/24"])?;
    cluster.make_served("other", &[], &["10.0.0.0/25"])?;
    for (node, with) in [("one", "other"), ("other", "one")] {
        cluster.until_told(node, "CIDRConflict", with)?;
    }
    ensure!(cluster.cidrs("one")? == "10.0.0.0/24" && cluster.cidrs("other")? == "10.0.0.0/25");
    cluster.delete_node("one")?;
    cluster.make_node("n", &[])?;
    cluster.until_has("n", "10.0.1.0/24", PATIENCE)
}

fn foreign(cluster: &mut Cluster) -> Result<()> {
    cluster.ready_range("r", &cut(8, "10.0.0.0/22"))?;
    cluster.make_served("abroad", &[], &["172.16.0.0/24"])?;
    cluster.until_told("abroad", "CIDROutOfRange", "172.16.0.0/24")?;
    ensure!(cluster.cidrs("abroad")? == "172.16.0.0/24");
    Ok(())
}

fn told_once(cluster: &mut Cluster) -> Result<()> {
    cluster.ready_range("full", &cut(8, "10.0.0.0/24"))?;
    let mut suspended = cut(8, "10.1.0.0/16");
    suspended["suspend"] = json!(true);
    cluster.ready_range("suspended", &suspended)?;
    cluster.served("n", &[])?;
    cluster.make_node("m", &[])?;
    cluster.until_refused("m", "suspended: it is suspended")?;
    let told = cluster.told("m", "CIDRNotAvailable")?;
    ensure!(told.len() == 1 && told[0].contains("full: "), "{told:?}");
    cluster.restart()?;
    cluster.settled()?;
    let again = cluster.told("m", "CIDRNotAvailable")?;
    ensure!(again == told, "{again:?}");
    cluster.change(&format!("{RANGES}/suspended"), &json!({"spec": {"suspend": false}}))?;
    cluster.until_has("m", "10.1.0.0/24", LIMIT)
}

fn prompt(cluster: &mut Cluster) -> Result<()> {
    cluster.make_node("m", &[("zone", "a")])?;
    cluster.until_refused("m", "no ClusterCIDR")?;
    cluster.make_range("b", &cut_for(8, "10.0.0.0/24", &[("zone", "b")]))?;
    cluster.until_protected("b")?;
    cluster.relabel("m", &json!({"zone": "b"}))?;
    cluster.until_has("m", "10.0.0.0/24", LIMIT)?;
    cluster.make_node("k", &[("zone", "b")])?;
    cluster.until_refused("k", "b: ")?;
    cluster.delete_node("m")?;
    cluster.until_has("k", "10.0.0.0/24", LIMIT)?;
    cluster.make_node("l", &[("zone", "c")])?;
    cluster.until_refused("l", "no ClusterCIDR")?;
    cluster.make_range("c", &cut_for(8, "10.1.0.0/24", &[("zone", "c")]))?;
    cluster.until_has("l", "10.1.0.0/24", LIMIT)
}

fn extensions(cluster: &mut Cluster) -> Result<()> {
    let mut spec = cut(8, "10.0.0.0/16,fd00::/48");
    spec["perNodeHostBitsIPv6"] = json!(64);
    spec["exclude"] = json!(["10.0.0.0/23"]);
    spec["primaryFamily"] = json!("IPv6");
    cluster.ready_range("both", &spec)?;
    cluster.make_node("n", &[])?;
    cluster.until_has("n", "fd00::/64,10.0.2.0/24", PATIENCE)?;
    let mut preferred = cut(8, "10.5.0.0/16");
    preferred["priority"] = json!(10);
    preferred["requiredNodeLabels"] = json!(["zone"]);
    preferred["sizing"] = json!({"from": "PodCapacity", "minHostBits": 4, "maxHostBits": 10});
    cluster.ready_range("preferred", &preferred)?;
    cluster.make_node("m", &[])?;
    cluster.until_refused("m", "preferred: the node has no label zone yet")?;
    cluster.relabel("m", &json!({"zone": "a"}))?;
    cluster.until_refused("m", "preferred: the node does not say yet how many pods it can run")?;
    cluster.change(&format!("{NODES}/m/status"), &json!({"status": {"capacity": {"pods": "250"}}}))?;
    cluster.until_has("m", "10.5.0.0/24", LIMIT)?;
    cluster.make_node("s", &[("zone", "a")])?;
    cluster.change(&format!("{NODES}/s/status"), &json!({"status": {"capacity": {"pods": "20"}}}))?;
    cluster.until_has("s", "10.5.1.0/27", LIMIT)
}

/// What a node had is given to others when there is nothing else, and to one of its name before that. For a cluster that rests blocks.
pub(super) fn rested(setup: &Setup<'_>, folder: &Path) -> Result<String> {
    let mut cluster = setup.start(folder)?;
    cluster.ready_range("r", &cut(8, "10.0.0.0/22"))?;
    for (node, cidrs) in [("n", "10.0.0.0/24"), ("m", "10.0.1.0/24")] {
        cluster.make_node(node, &[])?;
        cluster.until_has(node, cidrs, PATIENCE)?;
    }
    cluster.delete_node("n")?;
    cluster.make_node("k", &[])?;
    cluster.until_has("k", "10.0.2.0/24", PATIENCE)?;
    cluster.make_node("n", &[])?;
    cluster.until_has("n", "10.0.0.0/24", PATIENCE)?;
    cluster.delete_node("m")?;
    for (node, cidrs) in [("l", "10.0.3.0/24"), ("j", "10.0.1.0/24")] {
        cluster.make_node(node, &[])?;
        cluster.until_has(node, cidrs, LIMIT)?;
    }
    Ok(String::new())
}
