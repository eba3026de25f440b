//! A benchmark: the works it does and the rows it reports, and how the one becomes the other.
//!
//! In every round each work is done by the peers and then by us, so that a slow minute of the machine hits both.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::measure::Measured;
use super::peers::Peers;
use super::report::{Figure, Peer, Row, Target, Unit};

/// How often everything is measured; the best counts.
const ROUNDS: u32 = 3;

/// Our half of a work.
pub(super) type Ours = fn() -> Result<Measured>;

/// Something to do, by us and by the peers.
pub(super) struct Work {
    pub(super) name: &'static str,
    /// The works of the peers' program that are run beside it.
    pub(super) peers: &'static [&'static str],
    pub(super) ours: Ours,
}

/// One row of the table, before it has figures.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// The work that ours is measured by.
    pub(super) work: &'static str,
    pub(super) quantity: Quantity,
    pub(super) against: Against,
    pub(super) target: Target,
}

/// Which of a work's figures a row is about.
#[derive(Clone, Copy)]
pub(super) enum Quantity {
    /// Nanoseconds per operation.
    Time,
    /// Bytes of heap, divided by so many grants.
    BytesPer(u32),
}

/// What ours is held against.
#[derive(Clone, Copy)]
pub(super) enum Against {
    /// A peer in a work of the peers' program.
    Peer { work: &'static str, peer: &'static str },
    /// Another work of ours.
    Baseline(&'static str),
    /// A figure that cannot be measured here, in nanoseconds, and whose it is.
    Stated { peer: &'static str, ns: f64 },
}

/// A benchmark that can be run.
pub(super) struct Suite {
    /// Its name, also that of the peers' program.
    pub(super) name: &'static str,
    pub(super) works: Vec<Work>,
    pub(super) lines: Vec<Line>,
}

impl Suite {
    /// The suite with only the row of that name, and the works that it needs.
    pub(super) fn only(mut self, name: Option<&str>) -> Result<Self> {
        let Some(name) = name else { return Ok(self) };
        let names: Vec<_> = self.lines.iter().map(|line| line.name).collect();
        self.lines.retain(|line| line.name == name);
        if self.lines.is_empty() {
            bail!("`{name}` is no row of this table; there are {}", names.join(", "));
        }
        let lines = &self.lines;
        self.works.retain(|work| lines.iter().any(|line| line.needs(work)));
        Ok(self)
    }
}

impl Line {
    fn needs(&self, work: &Work) -> bool {
        self.work == work.name
            || match self.against {
                Against::Peer { work: peers, .. } => work.peers.contains(&peers),
                Against::Baseline(name) => work.name == name,
                Against::Stated { .. } => false,
            }
    }
}

/// What was measured so far: a figure, or why there is none. Ours by work, the peers' by their work and name.
#[derive(Default)]
struct Figures {
    ours: BTreeMap<&'static str, Measured>,
    peers: BTreeMap<(&'static str, String), Measured>,
    reasons: BTreeMap<&'static str, String>,
}

/// Measures everything in rounds and fills the rows in.
pub(super) fn run(suite: &Suite) -> Result<Vec<Row>> {
    let mut figures = Figures::default();
    let peers = suite.works.iter().any(|work| !work.peers.is_empty()).then(|| Peers::build(suite.name));
    for round in 1..=ROUNDS {
        for work in &suite.works {
            eprintln!("round {round} of {ROUNDS}: {}", work.name);
            for &peer_work in work.peers {
                match &peers {
                    Some(Ok(peers)) => figures.note_peers(peer_work, peers.run(peer_work)),
                    Some(Err(why)) => figures.note_peers(peer_work, Err(why.clone())),
                    None => {}
                }
            }
            let measured = (work.ours)().with_context(|| format!("measuring {}", work.name))?;
            figures.note_ours(work.name, measured);
        }
    }
    Ok(suite.lines.iter().map(|line| figures.row(line)).collect())
}

impl Figures {
    fn note_ours(&mut self, work: &'static str, measured: Measured) {
        self.ours.entry(work).and_modify(|best| *best = best.best(measured)).or_insert(measured);
    }

    fn note_peers(&mut self, work: &'static str, measured: Result<Vec<(String, Measured)>, String>) {
        match measured {
            Ok(measured) => {
                for (peer, measured) in measured {
                    self.peers.entry((work, peer)).and_modify(|best| *best = best.best(measured)).or_insert(measured);
                }
            }
            Err(why) => drop(self.reasons.insert(work, why)),
        }
    }

    fn row(&self, line: &Line) -> Row {
        let (name, figure) = match line.against {
            Against::Peer { work, peer } => {
                let reason = self.reasons.get(work).map_or("peer not measured: its program left it out", |why| why);
                let measured = self.peers.get(&(work, peer.to_owned()));
                (peer, line.quantity.of(measured, reason))
            }
            Against::Baseline(work) => (work, line.quantity.of(self.ours.get(work), "baseline not measured")),
            Against::Stated { peer, ns } => (peer, Figure::Stated(ns)),
        };
        let peer = Peer { name: name.to_owned(), figure };
        let ours = line.quantity.of(self.ours.get(line.work), "ours not measured");
        Row::new(line.name, line.what, line.quantity.unit(), ours, Some(peer), line.target)
    }
}

impl Quantity {
    fn unit(self) -> Unit {
        match self {
            Self::Time => Unit::Nanoseconds,
            Self::BytesPer(_) => Unit::Bytes,
        }
    }

    fn of(self, measured: Option<&Measured>, reason: &str) -> Figure {
        let Some(measured) = measured else { return Figure::Missing(reason.to_owned()) };
        match self {
            Self::Time => Figure::Value(measured.ns_per_op),
            Self::BytesPer(grants) => measured.bytes.map_or_else(
                || Figure::Missing("its heap was not measured".to_owned()),
                |bytes| Figure::Value(exact(bytes) / f64::from(grants)),
            ),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 bytes, more than any heap")]
fn exact(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(ours: Ours) -> Suite {
        let line = |name, quantity, against, target| Line { name, what: "", work: "fill", quantity, against, target };
        let peer = Against::Peer { work: "peers-fill", peer: "theirs" };
        Suite {
            name: "test",
            works: vec![
                Work { name: "fill", peers: &["peers-fill"], ours },
                Work { name: "base", peers: &[], ours: INSTANT },
                Work { name: "other", peers: &[], ours: INSTANT },
            ],
            lines: vec![
                line("time", Quantity::Time, peer, Target::Faster(4.0)),
                line("bytes", Quantity::BytesPer(10), peer, Target::AtMost(16.0)),
                line("steady", Quantity::Time, Against::Baseline("base"), Target::Within(2.0)),
                line("far", Quantity::Time, Against::Stated { peer: "far", ns: 1e9 }, Target::AtMost(100.0)),
            ],
        }
    }

    const INSTANT: Ours = || Ok(Measured::time(10.0));

    fn figures() -> Figures {
        let mut figures = Figures::default();
        figures.note_ours("fill", Measured::time(30.0).with_bytes(170));
        figures.note_ours("fill", Measured::time(20.0).with_bytes(160));
        figures.note_ours("base", Measured::time(10.0));
        figures
    }

    fn rows(figures: &Figures) -> Vec<Row> {
        suite(INSTANT).lines.iter().map(|line| figures.row(line)).collect()
    }

    #[test]
    fn each_row_gets_the_best_figures_of_its_work() {
        let mut figures = figures();
        figures.note_peers("peers-fill", Ok(vec![("theirs".to_owned(), Measured::time(100.0).with_bytes(400))]));
        figures.note_peers("peers-fill", Ok(vec![("theirs".to_owned(), Measured::time(90.0).with_bytes(400))]));
        let rows = rows(&figures);
        let ratios: Vec<_> = rows.iter().map(|row| row.ratio).collect();
        assert_eq!(ratios, [Some(4.5), Some(2.5), Some(2.0), Some(5e7)]);
        assert!(rows.iter().all(|row| row.met), "{rows:?}");
        assert_eq!(rows[1].ours, Figure::Value(16.0));
    }

    #[test]
    fn without_its_peer_a_row_says_why_and_is_met_only_if_the_target_needs_no_peer() {
        let mut figures = figures();
        figures.note_peers("peers-fill", Err("no Go".to_owned()));
        let rows = rows(&figures);
        assert_eq!(rows[0].peer.as_ref().unwrap().figure, Figure::Missing("no Go".to_owned()));
        let met: Vec<_> = rows.iter().map(|row| row.met).collect();
        assert_eq!(met, [false, true, true, true]);
    }

    #[test]
    fn a_work_that_was_not_measured_is_missing_and_not_met() {
        let rows = rows(&Figures::default());
        assert_eq!(rows[2].ours, Figure::Missing("ours not measured".to_owned()));
        assert!(rows.iter().all(|row| !row.met));
    }

    #[test]
    fn one_row_needs_its_own_works_only() {
        let works = |name| -> Vec<_> {
            suite(INSTANT).only(Some(name)).unwrap().works.iter().map(|work| work.name).collect::<Vec<_>>()
        };
        assert_eq!(works("time"), ["fill"]);
        assert_eq!(works("steady"), ["fill", "base"]);
        assert_eq!(suite(INSTANT).only(None).unwrap().works.len(), 3);
    }

    #[test]
    fn an_unknown_row_is_refused_with_those_that_exist() {
        let error = suite(INSTANT).only(Some("nope")).err().unwrap().to_string();
        assert_eq!(error, "`nope` is no row of this table; there are time, bytes, steady, far");
    }

    #[test]
    fn our_failure_ends_the_run_and_names_the_work() {
        let mut suite = suite(|| bail!("full"));
        suite.works[0].peers = &[];
        assert_eq!(format!("{:#}", run(&suite).unwrap_err()), "measuring fill: full");
    }
}
