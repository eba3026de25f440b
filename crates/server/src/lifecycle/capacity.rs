//! When the condition that says how much of a range is in use is written: soon if there is less room than it says, and else not more
//! often than people look. A Service costs no write of its range.

use std::collections::HashMap;
use std::time::Duration;

use api::Object;
use serde_json::json;
use store::{Key, What};
use tokio::time::Instant;

use super::hand::{Hand, Refused};
use super::place::Place;
use crate::machinery::now as present;
use crate::registry::capacity::{Capacity, Part, Room};
use crate::registry::service_cidrs;
use crate::registry::services::Usage;

/// How often the figures of a range are written anew while they change.
const EVERY: Duration = Duration::from_secs(10);

/// How many ranges are written at a time. While a thousand of them change, each of them waits its turn.
const MOST: usize = 16;

/// What conditions say, and since when.
#[derive(Default)]
pub(super) struct Capacities {
    said: HashMap<Key, Said>,
}

struct Said {
    capacity: Option<Capacity>,
    since: Instant,
}

/// What is to be written now, and when to look again if something is left.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) now: Vec<(Key, Capacity)>,
    pub(super) next: Option<Instant>,
}

impl Capacities {
    /// Takes in a change of a range. Others may have written what it says.
    pub(super) fn note(&mut self, what: What, key: &Key, value: &[u8], now: Instant) {
        if key.split_once('/').is_none_or(|(prefix, _)| prefix != service_cidrs::PREFIX) {
            return;
        }
        if what == What::Delete {
            self.said.remove(key);
            return;
        }
        let capacity = Object::parse(value).ok().and_then(|object| Capacity::read(&object));
        if self.said.get(key).is_none_or(|said| said.capacity != capacity) {
            self.said.insert(key.clone(), Said { capacity, since: now });
        }
    }

    /// What is to be done if so much is in use.
    pub(super) fn due(&self, usage: &[Usage], now: Instant) -> Due {
        let mut ranges: HashMap<&Key, (bool, Vec<Part>)> = HashMap::new();
        for one in usage.iter().filter(|one| !one.is_ports) {
            let part = Part { cidr: one.range.clone(), used: one.given, free: one.free };
            ranges.entry(&one.key).or_insert_with(|| (one.is_open, Vec::new())).1.push(part);
        }
        let mut due = Vec::new();
        for (key, (is_open, parts)) in ranges {
            // One that is not known yet has an event under way.
            let Some(said) = self.said.get(key) else { continue };
            let before = said.capacity.as_ref().map(|said| said.room);
            let Some(is) = Capacity::of(&parts, is_open, before) else { continue };
            if said.capacity.as_ref() == Some(&is) {
                continue;
            }
            let is_urgent = before.is_none_or(|before| is.room > before || before == Room::Closed);
            let time = if is_urgent { now } else { said.since + EVERY };
            due.push((time, said.since, key.clone(), is));
        }
        // What waits longest comes first; the key makes all servers choose the same.
        due.sort_unstable_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
        let next = due.iter().map(|(time, ..)| *time).find(|time| *time > now);
        let ready = due.iter().filter(|(time, ..)| *time <= now).count();
        let next = if ready > MOST { Some(now + super::SOON) } else { next };
        due.truncate(ready.min(MOST));
        Due { now: due.into_iter().map(|(_, _, key, is)| (key, is)).collect(), next }
    }
}

/// Writes what the condition of a range should say, unless somebody else has just changed the range: that is an event, and a
/// reason to look again.
pub(super) async fn tell(hand: &Hand, key: &str, is: &Capacity) -> Result<(), Refused> {
    let (Some(place), Some(entry)) = (Place::of(key), hand.store().get(key)) else { return Ok(()) };
    let object = super::seen::whole(&place, &entry.value);
    let conditions = is.among(&object, &present());
    let patch =
        json!({"metadata": {"resourceVersion": object.resource_version()}, "status": {"conditions": conditions}});
    match hand.patch(&place, "status", &patch).await {
        Err(refused) if !refused.is_lost_race() => Err(refused),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(name: &str, used: u64, free: u64) -> Usage {
        let key = format!("{}/{name}", service_cidrs::PREFIX).into();
        Usage { key, range: "10.0.0.0/24".to_owned(), is_ports: false, is_open: true, given: used, free }
    }

    /// Makes the range say what is due.
    fn write(capacities: &mut Capacities, key: &Key, is: &Capacity, now: Instant) {
        let conditions = is.among(&Object::default(), &json!("t"));
        let value = Object::from_value(json!({"status": {"conditions": conditions}})).unwrap().encode();
        capacities.note(What::Put, key, &value, now);
    }

    fn known(capacities: &mut Capacities, name: &str, now: Instant) {
        capacities.note(What::Put, &usage(name, 0, 0).key, b"{}", now);
    }

    #[test]
    fn less_room_is_said_at_once_and_other_figures_from_time_to_time() {
        let (mut capacities, begin) = (Capacities::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let look = |capacities: &Capacities, used, now| capacities.due(&[usage("a", used, 100 - used)], now);
        assert_eq!(look(&capacities, 1, at(0)), Due::default(), "its event is under way");
        known(&mut capacities, "a", at(0));
        let first = look(&capacities, 1, at(0)).now.remove(0);
        assert_eq!(first.1.message, "10.0.0.0/24: 1 used, 99 free");
        write(&mut capacities, &first.0, &first.1, at(1));
        assert_eq!(look(&capacities, 1, at(50)), Due::default(), "nothing has changed");
        assert_eq!(look(&capacities, 2, at(2)), Due { now: vec![], next: Some(at(11)) });
        assert_eq!(look(&capacities, 2, at(11)).now.len(), 1);
        let full = look(&capacities, 100, at(3)).now.remove(0);
        assert_eq!(full.1.room, Room::Full);
        write(&mut capacities, &full.0, &full.1, at(3));
        assert_eq!(look(&capacities, 99, at(4)), Due { now: vec![], next: Some(at(13)) }, "more room can wait");
    }

    #[test]
    fn what_another_server_has_written_is_not_written_again() {
        let (mut capacities, now) = (Capacities::default(), Instant::now());
        known(&mut capacities, "a", now);
        let usage = [usage("a", 1, 9)];
        let (key, is) = capacities.due(&usage, now).now.remove(0);
        write(&mut capacities, &key, &is, now);
        assert_eq!(capacities.due(&usage, now + EVERY), Due::default());
        capacities.note(What::Delete, &key, b"{}", now);
        assert_eq!(capacities.due(&usage, now + EVERY), Due::default());
    }

    #[test]
    fn of_a_thousand_ranges_a_few_are_written_at_a_time_and_all_in_the_end() {
        let (mut capacities, mut now) = (Capacities::default(), Instant::now());
        let all: Vec<Usage> = (0..1000).map(|n| usage(&format!("r{n}"), 1, 9)).collect();
        for n in 0..1000 {
            known(&mut capacities, &format!("r{n}"), now);
        }
        let mut rounds = 0;
        loop {
            let due = capacities.due(&all, now);
            assert!(due.now.len() <= MOST);
            for (key, is) in &due.now {
                write(&mut capacities, key, is, now);
            }
            let Some(next) = due.next else { break };
            (now, rounds) = (next, rounds + 1);
        }
        assert_eq!(rounds, 1000 / MOST);
        assert_eq!(capacities.due(&all, now), Due::default());
    }

    #[test]
    fn a_range_that_opens_again_says_so_at_once() {
        let (mut capacities, now) = (Capacities::default(), Instant::now());
        known(&mut capacities, "a", now);
        let closed = [Usage { is_open: false, ..usage("a", 1, 9) }];
        let (key, is) = capacities.due(&closed, now).now.remove(0);
        assert_eq!(is.room, Room::Closed);
        write(&mut capacities, &key, &is, now);
        assert_eq!(capacities.due(&[usage("a", 1, 9)], now).now[0].1.room, Room::Free);
    }
}
