//! The agent at work against a real server in this process, with the plugin as a runtime calls it, on files of its own.

#![allow(clippy::unwrap_used, reason = "a test that has to give up says where")]

#[path = "../../../controllers/tests/live/fixture.rs"]
#[allow(dead_code, reason = "the controllers' tests use more of it")]
mod fixture;
mod foreign;
mod machine;
mod mirror;
mod outage;
mod relay;
mod shared;
mod slices;
