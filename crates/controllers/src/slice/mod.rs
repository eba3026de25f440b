//! Slices: gives every node a slice of each network that is cut, and takes back what nodes leave behind.
//!
//! - `decide` says who should have which slices of a network: a function of what is stored;
//! - `layout` says which object to write next so that this is what is stored;
//! - `plan` takes in what happened and says what should be written, looked at and told;
//! - `shared` is about the pools of ranges that are not cut, whose pods have addresses too, and `orphans` about entries there of pods
//!   that are gone;
//! - `execute` watches and writes, `duty` says when, and `meters` show what came of it.

pub mod decide;
pub mod definition;
pub mod duty;
pub mod execute;
pub mod intent;
pub mod layout;
pub mod meters;
mod network;
pub mod node;
pub mod orphans;
pub mod plan;
pub mod shared;

pub use node::Node;
pub use plan::Plan;
