//! Acts while a Lease is held: renews it, and stops acting in time when it cannot be renewed.
//!
//! A write that is on its way when the Lease goes to somebody else could undo what that one decides. So who is told to leave gives
//! the Lease up after its last write has ended, and who loses it makes no more writes from the moment it could be somebody
//! else's; see [`Term`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use api::Object;
use http::{Method, Request};
use kube::Client;
use serde_json::Value;
use space::Moment;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use crate::election::{Election, Step};
use crate::trouble::Trouble;

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

/// How long work may go on. Clones are the same term.
#[derive(Clone, Debug)]
pub struct Term {
    started: Instant,
    /// Until when writes may be made, in milliseconds since the start.
    until: Arc<AtomicU64>,
    told: watch::Receiver<bool>,
}

/// Says how long work may go on.
#[derive(Debug)]
pub struct Holder {
    term: Term,
    tell: watch::Sender<bool>,
}

impl Term {
    /// Whether a write may be made now. It is asked right before each: a process that was stopped for a while learns here that its
    /// time is up.
    pub fn holds(&self) -> bool {
        since(self.started).0 < self.until.load(Ordering::Acquire)
    }

    /// Waits until the work should come to its end.
    pub async fn over(&mut self) {
        let _ = self.told.wait_for(|told| *told).await;
    }
}

impl Holder {
    /// A term that nobody limits: for who acts alone.
    pub fn unlimited() -> Self {
        Self::new(Instant::now(), u64::MAX)
    }

    fn new(started: Instant, until: u64) -> Self {
        let (tell, told) = watch::channel(false);
        Self { term: Term { started, until: Arc::new(AtomicU64::new(until)), told }, tell }
    }

    /// The term.
    pub fn term(&self) -> Term {
        self.term.clone()
    }

    /// The work should come to its end.
    pub fn end(&self) {
        self.tell.send_replace(true);
    }

    fn extend(&self, until: Option<Moment>) {
        self.term.until.store(until.map_or(0, |until| until.0), Ordering::Release);
    }
}

/// Waits for the Lease, then does the work as long as it is held. The Lease is looked at every `retry`; `waits` is called when it
/// is seen to be somebody else's.
pub async fn lead<W: Future<Output = ()> + Send + 'static>(
    client: &Client,
    mut election: Election,
    retry: Duration,
    stop: impl Future<Output = ()>,
    waits: impl Fn(),
    work: impl FnOnce(Term) -> W,
) -> Ended {
    let started = Instant::now();
    let now = || since(started);
    let holder = Holder::new(started, 0);
    let mut work = Some(work);
    let mut working = JoinSet::new();
    let mut trouble = Trouble::new("the Lease");
    let mut stop = std::pin::pin!(stop);
    loop {
        // A connection that hangs must not keep us from seeing that time is up.
        match timeout(retry, turn(client, &mut election, now)).await {
            Ok(Ok(())) => {
                trouble.is_over();
                if !election.leads(now()) {
                    waits();
                }
            }
            Ok(Err(error)) => trouble.is(&error.to_string()),
            Err(_) => trouble.is("no answer in time"),
        }
        holder.extend(election.acts_until());
        if election.leads(now()) {
            if let Some(work) = work.take() {
                info!(identity = election.candidate().identity, "leads");
                working.spawn(work(holder.term()));
            }
        } else if work.is_none() {
            warn!(identity = election.candidate().identity, "the Lease is lost");
            return Ended::Lost;
        }
        tokio::select! {
            () = sleep(retry) => {}
            _ = working.join_next(), if work.is_none() => return Ended::Done,
            () = &mut stop => {
                holder.end();
                let left = election.acts_until().map_or(0, |until| until.0.saturating_sub(now().0));
                // Whose work does not end in time keeps the Lease until it ends by itself.
                if timeout(Duration::from_millis(left), working.join_next()).await.is_ok() {
                    release(client, &mut election, retry).await;
                }
                working.shutdown().await;
                return Ended::Told;
            }
        }
    }
}

/// Looks at the Lease and does what has to be done about it.
async fn turn(client: &Client, election: &mut Election, now: impl Fn() -> Moment) -> Result<(), kube::Error> {
    let sent = now();
    let lease = look(client, election).await?;
    let written = match election.step(lease.as_ref(), sent, &wall_clock()) {
        Step::Wait => return Ok(()),
        Step::Create(lease) => write(client, Method::POST, &collection(election), &lease).await,
        Step::Replace(lease) => write(client, Method::PUT, &path(election), &lease).await,
    };
    match written {
        Ok(()) => election.renewed(sent),
        // Somebody else was faster.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            debug!(status.message, "the Lease was written by another");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Others need not wait.
async fn release(client: &Client, election: &mut Election, patience: Duration) {
    let released = timeout(patience, async {
        let Some(lease) = look(client, election).await? else { return Ok(()) };
        match election.release(&lease) {
            Some(released) => write(client, Method::PUT, &path(election), &released).await,
            None => Ok(()),
        }
    });
    match released.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(%error, "the Lease could not be given up; others wait until it ends"),
        Err(_) => warn!("the Lease could not be given up in time; others wait until it ends"),
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

fn since(started: Instant) -> Moment {
    Moment(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX))
}

fn wall_clock() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
