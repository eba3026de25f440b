//! Slices inside of the server: the same controller as `cadastre controller slice`, without a socket between them.

use std::sync::Arc;

use controllers::slice::duty::{self, Report};
use controllers::slice::execute::Options;
use controllers::within;
use server::Server;
use server::access::{MASTERS, User};
use server::front::Trigger;
use tracing::error;

use super::nodes;
use crate::slices::LEASE;

/// Who it is to the server.
const USER: &str = "system:cadastre:slices";

/// Gives nodes their slices until the shutdown begins: at once where no other server can have the store, else while the Lease is
/// held.
pub(super) fn serve(
    server: &Server,
    options: Options,
    is_shared: bool,
    report: Arc<Report>,
    trigger: &Trigger,
) -> impl Future<Output = ()> + Send + use<> {
    let user = Arc::new(User::authenticated(USER, [MASTERS.to_owned()]));
    let client = within::client(server.clone(), user, trigger.shutdown());
    let standing = is_shared.then(|| nodes::standing(LEASE));
    let stop = trigger.shutdown().begun();
    async move {
        if let Err(fault) = duty::serve(client, options, standing, report, stop).await {
            error!(%fault, "nodes get no slices any more");
        }
    }
}
