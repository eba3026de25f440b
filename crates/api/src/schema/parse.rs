//! Reading a body once: its value, and the fields that are in it twice.
//!
//! A JSON value keeps the last of two equal names and forgets that there were two; whoever wants to be told has to look
//! while the text is read.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use super::check::quoted;
use super::resolve;
use super::table::{Definition, Type};
use super::told::Told;
use super::walk::{Step, Way};

/// A body that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// What it says. Of fields that are there twice, the last one.
    pub value: Value,
    /// `duplicate field "metadata.labels.a"`, for each field that is there twice. Whether that matters is the request's to
    /// say.
    pub duplicates: Vec<String>,
}

/// Reads the JSON body of an object of that structure.
pub fn parse(root: &Definition, json: &[u8]) -> Result<Parsed, serde_json::Error> {
    let mut duplicates = Told::default();
    let shape = if root.custom { Shape::Anything } else { Shape::Structure(root) };
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = Seed { shape, way: None, duplicates: &mut duplicates }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(Parsed { value, duplicates: duplicates.into_texts() })
}

/// What is being read, as far as duplicates go.
#[derive(Clone, Copy)]
enum Shape<'a> {
    /// A structure. What is below a field that it does not have is skipped.
    Structure(&'a Definition),
    /// A value of a type.
    Typed(&'a Type),
    /// Something without a Go type: everything counts.
    Anything,
    /// Something that is kept as it comes: nothing counts.
    Skipped,
}

impl<'a> Shape<'a> {
    fn of(ty: &'a Type) -> Self {
        match ty {
            Type::Struct(_) => resolve(ty).map_or(Self::Skipped, Self::Structure),
            Type::List(_) | Type::Map(_) => Self::Typed(ty),
            _ => Self::Skipped,
        }
    }

    fn under(self, name: &str) -> Self {
        match self {
            Self::Structure(definition) => match definition.fields.get(name) {
                Some(field) => Self::of(&field.ty),
                None => Self::Skipped,
            },
            Self::Typed(Type::Map(value)) => Self::of(value),
            Self::Anything => Self::Anything,
            Self::Typed(_) | Self::Skipped => Self::Skipped,
        }
    }

    fn item(self) -> Self {
        match self {
            Self::Typed(Type::List(item)) => Self::of(item),
            Self::Anything => Self::Anything,
            _ => Self::Skipped,
        }
    }

    fn counts(self, name: &str) -> bool {
        match self {
            Self::Structure(definition) => definition.fields.contains_key(name),
            Self::Typed(ty) => matches!(ty, Type::Map(_)),
            Self::Anything => true,
            Self::Skipped => false,
        }
    }
}

struct Seed<'a> {
    shape: Shape<'a>,
    way: Option<&'a Way<'a>>,
    duplicates: &'a mut Told,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let way = Way::new(self.way, Step::Item(list.len()));
            let seed = Seed { shape: self.shape.item(), way: Some(&way), duplicates: &mut *self.duplicates };
            let Some(item) = items.next_element_seed(seed)? else { return Ok(Value::Array(list)) };
            list.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let shape = self.shape.under(&name);
            let way = Way::new(self.way, Step::Key(&name));
            let value = entries.next_value_seed(Seed { shape, way: Some(&way), duplicates: &mut *self.duplicates })?;
            match fields.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    if self.shape.counts(entry.key()) {
                        let path = || Way::new(self.way, Step::Key(entry.key())).path();
                        self.duplicates.say(|| format!("duplicate field {}", quoted(&path())));
                    }
                    entry.insert(value);
                }
            }
        }
        Ok(Value::Object(fields))
    }
}
