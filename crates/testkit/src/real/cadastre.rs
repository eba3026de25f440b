//! The `cadastre` program as a process of its own, for what cannot be shown in-process: kill -9, signals, start times.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::Error;
use super::process::{self, Process, appended};

/// What the line begins with that the program prints to stdout when it serves; its address follows.
const READY: &str = "cadastre is ready on ";
/// Far more than it takes with a hundred thousand objects on a busy machine.
const START: Duration = Duration::from_mins(1);

/// A running `cadastre up`. Dropping it kills it.
pub struct Cadastre {
    process: Process,
    url: String,
    data: PathBuf,
}

impl Cadastre {
    /// The flag that leaves it as bare as kube-apiserver is without its controllers: nothing is written that no client wrote.
    pub const BARE: &str = "--no-lifecycle";

    /// Starts `cadastre up` on that data directory and waits until it says that it is ready.
    ///
    /// It listens on a port of its own choice, unless `extra` has a `--listen`: a server that is to come back where its
    /// clients look for it is started again with `--listen` and the [`Cadastre::address`] it had. What it writes is
    /// added to `DATA.stdout.log` and `DATA.stderr.log` beside the data directory, which may be full or not writable.
    pub fn start(binary: &Path, data: &Path, extra: &[&str]) -> Result<Self, Error> {
        let mut command = Command::new(binary);
        command.arg("up").arg("--data-dir").arg(data);
        command.args(process::flags(&["--listen=127.0.0.1:0".to_owned()], extra));
        let mut process = Process::start("cadastre", &mut command, &log(data, "stderr"), true)?;
        let mut copy = appended(&log(data, "stdout"))?;
        let (found, url) = mpsc::channel();
        if let Some(stdout) = process.stdout() {
            // Reads on after the line, because a process whose stdout nobody reads stops at the next one.
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    let _ = writeln!(copy, "{line}");
                    if let Some(url) = ready(&line) {
                        let _ = found.send(url);
                    }
                }
            });
        }
        let url = process.until(START, || url.try_recv().ok())?;
        Ok(Self { process, url, data: data.to_path_buf() })
    }

    /// Where it is served, as `https://ADDRESS:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where it listens, as `ADDRESS:PORT`.
    pub fn address(&self) -> &str {
        self.url.strip_prefix("https://").unwrap_or(&self.url)
    }

    /// The admin kubeconfig that it wrote.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data.join("kubeconfig")
    }

    /// The certificates to trust, as PEM.
    pub fn ca(&self) -> PathBuf {
        self.data.join("pki/ca.crt")
    }

    /// The bearer token that it wrote for tools that cannot present a certificate.
    pub fn token(&self) -> Result<String, Error> {
        let path = self.data.join("admin-token");
        let text = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
        Ok(text.trim().to_owned())
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub fn kill9(mut self) -> Result<ExitStatus, Error> {
        self.process.kill()
    }

    /// Tells it to end (SIGTERM), without waiting.
    pub fn terminate(&mut self) -> Result<(), Error> {
        self.process.terminate()
    }

    /// Waits until it has ended.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus, Error> {
        self.process.wait(within)
    }
}

/// The log of one of its streams, beside the data directory.
fn log(data: &Path, stream: &str) -> PathBuf {
    let mut path = data.as_os_str().to_owned();
    path.push(format!(".{stream}.log"));
    path.into()
}

/// The address in a line of stdout, if it is the line that says that the server is ready.
fn ready(line: &str) -> Option<String> {
    line.strip_prefix(READY).map(|url| url.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::process::ExitStatusExt;

    use tempfile::{TempDir, tempdir};

    use super::*;
    use crate::real::stand_in;

    const READY_THEN: &str = "echo hello; echo \"cadastre is ready on https://127.0.0.1:4711\";";

    /// A program in cadastre's place, that writes its arguments to stderr and then does what the script says.
    fn program(scratch: &TempDir, script: &str) -> PathBuf {
        stand_in::write(scratch.path(), "cadastre", &format!("echo \"$*\" >&2\n{script}"))
    }

    #[test]
    fn it_is_ready_where_its_line_says() {
        let scratch = tempdir().unwrap();
        let data = scratch.path().join("data");
        let binary = program(&scratch, &format!("{READY_THEN} exec sleep 60"));
        let cadastre = Cadastre::start(&binary, &data, &["--etcd-servers=x"]).unwrap();
        assert_eq!(cadastre.url(), "https://127.0.0.1:4711");
        assert_eq!(cadastre.address(), "127.0.0.1:4711");
        assert_eq!(cadastre.kubeconfig(), data.join("kubeconfig"));
        let asked = format!("up --data-dir {} --listen=127.0.0.1:0 --etcd-servers=x\n", data.display());
        assert_eq!(fs::read_to_string(log(&data, "stderr")).unwrap(), asked);
        assert_eq!(cadastre.kill9().unwrap().signal(), Some(9));
        assert!(fs::read_to_string(log(&data, "stdout")).unwrap().starts_with("hello\ncadastre is ready"));
    }

    #[test]
    fn an_address_that_is_asked_for_is_the_only_one() {
        let scratch = tempdir().unwrap();
        let data = scratch.path().join("data");
        let binary = program(&scratch, &format!("{READY_THEN} exec sleep 60"));
        let _cadastre = Cadastre::start(&binary, &data, &["--listen", "127.0.0.1:4711"]).unwrap();
        assert_eq!(fs::read_to_string(log(&data, "stderr")).unwrap().matches("--listen").count(), 1);
    }

    #[test]
    fn a_server_that_does_not_come_up_says_why() {
        let scratch = tempdir().unwrap();
        let binary = program(&scratch, "echo 'the data directory is in use' >&2; exit 1");
        let error = Cadastre::start(&binary, &scratch.path().join("data"), &[]).err().unwrap().to_string();
        assert!(error.contains("the data directory is in use"), "{error}");
    }

    #[test]
    fn a_server_that_is_told_to_end_is_waited_for() {
        let scratch = tempdir().unwrap();
        let binary = program(&scratch, &format!("trap 'exit 0' TERM\n{READY_THEN}\nwhile :; do sleep 0.01; done"));
        let mut cadastre = Cadastre::start(&binary, &scratch.path().join("data"), &[]).unwrap();
        cadastre.terminate().unwrap();
        assert!(cadastre.wait(START).unwrap().success());
    }
}
