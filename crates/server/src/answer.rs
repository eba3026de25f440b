//! From an HTTP request to a [`Request`] and from a [`Reply`] to an HTTP response: the limit of bodies, and compression.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{Stream, StreamExt};
use http::header::{CONTENT_ENCODING, VARY};
use http::{HeaderMap, HeaderValue, Method, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::access::User;
use crate::front::{Body, Broken, Shutdown};
use crate::machinery::{Content, Failure, Machinery, Reply, Request, takes_gzip};

/// Contents from this size on are compressed for clients that take it; smaller ones cost more time than they save.
const COMPRESS_FROM: usize = 128 * 1024;

/// Answers a request that came in through the front.
pub(crate) async fn answer<B>(
    machinery: &Machinery,
    most_bytes: usize,
    request: http::Request<B>,
    user: Arc<User>,
    shutdown: &Shutdown,
) -> Response<Body>
where
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let head = parts.method == Method::HEAD;
    let compress = takes_gzip(&parts.headers);
    let request = Request {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body: Bytes::new(),
        user,
    };
    let reply = machinery.answer(request, read(body, most_bytes), shutdown).await;
    response(reply, head, compress)
}

/// Reads the body of a request, up to the limit.
async fn read<B>(body: B, limit: usize) -> Result<Bytes, Failure>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    if body.size_hint().lower() > limit as u64 {
        return Err(Failure::too_large(limit));
    }
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::too_large(limit)),
        Err(error) => Err(Failure::bad_request(format!("the body of the request could not be read: {error}"))),
    }
}

fn response(mut reply: Reply, head: bool, compress: bool) -> Response<Body> {
    let body = match reply.content {
        Content::Whole(bytes) if compress && bytes.len() >= COMPRESS_FROM => {
            compressed(&mut reply.headers, futures_util::stream::iter([Ok(bytes)]))
        }
        Content::Whole(bytes) => Body::whole(bytes),
        Content::Pieces(pieces) if compress => compressed(&mut reply.headers, pieces),
        // The events of a watch are to be seen at once, not when a block of them is full.
        Content::Pieces(pieces) | Content::Live(pieces) => Body::stream(pieces),
    };
    let mut response = Response::new(if head { Body::empty() } else { body });
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    response
}

/// The pieces through gzip, compressed while they are sent.
fn compressed(
    headers: &mut HeaderMap,
    pieces: impl Stream<Item = Result<Bytes, Broken>> + Send + Unpin + 'static,
) -> Body {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    Body::stream(futures_util::stream::unfold(Some((pieces, encoder)), |state| async move {
        let (mut pieces, mut encoder) = state?;
        loop {
            let broken = |error: std::io::Error| Broken(error.to_string());
            match pieces.next().await {
                Some(Ok(piece)) => {
                    if let Err(error) = encoder.write_all(&piece) {
                        return Some((Err(broken(error)), None));
                    }
                    let out = std::mem::take(encoder.get_mut());
                    if !out.is_empty() {
                        return Some((Ok(out.into()), Some((pieces, encoder))));
                    }
                }
                Some(Err(error)) => return Some((Err(error), None)),
                None => return Some((encoder.finish().map(Bytes::from).map_err(broken), None)),
            }
        }
    }))
}
