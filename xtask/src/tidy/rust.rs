//! Just enough of a Rust lexer for tidy: words, punctuation and string literals with their lines, comments dropped.
//!
//! Searching the text for `mod x;` or `std::fs` would find it in comments and strings too.

/// A token of the kinds that the checks look at. Literals other than strings are words or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    /// A string literal as it is spelled between its quotes.
    Str(&'a str),
    Mark(char),
}

/// The tokens of a source file with the lines they begin on.
pub(super) fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    Lexer { rest: text, line: 1 }.collect()
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lexer<'a> {
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.take(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.take(2);
            } else {
                self.take(self.rest.chars().next().map_or(0, char::len_utf8));
            }
            if depth == 0 || self.rest.is_empty() {
                return;
            }
        }
    }

    /// What is between the opening quote, already taken, and the closing one.
    fn quoted(&mut self) -> &'a str {
        let mut escaped = false;
        let end = self.rest.find(|c| {
            let closes = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            closes
        });
        let inside = self.take(end.unwrap_or(self.rest.len()));
        self.take(1);
        inside
    }

    /// The raw string that begins here after its `r`, if one does.
    fn raw_quoted(&mut self) -> Option<&'a str> {
        let hashes = self.rest.len() - self.rest.trim_start_matches('#').len();
        if !self.rest[hashes..].starts_with('"') {
            return None;
        }
        self.take(hashes + 1);
        let close = format!("\"{}", "#".repeat(hashes));
        let inside = self.take(self.rest.find(&close).unwrap_or(self.rest.len()));
        self.take(close.len());
        Some(inside)
    }

    /// After a single quote: a char literal is skipped whole, of a lifetime only the quote is.
    fn char_or_lifetime(&mut self) {
        let mut chars = self.rest.chars();
        match (chars.next(), chars.next()) {
            (Some('\\'), Some(escaped)) => {
                let after = 1 + escaped.len_utf8();
                let end = self.rest[after..].find('\'').map_or(self.rest.len(), |at| after + at + 1);
                self.take(end);
            }
            (Some(c), Some('\'')) => drop(self.take(c.len_utf8() + 1)),
            _ => {}
        }
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = (usize, Token<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let first = self.rest.chars().next()?;
            if self.rest.starts_with("//") {
                self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                self.block_comment();
            } else if first.is_whitespace() {
                self.take(first.len_utf8());
            } else if first == '"' {
                let line = self.line;
                self.take(1);
                return Some((line, Token::Str(self.quoted())));
            } else if first == '\'' {
                self.take(1);
                self.char_or_lifetime();
            } else if in_word(first) {
                let line = self.line;
                let word = self.take(self.rest.find(|c| !in_word(c)).unwrap_or(self.rest.len()));
                if matches!(word, "r" | "br" | "cr")
                    && let Some(inside) = self.raw_quoted()
                {
                    return Some((line, Token::Str(inside)));
                }
                // The prefix of a raw identifier says nothing: `r#mod` is still a name, and never a keyword.
                return Some((line, Token::Word(word)));
            } else {
                let line = self.line;
                self.take(first.len_utf8());
                return Some((line, Token::Mark(first)));
            }
        }
    }
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::Token::{Mark, Str, Word};
    use super::*;

    fn plain(text: &str) -> Vec<Token<'_>> {
        tokens(text).into_iter().map(|(_, token)| token).collect()
    }

    #[test]
    fn comments_are_dropped_whole() {
        assert_eq!(plain("a // mod b;\n/* c /* d */ e */ f"), [Word("a"), Word("f")]);
    }

    #[test]
    fn strings_are_one_token_whatever_is_in_them() {
        assert_eq!(plain(r#""a // \" b" c"#), [Str(r#"a // \" b"#), Word("c")]);
        assert_eq!(plain(r##"r#"a " b"# br"\" c"##), [Str(r#"a " b"#), Str("\\"), Word("c")]);
        assert_eq!(plain(r#""\\" a"#), [Str(r"\\"), Word("a")]);
    }

    #[test]
    fn a_quote_is_a_char_or_a_lifetime() {
        assert_eq!(plain(r#"'"' a '\'' b '\u{7f}' c"#), [Word("a"), Word("b"), Word("c")]);
        assert_eq!(plain("&'a str"), [Mark('&'), Word("a"), Word("str")]);
    }

    #[test]
    fn lines_are_counted_through_everything() {
        let lines: Vec<_> = tokens("\"a\nb\" /*\n*/ c\n// d\ne").into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 3, 5]);
    }

    #[test]
    fn the_end_of_the_file_closes_everything() {
        for text in ["\"a", "r#\"a", "/* a", "'\\", "'", "r#"] {
            drop(tokens(text));
        }
    }
}
