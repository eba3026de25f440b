//! What every server does in a round: start empty, and take as many Services as it can on 1, 8 and 64 connections, and then
//! Services with node ports. Then, apart, because it takes the control minutes: 10,000 Services, their memory, 1,000 ranges and
//! what creates cost then; and deletes and creates in a range that is nearly full.

use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use super::metric::{Metric, Part};
use crate::bench::figures::Figures as AnyFigures;
use crate::bench::load::{Bursts, Churned, Churning, Created, Filling, Load, Ranges, Sort, Spell};
use crate::bench::measure::exact;
use crate::bench::places::{self, Given, Place, Programs, Server};
use crate::bench::turns;

type Figures = AnyFigures<Metric>;

/// How often creates are measured; the median counts.
const ROUNDS: u32 = 3;
const PLACES: [Place; 4] = [Place::Control, Place::Tended, Place::Embedded, Place::TendedOnEtcd];
/// On how many connections those who are measured in all of this create.
const CONNECTIONS: [u64; 3] = [1, 8, MOST_CONNECTIONS];
const MOST_CONNECTIONS: u64 = 64;
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(8);
/// How often, and for how long each time, two servers are measured in turns.
const TURNS: u32 = 12;
const TURN: Duration = Duration::from_secs(1);
/// More addresses than anybody creates Services in a run.
const LARGE: &str = "--service-cluster-ip-range=10.96.0.0/12";
/// Node ports that are created at a time. There are 2,768.
const PORTS: u64 = 1_000;
const PORT_CONNECTIONS: u64 = 8;
/// The Services that memory is measured with, and that are there when others are created.
const OBJECTS: u64 = 10_000;
/// On how many connections a server is filled: the control is slower on more.
const FILLING_CONNECTIONS: u64 = 4;
/// How long a server is left alone before its memory is looked at.
const REST: Duration = Duration::from_secs(5);
/// Beside the large one.
const RANGES: Ranges = Ranges { first: Ipv4Addr::new(10, 128, 0, 0), bits: 20, number: 1_000 };
/// 4,094 addresses, one of which is that of `default/kubernetes`.
const SMALL: &str = "--service-cluster-ip-range=10.96.0.0/20";
const ALL: u64 = 4_093;
/// The Services that make it 99 % full.
const NEARLY_ALL: u64 = 4_053;

const CHURN: [Metric; 4] = [Metric::ChurnFull, Metric::ChurnEmpty, Metric::FalselyFull, Metric::FalselyFullAtLast];

/// A run: what is wanted, and what there is so far.
struct Run {
    programs: Programs,
    figures: Figures,
}

/// A server that was started, and the load for it.
struct Loaded {
    server: Server,
    load: Load,
}

/// Measures everything that is wanted.
pub(super) fn run(figures: Figures, given: &Given) -> Result<Figures> {
    let mut run = Run { programs: Programs::ensure(given)?, figures };
    let is_created = |metric: &Metric| matches!(metric, Metric::Create(..) | Metric::NodePort(_));
    if !run.figures.wants_only(|metric| !is_created(metric)) {
        for round in 1..=ROUNDS {
            for place in PLACES {
                run.round(place, round).with_context(|| format!("measuring {}", place.name()))?;
            }
        }
    }
    if run.figures.wants(&[Metric::Memory, Metric::Crowded]) {
        run.crowd()?;
    }
    if run.figures.wants(&CHURN) {
        run.churn()?;
    }
    places::clear()?;
    Ok(run.figures)
}

impl Run {
    fn start(&self, place: Place, folder: &str, flag: &str) -> Result<Loaded> {
        let (server, _) = self.programs.start(place, &places::folder(folder)?, &[flag])?;
        Ok(Loaded { load: Load(server.endpoint()?), server })
    }

    fn round(&mut self, place: Place, round: u32) -> Result<()> {
        let is_whole = matches!(place, Place::Control | Place::Tended);
        let numbers = CONNECTIONS.into_iter().filter(|number| is_whole || *number == MOST_CONNECTIONS);
        let numbers: Vec<u64> =
            numbers.filter(|number| self.figures.wants(&Part::ALL.map(|part| Metric::Create(*number, part)))).collect();
        let wants_ports = is_whole && self.figures.wants(&Part::ALL.map(Metric::NodePort));
        if numbers.is_empty() && !wants_ports || !self.programs.can_start(place, &mut self.figures) {
            return Ok(());
        }
        eprintln!("round {round} of {ROUNDS}: {}", place.name());
        let Loaded { server, load } = self.start(place, place.name(), LARGE)?;
        for number in numbers {
            let created = creates(&load, &format!("on-{number}"), number, WARM_UP, MEASURED)?;
            self.note(place, |part| Metric::Create(number, part), &created, MEASURED);
        }
        if wants_ports {
            load.namespaces(vec!["ports".to_owned()])?;
            let filling = Filling { sort: Sort::NodePort, ..filling("ports", PORTS, PORT_CONNECTIONS) };
            let burst = load.bursts(Bursts { filling, measured: MEASURED })?;
            self.note(place, Metric::NodePort, &burst.created, burst.took);
        }
        server.stop()
    }

    fn note(&mut self, place: Place, metric: impl Fn(Part) -> Metric, created: &Created, took: Duration) {
        self.figures.note(place, metric(Part::Rate), exact(created.number) / took.as_secs_f64());
        self.figures.note(place, metric(Part::Median), exact(created.p50_ns));
        self.figures.note(place, metric(Part::Tail), exact(created.p99_ns));
    }

    /// Memory with many Services, and creates with many Services and ranges: of the control once, of ours in turns with an empty
    /// server.
    fn crowd(&mut self) -> Result<()> {
        for place in [Place::Control, Place::Tended] {
            if !self.programs.can_start(place, &mut self.figures) {
                continue;
            }
            eprintln!("a crowd: {}", place.name());
            let crowded = self.start(place, place.name(), LARGE)?;
            fill(&crowded.load, "crowd", OBJECTS)?;
            sleep(REST);
            self.figures.note(place, Metric::Memory, exact(crowded.server.resident(false)?));
            if self.figures.wants(&[Metric::Crowded]) {
                crowded.load.ranges(RANGES)?;
                self.crowded(place, &crowded.load)?;
            }
            crowded.server.stop()?;
        }
        Ok(())
    }

    fn crowded(&mut self, place: Place, crowded: &Load) -> Result<()> {
        if place == Place::Control {
            let created = creates(crowded, "more", MOST_CONNECTIONS, WARM_UP, MEASURED)?;
            self.figures.note(place, Metric::Crowded, exact(created.number) / MEASURED.as_secs_f64());
            return Ok(());
        }
        let alone = self.start(place, "alone", LARGE)?;
        let loads = [crowded, &alone.load];
        let sums = turns::take(TURNS, |turn, side| {
            Ok(creates(loads[side], &format!("turn-{turn}"), MOST_CONNECTIONS, TURN / 4, TURN)?.number)
        })?;
        for (metric, sum) in [Metric::Crowded, Metric::Alone].into_iter().zip(sums) {
            self.figures.note(place, metric, turns::per_second(sum, TURNS, TURN));
        }
        alone.server.stop()
    }

    /// Deletes and creates in a full and in an empty range: of the control one after the other, of ours in turns on two servers.
    fn churn(&mut self) -> Result<()> {
        let place = Place::Control;
        if self.programs.can_start(place, &mut self.figures) {
            eprintln!("a full range: {}", place.name());
            let Loaded { server, load } = self.start(place, place.name(), SMALL)?;
            fill(&load, "empty", MOST_CONNECTIONS)?;
            let empty = churned(&load, "empty", MOST_CONNECTIONS, WARM_UP, MEASURED)?;
            fill(&load, "full", NEARLY_ALL - MOST_CONNECTIONS)?;
            let full = churned(&load, "full", NEARLY_ALL - MOST_CONNECTIONS, WARM_UP, MEASURED)?;
            for (metric, churned) in [(Metric::ChurnEmpty, &empty), (Metric::ChurnFull, &full)] {
                self.figures.note(place, metric, exact(churned.number) / MEASURED.as_secs_f64());
            }
            self.figures.note(place, Metric::FalselyFull, exact(full.full));
            self.churn_to_the_last(place, &load, "full", NEARLY_ALL - MOST_CONNECTIONS)?;
            server.stop()?;
        }
        let place = Place::Tended;
        eprintln!("a full range: {}", place.name());
        let servers = [self.start(place, "full", SMALL)?, self.start(place, "empty", SMALL)?];
        let objects = [NEARLY_ALL, MOST_CONNECTIONS];
        for (Loaded { load, .. }, objects) in servers.iter().zip(objects) {
            fill(load, "churn", objects)?;
        }
        let mut full = 0;
        let sums = turns::take(TURNS, |_, side| {
            let churned = churned(&servers[side].load, "churn", objects[side], TURN / 4, TURN)?;
            full += churned.full;
            Ok(churned.number)
        })?;
        for (metric, sum) in [Metric::ChurnFull, Metric::ChurnEmpty].into_iter().zip(sums) {
            self.figures.note(place, metric, turns::per_second(sum, TURNS, TURN));
        }
        self.figures.note(place, Metric::FalselyFull, exact(full));
        self.churn_to_the_last(place, &servers[0].load, "churn", NEARLY_ALL)?;
        servers.into_iter().try_for_each(|Loaded { server, .. }| server.stop())
    }

    /// Takes the last addresses of a range, and deletes and creates those Services that were there before.
    fn churn_to_the_last(&mut self, place: Place, load: &Load, namespace: &str, objects: u64) -> Result<()> {
        fill(load, "last", ALL - NEARLY_ALL)?;
        let churned = churned(load, namespace, objects, WARM_UP, MEASURED)?;
        self.figures.note(place, Metric::FalselyFullAtLast, exact(churned.full));
        Ok(())
    }
}

/// Creates Services in a new namespace for some time.
fn creates(load: &Load, namespace: &str, connections: u64, warm_up: Duration, measured: Duration) -> Result<Created> {
    load.namespaces(vec![namespace.to_owned()])?;
    load.create(Spell { namespace: namespace.to_owned(), sort: Sort::ClusterIp, connections, warm_up, measured })
}

/// Creates so many Services in a new namespace.
fn fill(load: &Load, namespace: &str, objects: u64) -> Result<()> {
    load.namespaces(vec![namespace.to_owned()])?;
    load.fill(filling(namespace, objects, FILLING_CONNECTIONS))
}

/// Deletes and creates the Services of a namespace for some time.
fn churned(load: &Load, namespace: &str, objects: u64, warm_up: Duration, measured: Duration) -> Result<Churned> {
    load.churn(Churning { filling: filling(namespace, objects, MOST_CONNECTIONS), warm_up, measured })
}

fn filling(namespace: &str, objects: u64, connections: u64) -> Filling {
    Filling { namespace: namespace.to_owned(), sort: Sort::ClusterIp, objects, connections }
}
