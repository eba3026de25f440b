//! `Object`: an API object as a tree of JSON values, with its metadata at hand, and the one encoding of it that is stored.
//!
//! Knows the parts that every kind shares (`apiVersion`, `kind`, `metadata`) and nothing of any kind.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::json::{write, write_text};

/// What stands where the revision goes in an encoded object: the store writes it between the last two quotes.
pub const REVISION_MARK: &str = "\"resourceVersion\":\"\"";

/// As long as most objects are when they are encoded, or longer. What is stored is a copy without the rest.
const USUAL_LENGTH: usize = 2048;

const MANAGED_FIELDS: &str = "managedFields";

/// An API object: a JSON object, whatever its kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object(Map<String, Value>);

impl Object {
    /// The object of that JSON object.
    pub fn new(fields: Map<String, Value>) -> Self {
        Self(fields)
    }

    /// The object in a JSON value, if it is one.
    pub fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Object(fields) => Some(Self(fields)),
            _ => None,
        }
    }

    /// Reads an object that was stored or sent as JSON.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json).map(Self)
    }

    /// Its top-level fields.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Its top-level fields, to change.
    pub fn fields_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.0
    }

    /// The object as a JSON value.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    /// Lets something work on the object as a JSON value. It stays an object: if it is made something else, it is empty.
    pub fn with_value<T>(&mut self, work: impl FnOnce(&mut Value) -> T) -> T {
        let mut value = Value::Object(std::mem::take(&mut self.0));
        let done = work(&mut value);
        if let Value::Object(fields) = value {
            self.0 = fields;
        }
        done
    }

    /// The value at a path of field names: `at(&["spec", "type"])`.
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        let (last, parents) = path.split_last()?;
        parents.iter().try_fold(&self.0, |fields, name| fields.get(*name)?.as_object())?.get(*last)
    }

    /// The text at a path; empty if there is none.
    pub fn text(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Sets the value at a path, making the objects on the way.
    pub fn set(&mut self, path: &[&str], value: Value) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut fields = &mut self.0;
        for name in parents {
            fields = child(fields, name);
        }
        fields.insert((*last).to_owned(), value);
    }

    /// Removes and returns the value at a path.
    pub fn remove(&mut self, path: &[&str]) -> Option<Value> {
        let (last, parents) = path.split_last()?;
        parents.iter().try_fold(&mut self.0, |fields, name| fields.get_mut(*name)?.as_object_mut())?.remove(*last)
    }

    /// `apiVersion`, or nothing.
    pub fn api_version(&self) -> &str {
        self.text(&["apiVersion"])
    }

    /// `kind`, or nothing.
    pub fn kind(&self) -> &str {
        self.text(&["kind"])
    }

    /// `metadata.name`, or nothing.
    pub fn name(&self) -> &str {
        self.text(&["metadata", "name"])
    }

    /// `metadata.namespace`, or nothing.
    pub fn namespace(&self) -> &str {
        self.text(&["metadata", "namespace"])
    }

    /// `metadata.uid`, or nothing.
    pub fn uid(&self) -> &str {
        self.text(&["metadata", "uid"])
    }

    /// `metadata.resourceVersion`, or nothing.
    pub fn resource_version(&self) -> &str {
        self.text(&["metadata", "resourceVersion"])
    }

    /// Whether it is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.at(&["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.at(&["metadata", "finalizers"]).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// `metadata.generation`; 0 if there is none.
    pub fn generation(&self) -> i64 {
        self.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0)
    }

    /// `metadata`, empty if it is absent or no object.
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        self.0.get("metadata").and_then(Value::as_object)
    }

    /// `metadata`, to change; made if it is absent.
    pub fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        child(&mut self.0, "metadata")
    }

    /// The object as it is stored: `kind`, `apiVersion` and `metadata` first, and in the metadata the name, the namespace,
    /// the uid and an empty revision before anything else.
    ///
    /// None of what precedes the revision can hold a quote, so the first [`REVISION_MARK`] in the bytes is the revision's
    /// place, and whoever serves another version of a kind exchanges the front of the bytes and leaves the rest alone.
    pub fn encode(&self) -> Bytes {
        self.encode_with(None)
    }

    /// The same with those `managedFields`, which are encoded already, instead of its own.
    pub fn encode_with(&self, managed_fields: Option<&[u8]>) -> Bytes {
        let mut out = Vec::with_capacity(USUAL_LENGTH);
        out.extend_from_slice(b"{\"kind\":");
        write(&mut out, self.0.get("kind").unwrap_or(&Value::Null));
        out.extend_from_slice(b",\"apiVersion\":");
        write(&mut out, self.0.get("apiVersion").unwrap_or(&Value::Null));
        out.extend_from_slice(b",\"metadata\":{");
        let empty = Map::new();
        let metadata = self.metadata().unwrap_or(&empty);
        for name in ["name", "namespace", "uid"] {
            if let Some(value) = metadata.get(name) {
                write_text(&mut out, name);
                out.push(b':');
                write(&mut out, value);
                out.push(b',');
            }
        }
        out.extend_from_slice(REVISION_MARK.as_bytes());
        for (name, value) in metadata {
            if !matches!(name.as_str(), "name" | "namespace" | "uid" | "resourceVersion" | MANAGED_FIELDS) {
                out.push(b',');
                write_text(&mut out, name);
                out.push(b':');
                write(&mut out, value);
            }
        }
        // Last, so that who looks for something in the metadata need not read them.
        match (managed_fields, metadata.get(MANAGED_FIELDS)) {
            (Some(text), _) => {
                out.extend_from_slice(b",\"managedFields\":");
                out.extend_from_slice(text);
            }
            (None, Some(entries)) => write_entries(&mut out, entries),
            (None, None) => {}
        }
        out.push(b'}');
        for (name, value) in &self.0 {
            if !matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
                out.push(b',');
                write_text(&mut out, name);
                out.push(b':');
                write(&mut out, value);
            }
        }
        out.push(b'}');
        Bytes::from(out)
    }
}

/// Writes `managedFields`, the members of an entry in the order that clients know.
fn write_entries(out: &mut Vec<u8>, entries: &Value) {
    out.extend_from_slice(b",\"managedFields\":");
    let Some(entries) = entries.as_array() else { return write(out, entries) };
    out.push(b'[');
    for (index, entry) in entries.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"{" } else { b",{" });
        let mut first = true;
        for name in ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"] {
            let Some(value) = entry.get(name) else { continue };
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            write_text(out, name);
            out.push(b':');
            write(out, value);
        }
        out.push(b'}');
    }
    out.push(b']');
}

/// The object under that name, made (or made anew, if it is something else) where it is absent.
fn child<'a>(fields: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let slot = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(fields) => fields,
        _ => unreachable!("it was made an object above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    #[test]
    fn the_revision_has_its_place_before_anything_a_user_can_write() {
        let tricky = object(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"resourceVersion": ""},
            "metadata": {"name": "a", "namespace": "b", "annotations": {"resourceVersion": ""}, "resourceVersion": "7"},
        }));
        let bytes = tricky.encode();
        let text = std::str::from_utf8(&bytes).unwrap();
        let front =
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"b","resourceVersion":"""#;
        assert!(text.starts_with(front), "{text}");
        assert_eq!(text.find(REVISION_MARK), Some(front.len() - REVISION_MARK.len()));
    }

    #[test]
    fn what_is_encoded_reads_back_the_same_but_for_the_revision() {
        let mut before = object(json!({
            "apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}, "status": {},
            "metadata": {
                "name": "a", "namespace": "b", "uid": "u", "labels": {"x": "y"}, "resourceVersion": "7",
                "ownerReferences": [{"name": "o"}],
                "managedFields": [{"manager": "m", "operation": "Apply", "fieldsV1": {"f:a": {}}}, {"time": "t"}],
            },
        }));
        let bytes = before.encode();
        let entries = r#"}],"managedFields":[{"manager":"m","operation":"Apply","fieldsV1":{"f:a":{}}},{"time":"t"}]}"#;
        assert!(String::from_utf8_lossy(&bytes).contains(entries), "they are the last in the metadata");
        let after = Object::parse(&bytes).unwrap();
        before.set(&["metadata", "resourceVersion"], json!(""));
        assert_eq!(after, before);
    }

    #[test]
    fn paths_lead_through_objects_only() {
        let mut it = object(json!({"spec": {"type": "ClusterIP", "list": [1]}}));
        assert_eq!(it.text(&["spec", "type"]), "ClusterIP");
        assert_eq!(it.at(&["spec", "list", "0"]), None);
        it.set(&["status", "loadBalancer"], json!({}));
        assert_eq!(it.at(&["status", "loadBalancer"]), Some(&json!({})));
        assert_eq!(it.remove(&["spec", "type"]), Some(json!("ClusterIP")));
        assert_eq!(it.remove(&["spec", "type"]), None);
    }
}
