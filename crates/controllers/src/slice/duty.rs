//! Slices from the start of the controller to its end: alone, or whenever it holds the Lease.

use std::fmt;
use std::sync::Arc;

use kube::Client;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use thiserror::Error;

use super::execute::{self, Options};
use super::meters::Meters;
use crate::lead::Term;
use crate::node::duty::{Health, Standing, Stopped, work_while_held};

/// What the controller shows of itself.
#[derive(Debug, Default)]
pub struct Report {
    /// How far it has come.
    pub health: Health,
    /// What it counts.
    pub meters: Meters,
}

impl Collector for Report {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.meters.encode(&mut encoder, self.health.state())
    }
}

/// It ended although nobody asked for it: there is a fault in the program.
#[derive(Debug, Error)]
#[error("the controller of slices stopped by itself; the log says why")]
pub struct Fault;

/// Gives nodes their slices until it is told to stop. Its last write has ended then, and the Lease is given up.
pub async fn serve(
    client: Client,
    options: Options,
    standing: Option<Standing>,
    report: Arc<Report>,
    stop: impl Future<Output = ()>,
) -> Result<(), Fault> {
    let work = |term: Term| execute::run(client.clone(), options.clone(), term, Arc::clone(&report));
    work_while_held(&client, standing, &report.health, stop, work).await.map_err(|Stopped| Fault)
}
