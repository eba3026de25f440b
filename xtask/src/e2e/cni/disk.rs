//! A disk that is full, and one that cannot be written to: an ADD is refused and leaves nothing, and what was given stays given.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use testkit::real::{Plugin, Said};

use super::books::{self, Attachment, Holdings};
use super::storm::{RANGE, conf};
use crate::e2e::report::Outcome;
use crate::e2e::small_disk::SmallDisk;
use crate::pods::{attachment, node};

const NETWORK: &str = "disk";
const DISK_MIB: u32 = 1;
/// CNI's code for what could not be read or written.
const IO: u64 = 5;
/// Enough for all pods.
const SLICE: &str = "10.0.4.0/22";
/// More than there is room for in what a journal has ahead of itself.
const MOST: usize = 1000;
/// How many pods are there before anything goes wrong.
const PODS: usize = 8;

/// Fills the disk and frees it again, protects it and opens it again, with pods that come and go throughout.
pub(super) fn run(binary: &Path, folder: &Path) -> Result<Outcome> {
    let disk = match SmallDisk::mount(folder, DISK_MIB) {
        Ok(disk) => disk,
        Err(why) => {
            let why = format!("a full disk needs a disk of its own, and only root may mount one: {why:#}");
            return Ok(Outcome::NotRun(why));
        }
    };
    let network = node::grant(folder, NETWORK, &[(RANGE, vec![SLICE])])?;
    let runtime = Runtime { plugin: node::plugin(binary, folder), conf: conf(NETWORK) };
    let mut known = Holdings::new();
    for pod in 0..PODS {
        let pod = format!("before-{pod}");
        known.insert(Attachment::new(&pod, "net1"), vec![runtime.add(&pod)?]);
    }
    let mut told = Vec::new();
    for fault in ["full", "read-only"] {
        if fault == "full" {
            disk.fill()?;
        } else {
            disk.protect(true)?;
        }
        let answer = runtime.until_refused(fault, &mut known)?;
        ensure!(answer["code"] == IO, "on a disk that is {fault}: {answer}");
        told.push(format!("{fault}: {}", answer["msg"].as_str().unwrap_or_default()));
        // What was given is still known.
        let previous = serde_json::json!({"cniVersion": "1.0.0", "ips": [{"address": known[&Attachment::new("before-0", "net1")][0]}]});
        let said = runtime.call("CHECK", "before-0", Some(&previous))?;
        ensure!(said.success(), "CHECK on a disk that is {fault}: {}", said.stdout);
        if fault == "full" {
            disk.free()?;
        } else {
            disk.protect(false)?;
        }
        books::compare(&known, &books::journal(&network)?).with_context(|| format!("after a disk that was {fault}"))?;
        let pod = format!("after-{fault}");
        known.insert(Attachment::new(&pod, "net1"), vec![runtime.add(&pod)?]);
        ensure!(runtime.call("DEL", &pod, None)?.success(), "DEL after a disk that was {fault}");
        known.remove(&Attachment::new(&pod, "net1"));
    }
    let held = books::compare(&known, &books::journal(&network)?)?;
    Ok(Outcome::Ok(format!("{held} addresses held throughout\n{}", told.join("\n"))))
}

struct Runtime {
    plugin: Plugin,
    conf: Value,
}

impl Runtime {
    fn call(&self, call: &str, pod: &str, previous: Option<&Value>) -> Result<Said> {
        let variables = attachment(call, pod, pod, "net1");
        let mut conf = self.conf.clone();
        if let Some(previous) = previous {
            conf["prevResult"] = previous.clone();
        }
        Ok(self.plugin.run(variables, &conf.to_string())?)
    }

    /// Adds pods until one is refused: what is said of that. On a full disk a file may have some room left.
    fn until_refused(&self, fault: &str, known: &mut Holdings) -> Result<Value> {
        for pod in 0..MOST {
            let pod = format!("{fault}-{pod}");
            let said = self.call("ADD", &pod, None)?;
            let answer: Value =
                serde_json::from_str(&said.stdout).with_context(|| format!("not an answer: {said:?}"))?;
            if !said.success() {
                return Ok(answer);
            }
            known.insert(Attachment::new(&pod, "net1"), vec![address(&answer)?]);
        }
        bail!("{MOST} pods were given addresses on a disk that is {fault}")
    }

    /// The address that a pod is given.
    fn add(&self, pod: &str) -> Result<String> {
        let said = self.call("ADD", pod, None)?;
        ensure!(said.success(), "ADD of {pod}: {}", said.stdout);
        let answer: Value = serde_json::from_str(&said.stdout)?;
        address(&answer)
    }
}

fn address(answer: &Value) -> Result<String> {
    Ok(answer["ips"][0]["address"].as_str().with_context(|| format!("no address in {answer}"))?.to_owned())
}
