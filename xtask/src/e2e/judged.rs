//! The suites `patch`, `protobuf` and `apply`: random input, held against the code that kube-apiserver is made of.
//!
//! A judge is a Go program of ours in `xtask/peers` that calls that code; the test that asks it is behind a feature. There is no
//! server in it, ours or theirs: it is counted under the control, whose code it is.

use anyhow::{Context, Result};

use super::report::Report;
use super::servers::Servers;
use super::{Options, Place, cargo_tests};
use crate::{cargo, go};

/// A comparison with a judge. Its name is that of the judge, and begins those of the feature and of the variable.
pub(super) struct Comparison {
    pub(super) name: &'static str,
    package: &'static str,
    /// The module of the test.
    module: &'static str,
    rounds: u64,
}

pub(super) const PATCH: Comparison =
    Comparison { name: "patch", package: "server", module: "machinery::patch::judged", rounds: 20_000 };
pub(super) const PROTOBUF: Comparison =
    Comparison { name: "protobuf", package: "api", module: "protobuf::judged", rounds: 20_000 };
pub(super) const APPLY: Comparison =
    Comparison { name: "apply", package: "api", module: "apply::tests::judged", rounds: 5_000 };

/// A quick run has so many times fewer rounds.
const QUICKER: u64 = 10;

impl Comparison {
    /// Runs the comparison, which is one case.
    pub(super) fn run(&self, servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
        let folder = servers.folder(self.name, place)?;
        let go =
            go::found().with_context(|| format!("the judge is built with Go {}, which is not here", go::VERSION))?;
        let judge = go::peer(&go, self.name)?;
        let usual = if options.quick { self.rounds / QUICKER } else { self.rounds };
        let rounds = options.rounds.map_or(usual, u64::from);
        let feature = format!("{}-judge", self.name);
        let mut cargo = cargo::command();
        cargo.args(["test", "--package", self.package, "--features", &feature, "--lib", self.module]);
        cargo.env(format!("CADASTRE_{}_JUDGE", self.name.to_uppercase()), judge);
        cargo.env("CADASTRE_ROUNDS", rounds.to_string());
        if let Some(seed) = options.seed {
            cargo.env("CADASTRE_SEED", seed.to_string());
        }
        cargo_tests::run(&mut cargo, self.name, place, &folder, report)
    }
}
