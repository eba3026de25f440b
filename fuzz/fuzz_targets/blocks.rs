//! Any sequence of operations on a register ends like the same one on the naive register.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::blocks(data));
