//! What is wanted and what was measured so far, by server and quantity, a figure for each round.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use super::places::Place;
use super::report::{Figure, Unit, shown};

/// A quantity that is measured of servers.
pub(super) trait Quantity: Copy + Ord + Debug {
    fn unit(self) -> Unit;
}

pub(super) struct Figures<Q> {
    wanted: BTreeSet<Q>,
    values: BTreeMap<(Place, Q), Vec<f64>>,
    /// Why there are none of a server, or of one of its quantities.
    reasons: BTreeMap<(Place, Option<Q>), String>,
    /// What has to be said of a quantity besides its figures.
    notes: BTreeMap<Q, String>,
}

impl<Q: Quantity> Figures<Q> {
    /// None yet of what is wanted.
    pub(super) fn new(wanted: impl IntoIterator<Item = Q>) -> Self {
        let wanted = wanted.into_iter().collect();
        Self { wanted, values: BTreeMap::new(), reasons: BTreeMap::new(), notes: BTreeMap::new() }
    }

    /// Whether one of these is to be measured.
    pub(super) fn wants(&self, any: &[Q]) -> bool {
        any.iter().any(|quantity| self.wanted.contains(quantity))
    }

    /// Whether nothing but these is to be measured.
    pub(super) fn wants_only(&self, these: impl Fn(&Q) -> bool) -> bool {
        self.wanted.iter().all(these)
    }

    pub(super) fn note(&mut self, place: Place, quantity: Q, value: f64) {
        eprintln!("  {quantity:?}: {}", shown(value, quantity.unit()));
        self.values.entry((place, quantity)).or_default().push(value);
    }

    /// Says why a server has no figures.
    pub(super) fn absent(&mut self, place: Place, why: &str) {
        self.reasons.insert((place, None), why.to_owned());
    }

    /// Says why a figure of some round is no figure; those of other rounds do not make up for it.
    pub(super) fn spoilt(&mut self, place: Place, quantity: Q, why: String) {
        eprintln!("  {quantity:?}: {why}");
        self.reasons.insert((place, Some(quantity)), why);
    }

    pub(super) fn remark(&mut self, quantity: Q, remark: String) {
        self.notes.insert(quantity, remark);
    }

    pub(super) fn remark_on(&self, quantity: Q) -> Option<&str> {
        self.notes.get(&quantity).map(String::as_str)
    }

    /// The median of the rounds, or why there is none.
    pub(super) fn median(&self, place: Place, quantity: Q) -> Figure {
        let reason = self.reasons.get(&(place, Some(quantity))).or_else(|| self.reasons.get(&(place, None)));
        match (reason, self.values.get(&(place, quantity)).and_then(|values| median(values))) {
            (Some(why), _) => Figure::Missing(why.clone()),
            (None, Some(value)) => Figure::Value(value),
            (None, None) => Figure::Missing("not measured".to_owned()),
        }
    }
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

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Took {
        List,
        Watch,
    }

    impl Quantity for Took {
        fn unit(self) -> Unit {
            Unit::Nanoseconds
        }
    }

    #[test]
    fn one_bad_round_does_not_move_the_figure() {
        let mut figures = Figures::new([Took::List]);
        for value in [10.0, 1e9, 11.0] {
            figures.note(Place::Control, Took::List, value);
        }
        assert_eq!(figures.median(Place::Control, Took::List), Figure::Value(11.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_round_that_lost_something_spoils_the_figure() {
        let mut figures = Figures::new([Took::Watch]);
        figures.note(Place::Embedded, Took::Watch, 1.0);
        figures.spoilt(Place::Embedded, Took::Watch, "lost 3".to_owned());
        assert_eq!(figures.median(Place::Embedded, Took::Watch), Figure::Missing("lost 3".to_owned()));
        figures.absent(Place::Control, "no Go");
        assert_eq!(figures.median(Place::Control, Took::Watch), Figure::Missing("no Go".to_owned()));
        assert_eq!(figures.median(Place::Etcd, Took::Watch), Figure::Missing("not measured".to_owned()));
    }

    #[test]
    fn what_is_wanted_is_what_was_asked_for() {
        let figures = Figures::new([Took::List]);
        assert!(figures.wants(&[Took::Watch, Took::List]) && !figures.wants(&[Took::Watch]));
        assert!(figures.wants_only(|quantity| *quantity == Took::List));
    }
}
