//! Nodes that are folders: a state directory each, and in it the slices of the node, written as the agent writes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::json;
use testkit::real::Plugin;

use super::NODE;

/// A range of a network, and the slices of it that a node holds.
pub(crate) type Held<'a> = (&'a str, Vec<&'a str>);

/// Writes down that a node holds these slices of a network; the folder of the network on that node.
pub(crate) fn grant(state: &Path, network: &str, held: &[Held<'_>]) -> Result<PathBuf> {
    let folder = state.join(network);
    fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    let slice = |slice: &&str| json!({"slice": slice, "generation": 1, "epoch": 1, "state": "granted"});
    let range =
        |(range, slices): &Held<'_>| json!({"range": range, "slices": slices.iter().map(slice).collect::<Vec<_>>()});
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let grants = json!({
        "version": 1, "network": network, "node": NODE, "nodeUID": "uid-of-node-1", "journal": null,
        "refreshedAt": now, "ranges": held.iter().map(range).collect::<Vec<_>>(),
    });
    fs::write(folder.join("grants"), grants.to_string())?;
    Ok(folder)
}

/// Our plugin, on the node of that state directory.
pub(crate) fn plugin(binary: &Path, state: &Path) -> Plugin {
    Plugin::new(binary).with("NODENAME", NODE).with("CADASTRE_STATE_DIR", &state.display().to_string())
}
