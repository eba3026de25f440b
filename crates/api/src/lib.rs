//! Every resource kind that Cadastre serves, one file each: its names, defaults, validation, printer columns and schema.
//!
//! Pure: objects come in as values and go out as values. Nothing here knows of HTTP, of a store or of a clock; a time that
//! is needed is an argument.

pub mod apply;
#[cfg(test)]
mod at_work;
pub mod crd;
mod encoded;
pub mod field;
pub mod json;
pub mod kind;
pub mod kinds;
pub mod meta;
pub mod names;
pub mod object;
pub mod openapi;
pub mod printing;
pub mod protobuf;
pub mod quantity;
mod reading;
pub mod row;
pub mod schema;
pub mod selector;
pub mod slices;

pub use field::{Error as FieldError, Errors, Path};
pub use kind::{Column, Kind, Scope};
pub use object::Object;
pub use row::{Cell, Row};
