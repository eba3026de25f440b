//! Backup under load, and restore.

use std::collections::BTreeMap;
use std::fs;

use bytes::Bytes;
use tempfile::TempDir;

use super::{put, state, write};
use crate::embedded::{OpenError, Options, backup, check, restore};
use crate::{RangeError, Revision, Store, StoreError};

fn open(dir: &std::path::Path) -> Store {
    Store::open(dir, Options::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_is_one_moment_of_the_store() {
    let dir = TempDir::new().unwrap();
    let (data, target) = (dir.path().join("data"), dir.path().join("backup"));
    let store = open(&data);
    // Two keys that are always written together tell whether a copy is one moment.
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            let mut history = BTreeMap::new();
            for round in 0..600 {
                let writes = vec![put("a/left", round.to_string()), put("b/right", round.to_string())];
                history.insert(write(&store, writes).await.unwrap(), round.to_string());
            }
            history
        }
    });
    assert!(store.reached(Revision(100), std::time::Duration::from_mins(1)).await);
    store.backup(&target).await.unwrap();
    let at_most = store.revision();
    let history = writer.await.unwrap();
    let report = check(&target).unwrap();
    assert!(report.is_sound(), "{report}");
    assert!(report.revision >= Revision(100) && report.revision <= at_most, "{report}");

    let restored_dir = dir.path().join("restored");
    let restored_report = restore(&target, &restored_dir).unwrap();
    assert!(restored_report.is_sound(), "{restored_report}");
    let restored = open(&restored_dir);
    let value = Bytes::from(history[&report.revision].clone());
    let expected = ["a/left", "b/right"].map(|key| (key.to_owned(), (report.revision, value.clone())));
    assert_eq!(state(&restored).await, BTreeMap::from(expected));
}

#[tokio::test]
async fn a_restored_store_never_gives_an_old_revision_a_new_meaning() {
    let dir = TempDir::new().unwrap();
    let (data, target) = (dir.path().join("data"), dir.path().join("backup"));
    let store = open(&data);
    let kept = write(&store, vec![put("a", "kept")]).await.unwrap();
    store.backup(&target).await.unwrap();
    let forgotten = write(&store, vec![put("a", "forgotten")]).await.unwrap();
    store.close().await;

    let other = dir.path().join("other");
    restore(&target, &other).unwrap();
    let restored = open(&other);
    let entry = restored.get("a").unwrap();
    assert_eq!((entry.revision, &entry.value[..]), (kept, &b"kept"[..]));
    assert!(restored.revision() > forgotten, "no revision comes twice");
    let resumed = restored.watch("", forgotten).map(|_| ());
    assert!(matches!(resumed, Err(RangeError::Compacted { .. })), "who saw what is forgotten starts over: {resumed:?}");
    assert!(write(&restored, vec![put("a", "new")]).await.unwrap() > restored.compacted());
}

#[tokio::test]
async fn a_backup_of_a_store_at_rest_writes_nothing_to_its_directory() {
    let dir = TempDir::new().unwrap();
    let (data, target) = (dir.path().join("data"), dir.path().join("backup"));
    let store = open(&data);
    let revision = write(&store, vec![put("a", "1")]).await.unwrap();
    let refused = backup(&data, &target).unwrap_err();
    assert!(matches!(refused, OpenError::InUse(_)), "{refused}");
    store.close().await;
    let files = || {
        let files = fs::read_dir(&data).unwrap().map(|file| file.unwrap());
        let mut files: Vec<_> = files.map(|file| (file.path(), file.metadata().unwrap().modified().unwrap())).collect();
        files.sort_unstable();
        files
    };
    let before = files();
    let report = backup(&data, &target).unwrap();
    assert_eq!(files(), before);
    assert_eq!((report.path, report.revision), (target.clone(), revision));
    let refused = backup(&data, &target).unwrap_err();
    assert!(matches!(refused, OpenError::Present(_)), "{refused}");
    let absent = backup(&dir.path().join("absent"), &dir.path().join("other")).unwrap_err();
    assert!(matches!(absent, OpenError::Absent(_)), "{absent}");
}

#[tokio::test]
async fn nothing_that_is_there_is_overwritten() {
    let dir = TempDir::new().unwrap();
    let (data, target) = (dir.path().join("data"), dir.path().join("backup"));
    let store = open(&data);
    write(&store, vec![put("a", "1")]).await.unwrap();
    fs::write(&target, "something").unwrap();
    let refused = store.backup(&target).await;
    assert!(matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("there already")), "{refused:?}");
    assert_eq!(fs::read(&target).unwrap(), b"something");

    let good = dir.path().join("good");
    store.backup(&good).await.unwrap();
    let refused = restore(&good, &data).unwrap_err();
    assert!(matches!(refused, OpenError::InUse(_)), "{refused}");
    store.close().await;
    let refused = restore(&good, &data).unwrap_err();
    assert!(matches!(refused, OpenError::Present(_)), "{refused}");
    drop(store);
    assert!(open(&data).get("a").is_some(), "the store that was there is as it was");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "nothing unfinished is left: {left:?}");
}

#[tokio::test]
async fn a_damaged_backup_is_not_restored() {
    let dir = TempDir::new().unwrap();
    let (data, target) = (dir.path().join("data"), dir.path().join("backup"));
    let store = open(&data);
    write(&store, vec![put("a", "a value that can be found again")]).await.unwrap();
    store.backup(&target).await.unwrap();
    let mut bytes = fs::read(&target).unwrap();
    let at = memchr::memmem::find(&bytes, b"found again").unwrap();
    bytes[at] ^= 1;
    fs::write(&target, bytes).unwrap();
    let refused = restore(&target, &dir.path().join("other")).unwrap_err();
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
    assert!(!dir.path().join("other/store.redb").exists());
    let absent = restore(&dir.path().join("absent"), &dir.path().join("other")).unwrap_err();
    assert!(matches!(absent, OpenError::Absent(_)), "{absent}");
}
