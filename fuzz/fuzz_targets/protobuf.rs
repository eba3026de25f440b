//! Any bytes are refused or read, and what was read can be written and is read the same again.
#![no_main]

#[path = "../../crates/api/tests/corpus/protobuf.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
