//! Creating: an object that was not there, in one transaction with the condition that its namespace takes it.

use api::kind::Naming;
use api::{Errors, Kind, Object, Path};
use bytes::Bytes;
use http::StatusCode;
use serde_json::json;
use store::{Compare, Write};

use super::catalog::Resource;
use super::decode;
use super::failure::Failure;
use super::options::{Sort, WriteOptions};
use super::path::Target;
use super::query::Query;
use super::show;
use super::write::{self, Committed, Done, MOST_TRIES};
use crate::registry::{self, Along, Change, Surroundings};

/// The characters that generated names end with: no vowels, so that they spell nothing.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
/// The longest name that a suffix is appended to; a longer one is cut.
const LONGEST_BASE: usize = 63 - SUFFIX_LENGTH;
/// How often another name is tried when a generated one is taken.
const MOST_NAMES: usize = 8;

/// Creates what the body of a POST says.
pub(crate) async fn create(
    around: &Surroundings,
    resource: &'static Resource,
    target: &Target,
    query: &Query,
    headers: &http::HeaderMap,
    body: &Bytes,
) -> Result<(StatusCode, Done, Vec<String>), Failure> {
    let options = WriteOptions::read(Sort::Create, query, headers)?;
    let decoded = decode::object(resource, headers, body, options.strictness)?;
    let mut warnings = decoded.warnings;
    let new = New { object: decoded.object, manager: Some(&options.manager) };
    match insert(around, resource, &target.namespace, new, options.dry_run, &mut warnings).await {
        Ok(done) => Ok((StatusCode::CREATED, done, warnings)),
        Err(failure) => Err(failure.warned(warnings)),
    }
}

/// What is to be created.
pub(crate) struct New<'a> {
    pub(crate) object: Object,
    /// Who gets to own its fields; nobody if its `managedFields` say that already.
    pub(crate) manager: Option<&'a str>,
}

/// Creates an object.
pub(crate) async fn insert(
    around: &Surroundings,
    resource: &'static Resource,
    namespace: &str,
    new: New<'_>,
    dry_run: bool,
    warnings: &mut Vec<String>,
) -> Result<Done, Failure> {
    let (kind, store) = (resource.kind, &around.store);
    let New { mut object, manager } = new;
    in_namespace(resource, &mut object, namespace)?;
    if !object.resource_version().is_empty() && !dry_run {
        let text = "resourceVersion should not be set on objects to be created";
        return Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", text));
    }
    let generated = object.name().is_empty();
    let base = object.text(&["metadata", "generateName"]).to_owned();
    write::found(resource, &mut object);
    (kind.default)(&mut object);
    // What the kind sets by itself afterwards is nobody's, unless it says whose.
    let account = match manager {
        Some(manager) if registry::behaviour(kind).signs() => {
            write::account(kind, manager, None, None, &mut object)?;
            None
        }
        Some(manager) => write::account_new(kind, manager, &mut object)?,
        None => None,
    };
    // Whether its namespace takes it comes before what is wrong with it.
    let mut depends = registry::admit(store, kind, namespace, &object).await?;
    registry::complete(store, kind, namespace, &mut object).await?;
    // What is accounted for is in the form that is stored. Kinds that are completed also prepare their creates.
    if let Some(prepare) = kind.prepare_create {
        prepare(&mut object);
    }
    let is_stored_form = account.is_some() && (kind.prepare_create.is_none() || kind.prepares_stored_form);
    if !is_stored_form && (manager.is_none() || kind.prepare_create.is_some()) {
        decode::canonical(kind, &mut object)?;
    }
    for attempt in 0..MOST_TRIES {
        if generated && !base.is_empty() {
            object.set(&["metadata", "name"], json!(generate(kind.naming, &base)));
            // A default may be made of the name.
            (kind.default)(&mut object);
            decode::canonical(kind, &mut object)?;
        }
        let key = write::key(resource, namespace, object.name());
        let mut along = accompany(around, kind, &object).await?;
        // What will not be written, as far as is known, keeps nothing from others while it waits.
        let is_vain = dry_run || along.hold.is_some() && store.get(&key).is_some();
        if is_vain {
            drop(along.hold.take());
        }
        let (mut other, given) = (along.object.take(), along.given.take());
        let object = other.as_mut().unwrap_or(&mut object);
        if let Some(given) = &given {
            given.fill(object);
        }
        // A new name does not make an object valid that was not, nor the other way round.
        if attempt == 0 {
            valid(resource, object)?;
            warnings.extend((kind.warnings)(object, None));
            registry::behaviour(kind).refuse_create(kind, object)?;
        }
        let name = object.name().to_owned();
        let is_last_name = !generated || attempt >= MOST_NAMES || kind.naming == Naming::Verbatim;
        if is_vain {
            store.settle().await?;
            match store.get(&key) {
                Some(entry) if is_last_name => return Err(exists(resource, &name, &entry.value)),
                None if dry_run => {
                    let value = show::encode_stored_with(resource, object, account.as_deref());
                    return Ok(Done::Tried(show::without_revision(&value).into()));
                }
                _ => {
                    if let Some(given) = &given {
                        given.take_back(object);
                    }
                    continue;
                }
            }
        }
        let value = show::encode_stored_with(resource, object, account.as_deref());
        let put = Write::Put { key: key.clone(), value };
        match write::commit(store, Compare::Absent(key), put, depends.clone(), along).await? {
            Committed::Done(Some(entry)) => return Ok(Done::Stored(entry)),
            Committed::Done(None) => return Err(Failure::internal("the store did not return what it wrote")),
            Committed::Object(Some(entry)) if is_last_name => return Err(exists(resource, &name, &entry.value)),
            Committed::Object(_) => {}
            Committed::Surroundings => depends = registry::admit(store, kind, namespace, object).await?,
        }
        if let Some(given) = &given {
            given.take_back(object);
        }
    }
    Err(Failure::conflict(kind, object.name(), "its namespace or what it is given changes too often; try again"))
}

/// What comes along with a new object. What is in memory may be behind what is free: look at the newest before refusing.
async fn accompany(around: &Surroundings, kind: &Kind, object: &Object) -> Result<Along, Failure> {
    let behaviour = registry::behaviour(kind);
    if let Ok(along) = behaviour.accompany(around, kind, Change::Create(object)) {
        return Ok(along);
    }
    around.store.settle().await?;
    if let Ok(along) = behaviour.accompany(around, kind, Change::Create(object)) {
        return Ok(along);
    }
    // What stands in the way may only be wanted by a write that is under way and never happens.
    registry::decided(around).await;
    behaviour.accompany(around, kind, Change::Create(object))
}

/// A new object of the server's own making, as it is stored. Its fields are those of the manager, or nobody's.
pub(crate) fn encode_new(resource: &Resource, mut object: Object, manager: Option<&str>) -> Result<Bytes, Failure> {
    write::found(resource, &mut object);
    (resource.kind.default)(&mut object);
    match manager {
        Some(manager) => write::account(resource.kind, manager, None, None, &mut object)?,
        None => decode::canonical(resource.kind, &mut object)?,
    }
    Ok(show::encode_stored(resource, &object))
}

/// Puts the object into the namespace of the request, or refuses one that says it is elsewhere. What is in no namespace
/// may say what it likes.
pub(crate) fn in_namespace(resource: &Resource, object: &mut Object, namespace: &str) -> Result<(), Failure> {
    if !resource.kind.is_namespaced() {
        object.metadata_mut().remove("namespace");
        return Ok(());
    }
    let own = object.namespace();
    if own.is_empty() {
        object.set(&["metadata", "namespace"], json!(namespace));
    } else if own != namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

fn valid(resource: &Resource, object: &mut Object) -> Result<(), Failure> {
    let mut errors = Errors::new();
    api::meta::validate_create(resource.kind, object, &mut errors);
    if object.name().is_empty() && object.text(&["metadata", "generateName"]).is_empty() && errors.is_empty() {
        errors.required(&Path::new("metadata").child("name"), "name or generateName is required");
    }
    decode::validate(resource.kind, object, &mut errors)?;
    (resource.kind.validate)(object, &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(Failure::invalid(resource.kind, object.name(), &errors)) }
}

fn exists(resource: &Resource, name: &str, value: &[u8]) -> Failure {
    let mut failure = Failure::already_exists(resource.kind, name);
    if Object::parse(value).is_ok_and(|object| object.is_terminating()) {
        failure.message = format!("object is being deleted: {}", failure.message);
    }
    failure
}

fn generate(naming: Naming, base: &str) -> String {
    if naming == Naming::Verbatim { base.to_owned() } else { generated(base) }
}

/// A name of that base and five random characters.
pub(crate) fn generated(base: &str) -> String {
    let cut = base.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|&end| end <= LONGEST_BASE).last();
    let mut name = base[..cut.unwrap_or(0)].to_owned();
    let mut bytes = [0_u8; SUFFIX_LENGTH];
    // A machine without random bits makes the same suffix again; the store then refuses it, as it must.
    let _ = getrandom::fill(&mut bytes);
    name.extend(bytes.iter().map(|&byte| char::from(SUFFIX[usize::from(byte) % SUFFIX.len()])));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_have_five_letters_more_and_fit_a_label() {
        let name = generate(Naming::Suffix, "web-");
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
        assert!(name[4..].bytes().all(|byte| SUFFIX.contains(&byte)), "{name}");
        assert_eq!(generate(Naming::Suffix, &"x".repeat(80)).len(), 63);
        assert_eq!(generate(Naming::Verbatim, "10.0.0.1"), "10.0.0.1");
    }
}
