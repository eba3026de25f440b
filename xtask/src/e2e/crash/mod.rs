//! The suites `crash`, `disk-full` and `etcd-leader`: the same load and the same checks, and a fault that strikes again and
//! again. Traffic, faults and checks do not know each other; what passes between them is a history.

mod faults;
mod traffic;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use testkit::choices::Seeded;
use testkit::real::{Cadastre, Etcd, EtcdCluster};

use self::traffic::{Load, Progress, Traffic};
use super::check::{self, Counts};
use super::client::{Client, Promise, Target};
use super::history::{History, Watched};
use super::report::{Outcome, Report};
use super::restarting::Restarting;
use super::servers::Servers;
use super::small_disk::SmallDisk;
use super::{Options, Place};
use crate::parts::Part;

const LOAD: Load = Load { writers: 8, objects: 12, watchers: 3, ballast: 100 };
/// Objects that make a file grow; but so little that the store neither fills the disk by itself before the last round, nor comes
/// to where it forgets as much as it is told and needs no more room than it has.
const HEAVY: Load = Load { ballast: 2_000, ..LOAD };
/// Enough for the store to live on between faults, and little enough to be filled at once.
const DISK_MIB: u32 = 256;
const ETCD_MEMBERS: usize = 3;
/// In how many rounds the fault waits once until a watch has ended in order: faults come faster than that.
const CALM_EVERY: u32 = 5;

/// Which fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenario {
    Restart,
    DiskFull,
    EtcdLeader,
}

impl Scenario {
    fn suite(self) -> &'static str {
        match self {
            Self::Restart => "crash",
            Self::DiskFull => "disk-full",
            Self::EtcdLeader => "etcd-leader",
        }
    }

    /// How often the fault strikes.
    fn rounds(self, options: &Options) -> u32 {
        let usual = match (self, options.quick) {
            (Self::Restart, false) => 200,
            (Self::Restart, true) => 10,
            (Self::DiskFull | Self::EtcdLeader, false) => 40,
            (Self::DiskFull | Self::EtcdLeader, true) => 3,
        };
        options.rounds.unwrap_or(usual)
    }

    fn words(self, rounds: u32) -> String {
        match self {
            Self::Restart => format!("{rounds} kill -9 restarts under load lose nothing"),
            Self::DiskFull => format!("a disk that is full {rounds} times under load loses nothing"),
            Self::EtcdLeader => format!("{rounds} leaders of etcd killed under load lose nothing"),
        }
    }
}

/// Runs the scenario on each of the servers.
pub(super) fn run(scenario: Scenario, servers: &Servers, options: &Options, places: &[Place], report: &mut Report) {
    for place in places {
        let rounds = scenario.rounds(options);
        let seed = options.seed();
        let began = Instant::now();
        let outcome = servers.folder(scenario.suite(), *place).and_then(|folder| {
            let stage = Stage { servers, folder: &folder, rounds, seed };
            match scenario {
                Scenario::Restart => stage.restart(*place),
                Scenario::DiskFull => stage.disk_full(),
                Scenario::EtcdLeader => stage.etcd_leader(*place),
            }
        });
        let outcome = outcome.unwrap_or_else(|error| Outcome::Failed(format!("{error:#}\nthe seed was {seed}")));
        report.case(scenario.suite(), *place, &scenario.words(rounds), &outcome, began.elapsed());
    }
}

/// Where a scenario plays.
struct Stage<'a> {
    servers: &'a Servers,
    folder: &'a Path,
    rounds: u32,
    seed: u64,
}

impl Stage<'_> {
    fn restart(&self, place: Place) -> Result<Outcome> {
        let mut flags = Vec::new();
        let mut etcd = None;
        if place == Place::Etcd {
            let started = Etcd::start(&self.servers.part(Part::Etcd)?, &self.folder.join("etcd"))?;
            flags.push(format!("--etcd-servers={}", started.url()));
            etcd = Some(started);
        }
        let data = self.folder.join("data");
        let mut server = Restarting::start(self.servers.cadastre()?, &data, &bare(&flags))?;
        self.no_second(&data, &flags)?;
        let mut slowest = Duration::ZERO;
        let told = self.under(LOAD, &ours(server.server()?, &data)?, |progress, random| {
            faults::load(progress, random)?;
            server.kill()?;
            let killed = Instant::now();
            server.again()?;
            slowest = slowest.max(killed.elapsed());
            Ok(())
        })?;
        server.stop()?;
        if place == Place::Embedded {
            self.at_rest(&data)?;
        }
        drop(etcd);
        Ok(Outcome::Ok(format!("{told}; ready again within {:.2} s", slowest.as_secs_f64())))
    }

    fn disk_full(&self) -> Result<Outcome> {
        let data = self.folder.join("data");
        let disk = match SmallDisk::mount(&data, DISK_MIB) {
            Ok(disk) => disk,
            Err(why) => {
                let why = format!("a full disk needs a disk of its own, and only root may mount one: {why:#}");
                return Ok(Outcome::NotRun(why));
            }
        };
        let mut server = Restarting::start(self.servers.cadastre()?, &data, &bare(&[]))?;
        let target = ours(server.server()?, &data)?;
        let mut client = Client::new(&target);
        let (mut round, mut said) = (0, String::new());
        let told = self.under(HEAVY, &target, |progress, random| {
            faults::load(progress, random)?;
            round += 1;
            said = faults::full_disk(&disk, &mut server, progress, &mut client, round % 2 == 0)?;
            Ok(())
        })?;
        server.stop()?;
        self.at_rest(&data)?;
        Ok(Outcome::Ok(format!("{told}\na write on the full disk: {said}")))
    }

    fn etcd_leader(&self, place: Place) -> Result<Outcome> {
        let binary = self.servers.part(Part::Etcd)?;
        let mut cluster = EtcdCluster::start(&binary, &self.folder.join("etcd"), ETCD_MEMBERS)?;
        let urls = cluster.urls().join(",");
        let data = self.folder.join("data");
        let told = if place == Place::Control {
            let server = self.servers.control(&urls, self.folder)?;
            let address = server.url().trim_start_matches("https://");
            let target = Arc::new(Target::new(Promise::Control, address, server.ca(), server.token().to_owned())?);
            self.leaders(&mut cluster, &target)?
        } else {
            let flags = bare(&[format!("--etcd-servers={urls}")]);
            let server = Restarting::start(self.servers.cadastre()?, &data, &flags)?;
            let told = self.leaders(&mut cluster, &ours(server.server()?, &data)?)?;
            server.stop()?;
            told
        };
        Ok(Outcome::Ok(told))
    }

    fn leaders(&self, cluster: &mut EtcdCluster, target: &Arc<Target>) -> Result<String> {
        self.under(LOAD, target, |progress, random| {
            faults::load(progress, random)?;
            faults::kill_leader(cluster, progress)
        })
    }

    /// Puts the server under load while the fault strikes as often as it should, and checks what came of it.
    fn under(
        &self,
        load: Load,
        target: &Arc<Target>,
        mut strike: impl FnMut(&Progress, &mut Seeded) -> Result<()>,
    ) -> Result<String> {
        let traffic = Traffic::start(target, load, self.seed)?;
        let mut random = Seeded::new(self.seed);
        let progress = Arc::clone(&traffic.progress);
        let struck = (0..self.rounds).try_for_each(|round| {
            let calm = if round % CALM_EVERY == 0 { faults::calm(&progress) } else { Ok(()) };
            calm.and_then(|()| strike(&progress, &mut random)).with_context(|| format!("round {}", round + 1))
        });
        let history = traffic.finish();
        struck?;
        let history = history?;
        match check::check(&history) {
            Ok(counts) => Ok(told(self.rounds, &counts)),
            Err(wrongs) => {
                let path = self.folder.join("history.txt");
                fs::write(&path, written(&history)).with_context(|| format!("could not write {}", path.display()))?;
                bail!("{}\nthe whole history is in {}", wrongs.join("\n"), path.display());
            }
        }
    }

    /// One server has a data directory, wherever it keeps its objects.
    fn no_second(&self, data: &Path, flags: &[String]) -> Result<()> {
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        match Cadastre::start(self.servers.cadastre()?, data, &flags) {
            Ok(_) => bail!("a second server was started on the same data directory"),
            Err(why) if why.to_string().contains("in use") => Ok(()),
            Err(why) => Err(why).context("a second server ended for another reason"),
        }
    }

    /// The store must also be sound to who looks at the file.
    fn at_rest(&self, data: &Path) -> Result<()> {
        let mut check = Command::new(self.servers.cadastre()?);
        let said = check.arg("check").arg("--data-dir").arg(data).output().context("could not run cadastre check")?;
        if !said.status.success() {
            let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
            bail!("cadastre check finds the store damaged:\n{out}{err}");
        }
        Ok(())
    }
}

/// The flags, and that only what the writers write is written.
fn bare(flags: &[String]) -> Vec<String> {
    flags.iter().cloned().chain([Cadastre::BARE.to_owned()]).collect()
}

/// How to reach our server.
fn ours(server: &Cadastre, data: &Path) -> Result<Arc<Target>> {
    Ok(Arc::new(Target::new(Promise::Ours, server.address(), &data.join("pki/ca.crt"), server.token()?)?))
}

fn told(rounds: u32, counts: &Counts) -> String {
    let Counts { acknowledged, unknown, unknown_and_done, refused, looks, events, bookmarks, resumed, ended } = counts;
    format!(
        "{rounds} faults, {acknowledged} writes acknowledged and none lost, {unknown} with unknown end ({unknown_and_done} \
         of them done), {refused} refused, {looks} reads, {events} events and {bookmarks} bookmarks checked, {resumed} \
         watches resumed, {ended} of them after an end in order"
    )
}

/// The history as text, for whoever has to find out.
fn written(history: &History) -> String {
    let mut text = String::new();
    for write in &history.writes {
        let _ = writeln!(text, "{write:?}");
    }
    for look in &history.looks {
        let _ = writeln!(text, "{look:?}");
    }
    for (number, watched) in history.watchers.iter().enumerate() {
        let Watched { resumed, ended, broken, .. } = watched;
        let _ = writeln!(text, "watcher {number}: resumed {resumed} times, {ended} after an end in order, {broken:?}");
        for seen in &watched.seen {
            let _ = writeln!(text, "{seen:?}");
        }
    }
    let _ = writeln!(text, "{:?}", history.end);
    text
}
