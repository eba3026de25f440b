//! What is done when a client was refused an address or a port: it is counted, and if nothing is left, people are told which
//! ranges are full and what to do.

use space::Family;
use store::Key;

use super::decision::Wanted;
use crate::registry::telling::{Told, tell};
use crate::registry::{Surroundings, Unmet};

/// How many ranges are named. There may be a thousand, and a note has an end.
const MOST_NAMED: usize = 8;

/// See the module.
pub(crate) async fn unmet(around: &Surroundings, unmet: &Unmet) {
    let full = around.ledger.refuse(unmet.wanted);
    // Where controllers are at work as elsewhere, Events are those that there are elsewhere.
    let Some(Notice { action, reason, note }) = notice(unmet.wanted, &full).filter(|_| around.tended) else { return };
    let regarding = unmet.service.clone();
    let (reason, occasion) = (reason.to_owned(), String::new());
    // A Service that is tried again and again, under ever new names, is no new cause.
    tell(around, &Told { regarding, action, reporter: "cadastre", reason, note, occasion, is_shared: true }).await;
}

#[derive(Debug, PartialEq, Eq)]
struct Notice {
    action: &'static str,
    reason: &'static str,
    note: String,
}

/// What people are told if any would have done and none of those ranges has one left.
fn notice(wanted: Wanted, full: &[(Key, String)]) -> Option<Notice> {
    let (action, reason) = match wanted {
        Wanted::Address(_) | Wanted::Port => return None,
        Wanted::AnyAddress(_) => ("ClusterIPAllocation", "ClusterIPRangeFull"),
        Wanted::AnyPort => ("PortAllocation", "PortRangeFull"),
    };
    let (a, point, kind) = match wanted {
        Wanted::AnyAddress(Family::V4) => ("an", "IPv4 address", "ServiceCIDR"),
        Wanted::AnyAddress(Family::V6) => ("an", "IPv6 address", "ServiceCIDR"),
        _ => ("a", "node port", "NodePortRange"),
    };
    let note = if full.is_empty() {
        format!("no {kind} is open that has {a} {point} to give; create one")
    } else {
        let name = |key: &Key| key.rsplit('/').next().unwrap_or_default().to_owned();
        let mut named: Vec<String> =
            full.iter().take(MOST_NAMED).map(|(key, text)| format!("{} ({text})", name(key))).collect();
        if full.len() > MOST_NAMED {
            named.push(format!("{} more", full.len() - MOST_NAMED));
        }
        let (which, are) = if full.len() == 1 { (kind.to_owned(), "is") } else { (format!("{kind}s"), "are") };
        format!(
            "no {point} is left: {which} {} {are} full; create another {kind}, or delete Services that are not needed",
            named.join(", ")
        )
    };
    Some(Notice { action, reason, note })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(wanted: Wanted, full: &[(&str, &str)]) -> String {
        let full: Vec<(Key, String)> = full.iter().map(|(key, text)| ((*key).into(), (*text).to_owned())).collect();
        notice(wanted, &full).map(|notice| notice.note).unwrap_or_default()
    }

    #[test]
    fn people_are_told_which_ranges_are_full_and_what_to_do() {
        assert_eq!(
            note(Wanted::AnyAddress(Family::V4), &[("servicecidrs/kubernetes", "10.7.0.0/29")]),
            "no IPv4 address is left: ServiceCIDR kubernetes (10.7.0.0/29) is full; create another ServiceCIDR, or delete \
             Services that are not needed"
        );
        assert_eq!(
            note(Wanted::AnyPort, &[("r/a", "1-2"), ("r/b", "3-4")]),
            "no node port is left: NodePortRanges a (1-2), b (3-4) are full; create another NodePortRange, or delete Services that \
             are not needed"
        );
        assert_eq!(
            note(Wanted::AnyAddress(Family::V6), &[]),
            "no ServiceCIDR is open that has an IPv6 address to give; create one"
        );
        assert_eq!(note(Wanted::AnyPort, &[]), "no NodePortRange is open that has a node port to give; create one");
        let many: Vec<(Key, String)> =
            (0..1000).map(|n| (format!("r/{}", "n".repeat(60)).into(), format!("10.{n}.0.0/16"))).collect();
        let note = notice(Wanted::AnyAddress(Family::V4), &many).unwrap().note;
        assert!(note.len() < 1024 && note.contains("992 more"), "{note}");
    }

    #[test]
    fn who_wants_a_certain_one_is_told_by_the_answer_alone() {
        assert_eq!(notice(Wanted::Port, &[]), None);
        assert_eq!(notice(Wanted::Address([10, 0, 0, 1].into()), &[]), None);
    }
}
