//! `cadastre controller` as a process: a controller beside a server that has none, ours or any other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use super::Error;
use super::process::{self, Process};

/// A running controller. Dropping it kills it.
pub struct Controller {
    process: Process,
    log: PathBuf,
}

impl Controller {
    /// Starts the controller of that name (`node`, `slice`) against the server of that kubeconfig; what it writes is added to `controller.log` in `dir`. It is not waited
    /// for: what it does shows in the objects, once it leads.
    pub fn start(binary: &Path, name: &str, kubeconfig: &Path, dir: &Path, extra: &[&str]) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(Error::file(dir))?;
        let mut command = Command::new(binary);
        command.args(["controller", name]).arg("--kubeconfig").arg(kubeconfig);
        // It would listen on one and the same port.
        command.args(process::flags(&["--webserver-bind-address=0".to_owned()], extra));
        let log = dir.join("controller.log");
        Ok(Self { process: Process::start("cadastre controller", &mut command, &log, false)?, log })
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Where it writes to.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.process.ended()
    }

    /// Waits until `probe` has an answer: an error if the process ends first, or after `within`.
    pub fn until<T>(&mut self, within: Duration, probe: impl FnMut() -> Option<T>) -> Result<T, Error> {
        self.process.until(within, probe)
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub fn kill9(mut self) -> Result<ExitStatus, Error> {
        self.process.kill()
    }

    /// Tells it to end (SIGTERM) and waits until it has.
    pub fn stop(mut self, within: Duration) -> Result<ExitStatus, Error> {
        self.process.terminate()?;
        self.process.wait(within)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use tempfile::tempdir;

    use super::*;
    use crate::real::stand_in;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn it_is_started_with_its_kubeconfig_and_leaves_a_log() {
        let scratch = tempdir().unwrap();
        let binary = stand_in::write(scratch.path(), "cadastre", "echo \"$*\"; exec sleep 60");
        let dir = scratch.path().join("dir");
        let mut controller = Controller::start(&binary, "node", Path::new("/a/config"), &dir, &["--more"]).unwrap();
        let log = controller.log().to_path_buf();
        let said =
            controller.until(LONG, || fs::read_to_string(&log).ok().filter(|said| said.ends_with('\n'))).unwrap();
        assert_eq!(said, "controller node --kubeconfig /a/config --webserver-bind-address=0 --more\n");
        assert_eq!(controller.ended().unwrap(), None);
        assert_eq!(controller.kill9().unwrap().signal(), Some(9));
    }

    #[test]
    fn one_that_is_told_to_end_is_waited_for() {
        let scratch = tempdir().unwrap();
        let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done";
        let binary = stand_in::write(scratch.path(), "cadastre", script);
        let mut controller = Controller::start(&binary, "node", Path::new("/a/config"), scratch.path(), &[]).unwrap();
        let log = controller.log().to_path_buf();
        controller.until(LONG, || fs::read_to_string(&log).ok().filter(|said| said.contains("ready"))).unwrap();
        assert!(controller.stop(LONG).unwrap().success());
    }
}
