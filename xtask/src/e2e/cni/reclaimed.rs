//! What nobody gives back comes back by itself: lost DELs, pods that are deleted by force, reboots, with and without the API server; of
//! slices, and of networks that all nodes share.

use anyhow::{Result, ensure};

use super::scene::{Case, DEFAULT, Scene, With};

pub(super) const CASES: &[Case] = &[
    Case { name: "reclaimed: sandboxes that vanish", with: With::Others, run: vanished },
    Case { name: "reclaimed: pods that are deleted by force", with: With::Others, run: forced },
    Case { name: "reclaimed: a reboot", with: With::Others, run: rebooted },
    Case {
        name: "reclaimed: sandboxes that vanish, of a shared network",
        with: With::Others,
        run: |scene| shared(scene, vanished),
    },
    Case {
        name: "reclaimed: pods that are deleted by force, of a shared network",
        with: With::Others,
        run: |scene| shared(scene, forced),
    },
    Case { name: "reclaimed: a reboot, of a shared network", with: With::Others, run: |scene| shared(scene, rebooted) },
    Case { name: "reclaimed: while agent and server were away", with: With::Nobody, run: unserved },
];

/// The same where nodes have no slices: what comes back has to be taken out of the one pool of all of them.
fn shared(scene: &mut Scene<'_>, run: fn(&mut Scene<'_>) -> Result<String>) -> Result<String> {
    scene.share();
    run(scene)
}

/// No DEL comes: for a pod that the API never knew, for one that it still has, and for one that comes again meanwhile.
fn vanished(scene: &mut Scene<'_>) -> Result<String> {
    let (machine, network) = (scene.machine("a")?, scene.network.clone());
    let home = scene.namespace("pods")?;
    let unknown = machine.sandbox(&home, "unknown", "")?;
    machine.add(&network, &unknown)?;
    let (there, _) = scene.running(&machine, &home, "vanished-there")?;
    let (again, ips) = scene.running(&machine, &home, "vanished-again")?;
    let (kept, kept_ips) = scene.running(&machine, &home, "vanished-kept")?;
    for sandbox in [&unknown, &there, &again] {
        sandbox.vanish()?;
    }
    let anew = machine.again(&again)?;
    ensure!(machine.add(&network, &anew)? == ips, "a pod that comes again has another address");
    let first = scene.given_back(&machine, &[&unknown])?;
    let second = scene.given_back(&machine, &[&there, &again])? + first;
    scene.holds(&machine, &anew, &ips)?;
    scene.holds(&machine, &kept, &kept_ips)?;
    Ok(format!("after {first:.1?}; of a pod that the API still has, after {second:.1?}"))
}

/// The API forgets pods, and no DEL comes. A sandbox that is there keeps its address all the same.
fn forced(scene: &mut Scene<'_>) -> Result<String> {
    let (machine, network) = (scene.machine("a")?, scene.network.clone());
    let home = scene.namespace("pods")?;
    let (gone, _) = scene.running(&machine, &home, "forced-gone")?;
    let (there, ips) = scene.running(&machine, &home, "forced-there")?;
    // Of this one only the API can say whether it is there.
    let unseen = scene.pod(&machine, &home, "forced-unseen")?.unseen()?;
    machine.add(&network, &unseen)?;
    for sandbox in [&there, &gone, &unseen] {
        scene.force_delete(sandbox)?;
    }
    gone.vanish()?;
    let first = scene.given_back(&machine, &[&gone])?;
    let second = scene.given_back(&machine, &[&unseen])? + first;
    scene.holds(&machine, &there, &ips)?;
    machine.del(&network, &there)?;
    scene.given_back(&machine, &[&there])?;
    Ok(format!("after {first:.1?}; where only the API knows, after {second:.1?}"))
}

/// Everything on the node is gone but its disk. Pods that are still to run there have their addresses again.
fn rebooted(scene: &mut Scene<'_>) -> Result<String> {
    let (machine, network) = (scene.machine("a")?, scene.network.clone());
    let home = scene.namespace("pods")?;
    let (gone, _) = scene.running(&machine, &home, "rebooted-gone")?;
    let (ended, _) = scene.running(&machine, &home, "rebooted-ended")?;
    let (stays, ips) = scene.running(&machine, &home, "rebooted-stays")?;
    machine.reboot()?;
    scene.force_delete(&gone)?;
    scene.ended(&ended, "Failed")?;
    machine.start_agent()?;
    let took = scene.given_back(&machine, &[&gone, &ended])?;
    scene.holds(&machine, &stays, &ips)?;
    let other = machine.sandbox(&home, "rebooted-other", "")?;
    ensure!(machine.add(&network, &other)? != ips, "the address of a pod that comes again is another's");
    let anew = machine.again(&stays)?;
    ensure!(machine.add(&network, &anew)? == ips, "after a reboot a pod has another address");
    // The one of before the boot has no entry in a shared pool any more; that node's journal forgets it with its pod.
    if network.is_sliced() {
        scene.given_back(&machine, &[&stays])?;
    }
    scene.holds(&machine, &anew, &ips)?;
    Ok(format!("after {took:.1?}"))
}

/// Neither the agent nor the server is there when sandboxes vanish; then the agent alone; then both.
fn unserved(scene: &mut Scene<'_>) -> Result<String> {
    let (machine, network) = (scene.machine("a")?, scene.network.clone());
    let (early, _) = scene.running(&machine, DEFAULT, "unserved-early")?;
    let (kept, ips) = scene.running(&machine, DEFAULT, "unserved-kept")?;
    machine.kill_agent()?;
    scene.cluster.kill_server()?;
    early.vanish()?;
    let late = machine.sandbox(DEFAULT, "unserved-late", "")?;
    machine.add(&network, &late)?;
    late.vanish()?;
    machine.start_agent()?;
    let took = machine.forgets(&network, &[&early, &late])?;
    scene.cluster.start_server()?;
    scene.given_back(&machine, &[&early, &late])?;
    scene.holds(&machine, &kept, &ips)?;
    Ok(format!("{took:.1?} after the agent came, without a server"))
}
