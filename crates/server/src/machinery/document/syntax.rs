//! Where a text stops being JSON, and what was expected there, in the words that clients of Kubernetes know.
//!
//! Reading is another's work; this is asked only once that failed, to say why.

/// What is wrong with a text that is not JSON; nothing if it is JSON.
pub(super) fn fault(text: &[u8]) -> Option<String> {
    let mut scan = Scan { text, at: 0, open: Vec::new() };
    match scan.document() {
        Ok(()) => None,
        Err(Fault::End) => Some("unexpected end of JSON input".to_owned()),
        Err(Fault::Byte(found, context)) => Some(format!("invalid character {} {context}", quoted(found))),
    }
}

enum Fault {
    End,
    Byte(u8, String),
}

/// What was opened and not yet closed.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Object,
    List,
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    open: Vec<Open>,
}

impl Scan<'_> {
    fn peek(&self) -> Result<u8, Fault> {
        self.text.get(self.at).copied().ok_or(Fault::End)
    }

    fn next(&mut self) -> Result<u8, Fault> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    /// The next byte that is not a blank.
    fn next_mark(&mut self) -> Result<u8, Fault> {
        loop {
            let byte = self.next()?;
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(byte);
            }
        }
    }

    fn document(&mut self) -> Result<(), Fault> {
        let first = self.next_mark()?;
        self.value(first)?;
        while let Some(innermost) = self.open.last().copied() {
            let mark = self.next_mark()?;
            match (innermost, mark) {
                (Open::Object, b'}') | (Open::List, b']') => {
                    self.open.pop();
                }
                (Open::Object, b',') => {
                    let first = self.next_mark()?;
                    self.pair(first)?;
                }
                (Open::List, b',') => {
                    let first = self.next_mark()?;
                    self.value(first)?;
                }
                (Open::Object, _) => return unexpected(mark, "after object key:value pair"),
                (Open::List, _) => return unexpected(mark, "after array element"),
            }
        }
        match self.next_mark() {
            Err(_) => Ok(()),
            Ok(mark) => unexpected(mark, "after top-level value"),
        }
    }

    /// A value that begins with `first`. Of an object or a list, only as far as its first simple value.
    fn value(&mut self, first: u8) -> Result<(), Fault> {
        let mut first = first;
        loop {
            match first {
                b'"' => return self.string(),
                b't' => return self.literal("true"),
                b'f' => return self.literal("false"),
                b'n' => return self.literal("null"),
                b'-' | b'0'..=b'9' => return self.number(first),
                b'{' => {
                    self.open.push(Open::Object);
                    match self.next_mark()? {
                        b'}' => {
                            self.open.pop();
                            return Ok(());
                        }
                        mark => first = self.key(mark)?,
                    }
                }
                b'[' => {
                    self.open.push(Open::List);
                    match self.next_mark()? {
                        b']' => {
                            self.open.pop();
                            return Ok(());
                        }
                        mark => first = mark,
                    }
                }
                _ => return unexpected(first, "looking for beginning of value"),
            }
        }
    }

    fn pair(&mut self, first: u8) -> Result<(), Fault> {
        let value = self.key(first)?;
        self.value(value)
    }

    /// A key and its colon. Returns the first byte of the value.
    fn key(&mut self, first: u8) -> Result<u8, Fault> {
        if first != b'"' {
            return unexpected(first, "looking for beginning of object key string");
        }
        self.string()?;
        match self.next_mark()? {
            b':' => self.next_mark(),
            mark => unexpected(mark, "after object key"),
        }
    }

    fn string(&mut self) -> Result<(), Fault> {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => match self.next()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let digit = self.next()?;
                            if !digit.is_ascii_hexdigit() {
                                return unexpected(digit, "in \\u hexadecimal character escape");
                            }
                        }
                    }
                    other => return unexpected(other, "in string escape code"),
                },
                control @ 0..=0x1f => return unexpected(control, "in string literal"),
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), Fault> {
        for expected in word.chars().skip(1) {
            let found = self.next()?;
            if char::from(found) != expected {
                return unexpected(found, &format!("in literal {word} (expecting '{expected}')"));
            }
        }
        Ok(())
    }

    fn number(&mut self, first: u8) -> Result<(), Fault> {
        let first = if first == b'-' { self.next()? } else { first };
        match first {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            other => return unexpected(other, "in numeric literal"),
        }
        if self.peek().is_ok_and(|byte| byte == b'.') {
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if self.peek().is_ok_and(|byte| matches!(byte, b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek()?, b'+' | b'-') {
                self.at += 1;
            }
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn digit(&mut self, context: &str) -> Result<(), Fault> {
        match self.next()? {
            b'0'..=b'9' => Ok(()),
            other => unexpected(other, context),
        }
    }

    fn digits(&mut self) {
        while self.peek().is_ok_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }
}

fn unexpected<T>(found: u8, context: &str) -> Result<T, Fault> {
    Err(Fault::Byte(found, context.to_owned()))
}

/// A byte as these texts quote it: as the character of that number, or escaped if it cannot be printed.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::fault;
    use proptest::prelude::*;

    #[test]
    fn the_first_byte_that_cannot_stand_there_is_named_with_what_was_expected() {
        for (text, expected) in [
            ("", "unexpected end of JSON input"),
            ("{\"a\":", "unexpected end of JSON input"),
            ("[1,", "unexpected end of JSON input"),
            ("\"abc", "unexpected end of JSON input"),
            ("1e", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 \"b\":2}", "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[{\"a\":[1}]", "invalid character '}' after array element"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u00g0\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("trUe", "invalid character 'U' in literal true (expecting 'u')"),
            ("nul'", "invalid character '\\'' in literal null (expecting 'l')"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1e+x", "invalid character 'x' in exponent of numeric literal"),
            ("\u{e9}", "invalid character '\u{c3}' looking for beginning of value"),
            ("\0", "invalid character '\\x00' looking for beginning of value"),
        ] {
            assert_eq!(fault(text.as_bytes()).as_deref(), Some(expected), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_fault_is_found_where_another_reader_finds_one(text in r#"[\[\]{}",:0-9eE.+\-truefalsn \\u]{0,12}"#) {
            let reads = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(fault(text.as_bytes()).is_none(), reads);
        }
    }
}
