//! What is done next: one write, chosen at random, that does not depend on what a server has.

use std::fmt;

use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

use super::fields::Kind;
use crate::e2e::method::Method;

const NAMES: [&str; 2] = ["one", "two"];
/// Fewer than there may be before the oldest are merged, which depends on times.
const MANAGERS: [&str; 4] = ["kubectl", "alice", "bob", ""];

/// One write.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) method: Method,
    pub(super) name: &'static str,
    /// The part of the object that is written; empty for the whole.
    pub(super) part: &'static str,
    pub(super) query: String,
    pub(super) body: Value,
}

impl Step {
    /// Any write of an object of that kind.
    pub(super) fn choose(kind: &Kind, random: &mut Seeded) -> Self {
        use Method::{Apply, Delete, Edit, Forget, Json, Merge, Post, Put, Strategic};
        let method = random.one_of(&[
            Post, Post, Put, Edit, Edit, Forget, Merge, Merge, Strategic, Json, Apply, Apply, Apply, Apply, Apply,
            Delete,
        ]);
        let name = random.one_of(&NAMES);
        let part =
            if kind.has_status && !matches!(method, Post | Delete) && random.below(3) == 0 { "status" } else { "" };
        let body = match method {
            Delete => Value::Null,
            Post | Put | Apply => kind.object(name, random),
            Edit => kind.some(random),
            Forget => entries(kind, random),
            Merge | Strategic => patch(kind, random),
            Json => operations(random),
        };
        Self { method, name, part, query: query(method, random), body }
    }
}

fn query(method: Method, random: &mut Seeded) -> String {
    let mut query = Vec::new();
    let manager = random.one_of(&MANAGERS);
    if !manager.is_empty() {
        query.push(format!("fieldManager={manager}"));
    }
    if method == Method::Apply && random.below(3) == 0 || random.below(40) == 0 {
        query.push("force=true".to_owned());
    }
    if random.below(12) == 0 {
        query.push("dryRun=All".to_owned());
    }
    if random.below(12) == 0 {
        query.push("fieldValidation=Strict".to_owned());
    }
    query.join("&")
}

/// A merge patch: some fields, and perhaps one that goes.
fn patch(kind: &Kind, random: &mut Seeded) -> Value {
    let mut patch = kind.some(random);
    if random.below(3) == 0 {
        let gone = random.one_of(&["labels", "annotations", "finalizers", "managedFields"]);
        super::fields::lay(&mut patch, json!({"metadata": {gone: null}}));
    }
    patch
}

fn operations(random: &mut Seeded) -> Value {
    let mut operations = vec![random.one_of(&[
        r#"{"op":"add","path":"/metadata/labels","value":{"j":"1"}}"#,
        r#"{"op":"add","path":"/metadata/labels/a","value":"j"}"#,
        r#"{"op":"remove","path":"/metadata/labels"}"#,
        r#"{"op":"replace","path":"/metadata/annotations/x","value":"j"}"#,
        r#"{"op":"add","path":"/metadata/annotations","value":{}}"#,
    ])];
    if random.below(4) == 0 {
        operations.push(r#"{"op":"remove","path":"/metadata/managedFields/0"}"#);
    }
    operations.into_iter().filter_map(|operation| serde_json::from_str::<Value>(operation).ok()).collect()
}

/// What a person may put in the place of `managedFields`.
fn entries(kind: &Kind, random: &mut Seeded) -> Value {
    let entries = random.one_of(&[
        "null",
        "[]",
        "[{}]",
        r#"[{"manager":"carol","operation":"Update","apiVersion":"VERSION","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{"f:a":{}}}}}]"#,
        r#"[{"manager":"carol","operation":"Apply","apiVersion":"VERSION","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}},"time":"2020-01-02T03:04:05Z"}]"#,
        r#"[{"manager":"carol","operation":"Nonsense","apiVersion":"VERSION","fieldsType":"FieldsV1","fieldsV1":{}}]"#,
        r#"[{"manager":"carol","operation":"Update","apiVersion":"VERSION","fieldsType":"FieldsV1","fieldsV1":{"nonsense":{}}}]"#,
    ]);
    serde_json::from_str(&entries.replace("VERSION", kind.api_version)).unwrap_or_default()
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, name, part, query, body } = self;
        write!(f, "{method:?} {name} {part} ?{query} {body}")
    }
}
