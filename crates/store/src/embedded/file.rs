//! The file of a store: where it lies, its tables, and how it is opened so that every way in which it can be wrong is said.
//!
//! ```text
//! DIR/store.redb       the database (0600)
//! DIR/store.redb.new   one that is being made; it gets its name when it is whole
//! DIR/store.lock       locked by the process that has the store open
//!
//! table history   (revision, number of the write) -> record
//! table meta      "format" | "id" | "compacted" -> number
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{
    Builder, Database, DatabaseError, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend,
    Table, TableDefinition, TableError, WriteTransaction,
};
use thiserror::Error;

use super::overlay::Overlay;
use super::record::Place;
use crate::types::Revision;

pub(crate) const HISTORY: TableDefinition<'_, Place, &[u8]> = TableDefinition::new("history");
pub(crate) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

const FORMAT: &str = "format";
const ID: &str = "id";
const COMPACTED: &str = "compacted";

/// The layout that this program writes.
pub(crate) const FORMAT_NOW: u64 = 1;

/// The revision of a store in which nothing has happened. Not 0, because to Kubernetes that means any revision.
pub(crate) const FIRST: Revision = Revision(1);

/// How a redb file begins.
const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";

/// Memory for pages. Reads are answered by the mirror, so this serves only the pages that writes go through: half of it holds
/// the largest batch, and more of it did not make writes faster.
pub(crate) const CACHE_BYTES: usize = 8 << 20;

/// Why a store could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The place for the store is something else.
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// There is no store.
    #[error("there is no store at {}", .0.display())]
    Absent(PathBuf),
    /// There is one already.
    #[error("{} is there already", .0.display())]
    Present(PathBuf),
    /// Somebody else has it open.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// The file system said no.
    #[error("could not {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What came of it.
        source: io::Error,
    },
    /// The file is not ours.
    #[error("{} is not a store of this program", .0.display())]
    Foreign(PathBuf),
    /// The file was written by another version.
    #[error("{} has the format {found}; this program reads {FORMAT_NOW}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
    },
    /// The file is damaged.
    #[error("{} is damaged: {what}; restore a backup, or look closer with `check`", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

impl OpenError {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, path: path.to_owned(), source }
    }

    pub(crate) fn corrupt(path: &Path, what: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), what: what.into() }
    }
}

/// Where the parts of a store lie in a data directory.
pub(crate) fn database_path(dir: &Path) -> PathBuf {
    dir.join("store.redb")
}

pub(crate) fn new_path(dir: &Path) -> PathBuf {
    dir.join("store.redb.new")
}

fn lock_path(dir: &Path) -> PathBuf {
    dir.join("store.lock")
}

/// Makes the directory if it is not there, for its owner only, durably.
fn make_dir(dir: &Path) -> Result<(), OpenError> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    match DirBuilder::new().recursive(true).mode(0o700).create(dir) {
        Ok(()) if dir.is_dir() => missing.into_iter().try_for_each(sync_name),
        Err(error) if error.kind() != ErrorKind::AlreadyExists && !dir.is_file() => {
            Err(OpenError::io("create the directory", dir)(error))
        }
        _ => Err(OpenError::NotADirectory(dir.to_owned())),
    }
}

/// Makes the name of a new file or directory durable: it stands in the directory around it.
pub fn sync_name(path: &Path) -> Result<(), OpenError> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(OpenError::io("sync the directory", dir))
}

/// A lock on a data directory, held until it is dropped, also by the death of the process.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

impl DirLock {
    /// Locks a data directory, which is made if it is not there. A store that is open has its directory locked already.
    pub fn take(dir: &Path) -> Result<Self, OpenError> {
        make_dir(dir)?;
        let path = lock_path(dir);
        let file = create(&path, OpenOptions::new().read(true).write(true).create(true).truncate(false))?;
        Self::lock(dir, file)
    }

    /// The same for somebody who only looks: where no lock was ever made nobody has the store open, and none is made.
    pub(crate) fn take_if_there(dir: &Path) -> Result<Option<Self>, OpenError> {
        let path = lock_path(dir);
        match File::open(&path) {
            Ok(file) => Self::lock(dir, file).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(OpenError::io("open", &path)(error)),
        }
    }

    fn lock(dir: &Path, file: File) -> Result<Self, OpenError> {
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse(dir.to_owned())),
            Err(TryLockError::Error(error)) => Err(OpenError::io("lock", dir)(error)),
        }
    }
}

fn create(path: &Path, options: &mut OpenOptions) -> Result<File, OpenError> {
    options.mode(0o600).open(path).map_err(OpenError::io("open for writing", path))
}

/// Makes an empty store in a directory that has none. It gets its name when it is whole, so that a crash leaves none.
pub(crate) fn ensure(dir: &Path) -> Result<(), OpenError> {
    let path = database_path(dir);
    if path.exists() {
        return Ok(());
    }
    // Nothing was compacted in a new store: its history can be watched from the very beginning.
    make(&path, &new_path(dir), new_id()?, Revision(0), |_| Ok(()))
}

/// A number that no other store has.
pub(crate) fn new_id() -> Result<u64, OpenError> {
    getrandom::u64()
        .map_err(|error| OpenError::io("read random numbers for", Path::new("a new store"))(io::Error::other(error)))
}

/// The records that a new store begins with.
pub(crate) type NewHistory<'a> = Table<'a, Place, &'static [u8]>;

/// Makes a store at `path`, under the name `unfinished` until it is whole, with the records that `fill` puts into it.
pub(crate) fn make(
    path: &Path,
    unfinished: &Path,
    id: u64,
    compacted: Revision,
    fill: impl FnOnce(&mut NewHistory<'_>) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let made = write_new(unfinished, id, compacted, fill).and_then(|()| put_in_place(unfinished, path));
    if made.is_err() {
        // What is unfinished is of no use to anybody; if it cannot be removed either, it is in nobody's way.
        drop(fs::remove_file(unfinished));
    }
    made
}

fn write_new(
    path: &Path,
    id: u64,
    compacted: Revision,
    fill: impl FnOnce(&mut NewHistory<'_>) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let empty = create(path, OpenOptions::new().read(true).write(true).create(true).truncate(true))?;
    let database = Builder::new().set_cache_size(CACHE_BYTES).create_file(empty);
    begin(path, &database.map_err(|error| explain(path, error))?, id, compacted, fill)
}

/// Turns an empty database into a store.
pub(crate) fn begin(
    path: &Path,
    database: &Database,
    id: u64,
    compacted: Revision,
    fill: impl FnOnce(&mut NewHistory<'_>) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let failed = |error: redb::Error| explain_storage(path, error);
    let write = database.begin_write().map_err(|error| failed(error.into()))?;
    let head = || -> Result<(), redb::Error> {
        let mut meta = write.open_table(META)?;
        meta.insert(FORMAT, FORMAT_NOW)?;
        meta.insert(ID, id)?;
        meta.insert(COMPACTED, compacted.0)?;
        Ok(())
    };
    head().map_err(failed)?;
    fill(&mut write.open_table(HISTORY).map_err(|error| failed(error.into()))?)?;
    write.commit().map_err(|error| failed(error.into()))
}

/// Gives a finished file its name, which must be free, durably.
pub(crate) fn put_in_place(from: &Path, to: &Path) -> Result<(), OpenError> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(io::Error::from) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(OpenError::Present(to.to_owned())),
        // Some file systems cannot refuse to replace; there the look before has to do.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
            if to.exists() {
                return Err(OpenError::Present(to.to_owned()));
            }
            fs::rename(from, to).map_err(OpenError::io("rename the new file to", to))?;
        }
        Err(error) => return Err(OpenError::io("rename the new file to", to)(error)),
    }
    sync_name(to)
}

/// Notes how far the history was compacted.
pub(crate) fn note_compacted(write: &WriteTransaction, to: Revision) -> Result<(), redb::Error> {
    write.open_table(META)?.insert(COMPACTED, to.0)?;
    Ok(())
}

/// What a database is opened on. Tests put failing disks in here.
pub(crate) trait Medium: Send + 'static {
    /// Opens it, as often as it has to be. What is damaged may make this panic.
    fn open(&self) -> Result<Database, OpenError>;
    /// Opens it so that nothing that happens changes it.
    fn peek(&self) -> Result<Database, OpenError>;
    /// Makes the system forget what it thinks is there. After a failed sync it may show what never reached the disk.
    fn forget_cached(&self);
}

/// A file, which must be there.
pub(crate) struct FileMedium(pub(crate) PathBuf);

impl Medium for FileMedium {
    fn open(&self) -> Result<Database, OpenError> {
        let file = existing(&self.0, OpenOptions::new().read(true).write(true))?;
        let opened = Builder::new().set_cache_size(CACHE_BYTES).create_file(file);
        opened.map_err(|error| explain(&self.0, error))
    }

    fn peek(&self) -> Result<Database, OpenError> {
        peek(&self.0)
    }

    fn forget_cached(&self) {
        let forgotten = File::open(&self.0).and_then(|file| {
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).map_err(io::Error::from)
        });
        if let Err(error) = forgotten {
            tracing::warn!(path = %self.0.display(), %error, "could not drop the file's cached pages");
        }
    }
}

/// Opens a database file so that nothing that happens changes it.
pub(crate) fn peek(path: &Path) -> Result<Database, OpenError> {
    let file = existing(path, OpenOptions::new().read(true))?;
    guarded(path, || peek_at(path, FileBackend::new(file).map_err(|error| explain(path, error))?))
}

/// The same with what any medium is made of.
pub(crate) fn peek_at(path: &Path, storage: impl StorageBackend) -> Result<Database, OpenError> {
    let overlay = Overlay::new(storage).map_err(OpenError::io("read", path))?;
    let opened = Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(overlay);
    opened.map_err(|error| explain(path, error))
}

fn existing(path: &Path, options: &OpenOptions) -> Result<File, OpenError> {
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(OpenError::Absent(path.to_owned())),
        Err(error) => return Err(OpenError::io("open", path)(error)),
    };
    look_at_head(path, &file)?;
    Ok(file)
}

/// Whether the file begins like a database. One that is empty would be taken for a new one.
fn look_at_head(path: &Path, mut file: &File) -> Result<(), OpenError> {
    let mut head = Vec::new();
    file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut head).map_err(OpenError::io("read", path))?;
    if head.is_empty() {
        return Err(OpenError::corrupt(path, "it is empty"));
    }
    if head != MAGIC {
        return Err(OpenError::Foreign(path.to_owned()));
    }
    Ok(())
}

/// Runs what reads a file that may be damaged: pages that contradict each other can make the database give up loudly.
pub(crate) fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| Err(OpenError::corrupt(path, panic_text(&*panic))))
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("its pages contradict each other ({})", text.unwrap_or("no more is known"))
}

/// What is in a database, as one read transaction sees it.
pub(crate) struct Contents {
    pub(crate) history: ReadOnlyTable<Place, &'static [u8]>,
    pub(crate) id: u64,
    pub(crate) compacted: Revision,
}

impl Contents {
    pub(crate) fn of(path: &Path, database: &impl ReadableDatabase) -> Result<Self, OpenError> {
        let read = database.begin_read().map_err(|error| explain_storage(path, error.into()))?;
        Self::seen_by(path, &read)
    }

    pub(crate) fn seen_by(path: &Path, read: &ReadTransaction) -> Result<Self, OpenError> {
        let absent = |error: TableError| match error {
            TableError::Storage(error) => explain_storage(path, error.into()),
            _ => OpenError::Foreign(path.to_owned()),
        };
        let meta = read.open_table(META).map_err(absent)?;
        let number = |name: &str| -> Result<u64, OpenError> {
            let found = meta.get(name).map_err(|error| explain_storage(path, error.into()))?;
            found.map(|number| number.value()).ok_or_else(|| OpenError::Foreign(path.to_owned()))
        };
        let found = number(FORMAT)?;
        if found != FORMAT_NOW {
            return Err(OpenError::Format { path: path.to_owned(), found });
        }
        let history = read.open_table(HISTORY).map_err(absent)?;
        Ok(Self { history, id: number(ID)?, compacted: Revision(number(COMPACTED)?) })
    }

    /// The newest revision. Records of deletes leave with compaction, so the last record alone does not say it.
    pub(crate) fn revision(&self, path: &Path) -> Result<Revision, OpenError> {
        let last = self.history.last().map_err(|error| explain_storage(path, error.into()))?;
        let last = last.map_or(Revision::default(), |(place, _)| Revision(place.value().0));
        Ok(last.max(self.compacted).max(FIRST))
    }
}

/// Puts what redb says about opening into words of ours.
pub(crate) fn explain(path: &Path, error: DatabaseError) -> OpenError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(path.to_owned()),
        DatabaseError::UpgradeRequired(version) => OpenError::Format { path: path.to_owned(), found: version.into() },
        DatabaseError::Storage(error) => explain_storage(path, error.into()),
        other => OpenError::corrupt(path, other.to_string()),
    }
}

/// The same for everything after that.
pub(crate) fn explain_storage(path: &Path, error: redb::Error) -> OpenError {
    match error {
        // Reading past the end: the file is shorter than it says it is.
        redb::Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
            OpenError::corrupt(path, "it is cut short")
        }
        redb::Error::Io(error) => OpenError::io("read or write", path)(error),
        redb::Error::Corrupted(what) => OpenError::corrupt(path, what),
        other => OpenError::corrupt(path, other.to_string()),
    }
}
