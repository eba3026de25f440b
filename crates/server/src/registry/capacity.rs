//! The condition of a `ServiceCIDR` that says how much of it is in use, and what to do when little is left.
//!
//! It is a function of the counts, of whether the range is open, and of what the condition says now; so all servers say the same.
//! `lifecycle` writes it, and not with every Service.

use api::Object;
use serde_json::{Value, json};

/// The type of the condition.
pub(crate) const CONDITION: &str = "ipam.cadastre.dev/Capacity";

/// How much room a range has. What is worse is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Room {
    Free,
    NearlyFull,
    Full,
    /// Nothing new is given out of it, whatever is free.
    Closed,
}

impl Room {
    const ALL: [(Self, &'static str); 4] =
        [(Self::Free, "Free"), (Self::NearlyFull, "NearlyFull"), (Self::Full, "Full"), (Self::Closed, "Closed")];

    fn reason(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn status(self) -> &'static str {
        match self {
            Self::Free | Self::NearlyFull => "True",
            Self::Full | Self::Closed => "False",
        }
    }

    /// What to do about it.
    fn advice(self) -> &'static str {
        match self {
            Self::Free => "",
            Self::NearlyFull => "; create another ServiceCIDR before it is full",
            Self::Full => "; create another ServiceCIDR, or delete Services that are not needed",
            Self::Closed => "; nothing new is given out of it",
        }
    }
}

/// How much of a CIDR is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) cidr: String,
    pub(crate) used: u64,
    pub(crate) free: u64,
}

impl Part {
    /// How much room there is. What was nearly full stays so until there is clearly more, so that a Service that comes and goes
    /// does not turn it back and forth.
    fn room(&self, before: Option<Room>) -> Room {
        let size = u128::from(self.used) + u128::from(self.free);
        let few = match before {
            Some(Room::NearlyFull | Room::Full) => (size * 3 / 20).max(2),
            _ => (size / 10).max(1),
        };
        match self.free {
            0 => Room::Full,
            free if u128::from(free) <= few && self.used > 0 => Room::NearlyFull,
            _ => Room::Free,
        }
    }
}

/// What the condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) room: Room,
    pub(crate) message: String,
}

impl Capacity {
    /// What it should say of a range with those parts. The family with the least room decides.
    pub(crate) fn of(parts: &[Part], is_open: bool, before: Option<Room>) -> Option<Self> {
        let worst = parts.iter().map(|part| part.room(before)).max()?;
        let room = if is_open { worst } else { Room::Closed };
        let figures: Vec<String> =
            parts.iter().map(|Part { cidr, used, free }| format!("{cidr}: {used} used, {free} free")).collect();
        Some(Self { room, message: format!("{}{}", figures.join("; "), room.advice()) })
    }

    /// What it says now.
    pub(crate) fn read(object: &Object) -> Option<Self> {
        let condition = conditions(object).iter().find(|condition| condition["type"] == CONDITION)?;
        let (room, _) = *Room::ALL.iter().find(|(_, reason)| condition["reason"] == *reason)?;
        Some(Self { room, message: condition["message"].as_str()?.to_owned() })
    }

    /// The conditions of a range with this one among them; the others stay as they are.
    pub(crate) fn among(&self, object: &Object, now: &Value) -> Vec<Value> {
        let mut all = conditions(object).to_vec();
        let mut own = json!({
            "type": CONDITION, "status": self.room.status(), "reason": self.room.reason(), "message": self.message,
            "lastTransitionTime": now,
        });
        match all.iter_mut().find(|condition| condition["type"] == CONDITION) {
            Some(known) => {
                if known["status"] == own["status"] {
                    own["lastTransitionTime"] = known["lastTransitionTime"].take();
                }
                *known = own;
            }
            None => all.push(own),
        }
        all
    }
}

fn conditions(object: &Object) -> &[Value] {
    object.at(&["status", "conditions"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(cidr: &str, used: u64, free: u64) -> Part {
        Part { cidr: cidr.to_owned(), used, free }
    }

    fn room(used: u64, free: u64, before: Option<Room>) -> Room {
        Capacity::of(&[part("a", used, free)], true, before).unwrap().room
    }

    #[test]
    fn what_is_nearly_full_stays_so_until_there_is_clearly_more_room() {
        assert_eq!(room(889, 111, None), Room::Free);
        assert_eq!(room(900, 100, None), Room::NearlyFull);
        for before in [Room::NearlyFull, Room::Full] {
            assert_eq!(room(899, 101, Some(before)), Room::NearlyFull);
            assert_eq!(room(850, 150, Some(before)), Room::NearlyFull);
            assert_eq!(room(849, 151, Some(before)), Room::Free);
        }
        assert_eq!(room(899, 101, Some(Room::Free)), Room::Free);
        assert_eq!(room(1000, 0, Some(Room::Free)), Room::Full);
    }

    #[test]
    fn small_ranges_are_nearly_full_with_the_last_address_and_not_when_nothing_is_used() {
        assert_eq!([room(4, 2, None), room(5, 1, None), room(6, 0, None)], [Room::Free, Room::NearlyFull, Room::Full]);
        assert_eq!([room(4, 2, Some(Room::Full)), room(3, 3, Some(Room::Full))], [Room::NearlyFull, Room::Free]);
        assert_eq!([room(0, 1, None), room(0, 2, Some(Room::Full))], [Room::Free, Room::Free]);
        assert_eq!(room(1, u64::MAX, None), Room::Free);
    }

    #[test]
    fn the_family_with_the_least_room_decides_and_a_closed_range_has_none() {
        let parts = [part("10.0.0.0/29", 6, 0), part("fd00::/64", 6, 9_000)];
        let said = |parts: &[Part], open| {
            let capacity = Capacity::of(parts, open, None).unwrap();
            format!("{} {}: {}", capacity.room.status(), capacity.room.reason(), capacity.message)
        };
        assert_eq!(
            said(&parts, true),
            "False Full: 10.0.0.0/29: 6 used, 0 free; fd00::/64: 6 used, 9000 free; create another ServiceCIDR, or delete \
             Services that are not needed"
        );
        assert_eq!(
            said(&parts[1..], false),
            "False Closed: fd00::/64: 6 used, 9000 free; nothing new is given out of it"
        );
        assert_eq!(said(&parts[1..], true), "True Free: fd00::/64: 6 used, 9000 free");
        assert_eq!(
            said(&[part("10.0.0.0/29", 5, 1)], true),
            "True NearlyFull: 10.0.0.0/29: 5 used, 1 free; create another ServiceCIDR before it is full"
        );
        assert_eq!(Capacity::of(&[], true, None), None, "it can never give out anything, and says so elsewhere");
    }

    #[test]
    fn other_conditions_stay_and_the_time_is_that_of_the_last_change_of_status() {
        let ready = json!({"type": "Ready", "status": "True"});
        let mut object = Object::from_value(json!({"status": {"conditions": [ready]}})).unwrap();
        let mut step = |used, free, now: &str| {
            let before = Capacity::read(&object).map(|capacity| capacity.room);
            let capacity = Capacity::of(&[part("a", used, free)], true, before).unwrap();
            let all = capacity.among(&object, &json!(now));
            assert_eq!((all.len(), &all[0]), (2, &ready));
            object.set(&["status", "conditions"], json!(all));
            assert_eq!(Capacity::read(&object), Some(capacity));
            all[1]["lastTransitionTime"].as_str().unwrap().to_owned()
        };
        assert_eq!([step(1, 9, "t1"), step(9, 1, "t2"), step(10, 0, "t3"), step(9, 1, "t4")], ["t1", "t1", "t3", "t4"]);
    }
}
