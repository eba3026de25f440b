//! The rings: who gets what, who is cut off, and that nothing is kept for anybody who is gone.

use bytes::Bytes;

use super::*;
use crate::types::{Entry, Revision};

fn event(key: &str, revision: u64, bytes: usize) -> Arc<Event> {
    let value = Bytes::from(vec![b'x'; bytes]);
    let entry = Entry::stamped(key.into(), &value, Revision(revision), Revision(revision), 0);
    Arc::new(Event::put(Arc::new(entry), None))
}

fn hub(events: usize, bytes: usize) -> Arc<Hub> {
    Arc::new(Hub::new(WatchLimits { events, bytes }))
}

fn take(reader: &Reader) -> Result<Vec<u64>, Ended> {
    let taken = reader.topic.ring.lock().take(reader.place);
    taken.map(|events| events.iter().map(|event| event.revision().0).collect())
}

fn kept(reader: &Reader) -> (usize, usize) {
    let ring = reader.topic.ring.lock();
    (ring.slots.len(), ring.bytes)
}

#[test]
fn a_key_is_watched_under_each_of_its_prefixes() {
    assert_eq!(prefixes("a/b/c").collect::<Vec<_>>(), ["", "a/", "a/b/", "a/b/c"]);
    assert_eq!(prefixes("a").collect::<Vec<_>>(), ["", "a"]);
}

#[test]
fn an_event_is_kept_until_its_last_reader_took_it() {
    let hub = hub(100, 10_000);
    let (one, other) = (hub.register("a/"), hub.register("a/"));
    hub.push(&[event("a/x", 1, 10), event("b/x", 1, 10), event("a/y", 2, 10)]).wake();
    assert_eq!(take(&one), Ok(vec![1, 2]));
    assert_eq!((take(&one), kept(&one).0), (Ok(vec![]), 2));
    assert!(one.caught_up() && !other.caught_up());
    assert_eq!(take(&other), Ok(vec![1, 2]));
    assert_eq!(kept(&other), (0, 0));
}

#[test]
fn a_reader_that_leaves_takes_along_what_only_it_had_to_read() {
    let hub = hub(100, 10_000);
    let (one, other) = (hub.register("a/"), hub.register("a/"));
    hub.push(&[event("a/x", 1, 10)]).wake();
    assert_eq!(take(&one), Ok(vec![1]));
    drop(other);
    assert_eq!(kept(&one), (0, 0));
    drop(one);
    assert!(hub.topics.lock().is_empty(), "a topic without readers is gone");
    assert_eq!(hub.watchers(), 0);
}

#[test]
fn the_slowest_is_cut_off_and_what_was_kept_for_it_is_freed_at_once() {
    let hub = hub(3, usize::MAX);
    let (slow, quick) = (hub.register("a/"), hub.register("a/"));
    for revision in 1..=3 {
        hub.push(&[event("a/x", revision, 10)]).wake();
        assert_eq!(take(&quick), Ok(vec![revision]));
    }
    assert_eq!((kept(&quick).0, hub.lagged()), (3, 0));
    hub.push(&[event("a/x", 4, 10)]).wake();
    assert_eq!((kept(&quick).0, hub.lagged()), (1, 1), "what is left is for the other one");
    assert_eq!((take(&slow), take(&quick)), (Err(Ended::Lagged), Ok(vec![4])));
    hub.push(&[event("a/x", 5, 10)]).wake();
    assert_eq!(take(&quick), Ok(vec![5]));
    assert_eq!(kept(&quick), (0, 0), "nothing is kept for who was cut off");
}

#[test]
fn the_place_of_one_who_was_cut_off_is_not_given_away() {
    let hub = hub(1, usize::MAX);
    let slow = hub.register("a/");
    hub.push(&[event("a/x", 1, 10)]).wake();
    hub.push(&[event("a/x", 2, 10)]).wake();
    let new = hub.register("a/");
    hub.push(&[event("a/x", 3, 10)]).wake();
    assert_eq!((take(&slow), take(&new)), (Err(Ended::Lagged), Ok(vec![3])));
    drop(slow);
    let third = hub.register("a/");
    hub.push(&[event("a/x", 4, 10)]).wake();
    assert_eq!((take(&new), take(&third)), (Ok(vec![4]), Ok(vec![4])));
}

#[test]
fn bytes_cut_off_as_events_do() {
    let hub = hub(100, 2 * (1000 + EVENT_BYTES));
    let slow = hub.register("a");
    hub.push(&[event("a", 1, 1000), event("a", 2, 1000)]).wake();
    assert_eq!(hub.lagged(), 0);
    hub.push(&[event("a", 3, 1000)]).wake();
    assert_eq!((take(&slow), hub.lagged(), kept(&slow)), (Err(Ended::Lagged), 1, (0, 0)));
}

#[test]
fn one_large_push_cuts_off_only_who_was_behind_before_it() {
    let hub = hub(3, 10_000);
    let (slow, quick) = (hub.register("a/"), hub.register("a/"));
    hub.push(&[event("a/x", 1, 10)]).wake();
    assert_eq!(take(&quick), Ok(vec![1]));
    let large: Vec<_> = (2..50).map(|revision| event("a/x", revision, 1000)).collect();
    hub.push(&large).wake();
    assert_eq!((take(&slow), hub.lagged()), (Err(Ended::Lagged), 1));
    let late = hub.register("a/");
    hub.push(&[event("a/x", 50, 10)]).wake();
    assert_eq!((take(&quick), take(&late)), (Err(Ended::Lagged), Ok(vec![50])), "now there was a chance to read");

    hub.push(&large).wake();
    assert_eq!(take(&late), Ok((2..50).collect()), "who had read everything has all of it");
    assert_eq!((kept(&late), hub.lagged()), ((0, 0), 2));
}

#[test]
fn a_take_never_ends_inside_a_transaction() {
    let hub = hub(usize::MAX, usize::MAX);
    let reader = hub.register("");
    let mut events: Vec<_> = (0..TAKE_EVENTS as u64 - 1).map(|revision| event("a", revision, 1)).collect();
    let last = TAKE_EVENTS as u64;
    events.extend((0..100).map(|at| event(&format!("b/{at}"), last, 1)));
    events.push(event("c", last + 1, 1));
    hub.push(&events).wake();
    let first = take(&reader).unwrap();
    assert_eq!((first.len(), first.last()), (TAKE_EVENTS - 1 + 100, Some(&last)));
    assert_eq!(take(&reader), Ok(vec![last + 1]));
}

#[test]
fn an_end_comes_after_what_was_pushed_before_it() {
    let hub = hub(100, 10_000);
    let reader = hub.register("a");
    hub.push(&[event("a", 1, 1)]).wake();
    hub.end(Ended::Compacted);
    assert_eq!((take(&reader), take(&reader)), (Ok(vec![1]), Err(Ended::Compacted)));
    assert!(!reader.caught_up(), "what happened after the end is not known here");
    let new = hub.register("a");
    hub.push(&[event("a", 2, 1)]).wake();
    assert_eq!((take(&new), take(&reader)), (Ok(vec![2]), Err(Ended::Compacted)), "who comes later is not ended");
}

#[tokio::test]
async fn a_reader_that_waits_is_woken_and_one_that_gave_up_lost_nothing() {
    let hub = hub(100, 10_000);
    let reader = hub.register("a");
    for revision in 1..50 {
        let given_up = tokio::time::timeout(std::time::Duration::ZERO, reader.take()).await;
        assert!(given_up.is_err());
        let (taken, ()) = tokio::join!(reader.take(), async { hub.push(&[event("a", revision, 1)]).wake() });
        assert_eq!(taken.unwrap()[0].revision(), Revision(revision));
    }
}
