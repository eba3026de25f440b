//! From JSON to protobuf, byte for byte what Go writes for the structures that the JSON would be read into.
//!
//! Go writes the fields in the order of their numbers and the entries of maps in the order of their keys. It writes plain
//! values and structures also when they are zero, and leaves out pointers that are nil.

use serde_json::{Map, Value};

use super::Error;
use super::leaf;
use super::plan::{self, Field, Item, Message, Shape};
use super::wire::{Length, bytes, bytes_field, tag, varint, wire_type};
use crate::encoded;
use crate::schema::time::Precision;

/// Writes the fields of a message; a structure that is absent is one in which everything is zero.
pub(super) fn object(out: &mut Vec<u8>, message: &Message, fields: Option<&Map<String, Value>>) -> Result<(), Error> {
    for field in &message.fields {
        if let Shape::Inlined(index) = field.shape {
            tag(out, field.number, wire_type::BYTES);
            let length = Length::reserve(out);
            object(out, plan::message(index), fields)?;
            length.fill(out);
            continue;
        }
        self::field(out, field, fields.and_then(|fields| fields.get(field.name)))?;
    }
    Ok(())
}

/// Writes a field that is not inlined.
pub(super) fn field(out: &mut Vec<u8>, field: &Field, value: Option<&Value>) -> Result<(), Error> {
    match (&field.shape, value.filter(|value| !value.is_null())) {
        (Shape::One(_), None) if field.pointer => Ok(()),
        (Shape::One(item), value) => {
            tag(out, field.number, item.wire_type());
            item_value(out, field, item, value.unwrap_or(&Value::Null))
        }
        (Shape::List(item), Some(Value::Array(items))) => items.iter().try_for_each(|value| {
            tag(out, field.number, item.wire_type());
            item_value(out, field, item, value)
        }),
        (Shape::Map(item), Some(Value::Object(entries))) => entries.iter().try_for_each(|(key, value)| {
            tag(out, field.number, wire_type::BYTES);
            let length = Length::reserve(out);
            bytes_field(out, 1, key.as_bytes());
            // Go tells bytes that are nil from those that are none.
            if *item != Item::Bytes || !value.is_null() {
                tag(out, 2, item.wire_type());
                item_value(out, field, item, value)?;
            }
            length.fill(out);
            Ok(())
        }),
        (_, None) => Ok(()),
        (_, Some(_)) => Err(unfit(field)),
    }
}

/// Writes a value; null is zero.
fn item_value(out: &mut Vec<u8>, field: &Field, item: &Item, value: &Value) -> Result<(), Error> {
    match (item, value) {
        // The number zero, false, and the length of nothing.
        (Item::Boolean | Item::Int32 | Item::Int64 | Item::String | Item::Bytes, Value::Null) => out.push(0),
        (Item::Boolean, Value::Bool(value)) => out.push(u8::from(*value)),
        (Item::Int32 | Item::Int64, Value::Number(number)) => {
            let number = number.as_i64().filter(|number| *item == Item::Int64 || i32::try_from(*number).is_ok());
            varint(out, number.ok_or_else(|| unfit(field))?.cast_unsigned());
        }
        (Item::String, Value::String(text)) => bytes(out, text.as_bytes()),
        (Item::Bytes, Value::String(text)) => bytes(out, &encoded::decode(text).ok_or_else(|| unfit(field))?),
        (Item::Boolean | Item::Int32 | Item::Int64 | Item::String | Item::Bytes, _) => return Err(unfit(field)),
        _ => {
            let length = Length::reserve(out);
            message_value(out, field, item, value)?;
            length.fill(out);
        }
    }
    Ok(())
}

/// Writes what is a message in protobuf, without its length.
fn message_value(out: &mut Vec<u8>, field: &Field, item: &Item, value: &Value) -> Result<(), Error> {
    let fits = match item {
        Item::Message(index) => {
            let fields = value.as_object();
            object(out, plan::message(*index), fields)?;
            fields.is_some() || value.is_null()
        }
        Item::Time => leaf::write_time(out, value, Precision::Seconds),
        Item::MicroTime => leaf::write_time(out, value, Precision::Micros),
        Item::Quantity => leaf::write_quantity(out, value),
        Item::IntOrString => leaf::write_int_or_string(out, value),
        Item::Texts => leaf::write_texts(out, value),
        Item::Json => {
            leaf::write_json(out, value);
            true
        }
        Item::Boolean | Item::Int32 | Item::Int64 | Item::String | Item::Bytes => false,
    };
    if fits { Ok(()) } else { Err(unfit(field)) }
}

fn unfit(field: &Field) -> Error {
    Error::Unfit { field: field.name.to_owned() }
}
