//! `Managers`: who owns which fields, as `metadata.managedFields` says it.

use serde_json::{Map, Value, json};

use super::compare::Change;
use super::conflict::Conflict;
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

/// The entries of `managedFields`, each manager at most once.
#[derive(Clone, Debug, Default)]
pub(super) struct Managers(Vec<Entry>);

#[derive(Clone, Debug)]
struct Entry {
    manager: Manager,
    /// The version in which the fields are named.
    api_version: String,
    time: Option<String>,
    set: Set,
}

/// What makes two entries the same manager's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    pub(super) subresource: String,
}

/// How a manager got its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
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
            managers.0.retain(|entry| entry.manager != manager);
            managers.0.push(Entry { manager, api_version: api_version.to_owned(), time, set });
        }
        Ok(managers)
    }

    /// The list for `managedFields`, in its order.
    pub(super) fn into_value(mut self) -> Value {
        let rank = |entry: &Entry| u8::from(entry.manager.operation != Operation::Apply);
        self.0.sort_by(|one, other| {
            rank(one)
                .cmp(&rank(other))
                .then_with(|| one.moment().cmp(other.moment()))
                .then_with(|| one.manager.name.cmp(&other.manager.name))
                .then_with(|| one.api_version.cmp(&other.api_version))
                .then_with(|| one.manager.subresource.cmp(&other.manager.subresource))
        });
        self.0.into_iter().map(Entry::into_value).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a manager has.
    pub(super) fn of(&self, manager: &Manager) -> Option<&Set> {
        self.0.iter().find(|entry| entry.manager == *manager).map(|entry| &entry.set)
    }

    /// What all managers have together.
    pub(super) fn all(&self) -> Set {
        self.0.iter().fold(Set::default(), |all, entry| all.union(&entry.set))
    }

    /// Brings every set to what it would be if it were written now.
    pub(super) fn each_set(&mut self, made: impl Fn(&Set) -> Set) {
        for entry in &mut self.0 {
            entry.set = made(&entry.set);
        }
    }

    /// Sets what a manager has. The time of its entry is another matter.
    pub(super) fn set(&mut self, manager: &Manager, api_version: &str, set: Set) {
        let api_version = api_version.to_owned();
        match self.0.iter_mut().find(|entry| entry.manager == *manager) {
            Some(entry) => (entry.api_version, entry.set) = (api_version, set),
            None => self.0.push(Entry { manager: manager.clone(), api_version, time: None, set }),
        }
    }

    /// Sets when a manager last wrote something else than was there.
    pub(super) fn touch(&mut self, manager: &Manager, time: &str) {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.manager == *manager) {
            entry.time = Some(time.to_owned());
        }
    }

    /// The fields of others that a change takes from them.
    pub(super) fn conflicts(&self, change: &Change, writer: &Manager) -> Vec<(String, Set)> {
        let taken = change.modified.union(&change.added);
        let mut conflicts: Vec<_> = self
            .0
            .iter()
            .filter(|entry| entry.manager != *writer)
            .map(|entry| (entry.manager.id(), entry.manager.shown(), entry.set.intersection(&taken)))
            .filter(|(_, _, set)| !set.is_empty())
            .collect();
        conflicts.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        conflicts.into_iter().map(|(_, shown, set)| (shown, set)).collect()
    }

    /// Takes from all but the writer what a change took from them. Who has nothing then is gone.
    pub(super) fn take(&mut self, change: &Change, writer: Option<&Manager>) {
        let taken = change.modified.union(&change.added).union(&change.removed);
        for entry in self.0.iter_mut().filter(|entry| Some(&entry.manager) != writer) {
            entry.set = entry.set.difference(&taken);
        }
        self.0.retain(|entry| !entry.set.is_empty());
    }

    /// Takes what never has an owner from a manager.
    pub(super) fn strip(&mut self, manager: &Manager) {
        if let Some(at) = self.0.iter().position(|entry| entry.manager == *manager) {
            let set = ownable(&self.0[at].set);
            if set.is_empty() {
                self.0.remove(at);
            } else {
                self.0[at].set = set;
            }
        }
    }

    /// Merges the oldest managers by update until there are not too many.
    pub(super) fn cap(&mut self) {
        let updaters = self.0.iter().filter(|entry| entry.manager.operation != Operation::Apply);
        let mut updaters: Vec<_> =
            updaters.map(|entry| (entry.moment().to_owned(), entry.manager.id(), entry.manager.clone())).collect();
        let mut left = updaters.len();
        if left <= MOST_UPDATERS {
            return;
        }
        updaters.sort_by(|(time, id, _), (other_time, other_id, _)| (time, id).cmp(&(other_time, other_id)));
        let mut firsts: Vec<(String, Manager)> = Vec::new();
        for (_, _, manager) in updaters {
            if left <= MOST_UPDATERS {
                return;
            }
            let Some(entry) = self.0.iter().find(|entry| entry.manager == manager).cloned() else { continue };
            let version = entry.api_version.clone();
            let Some((_, first)) = firsts.iter().find(|(seen, _)| *seen == version) else {
                firsts.push((version, manager));
                continue;
            };
            let operation = Operation::Update(version.clone());
            let bucket = Manager { name: ANCIENT.to_owned(), operation, subresource: String::new() };
            if self.of(&bucket).is_none()
                && let Some(first) = self.0.iter_mut().find(|entry| entry.manager == *first)
            {
                first.manager = bucket.clone();
            }
            let merged = self.of(&bucket).map_or_else(|| entry.set.clone(), |set| entry.set.union(set));
            self.set(&bucket, &version, merged);
            if let Some(bucket) = self.0.iter_mut().find(|entry| entry.manager == bucket) {
                bucket.time = entry.time;
            }
            self.0.retain(|entry| entry.manager != manager);
            left -= 1;
        }
    }
}

impl Entry {
    /// When it was, in a form that orders; before everything if nobody knows.
    fn moment(&self) -> &str {
        self.time.as_deref().unwrap_or("1970-01-01T00:00:00Z")
    }

    fn into_value(self) -> Value {
        let Value::Object(fields) = self.set.to_fields() else { return Value::Null };
        entry(self.manager, self.api_version, self.time, fields)
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

/// Conflicts field by field, for a message.
pub(super) fn told(conflicts: Vec<(String, Set)>) -> Vec<Conflict> {
    let told = |(manager, set): (String, Set)| {
        set.paths().into_iter().map(move |field| Conflict { manager: manager.clone(), field }).collect::<Vec<_>>()
    };
    conflicts.into_iter().flat_map(told).collect()
}
