//! kubectl: run with one kubeconfig and nothing else of this machine's.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use super::Error;

/// The program with the server that it talks to.
#[derive(Clone, Debug)]
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
}

/// What a run ended with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Said {
    /// Whether the exit code was 0.
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }
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
        let not_started = |source| Error::NotStarted { program: self.binary.display().to_string(), source };
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(not_started)?;
        let stdin = child.stdin.take();
        let output = thread::scope(|scope| {
            // Beside the reading, or two full pipes would wait for each other. A run that ends without reading its
            // input says why itself.
            scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
            child.wait_with_output()
        });
        let output = output.map_err(Error::system("could not read what kubectl says"))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) })
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
