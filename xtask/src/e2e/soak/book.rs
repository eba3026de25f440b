//! The books of the guests: what their watches said, line by line, and whether that is what a follower may see. Pure, but for
//! reading the file.
//!
//! A guest begins again with a list when it has to. What was before that list it need not have seen; but the list has to be what
//! there was at its revision, and everything after it has to come, once and in order.

use std::collections::BTreeMap;
use std::io::BufRead;

use anyhow::{Context, Result};

use crate::e2e::history::{Change, Mark, Revision};

/// How many wrongs of one book are told.
const TOLD: usize = 5;

/// One event as the witness saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) change: Change,
    pub(super) object: String,
    pub(super) revision: Revision,
    pub(super) mark: Mark,
}

/// Objects with their revision and mark.
pub(super) type Objects = BTreeMap<String, (Revision, Mark)>;

/// What a guest wrote down.
#[derive(Debug, PartialEq, Eq)]
enum Record {
    /// Everything there was, at a revision if the library says which.
    Listed(Option<Revision>, Objects),
    /// An event; libraries may not say whether an object is new.
    Event(Option<Change>, String, Revision, Mark),
    Bookmark(Revision),
}

/// A book, as it was read.
#[derive(Default)]
pub(super) struct Book {
    records: Vec<Record>,
    cached: Objects,
}

/// What was looked at.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) events: usize,
    pub(super) bookmarks: usize,
    pub(super) lists: usize,
}

impl Book {
    /// Reads a book. What no writer marked is left out.
    pub(super) fn read(lines: impl BufRead) -> Result<Self> {
        let (mut book, mut items) = (Self::default(), Objects::new());
        for line in lines.lines() {
            let line = line?;
            book.line(&line, &mut items).with_context(|| format!("not a line of a book: {line}"))?;
        }
        Ok(book)
    }

    fn line(&mut self, line: &str, items: &mut Objects) -> Option<()> {
        let mut words = line.split(' ');
        let word = words.next()?;
        if let "listed" | "BOOKMARK" = word {
            let revision: Revision = words.next()?.parse().ok()?;
            self.records.push(match word {
                "listed" => Record::Listed((revision > 0).then_some(revision), std::mem::take(items)),
                _ => Record::Bookmark(revision),
            });
            return Some(());
        }
        let (object, revision, mark) = (words.next()?.to_owned(), words.next()?.parse().ok()?, words.next()?);
        if mark == "-" {
            return Some(());
        }
        let mark = mark.parse().ok()?;
        let change = match word {
            "item" => return items.insert(object, (revision, mark)).map_or(Some(()), |_| None),
            "cached" => return self.cached.insert(object, (revision, mark)).map_or(Some(()), |_| None),
            "ADDED" => Some(Change::Added),
            "MODIFIED" => Some(Change::Modified),
            "DELETED" => Some(Change::Deleted),
            "APPLIED" => None,
            _ => return None,
        };
        self.records.push(Record::Event(change, object, revision, mark));
        Some(())
    }

    /// Holds the book against all that happened to its kind; what was looked at, or what is wrong.
    pub(super) fn judge(&self, facts: &[Fact]) -> Result<Counts, Vec<String>> {
        let mut reader = Reader { facts, at: 0, last: 0, state: Objects::new(), wrongs: Vec::new() };
        let mut counts = Counts::default();
        for (number, record) in self.records.iter().enumerate() {
            match record {
                Record::Listed(revision, objects) => {
                    counts.lists += 1;
                    reader.listed(revision.or_else(|| self.before_next_event(number)), objects);
                }
                Record::Event(change, object, revision, mark) => {
                    counts.events += 1;
                    reader.event(*change, object, *revision, *mark);
                }
                Record::Bookmark(revision) => {
                    counts.bookmarks += 1;
                    reader.bookmark(*revision);
                }
            }
            if reader.wrongs.len() > TOLD {
                break;
            }
        }
        if let (true, Some(missed)) = (reader.wrongs.is_empty(), facts.get(reader.at)) {
            reader.wrongs.push(format!("it ended before {missed:?}"));
        }
        if reader.wrongs.is_empty() && reader.state != self.cached {
            reader.wrongs.push(format!("the cache is not what was told: {}", difference(&self.cached, &reader.state)));
        }
        if reader.wrongs.is_empty() { Ok(counts) } else { Err(reader.wrongs) }
    }

    /// The last revision that a list can be of: the event that came next was not in it, and nothing was between.
    fn before_next_event(&self, list: usize) -> Option<Revision> {
        match self.records[list + 1..].iter().find(|record| !matches!(record, Record::Bookmark(_))) {
            Some(Record::Event(_, _, revision, _)) => Some(revision - 1),
            // Another list: of this one nothing more is known.
            Some(_) => None,
            None => Some(Revision::MAX),
        }
    }
}

/// Goes through a book and what happened side by side.
struct Reader<'a> {
    facts: &'a [Fact],
    /// The first fact that the guest has not been told of.
    at: usize,
    last: Revision,
    state: Objects,
    wrongs: Vec<String>,
}

impl Reader<'_> {
    fn listed(&mut self, revision: Option<Revision>, objects: &Objects) {
        let Some(revision) = revision else { return };
        if revision < self.last {
            self.wrongs.push(format!("a list of {revision} came after {}", self.last));
            return;
        }
        while let Some(fact) = self.facts.get(self.at).filter(|fact| fact.revision <= revision) {
            self.at += 1;
            keep(&mut self.state, fact);
        }
        if self.state != *objects {
            let difference = difference(objects, &self.state);
            self.wrongs.push(format!("a list of {revision} is not what there was: {difference}"));
        }
        self.last = revision;
    }

    fn event(&mut self, change: Option<Change>, object: &str, revision: Revision, mark: Mark) {
        if revision <= self.last {
            self.wrongs.push(format!("{object} at {revision} came after {}", self.last));
            return;
        }
        self.last = revision;
        let Some(fact) = self.facts.get(self.at) else {
            self.wrongs.push(format!("{object} at {revision} never happened"));
            return;
        };
        let fits = match change {
            Some(change) => change == fact.change,
            None => fact.change != Change::Deleted,
        };
        if !fits || fact.object != object || fact.revision != revision || fact.mark != mark {
            self.wrongs.push(format!("{change:?} of {object} at {revision} came where {fact:?} was next"));
        }
        keep(&mut self.state, fact);
        self.at += 1;
    }

    fn bookmark(&mut self, revision: Revision) {
        if revision < self.last {
            self.wrongs.push(format!("a bookmark of {revision} came after {}", self.last));
        }
        if let Some(missed) = self.facts.get(self.at).filter(|fact| fact.revision <= revision) {
            self.wrongs.push(format!("a bookmark of {revision} came before {missed:?}"));
        }
        self.last = self.last.max(revision);
    }
}

fn keep(state: &mut Objects, fact: &Fact) {
    match fact.change {
        Change::Deleted => state.remove(&fact.object),
        _ => state.insert(fact.object.clone(), (fact.revision, fact.mark)),
    };
}

/// The first object in which they differ.
pub(super) fn difference(one: &Objects, other: &Objects) -> String {
    let first = one.keys().chain(other.keys()).find(|object| one.get(*object) != other.get(*object));
    first.map_or_else(String::new, |object| format!("{object} is {:?}, not {:?}", one.get(object), other.get(object)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Vec<Fact> {
        let fact =
            |change, object: &str, revision| Fact { change, object: object.to_owned(), revision, mark: revision * 10 };
        vec![
            fact(Change::Added, "a", 3),
            fact(Change::Added, "b", 5),
            fact(Change::Modified, "a", 6),
            fact(Change::Deleted, "b", 9),
        ]
    }

    fn judged(text: &str) -> Result<Counts, String> {
        Book::read(text.as_bytes()).unwrap().judge(&facts()).map_err(|wrongs| wrongs.join("\n"))
    }

    const WATCHED: &str = "listed 1\nADDED a 3 30\nADDED b 5 50\nMODIFIED a 6 60\nBOOKMARK 8\nDELETED b 9 90\n";

    #[test]
    fn everything_in_order_is_right_and_so_is_a_list_in_place_of_what_was_missed() {
        let whole = judged(&format!("{WATCHED}cached a 6 60\n")).unwrap();
        assert_eq!(whole, Counts { events: 4, bookmarks: 1, lists: 1 });
        let skipped = "listed 1\nADDED a 3 30\nitem a 6 60\nitem b 5 50\nlisted 7\nDELETED b 9 90\ncached a 6 60\n";
        assert_eq!(judged(skipped).unwrap(), Counts { events: 2, bookmarks: 0, lists: 2 });
        // A list without a revision, and objects of others.
        let vague =
            "item x 2 -\nlisted 0\nAPPLIED a 3 30\nitem a 6 60\nitem b 5 50\nlisted 0\nDELETED b 9 90\ncached a 6 60\n";
        assert!(judged(vague).is_ok());
    }

    #[test]
    fn whatever_is_missing_repeated_or_out_of_order_is_wrong() {
        let missing = WATCHED.replace("ADDED b 5 50\n", "");
        assert!(judged(&missing).unwrap_err().contains("was next"));
        let repeated = WATCHED.replace("ADDED b 5 50\n", "ADDED b 5 50\nADDED b 5 50\n");
        assert!(judged(&repeated).unwrap_err().contains("came after 5"));
        let early = WATCHED.replace("BOOKMARK 8", "BOOKMARK 9");
        assert!(judged(&early).unwrap_err().contains("came before"));
        let back = WATCHED.replace("BOOKMARK 8", "BOOKMARK 5");
        assert!(judged(&back).unwrap_err().contains("a bookmark of 5 came after 6"));
        let short = WATCHED.replace("DELETED b 9 90\n", "");
        assert!(judged(&short).unwrap_err().contains("it ended before"));
        assert!(judged(&format!("{WATCHED}cached a 3 30\n")).unwrap_err().contains("the cache"));
    }

    #[test]
    fn a_list_that_is_not_what_there_was_is_wrong() {
        let stale = "listed 1\nADDED a 3 30\nitem a 3 30\nitem b 5 50\nlisted 7\nDELETED b 9 90\ncached a 6 60\n";
        assert!(judged(stale).unwrap_err().contains("a list of 7"));
        let vague = "listed 0\nADDED a 3 30\nitem a 3 30\nitem b 5 50\nlisted 0\nDELETED b 9 90\ncached a 6 60\n";
        assert!(judged(vague).unwrap_err().contains("a list of 8"));
        let old = "listed 1\nADDED a 3 30\nADDED b 5 50\nitem a 3 30\nlisted 4\n";
        assert!(judged(old).unwrap_err().contains("a list of 4 came after 5"));
    }
}
