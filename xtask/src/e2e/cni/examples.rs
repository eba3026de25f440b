//! The networks of examples/pods, as they are: a node that holds a slice of one gives pods addresses of it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::pods::{attachment, node};
use crate::process;

/// The range of all of them, without its host bits, and a slice of it.
const RANGE: &str = "192.0.0.0/8";
const SLICE: &str = "192.0.4.0/22";

/// A pod on each network, and one on both definitions of the network that has two.
pub(super) fn run(plugin: &Path, folder: &Path) -> Result<String> {
    let examples = process::repo_root().join("examples/pods");
    let mut networks = Vec::new();
    for name in ["whereaboutsexample.yaml", "test-network.yaml"] {
        let text = fs::read_to_string(examples.join(name)).with_context(|| format!("no {name} in examples/pods"))?;
        networks.extend(text.split("\n---\n").map(config).collect::<Result<Vec<_>>>()?);
    }
    for name in ["whereaboutsexample", "test-network"] {
        node::grant(folder, name, &[(RANGE, vec![SLICE])])?;
    }
    let plugin = node::plugin(plugin, folder);
    // The last two are one network.
    let expected = ["192.0.4.1/8", "192.0.4.1/8", "192.0.4.2/8"];
    ensure!(networks.len() == expected.len(), "{} networks in examples/pods", networks.len());
    for (number, (conf, ip)) in networks.iter().zip(expected).enumerate() {
        let variables = attachment("ADD", "web", "web", &format!("net{number}"));
        let said = plugin.run(variables, &conf.to_string())?;
        let answer: Value = serde_json::from_str(&said.stdout).with_context(|| format!("not an answer: {said:?}"))?;
        ensure!(answer["ips"][0]["address"] == ip, "{} gives {answer}", conf["name"]);
    }
    Ok(format!("{} networks", networks.len()))
}

/// The CNI configuration in a manifest, which is the only thing in it that has braces.
fn config(manifest: &str) -> Result<Value> {
    let (first, last) = (manifest.find('{').context("no configuration")?, manifest.rfind('}').unwrap_or(0));
    Ok(serde_json::from_str(&manifest[first..=last])?)
}
