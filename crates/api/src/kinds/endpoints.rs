//! Endpoints: the older form of `EndpointSlice`s, one object for each Service.

use serde_json::Value;

use super::port;
use crate::field::{Errors, Path};
use crate::kind::{Column, Kind, Stored};
use crate::object::Object;
use crate::reading::{each_mut, fill_text, items, number, text};
use crate::row::Cell;
use crate::{meta, names, printing};

pub(super) static KIND: Kind = Kind {
    kind: "Endpoints",
    plural: "endpoints",
    singular: "endpoints",
    short_names: &["ep"],
    stored: Stored { prefix: "endpoints", api_version: "v1" },
    schema: "io.k8s.api.core.v1.Endpoints",
    create_on_update: true,
    default,
    validate,
    validate_update: |new, old, errors| {
        // What was let in under other rules stays, as long as it is not touched.
        if new.at(&["subsets"]) != old.at(&["subsets"]) {
            validate(new, errors);
        }
    },
    warnings,
    deprecation: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    columns: &[Column::NAME, Column::text("Endpoints", "The first addresses and ports"), Column::AGE],
    row,
    ..Kind::BASE
};

fn subsets(object: &Object) -> &[Value] {
    object.at(&["subsets"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn default(object: &mut Object) {
    for subset in each_mut(object.fields_mut(), "subsets") {
        for port in each_mut(subset, "ports") {
            fill_text(port, "protocol", "TCP");
        }
    }
}

fn validate(object: &Object, errors: &mut Errors) {
    for (index, subset) in subsets(object).iter().enumerate() {
        let path = Path::new("subsets").index(index);
        if items(subset, "addresses").is_empty() && items(subset, "notReadyAddresses").is_empty() {
            errors.required(&path, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in ["addresses", "notReadyAddresses"] {
            for (index, address) in items(subset, list).iter().enumerate() {
                validate_address(&path.child(list).index(index), address, errors);
            }
        }
        let ports = items(subset, "ports");
        for (index, port) in ports.iter().enumerate() {
            validate_port(&path.child("ports").index(index), port, ports.len() > 1, errors);
        }
    }
}

fn validate_address(path: &Path, address: &Value, errors: &mut Errors) {
    let ip = text(address, "ip");
    meta::invalid_text(&path.child("ip"), ip, names::address(ip), errors);
    let hostname = text(address, "hostname");
    if !hostname.is_empty() {
        meta::invalid_text(&path.child("hostname"), hostname, names::label(hostname, false), errors);
    }
    if let Some(node) = address.get("nodeName").and_then(Value::as_str) {
        meta::invalid_text(&path.child("nodeName"), node, names::subdomain(node, false), errors);
    }
    meta::invalid_text(&path.child("ip"), ip, names::endpoint_address(ip), errors);
}

fn validate_port(path: &Path, port: &Value, needs_name: bool, errors: &mut Errors) {
    let name = text(port, "name");
    if !name.is_empty() {
        meta::invalid_text(&path.child("name"), name, names::label(name, false), errors);
    } else if needs_name {
        errors.required(&path.child("name"), "");
    }
    port::validate_number(path, port, "port", errors);
    port::validate_protocol(path, port, errors);
    port::validate_app_protocol(path, port, errors);
}

fn warnings(object: &Object, _old: Option<&Object>) -> Vec<String> {
    if object.text(&["metadata", "labels", "endpoints.kubernetes.io/managed-by"]) == "endpoint-controller" {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for (index, subset) in subsets(object).iter().enumerate() {
        for list in ["addresses", "notReadyAddresses"] {
            for (at, address) in items(subset, list).iter().enumerate() {
                let field = format!("subsets[{index}].{list}[{at}].ip");
                warnings.extend(names::address_warning(&field, text(address, "ip")));
            }
        }
    }
    warnings
}

fn row(object: &Object) -> Vec<Cell> {
    let mut all = Vec::new();
    for subset in subsets(object) {
        let addresses = || items(subset, "addresses").iter().map(|address| text(address, "ip"));
        let ports = items(subset, "ports");
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = number(port, "port").unwrap_or(0);
            let socket = |ip: &str| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
            all.extend(addresses().map(socket));
        }
    }
    let cell = if subsets(object).is_empty() { printing::NONE.to_owned() } else { printing::first_three(&all) };
    vec![object.name().into(), cell.into(), printing::age(object)]
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, created, row, update_faults};
    use super::*;
    use serde_json::json;

    #[test]
    fn subsets_have_addresses_and_sound_ports() {
        let label = "must not contain dots";
        check_creates(
            &KIND,
            &[
                (json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}), &[]),
                (
                    json!({"subsets": [{}]}),
                    &["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
                ),
                (
                    json!({"subsets": [{"addresses": [{"ip": "127.0.0.1", "hostname": "a.b"}]}]}),
                    &[
                        &format!("subsets[0].addresses[0].hostname: Invalid value: \"a.b\": {label}"),
                        "subsets[0].addresses[0].ip: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                    ],
                ),
                (
                    json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 0, "protocol": "X"}, {"port": 1}]}]}),
                    &[
                        "subsets[0].ports[0].name: Required value",
                        "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                        "subsets[0].ports[0].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                        "subsets[0].ports[1].name: Required value",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn subsets_that_are_not_touched_are_not_judged_again() {
        let bad = json!({"subsets": [{}]});
        assert_eq!(update_faults(&KIND, bad.clone(), bad.clone()), [""; 0]);
        assert_eq!(update_faults(&KIND, bad, json!({})).len(), 1);
    }

    #[test]
    fn odd_addresses_are_warned_of_unless_a_controller_wrote_them() {
        let mut object = created(&KIND, json!({"subsets": [{"addresses": [{"ip": "FD00::1"}]}]}));
        assert_eq!(
            warnings(&object, None),
            [
                "subsets[0].addresses[0].ip: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"
            ]
        );
        object.set(&["metadata", "labels", "endpoints.kubernetes.io/managed-by"], json!("endpoint-controller"));
        assert_eq!(warnings(&object, None), [""; 0]);
    }

    #[test]
    fn the_row_shows_the_first_three() {
        let subset = |ips: &[&str]| {
            let addresses: Vec<_> = ips.iter().map(|ip| json!({"ip": ip})).collect();
            json!({"metadata": {"name": "a"}, "subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]})
        };
        let now = "2026-01-01T00:00:00Z";
        assert_eq!(row(&KIND, json!({"metadata": {"name": "a"}}), now), "a|<none>|<unknown>");
        assert_eq!(row(&KIND, subset(&["1.2.3.4", "fd00::1"]), now), "a|1.2.3.4:80,[fd00::1]:80|<unknown>");
        assert!(row(&KIND, subset(&["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"]), now).contains(":80 + 1 more...|"));
    }
}
