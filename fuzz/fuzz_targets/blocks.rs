//! Any sequence of operations on a register ends like the same one on the naive register. The first byte is the family,
//! or both families.
#![no_main]

use libfuzzer_sys::fuzz_target;
use testkit::choices::Bytes;
use testkit::{blocks, both};

fuzz_target!(|bytes: &[u8]| {
    let Some((family, rest)) = bytes.split_first() else { return };
    match family % 3 {
        0 => blocks::run::<u32>(&mut Bytes(rest), usize::MAX),
        1 => blocks::run::<u128>(&mut Bytes(rest), usize::MAX),
        _ => both::run(&mut Bytes(rest), usize::MAX),
    }
});
