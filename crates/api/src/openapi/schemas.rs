//! The schemas of structures, from the tables and the descriptions.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{LIST_META, SCHEMAS, Served, list_schema, reference};
use crate::kind::Kind;
use crate::schema::{self, Definition, Descriptions, Field, ListKind, Patch, Type};

const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const DURATION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Duration";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// The schemas of those names and of all that they refer to.
pub(super) fn of<'a>(names: impl IntoIterator<Item = &'a str>, served: &Served<'_>) -> Value {
    let mut schemas = Schemas { made: BTreeMap::new(), said: Descriptions::read(), served };
    for name in names {
        schemas.add(name);
    }
    Value::Object(schemas.made.into_iter().collect())
}

/// The schema of a structure with everything that it refers to in it, as a `CustomResourceDefinition` has it: only what such a
/// schema can say. Metadata is told of to nobody there.
pub(super) fn whole(definition: &Definition) -> Value {
    let served = Served { group: "", version: "", kinds: &[] };
    let mut schemas = Schemas { made: BTreeMap::new(), said: Descriptions::read(), served: &served };
    let mut schema = schemas.structure(definition, true);
    put_in(&mut schema, &schemas.made);
    schema["properties"]["metadata"] = json!({ "type": "object" });
    schema
}

/// Puts what is referred to where it is referred to.
fn put_in(schema: &mut Value, made: &BTreeMap<String, Value>) {
    let target = schema.pointer("/allOf/0/$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix(SCHEMAS));
    if let Some(meant) = target.and_then(|name| made.get(name)).cloned() {
        let description = schema["description"].take();
        *schema = meant;
        describe(schema, description.as_str());
    }
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, _| !name.starts_with("x-kubernetes-patch-"));
            fields.values_mut().for_each(|part| put_in(part, made));
        }
        Value::Array(parts) => parts.iter_mut().for_each(|part| put_in(part, made)),
        _ => {}
    }
}

struct Schemas<'a> {
    made: BTreeMap<String, Value>,
    said: Descriptions,
    served: &'a Served<'a>,
}

impl Schemas<'_> {
    fn add(&mut self, name: &str) {
        if self.made.contains_key(name) {
            return;
        }
        // Its name is taken before its fields are looked at, because one of them may lead back here.
        self.made.insert(name.to_owned(), Value::Null);
        let mut schema = self.named(name);
        let kinds = self.served.kinds_of(name);
        if !kinds.is_empty() {
            schema["x-kubernetes-group-version-kind"] = kinds.into();
        }
        self.made.insert(name.to_owned(), schema);
    }

    fn named(&mut self, name: &str) -> Value {
        if let Some(definition) = schema::definition(name) {
            return self.structure(definition, definition.custom);
        }
        let list_of = self.served.kinds.iter().find(|kind| list_schema(kind) == name);
        if let Some(kind) = list_of {
            return self.list(kind);
        }
        let mut schema = match name {
            TIME | MICRO_TIME => json!({ "type": "string", "format": "date-time" }),
            DURATION => json!({ "type": "string" }),
            QUANTITY => json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
            INT_OR_STRING => {
                json!({ "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] })
            }
            _ => json!({ "type": "object" }),
        };
        describe(&mut schema, self.said.named(name));
        schema
    }

    /// Lists of a kind that the tables have no list for are like all others.
    fn list(&mut self, kind: &Kind) -> Value {
        self.add(LIST_META);
        self.add(kind.schema);
        json!({
            "type": "object",
            "description": format!("A list of {}.", kind.plural),
            "required": ["items"],
            "properties": {
                "apiVersion": { "type": "string", "description": self.said.of_all("apiVersion") },
                "kind": { "type": "string", "description": self.said.of_all("kind") },
                "metadata": { "allOf": [reference(LIST_META)], "description": self.said.of_all("metadata") },
                "items": {
                    "type": "array",
                    "description": self.said.of_all("items"),
                    "items": reference(kind.schema),
                },
            },
        })
    }

    fn structure(&mut self, definition: &Definition, custom: bool) -> Value {
        let properties: Map<_, _> = definition
            .fields
            .values()
            .map(|field| (field.name.clone(), self.property(definition, field, custom)))
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
        if let Some(unions) = &definition.unions {
            schema["x-kubernetes-unions"] = unions.clone();
        }
        describe(&mut schema, self.said.definition(definition));
        schema
    }

    fn property(&mut self, definition: &Definition, field: &Field, custom: bool) -> Value {
        let mut schema = match field.go.ty.as_deref() {
            Some("v1.FieldsV1") => self.reference(FIELDS),
            _ => self.value(&field.ty, custom),
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
        describe(&mut schema, self.said.field(definition, field));
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
            Type::Time => self.reference(TIME),
            Type::MicroTime => self.reference(MICRO_TIME),
            Type::Duration => self.reference(DURATION),
            Type::Quantity => self.reference(QUANTITY),
            Type::IntOrString => self.reference(INT_OR_STRING),
            Type::Struct(_) => match schema::resolve(ty) {
                // The parts of a custom kind have no names that others could refer to, its metadata alone has.
                Some(part) if custom && !schema::is_metadata(part) => self.structure(part, true),
                Some(part) => self.reference(&part.name),
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

    fn reference(&mut self, name: &str) -> Value {
        self.add(name);
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

fn describe(schema: &mut Value, description: Option<&str>) {
    if let Some(description) = description {
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
