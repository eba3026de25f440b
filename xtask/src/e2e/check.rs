//! Whether a history is one that a server may have: each check is named after the promise that it looks at. Pure.
//!
//! The watches tell the order of events. Every event has to be explained by exactly one write, and every write that was
//! acknowledged has to be one of those explanations.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

use super::history::{Act, Change, Fate, History, Listed, Look, Mark, Revision, Seen, State, Watched, Write};

/// How many wrongs of one promise are told.
const TOLD: usize = 5;

/// What was looked at, for the line that says that all is well.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) acknowledged: usize,
    pub(super) unknown: usize,
    pub(super) unknown_and_done: usize,
    pub(super) refused: usize,
    pub(super) looks: usize,
    pub(super) events: usize,
    pub(super) bookmarks: usize,
    pub(super) resumed: usize,
    pub(super) ended: usize,
}

/// Checks every promise; what was looked at, or what is wrong.
pub(super) fn check(history: &History) -> Result<Counts, Vec<String>> {
    let mut wrongs = Vec::new();
    for (number, watched) in history.watchers.iter().enumerate() {
        let here = |wrong: String| format!("watcher {number}: {wrong}");
        wrongs.extend(few(resumable(watched)).map(here));
        wrongs.extend(few(ordered_and_unique(watched)).map(here));
    }
    wrongs.extend(few(alike(&history.watchers)));
    let Some(first) = history.watchers.first() else { return Err(vec!["nobody watched".to_owned()]) };
    let chains = chains(first);
    let (explained, unexplained) = explained(&history.writes, &chains);
    wrongs.extend(few(unexplained));
    wrongs.extend(few(nothing_acknowledged_is_lost(&history.writes, &explained)));
    wrongs.extend(few(nothing_refused_happened(&history.writes, &explained)));
    wrongs.extend(few(revisions_go_forward(&history.writes)));
    wrongs.extend(few(reads_are_not_stale(history, &explained, &chains)));
    wrongs.extend(few(the_end_is_what_was_watched(&history.end, &chains)));
    if wrongs.is_empty() { Ok(counts(history, &explained)) } else { Err(wrongs) }
}

/// One event of an object: what it was, its revision, and the write whose state it shows.
type Link = (Change, Revision, Mark);

/// The events of each object in the order in which they were seen.
type Chains<'a> = BTreeMap<&'a str, Vec<Link>>;

fn chains(watched: &Watched) -> Chains<'_> {
    let mut chains = Chains::new();
    for seen in &watched.seen {
        if let Seen::Event { change, object, revision, mark } = seen {
            chains.entry(object).or_default().push((*change, *revision, *mark));
        }
    }
    chains
}

fn few(wrongs: Vec<String>) -> impl Iterator<Item = String> {
    let more = (wrongs.len() > TOLD).then(|| format!("... and {} more like these", wrongs.len() - TOLD));
    wrongs.into_iter().take(TOLD).chain(more)
}

/// A watch can go on where it was cut off.
fn resumable(watched: &Watched) -> Vec<String> {
    watched.broken.iter().map(|why| format!("could not go on: {why}")).collect()
}

/// Revisions only grow, so that nothing is said twice; and nothing comes after a bookmark that it covers.
pub(super) fn ordered_and_unique(watched: &Watched) -> Vec<String> {
    let mut wrongs = Vec::new();
    let mut last = 0;
    for seen in &watched.seen {
        let now = match seen {
            Seen::Event { revision, object, .. } if *revision <= last => {
                wrongs.push(format!("{object} at {revision} came after {last}"));
                *revision
            }
            Seen::Bookmark(revision) if *revision < last => {
                wrongs.push(format!("a bookmark of {revision} came after {last}"));
                *revision
            }
            Seen::Event { revision, .. } | Seen::Bookmark(revision) => *revision,
        };
        last = last.max(now);
    }
    wrongs
}

/// All watchers saw the same: what one missed, another has.
fn alike(watchers: &[Watched]) -> Vec<String> {
    let events = |watched: &Watched| -> Vec<Seen> {
        watched.seen.iter().filter(|seen| matches!(seen, Seen::Event { .. })).cloned().collect()
    };
    let Some((first, others)) = watchers.split_first() else { return Vec::new() };
    let first = events(first);
    let differs = |(other, number): (&Watched, usize)| {
        let other = events(other);
        let at = first.iter().zip(&other).take_while(|(a, b)| a == b).count();
        let (a, b) = (first.get(at), other.get(at));
        (a.is_some() || b.is_some()).then(|| format!("watcher 0 saw {a:?} where watcher {number} saw {b:?}"))
    };
    others.iter().zip(1..).filter_map(differs).collect()
}

/// For every write that an event shows, the revision of that event; and the events that no write explains.
///
/// An event follows from the one before it: what was not there can only be added, what was there only be modified or
/// deleted, and only by a write that builds on the revision that it had.
fn explained(writes: &[Write], chains: &Chains<'_>) -> (HashMap<Mark, Revision>, Vec<String>) {
    let writes: HashMap<(&str, Act, Option<Revision>, Mark), &Write> =
        writes.iter().map(|write| (key(write), write)).collect();
    let deletions: HashMap<(&str, Option<Revision>), Vec<&Write>> =
        writes.values().filter(|write| write.act == Act::Delete).fold(HashMap::new(), |mut all, write| {
            all.entry((write.object.as_str(), write.base)).or_insert_with(Vec::new).push(write);
            all
        });
    let (mut explained, mut wrongs) = (HashMap::new(), Vec::new());
    for (object, chain) in chains {
        let mut state: State = None;
        for (change, revision, mark) in chain {
            let base = state.map(|(revision, _)| revision);
            let write = match (change, state) {
                (Change::Added, None) => writes.get(&(*object, Act::Create, None, *mark)).copied(),
                (Change::Modified, Some(_)) => writes.get(&(*object, Act::Update, base, *mark)).copied(),
                (Change::Deleted, Some((_, last))) if last == *mark => {
                    let tried = deletions.get(&(*object, base)).map(Vec::as_slice).unwrap_or_default();
                    // Of several tries the one that was acknowledged did it.
                    let done = tried.iter().find(|write| matches!(write.fate, Fate::Done(_)));
                    done.or_else(|| tried.iter().find(|write| write.fate == Fate::Unknown)).copied()
                }
                _ => None,
            };
            match write {
                None => wrongs.push(format!("{object}: nobody did this: {change:?} at {revision}, after {state:?}")),
                Some(Write { fate: Fate::Done(Some(said)), .. }) if said != revision => {
                    wrongs.push(format!("{object}: acknowledged at {said}, and seen at {revision}"));
                }
                Some(write) => {
                    if explained.insert(write.mark, *revision).is_some() {
                        wrongs.push(format!("{object}: one write was seen twice, again at {revision}"));
                    }
                }
            }
            state = (*change != Change::Deleted).then_some((*revision, *mark));
        }
    }
    (explained, wrongs)
}

fn key(write: &Write) -> (&str, Act, Option<Revision>, Mark) {
    (&write.object, write.act, write.base, write.mark)
}

fn nothing_acknowledged_is_lost(writes: &[Write], explained: &HashMap<Mark, Revision>) -> Vec<String> {
    let lost =
        writes.iter().filter(|write| matches!(write.fate, Fate::Done(_)) && !explained.contains_key(&write.mark));
    lost.map(|write| format!("{}: acknowledged and never seen: {:?} {:?}", write.object, write.act, write.fate))
        .collect()
}

fn nothing_refused_happened(writes: &[Write], explained: &HashMap<Mark, Revision>) -> Vec<String> {
    let done = writes.iter().filter_map(|write| match write.fate {
        Fate::Refused(status) => Some((write, status, explained.get(&write.mark)?)),
        _ => None,
    });
    done.map(|(write, status, at)| format!("{}: refused with {status}, and seen at {at}", write.object)).collect()
}

/// A write that began when another one was already acknowledged has the greater revision, whoever made it.
fn revisions_go_forward(writes: &[Write]) -> Vec<String> {
    let done = writes.iter().filter_map(|write| match write.fate {
        Fate::Done(Some(revision)) => Some((write, revision)),
        _ => None,
    });
    let done: Vec<_> = done.collect();
    let mut by_end: Vec<_> = done.iter().map(|(write, revision)| (write.ended, *revision)).collect();
    let mut by_begin = done;
    by_end.sort_unstable();
    by_begin.sort_unstable_by_key(|(write, _)| write.began);
    let (mut ended, mut highest) = (by_end.into_iter().peekable(), 0);
    let mut wrongs = Vec::new();
    for (write, revision) in by_begin {
        while let Some((_, earlier)) = ended.next_if(|(end, _)| *end < write.began) {
            highest = highest.max(earlier);
        }
        if revision <= highest {
            wrongs.push(format!("{}: acknowledged at {revision}, begun after {highest} was", write.object));
        }
    }
    wrongs
}

/// A read shows a state that was, and none from before a write that was acknowledged when the read began.
fn reads_are_not_stale(history: &History, explained: &HashMap<Mark, Revision>, chains: &Chains<'_>) -> Vec<String> {
    let mut done: HashMap<&str, Vec<(Instant, Revision)>> = HashMap::new();
    for write in &history.writes {
        let revision = match write.fate {
            // A deletion is acknowledged without its revision, which the watches tell.
            Fate::Done(said) => said.or_else(|| explained.get(&write.mark).copied()),
            Fate::Unknown | Fate::Refused(_) => None,
        };
        if let Some(revision) = revision {
            done.entry(&write.object).or_default().push((write.ended, revision));
        }
    }
    let was: HashSet<(&str, Revision, Mark)> = chains
        .iter()
        .flat_map(|(object, chain)| chain.iter().map(|(_, revision, mark)| (*object, *revision, *mark)))
        .collect();
    let wrong = |look: &Look| {
        let object = look.object.as_str();
        let known = done.get(object).map(Vec::as_slice).unwrap_or_default();
        // A writer's own writes, in order: the last one that had ended is the newest.
        let before = known.partition_point(|(ended, _)| *ended < look.began);
        let newest = before.checked_sub(1).map(|at| known[at].1);
        match look.state {
            Some((revision, mark)) if !was.contains(&(object, revision, mark)) => {
                Some(format!("{object}: read at {revision}, which no watch saw"))
            }
            Some((revision, _)) if newest.is_some_and(|newest| revision < newest) => {
                Some(format!("{object}: read at {revision}, after {newest:?} was acknowledged"))
            }
            Some(_) => None,
            None => {
                let newest = newest?;
                let chain = chains.get(object).map(Vec::as_slice).unwrap_or_default();
                let deleted = chain.iter().any(|(change, at, _)| *change == Change::Deleted && *at >= newest);
                (!deleted).then(|| format!("{object}: not found, after {newest} was acknowledged, and never deleted"))
            }
        }
    };
    history.looks.iter().filter_map(wrong).collect()
}

/// Whoever followed the watch has at the end what the list has.
fn the_end_is_what_was_watched(end: &Listed, chains: &Chains<'_>) -> Vec<String> {
    let followed: BTreeMap<&str, (Revision, Mark)> = chains
        .iter()
        .filter_map(|(object, chain)| {
            let last = chain.iter().rev().find(|(_, revision, _)| *revision <= end.revision)?;
            let (change, revision, mark) = last;
            (*change != Change::Deleted).then_some((*object, (*revision, *mark)))
        })
        .collect();
    let listed: BTreeMap<&str, (Revision, Mark)> =
        end.objects.iter().map(|(object, revision, mark)| (object.as_str(), (*revision, *mark))).collect();
    let objects: HashSet<&str> = followed.keys().chain(listed.keys()).copied().collect();
    let differs = objects.into_iter().filter(|object| followed.get(object) != listed.get(object));
    differs
        .map(|object| {
            let (followed, listed) = (followed.get(object), listed.get(object));
            format!("{object}: at the end the list has {listed:?}, the watch {followed:?}")
        })
        .collect()
}

fn counts(history: &History, explained: &HashMap<Mark, Revision>) -> Counts {
    let mut counts = Counts { looks: history.looks.len(), ..Counts::default() };
    for write in &history.writes {
        match write.fate {
            Fate::Done(_) => counts.acknowledged += 1,
            Fate::Refused(_) => counts.refused += 1,
            Fate::Unknown => {
                counts.unknown += 1;
                counts.unknown_and_done += usize::from(explained.contains_key(&write.mark));
            }
        }
    }
    for watched in &history.watchers {
        counts.resumed += watched.resumed;
        counts.ended += watched.ended;
        counts.events += watched.seen.iter().filter(|seen| matches!(seen, Seen::Event { .. })).count();
        counts.bookmarks += watched.seen.iter().filter(|seen| matches!(seen, Seen::Bookmark(_))).count();
    }
    counts
}

#[cfg(test)]
mod tests;
