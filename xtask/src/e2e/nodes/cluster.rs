//! A server with a node controller, inside it or beside it, and what a case asks of it.
//!
//! Nothing here knows where the controller runs, but for starting and killing it. What is asked for is waited for by looking again and
//! again; what must not happen is shown by something later that did.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use testkit::real::{Cadastre, Controller};

use crate::e2e::Place;
use crate::e2e::client::{Client, Promise, Reply, Target};
use crate::e2e::method::Method;
use crate::e2e::servers::{Flags, Server, Servers};
use crate::e2e::stand::Stand;
use crate::https::Endpoint;

pub(super) const NODES: &str = "/api/v1/nodes";
pub(super) const RANGES: &str = "/apis/networking.x-k8s.io/v1/clustercidrs";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// How long the peers' own tests wait for anything. A full run takes no longer, either; a quick one, of a program that was built
/// without optimisation on a machine that has more to do, only says how long it took.
pub(super) const LIMIT: Duration = Duration::from_secs(2);
/// How long may take what has no limit of its own: a controller that comes back waits for a lease, and a machine may be busy.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The label of what stays between cases.
pub(super) const RETAINED: (&str, &str) = ("retain", "true");
/// Everything without it, as a query.
const NOT_RETAINED: &str = "labelSelector=retain%21%3Dtrue";

/// Leaves the Lease out: the next controller begins at once after one was killed.
pub(super) const UNELECTED: &str = "--leader-elect=false";

/// Where the controller runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// In `cadastre up`.
    Inside,
    /// In a process of its own: `cadastre controller node`.
    Beside,
}

/// How a cluster is to be.
#[derive(Clone, Copy)]
pub(super) struct Setup<'a> {
    pub(super) servers: &'a Servers,
    pub(super) place: Place,
    pub(super) home: Home,
    /// The ranges of Services.
    pub(super) services: &'a str,
    /// Flags of the controller.
    pub(super) flags: &'a [&'a str],
    /// How long is waited for what has to come within [`LIMIT`].
    pub(super) limit: Duration,
}

/// See the module.
pub(super) struct Cluster {
    clients: Vec<Client>,
    turn: usize,
    /// How long is waited for what has a limit.
    limit: Duration,
    /// The longest that something took that has a limit, since it was last asked.
    slowest: Duration,
    runs: Runs,
}

enum Runs {
    Inside(Box<Stand>),
    Beside(Box<Beside>),
}

/// A server, and controllers beside it, which are dropped first.
pub(super) struct Beside {
    pub(super) controllers: Vec<Controller>,
    server: Server,
    binary: PathBuf,
    folder: PathBuf,
    flags: Vec<String>,
    started: usize,
}

impl Setup<'_> {
    /// Starts it, empty, in that folder.
    pub(super) fn start(&self, folder: &Path) -> Result<Cluster> {
        let mut cluster = self.start_unserved(folder)?;
        if self.home == Home::Beside {
            cluster.beside()?.start_usual()?;
        }
        Ok(cluster)
    }

    /// The same, but a controller beside it is not started yet.
    pub(super) fn start_unserved(&self, folder: &Path) -> Result<Cluster> {
        fs::create_dir_all(folder)?;
        let services = format!("--service-cluster-ip-range={}", self.services);
        match self.home {
            Home::Inside => {
                let flags: Vec<&str> = self.flags.iter().copied().chain([services.as_str()]).collect();
                let stand = Stand::start(self.servers, self.place, folder, &flags)?;
                let clients = (0..stand.addresses.len()).map(|replica| stand.client(replica)).collect::<Result<_>>()?;
                let runs = Runs::Inside(Box::new(stand));
                Ok(Cluster { clients, turn: 0, limit: self.limit, slowest: Duration::ZERO, runs })
            }
            Home::Beside => {
                let ours = [Cadastre::BARE, services.as_str()];
                let flags = Flags { ours: &ours, replica: &ours, control: &[&services] };
                let server = self.servers.start_with(self.place, folder, flags)?;
                if self.place == Place::Control {
                    apply_crds(self.servers, &server, folder)?;
                }
                let target = Arc::new(Servers::target(&server, folder)?);
                let beside = Beside {
                    controllers: Vec::new(),
                    server,
                    binary: self.servers.cadastre()?.to_path_buf(),
                    folder: folder.to_path_buf(),
                    flags: self.flags.iter().map(ToString::to_string).collect(),
                    started: 0,
                };
                Ok(Cluster {
                    clients: vec![Client::new(&target)],
                    turn: 0,
                    limit: self.limit,
                    slowest: Duration::ZERO,
                    runs: Runs::Beside(Box::new(beside)),
                })
            }
        }
    }
}

/// What `cadastre manifests crds` prints.
pub(super) fn crds(servers: &Servers) -> Result<String> {
    let said = Command::new(servers.cadastre()?).args(["manifests", "crds"]).output()?;
    ensure!(said.status.success(), "cadastre manifests crds: {}", String::from_utf8_lossy(&said.stderr));
    Ok(String::from_utf8(said.stdout)?)
}

/// Has the server take `ClusterCIDR`s.
pub(super) fn apply_crds(servers: &Servers, server: &Server, folder: &Path) -> Result<()> {
    let kubectl = servers.kubectl(server, folder)?;
    let said = kubectl.run_with_input(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &crds(servers)?)?;
    ensure!(said.success(), "the CRDs are not taken: {}", said.stderr);
    let name = "crd/clustercidrs.networking.x-k8s.io";
    let said = kubectl.run(&["wait", "--for=condition=Established", name, "--timeout=60s"])?;
    ensure!(said.success(), "the CRDs are not served: {}", said.stderr);
    Ok(())
}

impl Beside {
    /// Starts one more controller, with the usual flags.
    pub(super) fn start_usual(&mut self) -> Result<()> {
        let flags = self.flags.clone();
        self.start(&flags.iter().map(String::as_str).collect::<Vec<_>>(), None)
    }

    /// Starts one more controller with these flags; through that kubeconfig, if there is one.
    pub(super) fn start(&mut self, flags: &[&str], kubeconfig: Option<&Path>) -> Result<()> {
        let usual = self.server.kubeconfig();
        let folder = self.folder.join(format!("controller-{}", self.started));
        self.started += 1;
        let kubeconfig = kubeconfig.unwrap_or(&usual);
        self.controllers.push(Controller::start(&self.binary, "node", kubeconfig, &folder, flags)?);
        Ok(())
    }

    /// Kills all of them; how many there were.
    pub(super) fn kill(&mut self) -> Result<usize> {
        let all = std::mem::take(&mut self.controllers);
        let count = all.len();
        for controller in all {
            controller.kill9()?;
        }
        Ok(count)
    }

    /// All of them must still run.
    pub(super) fn are_up(&mut self) -> Result<()> {
        for controller in &mut self.controllers {
            if let Some(status) = controller.ended()? {
                let log = fs::read_to_string(controller.log()).unwrap_or_default();
                bail!("a controller ended with {status}: {log}");
            }
        }
        Ok(())
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Writes a kubeconfig for whoever listens at that URL in the server's place.
    pub(super) fn kubeconfig_by(&self, url: &str) -> Result<PathBuf> {
        let Endpoint { authority, token, .. } = self.server.endpoint()?;
        let trust = if url.starts_with("https:") {
            format!(", certificate-authority: \"{}\"", authority.display())
        } else {
            String::new()
        };
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: {{server: \"{url}\"{trust}}}\n\
             users:\n- name: u\n  user: {{token: \"{token}\"}}\ncontexts:\n- name: c\n  context: {{cluster: c, user: u}}\n"
        );
        let path = self.folder.join("by-the-way.kubeconfig");
        fs::write(&path, text)?;
        Ok(path)
    }
}

impl Cluster {
    /// What is beside the server, where something is.
    pub(super) fn beside(&mut self) -> Result<&mut Beside> {
        match &mut self.runs {
            Runs::Beside(beside) => Ok(beside),
            Runs::Inside(_) => bail!("the controller is in the server"),
        }
    }

    /// The kubeconfig of one who may do everything.
    pub(super) fn kubeconfig(&self) -> Result<PathBuf> {
        match &self.runs {
            Runs::Beside(beside) => Ok(beside.server.kubeconfig()),
            Runs::Inside(stand) => Ok(stand.replicas.last().context("there is no server")?.server()?.kubeconfig()),
        }
    }

    /// How to reach it, for clients of their own.
    pub(super) fn target(&self) -> Result<Arc<Target>> {
        match &self.runs {
            Runs::Inside(stand) => stand.target(&stand.addresses[0]),
            Runs::Beside(beside) => {
                let Endpoint { address, authority, token } = beside.server.endpoint()?;
                Ok(Arc::new(Target::new(Promise::Control, &address, &authority, token)?))
            }
        }
    }

    /// Kills the controller, with the server that it is in, and starts it again.
    pub(super) fn restart(&mut self) -> Result<()> {
        match &mut self.runs {
            Runs::Beside(beside) => (0..beside.kill()?).try_for_each(|_| beside.start_usual()),
            Runs::Inside(stand) => stand.replicas.iter_mut().try_for_each(|server| {
                server.kill()?;
                server.again()
            }),
        }
    }

    /// Asks one of the servers, in turn.
    pub(super) fn ask(&mut self, method: Method, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        self.send(method.media(), method.verb(), path, body)
    }

    fn send(&mut self, media: &str, verb: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        self.turn = (self.turn + 1) % self.clients.len();
        let client = &mut self.clients[self.turn];
        // A connection to a server that was killed meanwhile is noticed when it is used; only what can be asked twice is.
        for last in [false, true] {
            match client.send_as(media, verb, path, body) {
                Reply::Answer(code, body) => return Ok((code, body)),
                Reply::Lost | Reply::Unsent if !last => {}
                other => bail!("{verb} {path}: {other:?}"),
            }
        }
        bail!("{verb} {path} was not answered")
    }

    fn done(&mut self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let (code, said) = self.ask(method, path, body)?;
        ensure!((200..300).contains(&code), "{} {path}: {code} {said}", method.verb());
        Ok(said)
    }

    /// What there is under a path, if it is there.
    pub(super) fn get(&mut self, path: &str) -> Result<Option<Value>> {
        match self.send("application/json", "GET", path, None)? {
            (200, object) => Ok(Some(object)),
            (404, _) => Ok(None),
            (code, said) => bail!("GET {path}: {code} {said}"),
        }
    }

    pub(super) fn list(&mut self, path: &str) -> Result<Vec<Value>> {
        let mut list = self.get(path)?.with_context(|| format!("no {path}"))?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    pub(super) fn make_node(&mut self, name: &str, labels: &[(&str, &str)]) -> Result<()> {
        self.done(Method::Post, NODES, Some(&node(name, labels, &[]))).map(drop)
    }

    /// Makes a node that somebody else has served.
    pub(super) fn make_served(&mut self, name: &str, labels: &[(&str, &str)], cidrs: &[&str]) -> Result<()> {
        self.done(Method::Post, NODES, Some(&node(name, labels, cidrs))).map(drop)
    }

    pub(super) fn make(&mut self, path: &str, body: &Value) -> Result<()> {
        self.done(Method::Post, path, Some(body)).map(drop)
    }

    pub(super) fn make_range(&mut self, name: &str, spec: &Value) -> Result<()> {
        self.done(Method::Post, RANGES, Some(&range(name, spec))).map(drop)
    }

    /// Changes something of an object by a merge patch.
    pub(super) fn change(&mut self, path: &str, change: &Value) -> Result<Value> {
        self.done(Method::Merge, path, Some(change))
    }

    /// Puts another object in the place of one that is there.
    pub(super) fn replace(&mut self, path: &str, object: &Value) -> Result<()> {
        let there = self.get(path)?.with_context(|| format!("there is no {path}"))?;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
        self.done(Method::Put, path, Some(&object)).map(drop)
    }

    pub(super) fn relabel(&mut self, node: &str, labels: &Value) -> Result<()> {
        self.change(&format!("{NODES}/{node}"), &json!({"metadata": {"labels": labels}})).map(drop)
    }

    pub(super) fn delete_node(&mut self, name: &str) -> Result<()> {
        self.done(Method::Delete, &format!("{NODES}/{name}"), None).map(drop)
    }

    pub(super) fn delete_range(&mut self, name: &str) -> Result<()> {
        self.done(Method::Delete, &format!("{RANGES}/{name}"), None).map(drop)
    }

    pub(super) fn range(&mut self, name: &str) -> Result<Option<Value>> {
        self.get(&format!("{RANGES}/{name}"))
    }

    /// The blocks of a node, with commas between them.
    pub(super) fn cidrs(&mut self, node: &str) -> Result<String> {
        let node = self.get(&format!("{NODES}/{node}"))?.with_context(|| format!("there is no node {node}"))?;
        Ok(cidrs_of(&node))
    }

    /// The longest that something took that has a limit, since this was last asked.
    pub(super) fn slowest(&mut self) -> Duration {
        std::mem::take(&mut self.slowest)
    }

    /// Looks until there is something to see.
    pub(super) fn until<T>(
        &mut self,
        what: &str,
        within: Duration,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<T> {
        let (began, has_limit) = (Instant::now(), within == LIMIT);
        let within = if has_limit { self.limit } else { within };
        loop {
            if let Some(seen) = look(self)? {
                if has_limit {
                    self.slowest = self.slowest.max(began.elapsed());
                }
                return Ok(seen);
            }
            if began.elapsed() > within {
                let told: Vec<_> = self.events()?.iter().rev().take(5).map(|event| event["message"].clone()).collect();
                bail!("{what}: not within {within:?}; last events: {told:?}");
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Waits until a node has these blocks; no others.
    pub(super) fn until_has(&mut self, node: &str, cidrs: &str, within: Duration) -> Result<()> {
        let had = self.until_served(node, within).with_context(|| format!("{node} should have {cidrs}"))?;
        ensure!(had == cidrs, "{node} has {had}, not {cidrs}");
        Ok(())
    }

    /// Waits until a node has blocks.
    pub(super) fn until_served(&mut self, node: &str, within: Duration) -> Result<String> {
        self.until(&format!("{node} has blocks"), within, |cluster| {
            Ok(Some(cluster.cidrs(node)?).filter(|cidrs| !cidrs.is_empty()))
        })
    }

    /// Makes a node and waits until it has blocks.
    pub(super) fn served(&mut self, node: &str, labels: &[(&str, &str)]) -> Result<String> {
        self.make_node(node, labels)?;
        self.until_served(node, PATIENCE)
    }

    /// Waits until it is told why a node has no blocks.
    pub(super) fn until_refused(&mut self, node: &str, why: &str) -> Result<()> {
        self.until_told(node, "CIDRNotAvailable", why)?;
        let cidrs = self.cidrs(node)?;
        ensure!(cidrs.is_empty(), "{node} was refused and has {cidrs}");
        Ok(())
    }

    /// Waits for a warning about a node.
    pub(super) fn until_told(&mut self, node: &str, reason: &str, text: &str) -> Result<()> {
        self.until(&format!("{node} is told {reason}: {text}"), PATIENCE, |cluster| {
            let told = cluster.told(node, reason)?;
            Ok(told.iter().any(|message| message.contains(text)).then_some(()))
        })
    }

    /// What was told about a node, for that reason; not about one that had its name before.
    pub(super) fn told(&mut self, node: &str, reason: &str) -> Result<Vec<String>> {
        let node = self.get(&format!("{NODES}/{node}"))?.with_context(|| format!("there is no node {node}"))?;
        let is_it = |event: &&Value| {
            event["involvedObject"]["kind"] == "Node"
                && event["involvedObject"]["uid"] == node["metadata"]["uid"]
                && event["reason"] == reason
                && event["type"] == "Warning"
        };
        let text = |event: &Value| event["message"].as_str().unwrap_or_default().to_owned();
        Ok(self.events()?.iter().filter(is_it).map(text).collect())
    }

    pub(super) fn events(&mut self) -> Result<Vec<Value>> {
        self.list(EVENTS)
    }

    /// Waits until a range is used: its finalizer is stored.
    pub(super) fn until_protected(&mut self, name: &str) -> Result<()> {
        self.until(&format!("{name} has its finalizer"), PATIENCE, |cluster| {
            let range = cluster.range(name)?.with_context(|| format!("there is no {name}"))?;
            Ok(is_protected(&range).then_some(()))
        })
    }

    /// Makes a range and waits until it is used.
    pub(super) fn ready_range(&mut self, name: &str, spec: &Value) -> Result<()> {
        self.make_range(name, spec)?;
        self.until_protected(name)
    }

    /// Waits until the status of a range is as it should be.
    pub(super) fn until_status(&mut self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
        self.until(&format!("the status of {name} says {what}"), PATIENCE, |cluster| {
            let range = cluster.range(name)?.with_context(|| format!("there is no {name}"))?;
            Ok(holds(&range["status"]).then_some(()))
        })
    }

    pub(super) fn until_range_gone(&mut self, name: &str, within: Duration) -> Result<()> {
        self.until(&format!("{name} is gone"), within, |cluster| Ok(cluster.range(name)?.is_none().then_some(())))
    }

    /// Everything that happened before has been taken in: a node and a range that were made now have found each other.
    pub(super) fn settled(&mut self) -> Result<()> {
        let range = cut_for(4, "198.51.100.0/28", &[("settled", "yes")]);
        self.make_range("settled", &range)?;
        self.make_node("settled", &[("settled", "yes")])?;
        self.until_has("settled", "198.51.100.0/28", PATIENCE)?;
        self.delete_node("settled")?;
        self.delete_range("settled")?;
        self.until_range_gone("settled", PATIENCE)
    }

    /// Removes all that a case made. Nodes must be gone within the limit, and so must ranges.
    pub(super) fn clean_up(&mut self) -> Result<()> {
        for path in [NODES, RANGES] {
            self.done(Method::Delete, &format!("{path}?{NOT_RETAINED}"), None)?;
            self.until(&format!("everything at {path} is gone"), LIMIT, |cluster| {
                Ok(cluster.list(&format!("{path}?{NOT_RETAINED}"))?.is_empty().then_some(()))
            })?;
        }
        Ok(())
    }

    /// Removes all that a failed case left, also by force.
    pub(super) fn sweep(&mut self) -> Result<()> {
        for path in [NODES, RANGES] {
            for object in self.list(&format!("{path}?{NOT_RETAINED}"))? {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                self.ask(Method::Delete, &format!("{path}/{name}"), None)?;
                let free = json!({"metadata": {"finalizers": null}});
                self.ask(Method::Merge, &format!("{path}/{name}"), Some(&free))?;
            }
        }
        Ok(())
    }
}

pub(super) fn node(name: &str, labels: &[(&str, &str)], cidrs: &[&str]) -> Value {
    let labels: serde_json::Map<_, _> = labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    if let Some(first) = cidrs.first() {
        node["spec"] = json!({"podCIDR": first, "podCIDRs": cidrs});
    }
    node
}

pub(super) fn range(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "networking.x-k8s.io/v1", "kind": "ClusterCIDR", "metadata": {"name": name}, "spec": spec})
}

/// A range for all nodes: the size of its blocks, and one CIDR or one of each family.
pub(super) fn cut(bits: u8, cidrs: &str) -> Value {
    let mut spec = json!({"perNodeHostBits": bits});
    for cidr in cidrs.split(',') {
        spec[if cidr.contains(':') { "ipv6" } else { "ipv4" }] = json!(cidr);
    }
    spec
}

/// A range for nodes with any of these labels: a term for each.
pub(super) fn cut_for(bits: u8, cidrs: &str, labels: &[(&str, &str)]) -> Value {
    let term =
        |(key, value): &(&str, &str)| json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]});
    let mut spec = cut(bits, cidrs);
    spec["nodeSelector"] = json!({"nodeSelectorTerms": labels.iter().map(term).collect::<Vec<_>>()});
    spec
}

/// The blocks of a node, with commas between them.
pub(super) fn cidrs_of(node: &Value) -> String {
    let all = node["spec"]["podCIDRs"].as_array().into_iter().flatten();
    all.filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

/// Whether a range has its finalizer.
pub(super) fn is_protected(range: &Value) -> bool {
    let finalizers = range["metadata"]["finalizers"].as_array().into_iter().flatten();
    finalizers.into_iter().any(|name| name == "networking.x-k8s.io/cluster-cidr-finalizer")
}
