//! Quantities (`100Mi`, `1500m`, `1e3`): what is wrong with the text of one, the one way it is stored, and how much it is.
//!
//! The stored form is the one clients know: a whole number and the largest suffix that loses nothing. Upstream leaves a
//! text alone when it is quick to see that it needs no work, and so do we, because a client compares texts.

/// What is wrong with the text of a quantity, if anything is.
pub(crate) fn fault(text: &str) -> Option<&'static str> {
    Quantity::parse(text.trim()).err()
}

/// The text as it is stored; none for what is no quantity, or is in that form already.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let stored = Quantity::parse(text.trim()).ok()?.canonical();
    (stored != text).then_some(stored)
}

/// How many a quantity of things is: `110`, or `1k`.
pub fn count(text: &str) -> Option<u64> {
    Amount::parse(text)?.count()
}

/// How much a quantity is, in billionths: to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Amount(i128);

const NANO: i128 = 1_000_000_000;

/// Nothing larger is kept apart from the largest.
const LARGEST: i128 = i64::MAX as i128 * NANO;

impl Amount {
    /// Reads a quantity; nothing if it is none. What is finer than a billionth is rounded up.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let quantity = Quantity::parse(text.trim()).ok()?;
        let nanos = quantity.nanos();
        Some(Self(if quantity.negative { -nanos } else { nanos }))
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

    /// The number, if it is a whole one that is not below zero.
    fn count(self) -> Option<u64> {
        if self.is_whole() { u64::try_from(self.0 / NANO).ok() } else { None }
    }
}

const FORMAT: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NUMERIC: &str = "unable to parse numeric part of quantity";
const SUFFIX: &str = "unable to parse quantity's suffix";

/// What comes after the number, by the unit it counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Powers of ten by letters: `m`, `k`, `M`.
    Decimal,
    /// Powers of ten by their exponent: `e3`.
    Exponent,
    /// Powers of 1024: `Ki`, `Mi`.
    Binary,
}

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The parts of a quantity's text.
#[derive(Clone, Copy, Debug)]
struct Quantity<'a> {
    text: &'a str,
    negative: bool,
    /// The digits before the point, without zeros in front, and those after it.
    whole: &'a str,
    fraction: &'a str,
    format: Format,
    /// The power of ten, or of two for [`Format::Binary`].
    exponent: i32,
}

impl<'a> Quantity<'a> {
    fn parse(text: &'a str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err(FORMAT);
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, rest) = digits(unsigned.trim_start_matches('0'));
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
        let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let tail = letters.strip_prefix(['-', '+']).unwrap_or(letters);
        if !digits(tail).1.is_empty() {
            return Err(FORMAT);
        }
        let (format, exponent) = interpret(suffix).ok_or(SUFFIX)?;
        // A quantity may lack a number and be 0, unless it is one of those that upstream takes the long way.
        let whole = if whole.is_empty() { "0" } else { whole };
        let quantity = Self { text, negative: text.starts_with('-'), whole, fraction, format, exponent };
        let number = &text[..text.len() - suffix.len()];
        if !quantity.is_short() && !number.bytes().any(|byte| byte.is_ascii_digit()) {
            return Err(NUMERIC);
        }
        Ok(quantity)
    }

    /// The power of ten that the digits are multiplied with.
    fn scale(&self) -> i32 {
        let power = if self.format == Format::Binary { 0 } else { self.exponent };
        power.saturating_sub_unsigned(self.fraction.len() as u32)
    }

    /// Whether the number is sure to have room in 64 bits.
    fn is_short(&self) -> bool {
        let digits = self.whole.len() + self.fraction.len();
        match self.format {
            Format::Binary => {
                self.fraction.is_empty() && digits + (self.exponent * 3 / 10).cast_unsigned() as usize <= 14
            }
            _ => digits <= 18 && self.scale() >= -9,
        }
    }

    /// The form that is stored. A number of more digits than there is room for stays as it is.
    fn canonical(&self) -> String {
        self.shortened().unwrap_or_else(|| self.text.to_owned())
    }

    fn shortened(&self) -> Option<String> {
        let digits = format!("{}{}", self.whole, self.fraction);
        let number: i128 = digits.parse().ok()?;
        if number == 0 {
            return Some("0".to_owned());
        }
        let mut scale = self.scale();
        let needs_no_work = match self.format {
            Format::Binary => number & 7 != 0,
            _ => scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0'),
        };
        if self.is_short() && needs_no_work {
            return None;
        }
        let is_binary = self.format == Format::Binary;
        let mut amount = if is_binary { number.checked_mul(1 << self.exponent)? } else { number };
        // Less than the smallest unit is rounded up to it: who asks for something gets something.
        while scale < -9 {
            amount = amount / 10 + i128::from(amount % 10 != 0);
            scale += 1;
        }
        if !is_binary {
            return decimal(amount, scale, self.format).map(|text| self.signed(&text));
        }
        if scaled(amount, scale)? > i128::from(i64::MAX) {
            (amount, scale) = (i128::from(i64::MAX), 0);
        }
        let whole = scaled_exactly(amount, scale).filter(|whole| *whole >= 1024);
        let text = whole.map(binary).or_else(|| decimal(amount, scale, Format::Decimal))?;
        Some(self.signed(&text))
    }

    /// How many billionths it is, its sign aside.
    fn nanos(&self) -> i128 {
        // Eighteen digits are finer than any unit needs; what follows can only round up.
        let (kept, rest) = self.fraction.split_at(self.fraction.len().min(18));
        let finer = rest.bytes().any(|digit| digit != b'0');
        let (factor, power) = match self.format {
            Format::Binary => (1 << self.exponent, 9),
            _ => (1, self.exponent.saturating_add(9)),
        };
        let power = power.saturating_sub_unsigned(kept.len() as u32);
        let digits: Option<i128> = format!("{}{kept}", self.whole).parse().ok();
        let Some(amount) = digits.and_then(|digits| digits.checked_mul(factor)) else { return LARGEST };
        let scale = 10_i128.checked_pow(power.unsigned_abs());
        let nanos = match scale {
            _ if amount == 0 => i128::from(finer),
            Some(scale) if power < 0 => amount / scale + i128::from(amount % scale != 0 || finer),
            Some(scale) => amount.saturating_mul(scale).saturating_add(i128::from(finer)),
            None if power < 0 => 1,
            None => LARGEST,
        };
        nanos.min(LARGEST)
    }

    fn signed(&self, text: &str) -> String {
        if self.negative { format!("-{text}") } else { text.to_owned() }
    }
}

/// The digits that a text begins with, and the rest.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn interpret(suffix: &str) -> Option<(Format, i32)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::Decimal, *exponent));
    }
    if let Some((_, exponent)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::Binary, *exponent));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    exponent.parse().ok().map(|exponent| (Format::Exponent, exponent))
}

/// The whole part of `amount * 10^scale`; none if it is too large.
fn scaled(amount: i128, scale: i32) -> Option<i128> {
    let factor = 10_i128.checked_pow(scale.unsigned_abs())?;
    if scale < 0 { Some(amount / factor) } else { amount.checked_mul(factor) }
}

/// `amount * 10^scale`, if that is a whole number that is not too large.
fn scaled_exactly(amount: i128, scale: i32) -> Option<i128> {
    let whole = scaled(amount, scale)?;
    (scale >= 0 || whole.checked_mul(10_i128.checked_pow(scale.unsigned_abs())?)? == amount).then_some(whole)
}

fn binary(mut amount: i128) -> String {
    let mut suffix = "";
    for (next, _) in BINARY {
        if amount < 1024 || amount % 1024 != 0 {
            break;
        }
        amount /= 1024;
        suffix = next;
    }
    format!("{amount}{suffix}")
}

fn decimal(mut amount: i128, mut exponent: i32, format: Format) -> Option<String> {
    while amount >= 10 && amount % 10 == 0 {
        amount /= 10;
        exponent += 1;
    }
    while exponent % 3 != 0 {
        amount = amount.checked_mul(10)?;
        exponent -= 1;
    }
    match DECIMAL.iter().find(|(_, power)| *power == exponent) {
        _ if format == Format::Exponent && exponent != 0 => Some(format!("{amount}e{exponent}")),
        Some((suffix, _)) => Some(format!("{amount}{suffix}")),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_counted_in_whole_numbers() {
        let counts = ["110", "1k", "0", "1500m", "-1", "x"].map(count);
        assert_eq!(counts, [Some(110), Some(1_000), Some(0), None, None, None]);
    }

    #[test]
    fn a_quantity_has_one_stored_form() {
        let forms = [
            ("0", "0"),
            ("0Mi", "0"),
            ("000", "0"),
            ("0.0", "0"),
            ("-0", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("0.1", "100m"),
            ("100m", "100m"),
            ("1000", "1k"),
            ("12000k", "12M"),
            ("123456", "123456"),
            ("1e3", "1e3"),
            ("12e1", "120"),
            ("1E6", "1E6"),
            ("1024Mi", "1Gi"),
            ("100Mi", "100Mi"),
            ("1000Ki", "1000Ki"),
            ("0.5Gi", "512Mi"),
            ("1.5Ki", "1536"),
            ("1023Ki", "1023Ki"),
            ("512Ki", "512Ki"),
            ("1Ki", "1Ki"),
            ("8Ki", "8Ki"),
            ("0.5Ki", "512"),
            ("0.1Ki", "102400m"),
            ("-5", "-5"),
            ("-1000m", "-1"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("5Ei", "5Ei"),
            ("1.000", "1"),
            (".", "0"),
            ("Mi", "0"),
            (".5", "500m"),
            ("1.500", "1.500"),
            ("+5", "+5"),
            ("010Mi", "010Mi"),
            ("9999999999999999999Ki", "9223372036854775807"),
            ("99999999999999999999", "99999999999999999999"),
        ];
        for (text, stored) in forms {
            assert_eq!(fault(text), None, "{text}");
            assert_eq!(canonical(text).unwrap_or_else(|| text.to_owned()), stored, "{text}");
            assert_eq!(canonical(stored), None, "{stored} is a stored form");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_in_upstream_s_words() {
        for text in ["", "abc", "1 Mi", "1Mi2x", "{}", "true", "1,5"] {
            assert_eq!(fault(text), Some(FORMAT), "{text:?}");
        }
        for text in ["1mm", "1Kk", "1e", "1ee5"] {
            assert_eq!(fault(text), Some(SUFFIX), "{text:?}");
        }
        assert_eq!(fault(".Pi"), Some(NUMERIC));
    }

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
        assert!(read("1e-99") > read("0"), "what is too fine is rounded up");
        for large in ["99999999999999999999E", "1e99", "9999999999999999999999999999999999999999", "8Ei"] {
            assert_eq!(read(large), read("9223372036854775807"), "there is a largest one: {large}");
        }
        assert!(read("0.123456789012345678E") < read("0.2E"), "many digits do not make it large");
    }

    #[test]
    fn what_is_no_amount_is_not_read() {
        for text in ["", "a", "1x", "1.2.3", "--1", "1 2", "1KB"] {
            assert_eq!(Amount::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn wholes_and_signs_are_told() {
        assert!(read("-1").is_negative() && !read("1").is_negative());
        assert!(read("0.0").is_zero() && !read("1n").is_zero());
        assert!(read("1.5k").is_whole() && !read("500m").is_whole());
    }

    proptest::proptest! {
        #[test]
        fn the_stored_form_of_a_stored_form_is_itself(text in "-?[0-9]{1,20}(\\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9])?") {
            if let Some(stored) = canonical(&text) {
                proptest::prop_assert_eq!(canonical(&stored), None, "{}", stored);
            }
        }
    }
}
