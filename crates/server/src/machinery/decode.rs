//! Request bodies: from bytes in JSON, YAML or protobuf to an object of the kind that is expected, with what is wrong with them.

use api::protobuf::{self, Envelope};
use api::schema::{self, Definition, Fault};
use api::{Errors, Kind, Object, Path};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};

use super::catalog::{Resource, catalog};
use super::document;
use super::failure::Failure;
use super::negotiate;
use super::protobuf::MEDIA_TYPE;
use super::query::Query;
use super::yaml;

/// What follows the kind that is not known, as clients know it.
const SCHEME: &str = "in scheme \"pkg/runtime/scheme.go:111\"";

/// What to do about fields that a kind does not have, or that are there twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    Ignore,
    Warn,
    Strict,
}

impl Strictness {
    /// What the query says; an error if that is nothing known.
    pub(crate) fn read(query: &Query, errors: &mut Errors) -> Self {
        match query.get("fieldValidation") {
            "Ignore" => Self::Ignore,
            "Strict" => Self::Strict,
            "" | "Warn" => Self::Warn,
            other => {
                let field = Path::new("fieldValidation");
                errors.not_supported(&field, &json!(other), &["", "Ignore", "Strict", "Warn"]);
                Self::Warn
            }
        }
    }
}

/// A body that was understood.
pub(crate) struct Decoded {
    pub(crate) object: Object,
    pub(crate) warnings: Vec<String>,
}

/// A body that is no object.
pub(crate) enum Unreadable {
    /// It is not looked at, or not to its end.
    Refused(Failure),
    /// Not even its kind can be told.
    Unrecognized(String),
    /// It says that it is of this kind, and is not.
    Object { api_version: String, kind: String, why: String },
}

impl Unreadable {
    /// What is said where the body is an object to be written.
    fn failure(self, root: &Definition, body: &[u8]) -> Failure {
        let expected = root.short_name();
        match self {
            Self::Refused(failure) => failure,
            Self::Unrecognized(why) => {
                let summary = summary(body);
                let what = format!("the object provided is unrecognized (must be of type {expected})");
                Failure::bad_request(format!("{what}: {why} ({summary})"))
            }
            Self::Object { api_version, kind, why } => {
                let version = api_version.rsplit('/').next().unwrap_or_default();
                Failure::bad_request(format!("{kind} in version {version:?} cannot be handled as a {expected}: {why}"))
            }
        }
    }
}

/// What is said where the body is something about the request.
impl From<Unreadable> for Failure {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Refused(failure) => failure,
            Unreadable::Unrecognized(why) | Unreadable::Object { why, .. } => Self::bad_request(why),
        }
    }
}

/// The body as a JSON value of that structure, and what is there twice in it; or why it cannot be read.
pub(crate) fn value(
    root: &Definition,
    api_version: &str,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<(Value, Vec<String>), Unreadable> {
    let read = match encoding(root, headers).map_err(Unreadable::Refused)? {
        Sent::Protobuf => return from_protobuf(root.short_name(), api_version, body).map(|value| (value, Vec::new())),
        Sent::Json => match schema::parse(root, body) {
            Ok(parsed) => Ok((parsed.value, parsed.duplicates)),
            Err(error) => Err(document::read(body).err().unwrap_or_else(|| error.to_string())),
        },
        Sent::Yaml => yaml::to_json(body).map(|yaml| (yaml.value, yaml.faults)),
    };
    let why = match read {
        Ok((value, duplicates)) if value.is_object() => return Ok((value, duplicates)),
        Ok((value, _)) => document::mismatch(
            &value,
            "Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }",
        ),
        Err(why) => why,
    };
    Err(Unreadable::Unrecognized(format!("couldn't get version/kind; json parse error: {why}")))
}

/// What an envelope does not say of its object is as it is expected.
fn from_protobuf(kind: &str, api_version: &str, body: &[u8]) -> Result<Value, Unreadable> {
    let opened = Envelope::open(body).map_err(|why| Unreadable::Unrecognized(why.to_string()))?;
    let envelope = opened.or(api_version, kind);
    let (api_version, kind) = (envelope.api_version.clone(), envelope.kind.clone());
    match envelope.decode() {
        Ok(decoded) => Ok(decoded.value),
        Err(protobuf::Error::TooLarge) => Err(Unreadable::Refused(Failure::too_large(protobuf::MOST_JSON))),
        Err(protobuf::Error::Kind { .. }) => {
            let why = no_such_kind(&api_version, &kind);
            Err(Unreadable::Object { api_version, kind, why })
        }
        Err(why) => Err(Unreadable::Object { api_version, kind, why: why.to_string() }),
    }
}

/// The beginning of a body, for a message: as text if it looks like JSON, else in hexadecimal.
fn summary(body: &[u8]) -> String {
    const LONGEST: usize = 30;
    let begin = &body[..body.len().min(LONGEST)];
    let more = if body.len() > LONGEST { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(begin)),
        Some(_) => begin.iter().map(|byte| format!("{byte:02x}")).chain([more.to_owned()]).collect(),
    }
}

/// How a body is written.
enum Sent {
    Json,
    Yaml,
    Protobuf,
}

fn encoding(root: &Definition, headers: &HeaderMap) -> Result<Sent, Failure> {
    match negotiate::content_type(headers) {
        "" | "application/json" => Ok(Sent::Json),
        "application/yaml" => Ok(Sent::Yaml),
        MEDIA_TYPE if !root.custom => Ok(Sent::Protobuf),
        _ if root.custom => Err(Failure::unsupported_media_type("application/json, application/yaml")),
        _ => Err(Failure::unsupported_media_type(&format!("application/json, application/yaml, {MEDIA_TYPE}"))),
    }
}

/// The body as an object of that resource.
pub(crate) fn object(
    resource: &Resource,
    headers: &HeaderMap,
    body: &Bytes,
    strictness: Strictness,
) -> Result<Decoded, Failure> {
    let definition = definition(resource.kind)?;
    let (value, duplicates) = value(definition, &resource.api_version, headers, body)
        .map_err(|unreadable| unreadable.failure(definition, body))?;
    let mut object = Object::from_value(value).unwrap_or_default();
    same_kind(resource, &mut object)?;
    let kind = resource.kind;
    let warnings = checked(definition, &mut object, duplicates, strictness).map_err(|why| {
        let what = format!("{} in version {:?} cannot be handled as a {}", kind.kind, kind.version, kind.kind);
        Failure::bad_request(format!("{what}: {why}"))
    })?;
    Ok(Decoded { object, warnings })
}

/// Refuses an object that says it is of another kind; one that does not say is taken for what is expected.
fn same_kind(resource: &Resource, object: &mut Object) -> Result<(), Failure> {
    let version = Some(object.api_version()).filter(|version| !version.is_empty()).unwrap_or(&resource.api_version);
    let kind = Some(object.kind()).filter(|kind| !kind.is_empty()).unwrap_or(resource.kind.kind);
    if kind == resource.kind.kind && version == resource.api_version {
        object.set(&["apiVersion"], json!(resource.api_version));
        object.set(&["kind"], json!(resource.kind.kind));
        return Ok(());
    }
    let (short, expected) = (version.rsplit('/').next().unwrap_or_default(), resource.kind.kind);
    let mut served = catalog().versions().iter().flat_map(|version| &version.resources);
    let known = served.any(|one| one.kind.kind == kind && one.api_version == version) || protobuf::knows(version, kind);
    let why = match known {
        true if kind == expected => {
            return Err(Failure::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({})",
                resource.api_version
            )));
        }
        true => {
            let package = resource.kind.group.split('.').next().filter(|name| !name.is_empty()).unwrap_or("core");
            format!("converting ({short}.{kind}) to ({package}.{expected}): unknown conversion")
        }
        false => no_such_kind(version, kind),
    };
    Err(Failure::bad_request(format!("{kind} in version {short:?} cannot be handled as a {expected}: {why}")))
}

/// What is said of a kind that is not known where it stands.
pub(crate) fn no_such_kind(api_version: &str, kind: &str) -> String {
    format!("no kind {kind:?} is registered for version {api_version:?} {SCHEME}")
}

/// Brings an object into the form of its kind: unknown fields go, and are told. An error is a text for the client.
pub(crate) fn checked(
    definition: &Definition,
    object: &mut Object,
    mut told: Vec<String>,
    strictness: Strictness,
) -> Result<Vec<String>, String> {
    let forgets = forgets(object);
    object.with_value(|value| {
        for fault in schema::check(definition, value) {
            match fault {
                Fault::Unreadable(why) => return Err(why),
                unknown @ Fault::Unknown(_) => told.push(unknown.to_string()),
            }
        }
        schema::prune(definition, value);
        Ok(())
    })?;
    if forgets {
        object.set(&MANAGED_FIELDS, json!([]));
    }
    if strictness == Strictness::Strict && !told.is_empty() {
        return Err(format!("strict decoding error: {}", told.join(", ")));
    }
    if strictness == Strictness::Ignore {
        told.clear();
    }
    Ok(told)
}

/// Brings an object to the form that is stored, after everything that changes it.
pub(crate) fn canonical(kind: &Kind, object: &mut Object) -> Result<(), Failure> {
    let definition = definition(kind)?;
    object.with_value(|value| schema::canonical(definition, value));
    Ok(())
}

/// The same, but an empty list of `managedFields` stays: in a request it means something, that all of them be forgotten.
pub(crate) fn canonical_request(kind: &Kind, object: &mut Object) -> Result<(), Failure> {
    let forgets = forgets(object);
    canonical(kind, object)?;
    if forgets {
        object.set(&MANAGED_FIELDS, json!([]));
    }
    Ok(())
}

const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

fn forgets(object: &Object) -> bool {
    object.at(&MANAGED_FIELDS).and_then(Value::as_array).is_some_and(Vec::is_empty)
}

/// Holds an object against the schema of a kind that is not read into types.
pub(crate) fn validate(kind: &Kind, object: &mut Object, errors: &mut Errors) -> Result<(), Failure> {
    let definition = definition(kind)?;
    object.with_value(|value| schema::validate(definition, value, errors));
    Ok(())
}

/// The schema of a kind.
pub(crate) fn definition(kind: &Kind) -> Result<&'static Definition, Failure> {
    schema::definition(kind.schema).ok_or_else(|| Failure::internal(format!("there is no schema {:?}", kind.schema)))
}
