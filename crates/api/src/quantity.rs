//! Amounts of resources: `500m`, `1Gi`, `2e3`, read exactly, to be compared. How they are written is the schema's affair.

/// An amount, in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Amount(i128);

const NANO: i128 = 1_000_000_000;

/// Nothing larger is kept apart from the largest.
const LARGEST: i128 = i64::MAX as i128 * NANO;

const DECIMAL: [(&str, u32); 10] =
    [("n", 0), ("u", 3), ("m", 6), ("", 9), ("k", 12), ("M", 15), ("G", 18), ("T", 21), ("P", 24), ("E", 27)];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Amount {
    /// Reads an amount; nothing if it is none. What is finer than a billionth is rounded up.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let unit = unit(suffix)?;
        let whole = digits(whole).and_then(|whole| whole.checked_mul(unit)).unwrap_or(LARGEST);
        // Eighteen digits are finer than any unit needs; what follows can only round up.
        let kept = &fraction[..fraction.len().min(18)];
        let scale = 10_i128.pow(kept.len() as u32);
        let finer = fraction[kept.len()..].bytes().any(|digit| digit != b'0');
        let part = digits(kept)?.checked_mul(unit)?;
        let part = part / scale + i128::from(part % scale != 0 || finer);
        let nanos = whole.saturating_add(part).min(LARGEST);
        Some(Self(if negative { -nanos } else { nanos }))
    }

    /// Whether it is below zero.
    pub(crate) fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Whether it is zero.
    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether it has no fraction.
    pub(crate) fn is_whole(self) -> bool {
        self.0 % NANO == 0
    }
}

fn digits(text: &str) -> Option<i128> {
    text.bytes().try_fold(0_i128, |sum, digit| sum.checked_mul(10)?.checked_add(i128::from(digit - b'0')))
}

/// What a suffix multiplies by, in billionths.
fn unit(suffix: &str) -> Option<i128> {
    if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some(10_i128.pow(*power));
    }
    if let Some((_, bits)) = BINARY.iter().find(|(known, _)| *known == suffix) {
        return Some((1_i128 << bits) * NANO);
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    10_i128.checked_pow(u32::try_from(exponent.checked_add(9)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Amount {
        Amount::parse(text).unwrap()
    }

    #[test]
    fn amounts_compare_by_what_they_mean() {
        for same in [
            &["2", "2000m", "2.0", "+2", "2e0", "2000000000n", "0.002k"][..],
            &["1Gi", "1024Mi", "1073741824"],
            &["0.5", ".5", "500m", "5e-1"],
            &["0", "-0", "0Gi"],
        ] {
            for text in same {
                assert_eq!(read(text), read(same[0]), "{text}");
            }
        }
        assert!(read("1Gi") > read("1G"));
        assert!(read("-1") < read("0"));
        assert!(read("0.0000000001") > read("0"), "what is too fine is rounded up");
        assert_eq!(read("99999999999999999999E"), read("9223372036854775807"), "there is a largest one");
    }

    #[test]
    fn what_is_no_amount_is_not_read() {
        for text in ["", ".", "a", "1x", "1.2.3", "--1", "1 ", "1KB", "e3", "1e99", "1e-99"] {
            assert_eq!(Amount::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn wholes_and_signs_are_told() {
        assert!(read("-1").is_negative() && !read("1").is_negative());
        assert!(read("0.0").is_zero() && !read("1n").is_zero());
        assert!(read("1.5k").is_whole() && !read("500m").is_whole());
    }
}
