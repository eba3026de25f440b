//! One running process: its log, how it is waited for, told to end and killed.
//!
//! Knows no part by name. A process is signalled only while its handle says that it runs, so a number that the system
//! has given to somebody else meanwhile is never hit.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::Error;

/// How often a process is asked after. Short, because start times are measured with it.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// How much of a log an error shows.
const TAIL_LINES: usize = 20;

/// A process that was started here. Dropping it kills it.
pub(super) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the command; what it writes to stderr goes to the end of the file `log`, and stdout too unless the
    /// caller wants to read it.
    pub(super) fn start(name: &str, command: &mut Command, log: &Path, read_stdout: bool) -> Result<Self, Error> {
        let file = appended(log)?;
        let stdout =
            if read_stdout { Stdio::piped() } else { Stdio::from(file.try_clone().map_err(Error::file(log))?) };
        command.stdin(Stdio::null()).stdout(stdout).stderr(file);
        let program = command.get_program().display().to_string();
        let child = command.spawn().map_err(|source| Error::NotStarted { program, source })?;
        Ok(Self { name: name.to_owned(), child, log: log.to_path_buf() })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The stream of a process that was started with `read_stdout`, once.
    pub(super) fn stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Waits until `probe` has an answer: an error if the process ends first, or after `within`.
    pub(super) fn until<T>(&mut self, within: Duration, mut probe: impl FnMut() -> Option<T>) -> Result<T, Error> {
        let answer = poll(within, || {
            // Asked before the probe: an answer to a probe after the end came from somebody else.
            if let Some(status) = self.ended()? {
                return Err(Error::Ended { name: self.name.clone(), status, tail: self.tail() });
            }
            Ok(probe())
        });
        answer?.ok_or_else(|| Error::NotReady { name: self.name.clone(), within, tail: self.tail() })
    }

    /// Asks the process to end, as an init system does (SIGTERM). Does not wait; does nothing if it has ended.
    pub(super) fn terminate(&mut self) -> Result<(), Error> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        // The standard library can only kill. Every system has a shell, and every shell can signal.
        let mut shell = Command::new("sh");
        shell.args(["-c", "kill -s TERM \"$0\"", &self.pid().to_string()]);
        let status = shell.status().map_err(Error::system(format!("could not signal {}", self.name)))?;
        if status.success() {
            return Ok(());
        }
        let refused = std::io::Error::other(format!("kill ended with {status}"));
        Err(Error::system(format!("could not signal {}", self.name))(refused))
    }

    /// Waits for the process to end; when this returns, its number and its ports are free.
    pub(super) fn wait(&mut self, within: Duration) -> Result<ExitStatus, Error> {
        let status = poll(within, || self.ended())?;
        status.ok_or_else(|| Error::NotEnded { name: self.name.clone(), within, tail: self.tail() })
    }

    /// Kills the process at once (SIGKILL) and waits until it is gone.
    pub(super) fn kill(&mut self) -> Result<ExitStatus, Error> {
        let not_killed = || format!("could not kill {}", self.name);
        self.child.kill().map_err(Error::system(not_killed()))?;
        self.child.wait().map_err(Error::system(not_killed()))
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(Error::system(format!("could not ask after {}", self.name)))
    }

    /// The last lines of its log.
    fn tail(&self) -> String {
        tail(&fs::read(&self.log).unwrap_or_default())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it is gone already.
        let _ = self.kill();
    }
}

/// The flags, each written as `--name=value`, without those that `extra` has too, and then `extra`.
///
/// Giving both would not do: programs add up the values of a flag that takes a list, and some refuse a second value.
pub(super) fn flags(flags: &[String], extra: &[&str]) -> Vec<String> {
    fn name(flag: &str) -> &str {
        flag.split_once('=').map_or(flag, |(name, _)| name)
    }
    let kept = flags.iter().filter(|flag| !extra.iter().any(|other| name(other) == name(flag)));
    kept.cloned().chain(extra.iter().map(ToString::to_string)).collect()
}

/// Asks again and again until there is an answer; none if there was none for as long as `within`.
pub(super) fn poll<T>(
    within: Duration,
    mut probe: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let started = Instant::now();
    loop {
        let answer = probe()?;
        if answer.is_some() || started.elapsed() > within {
            return Ok(answer);
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// The file, open for writing at its end; created, with its folder, if absent.
pub(super) fn appended(path: &Path) -> Result<File, Error> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    OpenOptions::new().create(true).append(true).open(path).map_err(Error::file(path))
}

fn tail(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use tempfile::{TempDir, tempdir};

    const LONG: Duration = Duration::from_secs(30);

    fn shell(script: &str, scratch: &TempDir) -> Process {
        Process::start("shell", Command::new("sh").args(["-c", script]), &scratch.path().join("log"), false).unwrap()
    }

    #[test]
    fn a_process_that_ends_too_early_shows_its_last_words() {
        let scratch = tempdir().unwrap();
        let mut process = shell("echo one; echo two >&2; exit 3", &scratch);
        let error = process.until(LONG, || None::<()>).unwrap_err().to_string();
        assert_eq!(error, "shell ended before it was ready (exit status: 3); the end of its log:\none\ntwo");
    }

    #[test]
    fn a_process_that_never_serves_is_given_up() {
        let scratch = tempdir().unwrap();
        let mut process = shell("exec sleep 60", &scratch);
        let error = process.until(Duration::ZERO, || None::<()>).unwrap_err();
        assert!(matches!(error, Error::NotReady { .. }), "{error}");
        assert!(matches!(process.wait(Duration::ZERO).unwrap_err(), Error::NotEnded { .. }));
    }

    #[test]
    fn a_signal_arrives_and_the_end_is_seen() {
        let scratch = tempdir().unwrap();
        let mut process = shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done", &scratch);
        let log = scratch.path().join("log");
        process.until(LONG, || fs::read_to_string(&log).ok().filter(|said| said.contains("ready"))).unwrap();
        process.terminate().unwrap();
        assert_eq!(process.wait(LONG).unwrap().code(), Some(7));
        process.terminate().unwrap();
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let scratch = tempdir().unwrap();
        let process = shell("exec sleep 60", &scratch);
        let entry = format!("/proc/{}", process.pid());
        assert!(Path::new(&entry).exists());
        drop(process);
        assert!(!Path::new(&entry).exists());
    }

    #[test]
    fn a_killed_process_ends_by_the_signal() {
        let scratch = tempdir().unwrap();
        assert_eq!(shell("exec sleep 60", &scratch).kill().unwrap().signal(), Some(9));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let scratch = tempdir().unwrap();
        let error = Process::start("etcd", &mut Command::new("/no/such/etcd"), &scratch.path().join("log"), false);
        let error = error.err().unwrap().to_string();
        assert!(error.starts_with("could not start /no/such/etcd: "), "{error}");
    }

    #[test]
    fn a_flag_of_the_caller_replaces_the_usual_one() {
        let usual = ["--listen=a".to_owned(), "--listen-more=b".to_owned()];
        assert_eq!(flags(&usual, &["--listen=c"]), ["--listen-more=b", "--listen=c"]);
        assert_eq!(flags(&usual, &["--listen", "c"]), ["--listen-more=b", "--listen", "c"]);
        assert_eq!(flags(&usual, &[]), usual);
    }

    #[test]
    fn only_the_end_of_a_long_log_is_shown() {
        let log: Vec<_> = (0..100).map(|line| line.to_string()).collect();
        let shown = tail(log.join("\n").as_bytes());
        assert!(shown.starts_with("80\n") && shown.ends_with("\n99"), "{shown}");
    }
}
