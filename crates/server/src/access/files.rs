//! Files that only their owner may read, written whole or not at all.
//!
//! Everything of the data directory that lets somebody in goes through here, so that no path forgets the mode or leaves
//! half a key behind after a crash.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What a private file may be: read and written by its owner.
const FILE_MODE: u32 = 0o600;

/// What a private folder may be: used by its owner.
const FOLDER_MODE: u32 = 0o700;

/// Why a file or folder could not be made or read.
#[derive(Debug, Error)]
#[error("cannot {action} {}: {source}", .path.display())]
pub struct FileError {
    action: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl FileError {
    /// What the system said.
    pub fn kind(&self) -> ErrorKind {
        self.source.kind()
    }
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> FileError + use<'a> {
    move |source| FileError { action, path: path.to_owned(), source }
}

/// Makes the folder and those above it, for its owner alone. One that is there already is left as it is.
pub fn make_folder(path: &Path) -> Result<(), FileError> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path).map_err(failed("create the folder", path))
}

/// Waits until nobody else has their turn in the folder. It ends when what is returned is dropped, or the process ends.
pub fn turn(folder: &Path) -> Result<File, FileError> {
    let file = File::open(folder).map_err(failed("open the folder", folder))?;
    file.lock().map_err(failed("lock the folder", folder))?;
    Ok(file)
}

/// Writes the file so that it has its old contents or the new ones, whatever happens on the way.
pub fn write(path: &Path, contents: &[u8]) -> Result<(), FileError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    let draft = folder.join(name);
    let written = write_draft(&draft, contents).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // The draft is worthless; if it cannot be removed either, the next write replaces it.
        let _ = fs::remove_file(&draft);
    }
    written.map_err(failed("write", path))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("write", path))
}

fn write_draft(draft: &Path, contents: &[u8]) -> io::Result<()> {
    // One that a crash left behind may have another mode; it is made anew.
    match fs::remove_file(draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(draft)?;
    file.write_all(contents)?;
    file.sync_all()
}

/// The text of the file, or none if there is no such file. A file that others may read or write is closed to them.
pub fn read(path: &Path) -> Result<Option<String>, FileError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path)(error)),
    };
    let mode = fs::metadata(path).map_err(failed("read", path))?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(FILE_MODE)).map_err(failed("close to others", path))?;
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a/b");
        make_folder(&folder).unwrap();
        write(&folder.join("key"), b"secret").unwrap();
        assert_eq!((mode(&folder), mode(&folder.join("key"))), (0o700, 0o600));
    }

    #[test]
    fn a_draft_left_by_a_crash_does_not_matter() {
        let home = tempfile::tempdir().unwrap();
        let draft = home.path().join(".key.new");
        fs::write(&draft, "half").unwrap();
        fs::set_permissions(&draft, Permissions::from_mode(0o444)).unwrap();
        let path = home.path().join("key");
        write(&path, b"whole").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("whole"));
        assert_eq!(mode(&path), 0o600);
        assert!(!draft.exists());
    }

    #[test]
    fn a_file_that_was_opened_to_others_is_closed_again() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        write(&path, b"secret").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        read(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_failed_write_leaves_the_old_contents_and_no_draft() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        // A folder in the way cannot be replaced by a file.
        make_folder(&path.join("inside")).unwrap();
        let error = write(&path, b"new").unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot write {}", path.display())), "{error}");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
