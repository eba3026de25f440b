//! Rows of tables: the cells that a kind shows of an object, and the same written as JSON once for all who ask.
//!
//! Only ages change while an object stays as it is, so a written row has room for them and nothing else to fill in.

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::Value;

use crate::printing;

/// A cell of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
    /// How long ago something was, with what stands around it.
    Since {
        /// What stands before the age.
        before: String,
        /// When it was; `None` if that is not known.
        time: Option<Timestamp>,
        /// What stands after the age.
        after: String,
    },
}

impl Cell {
    /// How long ago a time was; the time is text as it stands in objects.
    pub fn since(time: &str) -> Self {
        Self::since_within("", time, "")
    }

    /// The same with something around it.
    pub fn since_within(before: &str, time: &str, after: &str) -> Self {
        Self::Since { before: before.to_owned(), time: time.parse().ok(), after: after.to_owned() }
    }

    /// The cell as it is shown at a time.
    pub fn shown(&self, now: Timestamp) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
            Self::Since { before, time, after } => {
                let age = time.map_or_else(|| printing::UNKNOWN.to_owned(), |time| age(time.as_microsecond(), now));
                format!("{before}{age}{after}")
            }
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// A row written as a JSON array, but for its ages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    json: Box<str>,
    /// Where ages stand, and since when they count in microseconds.
    ages: Box<[(usize, i64)]>,
}

impl Row {
    /// Writes the cells.
    pub fn new(cells: &[Cell]) -> Self {
        let (mut json, mut ages) = (String::from("["), Vec::new());
        for (index, cell) in cells.iter().enumerate() {
            if index > 0 {
                json.push(',');
            }
            match cell {
                Cell::Number(number) => {
                    // Writing to a String cannot fail.
                    let _ = write!(json, "{number}");
                }
                Cell::Text(text) => put_text(&mut json, text),
                Cell::Since { before, time, after } => {
                    let known = time.map_or(printing::UNKNOWN, |_| "");
                    let whole = format!("{before}{known}{after}");
                    put_text(&mut json, &whole);
                    if let Some(time) = time {
                        // What stands after the age, as it is escaped, and the quote.
                        let mut rest = String::new();
                        put_text(&mut rest, after);
                        ages.push((json.len() - (rest.len() - 1), time.as_microsecond()));
                    }
                }
            }
        }
        json.push(']');
        Self { json: json.into(), ages: ages.into() }
    }

    /// Hands out the row as it is at a time, piece by piece.
    pub fn put(&self, now: Timestamp, mut out: impl FnMut(&[u8])) {
        let mut from = 0;
        for &(at, since) in &self.ages {
            out(&self.json.as_bytes()[from..at]);
            out(age(since, now).as_bytes());
            from = at;
        }
        out(&self.json.as_bytes()[from..]);
    }
}

fn age(since: i64, now: Timestamp) -> String {
    printing::duration((now.as_microsecond() - since) / 1_000_000)
}

fn put_text(json: &mut String, text: &str) {
    let _ = write!(json, "{}", Value::from(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_row_has_the_ages_of_the_time_it_is_shown_at() {
        let cells = [
            Cell::from("a \"b\" [] <c>"),
            Cell::since("2026-01-01T00:00:00Z"),
            Cell::from(-3_i64),
            Cell::since_within("3 (\"", "2026-01-01T00:01:00Z", "\" ago)\n"),
            Cell::since("never"),
        ];
        let row = Row::new(&cells);
        for (now, first, second) in [
            ("2026-01-01T00:01:10Z", "70s", "10s"),
            ("2026-01-02T00:01:00Z", "24h", "24h"),
            ("2026-01-01T00:01:00Z", "60s", "0s"),
        ] {
            let now = now.parse().unwrap();
            let mut json = Vec::new();
            row.put(now, |piece| json.extend_from_slice(piece));
            let shown: Vec<Value> = serde_json::from_slice(&json).unwrap();
            let expected =
                serde_json::json!(["a \"b\" [] <c>", first, -3, format!("3 (\"{second}\" ago)\n"), "<unknown>"]);
            assert_eq!(Value::from(shown), expected);
            let one_by_one: Vec<_> = cells.iter().map(|cell| cell.shown(now)).collect();
            assert_eq!(one_by_one[1], first);
            assert_eq!(one_by_one[3], format!("3 (\"{second}\" ago)\n"));
        }
    }
}
