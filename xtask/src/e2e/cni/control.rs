//! A row of a table on the real whereabouts: the judge of the tables.

use anyhow::{Result, ensure};
use serde_json::Value;
use testkit::real::Plugin;

use super::side::{Side, Who, network};
use super::vector::{Mode, Vector};
use crate::pods::NODE;
use crate::pods::whereabouts::{self, Whereabouts};

/// The modes in which whereabouts is asked.
pub(super) const MODES: [Mode; 2] = [Mode::Pooled, Mode::Sliced];

/// The `NodeSlicePool` of a row.
pub(super) fn slice_pool(namespace: &str, vector: &Vector) -> Value {
    let range = vector.ranges.first().map_or("", String::as_str);
    let size = vector.ipam.get("node_slice_size").and_then(Value::as_str).unwrap_or("/26");
    let slices = vector.slices.first().into_iter().flatten();
    let given: Vec<_> = slices.map(|slice| (NODE.to_owned(), slice.clone())).collect();
    whereabouts::slice_pool(namespace, network(vector), range, size, &given)
}

/// Runs a row on whereabouts, in a namespace that is there.
pub(super) fn run(control: &Whereabouts, namespace: &str, vector: &Vector) -> Result<Vec<String>> {
    judged(control, namespace, vector, Who::Theirs, control.plugin(NODE))
}

/// Runs a row on a plugin, which shares the pools of that namespace with others.
pub(super) fn judged(
    control: &Whereabouts,
    namespace: &str,
    vector: &Vector,
    who: Who,
    plugin: Plugin,
) -> Result<Vec<String>> {
    let ipam = control.ipam(namespace, &vector.flat)?;
    let excused = Side { who, plugin, ipam }.run(vector)?;
    if let Some(pools) = &vector.pools {
        let found = control.pools(namespace)?;
        ensure!(found == *pools, "\"{}\": expected the IPPools {pools:?}, and there are {found:?}", vector.name);
    }
    Ok(excused)
}
