//! Times on the command line.

use std::time::Duration;

/// A time as Go writes it: `1m0s`, `500ms`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let time: jiff::SignedDuration = text.parse().map_err(|_| "expected a time such as 30s or 1m30s".to_owned())?;
    Duration::try_from(time)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "it must be more than nothing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_go_writes_them() {
        assert_eq!(time("1m0s"), Ok(Duration::from_mins(1)));
        assert_eq!(time("1h2m3s"), Ok(Duration::from_secs(3723)));
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["", "60", "0s", "-1s", "soon"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
