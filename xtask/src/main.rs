//! `cargo xtask`: the tasks of this repository that are more than one cargo command.
//!
//! Each task is one module. A task says what it needs and fails with a sentence when that is not there.

mod bench;
mod cache;
mod cargo;
mod e2e;
mod fuzz;
mod generate;
mod go;
mod https;
mod instructions;
mod parts;
mod pods;
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
    /// Prints one row for each thing that is measured, with ratio and target, and keeps the figures in
    /// target/bench/NAME.json. Builds itself in release first. The peers of `space` are called from Go programs in
    /// xtask/peers, those of `server`, `services`, `nodes` and `cni` are the parts (`cargo xtask parts`); both need Go 1.26
    /// and, for their first build, some minutes and the module proxy. Without Go their rows say so, and targets that need
    /// them are missed. `server` and `services` take about ten minutes each and two gigabytes of disk below
    /// target/bench-data, and want the machine for themselves; `cni` takes two minutes.
    #[command(after_help = "Examples:\n  cargo xtask bench space\n  cargo xtask bench space --check\n  \
                            cargo xtask bench space --only fill-v4\n  cargo xtask bench server\n  \
                            cargo xtask bench services --check\n  cargo xtask bench cni")]
    Bench(bench::Options),
    /// The load of `bench server` and `bench services`, which start it; takes its order from stdin
    #[command(hide = true)]
    BenchLoad,
    /// Make the committed files that come from somebody else's facts
    ///
    /// `schema` makes crates/api/src/schema/builtin.table from the Go types of the built-in kinds: run it when the version
    /// in xtask/generate/schema/go.mod changes. Needs Go 1.26 and, for its first build, some minutes and the module proxy;
    /// building and testing Cadastre needs neither.
    #[command(after_help = "Examples:\n  cargo xtask generate schema\n  cargo xtask generate schema --check")]
    Generate(generate::Options),
    /// Build the real components that suites and benchmarks run, and keep them
    ///
    /// Builds etcd, Kubernetes' kubectl, kube-apiserver, kube-controller-manager and e2e.test, whereabouts with its
    /// node-slice-controller, cnitool and the CNI plugins bridge, macvlan and host-local from their released modules,
    /// unchanged, and prints where each is: `parts/NAME-VERSION/NAME` in the cache, which is `$CADASTRE_CACHE` or else
    /// ~/.cache/cadastre. What is there already is not built again, unless the versions in xtask/parts or the flags in
    /// xtask/src/parts changed. Tasks that need parts build them by themselves; this one builds them ahead. Needs Go
    /// 1.26 and the module proxy; the first build takes about ten minutes on two cores.
    #[command(after_help = "Examples:\n  cargo xtask parts\n  cargo xtask parts kubectl etcd\n  \
                            cargo xtask parts --check")]
    Parts(parts::Options),
    /// Run real clients and real faults against the server, on each of its stores and beside the real kube-apiserver
    ///
    /// Builds the server in release and the parts that are not in the cache, starts everything on loopback, prints a line
    /// for each case and a table at the end, and fails if a case did. The suite `server` drives kubectl and compares all it
    /// says of ours with what it says of the control, the real kube-apiserver. `fidelity` stands for `upstream`, Kubernetes' own
    /// end-to-end tests, `kcm`, its controllers at work, `clients` and `kube-rs`, programs on those libraries, and `replicas`,
    /// two servers on one etcd. `soak` has informers and reflectors follow a million random writes on two servers while
    /// connections are cut and servers killed; it runs only if it is named. `patch`, `protobuf` and `apply` hold random input
    /// against the control's own code. `cni` calls the CNI plugin as a container runtime does; its control is the real
    /// whereabouts. `crash`, `disk-full` and `etcd-leader` put the server under load while something fails, and count what
    /// was lost: nothing may be. Data, logs and transcripts stay in target/e2e/SUITE/SERVER. Needs Go 1.26 for the parts, as
    /// `cargo xtask parts` does; `crash` on the embedded store needs nothing, and `disk-full` needs root, for a small disk of
    /// its own.
    #[command(
        after_help = "Examples:\n  cargo xtask e2e\n  cargo xtask e2e --quick\n  cargo xtask e2e server --on control\n  \
                            cargo xtask e2e soak --writes 50000 --seed 7\n  cargo xtask e2e fidelity\n  cargo xtask e2e upstream --on embedded --only Watchers\n  \
                            cargo xtask e2e server --on embedded --only 'json patch'\n  \
                            cargo xtask e2e crash --on embedded --rounds 1000 --seed 7"
    )]
    E2e(e2e::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Tidy => tidy::run(),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Instructions(options) => instructions::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::BenchLoad => bench::load::run(),
        Task::Generate(options) => generate::run(&options),
        Task::Parts(options) => parts::run(&options),
        Task::E2e(options) => e2e::run(&options),
    };
    // Returning the error instead would print a backtrace where RUST_BACKTRACE is set, and the sentence would drown.
    if let Err(error) = outcome {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
