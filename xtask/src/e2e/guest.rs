//! Programs that use a server as others' programs do, and say what came of it: the suites `clients` (client-go) and `kube-rs`.
//!
//! A guest is told on stdin where the servers are, and says what came of each check on stdout, a line of JSON each. Guests reach
//! the servers over a wire, and ask for what they cannot do themselves: to have the wire cut or led to another replica, or to
//! have the servers forget their history.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use testkit::real::Wire;

use super::Place;
use super::report::{Outcome, Report};
use super::stand::Stand;

/// What a guest is started with.
#[derive(Serialize)]
pub(super) struct Order<'a> {
    wire: String,
    servers: &'a [String],
    authority: &'a Path,
    token: &'a str,
    /// Whether they are the control, which cannot do everything that is asked of ours.
    control: bool,
    /// Only the checks whose names contain this.
    only: &'a str,
    /// Follow what others write instead, and write down in this folder what was seen.
    follow: Option<&'a Path>,
}

/// A line of a guest.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Line {
    Ask {
        ask: String,
    },
    Following {
        following: usize,
    },
    #[serde(rename_all = "camelCase")]
    Verdict {
        case: String,
        ok: bool,
        #[serde(default)]
        not_run: bool,
        #[serde(default)]
        said: String,
        #[serde(default)]
        took: f64,
    },
}

/// A guest that runs.
pub(super) struct Guest {
    child: Child,
    to: ChildStdin,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl<'a> Order<'a> {
    pub(super) fn new(stand: &'a Stand, wire: &Wire) -> Self {
        let Stand { addresses, authority, token, .. } = stand;
        let control = stand.is_control();
        Self { wire: wire.address(), servers: addresses, authority, token, control, only: "", follow: None }
    }

    pub(super) fn only(self, only: &'a str) -> Self {
        Self { only, ..self }
    }

    pub(super) fn follow(self, folder: &'a Path) -> Self {
        Self { follow: Some(folder), ..self }
    }
}

impl Guest {
    /// Starts a guest; what its libraries log goes to a file.
    pub(super) fn start(program: &mut Command, order: &Order<'_>, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("could not write {}", log.display()))?;
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut child =
            program.spawn().with_context(|| format!("could not start {}", program.get_program().display()))?;
        let mut to = child.stdin.take().context("a guest without stdin")?;
        let from = child.stdout.take().context("a guest without stdout")?;
        writeln!(to, "{}", serde_json::to_string(order)?)?;
        Ok(Self { child, to, lines: BufReader::new(from).lines() })
    }

    /// The next line; none when the guest has left in order.
    pub(super) fn next(&mut self) -> Result<Option<Line>> {
        let Some(line) = self.lines.next() else {
            let status = self.child.wait()?;
            ensure!(status.success(), "the guest ended with {status}; see its log");
            return Ok(None);
        };
        let line = line?;
        serde_json::from_str(&line).map(Some).with_context(|| format!("the guest said {line}"))
    }

    /// Tells it something.
    pub(super) fn tell(&mut self, what: &str) -> Result<()> {
        writeln!(self.to, "{what}").context("the guest does not listen")
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // An error means that it has left.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a guest's checks are reported.
pub(super) struct Table<'a> {
    pub(super) suite: &'static str,
    pub(super) place: Place,
    /// What is added to the name of each case.
    pub(super) how: &'static str,
    /// Whether what takes long is left out.
    pub(super) quick: bool,
    pub(super) report: &'a mut Report,
}

/// Lets a guest make its checks, does what it asks for, and reports.
pub(super) fn entertain(
    program: &mut Command,
    stand: &Stand,
    only: &str,
    log: &Path,
    table: &mut Table<'_>,
) -> Result<()> {
    let wire = Wire::to(&stand.addresses[0])?;
    let mut guest = Guest::start(program, &Order::new(stand, &wire).only(only), log)?;
    let (mut cases, mut leads) = (0, 0);
    while let Some(line) = guest.next()? {
        match line {
            Line::Ask { ask } => {
                let served = serve(&ask, stand, &wire, &mut leads, table.quick);
                guest.tell(&served.map_or_else(|why| format!("{why:#}").replace('\n', " "), |()| "done".to_owned()))?;
            }
            Line::Verdict { case, ok, not_run, said, took } => {
                let outcome = match (ok, not_run) {
                    (true, _) => Outcome::Ok(said),
                    (false, true) => Outcome::NotRun(said),
                    (false, false) => Outcome::Failed(said),
                };
                let name = format!("{case}{}", table.how);
                table.report.case(table.suite, table.place, &name, &outcome, Duration::from_secs_f64(took));
                cases += 1;
            }
            Line::Following { .. } => bail!("the guest follows instead of checking"),
        }
    }
    ensure!(cases > 0 || !only.is_empty(), "the guest made no check; see {}", log.display());
    Ok(())
}

fn serve(ask: &str, stand: &Stand, wire: &Wire, leads: &mut usize, quick: bool) -> Result<()> {
    match ask {
        "cut" => wire.snip(),
        "switch" => {
            *leads += 1;
            wire.lead(&stand.addresses[*leads % stand.addresses.len()])?;
            wire.snip();
        }
        "forget" if quick => bail!("it takes too long for a quick run"),
        "forget" => stand.forget()?,
        _ => bail!("nobody knows how to {ask}"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_asks_follows_or_gives_a_verdict() {
        let line = |text: &str| serde_json::from_str::<Line>(text).unwrap();
        assert!(matches!(line(r#"{"ask":"cut"}"#), Line::Ask { ask } if ask == "cut"));
        assert!(matches!(line(r#"{"following":9}"#), Line::Following { following: 9 }));
        let verdict = line(r#"{"case":"a","ok":false,"notRun":true,"said":"why","took":1.5}"#);
        assert!(matches!(verdict, Line::Verdict { not_run: true, ok: false, .. }));
    }
}
