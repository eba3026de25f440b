//! `cargo xtask generate`: files in the repository that a program makes from somebody else's facts.
//!
//! They are committed, so that nobody needs Go to build Cadastre; the task is for those who change a version.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::{cache, go, process};

/// What to make, and whether to keep it.
#[derive(Args)]
pub(crate) struct Options {
    /// What to make
    #[arg(value_name = "WHAT")]
    what: What,
    /// Change nothing; fail if the file in the repository is not what would be made
    #[arg(long)]
    check: bool,
}

/// A file that is made.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// The fields of the built-in kinds
    Schema,
}

impl What {
    /// The folder under xtask/generate that holds its program.
    fn program(self) -> &'static str {
        match self {
            Self::Schema => "schema",
        }
    }

    /// The file, from the root of the repository.
    fn file(self) -> &'static str {
        match self {
            Self::Schema => "crates/api/src/schema/builtin.table",
        }
    }
}

/// Makes the file, or compares it.
pub(crate) fn run(options: &Options) -> Result<()> {
    let made = made(options.what)?;
    let file = options.what.file();
    let path = process::repo_root().join(file);
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    if kept == made {
        println!("{file} is as it would be made");
        return Ok(());
    }
    let changes = differing_lines(&kept, &made);
    if options.check {
        bail!(
            "{file} is not what would be made, {changes} lines differ; run `cargo xtask generate {}`",
            options.what.program()
        );
    }
    write(&path, &made)?;
    println!("{file} is made anew, {changes} lines differ");
    Ok(())
}

fn made(what: What) -> Result<String> {
    let name = what.program();
    let Some(go) = go::found() else { bail!("Go is not installed (need {} or newer on PATH)", go::VERSION) };
    let folder = cache::dir()?.join("generate");
    std::fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    let binary = folder.join(name);
    let module = process::repo_root().join("xtask/generate").join(name);
    go::build(
        &go,
        &go::Program { verb: &["build"], module: &module, package: ".", flags: &[], variables: &[] },
        &binary,
    )?;
    process::output(&mut Command::new(&binary))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("could not write {}", path.display()))
}

/// How many lines are in one text and not in the other.
fn differing_lines(one: &str, other: &str) -> usize {
    let missing = |from: &str, to: &str| {
        let lines: std::collections::HashSet<_> = to.lines().collect();
        from.lines().filter(|line| !lines.contains(line)).count()
    };
    missing(one, other) + missing(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_only_one_has_are_counted() {
        assert_eq!(differing_lines("a\nb\nc\n", "a\nx\nc\n"), 2);
        assert_eq!(differing_lines("a\n", "a\n"), 0);
        assert_eq!(differing_lines("", "a\nb\n"), 2);
    }

    #[test]
    fn every_file_has_a_program_and_is_there() {
        for what in What::value_variants() {
            let root = process::repo_root();
            assert!(root.join("xtask/generate").join(what.program()).join("go.mod").is_file());
            assert!(root.join(what.file()).is_file());
        }
    }
}
