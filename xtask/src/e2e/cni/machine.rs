//! A node with an agent of its own, as processes: a state directory, namespaces that are files, and pods that come and go. It can be
//! rebooted: then its namespaces are gone, and it has another boot id (`CADASTRE_BOOT_ID`, which plugin and agent take for it).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cni::grants::Grants;
use cni::place::Place;
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::real::{Agent, AgentOptions, Plugin};

use super::books::{self, Attachment};
use super::call::{self, End};
use super::cluster::{Cluster, LIMIT, conf, eventually};
use crate::pods::attachment;

/// How long what nobody uses may be held. It takes 1.5 to 7 seconds on a machine that has time; the benchmark has the limit of ten.
pub(crate) const GIVEN_BACK: Duration = Duration::from_secs(30);

/// The interface of all attachments.
pub(crate) const IFNAME: &str = "net1";

/// A network, as its definition and the plugin have it.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) name: String,
    pub(crate) ipam: Value,
}

impl Network {
    /// Cut into slices, for the nodes of a case.
    pub(crate) fn sliced(name: &str, case: &str, range: &str, size: &str) -> Self {
        let selector = format!("case={case}");
        Self {
            name: name.to_owned(),
            ipam: json!({"network_name": name, "range": range, "node_slice_size": size, "node_selector": selector}),
        }
    }

    /// Shared by all nodes.
    pub(crate) fn shared(name: &str, range: &str, cluster: &Cluster) -> Self {
        let kubernetes = json!({"kubeconfig": cluster.agents_config});
        Self { name: name.to_owned(), ipam: json!({"network_name": name, "range": range, "kubernetes": kubernetes}) }
    }

    /// Whether nodes have slices of it.
    pub(crate) fn is_sliced(&self) -> bool {
        !self.ipam["node_slice_size"].is_null()
    }
}

/// A pod in a sandbox of its own.
#[derive(Clone, Debug)]
pub(crate) struct Sandbox {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    uid: String,
    pub(crate) container: String,
    netns: PathBuf,
}

impl Sandbox {
    /// Its namespace is gone, and nobody said so.
    pub(crate) fn vanish(&self) -> Result<()> {
        fs::remove_file(&self.netns).with_context(|| format!("no namespace {}", self.netns.display()))
    }

    pub(crate) fn attachment(&self) -> Attachment {
        Attachment::new(&self.container, IFNAME)
    }

    /// The same pod with a namespace that nobody can look at.
    pub(crate) fn unseen(self) -> Result<Self> {
        self.vanish()?;
        Ok(self)
    }
}

/// See the module.
pub(crate) struct Machine {
    pub(crate) name: String,
    folder: PathBuf,
    plugin: PathBuf,
    cadastre: PathBuf,
    kubeconfig: PathBuf,
    agent: Mutex<Option<Agent>>,
    /// How often it was booted.
    boots: AtomicU64,
    /// How many sandboxes there were.
    sandboxes: AtomicU64,
}

impl Machine {
    /// A machine in that folder, without an agent.
    pub(crate) fn new(cluster: &Cluster, plugin: &Path, folder: &Path, name: &str) -> Result<Self> {
        let folder = folder.join(name);
        for inner in ["netns", "state"] {
            fs::create_dir_all(folder.join(inner))?;
        }
        Ok(Self {
            name: name.to_owned(),
            folder,
            plugin: plugin.to_path_buf(),
            cadastre: cluster.binary.clone(),
            kubeconfig: cluster.agents_config.clone(),
            agent: Mutex::default(),
            boots: AtomicU64::new(1),
            sandboxes: AtomicU64::new(0),
        })
    }

    fn boot(&self) -> String {
        format!("{:032x}", self.boots.load(Ordering::Relaxed))
    }

    fn state_dir(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Starts its agent.
    pub(crate) fn start_agent(&self) -> Result<()> {
        let (boot, state_dir) = (self.boot(), self.state_dir());
        let options = AgentOptions {
            binary: &self.cadastre,
            node: &self.name,
            boot: &boot,
            kubeconfig: &self.kubeconfig,
            state_dir: &state_dir,
        };
        *self.agent.lock() = Some(Agent::start(options, &self.folder.join("agent.log"))?);
        Ok(())
    }

    /// Kills its agent, which must not have ended by itself.
    pub(crate) fn kill_agent(&self) -> Result<()> {
        let mut agent = self.agent.lock().take().with_context(|| format!("{} has no agent", self.name))?;
        if let Some(status) = agent.ended()? {
            bail!("the agent of {} ended with {status}; see {}", self.name, self.folder.join("agent.log").display());
        }
        agent.kill9()?;
        Ok(())
    }

    /// The power goes and comes back: no process and no namespace is left. The agent is not started.
    pub(crate) fn reboot(&self) -> Result<()> {
        self.kill_agent()?;
        for netns in fs::read_dir(self.folder.join("netns"))? {
            fs::remove_file(netns?.path())?;
        }
        self.boots.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// A sandbox of a pod; its namespace is there.
    pub(crate) fn sandbox(&self, namespace: &str, pod: &str, uid: &str) -> Result<Sandbox> {
        let container = format!("{}-{pod}-{}", self.name, self.sandboxes.fetch_add(1, Ordering::Relaxed));
        let netns = self.folder.join("netns").join(&container);
        fs::write(&netns, "")?;
        let text = str::to_owned;
        Ok(Sandbox { namespace: text(namespace), pod: text(pod), uid: text(uid), container, netns })
    }

    /// Another sandbox of the same pod.
    pub(crate) fn again(&self, sandbox: &Sandbox) -> Result<Sandbox> {
        self.sandbox(&sandbox.namespace, &sandbox.pod, &sandbox.uid)
    }

    /// Makes a call of the plugin, with `more` in its configuration; it is killed after that time if there is one.
    pub(crate) fn call(
        &self,
        call: &str,
        network: &Network,
        sandbox: &Sandbox,
        more: &Value,
        kill: Option<Duration>,
    ) -> Result<End> {
        let mut conf = conf(&network.name, network.ipam.clone());
        for (key, value) in more.as_object().into_iter().flatten() {
            conf[key] = value.clone();
        }
        self.call_with(call, &conf, sandbox, kill)
    }

    /// The same with a whole configuration.
    pub(crate) fn call_with(&self, call: &str, conf: &Value, sandbox: &Sandbox, kill: Option<Duration>) -> Result<End> {
        self.call_of(&self.plugin, call, conf, sandbox, kill)
    }

    /// The same of another plugin that is on this machine.
    pub(crate) fn call_of(
        &self,
        plugin: &Path,
        call: &str,
        conf: &Value,
        sandbox: &Sandbox,
        kill: Option<Duration>,
    ) -> Result<End> {
        let Sandbox { namespace, pod, uid, container, netns } = sandbox;
        let mut variables = attachment(call, pod, container, IFNAME);
        let args = format!("IgnoreUnknown=true;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={pod};K8S_POD_UID={uid}");
        variables.insert("CNI_ARGS".to_owned(), args);
        variables.insert("CNI_NETNS".to_owned(), netns.display().to_string());
        let plugin = Plugin::new(plugin)
            .with("NODENAME", &self.name)
            .with("CADASTRE_STATE_DIR", &self.state_dir().display().to_string())
            .with("CADASTRE_BOOT_ID", &self.boot());
        call::made(plugin.command(variables), &conf.to_string(), kill)
    }

    /// A pod is given addresses, or not and why.
    pub(crate) fn try_add(&self, network: &Network, sandbox: &Sandbox) -> Result<Result<Vec<String>, Value>> {
        match self.call("ADD", network, sandbox, &Value::Null, None)? {
            End::Answered(answer) => Ok(Ok(ips(&answer)?)),
            End::Refused(why) => Ok(Err(why)),
            End::Killed => bail!("nobody killed it"),
        }
    }

    /// A pod is given addresses.
    pub(crate) fn add(&self, network: &Network, sandbox: &Sandbox) -> Result<Vec<String>> {
        let said = self.try_add(network, sandbox)?;
        said.map_err(|why| anyhow::anyhow!("ADD of {} to {} on {}: {why}", sandbox.pod, network.name, self.name))
    }

    /// Its addresses are taken back, and its namespace goes.
    pub(crate) fn del(&self, network: &Network, sandbox: &Sandbox) -> Result<()> {
        let said = self.call("DEL", network, sandbox, &Value::Null, None)?;
        ensure!(matches!(said, End::Answered(_)), "DEL of {} on {}: {said:?}", sandbox.pod, self.name);
        if sandbox.netns.exists() {
            sandbox.vanish()?;
        }
        Ok(())
    }

    /// How often its agents have said that.
    pub(crate) fn says(&self, what: &str) -> Result<usize> {
        let log = self.folder.join("agent.log");
        let said = fs::read_to_string(&log).with_context(|| format!("no {}", log.display()))?;
        Ok(said.matches(what).count())
    }

    /// Who holds which addresses of a network, as its journal says.
    pub(crate) fn journal(&self, network: &Network) -> Result<Vec<(Attachment, Vec<String>)>> {
        books::journal(&self.state_dir().join(&network.name))
    }

    /// Waits until its journal has nothing of these sandboxes; how long that took.
    pub(crate) fn forgets(&self, network: &Network, sandboxes: &[&Sandbox]) -> Result<Duration> {
        let began = Instant::now();
        eventually(GIVEN_BACK, || {
            let journal = self.journal(network)?;
            for sandbox in sandboxes {
                let is_its = |one: &(Attachment, Vec<String>)| one.0 == sandbox.attachment();
                ensure!(!journal.iter().any(is_its), "{} still holds its address", sandbox.container);
            }
            Ok(began.elapsed())
        })
    }

    /// Waits until it holds these for others than its own sandboxes, and no more.
    pub(crate) fn reserves(&self, network: &Network, expected: &[Vec<String>]) -> Result<()> {
        eventually(GIVEN_BACK, || {
            let mut foreign = self.journal(network)?;
            foreign.retain(|(attachment, _)| !attachment.container.starts_with(&self.name));
            let mut ips: Vec<Vec<String>> = foreign.into_iter().map(|(_, ips)| ips).collect();
            ips.sort();
            ensure!(ips == expected, "{} should hold {expected:?} for others, and holds {ips:?}", self.name);
            Ok(())
        })
    }

    /// What it owes to the pools of a network without slices.
    pub(crate) fn owed(&self, network: &Network) -> Result<Vec<(Attachment, Vec<String>)>> {
        books::owed(&self.state_dir().join(&network.name))
    }

    /// Waits until it may give out so many slices of a network.
    pub(crate) fn granted(&self, network: &Network, slices: usize) -> Result<()> {
        let place = Place::new(&self.state_dir(), &network.name);
        eventually(LIMIT, || {
            let grants = Grants::read(&place)?;
            let count = grants.ranges.iter().map(|range| range.slices.len()).sum::<usize>();
            ensure!(count >= slices, "{} has {count} slices of {}", self.name, network.name);
            Ok(())
        })
    }
}

/// The addresses in an answer.
pub(crate) fn ips(answer: &Value) -> Result<Vec<String>> {
    let ips = answer["ips"].as_array().with_context(|| format!("no addresses in {answer}"))?;
    let text = |ip: &Value| ip["address"].as_str().map(str::to_owned).with_context(|| format!("{answer}"));
    ips.iter().map(text).collect()
}
