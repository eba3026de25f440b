//! The suite `wire`: clients that speak nothing but protobuf. What they see of ours must be what they see of the control.
//!
//! The clients are the Go program in `xtask/peers/wire`, which prints a line for each thing it does: a case, and what came of
//! it. The lines of both servers are compared; nothing here knows what they are about.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use testkit::real::Cadastre;

use super::Place;
use super::report::{Outcome, Report};
use super::servers::{Flags, Servers};
use crate::go;

const SUITE: &str = "wire";

/// The range of the control, so that addresses are known when they are seen.
const FLAGS: Flags<'_> =
    Flags { ours: &[Cadastre::BARE, "--service-cluster-ip-range=10.96.0.0/16"], replica: &[], control: &[] };

/// How many lines that differ are told; all of them are in the files.
const MOST_TOLD: usize = 10;

/// Runs the clients on the control, and then on each of the servers.
pub(super) fn run(servers: &Servers, places: &[Place], report: &mut Report) -> Result<()> {
    let go =
        go::found().with_context(|| format!("the clients are built with Go {}, which is not here", go::VERSION))?;
    let program = go::peer(&go, SUITE)?;
    let began = Instant::now();
    let control = said(servers, &program, Place::Control)?;
    let all = control.lines().count();
    if places.contains(&Place::Control) {
        let outcome = Outcome::Ok(format!("{all} lines"));
        report.case(SUITE, Place::Control, "everything", &outcome, began.elapsed());
    }
    for place in places.iter().filter(|place| **place != Place::Control) {
        let began = Instant::now();
        let outcome = match said(servers, &program, *place) {
            Ok(ours) => judge(&control, &ours),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        report.case(SUITE, *place, "everything", &outcome, began.elapsed());
    }
    Ok(())
}

/// What the clients say of an empty server of that kind.
fn said(servers: &Servers, program: &Path, place: Place) -> Result<String> {
    let folder = servers.folder(SUITE, place)?;
    let server = servers.start_with(place, &folder, FLAGS)?;
    let output = Command::new(program).arg(server.kubeconfig()).output().context("could not run the clients")?;
    fs::write(folder.join("said.txt"), &output.stdout)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the clients gave up: {errors}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Holds the lines of ours against those of the control, in their order.
fn judge(control: &str, ours: &str) -> Outcome {
    let (theirs, ours): (Vec<_>, Vec<_>) = (control.lines().collect(), ours.lines().collect());
    let differ: Vec<_> = theirs.iter().zip(&ours).filter(|(theirs, ours)| theirs != ours).collect();
    let alike = theirs.len().min(ours.len()) - differ.len();
    if differ.is_empty() && theirs.len() == ours.len() {
        return Outcome::Ok(format!("{alike} lines alike"));
    }
    let told = differ.iter().take(MOST_TOLD).map(|(theirs, ours)| format!("control: {theirs}\n   ours: {ours}\n"));
    let told: String = told.collect();
    let lengths = format!("{} lines of the control, {} of ours, {} differ", theirs.len(), ours.len(), differ.len());
    Outcome::Failed(format!("{lengths}\n{told}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_must_be_the_control_s() {
        assert!(matches!(judge("a\tb\nc\td\n", "a\tb\nc\td\n"), Outcome::Ok(said) if said == "2 lines alike"));
        for other in ["a\tb\n", "a\tb\nc\td\ne\tf\n", "a\tb\nc\te\n", "", "c\td\na\tb\n"] {
            assert!(matches!(judge("a\tb\nc\td\n", other), Outcome::Failed(_)), "{other:?}");
        }
    }
}
