//! The suite `kube-rs`: a program on kube-rs, which is what programs on Kubernetes in Rust are made of.
//!
//! It is a program of ours in `xtask/kube-rs`, a workspace of its own.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use testkit::real::Cadastre;

use super::guest::{Table, entertain};
use super::report::Report;
use super::servers::Servers;
use super::stand::Stand;
use super::{Options, Place};
use crate::{cargo, process};

pub(super) const SUITE: &str = "kube-rs";

/// Runs the checks and reports each as a case.
pub(super) fn run(servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
    let folder = servers.folder(SUITE, place)?;
    let program = build()?;
    let stand = Stand::start(servers, place, &folder, &[Cadastre::BARE])?;
    let only = options.only.as_deref().unwrap_or_default();
    let mut table = Table { suite: SUITE, place, how: "", quick: options.quick, report };
    entertain(&mut Command::new(program), &stand, only, &folder.join("kube-rs.log"), &mut table)
}

/// Builds the program, and says where it is.
pub(super) fn build() -> Result<PathBuf> {
    let mut cargo = cargo::command();
    cargo.current_dir(process::repo_root().join("xtask/kube-rs")).args(["build", "--locked"]);
    cargo::built(&mut cargo, SUITE)
}
