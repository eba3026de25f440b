//! Damaged files: damage is found and said, or it is in a part that nobody needs; wrong data is never served.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::disk::Disk;
use super::{delete, put, state, write};
use crate::embedded::file::database_path;
use crate::embedded::{OpenError, Options, check};
use crate::{Revision, Store};

/// A store at rest with objects that are replaced a few times, and its file.
async fn at_rest() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    for round in 0..200 {
        write(&store, vec![put(&format!("kind/{}", round % 50), format!("value number {round} {}", "x".repeat(500)))])
            .await
            .unwrap();
    }
    store.close().await;
    let path = database_path(dir.path());
    (dir, path)
}

fn open(dir: &Path) -> Result<Store, OpenError> {
    Store::open(dir, Options::default())
}

#[tokio::test]
async fn a_sound_store_is_found_sound_and_left_as_it_is() {
    let (dir, path) = at_rest().await;
    let before = fs::read(&path).unwrap();
    let report = check(dir.path()).unwrap();
    assert!(report.is_sound(), "{report}");
    assert_eq!((report.records, report.revision.0, report.objects["kind"]), (200, 201, 50));
    assert!(report.to_string().contains("sound"));
    assert!(fs::read(&path).unwrap() == before, "a check changes nothing");
}

#[tokio::test]
async fn a_store_that_was_not_closed_is_checked_without_being_repaired() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path()).unwrap();
    write(&store, vec![put("a", "1")]).await.unwrap();
    // The file of a store that is open is what a kill leaves.
    let copy = dir.path().join("copy");
    fs::copy(database_path(dir.path()), &copy).unwrap();
    let before = fs::read(&copy).unwrap();
    let report = check(&copy).unwrap();
    assert!(report.is_sound(), "{report}");
    assert_eq!(report.objects["a"], 1);
    assert!(fs::read(&copy).unwrap() == before);
}

#[tokio::test]
async fn a_compacted_store_has_the_records_of_what_is_there_and_no_others() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path()).unwrap();
    for round in 0..300 {
        let mut writes = vec![put(&format!("a/{}", round % 20), "v"), put(&format!("b/{}", round % 7), "v")];
        if round % 5 == 0 {
            writes.push(delete(&format!("a/{}", (round + 3) % 20)));
        }
        write(&store, writes).await.unwrap();
    }
    let middle = Revision(store.revision().0 / 2);
    store.compact(middle).await.unwrap();
    store.close().await;
    let report = check(dir.path()).unwrap();
    assert!(report.is_sound() && report.compacted == middle, "{report}");

    let store = open(dir.path()).unwrap();
    store.compact(store.revision()).await.unwrap();
    let objects = store.stats().objects;
    store.close().await;
    let report = check(dir.path()).unwrap();
    assert!(report.is_sound(), "{report}");
    assert_eq!((report.records, report.objects.values().sum::<usize>()), (objects, objects));
}

#[tokio::test]
async fn a_flipped_bit_in_a_value_is_found_when_opened_and_when_checked() {
    let (dir, path) = at_rest().await;
    let good = fs::read(&path).unwrap();
    let marks = memchr::memmem::find_iter(&good, b"value number 199 ").collect::<Vec<_>>();
    assert!(!marks.is_empty());
    let mut bad = good;
    for mark in marks {
        bad[mark + 100] ^= 1;
    }
    fs::write(&path, &bad).unwrap();
    match check(dir.path()) {
        Ok(report) => assert!(report.flaws.iter().any(|flaw| flaw.contains("revision 201")), "{report}"),
        Err(error) => assert!(matches!(error, OpenError::Corrupt { .. }), "{error}"),
    }
    assert!(fs::read(&path).unwrap() == bad, "a check changes nothing");
    let refused = open(dir.path()).unwrap_err();
    assert!(matches!(&refused, OpenError::Corrupt { what, .. } if what.contains("revision 201")), "{refused}");
}

#[tokio::test]
async fn a_file_that_was_cut_short_is_never_taken_for_whole() {
    let (dir, path) = at_rest().await;
    let good = fs::read(&path).unwrap();
    let whole = state(&open(dir.path()).unwrap()).await;
    for part in 0..32 {
        let length = good.len() * part / 32;
        fs::write(&path, &good[..length]).unwrap();
        match open(dir.path()) {
            Ok(store) => assert_eq!(state(&store).await, whole, "cut to {length} of {}", good.len()),
            Err(error) => assert!(matches!(error, OpenError::Corrupt { .. }), "cut to {length}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_flipped_bit_anywhere_is_found_or_harmless() {
    let (_dir, path) = at_rest().await;
    let good = fs::read(&path).unwrap();
    let whole = state(&Disk::from_image(good.clone()).open(Options::default())).await;
    let (mut found, mut harmless) = (0, 0);
    let mut random = 0x0123_4567_89ab_cdef_u64;
    for round in 0..400_usize {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // The first pages are few and matter most.
        let bound = if round % 4 == 0 { 8192 } else { good.len() };
        let (at, bit) = ((random >> 8) as usize % bound, random % 8);
        let mut bad = good.clone();
        bad[at] ^= 1 << bit;
        match Disk::from_image(bad).try_open(Options::default()) {
            Ok(store) => {
                assert_eq!(state(&store).await, whole, "bit {bit} of byte {at}");
                harmless += 1;
            }
            Err(_) => found += 1,
        }
    }
    assert!(found > 0 && harmless > 0, "{found} found, {harmless} harmless");
}
