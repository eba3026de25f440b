//! One row for each thing that is measured: what ours costs, what the peer costs, and whether the target is met.
//!
//! Knows nothing of how the figures came about. A figure that is missing never meets a target.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;

use super::machine::Facts;
use crate::process;

/// What a row's figures count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) enum Unit {
    #[serde(rename = "ns")]
    Nanoseconds,
    #[serde(rename = "bytes")]
    Bytes,
    /// The more, the better; of the others, the less.
    #[serde(rename = "per second")]
    PerSecond,
    /// How often something happened that should not.
    #[serde(rename = "times")]
    Number,
}

/// What ours has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// So many times better than the peer, or more: faster, smaller, or more in a second.
    Faster(f64),
    /// No more than this, in the unit of the row; the peer is only for comparison.
    AtMost(f64),
    /// No more than so many times the baseline: another work of ours in the same run.
    Within(f64),
    /// None: the figure is there to be known.
    Shown,
}

/// A figure, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Figure {
    /// Measured in this run.
    Value(f64),
    /// Known from elsewhere (computed, or measured by others), because it cannot be run here.
    Stated(f64),
    Missing(String),
}

/// What ours is held against: a peer, or a baseline of ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) figure: Figure,
}

/// One row of the table and of the kept figures.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) work: String,
    pub(super) what: String,
    pub(super) unit: Unit,
    pub(super) ours: Figure,
    pub(super) peer: Option<Peer>,
    /// How many times better than the peer ours is; with a target within a baseline, how many times the baseline.
    pub(super) ratio: Option<f64>,
    pub(super) target: String,
    pub(super) met: bool,
}

impl Row {
    pub(super) fn new(work: &str, what: &str, unit: Unit, ours: Figure, peer: Option<Peer>, target: Target) -> Self {
        let theirs = peer.as_ref().and_then(|peer| peer.figure.number(unit));
        let ratio = target.ratio(unit, ours.number(unit), theirs);
        let met = target.met(ours.number(unit), ratio);
        let target = target.words(unit);
        Self { work: work.to_owned(), what: what.to_owned(), unit, ours, peer, ratio, target, met }
    }

    /// Why a figure of this row is missing.
    fn missing(&self) -> Vec<&str> {
        let figures = std::iter::once(&self.ours).chain(self.peer.as_ref().map(|peer| &peer.figure));
        figures.filter_map(|figure| if let Figure::Missing(why) = figure { Some(why.as_str()) } else { None }).collect()
    }
}

impl Figure {
    /// A time, a size or a rate is more than nothing; anything else is a broken measurement and counts as none.
    fn number(&self, unit: Unit) -> Option<f64> {
        let is_sound = |number: f64| number.is_finite() && (number > 0.0 || unit == Unit::Number && number == 0.0);
        match *self {
            Self::Value(number) | Self::Stated(number) if is_sound(number) => Some(number),
            _ => None,
        }
    }
}

impl Target {
    fn ratio(self, unit: Unit, ours: Option<f64>, other: Option<f64>) -> Option<f64> {
        let (ours, other) = ours.zip(other)?;
        let more_is_better = unit == Unit::PerSecond;
        let ratio = if matches!(self, Self::Within(_)) || more_is_better { ours / other } else { other / ours };
        ratio.is_finite().then_some(ratio)
    }

    /// Whether the figures reach it. A figure that the target needs and that is missing means no.
    fn met(self, ours: Option<f64>, ratio: Option<f64>) -> bool {
        match self {
            Self::Faster(times) => ratio.is_some_and(|ratio| ratio >= times),
            Self::Within(times) => ratio.is_some_and(|ratio| ratio <= times),
            Self::AtMost(most) => ours.is_some_and(|ours| ours <= most),
            Self::Shown => ours.is_some(),
        }
    }

    fn words(self, unit: Unit) -> String {
        match (self, unit) {
            (Self::Faster(times), _) if times < 1.0 => format!("at least {times}x of it"),
            (Self::Faster(times), Unit::Nanoseconds) => format!("at least {times}x faster"),
            (Self::Faster(times), Unit::Bytes | Unit::Number) => format!("at least {times}x less"),
            (Self::Faster(times), Unit::PerSecond) => format!("at least {times}x more"),
            (Self::Within(times), _) => format!("within {times}x of it"),
            (Self::AtMost(most), _) => format!("at most {}", shown(most, unit)),
            (Self::Shown, _) => "-".to_owned(),
        }
    }
}

/// The rows as plain text, in columns.
pub(super) fn table(rows: &[Row]) -> String {
    let header = ["work", "ours", "against", "theirs", "ratio", "target", "met", "what"].map(str::to_owned);
    let lines: Vec<[String; 8]> = std::iter::once(header).chain(rows.iter().map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let padded = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            // Numbers end where they end, words start where they start.
            1 | 3 | 4 => format!("{cell:>width$}"),
            _ => format!("{cell:<width$}"),
        });
        text.push_str(padded.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn cells(row: &Row) -> [String; 8] {
    let dash = || "-".to_owned();
    let mut what = row.what.clone();
    for why in row.missing() {
        what.push_str("; ");
        what.push_str(why);
    }
    [
        row.work.clone(),
        row.ours.shown(row.unit),
        row.peer.as_ref().map_or_else(dash, |peer| peer.name.clone()),
        row.peer.as_ref().map_or_else(dash, |peer| peer.figure.shown(row.unit)),
        row.ratio.map_or_else(dash, |ratio| format!("{}x", digits(ratio))),
        row.target.clone(),
        if row.met { "yes" } else { "NO" }.to_owned(),
        what,
    ]
}

impl Figure {
    fn shown(&self, unit: Unit) -> String {
        match self {
            Self::Value(number) => shown(*number, unit),
            Self::Stated(number) => format!("{} (stated)", shown(*number, unit)),
            Self::Missing(_) => "missing".to_owned(),
        }
    }
}

/// A number as people write it.
pub(super) fn shown(number: f64, unit: Unit) -> String {
    let (number, unit) = match unit {
        Unit::Bytes if number < 1e4 => (number, "B"),
        Unit::Bytes if number < 1e6 => (number / 1e3, "kB"),
        Unit::Bytes => (number / 1e6, "MB"),
        Unit::PerSecond => (number, "/s"),
        Unit::Number => (number, "times"),
        Unit::Nanoseconds if number < 1e3 => (number, "ns"),
        Unit::Nanoseconds if number < 1e6 => (number / 1e3, "us"),
        Unit::Nanoseconds if number < 1e9 => (number / 1e6, "ms"),
        Unit::Nanoseconds => (number / 1e9, "s"),
    };
    format!("{} {unit}", digits(number))
}

/// Three digits that matter, and all that are before the point.
fn digits(number: f64) -> String {
    let decimals = if number >= 99.95 || number.fract() == 0.0 { 0 } else { usize::from(number < 9.995) + 1 };
    format!("{number:.decimals$}")
}

/// Writes the figures to `target/bench/NAME.json`, for whoever compares runs.
pub(super) fn keep(name: &str, rows: &[Row], machine: &Facts) -> Result<PathBuf> {
    #[derive(Serialize)]
    struct Kept<'a> {
        machine: &'a Facts,
        rows: &'a [Row],
    }
    let folder = process::repo_root().join("target/bench");
    let path = folder.join(format!("{name}.json"));
    let text = serde_json::to_string_pretty(&Kept { machine, rows })?;
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&path, text + "\n"))
        .with_context(|| format!("could not write {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: Figure, theirs: Option<Figure>, target: Target) -> Row {
        let peer = theirs.map(|figure| Peer { name: "peer".to_owned(), figure });
        Row::new("fill", "fill it", Unit::Nanoseconds, ours, peer, target)
    }

    fn met(ours: f64, theirs: f64, target: Target) -> bool {
        row(Figure::Value(ours), Some(Figure::Value(theirs)), target).met
    }

    #[test]
    fn faster_is_met_from_the_named_ratio_on() {
        assert!(met(10.0, 40.0, Target::Faster(4.0)) && met(10.0, 400.0, Target::Faster(4.0)));
        assert!(!met(10.0, 39.9, Target::Faster(4.0)) && !met(40.0, 10.0, Target::Faster(4.0)));
    }

    #[test]
    fn at_most_is_met_up_to_the_named_figure_whatever_the_peer_does() {
        assert!(met(300.0, 1.0, Target::AtMost(300.0)) && !met(300.1, 1e9, Target::AtMost(300.0)));
        assert!(row(Figure::Value(1.0), None, Target::AtMost(300.0)).met);
        assert!(row(Figure::Value(1.0), Some(missing()), Target::AtMost(300.0)).met);
    }

    #[test]
    fn within_is_met_up_to_the_named_multiple_of_the_baseline() {
        assert!(met(20.0, 10.0, Target::Within(2.0)) && met(1.0, 10.0, Target::Within(2.0)));
        assert!(!met(20.1, 10.0, Target::Within(2.0)));
    }

    #[test]
    fn a_missing_or_broken_figure_meets_nothing_that_needs_it() {
        for bad in [missing(), Figure::Value(0.0), Figure::Value(f64::NAN), Figure::Value(f64::INFINITY)] {
            for target in [Target::Faster(0.0), Target::Within(1e9)] {
                assert!(!row(Figure::Value(1.0), Some(bad.clone()), target).met, "{bad:?} {target:?}");
                assert!(!row(bad.clone(), Some(Figure::Value(1.0)), target).met, "{bad:?} {target:?}");
                assert!(!row(Figure::Value(1.0), None, target).met, "{target:?}");
            }
            assert!(!row(bad.clone(), None, Target::AtMost(1e9)).met, "{bad:?}");
        }
    }

    #[test]
    fn of_what_happens_in_a_second_more_is_better() {
        let row = |ours, theirs| {
            let peer = Peer { name: "peer".to_owned(), figure: Figure::Value(theirs) };
            Row::new("w", "", Unit::PerSecond, Figure::Value(ours), Some(peer), Target::Faster(5.0))
        };
        assert_eq!((row(500.0, 100.0).ratio, row(500.0, 100.0).met), (Some(5.0), true));
        assert!(!row(100.0, 500.0).met && !row(499.0, 100.0).met);
    }

    #[test]
    fn what_should_not_happen_may_happen_no_times() {
        let row = |ours| {
            let peer = Peer { name: "peer".to_owned(), figure: Figure::Value(7.0) };
            Row::new("w", "", Unit::Number, Figure::Value(ours), Some(peer), Target::AtMost(0.0))
        };
        assert_eq!((row(0.0).met, row(0.0).ratio), (true, None));
        assert!(!row(1.0).met && !row(f64::NAN).met);
    }

    #[test]
    fn a_figure_without_a_target_has_only_to_be_there() {
        assert!(row(Figure::Value(1.0), Some(missing()), Target::Shown).met);
        assert!(!row(missing(), Some(Figure::Value(1.0)), Target::Shown).met);
    }

    #[test]
    fn the_ratio_reads_as_its_target_does() {
        let ratio = |target| row(Figure::Value(10.0), Some(Figure::Stated(40.0)), target).ratio;
        assert_eq!(ratio(Target::Faster(4.0)), Some(4.0));
        assert_eq!(ratio(Target::AtMost(300.0)), Some(4.0));
        assert_eq!(ratio(Target::Within(2.0)), Some(0.25));
        assert_eq!(Target::Faster(0.8).words(Unit::PerSecond), "at least 0.8x of it");
    }

    #[test]
    fn the_table_is_aligned_and_says_what_is_missing() {
        let rows = [
            row(Figure::Value(85.04), Some(Figure::Value(388.1)), Target::Faster(4.0)),
            row(Figure::Value(1500.0), Some(missing()), Target::Faster(40.0)),
            row(Figure::Value(3.0), Some(Figure::Stated(12e9)), Target::AtMost(1000.0)),
        ];
        let expected = "\
work     ours  against         theirs        ratio  target               met  what
fill  85.0 ns  peer            388 ns        4.56x  at least 4x faster   yes  fill it
fill  1.50 us  peer           missing            -  at least 40x faster  NO   fill it; peer not measured: no Go
fill     3 ns  peer     12 s (stated)  4000000000x  at most 1 us         yes  fill it
";
        assert_eq!(table(&rows), expected);
    }

    #[test]
    fn the_kept_row_has_the_fields_that_every_benchmark_has() {
        let kept = serde_json::to_value(row(Figure::Value(10.0), Some(missing()), Target::Faster(4.0))).unwrap();
        let expected = serde_json::json!({
            "work": "fill", "what": "fill it", "unit": "ns", "ours": {"value": 10.0},
            "peer": {"name": "peer", "figure": {"missing": "peer not measured: no Go"}},
            "ratio": null, "target": "at least 4x faster", "met": false,
        });
        assert_eq!(kept, expected);
    }

    fn missing() -> Figure {
        Figure::Missing("peer not measured: no Go".to_owned())
    }
}
