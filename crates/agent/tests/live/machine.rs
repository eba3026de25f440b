//! A node of the cluster: its files, its namespaces, an agent that can be stopped, and pods that come and go.

use std::fs;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use agent::execute::{self, Options, Report};
use agent::relay;
use cni::grants::Grants;
use cni::journal::{BootId, Image};
use cni::place::Place;
use cni::plugin;
use controllers::slice::{duty, execute as slices};
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower_service::Service;

use crate::fixture::{Fixture, NODES};

pub(crate) const POOLS: &str = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools";
pub(crate) const SLICE_POOLS: &str = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/nodeslicepools";
pub(crate) const RESERVATIONS: &str =
    "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/overlappingrangeipreservations";
pub(crate) const DEFINITIONS: &str = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions";

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often what nobody tells of is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Something that runs until the test ends or stops it.
pub(crate) struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        self.task.await.unwrap();
    }
}

/// The controller of slices.
pub(crate) fn grant_slices(fixture: &Fixture) -> Running {
    let options = slices::Options { settings: controllers::slice::plan::Settings::default(), write_timeout: PATIENCE };
    let client = fixture.client.clone();
    let (stop, told) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let stopped = async move { drop(told.await) };
        duty::serve(client, options, None, Arc::default(), stopped).await.unwrap();
    });
    Running { stop: Some(stop), task }
}

/// A definition of a network without a `network_name`; the one that is there is changed.
pub(crate) async fn define(fixture: &Fixture, name: &str, mut ipam: Value) {
    ipam["type"] = json!("cadastre");
    let config = json!({"cniVersion": "1.0.0", "name": name, "type": "macvlan", "ipam": ipam});
    let definition = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": name},
        "spec": {"config": config.to_string()},
    });
    if let Err((409, _)) = fixture.send(Method::POST, DEFINITIONS, &definition).await {
        let patch = json!({"spec": definition["spec"]});
        fixture.send(Method::PATCH, &format!("{DEFINITIONS}/{name}"), &patch).await.unwrap();
    }
}

/// The server shows a pod on a node, which says that it has these addresses.
pub(crate) async fn run_pod(fixture: &Fixture, name: &str, node: &str, ips: &[&str]) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    match fixture.send(Method::POST, "/api/v1/namespaces/default/serviceaccounts", &account).await {
        Ok(_) | Err((409, _)) => {}
        Err(refused) => panic!("{refused:?}"),
    }
    let status = json!([{"name": "default/net", "interface": "net1", "ips": ips}]).to_string();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/network-status": status}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    });
    fixture.send(Method::POST, "/api/v1/namespaces/default/pods", &pod).await.unwrap();
}

/// See the module.
pub(crate) struct Machine {
    pub(crate) name: String,
    ipam: Value,
    folder: tempfile::TempDir,
    pub(crate) report: Arc<Report>,
    is_cut: Arc<AtomicBool>,
    /// Which boot of the machine it is.
    boot: u8,
}

impl Machine {
    /// A node of that name, on the network `net`. The configuration of the network is the plugin's.
    pub(crate) async fn join(fixture: &Fixture, name: &str, ipam: Value) -> Self {
        fixture.node(name, json!({})).await;
        Self::new(name, ipam)
    }

    /// A node that joins and has its slice of the network `net`; who gave it, and its agent.
    pub(crate) async fn served(fixture: &Fixture, name: &str, ipam: Value) -> (Running, Self, Running) {
        let controller = grant_slices(fixture);
        let machine = Self::join(fixture, name, ipam.clone()).await;
        let agent = machine.start(fixture);
        define(fixture, "net", ipam).await;
        machine.granted(|_| true).await;
        (controller, machine, agent)
    }

    /// The machine alone.
    pub(crate) fn new(name: &str, mut ipam: Value) -> Self {
        ipam["type"] = json!("cadastre");
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("netns")).unwrap();
        fs::create_dir(folder.path().join("state")).unwrap();
        Self { name: name.to_owned(), ipam, folder, report: Arc::default(), is_cut: Arc::default(), boot: 1 }
    }

    /// A node on a network without slices. The plugin reaches the server through the agent's socket, and not in any other way.
    pub(crate) async fn sharing(fixture: &Fixture, name: &str, ipam: Value) -> Self {
        let mut machine = Self::join(fixture, name, ipam).await;
        let kubeconfig = machine.folder.path().join("kubeconfig");
        let nowhere = json!({
            "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k"}}],
            "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1"}}],
        });
        fs::write(&kubeconfig, nowhere.to_string()).unwrap();
        machine.ipam["kubernetes"] = json!({"kubeconfig": kubeconfig});
        let listener = relay::listen(&machine.state_dir()).await.unwrap();
        tokio::spawn(relay::serve(listener, machine.client(fixture), machine.report.meters.clone()));
        machine
    }

    /// The machine starts anew: no namespace is left.
    pub(crate) fn reboot(&mut self) {
        self.boot += 1;
        let netns = self.folder.path().join("netns");
        fs::remove_dir_all(&netns).unwrap();
        fs::create_dir(&netns).unwrap();
    }

    fn client(&self, fixture: &Fixture) -> Client {
        let cut = Cut { inner: fixture.client.clone(), is_cut: Arc::clone(&self.is_cut) };
        Client::new(cut, "default")
    }

    /// Starts an agent on it.
    pub(crate) fn start(&self, fixture: &Fixture) -> Running {
        let client = self.client(fixture);
        let options = Options {
            node: self.name.clone(),
            namespace: "kube-system".to_owned(),
            state_dir: self.state_dir(),
            boot: BootId([self.boot; 16]),
        };
        let report = Arc::clone(&self.report);
        let (stop, told) = oneshot::channel::<()>();
        let task =
            tokio::spawn(async move { execute::run(client, options, report, async move { drop(told.await) }).await });
        Running { stop: Some(stop), task }
    }

    /// From now on no request comes through, or does again.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Release);
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn place(&self) -> Place {
        Place::new(&self.state_dir(), "net")
    }

    pub(crate) fn netns(&self, pod: &str) -> PathBuf {
        self.folder.path().join("netns").join(pod)
    }

    fn call(&self, command: &str, pod: &str) -> Result<Value, Value> {
        let netns = self.netns(pod);
        let state_dir = self.state_dir();
        let variable = |name: &str| match name {
            "CNI_COMMAND" => command.to_owned(),
            "CNI_CONTAINERID" => format!("c-{pod}"),
            "CNI_NETNS" => netns.display().to_string(),
            "CNI_IFNAME" => "net1".to_owned(),
            "CNI_PATH" => "/opt/cni/bin".to_owned(),
            "CNI_ARGS" => format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={pod}"),
            "CADASTRE_STATE_DIR" => state_dir.display().to_string(),
            "CADASTRE_BOOT_ID" => format!("{:02x}", self.boot).repeat(16),
            "NODENAME" => self.name.clone(),
            _ => String::new(),
        };
        let conf = json!({"cniVersion": "1.0.0", "name": "net", "type": "macvlan", "ipam": self.ipam});
        let outcome = plugin::run(variable, || Ok(conf.to_string().into_bytes()));
        let answer = serde_json::from_str(&outcome.stdout).unwrap_or_default();
        if outcome.is_success { Ok(answer) } else { Err(answer) }
    }

    /// A pod starts; its address, or the code of the refusal.
    pub(crate) fn add(&self, pod: &str) -> Result<String, u64> {
        fs::write(self.netns(pod), "").unwrap();
        let answer = self.call("ADD", pod).map_err(|failure| failure["code"].as_u64().unwrap())?;
        Ok(answer["ips"][0]["address"].as_str().unwrap().split('/').next().unwrap().to_owned())
    }

    /// A pod stops.
    pub(crate) fn del(&self, pod: &str) {
        self.call("DEL", pod).unwrap();
        let _ = fs::remove_file(self.netns(pod));
    }

    /// Its sandbox is gone, and nobody said so.
    pub(crate) fn vanish(&self, pod: &str) {
        fs::remove_file(self.netns(pod)).unwrap();
    }

    /// The addresses that the journal holds, and for whom.
    pub(crate) fn held(&self) -> Vec<String> {
        let image = Image::read(&self.place()).unwrap();
        let book = image.book();
        let mut held: Vec<String> = book
            .holdings()
            .iter()
            .flat_map(|holding| {
                holding.ips.iter().map(|ip| format!("{} {}", ip.address, holding.pod)).collect::<Vec<_>>()
            })
            .collect();
        held.sort();
        held
    }

    /// Waits until the plugin may give addresses out.
    pub(crate) async fn granted(&self, test: impl Fn(&Grants) -> bool) -> Grants {
        self.eventually("grants", || Grants::read(&self.place()).ok().filter(|grants| test(grants))).await
    }

    /// Waits until something on the machine is so.
    pub(crate) async fn eventually<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> T {
        let search = async {
            let mut again = tokio::time::interval(LOOK);
            loop {
                again.tick().await;
                if let Some(found) = look() {
                    return found;
                }
            }
        };
        tokio::time::timeout(PATIENCE, search).await.unwrap_or_else(|_| panic!("{what} did not come on {}", self.name))
    }
}

/// The addresses that an `IPPool` has, and for whom; the offsets are the last numbers.
pub(crate) fn shown(pool: &Value) -> Vec<String> {
    let entries = pool["spec"]["allocations"].as_object().into_iter().flatten();
    let mut shown: Vec<String> =
        entries.map(|(offset, one)| format!("10.0.0.{offset} {}", one["podref"].as_str().unwrap())).collect();
    shown.sort();
    shown
}

/// Waits for an event of a node with that reason.
pub(crate) async fn told(fixture: &Fixture, node: &str, reason: &str) -> Value {
    let search = async {
        let mut again = tokio::time::interval(LOOK);
        loop {
            again.tick().await;
            let events = fixture.get(crate::fixture::EVENTS).await;
            let is_it = |event: &&Value| event["involvedObject"]["name"] == node && event["reason"] == reason;
            if let Some(event) = events["items"].as_array().unwrap().iter().find(is_it) {
                return event.clone();
            }
        }
    };
    tokio::time::timeout(PATIENCE, search).await.unwrap_or_else(|_| panic!("{reason} was not told of {node}"))
}

/// What the API knows of the UID of a node.
pub(crate) async fn uid(fixture: &Fixture, name: &str) -> String {
    fixture.get(&format!("{NODES}/{name}")).await["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Whether a file is there.
pub(crate) fn is_there(path: &Path) -> bool {
    path.exists()
}

/// A client through which nothing comes while it is cut.
#[derive(Clone)]
struct Cut {
    inner: Client,
    is_cut: Arc<AtomicBool>,
}

impl Service<Request<Body>> for Cut {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { inner, is_cut } = self.clone();
        Box::pin(async move {
            if is_cut.load(Ordering::Acquire) {
                return Err(kube::Error::Service("the line is cut".into()));
            }
            inner.send(request).await
        })
    }
}
