//! The writer: the one thread that decides transactions and makes them durable.
//!
//! It takes all transactions that wait, decides them in order against the mirror and what the batch itself has changed so
//! far, writes what they change in one database transaction, syncs, and only then shows it to readers and answers. While one
//! batch is synced the next one gathers.
//!
//! When a commit fails, nobody is told anything before the file was opened again and read: either the batch is there and is
//! acknowledged, or it is not and was definitely not written. While the file cannot be opened writes are refused with the
//! reason, reads go on, and every further attempt tries again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redb::{Database, ReadTransaction, ReadableDatabase};
use tokio::sync::oneshot;

use super::batch::{Batch, Change, Decision, Step};
use super::figures::Figures;
use super::file::{self, Contents, HISTORY, Medium, OpenError};
use super::queue::{Queue, Wait};
use super::record::Record;
use crate::mirror::Mirror;
use crate::retention::{Ageing, Retention};
use crate::types::{Outcome, Revision, StoreError, Txn};

/// The most transactions in one batch.
const BATCH_TXNS: usize = 1024;

/// The most bytes in one batch, beyond its first transaction: a batch of large ones must not keep small ones waiting.
const BATCH_BYTES: usize = 4 << 20;

/// How long a batch waits for those who are likely to come. Without it clients that write in a row fall into two halves, each
/// waiting for the sync of the other.
const GATHER: Duration = Duration::from_micros(200);

/// How long the writer sleeps when there is nothing to do before it looks at what is due by time.
const IDLE: Duration = Duration::from_secs(1);

/// How many events a step of compaction drops beside a batch: at least this, and twice what the batch adds, so that
/// compaction keeps up with any load without being felt by it.
const STEP_LEAST: usize = 64;

/// How many events it drops when nothing else is to be done.
const STEP_IDLE: usize = 2048;

pub(crate) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer is asked to do.
pub(crate) enum Job {
    Txn(Txn, Reply<Outcome>),
    Compact(Revision, Reply<()>),
    /// Everything that was acknowledged before, to be read at leisure.
    Snapshot(Reply<ReadTransaction>),
}

impl Job {
    fn refuse(self, error: StoreError) {
        match self {
            Self::Txn(_, reply) => answer(reply, Err(error)),
            Self::Compact(_, reply) => answer(reply, Err(error)),
            Self::Snapshot(reply) => answer(reply, Err(error)),
        }
    }
}

/// Whoever asked may have stopped waiting; that is no concern of the writer.
fn answer<T>(reply: Reply<T>, with: Result<T, StoreError>) {
    drop(reply.send(with));
}

pub(crate) struct Writer {
    path: PathBuf,
    medium: Box<dyn Medium>,
    disk: Disk,
    mirror: Arc<Mirror>,
    figures: Arc<Figures>,
    ageing: Ageing,
    /// How far to compact.
    target: Revision,
    compacting: Vec<(Revision, Reply<()>)>,
    /// The last commit failed: writes may still not work.
    failing: bool,
}

enum Disk {
    Open(Database),
    /// It could not be opened again; a batch may be in it or not.
    Shut {
        doubt: Option<Batch>,
    },
}

impl Writer {
    pub(crate) fn new(
        path: PathBuf,
        medium: Box<dyn Medium>,
        database: Database,
        mirror: Arc<Mirror>,
        figures: Arc<Figures>,
        retention: Retention,
    ) -> Self {
        let disk = Disk::Open(database);
        let (ageing, target) = (Ageing::new(retention), mirror.compacted());
        Self { path, medium, disk, mirror, figures, ageing, target, compacting: Vec::new(), failing: false }
    }

    /// Works until the queue is closed and empty.
    pub(crate) fn run(mut self, queue: &Queue<Job>) {
        // Clients that were just answered tend to ask again at once, and those who came meanwhile wait already.
        let mut company = 0;
        loop {
            if let Some(due) = self.ageing.due(Instant::now(), &self.mirror) {
                self.target = self.target.max(due);
            }
            let behind = self.target > self.mirror.compacted() && !self.failing;
            let wait = Wait { first: if behind { Duration::ZERO } else { IDLE }, company, gather: GATHER };
            match queue.take(BATCH_TXNS, BATCH_BYTES, wait) {
                None => break,
                Some(jobs) if jobs.is_empty() && !behind && !self.failing => company = 0,
                Some(jobs) => {
                    let answered = jobs.len();
                    self.work(jobs);
                    company = answered + queue.len();
                }
            }
        }
        for (_, reply) in self.compacting {
            answer(reply, Err(StoreError::Closed));
        }
    }

    fn work(&mut self, jobs: Vec<Job>) {
        // Decisions need the mirror to be what is on disk.
        if let Err(why) = self.ensure_open() {
            for job in jobs {
                job.refuse(StoreError::Unavailable(why.clone()));
            }
            return;
        }
        let mut batch = Batch::new(self.mirror.revision(), self.mirror.compacted());
        let mut replies = Vec::with_capacity(jobs.len());
        let mut snapshots = Vec::new();
        for job in jobs {
            match job {
                Job::Txn(txn, reply) => match batch.decide(txn, &self.mirror) {
                    Decision::Final(outcome) => answer(reply, Ok(outcome)),
                    Decision::WithBatch(outcome) => replies.push((reply, outcome)),
                },
                Job::Compact(to, reply) => {
                    self.target = self.target.max(to);
                    self.compacting.push((to, reply));
                }
                Job::Snapshot(reply) => snapshots.push(reply),
            }
        }
        batch.step = self.next_step(batch.events.len());
        self.carry_out(batch, replies);
        self.answer_compacted();
        for reply in snapshots {
            answer(reply, self.snapshot());
        }
    }

    fn next_step(&self, events: usize) -> Option<Step> {
        if self.target <= self.mirror.compacted() {
            return None;
        }
        let most = if events == 0 { STEP_IDLE } else { STEP_LEAST.max(2 * events) };
        let (events, to) = self.mirror.oldest(self.target, most);
        Some(Step::dropping(&events, to))
    }

    /// Makes a batch durable, shows it, and answers.
    fn carry_out(&mut self, batch: Batch, replies: Vec<(Reply<Outcome>, Outcome)>) {
        // After a failure an empty batch is written too: it tells whether writes work again.
        if batch.is_empty() && !self.failing {
            for (reply, outcome) in replies {
                answer(reply, Ok(outcome));
            }
            return;
        }
        let started = Instant::now();
        match self.commit(&batch) {
            Ok(()) => {
                self.figures.committed(batch.txns, started.elapsed());
                self.failing = false;
                self.figures.set_health(None);
                self.show(batch, replies);
            }
            Err(why) => self.recover(batch, replies, &why),
        }
    }

    fn commit(&self, batch: &Batch) -> Result<(), String> {
        let Disk::Open(database) = &self.disk else { return Err("the file is not open".to_owned()) };
        let written = catch_unwind(AssertUnwindSafe(|| write(database, batch)));
        written.unwrap_or_else(|panic| Err(file::panic_text(&*panic)))
    }

    /// Shows a batch that is durable to readers, answers, and wakes the watchers.
    fn show(&self, batch: Batch, replies: Vec<(Reply<Outcome>, Outcome)>) {
        let wakes = self.mirror.apply(batch.events, batch.revision);
        for (reply, outcome) in replies {
            answer(reply, Ok(outcome));
        }
        wakes.wake();
        if let Some(step) = batch.step {
            self.mirror.compact(step.to);
        }
    }

    /// Finds out what became of a batch whose commit failed.
    fn recover(&mut self, batch: Batch, replies: Vec<(Reply<Outcome>, Outcome)>, why: &str) {
        tracing::error!(path = %self.path.display(), why, "a commit failed; the file is opened again");
        self.figures.failed();
        self.failing = true;
        self.figures.set_health(Some(format!("writing {} failed: {why}", self.path.display())));
        self.disk = Disk::Shut { doubt: None };
        match self.reopen(Some(batch)) {
            Ok(landed) => {
                for (reply, outcome) in replies {
                    answer(reply, if landed { Ok(outcome) } else { Err(StoreError::Unavailable(why.to_owned())) });
                }
            }
            Err(shut) => {
                let absent = self.is_doubt_absent();
                for (reply, _) in replies {
                    let why = format!("{why}; then {shut}");
                    answer(reply, Err(if absent { StoreError::Unavailable(why) } else { StoreError::Unknown(why) }));
                }
            }
        }
    }

    /// Whether the batch that is in doubt is certainly not in a file that can be read but not opened. That it is there could
    /// not be said like this: what is read may not have been synced.
    fn is_doubt_absent(&mut self) -> bool {
        let Disk::Shut { doubt } = &mut self.disk else { return false };
        let peeked = file::guarded(&self.path, || {
            let contents = Contents::of(&self.path, &self.medium.peek()?)?;
            Ok((contents.revision(&self.path)?, contents.compacted))
        });
        let absent = peeked
            .is_ok_and(|(revision, compacted)| doubt.as_ref().is_none_or(|batch| !batch.landed(revision, compacted)));
        if absent {
            *doubt = None;
        }
        absent
    }

    fn ensure_open(&mut self) -> Result<(), String> {
        if let Disk::Shut { doubt } = &mut self.disk {
            let doubt = doubt.take();
            self.reopen(doubt)?;
        }
        Ok(())
    }

    /// Opens the file and says whether the batch that was in doubt is in it; if it is, it is shown.
    fn reopen(&mut self, doubt: Option<Batch>) -> Result<bool, String> {
        match self.open_again(doubt.as_ref()) {
            Ok((database, landed)) => {
                self.disk = Disk::Open(database);
                if let Some(batch) = doubt.filter(|_| landed) {
                    self.show(batch, Vec::new());
                }
                Ok(landed)
            }
            Err(error) => {
                let why = error.to_string();
                tracing::error!(path = %self.path.display(), why, "the file could not be opened again");
                self.figures.set_health(Some(why.clone()));
                self.disk = Disk::Shut { doubt };
                Err(why)
            }
        }
    }

    fn open_again(&self, doubt: Option<&Batch>) -> Result<(Database, bool), OpenError> {
        self.medium.forget_cached();
        let database = file::guarded(&self.path, || self.medium.open())?;
        let (revision, compacted) = file::guarded(&self.path, || {
            let contents = Contents::of(&self.path, &database)?;
            Ok((contents.revision(&self.path)?, contents.compacted))
        })?;
        let shown = self.mirror.revision();
        let landed = doubt.is_some_and(|batch| batch.landed(revision, compacted));
        let expected = doubt.filter(|_| landed).map_or(shown, |batch| batch.revision);
        if revision != expected {
            let what =
                format!("it is at revision {revision} and should be at {expected}: acknowledged writes are not in it");
            return Err(OpenError::corrupt(&self.path, what));
        }
        Ok((database, landed))
    }

    fn answer_compacted(&mut self) {
        let (compacted, failing) = (self.mirror.compacted(), self.failing);
        for (to, reply) in std::mem::take(&mut self.compacting) {
            if to <= compacted {
                answer(reply, Ok(()));
            } else if failing {
                answer(reply, Err(StoreError::Unavailable("the compaction could not be written".to_owned())));
            } else {
                self.compacting.push((to, reply));
            }
        }
    }

    fn snapshot(&self) -> Result<ReadTransaction, StoreError> {
        let unavailable = |why: String| StoreError::Unavailable(why);
        let Disk::Open(database) = &self.disk else { return Err(unavailable("the file is not open".to_owned())) };
        database.begin_read().map_err(|error| unavailable(error.to_string()))
    }
}

/// One database transaction with everything a batch changes, synced when it returns.
fn write(database: &Database, batch: &Batch) -> Result<(), String> {
    let written = || -> Result<(), redb::Error> {
        // As long as somebody reads what was there before, the pages that this commit frees are left to the next one, which frees
        // them on its way. Otherwise they are freed by a second, small commit before this one returns, and everybody waits for it.
        let before = database.begin_read()?;
        // Without quick repair: it makes a commit take half as long again, and what it saves after a crash is a walk through
        // the file that opening does anyway.
        let write = database.begin_write()?;
        {
            let mut history = write.open_table(HISTORY)?;
            for Change { place, created, key, value } in &batch.changes {
                let record = Record { created: *created, key, value: value.as_deref() };
                let mut room = history.insert_reserve(place, record.len())?;
                record.write(*place, room.as_mut());
            }
            for place in batch.step.iter().flat_map(|step| &step.dead) {
                history.remove(place)?;
            }
        }
        let compacted = batch.step.as_ref().map_or(batch.compacted, |step| step.to);
        if batch.step.is_some() || batch.changes.is_empty() {
            file::note_compacted(&write, compacted)?;
        }
        write.commit()?;
        drop(before);
        Ok(())
    };
    written().map_err(|error| error.to_string())
}
