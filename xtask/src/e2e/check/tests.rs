//! Histories that a server may have, and the same ones broken: each break must be found.

use std::time::Duration;

use super::*;

/// Writes a history down as its clients would. Every write takes one second of its own time.
struct Script {
    history: History,
    clock: Instant,
    events: Vec<Seen>,
}

impl Script {
    fn new() -> Self {
        Self { history: History::default(), clock: Instant::now(), events: Vec::new() }
    }

    fn tick(&mut self) -> Instant {
        self.clock += Duration::from_secs(1);
        self.clock
    }

    fn write(&mut self, object: &str, act: Act, base: Option<Revision>, mark: Mark, fate: Fate) {
        let (began, ended) = (self.tick(), self.tick());
        self.history.writes.push(Write { object: object.to_owned(), act, mark, base, began, ended, fate });
    }

    fn event(&mut self, change: Change, object: &str, revision: Revision, mark: Mark) {
        self.events.push(Seen::Event { change, object: object.to_owned(), revision, mark });
    }

    fn look(&mut self, object: &str, state: State) {
        let began = self.tick();
        self.history.looks.push(Look { object: object.to_owned(), began, state });
    }

    fn end(mut self, revision: Revision, objects: &[(&str, Revision, Mark)]) -> History {
        let watched = Watched { seen: self.events, resumed: 2, ended: 1, broken: None };
        self.history.watchers = vec![watched.clone(), watched];
        let objects = objects.iter().map(|(object, revision, mark)| ((*object).to_owned(), *revision, *mark)).collect();
        self.history.end = Listed { revision, objects };
        self.history
    }
}

/// A life with everything in it: creation, an update of unknown end that was done, one that was not, a deletion, a return.
fn sound() -> History {
    let mut script = Script::new();
    script.write("a", Act::Create, None, 1, Fate::Done(Some(10)));
    script.event(Change::Added, "a", 10, 1);
    script.write("a", Act::Update, Some(10), 2, Fate::Unknown);
    script.event(Change::Modified, "a", 11, 2);
    script.look("a", Some((11, 2)));
    script.write("a", Act::Update, Some(11), 3, Fate::Unknown);
    script.look("a", Some((11, 2)));
    script.write("a", Act::Update, Some(11), 4, Fate::Done(Some(12)));
    script.event(Change::Modified, "a", 12, 4);
    script.write("b", Act::Create, None, 5, Fate::Done(Some(13)));
    script.event(Change::Added, "b", 13, 5);
    script.write("a", Act::Update, Some(11), 6, Fate::Refused(409));
    script.write("a", Act::Delete, Some(12), 7, Fate::Unknown);
    script.event(Change::Deleted, "a", 14, 4);
    script.look("a", None);
    script.write("a", Act::Create, None, 8, Fate::Done(Some(15)));
    script.event(Change::Added, "a", 15, 8);
    script.write("b", Act::Delete, Some(13), 9, Fate::Done(None));
    script.event(Change::Deleted, "b", 16, 5);
    script.look("b", None);
    script.events.push(Seen::Bookmark(16));
    script.end(16, &[("a", 15, 8)])
}

/// What is found in the sound history after this was done to it.
fn found(break_it: impl FnOnce(&mut History)) -> String {
    let mut history = sound();
    break_it(&mut history);
    check(&history).unwrap_err().join("\n")
}

/// The same done to what every watcher saw.
fn found_in_watches(break_it: impl Fn(&mut Vec<Seen>)) -> String {
    found(|history| history.watchers.iter_mut().for_each(|watched| break_it(&mut watched.seen)))
}

#[test]
fn a_sound_history_is_counted() {
    let counts = check(&sound()).unwrap();
    let expected = Counts {
        acknowledged: 5,
        unknown: 3,
        unknown_and_done: 2,
        refused: 1,
        looks: 4,
        events: 14,
        bookmarks: 2,
        resumed: 4,
        ended: 2,
    };
    assert_eq!(counts, expected);
}

#[test]
fn a_lost_acknowledged_write_is_found() {
    assert!(found_in_watches(|seen| drop(seen.remove(2))).contains("acknowledged and never seen"));
    let lost_delete = found_in_watches(|seen| drop(seen.remove(6)));
    assert!(lost_delete.contains("acknowledged and never seen: Delete"), "{lost_delete}");
}

#[test]
fn an_event_that_came_twice_is_found() {
    assert!(found_in_watches(|seen| seen.insert(1, seen[0].clone())).contains("came after 10"));
    let renumbered = found_in_watches(|seen| {
        seen.push(Seen::Event { change: Change::Modified, object: "a".to_owned(), revision: 17, mark: 8 });
    });
    assert!(renumbered.contains("nobody did this"), "{renumbered}");
}

#[test]
fn events_out_of_order_are_found() {
    assert!(found_in_watches(|seen| seen.swap(2, 3)).contains("at 12 came after 13"));
}

#[test]
fn an_event_that_a_bookmark_had_covered_is_found() {
    assert!(found_in_watches(|seen| seen.insert(0, Seen::Bookmark(11))).contains("came after 11"));
    assert!(found_in_watches(|seen| seen.push(Seen::Bookmark(3))).contains("a bookmark of 3 came after"));
}

#[test]
fn a_watcher_that_saw_less_than_another_is_found() {
    let missed = found(|history| drop(history.watchers[1].seen.remove(4)));
    assert!(missed.contains("where watcher 1 saw"), "{missed}");
    assert!(found(|history| history.watchers[1].seen.truncate(3)).contains("where watcher 1 saw None"));
}

#[test]
fn a_watch_that_could_not_go_on_is_found() {
    assert!(found(|history| history.watchers[1].broken = Some("410".to_owned())).contains("could not go on: 410"));
}

#[test]
fn an_acknowledgement_with_another_revision_is_found() {
    assert!(
        found(|history| history.writes[0].fate = Fate::Done(Some(9))).contains("acknowledged at 9, and seen at 10")
    );
}

#[test]
fn a_write_over_a_revision_that_was_not_the_newest_is_found() {
    assert!(found(|history| history.writes[3].base = Some(10)).contains("nobody did this"));
}

#[test]
fn a_refused_write_that_happened_is_found() {
    let refused = found(|history| history.writes[1].fate = Fate::Refused(409));
    assert!(refused.contains("refused with 409, and seen at 11"), "{refused}");
}

#[test]
fn a_revision_that_went_backwards_is_found() {
    let back = found(|history| {
        let first = history.writes[0].clone();
        history.writes.push(Write {
            object: "c".to_owned(),
            act: Act::Create,
            mark: 99,
            base: None,
            began: first.ended + Duration::from_mins(1),
            ended: first.ended + Duration::from_secs(61),
            fate: Fate::Done(Some(2)),
        });
    });
    assert!(back.contains("c: acknowledged at 2, begun after 15 was"), "{back}");
}

#[test]
fn a_stale_read_is_found() {
    assert!(found(|history| history.looks[0].state = Some((9, 1))).contains("which no watch saw"));
    let stale = found(|history| {
        let last = history.writes[7].ended + Duration::from_secs(1);
        history.looks.push(Look { object: "a".to_owned(), began: last, state: Some((12, 4)) });
    });
    assert!(stale.contains("a: read at 12, after Some(15) was acknowledged"), "{stale}");
    let undead = found(|history| {
        let last = history.writes[8].ended + Duration::from_secs(1);
        history.looks.push(Look { object: "b".to_owned(), began: last, state: Some((13, 5)) });
    });
    assert!(undead.contains("b: read at 13, after Some(16) was acknowledged"), "{undead}");
    let missing = found(|history| {
        let last = history.writes[7].ended + Duration::from_secs(1);
        history.looks.push(Look { object: "a".to_owned(), began: last, state: None });
    });
    assert!(missing.contains("a: not found, after 15 was acknowledged, and never deleted"), "{missing}");
}

#[test]
fn an_end_that_is_not_what_was_watched_is_found() {
    assert!(found(|history| history.end.objects.clear()).contains("a: at the end the list has None"));
    assert!(
        found(|history| history.end.objects.push(("b".to_owned(), 13, 5))).contains("b: at the end the list has Some")
    );
}
