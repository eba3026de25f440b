//! `Shape`: what the schema says about the value that a strategic merge patch is at, and where it leads next.

use api::schema::{self, Definition, Field, Patch, Type};
use serde_json::Value;

use super::PatchError;

/// The schema of a value.
#[derive(Clone, Copy)]
pub(super) enum Shape<'a> {
    /// An object with declared fields.
    Struct(&'a Definition),
    /// Anything else.
    Other(&'a Type),
}

impl<'a> Shape<'a> {
    /// The declared field of that name, in any case, and its patch rules.
    fn field(self, name: &str) -> Result<&'a Field, PatchError> {
        let definition = match self {
            Self::Struct(definition) => definition,
            Self::Other(_) => {
                return Err(PatchError::Contradiction(format!(
                    "merging an object in json but data type is not struct, instead is: {}",
                    self.sort()
                )));
            }
        };
        let folded = || definition.fields.values().find(|field| field.name.eq_ignore_ascii_case(name));
        definition.fields.get(name).or_else(folded).ok_or_else(|| {
            let own = definition.name.rsplit('.').next().unwrap_or_default();
            let quoted = Value::from(name);
            PatchError::Contradiction(format!("unable to find api field in struct {own} for the json field {quoted}"))
        })
    }

    /// The shape of the object under that name, and how it is patched.
    pub(super) fn object(self, name: &str) -> Result<(Shape<'a>, &'a Patch), PatchError> {
        let field = self.field(name)?;
        Ok((Self::of(&field.ty), &field.patch))
    }

    /// The shape of the items in the list under that name, and how the list is patched.
    pub(super) fn items(self, name: &str) -> Result<(Shape<'a>, &'a Patch), PatchError> {
        let field = self.field(name)?;
        match &field.ty {
            Type::List(item) if matches!(**item, Type::List(_)) => {
                Err(PatchError::Contradiction("unexpected slice of slice".to_owned()))
            }
            Type::List(item) => Ok((Self::of(item), &field.patch)),
            _ => Err(PatchError::Contradiction(format!("expected slice or array type, but got: {}", self.sort()))),
        }
    }

    /// The sort of type that it is, in the words of the texts that clients get to see.
    pub(super) fn sort(self) -> &'static str {
        match self {
            Self::Struct(_) => "struct",
            Self::Other(ty) => match ty {
                Type::String => "string",
                Type::Boolean => "bool",
                Type::Int32 => "int32",
                Type::Int64 => "int64",
                Type::Double => "float64",
                Type::Bytes | Type::List(_) => "slice",
                Type::Map(_) => "map",
                _ => "struct",
            },
        }
    }

    fn of(ty: &'a Type) -> Self {
        match schema::resolve(ty) {
            Some(definition) => Self::Struct(definition),
            None => Self::Other(ty),
        }
    }
}
