//! Server-side apply: several writers of one object, each the owner of the fields that it sets.
//!
//! `metadata.managedFields` says who has which fields. [`apply`] merges the configuration of a manager into the live
//! object, refuses to take what others have unless it is forced, and removes what the manager applied before and no longer
//! does. [`update`] follows every other write: who changes a field has it. [`keep_times`] is the last step of each.
//!
//! All of it is done by the schema tables and on plain values; there is no clock in it. It does what upstream's
//! structured-merge-diff and managedfields packages do, field by field: `cargo xtask e2e apply` holds it against them.
//!
//! Live objects, and new ones that are updates, have to be in the form that is stored ([`crate::schema::canonical`]): what
//! Go leaves out or adds would otherwise look like a change. The configuration is taken as it was sent.

mod check;
mod compare;
mod conflict;
mod created;
mod element;
mod golang;
mod last_applied;
mod managers;
mod merge;
mod owned;
mod prune;
mod set;
mod shape;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use self::compare::{Change, compare};
pub use self::conflict::{Conflict, Conflicts};
pub use self::element::Element;
use self::managers::{Manager, Managers, Operation, is_reset, ownable};
use self::owned::{fields, reconciled};
pub use self::set::Set;
use self::shape::Shape;
use crate::json;
use crate::kind::Kind;
use crate::object::Object;
use crate::schema::{self, Definition};

/// Who has what was there before an object was applied the first time, if nobody kept account.
const BEFORE: &str = "before-first-apply";

/// As long as the `managedFields` of most new objects are, or longer.
const USUAL_ACCOUNT: usize = 1024;

/// A write: of what, by whom, when.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The kind of the object.
    pub kind: &'a Kind,
    /// The manager: what the request names, or what its client calls itself.
    pub manager: &'a str,
    /// The subresource that is written; empty for the object itself.
    pub subresource: &'a str,
    /// Now, as objects have times: `2026-01-02T03:04:05Z`.
    pub time: &'a str,
    /// The fields that this write does not change whatever it says, `status` for one: nobody gets to own them by it.
    pub ignored: &'a Set,
}

/// What an apply made of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object with its new `managedFields`. Defaults are not filled in, and a field that lost all it had is null.
    pub object: Object,
    /// Whether it is another one than the live object. If not, they are equal to the byte.
    pub changed: bool,
}

/// Why a configuration cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The request makes no sense: a 400.
    #[error("{0}")]
    Bad(String),
    /// The configuration does not fit the schema. Upstream answers with a 500 without a reason.
    #[error("{0}")]
    Unfit(String),
    /// Others have what it sets to something else: a 409.
    #[error("{0}")]
    Conflict(Conflicts),
}

/// Applies a configuration to the live object, or to none.
pub fn apply(write: &Write<'_>, live: Option<&Object>, config: &Object, force: bool) -> Result<Applied, ApplyError> {
    let target = Target::of(write)?;
    let managers = Managers::parse(managed_fields(live))
        .map_err(|why| ApplyError::Unfit(format!("failed to decode managed fields: {why}")))?;
    target.admit(config)?;
    let before = live.map_or_else(|| target.nothing(), bare);
    let config_value = Value::Object(config.fields().clone());
    let applied = target.apply(&before, &config_value, managers.clone(), force).or_else(|conflicts| {
        if write.manager != last_applied::MANAGER {
            return Err(conflicts);
        }
        let allowed = last_applied::still_there(target.root, &before, &target.api_version);
        let left: Vec<_> = conflicts
            .into_iter()
            .map(|(manager, set)| (manager, set.difference(&allowed)))
            .filter(|(_, set)| !set.is_empty())
            .collect();
        if left.is_empty() { target.apply(&before, &config_value, managers, true) } else { Err(left) }
    });
    let (after, managers) = applied.map_err(|conflicts| ApplyError::Conflict(Conflicts::new(conflicts)))?;
    let mut object = Object::from_value(after.unwrap_or(before)).unwrap_or_default();
    if write.manager == last_applied::MANAGER {
        last_applied::keep(&mut object, config);
    }
    set_managed_fields(&mut object, managers);
    Ok(Applied { changed: live != Some(&object), object })
}

/// Follows any other write, of `new` over the live object or none: sets its `managedFields`.
///
/// `new` comes with the `managedFields` that were sent. They count, so that a client can edit them; an empty list makes
/// the server forget, and absent or broken ones do not.
pub fn update(write: &Write<'_>, live: Option<&Object>, new: &mut Object) {
    let given = new.remove(&["metadata", "managedFields"]);
    let Ok(target) = Target::of(write) else { return };
    let kept = || Managers::parse(managed_fields(live)).unwrap_or_default();
    let mut managers = if !write.subresource.is_empty() {
        kept()
    } else if is_reset(given.as_ref()) {
        Managers::default()
    } else {
        Managers::parse(given.as_ref()).ok().filter(|given| !given.is_empty()).unwrap_or_else(kept)
    };
    // An object of which no account is kept goes without until it is applied.
    if managers.is_empty() && live.is_some_and(|live| !live.uid().is_empty()) {
        return;
    }
    // That the live object has `managedFields` and the new one has not is no change of what somebody owns.
    let before = live.map_or_else(|| nothing(target.definition), Object::fields);
    target.update(before, new.fields(), &mut managers, write.manager);
    set_managed_fields(new, managers);
}

/// The same for a new object that says nothing of managers, which is most of what is written: its `managedFields` as they are
/// stored. None if there is nothing in it that somebody can have.
pub fn create(write: &Write<'_>, new: &Object) -> Option<Vec<u8>> {
    let target = Target::of(write).ok()?;
    let mut out = Vec::with_capacity(USUAL_ACCOUNT);
    for (before, value) in [
        ("[{\"manager\":", named(write.manager)),
        (",\"operation\":", "Update"),
        (",\"apiVersion\":", &target.api_version),
        (",\"time\":", write.time),
        (",\"fieldsType\":", "FieldsV1"),
    ] {
        out.extend_from_slice(before.as_bytes());
        json::write_text(&mut out, value);
    }
    out.extend_from_slice(b",\"fieldsV1\":");
    let nothing = nothing(target.definition);
    let has_some = created::write_fields(&mut out, target.root, nothing, new.fields(), write.ignored);
    out.extend_from_slice(b"}]");
    has_some.then_some(out)
}

/// If the times in `managedFields` are all that differs between two versions of an object, they stay as they were: the
/// object then is the same, and nothing has to be written.
pub fn keep_times(live: &Object, new: &mut Object) {
    let (Some(Value::Array(old)), Some(Value::Array(now))) = (managed_fields(Some(live)), managed_fields(Some(new)))
    else {
        return;
    };
    let alike = |one: &Value, other: &Value| {
        let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return false };
        let timeless = |entry: &Map<String, Value>| entry.len() - usize::from(entry.contains_key("time"));
        timeless(one) == timeless(other)
            && one.iter().all(|(name, value)| name == "time" || other.get(name) == Some(value))
    };
    let only_times = old.len() == now.len() && old.iter().zip(now).all(|(old, now)| alike(old, now));
    if !only_times || old == now {
        return;
    }
    let rest = |object: &Object| {
        let metadata = object.metadata().into_iter().flatten().filter(|(name, _)| *name != "managedFields");
        let others = object.fields().iter().filter(|(name, _)| *name != "metadata");
        metadata.chain(others).map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<_>>()
    };
    if rest(live) == rest(new) {
        let old = Value::Array(old.clone());
        new.set(&["metadata", "managedFields"], old);
    }
}

/// Managers, and the fields that each would lose.
type Losses = Vec<(String, Set)>;

/// A write, and what is known of what it goes to.
struct Target<'a> {
    write: &'a Write<'a>,
    definition: &'static Definition,
    root: Shape,
    api_version: String,
}

impl<'a> Target<'a> {
    fn of(write: &'a Write<'a>) -> Result<Self, ApplyError> {
        let definition = schema::definition(write.kind.schema)
            .ok_or_else(|| ApplyError::Unfit(format!("no corresponding type for {}", write.kind.kind)))?;
        Ok(Self { write, definition, root: Shape::root(definition), api_version: write.kind.api_version() })
    }

    /// Whether a configuration is one for this kind, and fits it.
    fn admit(&self, config: &Object) -> Result<(), ApplyError> {
        let (group, version) = config.api_version().split_once('/').unwrap_or(("", config.api_version()));
        let named = format!("{group}/{version}, Kind={}", config.kind());
        if config.api_version() != self.api_version || config.kind() != self.write.kind.kind {
            return Err(ApplyError::Bad(format!("invalid object type: {named}")));
        }
        if config.at(&["metadata", "managedFields"]).is_some_and(Value::is_array) {
            return Err(ApplyError::Bad("metadata.managedFields must be nil".to_owned()));
        }
        let value = Value::Object(config.fields().clone());
        check::check(self.root, &value, false).map_err(|why| {
            let (namespace, name) = (config.namespace(), config.name());
            ApplyError::Unfit(format!("failed to create typed patch object ({namespace}/{name}; {named}): {why}"))
        })
    }

    /// What is there before there is an object of this kind.
    fn nothing(&self) -> Value {
        let mut object = nothing(self.definition).clone();
        object.insert("apiVersion".to_owned(), json!(self.api_version));
        object.insert("kind".to_owned(), json!(self.write.kind.kind));
        Value::Object(object)
    }

    /// The object with the configuration applied, none if that changes nothing, and who has what then. Or who would lose
    /// which fields.
    fn apply(
        &self,
        live: &Value,
        config: &Value,
        mut managers: Managers,
        force: bool,
    ) -> Result<(Option<Value>, Managers), Losses> {
        let (root, time) = (self.root, self.write.time);
        if managers.is_empty() {
            self.update(nothing(self.definition), fields_of(live), &mut managers, BEFORE);
        }
        managers.each_set(|set| reconciled(root, set));
        let manager = self.manager(self.write.manager, Operation::Apply);
        let last = managers.of(&manager).cloned().unwrap_or_default();
        let set = fields(root, config).recursive_difference(self.write.ignored);
        managers.set(&manager, &self.api_version, set);
        let (merged, owned) = (merge::merge(root, live, config), managers.all());
        let whole = self.definition.custom.then(|| merged.clone());
        let mut new = prune::prune(root, merged, &last, &owned);
        if let Some(whole) = whole {
            prune::restore_emptied(root, &whole, &mut new, &owned);
        }
        let change = self.change(fields_of(live), fields_of(&new));
        let conflicts = managers.conflicts(&change, &manager);
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        managers.take(&change, Some(&manager));
        managers.strip(&manager);
        let changed = !element::same(live, &new);
        if changed {
            managers.touch(&manager, time);
        }
        Ok((changed.then_some(new), managers))
    }

    /// Gives what changed to a manager by update.
    fn update(&self, live: &Map<String, Value>, new: &Map<String, Value>, managers: &mut Managers, name: &str) {
        managers.each_set(|set| reconciled(self.root, set));
        let change = self.change(live, new);
        managers.take(&change, None);
        let set = ownable(&change.modified.union(&change.added));
        if !set.is_empty() {
            let manager = self.manager(name, Operation::Update(self.api_version.clone()));
            let set = managers.of(&manager).map_or_else(|| set.clone(), |had| set.union(had));
            managers.set(&manager, &self.api_version, set);
            managers.touch(&manager, self.write.time);
        }
        managers.cap();
    }

    fn change(&self, live: &Map<String, Value>, new: &Map<String, Value>) -> Change {
        compare(self.root, live, new).without(self.write.ignored)
    }

    fn manager(&self, name: &str, operation: Operation) -> Manager {
        Manager { name: named(name).to_owned(), operation, subresource: self.write.subresource.to_owned() }
    }
}

/// What a manager goes by, also one of whom nothing is known.
fn named(manager: &str) -> &str {
    if manager.is_empty() { "unknown" } else { manager }
}

/// What objects hold before anything is in them: with Go types, what these hold when they are empty.
fn nothing(definition: &'static Definition) -> &'static Map<String, Value> {
    static NOTHING: LazyLock<HashMap<&str, Map<String, Value>>> = LazyLock::new(|| {
        let kinds = schema::definitions().iter().filter(|definition| definition.fields.contains_key("apiVersion"));
        let empty = |definition: &'static Definition| {
            let mut object = Value::Object(Map::new());
            schema::canonical(definition, &mut object);
            let Value::Object(fields) = object else { return (definition.name.as_str(), Map::new()) };
            (definition.name.as_str(), fields)
        };
        kinds.map(empty).collect()
    });
    NOTHING.get(definition.name.as_str()).unwrap_or(&EMPTY)
}

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

fn fields_of(object: &Value) -> &Map<String, Value> {
    object.as_object().unwrap_or(&EMPTY)
}

fn managed_fields(object: Option<&Object>) -> Option<&Value> {
    object?.at(&["metadata", "managedFields"])
}

/// A live object without its `managedFields`.
fn bare(live: &Object) -> Value {
    let copy = |(name, value): (&String, &Value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let metadata = metadata.iter().filter(|(name, _)| *name != "managedFields");
            let metadata = metadata.map(|(name, value)| (name.clone(), value.clone())).collect();
            (name.clone(), Value::Object(metadata))
        }
        _ => (name.clone(), value.clone()),
    };
    Value::Object(live.fields().iter().map(copy).collect())
}

fn set_managed_fields(object: &mut Object, managers: Managers) {
    if managers.is_empty() {
        object.remove(&["metadata", "managedFields"]);
    } else {
        object.set(&["metadata", "managedFields"], managers.into_value());
    }
}
