//! Disks that fail while the store runs: nothing that was acknowledged is lost, nothing that was refused is there, reads go on,
//! and when the disk works again so does the store.

use std::time::{Duration, Instant};

use super::disk::{Disk, Failing, Faults};
use super::{put, state, write};
use crate::embedded::Options;
use crate::{StoreError, What};

const FULL: Faults = Faults { full_at: Some(0), write: true, sync: None, read: false, deadly: false };

/// Each test runs with both: the file cannot grow, and nothing at all can be written.
async fn a_failing_disk(faults: impl Fn(&Disk) -> Faults) {
    let disk = Disk::with_store();
    let store = disk.open(Options::default());
    let acknowledged = write(&store, vec![put("a", "1")]).await.unwrap();
    disk.set(faults(&disk));
    let mut refused = None;
    let mut written = 0;
    // A file that cannot grow still has some room in it.
    for round in 0..20_000 {
        match write(&store, vec![put(&format!("b/{round}"), vec![b'x'; 2000])]).await {
            Ok(_) => written += 1,
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let refused = refused.expect("a full disk must refuse writes");
    assert!(
        matches!(&refused, StoreError::Unavailable(why) if why.contains("storage") || why.contains("sync")),
        "{refused}"
    );
    assert!(store.health().is_err_and(|why| !why.is_empty()), "the store says why it cannot write");
    assert_eq!(store.get("a").unwrap().revision, acknowledged, "reads go on");
    assert_eq!(store.revision().0, acknowledged.0 + written, "what was refused took no revision");
    assert!(store.stats().failed_commits >= 1);
    let before = state(&store).await;

    disk.set(Faults::default());
    let after = write(&store, vec![put("c", "3")]).await.unwrap();
    assert_eq!(after.0, acknowledged.0 + written + 1);
    assert_eq!(store.health(), Ok(()), "writes work again");
    store.close().await;

    let again = Disk::from_image(disk.durable()).open(Options::default());
    let mut expected = before;
    expected.insert("c".to_owned(), (after, "3".into()));
    assert_eq!(state(&again).await, expected, "what was acknowledged is there and nothing else");
}

#[tokio::test]
async fn a_disk_that_is_full_refuses_writes_and_loses_nothing() {
    a_failing_disk(|disk| Faults { full_at: Some(disk.length()), ..Faults::default() }).await;
}

#[tokio::test]
async fn a_disk_that_cannot_be_written_refuses_writes_and_loses_nothing() {
    a_failing_disk(|_| FULL).await;
}

#[tokio::test]
async fn a_sync_that_fails_and_loses_refuses_the_write() {
    a_failing_disk(|_| Faults { sync: Some(Failing::Losing), ..Faults::default() }).await;
}

#[tokio::test]
async fn a_sync_that_fails_but_keeps_is_found_out() {
    let disk = Disk::with_store();
    let store = disk.open(Options::default());
    let first = write(&store, vec![put("a", "1")]).await.unwrap();
    disk.set(Faults { sync: Some(Failing::Keeping), ..Faults::default() });
    let answer = write(&store, vec![put("a", "2")]).await;
    let durable = Disk::from_image(disk.durable()).open(Options::default());
    match answer {
        // It was read back from a file that could be opened again.
        Ok(revision) => assert_eq!(durable.get("a").unwrap().revision, revision),
        Err(StoreError::Unavailable(_)) => assert_eq!(durable.get("a").unwrap().revision, first),
        // Opening needs a sync too, so it may not be known before the disk works again.
        Err(StoreError::Unknown(_)) => {}
        Err(other) => panic!("{other}"),
    }
    disk.set(Faults::default());
    let last = write(&store, vec![put("b", "3")]).await.unwrap();
    assert_eq!(store.health(), Ok(()));
    let shown = state(&store).await;
    store.close().await;
    let again = Disk::from_image(disk.durable()).open(Options::default());
    assert_eq!(state(&again).await, shown, "readers saw what is on disk");
    assert_eq!(again.revision(), last);
}

#[tokio::test]
async fn a_write_in_doubt_is_shown_when_it_turns_out_to_be_there() {
    let disk = Disk::with_store();
    let store = disk.open(Options::default());
    let before = store.revision();
    let mut watch = store.watch("", before).unwrap();
    disk.set(Faults { sync: Some(Failing::Keeping), read: true, ..Faults::default() });
    let doubtful = write(&store, vec![put("a", "1"), put("b", "1")]).await;
    assert!(matches!(doubtful, Err(StoreError::Unknown(_))), "{doubtful:?}");
    let refused = write(&store, vec![put("c", "2")]).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert_eq!((store.revision(), store.get("a")), (before, None), "nothing is shown that is not certain");
    assert!(store.health().is_err());

    disk.set(Faults::default());
    let after = write(&store, vec![put("d", "3")]).await.unwrap();
    assert_eq!(after.0, before.0 + 2, "the write in doubt was there and has its revision");
    assert!(store.get("a").is_some() && store.get("c").is_none());
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.extend(watch.next().await.unwrap().iter().map(|event| (event.entry.key.to_string(), event.what)));
    }
    assert_eq!(seen, ["a", "b", "d"].map(|key| (key.to_owned(), What::Put)), "watches see it too, in its order");
}

#[tokio::test]
async fn a_store_whose_writer_died_says_so() {
    let disk = Disk::with_store();
    let store = disk.open(Options::default());
    write(&store, vec![put("a", "1")]).await.unwrap();
    disk.set(Faults { write: true, deadly: true, ..Faults::default() });
    let last = write(&store, vec![put("a", "2")]).await;
    assert!(matches!(last, Err(StoreError::Unknown(_))), "{last:?}");
    // The thread ends a moment after it has answered.
    let deadline = Instant::now() + Duration::from_secs(10);
    while store.health() != Err("the store's writer has died".to_owned()) {
        assert!(Instant::now() < deadline, "{:?}", store.health());
        tokio::task::yield_now().await;
    }
    assert_eq!(write(&store, vec![put("a", "3")]).await, Err(StoreError::Closed));
    assert!(store.get("a").is_some(), "reads go on");
}

#[tokio::test]
async fn a_compaction_that_fails_says_so_and_can_be_tried_again() {
    let disk = Disk::with_store();
    let store = disk.open(Options::default());
    for round in 0..10 {
        write(&store, vec![put("a", format!("{round}"))]).await.unwrap();
    }
    let to = store.revision();
    disk.set(FULL);
    let refused = store.compact(to).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert!(store.compacted() < to);
    disk.set(Faults::default());
    store.compact(to).await.unwrap();
    assert_eq!(store.compacted(), to);
    assert_eq!(store.health(), Ok(()));
}
