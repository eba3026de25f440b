//! The body of an answer: bytes that are there, or a stream of bytes to come.
//!
//! Bytes that are shared (cached objects, watch frames) are passed on as they are; nothing here copies.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Frame, SizeHint};
use thiserror::Error;
use tokio::sync::mpsc;

/// The answer cannot be completed. The connection or stream is reset, so that no client takes it for whole.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the answer broke off: {0}")]
pub struct Broken(pub String);

/// The client does not want the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the client is gone")]
pub struct Gone;

/// The body of an answer.
pub struct Body(Inner);

enum Inner {
    Channel(mpsc::Receiver<Result<Bytes, Broken>>),
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, Broken>> + Send>>),
    Whole(Option<Bytes>),
}

impl Body {
    /// No bytes.
    pub const fn empty() -> Self {
        Self(Inner::Whole(None))
    }

    /// These bytes, in one piece.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Whole(Some(bytes.into()).filter(|bytes| !bytes.is_empty())))
    }

    /// What the stream yields, each item sent at once. It is polled by the connection itself: no task, no queue.
    pub fn stream(stream: impl Stream<Item = Result<Bytes, Broken>> + Send + 'static) -> Self {
        Self(Inner::Stream(Box::pin(stream)))
    }

    /// What is put into the sender, of which at most `capacity` pieces wait. The body ends when the sender is dropped.
    pub fn channel(capacity: usize) -> (Sender, Self) {
        let (sender, receiver) = mpsc::channel(capacity);
        (Sender(sender), Self(Inner::Channel(receiver)))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Inner::Whole(_) => "Body(bytes)",
            Inner::Channel(_) | Inner::Stream(_) => "Body(stream)",
        })
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::whole(bytes)
    }
}

/// Feeds a body that was made by [`Body::channel`].
#[derive(Debug)]
pub struct Sender(mpsc::Sender<Result<Bytes, Broken>>);

impl Sender {
    /// Passes bytes on when there is room, from a thread that may wait.
    pub fn blocking_send(&self, bytes: Bytes) -> Result<(), Gone> {
        self.0.blocking_send(Ok(bytes)).map_err(|_| Gone)
    }

    /// Ends the body as one that is not whole, from a thread that may wait.
    pub fn blocking_break(self, why: impl Into<String>) {
        // Whoever is gone needs no telling.
        let _ = self.0.blocking_send(Err(Broken(why.into())));
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let next = match &mut self.0 {
            Inner::Whole(bytes) => Poll::Ready(bytes.take().map(Ok)),
            Inner::Channel(receiver) => receiver.poll_recv(cx),
            Inner::Stream(stream) => stream.as_mut().poll_next(cx),
        };
        next.map(|item| item.map(|result| result.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Whole(bytes) => bytes.is_none(),
            Inner::Channel(_) | Inner::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Inner::Channel(_) | Inner::Stream(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use hyper::body::Body as _;

    use super::*;

    async fn bytes_of(body: Body) -> Result<Bytes, Broken> {
        body.collect().await.map(http_body_util::Collected::to_bytes)
    }

    #[tokio::test]
    async fn bytes_that_are_there_have_their_exact_size() {
        assert!(Body::empty().is_end_stream() && Body::whole("").is_end_stream());
        assert_eq!(Body::whole("abc").size_hint().exact(), Some(3));
        assert_eq!(bytes_of(Body::whole("abc")).await.unwrap(), "abc");
    }

    /// Does that with a sender on a thread of its own, and then drops it or not.
    fn fed(feed: impl FnOnce(Sender) + Send + 'static) -> Body {
        let (sender, body) = Body::channel(4);
        std::thread::spawn(move || feed(sender)).join().unwrap();
        body
    }

    #[tokio::test]
    async fn a_channel_ends_with_its_sender_or_breaks_off() {
        let body = fed(|sender| {
            sender.blocking_send("a".into()).unwrap();
            sender.blocking_send("b".into()).unwrap();
        });
        assert_eq!(body.size_hint().exact(), None);
        assert_eq!(bytes_of(body).await.unwrap(), "ab");

        let body = fed(|sender| {
            sender.blocking_send("a".into()).unwrap();
            sender.blocking_break("disk");
        });
        assert_eq!(bytes_of(body).await, Err(Broken("disk".to_owned())));
    }

    #[test]
    fn a_sender_learns_that_the_client_is_gone() {
        let (sender, body) = Body::channel(1);
        drop(body);
        assert_eq!(sender.blocking_send("a".into()), Err(Gone));
    }
}
