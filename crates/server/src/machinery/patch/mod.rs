//! Patches: a JSON body that says how an object is to change, and the object that comes of it.
//!
//! Three formats: JSON patch (a list of operations), merge patch (an object laid over the object) and strategic merge
//! patch (the same, but lists whose items have keys are merged too). Pure: values in, values out. What a patched object
//! has to satisfy besides (its schema, its kind's rules) is asked by the caller.

#[cfg(test)]
mod generate;
mod golang;
mod json;
#[cfg(test)]
#[cfg(feature = "patch-judge")]
mod judged;
mod merge;
mod order;
mod shape;
mod strategic;
#[cfg(test)]
mod tests;

use api::schema::Definition;
use serde_json::{Map, Value};

use super::document::{self, Document};

/// The fields of an object.
type Fields = Map<String, Value>;

/// The formats that a patch can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 6902: a list of operations.
    Json,
    /// RFC 7396: an object whose fields replace the object's, and whose nulls remove them.
    Merge,
    /// A merge patch that merges lists too, by the keys that the schema declares, and has directives.
    Strategic,
}

impl PatchKind {
    /// The format of that media type (without parameters), if it is one of a patch.
    pub(crate) fn of(media_type: &str) -> Option<Self> {
        [Self::Json, Self::Merge, Self::Strategic].into_iter().find(|kind| kind.media_type() == media_type)
    }

    /// The media type that names the format.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }

    /// The formats of the patches that an object can take, as a refusal of another one lists them. `strategic` tells
    /// whether its kind is built into Kubernetes: custom resources do not take strategic merge patches.
    pub(crate) fn accepted(strategic: bool) -> impl Iterator<Item = Self> {
        [Self::Json, Self::Merge, Self::Strategic].into_iter().filter(move |kind| strategic || *kind != Self::Strategic)
    }
}

/// Why a patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// The body is not a patch of its format. 400, `BadRequest`.
    #[error("{0}")]
    BadRequest(String),
    /// The body has more operations than one patch may have. 413, `RequestEntityTooLarge`.
    #[error(
        "Request entity too large: The allowed maximum operations in a JSON patch is {limit}, got {0}",
        limit = json::MOST_OPERATIONS
    )]
    TooManyOperations(usize),
    /// The patch cannot be applied to this object. 422, `Invalid`; clients are told no more than this, the log is.
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable(String),
    /// The patch contradicts the schema or itself. 500 without a reason: clients know these texts under that code.
    #[error("{0}")]
    Contradiction(String),
}

/// What came of a patch.
#[derive(Debug)]
pub(crate) struct Patched {
    /// The patched object.
    pub(crate) object: Fields,
    /// What strict field validation holds against the body: `duplicate field "spec.type"`.
    pub(crate) faults: Vec<String>,
    /// A strategic patch without the directives that were followed; nothing for the other formats.
    patch: Option<Value>,
}

impl Patched {
    /// What an answer quotes as the value of `patch` if the patched object is not one of its kind.
    pub(crate) fn quoted(&self) -> String {
        match &self.patch {
            Some(patch) => golang::shown(patch),
            // Writing a value to text cannot fail.
            None => serde_json::to_string(&self.object).unwrap_or_default(),
        }
    }
}

/// Applies a patch to an object of the kind that `root` describes.
pub(crate) fn apply(kind: PatchKind, body: &[u8], current: &Fields, root: &Definition) -> Result<Patched, PatchError> {
    match kind {
        PatchKind::Json => {
            let Document { value, faults } =
                document::read(body).map_err(|why| PatchError::BadRequest(format!("error decoding patch: {why}")))?;
            json::apply(value, current).map(|(object, unknown)| {
                let faults = faults.into_iter().chain(unknown).map(|fault| format!("json patch {fault}")).collect();
                Patched { object, faults, patch: None }
            })
        }
        PatchKind::Merge => {
            let (patch, faults) =
                object(body).map_err(|why| PatchError::BadRequest(format!("error decoding patch: {why}")))?;
            let patch = patch.ok_or_else(|| PatchError::BadRequest("Invalid JSON Patch".to_owned()))?;
            let mut object = current.clone();
            merge::apply(&mut object, patch);
            Ok(Patched { object, faults, patch: None })
        }
        PatchKind::Strategic => {
            let (patch, faults) = object(body).map_err(PatchError::BadRequest)?;
            let mut patch = patch.unwrap_or_default();
            let mut object = current.clone();
            strategic::apply(&mut object, &mut patch, root)?;
            Ok(Patched { object, faults, patch: Some(Value::Object(patch)) })
        }
    }
}

/// The object that a body is; `None` for `null`, which readers of objects let pass.
fn object(body: &[u8]) -> Result<(Option<Fields>, Vec<String>), String> {
    let Document { value, faults } = document::read(body)?;
    match value {
        Value::Object(fields) => Ok((Some(fields), faults)),
        Value::Null => Ok((None, faults)),
        other => Err(document::mismatch(&other, "Go value of type map[string]interface {}")),
    }
}
