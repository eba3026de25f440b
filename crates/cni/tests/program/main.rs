//! The plugin as a runtime starts it: the real program with its environment and stdin, and the files that it leaves.

#![allow(clippy::unwrap_used, reason = "a test that has to give up says where")]

mod addresses;
mod cluster;
mod faults;
mod harness;
mod model;
mod protocol;
mod shared;
mod shared_faults;
