//! Group commit and what belongs to it: batches, watchers that are too slow, retention.

use std::time::Duration;

use super::disk::Disk;
use super::{put, write};
use crate::embedded::Options;
use crate::{Compare, Ended, Outcome, Retention, Revision, Txn, WatchLimits};

#[tokio::test]
async fn what_waits_during_a_sync_is_committed_together() {
    let disk = Disk::with_store();
    let store = disk.open(Options::default());
    write(&store, vec![put("a", "1")]).await.unwrap();
    let before = store.stats();
    disk.hold();
    let first = tokio::spawn({
        let store = store.clone();
        async move { write(&store, vec![put("first", "1")]).await }
    });
    // The first one may or may not be alone in its batch; all others wait while a sync is held.
    let others: Vec<_> = (0..200)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { write(&store, vec![put(&format!("others/{number}"), "1")]).await })
        })
        .collect();
    // Every task has put its transaction in the queue once it was run, and the runtime runs them in turns.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    disk.let_go();
    first.await.unwrap().unwrap();
    for other in others {
        other.await.unwrap().unwrap();
    }
    let after = store.stats();
    assert_eq!(after.txns - before.txns, 201);
    assert!(after.commits - before.commits <= 3, "201 transactions took {} commits", after.commits - before.commits);
    assert!(after.largest_batch >= 67, "the largest batch had {}", after.largest_batch);
}

#[tokio::test]
async fn a_batch_decides_each_transaction_after_the_ones_before_it() {
    let disk = Disk::with_store();
    let store = disk.open(Options::default());
    let begin = write(&store, vec![put("a", "0")]).await.unwrap();
    disk.hold();
    // All compare with the same revision, in one or two batches; exactly one of them can win.
    let rivals: Vec<_> = (0..50)
        .map(|rival| {
            let store = store.clone();
            let compares = vec![Compare::At("a".into(), begin)];
            let writes = vec![put("a", format!("{rival}")), put(&format!("b/{rival}"), "won")];
            tokio::spawn(async move { store.txn(Txn { compares, writes }).await.unwrap() })
        })
        .collect();
    tokio::task::yield_now().await;
    disk.let_go();
    let (mut won, mut lost) = (0, 0);
    for rival in rivals {
        match rival.await.unwrap() {
            Outcome::Committed { .. } => won += 1,
            Outcome::Refused { compare, current } => {
                let current = current.unwrap();
                assert_eq!((compare, current.revision), (0, begin.next()), "the loser is told what is there now");
                assert_eq!(store.get("a").unwrap(), current, "and what it is told is durable");
                lost += 1;
            }
        }
    }
    assert_eq!((won, lost, store.revision()), (1, 49, begin.next()));
}

#[tokio::test]
async fn a_watcher_that_is_too_slow_is_cut_off_and_the_others_are_not() {
    let limits = WatchLimits { events: 20, bytes: 1 << 20 };
    let store = Disk::with_store().open(Options { watch: limits, ..Options::default() });
    let begin = store.revision();
    let mut slow = store.watch("a/", begin).unwrap();
    let mut quick = store.watch("a/", begin).unwrap();
    let mut elsewhere = store.watch("b/", begin).unwrap();
    for round in 0..30 {
        write(&store, vec![put("a/x", format!("{round}"))]).await.unwrap();
        assert_eq!(quick.next().await.unwrap().len(), 1);
    }
    assert_eq!(store.stats().lagged, 1);
    assert_eq!(slow.next().await.unwrap_err(), Ended::Lagged);
    assert_eq!(slow.progress(), None, "it is not through to anything");
    assert_eq!(elsewhere.progress(), Some(store.revision()), "who sees none of it is not touched");
    drop((slow, quick));
    assert_eq!(store.stats().watchers, 1);
    write(&store, vec![put("b/x", "1")]).await.unwrap();
    assert_eq!(elsewhere.next().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_watcher_is_cut_off_by_bytes_as_well() {
    let limits = WatchLimits { events: 1000, bytes: 10_000 };
    let store = Disk::with_store().open(Options { watch: limits, ..Options::default() });
    let mut slow = store.watch("a", store.revision()).unwrap();
    for _ in 0..12 {
        write(&store, vec![put("a", vec![b'x'; 1000])]).await.unwrap();
    }
    assert_eq!(slow.next().await.unwrap_err(), Ended::Lagged);
}

#[tokio::test]
async fn a_watch_reads_a_long_history_in_pieces_and_misses_nothing() {
    let store = Disk::with_store().open(Options::default());
    let begin = store.revision();
    for round in 0..200_u32 {
        let writes = (0..100).map(|at| put(&format!("a/{at}"), format!("{round}")));
        write(&store, writes.collect()).await.unwrap();
    }
    let mut watch = store.watch("a/", begin).unwrap();
    assert_eq!(watch.progress(), None, "20,000 events are not handed out at once");
    let mut seen = Vec::new();
    while seen.len() < 20_000 {
        // What happens meanwhile comes after the history.
        write(&store, vec![put("a/new", "v")]).await.unwrap();
        seen.extend(watch.next().await.unwrap().iter().map(|event| event.revision()));
    }
    assert!(seen.is_sorted());
    let until = seen.iter().take_while(|revision| revision.0 <= begin.0 + 200).count();
    assert_eq!(until, 20_000);
}

#[tokio::test]
async fn history_beyond_the_retention_goes_by_itself_from_memory_and_disk() {
    let retention = Retention { age: Duration::ZERO, events: 50, bytes: usize::MAX };
    let disk = Disk::with_store();
    let store = disk.open(Options { retention, ..Options::default() });
    for round in 0..500 {
        write(&store, vec![put(&format!("a/{}", round % 10), format!("{round}"))]).await.unwrap();
    }
    let last = store.revision();
    // Compaction follows the writes; a last request for what is due already waits until it is there.
    store.compact(Revision(last.0 - 60)).await.unwrap();
    assert!(store.stats().log_events <= 200, "{} events are kept", store.stats().log_events);
    assert!(store.compacted() >= Revision(last.0 - 200));
    store.close().await;
    let again = disk.open(Options::default());
    let events = again.stats().log_events;
    assert!(events <= 200, "{events} events are on disk");
    assert_eq!((again.stats().objects, again.revision()), (10, last));
}
