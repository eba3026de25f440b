//! Launchers for the real parts: etcd, kube-apiserver, kube-controller-manager, kubectl, CNI plugins, whereabouts' controller, and the
//! `cadastre` program itself, server, controller and agent, as processes.
//!
//! Everything listens on loopback, on ports that were free, and keeps its data and its log in a folder that it is
//! given. A part that is dropped is killed and waited for. Starting waits until the part serves, and fails with the end
//! of its log. Where the programs come from is not known here: whoever starts a part has its path (`cargo xtask parts`
//! builds them). No async and no Kubernetes types, so that any suite or benchmark can use it.

mod agent;
mod cadastre;
mod certificates;
mod controller;
mod error;
mod etcd;
mod http;
mod kube_apiserver;
mod kube_controller_manager;
mod kubectl;
mod node_slice_controller;
mod plugin;
mod ports;
mod process;
mod said;
#[cfg(test)]
mod stand_in;
mod wire;

pub use agent::{Agent, AgentOptions};
pub use cadastre::Cadastre;
pub use certificates::ClientFiles;
pub use controller::Controller;
pub use error::Error;
pub use etcd::{Etcd, EtcdCluster};
pub use kube_apiserver::KubeApiserver;
pub use kube_controller_manager::KubeControllerManager;
pub use kubectl::Kubectl;
pub use node_slice_controller::NodeSliceController;
pub use plugin::Plugin;
pub use ports::free_ports;
pub use said::Said;
pub use wire::{Passage, Wire};
