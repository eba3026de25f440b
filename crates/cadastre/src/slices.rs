//! The flags of the controller of slices that `up` and `controller slice` share.

use std::time::Duration;

use clap::Args;
use controllers::slice::plan::Settings;

use crate::time::time;

/// The Lease of those that give nodes their slices.
pub(crate) const LEASE: &str = "cadastre-slices";

#[derive(Args)]
pub(crate) struct Slices {
    /// The namespace of `NodeSlicePool`s and `IPPool`s, the one that whereabouts' kubeconfig names
    #[arg(
        long,
        visible_alias = "namespace",
        value_name = "NAME",
        default_value = "kube-system",
        help_heading = HEADING
    )]
    slice_namespace: String,
    /// How long the slices of a node that is gone rest, at least, before they go to others. So long, and 60 s at least, the controller also
    /// leaves what pods that are gone have of ranges that all nodes share: their containers may run on where no agent says so
    #[arg(long, value_name = "TIME", default_value = "5m0s", value_parser = time, help_heading = HEADING)]
    slice_quarantine: Duration,
}

const HEADING: &str = "Slices of secondary networks";

impl Slices {
    /// How the controller is meant to work.
    pub(crate) fn settings(&self) -> Settings {
        let quarantine = i64::try_from(self.slice_quarantine.as_secs()).unwrap_or(i64::MAX);
        Settings { namespace: self.slice_namespace.clone(), quarantine, ..Settings::default() }
    }
}
