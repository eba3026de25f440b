//! Node IPAM without a runtime: a world of objects, the plan, and what comes of both.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that finds nothing to unwrap has failed")]

mod allocation;
mod bugs;
mod dice;
mod order;
mod random;
mod statuses;
mod two;
mod world;
