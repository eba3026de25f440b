//! `cadastre agent` as a process: the agent of a node that is a folder.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};

use super::Error;
use super::process::Process;

/// How an agent is started.
#[derive(Clone, Copy, Debug)]
pub struct AgentOptions<'a> {
    /// The program.
    pub binary: &'a Path,
    /// The name of the node.
    pub node: &'a str,
    /// Which boot of the node it is, as the plugin is told too.
    pub boot: &'a str,
    /// Where the server is.
    pub kubeconfig: &'a Path,
    /// The state directory, which the plugin has too.
    pub state_dir: &'a Path,
}

/// A running agent. Dropping it kills it.
pub struct Agent {
    process: Process,
}

impl Agent {
    /// Starts it; what it writes is added to the file `log`. It is not waited for: what it does shows in its files and in the objects.
    pub fn start(options: AgentOptions<'_>, log: &Path) -> Result<Self, Error> {
        let AgentOptions { binary, node, boot, kubeconfig, state_dir } = options;
        fs::create_dir_all(state_dir).map_err(Error::file(state_dir))?;
        let mut command = Command::new(binary);
        command.args(["agent", "--webserver-bind-address=0", "--node-name", node]);
        command.arg("--kubeconfig").arg(kubeconfig).arg("--state-dir").arg(state_dir).env("CADASTRE_BOOT_ID", boot);
        Ok(Self { process: Process::start("cadastre agent", &mut command, log, false)? })
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.process.ended()
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub fn kill9(mut self) -> Result<ExitStatus, Error> {
        self.process.kill()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::time::Duration;

    use tempfile::tempdir;

    use super::*;
    use crate::real::stand_in;

    #[test]
    fn it_is_started_for_its_node_and_boot() {
        let scratch = tempdir().unwrap();
        let binary = stand_in::write(scratch.path(), "cadastre", "echo \"$* $CADASTRE_BOOT_ID\"; exec sleep 60");
        let (state_dir, log) = (scratch.path().join("state"), scratch.path().join("log"));
        let kubeconfig = Path::new("/a/config");
        let options = AgentOptions { binary: &binary, node: "n", boot: "b", kubeconfig, state_dir: &state_dir };
        let mut agent = Agent::start(options, &log).unwrap();
        let whole = || fs::read_to_string(&log).ok().filter(|said| said.ends_with('\n'));
        let said = agent.process.until(Duration::from_secs(30), whole).unwrap();
        let state_dir = state_dir.display();
        let asked = "agent --webserver-bind-address=0 --node-name n --kubeconfig /a/config --state-dir";
        assert_eq!(said, format!("{asked} {state_dir} b\n"));
        assert_eq!(agent.ended().unwrap(), None);
        assert_eq!(agent.kill9().unwrap().signal(), Some(9));
    }
}
