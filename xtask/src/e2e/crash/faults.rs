//! The faults: a server that is killed, a disk that is full, a leader that is killed. Each waits for load before it strikes.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::choices::{Choices, Seeded};
use testkit::real::EtcdCluster;

use super::traffic::{self, Progress};
use crate::e2e::client::{Client, Reply};
use crate::e2e::restarting::Restarting;
use crate::e2e::small_disk::SmallDisk;

/// How many writes make it load.
const LOAD: u64 = 50;
/// How long load may take to come, also where a debug build runs on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
/// Up to how many milliseconds a fault waits once there is load, so that it strikes at any moment.
const JITTER: u64 = 300;

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
