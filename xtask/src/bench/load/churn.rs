//! Deleting and creating Services in a range that is nearly full, or nearly empty: their number stays the same.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use memchr::memmem;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::connection::{Connection, Server};
use super::create::{BUFFER, Filling};
use super::object::{Create, Delete};

/// What a server says when it finds no address.
const FULL: &[u8] = b"range is full";

/// Each connection deletes one of its share of what was filled, and creates it anew, for so long.
#[derive(Serialize, Deserialize)]
pub(crate) struct Churning {
    pub(crate) filling: Filling,
    /// How long it goes on before it counts.
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// What was seen of that.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Churned {
    /// How often something was deleted and created.
    pub(crate) number: u64,
    /// How often the server said that there is no address, while there was one: each create comes after a delete.
    pub(crate) full: u64,
}

pub(super) async fn run(server: &Server, churning: &Churning) -> Result<Churned> {
    let filling = &churning.filling;
    let mut connections = Vec::new();
    for number in 0..filling.connections {
        ensure!(!filling.share(number).is_empty(), "there are more connections than objects");
        connections.push((number, server.connect(BUFFER).await?));
    }
    let counts = Instant::now() + churning.warm_up;
    let ends = counts + churning.measured;
    let mut all = JoinSet::new();
    for (number, mut connection) in connections {
        let objects = filling.share(number);
        let mut delete = Delete::new(server, &filling.namespace, filling.sort);
        let mut create = Create::new(server, &filling.namespace, filling.sort);
        all.spawn(async move {
            let mut churned = Churned::default();
            for object in objects.cycle() {
                if Instant::now() >= ends {
                    break;
                }
                connection.done(delete.request(object), 200).await?;
                let full = created(&mut connection, create.request(object, 0)).await?;
                let done = Instant::now();
                churned.full += full;
                churned.number += u64::from(done >= counts && done < ends);
            }
            anyhow::Ok(churned)
        });
    }
    let mut churned = Churned::default();
    while let Some(of_one) = all.join_next().await {
        let of_one = of_one??;
        churned.number += of_one.number;
        churned.full += of_one.full;
    }
    Ok(churned)
}

/// Creates an object, and says how often the server found no address for it before it found one.
async fn created(connection: &mut Connection, request: &[u8]) -> Result<u64> {
    for full in 0.. {
        match connection.asked(request).await? {
            (201, _) => return Ok(full),
            (500, said) if memmem::find(&said, FULL).is_some() => {}
            (status, said) => bail!("the server answered {status}: {}", String::from_utf8_lossy(&said)),
        }
    }
    Ok(0)
}
