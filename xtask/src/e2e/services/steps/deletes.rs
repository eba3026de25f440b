//! Deletes of Services: one or several, with the options that people and programs give; and of a namespace with all that is in it.
//!
//! None has those that depend on the Service go first or leaves them alone, unless it is only tried: who does that then is a controller,
//! here and there at another time.

use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

use super::{About, OTHER, Step, services};
use crate::e2e::method::Method;

/// Stands for what the object says of itself, which is another thing on each server.
pub(in super::super) const ITS_OWN: &str = "<its own>";

const ANOTHER_UID: &str = "00000000-0000-4000-8000-000000000000";
const ANOTHER_REVISION: &str = "1";

/// What is said of how to delete one, in the query.
const QUERIES: [&str; 9] = [
    "dryRun=All",
    "dryRun=All&propagationPolicy=Foreground",
    "dryRun=All&propagationPolicy=Orphan",
    "dryRun=Some",
    "propagationPolicy=Background",
    "propagationPolicy=Sideways",
    "propagationPolicy=Background&orphanDependents=true",
    "gracePeriodSeconds=30",
    "gracePeriodSeconds=0",
];

/// Which ones are deleted together.
const SELECTIONS: [&str; 3] = [
    "labelSelector=example.com/together%3Dyes",
    "labelSelector=example.com/together%3Dyes&propagationPolicy=Background",
    "labelSelector=example.com/together%3Dyes&dryRun=All",
];

/// A delete of Services.
pub(super) fn choose(random: &mut Seeded) -> Step {
    let (namespace, name) = services::name(random);
    let (name, query, body) = match random.below(8) {
        0 | 1 => (String::new(), random.one_of(&SELECTIONS), Value::Null),
        2 => (name, random.one_of(&QUERIES), Value::Null),
        3 | 4 => (name, "", options(random)),
        _ => (name, "", Value::Null),
    };
    Step { about: About::Service, method: Method::Delete, version: "v1", namespace, name, part: "", query, body }
}

/// A delete of the namespace that goes now and then.
pub(super) fn of_namespace() -> Step {
    let (about, method, name) = (About::Namespace, Method::Delete, OTHER.to_owned());
    Step { about, method, version: "v1", namespace: "", name, part: "", query: "", body: Value::Null }
}

/// What is said of how to delete one, in the body: mostly of which object it must be, right or wrong.
fn options(random: &mut Seeded) -> Value {
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    let uid = random.one_of(&[ITS_OWN, ITS_OWN, ANOTHER_UID]);
    let revision = random.one_of(&[ITS_OWN, ITS_OWN, ANOTHER_REVISION]);
    match random.below(8) {
        0 | 1 => options["preconditions"] = json!({"uid": uid}),
        2 | 3 => options["preconditions"] = json!({"resourceVersion": revision}),
        4 => options["preconditions"] = json!({"uid": uid, "resourceVersion": revision}),
        5 => options["propagationPolicy"] = json!(random.one_of(&["Background", "Sideways"])),
        6 => options["dryRun"] = json!(random.one_of(&[["All"], ["Some"]])),
        _ => options["gracePeriodSeconds"] = json!(random.one_of(&[0, 30])),
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_delete_leaves_to_controllers_is_only_tried() {
        let mut random = Seeded::new(1);
        for _ in 0..2000 {
            let step = choose(&mut random);
            let said = step.to_string();
            let is_left = said.contains("Foreground") || said.contains("=Orphan");
            assert!(!is_left || step.is_dry(), "{step}");
        }
    }

    #[test]
    fn deletes_of_several_choose_in_their_namespace() {
        let mut random = Seeded::new(1);
        let step = std::iter::repeat_with(|| choose(&mut random)).find(|step| step.name.is_empty()).unwrap();
        let labels = json!({"example.com/together": "yes"});
        let service = |namespace: &str| json!({"metadata": {"namespace": namespace, "labels": labels}});
        assert!(step.is_about(&service(step.namespace)));
        assert!(!step.is_about(&service("elsewhere")));
        assert!(step.path().starts_with(&format!("/api/v1/namespaces/{}/services?labelSelector=", step.namespace)));
    }
}
