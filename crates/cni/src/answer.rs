//! What ADD answers, in the shape that each version of the protocol has.

use std::net::IpAddr;

use serde_json::{Map, Value, json};
use space::Cidr;

use crate::config::Settings;
use crate::journal::Ip;
use crate::version::Version;

/// The answer to an ADD that was given `ips`: those, then the addresses that the configuration fixes, and what goes with them.
pub fn answer(version: Version, settings: &Settings, ips: &[Ip]) -> Value {
    let given = ips.iter().map(|ip| (*ip, settings.gateway_of(*ip)));
    let fixed = settings.addresses.iter().map(|fixed| (fixed.ip, fixed.gateway));
    let all: Vec<(Ip, Option<IpAddr>)> = given.chain(fixed).collect();
    let mut object = Map::new();
    object.insert("cniVersion".to_owned(), version.text().into());
    if version < Version::V0_3_0 {
        for (key, is_v4) in [("ip4", true), ("ip6", false)] {
            let one = all.iter().find(|(ip, _)| ip.address.is_ipv4() == is_v4);
            if let Some((ip, gateway)) = one {
                object.insert(key.to_owned(), of_family(settings, *ip, *gateway));
            }
        }
    } else {
        let ips = all.iter().map(|(ip, gateway)| {
            let mut object = with_gateway(json!({"address": ip.to_string()}), *gateway);
            if version < Version::V1_0_0 {
                object["version"] = if ip.address.is_ipv4() { "4" } else { "6" }.into();
            }
            object
        });
        let ips: Vec<Value> = ips.collect();
        for (key, list) in [("ips", ips), ("routes", settings.routes.clone())] {
            if !list.is_empty() {
                object.insert(key.to_owned(), list.into());
            }
        }
    }
    if version < Version::V1_0_0 || !settings.dns.is_empty() {
        object.insert("dns".to_owned(), settings.dns.clone().into());
    }
    object.into()
}

/// Until 0.2.0 an address has the routes of its family with it.
fn of_family(settings: &Settings, ip: Ip, gateway: Option<IpAddr>) -> Value {
    let mut object = with_gateway(json!({"ip": ip.to_string()}), gateway);
    let is_mine = |route: &&Value| {
        let destination = Cidr::tolerant(route["dst"].as_str().unwrap_or_default());
        destination.is_ok_and(|read| matches!(read.value, Cidr::V4(_)) == ip.address.is_ipv4())
    };
    let routes: Vec<Value> = settings.routes.iter().filter(is_mine).cloned().collect();
    if !routes.is_empty() {
        object["routes"] = routes.into();
    }
    object
}

fn with_gateway(mut object: Value, gateway: Option<IpAddr>) -> Value {
    if let Some(gateway) = gateway {
        object["gateway"] = gateway.to_string().into();
    }
    object
}

/// JSON as people and other plugins are used to see it: indented by four.
pub fn pretty(value: &Value) -> String {
    let mut bytes = Vec::with_capacity(512);
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    // A tree in memory is written to memory: there is nothing that could fail.
    if serde::Serialize::serialize(value, &mut serializer).is_err() {
        return value.to_string();
    }
    String::from_utf8(bytes).unwrap_or_else(|_| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Static;

    fn settings() -> Settings {
        let fixed = |address: &str, length, gateway: Option<&str>| Static {
            ip: Ip { address: address.parse().unwrap(), length },
            gateway: gateway.map(|text| text.parse().unwrap()),
        };
        Settings {
            gateway: Some("10.0.0.1".parse().unwrap()),
            routes: vec![json!({"dst": "0.0.0.0/0"}), json!({"dst": "fd00:1::/64", "gw": "fd00::1"})],
            dns: json!({"nameservers": ["10.0.0.53"]}).as_object().unwrap().clone(),
            addresses: vec![fixed("192.168.9.9", 24, Some("192.168.9.1"))],
            ..Settings::default()
        }
    }

    fn ips() -> [Ip; 2] {
        [("10.0.0.7", 24), ("fd00::7", 64)].map(|(address, length)| Ip { address: address.parse().unwrap(), length })
    }

    #[test]
    fn from_1_0_addresses_do_not_say_their_family() {
        for version in [Version::V1_0_0, Version::V1_1_0] {
            let expected = json!({
                "cniVersion": version.text(),
                "ips": [
                    {"address": "10.0.0.7/24", "gateway": "10.0.0.1"},
                    {"address": "fd00::7/64"},
                    {"address": "192.168.9.9/24", "gateway": "192.168.9.1"},
                ],
                "routes": [{"dst": "0.0.0.0/0"}, {"dst": "fd00:1::/64", "gw": "fd00::1"}],
                "dns": {"nameservers": ["10.0.0.53"]},
            });
            assert_eq!(answer(version, &settings(), &ips()), expected);
        }
        assert_eq!(answer(Version::V1_1_0, &Settings::default(), &[]), json!({"cniVersion": "1.1.0"}));
    }

    #[test]
    fn from_0_3_they_do_and_there_is_always_a_dns() {
        for version in [Version::V0_3_0, Version::V0_3_1, Version::V0_4_0] {
            let settings = Settings { addresses: Vec::new(), dns: Map::new(), routes: Vec::new(), ..settings() };
            let expected = json!({
                "cniVersion": version.text(),
                "ips": [
                    {"version": "4", "address": "10.0.0.7/24", "gateway": "10.0.0.1"},
                    {"version": "6", "address": "fd00::7/64"},
                ],
                "dns": {},
            });
            assert_eq!(answer(version, &settings, &ips()), expected);
        }
    }

    #[test]
    fn before_there_is_one_of_each_family_with_its_routes() {
        let settings = Settings { addresses: Vec::new(), ..settings() };
        let expected = json!({
            "cniVersion": "0.2.0",
            "ip4": {"ip": "10.0.0.7/24", "gateway": "10.0.0.1", "routes": [{"dst": "0.0.0.0/0"}]},
            "ip6": {"ip": "fd00::7/64", "routes": [{"dst": "fd00:1::/64", "gw": "fd00::1"}]},
            "dns": {"nameservers": ["10.0.0.53"]},
        });
        assert_eq!(answer(Version::V0_2_0, &settings, &ips()), expected);
    }

    #[test]
    fn a_gateway_of_the_runtime_is_for_the_range_that_it_is_in() {
        let near: IpAddr = "10.0.0.254".parse().unwrap();
        let settings = Settings { gateways: vec!["fd99::1".parse().unwrap(), near], ..settings() };
        assert_eq!(settings.gateway_of(ips()[0]), Some(near));
        assert_eq!(settings.gateway_of(ips()[1]), None);
    }

    #[test]
    fn it_is_indented_by_four() {
        assert_eq!(pretty(&json!({"a": [1]})), "{\n    \"a\": [\n        1\n    ]\n}");
    }
}
