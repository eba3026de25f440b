//! The suite `cni`: pod addresses on secondary networks. The control is the real whereabouts on a real kube-apiserver.
//!
//! The tables of [`vector`] are asked of both, and on networks without slices the two of them share pools on that server; ours takes over networks
//! on which whereabouts and its controller were at work. What only ours promises is asked of ours alone: real networks that a real main plugin
//! makes, `kill -9` while addresses are given and come back, and before each system call of that, a full and a read-only disk, damaged journals,
//! and many nodes at once. What the plugin
//! answered is written down by whoever asked, and held against its journal at the end.

mod agent_disk;
pub(crate) mod books;
mod call;
pub(crate) mod cluster;
mod control;
mod damage;
mod disk;
mod examples;
mod judge;
mod killed;
pub(crate) mod machine;
mod moving;
mod network;
mod ours;
mod pooled;
mod reclaimed;
mod scene;
mod side;
mod slices;
mod spiderpool;
mod steps;
mod storm;
mod vector;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use self::cluster::{Home, Setup};
use self::killed::Killing;
use self::side::Who;
use self::storm::Storm;
use self::vector::{Mode, Vector};
use super::report::{Outcome, Report};
use super::servers::{self, Servers};
use super::{Options, Place};
use crate::pods::node;
use crate::pods::whereabouts::Whereabouts;

pub(super) const SUITE: &str = "cni";

/// How many calls each hand of a runtime makes in a storm.
const CALLS: u64 = 4000;
const QUICK_CALLS: u64 = 150;
/// How often a journal is damaged.
const DAMAGES: u64 = 2000;
const QUICK_DAMAGES: u64 = 100;
/// How often agents, the server and the controller are killed; the real server takes long to come back.
const FAULTS: u64 = 300;
const CONTROL_FAULTS: u64 = 60;
const QUICK_FAULTS: u64 = 12;
/// One of so many calls is killed.
const KILLED: u64 = 3;

/// Asks whereabouts, or ours.
pub(super) fn run(servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
    let folder = servers.folder(SUITE, place)?;
    let chosen = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only));
    let rows = || -> Result<Vec<_>> { Ok(vector::all()?.into_iter().filter(|(_, row)| chosen(&row.name)).collect()) };
    let plugin = match &options.cadastre {
        Some(given) => fs::canonicalize(given).with_context(|| format!("no {}", given.display()))?,
        None => servers::build("cni", "cadastre-cni", options.quick)?,
    };
    let seed = options.seed();
    if place == Place::Control {
        if !rows()?.is_empty() || pooled::CASES.iter().any(|(name, _)| chosen(name)) {
            beside(servers, options, &plugin, &folder, rows()?, report)?;
        }
        return clusters(servers, options, place, &plugin, &folder, report);
    }
    Rows::of(rows()?, &ours::MODES, "")
        .run(place, report, |mode, vector, name| ours::run(&plugin, &folder.join(name), mode, vector));
    let mut case = |name: &str, run: &dyn Fn(&Path) -> Result<Outcome>| {
        if chosen(name) {
            let began = Instant::now();
            let outcome = run(&folder.join(name.replace([' ', ','], "-")));
            let outcome = outcome.unwrap_or_else(|why| Outcome::Failed(format!("{why:#}\nthe seed was {seed}")));
            report.case(SUITE, place, name, &outcome, began.elapsed());
        }
    };
    case("pods on a bridge", &|folder| network::run(servers, &plugin, folder));
    case("a full and a read-only disk", &|folder| disk::run(&plugin, folder));
    let damages = if options.quick { QUICK_DAMAGES } else { DAMAGES };
    case("a damaged journal", &|folder| damage::run(&plugin, folder, damages, seed).map(Outcome::Ok));
    case("killed before each system call", &|folder| steps::run(&plugin, folder, options.quick).map(Outcome::Ok));
    let calls = options.rounds.map_or(if options.quick { QUICK_CALLS } else { CALLS }, u64::from);
    let storm = Storm { nodes: 4, hands: 4, calls, killed: KILLED, seed };
    case("killed while it gives and takes back", &|folder| storm.run(&plugin, folder).map(Outcome::Ok));
    let storm = Storm { nodes: 64, hands: 2, calls: calls / 8, killed: 0, seed };
    case("many nodes at once", &|folder| storm.run(&plugin, folder).map(Outcome::Ok));
    clusters(servers, options, place, &plugin, &folder, report)
}

/// What needs a server, controllers and agents.
fn clusters(
    servers: &Servers,
    options: &Options,
    place: Place,
    plugin: &Path,
    folder: &Path,
    report: &mut Report,
) -> Result<()> {
    let binary = servers::build("cadastre", "cadastre", options.quick)?;
    let setup = Setup { servers, place, binary: &binary, home: Home::Inside, flags: &[] };
    slices::run(&setup, options, folder, report)?;
    if place == Place::Control {
        moving::run(&setup, options, plugin, &folder.join("moving"), report);
    }
    let cases = [reclaimed::CASES, agent_disk::CASES, spiderpool::CASES, examples::CASES];
    scene::run(&setup, options, plugin, &folder.join("scenes"), &cases, report)?;
    let chosen = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only));
    let seed = options.seed();
    let faults = match (options.rounds, options.quick, place) {
        (Some(rounds), ..) => u64::from(rounds),
        (None, true, _) => QUICK_FAULTS,
        (None, false, Place::Control) => CONTROL_FAULTS,
        (None, false, _) => FAULTS,
    };
    let name = "agents and the server killed while pods come and go";
    if chosen(name) {
        let began = Instant::now();
        let killed =
            Killing { faults, seed, waits_for_debts: !options.quick }.run(&setup, plugin, &folder.join("killed"));
        let outcome = killed.map_or_else(|why| Outcome::Failed(format!("{why:#}\nthe seed was {seed}")), Outcome::Ok);
        report.case(SUITE, place, name, &outcome, began.elapsed());
    }
    Ok(())
}

/// Asks whereabouts, then ours of networks without slices, and both of the same pools.
fn beside(
    servers: &Servers,
    options: &Options,
    plugin: &Path,
    folder: &Path,
    rows: Vec<(&'static str, Vector)>,
    report: &mut Report,
) -> Result<()> {
    let control = Whereabouts::start(servers.parts()?, folder)?;
    let theirs = Rows::of(rows.clone(), &control::MODES, "");
    let ours = Rows::of(rows, &[Mode::Pooled], "ours");
    let namespaces = theirs.each().chain(ours.each()).map(|(_, _, name)| name);
    let namespaces: Vec<_> = namespaces.chain(pooled::NAMESPACES).collect();
    let sliced = theirs.each().filter(|(mode, ..)| *mode == Mode::Sliced);
    control.create(&namespaces, sliced.map(|(_, vector, name)| control::slice_pool(name, vector)).collect())?;
    theirs.run(Place::Control, report, |_, vector, namespace| control::run(&control, namespace, vector));
    ours.run(Place::Control, report, |_, vector, namespace| {
        let plugin = node::plugin(plugin, &folder.join(namespace));
        control::judged(&control, namespace, vector, Who::Ours, plugin)
    });
    let both = pooled::Both { control: &control, ours: plugin, folder, is_quick: options.quick };
    let chosen = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only));
    for (name, run) in pooled::CASES.into_iter().filter(|(name, _)| chosen(name)) {
        let began = Instant::now();
        let outcome = run(&both).map_or_else(|why| Outcome::Failed(format!("{why:#}")), Outcome::Ok);
        report.case(SUITE, Place::Control, name, &outcome, began.elapsed());
    }
    Ok(())
}

/// A row in one mode, with a name that objects and folders can have.
type Row = (Mode, Vector, String);

/// The rows by table and mode, and whose they are where that is not clear.
struct Rows {
    rows: BTreeMap<(&'static str, &'static str), Vec<Row>>,
    whose: &'static str,
}

impl Rows {
    fn of(all: Vec<(&'static str, Vector)>, modes: &[Mode], whose: &'static str) -> Self {
        let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (number, (table, vector)) in all.into_iter().enumerate() {
            for mode in modes.iter().filter(|mode| vector.modes.contains(mode)) {
                let name = format!("{table}-{number}-{}{whose}", mode.name());
                rows.entry((table, mode.name())).or_default().push((*mode, vector.clone(), name));
            }
        }
        Self { rows, whose }
    }

    fn each(&self) -> impl Iterator<Item = (Mode, &Vector, &str)> {
        self.rows.values().flatten().map(|(mode, vector, name)| (*mode, vector, name.as_str()))
    }

    /// A case for each table in each mode.
    fn run(&self, place: Place, report: &mut Report, run: impl Fn(Mode, &Vector, &str) -> Result<Vec<String>>) {
        for ((table, mode), rows) in &self.rows {
            let began = Instant::now();
            let (mut wrong, mut excused) = (Vec::new(), BTreeMap::new());
            for (mode, vector, name) in rows {
                match run(*mode, vector, name) {
                    Ok(names) => names.into_iter().for_each(|name| *excused.entry(name).or_insert(0) += 1),
                    Err(why) => wrong.push(format!("{why:#}")),
                }
            }
            let outcome = if wrong.is_empty() {
                Outcome::Ok(told(rows.len(), &excused))
            } else {
                Outcome::Failed(wrong.join("\n"))
            };
            let whose = if self.whose.is_empty() { String::new() } else { format!(", {}", self.whose) };
            report.case(SUITE, place, &format!("{table}, {mode}{whose}"), &outcome, began.elapsed());
        }
    }
}

fn told(rows: usize, excused: &BTreeMap<String, u32>) -> String {
    let excused: Vec<_> = excused.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let differences = if excused.is_empty() { "none".to_owned() } else { excused.join(", ") };
    format!("{rows} rows; known differences: {differences}")
}
