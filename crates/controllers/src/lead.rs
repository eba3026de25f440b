//! Acts while a Lease is held: renews it, and stops acting in time when it cannot be renewed.

use std::time::{Duration, Instant};

use api::Object;
use http::{Method, Request};
use kube::Client;
use serde_json::Value;
use space::Moment;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info};

use crate::election::{Election, Step};

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The work came to its end by itself.
    Done,
    /// The Lease could not be renewed in time.
    Lost,
    /// It was told to.
    Told,
}

/// Waits for the Lease, then does the work as long as it is held. The Lease is looked at every `retry`.
pub async fn lead<W: Future<Output = ()> + Send + 'static>(
    client: &Client,
    mut election: Election,
    retry: Duration,
    stop: impl Future<Output = ()>,
    work: impl FnOnce() -> W,
) -> Ended {
    let started = Instant::now();
    let now = || Moment(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX));
    let mut work = Some(work);
    let mut working = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        // A connection that hangs must not keep us from seeing that time is up.
        if timeout(retry, turn(client, &mut election, now)).await.is_err() {
            debug!("the Lease could not be looked at in time");
        }
        if election.leads(now()) {
            if let Some(work) = work.take() {
                info!(identity = election.candidate().identity, "leads");
                working.spawn(work());
            }
        } else if work.is_none() {
            return Ended::Lost;
        }
        tokio::select! {
            () = sleep(retry) => {}
            _ = working.join_next(), if work.is_none() => return Ended::Done,
            () = &mut stop => {
                working.shutdown().await;
                release(client, &mut election).await;
                return Ended::Told;
            }
        }
    }
}

/// Looks at the Lease and does what has to be done about it.
async fn turn(client: &Client, election: &mut Election, now: impl Fn() -> Moment) {
    let sent = now();
    let lease = match look(client, election).await {
        Ok(lease) => lease,
        Err(error) => return debug!(%error, "the Lease could not be read"),
    };
    let written = match election.step(lease.as_ref(), sent, &wall_clock()) {
        Step::Wait => return,
        Step::Create(lease) => write(client, Method::POST, &collection(election), &lease).await,
        Step::Replace(lease) => write(client, Method::PUT, &path(election), &lease).await,
    };
    match written {
        Ok(()) => election.renewed(sent),
        Err(error) => debug!(%error, "the Lease could not be written"),
    }
}

/// Others need not wait.
async fn release(client: &Client, election: &mut Election) {
    if let Ok(Some(lease)) = look(client, election).await
        && let Some(released) = election.release(&lease)
        && let Err(error) = write(client, Method::PUT, &path(election), &released).await
    {
        debug!(%error, "the Lease could not be given up; others wait until it ends");
    }
}

async fn look(client: &Client, election: &Election) -> Result<Option<Object>, kube::Error> {
    let request = Request::get(path(election)).body(Vec::new()).map_err(kube::Error::HttpError)?;
    match client.request::<Value>(request).await {
        Ok(lease) => Ok(Object::from_value(lease)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

async fn write(client: &Client, method: Method, path: &str, lease: &Value) -> Result<(), kube::Error> {
    let request = Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, "application/json");
    let request = request.body(lease.to_string().into_bytes()).map_err(kube::Error::HttpError)?;
    client.request::<Value>(request).await.map(drop)
}

fn collection(election: &Election) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", election.candidate().namespace)
}

fn path(election: &Election) -> String {
    format!("{}/{}", collection(election), election.candidate().name)
}

fn wall_clock() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
