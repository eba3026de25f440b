//! Journals that something has gone wrong with: bits that are not what they were, and ends that are missing. Whatever is in the file, the
//! plugin answers; and where a bit is wrong of what others hold, it gives nothing that somebody has.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::choices::{Choices, Seeded};
use testkit::real::Plugin;

use super::storm::{RANGE, conf};
use crate::pods::{attachment, node};

const NETWORK: &str = "damage";
const PODS: usize = 12;

/// Damages the journal of a dozen pods so many times in each way, each time anew.
pub(super) fn run(binary: &Path, folder: &Path, rounds: u64, seed: u64) -> Result<String> {
    let network = node::grant(folder, NETWORK, &[(RANGE, vec!["10.0.1.0/24"])])?;
    let plugin = node::plugin(binary, folder);
    let mut held = BTreeSet::new();
    for pod in 0..PODS {
        let answer = asked(&plugin, "ADD", &format!("pod-{pod}"))?;
        held.insert(answer["ips"][0]["address"].as_str().with_context(|| format!("no address: {answer}"))?.to_owned());
    }
    let path = network.join("journal");
    let sound = fs::read(&path)?;
    // Behind the records there is room for more, with nothing in it; and the last one may be unfinished, so it does not count.
    let used = sound.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let before_last = used * (PODS - 1) / PODS;
    let mut random = Seeded::new(seed);
    let (mut refused, mut given) = (0, 0);
    for _ in 0..rounds {
        let mut bytes = sound.clone();
        bytes[random.below(before_last as u64) as usize] ^= 1 << random.below(8);
        fs::write(&path, &bytes)?;
        match asked(&plugin, "ADD", "new")?["ips"][0]["address"].as_str() {
            Some(ip) => {
                ensure!(!held.contains(ip), "{ip} is given again after a bit was changed");
                given += 1;
            }
            None => refused += 1,
        }
        // What is asked of a damaged book must be answered, whatever comes of it.
        fs::write(&path, &sound[..random.below(used as u64) as usize])?;
        for call in ["ADD", "DEL", "CHECK"] {
            asked(&plugin, call, "new")?;
        }
    }
    fs::write(&path, &sound)?;
    for ip in &held {
        ensure!(asked(&plugin, "ADD", "another")?["ips"][0]["address"] != **ip, "{ip} is given twice");
    }
    Ok(format!(
        "{rounds} wrong bits: {refused} ADDs refused, {given} given what nobody has; {rounds} ends cut off: all answered"
    ))
}

/// What a call answers; nothing but one document, or nothing, is an answer.
fn asked(plugin: &Plugin, call: &str, pod: &str) -> Result<Value> {
    let variables = attachment(call, pod, pod, "net1");
    let mut conf = conf(NETWORK);
    conf["prevResult"] = serde_json::json!({"cniVersion": "1.0.0", "ips": []});
    let said = plugin.run(variables, &conf.to_string())?;
    ensure!(matches!(said.code, Some(0 | 1)), "{call} of {pod}: {said:?}");
    if said.success() && said.stdout.is_empty() {
        return Ok(Value::Null);
    }
    let answer: Value = serde_json::from_str(&said.stdout).with_context(|| format!("{call} of {pod}: {said:?}"))?;
    ensure!(said.success() != answer["code"].is_number(), "{call} of {pod}: {said:?}");
    Ok(answer)
}
