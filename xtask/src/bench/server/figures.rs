//! What was measured, by server and quantity, a figure for each round.

use std::collections::BTreeMap;

use super::places::Place;
use crate::bench::report::{Figure, Unit};

/// A quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Metric {
    StartEmpty,
    Memory,
    ListAll,
    ListBytes,
    ListGzip,
    ListPage,
    ListTable,
    WatchMedian,
    WatchTail,
    WatchFullTail,
    MemoryPeak,
    CreateRate,
    CreateMedian,
    CreateTail,
    CreateInTurns,
    ListAllInTurns,
    ListPageInTurns,
    ListTableInTurns,
    ApplyRate,
    ApplyTail,
    StartFull,
    StartKilled,
}

impl Metric {
    /// The same quantity, measured in turns with another program.
    pub(super) fn in_turns(self) -> Self {
        match self {
            Self::CreateRate => Self::CreateInTurns,
            Self::ListAll => Self::ListAllInTurns,
            Self::ListPage => Self::ListPageInTurns,
            Self::ListTable => Self::ListTableInTurns,
            other => other,
        }
    }

    pub(super) fn unit(self) -> Unit {
        match self {
            Self::Memory | Self::MemoryPeak | Self::ListBytes => Unit::Bytes,
            Self::CreateRate | Self::CreateInTurns | Self::ApplyRate => Unit::PerSecond,
            _ => Unit::Nanoseconds,
        }
    }
}

#[derive(Default)]
pub(super) struct Figures {
    values: BTreeMap<(Place, Metric), Vec<f64>>,
    /// Why there are none of a server, or of one of its quantities.
    reasons: BTreeMap<(Place, Option<Metric>), String>,
    /// What has to be said of a quantity besides its figures.
    notes: BTreeMap<Metric, String>,
}

impl Figures {
    pub(super) fn note(&mut self, place: Place, metric: Metric, value: f64) {
        eprintln!("  {}: {}", metric_name(metric), crate::bench::report::shown(value, metric.unit()));
        self.values.entry((place, metric)).or_default().push(value);
    }

    /// Says why a server has no figures.
    pub(super) fn absent(&mut self, place: Place, why: &str) {
        self.reasons.insert((place, None), why.to_owned());
    }

    /// Says why a figure of some round is no figure; those of other rounds do not make up for it.
    pub(super) fn spoilt(&mut self, place: Place, metric: Metric, why: String) {
        eprintln!("  {}: {why}", metric_name(metric));
        self.reasons.insert((place, Some(metric)), why);
    }

    pub(super) fn remark(&mut self, metric: Metric, remark: String) {
        self.notes.insert(metric, remark);
    }

    pub(super) fn remark_on(&self, metric: Metric) -> Option<&str> {
        self.notes.get(&metric).map(String::as_str)
    }

    /// The median of the rounds, or why there is none.
    pub(super) fn median(&self, place: Place, metric: Metric) -> Figure {
        let reason = self.reasons.get(&(place, Some(metric))).or_else(|| self.reasons.get(&(place, None)));
        match (reason, self.values.get(&(place, metric)).and_then(|values| median(values))) {
            (Some(why), _) => Figure::Missing(why.clone()),
            (None, Some(value)) => Figure::Value(value),
            (None, None) => Figure::Missing("not measured".to_owned()),
        }
    }
}

fn metric_name(metric: Metric) -> String {
    format!("{metric:?}")
}

/// The one in the middle; of an even number, the mean of the two there.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_round_does_not_move_the_figure() {
        let mut figures = Figures::default();
        for value in [10.0, 1e9, 11.0] {
            figures.note(Place::Control, Metric::ListAll, value);
        }
        assert_eq!(figures.median(Place::Control, Metric::ListAll), Figure::Value(11.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_round_that_lost_something_spoils_the_figure() {
        let mut figures = Figures::default();
        figures.note(Place::Embedded, Metric::WatchTail, 1.0);
        figures.spoilt(Place::Embedded, Metric::WatchTail, "lost 3".to_owned());
        assert_eq!(figures.median(Place::Embedded, Metric::WatchTail), Figure::Missing("lost 3".to_owned()));
        figures.absent(Place::Control, "no Go");
        assert_eq!(figures.median(Place::Control, Metric::WatchTail), Figure::Missing("no Go".to_owned()));
        assert_eq!(figures.median(Place::Etcd, Metric::WatchTail), Figure::Missing("not measured".to_owned()));
    }
}
