//! Two servers in short turns: how fast the machine is changes more from one minute to the next than what they differ by.

use std::time::Duration;

use anyhow::Result;

use super::measure::exact;

/// Whose turn is first: now this one's, then the other's.
pub(super) fn order(turn: u32) -> [usize; 2] {
    if turn.is_multiple_of(2) { [0, 1] } else { [1, 0] }
}

/// What each of two did in so many turns. One turn more comes first, for both to get going, and does not count.
pub(super) fn take(turns: u32, mut done: impl FnMut(u32, usize) -> Result<u64>) -> Result<[u64; 2]> {
    let mut sums = [0; 2];
    for turn in 0..=turns {
        eprintln!("turn {turn} of {turns}");
        for side in order(turn) {
            let done = done(turn, side)?;
            sums[side] += if turn == 0 { 0 } else { done };
        }
    }
    Ok(sums)
}

/// What was done in a second of those turns.
pub(super) fn per_second(done: u64, turns: u32, turn: Duration) -> f64 {
    exact(done) / (turn * turns).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_first_as_often_as_the_other_and_the_first_turn_does_not_count() {
        let mut seen = Vec::new();
        let sums = take(4, |turn, side| {
            seen.push(side);
            Ok(if turn == 0 { 1000 } else { side as u64 + 1 })
        });
        assert_eq!(sums.unwrap(), [4, 8]);
        assert_eq!(seen, [0, 1, 1, 0, 0, 1, 1, 0, 0, 1]);
        assert!((per_second(8, 4, Duration::from_millis(500)) - 4.0).abs() < 1e-9);
    }
}
