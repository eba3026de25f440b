//! Slices as a plan, without a server: what is granted, to whom, when it goes to others, and what is told.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that finds nothing to unwrap has failed")]

mod bugs;
mod change;
#[path = "../node/dice.rs"]
mod dice;
mod grants;
mod lost;
mod news;
mod orphans;
mod random;
mod scale;
mod shared;
mod world;
