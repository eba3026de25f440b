//! Our half of `cargo xtask bench space`.
//!
//! Fills are measured on the bare register and through a view that keeps counts. Owners are numbers, as in a controller
//! that keeps its own table of nodes; where bytes are measured, they are names, and the names count.

use std::sync::Arc;

use anyhow::{Context, Result};
use space::{Address, Fit, Pool, Prefix, Range, Register, View};

use super::heap::held;
use super::measure::{Measured, batches, fresh};

/// How many blocks every fill grants.
pub(super) const FILL: u32 = 1 << 16;
/// Blocks are released and granted again this many at a time between two looks at the clock.
const BATCH: u32 = 64;
/// The sizes that churn mixes.
const MIXED: std::ops::RangeInclusive<u8> = 20..=28;

pub(super) fn fill_v4() -> Result<Measured> {
    let range = Prefix::new(10_u32 << 24, 8)?;
    let names = || (0..FILL).map(|node| Arc::from(format!("node-{node:05}"))).collect::<Vec<Arc<str>>>();
    let (register, bytes) = held(|| {
        let mut register = Register::new();
        for name in names() {
            register.grant_within(range, 24, Fit::Best, name)?;
        }
        Ok(register)
    })?;
    drop(register);
    Ok(fill(range, 24)?.with_bytes(bytes))
}

/// The same through a view that keeps counts and excludes what a Service range would take.
pub(super) fn fill_v4_view() -> Result<Measured> {
    let (range, service) = (Prefix::new(10_u32 << 24, 8)?, Prefix::new(0x0a60_0000_u32, 16)?);
    let view = View::new(range, 24, &[service])?;
    let blocks = FILL - (1 << 8);
    fresh(
        blocks,
        || {
            let mut register = Register::<u32, u32>::new();
            let view = register.add_view(view.clone());
            Ok((register, view))
        },
        |(register, view)| {
            for owner in 0..blocks {
                register.grant(*view, 24, Fit::Best, owner)?;
            }
            Ok(())
        },
    )
}

pub(super) fn fill_v6() -> Result<Measured> {
    fill(Prefix::new(0x2001_0db8_u128 << 96, 48)?, 64)
}

pub(super) fn fill_v6_deep() -> Result<Measured> {
    fill(Prefix::new(0x2001_0db8_u128 << 96, 32)?, 120)
}

fn fill<A: Address>(range: Prefix<A>, length: u8) -> Result<Measured> {
    fresh(
        FILL,
        || Ok(Register::<A, u32>::new()),
        |register| {
            for owner in 0..FILL {
                register.grant_within(range, length, Fit::Best, owner)?;
            }
            Ok(())
        },
    )
}

/// The first /26 of a /8 in which another range has taken 5,000 /24s from the start: by first fit, which has to get past
/// all of them.
pub(super) fn first_past_5000() -> Result<Measured> {
    let range = Prefix::new(10_u32 << 24, 8)?;
    let mut register = Register::<u32, u32>::new();
    for owner in 0..5_000 {
        register.grant_within(range, 24, Fit::First, owner)?;
    }
    let grant = |register: &mut Register<u32, u32>| {
        let first = register.grant_within(range, 26, Fit::First, u32::MAX)?;
        Ok(first)
    };
    let release = |register: &mut Register<u32, u32>, first: Prefix<u32>| Ok(register.release(first, &u32::MAX)?);
    batches(&mut register, 1, grant, release)
}

pub(super) fn churn_empty() -> Result<Measured> {
    // One block of each size: as empty as a register can be that has something of each size to release.
    churn(MIXED)
}

pub(super) fn churn_50() -> Result<Measured> {
    churn(mixed_up_to(50))
}

pub(super) fn churn_99() -> Result<Measured> {
    churn(mixed_up_to(99))
}

/// Block lengths that fill a /8 to so many parts in a hundred. Each comes up with the same chance.
fn mixed_up_to(percent: u64) -> impl Iterator<Item = u8> {
    let mut random = Random::new();
    let mut left = (1 << 24) * percent / 100;
    std::iter::from_fn(move || {
        let fitting = MIXED.filter(|length| 1 << (32 - length) <= left);
        let fitting: Vec<u8> = fitting.collect();
        let length = *fitting.get(random.below(fitting.len() as u64) as usize)?;
        left -= 1 << (32 - length);
        Some(length)
    })
}

/// Releases a random block and grants one of its size, in a /8 with blocks of these lengths.
fn churn(lengths: impl Iterator<Item = u8>) -> Result<Measured> {
    let range = Prefix::new(10_u32 << 24, 8)?;
    let mut register = Register::<u32, u32>::new();
    let mut blocks = Vec::new();
    for length in lengths {
        blocks.push(register.grant_within(range, length, Fit::Best, blocks.len() as u32)?);
    }
    let mut random = Random::new();
    let turns = |(register, blocks): &mut (Register<u32, u32>, Vec<Prefix<u32>>)| {
        for _ in 0..BATCH {
            let at = random.below(blocks.len() as u64) as usize;
            register.release(blocks[at], &(at as u32))?;
            blocks[at] = register.grant_within(range, blocks[at].length(), Fit::Best, at as u32)?;
        }
        Ok(())
    };
    batches(&mut (register, blocks), BATCH, turns, |_, ()| Ok(()))
}

pub(super) fn grants_1k() -> Result<Measured> {
    grants(1_000)
}

pub(super) fn grants_1m() -> Result<Measured> {
    grants(1_000_000)
}

/// So many /28 of a /8, each grant counted.
fn grants(number: u32) -> Result<Measured> {
    let range = Prefix::new(10_u32 << 24, 8)?;
    // The same number of grants on the clock in both cases.
    let registers = 1_000_000 / number;
    fresh(
        number * registers,
        || Ok((0..registers).map(|_| Register::<u32, u32>::new()).collect::<Vec<_>>()),
        |registers| {
            for register in registers {
                for owner in 0..number {
                    register.grant_within(range, 28, Fit::Best, owner)?;
                }
            }
            Ok(())
        },
    )
}

pub(super) fn random_full() -> Result<Measured> {
    let mut pool = Pool::new();
    pool.add_range(Range::service(Prefix::new(0x0a60_0000_u32, 12)?)?);
    random_addresses(pool, 1_000)
}

pub(super) fn random_1000_ranges() -> Result<Measured> {
    let mut pool = Pool::new();
    for range in 0..1_000 {
        pool.add_range(Range::service(Prefix::new(10_u32 << 24 | range << 10, 22)?)?);
    }
    random_addresses(pool, 1_000)
}

/// Grants of random addresses from a pool that is filled up to one part in `free_part`.
fn random_addresses(mut pool: Pool<u32>, free_part: u128) -> Result<Measured> {
    let mut random = Random::new();
    let (dynamic, band) = pool.free();
    let left = (dynamic + band) / free_part;
    while pool.free().0 + pool.free().1 > left {
        pool.grant(|| random.bits())?;
    }
    let grant = |pool: &mut Pool<u32>| -> Result<Vec<u32>> {
        // Collected without growing: one allocation for the whole batch.
        let mut granted = Vec::with_capacity(BATCH as usize);
        for _ in 0..BATCH {
            granted.push(pool.grant(|| random.bits()).context("the pool is full")?);
        }
        Ok(granted)
    };
    let release = |pool: &mut Pool<u32>, granted: Vec<u32>| {
        granted.into_iter().try_for_each(|address| Ok(pool.release(address)?))
    };
    batches(&mut pool, BATCH, grant, release)
}

/// The same numbers in every run.
struct Random(u64);

impl Random {
    fn new() -> Self {
        Self(0x5eed)
    }

    fn bits(&mut self) -> u64 {
        // xorshift64*: short, and good enough to jump about in memory.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}
