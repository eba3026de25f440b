//! The program: reads the command line and runs one command. Each command is a file; nothing is decided here.

mod backup;
mod check;
mod client;
mod logging;
mod restore;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Many small objects come and go on many threads; this allocator gives memory back and does not fight over it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The register of every address that a Kubernetes cluster hands out.
///
/// `cadastre up` is a Kubernetes-compatible API server with its store, in one process, on one port. kubectl, client-go and
/// kube-rs talk to it. The other commands look after the store.
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
    cadastre restore --data-dir ./restored monday.backup";

/// Each command is described where its options are.
#[derive(Subcommand)]
enum Command {
    Up(Box<up::Options>),
    Backup(backup::Options),
    Restore(restore::Options),
    Check(check::Options),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    logging::start(&cli.logging);
    let outcome = match cli.command {
        Command::Up(options) => up::run(*options),
        Command::Backup(options) => backup::run(&options),
        Command::Restore(options) => restore::run(&options),
        Command::Check(options) => check::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cadastre: {error:#}");
            ExitCode::FAILURE
        }
    }
}
