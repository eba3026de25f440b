//! The rows of the table of pods: which quantity, what it is held against, and what it has to reach.

use std::collections::BTreeMap;

use crate::bench::report::{Figure, Peer, Row, Target, Unit};

/// A quantity that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Metric {
    /// Starting a program that does nothing, and one write.
    Floor,
    /// ADDs one after the other.
    Add(Whose, Part),
    /// 640 ADDs on 64 nodes, 64 at once.
    Nodes(Whose, Part),
    /// 200 ADDs at one pool that all nodes share, 32 at once.
    Pool(Whose, Part),
    /// 256 nodes with 10 networks each, every pod at once.
    Storm(Part),
    /// ADDs in a slice in which nobody, or a thousand others, hold an address.
    Slice(bool),
    /// From when sandboxes vanish until their addresses are free.
    Reclaimed,
    /// From when an ADD is answered until the API shows who has the address.
    Mirror(Pace, Part),
    /// What the API server sends to a node, of 5,000 with 10 networks.
    Load(Load),
}

/// How ADDs come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pace {
    /// One after the other, each when the one before is shown.
    InTurn,
    /// A hundred at once.
    Burst,
}

/// When it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Load {
    /// The agent starts.
    Start,
    /// A further node joins.
    Join,
    /// Pods come and go.
    Path,
    /// Pods come and go on another node.
    Others,
    /// None of these: how many objects there are for the slices of all nodes.
    Objects,
    /// How many bytes the largest of them has.
    Largest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whose {
    Ours,
    /// Ours on a node without an agent, where that makes a difference.
    Alone,
    Theirs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Rate,
    Median,
    Tail,
    Most,
    Errors,
    Twice,
}

impl Metric {
    pub(super) fn unit(self) -> Unit {
        match self {
            Self::Add(_, part)
            | Self::Nodes(_, part)
            | Self::Pool(_, part)
            | Self::Storm(part)
            | Self::Mirror(_, part) => match part {
                Part::Rate => Unit::PerSecond,
                Part::Median | Part::Tail | Part::Most => Unit::Nanoseconds,
                Part::Errors | Part::Twice => Unit::Number,
            },
            Self::Floor | Self::Slice(_) | Self::Reclaimed => Unit::Nanoseconds,
            // Nothing is a figure here.
            Self::Load(Load::Path | Load::Others | Load::Objects) => Unit::Number,
            Self::Load(_) => Unit::Bytes,
        }
    }
}

/// What was measured, or why it was not.
pub(super) type Figures = BTreeMap<Metric, Figure>;

/// One row.
pub(super) struct Line {
    pub(super) name: &'static str,
    what: &'static str,
    metric: Metric,
    against: Against,
    target: Target,
}

/// What a row is held against.
#[derive(Clone, Copy)]
enum Against {
    Nothing,
    /// Another figure of this run, and whose it is.
    Other(&'static str, Metric),
    /// A figure of whereabouts that is known from elsewhere: it takes too long, or too large a cluster.
    Stated(f64),
}

impl Line {
    pub(super) fn wanted(&self) -> impl Iterator<Item = Metric> {
        let other = if let Against::Other(_, metric) = self.against { Some(metric) } else { None };
        std::iter::once(self.metric).chain(other)
    }

    pub(super) fn row(&self, figures: &Figures) -> Row {
        let figure = |metric: &Metric| {
            let missing = || Figure::Missing("not measured".to_owned());
            figures.get(metric).cloned().unwrap_or_else(missing)
        };
        let peer = match self.against {
            Against::Nothing => None,
            Against::Other(name, metric) => Some((name, figure(&metric))),
            Against::Stated(number) => Some((WHEREABOUTS, Figure::Stated(number))),
        };
        let peer = peer.map(|(name, figure)| Peer { name: name.to_owned(), figure });
        Row::new(self.name, self.what, self.metric.unit(), figure(&self.metric), peer, self.target)
    }
}

const WHEREABOUTS: &str = "whereabouts";
const FLOOR: &str = "floor";
/// It looks for leaks once a day.
const DAY: f64 = 86_400e9;
/// What it lists for each ADD at 5,000 nodes with 10 networks, at the least.
const LISTED: f64 = 35e6;

/// What an agent may be sent while 100 pods come and go elsewhere, in bytes. Nothing is about these pods: of each an
/// entry and a reservation are made and deleted, and no object comes in 200 bytes. What is left is what watches are sent in any case.
const OTHERS: f64 = 20e3;

/// All rows.
pub(super) fn lines() -> Vec<Line> {
    let line = |name, what, metric, target| Line { name, what, metric, against: Against::Nothing, target };
    let beside = |name, what, metric, (whose, other), target| {
        let against = Against::Other(whose, other);
        Line { name, what, metric, against, target }
    };
    let (add, nodes) = (Metric::Add, Metric::Nodes);
    let peer = |metric| (WHEREABOUTS, metric);
    vec![
        line(
            "floor",
            "start a program that does nothing, and one write on the disk: the median",
            Metric::Floor,
            Target::Shown,
        ),
        beside(
            "add-floor",
            "half of the ADDs, one after the other, are not slower",
            add(Whose::Ours, Part::Median),
            (FLOOR, Metric::Floor),
            Target::Within(2.0),
        ),
        beside(
            "add-floor-p99",
            "99 % of them are not slower",
            add(Whose::Ours, Part::Tail),
            (FLOOR, Metric::Floor),
            Target::Within(5.0),
        ),
        beside(
            "add",
            "half of the ADDs, one after the other, are not slower",
            add(Whose::Ours, Part::Median),
            peer(add(Whose::Theirs, Part::Median)),
            Target::Faster(50.0),
        ),
        // What it has to reach is in the row of the floor.
        beside(
            "add-p99",
            "99 % of them are not slower",
            add(Whose::Ours, Part::Tail),
            peer(add(Whose::Theirs, Part::Tail)),
            Target::Shown,
        ),
        beside(
            "nodes-64",
            "640 ADDs on 64 nodes with a slice each, 64 at once",
            nodes(Whose::Ours, Part::Rate),
            peer(nodes(Whose::Theirs, Part::Rate)),
            Target::Faster(20.0),
        ),
        beside(
            "nodes-64-p50",
            "half of them are not slower",
            nodes(Whose::Ours, Part::Median),
            peer(nodes(Whose::Theirs, Part::Median)),
            Target::Shown,
        ),
        beside(
            "nodes-64-max",
            "none of them is slower",
            nodes(Whose::Ours, Part::Most),
            peer(nodes(Whose::Theirs, Part::Most)),
            Target::Shown,
        ),
        beside(
            "nodes-64-errors",
            "how many of them fail",
            nodes(Whose::Ours, Part::Errors),
            peer(nodes(Whose::Theirs, Part::Errors)),
            Target::AtMost(0.0),
        ),
        beside(
            "nodes-64-twice",
            "how many addresses are given twice",
            nodes(Whose::Ours, Part::Twice),
            peer(nodes(Whose::Theirs, Part::Twice)),
            Target::AtMost(0.0),
        ),
        line(
            "storm",
            "256 nodes with 10 networks each, every pod at once, no server there",
            Metric::Storm(Part::Rate),
            Target::Shown,
        ),
        line("storm-max", "none of these 2,560 ADDs is slower", Metric::Storm(Part::Most), Target::Shown),
        line("storm-errors", "how many of them fail", Metric::Storm(Part::Errors), Target::AtMost(0.0)),
        line("storm-twice", "how many addresses are given twice", Metric::Storm(Part::Twice), Target::AtMost(0.0)),
        beside(
            "held-1000",
            "half of the ADDs in a slice with 1,000 addresses held are not slower, beside those in an empty one",
            Metric::Slice(true),
            ("empty slice", Metric::Slice(false)),
            Target::Within(1.5),
        ),
    ]
    .into_iter()
    .chain(pools())
    .chain(clusters())
    .collect()
}

/// Those of agents.
fn clusters() -> Vec<Line> {
    let line = |name, what, metric, against, target| Line { name, what, metric, against, target };
    let mirror =
        |name, what, pace, part, target| line(name, what, Metric::Mirror(pace, part), Against::Nothing, target);
    vec![
        mirror(
            "mirror",
            "ADDs one after the other, until IPPool and reservation show it: half of them are not slower",
            Pace::InTurn,
            Part::Median,
            Target::Shown,
        ),
        mirror("mirror-p99", "99 % of them are not slower", Pace::InTurn, Part::Tail, Target::AtMost(100e6)),
        mirror(
            "mirror-burst",
            "100 ADDs at once, the same: half of them are not slower",
            Pace::Burst,
            Part::Median,
            Target::Shown,
        ),
        mirror("mirror-burst-p99", "99 % of them are not slower", Pace::Burst, Part::Tail, Target::AtMost(100e6)),
        line(
            "reclaimed",
            "20 sandboxes vanish without a DEL: the last of their addresses is free again",
            Metric::Reclaimed,
            Against::Stated(DAY),
            Target::AtMost(10e9),
        ),
        line(
            "load-add",
            "bytes that the API server sends for 100 ADDs and DELs, of 5,000 nodes with 10 networks; theirs for one ADD",
            Metric::Load(Load::Path),
            Against::Stated(LISTED),
            Target::AtMost(0.0),
        ),
        line(
            "load-join",
            "what it sends to the agent of a node when another node joins all of them",
            Metric::Load(Load::Join),
            Against::Nothing,
            Target::Shown,
        ),
        line(
            "load-others",
            "bytes that it sends to the agent of a node while 100 pods come and go on another node, with their agent",
            Metric::Load(Load::Others),
            Against::Nothing,
            Target::AtMost(OTHERS),
        ),
        line(
            "load-objects",
            "how many objects there are for the slices of 5,000 nodes of 10 networks",
            Metric::Load(Load::Objects),
            Against::Nothing,
            Target::AtMost(10.0),
        ),
        line("load-largest", "the largest of them", Metric::Load(Load::Largest), Against::Nothing, Target::AtMost(1e6)),
        line(
            "load-start",
            "what it sends to an agent that starts, until it has its slices of all of them",
            Metric::Load(Load::Start),
            Against::Nothing,
            Target::Shown,
        ),
    ]
}

/// Those of networks without slices.
fn pools() -> Vec<Line> {
    let beside = |name, what, whose, part, target| Line {
        name,
        what,
        metric: Metric::Pool(whose, part),
        against: Against::Other(WHEREABOUTS, Metric::Pool(Whose::Theirs, part)),
        target,
    };
    let (ours, alone) = (Whose::Ours, Whose::Alone);
    let none = Target::AtMost(0.0);
    vec![
        beside("pool-32", "200 ADDs on a network without slices, 32 at once", ours, Part::Rate, Target::Faster(10.0)),
        beside("pool-32-p50", "half of them are not slower", ours, Part::Median, Target::Shown),
        beside("pool-32-p99", "99 % of them are not slower", ours, Part::Tail, Target::Shown),
        beside("pool-32-errors", "how many of them fail", ours, Part::Errors, none),
        beside("pool-32-twice", "how many addresses are given twice", ours, Part::Twice, none),
        beside("pool-32-alone", "the same while the node has no agent", alone, Part::Rate, Target::Shown),
        beside("pool-32-alone-p99", "99 % of them are not slower", alone, Part::Tail, Target::Shown),
        beside("pool-32-alone-errors", "how many of them fail", alone, Part::Errors, none),
        beside("pool-32-alone-twice", "how many addresses are given twice", alone, Part::Twice, none),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_its_own_name_and_compares_like_with_like() {
        let lines = lines();
        assert_eq!(lines.iter().map(|line| line.name).collect::<BTreeSet<_>>().len(), lines.len());
        for line in &lines {
            assert!(line.wanted().all(|metric| metric.unit() == line.metric.unit()), "{}", line.name);
        }
    }
}
