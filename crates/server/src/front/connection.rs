//! One connection from its handshake to its end.
//!
//! The protocol is the one that the handshake agreed on: HTTP/2 if the client offered it, HTTP/1.1 otherwise. Nothing is
//! guessed from the first bytes, so a client that sends none is under a clock like every other.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, error};

use super::body::{Body, Broken};
use super::counters::Counters;
use super::limits::Limits;
use super::shutdown::Shutdown;
use super::stall::Stall;
use super::{Serve, status, tls};
use crate::access::{Authenticator, PeerUser};

/// What of one HTTP/2 request's body may be on its way to us.
const STREAM_WINDOW: u32 = 256 * 1024;

/// The same for all requests of a connection.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// What of one HTTP/2 answer waits for the client to have room.
const SEND_BUFFER: usize = 256 * 1024;

/// What an HTTP/1.1 connection reads ahead, and what it gathers before it writes.
const BUFFER: usize = 128 * 1024;

/// How much is encrypted and handed to the system at once, as whole records of TLS. Every write wakes the client, which costs more
/// than the bytes: a list of 12 MB in writes of 64 KB took a quarter longer.
pub(crate) const AT_ONCE_BYTES: usize = 25 * 16 * 1024;

/// What all connections have in common.
pub(super) struct House<S> {
    pub(super) service: S,
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) acceptor: TlsAcceptor,
    pub(super) limits: Limits,
    pub(super) shutdown: Shutdown,
    pub(super) counters: Arc<Counters>,
}

/// Serves one connection until it ends, whoever ends it.
pub(super) async fn serve<S: Serve>(house: Arc<House<S>>, socket: TcpStream) {
    let shutdown = house.shutdown.clone();
    let handshake = house.acceptor.accept(Stall::new(socket, house.limits.stall));
    let stream = tokio::select! {
        stream = timeout(house.limits.handshake, handshake) => stream,
        () = shutdown.begun() => return,
    };
    let stream = match stream {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            house.counters.handshakes_failed.increase();
            debug!(%error, "a TLS handshake failed");
            return;
        }
        Err(_) => {
            house.counters.handshakes_timed_out.increase();
            debug!("a TLS handshake took too long");
            return;
        }
    };
    speak(house, stream, shutdown).await;
}

async fn speak<S: Serve>(house: Arc<House<S>>, mut stream: TlsStream<Stall<TcpStream>>, shutdown: Shutdown) {
    stream.get_mut().1.set_buffer_limit(Some(AT_ONCE_BYTES));
    let session = stream.get_ref().1;
    let peer = session.peer_certificates().and_then(|chain| chain.first()).and_then(PeerUser::of);
    let is_h2 = session.alpn_protocol() == Some(tls::H2);
    let limits = house.limits;
    let counters = Arc::clone(&house.counters);
    let activity = Arc::new(Activity::default());
    let line = Arc::new(Line { house, peer, activity: Arc::clone(&activity) });
    let service = service_fn(move |request| {
        let line = Arc::clone(&line);
        async move { Ok::<_, Infallible>(line.answer(request).await) }
    });
    let io = TokioIo::new(stream);
    let ended = if is_h2 {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(limits.head_bytes)
            .serve_connection(io, service);
        let stuck = activity.stuck(limits.stream_stall);
        drive(pin!(connection), shutdown, activity.silence(limits.idle), stuck).await
    } else {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.idle)
            .max_header_size(limits.head_bytes as usize)
            .max_buf_size(BUFFER)
            .serve_connection(io, service);
        // An answer that is not taken is a write that waits, for which the socket has a clock.
        drive(pin!(connection), shutdown, std::future::pending(), std::future::pending()).await
    };
    match ended {
        Ok(()) => {}
        Err(Early::Stuck) => {
            counters.stalled.increase();
            debug!("a connection was cut: the client leaves an answer untaken");
        }
        Err(Early::Broken(error)) => {
            if is_stall(&error) {
                counters.stalled.increase();
            }
            debug!(error = &error as &dyn std::error::Error, "a connection ended early");
        }
    }
}

/// Why a connection ended before its client ended it.
enum Early {
    /// Somebody broke off, or did not keep to the protocol.
    Broken(hyper::Error),
    /// The client left an answer untaken.
    Stuck,
}

/// Runs a connection; lets it finish what it has begun when the shutdown begins or nobody speaks any more, and cuts it when
/// it is stuck.
async fn drive<C>(
    mut connection: Pin<&mut C>,
    shutdown: Shutdown,
    silence: impl Future<Output = ()>,
    stuck: impl Future<Output = ()>,
) -> Result<(), Early>
where
    C: GracefulConnection<Error = hyper::Error>,
{
    let mut stuck = pin!(stuck);
    let farewell = async {
        tokio::select! {
            () = shutdown.begun() => {}
            () = silence => {}
        }
    };
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended.map_err(Early::Broken),
        () = stuck.as_mut() => return Err(Early::Stuck),
        () = farewell => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        ended = connection => ended.map_err(Early::Broken),
        () = stuck => Err(Early::Stuck),
        () = shutdown.cut() => Ok(()),
    }
}

fn is_stall(error: &hyper::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return error.kind() == io::ErrorKind::TimedOut;
        }
        source = cause.source();
    }
    false
}

/// A connection as its requests see it.
struct Line<S> {
    house: Arc<House<S>>,
    peer: Option<PeerUser>,
    activity: Arc<Activity>,
}

impl<S: Serve> Line<S> {
    async fn answer(&self, request: Request<Incoming>) -> Response<Tracked> {
        let busy = Busy::new(&self.activity);
        let house = &self.house;
        let response = match house.authenticator.admitted(self.peer.as_ref(), request.headers()) {
            Ok(user) => {
                // What a handler shares with others is the store, and a transaction is there whole or not at all.
                let handled = async { house.service.serve(request, user, &house.shutdown).await };
                AssertUnwindSafe(handled).catch_unwind().await.unwrap_or_else(|_| {
                    house.counters.panics.increase();
                    error!("a handler panicked; its request was answered with 500");
                    status::panicked()
                })
            }
            Err(refused) => {
                house.counters.refused.increase();
                status::refused(&refused)
            }
        };
        busy.waits_for_client(!response.body().is_end_stream());
        response.map(|body| Tracked { body, busy })
    }
}

/// The requests of a connection, counted.
#[derive(Default)]
struct Activity {
    /// Those whose answers are not all sent.
    open: AtomicU32,
    /// Those there ever were; it may wrap.
    begun: AtomicU32,
    /// Since when answers that have more to send wait for the client to take it, by the number of the request. One that
    /// waits for us, as a watch does most of the time, is not here.
    untaken: Mutex<HashMap<u32, Instant>>,
}

impl Activity {
    /// Waits until there was no request for that long, or up to twice as long.
    async fn silence(&self, limit: Duration) {
        loop {
            let before = self.begun.load(Ordering::Relaxed);
            sleep(limit).await;
            if self.open.load(Ordering::Relaxed) == 0 && self.begun.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }

    /// Waits until the client has left some answer untaken for that long, or a little longer.
    async fn stuck(&self, limit: Duration) {
        loop {
            sleep(limit / 4).await;
            if self.untaken.lock().values().any(|since| since.elapsed() >= limit) {
                return;
            }
        }
    }
}

/// A request that is not answered to the end.
struct Busy {
    activity: Arc<Activity>,
    number: u32,
}

impl Busy {
    fn new(activity: &Arc<Activity>) -> Self {
        let number = activity.begun.fetch_add(1, Ordering::Relaxed);
        activity.open.fetch_add(1, Ordering::Relaxed);
        Self { activity: Arc::clone(activity), number }
    }

    /// Says whose turn it is: the client's, to take what there is, or ours.
    fn waits_for_client(&self, waits: bool) {
        let mut untaken = self.activity.untaken.lock();
        if waits {
            untaken.insert(self.number, Instant::now());
        } else {
            untaken.remove(&self.number);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.activity.open.fetch_sub(1, Ordering::Relaxed);
        self.waits_for_client(false);
    }
}

/// A body that keeps its request open until it is sent or dropped.
///
/// The protocol asks it for more only when the client has room. In HTTP/2 each answer has a window of its own, and a client
/// that reads everything else but opens none for an answer would keep it for ever.
struct Tracked {
    body: Body,
    busy: Busy,
}

impl hyper::body::Body for Tracked {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.busy.waits_for_client(matches!(polled, Poll::Ready(Some(Ok(_)))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
