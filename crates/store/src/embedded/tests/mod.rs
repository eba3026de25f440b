//! Tests of the embedded backend that the conformance suite cannot make: failing disks, damaged files, backups.

mod backups;
mod batching;
mod crashes;
mod damage;
mod disk;
mod faults;
mod opening;

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{Outcome, Range, Revision, Store, StoreError, Txn, Write};

fn put(key: &str, value: impl Into<Bytes>) -> Write {
    Write::Put { key: key.into(), value: value.into() }
}

fn delete(key: &str) -> Write {
    Write::Delete { key: key.into() }
}

async fn write(store: &Store, writes: Vec<Write>) -> Result<Revision, StoreError> {
    match store.txn(Txn { compares: Vec::new(), writes }).await? {
        Outcome::Committed { revision, .. } => Ok(revision),
        refused @ Outcome::Refused { .. } => panic!("a write without a condition came to {refused:?}"),
    }
}

/// Everything that is there.
async fn state(store: &Store) -> BTreeMap<String, (Revision, Bytes)> {
    let page = store.range(Range::default()).await.unwrap();
    page.entries.iter().map(|entry| (entry.key.to_string(), (entry.revision, entry.value.clone()))).collect()
}
