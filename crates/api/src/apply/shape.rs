//! `Shape`: what may stand at a place of an object, as far as applying goes: what is one thing, and what has parts with
//! owners of their own.
//!
//! The facts come from the schema tables. A structure, map or list that is atomic is one thing, whatever is in it.

use serde_json::{Value, json};

use super::element::Element;
use super::golang;
use crate::schema::{self, Definition, Field, ListKind, Type};

/// What may stand at a place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// One value without parts.
    Scalar(Scalar),
    /// Anything, as one thing.
    Anything,
    /// A structure or a map.
    Map {
        /// What it may hold.
        entries: Entries,
        /// Whether it is one thing.
        atomic: bool,
    },
    /// A list.
    List {
        /// The type of its items.
        items: &'static Type,
        /// What makes two items the same; if nothing does, the list is one thing.
        kind: &'static ListKind,
    },
}

/// What a value without parts may be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scalar {
    Text,
    Number,
    Truth,
    /// Any of them: amounts, times, ports.
    Any,
}

/// What a structure or a map may hold.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entries {
    /// The fields of a structure.
    Fields(&'static Definition),
    /// Values of one type under any name.
    Values(&'static Type),
}

impl Shape {
    /// That of objects of a kind.
    pub(super) fn root(definition: &'static Definition) -> Self {
        Self::Map { entries: Entries::Fields(definition), atomic: definition.atomic }
    }

    /// That of a value of a type, of which no field says more.
    pub(super) fn of(ty: &'static Type) -> Self {
        match ty {
            Type::String | Type::Bytes | Type::Duration => Self::Scalar(Scalar::Text),
            Type::Boolean => Self::Scalar(Scalar::Truth),
            Type::Int32 | Type::Int64 | Type::Double => Self::Scalar(Scalar::Number),
            Type::Time | Type::MicroTime | Type::Quantity | Type::IntOrString => Self::Scalar(Scalar::Any),
            Type::Json => Self::Anything,
            Type::Struct(_) => schema::resolve(ty).map_or(Self::Anything, Self::root),
            Type::Map(value) => Self::Map { entries: Entries::Values(value), atomic: false },
            Type::List(items) => Self::List { items, kind: &ListKind::Atomic },
        }
    }

    fn of_field(field: &'static Field) -> Self {
        match Self::of(&field.ty) {
            Self::Map { entries, atomic } => Self::Map { entries, atomic: atomic || field.atomic },
            Self::List { items, .. } => Self::List { items, kind: &field.list },
            other => other,
        }
    }

    /// What stands below it at an element, if it can have that.
    pub(super) fn below(self, element: &Element) -> Option<Self> {
        match (self, element) {
            (Self::Map { entries, .. }, Element::Field(name)) => entries.get(name),
            (Self::List { items, .. }, _) => Some(Self::of(items)),
            _ => None,
        }
    }

    /// Whether there is a structure that has a field of that name.
    pub(super) fn has_field(self, element: &Element) -> bool {
        match (self, element) {
            (Self::Map { entries, .. }, Element::Field(name)) => entries.is_field(name),
            _ => false,
        }
    }
}

impl Entries {
    /// What stands under a name; none if nothing may.
    pub(super) fn get(self, name: &str) -> Option<Shape> {
        match self {
            Self::Fields(definition) => definition.fields.get(name).map(Shape::of_field),
            Self::Values(ty) => Some(Shape::of(ty)),
        }
    }

    /// Whether it is the name of a field of a structure.
    pub(super) fn is_field(self, name: &str) -> bool {
        matches!(self, Self::Fields(definition) if definition.fields.contains_key(name))
    }
}

/// The element that leads to an item of a list whose items can be told apart, or why there is none.
pub(super) fn element(items: &'static Type, kind: &ListKind, item: &Value) -> Result<Element, String> {
    match (kind, item) {
        (ListKind::Map(keys), Value::Object(fields)) => {
            let definition = schema::resolve(items);
            let value = |key: &String| {
                let field = || definition.and_then(|definition| definition.fields.get(key));
                fields.get(key).cloned().or_else(|| absent(field()?))
            };
            let mut found: Vec<_> = keys.iter().filter_map(|key| Some((key.clone(), value(key)?))).collect();
            if found.is_empty() {
                let keys: Vec<String> = keys.iter().map(|key| golang::quoted(key)).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                     values for any key fields)",
                    keys.join(" ")
                ));
            }
            found.sort_by(|(one, _), (other, _)| one.cmp(other));
            Ok(Element::Key(found))
        }
        (ListKind::Map(_), Value::Null) => Err("associative list with keys may not have a null element".to_owned()),
        (ListKind::Map(_), _) => Err("associative list with keys may not have non-map elements".to_owned()),
        (_, Value::Object(_)) => Err("associative list without keys has an element that's a map type".to_owned()),
        (_, Value::Array(_)) => Err("not supported: associative list with lists as elements".to_owned()),
        (_, Value::Null) => Err("associative list without keys has an element that's an explicit null".to_owned()),
        (_, value) => Ok(Element::Value(value.clone())),
    }
}

/// What a key is where it is absent: its default, or the zero value of a field that Go always writes.
fn absent(field: &Field) -> Option<Value> {
    if field.default.is_some() || field.go.pointer || field.go.omitempty {
        return field.default.clone();
    }
    match field.ty {
        Type::String => Some(json!("")),
        Type::Boolean => Some(json!(false)),
        Type::Int32 | Type::Int64 | Type::Double => Some(json!(0)),
        _ => None,
    }
}

/// The items of a value that is a list; null is an empty one.
pub(super) fn items_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
