//! The suite `apply`: random sequences of applies and updates, held against the code that kube-apiserver is made of.
//!
//! The judge is a Go program of ours that calls that code. There is no server in it, ours or theirs: it is counted under
//! the control, whose code it is.

use anyhow::{Context, Result};

use super::report::Report;
use super::servers::Servers;
use super::{Options, Place, cargo_tests};
use crate::{cargo, go};

pub(super) const SUITE: &str = "apply";
const ROUNDS: u64 = 5_000;
const ROUNDS_QUICK: u64 = 500;

/// Runs the comparison, which is one case.
pub(super) fn run(servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
    let folder = servers.folder(SUITE, place)?;
    let go = go::found().with_context(|| format!("the judge is built with Go {}, which is not here", go::VERSION))?;
    let judge = go::peer(&go, "apply")?;
    let rounds = options.rounds.map_or(if options.quick { ROUNDS_QUICK } else { ROUNDS }, u64::from);
    let mut cargo = cargo::command();
    cargo.args(["test", "--package", "api", "--features", "apply-judge", "--lib", "apply::tests::judged"]);
    cargo.env("CADASTRE_APPLY_JUDGE", judge).env("CADASTRE_ROUNDS", rounds.to_string());
    if let Some(seed) = options.seed {
        cargo.env("CADASTRE_SEED", seed.to_string());
    }
    cargo_tests::run(&mut cargo, SUITE, place, &folder, report)
}
