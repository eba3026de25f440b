//! `Managers`: who owns which fields, as `metadata.managedFields` says it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::compare::Change;
use super::golang;
use super::set::Set;

/// How many managers by update there may be; the fields of the oldest ones beyond go to one that stands for all.
const MOST_UPDATERS: usize = 10;

/// Who has the fields of managers by update that were too many.
const ANCIENT: &str = "ancient-changes";

/// What never has an owner: what names the object, and what the server keeps of it.
pub(super) const OWNERLESS: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// The entries of `managedFields`. A request may bring as many as fit into its body, so they are found by their manager.
#[derive(Clone, Debug, Default)]
pub(super) struct Managers(BTreeMap<Manager, Entry>);

#[derive(Clone, Debug)]
struct Entry {
    /// The version in which the fields are named.
    api_version: String,
    time: Option<String>,
    set: Set,
}

/// What makes two entries the same manager's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    pub(super) subresource: String,
}

/// How a manager got its fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    /// Any other write, in this version: each has an entry of its own.
    Update(String),
}

impl Manager {
    /// How messages name it: `"kubectl-edit" with subresource "status" using v1`.
    fn shown(&self) -> String {
        let mut shown = golang::quoted(&self.name);
        if !self.subresource.is_empty() {
            shown.extend([" with subresource ", &golang::quoted(&self.subresource)]);
        }
        if let Operation::Update(version) = &self.operation {
            shown.extend([" using ", version]);
        }
        shown
    }

    /// The text by which upstream tells managers apart, and orders them.
    fn id(&self) -> String {
        let (operation, version) = match &self.operation {
            Operation::Apply => ("Apply", ""),
            Operation::Update(version) => ("Update", version.as_str()),
        };
        let mut id = String::from("{");
        for (name, value) in [
            ("manager", self.name.as_str()),
            ("operation", operation),
            ("apiVersion", version),
            ("subresource", &self.subresource),
        ] {
            if !value.is_empty() {
                if id.len() > 1 {
                    id.push(',');
                }
                id.extend(["\"", name, "\":"]);
                golang::write_text(&mut id, value, true);
            }
        }
        id.push('}');
        id
    }
}

impl Managers {
    /// Reads `managedFields`; absent is the same as empty.
    pub(super) fn parse(entries: Option<&Value>) -> Result<Self, String> {
        let mut managers = Self::default();
        for (index, entry) in entries.and_then(Value::as_array).into_iter().flatten().enumerate() {
            let text = |name: &str| match entry.get(name) {
                None | Some(Value::Null) => Ok(""),
                Some(Value::String(text)) => Ok(text.as_str()),
                Some(_) => Err(format!("{name} must be a string")),
            };
            let api_version = text("apiVersion")?;
            let operation = match text("operation")? {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update(api_version.to_owned()),
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType")? {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
                other => {
                    return Err(format!(
                        "invalid fieldsType {} in managed fields entry {index}",
                        golang::quoted(other)
                    ));
                }
            }
            let manager =
                Manager { name: text("manager")?.to_owned(), operation, subresource: text("subresource")?.to_owned() };
            let set = entry.get("fieldsV1").map_or_else(|| Ok(Set::default()), Set::parse)?;
            let time = Some(text("time")?).filter(|time| !time.is_empty()).map(str::to_owned);
            managers.0.insert(manager, Entry { api_version: api_version.to_owned(), time, set });
        }
        Ok(managers)
    }

    /// The list for `managedFields`, in its order.
    pub(super) fn into_value(self) -> Value {
        let rank = |manager: &Manager| u8::from(manager.operation != Operation::Apply);
        let mut entries: Vec<_> = self.0.into_iter().collect();
        entries.sort_by(|(one, entry), (other, other_entry)| {
            rank(one)
                .cmp(&rank(other))
                .then_with(|| entry.moment().cmp(other_entry.moment()))
                .then_with(|| one.name.cmp(&other.name))
                .then_with(|| entry.api_version.cmp(&other_entry.api_version))
                .then_with(|| one.subresource.cmp(&other.subresource))
        });
        entries.into_iter().map(|(manager, entry)| entry.into_value(manager)).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a manager has.
    pub(super) fn of(&self, manager: &Manager) -> Option<&Set> {
        self.0.get(manager).map(|entry| &entry.set)
    }

    /// What all managers have together.
    pub(super) fn all(&self) -> Set {
        Set::union_of(self.0.values().map(|entry| entry.set.clone()).collect())
    }

    /// Brings every set to what it would be if it were written now.
    pub(super) fn each_set(&mut self, made: impl Fn(&Set) -> Set) {
        for entry in self.0.values_mut() {
            entry.set = made(&entry.set);
        }
    }

    /// Sets what a manager has. The time of its entry is another matter.
    pub(super) fn set(&mut self, manager: &Manager, api_version: &str, set: Set) {
        let api_version = api_version.to_owned();
        match self.0.get_mut(manager) {
            Some(entry) => (entry.api_version, entry.set) = (api_version, set),
            None => drop(self.0.insert(manager.clone(), Entry { api_version, time: None, set })),
        }
    }

    /// Sets when a manager last wrote something else than was there.
    pub(super) fn touch(&mut self, manager: &Manager, time: &str) {
        if let Some(entry) = self.0.get_mut(manager) {
            entry.time = Some(time.to_owned());
        }
    }

    /// The fields of others that a change takes from them.
    pub(super) fn conflicts(&self, change: &Change, writer: &Manager) -> Vec<(String, Set)> {
        let taken = change.modified.union(&change.added);
        let mut conflicts: Vec<_> = self
            .0
            .iter()
            .filter(|(manager, _)| *manager != writer)
            .map(|(manager, entry)| (manager, entry.set.intersection(&taken)))
            .filter(|(_, set)| !set.is_empty())
            .map(|(manager, set)| (manager.id(), manager.shown(), set))
            .collect();
        conflicts.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        conflicts.into_iter().map(|(_, shown, set)| (shown, set)).collect()
    }

    /// Takes from all but the writer what a change took from them. Who has nothing then is gone.
    pub(super) fn take(&mut self, change: &Change, writer: Option<&Manager>) {
        let taken = change.modified.union(&change.added).union(&change.removed);
        self.0.retain(|manager, entry| {
            if Some(manager) != writer {
                entry.set = entry.set.difference(&taken);
            }
            !entry.set.is_empty()
        });
    }

    /// Takes what never has an owner from a manager.
    pub(super) fn strip(&mut self, manager: &Manager) {
        if let Some(entry) = self.0.get_mut(manager) {
            entry.set = ownable(&entry.set);
            if entry.set.is_empty() {
                self.0.remove(manager);
            }
        }
    }

    /// Merges the oldest managers by update until there are not too many.
    pub(super) fn cap(&mut self) {
        let is_updater = |manager: &&Manager| manager.operation != Operation::Apply;
        let mut left = self.0.keys().filter(is_updater).count();
        if left <= MOST_UPDATERS {
            return;
        }
        let updaters = self.0.iter().filter(|(manager, _)| is_updater(manager));
        let mut updaters: Vec<_> =
            updaters.map(|(manager, entry)| (entry.moment().to_owned(), manager.id(), manager.clone())).collect();
        updaters.sort_by(|(time, id, _), (other_time, other_id, _)| (time, id).cmp(&(other_time, other_id)));
        let mut firsts: BTreeMap<String, Manager> = BTreeMap::new();
        // What those who stand for others get from them: added at the end, all at once.
        let mut inherited: BTreeMap<Manager, Vec<Set>> = BTreeMap::new();
        for (_, _, manager) in updaters {
            if left <= MOST_UPDATERS {
                break;
            }
            let Some(version) = self.0.get(&manager).map(|entry| entry.api_version.clone()) else { continue };
            let Some(first) = firsts.get(&version) else {
                firsts.insert(version, manager);
                continue;
            };
            let operation = Operation::Update(version.clone());
            let bucket = Manager { name: ANCIENT.to_owned(), operation, subresource: String::new() };
            if !self.0.contains_key(&bucket)
                && let Some(first) = self.0.remove(first)
            {
                self.0.insert(bucket.clone(), first);
            }
            let Some(gone) = self.0.remove(&manager) else { continue };
            if manager == bucket {
                // Upstream merges it with itself and then takes it away, too.
                inherited.remove(&bucket);
            } else if let Some(entry) = self.0.get_mut(&bucket) {
                (entry.api_version, entry.time) = (gone.api_version, gone.time);
                inherited.entry(bucket).or_default().push(gone.set);
            } else {
                self.0.insert(bucket, gone);
            }
            left -= 1;
        }
        for (manager, mut sets) in inherited {
            if let Some(entry) = self.0.get_mut(&manager) {
                sets.push(std::mem::take(&mut entry.set));
                entry.set = Set::union_of(sets);
            }
        }
    }
}

impl Entry {
    /// When it was, in a form that orders; before everything if nobody knows.
    fn moment(&self) -> &str {
        self.time.as_deref().unwrap_or("1970-01-01T00:00:00Z")
    }

    fn into_value(self, manager: Manager) -> Value {
        let Value::Object(fields) = self.set.to_fields() else { return Value::Null };
        entry(manager, self.api_version, self.time, fields)
    }
}

/// An entry of `managedFields`.
pub(super) fn entry(manager: Manager, api_version: String, time: Option<String>, fields: Map<String, Value>) -> Value {
    let operation = match manager.operation {
        Operation::Apply => "Apply",
        Operation::Update(_) => "Update",
    };
    let mut entry = Map::new();
    entry.insert("operation".to_owned(), json!(operation));
    entry.insert("apiVersion".to_owned(), Value::String(api_version));
    entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
    entry.insert("fieldsV1".to_owned(), Value::Object(fields));
    if let Some(time) = time {
        entry.insert("time".to_owned(), Value::String(time));
    }
    for (name, value) in [("manager", manager.name), ("subresource", manager.subresource)] {
        if !value.is_empty() {
            entry.insert(name.to_owned(), Value::String(value));
        }
    }
    Value::Object(entry)
}

/// The set without what never has an owner.
pub(super) fn ownable(set: &Set) -> Set {
    set.difference(&Set::of(OWNERLESS))
}

/// Whether a list of a request asks for all entries to be forgotten: it is empty, or its one item is.
pub(super) fn is_reset(entries: Option<&Value>) -> bool {
    let empty = |entry: &Value| entry.as_object().is_some_and(Map::is_empty);
    matches!(entries, Some(Value::Array(entries)) if entries.is_empty() || (entries.len() == 1 && empty(&entries[0])))
}
