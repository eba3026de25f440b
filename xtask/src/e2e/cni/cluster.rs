//! A cluster whose nodes are elsewhere: a server that can be killed and comes back, who gives nodes their slices, inside it or beside it,
//! and what a case asks of them.
//!
//! Inside is `cadastre up` alone. Beside it, and beside the real kube-apiserver, `cadastre controller slice` runs as a process of its own;
//! beside the real one it and the agents have the service accounts and the rights that `cadastre manifests rbac` gives them, and no others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::real::{Controller, Etcd, KubeApiserver, Kubectl};

use crate::e2e::Place;
use crate::e2e::client::{Client, Promise, Reply, Target};
use crate::e2e::method::Method;
use crate::e2e::restarting::Restarting;
use crate::e2e::servers::Servers;
use crate::parts::{self, Part};

/// How long whatever controllers and agents do may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// How long the slices of a node that is gone rest here.
const QUARANTINE: &str = "--slice-quarantine=1s";

pub(crate) const NODES: &str = "/api/v1/nodes";
pub(super) const DEFINITIONS: &str = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions";
pub(crate) const SLICE_POOLS: &str = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/nodeslicepools";
pub(crate) const IP_POOLS: &str = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools";
pub(crate) const RESERVATIONS: &str =
    "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/overlappingrangeipreservations";
pub(crate) const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Where the controller of slices runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// In `cadastre up`.
    Inside,
    /// In a process of its own.
    Beside,
}

/// How a cluster is to be.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    pub(super) servers: &'a Servers,
    pub(crate) place: Place,
    /// Our program.
    pub(crate) binary: &'a Path,
    /// Beside the real server it cannot be inside.
    pub(crate) home: Home,
    /// Flags of a controller beside the server.
    pub(crate) flags: &'a [&'a str],
}

/// See the module.
pub(crate) struct Cluster {
    target: Arc<Target>,
    /// Where the server is, without the protocol.
    address: String,
    /// Are dropped before the server.
    controllers: Mutex<Vec<Controller>>,
    server: Mutex<Server>,
    pub(crate) binary: PathBuf,
    flags: Vec<String>,
    folder: PathBuf,
    /// Whom people come as, who may do everything, and whom controllers do.
    peoples_config: PathBuf,
    controllers_config: PathBuf,
    /// Whom agents and plugins come as.
    pub(crate) agents_config: PathBuf,
    pub(crate) is_control: bool,
}

/// A server that is up or down.
enum Server {
    Ours(Restarting),
    /// kube-apiserver, and the etcd below it, which is dropped after it.
    Control(Box<KubeApiserver>, Etcd),
}

impl Setup<'_> {
    /// Starts it, empty, in that folder.
    pub(crate) fn start(&self, folder: &Path) -> Result<Cluster> {
        fs::create_dir_all(folder)?;
        let cluster = match self.place {
            Place::Control => self.control(folder, Kinds::Ours)?,
            _ => Cluster::ours(self.binary, self.home, self.flags, folder)?,
        };
        if self.home == Home::Beside {
            cluster.start_controller()?;
        }
        Ok(cluster)
    }

    /// The real server as whereabouts has it: with its kinds alone, and nobody who gives nodes their slices.
    pub(super) fn of_whereabouts(&self, folder: &Path) -> Result<Cluster> {
        fs::create_dir_all(folder)?;
        self.control(folder, Kinds::Theirs)
    }

    fn control(&self, folder: &Path, kinds: Kinds) -> Result<Cluster> {
        let etcd = Etcd::start(&self.servers.part(Part::Etcd)?, &folder.join("etcd"))?;
        let server = self.servers.control(etcd.url(), folder)?;
        let kubectl = Kubectl::new(&self.servers.part(Part::Kubectl)?, server.kubeconfig(), &folder.join("home"));
        let apply = |manifest: &str| -> Result<()> {
            let text = printed(Command::new(self.binary).args(["manifests", manifest]))?;
            asked(&kubectl, &["apply", "--server-side", "-f", "-"], &text).map(drop)
        };
        match kinds {
            Kinds::Ours => apply("crds")?,
            Kinds::Theirs => {
                for file in self.servers.parts()?.kept(Part::Whereabouts) {
                    asked(&kubectl, &["create", "-f", &file.display().to_string()], "")?;
                }
            }
        }
        apply("rbac")?;
        asked(&kubectl, &["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"], "")?;
        // No controller makes it, and pods are to have one.
        asked(&kubectl, &["create", "serviceaccount", "default"], "")?;
        for (allowed, who, verb, what) in RIGHTS {
            let account = format!("--as=system:serviceaccount:kube-system:{who}");
            let said = kubectl.run(&["auth", "can-i", verb, what, "--all-namespaces", &account])?;
            ensure!(said.success() == allowed, "{who} should be allowed to {verb} {what}: {allowed}; {}", said.stdout);
        }
        let people = server.kubeconfig().to_path_buf();
        let accounts = [account(&kubectl, &server, folder, "slices")?, account(&kubectl, &server, folder, "agent")?];
        let [controllers, agents] = accounts;
        let configs = [people, controllers, agents];
        let address = server.url().trim_start_matches("https://").to_owned();
        let target = Target::new(Promise::Control, &address, server.ca(), server.token().to_owned())?;
        let server = Server::Control(Box::new(server), etcd);
        Ok(Cluster::new(self.binary, self.flags, folder, (address, target), server, configs))
    }
}

/// Whose kinds of objects the real server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kinds {
    Ours,
    Theirs,
}

/// What accounts may do, and what they may not.
const RIGHTS: [(bool, &str, &str, &str); 15] = [
    (true, "cadastre-slices", "deletecollection", "overlappingrangeipreservations.whereabouts.cni.cncf.io"),
    (false, "cadastre-slices", "create", "overlappingrangeipreservations.whereabouts.cni.cncf.io"),
    (true, "cadastre-slices", "get", "overlappingrangeipreservations.whereabouts.cni.cncf.io"),
    (true, "cadastre-slices", "delete", "overlappingrangeipreservations.whereabouts.cni.cncf.io"),
    (true, "cadastre-slices", "patch", "ippools.whereabouts.cni.cncf.io"),
    (true, "cadastre-slices", "update", "nodeslicepools.whereabouts.cni.cncf.io"),
    (true, "cadastre-slices", "list", "pods"),
    (false, "cadastre-slices", "delete", "nodes"),
    (false, "cadastre-slices", "get", "secrets"),
    (true, "cadastre-agent", "watch", "nodeslicepools.whereabouts.cni.cncf.io"),
    (false, "cadastre-agent", "update", "nodeslicepools.whereabouts.cni.cncf.io"),
    (true, "cadastre-agent", "patch", "ippools.whereabouts.cni.cncf.io"),
    (true, "cadastre-agent", "delete", "overlappingrangeipreservations.whereabouts.cni.cncf.io"),
    (true, "cadastre-agent", "patch", "events"),
    (false, "cadastre-agent", "create", "pods"),
];

fn printed(command: &mut Command) -> Result<String> {
    let said = command.output()?;
    ensure!(said.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said.stderr));
    Ok(String::from_utf8(said.stdout)?)
}

pub(super) fn asked(kubectl: &Kubectl, args: &[&str], input: &str) -> Result<String> {
    let said = kubectl.run_with_input(args, input)?;
    ensure!(said.success(), "kubectl {}: {}", args.join(" "), said.stderr);
    Ok(said.stdout)
}

/// A kubeconfig of a service account of ours.
fn account(kubectl: &Kubectl, server: &KubeApiserver, folder: &Path, name: &str) -> Result<PathBuf> {
    let token = asked(kubectl, &["-n", "kube-system", "create", "token", &format!("cadastre-{name}")], "")?;
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server.url(), "certificate-authority": server.ca()}}],
        "users": [{"name": "u", "user": {"token": token.trim()}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    let path = folder.join(format!("{name}.kubeconfig"));
    fs::write(&path, config.to_string())?;
    Ok(path)
}

impl Cluster {
    /// Our server, with the controller in it, or with none yet.
    pub(crate) fn ours(binary: &Path, home: Home, flags: &[&str], folder: &Path) -> Result<Self> {
        let flag = if home == Home::Inside { QUARANTINE } else { "--no-controllers" };
        let server = Restarting::start(binary, &folder.join("data"), &[flag.to_owned()])?;
        let ours = server.server()?;
        let (address, config) = (ours.address().to_owned(), ours.kubeconfig());
        let target = Target::new(Promise::Ours, &address, &ours.ca(), ours.token()?)?;
        let configs = [config.clone(), config.clone(), config];
        Ok(Self::new(binary, flags, folder, (address, target), Server::Ours(server), configs))
    }

    fn new(
        binary: &Path,
        flags: &[&str],
        folder: &Path,
        (address, target): (String, Target),
        server: Server,
        [peoples_config, controllers_config, agents_config]: [PathBuf; 3],
    ) -> Self {
        Self {
            target: Arc::new(target),
            address,
            controllers: Mutex::default(),
            is_control: matches!(server, Server::Control(..)),
            server: Mutex::new(server),
            binary: binary.to_path_buf(),
            flags: flags.iter().map(ToString::to_string).collect(),
            folder: folder.to_path_buf(),
            peoples_config,
            controllers_config,
            agents_config,
        }
    }

    /// The same for agents and plugins that come by another way.
    pub(crate) fn reached_by(self, agents_config: PathBuf) -> Self {
        Self { agents_config, ..self }
    }

    /// Where the server is.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The real kubectl, as its users have it.
    pub(super) fn kubectl(&self) -> Result<Kubectl> {
        let parts = parts::ensure(&[Part::Kubectl])?;
        Ok(Kubectl::new(&parts.binary(Part::Kubectl), &self.peoples_config, &self.folder.join("home")))
    }

    /// Tells the server our kinds, where whereabouts' own are, as people are told to.
    pub(super) fn apply_kinds(&self) -> Result<()> {
        let text = printed(Command::new(&self.binary).args(["manifests", "crds", "--for", "slice"]))?;
        asked(&self.kubectl()?, &["apply", "--server-side", "--force-conflicts", "-f", "-"], &text)?;
        // Until then the kinds before are those that objects are held against.
        let pool = json!({
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "NodeSlicePool", "metadata": {"name": "never"},
            "spec": {"range": "10.0.0.0/8", "sliceSize": "/20"}, "status": {"epoch": 1, "allocations": []},
        });
        let mut api = self.api();
        eventually(LIMIT, || {
            let kept = api.ask(Method::Post, &format!("{SLICE_POOLS}?dryRun=All"), &pool)?;
            ensure!(kept["status"]["epoch"] == 1, "fields of ours are dropped: {kept}");
            Ok(())
        })
    }

    /// Whom people come as, who may do everything.
    pub(super) fn peoples_config(&self) -> &Path {
        &self.peoples_config
    }

    /// A client of its own.
    pub(crate) fn api(&self) -> Api {
        Api { client: Client::new(&self.target) }
    }

    /// Starts one more controller.
    pub(crate) fn start_controller(&self) -> Result<()> {
        let flags: Vec<&str> = std::iter::once(QUARANTINE).chain(self.flags.iter().map(String::as_str)).collect();
        let folder = self.folder.join("controller");
        let controller = Controller::start(&self.binary, "slice", &self.controllers_config, &folder, &flags)?;
        self.controllers.lock().push(controller);
        Ok(())
    }

    /// Kills the controller that has run the longest.
    pub(crate) fn kill_controller(&self) -> Result<()> {
        self.are_up()?;
        let mut controllers = self.controllers.lock();
        ensure!(!controllers.is_empty(), "there is no controller");
        controllers.remove(0).kill9()?;
        Ok(())
    }

    /// No controller may have ended by itself.
    pub(crate) fn are_up(&self) -> Result<()> {
        for controller in self.controllers.lock().iter_mut() {
            if let Some(status) = controller.ended()? {
                bail!("a controller ended with {status}; see {}", controller.log().display());
            }
        }
        Ok(())
    }

    /// Kills the API server.
    pub(crate) fn kill_server(&self) -> Result<()> {
        match &mut *self.server.lock() {
            Server::Ours(server) => server.kill(),
            Server::Control(server, _) => Ok(server.kill()?),
        }
    }

    /// Starts it again where it was.
    pub(crate) fn start_server(&self) -> Result<()> {
        match &mut *self.server.lock() {
            Server::Ours(server) => server.again(),
            Server::Control(server, _) => Ok(server.restart()?),
        }
    }

    /// Kills what is below the API server and starts it again, where there is something.
    pub(crate) fn restart_store(&self, between: impl FnOnce() -> Result<()>) -> Result<()> {
        match &mut *self.server.lock() {
            Server::Ours(_) => bail!("the store is in the server"),
            Server::Control(_, etcd) => {
                etcd.kill()?;
                between()?;
                Ok(etcd.restart()?)
            }
        }
    }
}

/// What is asked of the server.
pub(crate) struct Api {
    client: Client,
}

impl Api {
    pub(crate) fn ask(&mut self, method: Method, path: &str, body: &Value) -> Result<Value> {
        match self.client.send_as(method.media(), method.verb(), path, Some(body)) {
            Reply::Answer(200..300, said) => Ok(said),
            other => bail!("{} {path}: {other:?}", method.verb()),
        }
    }

    /// What is under a path; null if nothing is.
    pub(crate) fn get(&mut self, path: &str) -> Result<Value> {
        // A connection to a server that was killed meanwhile is noticed when it is used.
        for last in [false, true] {
            match self.client.send("GET", path, None) {
                Reply::Answer(200, object) => return Ok(object),
                Reply::Answer(404, _) => return Ok(Value::Null),
                Reply::Lost | Reply::Unsent if !last => {}
                other => bail!("GET {path}: {other:?}"),
            }
        }
        bail!("GET {path} was not answered")
    }

    pub(crate) fn list(&mut self, path: &str) -> Result<Vec<Value>> {
        let mut list = self.get(path)?;
        list["items"].as_array_mut().map(std::mem::take).with_context(|| format!("{path} is no list"))
    }

    /// Looks at an object until it is as it should be.
    pub(crate) fn until(
        &mut self,
        path: &str,
        what: &str,
        within: Duration,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        eventually(within, || {
            let object = self.get(path)?;
            if holds(&object) {
                return Ok(object);
            }
            let mut text = object.to_string();
            text.truncate(2_000);
            bail!("{what}: {path} is {text}")
        })
    }

    /// The same of the `NodeSlicePool` of a network.
    pub(crate) fn pool(&mut self, network: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        self.until(&format!("{SLICE_POOLS}/{network}"), what, LIMIT, holds)
    }

    /// Nodes of a case: they are for its networks alone.
    pub(crate) fn join(&mut self, case: &str, names: impl Iterator<Item = String>) -> Result<()> {
        for name in names {
            let labels = json!({"case": case});
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
            self.ask(Method::Post, NODES, &node)?;
        }
        Ok(())
    }

    /// A definition of a network; the one that is there is changed.
    pub(crate) fn define(&mut self, name: &str, ipam: Value) -> Result<()> {
        let spec = json!({"config": conf(name, ipam).to_string()});
        let object = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": name},
            "spec": spec,
        });
        let path = format!("{DEFINITIONS}/{name}");
        if self.get(&path)?.is_null() {
            return self.ask(Method::Post, DEFINITIONS, &object).map(drop);
        }
        self.ask(Method::Merge, &path, &json!({"spec": spec})).map(drop)
    }

    pub(crate) fn undefine(&mut self, name: &str) -> Result<()> {
        self.ask(Method::Delete, &format!("{DEFINITIONS}/{name}"), &json!({})).map(drop)
    }
}

/// The configuration of a network, for its definition and for the plugin.
pub(crate) fn conf(name: &str, mut ipam: Value) -> Value {
    ipam["type"] = json!("cadastre");
    json!({"cniVersion": "1.1.0", "name": name, "type": "macvlan", "ipam": ipam})
}

/// Looks again and again; what was wrong with the last look if none was well in time.
pub(crate) fn eventually<T>(within: Duration, mut look: impl FnMut() -> Result<T>) -> Result<T> {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => return Ok(found),
            Err(why) if began.elapsed() > within => return Err(why.context(format!("not within {within:?}"))),
            Err(_) => thread::sleep(BETWEEN_LOOKS),
        }
    }
}
