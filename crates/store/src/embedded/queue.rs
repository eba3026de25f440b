//! The queue in front of the writer: bounded by bytes, taken out many at a time.
//!
//! Callers wait for room without a thread; the writer takes everything that waits, up to the limits of a batch, under one
//! hold of the lock. That is what makes group commit: while one batch is synced the next one gathers here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What one unit of room stands for.
const UNIT_BYTES: usize = 1024;

/// What may wait in the queue in all.
const QUEUE_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct Queue<J> {
    room: Arc<Semaphore>,
    state: Mutex<State<J>>,
    filled: Condvar,
}

#[derive(Debug)]
struct State<J> {
    jobs: VecDeque<(J, usize, OwnedSemaphorePermit)>,
    /// How many jobs the writer sleeps for.
    wanted: usize,
    closed: bool,
}

/// How long the writer waits for jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// For a first one.
    pub(crate) first: Duration,
    /// Then for others, so that they share a sync: until there are so many,
    pub(crate) company: usize,
    /// or for so long.
    pub(crate) gather: Duration,
}

/// The queue takes nothing any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueClosed;

impl<J> Queue<J> {
    pub(crate) fn new() -> Self {
        Self {
            room: Arc::new(Semaphore::new(QUEUE_BYTES / UNIT_BYTES)),
            state: Mutex::new(State { jobs: VecDeque::new(), wanted: 1, closed: false }),
            filled: Condvar::new(),
        }
    }

    /// Waits for room and puts a job in that carries so many bytes.
    pub(crate) async fn put(&self, job: J, bytes: usize) -> Result<(), QueueClosed> {
        let units = (bytes / UNIT_BYTES + 1).min(QUEUE_BYTES / UNIT_BYTES);
        let permit = self.room.clone().acquire_many_owned(units as u32).await.map_err(|_| QueueClosed)?;
        let mut state = self.state.lock();
        if state.closed {
            return Err(QueueClosed);
        }
        state.jobs.push_back((job, bytes, permit));
        // Once per batch, not once per job: waking a thread costs more than anything else here.
        let enough = state.jobs.len() == state.wanted;
        drop(state);
        if enough {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// How many jobs wait.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().jobs.len()
    }

    /// Takes out what waits, at most `most` jobs and, beyond the first, at most `bytes`. `None`: the queue is closed and empty.
    pub(crate) fn take(&self, most: usize, bytes: usize, wait: Wait) -> Option<Vec<J>> {
        let mut state = self.state.lock();
        self.sleep(&mut state, 1, wait.first);
        if !state.jobs.is_empty() {
            self.sleep(&mut state, wait.company, wait.gather);
        }
        if state.jobs.is_empty() {
            return (!state.closed).then(Vec::new);
        }
        let mut carried = 0;
        let fits = state.jobs.iter().take(most).take_while(|(_, size, _)| {
            carried += size;
            carried <= bytes
        });
        let count = fits.count().max(1);
        Some(state.jobs.drain(..count).map(|(job, _, _)| job).collect())
    }

    /// Sleeps until there are so many jobs, for so long at most.
    fn sleep(&self, state: &mut MutexGuard<'_, State<J>>, jobs: usize, most: Duration) {
        if most.is_zero() {
            return;
        }
        state.wanted = jobs;
        let few = |state: &mut State<J>| state.jobs.len() < jobs && !state.closed;
        self.filled.wait_while_for(state, few, most);
    }

    /// Takes nothing any more; what waits is still handed out.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.room.close();
        self.filled.notify_one();
    }
}

impl<J> Queue<J> {
    /// Closes it for good: what waits is dropped.
    pub(crate) fn abandon(&self) {
        self.close();
        self.state.lock().jobs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes what is there.
    const NO_WAIT: Wait = Wait { first: Duration::ZERO, company: 0, gather: Duration::ZERO };

    async fn filled(sizes: &[usize]) -> Queue<usize> {
        let queue = Queue::new();
        for (job, &size) in sizes.iter().enumerate() {
            queue.put(job, size).await.unwrap();
        }
        queue
    }

    #[tokio::test]
    async fn a_batch_keeps_to_its_limits_but_takes_at_least_one() {
        let queue = filled(&[10, 10, 10, 500, 10]).await;
        assert_eq!(queue.take(2, 1000, NO_WAIT), Some(vec![0, 1]));
        assert_eq!(queue.take(9, 100, NO_WAIT), Some(vec![2]));
        assert_eq!(queue.take(9, 100, NO_WAIT), Some(vec![3]));
        assert_eq!(queue.take(9, 100, NO_WAIT), Some(vec![4]));
        assert_eq!(queue.take(9, 100, NO_WAIT), Some(vec![]));
    }

    #[tokio::test]
    async fn a_closed_queue_hands_out_what_it_has_and_takes_nothing() {
        let queue = filled(&[1, 1]).await;
        queue.close();
        assert_eq!(queue.put(9, 1).await, Err(QueueClosed));
        assert_eq!(queue.take(9, 100, Wait { first: Duration::from_mins(1), ..NO_WAIT }), Some(vec![0, 1]));
        assert_eq!(queue.take(9, 100, Wait { first: Duration::from_mins(1), ..NO_WAIT }), None);
    }

    #[tokio::test]
    async fn what_does_not_fit_waits_until_there_is_room() {
        let queue = filled(&[QUEUE_BYTES]).await;
        let mut waiting = std::pin::pin!(queue.put(1, 1));
        assert!(futures_pending(waiting.as_mut()).await);
        assert_eq!(queue.take(9, usize::MAX, NO_WAIT), Some(vec![0]));
        assert_eq!(waiting.await, Ok(()));
    }

    #[tokio::test]
    async fn the_writer_waits_for_company_but_not_for_ever() {
        let queue = Arc::new(filled(&[1]).await);
        let gather = |company, gather| Wait { first: Duration::ZERO, company, gather };
        let writer = std::thread::spawn({
            let queue = queue.clone();
            move || queue.take(9, 100, gather(3, Duration::from_mins(1)))
        });
        queue.put(1, 1).await.unwrap();
        queue.put(2, 1).await.unwrap();
        assert_eq!(writer.join().unwrap(), Some(vec![0, 1, 2]));
        queue.put(3, 1).await.unwrap();
        assert_eq!(queue.take(9, 100, gather(2, Duration::from_millis(1))), Some(vec![3]));
    }

    async fn futures_pending<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
        let mut future = Some(future);
        std::future::poll_fn(|context| {
            let pending = future.take().is_some_and(|future| future.poll(context).is_pending());
            std::task::Poll::Ready(pending)
        })
        .await
    }
}
