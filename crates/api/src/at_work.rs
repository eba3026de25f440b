//! A clock for tests that bound how much work something may be.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// How long this thread has been at work since some moment. Where the system tells it, what others do meanwhile does not count.
pub(crate) fn at_work() -> Duration {
    static SOME_MOMENT: LazyLock<Instant> = LazyLock::new(Instant::now);
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|told| told.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| SOME_MOMENT.elapsed(), Duration::from_nanos)
}
