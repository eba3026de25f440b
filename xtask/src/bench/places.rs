//! The servers that are measured: started on folders of a real disk, as they are run in earnest.
//!
//! kube-apiserver authorizes everything (`AlwaysAllow`), which is less work than it does in a cluster; otherwise nothing
//! is set that would make it slower or faster.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use testkit::real::{Cadastre, Etcd, KubeApiserver};

use super::figures::{Figures, Quantity};
use crate::https::Endpoint;
use crate::parts::{self, Part, Parts};
use crate::{cargo, process};

/// A server to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// kube-apiserver on etcd.
    Control,
    /// Cadastre on its own store, with nothing done by itself (`--no-lifecycle`).
    Embedded,
    /// The same on etcd.
    Etcd,
    /// Cadastre on its own store, as it was before a change.
    Before,
    /// Cadastre on its own store as users start it, with all that it does by itself.
    Tended,
    /// The same on etcd.
    TendedOnEtcd,
}

impl Place {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Control => "kube-apiserver",
            Self::Embedded => "embedded",
            Self::Etcd => "on-etcd",
            Self::Before => "before",
            Self::Tended => "with-lifecycle",
            Self::TendedOnEtcd => "with-lifecycle-on-etcd",
        }
    }

    /// Whether there is an etcd below it.
    fn has_etcd(self) -> bool {
        matches!(self, Self::Control | Self::Etcd | Self::TendedOnEtcd)
    }

    /// Whether ours does there what nobody asks for.
    fn is_tended(self) -> bool {
        matches!(self, Self::Tended | Self::TendedOnEtcd)
    }
}

/// The programs of ours that are not to be built.
#[derive(Default)]
pub(super) struct Given {
    pub(super) cadastre: Option<PathBuf>,
    pub(super) plugin: Option<PathBuf>,
    /// Ours as it was before.
    pub(super) before: Option<PathBuf>,
}

/// A program that was given, if it is there.
pub(super) fn found(given: Option<&Path>) -> Result<Option<PathBuf>> {
    let found = |given: &Path| given.canonicalize().with_context(|| format!("no {}", given.display()));
    given.map(found).transpose()
}

/// The programs that are started.
pub(super) struct Programs {
    cadastre: PathBuf,
    /// Ours as it was before, if that is asked for.
    before: Option<PathBuf>,
    /// Or why there are none.
    parts: Result<Parts, String>,
}

/// A server that runs. Dropping it kills it, and the etcd below it after it.
pub(super) struct Server {
    kind: Kind,
    etcd: Option<Etcd>,
}

enum Kind {
    Ours(Cadastre, PathBuf),
    Control(KubeApiserver),
}

impl Programs {
    /// Builds what is not there yet. Without Go there are no parts: then the figures of those who need them are missing.
    pub(super) fn ensure(given: &Given) -> Result<Self> {
        Self::ensure_with(given, &[])
    }

    /// The same, and these parts too.
    pub(super) fn ensure_with(given: &Given, more: &[Part]) -> Result<Self> {
        let parts = parts::ensure(&[&[Part::Etcd, Part::KubeApiserver, Part::Kubectl], more].concat());
        let parts = parts.map_err(|error| format!("not measured: {error:#}"));
        let cadastre = given.cadastre.clone().map_or_else(build, Ok)?;
        Ok(Self { cadastre, before: given.before.clone(), parts })
    }

    /// Our program.
    pub(super) fn cadastre(&self) -> &Path {
        &self.cadastre
    }

    /// The program of a part.
    pub(super) fn part(&self, part: Part) -> Result<PathBuf> {
        self.parts.as_ref().map(|parts| parts.binary(part)).map_err(|why| anyhow::anyhow!("{why}"))
    }

    /// Whether that server can be measured here; if not, the figures say why.
    pub(super) fn can_start<Q: Quantity>(&self, place: Place, figures: &mut Figures<Q>) -> bool {
        let why = self.missing(place);
        if let Some(why) = why {
            figures.absent(place, why);
        }
        why.is_none()
    }

    /// Why that server cannot be started here.
    fn missing(&self, place: Place) -> Option<&str> {
        if place == Place::Before && self.before.is_none() {
            return Some("not measured: not asked for");
        }
        self.parts.as_ref().err().filter(|_| place.has_etcd()).map(String::as_str)
    }

    /// Starts a server on what is in the folder, and says how long it took until it was ready, its etcd included. The flags are
    /// those that all servers know.
    pub(super) fn start(&self, place: Place, folder: &Path, flags: &[&str]) -> Result<(Server, Duration)> {
        let started = Instant::now();
        let etcd =
            if place.has_etcd() { Some(Etcd::start(&self.part(Part::Etcd)?, &folder.join("etcd"))?) } else { None };
        let mut flags = flags.to_vec();
        let kind = if let (Place::Control, Some(etcd)) = (place, &etcd) {
            let (program, kubectl) = (self.part(Part::KubeApiserver)?, self.part(Part::Kubectl)?);
            flags.push("--authorization-mode=AlwaysAllow");
            Kind::Control(KubeApiserver::start(&program, &kubectl, etcd.url(), &folder.join("apiserver"), &flags)?)
        } else {
            let servers = etcd.as_ref().map(|etcd| format!("--etcd-servers={}", etcd.url()));
            flags.extend(servers.as_deref());
            flags.extend((!place.is_tended()).then_some(Cadastre::BARE));
            let given = self.before.as_ref().filter(|_| place == Place::Before);
            let data = folder.join("data");
            Kind::Ours(Cadastre::start(given.unwrap_or(&self.cadastre), &data, &flags)?, data)
        };
        Ok((Server { kind, etcd }, started.elapsed()))
    }
}

impl Server {
    /// Where the load finds it.
    pub(super) fn endpoint(&self) -> Result<Endpoint> {
        Ok(match &self.kind {
            Kind::Ours(cadastre, data) => Endpoint {
                address: cadastre.address().to_owned(),
                authority: data.join("pki/ca.crt"),
                token: cadastre.token()?,
            },
            Kind::Control(server) => Endpoint {
                address: server.url().trim_start_matches("https://").to_owned(),
                authority: server.ca().to_path_buf(),
                token: server.token().to_owned(),
            },
        })
    }

    /// The kubeconfig of one who may do everything.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        match &self.kind {
            Kind::Ours(cadastre, _) => cadastre.kubeconfig(),
            Kind::Control(server) => server.kubeconfig().to_path_buf(),
        }
    }

    /// The resident memory of all its processes, in bytes: now, or when it was most.
    pub(super) fn resident(&self, peak: bool) -> Result<u64> {
        let front = match &self.kind {
            Kind::Ours(cadastre, _) => cadastre.pid(),
            Kind::Control(server) => server.pid(),
        };
        let pids = std::iter::once(front).chain(self.etcd.as_ref().and_then(Etcd::pid));
        let field = if peak { "VmHWM:" } else { "VmRSS:" };
        pids.map(|pid| memory(pid, field)).sum()
    }

    /// Ends it in order.
    pub(super) fn stop(mut self) -> Result<()> {
        if let Kind::Ours(cadastre, _) = &mut self.kind {
            cadastre.terminate()?;
            cadastre.wait(Duration::from_mins(1))?;
        }
        Ok(())
    }
}

/// Builds our program as it is released.
pub(super) fn build() -> Result<PathBuf> {
    eprintln!("building cadastre in release");
    cargo::built(cargo::command().args(["build", "--release", "--package", "cadastre"]), "cadastre")
}

/// The folder of that name, as it was left.
pub(super) fn kept(name: &str) -> PathBuf {
    data().join(name)
}

/// An empty folder on the disk of this repository, not in a temporary file system that may be memory.
pub(super) fn folder(name: &str) -> Result<PathBuf> {
    let folder = kept(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("could not empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    Ok(folder)
}

/// Removes what all servers have written.
pub(super) fn clear() -> Result<()> {
    fs::remove_dir_all(data()).with_context(|| format!("could not remove {}", data().display()))
}

fn data() -> PathBuf {
    process::repo_root().join("target/bench-data")
}

/// The resident memory of a process, in bytes.
pub(super) fn resident_of(pid: u32) -> Result<u64> {
    memory(pid, "VmRSS:")
}

fn memory(pid: u32, field: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("no {path}"))?;
    kilobytes(&status, field).map(|size| size * 1024).with_context(|| format!("no {field} in {path}"))
}

/// A size in `/proc/PID/status`.
fn kilobytes(status: &str, field: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(field))?;
    rest.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_linux_says() {
        let status = "Name:\tx\nVmHWM:\t  20 kB\nVmRSS:\t     1234 kB\n";
        assert_eq!((kilobytes(status, "VmRSS:"), kilobytes(status, "VmHWM:")), (Some(1234), Some(20)));
        assert_eq!(kilobytes(status, "VmSwap:"), None);
    }

    #[test]
    fn our_own_store_needs_no_parts() {
        let programs = Programs { cadastre: PathBuf::new(), before: None, parts: Err("no Go".to_owned()) };
        assert_eq!(programs.missing(Place::Embedded), None);
        assert_eq!(programs.missing(Place::Tended), None);
        assert_eq!(programs.missing(Place::Control), Some("no Go"));
        assert_eq!(programs.missing(Place::TendedOnEtcd), Some("no Go"));
    }
}
