//! `cargo xtask bench server`: our server on its own store and on etcd, beside kube-apiserver on etcd.
//!
//! Everything is real: processes, disk, TLS. In every round each server starts on an empty folder of the disk and does the
//! same works in the same order; the load is a process too, one at a time. The median of the rounds counts.

mod figures;
pub(crate) mod load;
mod places;
mod rounds;
mod rows;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::figures::Metric;
use self::rows::Line;
use super::report::Row;

/// The rows that were asked for.
pub(super) struct Plan {
    lines: Vec<Line>,
    /// Our program, if it is not to be built.
    cadastre: Option<PathBuf>,
    /// Our program as it was before.
    before: Option<PathBuf>,
}

impl Plan {
    /// All rows, or the one of that name, of the program that is given or else built; and of it as it was before, if that is given.
    pub(super) fn new(only: Option<&str>, cadastre: Option<&Path>, before: Option<&Path>) -> Result<Self> {
        let mut lines = rows::lines();
        if before.is_some() {
            lines.extend(rows::against_before());
        }
        if let Some(name) = only {
            let names: Vec<_> = lines.iter().map(|line| line.name).collect();
            lines.retain(|line| line.name == name);
            if lines.is_empty() {
                bail!("`{name}` is no row of this table; there are {}", names.join(", "));
            }
        }
        let found = |given: &Path| given.canonicalize().with_context(|| format!("no {}", given.display()));
        Ok(Self { lines, cadastre: cadastre.map(found).transpose()?, before: before.map(found).transpose()? })
    }

    /// Measures what the rows need and fills them in.
    pub(super) fn run(&self) -> Result<Vec<Row>> {
        let wanted: BTreeSet<Metric> = self.lines.iter().flat_map(|line| [line.metric, line.against]).collect();
        let figures = rounds::run(&wanted, self.cadastre.as_deref(), self.before.as_deref())?;
        Ok(self.lines.iter().map(|line| line.row(&figures)).collect())
    }
}
