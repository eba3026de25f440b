//! `cargo xtask bench server`: our server on its own store and on etcd, beside kube-apiserver on etcd.
//!
//! Everything is real: processes, disk, TLS. In every round each server starts on an empty folder of the disk and does the
//! same works in the same order; the load is a process too, one at a time. The median of the rounds counts.

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
    /// All rows, or the one of that name; and those against our program as it was before, if that is given.
    pub(super) fn new(only: Option<&str>, given: Given) -> Result<Self> {
        let mut lines = rows::lines();
        if given.before.is_some() {
            lines.extend(rows::against_before());
        }
        Ok(Self { lines: Line::only(lines, only)?, given })
    }

    /// Measures what the rows need and fills them in.
    pub(super) fn run(&self) -> Result<Vec<Row>> {
        let figures = rounds::run(Line::wanted(&self.lines), &self.given)?;
        Ok(self.lines.iter().map(|line| line.row(&figures)).collect())
    }
}
