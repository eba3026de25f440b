//! The query of a request: names and values, read once, asked by name.

use std::time::Duration;

use super::failure::Failure;
use super::path::decoded;

/// The parameters of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the part of a URL after the question mark.
    pub(crate) fn read(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Self(pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(k, v)| (plain(k), plain(v))).collect())
    }

    /// The first value of that name; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// Whether the name is there at all.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// All values of that name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A switch: absent and `false` and `0` are off, everything else is on.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    /// A switch that may be absent.
    pub(crate) fn optional_flag(&self, name: &str) -> Option<bool> {
        self.has(name).then(|| !matches!(self.get(name).to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// A number; `None` if it is absent.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Failure> {
        match self.get(name) {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))),
        }
    }

    /// The `timeout` that a client sets for the whole request, as a Go duration (`32s`, `1m30s`) or bare seconds.
    pub(crate) fn timeout(&self) -> Result<Option<Duration>, Failure> {
        match self.get("timeout") {
            "" => Ok(None),
            text => duration(text).map(Some).ok_or_else(|| {
                Failure::bad_request(format!(
                    "invalid timeout specified in the request URL: time: invalid duration {text:?}"
                ))
            }),
        }
    }
}

fn plain(text: &str) -> String {
    decoded(&text.replace('+', " ")).into_owned()
}

/// Reads `1h2m3.5s`, `500ms` or bare seconds.
fn duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let scale = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(number.parse::<f64>().ok()? * scale).ok()?)?;
        rest = tail;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::read("labelSelector=a%3Db%2Cc&watch=1&x=a+b&dryRun=All&dryRun=All");
        assert_eq!(query.get("labelSelector"), "a=b,c");
        assert!(query.flag("watch") && !query.flag("absent"));
        assert_eq!(query.get("x"), "a b");
        assert_eq!(query.all("dryRun").count(), 2);
    }

    #[test]
    fn durations_are_read_as_clients_write_them() {
        assert_eq!(duration("32s"), Some(Duration::from_secs(32)));
        assert_eq!(duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("7"), Some(Duration::from_secs(7)));
        for bad in ["s", "1x", "-1s", "1s2", "18000000000000000000s18000000000000000000s"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_number_that_is_none_is_refused() {
        assert_eq!(Query::read("limit=5").number("limit").unwrap(), Some(5));
        assert_eq!(Query::read("").number("limit").unwrap(), None);
        assert!(Query::read("limit=x").number("limit").is_err());
    }
}
