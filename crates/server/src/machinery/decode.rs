//! Request bodies: from bytes in JSON, YAML or protobuf to an object of the kind that is expected, with what is wrong with them.

use api::protobuf;
use api::schema::{self, Definition, Fault};
use api::{Errors, Kind, Object, Path};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};

use super::catalog::{Resource, catalog};
use super::document;
use super::failure::Failure;
use super::negotiate;
use super::query::Query;
use super::yaml;

/// The media type of a body in protobuf, which only built-in kinds have.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

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

/// The body as a JSON value of that structure, and what is there twice in it; or why it cannot be read.
pub(crate) fn value(root: &Definition, headers: &HeaderMap, body: &Bytes) -> Result<(Value, Vec<String>), Failure> {
    let read = match encoding(root, headers)? {
        Sent::Protobuf => {
            let decoded = protobuf::decode(body).map_err(|why| {
                let kind = root.short_name();
                let text =
                    format!("the object provided is unrecognized (must be of type {kind}): {why} ({})", summary(body));
                Failure::bad_request(text)
            })?;
            Ok((decoded.value, Vec::new()))
        }
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
    Err(Failure::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {why} ({})",
        root.short_name(),
        summary(body)
    )))
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
        PROTOBUF if !root.custom => Ok(Sent::Protobuf),
        _ if root.custom => Err(Failure::unsupported_media_type(negotiate::ACCEPTED)),
        _ => Err(Failure::unsupported_media_type(&format!("{}, {PROTOBUF}", negotiate::ACCEPTED))),
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
    let (value, duplicates) = value(definition, headers, body)?;
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
    let (version, kind) = (object.api_version(), object.kind());
    if !kind.is_empty() && kind != resource.kind.kind {
        let short = version.rsplit('/').next().unwrap_or_default();
        let expected = resource.kind.kind;
        let known = catalog().versions().iter().flat_map(|version| &version.resources);
        let why = if known.into_iter().any(|one| one.kind.kind == kind && one.api_version == version) {
            let package = resource.kind.group.split('.').next().filter(|name| !name.is_empty()).unwrap_or("core");
            format!("converting ({short}.{kind}) to ({package}.{expected}): unknown conversion")
        } else {
            format!("no kind {kind:?} is registered for version {version:?}")
        };
        return Err(Failure::bad_request(format!(
            "{kind} in version {short:?} cannot be handled as a {expected}: {why}"
        )));
    }
    if !version.is_empty() && version != resource.api_version {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            resource.api_version
        )));
    }
    object.set(&["apiVersion"], json!(resource.api_version));
    object.set(&["kind"], json!(resource.kind.kind));
    Ok(())
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
