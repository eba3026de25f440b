//! How values stand in a table: ages, lists, and the words for what is absent.
//!
//! Knows no kind; which cells a kind has is its own affair.

use serde_json::{Map, Value};

use crate::object::Object;
use crate::row::Cell;

/// What stands where there is nothing to show.
pub const NONE: &str = "<none>";

/// What stands where something should be known and is not.
pub const UNKNOWN: &str = "<unknown>";

/// How long ago an object was created.
pub fn age(object: &Object) -> Cell {
    Cell::since(object.text(&["metadata", "creationTimestamp"]))
}

/// A number of seconds, in the two largest units that matter.
pub fn duration(seconds: i64) -> String {
    let (minutes, hours, days, years) = (seconds / 60, seconds / 3_600, seconds / 86_400, seconds / 31_536_000);
    let two = |large: i64, unit: char, small: i64, part: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{part}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, 'd', hours % 24, 'h'),
        _ if years < 2 => format!("{days}d"),
        _ if years < 8 => two(years, 'y', days % 365, 'd'),
        _ => format!("{years}y"),
    }
}

/// The texts joined by commas, or [`NONE`].
pub fn list<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    or_none(&items.into_iter().collect::<Vec<_>>().join(","))
}

/// The text, or [`NONE`] if it is empty.
pub fn or_none(text: &str) -> String {
    if text.is_empty() { NONE.to_owned() } else { text.to_owned() }
}

/// The first three texts, and how many there are besides.
pub fn first_three(items: &[String]) -> String {
    match items.get(..3) {
        Some(first) if items.len() > 3 => format!("{} + {} more...", first.join(","), items.len() - 3),
        _ => items.join(","),
    }
}

/// A map of labels as `a=b,c=d`, or [`NONE`].
pub fn labels(labels: Option<&Map<String, Value>>) -> String {
    let mut pairs: Vec<_> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort_unstable();
    or_none(&pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_show_the_two_units_that_matter() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 3_600;
        const DAY: i64 = 86_400;
        for (seconds, text) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (2 * MINUTE + 3, "2m3s"),
            (10 * MINUTE - 1, "9m59s"),
            (10 * MINUTE + 1, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR + 4 * MINUTE, "3h4m"),
            (8 * HOUR + 4 * MINUTE, "8h"),
            (48 * HOUR, "2d"),
            (2 * DAY + 5 * HOUR, "2d5h"),
            (8 * DAY + 5 * HOUR, "8d"),
            (400 * DAY, "400d"),
            (2 * 365 * DAY, "2y"),
            (2 * 365 * DAY + DAY, "2y1d"),
            (9 * 365 * DAY + DAY, "9y"),
        ] {
            assert_eq!(duration(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn an_object_without_a_creation_time_is_of_unknown_age() {
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let mut object = Object::default();
        assert_eq!(age(&object).shown(now), "<unknown>");
        object.set(&["metadata", "creationTimestamp"], json!("2026-01-01T00:00:00Z"));
        assert_eq!(age(&object).shown(now), "60s");
    }

    #[test]
    fn what_is_empty_is_none() {
        assert_eq!(list([]), "<none>");
        assert_eq!(list(["a", "b"]), "a,b");
        let four = ["a", "b", "c", "d"].map(str::to_owned);
        assert_eq!(first_three(&four[..3]), "a,b,c");
        assert_eq!(first_three(&four), "a,b,c + 1 more...");
        assert_eq!(labels(None), "<none>");
        assert_eq!(labels(json!({"b": "2", "a": "1"}).as_object()), "a=1,b=2");
    }
}
