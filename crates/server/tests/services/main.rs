//! Services, and what they are given: through a server in this process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that finds nothing to unwrap has failed")]

mod bugs;
mod cluster;
mod creates;
#[path = "../surface/fixture.rs"]
#[allow(dead_code, reason = "it is shared, and has more than these tests need")]
mod fixture;
mod flags;
mod grants;
mod many;
mod ranges;
mod repairs;
mod room;
mod several;
#[path = "../lifecycle/tended.rs"]
#[allow(dead_code, reason = "it is shared, and has more than these tests need")]
mod tended;
mod updates;
