//! A server over an empty store, and requests to it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use server::access::{MASTERS, User};
use server::front::{Shutdown, Trigger};
use server::{Config, Content, Pieces, Reply, Request, Server};
use store::Store;

/// A server of a test. The store goes with it.
pub(crate) struct Fixture {
    pub(crate) server: Server,
    pub(crate) trigger: Trigger,
    pub(crate) shutdown: Shutdown,
    user: Arc<User>,
    _folder: tempfile::TempDir,
}

/// An answer: its code, its headers and its body.
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The body, if the code is the one that is expected.
    #[track_caller]
    pub(crate) fn expect(&self, code: u16) -> Value {
        assert_eq!(self.code.as_u16(), code, "{}", self.text());
        self.json()
    }
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(Config::default(), store::embedded::Options::default()).await
    }

    pub(crate) async fn with(config: Config, options: store::embedded::Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), options).unwrap();
        Self::on(folder, store, config).await
    }

    /// A server whose configuration has to do with its store.
    pub(crate) async fn over(config: impl FnOnce(&Store) -> Config) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), store::embedded::Options::default()).unwrap();
        let config = config(&store);
        Self::on(folder, store, config).await
    }

    async fn on(folder: tempfile::TempDir, store: Store, config: Config) -> Self {
        let server = Server::new(store, config);
        server.prepare().await.unwrap();
        let user = Arc::new(User::authenticated("admin", [MASTERS.to_owned()]));
        let trigger = Trigger::default();
        let shutdown = trigger.shutdown();
        Self { server, trigger, shutdown, user, _folder: folder }
    }

    pub(crate) async fn reply(&self, method: Method, url: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let request = Request {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            headers: map,
            body: Bytes::copy_from_slice(body),
            user: self.user.clone(),
        };
        self.server.call(request, &self.shutdown).await
    }

    pub(crate) async fn send(&self, method: Method, url: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.send_bytes(method, url, headers, body.as_bytes()).await
    }

    pub(crate) async fn send_bytes(&self, method: Method, url: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let Reply { status, headers, content } = self.reply(method, url, headers, body).await;
        let body = match content {
            Content::Whole(bytes) => bytes,
            Content::Pieces(pieces) | Content::Live(pieces) => {
                let pieces: Vec<_> = pieces.collect().await;
                pieces.into_iter().map(Result::unwrap).collect::<Vec<_>>().concat().into()
            }
        };
        Answer { code: status, headers, body }
    }

    pub(crate) async fn get(&self, url: &str) -> Answer {
        self.send(Method::GET, url, &[], "").await
    }

    pub(crate) async fn post(&self, url: &str, body: &Value) -> Answer {
        self.send(Method::POST, url, &[("content-type", "application/json")], &body.to_string()).await
    }

    pub(crate) async fn put(&self, url: &str, body: &Value) -> Answer {
        self.send(Method::PUT, url, &[("content-type", "application/json")], &body.to_string()).await
    }

    pub(crate) async fn delete(&self, url: &str) -> Answer {
        self.send(Method::DELETE, url, &[], "").await
    }

    pub(crate) async fn patch(&self, url: &str, kind: &str, body: &Value) -> Answer {
        let media = format!("application/{kind}+json");
        self.send(Method::PATCH, url, &[("content-type", &media)], &body.to_string()).await
    }

    /// Makes the account that Pods in `default` have, which a server makes by itself if it tends its store.
    pub(crate) async fn account(&self) {
        let account = json!({"metadata": {"name": "default"}, "automountServiceAccountToken": false});
        self.post("/api/v1/namespaces/default/serviceaccounts", &account).await.expect(201);
    }

    /// Makes a `ConfigMap` in `default`.
    pub(crate) async fn config_map(&self, name: &str) -> Value {
        self.post(CONFIG_MAPS, &config_map(name)).await.expect(201)
    }

    /// Opens a watch.
    pub(crate) async fn watch(&self, url: &str) -> Events {
        Events { pieces: self.pieces(url).await, rest: Vec::new() }
    }

    /// The same, for what is sent as it is sent.
    pub(crate) async fn pieces(&self, url: &str) -> Pieces {
        let reply = self.reply(Method::GET, url, &[], b"").await;
        assert_eq!(reply.status, StatusCode::OK, "{url}");
        match reply.content {
            Content::Live(pieces) => pieces,
            _ => panic!("{url} is no watch"),
        }
    }
}

/// Where the `ConfigMap`s of `default` are.
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A `ConfigMap` of that name.
pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"}})
}

/// The events of a watch.
pub(crate) struct Events {
    pieces: Pieces,
    rest: Vec<u8>,
}

impl Events {
    /// The next event; `None` when the watch has ended. Waits for it, but not for ever.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let piece = tokio::time::timeout(Duration::from_secs(10), self.pieces.next()).await.expect("an event");
            self.rest.extend_from_slice(&piece?.unwrap());
        }
    }

    /// The next event as its type and the name of its object.
    pub(crate) async fn brief(&mut self) -> (String, String) {
        let event = self.next().await.expect("an event");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}
