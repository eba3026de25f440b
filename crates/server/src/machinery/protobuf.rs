//! Answers in protobuf, made of the JSON that they would be: for clients that take nothing else.
//!
//! Objects are kept as JSON, so this is work for each answer that others do not cost; `docs/adr/0009` says why that is right.

use api::protobuf;
use bytes::{BufMut, BytesMut};
use serde_json::Value;

use super::failure::Failure;

/// The media type.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The media type of a watch.
pub(crate) const WATCH_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Whatever is in the JSON, which says of what kind it is.
pub(crate) fn object(json: &[u8]) -> Result<Vec<u8>, Failure> {
    let value: Value = serde_json::from_slice(json).map_err(Failure::internal)?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    protobuf::encode(text("apiVersion"), text("kind"), &value).map_err(Failure::internal)
}

/// Appends the frame of an event, whose object is in the JSON.
pub(crate) fn put_event(what: &str, json: &[u8], out: &mut BytesMut) -> Result<(), Failure> {
    out.put_slice(&protobuf::encode_event(what, &object(json)?));
    Ok(())
}
