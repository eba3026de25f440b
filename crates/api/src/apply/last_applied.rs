//! The annotation of client-side apply, for objects that kubectl changes from one way of applying to the other.
//!
//! kubectl's apply on the server takes over, without a conflict, what its apply on the client wrote and is still there;
//! and as long as an object has the annotation, it is kept true, so that the way back is open.

use serde_json::{Map, Value};

use super::check::check;
use super::compare::compare;
use super::owned::fields;
use super::set::Set;
use super::shape::Shape;
use crate::object::Object;

/// Only this manager has to do with the annotation.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How large all annotations of an object may be together.
const MOST_BYTES: usize = 256 * 1024;

/// What was applied on the client and is in the live object as it was applied; nothing if the annotation says nothing.
pub(super) fn still_there(root: Shape, live: &Value, api_version: &str) -> Set {
    let applied = live.pointer("/metadata/annotations").and_then(|annotations| annotations.get(ANNOTATION));
    let applied: Option<Value> = applied.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
    let (Some(applied), Value::Object(fields_there)) = (applied, live) else { return Set::default() };
    let Value::Object(fields_applied) = &applied else { return Set::default() };
    let text = |name: &str| applied.get(name).and_then(Value::as_str).unwrap_or_default();
    let fits = text("apiVersion") == api_version && !text("kind").is_empty() && check(root, &applied, false).is_ok();
    if !fits || check(root, live, false).is_err() {
        return Set::default();
    }
    let change = compare(root, fields_applied, fields_there);
    fields(root, &applied).difference(&change.modified).difference(&change.added).difference(&change.removed)
}

/// Keeps the annotation true after an apply, where there is one.
pub(super) fn keep(object: &mut Object, config: &Object) {
    let Some(annotations) = object.fields_mut().get_mut("metadata").and_then(annotations_of) else { return };
    if annotations.get(ANNOTATION).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    match config.fields_mut().get_mut("metadata").and_then(annotations_of) {
        Some(annotations) => drop(annotations.remove(ANNOTATION)),
        None => drop(config.remove(&["metadata", "annotations"])),
    }
    annotations.insert(ANNOTATION.to_owned(), Value::String(encoded(config)));
    let size = |(name, value): (&String, &Value)| name.len() + value.as_str().map_or(0, str::len);
    if annotations.iter().map(size).sum::<usize>() > MOST_BYTES {
        annotations.remove(ANNOTATION);
    }
}

fn annotations_of(metadata: &mut Value) -> Option<&mut Map<String, Value>> {
    metadata.get_mut("annotations")?.as_object_mut()
}

/// The configuration as Go writes JSON: what means something in HTML is escaped, and a line break is at the end.
fn encoded(config: Object) -> String {
    let mut out = String::new();
    for c in config.into_value().to_string().chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            _ => out.push(c),
        }
    }
    out.push('\n');
    out
}
