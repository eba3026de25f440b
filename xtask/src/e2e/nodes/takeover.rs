//! Nodes that somebody else has served: the real kube-controller-manager, and node-ipam-controller by what it leaves behind. Our
//! controller takes over, and no node is touched.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::real::KubeControllerManager;

use super::cluster::{Cluster, NODES, PATIENCE, RANGES, Setup, UNELECTED, apply_crds, cut, cut_for, range};
use super::faults::{come, everybody, untouched};
use crate::e2e::Place;
use crate::e2e::method::Method;
use crate::parts::Part;

const COUNT: u64 = 30;

/// The flags that both controllers have in common.
const FLAGS: [&str; 4] = [
    "--cluster-cidr=10.244.0.0/16,fd00:244::/48",
    "--node-cidr-mask-size-ipv4=24",
    "--node-cidr-mask-size-ipv6=64",
    "--service-cluster-ip-range=10.94.0.0/24,2001:db2::/120",
];

/// Nodes are served by kube-controller-manager; it ends; ours begins with the same flags, and then with other sizes.
pub(super) fn from_kube_controller_manager(setup: &Setup<'_>, folder: &Path) -> Result<String> {
    let mut cluster = setup.start_unserved(folder)?;
    let server = cluster.beside()?.server();
    let (kubeconfig, authority) = (server.kubeconfig(), server.ca());
    let binary = setup.servers.part(Part::KubeControllerManager)?;
    let flags: Vec<&str> = FLAGS.iter().copied().chain(["--allocate-node-cidrs=true", UNELECTED]).collect();
    let controllers = ["node-ipam-controller"];
    let folder = folder.join("kcm");
    let manager = KubeControllerManager::start(&binary, &kubeconfig, &authority, &controllers, &folder, &flags)?;
    come(&cluster, "theirs", COUNT)?;
    everybody(&mut cluster).context("kube-controller-manager served not all")?;
    drop(manager);
    let before = untouched(&mut cluster)?;

    let mut flags: Vec<&str> = FLAGS.iter().copied().chain([UNELECTED]).collect();
    cluster.beside()?.start(&flags, None)?;
    until_counted(&mut cluster, COUNT)?;
    cluster.settled()?;
    ensure!(untouched(&mut cluster)? == before, "nodes were touched");
    come(&cluster, "ours", COUNT)?;
    everybody(&mut cluster)?;
    let name = only_range(&mut cluster)?;
    ensure!(name.starts_with("created-from-flags-"), "{name}");

    // Other sizes, which kube-controller-manager cannot do: the range that was is kept as long as nodes need it.
    let before = untouched(&mut cluster)?;
    cluster.beside()?.kill()?;
    flags[1] = "--node-cidr-mask-size-ipv4=23";
    flags[2] = "--node-cidr-mask-size-ipv6=72";
    cluster.beside()?.start(&flags, None)?;
    // Until then the range that was serves as well.
    cluster.until("the first range is being deleted", PATIENCE, |cluster| {
        let old = cluster.range(&name)?.context("the first range is gone with nodes in it")?;
        Ok(old["metadata"]["deletionTimestamp"].is_string().then_some(()))
    })?;
    cluster.settled()?;
    come(&cluster, "wider", COUNT)?;
    let nodes = everybody(&mut cluster)?;
    let wider = cluster.cidrs("wider-0")?;
    ensure!(wider.contains("/23,") && wider.contains("/72"), "wider-0 has {wider}");
    let kept: Vec<_> = untouched(&mut cluster)?.into_iter().filter(|node| !node.0.starts_with("wider")).collect();
    ensure!(kept == before, "nodes were touched");
    ensure!(cluster.range(&name)?.is_some(), "the first range is gone with nodes in it");
    for node in before {
        cluster.delete_node(&node.0)?;
    }
    cluster.until_range_gone(&name, PATIENCE)?;
    Ok(format!("{nodes} nodes, {COUNT} of them served by kube-controller-manager and not touched since"))
}

/// Waits until the range of the flags knows of so many nodes.
fn until_counted(cluster: &mut Cluster, count: u64) -> Result<()> {
    let name = cluster.until("there is the range of the flags", PATIENCE, |cluster| Ok(only_range(cluster).ok()))?;
    cluster.until_status(&name, "how many nodes it has", |status| status["ipv4"]["allocated"] == count)
}

fn only_range(cluster: &mut Cluster) -> Result<String> {
    let ranges = cluster.list(RANGES)?;
    ensure!(ranges.len() == 1, "there are {} ranges", ranges.len());
    Ok(ranges[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned())
}

/// A resource of that name that takes anything, as node-ipam-controller's nearly does.
fn lax_crd() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clustercidrs.networking.x-k8s.io"},
        "spec": {
            "group": "networking.x-k8s.io", "scope": "Cluster",
            "names": {"kind": "ClusterCIDR", "listKind": "ClusterCIDRList", "plural": "clustercidrs", "singular": "clustercidr"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// What its resource takes, and no controller can use.
fn never_usable() -> Value {
    range("never-usable", &json!({"perNodeHostBits": 1, "ipv4": "10.246.0.0/16"}))
}

/// Ranges and nodes are as node-ipam-controller leaves them, also what it let in and could not use; ours begins.
pub(super) fn from_node_ipam_controller(setup: &Setup<'_>, folder: &Path) -> Result<String> {
    let mut cluster = setup.start_unserved(folder)?;
    let is_custom = setup.place == Place::Control;
    if is_custom {
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        cluster.replace(&format!("{crds}/clustercidrs.networking.x-k8s.io"), &lax_crd())?;
        // Until then the one before is asked.
        cluster.until("the resource takes anything", PATIENCE, |cluster| {
            let (code, _) = cluster.ask(Method::Post, &format!("{RANGES}?dryRun=All"), Some(&never_usable()))?;
            Ok((code == 201).then_some(()))
        })?;
    }
    let finalized = |name: &str, spec: Value| {
        let mut range = range(name, &spec);
        range["metadata"]["finalizers"] = json!(["networking.x-k8s.io/cluster-cidr-finalizer"]);
        range
    };
    cluster.make(RANGES, &finalized("default-cluster-cidr", cut(8, "10.244.0.0/16,fd00:244::/112")))?;
    cluster.make(RANGES, &finalized("zone-a", cut_for(6, "10.245.0.0/24", &[("zone", "a")])))?;
    if is_custom {
        cluster.make(RANGES, &never_usable())?;
    }
    for number in 0..10 {
        let cidrs = [format!("10.244.{number}.0/24"), format!("fd00:244::{:x}/120", number << 8)];
        cluster.make_served(&format!("dual-{number}"), &[], &[&cidrs[0], &cidrs[1]])?;
    }
    cluster.make_served("zone-0", &[("zone", "a")], &["10.245.0.0/26"])?;
    // Its labels were others when it was served.
    cluster.make_served("moved", &[("zone", "b")], &["10.245.0.64/26"])?;
    cluster.make_served("elsewhere", &[], &["192.168.7.0/24"])?;
    let before = untouched(&mut cluster)?;
    if is_custom {
        apply_crds(setup.servers, cluster.beside()?.server(), folder)?;
    }
    cluster.beside()?.start(&[UNELECTED], None)?;
    cluster.settled()?;
    ensure!(untouched(&mut cluster)? == before, "nodes were touched");
    cluster.until_told("elsewhere", "CIDROutOfRange", "192.168.7.0/24")?;
    if is_custom {
        cluster.until_status("never-usable", "that it is not accepted", |status| {
            let refused = |condition: &Value| condition["type"] == "Accepted" && condition["status"] == "False";
            status["conditions"].as_array().is_some_and(|all| all.iter().any(refused))
        })?;
    }
    cluster.make_node("zone-2", &[("zone", "a")])?;
    cluster.until_has("zone-2", "10.245.0.128/26", PATIENCE)?;
    cluster.make_node("dual-10", &[])?;
    cluster.until_has("dual-10", "10.244.10.0/24,fd00:244::a00/120", PATIENCE)?;
    cluster.delete_range("zone-a")?;
    for name in ["zone-0", "zone-2"] {
        cluster.delete_node(name)?;
    }
    cluster.settled()?;
    ensure!(cluster.range("zone-a")?.is_some(), "the range is gone with a node in it");
    cluster.delete_node("moved")?;
    cluster.until_range_gone("zone-a", PATIENCE)?;
    let nodes = cluster.list(NODES)?.len();
    Ok(format!("{} nodes and their ranges, not touched; {nodes} nodes in the end", before.len()))
}
