//! How a kind of ours is declared to API servers that do not have it built in: as a `CustomResourceDefinition`.
//!
//! Names, schema and columns come from the declaration that our own server goes by. What its code checks beyond the schema is
//! said again as rules in CEL, because that is all that another server runs; a test holds the two against each other on real ones.

use serde_json::{Map, Value, json};

use crate::kind::{Kind, Scope, Subresource};
use crate::{openapi, schema};

/// What the `CustomResourceDefinition` of a kind says besides the kind's own declaration.
#[derive(Clone, Copy, Debug)]
pub struct Custom {
    /// Where the cells of a column are, by the column's name. The name and the age of an object are known.
    pub columns: &'static [(&'static str, &'static str)],
    /// What must be there.
    pub required: &'static [&'static str],
    /// What is not wrong by its type, and wrong all the same.
    pub constraints: &'static [Constraint],
}

/// Something that values have to keep to.
#[derive(Clone, Copy, Debug)]
pub struct Constraint {
    /// Which values: `spec.exclude[]` are the items of a list.
    pub at: &'static str,
    /// What they have to keep to.
    pub bound: Bound,
}

/// What values have to keep to.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// A text has at most so many characters.
    Length(u64),
    /// A list has at most so many items.
    Items(u64),
    /// A text matches.
    Pattern(&'static str),
    /// A rule in CEL.
    Rule(Rule),
}

/// A rule in CEL.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// What must be true.
    pub holds: &'static str,
    /// What is said if it is not.
    pub message: Message,
    /// Which field is to blame, if not the whole value: `.ipv4`.
    pub blamed: &'static str,
    /// The sort of fault: empty for an invalid value.
    pub reason: &'static str,
}

/// What is said of a fault.
#[derive(Clone, Copy, Debug)]
pub enum Message {
    /// This text.
    Text(&'static str),
    /// What this expression in CEL comes to.
    Expression(&'static str),
}

impl Rule {
    /// A rule for a value as a whole.
    pub const fn new(holds: &'static str, message: Message) -> Self {
        Self { holds, message, blamed: "", reason: "" }
    }

    /// The same, and a field is to blame.
    #[must_use]
    pub const fn blaming(mut self, field: &'static str) -> Self {
        self.blamed = field;
        self
    }

    /// The same, and the fault is that something is there.
    #[must_use]
    pub const fn forbids(mut self) -> Self {
        self.reason = "FieldValueForbidden";
        self
    }

    /// The same, and the fault is that something is missing.
    #[must_use]
    pub const fn requires(mut self) -> Self {
        self.reason = "FieldValueRequired";
        self
    }

    fn written(self) -> Value {
        let mut rule = Map::new();
        rule.insert("rule".to_owned(), self.holds.into());
        let (name, text) = match self.message {
            Message::Text(text) => ("message", text),
            Message::Expression(text) => ("messageExpression", text),
        };
        rule.insert(name.to_owned(), text.into());
        for (name, text) in [("fieldPath", self.blamed), ("reason", self.reason)] {
            if !text.is_empty() {
                rule.insert(name.to_owned(), text.into());
            }
        }
        Value::Object(rule)
    }
}

/// The `CustomResourceDefinition`s that controllers need on servers that do not have their kinds.
pub fn all() -> impl Iterator<Item = Value> {
    crate::kinds::KINDS.iter().filter_map(|kind| of(kind))
}

/// The `CustomResourceDefinition` of a kind, if it has one.
pub fn of(kind: &Kind) -> Option<Value> {
    let custom = kind.custom?;
    let mut schema = openapi::whole(schema::definition(kind.schema)?);
    if !custom.required.is_empty() {
        schema["required"] = custom.required.into();
    }
    for constraint in custom.constraints {
        if let Some(part) = part(&mut schema, constraint.at) {
            constraint.bound.put_on(part);
        }
    }
    let mut version = json!({
        "name": kind.version, "served": true, "storage": true,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns(kind, custom),
    });
    if kind.subresources.contains(&Subresource::Status) {
        version["subresources"] = json!({"status": {}});
    }
    Some(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", kind.plural, kind.group)},
        "spec": {
            "group": kind.group,
            "names": {
                "kind": kind.kind, "listKind": format!("{}List", kind.kind), "plural": kind.plural,
                "singular": kind.singular, "shortNames": kind.short_names,
            },
            "scope": if kind.scope == Scope::Cluster { "Cluster" } else { "Namespaced" },
            "versions": [version],
        },
    }))
}

/// The schema of what a path leads to.
fn part<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut part = schema;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        let name = step.trim_end_matches("[]");
        part = part.get_mut("properties")?.get_mut(name)?;
        if name.len() < step.len() {
            part = part.get_mut("items")?;
        }
    }
    Some(part)
}

impl Bound {
    fn put_on(self, schema: &mut Value) {
        match self {
            Self::Length(most) => schema["maxLength"] = most.into(),
            Self::Items(most) => schema["maxItems"] = most.into(),
            Self::Pattern(pattern) => schema["pattern"] = pattern.into(),
            Self::Rule(rule) => match &mut schema["x-kubernetes-validations"] {
                Value::Array(rules) => rules.push(rule.written()),
                none => *none = json!([rule.written()]),
            },
        }
    }
}

/// The columns besides that of the name, which is always there.
fn columns(kind: &Kind, custom: &Custom) -> Vec<Value> {
    let path = |name: &str| match name {
        "Age" => Some(".metadata.creationTimestamp"),
        _ => custom.columns.iter().find(|(column, _)| *column == name).map(|(_, path)| *path),
    };
    let written = kind.columns.iter().filter_map(|column| {
        let mut written = json!({
            "name": column.name, "type": column.ty, "description": column.description, "jsonPath": path(column.name)?,
        });
        if column.priority > 0 {
            written["priority"] = column.priority.into();
        }
        Some(written)
    });
    written.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(value: &Value) -> usize {
        match value {
            Value::Object(fields) => {
                usize::from(fields.contains_key("$ref") || fields.contains_key("allOf"))
                    + fields.values().map(references).sum::<usize>()
            }
            Value::Array(items) => items.iter().map(references).sum(),
            _ => 0,
        }
    }

    #[test]
    fn every_constraint_is_about_something_and_every_column_shows_something() {
        let mut made = 0;
        for kind in crate::kinds::KINDS {
            let Some(custom) = kind.custom else { continue };
            let mut schema = openapi::whole(schema::definition(kind.schema).unwrap());
            for constraint in custom.constraints {
                assert!(part(&mut schema, constraint.at).is_some(), "{}", constraint.at);
            }
            for name in custom.required {
                assert!(part(&mut schema, name).is_some(), "{name}");
            }
            let definition = of(kind).unwrap();
            let columns = &definition["spec"]["versions"][0]["additionalPrinterColumns"];
            assert_eq!(columns.as_array().unwrap().len(), kind.columns.len() - 1, "{columns}");
            assert_eq!(references(&definition), 0, "a schema refers to another one");
            made += 1;
        }
        assert_eq!(all().count(), made);
        assert!(made > 0);
    }

    #[test]
    fn parts_are_found_by_their_path() {
        let mut schema = json!({"properties": {"a": {"items": {"properties": {"b": {"type": "string"}}}}}});
        assert_eq!(part(&mut schema, "a[].b").unwrap(), &json!({"type": "string"}));
        assert_eq!(part(&mut schema, "a.b"), None);
        assert!(part(&mut schema, "").is_some());
    }
}
