//! The controllers at work, against a server in this process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that finds nothing to unwrap has failed")]

mod events;
mod fixture;
mod leading;
mod nodes;
mod slices;
