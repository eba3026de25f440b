//! The suite `nodes`: who gives nodes their pod CIDRs, seen from outside. In `cadastre up`, on its own store and on two replicas, and as
//! `cadastre controller node` beside our server and beside the real kube-apiserver: what the peers' own suites ask, what goes wrong with
//! the peers, controllers that are killed, doubled, cut off and left without answers, nodes that somebody else has served, a long random
//! run, and the examples.

mod book;
mod bugs;
mod cluster;
mod faults;
mod lossy;
mod soak;
mod specs;
mod stories;
mod takeover;
mod validation;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::cluster::{Cluster, Home, LIMIT, PATIENCE, Setup, UNELECTED};
use self::stories::STORIES;
use super::report::{Outcome, Report};
use super::servers::Servers;
use super::{Options, Place};

pub(super) const SUITE: &str = "nodes";

/// How often controllers are killed, and how often everything else strikes.
const KILLS: u32 = 40;
const QUICK_KILLS: u32 = 4;
const FAULTS: u32 = 10;
const QUICK_FAULTS: u32 = 2;

/// What has a limit and took so long is told.
const TELLING: Duration = Duration::from_millis(500);

/// How many operations the long run has.
const OPERATIONS: u64 = 100_000;
const QUICK_OPERATIONS: u64 = 2_000;

/// Something that is tried in a cluster that others have been tried in.
struct Case {
    name: &'static str,
    run: fn(&mut Cluster) -> Result<()>,
}

/// What runs a case, and where its outcome goes.
struct Stage<'a> {
    options: &'a Options,
    place: Place,
    folder: &'a Path,
    report: &'a mut Report,
}

impl Stage<'_> {
    fn is_asked(&self, name: &str) -> bool {
        self.options.only.as_ref().is_none_or(|only| name.contains(only))
    }

    /// Runs a case that has a cluster for itself.
    fn case(&mut self, name: &str, run: impl FnOnce(&Path) -> Result<String>) {
        if !self.is_asked(name) {
            return;
        }
        let began = Instant::now();
        let seed = self.options.seed();
        let outcome = match run(&self.folder.join(name.replace([' ', ':', '/', '`'], "-"))) {
            Ok(done) => Outcome::Ok(done),
            Err(why) => Outcome::Failed(format!("{why:#}\nthe seed was {seed}")),
        };
        self.report.case(SUITE, self.place, name, &outcome, began.elapsed());
    }

    /// Runs cases one after the other in one cluster, which each leaves as it found it.
    fn cases(&mut self, setup: &Setup<'_>, folder: &str, prepare: fn(&mut Cluster) -> Result<()>, cases: &[&[Case]]) {
        let asked: Vec<_> = cases.iter().copied().flatten().filter(|case| self.is_asked(case.name)).collect();
        if asked.is_empty() {
            return;
        }
        let began = Instant::now();
        let started = setup.start(&self.folder.join(folder)).and_then(|mut cluster| {
            prepare(&mut cluster)?;
            Ok(cluster)
        });
        let mut cluster = match started {
            Ok(cluster) => cluster,
            Err(why) => {
                let outcome = Outcome::Failed(format!("{why:#}"));
                return self.report.case(SUITE, self.place, folder, &outcome, began.elapsed());
            }
        };
        for Case { name, run } in asked {
            let began = Instant::now();
            let done = run(&mut cluster).and_then(|()| cluster.clean_up().context("afterwards"));
            let slowest = cluster.slowest();
            let outcome = match done {
                Ok(()) if slowest < TELLING => Outcome::Ok(String::new()),
                Ok(()) => Outcome::Ok(format!("what may take {LIMIT:?} took up to {slowest:.1?}")),
                Err(why) => {
                    let swept = cluster.sweep().err().map(|error| format!("\nand nothing can be swept up: {error:#}"));
                    Outcome::Failed(format!("{why:#}{}", swept.unwrap_or_default()))
                }
            };
            self.report.case(SUITE, self.place, name, &outcome, began.elapsed());
        }
    }
}

/// Runs the suite on one server.
pub(super) fn run(servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
    let folder = servers.folder(SUITE, place)?;
    let mut stage = Stage { options, place, folder: &folder, report };
    let (home, elected): (_, &[&str]) =
        if place == Place::Control { (Home::Beside, &[UNELECTED]) } else { (Home::Inside, &[]) };
    let quick = options.quick;
    let limit = if quick { PATIENCE } else { LIMIT };
    let usual = Setup { servers, place, home, services: specs::SERVICES, flags: elected, limit };
    let flags: Vec<&str> = specs::FLAGS.iter().chain(elected).copied().collect();
    stage.cases(&Setup { flags: &flags, ..usual }, "as the peers' suites have it", specs::prepare, &[specs::CASES]);
    if place == Place::Replicas {
        // The controller of one of them has the Lease; a case in which it is killed takes as long as the Lease lasts.
        stage.cases(&usual, "what is taken", |_| Ok(()), &[validation::CASES]);
        return Ok(());
    }
    let flags: Vec<&str> = elected.iter().copied().chain([bugs::FLAG]).collect();
    let bugs = Setup { flags: &flags, ..usual };
    stage.cases(&bugs, "what goes wrong elsewhere", |_| Ok(()), &[validation::CASES, bugs::CASES]);
    let kills = options.rounds.unwrap_or(if quick { QUICK_KILLS } else { KILLS });
    let rounds = options.rounds.unwrap_or(if quick { QUICK_FAULTS } else { FAULTS });
    let seed = options.seed();
    let beside = Setup { home: Home::Beside, flags: &[UNELECTED], ..usual };
    // Beside the control, which takes long to start, these say little more.
    if !(quick && place == Place::Control) {
        stage.case("blocks rest, and come back to their nodes", |folder| bugs::rested(&usual, folder));
        for story in &STORIES {
            stage.case(story.name, |folder| stories::run(&usual, story, folder));
        }
        stage.case("killed while it serves", |folder| faults::killed(&usual, folder, kills, seed));
        stage.case("the Lease is stolen, and its holder killed", |folder| faults::lease(&beside, folder, rounds));
        stage.case("the Lease is handed over", |folder| faults::handed_over(&beside, folder));
        stage.case("the server is away for a while", |folder| faults::outage(&beside, folder, rounds));
    }
    stage.case("two controllers act at once", |folder| faults::two_at_once(&beside, folder, rounds));
    stage.case("writes are not answered, or lost (B6)", |folder| faults::unanswered(&beside, folder, rounds));
    stage.case("nodes that kube-controller-manager served", |folder| {
        takeover::from_kube_controller_manager(&beside, folder)
    });
    stage.case("nodes that node-ipam-controller served", |folder| takeover::from_node_ipam_controller(&beside, folder));
    if place == Place::Embedded {
        let operations = options.writes.unwrap_or(if quick { QUICK_OPERATIONS } else { OPERATIONS });
        stage.case("a long random run", |folder| soak::run(&usual, folder, operations, seed));
    }
    Ok(())
}
