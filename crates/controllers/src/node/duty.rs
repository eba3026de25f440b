//! Node IPAM from its start to its end: alone, or whenever it holds the Lease. How far it has come can be asked at any time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use kube::Client;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use thiserror::Error;
use tokio::task::JoinSet;
use tracing::error;

use super::execute::{self, Options};
use super::flags::FlagError;
use super::meters::Meters;
use crate::election::{Candidate, Election};
use crate::lead::{Ended, Holder, Term, lead};

/// How long writes may take after an end was asked for, where no Lease says it.
const PATIENCE: Duration = Duration::from_secs(15);

/// Who wants to act, and how often the Lease is looked at.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Who.
    pub candidate: Candidate,
    /// How often.
    pub retry: Duration,
}

/// Why it ended although nobody asked for it.
#[derive(Debug, Error)]
pub enum Fault {
    /// The flags are wrong.
    #[error(transparent)]
    Flags(#[from] FlagError),
    /// There is a fault in the program.
    #[error("node IPAM stopped by itself; the log says why")]
    Stopped,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not begun.
    Starting,
    /// Somebody else acts.
    StandingBy,
    /// It reads what is there.
    Reading,
    /// It serves nodes.
    Serving,
}

const STATES: [State; 4] = [State::Starting, State::StandingBy, State::Reading, State::Serving];

/// How far it has come, for everybody to read.
#[derive(Debug, Default)]
pub struct Health(AtomicU8);

impl Health {
    /// How far it has come.
    pub fn state(&self) -> State {
        STATES.get(usize::from(self.0.load(Ordering::Acquire))).copied().unwrap_or(State::Starting)
    }

    /// Whether it does what it is for: it serves nodes, or would at once if the one that does were gone.
    pub fn is_ready(&self) -> bool {
        matches!(self.state(), State::StandingBy | State::Serving)
    }

    /// It has come this far.
    pub fn set(&self, state: State) {
        self.0.store(state as u8, Ordering::Release);
    }
}

/// How it is, for everybody to read.
#[derive(Debug, Default)]
pub struct Report {
    /// How far it has come.
    pub health: Health,
    /// What is counted.
    pub meters: Meters,
}

impl Collector for Report {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.meters.encode(&mut encoder, self.health.state())
    }
}

/// Serves nodes until it is told to stop: at once, or whenever the Lease is held. Its last write has ended then, and the Lease is
/// given up.
pub async fn serve(
    client: Client,
    options: Options,
    standing: Option<Standing>,
    report: Arc<Report>,
    stop: impl Future<Output = ()>,
) -> Result<(), Fault> {
    // What is wrong is said before anything waits for a Lease.
    options.flags.range()?;
    options.flags.services()?;
    let work = |term: Term| {
        report.meters.show_ranges(Vec::new());
        let running = execute::run(client.clone(), options.clone(), term, Arc::clone(&report));
        async move {
            if let Err(error) = running.await {
                error!(%error, "node IPAM cannot run");
            }
        }
    };
    work_while_held(&client, standing, &report.health, stop, work).await.map_err(|Stopped| Fault::Stopped)
}

/// The work came to its end by itself.
pub(crate) struct Stopped;

/// Does the work until it is told to stop: at once, or whenever the Lease is held. Its last write has ended then, and the Lease is
/// given up.
pub(crate) async fn work_while_held<W: Future<Output = ()> + Send + 'static>(
    client: &Client,
    standing: Option<Standing>,
    health: &Health,
    stop: impl Future<Output = ()>,
    work: impl Fn(Term) -> W,
) -> Result<(), Stopped> {
    let mut stop = std::pin::pin!(stop);
    let Some(Standing { candidate, retry }) = standing else { return alone(work, stop).await };
    let waits = || health.set(State::StandingBy);
    loop {
        health.set(State::Starting);
        match lead(client, Election::new(candidate.clone()), retry, &mut stop, waits, &work).await {
            Ended::Told => return Ok(()),
            Ended::Done => return Err(Stopped),
            Ended::Lost => {}
        }
    }
}

async fn alone<W: Future<Output = ()> + Send + 'static>(
    work: impl FnOnce(Term) -> W,
    stop: impl Future<Output = ()>,
) -> Result<(), Stopped> {
    let holder = Holder::unlimited();
    let mut working = JoinSet::new();
    working.spawn(work(holder.term()));
    tokio::select! {
        _ = working.join_next() => return Err(Stopped),
        () = stop => holder.end(),
    }
    let _ = tokio::time::timeout(PATIENCE, working.join_next()).await;
    Ok(())
}
