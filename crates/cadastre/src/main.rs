//! The program: reads the command line and runs one command. Each command is a file; nothing is decided here.

mod agent;
mod backup;
mod check;
mod client;
mod controller;
mod logging;
mod manifests;
mod node_ipam;
mod restore;
mod slices;
mod stop;
mod time;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Many small objects come and go on many threads; this allocator gives memory back and does not fight over it.
/// It is built not to ask for huge pages (`no_thp`), because it takes memory before `main` can turn them off.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The register of every address that a Kubernetes cluster hands out.
///
/// `cadastre up` is a Kubernetes-compatible API server with its store, in one process, on one port. kubectl, client-go and
/// kube-rs talk to it. `cadastre controller` runs its controllers against other API servers. `cadastre agent` serves one node of any
/// of them. The other commands look after the store.
#[derive(Parser)]
#[command(name = "cadastre", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    logging: logging::Options,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  Serve on 127.0.0.1:6443 and keep everything in ./cadastre-data:
    cadastre up
  Talk to it, from another terminal:
    kubectl --kubeconfig cadastre-data/kubeconfig get namespaces
  Copy the store while it is in use, and look whether the copy is sound:
    cadastre backup monday.backup
    cadastre check monday.backup
  Begin again from the copy, in a new data directory:
    cadastre restore --data-dir ./restored monday.backup
  Give the nodes of another cluster their pod CIDRs:
    cadastre controller node --kubeconfig ~/.kube/config";

/// Each command is described where its options are.
#[derive(Subcommand)]
enum Command {
    Up(Box<up::Options>),
    Backup(backup::Options),
    Restore(restore::Options),
    Check(check::Options),
    Controller(controller::Options),
    Agent(agent::Options),
    Manifests(manifests::Options),
}

fn main() -> ExitCode {
    avoid_huge_pages();
    let cli = Cli::parse();
    logging::start(&cli.logging);
    let outcome = match cli.command {
        Command::Up(options) => up::run(*options),
        Command::Backup(options) => backup::run(&options),
        Command::Restore(options) => restore::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Controller(options) => controller::run(options),
        Command::Agent(options) => agent::run(&options),
        Command::Manifests(options) => manifests::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cadastre: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Memory that grows by 4 KiB at a time. The first touch of a huge page clears 2 MiB at once, which takes up to 10 ms where the host has
/// to find the memory too, and every write that waits for that thread takes that much longer; and what a controller keeps would lie
/// scattered over them, where each counts whole. Where they cannot be turned off, all works as well.
fn avoid_huge_pages() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}
