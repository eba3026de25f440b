//! `Failure`: a request that was not done, as the `Status` object that says why.
//!
//! The texts are those that Kubernetes clients match on. Everything that can go wrong in the machinery ends as one of
//! these; nothing else turns an error into an answer.

use api::{Errors, Kind, Object, Path};
use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use store::{Revision, StoreError};

use super::patch::PatchError;
use crate::registry::Unmet;

/// One cause of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Its sort: `FieldValueInvalid`, `NamespaceTerminating`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: &'static str,
    /// What to say about it.
    pub message: String,
    /// The field it is about, if it is about one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// What a failure is about, and what follows from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Details {
    /// The name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Its kind or, as clients expect, mostly its plural.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The single causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to try again.
    #[serde(rename = "retryAfterSeconds", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
    /// Where a list can be continued although its beginning is gone. It stands in the metadata of the Status.
    #[serde(skip)]
    pub continue_token: Option<String>,
    /// What was wanted and could not be given, if that is why.
    #[serde(skip)]
    pub(crate) unmet: Option<Unmet>,
}

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status.
    pub code: StatusCode,
    /// The reason that programs look at; empty if there is none.
    pub reason: &'static str,
    /// The message that people look at.
    pub message: String,
    /// What it is about. In a box: most results are no failures, and all of them have to have room for one.
    pub details: Box<Details>,
    /// What the client is told besides.
    pub warnings: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Failure {
    /// A failure that is about no object.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Box::default(), warnings: Vec::new() }
    }

    /// The same failure, about that object.
    #[must_use]
    pub fn about(mut self, kind: &Kind, name: &str) -> Self {
        kind.group.clone_into(&mut self.details.group);
        kind.plural.clone_into(&mut self.details.kind);
        name.clone_into(&mut self.details.name);
        self
    }

    /// The same failure with more warnings, before those it has: what is odd about a request is told also if it fails for another reason.
    #[must_use]
    pub(crate) fn warned(mut self, mut warnings: Vec<String>) -> Self {
        warnings.append(&mut self.warnings);
        self.warnings = warnings;
        self
    }

    /// The same failure with a cause.
    #[must_use]
    pub fn because(mut self, reason: &'static str, message: impl Into<String>, field: &str) -> Self {
        self.details.causes.push(Cause { reason, message: message.into(), field: field.to_owned() });
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// There is no such object.
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", format!("{} {name:?} not found", kind.qualified_plural()))
            .about(kind, name)
    }

    /// There is nothing at that path.
    pub fn no_such_resource() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", kind.qualified_plural());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(kind, name)
    }

    /// Somebody else was faster, or a precondition does not hold.
    pub fn conflict(kind: &Kind, name: &str, why: impl std::fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.qualified_plural());
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(kind, name)
    }

    /// A precondition of a delete does not hold. Clients know it with the kind in the place of the resource.
    pub(crate) fn precondition(kind: &Kind, name: &str, why: impl std::fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.qualified_kind());
        let mut failure = Self::new(StatusCode::CONFLICT, "Conflict", message).about(kind, name);
        kind.stored_group().clone_into(&mut failure.details.group);
        kind.kind.clone_into(&mut failure.details.kind);
        failure
    }

    pub(crate) fn modified(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// This may not be done to that object.
    pub fn forbidden(kind: &Kind, name: &str, why: impl std::fmt::Display) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", kind.qualified_plural());
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(kind, name)
    }

    /// A new object may not come in. It may have no name yet: then it goes by what its name is to begin with, if anything.
    pub fn not_admitted(kind: &Kind, object: &Object, why: impl std::fmt::Display) -> Self {
        let names = [object.name(), object.text(&["metadata", "generateName"]), "Unknown"];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        Self::forbidden(kind, name, why)
    }

    /// The object is not valid.
    pub fn invalid(kind: &Kind, name: &str, errors: &Errors) -> Self {
        Self::invalid_of(&kind.qualified_kind(), kind.stored_group(), kind.kind, name, errors)
    }

    /// A PUT says nothing of the state that it is based on, and the kind wants to know.
    pub(crate) fn without_revision(kind: &Kind, name: &str) -> Self {
        let mut errors = Errors::new();
        let field = Path::new("metadata").child("resourceVersion");
        errors.invalid(&field, &json!(0), "must be specified for an update");
        Self::invalid_of(&kind.qualified_plural(), kind.group, kind.plural, name, &errors)
    }

    /// The options of a request are not valid.
    pub(crate) fn invalid_options(options: &str, errors: &Errors) -> Self {
        Self::invalid_of(&format!("{options}.meta.k8s.io"), "meta.k8s.io", options, "", errors)
    }

    fn invalid_of(qualified: &str, group: &str, kind: &str, name: &str, errors: &Errors) -> Self {
        let mut failure = Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            format!("{qualified} {name:?} is invalid: {errors}"),
        );
        group.clone_into(&mut failure.details.group);
        kind.clone_into(&mut failure.details.kind);
        name.clone_into(&mut failure.details.name);
        for error in errors.iter() {
            failure = failure.because(error.reason.code(), error.body.clone(), &error.field.to_string());
        }
        failure
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The same, as clients know it where they ask for something that nothing there is written in.
    pub(crate) fn no_representation(given: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {given}");
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: {}", message.into()))
    }

    pub(crate) fn future_revision(asked: Revision, current: Revision) -> Self {
        let text = format!("Too large resource version: {asked}, current: {current}");
        let mut failure = Self::timeout(text).because("ResourceVersionTooLarge", "Too large resource version", "");
        failure.details.retry_after = Some(1);
        failure
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", format!("Internal error occurred: {message}"))
            .because("", message.to_string(), "")
    }

    /// The failure as the `Status` object that a client gets.
    pub fn status(&self) -> Status<'_> {
        Status {
            kind: "Status",
            api_version: "v1",
            metadata: StatusMetadata { next: self.details.continue_token.as_deref() },
            outcome: "Failure",
            message: &self.message,
            reason: self.reason,
            // Clients know these with details even if there is nothing to say.
            details: (matches!(self.reason, "NotFound" | "MethodNotAllowed" | "Invalid")
                || *self.details != Details::default())
            .then_some(&self.details),
            code: self.code.as_u16(),
        }
    }
}

/// What became of a request, in the order of fields that clients print.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: StatusMetadata<'a>,
    #[serde(rename = "status")]
    outcome: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Details>,
    #[serde(skip_serializing_if = "is_zero")]
    code: u16,
}

impl<'a> Status<'a> {
    /// Something was done to what the details name.
    pub(crate) fn success(details: &'a Details) -> Self {
        Self {
            kind: "Status",
            api_version: "v1",
            metadata: StatusMetadata { next: None },
            outcome: "Success",
            message: "",
            reason: "",
            details: Some(details),
            code: 0,
        }
    }
}

#[derive(Debug, Serialize)]
struct StatusMetadata<'a> {
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    next: Option<&'a str>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(code: &u16) -> bool {
    *code == 0
}

/// What the store could not do is said with the store's own words, and with a code that tells whether to try again.
impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unknown(_) => Self::timeout(error.to_string()),
            StoreError::TooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", error.to_string())
            }
            // Trying again does not help.
            StoreError::TooMany { .. }
            | StoreError::Invalid(_)
            | StoreError::Corrupt(_)
            | StoreError::Unsupported(_) => Self::internal(error.to_string()),
            StoreError::Unavailable(_) | StoreError::Closed => {
                let mut failure = Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", error.to_string());
                failure.details.retry_after = Some(1);
                failure
            }
        }
    }
}

/// A patch that was not applied.
impl From<PatchError> for Failure {
    fn from(error: PatchError) -> Self {
        let message = error.to_string();
        match error {
            PatchError::BadRequest(_) => Self::bad_request(message),
            PatchError::TooManyOperations(_) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
            }
            PatchError::Unprocessable(why) => {
                tracing::debug!("a patch was refused: {why}");
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
            }
            PatchError::Contradiction(_) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message),
        }
    }
}
