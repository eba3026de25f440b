//! A row of a table on our plugin, on a node of its own.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::side::{Side, Who, network};
use super::vector::{Mode, Vector};
use crate::pods::node::{self, Held};

/// The modes in which ours is asked.
pub(super) const MODES: [Mode; 2] = [Mode::Whole, Mode::Sliced];

/// Runs a row on ours, on a node of its own in `folder`.
pub(super) fn run(binary: &Path, folder: &Path, mode: Mode, vector: &Vector) -> Result<Vec<String>> {
    let state = folder.join("state");
    let all = vector.ranges.iter().map(|range| (range.as_str(), vec![range.as_str()]));
    let some = vector.ranges.iter().zip(&vector.slices);
    let some = some.map(|(range, slices)| (range.as_str(), slices.iter().map(String::as_str).collect()));
    let held: Vec<Held<'_>> = if mode == Mode::Whole { all.collect() } else { some.collect() };
    if !held.is_empty() {
        node::grant(&state, network(vector), &held)?;
    }
    fs::create_dir_all(folder)?;
    let flat = folder.join("flat.conf");
    fs::write(&flat, Value::from(vector.flat.clone()).to_string())?;
    let mut ipam = Map::from_iter([("configuration_path".to_owned(), json!(flat))]);
    if mode == Mode::Whole {
        ipam.insert("fast_ipam".to_owned(), json!(true));
    }
    Side { who: Who::Ours, plugin: node::plugin(binary, &state), ipam }.run(vector)
}
