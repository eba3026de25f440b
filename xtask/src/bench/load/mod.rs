//! The load: a process of its own, the same for every server, that does one work and prints what it saw.
//!
//! It shares the cores with the server that it measures, so it is cheap: one thread, HTTP/1.1 over TLS on connections that
//! stay open, requests that are made once and only get another name, and answers of which nothing is read but what
//! the work is about. Knows nothing of who the server is.

mod apply;
mod churn;
mod connection;
mod create;
mod latencies;
mod nodes;
mod object;
mod ranges;
mod read;
mod watch;

use std::env;
use std::io::{BufRead, BufReader, Read, Write, stdin};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) use self::churn::{Churned, Churning};
use self::connection::Server;
pub(super) use self::create::{Burst, Bursts, Created, Filling, Spell};
pub(super) use self::nodes::{Awaited, Beats, Fleet, Served};
pub(super) use self::object::Sort;
pub(super) use self::ranges::Ranges;
pub(super) use self::read::{Reading, Times};
pub(super) use self::watch::{Watched, Watching};
use crate::https::Endpoint;

/// The task of this program that is the load, as it is called by [`Load`].
const TASK: &str = "bench-load";
/// What it says when a watch that is waited for has begun.
const WATCHING: &str = "watching";

/// What one process of the load is to do.
#[derive(Serialize, Deserialize)]
struct Order {
    server: Endpoint,
    work: Work,
}

#[derive(Serialize, Deserialize)]
enum Work {
    /// Namespaces of these names.
    Namespaces(Vec<String>),
    /// So many objects.
    Fill(Filling),
    /// Objects, for some time.
    Create(Spell),
    /// The same applied again, for some time.
    Apply(Spell),
    /// Objects of which only so many fit.
    Burst(Bursts),
    /// Deletes and creates.
    Churn(Churning),
    /// Ranges of addresses.
    Ranges(Ranges),
    /// Lists.
    Read(Reading),
    /// Watches, while somebody writes.
    Watch(Watching),
    /// Nodes, and ranges for them.
    Nodes(Fleet),
    /// A write of each node; the number tells it from others.
    PatchNodes(Fleet, u32),
    /// Heartbeats of nodes.
    Beat(Beats),
    /// A watch, until nodes are served.
    Await(Awaited),
}

/// A server to put load on.
pub(super) struct Load(pub(super) Endpoint);

impl Load {
    pub(super) fn namespaces(&self, names: Vec<String>) -> Result<()> {
        self.done(Work::Namespaces(names))
    }

    pub(super) fn fill(&self, filling: Filling) -> Result<()> {
        self.done(Work::Fill(filling))
    }

    pub(super) fn create(&self, spell: Spell) -> Result<Created> {
        self.done(Work::Create(spell))
    }

    pub(super) fn apply(&self, spell: Spell) -> Result<Created> {
        self.done(Work::Apply(spell))
    }

    pub(super) fn bursts(&self, bursts: Bursts) -> Result<Burst> {
        self.done(Work::Burst(bursts))
    }

    pub(super) fn churn(&self, churning: Churning) -> Result<Churned> {
        self.done(Work::Churn(churning))
    }

    pub(super) fn ranges(&self, ranges: Ranges) -> Result<()> {
        self.done(Work::Ranges(ranges))
    }

    pub(super) fn read(&self, reading: Reading) -> Result<Times> {
        self.done(Work::Read(reading))
    }

    pub(super) fn watch(&self, watching: Watching) -> Result<Watched> {
        self.done(Work::Watch(watching))
    }

    pub(super) fn nodes(&self, fleet: Fleet) -> Result<()> {
        self.done(Work::Nodes(fleet))
    }

    pub(super) fn patch_nodes(&self, fleet: Fleet, number: u32) -> Result<Duration> {
        self.done(Work::PatchNodes(fleet, number))
    }

    pub(super) fn beat(&self, beats: Beats) -> Result<u64> {
        self.done(Work::Beat(beats))
    }

    /// Begins a watch, and returns when it is there.
    pub(super) fn wait(&self, awaited: Awaited) -> Result<Waiting> {
        let mut child = self.spawn(Work::Await(awaited))?;
        let mut said = BufReader::new(child.stdout.take().context("the load says nothing")?);
        let mut line = String::new();
        said.read_line(&mut line)?;
        ensure!(line.trim() == WATCHING, "the load does not watch: {line}");
        Ok(Waiting { child, said })
    }

    /// Has the work done by a process.
    fn done<T: DeserializeOwned>(&self, work: Work) -> Result<T> {
        let said = self.spawn(work)?.wait_with_output()?;
        ensure!(said.status.success(), "the load failed: {}", said.status);
        figures(&said.stdout)
    }

    /// Starts the process, which gets its order on stdin: a token is nothing for a command line.
    fn spawn(&self, work: Work) -> Result<Child> {
        let order = serde_json::to_vec(&Order { server: self.0.clone(), work })?;
        let program = env::current_exe().context("this program does not know where it is")?;
        let mut command = Command::new(program);
        command.arg(TASK).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("the load could not be started")?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(&order).context("the load does not take its order")?;
        }
        Ok(child)
    }
}

/// A watch that has begun. Dropping it ends it.
pub(super) struct Waiting {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Waiting {
    /// What it saw, when it is at its end.
    pub(super) fn done(mut self) -> Result<Served> {
        let mut text = Vec::new();
        self.said.read_to_end(&mut text)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the load failed: {status}");
        figures(&text)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // An error means that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn figures<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).context("the load printed something else than figures")
}

/// Does the work that stdin asks for, and prints what was seen.
pub(crate) fn run() -> Result<()> {
    let order: Order = serde_json::from_reader(stdin().lock()).context("no order on stdin")?;
    // Every watcher is a descriptor.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).context("the limit on open files cannot be raised")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("{}", runtime.block_on(order.done())?);
    Ok(())
}

impl Order {
    async fn done(self) -> Result<Value> {
        let server = Server::new(self.server)?;
        Ok(match self.work {
            Work::Namespaces(names) => serde_json::to_value(create::namespaces(&server, &names).await?),
            Work::Fill(filling) => serde_json::to_value(create::fill(&server, &filling).await?),
            Work::Create(spell) => serde_json::to_value(create::spell(&server, &spell).await?),
            Work::Apply(spell) => serde_json::to_value(apply::spell(&server, &spell).await?),
            Work::Burst(bursts) => serde_json::to_value(create::bursts(&server, &bursts).await?),
            Work::Churn(churning) => serde_json::to_value(churn::run(&server, &churning).await?),
            Work::Ranges(ranges) => serde_json::to_value(ranges::create(&server, ranges).await?),
            Work::Read(reading) => serde_json::to_value(read::run(&server, &reading).await?),
            Work::Watch(watching) => serde_json::to_value(watch::run(&server, &watching).await?),
            Work::Nodes(fleet) => serde_json::to_value(nodes::create(&server, fleet).await?),
            Work::PatchNodes(fleet, number) => serde_json::to_value(nodes::patch(&server, fleet, number).await?),
            Work::Beat(beats) => serde_json::to_value(nodes::beat(&server, &beats).await?),
            Work::Await(awaited) => serde_json::to_value(nodes::served(&server, &awaited).await?),
        }?)
    }
}
