//! What a transaction promises.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{Ground, PATIENCE, Verdict, delete, ensure, object, put, stamped, write, write_if};
use crate::{Compare, Outcome, Revision, StoreError, TXN_BYTES, TXN_OPS, Txn};

pub(super) async fn a_put_is_read_back_with_its_revision_in_it(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let (first, entries) = write(&store, vec![put("things/a", object("one"))]).await?;
    let read = store.get("things/a").ok_or("what was put is not there")?;
    ensure!(read.value == stamped("one", first), "{:?} is not stamped with {first}", read.value);
    ensure!(entries == [Some(read.clone())], "the answer is {entries:?}, the entry {read:?}");
    ensure!((read.created, read.revision) == (first, first), "{read:?} was created at {first}");
    let (second, _) = write(&store, vec![put("things/a", "no room for a stamp")]).await?;
    let read = store.get("things/a").ok_or("what was replaced is not there")?;
    ensure!((read.created, read.revision) == (first, second), "{read:?} was replaced at {second}");
    ensure!(read.value == "no room for a stamp", "{:?} was changed", read.value);
    Ok(())
}

pub(super) async fn a_lost_compare_changes_nothing(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let (at, _) = write(&store, vec![put("a", "1")]).await?;
    let (absent, exists) = (|key: &str| Compare::Absent(key.into()), |key: &str| Compare::Exists(key.into()));
    let modified = |key: &str, at: Revision| Compare::At(key.into(), at);
    let lost = [
        (vec![absent("a")], 0),
        (vec![exists("b")], 0),
        (vec![modified("a", at.next())], 0),
        (vec![modified("a", Revision(at.0 - 1))], 0),
        (vec![modified("b", at)], 0),
        (vec![modified("a", at), absent("b"), exists("b"), absent("a")], 2),
    ];
    for (compares, compare) in lost {
        let what = format!("{compares:?}");
        let expected = Outcome::Refused { compare, current: store.get(compares[compare].key()) };
        let outcome = store.txn(Txn { compares, writes: vec![put("a", "2"), put("c", "3")] }).await;
        ensure!(outcome == Ok(expected.clone()), "{what} came to {outcome:?} and not to {expected:?}");
    }
    ensure!(store.revision() == at, "the revision moved from {at} to {}", store.revision());
    ensure!(store.get("c").is_none() && store.get("a").is_some_and(|a| a.value == "1"), "something was written");
    Ok(())
}

pub(super) async fn a_transaction_happens_at_one_revision(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let (first, _) = write(&store, vec![put("a", "1"), put("b", "1"), put("c", "1")]).await?;
    let compares = vec![Compare::At("a".into(), first), Compare::Exists("b".into()), Compare::Absent("d".into())];
    let writes = vec![put("a", "2"), delete("b"), put("d", "2")];
    let second = write_if(&store, compares, writes).await?.ok_or("the compares hold")?;
    ensure!(second > first, "{second} came after {first}");
    for (key, revision) in [("a", Some(second)), ("b", None), ("c", Some(first)), ("d", Some(second))] {
        let found = store.get(key).map(|entry| entry.revision);
        ensure!(found == revision, "{key} is at {found:?} and not at {revision:?}");
    }
    Ok(())
}

pub(super) async fn what_changes_nothing_takes_no_revision(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let (at, _) = write(&store, vec![put("a", "1")]).await?;
    let (read, entries) = write(&store, Vec::new()).await?;
    ensure!((read, entries.len()) == (at, 0), "a transaction without writes came to {read}, {entries:?}");
    let (deleted, entries) = write(&store, vec![delete("b"), delete("c")]).await?;
    ensure!((deleted, &entries[..]) == (at, &[None, None][..]), "deleting nothing came to {deleted}, {entries:?}");
    ensure!(store.revision() == at, "the revision moved to {}", store.revision());
    Ok(())
}

pub(super) async fn a_delete_answers_with_the_last_state(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let (created, _) = write(&store, vec![put("a", object("last"))]).await?;
    let (gone, entries) = write(&store, vec![delete("b"), delete("a")]).await?;
    let [None, Some(last)] = &entries[..] else { return Err(format!("deleting came to {entries:?}")) };
    ensure!(last.value == stamped("last", gone), "{:?} is not stamped with {gone}", last.value);
    ensure!((last.created, last.revision) == (created, gone), "{last:?} was deleted at {gone}");
    ensure!(store.get("a").is_none(), "it is still there");
    Ok(())
}

pub(super) async fn an_object_made_again_is_a_new_one(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let (first, _) = write(&store, vec![put("a", "1")]).await?;
    write(&store, vec![delete("a")]).await?;
    let again =
        write_if(&store, vec![Compare::Absent("a".into())], vec![put("a", "1")]).await?.ok_or("it is absent")?;
    let entry = store.get("a").ok_or("it is not there")?;
    ensure!(entry.created == again, "{entry:?} was created at {again}");
    let stale = write_if(&store, vec![Compare::At("a".into(), first)], vec![put("a", "2")]).await?;
    ensure!(stale.is_none(), "a compare with the old object held for the new one");
    Ok(())
}

pub(super) async fn one_of_many_creates_wins(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let mut rivals = JoinSet::new();
    for rival in 0..64 {
        let store = store.clone();
        rivals.spawn(async move {
            let writes = vec![put("lease", format!("{rival}")), put(&format!("rivals/{rival}"), "won")];
            write_if(&store, vec![Compare::Absent("lease".into())], writes).await
        });
    }
    let mut winners = Vec::new();
    while let Some(done) = rivals.join_next().await {
        winners.extend(done.map_err(|error| error.to_string())??);
    }
    ensure!(winners.len() == 1, "{} rivals won", winners.len());
    let won = store.range(crate::Range { prefix: "rivals/", ..Default::default() }).await.map_err(|e| e.to_string())?;
    ensure!(won.entries.len() == 1, "the losers wrote too: {:?}", won.entries);
    Ok(())
}

/// 64 writers add to one of four counters each, by read, compare and write.
pub(super) async fn no_increment_is_lost(ground: &dyn Ground) -> Verdict {
    const WRITERS: usize = 64;
    const EACH: usize = 8;
    let store = ground.open().await?;
    let counters = ["counters/0", "counters/1", "counters/2", "counters/3"];
    write(&store, counters.map(|counter| put(counter, "0")).to_vec()).await?;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (store, counter) = (store.clone(), counters[writer % counters.len()]);
        writers.spawn(async move {
            for _ in 0..EACH {
                loop {
                    let entry = store.get(counter).ok_or("the counter is gone")?;
                    let count = String::from_utf8_lossy(&entry.value).parse::<usize>().map_err(|e| e.to_string())?;
                    let compare = Compare::At(entry.key.clone(), entry.revision);
                    if write_if(&store, vec![compare], vec![put(counter, (count + 1).to_string())]).await?.is_some() {
                        break;
                    }
                }
            }
            Ok::<_, String>(())
        });
    }
    while let Some(done) = writers.join_next().await {
        done.map_err(|error| error.to_string())??;
    }
    for counter in counters {
        let entry = store.get(counter).ok_or("the counter is gone")?;
        let expected = (WRITERS / counters.len() * EACH).to_string();
        ensure!(entry.value == expected, "{counter} is {:?} after {expected} increments", entry.value);
    }
    Ok(())
}

pub(super) async fn what_is_malformed_is_refused(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let before = store.revision();
    let sized = |bytes: usize| Txn { compares: Vec::new(), writes: vec![put("k", vec![b'x'; bytes])] };
    let counted = |count: usize| Txn {
        compares: (0..count).map(|at| Compare::Absent(format!("k/{at}").into())).collect(),
        writes: (0..count).map(|at| put(&format!("k/{at}"), "v")).collect(),
    };
    for key in ["", "/", "/a", "a/"] {
        let outcome = store.txn(Txn { compares: Vec::new(), writes: vec![put(key, "v")] }).await;
        ensure!(matches!(outcome, Err(StoreError::Invalid(_))), "the key {key:?} came to {outcome:?}");
    }
    let outcome = store.txn(Txn { compares: Vec::new(), writes: vec![put("a", "1"), delete("a")] }).await;
    ensure!(matches!(outcome, Err(StoreError::Invalid(_))), "writing a key twice came to {outcome:?}");
    let outcome = store.txn(sized(TXN_BYTES)).await;
    ensure!(matches!(outcome, Err(StoreError::TooLarge { .. })), "too many bytes came to {outcome:?}");
    let outcome = store.txn(counted(TXN_OPS + 1)).await;
    ensure!(matches!(outcome, Err(StoreError::TooMany { .. })), "too many writes came to {outcome:?}");
    ensure!(store.revision() == before, "the revision moved from {before} to {}", store.revision());
    let outcome = store.txn(sized(TXN_BYTES - 1)).await;
    ensure!(matches!(outcome, Ok(Outcome::Committed { .. })), "the most that is allowed came to {outcome:?}");
    let outcome = store.txn(counted(TXN_OPS)).await;
    ensure!(matches!(outcome, Ok(Outcome::Committed { .. })), "as many as are allowed came to {outcome:?}");
    Ok(())
}

pub(super) async fn what_was_answered_can_be_read(ground: &dyn Ground) -> Verdict {
    let store = Arc::new(ground.open().await?);
    for round in 0..50 {
        let (revision, _) = write(&store, vec![put("a", round.to_string())]).await?;
        ensure!(store.revision() >= revision, "reads are at {} after {revision}", store.revision());
        ensure!(store.get("a").is_some_and(|a| a.revision == revision), "the write at {revision} cannot be read");
        let settled = store.settle().await.map_err(|error| error.to_string())?;
        ensure!(settled >= revision, "settled at {settled} after {revision}");
        ensure!(store.reached(revision, PATIENCE).await, "{revision} was never reached");
    }
    let beyond = Revision(store.revision().0 + 1_000_000);
    ensure!(!store.reached(beyond, std::time::Duration::ZERO).await, "{beyond} was reached");
    Ok(())
}
