//! Random traffic of which everything is known: what each transaction did, and what is there after it.

use std::collections::BTreeMap;

use tokio::task::JoinSet;

use super::{delete, object, put};
use crate::{Outcome, Revision, Store, Txn, What, Write};

/// Where traffic goes: few keys, so that they are replaced, deleted and made again often.
const KEYS: [&str; 12] =
    ["a/x/0", "a/x/1", "a/x/2", "a/x/3", "a/y/0", "a/y/1", "a/y/2", "a/y/3", "b/0", "b/1", "b/2", "b/3"];

/// A transaction that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) revision: Revision,
    /// What it did to which keys, in the order of its writes.
    pub(super) changes: Vec<(String, What)>,
}

/// Numbers that look random and are the same for the same seed.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1))
    }

    pub(super) const fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}

/// Lets `writers` write at the same time, `each` transactions of up to four writes, and tells what happened in order.
pub(super) async fn run(store: &Store, seed: u64, writers: u64, each: usize) -> Result<Vec<Done>, String> {
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let store = store.clone();
        tasks.spawn(async move { work(&store, Dice::new(seed * 1000 + writer), each).await });
    }
    let mut history = Vec::new();
    while let Some(done) = tasks.join_next().await {
        history.extend(done.map_err(|error| error.to_string())??);
    }
    history.sort_by_key(|done| done.revision);
    match history.windows(2).find(|pair| pair[0].revision == pair[1].revision) {
        Some(pair) => Err(format!("two transactions have one revision: {pair:?}")),
        None => Ok(history),
    }
}

async fn work(store: &Store, mut dice: Dice, each: usize) -> Result<Vec<Done>, String> {
    let mut done = Vec::new();
    for number in 0..each {
        let txn = transaction(&mut dice, number);
        let writes = txn.writes.clone();
        let Outcome::Committed { revision, entries } = store.txn(txn).await.map_err(|error| error.to_string())? else {
            return Err("a transaction without compares was refused".to_owned());
        };
        let changes: Vec<_> = writes
            .iter()
            .zip(&entries)
            .filter(|(_, entry)| entry.is_some())
            .map(|(write, _)| (write.key().to_string(), what(write)))
            .collect();
        if !changes.is_empty() {
            done.push(Done { revision, changes });
        }
    }
    Ok(done)
}

fn transaction(dice: &mut Dice, number: usize) -> Txn {
    let (count, first) = (1 + dice.below(4), dice.below(KEYS.len()));
    let writes = (0..count).map(|at| {
        let key = KEYS[(first + at * 5) % KEYS.len()];
        if dice.below(3) == 0 { delete(key) } else { put(key, object(&number.to_string())) }
    });
    Txn { compares: Vec::new(), writes: writes.collect() }
}

const fn what(write: &Write) -> What {
    match write {
        Write::Put { .. } => What::Put,
        Write::Delete { .. } => What::Delete,
    }
}

/// What is there, told transaction by transaction.
#[derive(Default)]
pub(super) struct Model(BTreeMap<String, Revision>);

impl Model {
    pub(super) fn apply(&mut self, done: &Done) {
        for (key, what) in &done.changes {
            match what {
                What::Put => self.0.insert(key.clone(), done.revision),
                What::Delete => self.0.remove(key),
            };
        }
    }

    pub(super) fn under(&self, prefix: &str) -> Vec<(&str, Revision)> {
        let there = self.0.iter().filter(|(key, _)| key.starts_with(prefix));
        there.map(|(key, &revision)| (key.as_str(), revision)).collect()
    }
}
