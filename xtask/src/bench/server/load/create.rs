//! Creating objects: so many, or as many as go into some time.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::connection::{Connection, Server};
use super::latencies::Latencies;
use super::object::Create;

/// An answer to a create is about as long as its object.
const BUFFER: usize = 16 * 1024;
/// Between the numbers of the first objects of two connections: more than one of them creates.
const APART: u64 = 1 << 40;

/// So many objects in a namespace.
#[derive(Serialize, Deserialize)]
pub(crate) struct Filling {
    pub(crate) namespace: String,
    pub(crate) objects: u64,
    pub(crate) connections: u64,
}

/// Objects in a namespace, one after the other on each connection, for so long.
#[derive(Serialize, Deserialize)]
pub(crate) struct Spell {
    pub(crate) namespace: String,
    pub(crate) connections: u64,
    /// How long it goes on before it counts.
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// What was created in a spell.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Created {
    pub(crate) number: usize,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
}

/// Creates the namespaces.
pub(super) async fn namespaces(server: &Server, names: &[String]) -> Result<()> {
    let mut connection = server.connect(BUFFER).await?;
    for name in names {
        let body = format!("{{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{{\"name\":\"{name}\"}}}}");
        connection.done(&server.post("/api/v1/namespaces", &body), 201).await?;
    }
    Ok(())
}

/// Creates that many objects.
pub(super) async fn fill(server: &Server, filling: &Filling) -> Result<()> {
    let mut all = JoinSet::new();
    for (number, (mut connection, mut create)) in
        (0..).zip(connections(server, &filling.namespace, filling.connections).await?)
    {
        let share = filling.objects / filling.connections;
        let objects = share + u64::from(number < filling.objects % filling.connections);
        all.spawn(async move {
            for object in 0..objects {
                connection.done(create.request(number * APART + object, 0), 201).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(filled) = all.join_next().await {
        filled??;
    }
    Ok(())
}

/// Creates objects for some time.
pub(super) async fn spell(server: &Server, spell: &Spell) -> Result<Created> {
    let connections = connections(server, &spell.namespace, spell.connections).await?;
    let counts = Instant::now() + spell.warm_up;
    let ends = counts + spell.measured;
    let mut all = JoinSet::new();
    for (number, (mut connection, mut create)) in (0_u64..).zip(connections) {
        all.spawn(async move {
            let mut latencies = Latencies::with_room(1 << 16);
            for object in number * APART.. {
                let sent = Instant::now();
                if sent >= ends {
                    break;
                }
                connection.done(create.request(object, 0), 201).await?;
                let done = Instant::now();
                if done >= counts && done < ends {
                    latencies.note(done - sent);
                }
            }
            anyhow::Ok(latencies)
        });
    }
    let mut latencies = Latencies::default();
    while let Some(of_one) = all.join_next().await {
        latencies.add(&of_one??);
    }
    Ok(Created { number: latencies.number(), p50_ns: latencies.percentile(50), p99_ns: latencies.percentile(99) })
}

/// That many connections, each with a request of its own.
async fn connections(server: &Server, namespace: &str, number: u64) -> Result<Vec<(Connection, Create)>> {
    let mut all = Vec::new();
    for _ in 0..number {
        all.push((server.connect(BUFFER).await?, Create::new(server, namespace)));
    }
    Ok(all)
}
