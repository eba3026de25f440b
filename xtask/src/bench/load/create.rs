//! Creating objects: so many, as many as go into some time, or so many at a time of which no more fit.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::connection::{Connection, Server};
use super::latencies::Latencies;
use super::object::{Create, Delete, Sort};

/// An answer to a create is about as long as its object.
pub(super) const BUFFER: usize = 16 * 1024;
/// Between the numbers of the first objects of two connections: more than one of them creates.
const APART: u64 = 1 << 40;

/// So many objects in a namespace.
#[derive(Serialize, Deserialize)]
pub(crate) struct Filling {
    pub(crate) namespace: String,
    pub(crate) sort: Sort,
    pub(crate) objects: u64,
    pub(crate) connections: u64,
}

impl Filling {
    /// The numbers of the objects that are one connection's.
    pub(super) fn share(&self, connection: u64) -> Range<u64> {
        let before = |connection: u64| self.objects * connection / self.connections;
        before(connection)..before(connection + 1)
    }
}

/// Objects in a namespace, one after the other on each connection, for so long.
#[derive(Serialize, Deserialize)]
pub(crate) struct Spell {
    pub(crate) namespace: String,
    pub(crate) sort: Sort,
    pub(crate) connections: u64,
    /// How long it goes on before it counts.
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// So many objects in a namespace at once, and then none of them, until creating them has taken so long.
#[derive(Serialize, Deserialize)]
pub(crate) struct Bursts {
    pub(crate) filling: Filling,
    pub(crate) measured: Duration,
}

/// What was created in a spell.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Created {
    pub(crate) number: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
}

impl Created {
    pub(super) fn of(mut latencies: Latencies) -> Self {
        let (p50_ns, p99_ns) = (latencies.percentile(50), latencies.percentile(99));
        Self { number: latencies.number(), p50_ns, p99_ns }
    }
}

/// What was created in bursts, and how long that took.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Burst {
    pub(crate) created: Created,
    pub(crate) took: Duration,
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
    fill_timed(server, filling).await.map(drop)
}

/// The same, and how long each and all of them took, once there are connections.
async fn fill_timed(server: &Server, filling: &Filling) -> Result<(Latencies, Duration)> {
    let mut all = JoinSet::new();
    let connections = connections(server, &filling.namespace, filling.sort, filling.connections).await?;
    let began = Instant::now();
    for (number, (mut connection, mut create)) in (0..).zip(connections) {
        let objects = filling.share(number);
        all.spawn(async move {
            let mut latencies = Latencies::with_room(1 << 12);
            for object in objects {
                let sent = Instant::now();
                connection.done(create.request(object, 0), 201).await?;
                latencies.note(sent.elapsed());
            }
            anyhow::Ok(latencies)
        });
    }
    let latencies = Latencies::of_all(all).await?;
    Ok((latencies, began.elapsed()))
}

/// Deletes what a filling has created.
async fn empty(server: &Server, filling: &Filling) -> Result<()> {
    let mut all = JoinSet::new();
    for number in 0..filling.connections {
        let mut connection = server.connect(BUFFER).await?;
        let mut delete = Delete::new(server, &filling.namespace, filling.sort);
        let objects = filling.share(number);
        all.spawn(async move {
            for object in objects {
                connection.done(delete.request(object), 200).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(emptied) = all.join_next().await {
        emptied??;
    }
    Ok(())
}

/// Creates objects in bursts. The first one is to get going, and does not count.
pub(super) async fn bursts(server: &Server, bursts: &Bursts) -> Result<Burst> {
    let (mut latencies, mut took, mut counts) = (Latencies::default(), Duration::ZERO, false);
    while took < bursts.measured {
        let (of_one, took_one) = fill_timed(server, &bursts.filling).await?;
        if counts {
            took += took_one;
            latencies.add(&of_one);
        }
        counts = true;
        empty(server, &bursts.filling).await?;
    }
    Ok(Burst { created: Created::of(latencies), took })
}

/// Creates objects for some time.
pub(super) async fn spell(server: &Server, spell: &Spell) -> Result<Created> {
    let connections = connections(server, &spell.namespace, spell.sort, spell.connections).await?;
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
    Ok(Created::of(Latencies::of_all(all).await?))
}

/// That many connections, each with a request of its own.
async fn connections(server: &Server, namespace: &str, sort: Sort, number: u64) -> Result<Vec<(Connection, Create)>> {
    let mut all = Vec::new();
    for _ in 0..number {
        all.push((server.connect(BUFFER).await?, Create::new(server, namespace, sort)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_the_objects_and_none_has_what_another_has() {
        for (objects, connections) in [(10, 4), (4_053, 64), (64, 64)] {
            let filling = Filling { namespace: String::new(), sort: Sort::ClusterIp, objects, connections };
            let shared: Vec<u64> = (0..connections).flat_map(|connection| filling.share(connection)).collect();
            assert_eq!(shared, (0..objects).collect::<Vec<_>>());
        }
    }
}
