//! Configurations as people write them, right and wrong.

use serde_json::{Value, json};

use super::*;

fn read(config: &Value) -> Result<Option<SlicedNetwork>, String> {
    SlicedNetwork::read(&config.to_string(), "definition").map_err(|fault| fault.to_string())
}

/// A plain configuration with that part about addresses.
fn conf(ipam: Value) -> Value {
    let mut ipam = ipam;
    ipam["type"] = json!("whereabouts");
    json!({"cniVersion": "1.0.0", "name": "conf", "type": "macvlan", "ipam": ipam})
}

/// How the ranges are cut, in a few words.
fn cut(ipam: Value) -> String {
    let network = read(&conf(ipam)).unwrap().unwrap();
    let shown = |one: &SlicedRange| format!("{} by /{}", one.range(), one.length());
    network.ranges.iter().map(shown).collect::<Vec<_>>().join(", ")
}

fn useless(ipam: Value) -> String {
    let network = read(&conf(ipam)).unwrap().unwrap();
    let shown = |one: &SlicedRange| match one {
        SlicedRange::V4(slicing) => slicing.useless.iter().map(ToString::to_string).collect::<Vec<_>>(),
        SlicedRange::V6(slicing) => slicing.useless.iter().map(ToString::to_string).collect::<Vec<_>>(),
    };
    network.ranges.iter().flat_map(shown).collect::<Vec<_>>().join(" ")
}

fn refused(ipam: Value) -> String {
    read(&conf(ipam)).unwrap_err()
}

#[test]
fn slices_are_asked_for_by_a_size_or_by_the_switch() {
    let (range, size) = ("10.0.0.0/16", "/24");
    let asked = |ipam: Value| read(&conf(ipam)).unwrap().is_some();
    assert!(asked(json!({"range": range, "node_slice_size": size})));
    assert!(asked(json!({"range": range, "fast_ipam": true})));
    assert!(asked(json!({"Range": range, "Node_Slice_Size": size})), "Go does not mind the case of keys");
    assert!(!asked(json!({"range": range})));
    assert!(!asked(json!({"range": range, "fast_ipam": false, "node_slice_size": size})));
    for other in [
        json!({"name": "n", "type": "macvlan", "ipam": {"type": "host-local", "node_slice_size": "/24", "range": range}}),
        json!({"name": "n", "type": "macvlan", "ipam": {}}),
        json!({"name": "n", "type": "macvlan"}),
        json!({"name": "n", "plugins": [{"type": "macvlan"}, {"type": "tuning"}]}),
    ] {
        assert_eq!(read(&other), Ok(None), "{other}");
    }
    assert_eq!(SlicedNetwork::read("", "d"), Ok(None), "the configuration is in a file of the node");
    assert_eq!(SlicedNetwork::read("{", "d").unwrap_err().to_string(), "spec.config: it is no JSON object");
}

/// whereabouts#518: without a `network_name` a list had no name at all.
#[test]
fn the_network_has_a_name_in_lists_too() {
    let ipam = |more: Value| {
        let mut ipam = json!({"type": "cadastre", "range": "10.0.0.0/16", "node_slice_size": "/24"});
        for (name, value) in more.as_object().unwrap() {
            ipam[name] = value.clone();
        }
        ipam
    };
    let name = |config: Value| {
        let network = read(&config).unwrap().unwrap();
        (network.name, network.is_named)
    };
    let list = |name: &str, ipam: Value| json!({"name": name, "plugins": [{"type": "macvlan", "ipam": ipam}]});
    assert_eq!(name(json!({"name": "conf", "ipam": ipam(json!({}))})), ("conf".to_owned(), false));
    assert_eq!(name(json!({"name": "conf", "ipam": ipam(json!({"network_name": "net"}))})), ("net".to_owned(), true));
    assert_eq!(name(list("list", ipam(json!({})))), ("list".to_owned(), false));
    assert_eq!(name(list("list", ipam(json!({"network_name": "net"})))), ("net".to_owned(), true));
    assert_eq!(name(json!({"ipam": ipam(json!({}))})), ("definition".to_owned(), false));
    let second = json!({"name": "l", "plugins": [{"type": "x"}, {"type": "macvlan", "ipam": ipam(json!({}))}]});
    assert_eq!(name(second).0, "l");
    let upper = read(&json!({"name": "Conf", "ipam": ipam(json!({}))})).unwrap_err();
    assert!(upper.starts_with("name: \"Conf\" cannot be the name of objects: "), "{upper}");
    let upper = read(&list("l", ipam(json!({"network_name": "a_b"})))).unwrap_err();
    assert!(upper.starts_with("plugins[0].ipam.network_name: \"a_b\" cannot be the name of objects: "), "{upper}");
}

#[test]
fn ranges_of_either_family_are_cut_into_slices_of_their_size() {
    for (ipam, expected) in [
        (json!({"range": "10.0.0.5/8", "node_slice_size": "20"}), "10.0.0.0/8 by /20"),
        (json!({"range": "010.0.0.0/16", "node_slice_size": "/31"}), "10.0.0.0/16 by /31"),
        (json!({"range": "10.0.0.0/24", "node_slice_size": "/32"}), "10.0.0.0/24 by /32"),
        (json!({"range": "10.0.0.0/24", "node_slice_size": "/24"}), "10.0.0.0/24 by /24"),
        (json!({"range": "fd00::/48", "node_slice_size": "/64"}), "fd00::/48 by /64"),
        (json!({"range": "fd00::/120", "node_slice_size": "/128"}), "fd00::/120 by /128"),
        (json!({"range": "10.0.1.5-10.0.1.30/24", "node_slice_size": "/28"}), "10.0.1.0/24 by /28"),
        // A size for both families is said for IPv4; a range of a list may have one of its own.
        (
            json!({"ipRanges": [{"range": "10.0.0.0/16"}, {"range": "fd00::/64"}], "node_slice_size": "/26"}),
            "10.0.0.0/16 by /26, fd00::/64 by /122",
        ),
        (
            json!({
                "range": "fd00::/48", "ipRanges": [{"range": "10.0.0.0/16", "node_slice_size": "/24"}],
                "node_slice_size": "/64",
            }),
            "fd00::/48 by /64, 10.0.0.0/16 by /24",
        ),
        // The same range twice gives two addresses of the same slice.
        (
            json!({"range": "10.0.0.0/16", "ipRanges": [{"range": "10.0.0.0/16"}], "node_slice_size": "/26"}),
            "10.0.0.0/16 by /26",
        ),
        // Nobody says how large: 64 addresses, but a small range has sixteen slices.
        (json!({"range": "10.0.0.0/16", "fast_ipam": true}), "10.0.0.0/16 by /26"),
        (json!({"range": "10.0.0.0/24", "fast_ipam": true}), "10.0.0.0/24 by /28"),
        (json!({"range": "10.0.0.0/30", "fast_ipam": true}), "10.0.0.0/30 by /32"),
        (json!({"range": "fd00::/64", "fast_ipam": true}), "fd00::/64 by /122"),
    ] {
        assert_eq!(cut(ipam.clone()), expected, "{ipam}");
    }
}

/// whereabouts#666 and nv-ipam#154: exclusions count, and a slice without an address for pods is no slice.
#[test]
fn slices_that_have_no_address_for_a_pod_are_left_out() {
    let with = |more: Value| {
        let mut ipam = json!({"range": "10.0.0.0/26", "node_slice_size": "/28"});
        for (name, value) in more.as_object().unwrap() {
            ipam[name] = value.clone();
        }
        useless(ipam)
    };
    assert_eq!(with(json!({})), "");
    assert_eq!(with(json!({"exclude": ["10.0.0.16/28", "10.0.0.33"]})), "10.0.0.16/28");
    assert_eq!(with(json!({"range_start": "10.0.0.20", "range_end": "10.0.0.40"})), "10.0.0.0/28 10.0.0.48/28");
    assert_eq!(with(json!({"range_start": "10.0.1.20", "range_end": "fd00::1"})), "", "ignored, as the plugin does");
    assert_eq!(with(json!({"range": "10.0.0.0-10.0.0.63/26"})), "", "ends that no pod gets cut nothing off");
    assert_eq!(with(json!({"range": "10.0.0.20-10.0.0.40/26"})), "10.0.0.0/28 10.0.0.48/28");
    assert_eq!(with(json!({"node_slice_size": "/32", "gateway": "10.0.0.1"})), "10.0.0.0/31 10.0.0.63/32");
    assert_eq!(with(json!({"node_slice_size": "/32", "gateway": "fd00::1"})), "10.0.0.0/32 10.0.0.63/32");
}

#[test]
fn what_is_wrong_is_named_by_its_field() {
    for (ipam, expected) in [
        (json!({"fast_ipam": "yes"}), "ipam.fast_ipam: it is neither true nor false"),
        (json!({"node_slice_size": 24}), "ipam.node_slice_size: it is no text"),
        (
            json!({"fast_ipam": true}),
            "ipam.range: there is none to cut; what nodes add from files of their own does not count",
        ),
        (
            json!({"range": "10.0.0.0", "fast_ipam": true}),
            "ipam.range: \"10.0.0.0\" is no range: it has no prefix length",
        ),
        (
            json!({"range": "10.0.0.9-10.0.0.1/24", "fast_ipam": true}),
            "ipam.range: \"10.0.0.9-10.0.0.1/24\" ends before it begins",
        ),
        (json!({"range": "x-10.0.0.1/24", "fast_ipam": true}), "ipam.range: \"x\" is no address of 10.0.0.0/24"),
        (
            json!({"range": "10.0.0.5-10.0.1.1/24", "fast_ipam": true}),
            "ipam.range: \"10.0.0.5\" is no address of 10.0.1.0/24",
        ),
        (json!({"range": "10.0.0.0/24", "range_end": "x", "fast_ipam": true}), "ipam.range_end: \"x\" is no address"),
        (
            json!({"range": "10.0.0.0/16", "node_slice_size": "abc"}),
            "ipam.node_slice_size: \"abc\" is no prefix length, such as \"/26\"",
        ),
        (
            json!({"range": "10.0.0.0/16", "node_slice_size": "/8"}),
            "ipam.node_slice_size: a slice of /8 is larger than the range 10.0.0.0/16",
        ),
        (
            json!({"range": "10.0.0.0/16", "node_slice_size": "/33"}),
            "ipam.node_slice_size: /33 is longer than an address of 10.0.0.0/16",
        ),
        (
            json!({"ipRanges": [{"range": "10.0.0.0/16"}, {"range": "fd00::/64", "node_slice_size": "/60"}], "node_slice_size": "/24"}),
            "ipam.ipRanges[1].node_slice_size: a slice of /60 is larger than the range fd00::/64",
        ),
        (json!({"ipRanges": 5, "fast_ipam": true}), "ipam.ipRanges: it is no list"),
        (json!({"ipRanges": ["10.0.0.0/8"], "fast_ipam": true}), "ipam.ipRanges[0]: it is no object"),
        (
            json!({"ipRanges": [{"range": "10.0.0.0/24", "range_start": "x"}], "fast_ipam": true}),
            "ipam.ipRanges[0].range_start: \"x\" is no address",
        ),
        (
            json!({"range": "10.0.0.0/24", "exclude": ["10.0.0.0/25", 7], "fast_ipam": true}),
            "ipam.exclude[1]: 7 is no range: it has no prefix length",
        ),
        (json!({"range": "10.0.0.0/24", "exclude": "10.0.0.0/25", "fast_ipam": true}), "ipam.exclude: it is no list"),
        (json!({"range": "10.0.0.0/24", "node_selector": "a in", "fast_ipam": true}), "ipam.node_selector: "),
        (
            json!({"range": "10.0.0.0/24", "node_selector": 1, "fast_ipam": true}),
            "ipam.node_selector: it is neither text nor labels",
        ),
    ] {
        let found = refused(ipam.clone());
        assert!(found.starts_with(expected), "{ipam}: {found}");
    }
    let all = refused(json!({"range": "10.0.0.0/24", "exclude": ["10.0.0.0/16"], "fast_ipam": true}));
    assert!(all.starts_with("ipam.exclude: no slice of 10.0.0.0/24 is left: "), "{all}");
}

#[test]
fn nodes_are_chosen_by_text_or_by_labels() {
    let selector = |node_selector: Value| {
        let ipam = json!({"range": "10.0.0.0/24", "fast_ipam": true, "node_selector": node_selector});
        read(&conf(ipam)).unwrap().unwrap().selector.map(|selector| selector.to_string())
    };
    assert_eq!(selector(json!("zone in (a, b),!old")).as_deref(), Some("!old,zone in (a,b)"));
    assert_eq!(selector(json!({"zone": "a", "kind": "b"})).as_deref(), Some("kind=b,zone=a"));
    assert_eq!((selector(json!("")), selector(json!({})), selector(Value::Null)), (None, None, None));
}

#[test]
fn definitions_of_one_network_agree_or_differ_in_a_field() {
    let network = |ipam: Value| read(&conf(ipam)).unwrap().unwrap();
    let base = network(json!({"range": "10.0.0.0/24", "node_slice_size": "/28"}));
    for (ipam, expected) in [
        (json!({"range": "10.0.0.9/24", "node_slice_size": "28", "exclude": ["10.0.0.0/28"]}), None),
        (json!({"range": "10.0.0.0/23", "node_slice_size": "/28"}), Some("range")),
        (json!({"range": "10.0.0.0/24", "node_slice_size": "/29"}), Some("node_slice_size")),
        (json!({"range": "10.0.0.0/24", "node_slice_size": "/28", "node_selector": "a"}), Some("node_selector")),
    ] {
        assert_eq!(base.differs(&network(ipam.clone())), expected, "{ipam}");
    }
}

/// The plugin read `fd00::/64` by `/26` as /122, and the controller refused it; exclusions beside `ipRanges` counted for one of the two.
/// What is in the table is what the plugin does, whose reader is run on it as well, where both can be seen.
#[test]
fn sizes_and_exclusions_mean_what_they_mean_to_the_plugin() {
    let table: Vec<Value> = serde_json::from_str(include_str!("readings.json")).unwrap();
    for row in table {
        let ipam = &row["ipam"];
        let found = read(&conf(ipam.clone()));
        if let Some(field) = row["refused"].as_str() {
            let told = found.unwrap_err();
            assert!(told.starts_with(&format!("ipam.{field}: ")), "{ipam}: {told}");
            continue;
        }
        assert!(found.is_ok(), "{ipam}: {found:?}");
        assert_eq!(cut(ipam.clone()), row["cut"].as_str().unwrap(), "{ipam}");
        let network = found.unwrap().unwrap();
        let useless: Vec<String> = network.ranges.iter().flat_map(useless_of).collect();
        assert_eq!(useless.join(" "), row["useless"].as_str().unwrap_or_default(), "{ipam}");
    }
}

/// The slices of a small range that no pod could use.
fn useless_of(range: &SlicedRange) -> Vec<String> {
    let slices: Vec<Cidr> = match range {
        SlicedRange::V4(one) if one.range.blocks(one.length) <= 64 => {
            (0..one.range.blocks(one.length)).map(|at| one.range.block(at, one.length).unwrap().into()).collect()
        }
        SlicedRange::V6(one) if one.range.blocks(one.length) <= 64 => {
            (0..one.range.blocks(one.length)).map(|at| one.range.block(at, one.length).unwrap().into()).collect()
        }
        _ => Vec::new(),
    };
    slices.iter().filter(|slice| !range.contains(**slice)).map(ToString::to_string).collect()
}
