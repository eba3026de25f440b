//! CNI plugins: run as a container runtime runs them, by environment and stdin, and with nothing of this process's own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Error, Said};

/// A CNI plugin, and the variables that it sees on every call.
#[derive(Clone, Debug)]
pub struct Plugin {
    binary: PathBuf,
    variables: Vec<(String, String)>,
}

impl Plugin {
    /// The plugin of that file.
    pub fn new(binary: &Path) -> Self {
        Self { binary: binary.into(), variables: Vec::new() }
    }

    /// The same, which sees this variable too.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The command of a call with these variables besides its own; one that is empty is not set. Its stdin is a pipe.
    pub fn command<T: AsRef<str>>(&self, variables: impl IntoIterator<Item = (T, T)>) -> Command {
        let mut command = Command::new(&self.binary);
        command.env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        for (name, value) in variables {
            match value.as_ref() {
                "" => command.env_remove(name.as_ref()),
                value => command.env(name.as_ref(), value),
            };
        }
        command.stdin(Stdio::piped());
        command
    }

    /// Runs a call to its end; `conf` is its stdin.
    pub fn run<T: AsRef<str>>(&self, variables: impl IntoIterator<Item = (T, T)>, conf: &str) -> Result<Said, Error> {
        Said::of(&mut self.command(variables), conf)
    }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;
    use crate::real::stand_in;

    #[test]
    fn it_sees_its_variables_and_its_conf_and_nothing_else() {
        let scratch = tempdir().unwrap();
        let binary = stand_in::write(scratch.path(), "plugin", "echo \"$A|$B|$C|$HOME\"; exec /bin/cat");
        let plugin = Plugin::new(&binary).with("A", "1").with("B", "2");
        let said = plugin.run([("B", ""), ("C", "3")], "conf").unwrap();
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "1||3|\nconf"));
    }
}
