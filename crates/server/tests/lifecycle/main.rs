//! What the server does by itself, through a server in this process that tends its store.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that finds nothing to unwrap has failed")]

mod events;
#[path = "../surface/fixture.rs"]
#[allow(dead_code, reason = "it is shared, and has more than these tests need")]
mod fixture;
mod namespaces;
mod owners;
mod published;
mod several;
mod tended;
