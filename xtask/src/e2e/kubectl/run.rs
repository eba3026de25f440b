//! Runs one case: every step a kubectl of its own, in a folder that keeps what each read and wrote.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use testkit::real::Kubectl;

use super::script::{Case, Step, Way};

/// Longer than any step takes on a busy machine. A step that takes longer is ended, and what it wrote shows that.
const PATIENCE: Duration = Duration::from_mins(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ending {
    /// The exit code; none if it was ended from here.
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// A step that runs.
struct Running<'a> {
    child: Child,
    step: &'a Step,
    number: usize,
    folder: &'a Path,
}

/// Runs the steps in order; how each ended. Where there are several servers, each step is with another than the one before, so that
/// what one of them wrote the other has to know.
pub(super) fn run(case: &Case, kubectls: &[Kubectl], folder: &Path) -> Result<Vec<Ending>> {
    fs::create_dir_all(folder)?;
    for (name, text) in &case.files {
        fs::write(folder.join(name), text)?;
    }
    let mut endings: Vec<Option<Ending>> = vec![None; case.steps.len()];
    let mut beside = Vec::new();
    for ((number, step), kubectl) in case.steps.iter().enumerate().zip(kubectls.iter().cycle()) {
        let mut running = Running::start(case, step, number, kubectl, folder)?;
        match step.way {
            Way::Succeeds | Way::Fails => endings[number] = Some(running.end()?),
            Way::Beside(lines) => {
                if lines > 0 {
                    // A watch has begun when it has shown what there was.
                    running.until_lines(1)?;
                }
                beside.push(running);
            }
        }
    }
    for mut running in beside {
        let number = running.number;
        endings[number] = Some(running.end()?);
    }
    let endings: Vec<_> = endings.into_iter().flatten().collect();
    keep(case, &endings, folder)?;
    Ok(endings)
}

impl<'a> Running<'a> {
    fn start(case: &Case, step: &'a Step, number: usize, kubectl: &Kubectl, folder: &'a Path) -> Result<Self> {
        let mut args = vec!["--namespace", case.namespace.as_str()];
        args.extend(step.args.iter().map(String::as_str));
        let mut command = kubectl.command(&args);
        command.current_dir(folder).env("KUBE_EDITOR", format!("sh {}", folder.join("editor").display()));
        if let Some(input) = &step.input {
            let path = stream(folder, number, "in");
            fs::write(&path, input)?;
            command.stdin(File::open(&path)?);
        } else {
            command.stdin(Stdio::null());
        }
        command.stdout(File::create(stream(folder, number, "out"))?);
        command.stderr(File::create(stream(folder, number, "err"))?);
        let child = command.spawn().context("could not start kubectl")?;
        Ok(Self { child, step, number, folder })
    }

    /// Waits until it has written that many lines, or ended.
    fn until_lines(&mut self, lines: usize) -> Result<()> {
        let started = Instant::now();
        while self.written()?.lines().count() < lines && started.elapsed() < PATIENCE {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        Ok(())
    }

    /// Waits for its end, or brings it about: when it has written its lines, or when patience is at its end.
    fn end(&mut self) -> Result<Ending> {
        if let Way::Beside(lines @ 1..) = self.step.way {
            self.until_lines(lines)?;
            self.stop()?;
            let stdout = self.written()?.split_inclusive('\n').take(lines).collect();
            return Ok(Ending { code: None, stdout, stderr: self.read("err")? });
        }
        let started = Instant::now();
        let code = loop {
            if let Some(status) = self.child.try_wait()? {
                break status.code();
            }
            if started.elapsed() > PATIENCE {
                self.stop()?;
                break None;
            }
            thread::sleep(BETWEEN_LOOKS);
        };
        Ok(Ending { code, stdout: self.written()?, stderr: self.read("err")? })
    }

    fn written(&self) -> Result<String> {
        self.read("out")
    }

    fn read(&self, name: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(stream(self.folder, self.number, name))?).into_owned())
    }

    fn stop(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // An error means that it is gone already.
        let _ = self.stop();
    }
}

fn stream(folder: &Path, number: usize, name: &str) -> PathBuf {
    folder.join(format!("{number:02}.{name}"))
}

/// Writes the case down as one would have seen it in a terminal.
fn keep(case: &Case, endings: &[Ending], folder: &Path) -> Result<()> {
    let shown = case.steps.iter().zip(endings).map(|(step, ending)| {
        let Ending { code, stdout, stderr } = ending;
        format!("$ kubectl {}\n{stdout}{stderr}=> {code:?}\n\n", step.args.join(" "))
    });
    Ok(fs::write(folder.join("transcript"), shown.collect::<String>())?)
}
