//! What is to be done: each task once, never twice at the same time, and some of it not before its time.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;

use tokio::time::Instant;

/// Tasks that wait, that are under way, and that are due later.
#[derive(Debug)]
pub(super) struct Queue<T> {
    ready: VecDeque<T>,
    waiting: HashSet<T>,
    /// Those under way, and whether each is to be done once more after that.
    running: HashMap<T, bool>,
    /// Due later; the number tells those of one instant apart.
    later: BTreeMap<(Instant, u64), T>,
    times: HashMap<T, (Instant, u64)>,
    next: u64,
}

impl<T: Clone + Eq + Hash> Queue<T> {
    pub(super) fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            waiting: HashSet::new(),
            running: HashMap::new(),
            later: BTreeMap::new(),
            times: HashMap::new(),
            next: 0,
        }
    }

    /// To be done now, or once more after it is done.
    pub(super) fn now(&mut self, task: T) {
        if let Some(time) = self.times.remove(&task) {
            self.later.remove(&time);
        }
        match self.running.get_mut(&task) {
            Some(again) => *again = true,
            None if self.waiting.insert(task.clone()) => self.ready.push_back(task),
            None => {}
        }
    }

    /// To be done at that time, or earlier if that was said before.
    pub(super) fn at(&mut self, time: Instant, task: T) {
        if self.waiting.contains(&task) || self.times.get(&task).is_some_and(|known| known.0 <= time) {
            return;
        }
        if let Some(time) = self.times.remove(&task) {
            self.later.remove(&time);
        }
        self.next += 1;
        self.times.insert(task.clone(), (time, self.next));
        self.later.insert((time, self.next), task);
    }

    /// When the next task is due that waits for its time.
    pub(super) fn due(&self) -> Option<Instant> {
        self.later.first_key_value().map(|((time, _), _)| *time)
    }

    /// Makes ready what is due.
    pub(super) fn advance(&mut self, now: Instant) {
        while let Some(first) = self.later.first_entry() {
            if first.key().0 > now {
                return;
            }
            let task = first.remove();
            self.now(task);
        }
    }

    /// The next task, which is under way from now on.
    pub(super) fn take(&mut self) -> Option<T> {
        let task = self.ready.pop_front()?;
        self.waiting.remove(&task);
        self.running.insert(task.clone(), false);
        Some(task)
    }

    /// A task is done.
    pub(super) fn done(&mut self, task: &T) {
        if self.running.remove(task) == Some(true) {
            self.now(task.clone());
        }
    }

    /// How many are under way.
    pub(super) fn under_way(&self) -> usize {
        self.running.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_task_waits_once_and_runs_alone() {
        let mut queue = Queue::new();
        queue.now("a");
        queue.now("a");
        assert_eq!((queue.take(), queue.take()), (Some("a"), None));
        queue.now("a");
        assert_eq!(queue.take(), None, "it is under way");
        queue.done(&"a");
        assert_eq!(queue.take(), Some("a"), "it was asked for once more");
        queue.done(&"a");
        assert_eq!((queue.take(), queue.under_way()), (None, 0));
    }

    #[test]
    fn what_is_due_later_comes_at_its_time_or_when_it_is_urgent() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut queue = Queue::new();
        queue.at(at(5), "a");
        queue.at(at(9), "a");
        queue.at(at(3), "b");
        assert_eq!(queue.due(), Some(at(3)));
        queue.advance(at(4));
        assert_eq!((queue.take(), queue.take()), (Some("b"), None));
        queue.now("a");
        assert_eq!((queue.take(), queue.due()), (Some("a"), None), "it does not come again");
    }
}
