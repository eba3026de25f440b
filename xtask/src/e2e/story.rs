//! The examples that are scripts, run as they are by somebody with kubectl in front of a server. A script says what it does and fails
//! where something is not as it says.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::servers::Servers;
use crate::parts::Part;
use crate::process;

/// How a script asks to have the servers started anew; the flag follows.
const RESTART: &str = "Start the server anew with ";
/// How many lines of what it said are shown if it fails.
const SHOWN: usize = 20;

/// Runs a script of `examples` with a kubeconfig; what it says stays in the folder. `restart` starts the servers anew with a flag.
pub(super) fn tell(
    servers: &Servers,
    script: &str,
    kubeconfig: &Path,
    folder: &Path,
    mut restart: impl FnMut(&str) -> Result<()>,
) -> Result<String> {
    let kubectl = servers.part(Part::Kubectl)?;
    let tools = kubectl.parent().context("kubectl is nowhere")?;
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap_or_default());
    let log = folder.join("script.log");
    let mut child = Command::new("bash")
        .arg(process::repo_root().join("examples").join(script))
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
            restart(asked.split_whitespace().next().unwrap_or_default())?;
            restarts += 1;
            stdin.write_all(b"\n")?;
        }
    }
    let status = child.wait()?;
    let text = fs::read_to_string(&log)? + &fs::read_to_string(folder.join("script.err"))?;
    let lines: Vec<_> = text.lines().collect();
    let end = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
    ensure!(status.success(), "{script} ended with {status}:\n{end}");
    let count = |beginning: &str| lines.iter().filter(|line| line.starts_with(beginning)).count();
    Ok(format!("{} commands, {} claims hold, {restarts} restarts", count("$ "), count("ok: ")))
}
