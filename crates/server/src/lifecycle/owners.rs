//! What becomes of an object by what became of its owners. Pure: the owners were looked up by the caller.

use super::seen::{Owner, Seen};
use crate::machinery::{FOREGROUND, ORPHAN};

/// What was found of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is there.
    Solid,
    /// It is not, or another object has its name.
    Absent,
    /// It is being deleted and waits for its dependents.
    Waiting,
    /// It is of a kind that is not served here, so nobody can say.
    Unknown,
    /// It lives in a namespace and the dependent does not, so nobody can say which it is.
    Misplaced,
}

/// How the dependents of an object are treated when it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Background,
    Foreground,
    Orphan,
}

impl Policy {
    /// Its name in `DeleteOptions`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// What is to be done with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Keep,
    /// It stays, without its references to these owners.
    Untie(Vec<String>),
    /// It goes. If it and its owner wait for one another, its references must first stop blocking.
    Collect { policy: Policy, unblock: bool },
}

/// Decides about an object whose owners were found like that, in their order.
pub(super) fn judge(seen: &Seen, found: &[Found], has_dependents: bool, has_waiting_dependent: bool) -> Verdict {
    let unsure = |found: &Found| matches!(found, Found::Unknown | Found::Misplaced);
    if seen.is_terminating() || found.is_empty() || found.iter().any(unsure) {
        return Verdict::Keep;
    }
    let going: Vec<String> = seen
        .owners()
        .iter()
        .zip(found)
        .filter(|(_, found)| **found != Found::Solid)
        .map(|(owner, _): (&Owner, _)| owner.uid.clone())
        .collect();
    if going.len() < found.len() {
        return if going.is_empty() { Verdict::Keep } else { Verdict::Untie(going) };
    }
    if found.contains(&Found::Waiting) && has_dependents {
        return Verdict::Collect { policy: Policy::Foreground, unblock: has_waiting_dependent };
    }
    let policy = if seen.has_finalizer(ORPHAN) {
        Policy::Orphan
    } else if seen.has_finalizer(FOREGROUND) {
        Policy::Foreground
    } else {
        Policy::Background
    };
    Verdict::Collect { policy, unblock: false }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(owners: usize, finalizers: &[&str]) -> Seen {
        let owners: Vec<_> = (0..owners).map(|n| json!({"uid": n.to_string()})).collect();
        serde_json::from_value(json!({"uid": "own", "ownerReferences": owners, "finalizers": finalizers})).unwrap()
    }

    fn judged(found: &[Found]) -> Verdict {
        judge(&seen(found.len(), &[]), found, false, false)
    }

    const BACKGROUND: Verdict = Verdict::Collect { policy: Policy::Background, unblock: false };

    #[test]
    fn an_object_stays_as_long_as_one_owner_does() {
        use Found::{Absent, Solid, Waiting};
        assert_eq!(judged(&[]), Verdict::Keep);
        assert_eq!(judged(&[Solid]), Verdict::Keep);
        assert_eq!(judged(&[Absent, Solid, Waiting]), Verdict::Untie(vec!["0".to_owned(), "2".to_owned()]));
        assert_eq!(judged(&[Absent]), BACKGROUND);
        assert_eq!(judged(&[Absent, Absent]), BACKGROUND);
        assert_eq!(judged(&[Absent, Waiting]), BACKGROUND);
    }

    #[test]
    fn what_nobody_can_say_keeps_an_object() {
        for unsure in [Found::Unknown, Found::Misplaced] {
            assert_eq!(judged(&[Found::Absent, unsure]), Verdict::Keep);
        }
    }

    #[test]
    fn a_dependent_with_dependents_goes_like_its_owner() {
        let both = |waiting| judge(&seen(1, &[]), &[Found::Waiting], true, waiting);
        assert_eq!(both(false), Verdict::Collect { policy: Policy::Foreground, unblock: false });
        assert_eq!(both(true), Verdict::Collect { policy: Policy::Foreground, unblock: true });
        assert_eq!(judge(&seen(1, &[]), &[Found::Absent], true, true), BACKGROUND);
    }

    #[test]
    fn the_finalizers_of_an_object_say_how_its_own_dependents_are_treated() {
        for (finalizer, policy) in [(ORPHAN, Policy::Orphan), (FOREGROUND, Policy::Foreground)] {
            let verdict = judge(&seen(1, &[finalizer]), &[Found::Absent], false, false);
            assert_eq!(verdict, Verdict::Collect { policy, unblock: false });
        }
    }

    #[test]
    fn what_is_being_deleted_already_is_left_alone() {
        let mut going: serde_json::Value = json!({"uid": "own", "ownerReferences": [{"uid": "0"}]});
        going["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let going = serde_json::from_value(going).unwrap();
        assert_eq!(judge(&going, &[Found::Absent], false, false), Verdict::Keep);
    }
}
