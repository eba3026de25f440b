//! `cadastre restore`: a backup becomes the store of a data directory.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use store::embedded::{self, OpenError};

/// Make a data directory's store from a backup.
///
/// The backup is checked first, and a store that is there already is never replaced: move it away, or choose another
/// directory. Every object is as it was when the backup was made. The history begins anew and revisions go on far beyond
/// the old ones, so that clients notice and list again. Certificates and tokens are not in a backup; those of the data
/// directory stay, or are made at the next start.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The data directory to make the store in
    #[arg(long, value_name = "DIR", default_value = crate::up::DATA_DIR)]
    data_dir: PathBuf,
    /// The backup
    file: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  cadastre restore --data-dir ./restored monday.backup
  cadastre up --data-dir ./restored";

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { data_dir, file } = options;
    let report = embedded::restore(file, data_dir).map_err(|error| match error {
        OpenError::Present(store) => anyhow!(
            "there is a store already: {}; move it away first, or restore to another directory",
            store.display()
        ),
        OpenError::InUse(dir) => anyhow!("a server is using the store in {}", dir.display()),
        error => error.into(),
    })?;
    println!("restored {} to {}", file.display(), data_dir.display());
    print!("{report}");
    println!("start it with: cadastre up --data-dir {}", data_dir.display());
    Ok(())
}
