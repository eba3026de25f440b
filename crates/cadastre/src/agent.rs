//! `cadastre agent`: slices for one node, and what its pods hold.

use std::path::PathBuf;
use std::sync::Arc;

use agent::execute::{self, Report};
use agent::relay;
use anyhow::{Context, Result, bail};
use clap::Args;
use cni::node::{BOOT_VARIABLE, boot};
use cni::place::{STATE_DIR, STATE_DIR_VARIABLE};
use tokio::runtime::Builder;
use tracing::info;

use crate::controller::cluster::ClusterOptions;
use crate::controller::web;
use crate::stop::Stop;

/// Serve one node: bring it its slices of secondary networks, and show who holds which address.
///
/// The CNI plugin (cadastre-cni) gives pods addresses out of the slices that the agent wrote down, and needs neither the agent nor the
/// API server for that. The agent shows what was given in `IPPool`s within a tenth of a second, takes in what others write there, takes
/// back what was lost (a namespace that is gone, a reboot, a pod that is gone), asks for a further slice when one is nearly
/// full, and passes requests of the plugin on for networks without slices. It may be away for hours: pods start and stop meanwhile.
///
/// SIGTERM and ctrl-c end it cleanly. /healthz, /readyz and /metrics are served in plain HTTP.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The name of the node, as the API knows it
    #[arg(long, value_name = "NAME", env = "NODENAME")]
    node_name: String,
    #[command(flatten)]
    cluster: ClusterOptions,
    /// Where the files of the networks are; the plugin has to look in the same place
    #[arg(long, value_name = "DIR", env = STATE_DIR_VARIABLE, default_value = STATE_DIR)]
    state_dir: PathBuf,
    /// The namespace of `NodeSlicePool`s and `IPPool`s, the one that whereabouts' kubeconfig names
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    namespace: String,
    /// Where /healthz, /readyz and /metrics are; port 0 is any free one, 0 alone is nowhere
    #[arg(long, value_name = "ADDR:PORT", default_value = ":8083")]
    webserver_bind_address: String,
}

const EXAMPLES: &str = "\
Examples:
  Serve this node, from a DaemonSet with the state directory and /var/run/netns of the host:
    cadastre agent --node-name $NODENAME
  Try several nodes on one machine:
    cadastre agent --node-name a --state-dir /tmp/a --kubeconfig ~/.kube/config --webserver-bind-address 0
    cadastre agent --node-name b --state-dir /tmp/b --kubeconfig ~/.kube/config --webserver-bind-address 0
  See who holds which address of a node:
    kubectl -n kube-system get ippools -l ipam.cadastre.dev/node=NODE -o yaml";

pub(crate) fn run(options: &Options) -> Result<()> {
    // One thread is enough: decisions are one task's, and what waits for the disk has threads of its own.
    Builder::new_current_thread().enable_all().build().context("cannot start")?.block_on(serve(options))
}

async fn serve(options: &Options) -> Result<()> {
    let text = &options.webserver_bind_address;
    let address = web::address(text).map_err(|why| anyhow::anyhow!("--webserver-bind-address {text}: {why}"))?;
    if options.node_name.is_empty() {
        bail!("--node-name: it is empty; give the name of the Node");
    }
    let cannot = || format!("cannot make {} (--state-dir)", options.state_dir.display());
    std::fs::create_dir_all(&options.state_dir).with_context(cannot)?;
    let cluster = options.cluster.connect().await?;
    let mut stop = Stop::new().context("cannot take signals")?;
    let report = Arc::<Report>::default();
    let socket = relay::listen(&options.state_dir).await?;
    tokio::spawn(relay::serve(socket, cluster.client.clone(), report.meters.clone()));
    if let Some(address) = address {
        let listener = web::listen(address)?;
        info!(address = %listener.local_addr().context("cannot listen")?, "shows health and metrics");
        tokio::spawn(web::show(listener, Arc::clone(&report)));
    }
    let running = execute::Options {
        node: options.node_name.clone(),
        namespace: options.namespace.clone(),
        state_dir: options.state_dir.clone(),
        boot: boot(&std::env::var(BOOT_VARIABLE).unwrap_or_default()),
    };
    let stopped = async {
        info!(signal = stop.next().await, "shutting down: what is under way comes to its end");
    };
    execute::run(cluster.client, running, report, stopped).await;
    Ok(())
}
