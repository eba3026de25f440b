//! Whether two servers answered the same, but for what cannot be: identities, times, and what is random. Pure.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::client::Answer;

/// Names with a random end: of a volume that was added, and of an object that asked for one.
static RANDOM: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("(kube-api-access-|gen-)[a-z0-9]{5}").ok());
static UID: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").ok());
/// The present; a time in an object is of 2020.
static NOW: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"20(2[5-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").ok());

/// What differs, as text; nothing if both said the same.
pub(super) fn difference(control: &Answer, ours: &Answer) -> Option<String> {
    let (control, ours) = (alike(control), alike(ours));
    if control == ours {
        return None;
    }
    let mut lines = Vec::new();
    differing("", &control, &ours, &mut lines);
    Some(lines.join("\n"))
}

/// An answer as a value without what two servers cannot have in common.
fn alike(answer: &Answer) -> Value {
    let mut body = answer.body.clone();
    // Who owns which field is compared by the suite of server-side apply.
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["managedFields", "uid", "creationTimestamp"] {
            metadata.remove(name);
        }
    }
    // Go goes through a map in any order, so faults in one come in any order, and so does the message that lists them.
    if let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        causes.sort_by_key(Value::to_string);
        if causes.len() > 1 {
            body["message"] = json!("");
        }
    }
    let mut warnings = answer.warnings.clone();
    warnings.sort();
    let mut value = json!({"code": answer.code, "warnings": warnings, "body": body});
    mask(&mut value);
    value
}

fn mask(value: &mut Value) {
    match value {
        Value::String(text) => {
            for (what, masked) in [(&RANDOM, "$1<random>"), (&UID, "<uid>"), (&NOW, "<now>")] {
                if let Some(what) = &**what
                    && what.is_match(text)
                {
                    *text = what.replace_all(text, masked).into_owned();
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::Object(fields) => fields.values_mut().for_each(mask),
        _ => {}
    }
}

/// One line for each place where two values differ.
fn differing(path: &str, control: &Value, ours: &Value, lines: &mut Vec<String>) {
    match (control, ours) {
        (Value::Object(one), Value::Object(other)) => {
            let mut names: Vec<_> = one.keys().chain(other.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let (one, other) = (control.get(name), ours.get(name));
                if one != other {
                    let null = Value::Null;
                    differing(&format!("{path}.{name}"), one.unwrap_or(&null), other.unwrap_or(&null), lines);
                }
            }
        }
        _ => lines.push(format!("  {path}: control {control}, ours {ours}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, warnings: &[&str], body: Value) -> Answer {
        Answer { code, warnings: warnings.iter().map(|&one| one.to_owned()).collect(), body }
    }

    #[test]
    fn what_two_servers_cannot_share_does_not_differ() {
        let made = |uid: &str, time: &str, volume: &str| {
            let metadata = json!({"name": "a", "uid": uid, "creationTimestamp": time, "managedFields": [uid]});
            answer(201, &["b", "a"], json!({"metadata": metadata, "spec": {"volumes": [{"name": volume}]}}))
        };
        let one = made("1", "2026-01-01T00:00:00Z", "kube-api-access-abcde");
        let mut other = made("2", "2026-01-01T00:00:01Z", "kube-api-access-fghij");
        other.warnings.reverse();
        assert_eq!(difference(&one, &other), None);
        let faults =
            |causes: Value| answer(422, &[], json!({"message": causes.to_string(), "details": {"causes": causes}}));
        assert_eq!(difference(&faults(json!(["a", "b"])), &faults(json!(["b", "a"]))), None);
    }

    #[test]
    fn everything_else_does() {
        let one = answer(201, &["w"], json!({"spec": {"a": 1, "b": 2}}));
        let other = answer(201, &[], json!({"spec": {"a": 1, "c": 2}}));
        assert_eq!(
            difference(&one, &other).unwrap(),
            "  .body.spec.b: control 2, ours null\n  .body.spec.c: control null, ours 2\n  .warnings: control [\"w\"], ours []"
        );
        let fault = |text: &str| answer(422, &[], json!({"message": text, "details": {"causes": [text]}}));
        assert!(difference(&fault("a"), &fault("b")).is_some());
        assert!(difference(&answer(200, &[], json!({})), &answer(201, &[], json!({}))).is_some());
    }
}
