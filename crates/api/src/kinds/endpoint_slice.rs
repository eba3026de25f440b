//! `EndpointSlice`s: the addresses behind a Service, a slice of them at a time.

use std::net::IpAddr;

use serde_json::Value;

use super::port;
use crate::field::{Errors, Path};
use crate::kind::{Column, Kind, Stored};
use crate::object::Object;
use crate::reading::{each_mut, fill, items, number, text, texts};
use crate::row::Cell;
use crate::{meta, names, printing};

pub(super) static KIND: Kind = Kind {
    group: "discovery.k8s.io",
    kind: "EndpointSlice",
    plural: "endpointslices",
    singular: "endpointslice",
    stored: Stored { prefix: "endpointslices.discovery.k8s.io", api_version: "discovery.k8s.io/v1" },
    schema: "io.k8s.api.discovery.v1.EndpointSlice",
    counts_generation: true,
    counts_labels: true,
    default,
    prepare_create: Some(drop_topology),
    prepare_update: |new, old| {
        if new.at(&["endpoints"]) != old.at(&["endpoints"]) {
            drop_topology(new);
        }
    },
    validate: |object, errors| validate(object, None, errors),
    validate_update: |new, old, errors| {
        validate(new, Some(old), errors);
        meta::immutable(&Path::new("addressType"), new.at(&["addressType"]), old.at(&["addressType"]), errors);
    },
    warnings,
    columns: &[
        Column::NAME,
        Column::text("AddressType", "What its addresses are"),
        Column::text("Ports", "The first ports"),
        Column::text("Endpoints", "The first addresses"),
        Column::AGE,
    ],
    row,
    ..Kind::BASE
};

const ENDPOINTS_LIMIT: usize = 1000;
const PORTS_LIMIT: usize = 20_000;
const ADDRESSES_LIMIT: usize = 100;
const HINTS_LIMIT: usize = 8;

/// Who writes slices by itself and needs no advice about addresses.
const CONTROLLERS: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

fn list<'a>(object: &'a Object, name: &str) -> &'a [Value] {
    object.at(&[name]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn default(object: &mut Object) {
    for port in each_mut(object.fields_mut(), "ports") {
        fill(port, "name", "");
        fill(port, "protocol", "TCP");
    }
}

/// An older version had a map of labels here; this one keeps the field only to be able to show what is stored.
fn drop_topology(object: &mut Object) {
    for endpoint in each_mut(object.fields_mut(), "endpoints") {
        endpoint.remove("deprecatedTopology");
    }
}

fn validate(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    let address_type = object.text(&["addressType"]);
    match address_type {
        "" => errors.required(&Path::new("addressType"), ""),
        "FQDN" | "IPv4" | "IPv6" => {}
        other => errors.not_supported(&Path::new("addressType"), &Value::from(other), &["FQDN", "IPv4", "IPv6"]),
    }
    validate_ports(list(object, "ports"), errors);
    // What was let in under other rules stays, as long as it is not touched.
    if old.is_none_or(|old| old.at(&["endpoints"]) != object.at(&["endpoints"])) {
        validate_endpoints(list(object, "endpoints"), address_type, errors);
    }
}

fn validate_ports(ports: &[Value], errors: &mut Errors) {
    let path = Path::new("ports");
    if ports.len() > PORTS_LIMIT {
        errors.too_many(&path, ports.len(), PORTS_LIMIT);
        return;
    }
    let mut names = std::collections::HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            meta::invalid_text(&path.child("name"), name, names::label(name, false), errors);
        }
        if !names.insert(name) {
            errors.duplicate(&path.child("name"), &Value::from(name));
        }
        port::validate_protocol(&path, port, errors);
        port::validate_app_protocol(&path, port, errors);
    }
}

fn validate_endpoints(endpoints: &[Value], address_type: &str, errors: &mut Errors) {
    let path = Path::new("endpoints");
    if endpoints.len() > ENDPOINTS_LIMIT {
        errors.too_many(&path, endpoints.len(), ENDPOINTS_LIMIT);
        return;
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let path = path.index(index);
        let addresses = items(endpoint, "addresses");
        if addresses.is_empty() {
            errors.required(&path.child("addresses"), "must contain at least 1 address");
        } else if addresses.len() > ADDRESSES_LIMIT {
            errors.too_many(&path.child("addresses"), addresses.len(), ADDRESSES_LIMIT);
        }
        for (index, address) in addresses.iter().enumerate() {
            let address = address.as_str().unwrap_or_default();
            validate_address(&path.child("addresses"), index, address, address_type, errors);
        }
        if let Some(node) = endpoint.get("nodeName").and_then(Value::as_str) {
            meta::invalid_text(&path.child("nodeName"), node, names::subdomain(node, false), errors);
        }
        if let Some(name) = endpoint.get("hostname").and_then(Value::as_str) {
            meta::invalid_text(&path.child("hostname"), name, names::label(name, false), errors);
        }
        if let Some(hints) = endpoint.get("hints") {
            let path = path.child("hints");
            validate_hints(&path.child("forZones"), items(hints, "forZones"), names::label_value, errors);
            let node_name = |name: &str| names::subdomain(name, false);
            validate_hints(&path.child("forNodes"), items(hints, "forNodes"), node_name, errors);
        }
    }
}

fn validate_address(path: &Path, index: usize, address: &str, address_type: &str, errors: &mut Errors) {
    let at = path.index(index);
    let faults = match address_type {
        "IPv4" => names::address(address),
        "IPv6" => names::canonical_address(address, false),
        "FQDN" => return validate_domain(&at, address, errors),
        _ => return,
    };
    if !faults.is_empty() {
        return meta::invalid_text(&at, address, faults, errors);
    }
    match (address_type, names::read_address(address)) {
        ("IPv4", Some(IpAddr::V6(_))) => errors.invalid(path, &Value::from(address), "must be an IPv4 address"),
        ("IPv6", Some(IpAddr::V4(_))) => errors.invalid(path, &Value::from(address), "must be an IPv6 address"),
        _ => {}
    }
    meta::invalid_text(&at, address, names::endpoint_address(address), errors);
}

fn validate_domain(path: &Path, address: &str, errors: &mut Errors) {
    if address.is_empty() {
        return errors.required(path, "");
    }
    let name = address.strip_suffix('.').unwrap_or(address);
    let faults = names::subdomain(name, false);
    if !faults.is_empty() {
        errors.invalid(path, &Value::from(name), faults.join(","));
    } else if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.invalid(path, &Value::from(name), detail);
    } else if let Some(part) = name.split('.').find(|part| !names::label(part, false).is_empty()) {
        errors.invalid(path, &Value::from(part), names::label(part, false).join(","));
    }
}

fn validate_hints(path: &Path, hints: &[Value], rule: impl Fn(&str) -> Vec<String>, errors: &mut Errors) {
    if hints.len() > HINTS_LIMIT {
        return errors.too_many(path, hints.len(), HINTS_LIMIT);
    }
    for (index, hint) in hints.iter().enumerate() {
        let (path, name) = (path.index(index).child("name"), text(hint, "name"));
        if hints[..index].iter().any(|other| text(other, "name") == name) {
            errors.duplicate(&path, &Value::from(name));
        }
        meta::invalid_text(&path, name, rule(name), errors);
    }
}

fn warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() && object.text(&["addressType"]) == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    if CONTROLLERS.contains(&object.text(&["metadata", "labels", "endpointslice.kubernetes.io/managed-by"])) {
        return warnings;
    }
    for (index, endpoint) in list(object, "endpoints").iter().enumerate() {
        for (at, address) in texts(endpoint, "addresses").enumerate() {
            warnings.extend(names::address_warning(format_args!("endpoints[{index}].addresses[{at}]"), address));
        }
    }
    warnings
}

fn row(object: &Object) -> Vec<Cell> {
    let ports: Vec<_> = list(object, "ports")
        .iter()
        .map(|port| match (number(port, "port"), port.get("name").and_then(Value::as_str)) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => "*".to_owned(),
        })
        .collect();
    let endpoints = list(object, "endpoints").iter();
    let addresses: Vec<_> = endpoints.flat_map(|endpoint| texts(endpoint, "addresses")).map(str::to_owned).collect();
    vec![
        object.name().into(),
        object.text(&["addressType"]).into(),
        listed(&ports).into(),
        listed(&addresses).into(),
        printing::age(object),
    ]
}

fn listed(all: &[String]) -> String {
    let text = printing::first_three(all);
    if text.is_empty() { "<unset>".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, create_faults, created, row, update_faults, with};
    use super::*;
    use serde_json::json;

    fn slice(address_type: &str, address: &str) -> Value {
        json!({"addressType": address_type, "endpoints": [{"addresses": [address]}], "ports": [{"port": 80}]})
    }

    #[test]
    fn what_is_left_out_is_filled_in_as_clients_expect() {
        assert_eq!(
            created(&KIND, with(slice("IPv4", "1.2.3.4"), "/endpoints/0/deprecatedTopology", json!({"a": "b"})))
                .into_value(),
            json!({
                "metadata": {}, "addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"], "conditions": {}}],
                "ports": [{"name": "", "protocol": "TCP", "port": 80}],
            })
        );
        assert_eq!(
            created(&KIND, json!({"addressType": "IPv4"})).into_value(),
            json!({"metadata": {}, "addressType": "IPv4", "endpoints": null, "ports": null})
        );
    }

    #[test]
    fn addresses_are_of_the_type_that_is_said() {
        let at = |text: &str| vec![format!("endpoints[0].addresses[0]: {text}")];
        for (object, faults) in [
            (slice("IPv4", "1.2.3.4"), vec![]),
            (slice("IPv6", "fd00::1"), vec![]),
            (slice("FQDN", "a.example.com."), vec![]),
            (
                slice("IPv4", "fd00::1"),
                vec!["endpoints[0].addresses: Invalid value: \"fd00::1\": must be an IPv4 address".to_owned()],
            ),
            (
                slice("IPv6", "1.2.3.4"),
                vec!["endpoints[0].addresses: Invalid value: \"1.2.3.4\": must be an IPv6 address".to_owned()],
            ),
            (slice("IPv6", "FD00::1"), at("Invalid value: \"FD00::1\": must be in canonical form (\"fd00::1\")")),
            (
                slice("IPv4", "x"),
                at("Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            ),
            (
                slice("IPv4", "127.0.0.1"),
                at("Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)"),
            ),
            (
                slice("FQDN", "a"),
                at("Invalid value: \"a\": should be a domain with at least two segments separated by dots"),
            ),
            (slice("", "a"), vec!["addressType: Required value".to_owned()]),
            (
                slice("X", "a"),
                vec![
                    "addressType: Unsupported value: \"X\": supported values: \"FQDN\", \"IPv4\", \"IPv6\"".to_owned(),
                ],
            ),
        ] {
            assert_eq!(create_faults(&KIND, object.clone()), faults, "{object}");
        }
    }

    #[test]
    fn ports_have_different_names_and_known_protocols() {
        check_creates(
            &KIND,
            &[
                (
                    with(slice("IPv4", "1.2.3.4"), "/ports", json!([{"port": 80}, {"port": 81}])),
                    &["ports[1].name: Duplicate value: \"\""],
                ),
                (
                    with(slice("IPv4", "1.2.3.4"), "/ports", json!([{"protocol": "X", "appProtocol": ""}])),
                    &[
                        "ports[0].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                        "ports[0].appProtocol: Invalid value: \"\": name part must be non-empty",
                        "ports[0].appProtocol: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn the_lists_have_limits() {
        let many = |count: usize, one: Value| Value::from(vec![one; count]);
        let base = slice("IPv4", "1.2.3.4");
        for (pointer, value, fault) in [
            ("/endpoints", many(1001, json!({})), "endpoints: Too many: 1001: must have at most 1000 items"),
            (
                "/endpoints/0/addresses",
                many(101, json!("1.2.3.4")),
                "endpoints[0].addresses: Too many: 101: must have at most 100 items",
            ),
            (
                "/endpoints/0/addresses",
                json!([]),
                "endpoints[0].addresses: Required value: must contain at least 1 address",
            ),
            (
                "/endpoints/0/hints",
                json!({"forZones": many(9, json!({}))}),
                "endpoints[0].hints.forZones: Too many: 9: must have at most 8 items",
            ),
            (
                "/endpoints/0/hints",
                json!({"forZones": [{"name": "a"}, {"name": "a"}]}),
                "endpoints[0].hints.forZones[1].name: Duplicate value: \"a\"",
            ),
        ] {
            assert_eq!(create_faults(&KIND, with(base.clone(), pointer, value)), [fault]);
        }
    }

    #[test]
    fn the_address_type_never_changes() {
        assert_eq!(
            update_faults(&KIND, json!({"addressType": "IPv6"}), json!({"addressType": "IPv4"})),
            ["addressType: Invalid value: \"IPv6\": field is immutable"]
        );
    }

    #[test]
    fn endpoints_that_are_not_touched_are_not_judged_again() {
        let bad = slice("IPv4", "x");
        assert_eq!(update_faults(&KIND, bad.clone(), bad.clone()), [""; 0]);
        assert_eq!(update_faults(&KIND, bad, slice("IPv4", "1.2.3.4")).len(), 1);
    }

    #[test]
    fn rows_list_ports_and_addresses() {
        let now = "2026-01-01T00:00:00Z";
        assert_eq!(row(&KIND, json!({"addressType": "IPv4"}), now), "|IPv4|<unset>|<unset>|<unknown>");
        assert_eq!(row(&KIND, slice("IPv4", "1.2.3.4"), now), "|IPv4|80|1.2.3.4|<unknown>");
        assert_eq!(row(&KIND, json!({"ports": [{"name": "a"}, {}]}), now), "||a,*|<unset>|<unknown>");
    }
}
