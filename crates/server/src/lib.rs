//! The Kubernetes-compatible HTTP API over a store.
//!
//! `front` accepts connections and requests, `access` says who may do what, `machinery` does what is asked, `registry`
//! holds what single kinds need beyond storage, and `lifecycle` does what nobody asks for. [`Server`] puts the last four
//! together over a store; it answers requests from sockets (as a [`front::Serve`]) and from within the process
//! ([`Server::call`]) alike.

pub mod access;
mod answer;
pub mod front;
mod lifecycle;
mod machinery;
mod registry;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use space::Cidr;
use store::Store;

use self::access::accounts::{Issuer, Lookup};
use self::access::{Authenticator, User};
use self::front::{Counters, Shutdown};
use self::machinery::Machinery;
pub use self::machinery::{Cause, Content, Details, Failure, Pieces, Reply, Request, Status};

/// The most bytes that the body of a request may have.
pub const MOST_REQUEST_BYTES: usize = 3 * 1024 * 1024;

/// How long a request may take, watches aside.
pub const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// How long Events stay after their last write.
pub const EVENT_TTL: Duration = Duration::from_hours(1);

/// Where Service IPs come from, if nothing else is said.
pub const SERVICE_RANGE: &str = "10.0.0.0/24";

/// The first and the last node port, if nothing else is said.
pub const NODE_PORTS: (u16, u16) = (30_000, 32_767);

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients reach it: `127.0.0.1:6443`.
    pub address: String,
    /// The most bytes that the body of a request may have.
    pub most_request_bytes: usize,
    /// How long a request may take, watches aside.
    pub request_timeout: Duration,
    /// What the front counts, for `/metrics`.
    pub counters: Arc<Counters>,
    /// How long Events stay after their last write, if the server tends its store.
    pub event_ttl: Duration,
    /// The certificates, in PEM, by which clients in the cluster know the server. They are published in every namespace; empty
    /// for none.
    pub authority: String,
    /// Knows the tokens, for whoever asks whose one is.
    pub authenticator: Arc<Authenticator>,
    /// Signs tokens for `ServiceAccount`s; without it they get none.
    pub issuer: Option<Arc<Issuer>>,
    /// Whether the server does by itself what elsewhere is left to controllers.
    pub tended: bool,
    /// Where Service IPs come from: one range, or one of each family, the preferred first.
    pub service_ranges: Vec<Cidr>,
    /// The first and the last node port.
    pub node_ports: (u16, u16),
    /// What `/metrics` shows besides what the server counts.
    pub collectors: Vec<Arc<dyn Collector>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            address: String::new(),
            most_request_bytes: MOST_REQUEST_BYTES,
            request_timeout: REQUEST_TIMEOUT,
            counters: Arc::default(),
            event_ttl: EVENT_TTL,
            authority: String::new(),
            authenticator: Arc::default(),
            issuer: None,
            tended: true,
            service_ranges: Cidr::strict(SERVICE_RANGE).into_iter().collect(),
            node_ports: NODE_PORTS,
            collectors: Vec::new(),
        }
    }
}

/// What tokens of `ServiceAccount`s are held against: what is in that store.
pub fn lookup(store: Store) -> impl Lookup {
    registry::identity::Present(store)
}

/// The API over a store. Clones are the same server.
#[derive(Clone)]
pub struct Server {
    machinery: Arc<Machinery>,
    most_request_bytes: usize,
}

impl Server {
    /// The API over that store.
    pub fn new(store: Store, config: Config) -> Self {
        let most_request_bytes = config.most_request_bytes;
        Self { machinery: Arc::new(Machinery::new(store, config)), most_request_bytes }
    }

    /// Makes what is always there: the namespaces that clients count on, the ranges of Services, and the Service of this server.
    /// Does nothing where they are. Mends what is written of addresses and ports, if it does not agree with the Services.
    pub async fn prepare(&self) -> Result<(), Failure> {
        registry::prepare_ranges(&self.machinery).await?;
        registry::services::repair(&self.machinery.around).await?;
        registry::prepare(&self.machinery).await
    }

    /// Does what nobody asks for, until the shutdown begins: collects dependents that lost their owners, empties deleted
    /// namespaces and furnishes new ones, and lets Events expire. Several servers over one store may all do it.
    pub fn tend(&self, shutdown: Shutdown) -> impl Future<Output = ()> + Send + use<> {
        lifecycle::tend(Arc::clone(&self.machinery), shutdown)
    }

    /// Publishes that address as one of `default/kubernetes`, until the shutdown begins; then takes it out. `shared` says that
    /// other servers may use the same store.
    pub fn publish(
        &self,
        address: SocketAddr,
        shared: bool,
        shutdown: Shutdown,
    ) -> impl Future<Output = ()> + Send + use<> {
        lifecycle::publish(Arc::clone(&self.machinery), address, shared, shutdown)
    }

    /// Answers a request from within the process: no socket, no TLS, the user is who the caller says.
    pub async fn call(&self, mut request: Request, shutdown: &Shutdown) -> Reply {
        let body = std::mem::take(&mut request.body);
        self.machinery.answer(request, std::future::ready(Ok(body)), shutdown).await
    }

    /// The store under the server.
    pub fn store(&self) -> &Store {
        &self.machinery.store
    }
}

impl front::Serve for Server {
    async fn serve(
        &self,
        request: http::Request<hyper::body::Incoming>,
        user: Arc<User>,
        shutdown: &Shutdown,
    ) -> http::Response<front::Body> {
        answer::answer(&self.machinery, self.most_request_bytes, request, user, shutdown).await
    }
}
