//! whereabouts' node-slice-controller: who gives nodes their slices before ours does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use super::Error;
use super::process::Process;

/// A running node-slice-controller. Dropping it kills it.
pub struct NodeSliceController {
    process: Process,
    log: PathBuf,
}

impl NodeSliceController {
    /// Starts it against the server of that kubeconfig, for pools in that namespace; what it writes is added to `node-slice-controller.log` in
    /// `dir`. It is not waited for: what it does shows in the objects.
    pub fn start(binary: &Path, kubeconfig: &Path, namespace: &str, dir: &Path) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(Error::file(dir))?;
        let mut command = Command::new(binary);
        command.arg("-kubeconfig").arg(kubeconfig).env("WHEREABOUTS_NAMESPACE", namespace);
        let log = dir.join("node-slice-controller.log");
        Ok(Self { process: Process::start("node-slice-controller", &mut command, &log, false)?, log })
    }

    /// Where it writes to.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.process.ended()
    }

    /// Tells it to end (SIGTERM) and waits until it has.
    pub fn stop(mut self, within: Duration) -> Result<ExitStatus, Error> {
        self.process.terminate()?;
        self.process.wait(within)
    }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;
    use crate::real::stand_in;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn it_is_started_for_its_namespace_and_told_to_end() {
        let scratch = tempdir().unwrap();
        let script = "trap 'exit 0' TERM; echo \"$* $WHEREABOUTS_NAMESPACE\"; while :; do sleep 0.01; done";
        let binary = stand_in::write(scratch.path(), "node-slice-controller", script);
        let mut controller =
            NodeSliceController::start(&binary, Path::new("/a/config"), "ns", &scratch.path().join("dir")).unwrap();
        let log = controller.log().to_path_buf();
        let whole = || fs::read_to_string(&log).ok().filter(|said| said.ends_with('\n'));
        let said = controller.process.until(LONG, whole).unwrap();
        assert_eq!(said, "-kubeconfig /a/config ns\n");
        assert_eq!(controller.ended().unwrap(), None);
        assert!(controller.stop(LONG).unwrap().success());
    }
}
