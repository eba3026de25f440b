//! Power cuts at any point: what was acknowledged is there, and a transaction is there as a whole or not at all.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::disk::{self, Disk, Op};
use super::{delete, put, state, write};
use crate::Revision;
use crate::embedded::Options;

/// How many power cuts are tried.
const CUTS: usize = 300;

/// A source of numbers for what a power cut leaves.
struct Dice(u64);

impl Dice {
    const fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }
}

type Contents = BTreeMap<String, (Revision, Bytes)>;

/// What was there after each revision, and how much of the trace was done when it was acknowledged.
struct Acknowledged {
    traced: usize,
    revision: Revision,
    state: Contents,
}

async fn traffic(disk: &Disk) -> Vec<Acknowledged> {
    let store = disk.open(Options::default());
    let mut acknowledged = vec![Acknowledged { traced: 0, revision: store.revision(), state: Contents::new() }];
    for round in 0..60_u32 {
        let value = vec![b'a' + (round % 26) as u8; 100 + 150 * round as usize % 9000];
        let mut writes = vec![put(&format!("a/{}", round % 7), value.clone()), put(&format!("b/{}", round % 5), value)];
        if round % 3 == 0 {
            writes.push(delete(&format!("a/{}", (round + 3) % 7)));
        }
        let revision = write(&store, writes).await.unwrap();
        acknowledged.push(Acknowledged { traced: disk.traced(), revision, state: state(&store).await });
        if round % 20 == 19 {
            store.compact(Revision(revision.0 - 5)).await.unwrap();
        }
    }
    store.close().await;
    acknowledged
}

/// What a power cut after `done` operations leaves: everything that was synced, and of the rest whatever the dice say.
fn image_after(begin: &[u8], trace: &[Op], done: usize, dice: &mut Dice) -> Vec<u8> {
    let synced = trace[..done].iter().rposition(|op| matches!(op, Op::Sync)).map_or(0, |sync| sync + 1);
    let mut image = begin.to_vec();
    for op in &trace[..synced] {
        disk::apply(&mut image, op, || true);
    }
    // All of the rest, none of it, or some sectors of it; lengths change at once.
    let mode = dice.roll() % 4;
    for op in &trace[synced..done] {
        disk::apply(&mut image, op, || match mode {
            0 => true,
            1 => false,
            _ => dice.roll().is_multiple_of(2),
        });
    }
    image
}

#[tokio::test]
async fn a_power_cut_anywhere_loses_nothing_acknowledged_and_tears_no_transaction() {
    let seed = std::env::var("CADASTRE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x0005_eed0_f00d);
    println!("CADASTRE_SEED={seed}");
    let mut dice = Dice(seed);
    let disk = Disk::with_store();
    let begin = disk.durable();
    disk.start_trace();
    let acknowledged = traffic(&disk).await;
    let trace = disk.trace();
    let mut in_between = 0;
    for _ in 0..CUTS {
        let done = dice.roll() as usize % (trace.len() + 1);
        let image = image_after(&begin, &trace, done, &mut dice);
        let store = Disk::from_image(image).open(Options::default());
        let at_least = acknowledged.iter().rfind(|ack| ack.traced <= done).unwrap();
        let found = store.revision();
        assert!(found >= at_least.revision, "cut after {done}: {found} is left of {}", at_least.revision);
        let exactly = acknowledged.iter().find(|ack| ack.revision == found).expect("the revision was written once");
        assert_eq!(state(&store).await, exactly.state, "cut after {done}: {found} is not whole");
        in_between += usize::from(found > at_least.revision);
        // And it works: the next transaction takes the next revision.
        assert_eq!(write(&store, vec![put("next", "v")]).await.unwrap(), found.next());
    }
    assert!(in_between > 0, "some cuts fall between the write and its acknowledgement");
}
