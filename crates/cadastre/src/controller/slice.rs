//! `cadastre controller slice`: slices of secondary networks against any API server.

use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use controllers::slice::duty::{self, Report};
use controllers::slice::execute;
use tokio::runtime::Builder;
use tracing::info;

use super::cluster::ClusterOptions;
use super::election::{self, ElectionOptions};
use super::web;
use crate::slices::{LEASE, Slices};
use crate::stop::Stop;

/// Give every node its slices of the secondary networks that are cut into slices.
///
/// A network is what `NetworkAttachmentDefinition`s of any namespace say whose ipam is `cadastre` or `whereabouts` and has
/// `node_slice_size` or `fast_ipam`. Which node has which slices is in one `NodeSlicePool` for each. Works with any Kubernetes API
/// server that has these resources (`cadastre manifests crds`), in place of whereabouts' node-slice-controller, whose pools are taken
/// over as they are.
///
/// Of several the one that holds the Lease acts. SIGTERM and ctrl-c end it cleanly: writes come to their end and the Lease is given
/// up, so that the next one begins at once. /healthz, /readyz and /metrics are served in plain HTTP.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    cluster: ClusterOptions,
    /// Where /healthz, /readyz and /metrics are; port 0 is any free one, 0 alone is nowhere
    #[arg(long, value_name = "ADDR:PORT", default_value = ":8082")]
    webserver_bind_address: String,
    #[command(flatten)]
    slices: Slices,
    #[command(flatten)]
    election: ElectionOptions,
}

const EXAMPLES: &str = "\
Examples:
  Try it from outside of a cluster, alone:
    cadastre manifests crds --for slice | kubectl apply --server-side --force-conflicts -f -
    cadastre controller slice --kubeconfig ~/.kube/config --leader-elect=false
  See which node has which slices of a network:
    kubectl -n kube-system get nodeslicepool NETWORK -o yaml
  See how many slices are left:
    curl http://localhost:8082/metrics";

pub(crate) fn run(options: &Options) -> Result<()> {
    // One thread is enough: decisions are one task's, and writes wait for the server.
    Builder::new_current_thread().enable_all().build().context("cannot start")?.block_on(serve(options))
}

async fn serve(options: &Options) -> Result<()> {
    let text = &options.webserver_bind_address;
    let address = web::address(text).map_err(|why| anyhow::anyhow!("--webserver-bind-address {text}: {why}"))?;
    let cluster = options.cluster.connect().await?;
    let standing = options.election.standing(LEASE, cluster.namespace.as_deref())?;
    let write_timeout = election::write_timeout(standing.as_ref());
    let running = execute::Options { settings: options.slices.settings(), write_timeout };
    let mut stop = Stop::new().context("cannot take signals")?;
    let report = Arc::<Report>::default();
    if let Some(address) = address {
        let listener = web::listen(address)?;
        info!(address = %listener.local_addr().context("cannot listen")?, "shows health and metrics");
        tokio::spawn(web::show(listener, Arc::clone(&report)));
    }
    let stopped = async {
        info!(signal = stop.next().await, "shutting down: writes come to their end");
    };
    duty::serve(cluster.client, running, standing, report, stopped).await?;
    Ok(())
}
