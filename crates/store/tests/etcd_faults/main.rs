//! What becomes of a store when its etcd fails: members and leaders are killed, wires are cut and held up, history is
//! compacted away under it. The etcd program's path is in `CADASTRE_TEST_ETCD_BINARY`; `cargo xtask e2e store` runs this.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that has to give up says where")]

mod load;
mod wire;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use store::etcd::{Options, Tls};
use store::{Ended, Outcome, Range, Store, StoreError, Txn, Write};
use tempfile::TempDir;
use testkit::real::{Etcd, EtcdCluster};
use tokio::sync::{Mutex, MutexGuard};

use load::{Load, PATIENCE, create, settled};
use wire::{Passage, Wire};

/// Longer than an election takes on a busy machine.
const ELECTION: Duration = Duration::from_secs(10);

/// One cluster at a time is enough for the machine, and elections go wrong on one that is too busy.
async fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    ONE_AT_A_TIME.lock().await
}

/// The etcd program, which these tests start themselves, because they kill it.
fn binary() -> PathBuf {
    let path = std::env::var_os("CADASTRE_TEST_ETCD_BINARY");
    path.expect("CADASTRE_TEST_ETCD_BINARY must be the path of an etcd program for these tests").into()
}

/// A store on the members at these addresses.
async fn connect<A: Into<String>>(addresses: impl IntoIterator<Item = A>) -> Store {
    let options = Options { compact_every: None, ..Options::new(addresses) };
    Store::connect(options).await.unwrap()
}

/// Why there is no store with these options.
async fn reason(options: Options) -> String {
    Store::connect(options).await.err().map_or_else(|| "it connected".to_owned(), |error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_is_reached_over_tls_with_a_certificate_and_not_without() {
    let (_alone, dir) = (alone().await, TempDir::new().unwrap());
    let etcd = Etcd::start_tls(&binary(), dir.path()).unwrap();
    let files = etcd.tls().unwrap();
    let tls = Tls { ca: files.ca.clone(), identity: Some((files.certificate.clone(), files.key.clone())) };
    let options = |tls: Tls| Options { tls: Some(tls), ..Options::new([etcd.url()]) };
    let store = Store::connect(options(tls.clone())).await.unwrap();
    assert!(matches!(store.txn(create("a")).await, Ok(Outcome::Committed { .. })));
    let without = reason(options(Tls { identity: None, ..tls.clone() })).await;
    assert!(without.contains("no certificate is shown"), "{without}");
    // A certificate that is no authority's vouches for nobody.
    let stranger = reason(options(Tls { ca: files.certificate.clone(), ..tls })).await;
    assert!(stranger.contains("certificate"), "{stranger}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_loses_nothing_and_stops_nobody_for_long() {
    let (_alone, dir) = (alone().await, TempDir::new().unwrap());
    let mut cluster = EtcdCluster::start(&binary(), dir.path(), 3).unwrap();
    let store = connect(cluster.urls()).await;
    let load = Load::start(&store);
    for _ in 0..3 {
        load.more(200).await;
        let leader = cluster.leader().unwrap();
        cluster.kill_member(leader).unwrap();
        load.more(500).await;
        cluster.restart_member(leader).unwrap();
    }
    let fresh = connect(cluster.urls()).await;
    let tally = load.judge(&fresh).await;
    println!("{tally}");
    assert!(tally.outage < ELECTION, "{tally}");
    assert_eq!(store.health(), Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_moves_from_a_member_that_is_killed_to_the_next() {
    let (_alone, dir) = (alone().await, TempDir::new().unwrap());
    let mut cluster = EtcdCluster::start(&binary(), dir.path(), 3).unwrap();
    let follower = (cluster.leader().unwrap() + 1) % 3;
    // The first address is the first that is asked.
    let mut urls = cluster.urls().into_iter().map(str::to_owned).collect::<Vec<_>>();
    urls.rotate_left(follower);
    let store = connect(urls.clone()).await;
    let load = Load::start(&store);
    load.more(200).await;
    cluster.kill_member(follower).unwrap();
    load.more(500).await;
    let fresh = connect(urls).await;
    let tally = load.judge(&fresh).await;
    println!("{tally}");
    assert!(tally.outage < ELECTION / 2, "there was nothing to elect: {tally}");
    assert_eq!(store.health(), Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_moves_from_a_member_that_is_silent_to_the_next() {
    let (_alone, dir) = (alone().await, TempDir::new().unwrap());
    let cluster = EtcdCluster::start(&binary(), dir.path(), 3).unwrap();
    let (first, second) = (Wire::to(cluster.urls()[0]).await, Wire::to(cluster.urls()[1]).await);
    let store = connect([first.url(), second.url()]).await;
    let load = Load::start(&store);
    load.more(200).await;
    first.set(Passage::Held).await;
    load.more(500).await;
    let fresh = connect([second.url()]).await;
    let tally = load.judge(&fresh).await;
    println!("{tally}");
    assert!(tally.perhaps > 0, "what the silent member had is unknown");
    assert!(tally.outage < ELECTION / 2, "new creates waited for the silent member: {tally}");
    assert_eq!(store.health(), Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wire_that_is_cut_again_and_again_leaves_no_gap() {
    let (_alone, dir) = (alone().await, TempDir::new().unwrap());
    let etcd = Etcd::start(&binary(), dir.path()).unwrap();
    let wire = Wire::to(etcd.url()).await;
    let store = connect([wire.url()]).await;
    let load = Load::start(&store);
    for _ in 0..25 {
        load.more(100).await;
        wire.snip().await;
    }
    load.more(100).await;
    let fresh = connect([etcd.url()]).await;
    let tally = load.judge(&fresh).await;
    println!("{tally}");
    assert!(tally.perhaps > 0, "what was under way when the wire was cut is unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_is_killed_and_comes_back_has_everything() {
    let (_alone, dir) = (alone().await, TempDir::new().unwrap());
    let mut etcd = Etcd::start(&binary(), dir.path()).unwrap();
    let store = connect([etcd.url()]).await;
    let load = Load::start(&store);
    for _ in 0..5 {
        load.more(200).await;
        etcd.kill().unwrap();
        etcd.restart().unwrap();
    }
    load.more(200).await;
    let fresh = connect([etcd.url()]).await;
    println!("{}", load.judge(&fresh).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_refused_when_nothing_was_sent_and_unknown_when_no_answer_came() {
    let (_alone, dir) = (alone().await, TempDir::new().unwrap());
    let mut etcd = Etcd::start(&binary(), dir.path()).unwrap();
    let store = connect([etcd.url()]).await;
    etcd.kill().unwrap();
    let refused = store.txn(create("refused")).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert!(store.health().is_err());
    etcd.restart().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while let Err(why) = store.health() {
        assert!(Instant::now() < deadline, "etcd is back, but {why}");
        tokio::task::yield_now().await;
    }
    let wire = Wire::to(etcd.url()).await;
    let store = connect([wire.url()]).await;
    wire.set(Passage::Deaf).await;
    let unknown = store.txn(create("unknown")).await;
    assert!(matches!(unknown, Err(StoreError::Unknown(_))), "{unknown:?}");
    wire.snip().await;
    wire.set(Passage::Open).await;
    settled(&store).await;
    assert!(store.get("refused").is_none());
    assert!(store.get("unknown").is_some(), "the request had gone through");
    println!("{}\n{}", refused.unwrap_err(), unknown.unwrap_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn history_compacted_away_while_the_wire_was_cut_ends_watches_and_loses_no_object() {
    let (_alone, dir) = (alone().await, TempDir::new().unwrap());
    let etcd = Etcd::start(&binary(), dir.path()).unwrap();
    let wire = Wire::to(etcd.url()).await;
    let (store, other) = (connect([wire.url()]).await, connect([etcd.url()]).await);
    for key in ["a/kept", "a/deleted", "a/replaced"] {
        store.txn(create(key)).await.unwrap();
    }
    let mut watch = store.watch("a/", store.revision()).unwrap();
    wire.set(Passage::Cut).await;
    settled(&other).await;
    let removal = Write::Delete { key: "a/deleted".into() };
    let replacement = Write::Put { key: "a/replaced".into(), value: "new".into() };
    other.txn(Txn { compares: Vec::new(), writes: vec![removal, replacement] }).await.unwrap();
    other.txn(create("a/created")).await.unwrap();
    other.compact(other.revision()).await.unwrap();
    wire.set(Passage::Open).await;
    let ended = tokio::time::timeout(PATIENCE, watch.next()).await.expect("the watch goes on over the gap");
    assert_eq!(ended.map(|events| events.len()), Err(Ended::Compacted));
    let now = settled(&store).await;
    let (here, there) = (store.range(Range::default()).await.unwrap(), other.range(Range::default()).await.unwrap());
    assert_eq!(here.entries, there.entries);
    assert_eq!(here.entries.len(), 3);
    assert!(store.watch("a/", now).is_ok(), "from here on it can be watched again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hears_late_hears_everything() {
    const COUNT: usize = 400;
    let (_alone, dir) = (alone().await, TempDir::new().unwrap());
    let etcd = Etcd::start(&binary(), dir.path()).unwrap();
    let wire = Wire::to(etcd.url()).await;
    let (slow, writer) = (connect([wire.url()]).await, connect([etcd.url()]).await);
    let begin = slow.revision();
    // Many times what etcd keeps ready for a watch that does not take it, and large enough to fill the buffers between.
    wire.set(Passage::Held).await;
    let value = "x".repeat(50_000);
    for number in 0..COUNT {
        let write = Write::Put { key: format!("a/{number:04}").into(), value: value.clone().into() };
        writer.txn(Txn { compares: Vec::new(), writes: vec![write] }).await.unwrap();
    }
    wire.set(Passage::Open).await;
    settled(&slow).await;
    let mut watch = slow.watch("", begin).unwrap();
    let mut seen = Vec::new();
    while seen.len() < COUNT {
        let events = tokio::time::timeout(PATIENCE, watch.next()).await.expect("events are missing").unwrap();
        seen.extend(events.iter().map(|event| event.entry.key.to_string()));
    }
    assert!(seen.iter().enumerate().all(|(number, key)| *key == format!("a/{number:04}")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_went_back_in_time_is_not_written_to() {
    let (_alone, dir) = (alone().await, TempDir::new().unwrap());
    let mut etcd = Etcd::start(&binary(), dir.path()).unwrap();
    let store = connect([etcd.url()]).await;
    store.txn(create("a/1")).await.unwrap();
    etcd.kill().unwrap();
    let (data, kept) = (dir.path().join("etcd-0"), dir.path().join("kept"));
    copy(&data, &kept);
    etcd.restart().unwrap();
    settled(&store).await;
    for number in 2..10 {
        store.txn(create(&format!("a/{number}"))).await.unwrap();
    }
    etcd.kill().unwrap();
    fs::remove_dir_all(&data).unwrap();
    copy(&kept, &data);
    etcd.restart().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let settled = loop {
        match store.settle().await {
            Err(StoreError::Unavailable(_)) if Instant::now() < deadline => {}
            settled => break settled,
        }
    };
    assert!(matches!(settled, Err(StoreError::Corrupt(_))), "{settled:?}");
    assert!(store.health().is_err_and(|why| why.contains("older backup")));
    let refused = store.txn(create("b")).await;
    assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
    // Revisions that were seen come again with another meaning, and then there are more than were seen.
    let other = connect([etcd.url()]).await;
    while other.revision() <= store.revision() {
        other.txn(create(&format!("c/{}", other.revision()))).await.unwrap();
    }
    let settled = store.settle().await;
    assert!(matches!(settled, Err(StoreError::Corrupt(_))), "{settled:?}");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
