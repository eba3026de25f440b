//! Starting what a suite runs against: our program on its own store or on etcd, or kube-apiserver on etcd.
//!
//! Every server starts empty, with its data and logs in `target/e2e/SUITE/SERVER`. Knows no suite.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use testkit::real::{Cadastre, Etcd, KubeApiserver, Kubectl};

use super::client::{Promise, Target};
use super::{Options, Place, Suite};
use crate::https::Endpoint;
use crate::parts::{self, Part, Parts};
use crate::pods::whereabouts;
use crate::{cargo, process};

/// The control is to have every admission plugin that it has by itself; and the beta versions of the two kinds, which it
/// has only if it is asked.
const CONTROL_FLAGS: [&str; 2] = ["--disable-admission-plugins=", "--runtime-config=networking.k8s.io/v1beta1=true"];

/// The programs that are started, and where they leave their data and logs.
pub(super) struct Servers {
    pub(super) logs: PathBuf,
    parts: Option<Parts>,
    cadastre: Option<PathBuf>,
}

/// What servers are started with on top of the usual.
#[derive(Clone, Copy)]
pub(super) struct Flags<'a> {
    /// Flags of ours.
    pub(super) ours: &'a [&'a str],
    /// Flags of the second of ours, where there are two.
    pub(super) replica: &'a [&'a str],
    /// Flags of kube-apiserver.
    pub(super) control: &'a [&'a str],
}

/// A server that runs. Dropping it ends it, and the etcd below it after it.
pub(super) struct Server {
    kind: Kind,
    /// The second of ours, where there are two.
    replica: Option<Cadastre>,
    _etcd: Option<Etcd>,
}

enum Kind {
    Ours(Cadastre),
    Control(KubeApiserver),
}

impl Servers {
    /// Builds and fetches what the plan needs, before any of it runs.
    pub(super) fn prepare(options: &Options, plan: &[(Suite, Vec<Place>)]) -> Result<Self> {
        let needed = parts_for(plan);
        let parts = if needed.is_empty() { None } else { Some(parts::ensure(&needed)?) };
        let ours = plan.iter().any(|(suite, places)| {
            !matches!(suite, Suite::Store | Suite::Cni) && places.iter().any(|place| runs_ours(*suite, *place))
        });
        let cadastre = match &options.cadastre {
            _ if !ours => None,
            Some(given) => Some(fs::canonicalize(given).with_context(|| format!("no {}", given.display()))?),
            None => Some(build("cadastre", "cadastre", options.quick)?),
        };
        Ok(Self { logs: process::repo_root().join("target/e2e"), parts, cadastre })
    }

    /// An empty folder for one suite on one server; what an earlier run left there is gone.
    pub(super) fn folder(&self, suite: &str, place: Place) -> Result<PathBuf> {
        let folder = self.logs.join(suite).join(place.name());
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("could not empty {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
        Ok(folder)
    }

    /// The program of a part that the plan needs.
    pub(super) fn part(&self, part: Part) -> Result<PathBuf> {
        let parts = self.parts().with_context(|| format!("{} was not asked for", part.name()))?;
        Ok(parts.binary(part))
    }

    /// All parts that the plan needs.
    pub(super) fn parts(&self) -> Result<&Parts> {
        self.parts.as_ref().context("no parts were asked for")
    }

    /// Our program.
    pub(super) fn cadastre(&self) -> Result<&Path> {
        self.cadastre.as_deref().context("our own program was not asked for")
    }

    /// Starts a server of that kind in that folder, with an etcd if it needs one; without what controllers do.
    pub(super) fn start(&self, place: Place, folder: &Path) -> Result<Server> {
        self.start_with(place, folder, Flags { ours: &[Cadastre::BARE], replica: &[Cadastre::BARE], control: &[] })
    }

    /// The same, with these flags.
    pub(super) fn start_with(&self, place: Place, folder: &Path, flags: Flags<'_>) -> Result<Server> {
        let etcd = match place {
            Place::Embedded => None,
            Place::Etcd | Place::Replicas | Place::Control => {
                Some(Etcd::start(&self.part(Part::Etcd)?, &folder.join("etcd"))?)
            }
        };
        let shared = etcd.as_ref().map(|etcd| format!("--etcd-servers={}", etcd.url()));
        let ours = |data: &str, flags: &[&str]| -> Result<Cadastre> {
            let flags: Vec<_> = flags.iter().copied().chain(shared.as_deref()).collect();
            Ok(Cadastre::start(self.cadastre()?, &folder.join(data), &flags)?)
        };
        let kind = match &etcd {
            Some(etcd) if place == Place::Control => {
                Kind::Control(self.control_with(etcd.url(), folder, flags.control)?)
            }
            _ => Kind::Ours(ours("data", flags.ours)?),
        };
        let replica = match &kind {
            // Servers that are published together have one port, so the second listens on another address of this machine.
            Kind::Ours(first) if place == Place::Replicas => {
                let listen = first.address().replace("127.0.0.1", "--listen=127.0.0.2");
                let flags: Vec<_> = flags.replica.iter().copied().chain([listen.as_str()]).collect();
                Some(ours("replica", &flags)?)
            }
            Kind::Ours(_) | Kind::Control(_) => None,
        };
        Ok(Server { kind, replica, _etcd: etcd })
    }

    /// Starts kube-apiserver on that etcd.
    pub(super) fn control(&self, etcd: &str, folder: &Path) -> Result<KubeApiserver> {
        self.control_with(etcd, folder, &[])
    }

    /// Starts kube-apiserver on that etcd, with that token of one who may do everything.
    pub(super) fn control_for(&self, token: &str, etcd: &str, folder: &Path) -> Result<KubeApiserver> {
        let (server, kubectl) = (self.part(Part::KubeApiserver)?, self.part(Part::Kubectl)?);
        Ok(KubeApiserver::start_with_token(&server, &kubectl, etcd, folder, &CONTROL_FLAGS, token.to_owned())?)
    }

    fn control_with(&self, etcd: &str, folder: &Path, flags: &[&str]) -> Result<KubeApiserver> {
        let (server, kubectl) = (self.part(Part::KubeApiserver)?, self.part(Part::Kubectl)?);
        let flags: Vec<_> = CONTROL_FLAGS.iter().chain(flags).copied().collect();
        Ok(KubeApiserver::start(&server, &kubectl, etcd, &folder.join("apiserver"), &flags)?)
    }

    /// How to reach that server, which was started in that folder.
    pub(super) fn target(server: &Server, folder: &Path) -> Result<Target> {
        match &server.kind {
            Kind::Ours(ours) => {
                Target::new(Promise::Ours, ours.address(), &folder.join("data/pki/ca.crt"), ours.token()?)
            }
            Kind::Control(control) => {
                let address = control.url().trim_start_matches("https://");
                Target::new(Promise::Control, address, control.ca(), control.token().to_owned())
            }
        }
    }

    /// A kubectl for that server; for the first, where there are two.
    pub(super) fn kubectl(&self, server: &Server, folder: &Path) -> Result<Kubectl> {
        Ok(Kubectl::new(&self.part(Part::Kubectl)?, &server.kubeconfig(), &folder.join("home")))
    }

    /// A kubectl for each of the servers.
    pub(super) fn kubectls(&self, server: &Server, folder: &Path) -> Result<Vec<Kubectl>> {
        let binary = self.part(Part::Kubectl)?;
        let kubeconfigs = server.kubeconfigs().into_iter().enumerate();
        Ok(kubeconfigs
            .map(|(number, kubeconfig)| Kubectl::new(&binary, &kubeconfig, &folder.join(format!("home-{number}"))))
            .collect())
    }
}

impl Server {
    /// The kubeconfigs of one who may do everything, for each of the servers.
    pub(super) fn kubeconfigs(&self) -> Vec<PathBuf> {
        let replica = self.replica.as_ref().map(Cadastre::kubeconfig);
        std::iter::once(self.kubeconfig()).chain(replica).collect()
    }

    /// The kubeconfig of one who may do everything.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        match &self.kind {
            Kind::Ours(cadastre) => cadastre.kubeconfig(),
            Kind::Control(control) => control.kubeconfig().to_path_buf(),
        }
    }

    /// The certificates to trust, as PEM.
    pub(super) fn ca(&self) -> PathBuf {
        match &self.kind {
            Kind::Ours(cadastre) => cadastre.ca(),
            Kind::Control(control) => control.ca().to_path_buf(),
        }
    }
}

impl Server {
    /// Where it is reached, and as whom.
    pub(super) fn endpoint(&self) -> Result<Endpoint> {
        Ok(match &self.kind {
            Kind::Ours(cadastre) => {
                Endpoint { address: cadastre.address().to_owned(), authority: cadastre.ca(), token: cadastre.token()? }
            }
            Kind::Control(control) => Endpoint {
                address: control.url().trim_start_matches("https://").to_owned(),
                authority: control.ca().to_path_buf(),
                token: control.token().to_owned(),
            },
        })
    }
}

/// All that decides what the control is, for whoever keeps what it said.
pub(super) fn control_inputs() -> String {
    format!(
        "kube-apiserver {} etcd {} kubectl {}\n{}\n",
        Part::KubeApiserver.version(),
        Part::Etcd.version(),
        Part::Kubectl.version(),
        CONTROL_FLAGS.join("\n")
    )
}

/// Whether our program runs in that place: everywhere but beside the control, and also there if it is a controller.
fn runs_ours(suite: Suite, place: Place) -> bool {
    place != Place::Control || suite == Suite::Nodes
}

/// The parts that the suites need there.
fn parts_for(plan: &[(Suite, Vec<Place>)]) -> Vec<Part> {
    const CONTROL: [Part; 3] = [Part::Etcd, Part::KubeApiserver, Part::Kubectl];
    let mut parts = Vec::new();
    let mut need = |needed: &[Part]| {
        for part in needed {
            if !parts.contains(part) {
                parts.push(*part);
            }
        }
    };
    for (suite, places) in plan.iter().filter(|(_, places)| !places.is_empty()) {
        match suite {
            // The code of the control is in the judge.
            Suite::Patch | Suite::Protobuf | Suite::Apply => continue,
            // Ours is held against the control, wherever it runs.
            Suite::Server | Suite::Managers | Suite::Objects | Suite::Openapi | Suite::Wire => need(&CONTROL),
            Suite::Services => {
                need(&CONTROL);
                need(&[Part::KubeControllerManager]);
            }
            Suite::Upstream => need(&[Part::Kubectl, Part::KubeControllerManager, Part::EndToEndTests]),
            Suite::Kcm | Suite::Nodes => need(&[Part::Kubectl, Part::KubeControllerManager]),
            Suite::Cni => {
                // The control is its own judge and has no networks; ours needs no server.
                let ours = places.iter().any(|place| *place != Place::Control);
                need(if ours { &[Part::Cnitool, Part::Bridge] } else { &[] });
                if places.contains(&Place::Control) {
                    need(&whereabouts::PARTS);
                    need(&[Part::NodeSliceController]);
                }
            }
            _ => {}
        }
        if places.contains(&Place::Etcd) || places.contains(&Place::Replicas) {
            need(&[Part::Etcd]);
        }
        if places.contains(&Place::Control) {
            need(&CONTROL);
        }
    }
    parts
}

/// Builds one of our programs: as it is released, or as quickly as it can be had.
pub(super) fn build(package: &str, program: &str, quick: bool) -> Result<PathBuf> {
    let mut command = cargo::command();
    command.args(["build", "--package", package, "--bin", program]);
    if !quick {
        command.arg("--release");
    }
    eprintln!("building {program}{}", if quick { "" } else { " in release" });
    cargo::built(&mut command, program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_that_are_used_are_built() {
        assert!(
            parts_for(&[(Suite::Crash, vec![Place::Embedded]), (Suite::DiskFull, vec![Place::Embedded])]).is_empty()
        );
        assert_eq!(parts_for(&[(Suite::Store, vec![Place::Etcd])]), [Part::Etcd]);
        assert_eq!(parts_for(&[(Suite::Server, vec![Place::Embedded])]).len(), 3, "ours needs a control beside it");
        assert!(parts_for(&[(Suite::Server, vec![])]).is_empty());
        let kcm = [Part::Kubectl, Part::KubeControllerManager];
        assert_eq!(parts_for(&[(Suite::Kcm, vec![Place::Embedded])]), kcm);
        assert_eq!(parts_for(&[(Suite::Kcm, vec![Place::Replicas])]), [kcm[0], kcm[1], Part::Etcd]);
        assert_eq!(parts_for(&[(Suite::Kcm, vec![Place::Control])]).len(), 4);
        assert!(parts_for(&[(Suite::Patch, vec![Place::Control])]).is_empty(), "a judge needs no server");
        assert_eq!(parts_for(&[(Suite::Cni, vec![Place::Embedded])]), [Part::Cnitool, Part::Bridge]);
        let control = parts_for(&[(Suite::Cni, vec![Place::Control])]);
        assert!(control.contains(&Part::Whereabouts) && control.contains(&Part::NodeSliceController));
    }
}
