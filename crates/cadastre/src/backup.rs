//! `cadastre backup`: a copy of the store, whoever has it open.
//!
//! One process at a time has the store open. If that is a server, it makes the copy and sends it; if it is nobody, we
//! copy the file ourselves. The user does not have to know which.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use server::access::credentials::kubeconfig_of;
use server::access::kubeconfig::Kubeconfig;
use store::embedded::{self, OpenError, Report};
use tempfile::NamedTempFile;
use tokio::runtime::Runtime;

use crate::client;

/// The path under which a server sends a copy of its store to its administrator.
pub(crate) const PATH: &str = "/cadastre/backup";

/// Copy the embedded store to a file, also while a server is using it.
///
/// A server that has the data directory open goes on serving meanwhile; the copy is the store as it was at one moment.
/// It is checked before it gets its name, and a file that is there already is never replaced. A backup holds all objects,
/// Secrets included, so it can be read by its owner only. It does not hold DIR/pki, DIR/kubeconfig and DIR/admin-token.
///
/// For a server on etcd, back up etcd instead (etcdctl snapshot save).
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The data directory whose store to copy
    #[arg(long, value_name = "DIR", default_value = crate::up::DATA_DIR)]
    data_dir: PathBuf,
    /// The file to make
    file: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  cadastre backup monday.backup
  cadastre backup --data-dir /var/lib/cadastre /backups/cadastre-$(date +%F)";

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { data_dir, file } = options;
    if file.exists() {
        bail!("{} is there already; a backup never replaces a file", file.display());
    }
    let report = Runtime::new().context("cannot start")?.block_on(async {
        tokio::select! {
            report = copy(data_dir, file) => report,
            _ = tokio::signal::ctrl_c() => bail!("interrupted; there is no backup"),
        }
    })?;
    let objects: usize = report.objects.values().sum();
    println!(
        "backed up {} to {}: {objects} objects at revision {}",
        data_dir.display(),
        file.display(),
        report.revision
    );
    Ok(())
}

async fn copy(data_dir: &Path, file: &Path) -> Result<Report> {
    let (from, to) = (data_dir.to_owned(), file.to_owned());
    let copied = tokio::task::spawn_blocking(move || embedded::backup(&from, &to)).await;
    match copied.context("the backup stopped")? {
        Ok(report) => Ok(report),
        Err(OpenError::InUse(_)) => copy_of_server(data_dir, file).await,
        Err(error @ OpenError::Absent(_)) => {
            Err(anyhow!(error).context("nothing to back up (for a server on etcd, back up etcd instead)"))
        }
        Err(error) => Err(error.into()),
    }
}

async fn copy_of_server(data_dir: &Path, file: &Path) -> Result<Report> {
    let path = kubeconfig_of(data_dir);
    let kubeconfig = Kubeconfig::read(&path)?.with_context(|| {
        format!("a server is using {}, but there is no {} to reach it with", data_dir.display(), path.display())
    })?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut draft =
        NamedTempFile::new_in(folder).with_context(|| format!("cannot make a file in {}", folder.display()))?;
    client::post(&kubeconfig, PATH, |bytes| draft.write_all(bytes))
        .await
        .with_context(|| format!("the server at {} gave no backup", kubeconfig.server))?;
    draft.as_file().sync_all().context("cannot write the backup")?;
    let report = embedded::check(draft.path())?;
    if !report.is_sound() {
        print!("{report}");
        bail!("what the server sent is damaged; it was not kept");
    }
    draft.persist_noclobber(file).with_context(|| format!("cannot make {}", file.display()))?;
    embedded::sync_name(file)?;
    Ok(report)
}
