//! What patches do: cases as data, and laws that hold for random objects and patches.

mod any;
mod merge;
mod operations;
mod strategic;

use api::schema::{self, Definition};
use serde_json::{Map, Value, json};
use testkit::choices::{Choices, Seeded};

use super::{PatchError, PatchKind, Patched, apply, generate};
use crate::machinery::patch;

const POD: &str = "io.k8s.api.core.v1.Pod";
const SERVICE: &str = "io.k8s.api.core.v1.Service";
const NODE: &str = "io.k8s.api.core.v1.Node";
const CONFIG_MAP: &str = "io.k8s.api.core.v1.ConfigMap";
const KINDS: [&str; 4] = [POD, SERVICE, NODE, CONFIG_MAP];

/// How many random objects a law is tried on.
const ROUNDS: u64 = 250;

fn definition(name: &str) -> &'static Definition {
    schema::definition(name).unwrap()
}

fn patched(kind: PatchKind, schema: &str, object: &Value, patch: &Value) -> Result<Patched, PatchError> {
    apply(kind, patch.to_string().as_bytes(), object.as_object().unwrap(), definition(schema))
}

fn outcome(kind: PatchKind, schema: &str, object: &Value, patch: &Value) -> Value {
    match patched(kind, schema, object, patch) {
        Ok(patched) => Value::Object(patched.object),
        Err(error) => panic!("{object} {patch}: {error:?}"),
    }
}

fn refusal(kind: PatchKind, schema: &str, object: &Value, patch: &Value) -> PatchError {
    patched(kind, schema, object, patch).unwrap_err()
}

/// Calls `check` with random objects of several kinds, each with the stream that it came from.
fn for_random_objects(mut check: impl FnMut(&mut Seeded, &'static str, Value)) {
    for seed in 0..ROUNDS {
        let mut choices = Seeded::new(seed);
        let schema = choices.one_of(&KINDS);
        let object = generate::object(&mut choices, definition(schema), 0);
        check(&mut choices, schema, object);
    }
}

#[test]
fn media_types_name_the_formats() {
    for kind in PatchKind::accepted(true) {
        assert_eq!(PatchKind::of(kind.media_type()), Some(kind));
    }
    assert_eq!(PatchKind::of("application/json"), None);
    assert!(
        !PatchKind::accepted(false).any(|kind| kind == PatchKind::Strategic),
        "a custom resource has no merge keys"
    );
}

#[test]
fn every_committed_input_of_the_fuzzer_passes() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/patch");
    let inputs: Vec<_> = std::fs::read_dir(folder).unwrap().map(|input| input.unwrap().path()).collect();
    assert!(!inputs.is_empty(), "the corpus is empty");
    for input in inputs {
        // A failure shows what was written last.
        eprintln!("replaying {}", input.display());
        any::run(&std::fs::read(&input).unwrap());
    }
}
