//! Deleting: at once, or by marking an object that finalizers or a grace period still keep.

use std::sync::Arc;

use api::{Errors, Object, Path, schema};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use store::{Compare, Entry, Write};

use super::catalog::Resource;
use super::decode;
use super::failure::Failure;
use super::options;
use super::query::Query;
use super::show;
use super::write::{self, Committed, Done, MOST_TRIES};
use crate::registry::{self, Along, Change, Condition, Surroundings};

/// How many deletes of a collection are under way at a time: enough for the store to write them together.
const AT_A_TIME: usize = 64;

/// The version that options are in if they do not say.
const OPTIONS_VERSION: &str = "meta.k8s.io/v1";

/// Keeps a deleted object until dependents that block it are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// Keeps a deleted object until its dependents no longer refer to it.
pub(crate) const ORPHAN: &str = "orphan";

/// What becomes of an object's dependents when it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Propagation {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// How something is to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    grace: Option<i64>,
    /// Nothing where the request says nothing: the finalizers of the object decide then.
    propagation: Option<Propagation>,
    uid: String,
    resource_version: String,
    dry_run: bool,
}

impl DeleteOptions {
    /// Reads the options from the body, or from the query where there is none.
    pub(crate) fn read(query: &Query, headers: &HeaderMap, body: &Bytes) -> Result<Self, Failure> {
        let (mut options, policy, orphans) = if body.is_empty() {
            let options = Self {
                grace: query.number("gracePeriodSeconds")?,
                dry_run: is_dry_run(query.all("dryRun"))?,
                ..Self::default()
            };
            (options, query.get("propagationPolicy").to_owned(), query.optional_flag("orphanDependents"))
        } else {
            let options = schema::definition("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
                .ok_or_else(|| Failure::internal("there is no schema of DeleteOptions"))?;
            let (value, _) = decode::value(options, OPTIONS_VERSION, headers, body)?;
            let mut given = Object::from_value(value).unwrap_or_default();
            if !matches!(given.kind(), "" | "DeleteOptions") {
                let version = Some(given.api_version()).filter(|version| !version.is_empty());
                let why = decode::no_such_kind(version.unwrap_or(OPTIONS_VERSION), given.kind());
                return Err(Failure::bad_request(why));
            }
            // A precondition or a dry run that cannot be read must not be taken for none.
            decode::checked(options, &mut given, Vec::new(), decode::Strictness::Ignore)
                .map_err(Failure::bad_request)?;
            let also = is_dry_run(query.all("dryRun"))?;
            let tried = given.at(&["dryRun"]).and_then(Value::as_array).into_iter().flatten();
            let dry_run = is_dry_run(tried.filter_map(Value::as_str))? || also;
            let options = Self {
                grace: given.at(&["gracePeriodSeconds"]).and_then(Value::as_i64),
                uid: given.text(&["preconditions", "uid"]).to_owned(),
                resource_version: given.text(&["preconditions", "resourceVersion"]).to_owned(),
                dry_run,
                ..Self::default()
            };
            let orphans = given.at(&["orphanDependents"]).and_then(Value::as_bool);
            (options, given.text(&["propagationPolicy"]).to_owned(), orphans)
        };
        options.propagation = propagation(&policy, orphans)?;
        Ok(options)
    }
}

/// Whether the delete is only tried.
fn is_dry_run<'a>(asked: impl Iterator<Item = &'a str>) -> Result<bool, Failure> {
    let mut errors = Errors::new();
    let tried = options::is_dry_run(asked, &mut errors);
    if errors.is_empty() { Ok(tried) } else { Err(Failure::invalid_options("DeleteOptions", &errors)) }
}

/// What the request says about dependents, or why it cannot be.
fn propagation(policy: &str, orphans: Option<bool>) -> Result<Option<Propagation>, Failure> {
    let mut errors = Errors::new();
    let field = Path::new("propagationPolicy");
    if orphans.is_some() && !policy.is_empty() {
        errors.invalid(&field, &json!(policy), "orphanDependents and deletionPropagation cannot be both set");
    }
    let asked = match (policy, orphans) {
        ("", None) => None,
        ("Orphan", _) | ("", Some(true)) => Some(Propagation::Orphan),
        ("Background", _) | ("", Some(false)) => Some(Propagation::Background),
        ("Foreground", _) => Some(Propagation::Foreground),
        _ => {
            errors.not_supported(&field, &json!(policy), &["Foreground", "Background", "Orphan", "nil"]);
            None
        }
    };
    if errors.is_empty() { Ok(asked) } else { Err(Failure::invalid_options("DeleteOptions", &errors)) }
}

/// Gives a deleted object the finalizer that stands for what becomes of its dependents, and takes the other. What the request
/// says counts, then what is there. Says whether something changed.
fn hold_for_dependents(object: &mut Object, asked: Option<Propagation>, has_dependents: bool) -> bool {
    let has = |wanted: &str| object.finalizers().any(|name| name == wanted);
    let propagation = match asked {
        _ if !has_dependents => Propagation::Background,
        Some(asked) => asked,
        None if has(ORPHAN) => Propagation::Orphan,
        None if has(FOREGROUND) => Propagation::Foreground,
        None => Propagation::Background,
    };
    let wanted = match propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    if [FOREGROUND, ORPHAN].into_iter().all(|name| has(name) == (wanted == Some(name))) {
        return false;
    }
    let others = object.finalizers().filter(|name| !matches!(*name, FOREGROUND | ORPHAN));
    let finalizers: Vec<String> = others.chain(wanted).map(str::to_owned).collect();
    if finalizers.is_empty() {
        object.metadata_mut().remove("finalizers");
    } else {
        object.set(&["metadata", "finalizers"], json!(finalizers));
    }
    true
}

/// Deletes the object of that name.
pub(crate) async fn delete(
    around: &Surroundings,
    resource: &'static Resource,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Done, Failure> {
    let (kind, store) = (resource.kind, &around.store);
    let key = write::key(resource, namespace, name);
    let mut entry = store.get(&key);
    let mut settled = false;
    let (mut options, mut marked) = (options.clone(), None::<Arc<Entry>>);
    for _ in 0..MOST_TRIES {
        let plan = match (&entry, &marked) {
            (Some(entry), Some(marked)) if !is_same(entry, marked) => return Ok(Done::Gone(marked.value.clone())),
            (None, Some(marked)) => return Ok(Done::Gone(marked.value.clone())),
            (Some(entry), _) => plan(around, resource, entry, &options),
            (None, None) => Err(Failure::not_found(kind, name)),
        };
        // Only a transaction finds out by itself that memory is behind: look at the newest before answering without one.
        let is_written = matches!(plan, Ok(Plan::Mark(_) | Plan::Remove(_))) && !options.dry_run;
        if !settled && !is_written {
            store.settle().await?;
            settled = true;
            entry = store.get(&key);
            continue;
        }
        let mut plan = plan?;
        let Some(current) = &entry else { return Err(Failure::not_found(kind, name)) };
        let revision = current.revision.to_string();
        let write = match &plan {
            Plan::Wait => return Ok(Done::Stored(Arc::clone(current))),
            Plan::Mark(object) if options.dry_run => {
                return Ok(Done::Tried(write::as_stored(resource, object, &revision)));
            }
            Plan::Remove(_) if options.dry_run => return Ok(Done::Gone(current.value.clone())),
            Plan::Mark(object) => Write::Put { key: key.clone(), value: show::encode_stored(resource, object) },
            Plan::Remove(_) => Write::Delete { key: key.clone() },
        };
        let along = plan.take_along();
        match write::commit(store, Compare::At(key.clone(), current.revision), write, None, along).await? {
            Committed::Done(written) => {
                return match (plan, written) {
                    (Plan::Mark(_), Some(written)) if registry::behaviour(kind).is_marked_first() => {
                        // It goes if nothing keeps it now that it is marked. What the request says of the object that it means
                        // was said of the one before.
                        options.resource_version.clear();
                        (entry, marked, settled) = (Some(Arc::clone(&written)), Some(written), true);
                        continue;
                    }
                    (Plan::Remove(_), Some(last)) => Ok(Done::Gone(last.value.clone())),
                    (Plan::Mark(_), Some(entry)) => Ok(Done::Stored(entry)),
                    _ => Err(Failure::internal("the store did not return what it wrote")),
                };
            }
            Committed::Object(now) => {
                entry = now;
                settled = true;
            }
            Committed::Surroundings => {}
        }
    }
    Err(Failure::modified(kind, name))
}

/// Whether they are states of one object.
fn is_same(a: &Entry, b: &Entry) -> bool {
    let uid = |entry: &Entry| Object::parse(&entry.value).map(|object| object.uid().to_owned()).ok();
    uid(a) == uid(b)
}

/// Deletes every one of those objects that is still there, and returns those that were.
pub(crate) async fn delete_all(
    around: &Surroundings,
    resource: &'static Resource,
    entries: Vec<Arc<Entry>>,
    options: &DeleteOptions,
) -> Result<Vec<Arc<Entry>>, Failure> {
    let one = |entry: Arc<Entry>| async move {
        let mut parts = entry.key.rsplit('/');
        let name = parts.next().unwrap_or_default().to_owned();
        let namespace = if resource.kind.is_namespaced() { parts.next().unwrap_or_default() } else { "" }.to_owned();
        match delete(around, resource, &namespace, &name, options).await {
            Ok(_) => Ok(Some(entry)),
            Err(failure) if failure.code == http::StatusCode::NOT_FOUND => Ok(None),
            Err(failure) => Err(failure),
        }
    };
    let done: Vec<_> = stream::iter(entries).map(one).buffered(AT_A_TIME).collect().await;
    Ok(done.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

enum Plan {
    /// It is on its way out already.
    Wait,
    /// It is marked as terminating.
    Mark(Object),
    /// It goes now, and this with it.
    Remove(Along),
}

impl Plan {
    fn take_along(&mut self) -> Along {
        match self {
            Self::Remove(along) => std::mem::take(along),
            Self::Wait | Self::Mark(_) => Along::default(),
        }
    }
}

fn plan(around: &Surroundings, resource: &Resource, entry: &Entry, options: &DeleteOptions) -> Result<Plan, Failure> {
    let kind = resource.kind;
    let mut object = show::read(resource, &entry.value)?;
    let behaviour = registry::behaviour(kind);
    let conditions = [
        (Condition::Uid, &options.uid, object.uid()),
        (Condition::ResourceVersion, &options.resource_version, object.resource_version()),
    ];
    for (condition, asked, is) in conditions {
        if !asked.is_empty() && asked != is {
            return Err(behaviour.unmet(kind, object.name(), condition, asked, is));
        }
    }
    behaviour.refuse_delete(around, kind, &object)?;
    let remove = |object: &Object| behaviour.accompany(around, kind, Change::Delete(object)).map(Plan::Remove);
    let changed = hold_for_dependents(&mut object, options.propagation, behaviour.has_dependents());
    let held = object.finalizers().next().is_some() || behaviour.is_held(around, &object);
    // A negative period is the shortest that there is.
    let asked = options.grace.map(|grace| if grace < 0 { 1 } else { grace });
    let grace = (kind.grace)(&object, asked);
    if object.is_terminating() {
        let left = object.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(0);
        return match asked {
            // A period can only be made shorter.
            Some(asked) if left > asked && asked < grace.max(left) => {
                if asked == 0 && !held {
                    remove(&object)
                } else {
                    shorten(&mut object, left, asked);
                    Ok(Plan::Mark(object))
                }
            }
            _ if left > 0 => Ok(Plan::Wait),
            _ if !held => remove(&object),
            // How dependents are treated can still change.
            _ if changed => Ok(Plan::Mark(object)),
            _ => Ok(Plan::Wait),
        };
    }
    if grace == 0 && !held && (options.dry_run || !behaviour.is_marked_first()) {
        return remove(&object);
    }
    mark(&mut object, grace);
    if object.generation() > 0 {
        let next = object.generation().saturating_add(1);
        object.set(&["metadata", "generation"], json!(next));
    }
    behaviour.terminating(around, &mut object);
    Ok(Plan::Mark(object))
}

/// An object that is deleted and stays because of its finalizers, as it is stored.
pub(crate) fn encode_terminating(resource: &Resource, mut object: Object) -> Bytes {
    if !object.is_terminating() {
        mark(&mut object, 0);
    }
    show::encode_stored(resource, &object)
}

fn mark(object: &mut Object, grace: i64) {
    let end = Timestamp::now().saturating_add(SignedDuration::from_secs(grace)).unwrap_or(Timestamp::MAX);
    set_end(object, end, grace);
}

/// Marks it for an earlier end: as if the period had been the shorter one from the beginning.
fn shorten(object: &mut Object, left: i64, asked: i64) {
    let now = Timestamp::now();
    let end = object.text(&["metadata", "deletionTimestamp"]).parse().unwrap_or(now);
    let (end, grace) = shortened(end, left, asked, now);
    set_end(object, end, grace);
}

/// When a period ends that began with `left` seconds and has `asked` of them now, and how long it is. It does not end in the
/// past; what is over by now has a second, so that whoever has to see to it sees to it.
fn shortened(end: Timestamp, left: i64, asked: i64, now: Timestamp) -> (Timestamp, i64) {
    let earlier = SignedDuration::from_secs(left.saturating_sub(asked));
    match end.checked_sub(earlier) {
        Ok(end) if end >= now => (end, asked),
        _ => (now, asked.min(1)),
    }
}

fn set_end(object: &mut Object, end: Timestamp, grace: i64) {
    object.set(&["metadata", "deletionTimestamp"], json!(write::at(end)));
    object.set(&["metadata", "deletionGracePeriodSeconds"], json!(grace));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_period_counts_from_the_first_delete() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        // It was deleted at 1000 with a period of 600.
        assert_eq!(shortened(at(1600), 600, 300, at(1100)), (at(1300), 300));
        assert_eq!(shortened(at(1600), 600, 100, at(1100)), (at(1100), 100));
        assert_eq!(shortened(at(1600), 600, 50, at(1100)), (at(1100), 1), "over by now");
        assert_eq!(shortened(at(1600), 600, 0, at(1100)), (at(1100), 0));
        assert_eq!(shortened(at(1600), i64::MAX, 5, at(1100)), (at(1100), 1));
    }
}
