//! What a range promises.

use super::traffic::{self, Model};
use super::{Ground, Verdict, delete, ensure, put, write};
use crate::{Page, Range, RangeError, Revision, Store, StoreError};

async fn page(store: &Store, range: Range<'_>) -> Result<Page, String> {
    store.range(range).await.map_err(|error| format!("{range:?}: {error}"))
}

fn keys(page: &Page) -> Vec<&str> {
    page.entries.iter().map(|entry| &*entry.key).collect()
}

/// Random traffic, and then the state at every revision it had, held against a model that is told each transaction.
pub(super) async fn a_range_shows_one_revision(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let history = traffic::run(&store, 1, 4, 60).await?;
    let mut model = Model::default();
    for txn in &history {
        model.apply(txn);
        for prefix in ["", "a/", "a/x/", "b/"] {
            let page = page(&store, Range { prefix, at: Some(txn.revision), ..Default::default() }).await?;
            let found: Vec<_> = page.entries.iter().map(|entry| (&*entry.key, entry.revision)).collect();
            let expected = model.under(prefix);
            ensure!(found == expected, "{prefix:?} at {} is {found:?} and not {expected:?}", txn.revision);
            ensure!(page.revision == txn.revision, "a range at {} says {}", txn.revision, page.revision);
        }
    }
    Ok(())
}

pub(super) async fn pages_join_to_the_whole(ground: &dyn Ground) -> Verdict {
    const COUNT: usize = 57;
    let store = ground.open().await?;
    let all: Vec<String> = (0..COUNT).map(|at| format!("pods/ns/{at:03}")).collect();
    write(&store, all.iter().map(|key| put(key, "v")).collect()).await?;
    write(&store, vec![put("nodes/n", "v"), put("pods2/n", "v")]).await?;
    let at = Some(store.revision());
    let (mut joined, mut after) = (Vec::new(), None::<String>);
    loop {
        let range = Range { prefix: "pods/", after: after.as_deref(), limit: Some(10), at, of: None };
        let page = page(&store, range).await?;
        joined.extend(keys(&page).into_iter().map(str::to_owned));
        ensure!(page.remaining == COUNT - joined.len(), "{} remain after {}", page.remaining, joined.len());
        // What happens in between must not show.
        write(&store, vec![put(&format!("pods/ns/0{}x", joined.len()), "new"), delete(&all[COUNT - 1])]).await?;
        if page.remaining == 0 {
            break;
        }
        after = joined.last().cloned();
    }
    ensure!(joined == all, "the pages joined are {joined:?}");
    Ok(())
}

pub(super) async fn a_prefix_covers_whole_segments(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    write(&store, ["a", "a.b", "a/b", "a/b/c", "a/bc", "a0", "ab"].map(|key| put(key, "v")).to_vec()).await?;
    let cases: [(&str, Option<&str>, &[&str]); 9] = [
        ("", None, &["a", "a.b", "a/b", "a/b/c", "a/bc", "a0", "ab"]),
        ("a/", None, &["a/b", "a/b/c", "a/bc"]),
        ("a/b/", None, &["a/b/c"]),
        ("a/b", None, &["a/b"]),
        ("a", None, &["a"]),
        ("a/", Some("a/b"), &["a/b/c", "a/bc"]),
        ("a/", Some("a"), &["a/b", "a/b/c", "a/bc"]),
        ("a/", Some("b"), &[]),
        ("a/b", Some("a/b"), &[]),
    ];
    for (prefix, after, expected) in cases {
        let page = page(&store, Range { prefix, after, ..Default::default() }).await?;
        ensure!(keys(&page) == expected, "{prefix:?} after {after:?} is {:?}", keys(&page));
    }
    let none = page(&store, Range { prefix: "a/", limit: Some(0), ..Default::default() }).await?;
    ensure!((none.entries.len(), none.remaining) == (0, 3), "a limit of nothing came to {none:?}");
    Ok(())
}

pub(super) async fn compaction_forgets_the_past_and_nothing_else(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let history = traffic::run(&store, 2, 4, 60).await?;
    let to = history[history.len() / 2].revision;
    store.compact(to).await.map_err(|error| error.to_string())?;
    ensure!(store.compacted() == to, "compacted to {} and not to {to}", store.compacted());
    let mut model = Model::default();
    for txn in &history {
        model.apply(txn);
        let range = Range { at: Some(txn.revision), ..Default::default() };
        if txn.revision < to {
            let answer = store.range(range).await;
            let compacted = matches!(answer, Err(RangeError::Compacted { oldest }) if oldest == to);
            ensure!(compacted, "a range at {} before {to} came to {answer:?}", txn.revision);
        } else {
            let page = page(&store, range).await?;
            let found: Vec<_> = page.entries.iter().map(|entry| (&*entry.key, entry.revision)).collect();
            ensure!(found == model.under(""), "at {} is {found:?} after a compaction to {to}", txn.revision);
        }
    }
    store.compact(to).await.map_err(|error| format!("compacting again: {error}"))?;
    Ok(())
}

pub(super) async fn the_future_cannot_be_read(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let (now, _) = write(&store, vec![put("a", "1")]).await?;
    let future = Revision(now.0 + 1_000_000);
    let answer = store.range(Range { at: Some(future), ..Default::default() }).await;
    ensure!(matches!(answer, Err(RangeError::Future { .. })), "a range in the future came to {answer:?}");
    let answer = store.watch("", future).map(|_| ());
    ensure!(matches!(answer, Err(RangeError::Future { .. })), "a watch from the future came to {answer:?}");
    let answer = store.compact(future).await;
    ensure!(matches!(answer, Err(StoreError::Invalid(_))), "a compaction of the future came to {answer:?}");
    Ok(())
}
