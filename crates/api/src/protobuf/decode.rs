//! From protobuf to the JSON that Go's structures would be written as.
//!
//! A field that is there twice is what Go's generated code makes of it: the last plain value, both messages together, one
//! list of both. Fields nobody knows are skipped.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::Error;
use super::leaf;
use super::plan::{self, Field, Item, Message, Shape};
use super::wire::{Reader, Tag, wire_type};
use crate::schema::time::Precision;

/// How many bytes of JSON there is still room for.
pub(super) struct Room(pub(super) usize);

impl Room {
    /// Takes room for something before it is made.
    fn take(&mut self, bytes: usize) -> Result<(), Error> {
        self.0 = self.0.checked_sub(bytes).ok_or(Error::TooLarge)?;
        Ok(())
    }
}

/// What is around a value that has a name: two quotes, a colon and a comma.
pub(super) const AROUND_NAMED: usize = 4;

/// Room for any value that is neither text nor made of others, and for what is around text and messages.
const PLAIN: usize = 8;

/// Reads a message into a JSON object, on top of what is in it.
pub(super) fn object(
    message: &Message,
    data: &[u8],
    fields: &mut Map<String, Value>,
    room: &mut Room,
) -> Result<(), Error> {
    part(message, data, fields, room)?;
    for zero in &message.always {
        if !fields.contains_key(zero.name) {
            room.take(zero.size)?;
            fields.insert(zero.name.to_owned(), zero.value.clone());
        }
    }
    Ok(())
}

/// Reads the fields that a message holds.
fn part(message: &Message, data: &[u8], fields: &mut Map<String, Value>, room: &mut Room) -> Result<(), Error> {
    each_field(data, message.name, |reader, tag| {
        let Some(field) = message.field(tag.number) else { return Ok(false) };
        field_value(field, tag, reader, fields, room)?;
        Ok(true)
    })
}

/// Reads the fields of a message one after the other; skips those that are not taken.
pub(super) fn each_field<'a>(
    data: &'a [u8],
    message: &'static str,
    mut take: impl FnMut(&mut Reader<'a>, Tag) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut reader = Reader::new(data);
    while !reader.is_done() {
        let begin = reader.at();
        let tag = reader.tag(message)?;
        if !take(&mut reader, tag)? {
            reader.go_to(begin);
            reader.skip()?;
        }
    }
    Ok(())
}

fn field_value(
    field: &Field,
    tag: Tag,
    reader: &mut Reader<'_>,
    fields: &mut Map<String, Value>,
    room: &mut Room,
) -> Result<(), Error> {
    match &field.shape {
        Shape::One(item) => {
            tag.expect(item.wire_type(), || field.go_name())?;
            let before = fields.get_mut(field.name).map(Value::take);
            if before.is_none() {
                room.take(field.name.len() + AROUND_NAMED)?;
            }
            let value = item_value(item, reader, before, room)?;
            put(field, fields, value);
        }
        Shape::List(item) if item.wire_type() == wire_type::VARINT && tag.wire_type == wire_type::BYTES => {
            let end = reader.end()?;
            while reader.at() < end {
                push(field, fields, item_value(item, reader, None, room)?);
            }
        }
        Shape::List(item) => {
            tag.expect(item.wire_type(), || field.go_name())?;
            push(field, fields, item_value(item, reader, None, room)?);
        }
        Shape::Map(item) => {
            tag.expect(wire_type::BYTES, || field.go_name())?;
            let (key, value) = entry(item, reader, room)?;
            match fields.get_mut(field.name) {
                Some(Value::Object(entries)) => drop(entries.insert(key, value)),
                _ => drop(fields.insert(field.name.to_owned(), Value::Object(Map::from_iter([(key, value)])))),
            }
        }
        Shape::Inlined(index) => {
            let inlined = plan::message(*index);
            tag.expect(wire_type::BYTES, || inlined.name.to_owned())?;
            part(inlined, reader.bytes()?, fields, room)?;
        }
    }
    Ok(())
}

fn put(field: &Field, fields: &mut Map<String, Value>, value: Value) {
    if field.omitted.as_ref() == Some(&value) {
        fields.remove(field.name);
    } else {
        fields.insert(field.name.to_owned(), value);
    }
}

fn push(field: &Field, fields: &mut Map<String, Value>, item: Value) {
    match fields.get_mut(field.name) {
        Some(Value::Array(items)) => items.push(item),
        _ => drop(fields.insert(field.name.to_owned(), Value::Array(vec![item]))),
    }
}

/// An entry of a map. Go reads on to the end of the message if it has to, and does not ask how a key is written.
fn entry(item: &Item, reader: &mut Reader<'_>, room: &mut Room) -> Result<(String, Value), Error> {
    let end = reader.end()?;
    let (mut key, mut value) = (String::new(), None);
    while reader.at() < end {
        let begin = reader.at();
        match reader.entry_number()? {
            1 => key = text(reader.bytes()?),
            2 => value = Some(item_value(item, reader, None, room)?),
            _ => {
                reader.go_to(begin);
                reader.skip()?;
                if reader.at() > end {
                    return Err(Error::Truncated);
                }
            }
        }
    }
    reader.go_to(end);
    room.take(escaped(&key) + AROUND_NAMED + PLAIN)?;
    let absent = || if *item == Item::Bytes { Value::from("") } else { item.zero() };
    // A list with nothing in it is nil in a map, and only there.
    let value = value.filter(|value| *item != Item::Texts || value.as_array().is_some_and(|texts| !texts.is_empty()));
    Ok((key, value.unwrap_or_else(absent)))
}

/// A value; `before` is what was there, for messages that add to it.
fn item_value(item: &Item, reader: &mut Reader<'_>, before: Option<Value>, room: &mut Room) -> Result<Value, Error> {
    room.take(PLAIN)?;
    let bytes = match item {
        Item::Boolean => return Ok(Value::from(reader.varint()? != 0)),
        Item::Int32 => return Ok(Value::from(reader.varint()? as i32)),
        Item::Int64 => return Ok(Value::from(reader.varint()?.cast_signed())),
        _ => reader.bytes()?,
    };
    if let Item::Message(index) = item {
        let mut fields = match before {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        object(plan::message(*index), bytes, &mut fields, room)?;
        return Ok(Value::Object(fields));
    }
    if *item == Item::String {
        let text = text(bytes);
        room.take(escaped(&text))?;
        return Ok(Value::from(text));
    }
    room.take(match item {
        Item::Bytes => bytes.len().div_ceil(3) * 4,
        // Text with a few bytes around it, which count as if they were text.
        Item::Quantity | Item::IntOrString | Item::Texts => escaped(&text(bytes)),
        _ => bytes.len(),
    })?;
    Ok(match item {
        Item::Bytes => Value::from(STANDARD.encode(bytes)),
        Item::Time => leaf::read_time(bytes, Precision::Seconds)?,
        Item::MicroTime => leaf::read_time(bytes, Precision::Micros)?,
        Item::Quantity => leaf::read_quantity(bytes, before)?,
        Item::IntOrString => leaf::read_int_or_string(bytes, before)?,
        Item::Json => leaf::read_json(bytes, before)?,
        Item::Texts => leaf::read_texts(bytes, before)?,
        _ => Value::Null,
    })
}

/// How many bytes a text has between its quotes in JSON: up to six times its own.
fn escaped(text: &str) -> usize {
    let size = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(size).sum()
}

/// Text as it is in JSON: Go writes a mark for each byte that is none.
pub(super) fn text(bytes: &[u8]) -> String {
    if let Ok(text) = str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}
