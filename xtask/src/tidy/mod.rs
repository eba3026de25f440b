//! `cargo xtask tidy`: the rules of this repository that neither the compiler nor clippy knows.
//!
//! A check is a pure function from the loaded files to findings, one check to a file, so that each is tested on a few
//! lines of made-up input. This module loads the files, runs every check and prints. The same run is a test below:
//! whoever runs `cargo test` has run tidy.

mod adr;
mod dead_files;
mod differences;
mod files;
mod folder_list;
mod hosts;
mod layers;
mod leftovers;
mod links;
mod lints;
mod manifest;
mod markdown;
mod module_comment;
mod purity;
mod rust;
mod size;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use self::files::Files;
use crate::process;

/// One thing that is wrong, where, and what to do about it.
#[derive(Debug)]
struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: impl Into<String>, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.into(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

type Check = fn(&Files) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    manifest::check,
    layers::check,
    purity::check,
    lints::check,
    module_comment::check,
    dead_files::check,
    size::check,
    leftovers::check,
    folder_list::check,
    links::check,
    adr::check,
    hosts::check,
    differences::check,
];

/// Runs every check on the repository, prints all findings, and fails if there are any.
pub(crate) fn run() -> Result<()> {
    let (files, findings) = inspect(&process::repo_root())?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("tidy found {} to fix", counted(findings.len(), "thing"));
    }
    println!("tidy: {}, nothing to fix", counted(files.len(), "file"));
    Ok(())
}

fn inspect(root: &Path) -> Result<(Files, Vec<Finding>)> {
    let files = Files::load(root)?;
    let findings = CHECKS.iter().flat_map(|check| check(&files)).collect();
    Ok((files, findings))
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a check finds in made-up files, as it would be printed.
    pub(super) fn found(check: Check, files: &[(&str, &str)]) -> Vec<String> {
        check(&Files::from(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn this_repository_is_tidy() {
        let (files, findings) = inspect(&process::repo_root()).unwrap();
        assert!(files.len() > 10, "the files of the repository were not found");
        let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }
}
