//! The HTTP surface, through a server in this process: every test has a store of its own in a folder of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that finds nothing to unwrap has failed")]

mod answers;
mod apply;
mod deletes;
mod discovery;
mod fixture;
mod limits;
mod lists;
mod pods;
mod protobuf;
mod reviews;
mod statuses;
mod watches;
mod writes;
