//! What is measured of a server.

use crate::bench::figures::Quantity;
use crate::bench::report::Unit;

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
}

impl Quantity for Metric {
    fn unit(self) -> Unit {
        match self {
            Self::Memory | Self::MemoryPeak | Self::ListBytes => Unit::Bytes,
            Self::CreateRate | Self::CreateInTurns | Self::ApplyRate => Unit::PerSecond,
            _ => Unit::Nanoseconds,
        }
    }
}
