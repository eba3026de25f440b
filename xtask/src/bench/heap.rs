//! How many bytes of heap a structure holds.
//!
//! `stats_alloc` (MIT, no dependencies) counts what passes through the system's allocator; writing that ourselves would
//! need unsafe code. It counts the bytes that were asked for; Go's figure for the peers includes the rounding of its
//! allocator. The count costs a few nanoseconds for each allocation, to our disadvantage.

use std::alloc::System;

use anyhow::Result;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What `build` returns, and the heap that it holds: all that was requested meanwhile and not given back.
///
/// The counters are the whole process's: nothing else may allocate at the same time.
pub(super) fn held<T>(build: impl FnOnce() -> Result<T>) -> Result<(T, u64)> {
    let region = Region::new(HEAP);
    let structure = build()?;
    let change = region.change();
    Ok((structure, change.bytes_allocated.saturating_sub(change.bytes_deallocated) as u64))
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn what_is_held_is_counted_and_what_was_dropped_is_not() {
        // Other tests allocate on other threads meanwhile: little beside this, which no page of memory is touched for.
        const HELD: usize = 1 << 30;
        let (kept, bytes) = held(|| {
            drop(black_box(Vec::<u8>::with_capacity(HELD)));
            let mut grown = black_box(Vec::<u8>::with_capacity(HELD / 2));
            grown.reserve_exact(HELD);
            Ok(grown)
        })
        .unwrap();
        assert!(bytes.abs_diff(HELD as u64) < HELD as u64 / 4, "{bytes}");
        assert_eq!(black_box(kept).capacity(), HELD);
    }
}
