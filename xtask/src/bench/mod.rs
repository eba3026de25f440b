//! `cargo xtask bench NAME`: our code and the peers' on the same work in one run, held against targets.
//!
//! The machine is shared and noisy, so absolute figures mean little from one hour to the next. Therefore the peers run
//! between rounds of ours, and most targets are ratios. A benchmark is one module that makes rows; how they are printed
//! and kept is the same for all. What runs in this process is a [`suite::Suite`], of which the best round counts.

mod cni;
mod figures;
mod heap;
mod lines;
pub(crate) mod load;
mod machine;
mod measure;
mod nodes;
mod ours;
mod peers;
mod places;
mod report;
mod server;
mod services;
mod space;
mod suite;
mod turns;

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::process;
use places::Given;
use report::Row;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which benchmark
    name: Name,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
    /// Run only this row of the table; nothing is written to target/bench
    #[arg(long, value_name = "WORK")]
    only: Option<String>,
    /// Measure this program instead of building it; for all but `space`
    #[arg(long, value_name = "FILE")]
    cadastre: Option<PathBuf>,
    /// Measure this CNI plugin instead of building it; for `cni`
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// Measure this program too, which is ours as it was before a change; for `server`
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// The engine: blocks and single addresses
    Space,
    /// The server, on its own store and on etcd, beside kube-apiserver
    Server,
    /// Addresses and node ports of Services, beside kube-apiserver
    Services,
    /// Pod CIDRs of nodes, beside kube-apiserver and inside our server
    Nodes,
    /// Addresses of pods on secondary networks, beside whereabouts
    Cni,
}

/// A benchmark whose rows have been chosen and that can be run.
enum Chosen {
    Space(suite::Suite),
    Server(server::Plan),
    Services(services::Plan),
    Nodes(nodes::Plan),
    Cni(cni::Plan),
}

impl Options {
    /// The benchmark with all its rows, or with one; an error if there is no such row.
    fn choose(&self) -> Result<Chosen> {
        let only = self.only.as_deref();
        let [cadastre, plugin, before] =
            [&self.cadastre, &self.plugin, &self.before].map(|given| places::found(given.as_deref()));
        let given = Given { cadastre: cadastre?, plugin: plugin?, before: before? };
        Ok(match self.name {
            Name::Space => Chosen::Space(space::suite().only(only)?),
            Name::Server => Chosen::Server(server::Plan::new(only, given)?),
            Name::Services => Chosen::Services(services::Plan::new(only, given)?),
            Name::Nodes => Chosen::Nodes(nodes::Plan::new(only, given)?),
            Name::Cni => Chosen::Cni(cni::Plan::new(only, given)?),
        })
    }
}

impl Name {
    fn name(self) -> &'static str {
        match self {
            Self::Space => "space",
            Self::Server => "server",
            Self::Services => "services",
            Self::Nodes => "nodes",
            Self::Cni => "cni",
        }
    }
}

impl Chosen {
    fn run(&self) -> Result<Vec<Row>> {
        match self {
            Self::Space(suite) => suite::run(suite),
            Self::Server(plan) => plan.run(),
            Self::Services(plan) => plan.run(),
            Self::Nodes(plan) => plan.run(),
            Self::Cni(plan) => plan.run(),
        }
    }
}

/// Runs the benchmark, prints its table and keeps its figures.
pub(crate) fn run(options: &Options) -> Result<()> {
    let chosen = options.choose()?;
    if cfg!(debug_assertions) {
        return again_in_release(options);
    }
    let rows = chosen.run()?;
    print!("{}", report::table(&rows));
    if options.only.is_none() {
        let path = report::keep(options.name.name(), &rows, &machine::Facts::gather())?;
        println!("\nfigures kept in {}", path.display());
    }
    let missed: Vec<_> = rows.iter().filter(|row| !row.met).map(|row| row.work.as_str()).collect();
    if options.check && !missed.is_empty() {
        bail!("{} of {} targets missed: {}", missed.len(), rows.len(), missed.join(", "));
    }
    Ok(())
}

/// `cargo xtask` builds without optimisation, which is right for every other task and would make the figures a lie.
fn again_in_release(options: &Options) -> Result<()> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(process::repo_root());
    if matches!(options.name, Name::Space) {
        // The peers' runtime keeps its heap from round to round; let ours, or each round would pay for its pages anew.
        cargo.envs([("MALLOC_TRIM_THRESHOLD_", "1073741824"), ("MALLOC_MMAP_THRESHOLD_", "1073741824")]);
    }
    cargo.args(["run", "--release", "--quiet", "--package", "xtask", "--", "bench", options.name.name()]);
    if options.check {
        cargo.arg("--check");
    }
    if let Some(work) = &options.only {
        cargo.args(["--only", work]);
    }
    let given = [("--cadastre", &options.cadastre), ("--plugin", &options.plugin), ("--before", &options.before)];
    for (flag, program) in given {
        if let Some(program) = program {
            cargo.arg(flag).arg(program);
        }
    }
    process::run(&mut cargo)
}
