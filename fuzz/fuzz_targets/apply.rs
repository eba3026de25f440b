//! Any live object, configuration and `managedFields` get an answer, and so does what comes of them.
#![no_main]

#[path = "../../crates/api/tests/corpus/apply.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
