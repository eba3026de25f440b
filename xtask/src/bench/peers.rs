//! The peers: Go programs of ours in `xtask/peers/` that call the real allocators and print their figures.
//!
//! Nothing here is needed to build or test Cadastre. Without Go, or when a program does not build or fails, that is a
//! reason for the table to say, never an error and never a target met.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::measure::Measured;
use crate::{go, process};

/// A program that is built and can be run.
pub(super) struct Peers {
    binary: PathBuf,
}

/// One line of a program's output. `bytes` is 0 where the heap was not measured.
#[derive(Deserialize)]
struct Line {
    work: String,
    peer: String,
    ns_per_op: f64,
    bytes: u64,
}

impl Peers {
    /// Builds `xtask/peers/NAME`, or says in a sentence why its figures are missing.
    ///
    /// The first build takes minutes, most of them for Kubernetes' packages; Go's own cache makes later ones instant.
    pub(super) fn build(name: &str) -> Result<Self, String> {
        let missing = || format!("peer not measured: Go is not installed (need {} or newer on PATH)", go::VERSION);
        let go = go::found().ok_or_else(missing)?;
        let binary = go::peer(&go, name).map_err(|error| format!("peer not measured: {error:#}"))?;
        Ok(Self { binary })
    }

    /// Runs one work: each peer's name with its figures.
    pub(super) fn run(&self, work: &str) -> Result<Vec<(String, Measured)>, String> {
        let printed = process::output(Command::new(&self.binary).args(["--work", work]));
        printed.and_then(|printed| parsed(work, &printed)).map_err(|error| format!("peer not measured: {error:#}"))
    }
}

fn parsed(work: &str, printed: &str) -> Result<Vec<(String, Measured)>> {
    let lines = printed.lines().map(|line| {
        let line: Line = serde_json::from_str(line).with_context(|| format!("not a measurement: {line}"))?;
        anyhow::ensure!(line.work == work, "asked for {work}, got {}", line.work);
        let time = Measured::time(line.ns_per_op);
        Ok((line.peer, if line.bytes == 0 { time } else { time.with_bytes(line.bytes) }))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_measurement() {
        let printed = r#"{"work":"fill","peer":"a","ns_per_op":1.5,"ops":10,"bytes":0}
{"work":"fill","peer":"b","ns_per_op":2,"ops":10,"bytes":640}
"#;
        let expected = [("a".to_owned(), Measured::time(1.5)), ("b".to_owned(), Measured::time(2.0).with_bytes(640))];
        assert_eq!(parsed("fill", printed).unwrap(), expected);
    }

    #[test]
    fn anything_else_is_refused_with_the_line() {
        let error = format!("{:#}", parsed("fill", "panic: oh").unwrap_err());
        assert!(error.starts_with("not a measurement: panic: oh"), "{error}");
        let other = r#"{"work":"other","peer":"a","ns_per_op":1,"ops":1,"bytes":0}"#;
        assert_eq!(parsed("fill", other).unwrap_err().to_string(), "asked for fill, got other");
    }

    #[test]
    fn a_program_that_fails_is_a_reason_and_not_an_error() {
        let gone = Peers { binary: "no-such-program-here".into() };
        assert!(gone.run("fill").unwrap_err().starts_with("peer not measured: could not start"));
    }
}
