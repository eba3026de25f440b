//! How long things took, all of them: nothing is put into classes or thrown away before it is counted.

use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinSet;

#[derive(Debug, Default)]
pub(super) struct Latencies(Vec<u64>);

impl Latencies {
    /// With room, so that noting one does not allocate while something is measured.
    pub(super) fn with_room(number: usize) -> Self {
        Self(Vec::with_capacity(number))
    }

    /// Those of all tasks together.
    pub(super) async fn of_all(mut tasks: JoinSet<Result<Self>>) -> Result<Self> {
        let mut all = Self::default();
        while let Some(of_one) = tasks.join_next().await {
            all.add(&of_one??);
        }
        Ok(all)
    }

    pub(super) fn note(&mut self, latency: Duration) {
        self.0.push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    pub(super) fn number(&self) -> u64 {
        self.0.len() as u64
    }

    /// The latency that so many hundredths of all do not exceed, in nanoseconds; 0 if there are none.
    pub(super) fn percentile(&mut self, hundredths: usize) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        let rank = (self.0.len() * hundredths).div_ceil(100).max(1);
        *self.0.select_nth_unstable(rank - 1).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_hundredths_are_not_longer() {
        let mut latencies = Latencies::default();
        for number in (1..=1000).rev() {
            latencies.note(Duration::from_nanos(number));
        }
        assert_eq!([50, 99, 100].map(|p| latencies.percentile(p)), [500, 990, 1000]);
        let mut one = Latencies::with_room(1);
        one.note(Duration::from_nanos(7));
        assert_eq!([1, 50, 99].map(|p| one.percentile(p)), [7, 7, 7]);
    }

    #[test]
    fn nothing_noted_is_nothing() {
        assert_eq!(Latencies::default().percentile(99), 0);
    }
}
