//! The gate: many who want to know how things are now share one question.
//!
//! An answer is good for everybody who came before it was asked for. Whoever comes while a question is under way waits for
//! the next one, because the answer to this one may be older than the caller's wish.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Lets questions through one at a time.
#[derive(Debug)]
pub(super) struct Gate<T> {
    queue: Mutex<Queue<T>>,
}

#[derive(Debug)]
struct Queue<T> {
    /// Somebody asks, and goes on asking while there are those who wait.
    busy: bool,
    waiting: Vec<oneshot::Sender<T>>,
}

impl<T: Clone + Send + 'static> Gate<T> {
    pub(super) const fn new() -> Self {
        Self { queue: Mutex::new(Queue { busy: false, waiting: Vec::new() }) }
    }

    /// The answer to a question that is asked after this call. `None` when the runtime stops before there is one.
    pub(super) async fn pass<F>(self: &Arc<Self>, ask: impl Fn() -> F + Send + 'static) -> Option<T>
    where
        F: Future<Output = T> + Send,
    {
        let (tell, told) = oneshot::channel();
        let idle = {
            let mut queue = self.queue.lock();
            queue.waiting.push(tell);
            !std::mem::replace(&mut queue.busy, true)
        };
        if idle {
            // A task of its own: a caller that gives up must not take the question of the others with it.
            let gate = self.clone();
            tokio::spawn(async move {
                while let Some(waiting) = gate.next() {
                    let answer = ask().await;
                    for tell in waiting {
                        // One that gave up does not listen any more.
                        let _ = tell.send(answer.clone());
                    }
                }
            });
        }
        told.await.ok()
    }

    fn next(&self) -> Option<Vec<oneshot::Sender<T>>> {
        let mut queue = self.queue.lock();
        queue.busy = !queue.waiting.is_empty();
        queue.busy.then(|| std::mem::take(&mut queue.waiting))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// Questions that are numbered, and answered when the test lets them.
    struct Asked {
        gate: Arc<Gate<u32>>,
        count: Arc<AtomicU32>,
        answers: Arc<Semaphore>,
    }

    impl Asked {
        fn new() -> Self {
            Self { gate: Arc::new(Gate::new()), count: Arc::default(), answers: Arc::new(Semaphore::new(0)) }
        }

        fn come(&self) -> impl Future<Output = Option<u32>> + Send + use<> {
            let (gate, count, answers) = (self.gate.clone(), self.count.clone(), self.answers.clone());
            async move {
                gate.pass(move || {
                    let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                    let answers = answers.clone();
                    async move {
                        answers.acquire().await.unwrap().forget();
                        number
                    }
                })
                .await
            }
        }

        async fn until_asked(&self, count: u32) {
            while self.count.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn who_comes_while_a_question_is_under_way_gets_the_answer_to_the_next() {
        let asked = Asked::new();
        let first = tokio::spawn(asked.come());
        asked.until_asked(1).await;
        let later: Vec<_> = (0..50).map(|_| tokio::spawn(asked.come())).collect();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        asked.answers.add_permits(2);
        assert_eq!(first.await.unwrap(), Some(1));
        for one in later {
            assert_eq!(one.await.unwrap(), Some(2), "all of them share one question");
        }
        assert_eq!(asked.count.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_caller_that_gives_up_does_not_take_the_question_with_it() {
        let asked = Asked::new();
        let first = tokio::spawn(asked.come());
        asked.until_asked(1).await;
        let second = tokio::spawn(asked.come());
        first.abort();
        asked.answers.add_permits(2);
        assert_eq!(second.await.unwrap(), Some(2));
        asked.answers.add_permits(1);
        assert_eq!(asked.come().await, Some(3), "the gate is open again");
    }
}
