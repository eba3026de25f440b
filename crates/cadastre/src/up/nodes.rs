//! Node IPAM inside of the server: the same controller as `cadastre controller node`, without a socket between them.

use std::sync::Arc;
use std::time::Duration;

use controllers::election::Candidate;
use controllers::node::duty::{self, Report, Standing};
use controllers::node::execute::Options;
use controllers::within;
use server::Server;
use server::access::{MASTERS, User};
use server::front::Trigger;
use tracing::error;

use crate::node_ipam::identity;

/// Who it is to the server.
const USER: &str = "system:cadastre:node-ipam";
/// The Lease that servers on one etcd have between them, and how long it lasts, in milliseconds. It is the one of node-ipam-controller,
/// so that one that is still there does not act beside us.
const LEASE: &str = "node-ipam-controller";
const NAMESPACE: &str = "kube-system";
const LASTS: u64 = 15_000;
const DEADLINE: u64 = 10_000;
const RETRY: Duration = Duration::from_secs(2);
/// How long a write may take: one that is sent at the last moment has ended when another server may act.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_millis(LASTS - DEADLINE);

/// Serves nodes until the shutdown begins: at once where no other server can have the store, else while the Lease is held.
pub(super) fn serve(
    server: &Server,
    options: Options,
    is_shared: bool,
    report: Arc<Report>,
    trigger: &Trigger,
) -> impl Future<Output = ()> + Send + use<> {
    let user = Arc::new(User::authenticated(USER, [MASTERS.to_owned()]));
    let client = within::client(server.clone(), user, trigger.shutdown());
    let standing = is_shared.then(|| standing(LEASE));
    let stop = trigger.shutdown().begun();
    async move {
        if let Err(fault) = duty::serve(client, options, standing, report, stop).await {
            error!(%fault, "nodes get no pod CIDRs any more");
        }
    }
}

/// Who stands for a Lease that servers have between them.
pub(super) fn standing(lease: &str) -> Standing {
    let (namespace, name) = (NAMESPACE.to_owned(), lease.to_owned());
    let candidate = Candidate { identity: identity(), namespace, name, lasts: LASTS, deadline: DEADLINE };
    Standing { candidate, retry: RETRY }
}
