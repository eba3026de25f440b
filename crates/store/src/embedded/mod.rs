//! The embedded backend: one redb file, one writer, group commit, fsync before the reply.
//!
//! The file holds the history and nothing else: one record per write, in order. The live state is rebuilt from it at open, and
//! all reads are answered from memory, so the file is only ever appended to, pruned by compaction, and copied by a backup.

mod backup;
mod batch;
mod check;
mod figures;
mod file;
mod load;
mod overlay;
mod queue;
mod record;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tokio::sync::oneshot;

pub use backup::{backup, restore};
pub use check::{Report, check};
pub use file::{DirLock, OpenError, sync_name};

use figures::Figures;
use file::{Contents, FileMedium, Medium};
use queue::Queue;
use writer::{Job, Writer};

use crate::hub::WatchLimits;
use crate::mirror::Mirror;
use crate::retention::Retention;
use crate::types::{Outcome, Page, Range, RangeError, Revision, Stats, StoreError, Txn};
use crate::{Answer, Backend, Store};

/// How an embedded store is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How far a watcher may fall behind.
    pub watch: WatchLimits,
    /// How much history is kept.
    pub retention: Retention,
}

impl Store {
    /// Opens the store in a data directory, and makes an empty one where there is none. This reads everything that is stored
    /// and takes a moment; the directory stays locked until the store is closed.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        let lock = DirLock::take(dir)?;
        file::ensure(dir)?;
        let path = file::database_path(dir);
        let medium = Box::new(FileMedium(path.clone()));
        Self::open_on(path, medium, Some(lock), options)
    }

    fn open_on(
        path: PathBuf,
        medium: Box<dyn Medium>,
        lock: Option<DirLock>,
        options: Options,
    ) -> Result<Self, OpenError> {
        let database = file::guarded(&path, || medium.open())?;
        let mirror = Arc::new(file::guarded(&path, || {
            let contents = Contents::of(&path, &database)?;
            load::load(&path, &contents, options.watch)
        })?);
        let queue = Arc::new(Queue::new());
        let figures = Arc::new(Figures::default());
        let writer = Writer::new(path.clone(), medium, database, mirror.clone(), figures.clone(), options.retention);
        let jobs = queue.clone();
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || {
                let _abandoned = Abandon(&jobs);
                writer.run(&jobs);
                drop(lock);
            })
            .map_err(OpenError::io("start the writer of", &path))?;
        let embedded = Embedded { path, mirror: mirror.clone(), queue, figures, thread: Mutex::new(Some(thread)) };
        Ok(Self::new(mirror, Arc::new(embedded)))
    }
}

/// Lets nobody wait for a writer that is gone, however it went.
struct Abandon<'a>(&'a Queue<Job>);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// The caller's side of the writer.
struct Embedded {
    path: PathBuf,
    mirror: Arc<Mirror>,
    queue: Arc<Queue<Job>>,
    figures: Arc<Figures>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Embedded {
    /// Has the writer do a job and waits for its answer.
    async fn ask<T>(
        &self,
        bytes: usize,
        job: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Job,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.queue.put(job(reply), bytes).await.map_err(|_| StoreError::Closed)?;
        // The writer answers every job before it stops; if it did not, it died over one.
        answer.await.unwrap_or_else(|_| Err(StoreError::Unknown("the store's writer has died".to_owned())))
    }

    fn stop(&self) -> Option<JoinHandle<()>> {
        self.queue.close();
        self.thread.lock().take()
    }
}

impl Backend for Embedded {
    fn txn(&self, txn: Txn) -> Answer<'_, Result<Outcome, StoreError>> {
        let bytes = txn.bytes();
        Box::pin(self.ask(bytes, |reply| Job::Txn(txn, reply)))
    }

    fn settle(&self) -> Answer<'_, Result<Revision, StoreError>> {
        // The mirror has every transaction before it is acknowledged, and there is no other replica.
        Box::pin(std::future::ready(Ok(self.mirror.revision())))
    }

    fn past_range<'a>(&'a self, _: Range<'a>, oldest: Revision) -> Answer<'a, Result<Page, RangeError>> {
        Box::pin(std::future::ready(Err(RangeError::Compacted { oldest })))
    }

    fn compact(&self, to: Revision) -> Answer<'_, Result<(), StoreError>> {
        Box::pin(self.ask(0, move |reply| Job::Compact(to, reply)))
    }

    fn backup<'a>(&'a self, to: &'a Path) -> Answer<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let read = self.ask(0, Job::Snapshot).await?;
            let (from, to) = (self.path.clone(), to.to_owned());
            let copied = tokio::task::spawn_blocking(move || backup::copy(&from, &read, &to)).await;
            match copied {
                Ok(copied) => copied.map_err(|error| StoreError::Unavailable(error.to_string())),
                Err(error) => Err(StoreError::Unavailable(format!("the backup stopped: {error}"))),
            }
        })
    }

    fn health(&self) -> Result<(), String> {
        match &*self.thread.lock() {
            Some(thread) if thread.is_finished() => Err("the store's writer has died".to_owned()),
            Some(_) => self.figures.health(),
            None => Err(StoreError::Closed.to_string()),
        }
    }

    fn stats(&self, stats: &mut Stats) {
        self.figures.fill(stats);
        stats.file_bytes = std::fs::metadata(&self.path).map_or(0, |file| file.len());
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            if let Some(thread) = self.stop() {
                let joined = tokio::task::spawn_blocking(move || thread.join()).await;
                if !matches!(joined, Ok(Ok(()))) {
                    tracing::error!("the store's writer did not stop cleanly");
                }
            }
        })
    }
}

impl Drop for Embedded {
    /// Waits for the writer, at most one commit, so that the file is free for whoever opens it next.
    fn drop(&mut self) {
        if let Some(thread) = self.stop()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer did not stop cleanly");
        }
    }
}
