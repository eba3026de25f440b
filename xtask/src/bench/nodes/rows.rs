//! The rows of the table of nodes: which quantity, what it is held against, and what it has to reach.

use anyhow::{Result, bail};

use super::metric::Metric;
use crate::bench::figures::{Figures, Quantity};
use crate::bench::places::Place;
use crate::bench::report::{Figure, Peer, Row, Target};

/// What was measured of node-ipam-controller on a machine like this one; it cannot be built from what is here.
const NIC: &str = "node-ipam-controller";
const NIC_SERVED: f64 = 5.1;
const NIC_LINES: f64 = 330.0;
const NIC_MEMORY: f64 = 55e6;

/// One row.
pub(super) struct Line {
    name: &'static str,
    what: &'static str,
    of: (Place, Metric),
    against: Against,
    target: Target,
}

enum Against {
    /// Another figure of this run, and whose it is.
    Other(&'static str, Place, Metric),
    /// A figure from elsewhere.
    Stated(&'static str, f64),
    Nothing,
}

impl Line {
    /// The figures that it needs.
    pub(super) fn needs(&self) -> Vec<Metric> {
        let other = if let Against::Other(_, _, metric) = self.against { Some(metric) } else { None };
        std::iter::once(self.of.1).chain(other).collect()
    }

    pub(super) fn row(&self, figures: &Figures<Metric>) -> Row {
        let ours = figures.median(self.of.0, self.of.1);
        let peer = match self.against {
            Against::Other(name, place, metric) => Some((name, figures.median(place, metric))),
            Against::Stated(name, figure) => Some((name, Figure::Stated(figure))),
            Against::Nothing => None,
        };
        let peer = peer.map(|(name, figure)| Peer { name: name.to_owned(), figure });
        let what = match figures.remark_on(self.of.1) {
            Some(remark) => format!("{}: {remark}", self.what),
            None => self.what.to_owned(),
        };
        Row::new(self.name, &what, self.of.1.unit(), ours, peer, self.target)
    }
}

/// All rows, or the one of that name.
pub(super) fn only(name: Option<&str>) -> Result<Vec<Line>> {
    let all = lines();
    let Some(name) = name else { return Ok(all) };
    let names: Vec<_> = all.iter().map(|line| line.name).collect();
    let found: Vec<_> = all.into_iter().filter(|line| line.name == name).collect();
    if found.is_empty() {
        bail!("`{name}` is no row of this table; there are {}", names.join(", "));
    }
    Ok(found)
}

fn lines() -> Vec<Line> {
    use Place::{Control, Embedded};
    let line = |name, what, of, against, target| Line { name, what, of, against, target };
    let beside = "5,000 nodes x 200 ranges served beside kube-apiserver";
    let inside = "5,000 nodes x 200 ranges served inside our server, embedded";
    let manager = "kube-controller-manager";
    vec![
        line(
            "served-5000",
            beside,
            (Control, Metric::Served),
            Against::Other("plain PATCHes", Control, Metric::Raw),
            Target::Faster(0.9),
        ),
        line(
            "served-5000-nic",
            beside,
            (Control, Metric::Served),
            Against::Stated(NIC, NIC_SERVED),
            Target::Faster(150.0),
        ),
        line(
            "served-5000-kcm",
            "the same, beside one range alone",
            (Control, Metric::Served),
            Against::Other(manager, Control, Metric::ServedByManager),
            Target::Shown,
        ),
        line(
            "served-5000-embedded",
            inside,
            (Embedded, Metric::Served),
            Against::Other("beside kube-apiserver", Control, Metric::Served),
            Target::Faster(5.0),
        ),
        line(
            "served-50000",
            "the time that each of 50,000 nodes x 1,000 ranges takes, inside our server",
            (Embedded, Metric::EachOfMany),
            Against::Other("each of 5,000 x 200", Embedded, Metric::EachOfFew),
            Target::Within(1.5),
        ),
        line(
            "start-50000",
            "from the start of the controller to ready, 50,000 nodes served",
            (Embedded, Metric::Start),
            Against::Nothing,
            Target::AtMost(3e9),
        ),
        line(
            "start-50000-writes",
            "what it wrote meanwhile",
            (Embedded, Metric::StartWrites),
            Against::Nothing,
            Target::AtMost(0.0),
        ),
        line(
            "steady-processor",
            "processor time of the controller in a second, 5,000 nodes with 500 heartbeats a second",
            (Embedded, Metric::SteadyProcessor),
            Against::Nothing,
            Target::AtMost(5e7),
        ),
        line(
            "steady-lines",
            "lines it logged in 20 s of that; theirs in each second",
            (Embedded, Metric::SteadyLines),
            Against::Stated(NIC, NIC_LINES),
            Target::AtMost(0.0),
        ),
        line(
            "steady-writes",
            "what it wrote in 20 s of that",
            (Embedded, Metric::SteadyWrites),
            Against::Nothing,
            Target::AtMost(0.0),
        ),
        line(
            "memory",
            "resident memory of the controller, 5,000 nodes x 200 ranges",
            (Control, Metric::Memory),
            Against::Other(manager, Control, Metric::MemoryOfManager),
            Target::AtMost(30e6),
        ),
        line(
            "memory-nic",
            "the same",
            (Control, Metric::Memory),
            Against::Stated(NIC, NIC_MEMORY),
            Target::AtMost(30e6),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_its_own_name_and_can_be_asked_for() {
        let lines = lines();
        let names: BTreeSet<_> = lines.iter().map(|line| line.name).collect();
        assert_eq!(names.len(), lines.len());
        assert_eq!(only(Some("memory")).unwrap()[0].needs(), [Metric::Memory, Metric::MemoryOfManager]);
        assert!(only(Some("nothing")).is_err());
    }

    #[test]
    fn a_peer_that_cannot_run_here_is_stated() {
        let mut figures = Figures::new([Metric::Served]);
        figures.note(Place::Control, Metric::Served, 900.0);
        let row = only(Some("served-5000-nic")).unwrap()[0].row(&figures);
        assert_eq!(row.peer.map(|peer| peer.figure), Some(Figure::Stated(NIC_SERVED)));
        assert!(row.met);
    }
}
