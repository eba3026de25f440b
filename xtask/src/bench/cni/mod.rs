//! `cargo xtask bench cni`: what it costs to give a pod an address on a secondary network, with ours and with the real whereabouts, in
//! one run; and beside the floor, which is what nobody can do without: starting a program, and one write that is on the disk.

mod calls;
mod cluster;
mod rounds;
mod rows;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::rows::Line;
use super::places::{self, Given};
use super::report::Row;
use crate::{cargo, process};

/// The rows that were asked for.
pub(super) struct Plan {
    lines: Vec<Line>,
    given: Given,
}

impl Plan {
    /// All rows, or the one of that name.
    pub(super) fn new(only: Option<&str>, given: Given) -> Result<Self> {
        let mut lines = rows::lines();
        if let Some(name) = only {
            let names: Vec<_> = lines.iter().map(|line| line.name).collect();
            lines.retain(|line| line.name == name);
            if lines.is_empty() {
                bail!("`{name}` is no row of this table; there are {}", names.join(", "));
            }
        }
        Ok(Self { lines, given })
    }

    /// Measures what the rows need and fills them in.
    pub(super) fn run(&self) -> Result<Vec<Row>> {
        let folder = places::folder("cni")?;
        let ours = self.given.plugin.clone().map_or_else(static_plugin, Ok)?;
        let cadastre = self.given.cadastre.clone().map_or_else(places::build, Ok)?;
        let programs = Programs { ours, cadastre, trivial: trivial(&folder)? };
        let wanted: BTreeSet<_> = self.lines.iter().flat_map(Line::wanted).collect();
        let figures = rounds::run(&wanted, &programs, &folder)?;
        places::clear()?;
        Ok(self.lines.iter().map(|line| line.row(&figures)).collect())
    }
}

/// What is started.
struct Programs {
    ours: PathBuf,
    /// The server, with its controllers, and the agent.
    cadastre: PathBuf,
    /// A program that does nothing.
    trivial: PathBuf,
}

/// No program is found and tied together anew each time that it starts.
const STATIC: &str = "-Ctarget-feature=+crt-static";

/// Builds our plugin as it is released for nodes: whole in one file.
fn static_plugin() -> Result<PathBuf> {
    eprintln!("building cadastre-cni in release");
    let mut command = cargo::command();
    command.args(["build", "--release", "--package", "cni", "--bin", "cadastre-cni", "--target", &host()?]);
    cargo::built(command.env("RUSTFLAGS", STATIC), "cadastre-cni")
}

/// Builds a program that does nothing, in the same way.
fn trivial(folder: &Path) -> Result<PathBuf> {
    let (source, program) = (folder.join("trivial.rs"), folder.join("trivial"));
    std::fs::write(&source, "fn main() {}\n").with_context(|| format!("could not write {}", source.display()))?;
    process::run(Command::new("rustc").args(["-O", STATIC, "-Cpanic=abort", "-o"]).arg(&program).arg(&source))?;
    Ok(program)
}

/// The target of this machine, as rustc calls it.
fn host() -> Result<String> {
    let said = process::output(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say which machine this is")?.to_owned())
}
