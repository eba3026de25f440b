//! kubectl: run with one kubeconfig and nothing else of this machine's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Error, Said};

/// The program with the server that it talks to.
#[derive(Clone, Debug)]
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Kubectl {
    /// A kubectl that uses that kubeconfig, and `home` as home folder and for what it remembers of servers.
    pub fn new(binary: &Path, kubeconfig: &Path, home: &Path) -> Self {
        Self { binary: binary.into(), kubeconfig: kubeconfig.into(), home: home.into() }
    }

    /// The command for these arguments, for callers that add variables or read its output while it runs.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.env("HOME", &self.home).env_remove("KUBECONFIG").env_remove("KUBE_EDITOR").env_remove("EDITOR");
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir").arg(self.home.join("cache")).args(args);
        command.stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, args: &[&str]) -> Result<Said, Error> {
        self.said(&mut self.command(args), "")
    }

    /// Runs it to its end with that text as its input.
    pub fn run_with_input(&self, args: &[&str], input: &str) -> Result<Said, Error> {
        self.said(self.command(args).stdin(Stdio::piped()), input)
    }

    fn said(&self, command: &mut Command, input: &str) -> Result<Said, Error> {
        fs::create_dir_all(&self.home).map_err(Error::file(&self.home))?;
        Said::of(command, input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real::stand_in;
    use tempfile::{TempDir, tempdir};

    /// A program in kubectl's place that does what the script says.
    fn kubectl(scratch: &TempDir, script: &str) -> Kubectl {
        let binary = stand_in::write(scratch.path(), "kubectl", script);
        Kubectl::new(&binary, Path::new("/a/kubeconfig"), &scratch.path().join("home"))
    }

    #[test]
    fn it_sees_its_own_home_and_kubeconfig_only() {
        let scratch = tempdir().unwrap();
        let kubectl = kubectl(&scratch, "echo \"$HOME|$KUBECONFIG|$*\"; echo oh >&2; exit 3");
        let home = scratch.path().join("home").display().to_string();
        let said = kubectl.run(&["get", "ns"]).unwrap();
        let stdout = format!("{home}||--kubeconfig /a/kubeconfig --cache-dir {home}/cache get ns\n");
        assert_eq!(said, Said { code: Some(3), stdout, stderr: "oh\n".to_owned() });
        assert!(!said.success());
    }

    #[test]
    fn input_larger_than_a_pipe_comes_back_whole() {
        let scratch = tempdir().unwrap();
        let input = "a line of input\n".repeat(100_000);
        assert_eq!(kubectl(&scratch, "exec cat").run_with_input(&[], &input).unwrap().stdout, input);
    }

    #[test]
    fn a_run_that_does_not_read_its_input_is_no_error() {
        let scratch = tempdir().unwrap();
        let said = kubectl(&scratch, "exit 1").run_with_input(&[], &"x".repeat(1_000_000)).unwrap();
        assert_eq!(said.code, Some(1));
    }
}
