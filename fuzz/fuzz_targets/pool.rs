//! Any sequence of operations on a pool ends like the same one on the naive pool. The first byte is the kind of points.
#![no_main]

use libfuzzer_sys::fuzz_target;
use testkit::choices::Bytes;
use testkit::pool;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else { return };
    match kind % 3 {
        0 => pool::run::<u16>(&mut Bytes(rest), usize::MAX),
        1 => pool::run::<u32>(&mut Bytes(rest), usize::MAX),
        _ => pool::run::<u128>(&mut Bytes(rest), usize::MAX),
    }
});
