//! `cargo bench -p space --bench pool`: what single addresses and ports cost.
#![allow(clippy::unwrap_used, reason = "a benchmark that has to give up says where")]

mod fixture {
    pub(crate) mod pools;
}

use std::hint::black_box;

use criterion::Criterion;
use fixture::pools::Drawn;
use space::{Prefix, Range, Word};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    grants(&mut criterion);
    claims(&mut criterion);
    criterion.final_summary();
}

/// The usable addresses of an IPv4 prefix.
fn service(first: u32, length: u8) -> Range<u32> {
    Range::service(Prefix::new(first, length).unwrap()).unwrap()
}

/// A /12 of Services, full to so many parts in a thousand.
fn services(per_mille: u128) -> Drawn<u32> {
    Drawn::of([service(0x0a60_0000, 12)], per_mille)
}

/// A random point granted and given back.
fn grants(criterion: &mut Criterion) {
    for (name, per_mille) in [("50 %", 500), ("99.9 %", 999)] {
        grant(criterion, &format!("1 range {name}"), || services(per_mille));
        let ranges = || (0..1_000).map(|range| service(10 << 24 | range << 12, 22));
        grant(criterion, &format!("1,000 ranges {name}"), || Drawn::of(ranges(), per_mille));
        let ports = Range::ports(30_000, 32_767).unwrap();
        grant(criterion, &format!("ports {name}"), || Drawn::of([ports], per_mille));
    }
    let v6 = Range::whole(Prefix::new(0x2001_0db8_u128 << 96, 64).unwrap()).unwrap();
    grant(criterion, "IPv6 /64 with 100k claims", || Drawn::with_claims([v6], 100_000));
}

fn grant<P: Word>(criterion: &mut Criterion, name: &str, drawn: impl Fn() -> Drawn<P>) {
    criterion.bench_function(&format!("grant and release/{name}"), |bencher| {
        let mut drawn = drawn();
        bencher.iter(|| drawn.turn());
    });
}

/// What is done with a point that is known.
fn claims(criterion: &mut Criterion) {
    let Drawn { mut pool, .. } = services(500);
    let free = (0x0a60_8000..0x0a61_0000).find(|point| !pool.is_claimed(*point)).unwrap();
    criterion.bench_function("rank", |bencher| bencher.iter(|| pool.rank(black_box(free))));
    criterion.bench_function("claim and release", |bencher| {
        bencher.iter(|| {
            pool.claim(black_box(free)).unwrap();
            pool.release(free).unwrap();
        });
    });
}
