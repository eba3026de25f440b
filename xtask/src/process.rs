//! Running other programs: every task starts them here, so that each says what it runs and fails with a sentence.
//!
//! Knows nothing of any task; a task that needs another folder or variable sets it on its `Command`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// Runs the command with this process's output, after echoing it to stderr; an error if it does not end with success.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = shown(command);
    eprintln!("$ {line}");
    let status = command.status().with_context(|| not_started(command))?;
    check(status, &line)
}

/// Runs the command and returns what it wrote to stdout; its stderr goes to ours.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = shown(command);
    let output = command.stderr(Stdio::inherit()).output().with_context(|| not_started(command))?;
    check(output.status, &line)?;
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` wrote something that is not UTF-8"))
}

/// The folder that holds the workspace's Cargo.toml.
///
/// Cargo names the manifest at run time; the compiled-in path is for a binary that was started by hand. The order
/// matters where several clones share one target folder.
pub(crate) fn repo_root() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    xtask.parent().map_or_else(|| xtask.clone(), Path::to_path_buf)
}

fn check(status: ExitStatus, line: &str) -> Result<()> {
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

fn not_started(command: &Command) -> String {
    format!("could not start `{}`; is it installed?", command.get_program().display())
}

/// The command as one could type it.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_could_type_it() {
        let mut command = Command::new("echo");
        command.args(["-n", "two words", "it's", ""]);
        assert_eq!(shown(&command), r"echo -n 'two words' 'it'\''s' ''");
    }

    #[test]
    fn output_is_what_the_command_wrote() {
        assert_eq!(output(Command::new("echo").arg("hello")).unwrap(), "hello\n");
    }

    #[test]
    fn a_failing_command_is_named_in_the_error() {
        let error = run(&mut Command::new("false")).unwrap_err().to_string();
        assert!(error.contains("`false` failed"), "{error}");
    }

    #[test]
    fn a_missing_program_is_named_in_the_error() {
        let error = run(&mut Command::new("no-such-program-here")).unwrap_err().to_string();
        assert!(error.contains("could not start `no-such-program-here`"), "{error}");
    }

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(repo_root().join("xtask/Cargo.toml").is_file());
    }
}
