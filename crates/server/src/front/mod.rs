//! The door: accepts connections, speaks TLS and HTTP, finds out who is there, and hands requests to a [`Serve`].
//!
//! It knows nothing of what is served. Its work is that no client can hold the house up: every wait has a clock, every
//! number a limit ([`Limits`]), and a handler that falls over takes one answer with it and nothing else.

mod body;
mod connection;
mod counters;
mod limits;
mod shutdown;
mod stall;
pub mod status;
pub mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

pub use body::{Body, Broken, Gone, Sender};
pub(crate) use connection::AT_ONCE_BYTES;
use connection::House;
pub use counters::{Counter, Counters};
pub use limits::Limits;
pub use shutdown::{Shutdown, Trigger};

use crate::access::{Authenticator, User};

/// Connections that the system keeps for us until we take them.
const BACKLOG: u32 = 4096;

/// How long a connection is silent before its other end is asked whether it is still there, and how long between asks.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// How often it is asked in vain before the connection is given up.
const KEEPALIVE_RETRIES: u32 = 4;

/// How long to wait when the system gives no more connections (out of descriptors), before asking again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers requests of users who came in.
pub trait Serve: Send + Sync + 'static {
    /// Answers one request. When the shutdown begins, an answer without an end (a watch) has to come to one.
    fn serve(
        &self,
        request: Request<Incoming>,
        user: Arc<User>,
        shutdown: &Shutdown,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// A listener and all that it takes to serve on it.
pub struct Front<S> {
    /// Where connections come from.
    pub listener: TcpListener,
    /// What to present, and whom to trust; see [`tls::config`].
    pub tls: Arc<ServerConfig>,
    /// Who is who.
    pub authenticator: Arc<Authenticator>,
    /// What clients may take.
    pub limits: Limits,
    /// Counts what happens.
    pub counters: Arc<Counters>,
    /// Answers the requests.
    pub service: S,
}

/// How a shutdown went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that had not come to their end in time and were cut.
    pub cut: u32,
}

/// Listens there. Must be called in a runtime.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Without it, the address of a server that was killed is taken for a minute by its own dead connections.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl<S: Serve> Front<S> {
    /// Serves until the shutdown begins and all connections have come to their end.
    pub async fn run(self, trigger: Trigger) -> Drained {
        let Self { listener, tls, authenticator, limits, counters, service } = self;
        let places = Arc::new(Semaphore::new(limits.connections as usize));
        let shutdown = trigger.shutdown();
        let acceptor = TlsAcceptor::from(tls);
        let house = Arc::new(House { service, authenticator, acceptor, limits, shutdown: shutdown.clone(), counters });
        tokio::select! {
            () = accept(&listener, &house, &places) => {}
            () = shutdown.begun() => {}
        }
        drop(listener);
        drain(&places, limits, &trigger).await
    }
}

async fn accept<S: Serve>(listener: &TcpListener, house: &Arc<House<S>>, places: &Arc<Semaphore>) {
    while let Some(place) = take_place(places, &house.counters).await {
        match listener.accept().await {
            Ok((socket, _)) => {
                house.counters.accepted.increase();
                let house = Arc::clone(house);
                tokio::spawn(async move {
                    let counters = Arc::clone(&house.counters);
                    match tune(&socket, house.limits.stall) {
                        Ok(()) => connection::serve(house, socket).await,
                        // It was gone before we looked.
                        Err(error) => debug!(%error, "a connection could not be set up"),
                    }
                    counters.ended.increase();
                    drop(place);
                });
            }
            Err(error) => {
                warn!(%error, "no connection could be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn take_place(places: &Arc<Semaphore>, counters: &Counters) -> Option<OwnedSemaphorePermit> {
    if places.available_permits() == 0 {
        counters.full.increase();
        debug!("all connections are in use: the next one waits until one ends");
    }
    Arc::clone(places).acquire_owned().await.ok()
}

/// Small answers leave at once, and a client that vanished is noticed.
fn tune(socket: &TcpStream, stall: Duration) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(KEEPALIVE_RETRIES);
    socket.set_tcp_keepalive(&keepalive)?;
    // Bytes that the other end does not acknowledge keep the system from asking; this is the clock for those.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(stall))?;
    Ok(())
}

async fn drain(places: &Semaphore, limits: Limits, trigger: &Trigger) -> Drained {
    let all_ended = || places.acquire_many(limits.connections);
    if timeout(limits.drain, all_ended()).await.is_ok() {
        return Drained { cut: 0 };
    }
    let cut = limits.connections - places.available_permits() as u32;
    info!(connections = cut, "some connections did not come to their end in time and are cut");
    trigger.cut();
    // A connection that is cut ends at its next poll; none waits for its client any more.
    let _ = all_ended().await;
    Drained { cut }
}
