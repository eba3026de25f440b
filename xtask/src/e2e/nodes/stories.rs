//! The examples of `examples/nodes`.

use std::path::Path;

use anyhow::{Result, bail};

use super::cluster::Setup;
use crate::e2e::story;

/// A script.
pub(super) struct Story {
    pub(super) name: &'static str,
    script: &'static str,
}

pub(super) const STORIES: [Story; 4] = [
    Story { name: "example: the allocations of KEP-2593", script: "nodes/kep.sh" },
    Story { name: "example: more room for nodes", script: "nodes/expand.sh" },
    Story { name: "example: six sizes of nodes in one range", script: "nodes/six-sizes.sh" },
    Story { name: "example: a range is given up", script: "nodes/retire.sh" },
];

/// Runs one in a cluster of its own.
pub(super) fn run(setup: &Setup<'_>, story: &Story, folder: &Path) -> Result<String> {
    let cluster = setup.start(folder)?;
    story::tell(setup.servers, story.script, &cluster.kubeconfig()?, folder, |_| bail!("nothing is to be started anew"))
}
