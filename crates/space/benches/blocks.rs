//! `cargo bench -p space --bench blocks`: what the operations on blocks cost, and reading their texts.
#![allow(clippy::unwrap_used, reason = "a benchmark that has to give up says where")]

mod fixture {
    pub(crate) mod blocks;
}

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput};
use fixture::blocks::{Churn, fill, mixed, v4, v6};
use space::{Address, Cidr, Fit, Prefix, Register, View};

/// How many blocks a fill grants: all that its range has.
const FILL: u32 = 1 << 16;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    fills(&mut criterion, "v4", v4("10.0.0.0/8"), 24);
    fills(&mut criterion, "v6", v6("2001:db8::/48"), 64);
    churns(&mut criterion);
    questions(&mut criterion);
    texts(&mut criterion);
    criterion.final_summary();
}

/// Each grant of a fill, on the bare register and from a view that keeps count.
fn fills<A: Address>(criterion: &mut Criterion, family: &str, range: Prefix<A>, length: u8) {
    let mut group = criterion.benchmark_group("grant in a fill");
    group.throughput(Throughput::Elements(FILL.into()));
    group.bench_function(family, |bencher| {
        let fill = |register: &mut Register<A, u32>| fill(register, range, length, FILL);
        bencher.iter_batched_ref(Register::new, fill, BatchSize::PerIteration);
    });
    group.bench_function(format!("{family} with a view"), |bencher| {
        let new = || {
            let mut register = Register::<A, u32>::new();
            let view = register.add_view(View::new(range, length, &[]).unwrap());
            (register, view)
        };
        let fill = |(register, view): &mut (Register<A, u32>, _)| {
            for owner in 0..FILL {
                register.grant(*view, length, Fit::Best, owner).unwrap();
            }
        };
        bencher.iter_batched_ref(new, fill, BatchSize::PerIteration);
    });
}

/// A random block released and one of its size granted.
fn churns(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("release and grant");
    let mut measure = |name: &str, lengths: &[u8]| {
        // Inside, so that it is made only if the benchmark is asked for.
        group.bench_function(name, |bencher| {
            let mut churn = Churn::of(lengths);
            bencher.iter(|| churn.turn());
        });
    };
    for percent in [0, 50, 99] {
        measure(&format!("mixed {percent} %"), &mixed(percent));
    }
    measure("among 1k", &[28; 1_000]);
    measure("among 1M", &vec![28; 1_000_000]);
}

/// What can be asked of a register that is half full, its holes scattered.
fn questions(criterion: &mut Criterion) {
    let Churn { range, mut register, blocks, .. } = Churn::of(&mixed(99));
    for (block, owner) in blocks.iter().zip(0..).step_by(2) {
        register.release(*block, &owner).unwrap();
    }
    let view = register.add_view(View::new(range, 24, &[v4("10.7.0.0/16")]).unwrap());
    let mut group = criterion.benchmark_group("half full");
    for (name, fit) in [("best", Fit::Best), ("first", Fit::First), ("next", Fit::Next(range.first() | 1 << 23))] {
        group.bench_function(format!("find {name}"), |bencher| {
            bencher.iter(|| register.find(black_box(range), 24, fit));
        });
    }
    group.bench_function("is_free", |bencher| {
        let mut all = blocks.iter().cycle();
        bencher.iter(|| register.is_free(*all.next().unwrap()));
    });
    group.bench_function("owners_in a /18", |bencher| {
        bencher.iter(|| register.owners_in(black_box(v4("10.64.64.0/18"))).count());
    });
    group.bench_function("counts of a view", |bencher| bencher.iter(|| register.counts(black_box(view))));
    group.bench_function("occupy and release", |bencher| {
        let block = register.find(range, 24, Fit::First).unwrap();
        bencher.iter(|| {
            register.occupy(black_box(block), 0);
            register.release(block, &0).unwrap();
        });
    });
}

/// The two ways of reading a CIDR.
fn texts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    for text in ["10.96.0.0/12", "2001:db8:7:42::/64"] {
        group.bench_function(format!("strict {text}"), |bencher| bencher.iter(|| Cidr::strict(black_box(text))));
    }
    for text in ["10.96.0.0/12", "010.1.2.3/8", "2001:DB8::0/64"] {
        group.bench_function(format!("tolerant {text}"), |bencher| bencher.iter(|| Cidr::tolerant(black_box(text))));
    }
}
