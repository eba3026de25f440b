//! The flags of node IPAM that `up` and `controller node` share.

use std::time::Duration;

use api::selector::Terms;
use clap::{Args, ValueEnum};
use controllers::node::flags::{FlagError, Flags};
use controllers::node::plan::Settings;

use crate::time::time;

#[derive(Args)]
pub(crate) struct NodeIpam {
    /// Make a `ClusterCIDR` of this range, or of one of each family, the primary first, for nodes that no other serves. It is
    /// called created-from-flags-HASH; when the flags change, another takes its place, and nodes keep what they have
    #[arg(long, value_name = "CIDR[,CIDR]", default_value = "", hide_default_value = true, help_heading = HEADING)]
    cluster_cidr: String,
    /// How large the block of a node from --cluster-cidr is, in a cluster of one family
    #[arg(long, value_name = "LENGTH", help_heading = HEADING)]
    node_cidr_mask_size: Option<u8>,
    /// The same for IPv4 [default: 24]
    #[arg(long, value_name = "LENGTH", help_heading = HEADING)]
    node_cidr_mask_size_ipv4: Option<u8>,
    /// The same for IPv6 [default: 64]
    #[arg(long, value_name = "LENGTH", help_heading = HEADING)]
    node_cidr_mask_size_ipv6: Option<u8>,
    /// How the terms of a `ClusterCIDR`'s `nodeSelector` belong together. A warning at the start lists the `ClusterCIDR`s that would be
    /// for other nodes the other way
    #[arg(long, value_name = "HOW", default_value = "any", help_heading = HEADING)]
    node_selector_terms: How,
    /// How long the block of a node that is gone is given to others only if there is no other left, and back to a node that comes
    /// back under the same name
    #[arg(long, value_name = "TIME", default_value = "1m0s", value_parser = time, help_heading = HEADING)]
    pod_cidr_rest: Duration,
}

const HEADING: &str = "Pod CIDRs of nodes";

/// How terms belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum How {
    /// A node that one term chooses is chosen, as Kubernetes says it
    Any,
    /// A node is chosen if all terms choose it, as node-ipam-controller reads it
    All,
}

impl NodeIpam {
    /// How the controller is meant to work.
    pub(crate) fn settings(&self) -> Settings {
        let terms = match self.node_selector_terms {
            How::Any => Terms::Any,
            How::All => Terms::All,
        };
        Settings { terms, rest: u64::try_from(self.pod_cidr_rest.as_millis()).unwrap_or(u64::MAX) }
    }

    /// What the flags say about ranges, if that can be.
    pub(crate) fn flags(&self, service_ranges: String) -> Result<Flags, FlagError> {
        let flags = Flags {
            cluster_cidr: self.cluster_cidr.clone(),
            mask_size: self.node_cidr_mask_size,
            mask_size_ipv4: self.node_cidr_mask_size_ipv4,
            mask_size_ipv6: self.node_cidr_mask_size_ipv6,
            service_ranges,
        };
        flags.range()?;
        flags.services()?;
        Ok(flags)
    }
}

/// Who this process is, unlike any other: two on one machine must not take each other for themselves.
pub(crate) fn identity() -> String {
    let machine = rustix::system::uname();
    format!("{}_{}", machine.nodename().to_string_lossy(), uuid::Uuid::new_v4())
}
