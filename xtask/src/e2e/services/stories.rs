//! The examples of `examples/services`, in front of `cadastre up`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::e2e::servers::Servers;
use crate::e2e::stand::Stand;
use crate::e2e::{Place, story};

/// A script, and the ranges of the cluster that it is for.
pub(super) struct Story {
    pub(super) name: &'static str,
    script: &'static str,
    ranges: &'static str,
}

/// What `cadastre up` has by itself.
const USUAL: &str = "10.0.0.0/24";
const DUAL: &str = "10.0.0.0/24,fd00:10::/112";

pub(super) const STORIES: [Story; 5] = [
    Story { name: "example: expand by adding a range", script: "services/expand.sh", ranges: USUAL },
    Story { name: "example: shrink", script: "services/shrink.sh", ranges: USUAL },
    Story { name: "example: replace the first range", script: "services/replace.sh", ranges: USUAL },
    Story { name: "example: a /64 of IPv6", script: "services/ipv6.sh", ranges: DUAL },
    Story { name: "example: dual stack", script: "services/dual-stack.sh", ranges: DUAL },
];

/// Runs one on servers of its own.
pub(super) fn run(servers: &Servers, place: Place, story: &Story, folder: &Path) -> Result<String> {
    fs::create_dir_all(folder)?;
    let mut stand = Stand::start(servers, place, folder, &[&flag(story.ranges)])?;
    let kubeconfig = stand.replicas.last().context("there is no server")?.server()?.kubeconfig();
    story::tell(servers, story.script, &kubeconfig, folder, |ranges| {
        stand.replicas.iter_mut().try_for_each(|server| server.again_with(ranges))
    })
}

fn flag(ranges: &str) -> String {
    format!("--service-cluster-ip-range={ranges}")
}
