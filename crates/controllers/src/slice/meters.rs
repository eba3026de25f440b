//! What is counted of slices, and how it is shown.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::decide::Counts;
use crate::node::duty::State;
use crate::node::meters::about;

/// What the names of all but the slices themselves begin with.
const PREFIX: &str = "cadastre_slice_";

/// See the module.
#[derive(Debug, Default)]
pub struct Meters {
    networks: Mutex<BTreeMap<String, Counts>>,
    writes: Counter,
    failures: Counter,
    dropped: Counter,
    swept: Counter,
    released: Counter,
}

impl Meters {
    /// The networks are as they are given, and there are no others.
    pub(super) fn show<'a>(&self, networks: impl Iterator<Item = (&'a str, Counts)>) {
        let networks = networks.map(|(name, counts)| (name.to_owned(), counts)).collect();
        *self.networks.lock() = networks;
    }

    /// A write was made, or was not.
    pub(super) fn wrote(&self, is_made: bool) {
        let counter = if is_made { &self.writes } else { &self.failures };
        counter.inc();
    }

    /// An event was dropped because too many waited.
    pub(super) fn dropped(&self) {
        self.dropped.inc();
    }

    /// An entry of a pod that is gone was taken out.
    pub(super) fn swept(&self, entries: usize) {
        self.swept.inc_by(entries as u64);
    }

    pub(super) fn released(&self, is_gone: bool) {
        self.released.inc_by(u64::from(is_gone));
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>, state: State) -> fmt::Result {
        let help = "Slices of a network by what becomes of them";
        let mut family = encoder.encode_descriptor("cadastre_slices", help, None, MetricType::Gauge)?;
        for (network, counts) in &*self.networks.lock() {
            let Counts { granted, draining, quarantined, free, waiting, conflicting } = *counts;
            for (state, count) in [
                ("granted", granted as u128),
                ("draining", draining as u128),
                ("quarantined", quarantined as u128),
                ("free", free),
                ("waiting", waiting as u128),
                ("conflicting", conflicting as u128),
            ] {
                let labels = [("network", network.as_str()), ("state", state)];
                family.encode_family(&labels)?.encode_gauge(&about(count))?;
            }
        }
        let leading = Gauge::<i64>::default();
        leading.set((state == State::Serving).into());
        let help = "Whether it gives slices, and does not stand by for another that does";
        leading.encode(encoder.encode_descriptor(&format!("{PREFIX}leading"), help, None, MetricType::Gauge)?)?;
        for (name, help, counter) in [
            ("writes", "Writes of NodeSlicePools that were made", &self.writes),
            ("write_failures", "Writes of NodeSlicePools that failed or of which nobody knows", &self.failures),
            ("events_dropped", "Events that were not written because too many waited", &self.dropped),
            ("swept_entries", "Entries of pods that are gone, taken out of IPPools that all nodes share", &self.swept),
            ("released_reservations", "Reservations of pods that are gone, beside no entry, deleted", &self.released),
        ] {
            let name = format!("{PREFIX}{name}");
            counter.encode(encoder.encode_descriptor(&name, help, None, MetricType::Counter)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::duty::Report;
    use super::*;
    use crate::node::meters::text;

    #[test]
    fn networks_are_shown_by_what_becomes_of_their_slices_and_gone_ones_are_not() {
        let report = Arc::<Report>::default();
        let meters = &report.meters;
        let counts = Counts { granted: 5, draining: 1, quarantined: 2, free: 1 << 40, waiting: 3, conflicting: 4 };
        meters.show([("net", counts)].into_iter());
        meters.wrote(true);
        meters.wrote(false);
        meters.swept(2);
        meters.released(true);
        meters.released(false);
        let shown = text(Arc::clone(&report));
        for line in [
            r#"cadastre_slices{network="net",state="granted"} 5.0"#,
            r#"cadastre_slices{network="net",state="free"} 1099511627776.0"#,
            r#"cadastre_slices{network="net",state="waiting"} 3.0"#,
            r#"cadastre_slices{network="net",state="conflicting"} 4.0"#,
            "cadastre_slice_writes_total 1",
            "cadastre_slice_write_failures_total 1",
            "cadastre_slice_swept_entries_total 2",
            "cadastre_slice_released_reservations_total 1",
            "cadastre_slice_leading 0",
        ] {
            assert!(shown.lines().any(|other| other == line), "{line} is not in\n{shown}");
        }
        meters.show([].into_iter());
        assert!(!text(report).contains("network="));
    }
}
