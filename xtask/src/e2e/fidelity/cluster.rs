//! A server together with those who work on what is written: kube-controller-manager, and our own lifecycle.

use std::path::Path;

use anyhow::Result;
use testkit::real::{Cadastre, KubeControllerManager, Kubectl};

use crate::e2e::Place;
use crate::e2e::servers::{Flags, Server, Servers};
use crate::parts::Part;

/// Ours has the range of the control, so that both give out the same addresses. The control does not write Endpoints for
/// itself if they would be on loopback, so it says that it is somewhere else.
const FLAGS: Flags<'_> =
    Flags { ours: &["--service-cluster-ip-range=10.96.0.0/16"], control: &["--advertise-address=192.0.2.1"] };

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
        let bare: Vec<_> = FLAGS.ours.iter().copied().chain([Cadastre::BARE]).collect();
        let (flags, controllers) = match care {
            Care::Own if place != Place::Control => (FLAGS, ENDPOINTS.to_vec()),
            Care::Own | Care::Controllers => (Flags { ours: &bare, ..FLAGS }, [LIFECYCLE, ENDPOINTS].concat()),
        };
        let server = servers.start_with(place, folder, flags)?;
        let kubectl = servers.kubectl(&server, folder)?;
        let (binary, folder) = (servers.part(Part::KubeControllerManager)?, folder.join("controllers"));
        let controllers =
            KubeControllerManager::start(&binary, &server.kubeconfig(), &server.ca(), &controllers, &folder)?;
        Ok(Self { _controllers: controllers, server, kubectl })
    }
}
