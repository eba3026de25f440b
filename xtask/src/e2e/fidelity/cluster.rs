//! A server together with those who work on what is written: kube-controller-manager, and our own lifecycle.

use std::path::Path;

use anyhow::{Context, Result};
use testkit::real::{Cadastre, KubeControllerManager, Kubectl};

use crate::e2e::Place;
use crate::e2e::servers::{Flags, Server, Servers};
use crate::parts::Part;

/// The range of the control, so that both give out the same addresses.
const RANGE: &str = "--service-cluster-ip-range=10.96.0.0/16";

/// Servers do not publish themselves if they are on loopback, so they say that they are somewhere else.
const ELSEWHERE: [&str; 2] = ["--advertise-address=192.0.2.1", "--advertise-address=192.0.2.2"];

/// The controllers whose work our lifecycle does, and the one that looks after ranges.
const LIFECYCLE: &[&str] = &[
    "garbage-collector-controller",
    "namespace-controller",
    "root-ca-certificate-publisher-controller",
    "service-cidr-controller",
    "serviceaccount-controller",
];

/// The controllers that nothing in our server stands in for.
const ENDPOINTS: &[&str] = &["endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller"];

/// Who does what the first five controllers do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// The server itself; beside the control, which cannot, the controllers.
    Own,
    /// The controllers, everywhere.
    Controllers,
}

/// A server that runs and is looked after. Dropping it ends it all, the controllers first.
pub(super) struct Cluster {
    _controllers: KubeControllerManager,
    pub(super) server: Server,
    pub(super) kubectl: Kubectl,
}

impl Cluster {
    /// Starts all of it in that folder.
    pub(super) fn start(servers: &Servers, place: Place, care: Care, folder: &Path) -> Result<Self> {
        let (lifecycle, controllers) = match care {
            Care::Own if place != Place::Control => (None, ENDPOINTS.to_vec()),
            Care::Own | Care::Controllers => (Some(Cadastre::BARE), [LIFECYCLE, ENDPOINTS].concat()),
        };
        let ours = ELSEWHERE.map(|elsewhere| [RANGE, elsewhere].into_iter().chain(lifecycle).collect::<Vec<_>>());
        let flags = Flags { ours: &ours[0], replica: &ours[1], control: &ELSEWHERE[..1] };
        let server = servers.start_with(place, folder, flags)?;
        let kubectl = servers.kubectl(&server, folder)?;
        let (binary, folder) = (servers.part(Part::KubeControllerManager)?, folder.join("controllers"));
        // Where there are two servers, controllers work with the one that kubectl does not talk to.
        let kubeconfig = server.kubeconfigs().pop().context("there is no server")?;
        let controllers = KubeControllerManager::start(&binary, &kubeconfig, &server.ca(), &controllers, &folder, &[])?;
        Ok(Self { _controllers: controllers, server, kubectl })
    }
}
