//! Server-side apply: a PATCH whose body is what its manager wants of the object, whether the object is there or not.

use api::Object;
use api::apply::{self, ApplyError, Conflict};
use api::schema::{self, Fault};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::catalog::Resource;
use super::create::{New, in_namespace, insert};
use super::decode::{self, Strictness};
use super::document::{self, Document};
use super::failure::Failure;
use super::options::{Sort, WriteOptions};
use super::path::Target;
use super::query::Query;
use super::update::{Part, Update, named_as_path};
use super::write::{self, Done, MOST_TRIES};
use super::yaml;
use crate::registry::Surroundings;

/// The media type of a configuration that is applied.
pub(crate) const MEDIA_TYPE: &str = "application/apply-patch+yaml";

/// Applies the body of a PATCH.
pub(crate) async fn apply(
    around: &Surroundings,
    resource: &'static Resource,
    target: &Target,
    part: Part,
    query: &Query,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<(StatusCode, Done, Vec<String>), Failure> {
    let options = WriteOptions::read(Sort::Apply, query, headers)?;
    let (config, twice) = read(body)?;
    let make = |live: Option<&Object>| {
        let applied = write::with_account(resource.kind, &options.manager, part, |write| {
            apply::apply(write, live, &config, options.force)
        });
        let mut object = applied.map_err(refusal)?.object;
        typed(resource, &config, &mut object)?;
        let told = match (options.strictness, &twice) {
            (Strictness::Strict, Some(twice)) => {
                let text = format!("error strict decoding YAML: error converting YAML to JSON: {twice}");
                return Err(Failure::bad_request(text));
            }
            // A line of its own for each of them, without the heading.
            (Strictness::Warn, Some(twice)) => twice.lines().skip(1).map(|line| line.trim().to_owned()).collect(),
            _ => Vec::new(),
        };
        match in_namespace(resource, &mut object, &target.namespace).and_then(|()| named_as_path(&object, target)) {
            Ok(()) => Ok((object, told)),
            Err(failure) => Err(failure.warned(told)),
        }
    };
    let update =
        Update { around, resource, target, part, dry_run: options.dry_run, manager: None, uid_is_condition: false };
    let mut warnings = Vec::new();
    for _ in 0..MOST_TRIES {
        match update.run(|live| make(Some(live)), &mut warnings).await {
            Err(failure) if failure.code == StatusCode::NOT_FOUND && part.is_none() => {}
            done => return done.map(|done| (StatusCode::OK, done, warnings)),
        }
        let (mut object, told) = make(None)?;
        if !object.uid().is_empty() {
            let uid = object.uid();
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(Failure::conflict(resource.kind, &target.name, why).warned(told));
        }
        // Of an object that comes to be the revision says nothing.
        object.metadata_mut().remove("resourceVersion");
        warnings.extend(told);
        let new = New { object, manager: None };
        match insert(around, resource, &target.namespace, new, options.dry_run, &mut warnings).await {
            // Somebody else has created it meanwhile: it can be applied to.
            Err(failure) if failure.reason == "AlreadyExists" => warnings.clear(),
            Ok(done) => return Ok((StatusCode::CREATED, done, warnings)),
            Err(failure) => return Err(failure.warned(warnings)),
        }
    }
    Err(Failure::modified(resource.kind, &target.name))
}

/// The configuration in a body, and what is there twice in it.
fn read(body: &Bytes) -> Result<(Object, Option<String>), Failure> {
    let bad = |why: String| Failure::bad_request(format!("error decoding YAML: {why}"));
    // Most clients send JSON, which is YAML and much faster to read. What is wrong with it is told as of YAML.
    let json = if body.first() == Some(&b'{') { document::read(body).ok() } else { None };
    let Document { value, faults } = match json.filter(|json| json.faults.is_empty()) {
        Some(json) => json,
        None => yaml::to_json(body).map_err(|why| bad(format!("error converting YAML to JSON: {why}")))?,
    };
    let config = match value {
        Value::Object(fields) => Object::new(fields),
        Value::Null => Object::default(),
        other => {
            let why = document::mismatch(&other, "Go value of type map[string]interface {}");
            return Err(bad(format!("error unmarshaling JSON: while decoding JSON: {why}")));
        }
    };
    Ok((config, faults.into_iter().next()))
}

/// Holds what came of an apply against the types of its kind: a configuration that fits its shape may still say what no
/// value of a type is written like.
fn typed(resource: &Resource, config: &Object, object: &mut Object) -> Result<(), Failure> {
    let kind = resource.kind;
    let definition = decode::definition(kind)?;
    let faults = object.with_value(|value| schema::check(definition, value));
    let unreadable = faults.into_iter().find_map(|fault| match fault {
        Fault::Unreadable(why) => Some(why),
        Fault::Unknown(_) => None,
    });
    if let Some(why) = unreadable {
        let named = format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind);
        let text = format!(
            "failed to convert new object ({}/{}; {named}) to proper version: unable to convert unstructured object to \
             {named}: {why}",
            config.namespace(),
            config.name()
        );
        return Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", text));
    }
    object.with_value(|value| schema::prune(definition, value));
    Ok(())
}

/// Why a configuration was not applied.
fn refusal(error: ApplyError) -> Failure {
    let message = error.to_string();
    match error {
        ApplyError::Bad(_) => Failure::bad_request(message),
        ApplyError::Unfit(_) => Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", message),
        ApplyError::Conflict(conflicts) => {
            conflicts.iter().fold(Failure::new(StatusCode::CONFLICT, "Conflict", message), |failure, conflict| {
                failure.because(Conflict::CAUSE, conflict.message(), &conflict.field)
            })
        }
    }
}
