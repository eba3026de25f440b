//! What people are told of networks and definitions.

use std::collections::BTreeMap;

use space::Moment;

use super::Plan;
use crate::slice::decide::{Decision, Waiting};
use crate::slice::definition::{self, Definition};
use crate::slice::intent::{Event, Intent, Subject};

/// How long after something was told it is told again if it is so still, in milliseconds: events end.
const REPEAT: u64 = 900_000;

/// How many nodes or conflicts are told in one event; an event has room for a thousand characters.
const MOST_TOLD: usize = 10;

/// Why events are told of definitions.
const INVALID: &str = "InvalidNetwork";
const MISMATCH: &str = "NetworkMismatch";
const EXHAUSTED: &str = "SlicesExhausted";
const CONFLICT: &str = "SliceConflict";
const UNREADABLE: &str = "SliceUnreadable";
const NOT_WRITTEN: &str = "SlicePoolNotWritten";

/// What is told.
impl Plan {
    /// Whatever was told a while ago is looked at again: if it is so still, people should go on to see it.
    pub(super) fn tell_again(&mut self) {
        let is_old = |at: &Moment| self.now.0.saturating_sub(at.0) >= REPEAT;
        if self.told.values().any(|(_, at)| is_old(at)) {
            self.touch_all();
            let keys: Vec<String> = self.definitions.keys().cloned().collect();
            for key in keys {
                self.judge(&key);
            }
        }
    }

    /// Tells what is wrong with a definition alone.
    pub(super) fn judge(&mut self, key: &str) {
        let Some(definition) = self.definitions.get(key) else { return };
        let wrong = definition.reading.as_ref().err().map(ToString::to_string);
        let subject = definition.subject.clone();
        self.tell(&subject, INVALID, wrong);
    }

    /// Tells why the objects of a network cannot be written, if that has been so for a while.
    pub(super) fn complain(&mut self, name: &str) {
        let trouble = self.networks.get(name).and_then(|network| network.trouble.clone());
        let subject = self.deciding(name).map(|(_, subject)| subject.clone());
        if let Some((subject, trouble)) = subject.zip(trouble) {
            self.tell(&subject, NOT_WRITTEN, Some(trouble));
        }
    }

    /// Tells what is wrong with a network.
    pub(super) fn report(&mut self, name: &str, subject: &Subject, decision: &Decision) {
        let Some(network) = self.networks.get(name) else { return };
        let unreadable: Vec<String> =
            network.objects.pool.iter().flat_map(|stored| stored.pool.unreadable.iter().cloned()).collect();
        let trouble = network.trouble.clone();
        let exhausted: Vec<String> = decision.waiting.iter().map(waiting_text).collect();
        self.tell(subject, EXHAUSTED, told(&exhausted));
        self.tell(subject, CONFLICT, told(&decision.conflicts));
        self.tell(subject, UNREADABLE, told(&unreadable));
        self.tell(subject, NOT_WRITTEN, trouble);
        let all = self.of(name);
        let Some(first) = all.first().and_then(|one| one.network()) else { return };
        let differs = |one: &&Definition| {
            let field = first.differs(one.network()?)?;
            let text =
                format!("ipam.{field}: network {name} is cut by {}, and this differs from it", subject_text(subject));
            Some((one.subject.clone(), text))
        };
        let mut wrong: BTreeMap<Subject, String> = all.iter().filter_map(differs).collect();
        let subjects: Vec<Subject> = all.iter().map(|one| one.subject.clone()).collect();
        for subject in subjects {
            let text = wrong.remove(&subject);
            self.tell(&subject, MISMATCH, text);
        }
    }

    /// Tells it, unless it was told not long ago; nothing to tell is remembered as well.
    fn tell(&mut self, subject: &Subject, reason: &'static str, message: Option<String>) {
        let key = (subject.clone(), reason);
        let Some(message) = message else {
            self.told.remove(&key);
            return;
        };
        let is_known = |(told, at): &(String, Moment)| *told == message && self.now.0.saturating_sub(at.0) < REPEAT;
        if self.begun && !self.told.get(&key).is_some_and(is_known) {
            self.told.insert(key, (message.clone(), self.now));
            self.outbox.push_back(Intent::Tell(Event { about: subject.clone(), reason, message }));
        }
    }
}

fn subject_text(subject: &Subject) -> String {
    definition::key(&subject.namespace, &subject.name)
}

fn waiting_text(waiting: &Waiting) -> String {
    let Waiting { range, length, nodes } = waiting;
    let named = nodes.iter().take(MOST_TOLD).map(String::as_str).collect::<Vec<_>>().join(", ");
    let text = format!("no free /{length} is left in {range} for {named}");
    and_more(text, nodes.len())
}

fn told(texts: &[String]) -> Option<String> {
    let text = texts.iter().take(MOST_TOLD).map(String::as_str).collect::<Vec<_>>().join("; ");
    (!texts.is_empty()).then(|| and_more(text, texts.len()))
}

/// The text, and how many more there are than could be told.
fn and_more(text: String, count: usize) -> String {
    match count.checked_sub(MOST_TOLD) {
        Some(more @ 1..) => format!("{text} and {more} more"),
        _ => text,
    }
}
