//! What the server counts, and `/metrics` that shows it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use store::Stats;

use crate::front::Counters;
use crate::registry::services::{Meters, PortUsage, Usage};

/// Which requests are counted together.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Labels {
    pub(crate) verb: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VerbLabel {
    verb: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RangeLabel {
    cidr: String,
}

/// A number that is worked out when somebody asks.
type Figure = Gauge<u64, AtomicU64>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// The bounds of the time that requests take, in seconds.
const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// The counters of a server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    durations: Family<VerbLabel, Histogram>,
    pub(crate) watches: Gauge,
    collected: Family<ReasonLabel, Counter>,
    pub(crate) emptying: Gauge,
}

/// What is given out, and what is counted of that.
pub(crate) struct Given<'a> {
    pub(crate) ranges: &'a [Usage],
    pub(crate) ports: PortUsage,
    pub(crate) meters: &'a Arc<Meters>,
}

/// What others count in the same process.
#[derive(Debug)]
struct Others(Arc<dyn Collector>);

impl Collector for Others {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        self.0.encode(encoder)
    }
}

impl Metrics {
    pub(crate) fn new(others: &[Arc<dyn Collector>]) -> Self {
        let mut registry = Registry::default();
        for other in others {
            registry.register_collector(Box::new(Others(Arc::clone(other))));
        }
        let requests = Family::default();
        let durations: Family<VerbLabel, Histogram> = Family::new_with_constructor(|| Histogram::new(SECONDS));
        let watches = Gauge::default();
        registry.register("apiserver_request", "Requests by verb, resource and code", requests.clone());
        let help = "How long requests took, watches aside";
        registry.register("apiserver_request_duration_seconds", help, durations.clone());
        registry.register("apiserver_longrunning_requests", "Watches that are open", watches.clone());
        let collected = Family::default();
        let help = "Objects that the server deleted by itself, by reason";
        registry.register("cadastre_lifecycle_deletions", help, collected.clone());
        let emptying = Gauge::default();
        let help = "Deleted namespaces that are not empty yet";
        registry.register("cadastre_lifecycle_namespaces_terminating", help, emptying.clone());
        Self { registry, requests, durations, watches, collected, emptying }
    }

    /// Counts an object that the server deleted by itself.
    pub(crate) fn collected(&self, reason: &'static str) {
        self.collected.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Counts a request that is done.
    pub(crate) fn count(&self, labels: &Labels, took: Duration) {
        if labels.verb != "watch" {
            let verb = VerbLabel { verb: labels.verb };
            self.durations.get_or_create(&verb).observe(took.as_secs_f64());
        }
        self.requests.get_or_create(labels).inc();
    }

    /// Everything that is counted here, in the store, at the door and of what is given out, as text.
    pub(crate) fn text(&self, store: &Stats, door: &Counters, given: &Given<'_>) -> String {
        let mut all = Registry::default();
        all.register_collector(Box::new(Arc::clone(given.meters)));
        register_usage(&mut all, given.ranges, given.ports);
        for (name, help, value) in figures(store).into_iter().chain(at_the_door(door)) {
            let gauge = Figure::default();
            gauge.set(value);
            all.register(name, help, gauge);
        }
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        let end = text.trim_end_matches("# EOF\n").len();
        text.truncate(end);
        let _ = prometheus_client::encoding::text::encode(&mut text, &all);
        text
    }
}

/// How much of the ranges is given out, under the names that operators know. Ranges that are written alike are one, and have something
/// left if one of them is open.
fn register_usage(all: &mut Registry, ranges: &[Usage], ports: PortUsage) {
    let ip = |name: &str| format!("kube_apiserver_clusterip_allocator_{name}_ips");
    let (given, free): (Family<RangeLabel, Figure>, Family<RangeLabel, Figure>) = Default::default();
    for one in ranges.iter().filter(|one| !one.is_ports) {
        let label = RangeLabel { cidr: one.range.clone() };
        given.get_or_create(&label).set(one.given);
        let free = free.get_or_create(&label);
        if one.is_open {
            free.set(one.free);
        }
    }
    all.register(ip("allocated"), "Addresses of the range that are in use", given);
    all.register(ip("available"), "Addresses of the range that are free to be given", free);
    for (name, help, value) in [
        ("kube_apiserver_nodeport_allocator_allocated_ports", "Node ports that are in use", ports.given),
        ("kube_apiserver_nodeport_allocator_available_ports", "Node ports that are free", ports.free),
    ] {
        let gauge = Figure::default();
        gauge.set(value);
        all.register(name, help, gauge);
    }
}

/// What happened at the door, likewise.
fn at_the_door(door: &Counters) -> [(&'static str, &'static str, u64); 8] {
    [
        ("cadastre_connections", "Open connections", door.open()),
        ("cadastre_connections_accepted", "Connections so far", door.accepted.get()),
        ("cadastre_connections_full", "Times that a connection had to wait for one to end", door.full.get()),
        ("cadastre_connections_stalled", "Connections cut because the client took no more bytes", door.stalled.get()),
        ("cadastre_handshakes_failed", "TLS handshakes that failed", door.handshakes_failed.get()),
        ("cadastre_handshakes_timed_out", "TLS handshakes that took too long", door.handshakes_timed_out.get()),
        ("cadastre_requests_refused", "Requests with credentials that nobody has", door.refused.get()),
        ("cadastre_requests_panicked", "Requests whose handling failed by a fault of the server", door.panics.get()),
    ]
}

/// The store's figures under the names they have here.
fn figures(store: &Stats) -> [(&'static str, &'static str, u64); 12] {
    [
        ("cadastre_store_objects", "Objects in the store", store.objects as u64),
        ("cadastre_store_bytes", "Bytes of the objects in the store", store.bytes as u64),
        ("cadastre_store_log_events", "Events kept for watches that start in the past", store.log_events as u64),
        ("cadastre_store_log_bytes", "Bytes that only the past needs", store.log_bytes as u64),
        ("cadastre_store_watchers", "Open watches on the store", store.watchers as u64),
        ("cadastre_store_watchers_cut_off", "Watches that were cut off as too slow", store.lagged),
        ("cadastre_store_transactions", "Transactions that changed something", store.txns),
        ("cadastre_store_commits", "Durable commits", store.commits),
        ("cadastre_store_commits_failed", "Commits that failed", store.failed_commits),
        ("cadastre_store_largest_batch", "Transactions in the largest commit so far", store.largest_batch as u64),
        ("cadastre_store_commit_nanoseconds", "Time spent in commits", store.commit_nanos),
        ("cadastre_store_file_bytes", "Size of the store's file", store.file_bytes),
    ]
}
