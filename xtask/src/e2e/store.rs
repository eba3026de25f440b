//! The suite `store`: the tests of the store that need a real etcd.

use anyhow::Result;
use testkit::real::Etcd;

use super::report::Report;
use super::servers::Servers;
use super::{Options, Place, cargo_tests};
use crate::cargo;
use crate::parts::Part;

pub(super) const SUITE: &str = "store";
/// The conformance suite, then the faults; a quick run leaves those to the other suites.
const TESTS: [&str; 2] = ["etcd", "etcd_faults"];

/// Runs the tests and reports each as a case.
pub(super) fn run(servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
    let folder = servers.folder(SUITE, place)?;
    let binary = servers.part(Part::Etcd)?;
    let etcd = Etcd::start(&binary, &folder.join("etcd"))?;
    let tests = if options.quick { &TESTS[..1] } else { &TESTS[..] };
    let mut cargo = cargo::command();
    cargo.args(["test", "--package", "store", "--features", "etcd-tests", "--no-fail-fast"]);
    cargo.args(tests.iter().flat_map(|test| ["--test", test])).args(["--", "--test-threads=1"]);
    cargo.env("CADASTRE_TEST_ETCD", etcd.url()).env("CADASTRE_TEST_ETCD_BINARY", &binary);
    cargo_tests::run(&mut cargo, SUITE, place, &folder, report)
}
