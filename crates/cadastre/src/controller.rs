//! `cadastre controller`: one controller against any API server. Each is a file.

pub(crate) mod cluster;
mod election;
mod node;
mod slice;
pub(crate) mod web;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Run a controller against any Kubernetes API server.
///
/// `cadastre up` runs them inside; this is for clusters whose API server is another one.
#[derive(Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    controller: Controller,
}

const EXAMPLES: &str = "\
Examples:
  Give nodes their pod CIDRs, from the ClusterCIDRs that are there:
    cadastre manifests crds --for node | kubectl apply --server-side -f -
    cadastre controller node --kubeconfig ~/.kube/config
  Give nodes their slices of secondary networks:
    cadastre controller slice --kubeconfig ~/.kube/config";

/// Each controller is described where its options are.
#[derive(Subcommand)]
enum Controller {
    Node(Box<node::Options>),
    Slice(Box<slice::Options>),
}

pub(crate) fn run(options: Options) -> Result<()> {
    match options.controller {
        Controller::Node(options) => node::run(&options),
        Controller::Slice(options) => slice::run(&options),
    }
}
