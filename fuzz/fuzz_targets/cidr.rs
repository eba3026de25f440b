//! Any text gets an answer from both readers, the two agree, and what was read means the same when it is read again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::cidr(data));
