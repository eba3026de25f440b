//! Changing an object that is there: PUT and PATCH, of the whole, of its status, or of what keeps it from going.
//!
//! Each attempt works on one state of the object and is written under the condition that this is still its state.

use std::sync::Arc;

use api::kind::Subresource;
use api::{Errors, Object, Path, apply};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use store::{Compare, Entry, Write};

use super::catalog::Resource;
use super::create::{New, in_namespace, insert};
use super::decode;
use super::failure::Failure;
use super::options::{Sort, WriteOptions};
use super::patch::{self, PatchKind};
use super::path::Target;
use super::query::Query;
use super::show;
use super::write::{self, Committed, Done, MOST_TRIES};
use crate::registry::{self, Along, Change, Surroundings};

/// Which part of an object a write is about.
pub(crate) type Part = Option<Subresource>;

/// An update that is under way.
pub(super) struct Update<'a> {
    pub(super) around: &'a Surroundings,
    pub(super) resource: &'static Resource,
    pub(super) target: &'a Target,
    pub(super) part: Part,
    pub(super) dry_run: bool,
    /// Who gets to own what changes; nobody if the `managedFields` of the new object say that already.
    pub(super) manager: Option<&'a str>,
    /// Whether the uid of the new object says which object is meant. In a patch it would be a change, which is refused later.
    pub(super) uid_is_condition: bool,
}

/// Replaces the object by the body of a PUT.
pub(crate) async fn replace(
    around: &Surroundings,
    resource: &'static Resource,
    target: &Target,
    part: Part,
    query: &Query,
    headers: &HeaderMap,
    body: &bytes::Bytes,
) -> Result<(StatusCode, Done, Vec<String>), Failure> {
    let WriteOptions { dry_run, strictness, manager, .. } = WriteOptions::read(Sort::Update, query, headers)?;
    let decode::Decoded { object, mut warnings } = decode::object(resource, headers, body, strictness)?;
    let update = Update { around, resource, target, part, dry_run, manager: Some(&manager), uid_is_condition: true };
    match update.replace(object, &mut warnings).await {
        Ok((status, done)) => Ok((status, done, warnings)),
        Err(failure) => Err(failure.warned(warnings)),
    }
}

/// Changes the object by the body of a PATCH.
#[allow(clippy::too_many_arguments, reason = "they are the parts of one request")]
pub(crate) async fn patch(
    around: &Surroundings,
    resource: &'static Resource,
    target: &Target,
    part: Part,
    query: &Query,
    headers: &HeaderMap,
    patch: PatchKind,
    body: &bytes::Bytes,
) -> Result<(StatusCode, Done, Vec<String>), Failure> {
    let WriteOptions { dry_run, strictness, manager, .. } = WriteOptions::read(Sort::Patch, query, headers)?;
    let definition = decode::definition(resource.kind)?;
    let update = Update { around, resource, target, part, dry_run, manager: Some(&manager), uid_is_condition: false };
    let mut warnings = Vec::new();
    let make = |old: &Object| {
        let patched = patch::apply(patch, body, old.fields(), definition)?;
        let quoted = patched.quoted();
        let mut new = Object::new(patched.object);
        for field in ["kind", "apiVersion"] {
            if new.at(&[field]) != old.at(&[field]) {
                let detail = format!("{} of {} is of another kind: unknown conversion", new.kind(), new.api_version());
                return Err(invalid_patch(&quoted, detail));
            }
        }
        let told = decode::checked(definition, &mut new, patched.faults, strictness)
            .map_err(|why| invalid_patch(&quoted, why))?;
        match named_as_path(&new, target) {
            Ok(()) => Ok((new, told)),
            Err(failure) => Err(failure.warned(told)),
        }
    };
    let done = update.run(make, &mut warnings).await?;
    Ok((StatusCode::OK, done, warnings))
}

/// A patch whose outcome is no object of its kind.
fn invalid_patch(quoted: &str, detail: impl std::fmt::Display) -> Failure {
    let mut errors = Errors::new();
    errors.invalid(&Path::new("patch"), &json!(quoted), detail);
    let mut failure = Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", format!(" \"\" is invalid: {errors}"));
    for error in errors.iter() {
        failure = failure.because(error.reason.code(), error.body.clone(), &error.field.to_string());
    }
    failure
}

pub(super) fn named_as_path(object: &Object, target: &Target) -> Result<(), Failure> {
    if object.name().is_empty() {
        let name = &target.name;
        let text = format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
        return Err(Failure::bad_request(text));
    }
    if object.name() != target.name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            object.name(),
            target.name
        )));
    }
    if !target.namespace.is_empty() && !object.namespace().is_empty() && object.namespace() != target.namespace {
        return Err(Failure::bad_request(format!(
            "the namespace of the object ({}) does not match the namespace on the request ({})",
            object.namespace(),
            target.namespace
        )));
    }
    Ok(())
}

/// What one attempt came to.
enum Plan {
    /// The object is as it should be already.
    Nothing,
    /// This should be stored, and that with it.
    Put(Object, Along),
    /// The object was only waiting for this to go, and that goes with it.
    Delete(Object, Along),
}

impl Update<'_> {
    /// Puts an object in the place of the one that is there; or there, if none is and the kind allows it.
    async fn replace(&self, mut object: Object, warnings: &mut Vec<String>) -> Result<(StatusCode, Done), Failure> {
        let (resource, target) = (self.resource, self.target);
        in_namespace(resource, &mut object, &target.namespace)?;
        named_as_path(&object, target)?;
        let may_create = resource.kind.create_on_update && self.part.is_none();
        let decoded = warnings.len();
        for _ in 0..MOST_TRIES {
            match self.run(|_| Ok((object.clone(), Vec::new())), warnings).await {
                Err(failure) if failure.code == StatusCode::NOT_FOUND && may_create => {}
                done => return done.map(|done| (StatusCode::OK, done)),
            }
            // One that names an object by its uid means that one, which is gone.
            self.same_uid(&object, "")?;
            let mut new = New { object: object.clone(), manager: self.manager };
            // Of an object that comes to be the revision says nothing.
            new.object.metadata_mut().remove("resourceVersion");
            match insert(self.around, resource, &target.namespace, new, self.dry_run, warnings).await {
                // Somebody else has created it meanwhile: it can be replaced.
                Err(failure) if failure.reason == "AlreadyExists" => warnings.truncate(decoded),
                done => return done.map(|done| (StatusCode::CREATED, done)),
            }
        }
        Err(Failure::modified(resource.kind, &target.name))
    }

    /// Tries until the object has changed as `make` says, or cannot.
    pub(super) async fn run(
        &self,
        make: impl Fn(&Object) -> Result<(Object, Vec<String>), Failure>,
        warnings: &mut Vec<String>,
    ) -> Result<Done, Failure> {
        let (kind, store) = (self.resource.kind, &self.around.store);
        let name = &self.target.name;
        let key = write::key(self.resource, &self.target.namespace, name);
        let mut entry = store.get(&key);
        let (mut settled, mut waited) = (false, false);
        for _ in 0..MOST_TRIES {
            let plan = match &entry {
                Some(entry) => self.plan(entry, &make),
                None => Err(Failure::not_found(kind, name)),
            };
            // What is in memory may be behind what the client has seen, and only a transaction finds that out by itself:
            // look at the newest before answering without one.
            let is_written = matches!(plan, Ok((Plan::Put(..) | Plan::Delete(..), _))) && !self.dry_run;
            let is_short = matches!(&plan, Err(failure) if failure.details.unmet.is_some());
            if !settled && !is_written || !waited && is_short {
                // What will not be written, as far as is known, keeps nothing from others while it waits.
                drop(plan);
                if settled {
                    // What stands in the way may only be wanted by a write that is under way and never happens.
                    registry::decided(self.around).await;
                    waited = true;
                } else {
                    store.settle().await?;
                    settled = true;
                }
                entry = store.get(&key);
                continue;
            }
            let (plan, told) = plan?;
            let Some(current) = &entry else { return Err(Failure::not_found(kind, name)) };
            let (object, write, along) = match plan {
                Plan::Nothing => {
                    warnings.extend(told);
                    return Ok(Done::Stored(Arc::clone(current)));
                }
                Plan::Put(object, along) => {
                    let value = show::encode_stored(self.resource, &object);
                    (object, Write::Put { key: key.clone(), value }, along)
                }
                Plan::Delete(object, along) => (object, Write::Delete { key: key.clone() }, along),
            };
            let revision = current.revision.to_string();
            if self.dry_run {
                warnings.extend(told);
                return Ok(Done::Tried(write::as_stored(self.resource, &object, &revision)));
            }
            let deletes = matches!(write, Write::Delete { .. });
            let committed = write::commit(store, Compare::At(key.clone(), current.revision), write, None, along).await;
            match committed.map_err(|failure| failure.warned(told.clone()))? {
                Committed::Done(_) if deletes => {
                    warnings.extend(told);
                    return Ok(Done::Gone(write::as_stored(self.resource, &object, &revision)));
                }
                Committed::Done(Some(entry)) => {
                    warnings.extend(told);
                    return Ok(Done::Stored(entry));
                }
                Committed::Done(None) => return Err(Failure::internal("the store did not return what it wrote")),
                Committed::Object(now) => {
                    entry = now;
                    settled = true;
                }
                Committed::Surroundings => {}
            }
        }
        Err(Failure::modified(kind, name))
    }

    /// What is to be written so that the object becomes what `make` makes of it.
    fn plan(
        &self,
        entry: &Entry,
        make: &impl Fn(&Object) -> Result<(Object, Vec<String>), Failure>,
    ) -> Result<(Plan, Vec<String>), Failure> {
        let old = show::read(self.resource, &entry.value)?;
        let (asked, mut told) = make(&old)?;
        match self.plan_for(asked, &old) {
            Ok((plan, warnings)) => {
                told.extend(warnings);
                Ok((plan, told))
            }
            Err(failure) => Err(failure.warned(told)),
        }
    }

    /// The same for what was made of the object, and what its kind warns of.
    fn plan_for(&self, asked: Object, old: &Object) -> Result<(Plan, Vec<String>), Failure> {
        let (resource, kind) = (self.resource, self.resource.kind);
        self.same_object(&asked, old)?;
        let mut new = merged(self.part, kind.status_writes_metadata, asked, old, kind.has(Subresource::Status));
        in_namespace(resource, &mut new, &self.target.namespace)?;
        (kind.default)(&mut new);
        write::carry(&mut new, old);
        new.set(&["metadata", "resourceVersion"], json!(old.resource_version()));
        if let Some(manager) = self.manager {
            write::account(kind, manager, self.part, Some(old), &mut new)?;
        }
        match self.part {
            None => (kind.prepare_update)(&mut new, old),
            Some(Subresource::Status) => (kind.prepare_status)(&mut new, old),
            Some(Subresource::Finalize) => {}
        }
        decode::canonical(kind, &mut new)?;
        let behaviour = registry::behaviour(kind);
        let mut along = match self.part {
            None => behaviour.accompany(self.around, kind, Change::Update { old, new: &new })?,
            Some(Subresource::Status) => {
                behaviour.restate(self.around, &mut new);
                Along::default()
            }
            Some(Subresource::Finalize) => Along::default(),
        };
        new = along.object.take().unwrap_or(new);
        if let Some(given) = along.given.take() {
            given.fill(&mut new);
        }
        if kind.counts_generation && write::differ_in_substance(kind, &new, old) {
            new.set(&["metadata", "generation"], json!(old.generation().saturating_add(1)));
        }
        let mut errors = Errors::new();
        api::meta::validate_update(kind, &new, old, &mut errors);
        decode::validate(kind, &mut new, &mut errors)?;
        match self.part {
            None | Some(Subresource::Finalize) => (kind.validate_update)(&new, old, &mut errors),
            Some(Subresource::Status) => (kind.validate_status)(&new, old, &mut errors),
        }
        if !errors.is_empty() {
            return Err(Failure::invalid(kind, &self.target.name, &errors));
        }
        // What is said about the object was said to whoever wrote it.
        let warnings = if self.part.is_none() { (kind.warnings)(&new, Some(old)) } else { Vec::new() };
        apply::keep_times(old, &mut new);
        let plan = if old.is_terminating()
            && new.finalizers().next().is_none()
            && is_only_held(self.around, resource, &new, old)
        {
            // What the new state would have been given is not needed any more.
            Plan::Delete(new, behaviour.accompany(self.around, kind, Change::Delete(old))?)
        } else if new == *old {
            Plan::Nothing
        } else {
            Plan::Put(new, along)
        };
        Ok((plan, warnings))
    }

    /// Refuses a write that was meant for another object of that name.
    fn same_uid(&self, asked: &Object, uid: &str) -> Result<(), Failure> {
        if !self.uid_is_condition || asked.uid().is_empty() || asked.uid() == uid {
            return Ok(());
        }
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: UID in precondition: {}, UID in object meta: {uid}",
            self.resource.key(&self.target.namespace, &self.target.name),
            asked.uid()
        );
        Err(Failure::conflict(self.resource.kind, &self.target.name, why))
    }

    /// Refuses a write that was meant for another state of the object, or for another object of that name.
    fn same_object(&self, asked: &Object, old: &Object) -> Result<(), Failure> {
        let (kind, name) = (self.resource.kind, &self.target.name);
        self.same_uid(asked, old.uid())?;
        match asked.resource_version() {
            "" | "0" if kind.unconditional_update => Ok(()),
            "" | "0" => Err(Failure::without_revision(kind, name)),
            version if version == old.resource_version() => Ok(()),
            version if version.parse::<u64>().is_err() => {
                let text = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
                Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", text))
            }
            _ => Err(Failure::modified(kind, name)),
        }
    }
}

/// What is asked for and what stays as it was, according to the part that the write is about.
fn merged(part: Part, with_metadata: bool, asked: Object, old: &Object, has_status: bool) -> Object {
    let replace = |object: &mut Object, name: &str, value: Option<&Value>| match value {
        Some(value) => drop(object.fields_mut().insert(name.to_owned(), value.clone())),
        None => drop(object.fields_mut().remove(name)),
    };
    match part {
        None => {
            let mut new = asked;
            if has_status {
                replace(&mut new, "status", old.fields().get("status"));
            }
            new
        }
        Some(Subresource::Status) => {
            let mut new = old.clone();
            replace(&mut new, "status", asked.fields().get("status"));
            if with_metadata {
                replace(&mut new, "metadata", asked.fields().get("metadata"));
            } else {
                // Who applied something to the status owns it.
                match asked.metadata().and_then(|metadata| metadata.get("managedFields")) {
                    Some(entries) => new.set(&["metadata", "managedFields"], entries.clone()),
                    None => drop(new.remove(&["metadata", "managedFields"])),
                }
            }
            new
        }
        Some(Subresource::Finalize) => {
            let mut new = old.clone();
            match asked.at(&["spec", "finalizers"]) {
                Some(finalizers) => new.set(&["spec", "finalizers"], finalizers.clone()),
                None => drop(new.remove(&["spec", "finalizers"])),
            }
            new
        }
    }
}

/// Whether a terminating object stayed only because of what the new state lets go.
fn is_only_held(around: &Surroundings, resource: &Resource, new: &Object, old: &Object) -> bool {
    let behaviour = registry::behaviour(resource.kind);
    let waits = old.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(0) > 0;
    let was_held = old.finalizers().next().is_some() || behaviour.is_held(around, old);
    was_held && !waits && !behaviour.is_held(around, new)
}
