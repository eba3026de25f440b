//! A client of a server in the same process: requests go to it without a socket, and it answers as it answers anybody.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use server::access::User;
use server::front::Shutdown;
use server::{Content, Reply, Server};
use tower_service::Service;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// See the module.
#[derive(Clone)]
struct Within {
    server: Server,
    user: Arc<User>,
    shutdown: Shutdown,
}

/// A client that is that user of the server.
pub fn client(server: Server, user: Arc<User>, shutdown: Shutdown) -> Client {
    Client::new(Within { server, user, shutdown }, "default")
}

impl Service<Request<Body>> for Within {
    type Response = Response<UnsyncBoxBody<Bytes, Error>>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { server, user, shutdown } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let request = server::Request {
                method: parts.method,
                path: parts.uri.path().to_owned(),
                query: parts.uri.query().unwrap_or_default().to_owned(),
                headers: parts.headers,
                body: body.collect_bytes().await?,
                user,
            };
            Ok(response(server.call(request, &shutdown).await))
        })
    }
}

fn response(reply: Reply) -> Response<UnsyncBoxBody<Bytes, Error>> {
    let Reply { status, headers, content } = reply;
    let body = match content {
        Content::Whole(bytes) => Full::new(bytes).map_err(|never: Infallible| match never {}).boxed_unsync(),
        Content::Pieces(pieces) | Content::Live(pieces) => {
            StreamBody::new(pieces.map(|piece| piece.map(Frame::data).map_err(Into::into))).boxed_unsync()
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
