//! Node IPAM: every node gets a block of pod addresses, of each family that its range has.
//!
//! Where a node's block comes from, [`ClusterCidr`](api::kinds::ClusterCidr)s say: which nodes they are for, from which ranges, and
//! how large a block is. Whose a block is, the addresses say, whatever ranges and labels there are: `spec.podCIDRs` of the nodes is
//! the only truth, and everything here can be rebuilt from it.
//!
//! - [`trimmed`]: what is kept of a Node;
//! - [`selection`]: which ranges serve a node, in which order;
//! - [`range`]: a `ClusterCIDR` as it is known, and the size of the block that it would give a node;
//! - [`index`]: all of it side by side: who holds what, what is free, where a node could get a block;
//! - `waiting`: the nodes that could not be served, and what they wait for;
//! - [`plan`]: what happened goes in, what should be written ([`intent`]) comes out;
//! - [`waybill`]: what is on its way to nodes, so that no second controller gives it to others;
//! - [`status`]: what is told of a range;
//! - [`flags`]: the range that flags say;
//! - [`meters`]: what is counted.
//!
//! Nothing of that does I/O or reads a clock: time is an argument. [`execute`] is the rim that does, and [`duty`] is who acts: alone,
//! or while a Lease is held.

pub mod duty;
pub mod execute;
pub mod flags;
pub mod index;
pub mod intent;
pub mod meters;
pub mod plan;
pub mod range;
pub mod selection;
pub mod status;
mod sticky;
pub mod trimmed;
mod waiting;
pub mod waybill;

pub use plan::Plan;
pub use trimmed::Node;
