//! Objects of any kind, read without their `managedFields`: nobody here looks at them, and in memory they take many times as much as the
//! rest of the object, because every field of it is a map of its own there.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::follow::Revisioned;

/// See the module.
#[derive(Clone)]
pub(crate) struct Lean(Value);

impl Revisioned for Lean {
    type Kept = Value;

    fn revision(&self) -> &str {
        self.0.revision()
    }

    fn keep(self) -> Value {
        self.0
    }
}

impl<'de> Deserialize<'de> for Lean {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Object)
    }
}

/// Reads an object.
struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Lean;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Lean, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let value = if name == "metadata" { fields.next_value::<Metadata>()?.0 } else { fields.next_value()? };
            object.insert(name, value);
        }
        Ok(Lean(Value::Object(object)))
    }
}

/// What is read of the metadata of an object.
struct Metadata(Value);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

/// Reads metadata.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Metadata;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata of an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Metadata, A::Error> {
        let mut metadata = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if name == "managedFields" {
                fields.next_value::<IgnoredAny>()?;
            } else {
                metadata.insert(name, fields.next_value()?);
            }
        }
        Ok(Metadata(Value::Object(metadata)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_is_kept_but_who_manages_what() {
        let mut object = json!({
            "kind": "X", "metadata": {"name": "a", "resourceVersion": "7", "labels": {"managedFields": "b"}},
            "spec": {"managedFields": [1]},
        });
        let kept = object.clone();
        object["metadata"]["managedFields"] = json!([{"manager": "m", "fieldsV1": {"f:spec": {}}}]);
        let lean: Lean = serde_json::from_str(&object.to_string()).unwrap();
        assert_eq!(lean.revision(), "7");
        assert_eq!(lean.keep(), kept);
        assert!(serde_json::from_str::<Lean>("[]").is_err());
        assert!(serde_json::from_str::<Lean>(r#"{"metadata": 1}"#).is_err());
    }
}
