//! The scenarios of Spiderpool's own end-to-end suites for assigning, reclaiming and reliability, each by its number. Those that do not
//! apply here, and why, are in docs/reference/whereabouts.md.

use std::collections::BTreeSet;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use super::cluster::{Cluster, LIMIT, eventually};
use super::machine::{Machine, Network, Sandbox};
use super::scene::{Case, DEFAULT, Scene, With};
use crate::e2e::method::Method;

pub(super) const CASES: &[Case] = &[
    Case { name: "spiderpool: E00001 a pod of one family and of both", with: With::Others, run: families },
    Case { name: "spiderpool: E00008 nothing is left", with: With::Others, run: exhausted },
    Case { name: "spiderpool: G00001 a namespace is deleted", with: With::Others, run: namespace },
    Case { name: "spiderpool: G00002 a pod of the same name elsewhere", with: With::Others, run: same_name },
    Case { name: "spiderpool: G00003 the plugin is gone", with: With::Others, run: plugin_gone },
    Case { name: "spiderpool: G00004 no time to end", with: With::Others, run: no_grace },
    Case { name: "spiderpool: G00005 a record of a pod that is not there", with: With::Others, run: wrong_pod },
    Case { name: "spiderpool: G00006 jobs that end", with: With::Others, run: jobs },
    Case { name: "spiderpool: G00007 a record of another container", with: With::Others, run: wrong_container },
    Case { name: "spiderpool: G00008 restarted again and again", with: With::Others, run: restarts },
    Case { name: "spiderpool: G00009 a node that is not ready", with: With::Others, run: not_ready },
    Case { name: "spiderpool: G00010 a StatefulSet shrinks", with: With::Others, run: shrinks },
    Case { name: "spiderpool: G00011 two StatefulSets at one network", with: With::Others, run: two_sets },
    Case { name: "spiderpool: G00012 all at one pool", with: With::Others, run: contention },
    Case { name: "spiderpool: R00004 the agent restarts", with: With::Others, run: agent_restarts },
    Case { name: "spiderpool: R00006 a node without power", with: With::Others, run: power_off },
    Case { name: "spiderpool: R00001 the controller restarts", with: With::Nobody, run: controller_restarts },
    Case { name: "spiderpool: R00002 etcd restarts", with: With::NobodyOnEtcd, run: etcd_restarts },
    Case { name: "spiderpool: R00003 the API server restarts", with: With::Nobody, run: server_restarts },
    Case { name: "spiderpool: R00007 the other controller takes over", with: With::Nobody, run: takes_over },
];

/// Our code for "nothing is free".
const FULL: u64 = 100;
/// As many pods as a slice of 16 has addresses, but for the first of the range.
const SLICE: u8 = 15;

fn families(scene: &mut Scene<'_>) -> Result<String> {
    let (number, case) = (scene.number, scene.case.clone());
    let range = format!("fd00:{number}::/64");
    let six = Network::sliced(&format!("{case}-six"), &case, &range, "/120");
    let mut both = Network::sliced(&format!("{case}-both"), &case, &format!("10.{number}.1.0/24"), "/28");
    both.ipam["ipRanges"] = json!([{"range": format!("fd01:{number}::/64")}]);
    for network in [&six, &both] {
        scene.api.define(&network.name, network.ipam.clone())?;
    }
    let machine = scene.machine("a")?;
    machine.granted(&six, 1)?;
    machine.granted(&both, 2)?;
    let pod = scene.pod(&machine, DEFAULT, "families")?;
    let of = |network: &Network| machine.add(network, &pod);
    ensure!(of(&scene.network)? == scene.ip(1), "of IPv4");
    ensure!(of(&six)? == [format!("fd00:{number}::1/64")], "of IPv6");
    let dual = of(&both)?;
    ensure!(dual == [format!("10.{number}.1.1/24"), format!("fd01:{number}::1/64")], "of both: {dual:?}");
    for network in [&scene.network.clone(), &six, &both] {
        machine.del(network, &pod)?;
        scene.given_back_of(network, &machine, &[&pod])?;
    }
    Ok(String::new())
}

fn exhausted(scene: &mut Scene<'_>) -> Result<String> {
    let case = scene.case.clone();
    // One slice is the whole of it.
    let tiny = Network::sliced(&format!("{case}-tiny"), &case, &format!("10.{}.1.0/30", scene.number), "/30");
    scene.api.define(&tiny.name, tiny.ipam.clone())?;
    let machine = scene.machine("a")?;
    machine.granted(&tiny, 1)?;
    let pods: Vec<Sandbox> =
        (0..3).map(|pod| scene.pod(&machine, DEFAULT, &format!("full-{pod}"))).collect::<Result<_>>()?;
    let first = machine.add(&tiny, &pods[0])?;
    machine.add(&tiny, &pods[1])?;
    let why = machine.try_add(&tiny, &pods[2])?.err().context("there is a third address")?;
    ensure!(why["code"] == FULL, "{why}");
    machine.del(&tiny, &pods[0])?;
    ensure!(machine.add(&tiny, &pods[2])? == first, "what was given back is given");
    Ok(why["msg"].as_str().unwrap_or_default().to_owned())
}

/// Its pods go with it; nobody makes a DEL.
fn namespace(scene: &mut Scene<'_>) -> Result<String> {
    let machine = scene.machine("a")?;
    let (gone, stays) = (scene.namespace("gone")?, scene.namespace("stays")?);
    let (one, _) = scene.running(&machine, &gone, "one")?;
    let (two, _) = scene.running(&machine, &gone, "two")?;
    let (kept, ips) = scene.running(&machine, &stays, "one")?;
    for pod in [&one, &two] {
        scene.force_delete(pod)?;
        pod.vanish()?;
    }
    scene.api.ask(Method::Delete, &format!("/api/v1/namespaces/{gone}"), &json!({}))?;
    let took = scene.given_back(&machine, &[&one, &two])?;
    scene.holds(&machine, &kept, &ips)?;
    Ok(format!("after {took:.1?}"))
}

fn same_name(scene: &mut Scene<'_>) -> Result<String> {
    let machine = scene.machine("a")?;
    let (here, there) = (scene.namespace("here")?, scene.namespace("there")?);
    let (gone, _) = scene.running(&machine, &here, "twin")?;
    let (kept, ips) = scene.running(&machine, &there, "twin")?;
    // Of neither can be seen whether it is there: the API decides by namespace and name.
    for sandbox in [&gone, &kept] {
        sandbox.vanish()?;
    }
    let unseen = scene.pod(&machine, &here, "unseen")?.unseen()?;
    let unseen_kept = scene.pod(&machine, &there, "unseen")?.unseen()?;
    let network = scene.network.clone();
    machine.add(&network, &unseen)?;
    let unseen_ips = machine.add(&network, &unseen_kept)?;
    let anew = machine.again(&kept)?;
    ensure!(machine.add(&network, &anew)? == ips, "the other one took its address");
    for sandbox in [&gone, &unseen] {
        scene.force_delete(sandbox)?;
    }
    let took = scene.given_back(&machine, &[&gone, &unseen])?;
    scene.holds(&machine, &anew, &ips)?;
    scene.holds(&machine, &unseen_kept, &unseen_ips)?;
    Ok(format!("after {took:.1?}"))
}

/// Pods of all sorts are deleted, and the runtime cannot make a DEL: there is no such program.
fn plugin_gone(scene: &mut Scene<'_>) -> Result<String> {
    let machine = scene.machine("a")?;
    let mut pods = Vec::new();
    for name in ["deployment-x7", "statefulset-0", "daemonset-k2", "job-p9"] {
        pods.push(scene.running(&machine, DEFAULT, &format!("{}-{name}", scene.case))?.0);
    }
    for pod in &pods {
        scene.force_delete(pod)?;
        pod.vanish()?;
    }
    let took = scene.given_back(&machine, &pods.iter().collect::<Vec<_>>())?;
    Ok(format!("after {took:.1?}"))
}

fn no_grace(scene: &mut Scene<'_>) -> Result<String> {
    let machine = scene.machine("a")?;
    let (pod, ips) = scene.running(&machine, DEFAULT, "no-grace")?;
    scene.force_delete(&pod)?;
    // The runtime still does its part.
    machine.del(&scene.network, &pod)?;
    let took = scene.given_back(&machine, &[&pod])?;
    let (next, again) = scene.running(&machine, DEFAULT, "no-grace-next")?;
    ensure!(again == ips, "it is free, and not given");
    scene.holds(&machine, &next, &again)?;
    Ok(format!("after {took:.1?}"))
}

/// A record that somebody made by hand is a reservation as long as its pod was not seen; whoever made it takes it out. When the pod was there and
/// is gone, it goes by itself.
fn wrong_pod(scene: &mut Scene<'_>) -> Result<String> {
    let (machine, network) = (scene.machine("a")?, scene.network.clone());
    let (first, ips) = scene.running(&machine, DEFAULT, "wrong-pod")?;
    scene.holds(&machine, &first, &ips)?;
    let entry = |pod: &str| json!({"id": "by-hand", "podref": format!("{DEFAULT}/{pod}"), "ifname": "net1"});
    scene.edit(&machine, 2, &entry("nowhere"))?;
    scene.edit(&machine, 3, &entry("wrong-pod-later"))?;
    machine.reserves(&network, &[scene.ip(2), scene.ip(3)])?;
    let (third, given) = scene.running(&machine, DEFAULT, "wrong-pod-third")?;
    ensure!(given == scene.ip(4), "an address that somebody reserved is given: {given:?}");
    let later = scene.pod(&machine, DEFAULT, "wrong-pod-later")?;
    ensure!(machine.add(&network, &later)? == scene.ip(3), "it is another pod's than the one that it was reserved for");
    scene.force_delete(&later)?;
    later.vanish()?;
    let took = scene.given_back(&machine, &[&later])?;
    scene.edit(&machine, 2, &Value::Null)?;
    machine.del(&network, &third)?;
    machine.reserves(&network, &[])?;
    let (_, freed) = scene.running(&machine, DEFAULT, "wrong-pod-freed")?;
    ensure!(freed == scene.ip(2), "what was taken out is not given: {freed:?}");
    Ok(format!("after {took:.1?} when its pod was gone"))
}

/// Pods that have ended hold nothing when their sandbox is gone, or when nobody can see it.
fn jobs(scene: &mut Scene<'_>) -> Result<String> {
    let (machine, network) = (scene.machine("a")?, scene.network.clone());
    let (succeeded, _) = scene.running(&machine, DEFAULT, "job-succeeded")?;
    let failed = scene.pod(&machine, DEFAULT, "job-failed")?.unseen()?;
    machine.add(&network, &failed)?;
    let running = scene.pod(&machine, DEFAULT, "job-running")?.unseen()?;
    let ips = machine.add(&network, &running)?;
    scene.ended(&succeeded, "Succeeded")?;
    scene.ended(&failed, "Failed")?;
    succeeded.vanish()?;
    let took = scene.given_back(&machine, &[&succeeded, &failed])?;
    scene.holds(&machine, &running, &ips)?;
    Ok(format!("after {took:.1?}"))
}

/// The pool names another container of the pod that has the address: it is put right. A further record in the name of a pod is held
/// until whoever made it takes it out.
fn wrong_container(scene: &mut Scene<'_>) -> Result<String> {
    let (machine, network) = (scene.machine("a")?, scene.network.clone());
    let (pod, ips) = scene.running(&machine, DEFAULT, "wrong-container")?;
    scene.holds(&machine, &pod, &ips)?;
    let wrong = json!({"id": "another", "podref": format!("{DEFAULT}/{}", pod.pod), "ifname": "net1"});
    scene.edit(&machine, 1, &wrong)?;
    scene.holds(&machine, &pod, &ips)?;
    scene.edit(&machine, 5, &wrong)?;
    machine.reserves(&network, &[scene.ip(5)])?;
    scene.force_delete(&pod)?;
    pod.vanish()?;
    let took = scene.given_back(&machine, &[&pod])?;
    scene.edit(&machine, 5, &Value::Null)?;
    machine.reserves(&network, &[])?;
    Ok(format!("after {took:.1?}"))
}

fn restarts(scene: &mut Scene<'_>) -> Result<String> {
    const ROUNDS: usize = 5;
    let machine = scene.machine("a")?;
    let (mut lost, mut kept) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        lost.push(scene.running(&machine, DEFAULT, &format!("restarts-lost-{round}"))?.0);
        machine.kill_agent()?;
        kept.push(scene.running(&machine, DEFAULT, &format!("restarts-kept-{round}"))?);
        lost[round].vanish()?;
        machine.start_agent()?;
    }
    let took = scene.given_back(&machine, &lost.iter().collect::<Vec<_>>())?;
    for (pod, ips) in &kept {
        scene.holds(&machine, pod, ips)?;
    }
    Ok(format!("after {ROUNDS} restarts, {took:.1?} after the last"))
}

/// Its pods are deleted and run on other nodes; it still runs them, and nobody there knows. Then it is back.
fn not_ready(scene: &mut Scene<'_>) -> Result<String> {
    let (away, other) = (scene.machine("a")?, scene.machine("b")?);
    let network = scene.network.clone();
    let (old, ips) = scene.running(&away, DEFAULT, "not-ready")?;
    scene.holds(&away, &old, &ips)?;
    away.kill_agent()?;
    scene.force_delete(&old)?;
    let (new, others) = scene.running(&other, DEFAULT, "not-ready")?;
    ensure!(others != ips, "{others:?} is in use on a node that is away");
    scene.holds(&other, &new, &others)?;
    away.start_agent()?;
    // It runs there still.
    scene.holds(&away, &old, &ips)?;
    away.del(&network, &old)?;
    let took = scene.given_back(&away, &[&old])?;
    scene.holds(&other, &new, &others)?;
    Ok(format!("{took:.1?} after its end"))
}

fn shrinks(scene: &mut Scene<'_>) -> Result<String> {
    let machine = scene.machine("a")?;
    let mut replicas = Vec::new();
    for ordinal in 0..6 {
        replicas.push(scene.running(&machine, DEFAULT, &format!("shrinks-{ordinal}"))?);
    }
    let (stay, go) = replicas.split_at(3);
    for (pod, _) in go {
        scene.force_delete(pod)?;
        pod.vanish()?;
    }
    let gone: Vec<&Sandbox> = go.iter().map(|(pod, _)| pod).collect();
    let took = scene.given_back(&machine, &gone)?;
    for (pod, ips) in stay {
        scene.holds(&machine, pod, ips)?;
    }
    Ok(format!("after {took:.1?}"))
}

/// Two sets with stable names grow and shrink on two nodes, beyond a slice of each.
fn two_sets(scene: &mut Scene<'_>) -> Result<String> {
    let machines = [scene.machine("a")?, scene.machine("b")?];
    let network = scene.network.clone();
    let (mut running, mut gone): (Vec<(usize, Sandbox, Vec<String>)>, _) = (Vec::new(), [Vec::new(), Vec::new()]);
    for _ in 0..3 {
        for set in ["red", "blue"] {
            for ordinal in 0..SLICE {
                let node = usize::from(ordinal) % 2;
                let pod = machines[node].sandbox(DEFAULT, &format!("{}-{set}-{ordinal}", scene.case), "")?;
                let ips = patiently(&machines[node], &network, &pod)?;
                running.push((node, pod, ips));
            }
        }
        let all: BTreeSet<&Vec<String>> = running.iter().map(|(_, _, ips)| ips).collect();
        ensure!(all.len() == running.len(), "an address is there twice");
        for (node, pod, ips) in &running {
            scene.holds(&machines[*node], pod, ips)?;
        }
        // Half of them go in order, and of the others nobody tells.
        for (number, (node, pod, _)) in running.drain(..).enumerate() {
            if number % 2 == 0 {
                machines[node].del(&network, &pod)?;
            } else {
                pod.vanish()?;
            }
            gone[node].push(pod);
        }
    }
    for (machine, gone) in machines.iter().zip(&gone) {
        scene.given_back(machine, &gone.iter().collect::<Vec<_>>())?;
    }
    Ok(format!("{} pods three times", 2 * SLICE))
}

/// A node that is full gets a further slice; until then its pods wait.
fn patiently(machine: &Machine, network: &Network, pod: &Sandbox) -> Result<Vec<String>> {
    eventually(LIMIT, || machine.add(network, pod))
}

/// Workloads of three nodes want all addresses of one pool at once, and no more.
fn contention(scene: &mut Scene<'_>) -> Result<String> {
    const ALL: usize = 14;
    let shared =
        Network::shared(&format!("{}-shared", scene.case), &format!("10.{}.2.0/28", scene.number), scene.cluster);
    let machines = [scene.machine("a")?, scene.machine("b")?, scene.machine("c")?];
    for round in 0..3 {
        let pods: Vec<(usize, Sandbox)> = (0..ALL)
            .map(|pod| Ok((pod % 3, machines[pod % 3].sandbox(DEFAULT, &format!("{}-{round}-{pod}", scene.case), "")?)))
            .collect::<Result<_>>()?;
        let given: Vec<Vec<String>> = thread::scope(|scope| {
            let hands: Vec<_> =
                pods.iter().map(|(node, pod)| scope.spawn(|| machines[*node].add(&shared, pod))).collect();
            hands.into_iter().map(|hand| hand.join().map_err(|_| anyhow!("a hand fell over"))?).collect::<Result<_>>()
        })?;
        let all: BTreeSet<&Vec<String>> = given.iter().collect();
        ensure!(all.len() == ALL, "an address is there twice: {given:?}");
        let late = machines[0].sandbox(DEFAULT, &format!("{}-late", scene.case), "")?;
        let why = machines[0].try_add(&shared, &late)?.err().context("there are more addresses than there are")?;
        ensure!(why["code"] == FULL, "{why}");
        machines[0].del(&shared, &late)?;
        for (node, pod) in &pods {
            machines[*node].del(&shared, pod)?;
        }
        for (number, machine) in machines.iter().enumerate() {
            let own: Vec<&Sandbox> = pods.iter().filter(|(node, _)| *node == number).map(|(_, pod)| pod).collect();
            scene.given_back_of(&shared, machine, &own)?;
        }
    }
    Ok(format!("all {ALL} addresses three times"))
}

/// Pods come and go while something is away; afterwards all is as they were told.
fn served_while(
    scene: &mut Scene<'_>,
    machine: &Machine,
    fault: impl FnOnce(&Cluster, &dyn Fn() -> Result<()>) -> Result<()>,
) -> Result<String> {
    let (network, cluster) = (scene.network.clone(), scene.cluster);
    let name = |moment: &str| format!("{}-{moment}", scene.case);
    let [before, kept, during, after] = ["before", "kept", "during", "after"].map(name);
    let (before, _) = scene.running(machine, DEFAULT, &before)?;
    let (kept, kept_ips) = scene.running(machine, DEFAULT, &kept)?;
    let [during, after] = [machine.sandbox(DEFAULT, &during, "")?, machine.sandbox(DEFAULT, &after, "")?];
    fault(cluster, &|| {
        machine.add(&network, &during)?;
        machine.del(&network, &before)
    })?;
    let ips = machine.add(&network, &after)?;
    scene.given_back(machine, &[&before])?;
    scene.holds(machine, &kept, &kept_ips)?;
    let during_ips = machine.add(&network, &during)?;
    scene.holds(machine, &during, &during_ips)?;
    scene.holds(machine, &after, &ips)?;
    Ok(String::new())
}

fn agent_restarts(scene: &mut Scene<'_>) -> Result<String> {
    let machine = scene.machine("a")?;
    served_while(scene, &machine, |_, pods| {
        machine.kill_agent()?;
        pods()?;
        machine.start_agent()
    })
}

/// Its pods come again on another node; it comes back much later.
fn power_off(scene: &mut Scene<'_>) -> Result<String> {
    let (off, other) = (scene.machine("a")?, scene.machine("b")?);
    let (old, ips) = scene.running(&off, DEFAULT, "power-off-0")?;
    scene.holds(&off, &old, &ips)?;
    off.reboot()?;
    scene.force_delete(&old)?;
    let (new, others) = scene.running(&other, DEFAULT, "power-off-0")?;
    scene.holds(&other, &new, &others)?;
    off.start_agent()?;
    let took = scene.given_back(&off, &[&old])?;
    scene.holds(&other, &new, &others)?;
    Ok(format!("{took:.1?} after its power came back"))
}

fn controller_restarts(scene: &mut Scene<'_>) -> Result<String> {
    let machine = scene.machine("a")?;
    served_while(scene, &machine, |cluster, pods| {
        cluster.kill_controller()?;
        pods()?;
        cluster.start_controller()
    })?;
    let next = scene.machine("b")?;
    scene.running(&next, DEFAULT, "controller-restarts-next").map(|_| "and a further node was served".to_owned())
}

fn etcd_restarts(scene: &mut Scene<'_>) -> Result<String> {
    let machine = scene.machine("a")?;
    served_while(scene, &machine, |cluster, pods| cluster.restart_store(pods))
}

fn server_restarts(scene: &mut Scene<'_>) -> Result<String> {
    let machine = scene.machine("a")?;
    served_while(scene, &machine, |cluster, pods| {
        cluster.kill_server()?;
        pods()?;
        cluster.start_server()
    })
}

/// Two controllers: the one that has the Lease goes, and does not come back.
fn takes_over(scene: &mut Scene<'_>) -> Result<String> {
    let machine = scene.machine("a")?;
    scene.cluster.start_controller()?;
    scene.cluster.kill_controller()?;
    let pod = machine.sandbox(DEFAULT, "takes-over", "")?;
    machine.add(&scene.network, &pod)?;
    let next = scene.machine("b")?;
    scene.running(&next, DEFAULT, "takes-over-next").map(|_| String::new())
}
