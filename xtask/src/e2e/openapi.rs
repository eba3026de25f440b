//! The suite `openapi`: our documents are read by the code that kubectl reads them with, and are those of the control but for
//! the descriptions.
//!
//! The judge is our Go program `xtask/peers/openapi`. What the control publishes is kept in the cache, so that a quick run need
//! not start it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{fs, mem};

use anyhow::{Context, Result, ensure};

use super::report::{Outcome, Report};
use super::servers::{self, Servers};
use super::{Options, Place};
use crate::https::Endpoint;
use crate::{cache, go, process};

pub(super) const SUITE: &str = "openapi";

/// Fetches the documents of ours, and of the control if it has to be asked, and reports what the judge says of each.
pub(super) fn run(servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
    let go = go::found().with_context(|| format!("the judge is built with Go {}, which is not here", go::VERSION))?;
    let judge = go::peer(&go, SUITE)?;
    let control = control(servers, options, &judge)?;
    let folder = servers.folder(SUITE, place)?;
    let ours = folder.join("documents");
    fetch(servers, place, &judge, &folder, &ours)?;
    let mut began = Instant::now();
    let said = process::output(Command::new(&judge).arg("compare").args([&ours, &control]))?;
    let cases = cases(&said);
    ensure!(!cases.is_empty(), "the judge said nothing");
    for (name, outcome) in cases {
        report.case(SUITE, place, name, &outcome, mem::replace(&mut began, Instant::now()).elapsed());
    }
    Ok(())
}

/// The folder with what the control publishes.
fn control(servers: &Servers, options: &Options, judge: &Path) -> Result<PathBuf> {
    let kept = cache::dir()?.join("e2e/openapi");
    let (documents, inputs) = (kept.join("documents"), kept.join("inputs"));
    let asked = fs::read_to_string(&inputs).is_ok_and(|before| before == decisive());
    if options.quick && asked {
        return Ok(documents);
    }
    let folder = servers.folder(SUITE, Place::Control)?;
    let fresh = folder.join("documents");
    fetch(servers, Place::Control, judge, &folder, &fresh)?;
    // The inputs go first and come back last: what is not whole is asked for again.
    let _ = fs::remove_file(&inputs);
    let _ = fs::remove_dir_all(&documents);
    fs::create_dir_all(&documents).with_context(|| format!("could not create {}", documents.display()))?;
    for file in fs::read_dir(&fresh)? {
        let file = file?;
        fs::copy(file.path(), documents.join(file.file_name()))?;
    }
    fs::write(&inputs, decisive())?;
    Ok(documents)
}

/// All that decides what is kept of the control: what it is, and what it is asked.
fn decisive() -> String {
    format!("{}{}", servers::control_inputs(), include_str!("../../peers/openapi/fetch.go"))
}

fn fetch(servers: &Servers, place: Place, judge: &Path, folder: &Path, into: &Path) -> Result<()> {
    let server = servers.start(place, folder)?;
    let Endpoint { address, authority, token } = server.endpoint()?;
    let mut command = Command::new(judge);
    command.args(["fetch", &format!("https://{address}"), &token]).args([&authority, into]);
    process::output(&mut command).map(drop)
}

/// The cases that the judge tells of: `ok NAME`, or `no NAME: why` and lines that are indented.
fn cases(said: &str) -> Vec<(&str, Outcome)> {
    let mut cases: Vec<(&str, Outcome)> = Vec::new();
    for line in said.lines() {
        if let Some(name) = line.strip_prefix("ok ") {
            cases.push((name, Outcome::Ok(String::new())));
        } else if let Some((name, why)) = line.strip_prefix("no ").and_then(|line| line.split_once(": ")) {
            cases.push((name, Outcome::Failed(why.to_owned())));
        } else if let Some((_, Outcome::Failed(why))) = cases.last_mut() {
            why.push('\n');
            why.push_str(line.trim_start());
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_fails_with_all_that_is_said_of_it() {
        let said = "ok read a.json\nno compare a.json: 2 problems\n  one: x\n  two\nok ask\n";
        let shown: Vec<_> = cases(said)
            .into_iter()
            .map(|(name, outcome)| match outcome {
                Outcome::Ok(said) | Outcome::NotRun(said) => format!("{name} ok {said}"),
                Outcome::Failed(why) => format!("{name} failed {why}"),
            })
            .collect();
        assert_eq!(shown, ["read a.json ok ", "compare a.json failed 2 problems\none: x\ntwo", "ask ok "]);
    }
}
