//! Launchers for the real parts: etcd, kube-apiserver, kube-controller-manager, kubectl, and the `cadastre` program itself, as processes.
//!
//! Everything listens on loopback, on ports that were free, and keeps its data and its log in a folder that it is
//! given. A part that is dropped is killed and waited for. Starting waits until the part serves, and fails with the end
//! of its log. Where the programs come from is not known here: whoever starts a part has its path (`cargo xtask parts`
//! builds them). No async and no Kubernetes types, so that any suite or benchmark can use it.

mod cadastre;
mod certificates;
mod error;
mod etcd;
mod http;
mod kube_apiserver;
mod kube_controller_manager;
mod kubectl;
mod ports;
mod process;
#[cfg(test)]
mod stand_in;
mod wire;

pub use cadastre::Cadastre;
pub use certificates::ClientFiles;
pub use error::Error;
pub use etcd::{Etcd, EtcdCluster};
pub use kube_apiserver::KubeApiserver;
pub use kube_controller_manager::KubeControllerManager;
pub use kubectl::{Kubectl, Said};
pub use ports::free_ports;
pub use wire::{Passage, Wire};
