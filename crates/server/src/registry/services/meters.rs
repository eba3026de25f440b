//! `Meters`: what is counted of what Services are given, under the names that operators of kube-apiserver know.
//!
//! A grant counts when it is in the store, once, however often it was picked before that. A dry run counts nothing. A refusal counts
//! when a client is told. What is counted of a range is kept as long as the range is there, and is there from its first moment.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

/// Whether a Service names what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// It does.
    Static,
    /// It takes any.
    Dynamic,
}

impl Scope {
    const ALL: [Self; 2] = [Self::Static, Self::Dynamic];

    fn text(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Dynamic => "dynamic",
        }
    }
}

/// The bounds of the time that a grant takes, in seconds.
const SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// What is counted of one range, or of all ports.
#[derive(Debug)]
pub(crate) struct Meter {
    granted: [Counter; 2],
    refused: [Counter; 2],
    seconds: Histogram,
}

impl Default for Meter {
    fn default() -> Self {
        Self { granted: Default::default(), refused: Default::default(), seconds: Histogram::new(SECONDS) }
    }
}

impl Meter {
    /// Something was given, and it took so long from the pick until it was in the store.
    pub(super) fn grant(&self, scope: Scope, took: Duration) {
        self.granted[scope as usize].inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// Something could not be given.
    pub(super) fn refuse(&self, scope: Scope) {
        self.refused[scope as usize].inc();
    }
}

/// What can be wrong with what is written of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nobody has it.
    Leak,
    /// It was not written, or wrongly.
    Repair,
    /// There is no room to write it. That cannot be here; who looks for it finds none.
    Full,
    OutOfRange,
    Duplicate,
    /// What is written cannot be read.
    Unknown,
    /// It is no address.
    Invalid,
}

impl Fault {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Leak, "leak"),
        (Self::Repair, "repair"),
        (Self::Full, "full"),
        (Self::OutOfRange, "outOfRange"),
        (Self::Duplicate, "duplicate"),
        (Self::Unknown, "unknown"),
        (Self::Invalid, "invalid"),
    ];
}

/// What repair has found, and how often it failed.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    faults: [Counter; Fault::ALL.len()],
    failures: Counter,
}

impl Repairs {
    pub(super) fn found(&self, fault: Fault) {
        self.faults[fault as usize].inc();
    }

    pub(super) fn failed(&self) {
        self.failures.inc();
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    ranges: Mutex<BTreeMap<String, Arc<Meter>>>,
    ports: Arc<Meter>,
    pub(super) address_repairs: Repairs,
    pub(super) port_repairs: Repairs,
    lost: Counter,
}

impl Meters {
    /// The meter of a range of addresses. Ranges that are written alike have one.
    pub(super) fn of(&self, cidr: &str) -> Arc<Meter> {
        let mut ranges = self.ranges.lock();
        match ranges.get(cidr) {
            Some(meter) => Arc::clone(meter),
            None => Arc::clone(ranges.entry(cidr.to_owned()).or_default()),
        }
    }

    pub(super) fn of_ports(&self) -> Arc<Meter> {
        Arc::clone(&self.ports)
    }

    /// Forgets what nobody counts any more.
    pub(super) fn prune(&self) {
        self.ranges.lock().retain(|_, meter| Arc::strong_count(meter) > 1);
    }

    /// A pick was refused by the store.
    pub(super) fn lose(&self) {
        self.lost.inc();
    }
}

type By<'a> = fn(&'a Meter, Scope) -> &'a Counter;

impl Collector for Meters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let ranges = self.ranges.lock();
        let (granted, refused): (By<'_>, By<'_>) =
            (|meter, scope| &meter.granted[scope as usize], |meter, scope| &meter.refused[scope as usize]);
        for (what, help, by) in [
            ("allocation", "Addresses of the range that were given to Services", granted),
            ("allocation_errors", "Times that an address of the range could not be given", refused),
        ] {
            let name = format!("kube_apiserver_clusterip_allocator_{what}");
            let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
            for (cidr, meter) in &*ranges {
                for scope in Scope::ALL {
                    let labels = [("cidr", cidr.as_str()), ("scope", scope.text())];
                    by(meter, scope).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        let name = "kube_apiserver_clusterip_allocator_allocation_duration_seconds";
        let help = "How long it took from the pick of an address until it was in the store";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (cidr, meter) in &*ranges {
            meter.seconds.encode(family.encode_family(&[("cidr", cidr.as_str())])?)?;
        }
        for (what, help, by) in [
            ("allocation", "Node ports that were given to Services", granted),
            ("allocation_errors", "Times that a node port could not be given", refused),
        ] {
            let name = format!("kube_apiserver_nodeport_allocator_{what}");
            let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
            for scope in Scope::ALL {
                by(&self.ports, scope).encode(family.encode_family(&[("scope", scope.text())])?)?;
            }
        }
        for (sort, point, repairs) in
            [("clusterip", "ip", &self.address_repairs), ("nodeport", "port", &self.port_repairs)]
        {
            let name = format!("apiserver_{sort}_repair_{point}_errors");
            let help = "What was found wrong with what is written of who has what, by type";
            let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
            // A port is always a port.
            for (fault, text) in Fault::ALL.iter().filter(|(fault, _)| point == "ip" || *fault != Fault::Invalid) {
                repairs.faults[*fault as usize].encode(family.encode_family(&[("type", *text)])?)?;
            }
            let name = format!("apiserver_{sort}_repair_reconcile_errors");
            let help = "Times that something could not be mended";
            repairs.failures.encode(encoder.encode_descriptor(&name, help, None, MetricType::Counter)?)?;
        }
        let help = "Picks for Services that the store refused because something had changed, and that were made again";
        self.lost.encode(encoder.encode_descriptor("cadastre_service_picks_lost", help, None, MetricType::Counter)?)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    fn text(meters: &Arc<Meters>) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Arc::clone(meters)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn everything_is_there_before_anything_was_counted() {
        let meters = Arc::new(Meters::default());
        let _range = meters.of("10.0.0.0/24");
        let text = text(&meters);
        for line in [
            "kube_apiserver_clusterip_allocator_allocation_total{cidr=\"10.0.0.0/24\",scope=\"static\"} 0",
            "kube_apiserver_clusterip_allocator_allocation_total{cidr=\"10.0.0.0/24\",scope=\"dynamic\"} 0",
            "kube_apiserver_clusterip_allocator_allocation_errors_total{cidr=\"10.0.0.0/24\",scope=\"static\"} 0",
            "kube_apiserver_clusterip_allocator_allocation_duration_seconds_count{cidr=\"10.0.0.0/24\"} 0",
            "kube_apiserver_clusterip_allocator_allocation_duration_seconds_bucket{le=\"0.005\",cidr=\"10.0.0.0/24\"} 0",
            "kube_apiserver_nodeport_allocator_allocation_total{scope=\"dynamic\"} 0",
            "kube_apiserver_nodeport_allocator_allocation_errors_total{scope=\"static\"} 0",
            "apiserver_nodeport_repair_reconcile_errors_total 0",
            "apiserver_clusterip_repair_reconcile_errors_total 0",
            "apiserver_clusterip_repair_ip_errors_total{type=\"invalid\"} 0",
            "cadastre_service_picks_lost_total 0",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        for sort in ["leak", "repair", "full", "outOfRange", "duplicate", "unknown"] {
            assert!(
                text.contains(&format!("apiserver_nodeport_repair_port_errors_total{{type=\"{sort}\"}} 0")),
                "{sort}"
            );
        }
    }

    #[test]
    fn ranges_that_are_written_alike_are_counted_together_and_forgotten_with_the_last() {
        let meters = Arc::new(Meters::default());
        let (one, other) = (meters.of("10.0.0.0/24"), meters.of("10.0.0.0/24"));
        one.grant(Scope::Static, Duration::from_millis(7));
        other.grant(Scope::Static, Duration::from_millis(7));
        drop(one);
        meters.prune();
        let both = "allocation_total{cidr=\"10.0.0.0/24\",scope=\"static\"} 2";
        assert!(text(&meters).contains(both));
        drop(other);
        meters.prune();
        assert!(!text(&meters).contains("cidr"));
    }
}
