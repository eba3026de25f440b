//! The node agent: brings a node its slices, shows the API who holds which address, and gives back what was lost on the way.
//!
//! Pods do not wait for it. The plugin gives addresses out of the slices in the file `grants` and writes them into its journal; the agent
//! writes the one and reads the other, and may be away for hours.
//!
//! - [`grants`]: which slices the plugin may use;
//! - [`mirror`], [`pool`], [`address`]: what `IPPool`s should say, and what others say in them;
//! - [`reservations`]: the same for single addresses;
//! - [`reclaim`]: what nobody uses any more;
//! - [`survivors`]: what has an address of pools that all nodes share though its pod is gone;
//! - [`asks`]: more slices, and slices that drained;
//! - [`network`], [`plan`]: all of it for one network, and for the node;
//! - [`execute`]: the rim, which watches, reads files and writes;
//! - [`relay`]: a socket on the node through which the plugin reaches the API server;
//! - [`meters`]: what is counted.
//!
//! Nothing but `execute` and `relay` does I/O.

pub mod address;
pub mod asks;
pub mod execute;
pub mod grants;
pub mod meters;
pub mod mirror;
pub mod network;
pub mod plan;
pub mod pool;
pub mod reclaim;
pub mod relay;
pub mod reservations;
pub mod survivors;
#[cfg(test)]
mod tests;
