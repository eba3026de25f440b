//! What the figures were measured on. A figure without its machine is a rumour.

use std::process::Command;
use std::thread::available_parallelism;

use serde::Serialize;

use crate::{go, process};

/// Facts that go with the figures; `unknown` where the machine does not tell.
#[derive(Serialize)]
pub(super) struct Facts {
    cpu: String,
    cores: usize,
    rustc: String,
    go: String,
    /// In UTC.
    date: String,
}

impl Facts {
    pub(super) fn gather() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cpu: model(&cpuinfo).unwrap_or_else(unknown),
            cores: available_parallelism().map_or(0, usize::from),
            rustc: said("rustc", &["--version"]),
            go: go::found().map_or_else(|| "not installed".to_owned(), |go| said(&go.to_string_lossy(), &["version"])),
            date: said("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        }
    }
}

fn model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim().to_owned())
}

fn said(program: &str, args: &[&str]) -> String {
    process::output(Command::new(program).args(args)).map_or_else(|_| unknown(), |said| said.trim().to_owned())
}

fn unknown() -> String {
    "unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_named_as_linux_names_it() {
        assert_eq!(model("processor\t: 0\nmodel name\t: A CPU @ 3GHz\nflags\t: x").as_deref(), Some("A CPU @ 3GHz"));
        assert_eq!(model("processor\t: 0\n"), None);
    }

    #[test]
    fn a_program_that_is_not_there_is_no_error() {
        assert_eq!(said("no-such-program-here", &[]), "unknown");
    }
}
