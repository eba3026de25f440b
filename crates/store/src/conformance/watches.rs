//! What a watch promises, by the names that etcd gave to the guarantees: ordered, unique, atomic, reliable, resumable,
//! bookmarkable.
//!
//! Each runs watches of several prefixes beside random traffic, some begun before it and some in the middle of it, and holds
//! what they handed out against what happened.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::task::{JoinHandle, JoinSet};

use super::traffic::{self, Dice, Done};
use super::{Ground, Verdict, delete, ensure, next, object, put, stamped, write};
use crate::{Event, RangeError, Revision, Store, What};

/// The prefixes that are watched: everything, a kind, a namespace, one key.
const PREFIXES: [&str; 4] = ["", "a/", "a/x/", "b/2"];
const WRITERS: u64 = 4;
const EACH: usize = 150;

/// What one watch handed out, as it handed it out.
struct Seen {
    prefix: &'static str,
    after: Revision,
    batches: Vec<Vec<Arc<Event>>>,
}

impl Seen {
    fn events(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.batches.iter().flatten()
    }
}

/// Traffic with watches beside it: what happened, and what each watch saw of it.
async fn watched(ground: &dyn Ground, seed: u64) -> Result<(Vec<Done>, Vec<Seen>), String> {
    let store = ground.open().await?;
    let begin = store.revision();
    let running = tokio::spawn({
        let store = store.clone();
        async move { traffic::run(&store, seed, WRITERS, EACH).await }
    });
    // The end is a write of its own under every prefix, so that every watch knows when it has seen all.
    let mut watches = JoinSet::new();
    for round in 0..4 {
        for prefix in PREFIXES {
            // The first begin at the beginning, the others where the store is by then, and where it was a while ago.
            let after = if round % 2 == 0 { begin } else { store.revision() };
            watches.spawn(follow(store.clone(), prefix, after));
        }
        let goal = Revision(begin.0 + (round + 1) * WRITERS * EACH as u64 / 8);
        store.reached(goal, super::PATIENCE).await;
    }
    let history = finished(running).await?;
    finish(&store).await?;
    let mut saw = Vec::new();
    while let Some(done) = watches.join_next().await {
        saw.push(done.map_err(|error| error.to_string())??);
    }
    Ok((history, saw))
}

async fn finished<T>(task: JoinHandle<Result<T, String>>) -> Result<T, String> {
    task.await.map_err(|error| error.to_string())?
}

/// Writes the sign at which watches stop.
async fn finish(store: &Store) -> Verdict {
    write(store, vec![put("a/x/end", "end"), put("b/2", "end")]).await.map(|_| ())
}

fn is_end(events: &[Arc<Event>]) -> bool {
    events.last().is_some_and(|event| event.entry.value == "end")
}

async fn follow(store: Store, prefix: &'static str, after: Revision) -> Result<Seen, String> {
    let mut watch = store.watch(prefix, after).map_err(|error| error.to_string())?;
    let mut seen = Seen { prefix, after, batches: Vec::new() };
    loop {
        let mut events = next(&mut watch).await?;
        if is_end(&events) {
            events.retain(|event| event.entry.value != "end");
            seen.batches.push(events);
            return Ok(seen);
        }
        seen.batches.push(events);
    }
}

/// What a watch should see of a history.
fn expected(history: &[Done], prefix: &str, after: Revision) -> Vec<(Revision, String, What)> {
    let covered =
        |key: &str| key == prefix || (key.starts_with(prefix) && (prefix.is_empty() || prefix.ends_with('/')));
    let later = history.iter().filter(|done| done.revision > after);
    later
        .flat_map(|done| done.changes.iter().map(|(key, what)| (done.revision, key.clone(), *what)))
        .filter(|(_, key, _)| covered(key))
        .collect()
}

fn told(event: &Event) -> (Revision, String, What) {
    (event.revision(), event.entry.key.to_string(), event.what)
}

/// Events come in the order of revisions.
pub(super) async fn ordered(ground: &dyn Ground) -> Verdict {
    let (_, seen) = watched(ground, 11).await?;
    for watch in seen {
        let revisions: Vec<Revision> = watch.events().map(|event| event.revision()).collect();
        ensure!(revisions.is_sorted(), "a watch of {:?} saw {revisions:?}", watch.prefix);
        ensure!(revisions.first().is_none_or(|&first| first > watch.after), "a watch saw what was before its start");
    }
    Ok(())
}

/// No event comes twice.
pub(super) async fn unique(ground: &dyn Ground) -> Verdict {
    let (_, seen) = watched(ground, 12).await?;
    for watch in seen {
        let mut once = HashSet::new();
        for event in watch.events() {
            let name = (event.revision(), event.entry.key.clone());
            ensure!(once.insert(name.clone()), "a watch of {:?} saw {name:?} twice", watch.prefix);
        }
    }
    Ok(())
}

/// The events of a transaction come together.
pub(super) async fn atomic(ground: &dyn Ground) -> Verdict {
    let (history, seen) = watched(ground, 13).await?;
    for watch in seen {
        let mut torn = watch.batches.windows(2).filter_map(|pair| Some((pair[0].last()?, pair[1].first()?)));
        let torn = torn.find(|(last, first)| last.revision() == first.revision());
        ensure!(torn.is_none(), "a watch of {:?} got a transaction in two parts: {torn:?}", watch.prefix);
        for done in history.iter().filter(|done| done.revision > watch.after) {
            let whole = expected(std::slice::from_ref(done), watch.prefix, Revision::default()).len();
            let found = watch.events().filter(|event| event.revision() == done.revision).count();
            ensure!(found == whole, "a watch of {:?} got {found} of the {whole} events of {done:?}", watch.prefix);
        }
    }
    Ok(())
}

/// No event is left out, and none is made up.
pub(super) async fn reliable(ground: &dyn Ground) -> Verdict {
    let (history, seen) = watched(ground, 14).await?;
    for watch in seen {
        let found: Vec<_> = watch.events().map(|event| told(event)).collect();
        let expected = expected(&history, watch.prefix, watch.after);
        let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        ensure!(
            found == expected,
            "a watch of {:?} after {} saw {} events of {}, the first that differs is {differs:?}",
            watch.prefix,
            watch.after,
            found.len(),
            expected.len()
        );
    }
    Ok(())
}

/// A watch that was broken off anywhere goes on after the last revision it handed out, as if it had never been.
pub(super) async fn resumable(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let begin = store.revision();
    let mut watches = JoinSet::new();
    for (prefix, seed) in PREFIXES.into_iter().zip(0..) {
        let (store, mut dice) = (store.clone(), Dice::new(seed));
        watches.spawn(async move {
            let (mut seen, mut last) = (Vec::new(), begin);
            loop {
                let mut watch = store.watch(prefix, last).map_err(|error| error.to_string())?;
                for _ in 0..=dice.below(3) {
                    // A wait that is given up must lose nothing either.
                    let waited = tokio::time::timeout(std::time::Duration::from_micros(50), watch.next()).await;
                    let events = match waited {
                        Ok(events) => events.map_err(|ended| ended.to_string())?,
                        Err(_) => next(&mut watch).await?,
                    };
                    last = events.last().map_or(last, |event| event.revision());
                    let end = is_end(&events);
                    seen.extend(events.iter().filter(|event| event.entry.value != "end").map(|event| told(event)));
                    if end {
                        return Ok::<_, String>((prefix, seen));
                    }
                }
            }
        });
    }
    let history = traffic::run(&store, 15, WRITERS, EACH).await?;
    finish(&store).await?;
    while let Some(done) = watches.join_next().await {
        let (prefix, found) = done.map_err(|error| error.to_string())??;
        let expected = expected(&history, prefix, begin);
        ensure!(found == expected, "{prefix:?} resumed saw {} events of {}", found.len(), expected.len());
    }
    Ok(())
}

/// When a watch says that it is through to a revision, nothing up to it comes later.
pub(super) async fn bookmarkable(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let begin = store.revision();
    let mut watches = JoinSet::new();
    for prefix in PREFIXES {
        let store = store.clone();
        watches.spawn(async move {
            let mut watch = store.watch(prefix, begin).map_err(|error| error.to_string())?;
            let (mut through, mut last) = (begin, begin);
            loop {
                if let Some(revision) = watch.progress() {
                    ensure!(revision >= last, "{prefix:?} is through to {revision} and has handed out {last}");
                    ensure!(revision >= through, "{prefix:?} was through to {through} and now to {revision}");
                    through = revision;
                }
                let events = next(&mut watch).await?;
                let first = events.first().map_or(last, |event| event.revision());
                ensure!(first > through, "{prefix:?} was through to {through} and then handed out {first}");
                last = events.last().map_or(last, |event| event.revision());
                if is_end(&events) {
                    return Ok::<_, String>((watch, last));
                }
            }
        });
    }
    let mut unread = store.watch("a/", begin).map_err(|error| error.to_string())?;
    traffic::run(&store, 16, WRITERS, EACH).await?;
    finish(&store).await?;
    ensure!(unread.progress().is_none(), "nothing was read, and it is through to {:?}", unread.progress());
    while !is_end(&next(&mut unread).await?) {}
    ensure!(unread.progress() >= Some(store.revision()), "all was read up to {:?}", unread.progress());
    while let Some(done) = watches.join_next().await {
        let (mut watch, last) = done.map_err(|error| error.to_string())??;
        // Nothing happens any more: what others write elsewhere moves the bookmark of a watch that sees none of it.
        let (elsewhere, _) = write(&store, vec![put("elsewhere", "v")]).await?;
        if watch.progress().is_none() {
            let events = next(&mut watch).await?;
            let saw = events.last().map(|event| event.revision());
            ensure!(saw == Some(elsewhere), "a watch of everything saw {saw:?} and not {elsewhere}");
        }
        let through = watch.progress();
        ensure!(through >= Some(elsewhere.max(last)), "the bookmark stands at {through:?} before {elsewhere}");
    }
    Ok(())
}

pub(super) async fn a_watch_sees_only_its_prefix(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let begin = store.revision();
    for live in [false, true] {
        let keys = ["a", "a.b", "a/b", "a/b/c", "a/bc", "ab"];
        let begin = if live { store.revision() } else { begin };
        if !live {
            write(&store, keys.map(|key| put(key, "v")).to_vec()).await?;
        }
        for (prefix, expected) in [
            ("", &keys[..]),
            ("a/", &["a/b", "a/b/c", "a/bc"][..]),
            ("a/b/", &["a/b/c"]),
            ("a/b", &["a/b"]),
            ("a", &["a"]),
        ] {
            let mut watch =
                store.watch(prefix, if live { store.revision() } else { begin }).map_err(|e| e.to_string())?;
            if live {
                write(&store, keys.map(|key| put(key, "v")).to_vec()).await?;
            }
            let events = next(&mut watch).await?;
            let found: Vec<&str> = events.iter().map(|event| &*event.entry.key).collect();
            ensure!(found == expected, "a watch of {prefix:?} saw {found:?}");
        }
    }
    Ok(())
}

pub(super) async fn an_event_tells_what_was_before(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let begin = store.revision();
    let mut live = store.watch("a/", begin).map_err(|error| error.to_string())?;
    let (created, _) = write(&store, vec![put("a/b", object("one"))]).await?;
    let (replaced, _) = write(&store, vec![put("a/b", object("two"))]).await?;
    let (deleted, _) = write(&store, vec![delete("a/b")]).await?;
    let mut past = store.watch("a/", begin).map_err(|error| error.to_string())?;
    for watch in [&mut live, &mut past] {
        let mut events = Vec::new();
        while events.len() < 3 {
            events.extend(next(watch).await?);
        }
        let found: Vec<_> = events
            .iter()
            .map(|event| {
                let before = event.before.as_ref().map(|before| before.value.clone());
                (event.what, event.entry.created, event.entry.value.clone(), before)
            })
            .collect();
        let expected = [
            (What::Put, created, stamped("one", created).into(), None),
            (What::Put, created, stamped("two", replaced).into(), Some(stamped("one", created).into())),
            (What::Delete, created, stamped("two", deleted).into(), Some(stamped("two", replaced).into())),
        ];
        ensure!(found == expected, "a watch saw {found:?}");
    }
    Ok(())
}

pub(super) async fn a_watch_cannot_start_in_a_compacted_past(ground: &dyn Ground) -> Verdict {
    let store = ground.open().await?;
    let (first, _) = write(&store, vec![put("a", "1")]).await?;
    let (second, _) = write(&store, vec![put("a", "2")]).await?;
    let (third, _) = write(&store, vec![put("a", "3")]).await?;
    let mut running = store.watch("a", third).map_err(|error| error.to_string())?;
    store.compact(second).await.map_err(|error| error.to_string())?;
    let answer = store.watch("a", first).map(|_| ());
    ensure!(matches!(answer, Err(RangeError::Compacted { oldest }) if oldest == second), "it came to {answer:?}");
    let mut watch = store.watch("a", second).map_err(|error| error.to_string())?;
    let events = next(&mut watch).await?;
    ensure!(events.len() == 1 && events[0].revision() == third, "after the compaction it saw {events:?}");
    let (fourth, _) = write(&store, vec![put("a", "4")]).await?;
    store.compact(fourth).await.map_err(|error| error.to_string())?;
    let events = next(&mut running).await?;
    ensure!(events[0].revision() == fourth, "a running watch lost an event by compaction: {events:?}");
    Ok(())
}
