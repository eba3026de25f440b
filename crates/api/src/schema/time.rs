//! Times as text: what is wrong with one, in the words that Kubernetes clients know, and the one way it is stored.
//!
//! Go reads times by a layout that is itself a time, and its messages quote the layout; so the parts are read here in the
//! same order and with the same tolerance (a one-digit hour, a fraction of any length) as Go reads them.

use jiff::{SignedDuration, civil};

/// Moments are counted from here. With the days of the calendar and not as jiff's timestamps, which end before the last day
/// of the year 9999 does: what can be written down can be counted.
const EPOCH: civil::DateTime = civil::date(1970, 1, 1).at(0, 0, 0, 0);

/// How many digits of a second a time has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// None: a fraction is read and dropped.
    Seconds,
    /// Six, always.
    Micros,
}

impl Precision {
    fn layout(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }

    fn canonical_format(self) -> &'static str {
        match self {
            Self::Seconds => "%Y-%m-%dT%H:%M:%SZ",
            Self::Micros => "%Y-%m-%dT%H:%M:%S.%6fZ",
        }
    }
}

/// What is wrong with the text of a time, if anything is.
pub(super) fn fault(text: &str, precision: Precision) -> Option<String> {
    // Nearly every time that comes in is one that was handed out.
    if is_canonical(text, precision) {
        return None;
    }
    let reader = Reader { whole: text, rest: text, precision };
    match reader.read() {
        // Go takes it, and stores what nobody can read any more.
        Ok(moment) => told(moment, precision)
            .is_none()
            .then(|| format!("parsing time {}: year outside of range [0,9999] in UTC", quoted(text))),
        Err(fault) => Some(fault),
    }
}

/// The text as it is stored, if it is not that already; none also for what is no time.
pub(super) fn canonical(text: &str, precision: Precision) -> Option<String> {
    if is_canonical(text, precision) {
        return None;
    }
    told(Reader { whole: text, rest: text, precision }.read().ok()?, precision)
}

/// The moment that a text tells, since 1970, with a fraction of any length; none for what is no time.
pub(crate) fn moment(text: &str) -> Option<SignedDuration> {
    Reader { whole: text, rest: text, precision: Precision::Seconds }.read().ok()
}

/// A moment since 1970 as it is stored; none outside of the years 0 to 9999, which have no text.
pub(crate) fn told(moment: SignedDuration, precision: Precision) -> Option<String> {
    let time = EPOCH.checked_add(moment).ok().filter(|time| time.year() >= 0)?;
    Some(time.strftime(precision.canonical_format()).to_string())
}

/// Whether the text is in the form that is stored. Whether such a day exists is for jiff to say, which is quick.
fn is_canonical(text: &str, precision: Precision) -> bool {
    let shape: &[u8] = match precision {
        Precision::Seconds => b"0000-00-00T00:00:00Z",
        Precision::Micros => b"0000-00-00T00:00:00.000000Z",
    };
    let digit_or_same = |(have, want): (&u8, &u8)| if *want == b'0' { have.is_ascii_digit() } else { have == want };
    if text.len() != shape.len() || !text.as_bytes().iter().zip(shape).all(digit_or_same) {
        return false;
    }
    let part = |at: usize| text[at..at + 2].parse::<i8>().unwrap_or(-1);
    let year = text[..4].parse().unwrap_or(-1);
    // Go knows no leap seconds.
    part(17) < 60 && civil::DateTime::new(year, part(5), part(8), part(11), part(14), part(17), 0).is_ok()
}

struct Reader<'a> {
    whole: &'a str,
    rest: &'a str,
    precision: Precision,
}

impl Reader<'_> {
    /// The moment since 1970.
    fn read(mut self) -> Result<SignedDuration, String> {
        let year = self.year()?;
        self.literal("-")?;
        let month = self.number("01", true, 1..=12, "month")?;
        self.literal("-")?;
        let day = self.number("02", true, 0..=99, "day")?;
        self.literal("T")?;
        let hour = self.number("15", false, 0..=23, "hour")?;
        self.literal(":")?;
        let minute = self.number("04", true, 0..=59, "minute")?;
        self.literal(":")?;
        let second = self.number("05", true, 0..=59, "second")?;
        let nanos = match self.precision {
            Precision::Seconds => self.any_fraction(),
            Precision::Micros => self.six_digits()?,
        };
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(self.wrong(&format!(": extra text: {}", quoted(self.rest))));
        }
        let date_time = civil::DateTime::new(year, month, day, hour, minute, second, nanos);
        let date_time = date_time.map_err(|_| self.wrong(": day out of range"))?;
        Ok(date_time.duration_since(EPOCH) - SignedDuration::from_secs(offset))
    }

    fn wrong(&self, why: &str) -> String {
        format!("parsing time {}{why}", quoted(self.whole))
    }

    fn cannot(&self, rest: &str, element: &str) -> String {
        let layout = self.precision.layout();
        self.wrong(&format!(" as {}: cannot parse {} as {}", quoted(layout), quoted(rest), quoted(element)))
    }

    fn literal(&mut self, text: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(text).ok_or_else(|| self.cannot(self.rest, text))?;
        Ok(())
    }

    fn year(&mut self) -> Result<i16, String> {
        let year = self.rest.get(..4).filter(|year| year.bytes().all(|byte| byte.is_ascii_digit()));
        let year = year.and_then(|year| year.parse().ok()).ok_or_else(|| self.cannot(self.rest, "2006"))?;
        self.rest = &self.rest[4..];
        Ok(year)
    }

    fn number(
        &mut self,
        element: &str,
        two_digits: bool,
        allowed: std::ops::RangeInclusive<i8>,
        name: &str,
    ) -> Result<i8, String> {
        let digits = self.rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        if digits == 0 || (digits == 1 && two_digits) {
            return Err(self.cannot(self.rest, element));
        }
        let (number, rest) = self.rest.split_at(digits);
        let number = number.parse().unwrap_or(-1);
        self.rest = rest;
        if allowed.contains(&number) { Ok(number) } else { Err(self.wrong(&format!(": {name} out of range"))) }
    }

    /// A fraction of a second that the layout does not ask for.
    fn any_fraction(&mut self) -> i32 {
        let Some(fraction) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return 0;
        }
        let (fraction, rest) = fraction.split_at(digits);
        self.rest = rest;
        nanos(&fraction[..digits.min(9)])
    }

    fn six_digits(&mut self) -> Result<i32, String> {
        let fraction = self.rest.strip_prefix(['.', ',']).and_then(|rest| rest.get(..6));
        let fraction = fraction.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let nanos = nanos(fraction.ok_or_else(|| self.cannot(self.rest, ".000000"))?);
        self.rest = &self.rest[7..];
        Ok(nanos)
    }

    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let digits = |at: std::ops::Range<usize>| {
            let two = self.rest.get(at).filter(|two| two.bytes().all(|byte| byte.is_ascii_digit()));
            two.and_then(|two| two.parse::<i64>().ok())
        };
        let zone = match (self.rest.as_bytes().first(), digits(1..3), self.rest.as_bytes().get(3), digits(4..6)) {
            (Some(b'+'), Some(hours), Some(b':'), Some(minutes)) => Some((1, hours, minutes)),
            (Some(b'-'), Some(hours), Some(b':'), Some(minutes)) => Some((-1, hours, minutes)),
            _ => None,
        };
        let (sign, hours, minutes) = zone.ok_or_else(|| self.cannot(self.rest, "Z07:00"))?;
        self.rest = &self.rest[6..];
        if minutes > 60 {
            return Err(self.wrong(": time zone offset minute out of range"));
        }
        if hours > 24 {
            return Err(self.wrong(": time zone offset hour out of range"));
        }
        Ok(sign * (hours * 60 + minutes) * 60)
    }
}

/// Up to nine digits of a fraction of a second.
fn nanos(digits: &str) -> i32 {
    let missing = 9 - digits.len() as u32;
    digits.parse::<i32>().unwrap_or(0) * 10_i32.pow(missing)
}

/// Text in quotes as Go's messages about times have it: bytes that are no ASCII in hexadecimal.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='\u{7f}' => out.push(c),
            _ => out.extend(c.to_string().bytes().map(|byte| format!("\\x{byte:02x}"))),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        fault(text, Precision::Seconds).unwrap_or_default()
    }

    #[test]
    fn what_is_no_time_is_refused_in_go_s_words() {
        let layout = r#"as "2006-01-02T15:04:05Z07:00": cannot parse"#;
        assert_eq!(said("x"), format!(r#"parsing time "x" {layout} "x" as "2006""#));
        assert_eq!(said(""), format!(r#"parsing time "" {layout} "" as "2006""#));
        assert_eq!(said("2024-01-02"), format!(r#"parsing time "2024-01-02" {layout} "" as "T""#));
        assert_eq!(said("2024-1-02T"), format!(r#"parsing time "2024-1-02T" {layout} "1-02T" as "01""#));
        assert_eq!(said("2024-01-02 0"), format!(r#"parsing time "2024-01-02 0" {layout} " 0" as "T""#));
        let naive = "2024-01-02T03:04:05";
        assert_eq!(said(naive), format!(r#"parsing time "{naive}" {layout} "" as "Z07:00""#));
        assert_eq!(said("2024-13-02T03:04:05Z"), r#"parsing time "2024-13-02T03:04:05Z": month out of range"#);
        assert_eq!(said("2023-02-29T03:04:05Z"), r#"parsing time "2023-02-29T03:04:05Z": day out of range"#);
        assert_eq!(said("2024-01-02T24:04:05Z"), r#"parsing time "2024-01-02T24:04:05Z": hour out of range"#);
        assert_eq!(said("2024-01-02T03:04:60Z"), r#"parsing time "2024-01-02T03:04:60Z": second out of range"#);
        let zone = |zone| said(&format!("2024-01-02T03:04:05{zone}"));
        assert!(zone("+25:00").ends_with(r#"05+25:00": time zone offset hour out of range"#), "{}", zone("+25:00"));
        assert!(zone("-01:61").ends_with(r#"05-01:61": time zone offset minute out of range"#), "{}", zone("-01:61"));
        assert!(zone("+1:00").ends_with(r#"cannot parse "+1:00" as "Z07:00""#), "{}", zone("+1:00"));
        assert_eq!(zone("+24:00"), "");
        assert_eq!(
            said("2024-01-02T03:04:05Zé"),
            r#"parsing time "2024-01-02T03:04:05Z\xc3\xa9": extra text: "\xc3\xa9""#
        );
        assert_eq!(
            fault("2024-01-02T03:04:05Z", Precision::Micros).unwrap(),
            r#"parsing time "2024-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
        );
    }

    #[test]
    fn a_time_has_one_stored_form() {
        let seconds = |text| canonical(text, Precision::Seconds);
        assert_eq!(seconds("2024-01-02T03:04:05Z"), None, "it is in that form already");
        assert_eq!(seconds("2024-01-01T01:04:05.999+02:00").as_deref(), Some("2023-12-31T23:04:05Z"));
        assert_eq!(seconds("2024-01-01T5:04:05-00:30").as_deref(), Some("2024-01-01T05:34:05Z"));
        let micros = |text| canonical(text, Precision::Micros);
        assert_eq!(micros("2024-01-02T03:04:05.123456Z"), None);
        assert_eq!(micros("2024-01-02T03:04:05.123456+01:00").as_deref(), Some("2024-01-02T02:04:05.123456Z"));
    }

    #[test]
    fn times_reach_from_the_first_to_the_last_second_that_has_a_text() {
        let seconds = |text| canonical(text, Precision::Seconds);
        assert_eq!(seconds("9999-12-31T22:59:59-01:00").as_deref(), Some("9999-12-31T23:59:59Z"));
        assert_eq!(seconds("0000-01-01T01:00:00+01:00").as_deref(), Some("0000-01-01T00:00:00Z"));
        assert_eq!(moment("9999-12-31T23:59:59Z"), Some(SignedDuration::from_secs(253_402_300_799)));
        assert_eq!(moment("0000-01-01T00:00:00Z"), Some(SignedDuration::from_secs(-62_167_219_200)));
        for outside in ["9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01"] {
            assert_eq!(said(outside), format!("parsing time {outside:?}: year outside of range [0,9999] in UTC"));
        }
    }

    proptest::proptest! {
        #[test]
        fn every_text_is_a_time_or_a_fault(text in "[0-9TZ:.,+é -]{0,30}", micros: bool) {
            let precision = if micros { Precision::Micros } else { Precision::Seconds };
            if fault(&text, precision).is_none() {
                let stored = canonical(&text, precision).unwrap_or(text);
                proptest::prop_assert!(is_canonical(&stored, precision), "{}", stored);
                proptest::prop_assert_eq!(moment(&stored).and_then(|moment| told(moment, precision)), Some(stored));
            }
        }
    }
}
