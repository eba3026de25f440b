//! An agent on a disk that is full, and on one that cannot be written to: it goes on trying, loses nothing, and does what it had to do when it
//! can.

use std::fs;

use anyhow::{Context, Result, ensure};
use cni::grants::{Grants, SliceState};
use cni::place::Place;
use serde_json::json;

use super::books::{self, Holdings};
use super::cluster::eventually;
use super::machine::{GIVEN_BACK, Machine};
use super::scene::{Case, DEFAULT, Scene, With};

pub(super) const CASES: &[Case] =
    &[Case { name: "an agent on a full and a read-only disk", with: With::Others, run: starved }];

const DISK_MIB: u32 = 1;
/// What an agent says of work on files that has to be done again.
const TRIED: &str = "the files could not be written; this is tried again";

/// What is wrong with the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It is full, and the journal is damaged, so that the agent has to write it anew.
    FullAndDamaged,
    /// It is full. There is room in what the journal has ahead, so that addresses come back all the same.
    Full,
    /// Nothing can be written to it.
    ReadOnly,
}

/// Under each fault a sandbox vanishes, and the network is cut otherwise, so that there are grants to be written.
fn starved(scene: &mut Scene<'_>) -> Result<String> {
    // The agent is gone before its disk is.
    let disk = scene.disk("a", DISK_MIB)?;
    let machine = scene.machine("a")?;
    let place = Place::new(disk.folder(), &scene.network.name);
    let mut known = Holdings::new();
    let mut sandboxes = Vec::new();
    for pod in ["first", "kept", "gone-damaged", "gone-full", "gone-read-only"] {
        let (sandbox, ips) = scene.running(&machine, DEFAULT, &format!("{}-{pod}", scene.case))?;
        scene.holds(&machine, &sandbox, &ips)?;
        known.insert(sandbox.attachment(), ips);
        sandboxes.push(sandbox);
    }
    let faults = [(Fault::FullAndDamaged, 29), (Fault::Full, 28), (Fault::ReadOnly, 29)];
    for ((fault, size), gone) in faults.into_iter().zip(&sandboxes[2..]) {
        let before = Grants::read(&place)?;
        match fault {
            Fault::FullAndDamaged => {
                machine.kill_agent()?;
                damage(&place, &format!("{DEFAULT}/{}", sandboxes[0].pod))?;
                disk.fill()?;
                machine.start_agent()?;
            }
            Fault::Full => disk.fill()?,
            Fault::ReadOnly => disk.protect(true)?,
        }
        let journal = fs::read(place.journal())?;
        gone.vanish()?;
        match fault {
            Fault::Full => drop(machine.forgets(&scene.network, &[gone])?),
            // A damaged journal is all that an agent sees to; in the other case there is nothing but the address to be written yet.
            Fault::FullAndDamaged | Fault::ReadOnly => tries(&machine, 1)?,
        }
        scene.network.ipam["node_slice_size"] = json!(format!("/{size}"));
        let network = scene.network.clone();
        scene.api.define(&network.name, network.ipam.clone())?;
        tries(&machine, 2)?;
        ensure!(Grants::read(&place)?.ranges == before.ranges, "{fault:?}: there are other grants");
        if fault != Fault::Full {
            ensure!(fs::read(place.journal())? == journal, "{fault:?}: there is another journal");
            let refused = machine.try_add(&network, &machine.sandbox(DEFAULT, "none", "")?)?;
            ensure!(refused.is_err(), "{fault:?}: {refused:?}");
        }
        if fault == Fault::ReadOnly {
            disk.protect(false)?;
        } else {
            disk.free()?;
        }
        known.remove(&gone.attachment());
        settles(&machine, scene, &place, &known, size).with_context(|| format!("after {fault:?}"))?;
        let (new, ips) =
            scene.running(&machine, DEFAULT, &format!("{}-after-{size}-{fault:?}", scene.case).to_lowercase())?;
        ensure!(!known.values().any(|held| *held == ips), "{ips:?} is given twice");
        machine.del(&network, &new)?;
        scene.given_back(&machine, &[&new, gone])?;
    }
    for (sandbox, ips) in sandboxes.iter().take(2).filter_map(|one| Some((one, known.get(&one.attachment())?))) {
        scene.holds(&machine, sandbox, ips)?;
    }
    machine.kill_agent()?;
    Ok(format!("{faults:?}: {} addresses held throughout", known.len()))
}

/// A bit of the record of a pod is not what it was.
fn damage(place: &Place, pod: &str) -> Result<()> {
    let mut journal = fs::read(place.journal())?;
    let at = journal.windows(pod.len()).position(|bytes| bytes == pod.as_bytes());
    journal[at.with_context(|| format!("{pod} is not in the journal"))?] ^= 1;
    Ok(fs::write(place.journal(), &journal)?)
}

/// Waits until the agent has tried so many times more to write what it cannot write.
fn tries(machine: &Machine, times: usize) -> Result<()> {
    let before = machine.says(TRIED)?;
    eventually(GIVEN_BACK, || {
        let more = machine.says(TRIED)?.saturating_sub(before);
        ensure!(more >= times, "the agent tried {more} times more to write");
        Ok(())
    })
}

/// Waits until the journal has what is held and nothing else, and new addresses come of slices of that size.
fn settles(machine: &Machine, scene: &Scene<'_>, place: &Place, known: &Holdings, size: u8) -> Result<()> {
    eventually(GIVEN_BACK, || {
        books::compare(known, &machine.journal(&scene.network)?)?;
        let grants = Grants::read(place)?;
        let mut slices = grants.ranges.iter().flat_map(|range| &range.slices);
        let is_new = |state, length| state == SliceState::Granted && length == size;
        ensure!(slices.any(|slice| is_new(slice.state, slice.cidr.length())), "no slice of /{size}: {grants:?}");
        Ok(())
    })
}
