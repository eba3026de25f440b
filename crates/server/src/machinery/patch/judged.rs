//! Holds patches, and the reading of bodies, against the code that kube-apiserver is made of, on random input.
//!
//! The judge is the Go program in `xtask/peers/patch`; `CADASTRE_PATCH_JUDGE` names it as built. `CADASTRE_SEED` and
//! `CADASTRE_ROUNDS` choose where a run begins and how long it is. Building the judge needs Go and `cargo test` alone must
//! not, so all this is behind the feature `patch-judge`.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;

use api::schema;
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};
use testkit::judge::Judge;

use super::generate::{self, chance};
use super::{PatchError, PatchKind, apply};
use crate::machinery::document::{self, Document};
use crate::machinery::yaml;

/// How often the judge is asked before its answer is taken for another one.
const MOST_TRIES: usize = 20;

const KINDS: [(&str, &str); 7] = [
    ("ConfigMap", "io.k8s.api.core.v1.ConfigMap"),
    ("Endpoints", "io.k8s.api.core.v1.Endpoints"),
    ("EndpointSlice", "io.k8s.api.discovery.v1.EndpointSlice"),
    ("Node", "io.k8s.api.core.v1.Node"),
    ("Pod", "io.k8s.api.core.v1.Pod"),
    ("Service", "io.k8s.api.core.v1.Service"),
    ("ServiceCIDR", "io.k8s.api.networking.v1.ServiceCIDR"),
];

#[test]
fn every_outcome_is_one_that_the_judge_has() {
    let judge = env::var_os("CADASTRE_PATCH_JUDGE").expect("CADASTRE_PATCH_JUDGE names the judge");
    let number = |name: &str, absent: u64| env::var(name).map_or(absent, |text| text.parse().unwrap());
    let counts = hold_against(Path::new(&judge), number("CADASTRE_SEED", 1), number("CADASTRE_ROUNDS", 20_000));
    eprintln!("judged alike: {counts:?}");
}

/// Asks the judge about `rounds` random questions, and panics with the first one that it answers differently. Returns
/// how many there were of each format, and how many of them were refused.
fn hold_against(judge: &Path, seed: u64, rounds: u64) -> BTreeMap<&'static str, (u64, u64)> {
    let mut judge = Judge::start(judge).unwrap();
    let mut counts = BTreeMap::new();
    for round in 0..rounds {
        let seed = seed.wrapping_add(round);
        let question = Question::random(&mut Seeded::new(seed));
        let ours = question.answer();
        let mut outcomes = Vec::new();
        // Where its answer is up to chance, the judge may need to be asked again until it gives ours.
        let agreed = (0..MOST_TRIES).any(|_| {
            outcomes = asked(&mut judge, &question);
            outcomes.iter().any(|outcome| outcome.agrees(&question, &ours))
        });
        assert!(
            agreed,
            "CADASTRE_SEED={seed} CADASTRE_ROUNDS=1: {} of a {}\nobject: {}\nbody: {}\nours: {ours:?}\n\
             the judge's: {outcomes:?}",
            question.format, question.kind, question.original, question.body
        );
        let count: &mut (u64, u64) = counts.entry(question.format).or_default();
        count.0 += 1;
        count.1 += u64::from(ours.is_err());
    }
    counts
}

struct Question {
    format: &'static str,
    kind: &'static str,
    schema: &'static str,
    original: Value,
    body: String,
    flawed: bool,
}

/// What was made of a question: the value, what strict readers hold against it and what is quoted of the patch.
type Answer = Result<(Value, Vec<String>, Option<String>), String>;

impl Question {
    fn random(choices: &mut Seeded) -> Self {
        let (kind, schema) = choices.one_of(&KINDS);
        let root = schema::definition(schema).unwrap();
        let mut original = generate::object(choices, root, 0);
        if choices.below(10) == 0 {
            double_items(choices, &mut original);
        }
        let format = choices.one_of(&["strategic", "strategic", "strategic", "merge", "json", "read", "yaml"]);
        let flawed = choices.below(3) == 0;
        let body = match format {
            "strategic" | "merge" => generate::strategic_patch(choices, root, &original, flawed).to_string(),
            "read" => {
                let body = generate::strategic_patch(choices, root, &original, false).to_string();
                damaged(choices, &body)
            }
            "yaml" => {
                replace_texts(choices, &mut original, &yaml::tests::ODD_TEXTS);
                yaml::from_json(original.to_string().as_bytes()).unwrap()
            }
            _ => generate::operations(choices, &original).to_string(),
        };
        Self { format, kind, schema, original, body, flawed }
    }

    fn answer(&self) -> Answer {
        let current = self.original.as_object().unwrap();
        let kind = match self.format {
            "strategic" => PatchKind::Strategic,
            "merge" => PatchKind::Merge,
            "json" => PatchKind::Json,
            "yaml" => return read(yaml::to_json(self.body.as_bytes())),
            _ => return read(document::read(self.body.as_bytes())),
        };
        let patched = apply(kind, self.body.as_bytes(), current, schema::definition(self.schema).unwrap());
        match patched {
            Ok(patched) => {
                let quoted = (kind == PatchKind::Strategic).then(|| patched.quoted());
                Ok((Value::Object(patched.object), patched.faults, quoted))
            }
            Err(PatchError::Unprocessable(why)) => Err(why),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn read(document: Result<Document, String>) -> Answer {
    document.map(|document| (document.value, document.faults, None))
}

#[derive(Debug, Deserialize)]
struct Outcome {
    value: Value,
    error: String,
    panic: String,
    faults: Option<Vec<String>>,
    quoted: String,
}

impl Outcome {
    fn agrees(&self, question: &Question, ours: &Answer) -> bool {
        match ours {
            // What the judge panics at, it has no opinion on.
            _ if !self.panic.is_empty() => true,
            // The texts of JSON patch reach no client. What is no object is refused here, and one step later there.
            Err(_) if question.format == "json" => !(self.error.is_empty() && self.value.is_object()),
            Err(why) => self.error == *why,
            Ok((value, faults, quoted)) => {
                self.error.is_empty()
                    && same(&self.value, value)
                    && self.faults.as_deref().is_none_or(|theirs| theirs == faults)
                    && quoted.as_ref().is_none_or(|quoted| question.flawed || *quoted == self.quoted)
            }
        }
    }
}

/// Whether two values are equal, if 1 and 1.0 are.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && one.iter().all(|(name, one)| other.get(name).is_some_and(|it| same(one, it)))
        }
        _ => one == other,
    }
}

/// Doubles an item here and there in lists of objects, so that keys are no longer unique.
fn double_items(choices: &mut Seeded, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|value| double_items(choices, value)),
        Value::Array(items) => {
            for item in items.iter_mut() {
                double_items(choices, item);
            }
            if items.first().is_some_and(Value::is_object) && chance(choices, 20) {
                let item = items[choices.below(items.len() as u64) as usize].clone();
                items.push(item);
            }
        }
        _ => {}
    }
}

/// Replaces texts in a value by some of these.
fn replace_texts(choices: &mut Seeded, value: &mut Value, texts: &[&str]) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| replace_texts(choices, value, texts));
            if chance(choices, 20) {
                fields.insert(choices.one_of(texts).to_owned(), Value::Null);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_texts(choices, item, texts)),
        Value::String(text) => choices.one_of(texts).clone_into(text),
        _ => {}
    }
}

/// The text with a few bytes changed, lost or doubled: mostly no longer what it was, or no JSON at all.
fn damaged(choices: &mut Seeded, text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..choices.below(3) {
        let at = choices.below(bytes.len() as u64) as usize;
        match choices.below(3) {
            0 if bytes.len() > 1 => drop(bytes.remove(at)),
            1 => bytes.insert(at, choices.one_of(b"\"{}[]:,x0-.e\\u tn\n")),
            _ => bytes[at] = choices.one_of(b"\"{}[]:,x0-.e\\u tn\n"),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn asked(judge: &mut Judge, question: &Question) -> Vec<Outcome> {
    let Question { format, kind, original, body, .. } = question;
    let line = json!({"format": format, "kind": kind, "original": original, "body": body});
    serde_json::from_slice(&judge.ask(&line).unwrap()).unwrap()
}
