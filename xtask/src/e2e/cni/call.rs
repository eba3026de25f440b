//! One call of a plugin, as a runtime makes it; perhaps killed in the midst of it.

use std::io::{ErrorKind, Write as _};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// What came of a call.
#[derive(Debug)]
pub(crate) enum End {
    /// It was done; null if nothing is said of it.
    Answered(Value),
    /// It was not, and why.
    Refused(Value),
    /// Nobody knows.
    Killed,
}

/// Makes a call, and kills it after that time if there is one.
pub(crate) fn made(mut command: Command, conf: &str, kill: Option<Duration>) -> Result<End> {
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().context("could not start the plugin")?;
    let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(conf.as_bytes()));
    if let Err(error) = written {
        // It may have been refused before it was read; what it says tells.
        ensure!(error.kind() == ErrorKind::BrokenPipe, "could not write the configuration: {error}");
    }
    if let Some(after) = kill {
        thread::sleep(after);
        child.kill()?;
    }
    let output = child.wait_with_output()?;
    // A call that was done before it was killed has answered, but nobody is there to hear it.
    if kill.is_some() {
        return Ok(End::Killed);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let answer = if text.trim().is_empty() && output.status.success() {
        Value::Null
    } else {
        serde_json::from_str(&text).with_context(|| format!("{} and no answer: {text}", output.status))?
    };
    Ok(if output.status.success() { End::Answered(answer) } else { End::Refused(answer) })
}
