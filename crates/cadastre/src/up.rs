//! `cadastre up`: everything that a server needs, made, put together and run until it is told to stop.
//!
//! What can be wrong with the command line, and the address, is looked at before the first file is made, so that a start
//! that fails leaves nothing behind.

mod door;
mod nodes;
mod options;
mod ranges;
mod slices;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow};
use controllers::{node, slice};
use prometheus_client::collector::Collector;
use server::access::credentials::{Credentials, Identities};
use server::front::{Counters, Front, Shutdown, Trigger, listen, tls};
use server::{Config, Server};
use tokio::runtime::Runtime;
use tokio::time::sleep;
use tracing::{error, info, warn};

use door::Door;
pub(crate) use options::{DATA_DIR, Options};

use crate::stop::Stop;

/// How often certificates are looked at. Those of our own are renewed months before their end; those that were given to us
/// may be replaced by whoever looks after them at any time.
const CERTIFICATE_CHECK: Duration = Duration::from_hours(1);

pub(crate) fn run(options: Options) -> Result<()> {
    raise_descriptor_limit();
    let runtime = Runtime::new().context("cannot start")?;
    let outcome = runtime.block_on(serve(options));
    // What still runs now is work for clients that are gone.
    runtime.shutdown_background();
    outcome
}

async fn serve(options: Options) -> Result<()> {
    options.agree_on_family()?;
    let (node_ipam, slicing) = (options.node_ipam()?, options.slices());
    let listener = listen(options.listen).map_err(|error| cannot_listen(options.listen, &error))?;
    let address = listener.local_addr().context("cannot listen")?;
    let credentials = options.credentials(address);
    credentials.look_at_given()?;

    let (store, _lock) = options.open_store().await?;
    door::clear_scratch(&options.data_dir)?;
    let identities = credentials.identities(SystemTime::now())?;
    let issuer = Arc::new(credentials.issuer()?);
    let mut authenticator = credentials.authenticator()?;
    authenticator.trust(Arc::clone(&issuer), server::lookup(store.clone()));
    let authenticator = Arc::new(authenticator);
    let presented = tls::Presented::new(&identities.serving)?;
    let counters = Arc::new(Counters::default());
    let (of_nodes, of_slices) = (Arc::<node::duty::Report>::default(), Arc::<slice::duty::Report>::default());
    let mut collectors: Vec<Arc<dyn Collector>> = Vec::new();
    if node_ipam.is_some() {
        collectors.push(Arc::clone(&of_nodes) as Arc<dyn Collector>);
    }
    if slicing.is_some() {
        collectors.push(Arc::clone(&of_slices) as Arc<dyn Collector>);
    }
    let config = Config {
        address: address.to_string(),
        most_request_bytes: options.max_request_bytes,
        request_timeout: options.request_timeout,
        counters: Arc::clone(&counters),
        event_ttl: options.event_ttl,
        authority: identities.authority.clone(),
        authenticator: Arc::clone(&authenticator),
        issuer: Some(issuer),
        tended: options.tends(),
        service_ranges: options.service_cluster_ip_range.ranges(),
        node_ports: options.service_node_port_range.bounds(),
        collectors,
    };
    let server = Server::new(store.clone(), config);
    server.prepare().await.map_err(|failure| anyhow!("the first objects cannot be written: {failure}"))?;

    let trigger = Trigger::default();
    let tend = server.tend(trigger.shutdown());
    let published = options.published(address);
    let publish = published.map(|published| server.publish(published, options.is_shared(), trigger.shutdown()));
    let controlling = node_ipam.map(|running| nodes::serve(&server, running, options.is_shared(), of_nodes, &trigger));
    let slicing = slicing.map(|running| slices::serve(&server, running, options.is_shared(), of_slices, &trigger));
    let front = Front {
        listener,
        tls: tls::config(Arc::clone(&presented), &identities.client_authorities)?,
        authenticator,
        limits: options.limits(),
        counters,
        service: Door::new(server, store.clone(), &options.data_dir),
    };
    let mut stop = Stop::new().context("cannot take signals")?;
    let refresh = tokio::spawn(keep_certificate(credentials.clone(), identities, presented, trigger.shutdown()));
    let tending = tokio::spawn(tend);
    let publishing = publish.map(tokio::spawn);
    let controlling = controlling.map(tokio::spawn);
    let slicing = slicing.map(tokio::spawn);
    let running = tokio::spawn(front.run(trigger.clone()));
    announce(address, &credentials.kubeconfig());

    info!(signal = stop.next().await, "shutting down: requests come to their end, watches are ended");
    trigger.begin();
    tokio::select! {
        drained = running => info!(cut = drained.context("the front failed")?.cut, "all connections have ended"),
        again = stop.next() => {
            warn!(signal = again, "told to stop twice: leaving at once");
            std::process::exit(1);
        }
    }
    refresh.abort();
    for task in std::iter::once(tending).chain(publishing).chain(controlling).chain(slicing) {
        task.await.context("the lifecycle failed")?;
    }
    store.close().await;
    Ok(())
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> anyhow::Error {
    let why = match error.kind() {
        ErrorKind::AddrInUse => {
            "something listens there already, perhaps another cadastre; stop it, or choose another \
                                 port with --listen (port 0 is any free one)"
                .to_owned()
        }
        ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        ErrorKind::PermissionDenied => "ports below 1024 are for root".to_owned(),
        _ => error.to_string(),
    };
    anyhow!("cannot listen on {address}: {why}")
}

/// The one line that scripts wait for, and what to do next. The log is elsewhere, so this stays readable.
fn announce(address: SocketAddr, kubeconfig: &Path) {
    let kubeconfig = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_owned());
    let kubeconfig = quoted(&kubeconfig.display().to_string());
    println!("cadastre is ready on https://{address}");
    println!("kubectl --kubeconfig {kubeconfig} get namespaces");
    println!("kubectl --kubeconfig {kubeconfig} api-resources");
}

/// The text as a shell takes it for one word.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@,=".contains(&byte);
    if text.bytes().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Renews what is presented while the server runs. What goes wrong is logged and tried again: the old one still serves.
async fn keep_certificate(
    credentials: Credentials,
    mut current: Identities,
    presented: Arc<tls::Presented>,
    shutdown: Shutdown,
) {
    loop {
        tokio::select! {
            () = sleep(CERTIFICATE_CHECK) => {}
            () = shutdown.begun() => return,
        }
        let wanted = credentials.clone();
        let looked = tokio::task::spawn_blocking(move || wanted.identities(SystemTime::now())).await;
        let renewed = match looked {
            Ok(Ok(identities)) if identities.serving == current.serving => continue,
            Ok(Ok(identities)) => {
                presented.replace(&identities.serving).map(|()| identities).map_err(anyhow::Error::from)
            }
            Ok(Err(error)) => Err(error.into()),
            Err(error) => Err(error.into()),
        };
        match renewed {
            Ok(identities) => {
                info!("the serving certificate was renewed");
                current = identities;
            }
            Err(error) => error!(error = format!("{error:#}"), "the serving certificate could not be renewed"),
        }
    }
}

/// Every connection is a descriptor, and the usual limit of 1024 is for programs that use `select`.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        warn!(%error, "the limit on open files stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        assert_eq!(quoted("/var/lib/cadastre-1.0/kubeconfig"), "/var/lib/cadastre-1.0/kubeconfig");
        assert_eq!(quoted("/my data/it's"), r"'/my data/it'\''s'");
    }
}
