//! `cargo xtask bench services`: what it costs to give a Service its address, on ours and on kube-apiserver, in one run.
//!
//! The same servers and the same load as those of the server's table, but ours as users start it, without `--no-lifecycle`. What ours
//! does in a small or empty cluster is compared with what it does in a large or full one by turns on two servers side by side.

mod metric;
mod rounds;
mod rows;

use anyhow::Result;

use self::metric::Metric;
use super::lines::Line;
use super::places::Given;
use super::report::Row;

/// The rows that were asked for.
pub(super) struct Plan {
    lines: Vec<Line<Metric>>,
    given: Given,
}

impl Plan {
    /// All rows, or the one of that name.
    pub(super) fn new(only: Option<&str>, given: Given) -> Result<Self> {
        Ok(Self { lines: Line::only(rows::lines(), only)?, given })
    }

    /// Measures what the rows need and fills them in.
    pub(super) fn run(&self) -> Result<Vec<Row>> {
        let figures = rounds::run(Line::wanted(&self.lines), &self.given)?;
        Ok(self.lines.iter().map(|line| line.row(&figures)).collect())
    }
}
