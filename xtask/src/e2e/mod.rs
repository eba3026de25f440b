//! `cargo xtask e2e [SUITE...]`: real clients and real faults against the server as a process, on each store, and against
//! the real kube-apiserver as control.
//!
//! A suite is one module that knows on which servers it makes sense. The control tells whether a suite is a fair judge: what
//! it asks of ours, the real one must do too. What each case did stays in `target/e2e/SUITE/SERVER`.

mod cargo_tests;
mod check;
pub(crate) mod client;
mod clients;
pub(crate) mod cni;
mod crash;
mod fidelity;
mod gateway;
mod guest;
mod history;
mod judged;
mod kube_rs;
mod kubectl;
mod managers;
pub(crate) mod method;
mod nodes;
mod objects;
mod openapi;
mod replicas;
mod report;
mod restarting;
mod servers;
mod services;
mod small_disk;
mod soak;
mod stand;
mod store;
mod story;
mod wire;

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use self::fidelity::{kcm, upstream};
use self::judged::Comparison;
use self::report::{Outcome, Report};
use self::servers::Servers;

/// Which suites, where, and how long.
#[derive(Args)]
pub(crate) struct Options {
    /// The suites to run; all of them but `soak` if none is named
    #[arg(value_name = "SUITE")]
    suites: Vec<Suite>,
    /// Build without optimisation, take fewer rounds, and hold ours against what the control said when it was last asked
    #[arg(long)]
    quick: bool,
    /// Run on this server only; may be repeated
    #[arg(long, value_name = "SERVER")]
    on: Vec<Place>,
    /// Of the suites `server`, `services`, `nodes`, `cni`, `upstream`, `clients`, `kube-rs` and `replicas`, run only the cases whose
    /// names contain this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// How often the faults strike, instead of as often as the suite finds right
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// How many writes the suite `soak` waits for, instead of a million; or the long run of `nodes`, instead of a hundred thousand
    #[arg(long, value_name = "N")]
    writes: Option<u64>,
    /// Begin the random choices of writers and faults with this number, instead of another one each time; a quick run
    /// makes the same choices every time, so that what it says of a change does not depend on luck
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write what came of the suite `upstream` to docs/reference/compatibility.md
    #[arg(long, conflicts_with_all = ["quick", "on", "only"])]
    write_docs: bool,
    /// Run this program instead of building it; of the suite `cni`, this plugin
    #[arg(long, value_name = "FILE")]
    cadastre: Option<PathBuf>,
}

/// What the random choices of a quick run begin with.
const QUICK_SEED: u64 = 1;

impl Options {
    /// What the random choices begin with.
    fn seed(&self) -> u64 {
        let usual = || if self.quick { QUICK_SEED } else { RandomState::new().hash_one(std::process::id()) };
        self.seed.unwrap_or_else(usual)
    }
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// kubectl, by script: everything it says must be what it says of the control
    Server,
    /// Objects that are right, odd or wrong in many ways: both servers must say the same of each
    Objects,
    /// What the server documents, as the real code reads it, and as the control has it but for the descriptions
    Openapi,
    /// The promises of the store, on a real etcd
    Store,
    /// Random patches and bodies, as the real code takes them
    Patch,
    /// Random objects and damaged bytes in protobuf, as the real code reads and writes them
    Protobuf,
    /// Random sequences of applies and updates, as the real code takes them
    Apply,
    /// Random writes of every sort by many managers: what ours answers, and who owns what then, must be as with the control
    Managers,
    /// Clients that speak nothing but protobuf: everything they see must be what they see of the control
    Wire,
    /// Random writes of Services, ranges and addresses in four sorts of clusters and one that has hardly any room: what ours answers,
    /// and what there is then, must be as with the control; the examples; two servers that are asked for the same address; kill -9 while addresses are given and freed
    Services,
    /// Nodes get their pod CIDRs, from `cadastre up` and from `cadastre controller node` beside the control: what the peers' suites ask,
    /// what goes wrong with the peers, controllers that are killed, doubled and cut off, nodes that others served, a long random run
    Nodes,
    /// Pod addresses on secondary networks: tables that the real whereabouts, which is the control, and ours must answer alike, real
    /// networks, kill -9, full disks, many nodes
    Cni,
    /// kill -9 again and again under load: nothing acknowledged is lost, no watch misses or repeats an event
    Crash,
    /// The same, with a disk that is full again and again
    DiskFull,
    /// The same, with the leader of three etcds killed again and again
    EtcdLeader,
    /// Kubernetes' own end-to-end tests: those that need nothing but the API
    Upstream,
    /// The real controllers, at work
    Kcm,
    /// A program on client-go: informers, paging, leader election, and what else clients are made of
    Clients,
    /// A program on kube-rs: watchers, reflectors, a controller, and what else clients are made of
    KubeRs,
    /// Two servers on one etcd, of which one is cut off or killed
    Replicas,
    /// All suites of somebody else's clients: server, upstream, kcm, clients, kube-rs, replicas
    Fidelity,
    /// Informers and reflectors follow a million random writes on two servers that are cut off and killed throughout
    Soak,
}

/// What a suite runs against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Place {
    /// Cadastre with its own store
    Embedded,
    /// Cadastre on etcd
    Etcd,
    /// Two Cadastres on one etcd
    Replicas,
    /// The real kube-apiserver on etcd
    Control,
}

impl Suite {
    /// All but the soak, which takes long.
    const ALL: [Self; 20] = [
        Self::Server,
        Self::Objects,
        Self::Openapi,
        Self::Store,
        Self::Patch,
        Self::Protobuf,
        Self::Apply,
        Self::Managers,
        Self::Wire,
        Self::Services,
        Self::Nodes,
        Self::Cni,
        Self::Crash,
        Self::DiskFull,
        Self::EtcdLeader,
        Self::Upstream,
        Self::Kcm,
        Self::Clients,
        Self::KubeRs,
        Self::Replicas,
    ];

    /// The suites that it stands for: itself, but for the name of several.
    fn members(self) -> Vec<Self> {
        if self == Self::Fidelity { fidelity::SUITES.to_vec() } else { vec![self] }
    }

    /// Where it makes sense; a quick run leaves out what says little more.
    fn places(self, quick: bool) -> &'static [Place] {
        match (self, quick) {
            (Self::Wire, false) => &[Place::Control, Place::Embedded, Place::Etcd],
            (Self::Managers | Self::Crash, false) => &[Place::Embedded, Place::Etcd],
            (Self::Services, false) => &[Place::Embedded, Place::Etcd, Place::Replicas],
            (Self::Services, true) => &[Place::Embedded, Place::Replicas],
            (Self::Nodes, _) => &[Place::Embedded, Place::Replicas, Place::Control],
            (Self::Cni, false) => &[Place::Control, Place::Embedded],
            (Self::Managers | Self::Wire | Self::Crash | Self::Cni, true)
            | (Self::DiskFull | Self::Objects | Self::Openapi, _) => &[Place::Embedded],
            (Self::Store, _) | (Self::EtcdLeader, true) => &[Place::Etcd],
            (Self::Patch | Self::Protobuf | Self::Apply, _) => &[Place::Control],
            (Self::EtcdLeader, false) => &[Place::Control, Place::Etcd],
            (Self::Server | Self::Upstream | Self::Kcm | Self::Clients | Self::KubeRs | Self::Fidelity, false) => {
                &[Place::Control, Place::Embedded, Place::Replicas]
            }
            (Self::Server | Self::Upstream | Self::Kcm | Self::Clients | Self::KubeRs | Self::Fidelity, true) => {
                &[Place::Embedded, Place::Replicas]
            }
            (Self::Replicas | Self::Soak, _) => &[Place::Replicas],
        }
    }

    /// Where it is to run now: where it makes sense and was asked for.
    fn asked(self, options: &Options) -> Vec<Place> {
        if options.on.is_empty() {
            return self.places(options.quick).to_vec();
        }
        self.places(false).iter().filter(|place| options.on.contains(place)).copied().collect()
    }
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Etcd => "etcd",
            Self::Replicas => "replicas",
            Self::Control => "control",
        }
    }
}

/// Runs the suites, prints a line for each case and a table at the end; an error if any case failed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let suites = if options.suites.is_empty() { &Suite::ALL } else { options.suites.as_slice() };
    let suites = suites.iter().flat_map(|suite| suite.members());
    let plan: Vec<_> = suites.map(|suite| (suite, suite.asked(options))).collect();
    if plan.iter().all(|(_, places)| places.is_empty()) {
        bail!("none of these suites runs there; see cargo xtask e2e --help");
    }
    let servers = Servers::prepare(options, &plan)?;
    let mut report = Report::default();
    for (suite, places) in &plan {
        match suite {
            Suite::Server => kubectl::run(&servers, options, places, &mut report)?,
            Suite::Objects => placed(objects::SUITE, objects::run, &servers, options, places, &mut report),
            Suite::Openapi => placed(openapi::SUITE, openapi::run, &servers, options, places, &mut report),
            Suite::Store => placed(store::SUITE, store::run, &servers, options, places, &mut report),
            Suite::Patch => compare(&judged::PATCH, &servers, options, places, &mut report),
            Suite::Protobuf => compare(&judged::PROTOBUF, &servers, options, places, &mut report),
            Suite::Apply => compare(&judged::APPLY, &servers, options, places, &mut report),
            Suite::Managers => each(managers::SUITE, places, &mut report, |place, report| {
                managers::run(&servers, options, place, report)
            }),
            Suite::Wire => wire::run(&servers, places, &mut report)?,
            Suite::Services => each(services::SUITE, places, &mut report, |place, report| {
                services::run(&servers, options, place, report)
            }),
            Suite::Nodes => placed(nodes::SUITE, nodes::run, &servers, options, places, &mut report),
            Suite::Cni => placed(cni::SUITE, cni::run, &servers, options, places, &mut report),
            Suite::Crash => crash::run(crash::Scenario::Restart, &servers, options, places, &mut report),
            Suite::DiskFull => crash::run(crash::Scenario::DiskFull, &servers, options, places, &mut report),
            Suite::EtcdLeader => crash::run(crash::Scenario::EtcdLeader, &servers, options, places, &mut report),
            Suite::Upstream => upstream::run(&servers, options, places, &mut report)?,
            Suite::Kcm => each(kcm::SUITE, places, &mut report, |place, report| kcm::run(&servers, place, report)),
            Suite::Clients => placed(clients::SUITE, clients::run, &servers, options, places, &mut report),
            Suite::KubeRs => placed(kube_rs::SUITE, kube_rs::run, &servers, options, places, &mut report),
            Suite::Replicas => placed(replicas::SUITE, replicas::run, &servers, options, places, &mut report),
            Suite::Soak => placed(soak::SUITE, soak::run, &servers, options, places, &mut report),
            // Its members are in the plan instead of it.
            Suite::Fidelity => {}
        }
    }
    print!("\n{}", report.table());
    println!("\nlogs in {}", servers.logs.display());
    match report.failures() {
        0 => Ok(()),
        failures => bail!("{failures} failed"),
    }
}

fn compare(with: &Comparison, servers: &Servers, options: &Options, places: &[Place], report: &mut Report) {
    each(with.name, places, report, |place, report| with.run(servers, options, place, report));
}

/// Runs a suite that starts its own servers in each of the places.
fn placed(
    suite: &'static str,
    run: fn(&Servers, &Options, Place, &mut Report) -> Result<()>,
    servers: &Servers,
    options: &Options,
    places: &[Place],
    report: &mut Report,
) {
    each(suite, places, report, |place, report| run(servers, options, place, report));
}

/// Runs a suite in each of the places; one that cannot run is a case that failed.
fn each(suite: &'static str, places: &[Place], report: &mut Report, run: impl Fn(Place, &mut Report) -> Result<()>) {
    for place in places {
        let began = Instant::now();
        if let Err(error) = run(*place, report) {
            report.case(suite, *place, "all tests", &Outcome::Failed(format!("{error:#}")), began.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(line: &str) -> Options {
        Line::parse_from(format!("e2e {line}").split_whitespace()).options
    }

    #[test]
    fn a_server_that_is_named_is_used_also_in_a_quick_run() {
        assert_eq!(Suite::Server.asked(&options("--quick")), [Place::Embedded, Place::Replicas]);
        assert_eq!(Suite::Server.asked(&options("--quick --on control")), [Place::Control]);
        assert!(Suite::DiskFull.asked(&options("--on etcd --on control")).is_empty());
    }

    #[test]
    fn every_suite_has_somewhere_to_run() {
        for suite in Suite::ALL {
            assert!(suite.places(true).iter().all(|place| suite.places(false).contains(place)), "{suite:?}");
        }
    }
}
