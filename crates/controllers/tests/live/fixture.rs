//! A server over an empty store, a client of it, and the controller that can be started and stopped.

use std::sync::Arc;
use std::time::Duration;

use api::selector::Terms;
use controllers::node::duty::{self, Report};
use controllers::node::execute::Options;
use controllers::node::flags::Flags;
use controllers::node::plan::Settings;
use futures_util::StreamExt;
use http::{Method, Request};
use kube::Client;
use kube::core::WatchEvent;
use serde_json::{Value, json};
use server::access::{MASTERS, User};
use server::front::Trigger;
use server::{Config, Server};
use store::Store;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const RANGES: &str = "/apis/networking.x-k8s.io/v1/clustercidrs";
pub(crate) const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Fixture {
    pub(crate) client: Client,
    controllers: Vec<(oneshot::Sender<()>, JoinHandle<()>)>,
    _trigger: Trigger,
    _folder: tempfile::TempDir,
}

impl Fixture {
    /// A server without a controller.
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), store::embedded::Options::default()).unwrap();
        let server = Server::new(store, Config::default());
        server.prepare().await.unwrap();
        let trigger = Trigger::default();
        let user = Arc::new(User::authenticated("admin", [MASTERS.to_owned()]));
        let client = controllers::within::client(server, user, trigger.shutdown());
        Self { client, controllers: Vec::new(), _trigger: trigger, _folder: folder }
    }

    /// A server with a controller.
    pub(crate) async fn running() -> Self {
        let mut fixture = Self::new().await;
        fixture.start(Flags::default());
        fixture
    }

    pub(crate) fn start(&mut self, flags: Flags) {
        let settings = Settings { terms: Terms::Any, rest: 60_000 };
        let options = Options { settings, flags, write_timeout: Duration::from_secs(10) };
        let (client, report) = (self.client.clone(), Arc::<Report>::default());
        let (stop, told) = oneshot::channel::<()>();
        let stopped = async move { drop(told.await) };
        let running = tokio::spawn(async move { duty::serve(client, options, None, report, stopped).await.unwrap() });
        self.controllers.push((stop, running));
    }

    /// Stops all controllers.
    pub(crate) async fn stop(&mut self) {
        for (stop, running) in self.controllers.drain(..) {
            drop(stop);
            running.await.unwrap();
        }
    }

    /// Sends a request; the answer, or the status and message of a refusal.
    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, (u16, String)> {
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", media);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = request.body(body).unwrap();
        self.client.request(request).await.map_err(|error| match error {
            kube::Error::Api(status) => (status.code, status.message),
            other => panic!("{other}"),
        })
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, &Value::Null).await.unwrap()
    }

    pub(crate) async fn node(&self, name: &str, labels: Value) {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        self.send(Method::POST, NODES, &node).await.unwrap();
    }

    pub(crate) async fn range(&self, name: &str, spec: Value) {
        let range = json!({
            "apiVersion": "networking.x-k8s.io/v1", "kind": "ClusterCIDR", "metadata": {"name": name}, "spec": spec,
        });
        self.send(Method::POST, RANGES, &range).await.unwrap();
    }

    pub(crate) async fn delete(&self, collection: &str, name: &str) {
        self.send(Method::DELETE, &format!("{collection}/{name}"), &Value::Null).await.unwrap();
    }

    /// Waits until an object is as the test wants it; gone, it is null.
    pub(crate) async fn until(&self, collection: &str, name: &str, test: impl Fn(&Value) -> bool) -> Value {
        let search = async {
            // Watched from where it was looked at, so that nothing is missed in between.
            let one = format!("{collection}?fieldSelector=metadata.name%3D{name}");
            let list = self.get(&one).await;
            let found = list["items"].get(0).cloned().unwrap_or_default();
            if test(&found) {
                return found;
            }
            let mut revision = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            loop {
                let uri = format!("{one}&watch=true&resourceVersion={revision}");
                let request = Request::get(&uri).body(Vec::new()).unwrap();
                let mut events = std::pin::pin!(self.client.request_events::<Value>(request).await.unwrap());
                while let Some(event) = events.next().await {
                    let (object, gone) = match event.unwrap() {
                        WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                        WatchEvent::Deleted(object) => (object, true),
                        _ => continue,
                    };
                    object["metadata"]["resourceVersion"].as_str().unwrap().clone_into(&mut revision);
                    let now = if gone { Value::Null } else { object };
                    if test(&now) {
                        return now;
                    }
                }
            }
        };
        tokio::time::timeout(PATIENCE, search)
            .await
            .unwrap_or_else(|_| panic!("{collection}/{name} did not come to it"))
    }

    /// The blocks of a node, once it has some.
    pub(crate) async fn cidrs(&self, name: &str) -> String {
        let node = self.until(NODES, name, |node| !node["spec"]["podCIDRs"].is_null()).await;
        let cidrs = node["spec"]["podCIDRs"].as_array().unwrap();
        cidrs.iter().map(|cidr| cidr.as_str().unwrap()).collect::<Vec<_>>().join(",")
    }
}
