//! How stored objects are shown: as they are, as another version, as metadata alone, or as rows of a table.
//!
//! An object that is served as it is stored is never parsed: its bytes are copied. A view that differs only in
//! `apiVersion` gets another front; everything else is read and written anew.

use api::{Object, Row};
use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::catalog::Resource;
use super::facts::Facts;
use super::failure::Failure;
use super::negotiate::Form;

/// An object as the resource serves it.
pub(crate) fn json(resource: &Resource, value: &Bytes) -> Result<Bytes, Failure> {
    if resource.is_stored_form() {
        return Ok(value.clone());
    }
    let mut out = BytesMut::with_capacity(value.len() + 16);
    out.put_slice(resource.front.as_bytes());
    put_rest(resource, value, &mut out)?;
    Ok(out.freeze())
}

/// Appends an object as an item of a list of its kind, where `kind` and `apiVersion` are left out.
pub(crate) fn put_item(resource: &Resource, value: &[u8], out: &mut BytesMut) -> Result<(), Failure> {
    let at = out.len();
    put_rest(resource, value, out)?;
    // The rest begins with the comma that follows the front.
    if let Some(first) = out.get_mut(at) {
        *first = b'{';
    }
    Ok(())
}

/// Appends what follows the front of an object.
fn put_rest(resource: &Resource, value: &[u8], out: &mut BytesMut) -> Result<(), Failure> {
    if resource.kind.conversion.is_none() {
        let rest = value.get(resource.stored_front.len()..).ok_or_else(damaged)?;
        out.put_slice(rest);
        return Ok(());
    }
    let object = read(resource, value)?;
    let bytes = with_revision(&object.encode(), object.resource_version());
    out.put_slice(bytes.get(resource.front.len()..).ok_or_else(damaged)?);
    Ok(())
}

/// An encoded object with that revision in the place that is kept for it.
pub(crate) fn with_revision(encoded: &[u8], revision: &str) -> Vec<u8> {
    let mark = api::object::REVISION_MARK.as_bytes();
    let Some(at) = memchr::memmem::find(encoded, mark) else { return encoded.to_vec() };
    let at = at + mark.len() - 1;
    [&encoded[..at], revision.as_bytes(), &encoded[at..]].concat()
}

/// An encoded object without a revision, as one is that was never stored. The uid stands before the revision.
pub(crate) fn without_revision(encoded: &[u8]) -> Vec<u8> {
    let mark = format!(",{}", api::object::REVISION_MARK);
    match memchr::memmem::find(encoded, mark.as_bytes()) {
        Some(at) => [&encoded[..at], &encoded[at + mark.len()..]].concat(),
        None => encoded.to_vec(),
    }
}

/// A stored object, read, as the resource serves it.
pub(crate) fn read(resource: &Resource, value: &[u8]) -> Result<Object, Failure> {
    let stored = Object::parse(value).map_err(|_| damaged())?;
    Ok(from_stored(resource, stored))
}

/// From the stored form of an object to the one that the resource serves.
pub(crate) fn from_stored(resource: &Resource, stored: Object) -> Object {
    if resource.is_stored_form() {
        return stored;
    }
    let mut object = match &resource.kind.conversion {
        Some(conversion) => (conversion.from_stored)(stored),
        None => stored,
    };
    object.set(&["apiVersion"], json!(resource.api_version));
    object.set(&["kind"], json!(resource.kind.kind));
    object
}

/// The bytes of an object as they are stored.
pub(crate) fn encode_stored(resource: &Resource, object: &Object) -> Bytes {
    encode_stored_with(resource, object, None)
}

/// The same with those `managedFields`, which are encoded already, instead of its own.
pub(crate) fn encode_stored_with(resource: &Resource, object: &Object, managed_fields: Option<&[u8]>) -> Bytes {
    if resource.is_stored_form() {
        object.encode_with(managed_fields)
    } else {
        to_stored(resource, object.clone()).encode_with(managed_fields)
    }
}

/// From the form that the resource serves to the stored one.
fn to_stored(resource: &Resource, object: Object) -> Object {
    if resource.is_stored_form() {
        return object;
    }
    let mut stored = match &resource.kind.conversion {
        Some(conversion) => (conversion.to_stored)(object),
        None => object,
    };
    stored.set(&["apiVersion"], json!(resource.kind.stored.api_version));
    stored.set(&["kind"], json!(resource.kind.kind));
    stored
}

fn damaged() -> Failure {
    Failure::internal("a stored object cannot be read: its bytes are no object of this kind")
}

/// How much of the object comes with each row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    /// What the client asks for; only tables are asked about.
    pub(crate) fn read(form: Form, text: &str) -> Result<Self, Failure> {
        match text {
            _ if !matches!(form, Form::Table(_)) => Ok(Self::Metadata),
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            _ => Err(Failure::bad_request(format!("unrecognized includeObject value: {text:?}"))),
        }
    }
}

/// The columns of a table, as its head.
pub(crate) fn columns(resource: &Resource) -> Value {
    let column = |column: &api::Column| {
        json!({
            "name": column.name, "type": column.ty, "format": column.format,
            "description": column.description, "priority": column.priority,
        })
    };
    resource.kind.columns.iter().map(column).collect()
}

/// The row of an object, but for its ages.
pub(crate) fn row(resource: &Resource, value: &[u8]) -> Result<Row, Failure> {
    Ok(Row::new(&(resource.kind.row)(&read(resource, value)?)))
}

/// The bytes of an object, and what is known of them if they are an entry's.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub(crate) value: &'a Bytes,
    pub(crate) facts: Option<&'a Facts>,
}

impl<'a> Stored<'a> {
    /// Bytes of which nothing is known.
    pub(crate) fn bare(value: &'a Bytes) -> Self {
        Self { value, facts: None }
    }
}

/// Appends an object of a table: its row at a time, and what comes with it.
pub(crate) fn put_row(
    resource: &Resource,
    row: &Row,
    stored: Stored<'_>,
    include: Include,
    now: Timestamp,
    version: &str,
    out: &mut BytesMut,
) -> Result<(), Failure> {
    out.put_slice(b"{\"cells\":");
    row.put(now, |piece| out.put_slice(piece));
    match include {
        Include::None => out.put_slice(b",\"object\":null"),
        Include::Metadata => {
            out.put_slice(b",\"object\":");
            put_partial(stored, version, out)?;
        }
        Include::Object => {
            out.put_slice(b",\"object\":");
            out.put_slice(&json(resource, stored.value)?);
        }
    }
    out.put_u8(b'}');
    Ok(())
}

/// Appends the metadata of an object as a `PartialObjectMetadata`.
pub(crate) fn put_partial(stored: Stored<'_>, version: &str, out: &mut BytesMut) -> Result<(), Failure> {
    let Stored { value, facts } = stored;
    let metadata = facts.map_or_else(|| metadata(value), |facts| facts.metadata(value)).ok_or_else(damaged)?;
    out.put_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/");
    out.put_slice(version.as_bytes());
    out.put_slice(b"\",\"metadata\":");
    out.put_slice(metadata);
    out.put_u8(b'}');
    Ok(())
}

/// The bytes of an encoded object from its metadata on.
///
/// Metadata follows the front, in which nothing can hold its name, so the first occurrence is the right one.
pub(crate) fn from_metadata_on(encoded: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b",\"metadata\":";
    encoded.get(memchr::memmem::find(encoded, NAME)? + NAME.len()..)
}

/// The bytes of `metadata` in an encoded object.
pub(crate) fn metadata(encoded: &[u8]) -> Option<&[u8]> {
    let encoded = from_metadata_on(encoded)?;
    let mut depth = 0_usize;
    let mut at = 0;
    loop {
        at += memchr::memchr3(b'"', b'{', b'}', encoded.get(at..)?)?;
        match encoded[at] {
            b'"' => at = end_of_text(encoded, at + 1)?,
            b'{' => depth += 1,
            _ if depth == 1 => return encoded.get(..=at),
            _ => depth -= 1,
        }
        at += 1;
    }
}

/// Where the text ends that begins there: the position of its closing quote.
fn end_of_text(encoded: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', encoded.get(at..)?)?;
        if encoded[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// Appends something that is written as JSON.
pub(crate) fn put_value(out: &mut BytesMut, value: &impl Serialize) {
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(out.writer(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_found_whatever_is_in_it() {
        let object = br#"{"kind":"A","apiVersion":"v1","metadata":{"name":"a","annotations":{"x":"}{\"\\"}},"data":{"metadata":"no"}}"#;
        let found = metadata(object).unwrap();
        assert_eq!(found, br#"{"name":"a","annotations":{"x":"}{\"\\"}}"#);
        assert_eq!(metadata(br#"{"kind":"A","metadata":{"name":"a""#), None, "cut off");
        assert_eq!(metadata(br#"{"kind":"A"}"#), None);
    }

    #[test]
    fn the_revision_is_written_into_its_place() {
        let encoded = br#"{"metadata":{"name":"a","resourceVersion":""}}"#;
        assert_eq!(without_revision(encoded), br#"{"metadata":{"name":"a"}}"#);
        assert_eq!(with_revision(encoded, "12"), br#"{"metadata":{"name":"a","resourceVersion":"12"}}"#);
    }
}
