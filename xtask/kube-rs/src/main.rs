//! Uses a server as programs on kube-rs do, and says what came of it.
//!
//! On stdin, first a line with where the server is and what to do; on stdout a line for each check. What the checks need done to the
//! wire that leads to the server they ask whoever started the program for, with a line on stdout, and wait for a line on stdin.
//! The program in `xtask/peers/clients` does the same with client-go.

mod follow;
mod host;
mod informing;
mod owning;
mod plain;
mod world;

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use tokio::time::timeout;

use host::Host;
use world::World;

/// How long one check may take, also where a debug build runs on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);

/// What came of a check.
#[derive(Serialize)]
struct Verdict<'a> {
    case: &'a str,
    ok: bool,
    said: String,
    took: f64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let (host, order) = Host::meet().await?;
    if let Some(folder) = &order.follow {
        return follow::run(&host, &order, folder).await;
    }
    for (name, check) in informing::CHECKS.iter().chain(owning::CHECKS).chain(plain::CHECKS) {
        if !name.contains(&order.only) {
            continue;
        }
        let began = Instant::now();
        let attempt = async {
            let world = World::new(&order, host.clone()).await?;
            check(world).await
        };
        let came = timeout(PATIENCE, attempt).await.unwrap_or_else(|_| Err(anyhow::anyhow!("it took too long")));
        let (ok, said) = came.map_or_else(|why| (false, format!("{why:#}")), |said| (true, said));
        host.tell(&Verdict { case: name, ok, said, took: began.elapsed().as_secs_f64() })?;
    }
    Ok(())
}
