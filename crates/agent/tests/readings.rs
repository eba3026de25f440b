//! The plugin and the controller of slices read one configuration, each with a reader of its own: both read one table here.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing to unwrap has failed")]

use api::slices::{SlicedNetwork, SlicedRange};
use cni::config::flat::Flat;
use cni::config::{Conf, RangeConf, Settings, Span, number};
use serde_json::{Value, json};
use space::Cidr;

const TABLE: &str = include_str!("../../api/src/slices/network/readings.json");
/// Ranges with more slices are held against each other by their sizes alone.
const MOST_SLICES: u128 = 64;

fn plugin(config: &Value) -> Result<Settings, String> {
    let conf = Conf::read(config.to_string().as_bytes(), |_| Ok(Flat::default())).map_err(|failure| failure.message)?;
    conf.settings(&[], &[]).map_err(|failure| failure.message)
}

fn slices(range: &SlicedRange) -> Vec<Cidr> {
    let few = |count: u128| 0..Some(count).filter(|count| *count <= MOST_SLICES).unwrap_or_default();
    match range {
        SlicedRange::V4(one) => {
            few(one.range.blocks(one.length)).map(|index| one.range.block(index, one.length).unwrap().into()).collect()
        }
        SlicedRange::V6(one) => {
            few(one.range.blocks(one.length)).map(|index| one.range.block(index, one.length).unwrap().into()).collect()
        }
    }
}

/// Whether the plugin could give an address of a slice.
fn has_one(settings: &Settings, range: &RangeConf, slice: Cidr) -> bool {
    let gateway = settings.gateway.map(number).filter(|(family, _)| *family == range.family()).map(|(_, at)| at);
    let is_free = |at: &u128| Some(*at) != gateway && !range.excluded.iter().any(|excluded| excluded.has(*at));
    range.span.and(Span::of(slice)).is_some_and(|span| (span.first..=span.last).any(|at| is_free(&at)))
}

#[test]
fn the_plugin_and_the_controller_of_slices_read_a_configuration_alike() {
    let table: Vec<Value> = serde_json::from_str(TABLE).unwrap();
    for row in table {
        let mut config = json!({"cniVersion": "1.0.0", "name": "net", "type": "macvlan", "ipam": row["ipam"]});
        config["ipam"]["type"] = json!("cadastre");
        let read =
            (plugin(&config), SlicedNetwork::read(&config.to_string(), "net").map_err(|fault| fault.to_string()));
        if let Some(field) = row["refused"].as_str() {
            for told in [read.0.map(drop).unwrap_err(), read.1.map(drop).unwrap_err()] {
                assert!(told.starts_with(&format!("ipam.{field}: ")), "{config}: {told}");
            }
            continue;
        }
        let (settings, network) = (read.0.unwrap(), read.1.unwrap().unwrap());
        assert_eq!(settings.ranges.len(), network.ranges.len(), "{config}");
        for (conf, range) in settings.ranges.iter().zip(&network.ranges) {
            assert_eq!((conf.cidr, conf.slice_length), (range.range(), Some(range.length())), "{config}");
            for slice in slices(range) {
                assert_eq!(range.contains(slice), has_one(&settings, conf, slice), "{config}: {slice}");
            }
        }
    }
}
