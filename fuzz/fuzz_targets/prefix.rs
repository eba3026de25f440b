//! Any arguments, impossible ones as well, get an answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::prefix(data));
