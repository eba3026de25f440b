//! Where the files of a network are on a node.
//!
//! Each network has a folder of its own below the state directory, with three files: `grants`, which only the node agent writes,
//! `journal`, which whoever holds the lock writes, and `lock`. Nothing else has to be there for the plugin to serve; `shortage` is there
//! when a pod had to be refused.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where the state is, unless the configuration or [`STATE_DIR_VARIABLE`] says otherwise.
pub const STATE_DIR: &str = "/var/lib/cadastre/cni";

/// The environment variable that says where the state is.
pub const STATE_DIR_VARIABLE: &str = "CADASTRE_STATE_DIR";

/// The folder of one network on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    folder: PathBuf,
}

impl Place {
    /// The folder of `network` below `state_dir`. The name of a network has no `/` and does not begin with a dot: `config` and
    /// the CNI protocol see to that.
    pub fn new(state_dir: &Path, network: &str) -> Self {
        Self { folder: state_dir.join(network) }
    }

    /// The state directory: what the configuration says, else what the environment says, else [`STATE_DIR`].
    pub fn state_dir(configured: &str, variable: Option<&OsStr>) -> PathBuf {
        match variable.filter(|text| !text.is_empty()) {
            _ if !configured.is_empty() => configured.into(),
            Some(variable) => variable.into(),
            None => STATE_DIR.into(),
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The slices that the node holds; written by the agent, always by renaming, with the lock held.
    pub fn grants(&self) -> PathBuf {
        self.folder.join("grants")
    }

    /// Who has which address.
    pub fn journal(&self) -> PathBuf {
        self.folder.join("journal")
    }

    /// What is locked while the journal or the grants are read to be acted on, or written.
    pub fn lock(&self) -> PathBuf {
        self.folder.join("lock")
    }

    /// Of what nothing was left for a pod; for the agent to know.
    pub fn shortage(&self) -> PathBuf {
        self.folder.join("shortage")
    }

    /// What is locked while this node changes a pool that all nodes share.
    pub fn turn(&self, pool: &str) -> PathBuf {
        self.folder.join(format!("turn-{pool}"))
    }
}

/// Writes a file anew: it is on the disk, and in the place of the one before, when this returns. Until then the one before is there.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let written = (|| {
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&new, path)?;
        File::open(path.parent().unwrap_or(path))?.sync_all()
    })();
    if written.is_err() {
        // Nobody reads it, and the next one writes over it; on a full disk it is better gone.
        drop(fs::remove_file(&new));
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_write_that_was_cut_off_left_is_no_part_of_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        fs::write(path.with_extension("new"), [7; 4096]).unwrap();
        replace(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        assert!(!path.with_extension("new").exists());
    }

    #[test]
    fn the_configuration_comes_before_the_environment_before_the_default() {
        let variable = OsStr::new("/from/environment");
        assert_eq!(Place::state_dir("/from/config", Some(variable)), Path::new("/from/config"));
        assert_eq!(Place::state_dir("", Some(variable)), Path::new("/from/environment"));
        assert_eq!(Place::state_dir("", Some(OsStr::new(""))), Path::new(STATE_DIR));
        assert_eq!(Place::state_dir("", None), Path::new(STATE_DIR));
    }
}
