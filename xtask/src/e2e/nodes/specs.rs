//! What the peers' own suites ask of a node controller, with their addresses and their limits: the fifteen cases of
//! node-ipam-controller in their order, in one cluster, and those that Kubernetes 1.28 had beyond them. After each case its nodes must be
//! gone within the limit, and then its ranges.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Case;
use super::cluster::{Cluster, LIMIT, PATIENCE, RANGES, RETAINED, cut, cut_for, is_protected, range};
use crate::e2e::method::Method;

/// The ranges of Services of that suite.
pub(super) const SERVICES: &str = "10.94.0.0/24,2001:db2::/120";
/// The flags that its controller is started with, and one that it does not know: in that suite a range is as new although another had its
/// addresses a moment before.
pub(super) const FLAGS: [&str; 4] = [
    "--cluster-cidr=10.96.0.0/12,fd00:10:96::/112",
    "--node-cidr-mask-size-ipv4=24",
    "--node-cidr-mask-size-ipv6=120",
    "--pod-cidr-rest=1ms",
];

pub(super) const CASES: &[Case] = &[
    Case { name: "a node that nothing selects gets blocks of the range of the flags", run: default_range },
    Case { name: "a range from before the start goes on where it was", run: from_before },
    Case { name: "a block of IPv4", run: single_v4 },
    Case { name: "a block of IPv6", run: single_v6 },
    Case { name: "a block of each family", run: dual },
    Case { name: "the blocks of a node that is gone are given again", run: released },
    Case { name: "what blocks are cut by cannot be changed", run: immutable },
    Case { name: "what is no CIDR is refused", run: invalid },
    Case { name: "a range goes with its last node", run: deleted },
    Case { name: "a range that is being deleted serves nobody", run: terminating },
    Case { name: "the most labels win", run: most_labels },
    Case { name: "then the fewest blocks", run: fewest_blocks },
    Case { name: "then the smallest blocks", run: smallest_blocks },
    Case { name: "then the selector that comes first as text", run: first_selector },
    Case { name: "then the range that comes first as text", run: first_range },
    Case { name: "ranges that stay serve whom they are for", run: ranges_stay },
    Case { name: "blocks are given again without a pause", run: released_at_once },
];

type Labels = &'static [(&'static str, &'static str)];

const DUAL: [(&str, &str); 2] = [("ipv4", "true"), ("ipv6", "true")];

/// What is there before the suite begins, and stays.
pub(super) fn prepare(cluster: &mut Cluster) -> Result<()> {
    let mut initial = range("initial-cc", &cut_for(8, "10.2.0.0/16,fd00:20:96::/112", &[("bootstrap", "true")]));
    initial["metadata"]["labels"] = json!({(RETAINED.0): RETAINED.1});
    cluster.make(RANGES, &initial)?;
    cluster.make_node("initial-node", &[("bootstrap", "true"), RETAINED])?;
    cluster.until_has("initial-node", "10.2.0.0/24,fd00:20:96::/120", PATIENCE)?;
    cluster.restart()?;
    cluster.settled()
}

fn default_range(cluster: &mut Cluster) -> Result<()> {
    cluster.make_node("default-node", &[("label", "unmatched")])?;
    cluster.until_has("default-node", "10.96.0.0/24,fd00:10:96::/120", LIMIT)
}

fn from_before(cluster: &mut Cluster) -> Result<()> {
    ensure!(cluster.list(RANGES)?.len() == 1, "the range of the flags came back");
    cluster.make_node("bootstrap-node", &[("bootstrap", "true")])?;
    cluster.until_has("bootstrap-node", "10.2.1.0/24,fd00:20:96::100/120", LIMIT)
}

fn single_v4(cluster: &mut Cluster) -> Result<()> {
    let labels = [("ipv4", "true"), ("singlestack", "true")];
    cluster.make_range("ipv4-cc", &cut_for(8, "10.0.0.0/16", &labels))?;
    cluster.make_node("ipv4-node", &labels)?;
    cluster.until_has("ipv4-node", "10.0.0.0/24", LIMIT)
}

fn single_v6(cluster: &mut Cluster) -> Result<()> {
    cluster.make_range("ipv6-cc", &cut_for(8, "fd00:20:100::/112", &[("ipv6", "true")]))?;
    cluster.make_node("ipv6-node", &[("ipv6", "true")])?;
    cluster.until_has("ipv6-node", "fd00:20:100::/120", LIMIT)
}

fn dual(cluster: &mut Cluster) -> Result<()> {
    cluster.make_range("dualstack-allocate-cc", &cut_for(8, "192.168.0.0/16,fd00:30:100::/112", &DUAL))?;
    cluster.make_node("dualstack-allocate-node", &DUAL)?;
    cluster.until_has("dualstack-allocate-node", "192.168.0.0/24,fd00:30:100::/120", LIMIT)
}

/// Room for two nodes.
fn pair() -> Value {
    cut_for(8, "192.168.0.0/23,fd00:30:100::/119", &DUAL)
}

fn released(cluster: &mut Cluster) -> Result<()> {
    cluster.make_range("dualstack-release-cc", &pair())?;
    cluster.make_node("dualstack-release-node", &DUAL)?;
    cluster.until_has("dualstack-release-node", "192.168.0.0/24,fd00:30:100::/120", LIMIT)?;
    cluster.make_node("dualstack-release-node-2", &DUAL)?;
    cluster.until_has("dualstack-release-node-2", "192.168.1.0/24,fd00:30:100::100/120", LIMIT)?;
    cluster.delete_node("dualstack-release-node")?;
    cluster.make_node("dualstack-release-node-3", &DUAL)?;
    cluster.until_has("dualstack-release-node-3", "192.168.0.0/24,fd00:30:100::/120", LIMIT)
}

fn released_at_once(cluster: &mut Cluster) -> Result<()> {
    cluster.make_range("release-cc", &cut_for(8, "10.77.0.0/24", &[("ipv4", "true")]))?;
    for round in 0..10 {
        let name = format!("release-node-{round}");
        cluster.make_node(&name, &[("ipv4", "true")])?;
        cluster.until_has(&name, "10.77.0.0/24", LIMIT)?;
        cluster.delete_node(&name)?;
    }
    Ok(())
}

fn immutable(cluster: &mut Cluster) -> Result<()> {
    cluster.make_range("validate-immutable", &pair())?;
    cluster.until("its finalizer is stored", LIMIT, |cluster| {
        Ok(cluster.range("validate-immutable")?.is_some_and(|range| is_protected(&range)).then_some(()))
    })?;
    let mut other = cluster.range("validate-immutable")?.unwrap_or_default();
    other["spec"] = cut_for(9, "10.10.0.0/23,fd00:30:101::/119", &[("ipv4", "false"), ("ipv6", "false")]);
    let (code, said) = cluster.ask(Method::Put, &format!("{RANGES}/validate-immutable"), Some(&other))?;
    // The status may have been written meanwhile.
    let (code, said) = if code == 409 {
        let patch = json!({"spec": other["spec"]});
        cluster.ask(Method::Merge, &format!("{RANGES}/validate-immutable"), Some(&patch))?
    } else {
        (code, said)
    };
    ensure!(code == 422, "{code} {said}");
    let message = said["message"].as_str().unwrap_or_default();
    for name in ["NodeSelector", "PerNodeHostBits", "IPv4", "IPv6"] {
        ensure!(message.contains(&format!("{name} cannot be changed.")), "{name}: {message}");
    }
    Ok(())
}

fn invalid(cluster: &mut Cluster) -> Result<()> {
    for (v4, v6, text) in [
        ("", "", "A CIDR must be specified for ipv4 or ipv6."),
        ("256.256.256.256/33", "", "IPv4 must be a valid IPv4 CIDR."),
        ("", "::/129", "IPv6 must be a valid IPv6 CIDR."),
    ] {
        let mut spec = cut_for(8, "10.0.0.0/16", &DUAL);
        spec["ipv4"] = json!(v4);
        spec["ipv6"] = json!(v6);
        for absent in [false, true] {
            if absent {
                let given = |_: &String, value: &mut Value| *value != "";
                spec.as_object_mut().into_iter().for_each(|spec| spec.retain(given));
            }
            let (code, said) = cluster.ask(Method::Post, RANGES, Some(&range("invalid", &spec)))?;
            ensure!(code == 422 && said["message"].as_str().is_some_and(|said| said.contains(text)), "{code} {said}");
        }
    }
    Ok(())
}

/// Deletes a range that a node holds, and waits until it is known to be held.
fn delete_held(cluster: &mut Cluster, range: &str, node: &str) -> Result<()> {
    cluster.delete_range(range)?;
    cluster
        .until_status(range, "who holds it", |status| status["nodes"] == json!([node]) && status["nodeCount"] == 1)?;
    cluster.settled()?;
    let held = cluster.range(range)?;
    ensure!(held.is_some_and(|held| held["metadata"]["deletionTimestamp"].is_string()), "{range} is gone");
    Ok(())
}

fn deleted(cluster: &mut Cluster) -> Result<()> {
    cluster.make_range("dualstack-cc-del", &pair())?;
    cluster.make_node("dualstack-node", &DUAL)?;
    cluster.until_has("dualstack-node", "192.168.0.0/24,fd00:30:100::/120", LIMIT)?;
    delete_held(cluster, "dualstack-cc-del", "dualstack-node")?;
    cluster.delete_node("dualstack-node")?;
    cluster.until_range_gone("dualstack-cc-del", LIMIT)
}

fn terminating(cluster: &mut Cluster) -> Result<()> {
    cluster.ready_range("dualstack-cc-del", &pair())?;
    cluster.ready_range("few-label-match-cc-del", &cut_for(8, "10.1.0.0/23,fd12:30:100::/119", &DUAL[..1]))?;
    cluster.make_node("dualstack-node", &DUAL)?;
    cluster.until_has("dualstack-node", "192.168.0.0/24,fd00:30:100::/120", LIMIT)?;
    delete_held(cluster, "dualstack-cc-del", "dualstack-node")?;
    cluster.make_node("dualstack-node-2", &DUAL)?;
    cluster.until_has("dualstack-node-2", "10.1.0.0/24,fd12:30:100::/120", LIMIT)
}

/// The ranges of the tie-breaks: each case has one more, which wins.
const TIES: [(&str, u8, &str, Labels); 7] = [
    ("single-label-match-cc", 8, "192.168.0.0/23,fd00:30:100::/119", &[("match", "single")]),
    ("double-label-match-cc", 8, "10.0.0.0/23,fd12:30:200::/119", &DUAL),
    ("double-label-match-cc", 8, "10.0.0.0/20,fd12:30:200::/116", &DUAL),
    ("few-alloc-cc", 8, "172.16.0.0/23,fd34:30:100::/119", &DUAL),
    ("low-pernodehostbits-cc", 7, "172.31.0.0/24,fd35:30:100::/120", &DUAL),
    ("low-alpha-cc", 7, "192.169.0.0/24,fd12:40:100::/120", &[("apv4", "true"), ("bpv6", "true")]),
    ("low-ip-cc", 7, "10.1.0.0/24,fd00:10:100::/120", &[("apv4", "true"), ("bpv6", "true")]),
];

/// Makes those of the ranges with these numbers, and a node that all of them select.
fn tie(cluster: &mut Cluster, ranges: &[usize], cidrs: &str) -> Result<()> {
    for (name, bits, range, labels) in ranges.iter().map(|number| TIES[*number]) {
        cluster.make_range(name, &cut_for(bits, range, labels))?;
    }
    for (name, ..) in ranges.iter().map(|number| TIES[*number]) {
        cluster.until_protected(name)?;
    }
    let labels = [("apv4", "true"), ("bpv6", "true"), ("ipv4", "true"), ("ipv6", "true"), ("match", "single")];
    // The peers' node has the first two labels only where a range asks for them.
    let labels = if ranges.contains(&5) { &labels[..] } else { &labels[2..] };
    cluster.make_node("dualstack-node", labels)?;
    cluster.until_has("dualstack-node", cidrs, LIMIT)
}

fn most_labels(cluster: &mut Cluster) -> Result<()> {
    tie(cluster, &[0, 1], "10.0.0.0/24,fd12:30:200::/120")
}

fn fewest_blocks(cluster: &mut Cluster) -> Result<()> {
    tie(cluster, &[0, 2, 3], "172.16.0.0/24,fd34:30:100::/120")
}

fn smallest_blocks(cluster: &mut Cluster) -> Result<()> {
    tie(cluster, &[0, 2, 3, 4], "172.31.0.0/25,fd35:30:100::/121")
}

fn first_selector(cluster: &mut Cluster) -> Result<()> {
    tie(cluster, &[0, 2, 3, 4, 5], "192.169.0.0/25,fd12:40:100::/121")
}

fn first_range(cluster: &mut Cluster) -> Result<()> {
    tie(cluster, &[0, 2, 3, 4, 5, 6], "10.1.0.0/25,fd00:10:100::/121")
}

/// As in Kubernetes 1.28, where the ranges of earlier cases are still there.
fn ranges_stay(cluster: &mut Cluster) -> Result<()> {
    let single = [("ipv4", "true"), ("singlestack", "true")];
    for (name, spec, labels, cidrs) in [
        ("default", cut(8, "10.112.0.0/12,fd01::/64"), &[("label", "unmatched")][..], "10.112.0.0/24,fd01::/120"),
        ("ipv4", cut_for(8, "10.0.0.0/16", &single), &single, "10.0.0.0/24"),
        ("ipv6", cut_for(8, "fd00:20:100::/112", &[("ipv6", "true")]), &[("ipv6", "true")], "fd00:20:100::/120"),
        ("dualstack", cut_for(8, "192.168.0.0/16,fd00:30:100::/112", &DUAL), &DUAL, "192.168.0.0/24,fd00:30:100::/120"),
    ] {
        cluster.ready_range(&format!("{name}-cc"), &spec)?;
        cluster.make_node(&format!("{name}-node"), labels)?;
        cluster.until_has(&format!("{name}-node"), cidrs, LIMIT)?;
    }
    Ok(())
}
