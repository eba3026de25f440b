//! The suite `clients`: a program on client-go, which is what most programs on Kubernetes are made of.
//!
//! It is a Go program of ours in `xtask/peers/clients`. Its informers are checked twice: listing by watching, which client-go does by
//! itself, and listing in pages, which it did before.

use std::process::Command;

use anyhow::{Context, Result};
use testkit::real::Cadastre;

use super::guest::{Table, entertain};
use super::report::Report;
use super::servers::Servers;
use super::stand::Stand;
use super::{Options, Place};
use crate::go;

pub(super) const SUITE: &str = "clients";
/// How client-go is told not to list by watching.
const NO_WATCH_LIST: (&str, &str) = ("KUBE_FEATURE_WatchListClient", "false");

/// Runs the checks and reports each as a case.
pub(super) fn run(servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
    let folder = servers.folder(SUITE, place)?;
    let go =
        go::found().with_context(|| format!("the clients are built with Go {}, which is not here", go::VERSION))?;
    let program = go::peer(&go, SUITE)?;
    let stand = Stand::start(servers, place, &folder, &[Cadastre::BARE])?;
    let only = options.only.as_deref().unwrap_or_default();
    let mut table = Table { suite: SUITE, place, how: "", quick: options.quick, report };
    entertain(&mut Command::new(&program), &stand, only, &folder.join("clients.log"), &mut table)?;
    if !"informers".contains(only) && !only.contains("informers") {
        return Ok(());
    }
    table.how = ", listing in pages";
    let mut again = Command::new(&program);
    again.env(NO_WATCH_LIST.0, NO_WATCH_LIST.1);
    let only = if only.is_empty() { "informers" } else { only };
    entertain(&mut again, &stand, only, &folder.join("clients-paging.log"), &mut table)
}
