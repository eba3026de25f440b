//! Values that are a message in protobuf and plain in JSON: times, quantities, numbers that may be text, and JSON itself.

use jiff::SignedDuration;
use serde_json::Value;

use super::wire::{bytes_field, tag, varint, wire_type};
use super::{Error, decode};
use crate::quantity;
use crate::schema::time::{self, Precision};

/// When Go's clock begins: the time that is no time, and null in JSON.
const GO_ZERO: i64 = -62_135_596_800;
const NANOS: i64 = 1_000_000_000;

/// Reads a time. Nothing at all is no time.
pub(super) fn read_time(data: &[u8], precision: Precision) -> Result<Value, Error> {
    if data.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    decode::each_field(data, "Timestamp", |reader, field| {
        match field.number {
            1 => seconds = field.number(reader, "Seconds")?,
            2 => nanos = field.number(reader, "Nanos")? as i32,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let micros = match precision {
        Precision::Seconds => 0,
        Precision::Micros => i64::from(nanos / 1_000),
    };
    if (seconds, micros) == (GO_ZERO, 0) {
        return Ok(Value::Null);
    }
    let moment = SignedDuration::from_secs(seconds).checked_add(SignedDuration::from_micros(micros));
    let text = moment.and_then(|moment| time::told(moment, precision));
    text.map(Value::from).ok_or(Error::TimeOutOfRange { seconds })
}

/// Writes a time; false for what is none.
pub(super) fn write_time(out: &mut Vec<u8>, value: &Value, precision: Precision) -> bool {
    let Some(moment) = value.as_str().and_then(time::moment) else { return value.is_null() };
    // Go counts the nanoseconds from the second before, jiff from the one that is nearer to 1970.
    let before = i64::from(moment.subsec_nanos() < 0);
    let (seconds, nanos) = (moment.as_secs() - before, i64::from(moment.subsec_nanos()) + before * NANOS);
    // All that is stored has whole microseconds.
    let nanos = nanos - nanos % 1_000;
    if (seconds, nanos) != (GO_ZERO, 0) {
        tag(out, 1, wire_type::VARINT);
        varint(out, seconds.cast_unsigned());
        tag(out, 2, wire_type::VARINT);
        varint(out, if precision == Precision::Micros { nanos.cast_unsigned() } else { 0 });
    }
    true
}

/// Reads a quantity; without one in it, it is what it was before.
pub(super) fn read_quantity(data: &[u8], before: Option<Value>) -> Result<Value, Error> {
    let mut quantity = before;
    decode::each_field(data, "Quantity", |reader, field| {
        if field.number != 1 {
            return Ok(false);
        }
        let text = decode::text(field.bytes(reader, "String_")?);
        // JSON may have space around a quantity, protobuf may not.
        let fault = if text.trim() == text { quantity::fault(&text) } else { quantity::fault("") };
        if let Some(fault) = fault {
            return Err(Error::Quantity(fault));
        }
        quantity = Some(Value::from(quantity::canonical(&text).unwrap_or(text)));
        Ok(true)
    })?;
    Ok(quantity.unwrap_or_else(|| Value::from("0")))
}

/// Writes a quantity; false for what is none.
pub(super) fn write_quantity(out: &mut Vec<u8>, value: &Value) -> bool {
    let number;
    let text = match value {
        Value::Null => "0",
        Value::String(text) => text,
        other => {
            number = other.to_string();
            &number
        }
    };
    if quantity::fault(text).is_some() {
        return false;
    }
    match quantity::canonical(text) {
        Some(canonical) => bytes_field(out, 1, canonical.as_bytes()),
        None => bytes_field(out, 1, text.as_bytes()),
    }
    true
}

/// Reads a number or a text, whichever it says it is. What is not in it is what it was before.
pub(super) fn read_int_or_string(data: &[u8], before: Option<Value>) -> Result<Value, Error> {
    let (mut ty, mut number, mut text) = match before {
        Some(Value::String(text)) => (1, 0, text),
        Some(number) => (0, number.as_i64().unwrap_or_default() as i32, String::new()),
        None => (0, 0, String::new()),
    };
    decode::each_field(data, "IntOrString", |reader, field| {
        match field.number {
            1 => ty = field.number(reader, "Type")?,
            2 => number = field.number(reader, "IntVal")? as i32,
            3 => text = decode::text(field.bytes(reader, "StrVal")?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match ty {
        0 => Ok(Value::from(number)),
        1 => Ok(Value::from(text)),
        _ => Err(Error::IntOrString),
    }
}

/// Writes a number or a text; false for what is neither.
pub(super) fn write_int_or_string(out: &mut Vec<u8>, value: &Value) -> bool {
    let number = match value {
        Value::Number(number) => number.as_i64().and_then(|number| i32::try_from(number).ok()),
        Value::Null | Value::String(_) => Some(0),
        _ => None,
    };
    let Some(number) = number else { return false };
    let text = value.as_str();
    tag(out, 1, wire_type::VARINT);
    varint(out, u64::from(text.is_some()));
    tag(out, 2, wire_type::VARINT);
    varint(out, i64::from(number).cast_unsigned());
    bytes_field(out, 3, text.unwrap_or_default().as_bytes());
    true
}

/// Reads JSON that is in bytes; none in it is what it was before.
pub(super) fn read_json(data: &[u8], before: Option<Value>) -> Result<Value, Error> {
    let mut json = before.unwrap_or_default();
    decode::each_field(data, "FieldsV1", |reader, field| {
        if field.number != 1 {
            return Ok(false);
        }
        let raw = field.bytes(reader, "Raw")?;
        json = if raw.is_empty() { Value::Null } else { serde_json::from_slice(raw).map_err(|_| Error::Json)? };
        Ok(true)
    })?;
    Ok(json)
}

/// Writes a value as JSON in bytes.
pub(super) fn write_json(out: &mut Vec<u8>, value: &Value) {
    if !value.is_null() {
        bytes_field(out, 1, value.to_string().as_bytes());
    }
}

/// Reads the list that is in a message because it could not be where the message is, after what was there before.
pub(super) fn read_texts(data: &[u8], before: Option<Value>) -> Result<Value, Error> {
    let mut texts = match before {
        Some(Value::Array(texts)) => texts,
        _ => Vec::new(),
    };
    decode::each_field(data, "ExtraValue", |reader, field| {
        if field.number != 1 {
            return Ok(false);
        }
        texts.push(Value::from(decode::text(field.bytes(reader, "Items")?)));
        Ok(true)
    })?;
    Ok(Value::Array(texts))
}

/// Writes such a list; false for what is none.
pub(super) fn write_texts(out: &mut Vec<u8>, value: &Value) -> bool {
    let texts = match value {
        Value::Null => &[][..],
        Value::Array(texts) => texts,
        _ => return false,
    };
    texts.iter().all(|text| {
        let content = if text.is_null() { Some("") } else { text.as_str() };
        bytes_field(out, 1, content.unwrap_or_default().as_bytes());
        content.is_some()
    })
}
