//! Who watches what: for each prefix that somebody watches, a ring of the events its watchers have yet to read.
//!
//! Watchers of one prefix share one ring, so an event costs the same whether one or a thousand watch it, and an event that
//! nobody watches costs a few look-ups. An event leaves the ring when its last reader took it. A ring that grows over its limit
//! cuts off its slowest watcher, at once and whether or not that watcher ever looks again, and nobody waits for anybody. Who
//! had read everything before a push is not cut off by that push, however large it is, for there was no chance to read it:
//! memory is bounded by the ring and the largest push.
//!
//! The hub does not know where events come from; the mirror pushes them, whole transactions at a time and in order.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::types::{Ended, Event};

/// The most events one [`Reader::take`] hands out, rounded up to whole transactions.
const TAKE_EVENTS: usize = 512;

/// What an event counts for beside the bytes of its value.
const EVENT_BYTES: usize = 128;

/// How far a watcher may fall behind before it is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLimits {
    /// Events that wait for it.
    pub events: usize,
    /// Bytes of those events' values.
    pub bytes: usize,
}

impl Default for WatchLimits {
    /// Some batches of puts of the largest size, so that a burst cuts off nobody who is reading.
    fn default() -> Self {
        Self { events: 16_384, bytes: 32 << 20 }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Hub {
    topics: Mutex<HashMap<Arc<str>, Arc<Topic>>>,
    limits: WatchLimits,
    watchers: AtomicUsize,
    lagged: AtomicU64,
}

/// What the watchers of one prefix share.
#[derive(Debug, Default)]
struct Topic {
    ring: Mutex<Ring>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Ring {
    slots: VecDeque<Slot>,
    bytes: usize,
    /// How many slots ever left at the front: the number of the first one that is there.
    base: u64,
    places: Vec<Place>,
    /// How many places are readers that were not cut off.
    readers: usize,
    /// Where the push that is under way began, if it pushed something here.
    fresh: Option<u64>,
    ended: Option<Ended>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// For the next who comes.
    Free,
    /// A reader, and the number of the slot that it reads next.
    At(u64),
    /// A reader that was too slow and has not left yet.
    Cut,
}

#[derive(Debug)]
struct Slot {
    event: Arc<Event>,
    /// How many watchers have yet to read it.
    unread: usize,
}

/// A place in a ring, given up when dropped.
#[derive(Debug)]
pub(crate) struct Reader {
    hub: Arc<Hub>,
    topic: Arc<Topic>,
    prefix: Arc<str>,
    place: usize,
}

/// The watchers that have something new to read. They are woken by [`Wakes::wake`], which whoever pushed calls when everything
/// that is more urgent is done.
#[must_use = "watchers sleep until they are woken"]
#[derive(Debug, Default)]
pub(crate) struct Wakes(Vec<Arc<Topic>>);

impl Wakes {
    pub(crate) fn wake(self) {
        for topic in self.0 {
            topic.wake.notify_waiters();
        }
    }
}

impl Hub {
    pub(crate) fn new(limits: WatchLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    pub(crate) fn watchers(&self) -> usize {
        self.watchers.load(Ordering::Relaxed)
    }

    pub(crate) fn lagged(&self) -> u64 {
        self.lagged.load(Ordering::Relaxed)
    }

    /// A place from which everything pushed from now on is read.
    pub(crate) fn register(self: &Arc<Self>, prefix: &str) -> Reader {
        let mut topics = self.topics.lock();
        let prefix = topics.get_key_value(prefix).map_or_else(|| prefix.into(), |(known, _)| known.clone());
        let topic = topics.entry(Arc::clone(&prefix)).or_default().clone();
        let place = topic.ring.lock().enter();
        self.watchers.fetch_add(1, Ordering::Relaxed);
        Reader { hub: self.clone(), topic, prefix, place }
    }

    /// Gives events to those who watch their keys. Whole transactions only.
    pub(crate) fn push(&self, events: &[Arc<Event>]) -> Wakes {
        let mut wakes = Wakes::default();
        let topics = self.topics.lock();
        if topics.is_empty() {
            return wakes;
        }
        for transaction in events.chunk_by(|one, next| one.revision() == next.revision()) {
            // Every ring that gets a part of the transaction stays locked until it has all of it: a reader must not see half.
            let mut rings: Vec<(&Arc<Topic>, MutexGuard<'_, Ring>)> = Vec::new();
            for event in transaction {
                for topic in prefixes(&event.entry.key).filter_map(|prefix| topics.get(prefix)) {
                    let at = rings.iter().position(|(locked, _)| Arc::ptr_eq(locked, topic)).unwrap_or_else(|| {
                        let mut ring = topic.ring.lock();
                        if ring.fresh.is_none() {
                            ring.fresh = Some(ring.end());
                            wakes.0.push(topic.clone());
                        }
                        rings.push((topic, ring));
                        rings.len() - 1
                    });
                    rings[at].1.push(event);
                }
            }
        }
        for topic in &wakes.0 {
            let mut ring = topic.ring.lock();
            let began = ring.fresh.take().unwrap_or_default();
            let cut = ring.cut_to(self.limits, began);
            self.lagged.fetch_add(cut, Ordering::Relaxed);
        }
        wakes
    }

    /// Ends every watch once it has read what was pushed so far.
    pub(crate) fn end(&self, ended: Ended) {
        let topics = std::mem::take(&mut *self.topics.lock());
        for topic in topics.into_values() {
            topic.ring.lock().ended = Some(ended);
            topic.wake.notify_waiters();
        }
    }
}

/// The prefixes under which a key may be watched: nothing, every whole segment, and itself.
fn prefixes(key: &str) -> impl Iterator<Item = &str> {
    let segments = key.bytes().enumerate().filter(|&(_, byte)| byte == b'/').map(|(at, _)| &key[..=at]);
    std::iter::once("").chain(segments).chain(std::iter::once(key))
}

fn weight(event: &Event) -> usize {
    EVENT_BYTES + event.entry.value.len()
}

impl Ring {
    fn end(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    fn enter(&mut self) -> usize {
        let here = Place::At(self.end());
        self.readers += 1;
        if let Some(free) = self.places.iter().position(|&place| place == Place::Free) {
            self.places[free] = here;
            free
        } else {
            self.places.push(here);
            self.places.len() - 1
        }
    }

    fn push(&mut self, event: &Arc<Event>) {
        // Every reader was cut off and none has noticed yet: nobody will read it.
        if self.readers == 0 {
            return;
        }
        self.bytes += weight(event);
        self.slots.push_back(Slot { event: event.clone(), unread: self.readers });
    }

    /// Cuts off the slowest of those who had not read everything before slot `began` until the ring is within its limits, and
    /// says how many that were.
    fn cut_to(&mut self, limits: WatchLimits, began: u64) -> u64 {
        let mut cut = 0;
        while self.base < began && (self.slots.len() > limits.events || self.bytes > limits.bytes) {
            // The first slot is there because somebody has yet to read it, so each round cuts off at least one.
            let slowest = Place::At(self.base);
            for place in 0..self.places.len() {
                if self.places[place] == slowest {
                    self.leave(place, Place::Cut);
                    cut += 1;
                }
            }
        }
        cut
    }

    /// From now on nothing waits for the reader at `place`, which becomes `then`.
    fn leave(&mut self, place: usize, then: Place) {
        if let Place::At(cursor) = std::mem::replace(&mut self.places[place], then) {
            self.readers -= 1;
            self.mark_read(cursor, usize::MAX);
        }
    }

    /// Up to `most` slots from `cursor` on were read by one reader; what all have read goes.
    fn mark_read(&mut self, cursor: u64, most: usize) {
        for slot in self.slots.range_mut((cursor - self.base) as usize..).take(most) {
            slot.unread -= 1;
        }
        while let Some(slot) = self.slots.pop_front_if(|slot| slot.unread == 0) {
            self.bytes -= weight(&slot.event);
            self.base += 1;
        }
    }

    /// What the reader at `place` has not read, in whole transactions, or why there will be nothing more.
    fn take(&mut self, place: usize) -> Result<Vec<Arc<Event>>, Ended> {
        let Place::At(cursor) = self.places[place] else { return Err(Ended::Lagged) };
        let waiting = self.slots.range((cursor - self.base) as usize..);
        let mut events: Vec<Arc<Event>> = Vec::with_capacity(waiting.len().min(TAKE_EVENTS));
        for slot in waiting {
            let begins = events.last().is_none_or(|last| last.revision() != slot.event.revision());
            if begins && events.len() >= TAKE_EVENTS {
                break;
            }
            events.push(slot.event.clone());
        }
        if let (true, Some(ended)) = (events.is_empty(), self.ended) {
            return Err(ended);
        }
        self.places[place] = Place::At(cursor + events.len() as u64);
        self.mark_read(cursor, events.len());
        Ok(events)
    }
}

impl Reader {
    /// Waits until there is something to read. Nothing is lost when the wait is given up.
    pub(crate) async fn take(&self) -> Result<Vec<Arc<Event>>, Ended> {
        loop {
            // Made before the look at the ring, so that a push after the look wakes it.
            let woken = self.topic.wake.notified();
            let events = self.topic.ring.lock().take(self.place)?;
            if !events.is_empty() {
                return Ok(events);
            }
            woken.await;
        }
    }

    /// Whether everything that happened was read. After an end more may have happened than was pushed.
    pub(crate) fn caught_up(&self) -> bool {
        let ring = self.topic.ring.lock();
        ring.ended.is_none() && ring.places[self.place] == Place::At(ring.end())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut topics = self.hub.topics.lock();
        let mut ring = self.topic.ring.lock();
        ring.leave(self.place, Place::Free);
        self.hub.watchers.fetch_sub(1, Ordering::Relaxed);
        if ring.readers == 0 && topics.get(&self.prefix).is_some_and(|topic| Arc::ptr_eq(topic, &self.topic)) {
            topics.remove(&self.prefix);
        }
    }
}
