//! What the real server keeps of an `ExternalName` and does not show until the type changes again: its `internalTrafficPolicy`.
//!
//! So nothing is known of it from then on, until a write says what it is, or the Service is made anew.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::side::CREATED;
use super::steps::{About, Step};
use crate::e2e::method::Method;

const POLICY: &str = "internalTrafficPolicy";

/// The Services that were of the type `ExternalName` since they were made, by name, and whether a write has said since what the policy is.
#[derive(Clone, Debug, Default)]
pub(super) struct Unseen(BTreeMap<String, bool>);

impl Unseen {
    /// Takes in that a Service is an `ExternalName`.
    pub(super) fn begin(&mut self, name: &str) {
        self.0.insert(name.to_owned(), false);
    }

    /// Takes in what was done. What is an `ExternalName` after it begins then.
    pub(super) fn follow(&mut self, step: &Step, code: u16) {
        if step.about != About::Service || !(200..300).contains(&code) {
            return;
        }
        if code == CREATED {
            self.0.remove(&step.name);
        } else if let Some(is_said) = self.0.get_mut(&step.name) {
            // Whether an apply takes away what it does not say depends on who has said it. The real server knows that of what it kept.
            *is_said = step.method != Method::Apply && (*is_said || says(step));
        }
    }

    /// Takes out of the spec of a Service what it may have kept.
    pub(super) fn hide(&self, name: &str, spec: &mut Map<String, Value>) {
        if self.0.get(name) == Some(&false) {
            spec.remove(POLICY);
        }
    }
}

/// Whether a write says what the policy is. What a write of the status says of it counts for nothing.
fn says(step: &Step) -> bool {
    step.part.is_empty() && !step.spec()[POLICY].is_null()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(method: Method, body: Value) -> Step {
        Step { method, body, ..Step::late_create("default") }
    }

    fn is_hidden(unseen: &Unseen) -> bool {
        let mut service = json!({POLICY: "Local"});
        unseen.hide("late", service.as_object_mut().unwrap());
        service == json!({})
    }

    #[test]
    fn what_was_kept_is_not_compared_until_a_write_says_it() {
        let policy = json!({"spec": {"type": "ClusterIP", POLICY: "Local"}});
        let op = json!([{"op": "add", "path": format!("/spec/{POLICY}"), "value": "Local"}]);
        let after = |step: Step, code: u16| {
            let mut unseen = Unseen::default();
            unseen.begin("late");
            unseen.follow(&step, code);
            is_hidden(&unseen)
        };
        assert!(!is_hidden(&Unseen::default()));
        assert!(!after(step(Method::Merge, policy.clone()), 200));
        assert!(!after(step(Method::Json, op), 200));
        assert!(!after(step(Method::Post, json!({})), 201), "it is made anew");
        assert!(after(step(Method::Merge, json!({"spec": {"type": "ClusterIP"}})), 200), "that does not say it");
        assert!(after(step(Method::Merge, policy.clone()), 422), "it is not done");
        assert!(after(step(Method::Apply, policy.clone()), 200), "others may have said it too");
        assert!(after(Step { part: "status", ..step(Method::Merge, policy.clone()) }, 200), "it counts for nothing");
        assert!(after(Step { name: "other".to_owned(), ..step(Method::Merge, policy.clone()) }, 200));
        assert!(after(Step { about: About::Range, ..step(Method::Merge, policy) }, 200));
    }

    #[test]
    fn what_was_said_is_not_compared_again_after_another_change_of_the_type_or_an_apply() {
        let policy = step(Method::Merge, json!({"spec": {POLICY: "Local"}}));
        let mut unseen = Unseen::default();
        unseen.begin("late");
        unseen.follow(&policy, 200);
        unseen.follow(&step(Method::Merge, json!({"metadata": {}})), 200);
        assert!(!is_hidden(&unseen), "it stays as it was said");
        unseen.follow(&step(Method::Apply, json!({"spec": {"type": "ClusterIP"}})), 200);
        assert!(is_hidden(&unseen), "who applies may take it away");
        unseen.follow(&policy, 200);
        assert!(!is_hidden(&unseen));
        unseen.begin("late");
        assert!(is_hidden(&unseen), "it is an ExternalName again");
    }
}
