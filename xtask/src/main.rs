//! `cargo xtask`: the tasks of this repository that are more than one cargo command.
//!
//! Each task is one module. A task says what it needs and fails with a sentence when that is not there.

mod bench;
mod cache;
mod fuzz;
mod instructions;
mod process;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "Tasks of the Cadastre repository", subcommand_required = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the rules of this repository that neither the compiler nor clippy knows
    ///
    /// Looks at every file that git tracks or would track: the order of the crates, the purity of `space`, module
    /// comments, dead files, leftovers, links between pages, the folder list in ARCHITECTURE.md, and more. Prints all
    /// findings as `path:line: what is wrong, and what to do`, and fails if there are any. Needs nothing; `cargo test`
    /// runs the same checks.
    #[command(after_help = "Example:\n  cargo xtask tidy")]
    Tidy,
    /// Run the fuzz targets for a bounded time
    ///
    /// Runs each target in fuzz/ one after the other, starting from its inputs in fuzz/corpus; what a run discovers is
    /// kept in target/fuzz-corpus. A target that crashes does not stop the others; the input that did it and the
    /// command that replays it are printed. Needs a nightly toolchain and cargo-fuzz, and says how to install them.
    #[command(after_help = "Examples:\n  cargo xtask fuzz\n  cargo xtask fuzz --seconds 600 TARGET")]
    Fuzz(fuzz::Options),
    /// Count the instructions of the engine's operations and hold them against the kept figures
    ///
    /// Runs the works of crates/space/benches/instructions.rs under callgrind and prints instructions per operation, the
    /// kept figure and the change. Unlike times, the counts repeat, also on a busy machine; but only for one compiler, so
    /// --check warns and does not fail where the kept figures are of another. What callgrind wrote stays in
    /// target/instructions, where callgrind's viewers can read it. Needs valgrind.
    #[command(after_help = "Examples:\n  cargo xtask instructions\n  cargo xtask instructions --check\n  \
                            cargo xtask instructions --save")]
    Instructions(instructions::Options),
    /// Measure our code beside the peers' on the same work
    ///
    /// Prints one row for each line of the table, with ratio and target, and keeps the figures in
    /// target/bench/NAME.json. Builds itself in release first. The peers are called from Go programs in xtask/peers,
    /// which need Go 1.26 and, for their first build, some minutes and the module proxy; without Go their rows say so,
    /// and targets that need them are missed.
    #[command(after_help = "Examples:\n  cargo xtask bench space\n  cargo xtask bench space --check\n  \
                            cargo xtask bench space --only fill-v4")]
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Tidy => tidy::run(),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Instructions(options) => instructions::run(&options),
        Task::Bench(options) => bench::run(&options),
    };
    // Returning the error instead would print a backtrace where RUST_BACKTRACE is set, and the sentence would drown.
    if let Err(error) = outcome {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
