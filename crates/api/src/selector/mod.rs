//! Label and field selectors: how they are written, what is wrong with a bad one, and which objects they choose.
//!
//! A label selector is a list of requirements, all of which hold; a field selector is a list of equalities on the few
//! fields that a [`Kind`](crate::kind::Kind) declares; a node selector is a list of terms of both. None knows where the objects
//! come from.

mod fields;
mod labels;
mod nodes;

use thiserror::Error;

pub use fields::{FieldSelector, values};
pub use labels::LabelSelector;
pub use nodes::{Anchor, NodeSelector, Terms};

/// Why a selector cannot be read. The text is what a client gets to see.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SelectorError(String);
