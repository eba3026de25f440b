//! Which releases of etcd a store can be on.
//!
//! Before 3.4.31, and in 3.5 before 3.5.13, the progress that a watch reports can be ahead of the events that it has yet
//! to send. A mirror that believed it would say that it has what it has not.

/// Whether the watches of a release keep what they promise. One whose name makes no sense is taken for a new one.
pub(super) fn keeps_its_promises(version: &str) -> bool {
    let release = version.split(['-', '+']).next().unwrap_or(version);
    let mut numbers = release.split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))) => match (major, minor) {
            (3, 4) => patch >= 31,
            (3, 5) => patch >= 13,
            other => other > (3, 5),
        },
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_releases_with_the_repairs_will_do() {
        for good in ["3.4.31", "3.4.40", "3.5.13", "3.5.21", "3.6.0", "3.7.3", "3.7.0-rc.1", "4.0.0", "tip"] {
            assert!(keeps_its_promises(good), "{good}");
        }
        for bad in ["3.3.27", "3.4.30", "3.5.0", "3.5.12", "2.3.8"] {
            assert!(!keeps_its_promises(bad), "{bad}");
        }
    }
}
