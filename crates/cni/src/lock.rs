//! The lock of a network's folder: whoever reads the journal or the grants to act on them, or writes them, holds it.
//!
//! It is `flock` on a file that is never replaced, so it outlives the renaming of the journal, and it is gone with the process
//! that held it, however that ended.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use thiserror::Error;

use crate::place::Place;

/// How long the plugin waits for others. They hold the lock for a millisecond each; a storm of pods is served long before this.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The lock, held until this is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why the lock was not had.
#[derive(Debug, Error)]
pub enum LockError {
    /// The file could not be opened or locked.
    #[error("cannot lock {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else held it, and the system had no thread to wait with.
    #[error(
        "{path} is locked by another process, and waiting for it takes a thread that could not be started: {source}"
    )]
    NoThread {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else held it all the while.
    #[error("{path} was locked by another process for {} s", waited.as_secs())]
    Busy {
        /// The file.
        path: String,
        /// How long it was waited for.
        waited: Duration,
    },
}

impl Lock {
    /// Takes the lock and waits for it at most `patience`. The folder must be there.
    pub fn take(place: &Place, patience: Duration) -> Result<Self, LockError> {
        Self::on(&place.lock(), patience)
    }

    /// The same with another file, which is made if it is not there.
    pub fn on(path: &Path, patience: Duration) -> Result<Self, LockError> {
        let told = |source| LockError::Io { path: path.display().to_string(), source };
        let file = OpenOptions::new().create(true).write(true).truncate(false).open(path).map_err(told)?;
        match file.try_lock() {
            Ok(()) => return Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(source)) => return Err(told(source)),
        }
        // The system queues waiters in order but knows no deadline. So a thread waits in the queue, and who asked waits for it.
        let (sender, receiver) = mpsc::sync_channel(1);
        // A storm of pods may be at the limit of processes, which threads count for.
        let waiting = thread::Builder::new().spawn(move || {
            let locked = file.lock().map(|()| file);
            // Nobody listens any more after the deadline: the lock is dropped with the file.
            drop(sender.send(locked));
        });
        waiting.map_err(|source| LockError::NoThread { path: path.display().to_string(), source })?;
        match receiver.recv_timeout(patience) {
            Ok(Ok(file)) => Ok(Self { _file: file }),
            Ok(Err(source)) => Err(told(source)),
            Err(_) => Err(LockError::Busy { path: path.display().to_string(), waited: patience }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_the_next_when_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path(), "");
        let held = Lock::take(&place, PATIENCE).unwrap();
        assert!(matches!(Lock::take(&place, Duration::ZERO), Err(LockError::Busy { .. })));
        let waiting = {
            let place = place.clone();
            thread::spawn(move || Lock::take(&place, PATIENCE).is_ok())
        };
        drop(held);
        assert!(waiting.join().unwrap());
    }

    #[test]
    fn a_folder_that_is_not_there_is_told_by_name() {
        let place = Place::new("/nonexistent".as_ref(), "net");
        let told = Lock::take(&place, PATIENCE).unwrap_err().to_string();
        assert!(told.starts_with("cannot lock /nonexistent/net/lock: "), "{told}");
    }
}
