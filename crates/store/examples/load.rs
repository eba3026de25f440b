//! Measures the embedded store: `cargo run --release -p store --example load -- DIR [TASKS] [PUTS]`.
//!
//! Tasks put objects of 1 KB one after the other, as clients do who wait for each answer; then the store is opened again.

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use store::embedded::Options;
use store::{Store, Txn, Write};
use tokio::task::JoinSet;

const VALUE_BYTES: usize = 1024;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir: PathBuf = arguments.next().ok_or("say in which directory")?.into();
    let tasks: usize = arguments.next().map_or(Ok(64), |text| text.parse())?;
    let puts: usize = arguments.next().map_or(Ok(100_000), |text| text.parse())?;

    let store = Store::open(&dir, Options::default())?;
    let mut value = br#"{"metadata":{"resourceVersion":""},"data":""#.to_vec();
    value.resize(VALUE_BYTES, b'x');
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for task in 0..tasks {
        let (store, value) = (store.clone(), bytes::Bytes::from(value.clone()));
        clients.spawn(async move {
            let mut took = Vec::new();
            for number in 0..puts / tasks {
                let key = format!("configmaps/default/{task}-{number}").into();
                let begun = Instant::now();
                store.txn(Txn { compares: Vec::new(), writes: vec![Write::Put { key, value: value.clone() }] }).await?;
                took.push(begun.elapsed());
            }
            Ok::<_, store::StoreError>(took)
        });
    }
    let mut took: Vec<Duration> = Vec::new();
    while let Some(done) = clients.join_next().await {
        took.extend(done??);
    }
    let elapsed = started.elapsed();
    took.sort();
    let (rate, last) = (took.len() as u128 * 1_000_000 / elapsed.as_micros().max(1), took.len() - 1);
    println!("{tasks} tasks: {rate} puts/s, p50 {:?}, p99 {:?}", took[last / 2], took[last * 99 / 100]);
    let stats = store.stats();
    let each = Duration::from_nanos(stats.commit_nanos / stats.commits.max(1));
    println!("{} commits of {} transactions each, {each:?} each", stats.commits, stats.txns / stats.commits.max(1));
    println!("{} objects, file {} MB", stats.objects, stats.file_bytes >> 20);
    store.close().await;
    drop(store);
    let started = Instant::now();
    let store = Store::open(&dir, Options::default())?;
    println!("opened after a clean close in {:?}: {} objects", started.elapsed(), store.stats().objects);
    // What a kill leaves: the file as it is while the store is open.
    let killed = dir.join("killed");
    std::fs::create_dir_all(&killed)?;
    std::fs::copy(dir.join("store.redb"), killed.join("store.redb"))?;
    let started = Instant::now();
    let other = Store::open(&killed, Options::default())?;
    println!("opened after a kill in {:?}: {} objects", started.elapsed(), other.stats().objects);
    Ok(())
}
