//! What a controller shows of itself: whether it lives, whether it is ready, and its metrics. Plain HTTP, for probes and
//! Prometheus.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use controllers::node::duty::{self, Health};
use controllers::node::meters;
use controllers::slice;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::debug;

/// How many connections there may be at one time; more wait.
const CONNECTIONS: usize = 32;
/// How long a client may take for the head of its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a controller shows.
pub(crate) trait Shown: Send + Sync + 'static {
    /// How far it has come.
    fn health(&self) -> &Health;
    /// What it counts, as Prometheus reads it.
    fn metrics(&self) -> String;
}

impl Shown for Arc<duty::Report> {
    fn health(&self) -> &Health {
        &self.health
    }

    fn metrics(&self) -> String {
        meters::text(Self::clone(self))
    }
}

impl Shown for Arc<agent::execute::Report> {
    fn health(&self) -> &Health {
        &self.health
    }

    fn metrics(&self) -> String {
        self.meters.text()
    }
}

impl Shown for Arc<slice::duty::Report> {
    fn health(&self) -> &Health {
        &self.health
    }

    fn metrics(&self) -> String {
        meters::text(Self::clone(self))
    }
}

/// Where it is to be shown, as Go writes it: `:8081` is every address.
pub(crate) fn address(text: &str) -> Result<Option<SocketAddr>, String> {
    let whole = match text.strip_prefix(':') {
        Some(port) => format!("[::]:{port}"),
        None => text.replace("localhost:", "127.0.0.1:"),
    };
    match whole.as_str() {
        "" | "0" => Ok(None),
        whole => whole.parse().map(Some).map_err(|_| "expected ADDRESS:PORT, :PORT, or 0 for none".to_owned()),
    }
}

/// Listens there. Where every address is meant and there is no IPv6, every address is those of IPv4.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener> {
    let every = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
    let listener = match server::front::listen(address) {
        Err(error) if address.ip().is_unspecified() && error.kind() != ErrorKind::AddrInUse => {
            server::front::listen(every)
        }
        listener => listener,
    };
    listener.with_context(|| format!("cannot listen on {address} (--webserver-bind-address)"))
}

/// Shows it to whoever asks, until the task is dropped.
pub(crate) async fn show(listener: TcpListener, page: impl Shown) {
    let page = Arc::new(page);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                debug!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let page = Arc::clone(&page);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let answer = answer(&*page, &request);
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut server = http1::Builder::new();
            let server = server.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(16 * 1024);
            if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
                debug!(%error, "a connection ended");
            }
            drop(place);
        });
    }
}

fn answer(page: &impl Shown, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n".to_owned());
    }
    match request.uri().path() {
        "/healthz" | "/livez" => text(StatusCode::OK, "ok".to_owned()),
        "/readyz" if page.health().is_ready() => text(StatusCode::OK, "ok".to_owned()),
        "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {:?}\n", page.health().state())),
        "/metrics" => {
            let mut response = text(StatusCode::OK, page.metrics());
            let media = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, media);
            response
        }
        _ => text(StatusCode::NOT_FOUND, "there are /healthz, /readyz and /metrics\n".to_owned()),
    }
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let media = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_as_go_writes_them() {
        let read = |text| address(text).map(|address| address.map(|address| address.to_string()));
        assert_eq!(read(":8081"), Ok(Some("[::]:8081".to_owned())));
        assert_eq!(read("127.0.0.1:0"), Ok(Some("127.0.0.1:0".to_owned())));
        assert_eq!(read("localhost:1"), Ok(Some("127.0.0.1:1".to_owned())));
        assert_eq!((read("0"), read("")), (Ok(None), Ok(None)));
        for wrong in ["8081", ":x", "nowhere:1", ":70000"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
