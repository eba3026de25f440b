//! Bytes as text: base64 as Go's JSON reads and writes it.
//!
//! Go skips line breaks wherever they are, and does not ask whether the bits that the last character has beyond the last byte
//! are zero. What it writes has neither, so one value has one spelling once it is stored.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

/// Reads base64 with anything in the bits that do not count.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// The bytes that a text stands for; none if it is not base64.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.bytes().any(is_break) {
        return LENIENT.decode(text).ok();
    }
    LENIENT.decode(text.bytes().filter(|byte| !is_break(*byte)).collect::<Vec<_>>()).ok()
}

/// The text as it is stored, if it is not that already; none also for what is not base64.
pub(crate) fn canonical(text: &str) -> Option<String> {
    if is_canonical(text) {
        return None;
    }
    decode(text).map(|bytes| STANDARD.encode(bytes))
}

/// Whether the text is as Go writes it, if it is base64 at all.
fn is_canonical(text: &str) -> bool {
    let plain = text.trim_end_matches('=');
    let last = plain.bytes().next_back().unwrap_or_default();
    let no_bits_beyond = match text.len() - plain.len() {
        0 => true,
        1 => b"AEIMQUYcgkosw048".contains(&last),
        _ => b"AQgw".contains(&last),
    };
    no_bits_beyond && !text.bytes().any(is_break)
}

fn is_break(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_one_stored_form() {
        for stored in ["", "QQ==", "QUI=", "QUJD", "/+8=", "not base64", "Q", "=", "===="] {
            assert_eq!(canonical(stored), None, "{stored:?}");
        }
        for (odd, stored) in
            [("QR==", "QQ=="), ("QUK=", "QUI="), ("QUJD\n", "QUJD"), ("Q\r\nQ=\n=\r", "QQ=="), ("\n", "")]
        {
            assert_eq!(canonical(odd).as_deref(), Some(stored), "{odd:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_stored_is_what_the_bytes_are_written_as(text in "[AQRg+/]{0,9}={0,2}\n?") {
            if let Some(bytes) = decode(&text) {
                proptest::prop_assert_eq!(canonical(&text).unwrap_or(text), STANDARD.encode(bytes));
            }
        }
    }
}
