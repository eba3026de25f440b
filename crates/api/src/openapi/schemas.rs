//! The schemas of the kinds' structures, from the tables.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{group_version_kind, list_schema, reference};
use crate::kind::Kind;
use crate::schema::{self, Definition, Field, ListKind, Patch, Type};

/// The name of the schema of a patch, which can be anything.
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// What every document refers to, whatever its kinds.
const COMMON: [&str; 3] =
    ["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.Status", LIST_META];

/// The schemas of those kinds and of all that they refer to.
pub(super) fn of(kinds: &[&Kind]) -> Value {
    let mut schemas = Schemas(BTreeMap::from([(PATCH.to_owned(), json!({ "type": "object" }))]));
    for kind in kinds {
        schemas.add(kind.schema);
        schemas.mark(kind.schema, kind, kind.kind);
        if !kind.is_question {
            schemas.add_list(kind);
            schemas.mark(&list_schema(kind), kind, &format!("{}List", kind.kind));
        }
        for question in kind.questions.iter().map(|question| question.kind) {
            schemas.add(question.schema);
            schemas.mark(question.schema, question, question.kind);
        }
    }
    for name in COMMON {
        schemas.add(name);
    }
    Value::Object(schemas.0.into_iter().collect())
}

struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    fn add(&mut self, name: &str) {
        if let Some(definition) = schema::definition(name)
            && !self.0.contains_key(name)
        {
            // Its name is taken before its fields are looked at, because one of them may lead back here.
            self.0.insert(name.to_owned(), Value::Null);
            let schema = self.structure(definition);
            self.0.insert(name.to_owned(), schema);
        }
    }

    /// Lists of a kind that the tables have no list for are like all others.
    fn add_list(&mut self, kind: &Kind) {
        let name = list_schema(kind);
        self.add(&name);
        self.0.entry(name).or_insert_with(|| {
            json!({
                "type": "object",
                "description": format!("A list of {}.", kind.plural),
                "required": ["items"],
                "properties": {
                    "apiVersion": { "type": "string" },
                    "kind": { "type": "string" },
                    "metadata": { "allOf": [reference(LIST_META)] },
                    "items": { "type": "array", "items": reference(kind.schema) },
                },
            })
        });
    }

    fn mark(&mut self, name: &str, kind: &Kind, as_kind: &str) {
        if let Some(schema) = self.0.get_mut(name) {
            schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(kind, as_kind)]);
        }
    }

    fn structure(&mut self, definition: &Definition) -> Value {
        let properties: Map<_, _> = definition
            .fields
            .values()
            .map(|field| (field.name.clone(), self.property(field, definition.custom)))
            .collect();
        let mut schema = json!({ "type": "object", "properties": properties });
        let required: Vec<&str> =
            definition.fields.values().filter(|field| field.required).map(|field| field.name.as_str()).collect();
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        if definition.atomic {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        describe(&mut schema, &definition.description);
        schema
    }

    fn property(&mut self, field: &Field, custom: bool) -> Value {
        let mut schema = if field.go.ty.as_deref() == Some("v1.FieldsV1") {
            self.0.entry(FIELDS.to_owned()).or_insert_with(|| json!({ "type": "object" }));
            reference(FIELDS)
        } else {
            self.value(&field.ty, custom)
        };
        // What stands beside a reference is ignored by some readers, so what is said of the field stands around it.
        if schema.get("$ref").is_some() {
            schema = json!({ "allOf": [schema] });
        }
        let always = !custom && !field.go.pointer && (!field.go.omitempty || matches!(field.ty, Type::Struct(_)));
        if let Some(default) = field.default.clone().or_else(|| zero(&field.ty).filter(|_| always)) {
            schema["default"] = default;
        }
        if !field.values.is_empty() {
            let one = if matches!(field.ty, Type::List(_)) { &mut schema["items"] } else { &mut schema };
            one["enum"] = field.values.clone().into();
        }
        describe(&mut schema, &field.description);
        merging(&mut schema, field);
        schema
    }

    /// The schema of a value; what it refers to is added.
    fn value(&mut self, ty: &Type, custom: bool) -> Value {
        match ty {
            Type::String => json!({ "type": "string" }),
            Type::Boolean => json!({ "type": "boolean" }),
            Type::Int32 => json!({ "type": "integer", "format": "int32" }),
            Type::Int64 => json!({ "type": "integer", "format": "int64" }),
            Type::Double => json!({ "type": "number", "format": "double" }),
            Type::Bytes => json!({ "type": "string", "format": "byte" }),
            Type::Json => json!({ "type": "object" }),
            Type::Time => self.plain(
                "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
                || json!({ "type": "string", "format": "date-time" }),
            ),
            Type::MicroTime => self.plain(
                "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
                || json!({ "type": "string", "format": "date-time" }),
            ),
            Type::Duration => {
                self.plain("io.k8s.apimachinery.pkg.apis.meta.v1.Duration", || json!({ "type": "string" }))
            }
            Type::Quantity => self.plain(
                "io.k8s.apimachinery.pkg.api.resource.Quantity",
                || json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
            ),
            Type::IntOrString => self.plain(
                "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
                || json!({ "oneOf": [{ "type": "integer" }, { "type": "string" }], "format": "int-or-string" }),
            ),
            Type::Struct(_) => match schema::resolve(ty) {
                Some(definition) => {
                    self.add(&definition.name);
                    reference(&definition.name)
                }
                None => json!({ "type": "object" }),
            },
            Type::List(item) => json!({ "type": "array", "items": self.item(item, custom) }),
            Type::Map(value) => json!({ "type": "object", "additionalProperties": self.item(value, custom) }),
        }
    }

    /// The schema of an item of a list or a value of a map, which is there even if it is zero.
    fn item(&mut self, ty: &Type, custom: bool) -> Value {
        let mut schema = self.value(ty, custom);
        if let Some(zero) = zero(ty).filter(|_| !custom) {
            if schema.get("$ref").is_some() {
                schema = json!({ "allOf": [schema] });
            }
            schema["default"] = zero;
        }
        schema
    }

    /// A type that has a schema of its own although it is no structure.
    fn plain(&mut self, name: &str, schema: impl FnOnce() -> Value) -> Value {
        self.0.entry(name.to_owned()).or_insert_with(schema);
        reference(name)
    }
}

/// The default of what is always there: the zero value of the types that have a plain one.
fn zero(ty: &Type) -> Option<Value> {
    match ty {
        Type::String => Some("".into()),
        Type::Boolean => Some(false.into()),
        Type::Int32 | Type::Int64 | Type::Double => Some(0.into()),
        Type::Struct(_) => Some(json!({})),
        _ => None,
    }
}

fn describe(schema: &mut Value, description: &str) {
    if !description.is_empty() {
        schema["description"] = description.into();
    }
}

/// How the values of the field are merged.
fn merging(schema: &mut Value, field: &Field) {
    match (&field.list, &field.ty) {
        (ListKind::Set, _) => schema["x-kubernetes-list-type"] = "set".into(),
        (ListKind::Map(keys), _) => {
            schema["x-kubernetes-list-type"] = "map".into();
            schema["x-kubernetes-list-map-keys"] = keys.clone().into();
        }
        (ListKind::Atomic, Type::List(_)) if field.atomic => schema["x-kubernetes-list-type"] = "atomic".into(),
        (ListKind::Atomic, _) if field.atomic => schema["x-kubernetes-map-type"] = "atomic".into(),
        (ListKind::Atomic, _) => {}
    }
    let Patch { merge, key, retain_keys, replace } = &field.patch;
    let strategies = [(merge, "merge"), (retain_keys, "retainKeys"), (replace, "replace")];
    let strategies: Vec<_> = strategies.into_iter().filter(|(set, _)| **set).map(|(_, name)| name).collect();
    if !strategies.is_empty() {
        schema["x-kubernetes-patch-strategy"] = strategies.join(",").into();
    }
    if let Some(key) = key {
        schema["x-kubernetes-patch-merge-key"] = key.as_str().into();
    }
}
