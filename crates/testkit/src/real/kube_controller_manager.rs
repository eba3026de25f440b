//! kube-controller-manager: the controllers that a bare kube-apiserver needs to behave like a cluster, and a client that
//! is a fair judge of any server in its place.
//!
//! Started with what it is by default: protobuf on the wire, and work only while it holds its lease.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::process::{self, Process};
use super::{Error, free_ports, ports};

/// It listens after a second or two when it has the machine for itself.
const START: Duration = Duration::from_mins(1);

/// A running kube-controller-manager. Dropping it kills it.
pub struct KubeControllerManager {
    process: Process,
}

impl KubeControllerManager {
    /// Without a lease it begins at once, and does not end itself when the machine is too busy for it to hold one.
    pub const ALONE: &str = "--leader-elect=false";

    /// Starts these of its controllers, by their names, against the server of that kubeconfig, and waits until it listens;
    /// its controllers begin later, when it has its lease. `authority` is the file of certificates that is published to every namespace; `dir` is for its
    /// own files; `flags` are what else it is told, instead of what has the same name here.
    pub fn start(
        binary: &Path,
        kubeconfig: &Path,
        authority: &Path,
        controllers: &[&str],
        dir: &Path,
        flags: &[&str],
    ) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(Error::file(dir))?;
        let [port] = free_ports()?;
        let usual = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--controllers={}", controllers.join(",")),
            format!("--root-ca-file={}", authority.display()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", dir.join("tls").display()),
        ];
        let mut command = Command::new(binary);
        command.args(process::flags(&usual, flags));
        let log = dir.join("kube-controller-manager.log");
        let mut process = Process::start("kube-controller-manager", &mut command, &log, false)?;
        process.until(START, || ports::accepts(port).then_some(()))?;
        Ok(Self { process })
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;
    use crate::real::stand_in;

    #[test]
    fn one_that_does_not_come_up_says_why() {
        let scratch = tempdir().unwrap();
        let binary = stand_in::write(scratch.path(), "kube-controller-manager", "echo \"$*\"; exit 1");
        let start = |controllers: &[&str]| {
            let dir = scratch.path().join("dir");
            KubeControllerManager::start(
                &binary,
                Path::new("/a/config"),
                Path::new("/a/ca"),
                controllers,
                &dir,
                &["--last"],
            )
        };
        let error = start(&["one", "other"]).err().unwrap().to_string();
        assert!(error.contains("--kubeconfig=/a/config --controllers=one,other --root-ca-file=/a/ca"), "{error}");
        assert!(error.contains(" --last"), "{error}");
    }
}
