//! Networks whose nodes have slices: what a `NetworkAttachmentDefinition` says of one, what a `NodeSlicePool` says of its slices,
//! and the words between those who grant slices and those who use them.
//!
//! Who grants and who uses are different programs; both read and write through this module, so that they mean the same.

mod network;
mod pool;
mod usable;

pub use network::{Fault, SlicedNetwork, SlicedRange, Slicing, named_ranges};
pub use pool::{
    ASKS, Ask, CHANGED, DEFINITIONS, Entry, GATEWAYS, NETWORK_NAME, OVERLAPPING, RANGES, SHARD_OF, SlicePool, held_on,
    held_on_nodes, holders, ip_pool_name, latest, reservation_name, reserved_address, shared_pool_name,
};
