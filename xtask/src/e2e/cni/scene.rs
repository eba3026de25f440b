//! A case among others in one cluster: a network and nodes of its own, and pods that the API knows.
//!
//! Most cases only wait for agents, so they are made together; those that take something away from all of them are made alone, after
//! them. What must not happen is shown by something later that did.

use std::fmt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use super::SUITE;
use super::books;
use super::cluster::{Api, Cluster, Home, IP_POOLS, Setup, eventually};
use super::machine::{GIVEN_BACK, Machine, Network, Sandbox};
use crate::e2e::Options;
use crate::e2e::method::Method;
use crate::e2e::report::{Outcome, Report};
use crate::e2e::small_disk::SmallDisk;

/// The namespace of pods, where it does not matter.
pub(super) const DEFAULT: &str = "default";
/// A Lease that is over soon, so that nobody waits long for it.
const SHORT_LEASE: [&str; 3] =
    ["--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms"];

/// With whom a case is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum With {
    Others,
    Nobody,
    /// Alone, and only where the store is not in the server.
    NobodyOnEtcd,
}

/// A case.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) with: With,
    pub(super) run: fn(&mut Scene<'_>) -> Result<String>,
}

/// The error of a case that cannot be tried on this machine, and why.
#[derive(Debug)]
struct NotHere(String);

impl fmt::Display for NotHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotHere {}

/// See the module.
pub(super) struct Scene<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) api: Api,
    /// A network cut into slices of 16 addresses, unless the case [shares](Self::share) one.
    pub(super) network: Network,
    /// In the names of what is of this case alone.
    pub(super) case: String,
    /// The second number of its addresses.
    pub(super) number: usize,
    plugin: &'a Path,
    folder: PathBuf,
}

/// Makes the cases that are asked for, in one cluster.
pub(super) fn run(
    setup: &Setup<'_>,
    options: &Options,
    plugin: &Path,
    folder: &Path,
    cases: &[&[Case]],
    report: &mut Report,
) -> Result<()> {
    let is_asked = |case: &Case| {
        let fits = case.with != With::NobodyOnEtcd || setup.place == crate::e2e::Place::Control;
        fits && options.only.as_ref().is_none_or(|only| case.name.contains(only))
    };
    let all = cases.iter().copied().flatten().enumerate();
    let asked: Vec<(usize, &Case)> = all.filter(|(_, case)| is_asked(case)).collect();
    if asked.is_empty() {
        return Ok(());
    }
    let cluster = Setup { home: Home::Beside, flags: &SHORT_LEASE, ..*setup }.start(folder)?;
    let made = |(number, case): (usize, &Case)| -> (Result<String>, Duration) {
        let began = Instant::now();
        let outcome = Scene::set(&cluster, plugin, folder, number).and_then(|mut scene| (case.run)(&mut scene));
        (outcome, began.elapsed())
    };
    let (together, alone): (Vec<_>, Vec<_>) = asked.into_iter().partition(|(_, case)| case.with == With::Others);
    let mut tell = |case: &Case, outcome: Result<String>, took| {
        let outcome = match outcome {
            Ok(said) => Outcome::Ok(said),
            Err(why) if why.is::<NotHere>() => Outcome::NotRun(format!("{why:#}")),
            Err(why) => Outcome::Failed(format!("{why:#}")),
        };
        report.case(SUITE, setup.place, case.name, &outcome, took);
    };
    let ends: Vec<_> = thread::scope(|scope| {
        let hands: Vec<_> = together.iter().map(|one| scope.spawn(|| made(*one))).collect();
        let fell = || (Err(anyhow!("it fell over")), Duration::ZERO);
        hands.into_iter().map(|hand| hand.join().unwrap_or_else(|_| fell())).collect()
    });
    for ((_, case), (outcome, took)) in together.into_iter().zip(ends) {
        tell(case, outcome, took);
    }
    for one in alone {
        let (outcome, took) = made(one);
        tell(one.1, outcome, took);
    }
    cluster.are_up()
}

impl<'a> Scene<'a> {
    fn set(cluster: &'a Cluster, plugin: &'a Path, folder: &Path, number: usize) -> Result<Self> {
        let (case, number) = (format!("case-{number}"), number + 100);
        let network = Network::sliced(&case, &case, &format!("10.{number}.0.0/24"), "/28");
        let mut api = cluster.api();
        api.define(&network.name, network.ipam.clone())?;
        Ok(Self { cluster, api, network, folder: folder.join(&case), case, number, plugin })
    }

    /// From here on its network is one that all nodes share.
    pub(super) fn share(&mut self) {
        let range = format!("10.{}.1.0/24", self.number);
        self.network = Network::shared(&format!("{}-shared", self.case), &range, self.cluster);
    }

    /// Makes the state directory of a node that is to come a small disk of its own.
    pub(super) fn disk(&self, name: &str, size: u32) -> Result<SmallDisk> {
        let folder = self.folder.join(format!("{}-{name}", self.case)).join("state");
        let not_here =
            |why| NotHere(format!("a full disk needs a disk of its own, and only root may mount one: {why:#}"));
        Ok(SmallDisk::mount(&folder, size).map_err(not_here)?)
    }

    /// A node of this case with its agent, which has a slice if the network has any.
    pub(super) fn machine(&mut self, name: &str) -> Result<Machine> {
        let name = format!("{}-{name}", self.case);
        self.api.join(&self.case, std::iter::once(name.clone()))?;
        let machine = Machine::new(self.cluster, self.plugin, &self.folder, &name)?;
        machine.start_agent()?;
        if self.network.is_sliced() {
            machine.granted(&self.network, 1)?;
        }
        Ok(machine)
    }

    /// An address of the first slices of this case.
    pub(super) fn ip(&self, last: u8) -> Vec<String> {
        vec![format!("10.{}.0.{last}/24", self.number)]
    }

    /// A namespace of this case.
    pub(super) fn namespace(&mut self, name: &str) -> Result<String> {
        let name = format!("{}-{name}", self.case);
        let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        self.api.ask(Method::Post, "/api/v1/namespaces", &object("Namespace", &name))?;
        if self.cluster.is_control {
            let path = format!("/api/v1/namespaces/{name}/serviceaccounts");
            self.api.ask(Method::Post, &path, &object("ServiceAccount", "default"))?;
        }
        Ok(name)
    }

    /// A pod on a node, as the API knows it, in a sandbox.
    pub(super) fn pod(&mut self, machine: &Machine, namespace: &str, name: &str) -> Result<Sandbox> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeName": machine.name, "containers": [{"name": "main", "image": "none"}]},
        });
        let made = self.api.ask(Method::Post, &format!("/api/v1/namespaces/{namespace}/pods"), &pod)?;
        machine.sandbox(namespace, name, made["metadata"]["uid"].as_str().unwrap_or_default())
    }

    /// The same, with an address.
    pub(super) fn running(&mut self, machine: &Machine, namespace: &str, name: &str) -> Result<(Sandbox, Vec<String>)> {
        let sandbox = self.pod(machine, namespace, name)?;
        let ips = machine.add(&self.network, &sandbox)?;
        Ok((sandbox, ips))
    }

    /// The API forgets a pod at once, whatever its node says.
    pub(super) fn force_delete(&mut self, sandbox: &Sandbox) -> Result<()> {
        self.api.ask(Method::Delete, &pod_path(sandbox), &json!({"gracePeriodSeconds": 0})).map(drop)
    }

    /// Nothing of a pod runs any more.
    pub(super) fn ended(&mut self, sandbox: &Sandbox, phase: &str) -> Result<()> {
        let path = format!("{}/status", pod_path(sandbox));
        self.api.ask(Method::Merge, &path, &json!({"status": {"phase": phase}})).map(drop)
    }

    /// Waits until these sandboxes hold nothing, in the journal and in the API; how long that took.
    pub(super) fn given_back(&mut self, machine: &Machine, sandboxes: &[&Sandbox]) -> Result<Duration> {
        self.given_back_of(&self.network.clone(), machine, sandboxes)
    }

    /// The same of another network.
    pub(super) fn given_back_of(
        &mut self,
        network: &Network,
        machine: &Machine,
        sandboxes: &[&Sandbox],
    ) -> Result<Duration> {
        let began = Instant::now();
        machine.forgets(network, sandboxes)?;
        eventually(GIVEN_BACK, || {
            let shown = books::shown(&self.api.list(IP_POOLS)?)?;
            let is_its = |who: &books::Entry| sandboxes.iter().any(|sandbox| who[0] == sandbox.container);
            ensure!(!shown.values().any(is_its), "an IPPool still has what was given back: {shown:?}");
            Ok(began.elapsed())
        })
    }

    /// That a sandbox holds these addresses, in the journal and, soon, in the API.
    pub(super) fn holds(&mut self, machine: &Machine, sandbox: &Sandbox, ips: &[String]) -> Result<()> {
        self.holds_of(&self.network.clone(), machine, sandbox, ips)
    }

    /// The same of another network.
    pub(super) fn holds_of(
        &mut self,
        network: &Network,
        machine: &Machine,
        sandbox: &Sandbox,
        ips: &[String],
    ) -> Result<()> {
        let journal = machine.journal(network)?;
        let held = journal.iter().find(|(attachment, _)| *attachment == sandbox.attachment());
        let held = held.map(|(_, ips)| ips.as_slice()).unwrap_or_default();
        ensure!(held == ips, "{} should hold {ips:?}, and holds {held:?}", sandbox.container);
        let podref = format!("{}/{}", sandbox.namespace, sandbox.pod);
        eventually(GIVEN_BACK, || {
            let shown = books::shown(&self.api.list(IP_POOLS)?)?;
            let count = shown.values().filter(|who| who[0] == sandbox.container && who[1] == podref).count();
            ensure!(count == ips.len(), "{} has {count} addresses in IPPools", sandbox.container);
            Ok(())
        })
    }

    /// The `IPPool` of the slice that begins with that address.
    pub(super) fn ip_pool(&self, machine: &Machine, first: u8) -> String {
        format!("{IP_POOLS}/{}-{}-10.{}.0.{first}-28", self.network.name, machine.name, self.number)
    }

    /// Somebody else writes an entry into the `IPPool` of the first slice.
    pub(super) fn edit(&mut self, machine: &Machine, last: u8, entry: &Value) -> Result<()> {
        let patch = json!({"spec": {"allocations": {last.to_string(): entry}}});
        self.api.ask(Method::Merge, &self.ip_pool(machine, 0), &patch).map(drop)
    }
}

fn pod_path(sandbox: &Sandbox) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", sandbox.namespace, sandbox.pod)
}
