//! The rows of a table of servers, before they have figures: which server, which quantity, and what it has to reach.

use anyhow::{Result, bail};

use super::figures::{Figures, Quantity};
use super::places::Place;
use super::report::{Peer, Row, Target};

/// One row. It is held against the control, or against another figure of ours.
pub(super) struct Line<Q> {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) place: Place,
    pub(super) quantity: Q,
    /// The other's quantity: the same one, except where the other has none.
    pub(super) against: Q,
    pub(super) beside: Place,
    pub(super) target: Target,
}

impl<Q: Quantity> Line<Q> {
    /// A row that is held against the same quantity of the control.
    pub(super) fn beside_control(
        place: Place,
        name: &'static str,
        what: &'static str,
        quantity: Q,
        target: Target,
    ) -> Self {
        Self { name, what, place, quantity, against: quantity, beside: Place::Control, target }
    }

    /// None of the figures that these rows need.
    pub(super) fn wanted(lines: &[Self]) -> Figures<Q> {
        Figures::new(lines.iter().flat_map(|line| [line.quantity, line.against]))
    }

    /// Those of the rows that were asked for; an error if there is no such row.
    pub(super) fn only(mut lines: Vec<Self>, only: Option<&str>) -> Result<Vec<Self>> {
        if let Some(name) = only {
            let names: Vec<_> = lines.iter().map(|line| line.name).collect();
            lines.retain(|line| line.name == name);
            if lines.is_empty() {
                bail!("`{name}` is no row of this table; there are {}", names.join(", "));
            }
        }
        Ok(lines)
    }

    pub(super) fn row(&self, figures: &Figures<Q>) -> Row {
        let ours = figures.median(self.place, self.quantity);
        let theirs = figures.median(self.beside, self.against);
        let peer = Peer { name: self.beside.name().to_owned(), figure: theirs };
        let what = match figures.remark_on(self.quantity) {
            Some(remark) => format!("{}, {}: {remark}", self.what, self.place.name()),
            None => format!("{}, {}", self.what, self.place.name()),
        };
        Row::new(self.name, &what, self.quantity.unit(), ours, Some(peer), self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::Unit;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Rate {
        Create,
        Apply,
    }

    impl Quantity for Rate {
        fn unit(self) -> Unit {
            Unit::PerSecond
        }
    }

    fn lines() -> Vec<Line<Rate>> {
        vec![
            Line::beside_control(Place::Embedded, "create", "", Rate::Create, Target::Faster(5.0)),
            Line::beside_control(Place::Etcd, "create-etcd", "", Rate::Create, Target::Faster(1.5)),
            Line::beside_control(Place::Embedded, "apply", "", Rate::Apply, Target::Shown),
        ]
    }

    #[test]
    fn a_row_is_held_against_the_control() {
        let mut figures = Line::wanted(&lines());
        figures.note(Place::Control, Rate::Create, 100.0);
        figures.note(Place::Embedded, Rate::Create, 500.0);
        figures.note(Place::Etcd, Rate::Create, 149.0);
        let met: Vec<_> = lines().iter().map(|line| line.row(&figures)).map(|row| (row.met, row.ratio)).collect();
        assert_eq!(met[0], (true, Some(5.0)));
        assert_eq!(met[1], (false, Some(1.49)));
        assert_eq!(met[2], (false, None), "what was not measured is not met");
    }

    #[test]
    fn one_row_can_be_asked_for_if_there_is_one_of_that_name() {
        let only = |name| Line::only(lines(), name);
        assert_eq!(only(None).unwrap().len(), 3);
        assert_eq!(only(Some("apply")).unwrap()[0].quantity, Rate::Apply);
        let said = only(Some("list")).err().unwrap().to_string();
        assert_eq!(said, "`list` is no row of this table; there are create, create-etcd, apply");
    }
}
