//! Any object and any patch get an answer, and so does what comes of them. The fuzz target `patch` is made of this file too, so it
//! knows the module only as `super::patch`.

use api::kinds::KINDS;
use api::schema;
use serde_json::{Map, Value};

use super::patch::{PatchKind, apply};

/// What the fuzz target of that name does with an input: the first byte is the kind, the second the format; then come an object
/// and a patch, with a line break between.
pub(crate) fn run(data: &[u8]) {
    let [kind, format, texts @ ..] = data else { return };
    let Some(definition) = schema::definition(KINDS[usize::from(*kind) % KINDS.len()].schema) else { return };
    let format = [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic][usize::from(*format) % 3];
    let Some(end) = texts.iter().position(|byte| *byte == b'\n') else { return };
    let (object, body) = (&texts[..end], &texts[end + 1..]);
    let Ok(object) = serde_json::from_slice::<Map<String, Value>>(object) else { return };
    let Ok(patched) = apply(format, body, &object, definition) else { return };
    patched.quoted();
    let again = apply(format, body, &patched.object, definition);
    if format == PatchKind::Merge {
        assert_eq!(again.map(|again| again.object).ok(), Some(patched.object), "a merge patch says what is to be");
    }
}
