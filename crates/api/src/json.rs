//! JSON as bytes, the same that `serde_json` writes. Objects are mostly text, and hardly any of it has to be escaped: that is
//! found out for many bytes at a time.

use serde_json::Value;

/// How many bytes are looked at together.
const STRIDE: usize = 8;

/// Appends a value.
pub(crate) fn write(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(text) => write_text(out, text),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(out, item);
            }
            out.push(b']');
        }
        Value::Object(fields) => {
            out.push(b'{');
            for (index, (name, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_text(out, name);
                out.push(b':');
                write(out, value);
            }
            out.push(b'}');
        }
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Null => out.extend_from_slice(b"null"),
        Value::Number(_) => {
            // Writing a number to memory cannot fail: it is finite.
            let _ = serde_json::to_writer(out, value);
        }
    }
}

/// Appends a text, with quotes around it.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    write_prefixed(out, "", text);
}

/// Appends the text of a prefix, in which nothing has to be escaped, and the rest.
pub(crate) fn write_prefixed(out: &mut Vec<u8>, prefix: &str, rest: &str) {
    out.reserve(prefix.len() + rest.len() + 2);
    out.push(b'"');
    out.extend_from_slice(prefix.as_bytes());
    if is_plain(rest.as_bytes()) {
        out.extend_from_slice(rest.as_bytes());
        out.push(b'"');
    } else {
        let quote = out.len();
        let _ = serde_json::to_writer(&mut *out, rest);
        out.remove(quote);
    }
}

/// Whether nothing in a text has to be escaped.
fn is_plain(text: &[u8]) -> bool {
    let (words, rest) = text.as_chunks::<STRIDE>();
    let is_escaped = |byte: &u8| *byte < b' ' || [b'"', b'\\'].contains(byte);
    !words.iter().any(|word| has_escaped(u64::from_le_bytes(*word))) && !rest.iter().any(is_escaped)
}

/// Whether one of the bytes of a word has to be escaped: it is less than a space, a quote or a backslash.
fn has_escaped(word: u64) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; STRIDE]);
    const TOPS: u64 = u64::from_le_bytes([0x80; STRIDE]);
    // Taking away so much from every byte sets the top bit of the least ones that are below it. What has the top bit already
    // is no ASCII and does not count. The borrow of a byte that is found may make the next one look found: no matter.
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & TOPS;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    below(word, b' ') | is(b'"') | is(b'\\') != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn written(value: &Value) -> String {
        let mut out = Vec::new();
        write(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    fn values() -> impl Strategy<Value = Value> {
        let texts = prop_oneof![
            any::<String>(),
            "[a-z]{0,100}",
            (
                "[a-z]{0,70}",
                prop_oneof![Just('"'), Just('\\'), Just('\n'), Just('\u{1f}'), Just('\u{7f}')],
                "[a-z]{0,70}"
            )
                .prop_map(|(before, odd, after)| format!("{before}{odd}{after}")),
        ];
        let leaves = prop_oneof![
            texts.clone().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null),
        ];
        leaves.prop_recursive(3, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(texts.clone(), inner, 0..5)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_serde_json_writes(value in values()) {
            prop_assert_eq!(written(&value), value.to_string());
        }
    }

    #[test]
    fn every_byte_is_escaped_as_it_must_be_wherever_it_is() {
        for at in [0, STRIDE - 1, STRIDE, 2 * STRIDE + 3] {
            for c in (0..=0x100).filter_map(char::from_u32) {
                let text = json!(format!("{}{c}{}", "a".repeat(at), "b".repeat(STRIDE)));
                assert_eq!(written(&text), text.to_string());
                let mut out = Vec::new();
                write_prefixed(&mut out, "f:", text.as_str().unwrap());
                assert_eq!(out, text.to_string().replacen('"', "\"f:", 1).as_bytes());
            }
        }
    }
}
