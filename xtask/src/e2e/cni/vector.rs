//! What is asked of a plugin and what it must answer, as data: the tables in `vectors/`.
//!
//! A row is a network and some calls. What it expects holds for the real whereabouts and for ours; where the two differ, the call
//! says what the real one answers, and names the row of docs/reference/whereabouts.md that has the reason.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The tables, by name.
const TABLES: [(&str, &str); 5] = [
    ("addresses", include_str!("vectors/addresses.toml")),
    ("attachments", include_str!("vectors/attachments.toml")),
    ("config", include_str!("vectors/config.toml")),
    ("protocol", include_str!("vectors/protocol.toml")),
    ("slices", include_str!("vectors/slices.toml")),
];

/// How the addresses of a network come to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mode {
    /// All nodes share the ranges: each address is an entry of an `IPPool`.
    Pooled,
    /// The node holds a slice of each range that is the whole of it. Only ours is asked, and must answer as in a pool.
    Whole,
    /// The node holds the slices that the row names.
    Sliced,
}

impl Mode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pooled => "pooled",
            Self::Whole => "whole",
            Self::Sliced => "sliced",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    vector: Vec<Vector>,
}

/// One row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vector {
    pub(super) name: String,
    #[serde(default = "in_a_pool_or_a_whole_slice")]
    pub(super) modes: Vec<Mode>,
    /// The ranges of the network, as prefixes.
    #[serde(default)]
    pub(super) ranges: Vec<String>,
    /// The slices that the node holds of each of them, in the same order.
    #[serde(default)]
    pub(super) slices: Vec<Vec<String>>,
    /// `ipam` of the configuration, but for what every network has.
    #[serde(default)]
    pub(super) ipam: Map<String, Value>,
    /// The rest of the configuration, but for what every network has.
    #[serde(default)]
    pub(super) conf: Map<String, Value>,
    /// The file that all networks share.
    #[serde(default)]
    pub(super) flat: Map<String, Value>,
    pub(super) steps: Vec<Step>,
    /// The `IPPool`s that there are afterwards, where there is an API server.
    pub(super) pools: Option<Vec<String>>,
}

/// One call, or several alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// The command.
    #[serde(default = "add")]
    pub(super) call: String,
    /// The name of the pod; its container has the same, unless `container` says otherwise.
    #[serde(default = "a")]
    pub(super) pod: String,
    pub(super) container: Option<String>,
    #[serde(default = "net1")]
    pub(super) ifname: String,
    /// Variables instead of the usual ones; one that is empty is not set.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// What comes into `ipam` for this call.
    #[serde(default)]
    pub(super) ipam: Map<String, Value>,
    /// What comes into the configuration for this call.
    #[serde(default)]
    pub(super) conf: Map<String, Value>,
    /// What is on stdin instead of the configuration.
    pub(super) stdin: Option<String>,
    /// Whether the configuration has what the latest ADD answered, as `prevResult`.
    #[serde(default)]
    pub(super) previous: bool,
    /// One ADD after the other, of pods that were not there before, and the address that each gets.
    #[serde(default)]
    pub(super) each: Vec<String>,
    /// What is answered; nothing, and success, if it is not said.
    #[serde(default)]
    pub(super) gives: Answer,
    /// What the real whereabouts answers instead.
    pub(super) theirs: Option<Answer>,
    /// Why that is: a row of the page.
    pub(super) because: Option<String>,
}

/// What a call answers.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    /// The addresses of a result, in order.
    pub(super) ips: Option<Vec<String>>,
    /// Their gateways; empty for none.
    pub(super) gateways: Option<Vec<String>>,
    /// The whole answer.
    pub(super) json: Option<Value>,
    /// The code of an error.
    pub(super) code: Option<u64>,
    /// What its message contains.
    #[serde(default)]
    pub(super) says: String,
    /// That it falls over, with this exit code and no answer at all.
    pub(super) dies: Option<i32>,
}

fn in_a_pool_or_a_whole_slice() -> Vec<Mode> {
    vec![Mode::Pooled, Mode::Whole]
}

fn add() -> String {
    "ADD".to_owned()
}

fn a() -> String {
    "a".to_owned()
}

fn net1() -> String {
    "net1".to_owned()
}

/// All rows, with the table that each is in.
pub(super) fn all() -> Result<Vec<(&'static str, Vector)>> {
    let mut all = Vec::new();
    for (name, text) in TABLES {
        let table: Table = toml::from_str(text).with_context(|| format!("vectors/{name}.toml"))?;
        all.extend(table.vector.into_iter().map(|vector| (name, vector)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::process;

    #[test]
    fn every_difference_is_a_row_of_the_page_and_every_row_is_a_difference() {
        let mut named = BTreeSet::new();
        for (table, vector) in all().unwrap() {
            for step in &vector.steps {
                let at = format!("{table}: {}", vector.name);
                assert_eq!(step.theirs.is_some(), step.because.is_some(), "{at}");
                assert_ne!(step.theirs.as_ref(), Some(&step.gives), "{at}: no difference");
                named.extend(step.because.clone());
            }
        }
        let page = fs::read_to_string(process::repo_root().join("docs/reference/whereabouts.md")).unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
        let rows: Vec<_> = rows.map(|(name, _)| name.to_owned()).collect();
        assert_eq!(rows.iter().cloned().collect::<BTreeSet<_>>(), named);
        assert_eq!(rows.len(), named.len(), "a row is there twice");
    }

    #[test]
    fn rows_have_names_of_their_own_and_slices_where_they_need_them() {
        let all = all().unwrap();
        let names: BTreeSet<_> = all.iter().map(|(table, vector)| (table, &vector.name)).collect();
        assert_eq!(names.len(), all.len());
        for (_, vector) in &all {
            let sliced = vector.modes.contains(&Mode::Sliced);
            assert_eq!(sliced, !vector.slices.is_empty(), "{}", vector.name);
            assert!(!sliced || vector.slices.len() == vector.ranges.len(), "{}", vector.name);
        }
    }
}
