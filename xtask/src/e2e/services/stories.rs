//! The examples of `examples/services`, run as they are by somebody with kubectl in front of `cadastre up`. A script says what it does
//! and fails where something is not as it says.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::e2e::Place;
use crate::e2e::servers::Servers;
use crate::e2e::stand::Stand;
use crate::parts::Part;
use crate::process;

/// How a script asks to have the servers started anew; the flag follows.
const RESTART: &str = "Start the server anew with ";
/// How many lines of what it said are shown if it fails.
const SHOWN: usize = 20;

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
    Story { name: "example: expand by adding a range", script: "expand.sh", ranges: USUAL },
    Story { name: "example: shrink", script: "shrink.sh", ranges: USUAL },
    Story { name: "example: replace the first range", script: "replace.sh", ranges: USUAL },
    Story { name: "example: a /64 of IPv6", script: "ipv6.sh", ranges: DUAL },
    Story { name: "example: dual stack", script: "dual-stack.sh", ranges: DUAL },
];

/// Runs one on servers of its own.
pub(super) fn run(servers: &Servers, place: Place, story: &Story, folder: &Path) -> Result<String> {
    fs::create_dir_all(folder)?;
    let mut stand = Stand::start(servers, place, folder, &[&flag(story.ranges)])?;
    let kubectl = servers.part(Part::Kubectl)?;
    let tools = kubectl.parent().context("kubectl is nowhere")?;
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap_or_default());
    let log = folder.join("script.log");
    let kubeconfig = stand.replicas.last().context("there is no server")?.server()?.kubeconfig();
    let mut child = Command::new("bash")
        .arg(process::repo_root().join("examples/services").join(story.script))
        .env("PATH", path)
        .env("HOME", folder)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(folder.join("script.err"))?)
        .spawn()
        .context("bash could not be started")?;
    let (mut stdin, stdout) = (child.stdin.take().context("no stdin")?, child.stdout.take().context("no stdout")?);
    let (mut said, mut restarts) = (File::create(&log)?, 0);
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        writeln!(said, "{line}")?;
        if let Some(asked) = line.strip_prefix(RESTART) {
            let ranges = asked.split_whitespace().next().unwrap_or_default();
            stand.replicas.iter_mut().try_for_each(|server| server.again_with(ranges))?;
            restarts += 1;
            stdin.write_all(b"\n")?;
        }
    }
    let status = child.wait()?;
    let text = fs::read_to_string(&log)? + &fs::read_to_string(folder.join("script.err"))?;
    let lines: Vec<_> = text.lines().collect();
    let end = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
    ensure!(status.success(), "{} ended with {status}:\n{end}", story.script);
    let count = |beginning: &str| lines.iter().filter(|line| line.starts_with(beginning)).count();
    Ok(format!("{} commands, {} claims hold, {restarts} restarts", count("$ "), count("ok: ")))
}

fn flag(ranges: &str) -> String {
    format!("--service-cluster-ip-range={ranges}")
}
