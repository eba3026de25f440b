//! Backup while everything goes on and of a store at rest, and restore.
//!
//! A backup is a store file of its own: what one read transaction sees, copied record by record, each checked on the way, into
//! a new file that gets its name when it is whole and synced.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use redb::{ReadTransaction, ReadableDatabase};

use super::check::{Report, check, look_at};
use super::file::{self, Contents, DirLock, NewHistory, OpenError, explain_storage};
use super::load::scan;
use super::record::{Place, Record};
use crate::types::Revision;

/// How far the revision of a restored store is beyond its backup's. Whatever happened after the backup is forgotten, but
/// clients remember revisions of it; none of those may ever come again with another meaning.
pub(crate) const RESTORED_AHEAD: u64 = 1_000_000_000_000;

/// Copies what a read transaction sees to a new file.
pub(crate) fn copy(from: &Path, read: &ReadTransaction, to: &Path) -> Result<(), OpenError> {
    if to.exists() {
        return Err(OpenError::Present(to.to_owned()));
    }
    let contents = Contents::seen_by(from, read)?;
    let unfinished = unfinished(to);
    file::make(to, &unfinished, contents.id, contents.compacted, |history| {
        scan(from, &contents, |place, record| insert(&unfinished, history, place, &record))
    })
}

/// Copies the store in a data directory, which must be at rest and sound, to a new file. Nothing is written to the directory:
/// it may be on a disk that is full or cannot be written any more.
pub fn backup(dir: &Path, to: &Path) -> Result<Report, OpenError> {
    let _lock = DirLock::take_if_there(dir)?;
    let path = file::database_path(dir);
    look_at(&path)?.sound()?;
    file::guarded(&path, || {
        let read = file::peek(&path)?.begin_read().map_err(|error| explain_storage(&path, error.into()))?;
        copy(&path, &read, to)
    })?;
    check(to)
}

/// Makes the store in a data directory, which must have none, from a backup, which must be sound. History begins anew: every
/// watch from before has to start over, because what it saw after the backup is not true any more.
pub fn restore(from: &Path, dir: &Path) -> Result<Report, OpenError> {
    let report = check(from)?.sound()?;
    let lock = DirLock::take(dir)?;
    let path = file::database_path(dir);
    if path.exists() {
        return Err(OpenError::Present(path));
    }
    let database = file::peek(&report.path)?;
    let contents = Contents::of(from, &database)?;
    let mut live: HashMap<String, Place> = HashMap::new();
    scan(from, &contents, |place, record| {
        match record.value {
            Some(_) => live.insert(record.key.to_owned(), place),
            None => live.remove(record.key),
        };
        Ok(())
    })?;
    let revision = Revision(report.revision.0.saturating_add(RESTORED_AHEAD));
    let unfinished = file::new_path(dir);
    file::make(&path, &unfinished, file::new_id()?, revision, |history| {
        scan(from, &contents, |place, record| {
            if live.get(record.key) == Some(&place) { insert(&unfinished, history, place, &record) } else { Ok(()) }
        })
    })?;
    drop(lock);
    check(dir)
}

fn insert(path: &Path, history: &mut NewHistory<'_>, place: Place, record: &Record<'_>) -> Result<(), OpenError> {
    let mut room = history.insert_reserve(place, record.len()).map_err(|error| explain_storage(path, error.into()))?;
    record.write(place, room.as_mut());
    Ok(())
}

/// A name beside the target that no other backup uses.
fn unfinished(to: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(to);
    name.push(format!(".partial-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    name.into()
}
