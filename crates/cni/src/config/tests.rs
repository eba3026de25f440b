//! Configurations, right and wrong.

use serde_json::json;

use super::*;

fn conf_of(tree: &Value) -> Result<Conf, Failure> {
    Conf::read(tree.to_string().as_bytes(), |_| Ok(None))
}

fn with(ipam: Value) -> Value {
    let mut ipam = ipam;
    if ipam["type"].is_null() {
        ipam["type"] = "cadastre".into();
    }
    json!({"cniVersion": "1.1.0", "name": "mynet", "type": "macvlan", "master": "eth0", "ipam": ipam})
}

fn settings_of(ipam: Value) -> Result<Settings, Failure> {
    conf_of(&with(ipam))?.settings(&[], &[])
}

#[test]
fn either_type_means_this_plugin_and_no_other_does() {
    for kind in TYPES {
        assert!(conf_of(&with(json!({"type": kind}))).is_ok());
    }
    let refused = conf_of(&with(json!({"type": "host-local"}))).unwrap_err();
    assert_eq!(refused.code, Code::Config);
    assert!(refused.message.starts_with("ipam.type: only interested in networks whose IPAM type"), "{refused}");
}

#[test]
fn each_flaw_is_told_with_its_code_and_field() {
    let cases = [
        ("{", Code::Decode, "no JSON: "),
        ("[]", Code::Decode, "no JSON object"),
        ("", Code::Decode, "no JSON"),
        (r#"{"cniVersion": "1.0.0"}"#, Code::Config, "name: missing network name"),
        (r#"{"name": 7}"#, Code::Config, "name: text was expected, not 7"),
        (r#"{"name": "a b"}"#, Code::Config, "name: invalid characters"),
        (r#"{"name": "../a"}"#, Code::Config, "name: invalid characters"),
        (r#"{"name": "a", "cniVersion": "9.9.9"}"#, Code::IncompatibleVersion, "cniVersion: incompatible CNI versions"),
        (r#"{"name": "a", "cniVersion": 1}"#, Code::Config, "cniVersion: text was expected, not 1"),
        (r#"{"name": "a"}"#, Code::Config, "ipam: missing"),
        (r#"{"name": "a", "ipam": null}"#, Code::Config, "ipam: missing"),
        (r#"{"name": "a", "ipam": "dhcp"}"#, Code::Config, "ipam: an object was expected, not \"dhcp\""),
        (r#"{"name": "a", "ipam": {}}"#, Code::Config, "ipam.type: "),
    ];
    for (text, code, told) in cases {
        let refused = Conf::read(text.as_bytes(), |_| Ok(None)).unwrap_err();
        assert_eq!(refused.code, code, "{text}");
        assert!(refused.message.contains(told), "{text}: {refused}");
    }
    let long = json!({"name": "a".repeat(256), "ipam": {"type": "cadastre"}});
    assert_eq!(conf_of(&long).unwrap_err().message, "name: longer than 255 bytes");
    for (ipam, told) in [
        (json!({"network_name": "Not_DNS"}), "ipam.network_name: "),
        (json!({"network_name": "../up"}), "ipam.network_name: "),
        (json!({"network_name": "-a"}), "ipam.network_name: "),
        (json!({"fast_ipam": "yes"}), "ipam.fast_ipam: true or false was expected, not \"yes\""),
        (json!({"state_dir": 1}), "ipam.state_dir: text"),
        (json!({"range": "abc"}), "ipam.range: abc: "),
        (json!({"ipRanges": {}}), "ipam.ipRanges: a list"),
        (json!({"ipRanges": [5]}), "ipam.ipRanges[0]: an object"),
        (json!({"ipRanges": [{"range": "10.0.0.0/24"}, {}]}), "ipam.ipRanges[1].range: missing"),
        (json!({"ipRanges": [{"range": "10.0.0.0/24", "exclude": ["x"]}]}), "ipam.ipRanges[0].exclude[0]: x: "),
        (json!({"ipRanges": [{"range": "10.0.0.0/24", "range_end": "x"}]}), "ipam.ipRanges[0].range_end: x: "),
        (json!({"ipRanges": [{"range": "10.0.0.0/24"}], "node_slice_size": "/8"}), "ipam.node_slice_size: no slice of"),
        (json!({"ipRanges": vec![json!({"range": "10.0.0.0/24"}); 257]}), "ipam.ipRanges: 257 are too many"),
        (json!({"gateway": "ten"}), "ipam.gateway: ten: "),
        (json!({"routes": [{"dst": "0.0.0.0/0"}, {"dst": "x"}]}), "ipam.routes[1].dst: x: "),
        (json!({"routes": [{"dst": "0.0.0.0/0", "gw": "x"}]}), "ipam.routes[0].gw: x: "),
        (json!({"dns": []}), "ipam.dns: an object"),
        (json!({"dns": {"nameservers": [1]}}), "ipam.dns.nameservers[0]: text"),
        (
            json!({"addresses": [{"address": "10.0.0.1"}]}),
            "ipam.addresses[0].address: 10.0.0.1: it has no prefix length",
        ),
        (json!({"addresses": [{"address": "10.0.0.1/8", "gateway": "x"}]}), "ipam.addresses[0].gateway: x: "),
        (json!({"allocation": "random"}), "ipam.allocation: random is neither"),
        (json!({"cooldown": -1}), "ipam.cooldown: a number"),
        (json!({"cooldown": 1_000_000}), "ipam.cooldown: 1000000 s is too long"),
        (json!({"grant_max_age": "1h"}), "ipam.grant_max_age: a number"),
        (json!({"enable_overlapping_ranges": 1}), "ipam.enable_overlapping_ranges: true or false"),
        (json!({"kubernetes": {"kubeconfig": []}}), "ipam.kubernetes.kubeconfig: text"),
    ] {
        let refused = settings_of(ipam).unwrap_err();
        assert_eq!(refused.code, Code::Config, "{told}");
        assert!(refused.message.starts_with(told), "{told}: {refused}");
    }
}

#[test]
fn slices_are_switched_on_by_either_field_and_off_by_one() {
    for (ipam, is_sliced) in [
        (json!({}), false),
        (json!({"node_slice_size": ""}), false),
        (json!({"node_slice_size": "/22"}), true),
        (json!({"fast_ipam": true}), true),
        (json!({"fast_ipam": false, "node_slice_size": "/22"}), false),
        (json!({"Fast_IPAM": true, "NODE_SLICE_SIZE": "/22"}), true),
    ] {
        assert_eq!(conf_of(&with(ipam.clone())).unwrap().is_sliced, is_sliced, "{ipam}");
    }
}

#[test]
fn a_network_has_its_own_name_or_that_of_the_configuration() {
    let conf = conf_of(&with(json!({"network_name": "shared.net-1", "state_dir": "/s"}))).unwrap();
    assert_eq!((conf.network.as_str(), conf.is_named, conf.state_dir.as_str()), ("shared.net-1", true, "/s"));
    let conf = conf_of(&with(json!({}))).unwrap();
    assert_eq!((conf.network.as_str(), conf.is_named), ("mynet", false));
}

#[test]
fn ranges_are_in_order_and_the_first_one_comes_first() {
    let both = json!({
        "range": "192.168.1.0/24",
        "exclude": ["192.168.1.0/28"],
        "ipRanges": [{"range": "192.168.2.0/24", "exclude": ["192.168.2.9"]}, {"range": "fd00::/64", "node_slice_size": "/96"}],
        "node_slice_size": "/28",
    });
    let ranges = settings_of(both).unwrap().ranges;
    let texts: Vec<String> = ranges.iter().map(|range| range.cidr.to_string()).collect();
    assert_eq!(texts, ["192.168.1.0/24", "192.168.2.0/24", "fd00::/64"]);
    let excluded: Vec<usize> = ranges.iter().map(|range| range.excluded.len()).collect();
    assert_eq!(excluded, [1, 1, 0]);
    let slices: Vec<Option<u8>> = ranges.iter().map(|range| range.slice_length).collect();
    assert_eq!(slices, [Some(28), Some(28), Some(96)]);

    // Without a range of its own, what is excluded at the top is meant for those that there are.
    let only =
        json!({"exclude": ["192.168.2.0/28"], "ipRanges": [{"range": "192.168.2.0/24"}, {"range": "fd00::/64"}]});
    let excluded: Vec<usize> = settings_of(only).unwrap().ranges.iter().map(|range| range.excluded.len()).collect();
    assert_eq!(excluded, [1, 0]);
}

#[test]
fn keys_are_found_whatever_their_case_and_unknown_ones_are_passed_over() {
    let text = r#"{"CNIVersion": "0.3.1", "Name": "n", "IPAM": {"Type": "whereabouts", "RANGE": "10.0.0.0/24",
        "GateWay": "010.0.0.1", "etcd_host": "x", "leader_lease_duration": 1500, "log_file": "/dev/null", "new": [1]}}"#;
    let conf = Conf::read(text.as_bytes(), |_| Ok(None)).unwrap();
    let settings = conf.settings(&[], &[]).unwrap();
    assert_eq!(conf.version, Version::V0_3_1);
    assert_eq!(settings.ranges.len(), 1);
    assert_eq!(settings.gateway, Some("10.0.0.1".parse().unwrap()));
    assert!(settings.overlapping, "on unless it is switched off");
}

#[test]
fn the_shared_file_fills_in_and_is_not_needed() {
    let text = with(json!({"configuration_path": "/shared", "range": "10.0.0.0/24"})).to_string();
    let shared = json!({"range": "10.9.0.0/16", "network_name": "all", "node_slice_size": "/26", "state_dir": "/s",
        "kubernetes": {"kubeconfig": "/k"}, "enable_overlapping_ranges": false});
    let conf = Conf::read(text.as_bytes(), |path| {
        assert_eq!(path, "/shared");
        Ok(Some(("/shared".into(), shared.to_string())))
    });
    let conf = conf.unwrap();
    let settings = conf.settings(&[], &[]).unwrap();
    assert_eq!((conf.network.as_str(), conf.is_sliced, conf.state_dir.as_str()), ("all", true, "/s"));
    assert_eq!(settings.ranges[0].cidr.to_string(), "10.0.0.0/24");
    assert_eq!(conf.kubeconfig().unwrap(), "/k");
    assert!(settings.overlapping, "what the shared file says of this has never counted");
}

#[test]
fn requests_come_from_everywhere_and_count_once() {
    let mut tree = with(json!({"range": "10.0.0.0/24"}));
    tree["runtimeConfig"] = json!({"ips": ["10.0.0.9/24", "10.0.0.7"]});
    tree["args"] = json!({"cni": {"ips": ["10.0.0.8"]}});
    let conf = conf_of(&tree).unwrap();
    let settings = conf.settings(&["10.0.0.7".parse().unwrap()], &[]).unwrap();
    let texts: Vec<String> = settings.requested.iter().map(IpAddr::to_string).collect();
    assert_eq!(texts, ["10.0.0.7", "10.0.0.9", "10.0.0.8"]);
    tree["args"]["cni"]["ips"] = json!(["ten"]);
    assert!(conf_of(&tree).unwrap().settings(&[], &[]).unwrap_err().message.starts_with("args.cni.ips[0]: ten: "));
    tree["args"] = Value::Null;
    tree["runtimeConfig"]["ips"] = json!("10.0.0.1");
    assert!(conf_of(&tree).unwrap().settings(&[], &[]).unwrap_err().message.starts_with("runtimeConfig.ips: a list"));
}

#[test]
fn old_versions_have_room_for_one_address_of_each_family() {
    let ranges = json!([{"range": "10.0.0.0/24"}, {"range": "10.1.0.0/24"}]);
    let mixed = json!([{"range": "10.0.0.0/24"}, {"range": "fd00::/64"}]);
    for (version, ipam, refused) in [
        ("0.2.0", json!({"ipRanges": ranges}), Some("ipam.ipRanges: cniVersion 0.2.0 has room for one IPv4 address")),
        ("", json!({"ipRanges": ranges}), Some("ipam.ipRanges: cniVersion 0.1.0 has room for one IPv4 address")),
        ("0.3.0", json!({"ipRanges": ranges}), None),
        ("0.2.0", json!({"ipRanges": mixed}), None),
        (
            "0.2.0",
            json!({"addresses": [{"address": "fd00::1/64"}, {"address": "fd00::2/64"}]}),
            Some("ipam.addresses: cniVersion 0.2.0 has room for one IPv6 address"),
        ),
    ] {
        let mut tree = with(ipam);
        tree["cniVersion"] = version.into();
        let answer = conf_of(&tree).unwrap().settings(&[], &[]);
        match refused {
            None => assert!(answer.is_ok(), "{answer:?}"),
            Some(told) => assert!(answer.unwrap_err().message.starts_with(told), "{told}"),
        }
    }
}

#[test]
fn an_empty_list_of_attachments_is_not_the_same_as_none() {
    let mut tree = with(json!({}));
    assert_eq!(conf_of(&tree).unwrap().valid_attachments(), Ok(None));
    tree["cni.dev/valid-attachments"] = Value::Null;
    assert_eq!(conf_of(&tree).unwrap().valid_attachments(), Ok(None));
    tree["cni.dev/valid-attachments"] = json!([]);
    assert_eq!(conf_of(&tree).unwrap().valid_attachments(), Ok(Some(Vec::new())));
    tree["cni.dev/valid-attachments"] = json!([{"containerID": "c", "ifname": "net1"}]);
    assert_eq!(conf_of(&tree).unwrap().valid_attachments(), Ok(Some(vec![("c".into(), "net1".into())])));
    tree["cni.dev/valid-attachments"] = json!(["c"]);
    assert!(
        conf_of(&tree).unwrap().valid_attachments().unwrap_err().message.starts_with("cni.dev/valid-attachments[0]: ")
    );
    let mut tree = with(json!({}));
    tree["cni.dev/attachments"] = json!([{"containerID": "c", "ifname": "net1"}]);
    assert_eq!(conf_of(&tree).unwrap().valid_attachments(), Ok(Some(vec![("c".into(), "net1".into())])));
    tree["cni.dev/valid-attachments"] = json!([]);
    assert_eq!(
        conf_of(&tree).unwrap().valid_attachments(),
        Ok(Some(Vec::new())),
        "the name of the specification counts"
    );
}

#[test]
fn addresses_keep_their_own_part_and_gateways_find_their_network() {
    let ipam = json!({"addresses": [{"address": "10.0.0.5/24"}, {"address": "fd00::5/64", "gateway": "fd00::1"}]});
    let conf = conf_of(&with(ipam)).unwrap();
    let settings = conf.settings(&[], &["10.0.0.254".parse().unwrap()]).unwrap();
    assert_eq!(settings.addresses[0].ip.to_string(), "10.0.0.5/24");
    assert_eq!(settings.addresses[0].gateway, Some("10.0.0.254".parse().unwrap()));
    assert_eq!(settings.addresses[1].gateway, Some("fd00::1".parse().unwrap()));
}

mod random {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[0-9./:a-f-]{0,24}",
            "\\PC{0,12}",
            Just("10.0.0.0/24".to_owned()),
            Just("10.0.0.9-10.0.0.1/24".to_owned()),
            Just("fd00::/64".to_owned()),
            Just("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/0".to_owned()),
            Just("/128".to_owned()),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        let key = prop::sample::select(vec![
            "range",
            "range_start",
            "range_end",
            "exclude",
            "ipRanges",
            "gateway",
            "routes",
            "dst",
            "gw",
            "dns",
            "addresses",
            "address",
            "network_name",
            "node_slice_size",
            "fast_ipam",
            "allocation",
            "cooldown",
            "kubernetes",
            "ips",
            "Range",
            "nameservers",
            "grant_max_age",
            "state_dir",
            "containerID",
            "ifname",
            "enable_overlapping_ranges",
        ]);
        leaf.prop_recursive(3, 24, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((key.clone(), inner), 0..6).prop_map(|fields| fields
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect::<Map<_, _>>()
                    .into()),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_configuration_makes_reading_panic_and_every_refusal_names_something(ipam in value(), other in value(), shared in value()) {
            let mut tree = with(json!({}));
            if let (Value::Object(fields), Value::Object(into)) = (ipam, &mut tree["ipam"]) {
                into.extend(fields);
            }
            for key in ["runtimeConfig", "args", "prevResult", "cni.dev/valid-attachments"] {
                tree[key] = other.clone();
            }
            let answer = Conf::read(tree.to_string().as_bytes(), |_| Ok(Some(("flat".into(), shared.to_string()))));
            let all = answer.and_then(|conf| {
                conf.previous()?;
                conf.valid_attachments()?;
                conf.settings(&[], &[])
            });
            match all {
                Ok(settings) => for range in settings.ranges {
                    prop_assert!(range.span.first <= range.span.last);
                    prop_assert!(Span::of(range.cidr).has(range.span.first) && Span::of(range.cidr).has(range.span.last));
                },
                Err(refused) => prop_assert!(refused.message.contains(": "), "{}", refused),
            }
        }

        #[test]
        fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let refused = Conf::read(&bytes, |_| Ok(None)).unwrap_err();
            prop_assert!(matches!(refused.code, Code::Decode | Code::Config));
        }
    }
}
