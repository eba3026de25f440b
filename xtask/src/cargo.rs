//! Running cargo from a task: the same cargo that runs the task, in this workspace.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// Cargo, at the root of the workspace.
pub(crate) fn command() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(process::repo_root());
    cargo
}

/// Runs a command of cargo that builds, and says where the program of that target is.
pub(crate) fn built(cargo: &mut Command, target: &str) -> Result<PathBuf> {
    let said = process::output(cargo.arg("--message-format=json-render-diagnostics"))?;
    executable(&said, target).with_context(|| format!("cargo built no {target}"))
}

/// The path of the program in cargo's messages.
fn executable(messages: &str, target: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut ours = messages.filter(|message| message["target"]["name"] == target);
    ours.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_the_messages_of_cargo() {
        let messages = concat!(
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"space\"},\"executable\":null}\nnot json\n",
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"instructions\"},\"executable\":\"/t/i-1\"}\n",
        );
        assert_eq!(executable(messages, "instructions"), Some("/t/i-1".into()));
        assert_eq!(executable("{\"reason\":\"build-finished\",\"success\":true}\n", "instructions"), None);
    }
}
