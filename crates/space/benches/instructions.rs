//! What `cargo xtask instructions` counts: works of a few thousand operations each, with a part that is counted.
//!
//! `instructions WORK` runs that work; without a name all of them run, as a check that they still can. Prints each work
//! that ran and its number of operations. Nothing here may depend on the clock, a hash seed or an address, or the counts
//! would not repeat.
#![allow(clippy::unwrap_used, reason = "a work that has to give up says where")]

mod fixture {
    pub(crate) mod blocks;
    pub(crate) mod pools;
}

use std::hint::black_box;

use fixture::blocks::{Churn, fill, mixed, v4, v6};
use fixture::pools::Drawn;
use space::{Address, Cidr, Fit, Prefix, Range, Register, View};

/// Prepares and runs a work of so many operations.
type Run = fn(u32);

const WORKS: &[(&str, u32, Run)] = &[
    ("grant-v4", 4_096, |operations| grant(v4("10.0.0.0/8"), 24, operations)),
    ("grant-v6", 4_096, |operations| grant(v6("2001:db8::/48"), 64, operations)),
    ("grant-view", 4_096, grant_view),
    ("release-all", 4_096, release_all),
    ("churn-50", 4_096, |operations| churn(50, operations)),
    ("churn-99", 4_096, |operations| churn(99, operations)),
    ("first-past-5000", 4_096, first_past_5000),
    ("occupy-overlaps", 4_096, occupy_overlaps),
    ("pool-99.9", 4_096, |operations| draw(1, 16, operations)),
    ("pool-1000-ranges", 4_096, |operations| draw(1_000, 26, operations)),
    ("parse-strict", 4_096, parse_strict),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--bench") {
        // `cargo bench` starts every bench target, and there is nothing here for the clock.
        return;
    }
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == name);
    let works: Vec<_> = WORKS.iter().filter(|(name, ..)| wanted(name)).collect();
    assert!(!works.is_empty(), "there is no such work");
    for (name, operations, run) in works {
        run(*operations);
        println!("{name} {operations}");
    }
}

/// The part that is counted: callgrind begins to count where this function begins and ends where it ends. Neither generic
/// nor inlined, so that there is exactly one function of this name.
#[inline(never)]
fn measured(part: &mut dyn FnMut()) {
    part();
}

fn grant<A: Address>(range: Prefix<A>, length: u8, operations: u32) {
    let mut register = Register::new();
    measured(&mut || fill(&mut register, range, length, operations));
}

fn grant_view(operations: u32) {
    let mut register = Register::new();
    let view = register.add_view(View::new(v4("10.0.0.0/8"), 24, &[v4("10.0.7.0/24")]).unwrap());
    measured(&mut || {
        for owner in 0..operations {
            register.grant(view, 24, Fit::Best, owner).unwrap();
        }
    });
}

fn release_all(operations: u32) {
    let mut churn = Churn::of(&vec![24; operations as usize]);
    measured(&mut || {
        for (block, owner) in churn.blocks.iter().zip(0..) {
            churn.register.release(*block, &owner).unwrap();
        }
    });
}

fn churn(percent: u64, operations: u32) {
    let mut churn = Churn::of(&mixed(percent));
    measured(&mut || (0..operations).for_each(|_| churn.turn()));
}

/// The lowest free /26, when the first 5,000 /24 are taken.
fn first_past_5000(operations: u32) {
    let range = v4("10.0.0.0/8");
    let mut register = Register::new();
    fill(&mut register, range, 24, 5_000);
    measured(&mut || {
        for owner in 0..operations {
            register.grant_within(range, 26, Fit::First, owner).unwrap();
        }
    });
}

/// Blocks that are taken already: the same, half of it and twice as much, in turn.
fn occupy_overlaps(operations: u32) {
    let Churn { mut register, blocks, .. } = Churn::of(&vec![24; operations as usize]);
    let over = |(block, length): (Prefix<u32>, u8)| Prefix::enclosing_address(block.first(), length).unwrap();
    let overlapping: Vec<_> = blocks.into_iter().zip([24, 25, 23].into_iter().cycle()).map(over).collect();
    measured(&mut || {
        for block in &overlapping {
            register.occupy(*block, u32::MAX);
        }
    });
}

/// A point from a pool that is full to one part in a thousand, granted and given back.
fn draw(ranges: u32, length: u8, operations: u32) {
    let range = |number: u32| Range::service(Prefix::new(10 << 24 | number << 16, length).unwrap()).unwrap();
    let mut drawn = Drawn::of((0..ranges).map(range), 999);
    measured(&mut || (0..operations).for_each(|_| drawn.turn()));
}

fn parse_strict(operations: u32) {
    let texts = ["10.96.0.0/12", "2001:db8:7:42::/64", "192.0.2.128/25", "fd00:10:244::/56"];
    measured(&mut || {
        for text in texts.iter().cycle().take(operations as usize) {
            Cidr::strict(black_box(text)).unwrap();
        }
    });
}
