//! What is counted of node IPAM, and how it is shown: under the names that node-ipam-controller has, and more of our own.
//!
//! Ranges are shown as they were when their statuses were last looked at; one that is gone is not shown any more.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::duty::State;

/// What the names begin with.
const PREFIX: &str = "node_ipam_controller_";

/// The bounds of the time until a node has its block, in seconds. Nodes wait for minutes where ranges are full.
const SECONDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0];

/// The bounds of the tries for each request, as node-ipam-controller has them. A free block is found at once here, so there are
/// never any tries beyond the first.
const TRIES: [f64; 6] = [1.0, 5.0, 25.0, 125.0, 625.0, f64::INFINITY];

/// A name, what it means, and its value for a range.
type Shown<T> = (&'static str, &'static str, fn(&RangeFigures) -> T);

/// One family of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeFigures {
    /// The name of the `ClusterCIDR`.
    pub name: Arc<str>,
    /// The range.
    pub cidr: String,
    /// How many blocks it has.
    pub capacity: u128,
    /// How many of them are taken, in whole or in part.
    pub allocated: u128,
    /// How many are free.
    pub free: u128,
    /// How many blocks nodes got of it since we began.
    pub given: u64,
    /// How many came back.
    pub returned: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Meters {
    ranges: Mutex<Vec<RangeFigures>>,
    pub(super) nodes: Gauge,
    pub(super) waiting: Gauge,
    pub(super) conflicts: Counter,
    pub(super) failures: Counter,
    pub(super) events_dropped: Counter,
    /// Times that something had to wait because as many writes were on their way as may be.
    pub(super) writes_full: Counter,
    /// Times that a watch had to wait because as many changes waited to be taken in as may.
    pub(super) changes_full: Counter,
    latency: Histogram,
}

impl Default for Meters {
    fn default() -> Self {
        Self {
            ranges: Mutex::default(),
            nodes: Gauge::default(),
            waiting: Gauge::default(),
            conflicts: Counter::default(),
            failures: Counter::default(),
            events_dropped: Counter::default(),
            writes_full: Counter::default(),
            changes_full: Counter::default(),
            latency: Histogram::new(SECONDS),
        }
    }
}

impl Meters {
    /// The ranges are these now.
    pub(super) fn show_ranges(&self, ranges: Vec<RangeFigures>) {
        *self.ranges.lock() = ranges;
    }

    /// A node got its block that many milliseconds after it was seen without one.
    pub(super) fn served(&self, milliseconds: u64) {
        self.latency.observe(Duration::from_millis(milliseconds).as_secs_f64());
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>, state: State) -> fmt::Result {
        self.encode_ranges(encoder)?;
        let leading = Gauge::<i64>::default();
        leading.set((state == State::Serving).into());
        for (name, help, gauge) in [
            ("leading", "Whether it serves nodes, and does not stand by for another that does", &leading),
            ("nodes", "Nodes that are known", &self.nodes),
            ("waiting_nodes", "Nodes that could not be served", &self.waiting),
        ] {
            gauge.encode(encoder.encode_descriptor(&name_of(name), help, None, MetricType::Gauge)?)?;
        }
        for (name, help, counter) in [
            ("conflicts", "Nodes that were found to hold addresses of another", &self.conflicts),
            ("write_failures", "Writes that failed or of which nobody knows", &self.failures),
            ("events_dropped", "Events that were not written because too many waited", &self.events_dropped),
        ] {
            counter.encode(encoder.encode_descriptor(&name_of(name), help, None, MetricType::Counter)?)?;
        }
        let (name, help) = (name_of("limits_reached"), "Times that something had to wait for room");
        let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
        for (limit, counter) in [("writes", &self.writes_full), ("changes", &self.changes_full)] {
            counter.encode(family.encode_family(&[("limit", limit)])?)?;
        }
        let (name, help) = (name_of("allocation_latency_seconds"), "Time from a node without a block until it has one");
        self.latency.encode(encoder.encode_descriptor(&name, help, None, MetricType::Histogram)?)
    }

    fn encode_ranges(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let ranges = self.ranges.lock();
        let counters: [Shown<u64>; 2] = [
            ("multicidrset_cidrs_allocations", "Blocks of the range that nodes got", |range| range.given),
            ("multicidrset_cidrs_releases", "Blocks of the range that came back", |range| range.returned),
        ];
        for (name, help, of) in counters {
            let name = name_of(name);
            let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
            for range in &*ranges {
                family.encode_family(&labels(range))?.encode_counter::<NoLabelSet, _, u64>(&of(range), None)?;
            }
        }
        let gauges: [Shown<f64>; 3] = [
            ("multicidrset_max_cidrs", "Blocks that the range has", |range| about(range.capacity)),
            ("multicidrset_usage_cidrs", "Share of the range that is taken, from 0 to 1", |range| {
                if range.capacity == 0 { 1.0 } else { about(range.allocated) / about(range.capacity) }
            }),
            ("free_blocks", "Blocks of the range that are free", |range| about(range.free)),
        ];
        for (name, help, of) in gauges {
            let name = name_of(name);
            let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
            for range in &*ranges {
                family.encode_family(&labels(range))?.encode_gauge(&of(range))?;
            }
        }
        let name = name_of("multicidrset_allocation_tries_per_request");
        let help = "Blocks that were looked at in vain before one was given";
        let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Histogram)?;
        for range in &*ranges {
            let mut buckets = TRIES.map(|bound| (bound, 0));
            buckets[0].1 = range.given;
            family.encode_family(&labels(range))?.encode_histogram::<NoLabelSet>(0.0, range.given, &buckets, None)?;
        }
        Ok(())
    }
}

/// A number of blocks as metrics have it: beyond 2^53 not to the last one.
#[allow(clippy::cast_precision_loss, reason = "metrics have no larger whole numbers")]
pub(crate) fn about(count: u128) -> f64 {
    count as f64
}

fn name_of(name: &str) -> String {
    format!("{PREFIX}{name}")
}

fn labels(range: &RangeFigures) -> [(&'static str, &str); 2] {
    [("clusterCIDR", range.cidr.as_str()), ("clusterCIDRName", &range.name)]
}

/// What a collector has to show, as text.
pub fn text(collector: impl Collector) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

#[cfg(test)]
mod tests {
    use super::super::duty::Report;
    use super::*;

    #[test]
    fn ranges_are_shown_under_the_names_that_operators_know_and_gone_ones_are_not() {
        let report = Arc::new(Report::default());
        let range = RangeFigures {
            name: "r".into(),
            cidr: "10.0.0.0/16".into(),
            capacity: 256,
            allocated: 64,
            free: 192,
            given: 70,
            returned: 6,
        };
        report.meters.show_ranges(vec![range]);
        report.meters.served(20);
        let shown = text(Arc::clone(&report));
        let labels = r#"{clusterCIDR="10.0.0.0/16",clusterCIDRName="r"}"#;
        for line in [
            format!("node_ipam_controller_multicidrset_cidrs_allocations_total{labels} 70"),
            format!("node_ipam_controller_multicidrset_cidrs_releases_total{labels} 6"),
            format!("node_ipam_controller_multicidrset_max_cidrs{labels} 256.0"),
            format!("node_ipam_controller_multicidrset_usage_cidrs{labels} 0.25"),
            format!("node_ipam_controller_free_blocks{labels} 192.0"),
            format!("node_ipam_controller_multicidrset_allocation_tries_per_request_count{labels} 70"),
            "node_ipam_controller_allocation_latency_seconds_count 1".to_owned(),
            "node_ipam_controller_waiting_nodes 0".to_owned(),
            "node_ipam_controller_leading 0".to_owned(),
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line} is not in\n{shown}");
        }
        let infinite = r#"tries_per_request_bucket{le="+Inf",clusterCIDR="10.0.0.0/16",clusterCIDRName="r"} 70"#;
        assert!(shown.contains(infinite), "{shown}");
        report.meters.show_ranges(Vec::new());
        assert!(!text(report).contains("10.0.0.0/16"));
    }
}
