//! What every server does in a round, in this order: start empty, take 10,000 objects, say how much memory it needs, list
//! them, serve watchers, and take as many creates as it can, and then as many applies that change nothing. Then, apart:
//! starting with 100,000 objects.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use super::metric::Metric;
use crate::bench::figures::Figures as AnyFigures;
use crate::bench::load::{Filling, Load, Reading, Sort, Spell, Times, Watched, Watching};
use crate::bench::measure::exact;
use crate::bench::places::{self, Given, Place, Programs, Server};
use crate::bench::turns;

type Figures = AnyFigures<Metric>;

/// In the order in which they are measured. The control is first, because it says which load can be borne.
const PLACES: [Place; 4] = [Place::Control, Place::Before, Place::Embedded, Place::Etcd];

/// How often everything is measured; the median counts.
const ROUNDS: u32 = 3;
/// The connections of those who write as fast as they can.
const CONNECTIONS: u64 = 64;
/// The objects that are listed, and that memory is measured with.
const OBJECTS: u64 = 10_000;
/// As kubectl asks for them.
const PAGE: usize = 500;
/// The objects that a full server starts with.
const FULL: u64 = 100_000;
/// The objects that are written just before a server is killed.
const LAST_WORDS: u64 = 1_000;
/// How long a server is left alone before its memory is looked at.
const REST: Duration = Duration::from_secs(5);
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(10);
/// How often, and for how long each time, two programs are measured in turns.
const TURNS: u32 = 40;
const TURN: Duration = Duration::from_secs(1);
/// Watchers: so many on each of so many namespaces.
const WATCHED: u32 = 100;
const WATCHERS: u32 = 10;
const WRITES_PER_SECOND: u32 = 1_000;
/// A rate at which the control cannot keep up is halved, but not below this.
const FEWEST_WRITES_PER_SECOND: u32 = 100;

const JSON: &str = "application/json";
/// As kubectl asks for it.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
                     application/json";

const LISTS: [Metric; 5] = [Metric::ListAll, Metric::ListBytes, Metric::ListGzip, Metric::ListPage, Metric::ListTable];
const WATCHES: [Metric; 4] = [Metric::WatchMedian, Metric::WatchTail, Metric::WatchFullTail, Metric::MemoryPeak];
const CREATES: [Metric; 3] = [Metric::CreateRate, Metric::CreateMedian, Metric::CreateTail];
const APPLIES: [Metric; 2] = [Metric::ApplyRate, Metric::ApplyTail];
const LISTS_IN_TURNS: [Metric; 3] = [Metric::ListAllInTurns, Metric::ListPageInTurns, Metric::ListTableInTurns];
const STARTS: [Metric; 2] = [Metric::StartFull, Metric::StartKilled];

/// A run: what is wanted, and what there is so far.
struct Run {
    programs: Programs,
    figures: Figures,
    /// What the control can bear.
    writes_per_second: u32,
}

/// Measures everything that is wanted.
pub(super) fn run(figures: Figures, given: &Given) -> Result<Figures> {
    let mut run = Run { programs: Programs::ensure(given)?, figures, writes_per_second: WRITES_PER_SECOND };
    let is_apart = |metric: &Metric| {
        *metric == Metric::CreateInTurns || LISTS_IN_TURNS.contains(metric) || STARTS.contains(metric)
    };
    if !run.figures.wants_only(is_apart) {
        for round in 1..=ROUNDS {
            for place in PLACES {
                run.round(place, round).with_context(|| format!("measuring {}", place.name()))?;
            }
        }
    }
    if run.wants(&[Metric::CreateInTurns]) || run.wants(&LISTS_IN_TURNS) {
        run.in_turns()?;
    }
    if run.wants(&STARTS) {
        run.starts()?;
    }
    places::clear()?;
    Ok(run.figures)
}

impl Run {
    fn wants(&self, metrics: &[Metric]) -> bool {
        self.figures.wants(metrics)
    }

    fn can(&mut self, place: Place) -> bool {
        self.programs.can_start(place, &mut self.figures)
    }

    /// Starts a server on an empty folder.
    fn start(&self, place: Place) -> Result<(Server, Duration)> {
        self.programs.start(place, &places::folder(place.name())?, &[])
    }

    fn round(&mut self, place: Place, round: u32) -> Result<()> {
        if !self.can(place) {
            return Ok(());
        }
        eprintln!("round {round} of {ROUNDS}: {}", place.name());
        let (server, took) = self.start(place)?;
        self.figures.note(place, Metric::StartEmpty, nanoseconds(took));
        let load = Load(server.endpoint()?);
        if self.wants(&LISTS) || self.wants(&[Metric::Memory]) {
            fill(&load, "listed", OBJECTS)?;
            sleep(REST);
            self.figures.note(place, Metric::Memory, exact(server.resident(false)?));
        }
        if self.wants(&LISTS) {
            self.lists(place, &load)?;
        }
        if self.wants(&WATCHES) {
            self.watches(place, round, &load, &server)?;
        }
        if self.wants(&CREATES) {
            self.creates(place, &load)?;
        }
        // What is older than server-side apply cannot be asked for it.
        if self.wants(&APPLIES) && place != Place::Before {
            self.applies(place, &load)?;
        }
        server.stop()
    }

    fn lists(&mut self, place: Place, load: &Load) -> Result<()> {
        let whole = read(load, JSON, false, None, 15)?;
        self.figures.note(place, Metric::ListAll, exact(whole.p50_ns));
        self.figures.note(place, Metric::ListBytes, exact(whole.bytes));
        self.figures.note(place, Metric::ListGzip, exact(read(load, JSON, true, None, 5)?.p50_ns));
        self.figures.note(place, Metric::ListPage, exact(read(load, JSON, false, Some(PAGE), 5)?.p50_ns));
        self.figures.note(place, Metric::ListTable, exact(read(load, TABLE, false, Some(PAGE), 5)?.p50_ns));
        Ok(())
    }

    /// Watchers at the rate that the control can bear, which is found out in its first round. Ours then shows what it does
    /// at the full rate too.
    fn watches(&mut self, place: Place, round: u32, load: &Load, server: &Server) -> Result<()> {
        let mut watched = watch(load, self.writes_per_second)?;
        let can_go_lower = |rate: u32| rate / 2 >= FEWEST_WRITES_PER_SECOND;
        while place == Place::Control && round == 1 && !keeps_up(&watched, self.writes_per_second) {
            if !can_go_lower(self.writes_per_second) {
                break;
            }
            self.writes_per_second /= 2;
            watched = watch(load, self.writes_per_second)?;
        }
        self.figures.note(place, Metric::MemoryPeak, exact(server.resident(true)?));
        self.note_watched(place, Metric::WatchMedian, watched.p50_ns, &watched, self.writes_per_second);
        self.note_watched(place, Metric::WatchTail, watched.p99_ns, &watched, self.writes_per_second);
        if place == Place::Control {
            return Ok(());
        }
        if self.writes_per_second != WRITES_PER_SECOND {
            watched = watch(load, WRITES_PER_SECOND)?;
        }
        self.note_watched(place, Metric::WatchFullTail, watched.p99_ns, &watched, WRITES_PER_SECOND);
        Ok(())
    }

    /// A figure counts only if every event came, and of ours only if the rate was kept. A control that falls behind is
    /// flattered: what waits to be written is not delayed yet.
    fn note_watched(&mut self, place: Place, metric: Metric, value: u64, watched: &Watched, rate: u32) {
        self.figures.note(place, metric, exact(value));
        self.figures.remark(metric, format!("{rate} writes/s, {} events", watched.events));
        if watched.wrong > 0 {
            let why = format!("{} of {} events missing or too many", watched.wrong, watched.events);
            self.figures.spoilt(place, metric, why);
        } else if place != Place::Control && !keeps_up(watched, rate) {
            self.figures.spoilt(place, metric, format!("only {:.0} writes/s", watched.writes_per_second));
        }
    }

    fn creates(&mut self, place: Place, load: &Load) -> Result<()> {
        let namespace = "created".to_owned();
        load.namespaces(vec![namespace.clone()])?;
        let created = load.create(spell(namespace, WARM_UP, MEASURED))?;
        let per_second = exact(created.number) / MEASURED.as_secs_f64();
        self.figures.note(place, Metric::CreateRate, per_second);
        self.figures.note(place, Metric::CreateMedian, exact(created.p50_ns));
        self.figures.note(place, Metric::CreateTail, exact(created.p99_ns));
        Ok(())
    }

    fn applies(&mut self, place: Place, load: &Load) -> Result<()> {
        let namespace = "applied".to_owned();
        load.namespaces(vec![namespace.clone()])?;
        let applied = load.apply(spell(namespace, WARM_UP, MEASURED))?;
        self.figures.note(place, Metric::ApplyRate, exact(applied.number) / MEASURED.as_secs_f64());
        self.figures.note(place, Metric::ApplyTail, exact(applied.p99_ns));
        Ok(())
    }

    /// Lists and creates of ours and of ours as it was before, in short turns: how fast the machine is changes more from one minute
    /// to the next than a change of the program may.
    fn in_turns(&mut self) -> Result<()> {
        let places = [Place::Embedded, Place::Before];
        let mut servers = Vec::new();
        for place in places {
            let (server, _) = self.start(place)?;
            servers.push((Load(server.endpoint()?), server));
        }
        if self.wants(&LISTS_IN_TURNS) {
            for (load, _) in &servers {
                fill(load, "listed", OBJECTS)?;
            }
        }
        for turn in 0..TURNS {
            for side in turns::order(turn) {
                let ((load, _), place) = (&servers[side], places[side]);
                for (metric, accept, page) in [
                    (Metric::ListAllInTurns, JSON, None),
                    (Metric::ListPageInTurns, JSON, Some(PAGE)),
                    (Metric::ListTableInTurns, TABLE, Some(PAGE)),
                ] {
                    if self.wants(&[metric]) {
                        let took = read(load, accept, false, page, 1)?;
                        self.figures.note(place, metric, exact(took.p50_ns));
                    }
                }
            }
        }
        if self.wants(&[Metric::CreateInTurns]) {
            self.creates_in_turns(places, &servers)?;
        }
        servers.into_iter().try_for_each(|(_, server)| server.stop())
    }

    fn creates_in_turns(&mut self, places: [Place; 2], servers: &[(Load, Server)]) -> Result<()> {
        let created = turns::take(TURNS, |turn, side| {
            let (namespace, (load, _)) = (format!("turn-{turn}"), &servers[side]);
            load.namespaces(vec![namespace.clone()])?;
            Ok(load.create(spell(namespace, TURN / 4, TURN))?.number)
        })?;
        for (place, created) in places.into_iter().zip(created) {
            self.figures.note(place, Metric::CreateInTurns, turns::per_second(created, TURNS, TURN));
        }
        Ok(())
    }

    /// Fills each server once, ends it, and starts it again and again.
    fn starts(&mut self) -> Result<()> {
        let mut filled: Vec<(Place, PathBuf)> = Vec::new();
        for place in [Place::Control, Place::Embedded, Place::Etcd] {
            if !self.can(place) {
                continue;
            }
            eprintln!("filling {}", place.name());
            let folder = places::folder(place.name())?;
            let (server, _) = self.programs.start(place, &folder, &[])?;
            fill(&Load(server.endpoint()?), "full", FULL)?;
            server.stop()?;
            filled.push((place, folder));
        }
        for round in 1..=ROUNDS {
            for (place, folder) in &filled {
                eprintln!("start {round} of {ROUNDS}: {}", place.name());
                let (server, took) = self.programs.start(*place, folder, &[])?;
                self.figures.note(*place, Metric::StartFull, nanoseconds(took));
                if *place == Place::Embedded {
                    fill(&Load(server.endpoint()?), &format!("killed-{round}"), LAST_WORDS)?;
                    drop(server);
                    let (server, took) = self.programs.start(*place, folder, &[])?;
                    self.figures.note(*place, Metric::StartKilled, nanoseconds(took));
                    server.stop()?;
                } else {
                    server.stop()?;
                }
            }
        }
        Ok(())
    }
}

/// Lists the objects that are there for it.
fn read(load: &Load, accept: &str, gzip: bool, page: Option<usize>, passes: u32) -> Result<Times> {
    let (namespace, accept) = ("listed".to_owned(), accept.to_owned());
    load.read(Reading { namespace, objects: OBJECTS as usize, accept, gzip, page, passes })
}

/// Watchers on fresh namespaces while somebody writes at that rate.
fn watch(load: &Load, writes_per_second: u32) -> Result<Watched> {
    let namespaces: Vec<_> = (0..WATCHED).map(|number| format!("watched-{writes_per_second}-{number}")).collect();
    load.namespaces(namespaces.clone())?;
    let (warm_up, measured) = (WARM_UP, MEASURED);
    let watched = load.watch(Watching { namespaces, watchers: WATCHERS, writes_per_second, warm_up, measured })?;
    eprintln!("  {watched:?}");
    Ok(watched)
}

/// Whether the writes were nearly as many as they should have been.
fn keeps_up(watched: &Watched, writes_per_second: u32) -> bool {
    watched.writes_per_second >= 0.95 * f64::from(writes_per_second)
}

fn fill(load: &Load, namespace: &str, objects: u64) -> Result<()> {
    load.namespaces(vec![namespace.to_owned()])?;
    load.fill(Filling { namespace: namespace.to_owned(), sort: Sort::ConfigMap, objects, connections: CONNECTIONS })
}

/// As many as go into some time.
fn spell(namespace: String, warm_up: Duration, measured: Duration) -> Spell {
    Spell { namespace, sort: Sort::ConfigMap, connections: CONNECTIONS, warm_up, measured }
}

fn nanoseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}
