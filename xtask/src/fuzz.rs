//! `cargo xtask fuzz`: runs the fuzz targets for a bounded time, one after the other.
//!
//! The corpora in `fuzz/corpus` are committed and stay small: they are read as seeds, and what a run discovers goes to
//! a scratch folder below `target`, where later runs go on from it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail};
use clap::Args;
use toml::{Table, Value};

use crate::{cache, process};

/// What keeps a run within bounds besides its time: one input may take ten seconds, and all of it two gigabytes.
const LIMITS: &[&str] = &["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"];

/// What to run, and for how long.
#[derive(Args)]
pub(crate) struct Options {
    /// How long to run each target
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// The targets to run; all of them if none is named
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

/// Runs the targets, all of them even if one crashes, and fails if any did.
pub(crate) fn run(options: &Options) -> Result<()> {
    let root = process::repo_root();
    let targets = chosen(&targets(&root.join("fuzz/Cargo.toml"))?, &options.targets)?;
    let fuzz = Fuzz { tools: tools()?, root, seconds: options.seconds };
    let mut failed = Vec::new();
    for (target, number) in targets.iter().zip(1..) {
        let label = format!("fuzz {number}/{} {target}", targets.len());
        eprintln!("{label}: running for {} s, after a build", fuzz.seconds);
        let started = Instant::now();
        let outcome = fuzz.run(target)?;
        let seconds = started.elapsed().as_secs();
        match outcome {
            Ok(()) => eprintln!("{label}: nothing found in {seconds} s"),
            Err(failure) => {
                eprintln!("{label}: failed after {seconds} s\n{failure}");
                failed.push(target.as_str());
            }
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

struct Fuzz {
    root: PathBuf,
    /// The folder of cargo-fuzz, which may not be on PATH.
    tools: PathBuf,
    seconds: u32,
}

impl Fuzz {
    /// Runs one target; on failure, what to do about it.
    fn run(&self, target: &str) -> Result<Result<(), String>> {
        let scratch = Path::new("target/fuzz-corpus").join(target);
        let seeds = Path::new("fuzz/corpus").join(target);
        std::fs::create_dir_all(self.root.join(&scratch))
            .with_context(|| format!("could not create {}", scratch.display()))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::env::split_paths(&path).chain([self.tools.clone()]))?;
        let mut cargo = Command::new("cargo");
        cargo.current_dir(&self.root).env("PATH", path);
        cargo.args(["+nightly", "fuzz", "run", target, "--fuzz-dir", "fuzz"]);
        // libFuzzer writes what it discovers to the first folder only.
        cargo.arg(scratch).args(self.root.join(&seeds).is_dir().then_some(seeds));
        cargo.arg("--").arg(format!("-max_total_time={}", self.seconds)).args(LIMITS);
        let started = SystemTime::now();
        let Err(error) = process::run(&mut cargo) else { return Ok(Ok(())) };
        let inputs = self.inputs_since(started, target);
        let replays: Vec<_> = inputs.iter().map(|input| self.replay(target, input)).collect();
        Ok(Err(if replays.is_empty() { format!("  {error:#}") } else { replays.join("\n") }))
    }

    /// The inputs that made the target fail since then, as paths from the root. Not by comparing names with those
    /// there before: the name is a hash of the input, so the same failure a second time has the same name.
    fn inputs_since(&self, then: SystemTime, target: &str) -> Vec<String> {
        let folder = format!("fuzz/artifacts/{target}");
        let entries = std::fs::read_dir(self.root.join(&folder)).into_iter().flatten().flatten();
        let new = entries.filter(|entry| entry.metadata().and_then(|data| data.modified()).is_ok_and(|at| at >= then));
        new.map(|entry| format!("{folder}/{}", entry.file_name().to_string_lossy())).collect()
    }

    fn replay(&self, target: &str, input: &str) -> String {
        let command = format!("cargo +nightly fuzz run {target} --fuzz-dir fuzz {input}");
        format!("  the input: {input}\n  replay it: PATH=\"$PATH:{}\" {command}", self.tools.display())
    }
}

/// The targets that the manifest names.
fn targets(manifest: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(manifest)
        .with_context(|| format!("no fuzz targets: could not read {}", manifest.display()))?;
    let table: Table = text.parse().with_context(|| format!("{} is not TOML", manifest.display()))?;
    let bins = table.get("bin").and_then(Value::as_array).into_iter().flatten();
    Ok(bins.filter_map(|bin| bin.get("name")?.as_str()).map(str::to_owned).collect())
}

/// The targets that were asked for: all of them when none was.
fn chosen(known: &[String], wanted: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = wanted.iter().find(|target| !known.contains(target)) {
        bail!("there is no fuzz target `{unknown}`; there are: {}", known.join(", "));
    }
    Ok(if wanted.is_empty() { known } else { wanted }.to_vec())
}

/// The folder where cargo-fuzz is; a sentence with the remedy when something is not installed.
fn tools() -> Result<PathBuf> {
    let mut rustup = Command::new("rustup");
    // Not `cargo +nightly`: some rustups answer that by downloading a toolchain.
    rustup.args(["run", "nightly", "rustc", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !rustup.status().is_ok_and(|status| status.success()) {
        bail!("fuzzing needs a nightly toolchain; install one: rustup toolchain install nightly --profile minimal");
    }
    if let Some(folder) = cache::tool("cargo-fuzz").as_deref().and_then(Path::parent) {
        return Ok(folder.to_path_buf());
    }
    let tools = cache::dir()?.join("tools");
    bail!("fuzzing needs cargo-fuzz; install it: cargo install --locked cargo-fuzz --root {}", tools.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_targets_run_unless_some_are_named() {
        let known = names(&["a", "b"]);
        assert_eq!(chosen(&known, &[]).unwrap(), known);
        assert_eq!(chosen(&known, &names(&["b"])).unwrap(), ["b"]);
    }

    #[test]
    fn an_unknown_target_is_refused_with_those_there_are() {
        let error = chosen(&names(&["a", "b"]), &names(&["c"])).unwrap_err().to_string();
        assert_eq!(error, "there is no fuzz target `c`; there are: a, b");
    }

    #[test]
    fn the_targets_are_those_of_the_manifest() {
        let path = std::env::temp_dir().join(format!("cadastre-fuzz-{}.toml", std::process::id()));
        std::fs::write(&path, "[[bin]]\nname = 'a'\n[[bin]]\nname = 'b'\n").unwrap();
        let found = targets(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found.unwrap(), ["a", "b"]);
        assert!(targets(&path).unwrap_err().to_string().starts_with("no fuzz targets"));
    }
}
