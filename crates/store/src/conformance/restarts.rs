//! What is promised across the end of a process.

use super::traffic::{self, Model};
use super::{Ground, Verdict, ensure, next, object, put, stamped, write};
use crate::{Ended, Range, RangeError, StoreError, Txn};

pub(super) async fn a_restart_keeps_what_was_acknowledged(ground: &dyn Ground) -> Verdict {
    let mut model = Model::default();
    for round in 0..3 {
        let store = ground.open().await?;
        let history = traffic::run(&store, 30 + round, 4, 40).await?;
        for done in &history {
            model.apply(done);
        }
        let (last, _) = write(&store, vec![put("z", object(&round.to_string()))]).await?;
        if round == 1 {
            store.compact(history[history.len() / 2].revision).await.map_err(|error| error.to_string())?;
        }
        store.close().await;
        drop(store);
        let store = ground.open().await?;
        store.settle().await.map_err(|error| error.to_string())?;
        ensure!(store.revision() >= last, "the restarted store is at {} and was at {last}", store.revision());
        let page = store.range(Range::default()).await.map_err(|error| error.to_string())?;
        let found: Vec<_> = page.entries.iter().map(|entry| (&*entry.key, entry.revision)).collect();
        let mut expected = model.under("");
        expected.push(("z", last));
        ensure!(found == expected, "after the restart there is {found:?} and not {expected:?}");
        let z = store.get("z").ok_or("it is not there")?;
        ensure!(z.value == stamped(&round.to_string(), last), "{:?} is not stamped with {last}", z.value);
        store.close().await;
    }
    Ok(())
}

pub(super) async fn a_watch_goes_on_after_a_restart_or_says_that_it_cannot(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let (first, _) = write(&store, vec![put("a/1", "v")]).await?;
    let (second, _) = write(&store, vec![put("a/2", "v"), put("b", "v")]).await?;
    store.close().await;
    drop(store);
    let store = ground.open().await?;
    let (third, _) = write(&store, vec![put("a/3", "v")]).await?;
    match store.watch("a/", first) {
        Ok(mut watch) => {
            let mut revisions = Vec::new();
            while revisions.len() < 2 {
                revisions.extend(next(&mut watch).await?.iter().map(|event| event.revision()));
            }
            ensure!(revisions == [second, third], "the watch went on with {revisions:?}");
        }
        Err(RangeError::Compacted { oldest }) => {
            ensure!(oldest > first, "it says that {oldest} is the oldest, not {first}");
        }
        Err(error) => return Err(error.to_string()),
    }
    Ok(())
}

pub(super) async fn a_closed_store_ends_its_watches_and_refuses_writes(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let mut watch = store.watch("", store.revision()).map_err(|error| error.to_string())?;
    write(&store, vec![put("a", "v")]).await?;
    store.close().await;
    let events = next(&mut watch).await?;
    ensure!(events.len() == 1, "what happened before the end was seen as {events:?}");
    let ended = watch.next().await.map(|events| events.len());
    ensure!(ended == Err(Ended::Closed), "the watch came to {ended:?}");
    let refused = store.txn(Txn { compares: Vec::new(), writes: vec![put("a", "v")] }).await;
    ensure!(refused == Err(StoreError::Closed), "a write came to {refused:?}");
    let again = store.watch("", store.revision()).map(|_| ());
    ensure!(again == Err(RangeError::Store(StoreError::Closed)), "a new watch came to {again:?}");
    Ok(())
}
