//! Any object and any patch get an answer, and so does what comes of them.
//!
//! Patches are private to the server, and pure: the modules are read from there, so that a run need not build the server.
#![no_main]

#[path = "../../crates/server/src/machinery/document/mod.rs"]
#[allow(dead_code, reason = "the server needs more of it")]
mod document;
#[path = "../../crates/server/src/machinery/patch/mod.rs"]
#[allow(dead_code, reason = "the server needs more of it")]
mod patch;

#[path = "../../crates/server/src/machinery/patch/tests/any.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
