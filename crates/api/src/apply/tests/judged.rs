//! Holds applies and updates against the code that kube-apiserver is made of, in random sequences of them.
//!
//! The judge is the Go program in `xtask/peers/apply`; `CADASTRE_APPLY_JUDGE` names it as built. `CADASTRE_SEED` and
//! `CADASTRE_ROUNDS` choose where a run begins and how long it is. Building the judge needs Go and `cargo test` alone must
//! not, so all this is behind the feature `apply-judge`.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};
use testkit::judge::Judge;

use super::generate::{self, chance};
use super::{kind, stored};
use crate::apply::{ApplyError, Set, Write, apply, update};
use crate::kind::Kind;
use crate::object::Object;

const KINDS: [&str; 8] = ["ConfigMap", "Service", "Node", "Pod", "ServiceCIDR", "EndpointSlice", "Endpoints", "Secret"];
const STEPS: u64 = 12;

#[test]
fn every_outcome_is_the_judge_s() {
    let judge = env::var_os("CADASTRE_APPLY_JUDGE").expect("CADASTRE_APPLY_JUDGE names the judge");
    let number = |name: &str, absent: u64| env::var(name).map_or(absent, |text| text.parse().unwrap());
    let (seed, rounds) = (number("CADASTRE_SEED", 1), number("CADASTRE_ROUNDS", 2_000));
    let mut judge = Judge::start(Path::new(&judge)).unwrap();
    let mut counts = BTreeMap::new();
    for round in 0..rounds {
        Sequence::new(seed.wrapping_add(round)).run(&mut judge, &mut counts);
    }
    eprintln!("judged alike: {rounds} sequences: {counts:?}");
}

/// A sequence of writes of one object.
struct Sequence {
    seed: u64,
    choices: Seeded,
    kind: &'static Kind,
    live: Option<Object>,
    /// What each manager applied last.
    configs: BTreeMap<&'static str, Value>,
}

/// What became of a write: the object, or the code, the message and the causes of a refusal.
type Outcome = Result<Value, (u16, String, Vec<String>)>;

impl Sequence {
    fn new(seed: u64) -> Self {
        let mut choices = Seeded::new(seed);
        let kind = kind(choices.one_of(&KINDS));
        Self { seed, choices, kind, live: None, configs: BTreeMap::new() }
    }

    fn run(&mut self, judge: &mut Judge, counts: &mut BTreeMap<&'static str, u64>) {
        for step in 0..STEPS {
            let sort = self.step(step, judge);
            *counts.entry(sort).or_default() += 1;
        }
    }

    fn step(&mut self, step: u64, judge: &mut Judge) -> &'static str {
        let choices = &mut self.choices;
        let manager = choices.one_of(&["alice", "bob", "kubectl", "", "c\"<"]);
        // Many managers by update, so that there are too many at times.
        let crowd = ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9", "mA", "mB", "mC"];
        let by_apply = chance(choices, 60);
        let manager = if !by_apply && chance(choices, 60) { choices.one_of(&crowd) } else { manager };
        let subresource = if chance(choices, 15) { "status" } else { "" };
        let ignored: &[&[&str]] = match (subresource, choices.below(2)) {
            ("status", 0) => &[&["spec"], &["metadata", "labels"]],
            ("", 0) => &[&["status"]],
            _ => &[],
        };
        let force = chance(choices, 40);
        let object = if by_apply { self.config(manager) } else { self.new_object() };
        let time = format!("2001-01-01T00:00:{step:02}Z");
        let write = Write { kind: self.kind, manager, subresource, time: &time, ignored: &Set::of(ignored) };

        let live = self.live.clone();
        let ours: Outcome = if by_apply {
            let applied = apply(&write, live.as_ref(), &Object::from_value(object.clone()).unwrap(), force);
            applied.map(|applied| applied.object.into_value()).map_err(|error| refusal(&error))
        } else {
            let mut new = Object::from_value(object.clone()).unwrap();
            update(&write, live.as_ref(), &mut new);
            Ok(new.into_value())
        };
        let operation = if by_apply { "apply" } else { "update" };
        let question = json!({
            "operation": operation, "kind": self.kind.kind, "live": live.map(Object::into_value), "object": object,
            "manager": manager, "subresource": subresource, "force": force, "ignored": ignored,
        });
        let theirs = serde_json::from_slice::<Answer>(&judge.ask(&question).unwrap()).unwrap().outcome();
        // What only Go's types refuse is found elsewhere here.
        if let Err((500, why, _)) = &theirs
            && why.starts_with("failed to convert new object")
        {
            return "refused by Go's types";
        }
        let sort = match &ours {
            Err((400, ..)) => "bad",
            Err((409, ..)) => "conflict",
            Err(_) => "unfit",
            Ok(_) => operation,
        };
        let theirs = theirs.map(|object| self.canonical(&object, &time));
        let ours = ours.map(|object| self.canonical(&object, &time));
        assert!(
            theirs == ours || differ_by_chance(&ours, &theirs),
            "CADASTRE_SEED={} CADASTRE_ROUNDS=1, step {step}: {}\n{question}\nours:   {}\ntheirs: {}",
            self.seed,
            difference(&ours, &theirs),
            show(&ours),
            show(&theirs),
        );
        if let Ok(object) = ours {
            if by_apply {
                self.configs.insert(manager, unmanaged(question["object"].clone()));
            }
            self.live = Object::from_value(object);
        }
        sort
    }

    /// The object as it would be stored.
    fn canonical(&self, object: &Value, time: &str) -> Value {
        let mut object = object.clone();
        if let Some(entries) = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) {
            for entry in entries.iter_mut().filter(|entry| entry["time"] == "now") {
                entry["time"] = json!(time);
            }
        }
        let mut object = stored(self.kind, object).into_value();
        object["metadata"]["uid"] = json!("u");
        object
    }

    fn config(&mut self, manager: &str) -> Value {
        let choices = &mut self.choices;
        let fresh = generate::config(choices, self.kind);
        let mut config = match (self.configs.get(manager), &self.live) {
            (Some(last), _) if chance(choices, 25) => last.clone(),
            (Some(last), _) if chance(choices, 50) => generate::between(choices, last, &fresh),
            (_, Some(live)) if chance(choices, 50) => {
                generate::between(choices, &Value::Object(live.fields().clone()), &fresh)
            }
            _ => fresh,
        };
        if chance(choices, 10) {
            generate::spoil(choices, &mut config);
        }
        generate::name(&mut config, self.kind);
        if chance(choices, 2) {
            config["metadata"]["managedFields"] = json!([]);
        }
        if chance(choices, 2) {
            config["kind"] = json!("Other");
        }
        config
    }

    fn new_object(&mut self) -> Value {
        let choices = &mut self.choices;
        let fresh = generate::config(choices, self.kind);
        let mut object = match &self.live {
            Some(live) => generate::between(choices, &Value::Object(live.fields().clone()), &fresh),
            None => fresh,
        };
        let given = object.pointer("/metadata/managedFields").cloned();
        generate::name(&mut object, self.kind);
        if chance(choices, 10) {
            let applied = json!({"apiVersion": self.kind.api_version(), "kind": self.kind.kind, "data": {"a": "b"}});
            let text = if chance(choices, 30) { "{".to_owned() } else { applied.to_string() };
            object["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": text});
        }
        let mut object = stored(self.kind, object).into_value();
        let live = self.live.as_ref().and_then(|live| live.at(&["metadata", "managedFields"])).cloned();
        let given = match choices.below(20) {
            0 => Some(json!([])),
            1 => Some(json!([{}])),
            2 => Some(json!([{"operation": "Update", "manager": "x"}])),
            3 => Some(json!([{
                "operation": "Apply", "manager": "alice", "apiVersion": self.kind.api_version(), "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:data": {}, "f:spec": {"f:selector": {"f:a": {}}}},
            }])),
            4 => None,
            5 => given,
            _ => live,
        };
        if let Some(given) = given {
            object["metadata"]["managedFields"] = given;
        }
        if self.live.is_some() {
            object["metadata"]["uid"] = json!("u");
        }
        object
    }
}

fn unmanaged(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

fn refusal(error: &ApplyError) -> (u16, String, Vec<String>) {
    let code = match error {
        ApplyError::Bad(_) => 400,
        ApplyError::Unfit(_) => 500,
        ApplyError::Conflict(_) => 409,
    };
    let mut causes = match error {
        ApplyError::Conflict(conflicts) => {
            conflicts.iter().map(|conflict| format!("{} {}", conflict.message(), conflict.field)).collect()
        }
        _ => Vec::new(),
    };
    causes.sort();
    (code, in_order(&error.to_string()), causes)
}

/// The order in which Go tells several faults of a body is up to chance.
fn in_order(message: &str) -> String {
    let Some((head, faults)) = message.split_once("errors:\n") else { return message.to_owned() };
    let mut faults: Vec<&str> = faults.split('\n').collect();
    faults.sort_unstable();
    format!("{head}errors:\n{}", faults.join("\n"))
}

/// Go looks at the fields of a structure in any order and stops at one that nobody declared, so what it tells besides that
/// is up to chance.
fn differ_by_chance(ours: &Outcome, theirs: &Outcome) -> bool {
    let undeclared = |outcome: &Outcome| -> Vec<String> {
        let Err((500, message, _)) = outcome else { return Vec::new() };
        let (_, faults) = message.split_once("): ").unwrap_or_default();
        let faults = faults.lines().filter(|fault| fault.ends_with("field not declared in schema"));
        faults.map(|fault| fault.trim().to_owned()).collect()
    };
    undeclared(ours).iter().any(|fault| undeclared(theirs).contains(fault))
}

fn show(outcome: &Outcome) -> String {
    match outcome {
        Ok(object) => object.to_string(),
        Err(refusal) => format!("{refusal:?}"),
    }
}

/// Where two outcomes differ first.
fn difference(ours: &Outcome, theirs: &Outcome) -> String {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => differing(ours, theirs, "").unwrap_or_default(),
        _ => String::new(),
    }
}

fn differing(ours: &Value, theirs: &Value, path: &str) -> Option<String> {
    match (ours, theirs) {
        _ if ours == theirs => None,
        (Value::Object(ours), Value::Object(theirs)) => ours.keys().chain(theirs.keys()).find_map(|name| {
            let nothing = json!("(absent)");
            let (ours, theirs) = (ours.get(name).unwrap_or(&nothing), theirs.get(name).unwrap_or(&nothing));
            differing(ours, theirs, &format!("{path}/{name}"))
        }),
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let mut items = ours.iter().zip(theirs).enumerate();
            items.find_map(|(index, (ours, theirs))| differing(ours, theirs, &format!("{path}/{index}")))
        }
        _ => Some(format!("at {path}\n  ours   {ours}\n  theirs {theirs}")),
    }
}

#[derive(Deserialize)]
struct Answer {
    object: Option<Value>,
    error: String,
    code: u16,
    causes: Option<Vec<Cause>>,
}

#[derive(Deserialize)]
struct Cause {
    message: String,
    field: String,
}

impl Answer {
    fn outcome(self) -> Outcome {
        if self.error.is_empty() {
            return Ok(self.object.unwrap_or_default());
        }
        let causes = self.causes.unwrap_or_default();
        let mut causes: Vec<String> = causes.iter().map(|cause| format!("{} {}", cause.message, cause.field)).collect();
        causes.sort();
        Err((self.code, in_order(&self.error), causes))
    }
}
