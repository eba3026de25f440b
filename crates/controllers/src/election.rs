//! Who of several controllers acts: the one that holds a Lease.
//!
//! No clocks of different machines are compared. A candidate looks at how long, by its own clock, the Lease has been as it is; when
//! that is longer than the Lease says it lasts, its holder is gone. A holder counts from the moment it *sent* the renewal that
//! succeeded, and stops acting after its deadline, which is shorter than the Lease lasts. Every write names the revision that it
//! is based on, so of two that reach for the Lease one gets it.
//!
//! This is for efficiency: it keeps two controllers from doing the same work. What is here decides; who watches, writes and
//! waits is elsewhere.

use api::Object;
use serde_json::{Value, json};
use space::Moment;

/// Who wants to act, and for how long one claim is good; times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name, unlike that of any other candidate.
    pub identity: String,
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// How long others wait before they take over.
    pub lasts: u64,
    /// How long it acts after its last renewal; less than `lasts`.
    pub deadline: u64,
}

/// What to do about the Lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Create it.
    Create(Value),
    /// Replace it; the object names its revision.
    Replace(Value),
    /// Somebody else has it.
    Wait,
}

/// What a candidate knows of the Lease.
#[derive(Clone, Debug)]
pub struct Election {
    candidate: Candidate,
    /// The revision of the Lease as it was last seen to change, and when that was.
    seen: Option<(String, Moment)>,
    /// When the last renewal that succeeded was sent.
    renewed: Option<Moment>,
}

impl Election {
    /// Nothing is known yet.
    pub fn new(candidate: Candidate) -> Self {
        Self { candidate, seen: None, renewed: None }
    }

    /// Who it is about.
    pub fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// Whether the candidate may act.
    pub fn leads(&self, now: Moment) -> bool {
        self.acts_until().is_some_and(|until| now < until)
    }

    /// Until when the candidate may act, if it may at all.
    pub fn acts_until(&self) -> Option<Moment> {
        self.renewed.map(|renewed| Moment(renewed.0.saturating_add(self.candidate.deadline)))
    }

    /// What to do now that the Lease is as it is; `time` is what the clock on the wall shows, for people to read.
    pub fn step(&mut self, lease: Option<&Object>, now: Moment, time: &str) -> Step {
        let Candidate { identity, namespace, name, lasts, .. } = &self.candidate;
        let Some(lease) = lease else {
            self.seen = None;
            return Step::Create(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"namespace": namespace, "name": name},
                "spec": {
                    "holderIdentity": identity, "leaseDurationSeconds": seconds(*lasts), "acquireTime": time,
                    "renewTime": time, "leaseTransitions": 0,
                },
            }));
        };
        let spec = lease.at(&["spec"]).cloned().unwrap_or_default();
        let since = match &self.seen {
            Some((seen, since)) if *seen == lease.resource_version() => *since,
            _ => now,
        };
        self.seen = Some((lease.resource_version().to_owned(), since));
        let holder = spec.get("holderIdentity").and_then(Value::as_str).unwrap_or_default();
        let theirs = spec.get("leaseDurationSeconds").and_then(Value::as_u64).unwrap_or(0).saturating_mul(1_000);
        let is_held = !holder.is_empty() && holder != identity && now.0 < since.0.saturating_add(theirs);
        if is_held {
            self.renewed = None;
            return Step::Wait;
        }
        let mut new = lease.clone();
        new.set(&["spec", "renewTime"], json!(time));
        new.set(&["spec", "leaseDurationSeconds"], json!(seconds(*lasts)));
        if holder != identity {
            let transitions = spec.get("leaseTransitions").and_then(Value::as_i64).unwrap_or(0);
            new.set(&["spec", "holderIdentity"], json!(identity));
            new.set(&["spec", "acquireTime"], json!(time));
            new.set(&["spec", "leaseTransitions"], json!(transitions.saturating_add(1)));
        }
        Step::Replace(new.into_value())
    }

    /// The write that was sent at that moment succeeded.
    pub fn renewed(&mut self, sent: Moment) {
        self.renewed = self.renewed.max(Some(sent));
    }

    /// What to write so that others need not wait, if the Lease is still the candidate's. It does not act after this.
    pub fn release(&mut self, lease: &Object) -> Option<Value> {
        self.renewed = None;
        (lease.text(&["spec", "holderIdentity"]) == self.candidate.identity).then(|| {
            let mut new = lease.clone();
            new.set(&["spec", "holderIdentity"], json!(""));
            new.set(&["spec", "leaseDurationSeconds"], json!(1));
            new.into_value()
        })
    }
}

fn seconds(milliseconds: u64) -> u64 {
    milliseconds.div_ceil(1_000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "2026-01-01T00:00:00.000000Z";

    fn election(identity: &str) -> Election {
        let (identity, namespace, name) = (identity.to_owned(), "kube-system".to_owned(), "l".to_owned());
        Election::new(Candidate { identity, namespace, name, lasts: 15_000, deadline: 10_000 })
    }

    /// A server with one Lease on it.
    #[derive(Default)]
    struct Server {
        lease: Option<Object>,
        revision: u64,
    }

    impl Server {
        /// The candidate looks at the Lease and does what it has to; a write that is based on another revision is refused.
        fn turn(&mut self, election: &mut Election, now: u64, seen: Option<&Object>) -> bool {
            let written = match election.step(seen, Moment(now), TIME) {
                Step::Create(lease) if self.lease.is_none() => lease,
                Step::Replace(lease)
                    if self
                        .lease
                        .as_ref()
                        .is_some_and(|own| lease["metadata"]["resourceVersion"] == *own.resource_version()) =>
                {
                    lease
                }
                _ => return election.leads(Moment(now)),
            };
            self.put(written);
            election.renewed(Moment(now));
            election.leads(Moment(now))
        }

        fn put(&mut self, lease: Value) {
            self.revision += 1;
            let mut lease = Object::from_value(lease).unwrap();
            lease.set(&["metadata", "resourceVersion"], json!(self.revision.to_string()));
            self.lease = Some(lease);
        }

        fn look(&mut self, election: &mut Election, now: u64) -> bool {
            let seen = self.lease.clone();
            self.turn(election, now, seen.as_ref())
        }
    }

    #[test]
    fn one_of_several_acts_until_it_stops_renewing() {
        let (mut server, mut one, mut other) = (Server::default(), election("one"), election("other"));
        assert!(server.look(&mut one, 0));
        // The clocks of the two have nothing to do with each other.
        let far = 1_000_000_000;
        for second in 0..100 {
            assert!(server.look(&mut one, second * 2_000));
            assert!(!server.look(&mut other, far + second * 2_000));
        }
        // The last change was seen at far + 198 s; 15 s later it is taken over.
        assert!(!server.look(&mut other, far + 198_000 + 14_999));
        assert!(server.look(&mut other, far + 198_000 + 15_000));
        assert_eq!(server.lease.as_ref().unwrap().at(&["spec", "leaseTransitions"]), Some(&json!(1)));
        assert!(!server.look(&mut one, 200_000));
    }

    #[test]
    fn who_cannot_renew_stops_before_others_begin() {
        let (mut server, mut one) = (Server::default(), election("one"));
        assert!(server.look(&mut one, 0));
        assert!(one.leads(Moment(9_999)) && !one.leads(Moment(10_000)));
        // A renewal counts from when it was sent, not from when its answer came.
        one.renewed(Moment(5_000));
        assert!(one.leads(Moment(14_999)) && !one.leads(Moment(15_000)));
    }

    #[test]
    fn of_two_that_reach_for_it_at_once_one_gets_it() {
        let (mut server, mut one, mut other) = (Server::default(), election("one"), election("other"));
        assert_eq!((server.turn(&mut one, 0, None), server.turn(&mut other, 0, None)), (true, false));
        server.look(&mut other, 0);
        let seen = server.lease.clone();
        let mut third = election("third");
        third.step(seen.as_ref(), Moment(0), TIME);
        assert_eq!(
            (server.turn(&mut other, 15_000, seen.as_ref()), server.turn(&mut third, 15_000, seen.as_ref())),
            (true, false)
        );
    }

    #[test]
    fn who_leaves_lets_others_in_at_once_and_only_gives_up_what_is_its_own() {
        let (mut server, mut one, mut other) = (Server::default(), election("one"), election("other"));
        server.look(&mut one, 0);
        assert!(!server.look(&mut other, 0));
        assert_eq!(other.release(&server.lease.clone().unwrap()), None);
        let released = one.release(&server.lease.clone().unwrap()).unwrap();
        assert!(!one.leads(Moment(0)));
        server.put(released);
        assert!(server.look(&mut other, 1));
    }
}
