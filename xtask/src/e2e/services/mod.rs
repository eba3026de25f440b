//! The suite `services`: random writes of Services, the same on our server and on the real one beside it, in the four shapes that a
//! cluster can have. After each of them the two must have answered the same; addresses and ports that were picked at random are not
//! compared. What the real server is known to do wrong is excused by its name, and counted. And again and again what our server has
//! written of who has what is held against what its Services say. Besides, two servers are asked for the same at the same time, and one
//! is killed while it gives and frees.

mod excuse;
mod killed;
mod race;
mod side;
mod steps;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use testkit::choices::Seeded;
use testkit::real::Cadastre;

use self::side::Side;
use self::steps::Step;
use super::report::{Outcome, Report};
use super::servers::{Flags, Servers};
use super::stand::Stand;
use super::{Options, Place};

pub(super) const SUITE: &str = "services";

/// How many writes each shape gets.
const STEPS: u32 = 2500;
const QUICK_STEPS: u32 = 200;

/// How many writes there are between two looks at who has what.
const BATCH: u32 = 100;

/// The ranges of a cluster, the preferred family first, and what the real server has to be told besides.
struct Shape {
    name: &'static str,
    ranges: &'static str,
    advertised: &'static str,
}

const SHAPES: [Shape; 4] = [
    Shape { name: "IPv4", ranges: "10.96.0.0/16", advertised: "127.0.0.1" },
    Shape { name: "IPv6", ranges: "fd00:96::/112", advertised: "::1" },
    Shape { name: "IPv4 and IPv6", ranges: "10.96.0.0/16,fd00:96::/112", advertised: "127.0.0.1" },
    Shape { name: "IPv6 and IPv4", ranges: "fd00:96::/112,10.96.0.0/16", advertised: "::1" },
];

/// How often the server is killed.
const KILLS: u32 = 1000;
const QUICK_KILLS: u32 = 20;

/// Runs the suite on one server: a case for each shape and one in which it is killed; or, on two servers, those in which they give
/// out of the same ranges.
pub(super) fn run(servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
    let seed = options.seed();
    let folder = servers.folder(SUITE, place)?;
    let mut case = |name: &str, run: &dyn Fn(&Path) -> Result<String>| {
        let began = Instant::now();
        let outcome = match run(&folder.join(name.replace(' ', "-"))) {
            Ok(done) => Outcome::Ok(format!("{done}, seed {seed}")),
            Err(why) => Outcome::Failed(format!("{why:#}\nthe seed was {seed}")),
        };
        report.case(SUITE, place, name, &outcome, began.elapsed());
    };
    let stand = |folder: &Path| {
        fs::create_dir_all(folder)?;
        Stand::start(servers, place, folder, &["--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112"])
    };
    if place == Place::Replicas {
        case("one address or port is asked of both", &|folder| race::duels(&stand(folder)?));
        case("many create on both at once", &|folder| race::crowd(&stand(folder)?));
        return Ok(());
    }
    let kills = options.rounds.unwrap_or(if options.quick { QUICK_KILLS } else { KILLS });
    case("killed while it gives and frees", &|folder| killed::run(&mut stand(folder)?, kills, seed));
    let steps = options.rounds.unwrap_or(if options.quick { QUICK_STEPS } else { STEPS });
    for shape in &SHAPES {
        case(shape.name, &|folder| compare(servers, place, shape, folder, seed, steps));
    }
    Ok(())
}

/// Writes Services on both sides; what was done, or the first difference that nothing excuses.
fn compare(servers: &Servers, place: Place, shape: &Shape, folder: &Path, seed: u64, steps: u32) -> Result<String> {
    let ranges = format!("--service-cluster-ip-range={}", shape.ranges);
    let advertised = format!("--advertise-address={}", shape.advertised);
    let control = folder.join("control");
    let flags = Flags { ours: &[Cadastre::BARE, &ranges], replica: &[], control: &[&ranges, &advertised] };
    let running = (servers.start_with(place, folder, flags)?, servers.start_with(Place::Control, &control, flags)?);
    let mut ours = Side::new(&Arc::new(Servers::target(&running.0, folder)?))?;
    let mut theirs = Side::new(&Arc::new(Servers::target(&running.1, &control)?))?;
    let mut random = Seeded::new(seed);
    let (mut done, mut refused, mut faults) = (0, 0, BTreeMap::new());
    for number in 1..=steps {
        let step = Step::choose(&mut random);
        let (mine, expected) = (ours.take(&step)?, theirs.take(&step)?);
        if mine != expected {
            let Some(excuse) = excuse::find(&step, &mine, &expected, &mut theirs)? else {
                bail!("step {number}, {step}\nours:   {mine}\ntheirs: {expected}");
            };
            *faults.entry(excuse).or_insert(0) += 1;
            ours.forget(&step)?;
            theirs.forget(&step)?;
        } else if expected.is_done() {
            done += 1;
        } else {
            refused += 1;
        }
        if number % BATCH == 0 || number == steps {
            ours.agrees()?;
        }
    }
    let named: Vec<String> = faults.iter().map(|(name, count)| format!("{count} times {name}")).collect();
    let excused = if named.is_empty() { String::new() } else { format!("; upstream's {}", named.join(", ")) };
    Ok(format!("{done} writes done and {refused} refused, all alike{excused}"))
}
