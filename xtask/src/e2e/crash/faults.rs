//! The faults: a server that is killed, a disk that is full, a leader that is killed. Each waits for load before it strikes.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use testkit::choices::{Choices, Seeded};
use testkit::real::EtcdCluster;

use super::traffic::{self, Progress};
use crate::e2e::client::{Client, Reply};
use crate::e2e::restarting::Restarting;

/// How many writes make it load.
const LOAD: u64 = 50;
/// How long load may take to come, also where a debug build runs on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
/// Up to how many milliseconds a fault waits once there is load, so that it strikes at any moment.
const JITTER: u64 = 300;
/// The largest and the smallest piece that is written to fill a disk: the last byte counts.
const PIECES: [usize; 3] = [1 << 20, 1 << 12, 1];

/// Waits until something holds; an error if it does not in time.
fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    let began = Instant::now();
    while !holds() {
        ensure!(began.elapsed() < PATIENCE, "waited {} s for {what}", PATIENCE.as_secs());
        thread::sleep(BETWEEN_LOOKS);
    }
    Ok(())
}

/// Waits until there was load, counted from now, and then some more.
pub(super) fn load(progress: &Progress, random: &mut Seeded) -> Result<()> {
    let enough = progress.acknowledged() + LOAD;
    until("writes to be acknowledged", || progress.acknowledged() >= enough)?;
    // Not to wait for anything: the moment is to be any.
    thread::sleep(Duration::from_millis(random.below(JITTER)));
    Ok(())
}

/// Waits until a watch has come to its end in order, counted from now.
pub(super) fn calm(progress: &Progress) -> Result<()> {
    let ended = progress.ended();
    until("a watch to end in order", || progress.ended() > ended)
}

/// A folder that is a small disk of its own. Dropping it takes the disk away.
pub(super) struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Makes the folder a disk of that many MiB; why not, if this machine does not let us.
    pub(super) fn mount(folder: &Path, size: u32) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}m,mode=700"), "tmpfs"]).arg(folder);
        let said = mount.output().context("there is no program `mount`")?;
        if !said.status.success() {
            bail!("{}", String::from_utf8_lossy(&said.stderr).trim());
        }
        Ok(Self { folder: folder.to_path_buf() })
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }

    /// Writes until nothing more can be written.
    pub(super) fn fill(&self) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(self.ballast())?;
        for piece in PIECES {
            let bytes = vec![0; piece];
            while file.write_all(&bytes).is_ok() {}
        }
        Ok(())
    }

    pub(super) fn free(&self) -> Result<()> {
        Ok(fs::remove_file(self.ballast())?)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A disk that stays is a folder in target/e2e, and the next run says that it could not be emptied.
        let _ = Command::new("umount").arg(&self.folder).status();
    }
}

/// Fills the disk until writes fail, looks what the server says and whether reads go on, and frees it again; every second
/// time the server is killed while the disk is full.
pub(super) fn full_disk(
    disk: &SmallDisk,
    server: &mut Restarting,
    progress: &Progress,
    client: &mut Client,
    kill: bool,
) -> Result<String> {
    let failures = progress.failures();
    disk.fill()?;
    until("a write to fail on a full disk", || progress.failures() > failures)?;
    let said = progress.failure().map(|(status, body)| clear(status, &body)).context("no failure was seen")??;
    // The connection may be one to a server that was killed; the next try has a new one.
    until("a list on a full disk", || traffic::list(client).is_some())?;
    until("a sign of life on a full disk", || matches!(client.send("GET", "/livez", None), Reply::Answer(200, _)))?;
    if kill {
        server.kill()?;
    }
    disk.free()?;
    if kill {
        server.again()?;
    }
    let enough = progress.acknowledged() + LOAD;
    until("writes to be accepted again", || progress.acknowledged() >= enough)?;
    Ok(said)
}

/// Whether a failure says what is wrong, in the form that clients understand; what it says.
fn clear(status: u16, body: &Value) -> Result<String> {
    let message = body["message"].as_str().unwrap_or_default();
    let form = body["kind"] == "Status" && body["code"] == status && body["status"] == "Failure";
    ensure!(form && !message.is_empty() && body["reason"].is_string(), "not a clear failure: {status} {body}");
    Ok(format!("{status} {}: {message}", body["reason"].as_str().unwrap_or_default()))
}

/// Kills the member that leads, waits until writes go on without it, and starts it again.
pub(super) fn kill_leader(cluster: &mut EtcdCluster, progress: &Progress) -> Result<()> {
    let leader = cluster.leader()?;
    cluster.kill_member(leader)?;
    let enough = progress.acknowledged() + LOAD;
    until("writes to go on with another leader", || progress.acknowledged() >= enough)?;
    cluster.restart_member(leader)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failure_is_clear_if_it_is_a_status_that_says_why() {
        let status = json!({"kind": "Status", "status": "Failure", "code": 503, "reason": "X", "message": "disk full"});
        assert_eq!(clear(503, &status).unwrap(), "503 X: disk full");
        assert!(clear(500, &status).is_err(), "the code is another one");
        assert!(clear(503, &json!("disk full")).is_err());
        assert!(clear(503, &json!({"kind": "Status", "status": "Failure", "code": 503, "reason": "X"})).is_err());
    }
}
