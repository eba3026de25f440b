//! What goes back to a client: a status, a few headers and a content that is whole or still being made.

use std::collections::HashSet;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;

use super::failure::Failure;
use super::negotiate::{self, Encoding};
use super::{protobuf, show, yaml};
use crate::front::Broken;

/// How many characters all warnings of an answer may have before each of them is cut; what is over it then is left out.
const MOST_WARNED: usize = 4096;

/// How many characters of a warning are told if all of them together have too many.
const LONGEST_WARNING: usize = 256;

/// A content that is made while it is sent.
pub type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, Broken>> + Send>>;

/// The content of a reply.
pub enum Content {
    /// All of it.
    Whole(Bytes),
    /// One piece after the other: a long list.
    Pieces(Pieces),
    /// Events as they happen: a watch.
    Live(Pieces),
}

/// An answer to a request.
pub struct Reply {
    /// The HTTP status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its content.
    pub content: Content,
}

impl Reply {
    pub(crate) fn new(status: StatusCode, media: &'static str, content: Content) -> Self {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        Self { status, headers, content }
    }

    /// A reply of JSON that is there already.
    pub(crate) fn json(status: StatusCode, bytes: impl Into<Bytes>) -> Self {
        Self::new(status, "application/json", Content::Whole(bytes.into()))
    }

    /// A reply of something that is written as JSON.
    pub(crate) fn value(status: StatusCode, value: &impl Serialize) -> Self {
        let mut bytes = BytesMut::with_capacity(256);
        show::put_value(&mut bytes, value);
        Self::json(status, bytes.freeze())
    }

    /// A reply of plain text.
    pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", Content::Whole(text.into()))
    }

    /// The same reply with warnings for the client, each once. If they are long, none is told in full.
    #[must_use]
    pub(crate) fn warned(mut self, warnings: &[String]) -> Self {
        for warning in shortened(warnings) {
            let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(char::is_control, " ");
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
                self.headers.append(header::WARNING, value);
            }
        }
        self
    }

    /// The same reply with that warning before all others.
    #[must_use]
    pub(crate) fn warned_first(mut self, warning: &str) -> Self {
        let others: Vec<HeaderValue> = self.headers.get_all(header::WARNING).iter().cloned().collect();
        self.headers.remove(header::WARNING);
        self = self.warned(&[warning.to_owned()]);
        for other in others {
            self.headers.append(header::WARNING, other);
        }
        self
    }

    /// The same reply in the encoding that the client wants. Only whole contents are changed: a stream is made as it is to be.
    pub(crate) fn encoded(mut self, encoding: Encoding) -> Result<Self, Failure> {
        let Content::Whole(bytes) = &self.content else { return Ok(self) };
        let bytes = match encoding {
            Encoding::Json => return Ok(self),
            Encoding::Yaml => yaml::from_json(bytes).map_err(Failure::internal)?.into(),
            Encoding::Protobuf => protobuf::object(bytes)?.into(),
        };
        self.content = Content::Whole(bytes);
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(encoding.media_type()));
        Ok(self)
    }

    /// What went wrong, as the client wants to read it; as JSON if it wants nothing there is.
    pub(crate) fn refusal(failure: Failure, headers: &HeaderMap) -> Self {
        let encoding = negotiate::plain(headers).unwrap_or(Encoding::Json);
        Self::from(failure).encoded(encoding).unwrap_or_else(Self::from)
    }
}

/// The warnings that are told, as far as they are told: clients and whatever is between refuse an answer whose headers are
/// too long.
fn shortened(warnings: &[String]) -> impl Iterator<Item = &str> {
    let mut said = HashSet::new();
    let each: Vec<&str> =
        warnings.iter().map(String::as_str).filter(|one| !one.is_empty() && said.insert(*one)).collect();
    let length = |text: &str| text.chars().count();
    let is_long = each.iter().map(|one| length(one)).sum::<usize>() > MOST_WARNED;
    let cut = move |one: &'_ str| match one.char_indices().nth(LONGEST_WARNING) {
        Some((end, _)) if is_long => end,
        _ => one.len(),
    };
    let mut told = 0;
    each.into_iter().map(move |one| &one[..cut(one)]).take_while(move |one| {
        let has_room = told < MOST_WARNED;
        told += length(one);
        has_room
    })
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        let mut reply = Self::value(failure.code, &failure.status());
        if let Some(seconds) = failure.details.retry_after {
            reply.headers.insert(header::RETRY_AFTER, seconds.into());
        }
        reply.warned(&failure.warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(warnings: &[String]) -> Vec<String> {
        let reply = Reply::text(StatusCode::OK, "").warned(warnings);
        reply.headers.get_all(header::WARNING).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_warning_is_told_once_and_in_full_if_there_is_room() {
        let long = "x".repeat(MOST_WARNED - 3);
        let warnings = ["a\"b".to_owned(), String::new(), long.clone(), "a\"b".to_owned()];
        assert_eq!(told(&warnings), [r#"299 - "a\"b""#.to_owned(), format!("299 - \"{long}\"")]);
    }

    #[test]
    fn what_is_deprecated_is_told_first() {
        let reply = Reply::text(StatusCode::OK, "").warned(&["a".to_owned()]).warned_first("old");
        let told: Vec<_> = reply.headers.get_all(header::WARNING).iter().collect();
        assert_eq!(told, ["299 - \"old\"", "299 - \"a\""]);
    }

    #[test]
    fn very_many_or_long_warnings_are_cut_and_then_left_out() {
        let long = |n: usize| format!("{n:04}{}", "x".repeat(10_000));
        let all: Vec<String> = (0..5_000).map(long).collect();
        let told = told(&all);
        assert_eq!(told.len(), MOST_WARNED / LONGEST_WARNING);
        assert!(told.iter().all(|one| one.len() == LONGEST_WARNING + "299 - \"\"".len()), "{told:?}");
        let short: Vec<String> = (0..5_000).map(|n| n.to_string()).collect();
        assert!(super::shortened(&short).map(str::len).sum::<usize>() < MOST_WARNED + LONGEST_WARNING);
        assert_eq!(super::shortened(&["é".repeat(5_000)]).next().unwrap(), "é".repeat(LONGEST_WARNING));
    }
}
