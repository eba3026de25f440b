//! `cargo xtask bench nodes`: how fast nodes get their pod CIDRs, beside the real kube-apiserver and inside our server, in one run.
//!
//! The bound beside a server is how fast it takes writes of nodes, which is measured with as many connections just before. Of the peers
//! kube-controller-manager runs here; node-ipam-controller does not, so its figures are stated.

mod metric;
mod rounds;
mod rows;

use anyhow::Result;

use self::metric::Metric;
use self::rows::Line;
use super::figures::Figures;
use super::places::Given;
use super::report::Row;

/// The rows that were asked for.
pub(super) struct Plan {
    lines: Vec<Line>,
    given: Given,
}

impl Plan {
    /// All rows, or the one of that name.
    pub(super) fn new(only: Option<&str>, given: Given) -> Result<Self> {
        Ok(Self { lines: rows::only(only)?, given })
    }

    /// Measures what the rows need and fills them in.
    pub(super) fn run(&self) -> Result<Vec<Row>> {
        let wanted: Figures<Metric> = Figures::new(self.lines.iter().flat_map(Line::needs));
        let figures = rounds::run(wanted, &self.given)?;
        Ok(self.lines.iter().map(|line| line.row(&figures)).collect())
    }
}
