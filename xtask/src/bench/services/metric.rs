//! What is measured of a server that gives Services their addresses.

use crate::bench::figures::Quantity;
use crate::bench::report::Unit;

/// A quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Metric {
    /// Of creates of Services with an address, on so many connections.
    Create(u64, Part),
    /// Of creates of Services with a node port too.
    NodePort(Part),
    /// Creates in a second with many ranges and Services there.
    Crowded,
    /// The same with one range and nothing else.
    Alone,
    /// Deletes and creates in a second in a range that is nearly full.
    ChurnFull,
    /// The same in one that is nearly empty.
    ChurnEmpty,
    /// How often a range that is nearly full was said to be full.
    FalselyFull,
    /// The same of a range that is full but for what was just deleted.
    FalselyFullAtLast,
    /// Resident.
    Memory,
}

/// What there is to say of many creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Rate,
    Median,
    Tail,
}

impl Part {
    pub(super) const ALL: [Self; 3] = [Self::Rate, Self::Median, Self::Tail];
}

impl Quantity for Metric {
    fn unit(self) -> Unit {
        match self {
            Self::Create(_, Part::Median | Part::Tail) | Self::NodePort(Part::Median | Part::Tail) => Unit::Nanoseconds,
            Self::FalselyFull | Self::FalselyFullAtLast => Unit::Number,
            Self::Memory => Unit::Bytes,
            _ => Unit::PerSecond,
        }
    }
}
