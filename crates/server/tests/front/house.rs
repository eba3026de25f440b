//! A front on a free port with a small service behind it, and clients that speak TLS and HTTP to it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use server::access::credentials::{Credentials, Identities};
use server::access::pki::{Identity, Pki, certificates};
use server::access::{READERS, User};
use server::front::{Body, Counters, Drained, Front, Limits, Serve, Shutdown, Trigger, listen, tls};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The version of HTTP that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http {
    One,
    Two,
}

pub(crate) const BOTH: [Http; 2] = [Http::One, Http::Two];

/// Says who is there, streams, hangs and panics, as it is asked to.
struct Sample {
    /// Told when a request that never ends has begun.
    stuck: Arc<Notify>,
}

impl Serve for Sample {
    async fn serve(&self, request: Request<Incoming>, user: Arc<User>, shutdown: &Shutdown) -> Response<Body> {
        match request.uri().path() {
            "/watch" => Response::new(watch(shutdown)),
            "/stuck" => {
                self.stuck.notify_one();
                std::future::pending().await
            }
            "/large" => Response::new(Body::whole(vec![b'x'; 64 << 20])),
            "/panic" => panic!("as it was asked to"),
            _ => Response::new(Body::whole(format!("{} {}", user.name, user.groups.join(",")))),
        }
    }
}

/// One line at once, one when the shutdown begins, and the end.
fn watch(shutdown: &Shutdown) -> Body {
    let begun = shutdown.begun();
    Body::stream(stream::unfold((0, Some(begun)), |(count, mut begun)| async move {
        match count {
            0 => Some((Ok(Bytes::from("first\n")), (1, begun))),
            1 => {
                begun.take()?.await;
                Some((Ok(Bytes::from("last\n")), (2, None)))
            }
            _ => None,
        }
    }))
}

/// The front, its data directory, and what stops it.
pub(crate) struct House {
    pub(crate) folder: TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) counters: Arc<Counters>,
    pub(crate) presented: Arc<tls::Presented>,
    pub(crate) trigger: Trigger,
    pub(crate) stuck: Arc<Notify>,
    identities: Identities,
    running: JoinHandle<Drained>,
}

impl House {
    pub(crate) fn open(limits: Limits) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("tokens.csv"), format!("t0ken,jane,7,\"devs,{READERS}\"\n")).unwrap();
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let credentials = Credentials {
            folder: folder.path().to_owned(),
            names: BTreeSet::from(["127.0.0.1".parse().unwrap()]),
            server: format!("https://{address}"),
            given_identity: None,
            given_client_authority: None,
            given_tokens: None,
            given_account_key: None,
            issuer: server::access::accounts::ISSUER.to_owned(),
        };
        let identities = credentials.identities(SystemTime::now()).unwrap();
        let presented = tls::Presented::new(&identities.serving).unwrap();
        let trigger = Trigger::default();
        let counters = Arc::new(Counters::default());
        let stuck = Arc::new(Notify::new());
        let front = Front {
            listener,
            tls: tls::config(Arc::clone(&presented), &identities.client_authorities).unwrap(),
            authenticator: Arc::new(credentials.authenticator().unwrap()),
            limits,
            counters: Arc::clone(&counters),
            service: Sample { stuck: Arc::clone(&stuck) },
        };
        let running = tokio::spawn(front.run(trigger.clone()));
        Self { folder, address, counters, presented, trigger, stuck, identities, running }
    }

    /// A client certificate of our authority.
    pub(crate) fn client(&self, name: &str, group: &str) -> Identity {
        let pki = Pki::open(&self.folder.path().join("pki"), SystemTime::now()).unwrap();
        pki.client(name, name, group, SystemTime::now()).unwrap()
    }

    /// How a client that trusts us and has this certificate sets up TLS.
    pub(crate) fn trusting(&self, http: Http, identity: Option<&Identity>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        for authority in &self.identities.client_authorities {
            roots.add(authority.clone()).unwrap();
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = certificates(&identity.certificate).unwrap();
                builder.with_client_auth_cert(chain, identity.private_key().unwrap()).unwrap()
            }
        };
        config.alpn_protocols = vec![if http == Http::Two { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        Arc::new(config)
    }

    pub(crate) async fn handshake(&self, config: Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
        handshake(self.address, config).await
    }

    pub(crate) async fn connect(&self, http: Http, identity: Option<&Identity>) -> Client {
        let stream = self.handshake(self.trusting(http, identity)).await.unwrap();
        Client::over(http, stream).await
    }

    /// Begins the shutdown and waits for its end.
    pub(crate) async fn close(self) -> Drained {
        self.trigger.begin();
        self.running.await.unwrap()
    }
}

/// Connects to whoever listens at an address.
pub(crate) async fn handshake(address: SocketAddr, config: Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
    let socket = TcpStream::connect(address).await?;
    TlsConnector::from(config).connect("127.0.0.1".try_into().unwrap(), socket).await
}

/// A connection that sends requests.
pub(crate) struct Client {
    sender: Sender,
    pub(crate) ended: JoinHandle<()>,
}

enum Sender {
    One(http1::SendRequest<Empty<Bytes>>),
    Two(http2::SendRequest<Empty<Bytes>>),
}

impl Client {
    pub(crate) async fn over(http: Http, stream: TlsStream<TcpStream>) -> Self {
        let io = TokioIo::new(stream);
        if http == Http::Two {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
            // How it ended does not matter here, only that it did.
            Self { sender: Sender::Two(sender), ended: tokio::spawn(async move { drop(connection.await) }) }
        } else {
            let (sender, connection) = http1::handshake(io).await.unwrap();
            Self { sender: Sender::One(sender), ended: tokio::spawn(async move { drop(connection.await) }) }
        }
    }

    pub(crate) async fn send(&mut self, path: &str, headers: &[(&str, &str)]) -> hyper::Result<Response<Incoming>> {
        let mut request = Request::get(format!("https://127.0.0.1{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Empty::new()).unwrap();
        match &mut self.sender {
            Sender::One(sender) => sender.send_request(request).await,
            Sender::Two(sender) => sender.send_request(request).await,
        }
    }

    /// The code and text of an answer.
    pub(crate) async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let response = self.send(path, headers).await.unwrap();
        let code = response.status().as_u16();
        (code, text(response).await.unwrap())
    }
}

pub(crate) async fn text(response: Response<Incoming>) -> hyper::Result<String> {
    let body = response.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

pub(crate) async fn next_text(response: &mut Response<Incoming>) -> String {
    let frame = response.body_mut().frame().await.unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}

/// Limits of which a test waits for one. The others are as usual: a client of a busy machine keeps none but that waiting.
pub(crate) fn hasty_handshakes() -> Limits {
    Limits { handshake: Duration::from_millis(100), ..Limits::default() }
}

/// The same, for connections without a request. The time is enough to send one on those that are to have one.
pub(crate) fn hardly_idle() -> Limits {
    Limits { idle: Duration::from_secs(2), ..Limits::default() }
}

/// The same, for clients that take nothing. The time is enough for one to take the first byte.
pub(crate) fn soon_stalled() -> Limits {
    Limits { stall: Duration::from_secs(1), ..Limits::default() }
}
