//! Who of several controllers acts: the flags about the Lease.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use controllers::election::Candidate;
use controllers::node::duty::Standing;

use crate::node_ipam::identity;
use crate::time::time;

/// Where the Lease is if nothing says it.
const NAMESPACE: &str = "kube-system";
/// How long the API server may take for a write, if nobody could take over meanwhile.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How much longer than the Lease is looked at it must at least be held, as other clients of Leases have it.
const JITTER: f64 = 1.2;

#[derive(Args)]
#[command(next_help_heading = "Leader election")]
pub(super) struct ElectionOptions {
    /// Whether only the holder of the Lease acts; with false, be sure to run one only
    #[arg(
        long = "leader-elect",
        alias = "enable-leader-election",
        env = "IPAM_ENABLE_LEADER_ELECTION",
        value_name = "BOOL",
        value_parser = truth,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value = "true",
        default_missing_value = "true"
    )]
    is_on: bool,
    /// Who it is, unlike any other [default: `$POD_NAME`, or the name of the machine and something random]
    #[arg(long = "leader-elect-id", value_name = "NAME", env = "IPAM_LEADER_ELECT_ID")]
    id: Option<String>,
    /// The namespace of the Lease [default: `$POD_NAMESPACE`, that of the Pod, or kube-system]
    #[arg(
        long = "leader-elect-namespace",
        value_name = "NAME",
        env = "IPAM_LEADER_ELECT_NAMESPACE",
        alias = "leader-elect-resource-namespace"
    )]
    namespace: Option<String>,
    /// The name of the Lease [default: one for each controller]
    #[arg(long = "leader-elect-resource-name", value_name = "NAME", env = "IPAM_RESOURCE_NAME")]
    name: Option<String>,
    /// Where the leader is written; there is only leases
    #[arg(
        long = "leader-elect-resource-lock",
        value_name = "KIND",
        env = "IPAM_RESOURCE_LOCK_NAME",
        default_value = "leases",
        hide = true
    )]
    lock: String,
    /// How long others wait before they take over from one that says nothing
    #[arg(long = "leader-elect-lease-duration", value_name = "TIME", env = "IPAM_LEASE_DURATION", default_value = "15s", value_parser = time)]
    lasts: Duration,
    /// How long it acts without being able to renew the Lease; less than the Lease lasts
    #[arg(long = "leader-elect-renew-deadline", value_name = "TIME", env = "IPAM_RENEW_DEADLINE", default_value = "10s", value_parser = time)]
    deadline: Duration,
    /// How often the Lease is looked at
    #[arg(long = "leader-elect-retry-period", value_name = "TIME", env = "IPAM_LEADER_ELECT_RETRY_PERIOD", default_value = "2s", value_parser = time)]
    retry: Duration,
}

impl ElectionOptions {
    /// Who stands for the Lease; nobody if there is none.
    pub(super) fn standing(&self, lease: &str, namespace: Option<&str>) -> Result<Option<Standing>> {
        if !self.is_on {
            return Ok(None);
        }
        let Self { lasts, deadline, retry, .. } = *self;
        if self.lock != "leases" {
            bail!("--leader-elect-resource-lock {}: there is only leases", self.lock);
        }
        if deadline >= lasts {
            bail!("--leader-elect-renew-deadline must be less than --leader-elect-lease-duration");
        }
        if retry.mul_f64(JITTER) >= deadline {
            bail!("--leader-elect-retry-period must be well below --leader-elect-renew-deadline");
        }
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let candidate = Candidate {
            identity: self.id.clone().or_else(|| variable("POD_NAME")).unwrap_or_else(identity),
            namespace: self
                .namespace
                .clone()
                .or_else(|| variable("POD_NAMESPACE"))
                .or_else(|| namespace.map(str::to_owned))
                .unwrap_or_else(|| NAMESPACE.to_owned()),
            name: self.name.clone().unwrap_or_else(|| lease.to_owned()),
            lasts: milliseconds(lasts),
            deadline: milliseconds(deadline),
        };
        Ok(Some(Standing { candidate, retry }))
    }
}

/// How long the server may take for a write: one that is sent at the last moment has ended when others may act.
pub(super) fn write_timeout(standing: Option<&Standing>) -> Duration {
    let left = |Standing { candidate, .. }: &Standing| candidate.lasts.saturating_sub(candidate.deadline);
    standing.map_or(WRITE_TIMEOUT, |standing| Duration::from_millis(left(standing)).min(WRITE_TIMEOUT))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A truth as Go writes it.
fn truth(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}
