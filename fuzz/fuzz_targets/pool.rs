//! Any sequence of operations on a pool ends like the same one on the naive pool.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::pool(data));
