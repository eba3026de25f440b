//! What is measured of who gives nodes their pod CIDRs.

use crate::bench::figures::Quantity;
use crate::bench::report::Unit;

/// A quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Metric {
    /// Writes of nodes in a second, by somebody who does nothing else.
    Raw,
    /// Nodes served in a second.
    Served,
    /// The same by kube-controller-manager, from one range.
    ServedByManager,
    /// The time that each of few nodes took.
    EachOfFew,
    /// The time that each of many nodes took.
    EachOfMany,
    /// From the start to ready, with many nodes that are served.
    Start,
    /// What was written meanwhile.
    StartWrites,
    /// Processor time in a second of heartbeats.
    SteadyProcessor,
    /// Lines of log in all of that.
    SteadyLines,
    /// What was written in all of that.
    SteadyWrites,
    /// Resident, of the controller alone.
    Memory,
    /// The same of kube-controller-manager.
    MemoryOfManager,
}

impl Quantity for Metric {
    fn unit(self) -> Unit {
        match self {
            Self::Raw | Self::Served | Self::ServedByManager => Unit::PerSecond,
            Self::EachOfFew | Self::EachOfMany | Self::Start | Self::SteadyProcessor => Unit::Nanoseconds,
            Self::StartWrites | Self::SteadyLines | Self::SteadyWrites => Unit::Number,
            Self::Memory | Self::MemoryOfManager => Unit::Bytes,
        }
    }
}
