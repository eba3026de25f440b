//! Tests that need real parts, which `cargo test` alone leaves out: run by cargo, each reported as a case.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::Place;
use super::report::{Outcome, Report};

/// Runs that `cargo test`; what it says stays in the folder.
pub(super) fn run(
    cargo: &mut Command,
    suite: &'static str,
    place: Place,
    folder: &Path,
    report: &mut Report,
) -> Result<()> {
    let log = folder.join("tests.log");
    let file = File::create(&log).with_context(|| format!("could not write {}", log.display()))?;
    let mut child = cargo.stdout(Stdio::piped()).stderr(file).spawn().context("could not start cargo")?;
    let stdout = child.stdout.take().context("cargo has no output")?;
    let mut said = String::new();
    let (mut cases, mut before) = (0, Instant::now());
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        said.push_str(&line);
        said.push('\n');
        if let Some((name, ok)) = result(&line) {
            let failed = || Outcome::Failed(format!("see {}", folder.join("tests.out").display()));
            let outcome = if ok { Outcome::Ok(String::new()) } else { failed() };
            report.case(suite, place, name, &outcome, before.elapsed());
            (cases, before) = (cases + 1, Instant::now());
        }
    }
    let status = child.wait()?;
    std::fs::write(folder.join("tests.out"), said)?;
    ensure!(cases > 0, "no test was run ({status}); see {}", log.display());
    // A test that fails is a case that failed; this is about one that took the process with it.
    ensure!(status.success() || report.failures() > 0, "the tests ended with {status}; see {}", log.display());
    Ok(())
}

/// The name of a test and whether it passed, if the line is one that says so.
fn result(line: &str) -> Option<(&str, bool)> {
    let (name, verdict) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    match verdict {
        "ok" => Some((name, true)),
        "FAILED" => Some((name, false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_results_of_tests_are_cases() {
        assert_eq!(result("test a_b ... ok"), Some(("a_b", true)));
        assert_eq!(result("test a_b ... FAILED"), Some(("a_b", false)));
        for line in ["test result: ok. 3 passed; 0 failed", "running 3 tests", "test a ... ignored", ""] {
            assert_eq!(result(line), None, "{line}");
        }
    }
}
