//! What goes back to a client: a status, a few headers and a content that is whole or still being made.

use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;

use super::failure::Failure;
use super::negotiate::Encoding;
use super::{show, yaml};
use crate::front::Broken;

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

    /// The same reply with warnings for the client.
    #[must_use]
    pub(crate) fn warned(mut self, warnings: &[String]) -> Self {
        for warning in warnings {
            let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(char::is_control, " ");
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
                self.headers.append(header::WARNING, value);
            }
        }
        self
    }

    /// The same reply in the encoding that the client wants. Only whole contents are changed: a stream is JSON.
    pub(crate) fn encoded(mut self, encoding: Encoding) -> Result<Self, Failure> {
        if let (Encoding::Yaml, Content::Whole(bytes)) = (encoding, &self.content) {
            let text = yaml::from_json(bytes).map_err(Failure::internal)?;
            self.content = Content::Whole(text.into());
            self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(encoding.media_type()));
        }
        Ok(self)
    }
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        let mut reply = Self::value(failure.code, &failure.status());
        if let Some(seconds) = failure.details.retry_after {
            reply.headers.insert(header::RETRY_AFTER, seconds.into());
        }
        reply
    }
}
