//! `cadastre controller node`: node IPAM against any API server.

use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use controllers::node::duty::{self, Report};
use controllers::node::execute;
use tokio::runtime::Builder;
use tracing::{info, warn};

use super::cluster::ClusterOptions;
use super::election::{self, ElectionOptions};
use super::web;
use crate::node_ipam::NodeIpam;
use crate::stop::Stop;

/// The Lease, if nothing else is said: the one of node-ipam-controller, so that one that is still there does not act beside us.
const LEASE: &str = "node-ipam-controller";

/// Give every node its pod CIDRs, from the `ClusterCIDR`s that are for it.
///
/// Works with any Kubernetes API server that has the `ClusterCIDR` resource (`cadastre manifests crds`), in place of
/// kube-controller-manager's node IPAM (give it --allocate-node-cidrs=false) and of node-ipam-controller, whose flags and variables
/// it takes. Nodes keep what they have, whoever gave it.
///
/// Of several the one that holds the Lease acts. SIGTERM and ctrl-c end it cleanly: writes come to their end and the Lease is given
/// up, so that the next one begins at once. /healthz, /readyz and /metrics are served in plain HTTP.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    cluster: ClusterOptions,
    /// Where /healthz, /readyz and /metrics are; port 0 is any free one, 0 alone is nowhere
    #[arg(long, value_name = "ADDR:PORT", env = "IPAM_WEBSERVER_BIND_ADDR", default_value = ":8081")]
    webserver_bind_address: String,
    /// What --webserver-bind-address was called before
    #[arg(long, value_name = "ADDR:PORT", env = "IPAM_HEALTH_PROBE_ADDR", hide = true)]
    health_probe_address: Option<String>,

    #[command(flatten)]
    node_ipam: NodeIpam,
    /// Ranges of Services that no node gets, besides those of the `ServiceCIDR`s
    #[arg(
        long,
        value_name = "CIDR[,CIDR]",
        default_value = "",
        hide_default_value = true,
        help_heading = "Pod CIDRs of nodes"
    )]
    service_cluster_ip_range: String,

    #[command(flatten)]
    election: ElectionOptions,
}

const EXAMPLES: &str = "\
Every IPAM_ variable of node-ipam-controller stands for its flag; a flag on the command line comes first.

Examples:
  Try it from outside of a cluster, alone:
    cadastre manifests crds --for node | kubectl apply --server-side -f -
    cadastre controller node --kubeconfig ~/.kube/config --leader-elect=false
  Keep the range that kube-controller-manager had, with the same flags:
    cadastre controller node --kubeconfig kubeconfig --cluster-cidr 10.244.0.0/16 --node-cidr-mask-size 24 \\
      --service-cluster-ip-range 10.96.0.0/12
  See how far it is:
    curl http://localhost:8081/readyz";

pub(crate) fn run(options: &Options) -> Result<()> {
    // One thread is enough: decisions are one task's, and writes wait for the server. Each thread more keeps memory of its own.
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(serve(options))
}

async fn serve(options: &Options) -> Result<()> {
    let flags = options.node_ipam.flags(options.service_cluster_ip_range.clone())?;
    let address = options.bind_address()?;
    let cluster = options.cluster.connect().await?;
    let standing = options.election.standing(LEASE, cluster.namespace.as_deref())?;
    let write_timeout = election::write_timeout(standing.as_ref());
    let mut stop = Stop::new().context("cannot take signals")?;
    let report = Arc::<Report>::default();
    if let Some(address) = address {
        let listener = web::listen(address)?;
        info!(address = %listener.local_addr().context("cannot listen")?, "shows health and metrics");
        tokio::spawn(web::show(listener, Arc::clone(&report)));
    }
    let settings = options.node_ipam.settings();
    let running = execute::Options { settings, flags, write_timeout };
    let stopped = async {
        let signal = stop.next().await;
        info!(signal, "shutting down: writes come to their end");
    };
    duty::serve(cluster.client, running, standing, report, stopped).await?;
    Ok(())
}

impl Options {
    fn bind_address(&self) -> Result<Option<std::net::SocketAddr>> {
        let text = match self.health_probe_address.as_deref() {
            Some(old) if !old.is_empty() && self.webserver_bind_address == ":8081" => {
                warn!("--health-probe-address is now called --webserver-bind-address");
                old
            }
            _ => &self.webserver_bind_address,
        };
        web::address(text).map_err(|why| anyhow::anyhow!("--webserver-bind-address {text}: {why}"))
    }
}
