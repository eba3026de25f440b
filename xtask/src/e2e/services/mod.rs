//! The suite `services`: random writes of Services, ranges and addresses, the same on our server and on the real one with its controllers
//! beside it, in the four shapes that a cluster can have, and in one that has hardly any room. After each of them the two must have
//! answered the same, and again and again have the same; addresses and ports that were picked at random are not compared. What is known
//! to differ is excused by its name, and counted. And what our server has written of who has what is held against what its Services say.
//! Besides, two servers are asked for the same at the same time and for what a range has that is deleted, one is killed while it gives and
//! frees, and the examples are run.

mod compare;
mod draining;
mod excuse;
mod holdings;
mod killed;
mod pair;
mod race;
mod ranges;
mod shown;
mod side;
mod steps;
mod stories;
mod unseen;

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use self::compare::SHAPES;
use self::stories::STORIES;
use super::report::{Outcome, Report};
use super::servers::Servers;
use super::stand::Stand;
use super::{Options, Place};

pub(super) const SUITE: &str = "services";

/// How many writes each shape gets.
const STEPS: u32 = 2500;
const QUICK_STEPS: u32 = 150;

/// How often the server is killed.
const KILLS: u32 = 1000;
const QUICK_KILLS: u32 = 20;

/// Runs the suite on one server: the examples, a case for each shape and one in which it is killed; or, on two servers, the examples and
/// those in which they give out of the same ranges.
pub(super) fn run(servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
    let seed = options.seed();
    let folder = servers.folder(SUITE, place)?;
    let mut case = |name: &str, run: &dyn Fn(&Path) -> Result<String>| {
        if options.only.as_ref().is_some_and(|only| !name.contains(only)) {
            return;
        }
        let began = Instant::now();
        let outcome = match run(&folder.join(name.replace([' ', ':', '/'], "-"))) {
            Ok(done) => Outcome::Ok(format!("{done}, seed {seed}")),
            Err(why) => Outcome::Failed(format!("{why:#}\nthe seed was {seed}")),
        };
        report.case(SUITE, place, name, &outcome, began.elapsed());
    };
    let stand_with = |folder: &Path, ranges: &str| {
        fs::create_dir_all(folder)?;
        let ranges = format!("--service-cluster-ip-range={ranges}");
        // Where two give out of the same ranges, writes are counted, and controllers renew their Leases all the time.
        let flags: &[&str] = if place == Place::Replicas { &[&ranges, "--no-controllers"] } else { &[&ranges] };
        Stand::start(servers, place, folder, flags)
    };
    let stand = |folder: &Path| stand_with(folder, "10.96.0.0/16,fd00:96::/112");
    // On two servers they say little more.
    let stories: &[_] = if options.quick && place == Place::Replicas { &[] } else { &STORIES };
    for story in stories {
        case(story.name, &|folder| stories::run(servers, place, story, folder));
    }
    if place == Place::Replicas {
        case("one address or port is asked of both", &|folder| race::duels(&stand(folder)?));
        case("many create on both at once", &|folder| race::crowd(&stand(folder)?));
        case("many create on both until hardly anything is free", &|folder| {
            race::crush(&stand_with(folder, "10.96.0.0/24")?)
        });
        case("a range goes while both give out of it", &|folder| draining::run(&stand_with(folder, draining::STAYS)?));
        return Ok(());
    }
    let kills = options.rounds.unwrap_or(if options.quick { QUICK_KILLS } else { KILLS });
    case("killed while it gives and frees", &|folder| killed::run(&mut stand(folder)?, kills, seed));
    let steps = options.rounds.unwrap_or(if options.quick { QUICK_STEPS } else { STEPS });
    for (shape, number) in SHAPES.iter().zip(0..) {
        // Each shape has its own choices.
        case(shape.name, &|folder| compare::run(servers, place, shape, folder, seed.wrapping_add(number), steps));
    }
    Ok(())
}
