//! Running a program to its end: what it is told, and what it says.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use super::Error;

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

    /// Runs the command to its end. If its stdin is a pipe, it reads that text there.
    pub(super) fn of(command: &mut Command, input: &str) -> Result<Self, Error> {
        let program = command.get_program().display().to_string();
        let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|source| Error::NotStarted { program: program.clone(), source })?;
        let stdin = child.stdin.take();
        let output = thread::scope(|scope| {
            // Beside the reading, or two full pipes would wait for each other. A run that ends without reading its
            // input says why itself.
            scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
            child.wait_with_output()
        });
        let output = output.map_err(Error::system("could not read what a program says"))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) })
    }
}
