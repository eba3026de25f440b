//! Any live object, configuration and `managedFields` get an answer, and so does what comes of them.

use api::apply::{Set, Write, apply, update};
use api::kinds::KINDS;
use api::{Object, schema};

/// What the fuzz target of that name does with an input: the first byte is the kind, the second how it is written; then come two objects as JSON, with a line break between.
pub(crate) fn run(data: &[u8]) {
    let [kind, how, texts @ ..] = data else { return };
    let kind = KINDS[usize::from(*kind) % KINDS.len()];
    let Some(definition) = schema::definition(kind.schema) else { return };
    let mut texts = texts.split(|byte| *byte == b'\n');
    let mut object = || texts.next().and_then(|text| Object::parse(text).ok());
    let (live, Some(mut config)) = (object(), object()) else { return };
    let stored = |object: Object| {
        let mut value = object.into_value();
        schema::canonical(definition, &mut value);
        Object::from_value(value)
    };
    let live = live.and_then(stored);
    let ignored = if how & 1 == 0 { Set::default() } else { Set::of(&[&["status"]]) };
    let subresource = if how & 2 == 0 { "" } else { "status" };
    let manager = if how & 4 == 0 { "fuzz" } else { "kubectl" };
    let write = Write { kind, manager, subresource, time: "2026-01-01T00:00:00Z", ignored: &ignored };
    if how & 8 == 0 {
        return update(&write, live.as_ref(), &mut config);
    }
    config.set(&["apiVersion"], kind.api_version().into());
    config.set(&["kind"], kind.kind.into());
    if let Ok(applied) = apply(&write, live.as_ref(), &config, how & 16 == 0) {
        let _ = apply(&write, Some(&applied.object), &config, false);
    }
}
