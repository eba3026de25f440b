//! Opening: what is not a store, or not ours to open, is said and left alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use redb::{Database, TableDefinition};
use tempfile::TempDir;

use super::{put, write};
use crate::Store;
use crate::embedded::file::{META, database_path};
use crate::embedded::{OpenError, Options, check};

fn open(dir: &TempDir) -> Result<Store, OpenError> {
    Store::open(dir.path(), Options::default())
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn only_the_owner_can_read_what_is_made() {
    let parent = TempDir::new().unwrap();
    let dir = parent.path().join("data/store");
    let store = Store::open(&dir, Options::default()).unwrap();
    store.backup(&parent.path().join("backup")).await.unwrap();
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&database_path(&dir)), 0o600);
    assert_eq!(mode(&dir.join("store.lock")), 0o600);
    assert_eq!(mode(&parent.path().join("backup")), 0o600);
}

#[tokio::test]
async fn a_store_is_open_once() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir).unwrap();
    let refused = open(&dir).unwrap_err();
    assert!(matches!(refused, OpenError::InUse(_)), "{refused}");
    assert!(matches!(check(dir.path()), Err(OpenError::InUse(_))), "a check needs it at rest");
    write(&store, vec![put("a", "1")]).await.unwrap();
    store.close().await;
    let again = open(&dir).unwrap();
    assert!(again.get("a").is_some());
    drop((again, store));
    open(&dir).expect("a store that was dropped is free as well");
}

#[test]
fn a_file_in_the_place_of_the_directory_is_said() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "text").unwrap();
    let refused = Store::open(&path, Options::default()).unwrap_err();
    assert!(matches!(refused, OpenError::NotADirectory(_)), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), b"text");
}

#[test]
fn a_place_that_cannot_be_written_is_said() {
    // Nobody, not even root, makes directories there.
    let refused = Store::open(std::path::Path::new("/proc/cadastre"), Options::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Io { .. }), "{refused}");
    assert!(refused.to_string().contains("/proc/cadastre"), "{refused}");
}

#[test]
fn the_file_of_another_program_is_left_alone() {
    let dir = TempDir::new().unwrap();
    let path = database_path(dir.path());
    fs::write(&path, "some other program's file that is rather long").unwrap();
    let refused = open(&dir).unwrap_err();
    assert!(matches!(refused, OpenError::Foreign(_)), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), b"some other program's file that is rather long");

    fs::remove_file(&path).unwrap();
    let database = Database::create(&path).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(TableDefinition::<u64, u64>::new("meta")).unwrap().insert(1, 1).unwrap();
    write.commit().unwrap();
    drop(database);
    let refused = open(&dir).unwrap_err();
    assert!(matches!(refused, OpenError::Foreign(_)), "{refused}");
}

#[test]
fn an_empty_file_is_not_taken_for_a_new_store() {
    let dir = TempDir::new().unwrap();
    fs::write(database_path(dir.path()), "").unwrap();
    let refused = open(&dir).unwrap_err();
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
}

#[tokio::test]
async fn a_format_of_another_version_is_said() {
    let dir = TempDir::new().unwrap();
    open(&dir).unwrap().close().await;
    let database = Database::create(database_path(dir.path())).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(META).unwrap().insert("format", 7).unwrap();
    write.commit().unwrap();
    drop(database);
    let refused = open(&dir).unwrap_err();
    assert!(matches!(refused, OpenError::Format { found: 7, .. }), "{refused}");
    assert!(refused.to_string().contains("format 7"), "{refused}");
}

#[tokio::test]
async fn what_was_left_by_a_crash_while_it_was_made_is_in_nobodys_way() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("store.redb.new"), "half of a new store").unwrap();
    let store = open(&dir).unwrap();
    write(&store, vec![put("a", "1")]).await.unwrap();
    assert!(!dir.path().join("store.redb.new").exists());
}
