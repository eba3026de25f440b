//! `cadastre check`: looks for damage, changes nothing.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use store::embedded::{self, OpenError};

/// Look for damage in a store at rest, or in a backup.
///
/// Reads everything: the pages of the file, the checksum of every record, and whether each record follows from those
/// before it. Nothing is changed. The exit code is 0 if the store is sound and 1 if it is not or cannot be read.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The data directory whose store to look at; no server may be using it
    #[arg(long, value_name = "DIR", default_value = crate::up::DATA_DIR, conflicts_with = "file")]
    data_dir: PathBuf,
    /// A backup to look at instead
    file: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  cadastre check --data-dir /var/lib/cadastre
  cadastre check monday.backup";

pub(crate) fn run(options: &Options) -> Result<()> {
    let path = options.file.as_ref().unwrap_or(&options.data_dir);
    let report = embedded::check(path).map_err(|error| match error {
        OpenError::InUse(dir) => anyhow!(
            "a server is using the store in {}: stop it first, or check a backup of it (cadastre backup)",
            dir.display()
        ),
        error => error.into(),
    })?;
    print!("{report}");
    if !report.is_sound() {
        bail!("{} is damaged", report.path.display());
    }
    Ok(())
}
