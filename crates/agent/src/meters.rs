//! What is counted of the agent, and how it is shown.

use std::sync::Mutex;
use std::sync::PoisonError;

use cni::journal::Reason;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::plan::Figures;

type Labels = Vec<(&'static str, String)>;

/// See the module. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Meters {
    slices: Family<Labels, Gauge>,
    addresses: Family<Labels, Gauge>,
    held: Family<Labels, Gauge>,
    causes: Family<Labels, Gauge>,
    reclaimed: Family<Labels, Counter>,
    reserved: Counter,
    settled: Counter,
    mended: Counter,
    writes: Counter,
    failures: Counter,
    reads: Counter,
    dropped: Counter,
    relayed: Counter,
    refused: Counter,
    shown: std::sync::Arc<Mutex<Figures>>,
}

impl Meters {
    /// What there is now.
    pub fn show(&self, figures: Figures) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if *shown == figures {
            return;
        }
        for family in [&self.slices, &self.addresses, &self.held, &self.causes] {
            family.clear();
        }
        for (network, (slices, addresses, held)) in &figures.networks {
            let labels: Labels = vec![("network", network.clone())];
            self.slices.get_or_create(&labels).set(i64::try_from(*slices).unwrap_or(i64::MAX));
            self.addresses.get_or_create(&labels).set(i64::try_from(*addresses).unwrap_or(i64::MAX));
            self.held.get_or_create(&labels).set(i64::try_from(*held).unwrap_or(i64::MAX));
        }
        for (reason, count) in &figures.causes {
            let labels: Labels = vec![("reason", (*reason).to_owned())];
            self.causes.get_or_create(&labels).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        *shown = figures;
    }

    /// An address is free again although no DEL came.
    pub fn reclaimed(&self, reason: Reason) {
        let reason = match reason {
            Reason::NetnsGone => "namespace",
            Reason::Rebooted => "reboot",
            Reason::PodGone => "pod",
            Reason::Foreign => "ippool",
            Reason::Del | Reason::Gc | Reason::Replaced => "runtime",
        };
        self.reclaimed.get_or_create(&vec![("reason", reason.to_owned())]).inc();
    }

    /// An address that somebody else wrote into a pool is reserved.
    pub fn reserved(&self) {
        self.reserved.inc();
    }

    /// So much that was owed to shared pools is not any more.
    pub fn settled(&self, count: usize) {
        self.settled.inc_by(count as u64);
    }

    /// A journal was written anew.
    pub fn mended(&self) {
        self.mended.inc();
    }

    /// Something was written to the API, or was not.
    pub fn wrote(&self, is_made: bool) {
        if is_made { &self.writes } else { &self.failures }.inc();
    }

    /// A `NodeSlicePool` was read in full.
    pub fn read_pool(&self) {
        self.reads.inc();
    }

    /// An event was dropped because too many waited.
    pub fn dropped_event(&self) {
        self.dropped.inc();
    }

    /// A request of a plugin was passed on, or refused.
    pub fn relayed(&self, is_passed_on: bool) {
        if is_passed_on { &self.relayed } else { &self.refused }.inc();
    }

    /// All of it, as Prometheus reads it.
    pub fn text(&self) -> String {
        let mut registry = Registry::with_prefix("cadastre_agent");
        for (name, help, family) in [
            ("slices", "Slices of the node, draining ones among them", &self.slices),
            ("addresses", "Addresses in the slices of the node", &self.addresses),
            ("addresses_held", "Addresses in the slices of the node that somebody holds", &self.held),
            ("conditions", "What somebody should know of, by the reason of its event", &self.causes),
        ] {
            registry.register(name, help, family.clone());
        }
        registry.register("reclaimed", "Holdings that ended without a DEL, by why", self.reclaimed.clone());
        for (name, help, counter) in [
            ("reserved", "Addresses that others wrote into IPPools and that were reserved", &self.reserved),
            ("debts_settled", "Attachments that were taken out of shared IPPools in place of a DEL", &self.settled),
            ("journals_mended", "Journals that were lost or damaged and written anew", &self.mended),
            ("writes", "Writes to the API that were made", &self.writes),
            ("write_failures", "Writes to the API that failed or of which nobody knows", &self.failures),
            ("pool_reads", "NodeSlicePools that were read in full", &self.reads),
            ("events_dropped", "Events that were not written because too many waited", &self.dropped),
            ("relayed", "Requests of plugins that were passed on to the API server", &self.relayed),
            ("relay_refusals", "Requests of plugins that were not passed on", &self.refused),
        ] {
            registry.register(name, help, counter.clone());
        }
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_what_should_be_known_are_shown_and_gone_ones_are_not() {
        let meters = Meters::default();
        let figures = Figures { networks: [("net".to_owned(), (2, 32, 5))].into(), causes: [("SlicesLow", 1)].into() };
        meters.show(figures);
        meters.reclaimed(Reason::NetnsGone);
        let text = meters.text();
        for line in [
            "cadastre_agent_addresses{network=\"net\"} 32",
            "cadastre_agent_addresses_held{network=\"net\"} 5",
            "cadastre_agent_conditions{reason=\"SlicesLow\"} 1",
            "cadastre_agent_reclaimed_total{reason=\"namespace\"} 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        meters.show(Figures::default());
        assert!(!meters.text().contains("network="));
    }
}
