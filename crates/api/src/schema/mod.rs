//! The fields of every kind: their types, their numbers and how lists of them merge.
//!
//! Two tables hold the facts: `builtin.table`, which `cargo xtask generate schema` makes from the Go types of the built-in
//! kinds, and `own.table`, which is written by hand. What a request may hold is checked here by the tables, and brought to
//! the one form that is stored; what the values mean is the kinds' business. What is said of the fields, for people who ask,
//! is in `descriptions`.
//!
//! A body goes through here like this: [`parse`] reads it, [`check`] says whether it can be what it says it is,
//! [`prune`] drops what no field can hold, the kind fills in defaults and validates ([`validate`] first, for kinds without
//! a Go type), and [`canonical`] brings it to the form that is stored.

mod check;
mod descriptions;
mod form;
mod parse;
mod table;
pub(crate) mod time;
mod told;
mod validate;
mod walk;

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

pub use check::{Fault, check};
pub(crate) use descriptions::Descriptions;
pub use form::{canonical, prune};
pub use parse::{Parsed, parse};
pub use table::{Definition, Field, Fields, Go, Inlined, ListKind, Patch, Table, TableError, Type};
pub use told::Told;
pub use validate::validate;

static TABLE: LazyLock<Table> =
    LazyLock::new(|| match Table::parse(&[include_str!("builtin.table"), include_str!("own.table")]) {
        Ok(table) => table,
        Err(error) => unreachable!("the tables are part of this program, and a test reads them: {error}"),
    });

/// The definition of that name: `io.k8s.api.core.v1.ServicePort`.
pub fn definition(name: &str) -> Option<&'static Definition> {
    TABLE.named(name)
}

/// All definitions, in the order of their names: [`Type::Struct`] holds a place among them.
pub(crate) fn definitions() -> &'static [Definition] {
    TABLE.definitions()
}

/// The definition that a [`Type::Struct`] refers to.
pub fn resolve(ty: &Type) -> Option<&'static Definition> {
    match ty {
        Type::Struct(index) => TABLE.definitions().get(*index),
        _ => None,
    }
}

/// Whether the definition is that of `metadata`, which has a Go type in every kind.
pub(crate) fn is_metadata(definition: &Definition) -> bool {
    definition.name == "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
}
