//! The conformance suite on a real etcd, whose address is in `CADASTRE_TEST_ETCD`, and what only a store on etcd promises
//! while nothing fails. `cargo xtask e2e store` starts one and runs this; without etcd the tests are not built.
//!
//! The etcd must be the tests' own: they compact it. Each store has a prefix of its own, and one test runs at a time,
//! because the revisions of all of them are one sequence.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that has to give up says where")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use store::conformance::{Answer, CASES, Ground};
use store::etcd::Options;
use store::{Compare, Outcome, Range, RangeError, Retention, Revision, Store, Txn, Write};
use tokio::sync::{Mutex, MutexGuard};

const PATIENCE: Duration = Duration::from_secs(20);

fn address() -> String {
    std::env::var("CADASTRE_TEST_ETCD").expect("CADASTRE_TEST_ETCD must be the address of an etcd for these tests")
}

async fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    ONE_AT_A_TIME.lock().await
}

/// Options for a store that nobody else has.
fn options() -> Options {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let mut nonce = [0; 8];
    getrandom::fill(&mut nonce).unwrap();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let prefix = format!("/cadastre-test/{:016x}/{number}", u64::from_ne_bytes(nonce));
    Options { prefix, compact_every: None, ..Options::new([address()]) }
}

async fn connect(options: &Options) -> Store {
    Store::connect(options.clone()).await.unwrap()
}

async fn put(store: &Store, key: &str, value: &str) -> Revision {
    let write = Write::Put { key: key.into(), value: value.to_owned().into() };
    match store.txn(Txn { compares: Vec::new(), writes: vec![write] }).await.unwrap() {
        Outcome::Committed { revision, .. } => revision,
        other @ Outcome::Refused { .. } => panic!("{other:?}"),
    }
}

async fn delete(store: &Store, key: &str) -> Revision {
    let write = Write::Delete { key: key.into() };
    match store.txn(Txn { compares: Vec::new(), writes: vec![write] }).await.unwrap() {
        Outcome::Committed { revision, .. } => revision,
        other @ Outcome::Refused { .. } => panic!("{other:?}"),
    }
}

struct OnEtcd(Options);

impl Ground for OnEtcd {
    fn open(&self) -> Answer<'_, Result<Store, String>> {
        Box::pin(async { Store::connect(self.0.clone()).await.map_err(|error| error.to_string()) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_on_etcd_conforms() {
    let _alone = alone().await;
    let mut broken = Vec::new();
    for case in CASES {
        match (case.run)(&OnEtcd(options())).await {
            Ok(()) => println!("{} ... ok", case.name),
            Err(what) => broken.push(format!("{}: {what}", case.name)),
        }
    }
    assert!(broken.is_empty(), "{} of {} cases:\n{}", broken.len(), CASES.len(), broken.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_replica_reads_what_another_wrote_once_it_settled() {
    let _alone = alone().await;
    let options = options();
    let (here, there) = (connect(&options).await, connect(&options).await);
    for round in 0..200 {
        let wrote = put(&here, "a/b", &round.to_string()).await;
        let settled = there.settle().await.unwrap();
        assert!(settled >= wrote, "settled at {settled} before {wrote}");
        assert_eq!(there.get("a/b").unwrap().value, round.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_refused_because_nothing_is_there_reads_that_nothing_is_there() {
    let _alone = alone().await;
    let options = options();
    let (here, there) = (connect(&options).await, connect(&options).await);
    for round in 0..200 {
        let wrote = put(&here, "namespace", &round.to_string()).await;
        assert!(there.reached(wrote, PATIENCE).await);
        let deleting = tokio::spawn({
            let here = here.clone();
            async move { delete(&here, "namespace").await }
        });
        // As soon as it is refused.
        let create = Txn {
            compares: vec![Compare::Exists("namespace".into())],
            writes: vec![Write::Put { key: "namespace/object".into(), value: "v".into() }],
        };
        while !matches!(there.txn(create.clone()).await.unwrap(), Outcome::Refused { current: None, .. }) {}
        assert!(there.get("namespace").is_none(), "it was refused for what cannot be seen");
        deleting.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settling_does_not_wait_for_events_when_the_last_revision_is_foreign() {
    let _alone = alone().await;
    let (ours, foreign) = (connect(&options()).await, connect(&options()).await);
    for _ in 0..50 {
        let wrote = put(&foreign, "x", "v").await;
        let settled =
            tokio::time::timeout(PATIENCE, ours.settle()).await.expect("it waits for an event that never comes");
        assert!(settled.unwrap() >= wrote);
        assert!(ours.revision() >= wrote);
        assert!(ours.get("x").is_none());
    }
    let wrote = put(&foreign, "x", "v").await;
    assert!(ours.reached(wrote, PATIENCE).await, "what a client has seen elsewhere is reached too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_nobody_wrote_is_not_reached_and_breaks_nothing() {
    let _alone = alone().await;
    let store = connect(&options()).await;
    let beyond = Revision(store.revision().0 + 1_000_000);
    assert!(!store.reached(beyond, Duration::from_secs(4)).await);
    assert_eq!(store.health(), Ok(()), "the watch goes on");
    put(&store, "a", "v").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn those_who_settle_at_once_share_few_questions() {
    let _alone = alone().await;
    let store = connect(&options()).await;
    let served = || async {
        let answer = http_figure("etcd_mvcc_range_total").await;
        answer.expect("etcd counts its ranges")
    };
    let before = served().await;
    let many: Vec<_> = (0..2000)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.settle().await.unwrap() })
        })
        .collect();
    for one in many {
        one.await.unwrap();
    }
    let asked = served().await - before;
    assert!((1.0..1000.0).contains(&asked), "2000 callers asked {asked} times");
}

/// A figure that the etcd under test serves to whoever asks.
async fn http_figure(name: &str) -> Option<f64> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let address = address();
    let host = address.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = tokio::net::TcpStream::connect(host).await.ok()?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_past_that_the_mirror_forgot_is_read_from_etcd() {
    let _alone = alone().await;
    let forgetful = Options { retention: Retention { bytes: 0, ..Retention::default() }, ..options() };
    let store = connect(&forgetful).await;
    for key in 0..25 {
        put(&store, &format!("a/{key:02}"), "old").await;
    }
    delete(&store, "a/07").await;
    let then = store.revision();
    for key in 0..25 {
        put(&store, &format!("a/{key:02}"), "new").await;
    }
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while store.compacted() <= then {
        assert!(tokio::time::Instant::now() < deadline, "the mirror kept all of its history");
        put(&store, "b", "v").await;
    }
    let whole = store.range(Range { prefix: "a/", at: Some(then), ..Range::default() }).await.unwrap();
    assert_eq!((whole.entries.len(), whole.remaining, whole.revision), (24, 0, then));
    assert!(whole.entries.iter().all(|entry| entry.value == "old" && &*entry.key != "a/07"));
    let page = Range { prefix: "a/", after: Some("a/05"), limit: Some(10), at: Some(then), of: None };
    let page = store.range(page).await.unwrap();
    assert_eq!(page.entries, whole.entries[6..16], "after a/05, without a/07");
    assert_eq!(page.remaining, 8);
    let none = store.range(Range { prefix: "a/", limit: Some(0), at: Some(then), ..Range::default() }).await.unwrap();
    assert_eq!((none.entries.len(), none.remaining), (0, 24));
    assert!(matches!(store.watch("a/", then), Err(RangeError::Compacted { .. })), "it cannot be watched from there");
    store.compact(store.revision()).await.unwrap();
    let gone = store.range(Range { prefix: "a/", at: Some(then), ..Range::default() }).await;
    assert!(matches!(gone, Err(RangeError::Compacted { .. })), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_store_is_loaded_whole() {
    const COUNT: usize = 9001;
    let _alone = alone().await;
    let options = options();
    let store = connect(&options).await;
    let all: Vec<usize> = (0..COUNT).collect();
    for chunk in all.chunks(128) {
        let writes = chunk.iter().map(|n| Write::Put { key: format!("a/{n:05}").into(), value: "v".into() }).collect();
        store.txn(Txn { compares: Vec::new(), writes }).await.unwrap();
    }
    let again = connect(&options).await;
    // Compacted, so that it starts from a snapshot and not from the history.
    store.compact(store.revision()).await.unwrap();
    let third = connect(&options).await;
    for store in [&store, &again, &third] {
        let page = store.range(Range::default()).await.unwrap();
        assert_eq!(page.entries.len(), COUNT);
        assert!(page.entries.iter().enumerate().all(|(n, entry)| *entry.key == *format!("a/{n:05}")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_sees_nothing_of_its_neighbours() {
    let _alone = alone().await;
    let ours = options();
    let neighbour = Options { prefix: format!("{}0", ours.prefix), ..ours.clone() };
    let below = Options { prefix: format!("{}/a", ours.prefix), ..ours.clone() };
    let (ours, neighbour, below) = (connect(&ours).await, connect(&neighbour).await, connect(&below).await);
    put(&neighbour, "a", "v").await;
    let seen = put(&below, "b", "v").await;
    assert!(ours.reached(seen, PATIENCE).await);
    let keys: Vec<_> =
        ours.range(Range::default()).await.unwrap().entries.iter().map(|entry| entry.key.clone()).collect();
    assert_eq!(keys, ["a/b".into()], "a prefix below ours is ours too, one beside it is not");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compare_with_revision_0_never_holds() {
    let _alone = alone().await;
    let store = connect(&options()).await;
    let txn = Txn {
        compares: vec![Compare::At("a".into(), Revision(0))],
        writes: vec![Write::Put { key: "a".into(), value: "v".into() }],
    };
    assert_eq!(store.txn(txn).await, Ok(Outcome::Refused { compare: 0, current: None }));
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_is_compacted_from_time_to_time() {
    let _alone = alone().await;
    let often = Options {
        compact_every: Some(Duration::from_millis(100)),
        retention: Retention { bytes: 0, ..Retention::default() },
        ..options()
    };
    let store = connect(&often).await;
    let first = put(&store, "a", "old").await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let last = put(&store, "a", "new").await;
        match store.range(Range { at: Some(first), ..Range::default() }).await {
            Err(RangeError::Compacted { .. }) => {
                assert!(store.range(Range { at: Some(last), ..Range::default() }).await.is_ok(), "what is new is kept");
                return;
            }
            other => assert!(tokio::time::Instant::now() < deadline, "nothing was compacted: {other:?}"),
        }
    }
}
