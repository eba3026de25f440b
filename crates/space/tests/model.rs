//! The register and the pool against naive models: long runs from seeds, and properties whose failures shrink.
//!
//! A run that fails prints its seed; `CADASTRE_SEED=17 cargo test -p space --test model NAME` repeats that one alone.

use std::ops::RangeInclusive;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any};
use proptest::proptest;
use testkit::choices::{Bytes, Seeded};
use testkit::{blocks, both, pool};

/// How many operations follow from one seed.
const OPERATIONS: usize = 1_000;
/// After how many of them everything is compared, and not only their results.
const OFTEN: usize = 8;

#[test]
fn a_long_run_on_ipv4_blocks_never_differs_from_the_model() {
    long_run(0..=199, |seeded| blocks::run_comparing::<u32>(seeded, OPERATIONS, OFTEN));
}

#[test]
fn a_long_run_on_ipv6_blocks_never_differs_from_the_model() {
    long_run(200..=399, |seeded| blocks::run_comparing::<u128>(seeded, OPERATIONS, OFTEN));
}

#[test]
fn a_long_run_on_ports_never_differs_from_the_model() {
    long_run(400..=599, |seeded| pool::run_comparing::<u16>(seeded, OPERATIONS, OFTEN));
}

#[test]
fn a_long_run_on_ipv4_addresses_never_differs_from_the_model() {
    long_run(600..=799, |seeded| pool::run_comparing::<u32>(seeded, OPERATIONS, OFTEN));
}

#[test]
fn a_long_run_on_ipv6_addresses_never_differs_from_the_model() {
    long_run(800..=999, |seeded| pool::run_comparing::<u128>(seeded, OPERATIONS, OFTEN));
}

#[test]
fn a_long_run_on_both_families_never_differs_from_the_model() {
    long_run(1_000..=1_099, |seeded| both::run(seeded, OPERATIONS));
}

proptest! {
    // What fails is printed, as small as it could be made; a file of old failures would only be noise in the tree.
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_on_ipv4_blocks_differs_from_the_model(bytes in vec(any::<u8>(), 0..600)) {
        blocks::run::<u32>(&mut Bytes(&bytes), usize::MAX);
    }

    #[test]
    fn no_sequence_on_ipv6_blocks_differs_from_the_model(bytes in vec(any::<u8>(), 0..600)) {
        blocks::run::<u128>(&mut Bytes(&bytes), usize::MAX);
    }

    #[test]
    fn no_sequence_on_ports_differs_from_the_model(bytes in vec(any::<u8>(), 0..600)) {
        pool::run::<u16>(&mut Bytes(&bytes), usize::MAX);
    }

    #[test]
    fn no_sequence_on_ipv4_addresses_differs_from_the_model(bytes in vec(any::<u8>(), 0..600)) {
        pool::run::<u32>(&mut Bytes(&bytes), usize::MAX);
    }

    #[test]
    fn no_sequence_on_ipv6_addresses_differs_from_the_model(bytes in vec(any::<u8>(), 0..600)) {
        pool::run::<u128>(&mut Bytes(&bytes), usize::MAX);
    }

    #[test]
    fn no_sequence_on_both_families_differs_from_the_model(bytes in vec(any::<u8>(), 0..600)) {
        both::run(&mut Bytes(&bytes), usize::MAX);
    }
}

/// Runs from every seed, or from the one that `CADASTRE_SEED` names.
fn long_run(seeds: RangeInclusive<u64>, run: impl Fn(&mut Seeded)) {
    let named = std::env::var("CADASTRE_SEED").ok().map(|seed| match seed.parse() {
        Ok(seed) => seed..=seed,
        Err(error) => panic!("CADASTRE_SEED={seed}: {error}"),
    });
    for seed in named.unwrap_or(seeds) {
        let _told = TellSeed(seed);
        run(&mut Seeded::new(seed));
    }
}

/// Says on the way out of a failure how to repeat it.
struct TellSeed(u64);

impl Drop for TellSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the run failed from this seed; repeat it alone with CADASTRE_SEED={}", self.0);
        }
    }
}
