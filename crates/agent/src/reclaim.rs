//! Which holdings nobody uses any more, although no DEL came: a function of the book, the namespaces, the pods and the time.
//!
//! What can be seen on the node needs no API server: a namespace that is gone. A pod that the API still has may come again in another
//! sandbox, and gets a little longer. What was held in another boot waits for the word of the API: a pod that is still there gets its
//! address again when it comes. Where nobody can see the namespaces, the API's pods decide, and before anything is given up
//! because of what a watch shows, the server is asked once more.
//!
//! In networks without slices the same holds. There, what ends is owed to the pools that all nodes share, and so is what an ADD is about
//! to take: that ends, too, when its namespace is gone, or when no ADD can be under way for it any more. What is owed and nobody's is
//! settled as soon as it is not a DEL's that is just about to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cni::allocate::Liveness;
use cni::journal::{Book, Holding, Origin, Reason};
use cni::pool::release::OVERDUE;

/// How long a namespace must be seen to be gone, in milliseconds: long enough for two looks.
pub const NAMESPACE_GRACE: u64 = 1_500;
/// The same for a pod that the API still has: its next sandbox may want the address.
pub const SANDBOX_GRACE: u64 = 6_000;
/// How long a pod must be gone or have ended.
pub const POD_GRACE: u64 = 3_000;
/// The same for a pod that was never seen, of an entry that others wrote for a container. A person may write one before the pod is made.
pub const ADOPTED_GRACE: u64 = 3_600_000;
/// How long a DEL is left alone with what it owes.
pub const DEBT_GRACE: u64 = 1_000;

/// A pod of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its UID.
    pub uid: String,
    /// The UID that the kubelet gave it, if that is another one: a static pod has it, and the pod that the API shows in its place a
    /// UID of its own. Runtimes say the kubelet's.
    pub static_uid: String,
    /// Whether nothing of it runs any more.
    pub is_ended: bool,
    /// The addresses that it says it has, each with its interface.
    pub ips: Vec<(IpAddr, String)>,
}

impl Pod {
    /// Whether it is the one with this UID; if nobody knows the UID, it may be.
    pub fn is(&self, uid: &str) -> bool {
        uid.is_empty() || uid == self.uid || uid == self.static_uid
    }
}

/// The pods of this node, by `namespace/name`; none before they were listed.
pub type Pods = Option<BTreeMap<String, Pod>>;

/// What is known of the pod of a holding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    There,
    Ended,
    Gone,
    Unknown,
}

fn presence(pods: &Pods, holding: &Holding<'_>) -> Presence {
    let Some(pods) = pods else { return Presence::Unknown };
    match pods.get(&*holding.pod).filter(|pod| pod.is(&holding.uid)) {
        _ if holding.pod.is_empty() => Presence::Unknown,
        None => Presence::Gone,
        Some(pod) if pod.is_ended => Presence::Ended,
        Some(_) => Presence::There,
    }
}

/// A pod that the server has to be asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The holding.
    pub sequence: u64,
    /// Its pod, `namespace/name`.
    pub pod: String,
    /// The pod's UID; empty if it is not known.
    pub uid: String,
}

/// What came of a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Holdings that end, and why.
    pub ends: Vec<(u64, Reason)>,
    /// Holdings whose pod seems to be gone.
    pub doubts: Vec<Doubt>,
    /// Holdings that nobody uses, as far as can be told now.
    pub dead: BTreeSet<u64>,
    /// What is owed to shared pools and should be settled by now.
    pub owed: Vec<u64>,
}

/// What is remembered between looks, of holdings that are there.
#[derive(Clone, Debug, Default)]
pub struct Suspicions {
    /// Since when each holding is suspected, and of what.
    since: BTreeMap<u64, (Suspicion, u64)>,
    /// Holdings whose pod is gone, as the server said when it was asked.
    confirmed: BTreeSet<u64>,
    /// Holdings by others whose pod was seen. They may be written down before their pod is made.
    witnessed: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspicion {
    Namespace,
    Reboot,
    Pod,
    Debt,
}

impl Suspicions {
    /// The server was asked: the pod of a holding is gone.
    pub fn confirm(&mut self, sequence: u64) {
        self.confirmed.insert(sequence);
    }

    /// The server was asked: the pod is there. It is asked again when the time is up again.
    pub fn dismiss(&mut self, sequence: u64) {
        self.since.remove(&sequence);
    }

    /// Looks at all holdings at a time, in milliseconds of any clock that only goes forward.
    pub fn look(
        &mut self,
        book: &Book<'_>,
        pods: &Pods,
        liveness: impl Fn(&Holding<'_>) -> Liveness,
        now: u64,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        let mut since = BTreeMap::new();
        let there: BTreeSet<u64> = book.holdings().iter().map(|holding| holding.sequence).collect();
        self.confirmed.retain(|sequence| there.contains(sequence));
        self.witnessed.retain(|sequence| there.contains(sequence));
        for holding in book.holdings() {
            let sequence = holding.sequence;
            let presence = presence(pods, holding);
            if presence == Presence::There && holding.origin == Origin::Foreign {
                self.witnessed.insert(sequence);
            }
            let Some((suspicion, reason, grace)) = self.suspicion(holding, liveness(holding), presence) else {
                continue;
            };
            let begun = self.since.get(&sequence).filter(|(other, _)| *other == suspicion).map_or(now, |(_, at)| *at);
            since.insert(sequence, (suspicion, begun));
            let is_sure =
                suspicion != Suspicion::Pod || presence == Presence::Ended || self.confirmed.contains(&sequence);
            if is_sure && suspicion != Suspicion::Debt {
                verdict.dead.insert(sequence);
            }
            if now.saturating_sub(begun) < grace {
                continue;
            }
            if holding.origin == Origin::Owed && !holding.is_under_way() {
                verdict.owed.push(sequence);
            } else if is_sure {
                verdict.ends.push((sequence, reason));
            } else {
                let (pod, uid) = (holding.pod.clone().into_owned(), holding.uid.clone().into_owned());
                verdict.doubts.push(Doubt { sequence, pod, uid });
            }
        }
        self.since = since;
        verdict
    }

    fn suspicion(&self, holding: &Holding<'_>, seen: Liveness, presence: Presence) -> Option<(Suspicion, Reason, u64)> {
        if holding.origin == Origin::Owed {
            return Some(match seen {
                // Nobody was told of it, so nobody comes back for it.
                Liveness::Gone(reason) => (Suspicion::Namespace, reason, NAMESPACE_GRACE),
                _ if holding.is_under_way() => (Suspicion::Debt, Reason::Del, OVERDUE),
                _ => (Suspicion::Debt, Reason::Del, DEBT_GRACE),
            });
        }
        match (seen, presence) {
            (Liveness::Gone(Reason::Rebooted), Presence::Gone | Presence::Ended) => {
                Some((Suspicion::Reboot, Reason::Rebooted, POD_GRACE))
            }
            (Liveness::Gone(Reason::Rebooted) | Liveness::Alive, _) => None,
            (Liveness::Gone(reason), Presence::There) => Some((Suspicion::Namespace, reason, SANDBOX_GRACE)),
            (Liveness::Gone(reason), _) => Some((Suspicion::Namespace, reason, NAMESPACE_GRACE)),
            (Liveness::Unknown, Presence::Gone | Presence::Ended) => {
                let is_known = holding.origin != Origin::Foreign || self.witnessed.contains(&holding.sequence);
                let grace = if is_known { POD_GRACE } else { ADOPTED_GRACE };
                // Without a container nobody had it yet: it was written down for a pod to come.
                let is_adopted = !holding.container.is_empty();
                (is_known || is_adopted).then_some((Suspicion::Pod, Reason::PodGone, grace))
            }
            (Liveness::Unknown, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use cni::journal::Netns;

    use super::*;
    use crate::tests::{Node, holding};

    const SEEN: Liveness = Liveness::Alive;
    const GONE: Liveness = Liveness::Gone(Reason::NetnsGone);
    const REBOOTED: Liveness = Liveness::Gone(Reason::Rebooted);

    #[allow(clippy::unnecessary_wraps, reason = "it is what is looked at")]
    fn pods(pods: &[(&str, &str, bool)]) -> Pods {
        let pod = |(name, uid, is_ended): &(&str, &str, bool)| {
            ((*name).to_owned(), Pod { uid: (*uid).to_owned(), is_ended: *is_ended, ..Pod::default() })
        };
        Some(pods.iter().map(pod).collect())
    }

    /// When a single holding of pod `a/b` with the UID `u` ends and why, if it is looked at every 500 ms for a minute, and every
    /// question is answered by `is_gone`.
    fn fate(origin: Origin, pods: &Pods, liveness: Liveness, is_gone: bool) -> Option<(Reason, u64)> {
        let netns = Netns { path: "/run/netns/b".into(), ..Netns::default() };
        let holding = Holding { origin, netns, uid: "u".into(), ..holding(1, "a/b", "10.0.0.1") };
        let (node, mut suspicions) = (Node::holding(&[holding]), Suspicions::default());
        let image = node.image();
        for now in (0..60_000).step_by(500) {
            let verdict = suspicions.look(&image.book(), pods, |_| liveness, now);
            if let Some((_, reason)) = verdict.ends.first() {
                return Some((*reason, now));
            }
            for doubt in verdict.doubts {
                if is_gone { suspicions.confirm(doubt.sequence) } else { suspicions.dismiss(doubt.sequence) }
            }
        }
        None
    }

    /// What an ADD gave, of a slice or of pools that all nodes share.
    const GIVEN: [Origin; 2] = [Origin::Add, Origin::Shared];

    #[test]
    fn what_can_be_seen_on_the_node_needs_no_server() {
        for origin in GIVEN {
            let end = |pods: &Pods| fate(origin, pods, GONE, false);
            assert_eq!(end(&None), Some((Reason::NetnsGone, NAMESPACE_GRACE)));
            assert_eq!(end(&pods(&[])), Some((Reason::NetnsGone, NAMESPACE_GRACE)));
            assert_eq!(end(&pods(&[("a/b", "u", false)])), Some((Reason::NetnsGone, SANDBOX_GRACE)));
        }
    }

    #[test]
    fn a_namespace_that_is_seen_keeps_its_addresses_whatever_the_server_says() {
        for pods in [None, pods(&[]), pods(&[("a/b", "u", true)]), pods(&[("a/b", "other", false)])] {
            assert_eq!(GIVEN.map(|origin| fate(origin, &pods, SEEN, true)), [None, None]);
        }
    }

    #[test]
    fn after_a_reboot_a_pod_that_is_still_there_gets_its_address_again() {
        for origin in GIVEN {
            let end = |pods: &Pods| fate(origin, pods, REBOOTED, true);
            assert_eq!(end(&None), None);
            assert_eq!(end(&pods(&[("a/b", "u", false)])), None);
            let ended = Some((Reason::Rebooted, POD_GRACE));
            assert_eq!(end(&pods(&[])), ended);
            assert_eq!(end(&pods(&[("a/b", "u", true)])), ended);
            assert_eq!(end(&pods(&[("a/b", "other", false)])), ended);
        }
    }

    #[test]
    fn where_no_namespace_can_be_seen_the_server_is_asked_before_anything_ends() {
        for origin in GIVEN {
            let end = |pods: &Pods, is_gone| fate(origin, pods, Liveness::Unknown, is_gone);
            assert_eq!(end(&None, true), None);
            assert_eq!(end(&pods(&[("a/b", "u", false)]), true), None);
            assert_eq!(end(&pods(&[]), true), Some((Reason::PodGone, POD_GRACE + 500)));
            assert_eq!(end(&pods(&[]), false), None);
            assert_eq!(end(&pods(&[("a/b", "u", true)]), false), Some((Reason::PodGone, POD_GRACE)));
        }
    }

    #[test]
    fn what_an_add_is_about_to_take_ends_with_its_namespace_or_when_no_add_can_be_under_way() {
        let there = pods(&[("a/b", "u", false)]);
        let end = |liveness| fate(Origin::Owed, &there, liveness, false);
        assert_eq!(end(GONE), Some((Reason::NetnsGone, NAMESPACE_GRACE)));
        assert_eq!(end(REBOOTED), Some((Reason::Rebooted, NAMESPACE_GRACE)));
        assert_eq!(end(SEEN), Some((Reason::Del, OVERDUE)));
        assert_eq!(end(Liveness::Unknown), Some((Reason::Del, OVERDUE)));
    }

    #[test]
    fn what_is_owed_is_settled_when_the_del_that_owes_it_had_its_time() {
        let owed = Holding { origin: Origin::Owed, ..holding(1, "a/b", "10.0.0.1") };
        let (node, mut suspicions) = (Node::holding(&[owed]), Suspicions::default());
        let image = node.image();
        let mut look = |now| suspicions.look(&image.book(), &None, |_| Liveness::Unknown, now);
        assert_eq!((look(0), look(DEBT_GRACE - 1)), (Verdict::default(), Verdict::default()));
        let verdict = look(DEBT_GRACE);
        assert_eq!((verdict.owed, verdict.ends), (vec![1], vec![]));
    }

    #[test]
    fn what_others_wrote_down_waits_for_its_pod_to_come_and_go() {
        assert_eq!(fate(Origin::Foreign, &pods(&[]), Liveness::Unknown, true), None);
        let foreign = Holding { origin: Origin::Foreign, ..holding(1, "a/b", "10.0.0.1") };
        let (node, mut suspicions) = (Node::holding(&[foreign]), Suspicions::default());
        let image = node.image();
        let mut look = |pods: &Pods, now| suspicions.look(&image.book(), pods, |_| Liveness::Unknown, now);
        assert_eq!(look(&pods(&[("a/b", "u", false)]), 0), Verdict::default());
        assert_eq!(look(&pods(&[]), 1_000), Verdict::default());
        assert_eq!(look(&pods(&[]), 1_000 + POD_GRACE).doubts.len(), 1);
    }

    /// What is asked of the server in time, of a holding of that origin and container whose pod was never seen.
    fn asked_in(time: u64, origin: Origin, container: &'static str) -> Option<u64> {
        let holding = Holding { origin, container: container.into(), ..holding(1, "a/b", "10.0.0.1") };
        let (node, mut suspicions) = (Node::holding(&[holding]), Suspicions::default());
        let image = node.image();
        let mut look = |now| suspicions.look(&image.book(), &pods(&[]), |_| Liveness::Unknown, now);
        (0..=time).step_by(500).find(|now| {
            let verdict = look(*now);
            assert_eq!((verdict.ends, verdict.dead), (vec![], BTreeSet::new()), "nobody asked the server");
            !verdict.doubts.is_empty()
        })
    }

    #[test]
    fn an_entry_of_a_pod_that_nobody_ever_saw_is_asked_about_after_an_hour() {
        assert_eq!(asked_in(2 * ADOPTED_GRACE, Origin::Foreign, "c"), Some(ADOPTED_GRACE));
        assert_eq!(asked_in(2 * ADOPTED_GRACE, Origin::Foreign, ""), None, "it is for a pod to come");
        assert_eq!(asked_in(2 * ADOPTED_GRACE, Origin::Add, ""), Some(POD_GRACE));
    }

    #[test]
    fn an_entry_of_a_pod_that_nobody_ever_saw_ends_when_the_server_says_that_there_is_none() {
        for is_gone in [true, false] {
            let foreign = Holding { origin: Origin::Foreign, ..holding(1, "a/b", "10.0.0.1") };
            let (node, mut suspicions) = (Node::holding(&[foreign]), Suspicions::default());
            let image = node.image();
            let look = |suspicions: &mut Suspicions, now| {
                suspicions.look(&image.book(), &pods(&[]), |_| Liveness::Unknown, now)
            };
            look(&mut suspicions, 0);
            assert_eq!(look(&mut suspicions, ADOPTED_GRACE).doubts.len(), 1);
            if is_gone {
                suspicions.confirm(1);
            } else {
                suspicions.dismiss(1);
            }
            let ends = look(&mut suspicions, ADOPTED_GRACE + 500).ends;
            assert_eq!(ends, if is_gone { vec![(1, Reason::PodGone)] } else { vec![] });
        }
    }

    #[test]
    fn a_static_pod_is_there_under_the_uid_that_the_kubelet_gave_it() {
        let mirror = Pod { uid: "of the mirror".into(), static_uid: "u".into(), ..Pod::default() };
        let pods: Pods = Some([("a/b".to_owned(), mirror)].into());
        assert_eq!(fate(Origin::Add, &pods, Liveness::Unknown, true), None);
        assert_eq!(fate(Origin::Add, &pods, REBOOTED, true), None);
        let other = Pod { uid: "of the mirror".into(), static_uid: "of another".into(), ..Pod::default() };
        let pods: Pods = Some([("a/b".to_owned(), other)].into());
        assert_eq!(fate(Origin::Add, &pods, Liveness::Unknown, true), Some((Reason::PodGone, POD_GRACE + 500)));
    }

    #[test]
    fn what_was_in_doubt_begins_anew_when_it_was_seen_in_between() {
        let (node, mut suspicions) = (Node::holding(&[holding(1, "a/b", "10.0.0.1")]), Suspicions::default());
        let image = node.image();
        let mut look = |liveness, now| suspicions.look(&image.book(), &None, |_| liveness, now).ends.len();
        assert_eq!((look(GONE, 0), look(SEEN, 1_000), look(GONE, 2_000)), (0, 0, 0));
        assert_eq!((look(GONE, 2_000 + NAMESPACE_GRACE - 1), look(GONE, 2_000 + NAMESPACE_GRACE)), (0, 1));
    }
}
