//! The suite `managers`: random writes of every sort by several managers, the same on our server and on the real one, which runs
//! beside it. After each of them the two must have answered the same, and the same managers must own the same fields.
//!
//! The order of entries with different times is not compared, because the clock can strike between two servers; the suite `apply`
//! compares it.

mod fields;
mod side;
mod steps;

use std::time::Instant;

use anyhow::{Result, bail};
use testkit::choices::Seeded;

use self::fields::{KINDS, Kind};
use self::side::Side;
use self::steps::Step;
use super::report::{Outcome, Report};
use super::servers::Servers;
use super::{Options, Place};

pub(super) const SUITE: &str = "managers";

/// How many writes each kind gets.
const STEPS: u32 = 600;
const QUICK_STEPS: u32 = 60;

/// Runs the suite on one server, a case for each kind.
pub(super) fn run(servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
    let seed = options.seed();
    let steps = options.rounds.unwrap_or(if options.quick { QUICK_STEPS } else { STEPS });
    let folder = servers.folder(SUITE, place)?;
    let (ours, theirs) = (servers.start(place, &folder)?, servers.start(Place::Control, &folder.join("control"))?);
    let mut ours = Side::new(Servers::target(&ours, &folder)?)?;
    let mut theirs = Side::new(Servers::target(&theirs, &folder.join("control"))?)?;
    for kind in KINDS.iter().filter(|kind| options.only.as_deref().is_none_or(|only| kind.name.contains(only))) {
        let began = Instant::now();
        let outcome = match sequence(kind, seed, steps, &mut ours, &mut theirs) {
            Ok(done) => Outcome::Ok(format!("{done}, seed {seed}")),
            Err(why) => Outcome::Failed(format!("{why:#}\nthe seed was {seed}")),
        };
        report.case(SUITE, place, kind.name, &outcome, began.elapsed());
    }
    Ok(())
}

/// Writes objects of a kind on both sides; what was done, or the first difference.
fn sequence(kind: &Kind, seed: u64, steps: u32, ours: &mut Side, theirs: &mut Side) -> Result<String> {
    let mut random = Seeded::new(seed);
    let (mut done, mut refused) = (0, 0);
    for number in 1..=steps {
        let step = Step::choose(kind, &mut random);
        let (mine, expected) = (ours.take(kind, &step)?, theirs.take(kind, &step)?);
        if mine != expected {
            bail!("step {number}, {step}\nours:   {mine}\ntheirs: {expected}");
        }
        if expected.is_done() { done += 1 } else { refused += 1 }
    }
    Ok(format!("{done} writes done and {refused} refused, all alike"))
}
