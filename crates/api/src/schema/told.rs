//! What a client is told about its body, kept so that no body can make it grow: a small body can be wrong in very many
//! places, and one long name in it can be part of the path to each of them.

/// How many texts are kept. Upstream stops counting there, and so does a message stay readable.
const MOST_TEXTS: usize = 100;

/// How many bytes of text are made at all; the text that goes beyond is the last one.
const MOST_BYTES: usize = 256 * 1024;

/// Texts for a client: each once, and not too many of them.
#[derive(Debug, Default)]
pub struct Told {
    texts: Vec<String>,
    made: usize,
}

impl Told {
    /// Says a thing, unless it was said already or enough was. The text is made only if there may be room for it.
    pub fn say(&mut self, text: impl FnOnce() -> String) {
        if self.texts.len() >= MOST_TEXTS || self.made >= MOST_BYTES {
            return;
        }
        let text = text();
        // What was made to find that it was said before has its price too.
        self.made += text.len();
        if !self.texts.contains(&text) {
            self.texts.push(text);
        }
    }

    /// The texts, in the order in which they were said.
    pub fn into_texts(self) -> Vec<String> {
        self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_said_once_and_not_too_many_are() {
        let mut told = Told::default();
        for n in 0..400 {
            told.say(|| (n % 200).to_string());
        }
        let expected: Vec<String> = (0..MOST_TEXTS).map(|n| n.to_string()).collect();
        assert_eq!(told.into_texts(), expected);
    }

    #[test]
    fn no_more_is_made_than_a_limit_whether_it_is_new_or_not() {
        let mut told = Told::default();
        let mut made = 0;
        for n in 0..10_000 {
            told.say(|| {
                made += 1;
                format!("{}{}", "x".repeat(MOST_BYTES / 4), n % 2)
            });
        }
        assert_eq!(made, 4);
        assert_eq!(told.into_texts().len(), 2);
    }
}
