//! Nodes and the ranges that they are served from, as many as a large cluster has; what kubelets and a controller would write of them;
//! and a watch that tells when all of them have been served.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use memchr::memmem;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use super::connection::{Connection, Server};
use super::create::BUFFER;

const NODES: &str = "/api/v1/nodes";
const RANGES: &str = "/apis/networking.x-k8s.io/v1/clustercidrs";
/// A node is large, and a watch has many.
const WATCH_BUFFER: usize = 256 * 1024;
/// How long a watch may be silent before all are served.
const PATIENCE: Duration = Duration::from_mins(3);

/// So many nodes, each for one of so many ranges.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Fleet {
    pub(crate) nodes: u64,
    pub(crate) ranges: u64,
    pub(crate) connections: u64,
}

/// Heartbeats of a fleet: so many in a second, for so long.
#[derive(Serialize, Deserialize)]
pub(crate) struct Beats {
    pub(crate) fleet: Fleet,
    pub(crate) per_second: u64,
    pub(crate) seconds: u64,
}

/// A watch that begins at a revision and ends when so many nodes have been served.
#[derive(Serialize, Deserialize)]
pub(crate) struct Awaited {
    pub(crate) nodes: u64,
    pub(crate) from: String,
}

/// When the first and the last node were seen to be served, since 1970.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Served {
    pub(crate) first: Duration,
    pub(crate) last: Duration,
}

impl Fleet {
    /// The numbers of the nodes that are one connection's.
    fn share(self, connection: u64) -> std::ops::Range<u64> {
        let before = |connection: u64| self.nodes * connection / self.connections;
        before(connection)..before(connection + 1)
    }

    /// The range of that number, and how large it is: all of them are in 10.0.0.0/8, with room for more nodes than there are.
    fn range(self, number: u64) -> String {
        let each = (1 << 24) / self.ranges.next_power_of_two();
        let first = Ipv4Addr::from_bits((10 << 24) + (number * each) as u32);
        format!("{first}/{}", 32 - each.trailing_zeros())
    }

    /// How large the block of a node is, in bits: a /24, or less where a range has to have room for more.
    fn host_bits(self) -> u32 {
        let each = (1_u64 << 24) / self.ranges.next_power_of_two();
        let nodes = (2 * self.nodes / self.ranges).next_power_of_two();
        (each / nodes).trailing_zeros().min(8)
    }
}

/// The object of a range: it is for the nodes that have its number.
fn range(fleet: Fleet, number: u64) -> String {
    format!(
        "{{\"apiVersion\":\"networking.x-k8s.io/v1\",\"kind\":\"ClusterCIDR\",\"metadata\":{{\"name\":\"pool-{number}\"}},\"spec\":{{\
         \"perNodeHostBits\":{},\"ipv4\":\"{}\",\"nodeSelector\":{{\"nodeSelectorTerms\":[{{\"matchExpressions\":[\
         {{\"key\":\"pool\",\"operator\":\"In\",\"values\":[\"p{number}\"]}}]}}]}}}}}}",
        fleet.host_bits(),
        fleet.range(number)
    )
}

/// The object of a node, with what a kubelet says of itself.
fn node(fleet: Fleet, number: u64) -> String {
    let condition = |name: &str, status: &str| {
        format!(
            "{{\"type\":\"{name}\",\"status\":\"{status}\",\"reason\":\"Kubelet{name}\",\"message\":\"kubelet says so\",\
             \"lastHeartbeatTime\":\"2026-01-01T00:00:00Z\",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}}"
        )
    };
    let conditions = [
        condition("MemoryPressure", "False"),
        condition("DiskPressure", "False"),
        condition("PIDPressure", "False"),
        condition("Ready", "True"),
    ];
    let amounts = "{\"cpu\":\"16\",\"memory\":\"65536Mi\",\"ephemeral-storage\":\"200Gi\",\"hugepages-2Mi\":\"0\",\"pods\":\"110\"}";
    let address = Ipv4Addr::from_bits((100 << 24) + (64 << 16) + number as u32);
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{{\"name\":\"node-{number}\",\"labels\":{{\"pool\":\"p{}\",\
         \"kubernetes.io/hostname\":\"node-{number}\",\"kubernetes.io/os\":\"linux\",\"kubernetes.io/arch\":\"amd64\",\
         \"topology.kubernetes.io/zone\":\"zone-{}\"}}}},\"status\":{{\"capacity\":{amounts},\"allocatable\":{amounts},\
         \"addresses\":[{{\"type\":\"InternalIP\",\"address\":\"{address}\"}},{{\"type\":\"Hostname\",\"address\":\"node-{number}\"}}],\
         \"conditions\":[{}],\"nodeInfo\":{{\"machineID\":\"\",\"systemUUID\":\"\",\"bootID\":\"\",\"kernelVersion\":\"6.12.0\",\
         \"osImage\":\"Linux\",\"containerRuntimeVersion\":\"containerd://2.0.0\",\"kubeletVersion\":\"v1.36.0\",\
         \"kubeProxyVersion\":\"\",\"operatingSystem\":\"linux\",\"architecture\":\"amd64\"}}}}}}",
        number % fleet.ranges.max(1),
        number % 3,
        conditions.join(",")
    )
}

/// Creates the ranges, and then the nodes.
pub(super) async fn create(server: &Server, fleet: Fleet) -> Result<()> {
    let mut connection = server.connect(BUFFER).await?;
    for number in 0..fleet.ranges {
        connection.done(&server.post(RANGES, &range(fleet, number)), 201).await?;
    }
    each(server, fleet, 201, |server, number| server.post(NODES, &node(fleet, number))).await.map(drop)
}

/// Writes a field of each node once, as a controller would; how long all of them took.
pub(super) async fn patch(server: &Server, fleet: Fleet, round: u32) -> Result<Duration> {
    let body = format!("{{\"metadata\":{{\"annotations\":{{\"example.com/bench\":\"10.0.0.0/{round}\"}}}}}}");
    each(server, fleet, 200, |server, number| server.strategic(&format!("{NODES}/node-{number}"), &body)).await
}

/// Sends a request for each node, each connection one after the other.
async fn each(
    server: &Server,
    fleet: Fleet,
    status: u16,
    request: impl Fn(&Server, u64) -> Vec<u8>,
) -> Result<Duration> {
    let mut prepared = Vec::new();
    for connection in 0..fleet.connections {
        let requests: Vec<_> = fleet.share(connection).map(|number| request(server, number)).collect();
        prepared.push((server.connect(BUFFER).await?, requests));
    }
    let (began, mut all) = (Instant::now(), JoinSet::new());
    for (mut connection, requests) in prepared {
        all.spawn(async move {
            for request in requests {
                connection.done(&request, status).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    Ok(began.elapsed())
}

/// Sends heartbeats; how many.
pub(super) async fn beat(server: &Server, beats: &Beats) -> Result<u64> {
    let Beats { fleet, per_second, seconds } = *beats;
    let mut all = JoinSet::new();
    let began = tokio::time::Instant::now();
    for number in 0..fleet.connections {
        let mut connection = server.connect(BUFFER).await?;
        let own = (number..per_second * seconds).step_by(fleet.connections as usize);
        let requests = own.map(|beat| {
            let (node, second) = (beat % fleet.nodes, beat / per_second);
            let body = format!(
                "{{\"status\":{{\"conditions\":[{{\"type\":\"Ready\",\"lastHeartbeatTime\":\"2026-01-02T00:{:02}:{:02}Z\"}}]}}}}",
                second / 60 % 60,
                second % 60
            );
            let due = began + Duration::from_nanos(1_000_000_000 / per_second * beat);
            (due, server.strategic(&format!("{NODES}/node-{node}/status"), &body))
        });
        let requests: Vec<_> = requests.collect();
        all.spawn(async move {
            for (due, request) in &requests {
                sleep_until(*due).await;
                connection.done(request, 200).await?;
            }
            anyhow::Ok(requests.len() as u64)
        });
    }
    let mut sent = 0;
    while let Some(done) = all.join_next().await {
        sent += done??;
    }
    Ok(sent)
}

/// Watches until so many nodes have been served. Says when it watches.
pub(super) async fn served(server: &Server, awaited: &Awaited) -> Result<Served> {
    let mut connection = server.connect(WATCH_BUFFER).await?;
    connection.send(&server.get(&format!("{NODES}?watch=true&resourceVersion={}", awaited.from), "")).await?;
    let head = connection.head().await?;
    ensure!(head.status == 200, "the watch is refused with {}", head.status);
    println!("{}", super::WATCHING);
    let seen = count(&mut connection, head.rest, awaited.nodes);
    seen.await
}

async fn count(connection: &mut Connection, mut rest: super::connection::Rest, nodes: u64) -> Result<Served> {
    let (served, modified) = (memmem::Finder::new("\"podCIDRs\":["), memmem::Finder::new("\"type\":\"MODIFIED\""));
    let (mut number, mut partial, mut first) = (0, Vec::new(), None);
    loop {
        let piece = timeout(PATIENCE, connection.piece(&mut rest)).await.context("the watch is silent")??;
        partial.extend_from_slice(piece.context("the watch ended before all were served")?);
        let Some(end) = memchr::memrchr(b'\n', &partial) else { continue };
        for line in partial[..end].split(|byte| *byte == b'\n') {
            // Nothing else changes nodes meanwhile, so each is seen once with its blocks.
            number += u64::from(served.find(line).is_some() && modified.find(line).is_some());
        }
        partial.drain(..=end);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        if number > 0 {
            first.get_or_insert(now);
        }
        if number >= nodes {
            return Ok(Served { first: first.unwrap_or(now), last: now });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_all_nodes_in_ranges_of_their_own() {
        for (nodes, ranges) in [(5_000, 200), (50_000, 1_000), (5_000, 1)] {
            let fleet = Fleet { nodes, ranges, connections: 1 };
            let (first, last) = (fleet.range(0), fleet.range(ranges - 1));
            assert!(first.starts_with("10.0.0.0/") && last.starts_with("10."), "{first} {last}");
            let length: u32 = first["10.0.0.0/".len()..].parse().unwrap();
            let blocks = 1_u64 << (32 - length - fleet.host_bits());
            assert!(blocks >= nodes / ranges, "{nodes} nodes, {blocks} blocks in each of {ranges} ranges");
        }
    }

    #[test]
    fn objects_are_json() {
        let fleet = Fleet { nodes: 10, ranges: 3, connections: 1 };
        let node: serde_json::Value = serde_json::from_str(&node(fleet, 7)).unwrap();
        assert_eq!(node["metadata"]["labels"]["pool"], "p1");
        let range: serde_json::Value = serde_json::from_str(&range(fleet, 1)).unwrap();
        assert_eq!(range["spec"]["ipv4"], "10.64.0.0/10");
    }
}
