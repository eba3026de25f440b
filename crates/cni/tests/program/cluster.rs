//! An API server in the test's own process, which the program reaches over real TLS; and relays to it, which stand in for the agent, or
//! lose what they are told to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::SystemTime;

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use server::access::credentials::Credentials;
use server::access::{MASTERS, User};
use server::front::{Counters, Front, Limits, Trigger, listen, tls};
use server::{Config, Server};
use store::Store;
use tokio::runtime::Runtime;

use crate::harness::Node;

const GROUP: &str = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system";

/// An API server.
pub(crate) struct Cluster {
    runtime: Runtime,
    client: Client,
    folder: tempfile::TempDir,
    kubeconfig: PathBuf,
    trigger: Trigger,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let folder = crate::harness::folder();
        let (client, kubeconfig, trigger) = runtime.block_on(async {
            let store = Store::open(&folder.path().join("store"), store::embedded::Options::default()).unwrap();
            let server = Server::new(store, Config::default());
            server.prepare().await.unwrap();
            let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let credentials = Credentials {
                folder: folder.path().to_owned(),
                names: BTreeSet::from(["127.0.0.1".parse().unwrap()]),
                server: format!("https://{}", listener.local_addr().unwrap()),
                given_identity: None,
                given_client_authority: None,
                given_tokens: None,
                given_account_key: None,
                issuer: server::access::accounts::ISSUER.to_owned(),
            };
            let identities = credentials.identities(SystemTime::now()).unwrap();
            let presented = tls::Presented::new(&identities.serving).unwrap();
            let trigger = Trigger::default();
            let front = Front {
                listener,
                tls: tls::config(presented, &identities.client_authorities).unwrap(),
                authenticator: Arc::new(credentials.authenticator().unwrap()),
                limits: Limits::default(),
                counters: Arc::new(Counters::default()),
                service: server.clone(),
            };
            tokio::spawn(front.run(trigger.clone()));
            let user = Arc::new(User::authenticated("admin", [MASTERS.to_owned()]));
            (controllers::within::client(server, user, trigger.shutdown()), credentials.kubeconfig(), trigger)
        });
        Self { runtime, client, folder, kubeconfig, trigger }
    }

    /// A node whose networks need the server.
    pub(crate) fn node(&self, ipam: Value) -> Node {
        Node::shared(ipam, &self.kubeconfig)
    }

    /// A kubeconfig that leads elsewhere; `server` is a URL.
    pub(crate) fn kubeconfig_to(&self, server: &str) -> PathBuf {
        let path = self.folder.path().join(format!("to-{}", server.replace(['/', ':'], "-")));
        let config = json!({
            "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k"}}],
            "clusters": [{"name": "k", "cluster": {"server": server, "insecure-skip-tls-verify": true}}],
        });
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// A kubeconfig that leads to where nobody listens.
    pub(crate) fn nowhere(&self) -> PathBuf {
        // Not a port that was free a moment ago: the next test gets that.
        self.kubeconfig_to("https://127.0.0.1:1")
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn create(&self, plural: &str, object: &Value) {
        let request = Request::post(format!("{GROUP}/{plural}")).header("content-type", "application/json");
        let request = request.body(object.to_string().into_bytes()).unwrap();
        self.runtime.block_on(self.client.request::<Value>(request)).unwrap();
    }

    /// An `IPPool`: who is at which offset.
    pub(crate) fn pool(&self, name: &str) -> BTreeMap<String, String> {
        let pool = self.get(&format!("ippools/{name}"));
        let entries = pool["spec"]["allocations"].as_object().cloned().unwrap_or_default();
        let text = |entry: &Value| {
            let part = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", part("id"), part("podref"), part("ifname"))
        };
        entries.iter().map(|(offset, entry)| (offset.clone(), text(entry))).collect()
    }

    /// The names of all reservations.
    pub(crate) fn reservations(&self) -> Vec<String> {
        let list = self.get("overlappingrangeipreservations");
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let request = Request::get(format!("{GROUP}/{path}")).body(Vec::new()).unwrap();
        self.runtime.block_on(self.client.request::<Value>(request)).unwrap()
    }

    /// An agent that relays, at the socket of a node; it counts what it is asked.
    pub(crate) fn agent(self: &Arc<Self>, node: &Node) -> Arc<AtomicUsize> {
        let listener = UnixListener::bind(node.path("agent.sock")).unwrap();
        let (asked, cluster) = (Arc::new(AtomicUsize::new(0)), Arc::clone(self));
        let counted = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (cluster, counted) = (Arc::clone(&cluster), Arc::clone(&counted));
                let pass = move || {
                    counted.fetch_add(1, Ordering::Relaxed);
                    Fate::Passed
                };
                thread::spawn(move || cluster.relay(&stream, pass));
            }
        });
        asked
    }

    /// A kubeconfig that leads through a relay, which does with requests what `fates` say, again and again.
    pub(crate) fn lossy(self: &Arc<Self>, fates: &'static [Fate]) -> PathBuf {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let path = self.kubeconfig_to(&format!("http://{}", listener.local_addr().unwrap()));
        let (next, cluster) = (Arc::new(AtomicUsize::new(0)), Arc::clone(self));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (cluster, next) = (Arc::clone(&cluster), Arc::clone(&next));
                let fate = move || fates[next.fetch_add(1, Ordering::Relaxed) % fates.len()];
                thread::spawn(move || cluster.relay::<TcpStream>(&stream, fate));
            }
        });
        path
    }

    /// Answers requests on a connection with what the server answers, until one is lost.
    fn relay<S>(&self, stream: &S, fate: impl Fn() -> Fate)
    where
        for<'s> &'s S: Read + Write,
    {
        let mut reader = BufReader::new(stream);
        loop {
            let mut head = Vec::new();
            for line in reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
                head.push(line);
            }
            let Some(first) = head.first() else { return };
            let mut words = first.split(' ');
            let method: Method = words.next().unwrap().parse().unwrap();
            let mut request = Request::builder().method(method).uri(words.next().unwrap());
            let mut length = 0;
            for (name, value) in head[1..].iter().filter_map(|line| line.split_once(": ")) {
                match name {
                    "Content-Length" => length = value.parse().unwrap(),
                    "Accept" | "Content-Type" => request = request.header(name, value),
                    _ => {}
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let fate = fate();
            if fate == Fate::Lost {
                return;
            }
            let request = request.body(Body::from(body)).unwrap();
            let (status, body) = self.runtime.block_on(async {
                let response = self.client.send(request).await.unwrap();
                let (parts, body) = response.into_parts();
                (parts.status, body.collect_bytes().await.unwrap())
            });
            if fate == Fate::Unheard {
                return;
            }
            let mut to: &S = stream;
            let head = format!("HTTP/1.1 {} X\r\nContent-Length: {}\r\n\r\n", status.as_u16(), body.len());
            if to.write_all(head.as_bytes()).and_then(|()| to.write_all(&body)).is_err() {
                return;
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.trigger.begin();
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Passed,
    /// It is done, and nobody hears of it.
    Unheard,
    /// It is not done.
    Lost,
}
