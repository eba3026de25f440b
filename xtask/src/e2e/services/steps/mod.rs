//! What is done next: one write of a Service, of a range or of an address, chosen at random.

mod addresses;
mod ranges;
mod services;

use std::fmt;

use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

pub(super) use self::services::{PORTS, V4, V6};
use crate::e2e::method::Method;

/// The label by which some ranges and addresses can be deleted together.
const TOGETHER: &str = "example.com/together";
/// Whoever set it wants to be asked.
const FINALIZER: &str = "example.com/e2e";

/// What a step is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    Service,
    Range,
    Address,
}

impl About {
    /// Where the objects are, in that version of their group.
    pub(super) fn collection(self, version: &str) -> String {
        match self {
            Self::Service => "/api/v1/namespaces/default/services".to_owned(),
            Self::Range => format!("/apis/networking.k8s.io/{version}/servicecidrs"),
            Self::Address => format!("/apis/networking.k8s.io/{version}/ipaddresses"),
        }
    }
}

/// One write.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) about: About,
    pub(super) method: Method,
    pub(super) version: &'static str,
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
        match random.below(10) {
            0 | 1 => ranges::choose(random),
            2 => addresses::choose(random),
            _ => services::choose(random),
        }
    }

    /// Where the object is that it is about.
    pub(super) fn object(&self) -> String {
        format!("{}/{}", self.about.collection(self.version), self.name)
    }

    /// What is asked for.
    pub(super) fn path(&self) -> String {
        let mut path = match self.method {
            Method::Post => self.about.collection(self.version),
            Method::Delete if self.name.is_empty() => self.about.collection(self.version),
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

    /// Whether one that is about several is about that object.
    pub(super) fn chooses(&self, object: &Value) -> bool {
        self.name.is_empty() && object["metadata"]["labels"][TOGETHER] == "yes"
    }

    /// Whether it only says what would be done.
    pub(super) fn is_dry(&self) -> bool {
        self.query.contains("dryRun")
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
