//! The suites of `fidelity`: what others wrote for kube-apiserver, unchanged, against ours and against the control.
//!
//! A suite here is one module and one line in [`SUITES`]. It starts a [`Cluster`], and what it asks of ours the control
//! must do too.

mod cluster;
pub(super) mod kcm;
pub(super) mod upstream;

use super::Suite;

/// What `cargo xtask e2e fidelity` stands for.
pub(super) const SUITES: [Suite; 6] =
    [Suite::Server, Suite::Upstream, Suite::Kcm, Suite::Clients, Suite::KubeRs, Suite::Replicas];
