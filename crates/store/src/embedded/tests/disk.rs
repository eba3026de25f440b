//! A disk that can fail: it keeps what was synced apart from what was only written, and remembers everything in order.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use redb::{Builder, Database, StorageBackend};

use crate::Store;
use crate::embedded::Options;
use crate::embedded::file::{self, Medium, OpenError};
use crate::types::Revision;

/// The smallest piece that a disk writes as a whole.
const SECTOR: usize = 512;

#[derive(Clone, Debug)]
pub(super) enum Op {
    Write(u64, Vec<u8>),
    Length(u64),
    Sync,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    /// The disk is full: it is as long as it will ever be, and new pages have no room.
    pub(super) full_at: Option<u64>,
    /// Writes fail.
    pub(super) write: bool,
    /// Syncs fail.
    pub(super) sync: Option<Failing>,
    /// Nothing can be read.
    pub(super) read: bool,
    /// Opening it again is the end of whoever tries.
    pub(super) deadly: bool,
}

/// What becomes of what was written when a sync fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failing {
    /// It is lost, as the system's cache may do.
    Losing,
    /// It gets there all the same.
    Keeping,
}

#[derive(Debug, Default)]
struct State {
    /// What reads see.
    cached: Vec<u8>,
    /// What a power cut leaves at least.
    durable: Vec<u8>,
    faults: Faults,
    /// Everything that was done, if it is wanted.
    trace: Option<Vec<Op>>,
    syncs: usize,
    /// Syncs wait while this is set.
    held: bool,
}

/// A disk; clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Arc<(Mutex<State>, Condvar)>);

impl Disk {
    /// A disk with an empty store on it.
    pub(super) fn with_store() -> Self {
        let disk = Self::default();
        let database = Builder::new().create_with_backend(disk.clone()).unwrap();
        file::begin(&path(), &database, 1, Revision(0), |_| Ok(())).unwrap();
        drop(database);
        disk
    }

    /// A disk that has these bytes.
    pub(super) fn from_image(image: Vec<u8>) -> Self {
        let disk = Self::default();
        *disk.0.0.lock() = State { cached: image.clone(), durable: image, ..State::default() };
        disk
    }

    pub(super) fn open(&self, options: Options) -> Store {
        self.try_open(options).unwrap()
    }

    pub(super) fn try_open(&self, options: Options) -> Result<Store, OpenError> {
        Store::open_on(path(), Box::new(self.clone()), None, options)
    }

    pub(super) fn set(&self, faults: Faults) {
        self.0.0.lock().faults = faults;
    }

    pub(super) fn length(&self) -> u64 {
        self.0.0.lock().cached.len() as u64
    }

    /// What a power cut now would leave.
    pub(super) fn durable(&self) -> Vec<u8> {
        self.0.0.lock().durable.clone()
    }

    pub(super) fn start_trace(&self) {
        self.0.0.lock().trace = Some(Vec::new());
    }

    pub(super) fn trace(&self) -> Vec<Op> {
        self.0.0.lock().trace.clone().unwrap_or_default()
    }

    pub(super) fn traced(&self) -> usize {
        self.0.0.lock().trace.as_ref().map_or(0, Vec::len)
    }

    /// Makes syncs wait until they are let go.
    pub(super) fn hold(&self) {
        self.0.0.lock().held = true;
    }

    pub(super) fn let_go(&self) {
        self.0.0.lock().held = false;
        self.0.1.notify_all();
    }
}

impl Medium for Disk {
    fn open(&self) -> Result<Database, OpenError> {
        Builder::new().create_with_backend(self.clone()).map_err(|error| file::explain(&path(), error))
    }

    fn peek(&self) -> Result<Database, OpenError> {
        file::peek_at(&path(), self.clone())
    }

    fn forget_cached(&self) {
        assert!(!self.0.0.lock().faults.deadly, "the disk is deadly");
    }
}

fn path() -> PathBuf {
    PathBuf::from("/nowhere/store.redb")
}

/// Carries out an operation on an image; of a write only the sectors that `lands` says.
pub(super) fn apply(image: &mut Vec<u8>, op: &Op, mut lands: impl FnMut() -> bool) {
    match op {
        Op::Write(offset, data) => {
            for (at, sector) in data.chunks(SECTOR).enumerate() {
                let start = *offset as usize + at * SECTOR;
                if lands() && start + sector.len() <= image.len() {
                    image[start..start + sector.len()].copy_from_slice(sector);
                }
            }
        }
        Op::Length(length) => image.resize(*length as usize, 0),
        Op::Sync => {}
    }
}

impl State {
    fn done(&mut self, op: Op) {
        apply(&mut self.cached, &op, || true);
        if let Some(trace) = &mut self.trace {
            trace.push(op);
        }
    }
}

fn failed(what: &str) -> io::Error {
    io::Error::other(format!("{what} failed"))
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.length())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.0.lock();
        if state.faults.read {
            return Err(failed("a read"));
        }
        let start = offset as usize;
        let bytes = state.cached.get(start..start + out.len()).ok_or(ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.0.0.lock();
        if state.faults.full_at.is_some_and(|most| length > most) {
            return Err(ErrorKind::StorageFull.into());
        }
        state.done(Op::Length(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.0.lock();
        while state.held {
            self.0.1.wait(&mut state);
        }
        if state.faults.sync == Some(Failing::Losing) {
            state.cached = state.durable.clone();
            return Err(failed("a sync"));
        }
        state.durable = state.cached.clone();
        state.syncs += 1;
        state.done(Op::Sync);
        if state.faults.sync.is_some() { Err(failed("a sync")) } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.0.lock();
        if state.faults.write {
            return Err(ErrorKind::StorageFull.into());
        }
        state.done(Op::Write(offset, data.to_vec()));
        Ok(())
    }
}
