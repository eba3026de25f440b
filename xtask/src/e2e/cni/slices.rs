//! Who gives nodes their slices, seen from outside: inside `cadastre up`, and as `cadastre controller slice` beside the real
//! kube-apiserver.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::SUITE;
use super::cluster::{Api, EVENTS, Home, IP_POOLS, LIMIT, NODES, SLICE_POOLS, Setup};
use crate::e2e::method::Method;
use crate::e2e::report::{Outcome, Report};
use crate::e2e::{Options, Place};

const CASES: [Case; 5] = [
    Case { name: "every node has a slice of its own", run: every_node },
    Case { name: "a range and a size that change", run: change },
    Case { name: "nodes ask for more, and give back", run: growth },
    Case { name: "one slice of two nodes", run: conflict },
    Case { name: "a range that pods have shared", run: shared },
];
/// A case of its own, because it takes long.
const LARGE: &str = "5,000 nodes in 10 networks";

/// How many nodes there are, where they are counted.
const MANY: usize = 300;
const QUICK_MANY: usize = 40;
const LARGE_NODES: usize = 5_000;
const LARGE_NETWORKS: usize = 10;
/// What no object may be larger than.
const LARGEST: usize = 1_000_000;

/// How long what has thousands of objects may take.
const PATIENCE: Duration = Duration::from_mins(3);

struct Case {
    name: &'static str,
    run: fn(&mut Api, usize) -> Result<String>,
}

/// Runs the cases in one cluster, each in a network of its own.
pub(super) fn run(setup: &Setup<'_>, options: &Options, folder: &Path, report: &mut Report) -> Result<()> {
    let is_asked = |name: &str| options.only.as_ref().is_none_or(|only| format!("slices: {name}").contains(only));
    let is_large = !options.quick && is_asked(LARGE);
    if !CASES.iter().any(|case| is_asked(case.name)) && !is_large {
        return Ok(());
    }
    let place = setup.place;
    let home = if place == Place::Control { Home::Beside } else { Home::Inside };
    let setup = Setup { home, ..*setup };
    let nodes = if options.quick { QUICK_MANY } else { MANY };
    let mut case = |name: &str, run: &mut dyn FnMut() -> Result<String>| {
        let began = Instant::now();
        let outcome = run().map_or_else(|why| Outcome::Failed(format!("{why:#}")), Outcome::Ok);
        report.case(SUITE, place, &format!("slices: {name}"), &outcome, began.elapsed());
    };
    let cluster = setup.start(&folder.join("slices"))?;
    let mut api = cluster.api();
    for Case { name, run } in CASES.into_iter().filter(|case| is_asked(case.name)) {
        case(name, &mut || {
            let outcome = run(&mut api, nodes);
            cluster.are_up().and(outcome)
        });
    }
    drop(cluster);
    if is_large {
        case(LARGE, &mut || {
            let cluster = setup.start(&folder.join("large"))?;
            let outcome = large(&mut cluster.api());
            cluster.are_up().and(outcome)
        });
    }
    Ok(())
}

fn ipam(case: &str, network: &str, range: &str, size: &str) -> Value {
    let selector = format!("case={case}");
    json!({"network_name": network, "range": range, "node_slice_size": size, "node_selector": selector})
}

fn allocations(pool: &Value) -> impl Iterator<Item = &Value> {
    pool["status"]["allocations"].as_array().into_iter().flatten()
}

fn entry<'a>(pool: &'a Value, node: &str) -> Option<&'a Value> {
    allocations(pool).find(|one| one["nodeName"] == node)
}

fn draining(pool: &Value, node: &str) -> usize {
    entry(pool, node).map_or(0, |one| one["draining"].as_array().map_or(0, Vec::len))
}

/// The first slice of each node; every node is there once, and every slice.
pub(super) fn apart(pool: &Value) -> Result<BTreeMap<String, String>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all: BTreeMap<String, String> =
        allocations(pool).map(|one| (text(&one["nodeName"]), text(&one["sliceRange"]))).collect();
    let slices: BTreeSet<&String> = all.values().collect();
    ensure!(all.len() == allocations(pool).count(), "a node is there twice");
    ensure!(slices.len() == all.len(), "a slice is there twice");
    Ok(all)
}

/// 10.0.0.0/8 by /20; nodes join, leave and take what is left; a second definition of the network; and the end of both.
fn every_node(api: &mut Api, nodes: usize) -> Result<String> {
    let (case, net) = ("every", "every-net");
    api.define("every-one", ipam(case, net, "10.0.0.0/8", "/20"))?;
    api.pool(net, "a pool without nodes", |pool| pool["spec"]["sliceSize"] == "/20")?;
    api.join(case, (0..nodes).map(|index| format!("every-{index:05}")))?;
    let count = |count: usize| move |pool: &Value| allocations(pool).count() == count;
    let pool = api.pool(net, "all nodes have slices", count(nodes))?;
    let before = apart(&pool)?;
    ensure!(pool["spec"]["range"] == "10.0.0.0/8", "{}", pool["spec"]);
    // A second definition of the same network changes nothing, and neither does its end.
    api.define("every-two", ipam(case, net, "10.0.0.0/8", "/20"))?;
    let of = "ipam.cadastre.dev/definitions";
    let both = api.pool(net, "it is for both definitions", |pool| {
        pool["metadata"]["annotations"][of] == "default/every-one,default/every-two"
    })?;
    ensure!(apart(&both)? == before, "a second definition moved slices");
    api.undefine("every-one")?;
    api.pool(net, "it is for the second", |pool| pool["metadata"]["annotations"][of] == "default/every-two")?;
    // What a node leaves goes to the next one after its rest.
    api.ask(Method::Delete, &format!("{NODES}/every-00000"), &json!({}))?;
    api.pool(net, "the slice of a node that is gone is free", count(nodes - 1))?;
    api.join(case, std::iter::once("every-next".to_owned()))?;
    let pool = api.pool(net, "the next node has it", count(nodes))?;
    ensure!(apart(&pool)?.get("every-next") == before.get("every-00000"), "the lowest free slice was not given");
    let began = Instant::now();
    api.undefine("every-two")?;
    api.pool(net, "the pool goes with its last definition", Value::is_null)?;
    Ok(format!("{nodes} nodes; the pool was gone after {:.0?}", began.elapsed()))
}

/// Nodes keep what they have until they give it back, and get what is right now beside it.
fn change(api: &mut Api, _: usize) -> Result<String> {
    let (case, net) = ("change", "change-net");
    api.define(net, ipam(case, net, "10.0.0.0/16", "/24"))?;
    api.join(case, (0..4).map(|index| format!("change-{index}")))?;
    let before = api.pool(net, "all have slices", |pool| allocations(pool).count() == 4)?;
    let ipv6 = json!([{"range": "fd00:1::/48", "node_slice_size": "/64"}]);
    let mut both = ipam(case, net, "10.1.0.0/16", "/26");
    both["ipRanges"] = ipv6;
    api.define(net, both)?;
    let after = api.pool(net, "all have others, of both families", |pool| {
        let is_one = |one: &Value| one["furtherSlices"].as_array().is_some_and(|further| further.len() == 2);
        allocations(pool).count() == 4 && allocations(pool).all(is_one)
    })?;
    for one in allocations(&after) {
        let node = one["nodeName"].as_str().context("an entry has no node")?;
        let old = &entry(&before, node).context("a node was forgotten")?["sliceRange"];
        ensure!(one["draining"] == json!([old]), "{node} should drain {old}: {one}");
    }
    ensure!(after["metadata"]["annotations"]["ipam.cadastre.dev/changed"] != Value::Null, "nobody is told");
    // Back: the old ones are as good as new.
    api.define(net, ipam(case, net, "10.0.0.0/16", "/24"))?;
    let back = api.pool(net, "the first slices serve again", |pool| {
        allocations(pool).all(|one| {
            let was = entry(&before, one["nodeName"].as_str().unwrap_or_default());
            was.is_some_and(|was| was["sliceRange"] == one["sliceRange"])
        })
    })?;
    apart(&back)?;
    api.undefine(net)?;
    api.pool(net, "the pool goes", Value::is_null)?;
    Ok(String::new())
}

/// A full slice, and one that drained.
fn growth(api: &mut Api, _: usize) -> Result<String> {
    let (case, net, node) = ("growth", "growth-net", "growth-0");
    api.define(net, ipam(case, net, "10.0.0.0/24", "/28"))?;
    api.join(case, std::iter::once(node.to_owned()))?;
    let pool = api.pool(net, "it has a slice", |pool| entry(pool, node).is_some())?;
    let asks = |what: &str, pool: &Value| {
        let epoch = entry(pool, node).and_then(|one| one["epoch"].as_u64()).unwrap_or_default();
        json!({"ipam.cadastre.dev/asks": format!("{what}-{epoch}")})
    };
    let name = format!("{net}-{node}-10.0.0.0-28");
    let full = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
        "metadata": {"name": name, "labels": asks("more", &pool)}, "spec": {"range": "10.0.0.0/28", "allocations": {}},
    });
    api.ask(Method::Post, IP_POOLS, &full)?;
    let has = |further: &Value| {
        let further = further.clone();
        move |pool: &Value| entry(pool, node).is_some_and(|one| one["furtherSlices"] == further)
    };
    api.pool(net, "it has a further slice", has(&json!(["10.0.0.16/28"])))?;
    api.define(net, ipam(case, net, "10.1.0.0/24", "/28"))?;
    let pool = api.pool(net, "both drain", |pool| draining(pool, node) == 2)?;
    let patch = json!({"metadata": {"labels": asks("release", &pool)}});
    api.ask(Method::Merge, &format!("{IP_POOLS}/{name}"), &patch)?;
    api.pool(net, "one is taken back", has(&json!(["10.0.0.16/28"])))?;
    api.undefine(net)?;
    api.pool(net, "the pool goes", Value::is_null)?;
    Ok(String::new())
}

/// Somebody gives the slice of one node to another as well.
fn conflict(api: &mut Api, _: usize) -> Result<String> {
    let (case, net) = ("conflict", "conflict-net");
    api.define(net, ipam(case, net, "10.0.0.0/24", "/28"))?;
    api.join(case, ["conflict-a", "conflict-b"].map(str::to_owned).into_iter())?;
    let mut pool = api.pool(net, "both have slices", |pool| allocations(pool).count() == 2)?;
    pool["status"]["allocations"][1]["sliceRange"] = json!("10.0.0.0/28");
    let path = format!("{SLICE_POOLS}/{net}");
    api.ask(Method::Put, &path, &pool)?;
    let pool = api.pool(net, "both drain it", |pool| {
        ["conflict-a", "conflict-b"].into_iter().all(|node| draining(pool, node) == 1)
    })?;
    apart(&pool)?;
    api.until(EVENTS, "it is told", LIMIT, |events| {
        let text = "10.0.0.0/28 of node conflict-a overlaps 10.0.0.0/28 of node conflict-b";
        let is_it = |event: &Value| event["reason"] == "SliceConflict" && event["message"] == text;
        events["items"].as_array().into_iter().flatten().any(is_it)
    })?;
    api.undefine(net)?;
    api.pool(net, "the pool goes", Value::is_null)?;
    Ok(String::new())
}

/// A range is cut while pods have addresses of it that all nodes shared: no node gets a slice with one of them until they are gone.
fn shared(api: &mut Api, _: usize) -> Result<String> {
    let (case, net) = ("shared", "shared-net");
    let entry = json!({"id": "c", "podref": "default/old", "ifname": "net1"});
    let pool = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool", "metadata": {"name": "shared-net-10.0.0.0-27"},
        "spec": {"range": "10.0.0.0/27", "allocations": {"1": entry, "17": entry}},
    });
    api.ask(Method::Post, IP_POOLS, &pool)?;
    api.define(net, ipam(case, net, "10.0.0.0/27", "/29"))?;
    api.join(case, (0..4).map(|index| format!("shared-{index}")))?;
    let text = |one: &Value| one["sliceRange"].as_str().unwrap_or_default().to_owned();
    let of = |pool: &Value| allocations(pool).map(text).collect::<BTreeSet<_>>();
    let free = ["10.0.0.8/29", "10.0.0.24/29"].map(str::to_owned).into();
    api.pool(net, "two have slices", |pool| of(pool) == free)?;
    let path = format!("{IP_POOLS}/shared-net-10.0.0.0-27");
    api.ask(Method::Merge, &path, &json!({"spec": {"allocations": {"1": null}}}))?;
    let pool = api.pool(net, "a third has one", |pool| allocations(pool).count() == 3)?;
    ensure!(!of(&pool).contains("10.0.0.16/29"), "a pod has an address of a slice that was given: {pool}");
    api.ask(Method::Delete, &path, &json!({}))?;
    apart(&api.pool(net, "all have", |pool| allocations(pool).count() == 4)?)?;
    api.undefine(net)?;
    api.pool(net, "the pool goes", Value::is_null)?;
    Ok(String::new())
}

/// As many nodes and networks as a cluster may have: no object is too large, and a node that joins has all its slices at once.
fn large(api: &mut Api) -> Result<String> {
    let case = "large";
    let name = |index: usize| format!("ip-10-{:03}-{:03}.eu-central-1.compute.internal", index / 256, index % 256);
    for network in 0..LARGE_NETWORKS {
        let net = format!("large-{network}");
        api.define(&net, ipam(case, &net, "10.0.0.0/8", "/22"))?;
    }
    api.join(case, (0..LARGE_NODES).map(name))?;
    let joined = Instant::now();
    let mut largest = 0;
    for network in 0..LARGE_NETWORKS {
        let path = format!("{SLICE_POOLS}/large-{network}");
        let is_whole = |pool: &Value| allocations(pool).count() == LARGE_NODES;
        let pool = api.until(&path, "all nodes have slices", PATIENCE, is_whole)?;
        apart(&pool)?;
    }
    let served = joined.elapsed();
    for pool in api.get(SLICE_POOLS)?["items"].as_array().into_iter().flatten() {
        largest = largest.max(pool.to_string().len());
    }
    ensure!(largest < LARGEST, "an object has {largest} bytes");
    let began = Instant::now();
    api.join(case, std::iter::once("one-more".to_owned()))?;
    for network in 0..LARGE_NETWORKS {
        let path = format!("{SLICE_POOLS}/large-{network}");
        api.until(&path, "one more has a slice", LIMIT, |pool| entry(pool, "one-more").is_some())?;
    }
    let more = began.elapsed();
    Ok(format!(
        "the last of {LARGE_NODES} nodes was served {served:.1?} after it joined; the largest object has {largest} bytes; \
         one more node had its {LARGE_NETWORKS} slices after {more:.1?}"
    ))
}
