//! A small disk that can be filled and be made read-only, for suites in which that goes wrong. Only root may have one.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The largest and the smallest piece that is written to fill a disk: the last byte counts.
const PIECES: [usize; 3] = [1 << 20, 1 << 12, 1];

/// A folder that is a small disk of its own. Dropping it takes the disk away.
pub(super) struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Makes the folder a disk of that many MiB; why not, if this machine does not let us.
    pub(super) fn mount(folder: &Path, size: u32) -> Result<Self> {
        fs::create_dir_all(folder)?;
        mount(&["-t", "tmpfs", "-o", &format!("size={size}m,mode=700"), "tmpfs"], folder)?;
        Ok(Self { folder: folder.to_path_buf() })
    }

    /// Lets nobody write to it any more, or everybody again.
    pub(super) fn protect(&self, protected: bool) -> Result<()> {
        mount(&["-o", if protected { "remount,ro" } else { "remount,rw" }], &self.folder)
    }

    /// Where it is.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }

    /// Writes until nothing more can be written.
    pub(super) fn fill(&self) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(self.ballast())?;
        for piece in PIECES {
            let bytes = vec![0; piece];
            while file.write_all(&bytes).is_ok() {}
        }
        Ok(())
    }

    pub(super) fn free(&self) -> Result<()> {
        Ok(fs::remove_file(self.ballast())?)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A disk that stays is a folder in target/e2e, and the next run says that it could not be emptied.
        let _ = Command::new("umount").arg(&self.folder).status();
    }
}

fn mount(args: &[&str], folder: &Path) -> Result<()> {
    let said = Command::new("mount").args(args).arg(folder).output().context("there is no program `mount`")?;
    if !said.status.success() {
        bail!("{}", String::from_utf8_lossy(&said.stderr).trim());
    }
    Ok(())
}
