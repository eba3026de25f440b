//! Timing our own code.
//!
//! The method, the same as that of the peers' programs: a round does the whole work between two looks at the clock;
//! preparing it and clearing up are off the clock. Rounds repeat until [`ROUNDS`] or [`BUDGET`] is reached and the
//! fastest counts, because noise only ever adds time. Results go through `black_box`, so that the optimiser cannot
//! drop work whose result nobody reads.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;

/// How often a work is repeated at most, and how long its repeats may take together.
const ROUNDS: u32 = 40;
const BUDGET: Duration = Duration::from_secs(1);

/// The least that one round of [`batches`] is on the clock.
const SPELL: Duration = Duration::from_millis(100);

/// What a work cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) ns_per_op: f64,
    /// The heap that the whole structure holds when the work is done, where that was measured.
    pub(super) bytes: Option<u64>,
}

impl Measured {
    pub(super) fn time(ns_per_op: f64) -> Self {
        Self { ns_per_op, bytes: None }
    }

    pub(super) fn with_bytes(self, bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..self }
    }

    /// The better of two measurements of one work, for each quantity by itself.
    pub(super) fn best(self, other: Self) -> Self {
        let bytes = self.bytes.into_iter().chain(other.bytes).min();
        Self { ns_per_op: self.ns_per_op.min(other.ns_per_op), bytes }
    }
}

/// For work that uses its state up, such as filling an empty register: each round is timed over a fresh state.
///
/// `work` does `ops` operations.
pub(super) fn fresh<S, T>(
    ops: u32,
    mut prepare: impl FnMut() -> Result<S>,
    mut work: impl FnMut(&mut S) -> Result<T>,
) -> Result<Measured> {
    best(since(Instant::now()), || {
        let mut state = black_box(prepare()?);
        let start = Instant::now();
        black_box(work(&mut state)?);
        let elapsed = start.elapsed();
        drop(black_box(state));
        Ok(per_op(elapsed, f64::from(ops)))
    })
}

/// For work on one state that is slow to build, such as a nearly full range: short batches, each undone off the clock.
///
/// `work` does `ops` operations and hands what it did to `undo`. A batch has to be long beside the two looks at the
/// clock (some 50 ns together) and must not change what it measures: 64 grants of 1,000 free addresses are a good size.
pub(super) fn batches<S, T>(
    state: &mut S,
    ops: u32,
    mut work: impl FnMut(&mut S) -> Result<T>,
    mut undo: impl FnMut(&mut S, T) -> Result<()>,
) -> Result<Measured> {
    best(since(Instant::now()), || spell(SPELL, state, ops, &mut work, &mut undo))
}

/// One round of batches: nanoseconds per operation.
fn spell<S, T>(
    least: Duration,
    state: &mut S,
    ops: u32,
    work: &mut impl FnMut(&mut S) -> Result<T>,
    undo: &mut impl FnMut(&mut S, T) -> Result<()>,
) -> Result<f64> {
    let (mut elapsed, mut done) = (Duration::ZERO, 0.0);
    while elapsed < least {
        let start = Instant::now();
        let result = black_box(work(black_box(state))?);
        elapsed += start.elapsed();
        done += f64::from(ops);
        undo(state, result)?;
    }
    Ok(per_op(elapsed, done))
}

/// The fastest of the rounds, each a figure in nanoseconds per operation. `spent` says how long it has taken so far.
fn best(spent: impl Fn() -> Duration, mut round: impl FnMut() -> Result<f64>) -> Result<Measured> {
    let mut best = round()?;
    for _ in 1..ROUNDS {
        if spent() >= BUDGET {
            break;
        }
        best = best.min(round()?);
    }
    Ok(Measured::time(best))
}

/// A count as a figure.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53, more than any of these figures")]
pub(super) fn exact(number: u64) -> f64 {
    number as f64
}

fn since(start: Instant) -> impl Fn() -> Duration {
    move || start.elapsed()
}

fn per_op(elapsed: Duration, ops: f64) -> f64 {
    elapsed.as_secs_f64() * 1e9 / ops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_round_counts() {
        let mut rounds = [30.0, 10.0, 20.0, 40.0].into_iter().cycle().take(ROUNDS as usize);
        let measured = best(|| Duration::ZERO, || Ok(rounds.next().unwrap())).unwrap();
        assert_eq!(measured, Measured::time(10.0));
        assert_eq!(rounds.next(), None, "all {ROUNDS} rounds ran");
    }

    #[test]
    fn a_slow_work_is_not_repeated_beyond_the_budget() {
        let mut rounds = [30.0, 10.0].into_iter();
        assert_eq!(best(|| BUDGET, || Ok(rounds.next().unwrap())).unwrap(), Measured::time(30.0));
    }

    #[test]
    fn each_round_has_a_fresh_state() {
        let mut prepared = 0;
        let prepare = || {
            prepared += 1;
            Ok(0)
        };
        let use_up = |state: &mut u32| {
            *state += 1;
            assert_eq!(*state, 1);
            Ok(())
        };
        fresh(1, prepare, use_up).unwrap();
        assert_eq!(prepared, ROUNDS);
    }

    #[test]
    fn each_batch_is_undone() {
        let (mut taken, mut batches) = (0, 0);
        let mut take = |taken: &mut u32| {
            assert_eq!(*taken, 0);
            *taken += 3;
            batches += 1;
            Ok(3)
        };
        let mut give_back = |taken: &mut u32, number: u32| {
            *taken -= number;
            Ok(())
        };
        spell(Duration::from_millis(50), &mut taken, 3, &mut take, &mut give_back).unwrap();
        assert_eq!(taken, 0);
        assert!(batches > 1, "a batch takes less than 50 ms");
    }

    #[test]
    fn the_figure_is_for_one_operation() {
        assert!((per_op(Duration::from_micros(3), 1_000.0) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_refusal_ends_the_measurement() {
        let refused = fresh(1, || Ok(()), |()| -> Result<()> { anyhow::bail!("full") });
        assert_eq!(refused.unwrap_err().to_string(), "full");
    }

    #[test]
    fn time_and_bytes_are_the_best_of_each() {
        let (slow, fast) = (Measured::time(2.0).with_bytes(10), Measured::time(1.0).with_bytes(20));
        assert_eq!(slow.best(fast), Measured::time(1.0).with_bytes(10));
        assert_eq!(slow.best(Measured::time(1.0)), Measured::time(1.0).with_bytes(10));
    }
}
