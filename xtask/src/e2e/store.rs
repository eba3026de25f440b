//! The suite `store`: the tests of the store that need a real etcd, which `cargo test` alone cannot start.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use testkit::real::Etcd;

use super::report::{Outcome, Report};
use super::servers::Servers;
use super::{Options, Place};
use crate::cargo;
use crate::parts::Part;

const SUITE: &str = "store";
/// The conformance suite, then the faults; a quick run leaves those to the other suites.
const TESTS: [&str; 2] = ["etcd", "etcd_faults"];

/// Runs the tests and reports each as a case.
pub(super) fn run(servers: &Servers, options: &Options, places: &[Place], report: &mut Report) {
    for place in places {
        let began = Instant::now();
        if let Err(error) = on(servers, options, *place, report) {
            report.case(SUITE, *place, "all tests", &Outcome::Failed(format!("{error:#}")), began.elapsed());
        }
    }
}

fn on(servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
    let folder = servers.folder(SUITE, place)?;
    let binary = servers.part(Part::Etcd)?;
    let etcd = Etcd::start(&binary, &folder.join("etcd"))?;
    let tests = if options.quick { &TESTS[..1] } else { &TESTS[..] };
    let log = folder.join("tests.log");
    let file = File::create(&log).with_context(|| format!("could not write {}", log.display()))?;
    let mut cargo = cargo::command();
    cargo.args(["test", "--package", "store", "--features", "etcd-tests", "--no-fail-fast"]);
    cargo.args(tests.iter().flat_map(|test| ["--test", test])).args(["--", "--test-threads=1"]);
    cargo.env("CADASTRE_TEST_ETCD", etcd.url()).env("CADASTRE_TEST_ETCD_BINARY", &binary);
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
            report.case(SUITE, place, name, &outcome, before.elapsed());
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
