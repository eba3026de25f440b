//! What is done to measure: nodes and ranges are created while nobody serves, a watch begins, and then whoever serves is started.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use testkit::real::{Controller, KubeControllerManager, free_ports};

use super::metric::Metric;
use crate::bench::figures::Figures as AnyFigures;
use crate::bench::load::{Awaited, Beats, Fleet, Load, Served};
use crate::bench::measure::exact;
use crate::bench::places::{self, Given, Place, Programs, Server};
use crate::e2e::client::{Client, Promise, Reply, Target};
use crate::parts::Part;

type Figures = AnyFigures<Metric>;

/// How often the figures that are compared with each other are measured; the median counts.
const ROUNDS: u32 = 3;
/// As many writes as a controller of ours has on their way at a time.
const CONNECTIONS: u64 = 32;
const FEW: Fleet = Fleet { nodes: 5_000, ranges: 200, connections: CONNECTIONS };
const MANY: Fleet = Fleet { nodes: 50_000, ranges: 1_000, connections: CONNECTIONS };
/// For kube-controller-manager, which has one of its own.
const NO_RANGES: Fleet = Fleet { ranges: 0, ..FEW };
/// Services are elsewhere.
const SERVICES: &str = "--service-cluster-ip-range=192.168.0.0/20";
const UNELECTED: &str = "--leader-elect=false";
/// How long a server or controller is left alone before it is looked at.
const REST: Duration = Duration::from_secs(5);
const BEATS: Beats = Beats { fleet: FEW, per_second: 500, seconds: 20 };
/// How long a controller may take until it is ready.
const PATIENCE: Duration = Duration::from_mins(3);
/// The ticks in which Linux counts processor time, in a second.
const TICKS: f64 = 100.0;

struct Run {
    programs: Programs,
    figures: Figures,
}

/// Measures everything that is wanted.
pub(super) fn run(figures: Figures, given: &Given) -> Result<Figures> {
    let programs = Programs::ensure_with(given, &[Part::KubeControllerManager])?;
    let mut run = Run { programs, figures };
    let wants = |run: &Run, any: &[Metric]| run.figures.wants(any);
    if wants(&run, &[Metric::Raw, Metric::Served, Metric::Memory]) && run.can_control() {
        for round in 1..=ROUNDS {
            run.beside(round)?;
        }
    }
    if wants(&run, &[Metric::ServedByManager, Metric::MemoryOfManager]) && run.can_control() {
        run.manager()?;
    }
    if wants(&run, &[Metric::Served, Metric::EachOfFew]) {
        for round in 1..=ROUNDS {
            eprintln!("round {round} of {ROUNDS}: inside our server");
            let (took, _) = run.inside(FEW, "few")?;
            run.figures.note(Place::Embedded, Metric::Served, exact(FEW.nodes) / took.as_secs_f64());
            run.figures.note(Place::Embedded, Metric::EachOfFew, each(took, FEW));
        }
    }
    if wants(&run, &[Metric::EachOfMany, Metric::Start, Metric::StartWrites]) {
        run.many()?;
    }
    if wants(&run, &[Metric::SteadyProcessor, Metric::SteadyLines, Metric::SteadyWrites]) {
        run.steady()?;
    }
    places::clear()?;
    Ok(run.figures)
}

fn each(took: Duration, fleet: Fleet) -> f64 {
    took.as_secs_f64() * 1e9 / exact(fleet.nodes)
}

impl Run {
    fn can_control(&mut self) -> bool {
        self.programs.can_start(Place::Control, &mut self.figures)
    }

    /// kube-apiserver with our controller beside it.
    fn beside(&mut self, round: u32) -> Result<()> {
        eprintln!("round {round} of {ROUNDS}: beside kube-apiserver");
        let folder = places::folder("kube-apiserver")?;
        let (server, _) = self.programs.start(Place::Control, &folder, &[SERVICES])?;
        self.apply_crds(&server)?;
        let load = Load(server.endpoint()?);
        load.nodes(FEW)?;
        // Who waits for blocks watches all nodes, which costs the server something: now as well as later.
        let waiting = load.wait(Awaited { nodes: FEW.nodes, from: revision(&server)? })?;
        self.raw(&load, 1)?;
        let controller = self.controller(&server, &folder, "0")?;
        let Served { first, last } = waiting.done()?;
        let took = last.saturating_sub(first);
        self.figures.note(Place::Control, Metric::Served, exact(FEW.nodes) / took.as_secs_f64());
        sleep(REST);
        self.figures.note(Place::Control, Metric::Memory, exact(places::resident_of(controller.pid())?));
        drop(controller);
        // Nodes grow with everybody who writes to them, and so does the time that a write takes: those of the controller are between.
        let waiting = load.wait(Awaited { nodes: FEW.nodes, from: revision(&server)? })?;
        self.raw(&load, 2)?;
        waiting.done()?;
        server.stop()
    }

    /// Writes of each node that nothing is decided about.
    fn raw(&mut self, load: &Load, number: u32) -> Result<()> {
        let took = load.patch_nodes(FEW, number)?;
        self.figures.note(Place::Control, Metric::Raw, exact(FEW.nodes) / took.as_secs_f64());
        Ok(())
    }

    /// kube-apiserver with kube-controller-manager beside it, which nothing holds back but itself.
    fn manager(&mut self) -> Result<()> {
        eprintln!("kube-controller-manager beside kube-apiserver");
        let folder = places::folder("kube-controller-manager")?;
        let (server, _) = self.programs.start(Place::Control, &folder, &[SERVICES])?;
        let load = Load(server.endpoint()?);
        load.nodes(NO_RANGES)?;
        let waiting = load.wait(Awaited { nodes: FEW.nodes, from: revision(&server)? })?;
        let flags = [
            "--allocate-node-cidrs=true",
            "--cluster-cidr=10.0.0.0/8",
            "--kube-api-qps=10000",
            "--kube-api-burst=10000",
            UNELECTED,
        ];
        let binary = self.programs.part(Part::KubeControllerManager)?;
        let (kubeconfig, endpoint) = (server.kubeconfig(), server.endpoint()?);
        let manager = KubeControllerManager::start(
            &binary,
            &kubeconfig,
            &endpoint.authority,
            &["node-ipam-controller"],
            &folder,
            &flags,
        )?;
        let Served { first, last } = waiting.done()?;
        let took = last.saturating_sub(first).as_secs_f64();
        self.figures.note(Place::Control, Metric::ServedByManager, exact(FEW.nodes) / took);
        sleep(REST);
        self.figures.note(Place::Control, Metric::MemoryOfManager, exact(places::resident_of(manager.pid())?));
        drop(manager);
        server.stop()
    }

    /// Our server with nodes that nobody has served; it is started again with its controller in it. How long that took from when it
    /// was ready, and the server.
    fn inside(&self, fleet: Fleet, name: &str) -> Result<(Duration, Server)> {
        let folder = places::folder(name)?;
        let (server, _) = self.programs.start(Place::Embedded, &folder, &[SERVICES])?;
        Load(server.endpoint()?).nodes(fleet)?;
        let from = revision(&server)?;
        server.stop()?;
        let (server, _) = self.programs.start(Place::Tended, &folder, &[SERVICES])?;
        let ready = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let Served { last, .. } = Load(server.endpoint()?).wait(Awaited { nodes: fleet.nodes, from })?.done()?;
        Ok((last.saturating_sub(ready), server))
    }

    /// Many nodes, and a controller that is started when all of them are served.
    fn many(&mut self) -> Result<()> {
        eprintln!("50,000 nodes inside our server");
        let (took, server) = self.inside(MANY, "many")?;
        self.figures.note(Place::Embedded, Metric::EachOfMany, each(took, MANY));
        // What is still to be told of the ranges.
        sleep(REST);
        server.stop()?;
        let folder = places::kept("many");
        let (server, _) = self.programs.start(Place::Embedded, &folder, &[SERVICES])?;
        for _ in 0..ROUNDS {
            let before = revision(&server)?;
            let [port] = free_ports()?;
            let address = format!("127.0.0.1:{port}");
            let began = Instant::now();
            let mut controller = self.controller(&server, &folder, &address)?;
            controller.until(PATIENCE, || is_ready(&address).then_some(()))?;
            self.figures.note(Place::Embedded, Metric::Start, began.elapsed().as_secs_f64() * 1e9);
            sleep(REST);
            let writes = written(&before, &revision(&server)?)?;
            self.figures.note(Place::Embedded, Metric::StartWrites, exact(writes));
        }
        server.stop()
    }

    /// Nodes that are served, and say every ten seconds that they are well.
    fn steady(&mut self) -> Result<()> {
        eprintln!("heartbeats of 5,000 nodes");
        let (_, server) = self.inside(FEW, "steady")?;
        sleep(REST);
        server.stop()?;
        let folder = places::kept("steady");
        let (server, _) = self.programs.start(Place::Embedded, &folder, &[SERVICES])?;
        let [port] = free_ports()?;
        let address = format!("127.0.0.1:{port}");
        let mut controller = self.controller(&server, &folder, &address)?;
        controller.until(PATIENCE, || is_ready(&address).then_some(()))?;
        sleep(REST);
        let lines = |controller: &Controller| -> Result<u64> {
            Ok(fs::read_to_string(controller.log())?.lines().count() as u64)
        };
        let (ticks, said, revised) = (ticks(controller.pid())?, lines(&controller)?, revision(&server)?);
        let beats = Load(server.endpoint()?).beat(BEATS)?;
        let used = (self::ticks(controller.pid())? - ticks) / TICKS / exact(BEATS.seconds);
        self.figures.note(Place::Embedded, Metric::SteadyProcessor, used * 1e9);
        self.figures.note(Place::Embedded, Metric::SteadyLines, exact(lines(&controller)? - said));
        let writes = written(&revised, &revision(&server)?)?.saturating_sub(beats);
        self.figures.note(Place::Embedded, Metric::SteadyWrites, exact(writes));
        server.stop()
    }

    fn controller(&self, server: &Server, folder: &Path, address: &str) -> Result<Controller> {
        let address = format!("--webserver-bind-address={address}");
        let folder = folder.join("controller");
        Ok(Controller::start(self.programs.cadastre(), "node", &server.kubeconfig(), &folder, &[UNELECTED, &address])?)
    }

    /// Has kube-apiserver take `ClusterCIDR`s.
    fn apply_crds(&self, server: &Server) -> Result<()> {
        let mut crds = Command::new(self.programs.cadastre());
        let mut crds = crds.args(["manifests", "crds"]).stdout(Stdio::piped()).spawn()?;
        let kubectl = |args: &[&str]| -> Result<Command> {
            let mut command = Command::new(self.programs.part(Part::Kubectl)?);
            command.arg("--kubeconfig").arg(server.kubeconfig()).args(args).stdout(Stdio::null());
            Ok(command)
        };
        let text = crds.stdout.take().context("no CRDs")?;
        let applied = kubectl(&["apply", "--server-side", "-f", "-"])?.stdin(text).status()?;
        ensure!(crds.wait()?.success() && applied.success(), "the CRDs are not taken");
        let name = "crd/clustercidrs.networking.x-k8s.io";
        let known = kubectl(&["wait", "--for=condition=Established", name, "--timeout=60s"])?.status()?;
        ensure!(known.success(), "the CRDs are not served");
        Ok(())
    }
}

/// The revision that a server is at.
fn revision(server: &Server) -> Result<String> {
    let endpoint = server.endpoint()?;
    let target = Target::new(Promise::Control, &endpoint.address, &endpoint.authority, endpoint.token)?;
    match Client::new(&target.into()).send("GET", "/api/v1/nodes?limit=1", None) {
        Reply::Answer(200, list) => {
            let revision = list["metadata"]["resourceVersion"].as_str().filter(|revision| !revision.is_empty());
            revision.map(str::to_owned).context("a list without a revision")
        }
        other => anyhow::bail!("{other:?}"),
    }
}

/// How many writes there were between two revisions of ours, of which each is one.
fn written(before: &str, after: &str) -> Result<u64> {
    let number = |revision: &str| revision.parse::<u64>().with_context(|| format!("no revision: {revision}"));
    Ok(number(after)?.saturating_sub(number(before)?))
}

/// Whether whoever shows its health at that address is ready.
fn is_ready(address: &str) -> bool {
    use std::io::{Read, Write};
    let ask = || -> std::io::Result<String> {
        let mut stream = std::net::TcpStream::connect(address)?;
        write!(stream, "GET /readyz HTTP/1.0\r\n\r\n")?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        Ok(said)
    };
    ask().is_ok_and(|said| said.contains(" 200 "))
}

/// The processor time of a process, in ticks.
fn ticks(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("no {path}"))?;
    // The name of the program may have spaces; it ends with the last parenthesis.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    field(11).zip(field(12)).map(|(user, system)| user + system).with_context(|| format!("no times in {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_this_process_is_there() {
        assert!(ticks(std::process::id()).unwrap() >= 0.0);
        assert_eq!(written("10", "12").unwrap(), 2);
    }
}
