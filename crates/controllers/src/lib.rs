//! What acts on objects by itself. Each controller is a folder: an index of what is there, a plan of what to do about it, both
//! pure, and the rim that watches and writes.

pub mod election;
pub mod events;
pub mod follow;
pub mod lead;
mod lean;
pub mod node;
pub mod slice;
pub mod trouble;
pub mod within;
pub mod writer;
