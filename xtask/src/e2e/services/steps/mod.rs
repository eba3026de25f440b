//! What is done next: one write of a Service, of a range or of an address, chosen at random; now and then a whole namespace goes.

mod addresses;
mod deletes;
mod ranges;
mod scarce;
mod services;
mod statuses;

use std::fmt;

use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

pub(super) use self::deletes::ITS_OWN;
pub(super) use self::services::{PORTS, V4, V6};
use super::holdings::{MANAGER, OWN};
use crate::e2e::method::Method;

/// The label by which some ranges and addresses can be deleted together.
const TOGETHER: &str = "example.com/together";
/// Whoever set it wants to be asked.
const FINALIZER: &str = "example.com/e2e";
/// The namespace of most Services.
pub(super) const USUAL: &str = "default";
/// The namespace that is deleted now and then.
pub(super) const OTHER: &str = "other";
/// How many steps there are to one that deletes it: that takes the real server five seconds and more.
const BETWEEN_NAMESPACES: u64 = 400;

/// What a step is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    Service,
    Range,
    Address,
    Namespace,
}

impl About {
    /// Where the objects are, of all namespaces, in that version of their group.
    pub(super) fn all(self, version: &str) -> String {
        match self {
            Self::Service => "/api/v1/services".to_owned(),
            Self::Range => format!("/apis/networking.k8s.io/{version}/servicecidrs"),
            Self::Address => format!("/apis/networking.k8s.io/{version}/ipaddresses"),
            Self::Namespace => "/api/v1/namespaces".to_owned(),
        }
    }

    /// Where one object is.
    pub(super) fn object(self, version: &str, name: &str) -> String {
        format!("{}/{name}", self.collection(version, namespace_of(name)))
    }

    /// Where the objects of a namespace are; what is in none is where all are.
    fn collection(self, version: &str, namespace: &str) -> String {
        match self {
            Self::Service => format!("/api/v1/namespaces/{namespace}/services"),
            _ => self.all(version),
        }
    }
}

/// The namespace of a Service: no two namespaces have a name in common, so that a name tells which one is meant.
pub(super) fn namespace_of(name: &str) -> &'static str {
    if name.starts_with('o') { OTHER } else { USUAL }
}

/// One write.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) about: About,
    pub(super) method: Method,
    pub(super) version: &'static str,
    /// Of Services; the others are in none.
    pub(super) namespace: &'static str,
    /// Empty if it is about several.
    pub(super) name: String,
    /// The part of the object that is written; empty for the whole.
    pub(super) part: &'static str,
    pub(super) query: &'static str,
    pub(super) body: Value,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} {}", self.method, self.path(), self.body)
    }
}

impl Step {
    /// Any write.
    pub(super) fn choose(random: &mut Seeded) -> Self {
        if random.below(BETWEEN_NAMESPACES) == 0 {
            return deletes::of_namespace();
        }
        match random.below(10) {
            0 | 1 => ranges::choose(random),
            2 => addresses::choose(random),
            _ => services::choose(random),
        }
    }

    /// Any write where hardly anything is left to be picked.
    pub(super) fn choose_scarce(random: &mut Seeded) -> Self {
        scarce::choose(random)
    }

    /// A create of a Service in that namespace, of a name that no other step has.
    pub(super) fn late_create(namespace: &'static str) -> Self {
        let body = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "late"}, "spec": {"ports": [{"port": 80}]},
        });
        let (method, name) = (Method::Post, "late".to_owned());
        Self { about: About::Service, method, version: "v1", namespace, name, part: "", query: "", body }
    }

    /// The fields of the spec that it writes.
    pub(super) fn spec(&self) -> Value {
        let Some(ops) = self.body.as_array() else { return self.body["spec"].clone() };
        let field = |op: &Value| Some((op["path"].as_str()?.strip_prefix("/spec/")?.to_owned(), op["value"].clone()));
        Value::Object(ops.iter().filter_map(field).collect())
    }

    /// The same write, not only tried.
    pub(super) fn in_earnest(&self) -> Self {
        let query = if self.query.contains("force=true") { "force=true" } else { "" };
        Self { name: self.name.clone(), body: self.body.clone(), query, ..*self }
    }

    /// The same write, which says nothing of the spec.
    pub(super) fn without_spec(&self) -> Self {
        let mut body = self.body.clone();
        if let Some(parts) = body.as_object_mut() {
            parts.remove("spec");
        }
        Self { name: self.name.clone(), body, ..*self }
    }

    /// Where the object is that it is about.
    pub(super) fn object(&self) -> String {
        format!("{}/{}", self.about.collection(self.version, self.namespace), self.name)
    }

    /// What is asked for.
    pub(super) fn path(&self) -> String {
        let mut path = match self.method {
            Method::Post => self.about.collection(self.version, self.namespace),
            Method::Delete if self.name.is_empty() => self.about.collection(self.version, self.namespace),
            _ if self.part.is_empty() => self.object(),
            _ => format!("{}/{}", self.object(), self.part),
        };
        if self.method == Method::Apply {
            path += "?fieldManager=e2e";
        }
        if !self.query.is_empty() {
            path.push(if path.contains('?') { '&' } else { '?' });
            path += self.query;
        }
        path
    }

    /// Whether it is about that object, which is of its sort: the one of that name, or one of several.
    pub(super) fn is_about(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        if !self.name.is_empty() {
            return metadata["name"] == self.name;
        }
        let is_there = metadata["namespace"].is_null() || metadata["namespace"] == self.namespace;
        is_there && metadata["labels"][TOGETHER] == "yes"
    }

    /// Whether an address comes of it that says it is a Service's and is nobody's.
    pub(super) fn leaves_nobodys(&self) -> bool {
        let manager = &self.body["metadata"]["labels"][MANAGER];
        self.about == About::Address && self.method == Method::Post && manager == OWN
    }

    /// Whether it only says what would be done.
    pub(super) fn is_dry(&self) -> bool {
        self.query.contains("dryRun") || !self.body["dryRun"].is_null()
    }
}

fn some<T: Copy>(random: &mut Seeded, chance: u64, of: &[T]) -> Option<T> {
    (random.below(chance) == 0).then(|| random.one_of(of))
}

/// Labels and finalizers that people write into objects.
fn metadata(random: &mut Seeded, name: &str) -> Value {
    let mut metadata = json!({"name": name});
    if random.below(3) == 0 {
        metadata["labels"] = json!({TOGETHER: random.one_of(&["yes", "no"])});
    }
    if random.below(12) == 0 {
        metadata["finalizers"] = json!([FINALIZER]);
    }
    metadata
}

/// A change of labels, annotations or finalizers, for a merge patch.
fn metadata_patch(random: &mut Seeded) -> Value {
    match random.below(6) {
        0 => json!({"labels": {TOGETHER: "yes"}}),
        1 => json!({"labels": {TOGETHER: null}}),
        2 => json!({"annotations": {"example.com/note": random.one_of(&["a", "b"])}}),
        3 => json!({"labels": {"not a label": "x"}}),
        _ => json!({"finalizers": null}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_in_earnest_is_the_same_write_and_no_dry_run() {
        let mut random = Seeded::new(1);
        let dry = std::iter::repeat_with(|| services::choose(&mut random)).filter(Step::is_dry).take(500);
        for step in dry.filter(|step| step.method != Method::Delete) {
            let earnest = step.in_earnest();
            assert!(!earnest.is_dry() && earnest.object() == step.object() && earnest.body == step.body, "{step}");
            assert_eq!(step.path().contains("force=true"), earnest.path().contains("force=true"), "{step}");
        }
    }

    #[test]
    fn a_step_without_its_spec_is_the_same_write_otherwise() {
        let body = json!({"spec": {"type": "ClusterIP"}, "status": {"loadBalancer": {}}});
        let step =
            Step { method: Method::Merge, part: "status", query: "dryRun=All", body, ..Step::late_create(USUAL) };
        let plain = step.without_spec();
        assert_eq!((plain.path(), plain.method, plain.name.as_str()), (step.path(), step.method, "late"));
        assert_eq!(plain.body, json!({"status": {"loadBalancer": {}}}));
    }

    #[test]
    fn a_name_tells_the_namespace_of_a_service() {
        let mut random = Seeded::new(1);
        for step in std::iter::repeat_with(|| services::choose(&mut random)).take(500) {
            assert!(step.name.is_empty() || step.namespace == namespace_of(&step.name), "{step}");
            assert!(step.path().starts_with(&format!("/api/v1/namespaces/{}/services", step.namespace)), "{step}");
        }
    }
}
