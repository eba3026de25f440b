//! Services: a name and addresses for a set of pods.
//!
//! Which addresses and node ports a Service gets is not decided here; here is what a Service may say.

mod carry;
mod families;
mod rules;
mod spec;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::kind::{Column, Kind, Selectable, Stored, Subresource};
use crate::object::Object;
use crate::reading::{child_mut, each_mut, fill, fill_text, items, number, part, text, texts};
use crate::row::Cell;
use crate::{names, printing};

pub use families::validate as validate_addresses;
use spec::Spec;

pub(super) static KIND: Kind = Kind {
    kind: "Service",
    plural: "services",
    singular: "service",
    short_names: &["svc"],
    categories: &["all"],
    subresources: &[Subresource::Status],
    stored: Stored { prefix: "services", api_version: "v1" },
    schema: "io.k8s.api.core.v1.Service",
    name_faults: names::label,
    create_on_update: true,
    answers_deleted: true,
    default,
    prepare_create: Some(carry::prepare_create),
    prepares_stored_form: true,
    prepare_update: carry::prepare_update,
    validate: |object, errors| rules::validate(object, None, errors),
    validate_update: rules::validate_update,
    validate_status: rules::validate_status,
    warnings,
    selectable: &[
        Selectable { label: "spec.clusterIP", value: |object| object.text(&["spec", "clusterIP"]).to_owned() },
        Selectable { label: "spec.type", value: |object| object.text(&["spec", "type"]).to_owned() },
    ],
    columns: &[
        Column::NAME,
        Column::text("Type", "How it can be reached"),
        Column::text("Cluster-IP", "Its first address in the cluster"),
        Column::text("External-IP", "Its addresses outside of the cluster"),
        Column::text("Port(s)", "Its ports, with their node ports"),
        Column::AGE,
        Column::wide("Selector", "Which pods it stands for"),
    ],
    row,
    ..Kind::BASE
};

fn default(object: &mut Object) {
    if let Some(spec) = child_mut(object.fields_mut(), "spec") {
        default_spec(spec);
    }
    if object.text(&["spec", "type"]) != "LoadBalancer" {
        return;
    }
    let status = object.fields_mut().get_mut("status");
    if let Some(balancer) = status.and_then(|status| status.get_mut("loadBalancer")).and_then(Value::as_object_mut) {
        for ingress in each_mut(balancer, "ingress") {
            if ingress.get("ip").and_then(Value::as_str).is_some_and(|ip| !ip.is_empty()) {
                fill(ingress, "ipMode", "VIP");
            }
        }
    }
}

fn default_spec(spec: &mut Map<String, Value>) {
    fill_text(spec, "sessionAffinity", "None");
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => {
            spec.remove("sessionAffinityConfig");
        }
        Some("ClientIP") => {
            let timeout =
                spec.get("sessionAffinityConfig").and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
            if timeout.is_none_or(Value::is_null) {
                spec.insert("sessionAffinityConfig".into(), json!({"clientIP": {"timeoutSeconds": 10_800}}));
            }
        }
        _ => {}
    }
    fill_text(spec, "type", "ClusterIP");
    for port in each_mut(spec, "ports") {
        fill_text(port, "protocol", "TCP");
        let unset = matches!(port.get("targetPort"), None | Some(Value::Null))
            || port.get("targetPort").is_some_and(|target| *target == json!(0) || *target == json!(""));
        if unset && let Some(number) = port.get("port").cloned() {
            port.insert("targetPort".into(), number);
        }
    }
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let has_external = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") || kind == "ClusterIP" && has_external {
        fill_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn warnings(object: &Object, _old: Option<&Object>) -> Vec<String> {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    let spec = Spec::of(object);
    let is_headless = spec.kind == "ClusterIP" && spec.address == "None";
    let has_external_ips = !spec.external_ips.is_empty();
    let mut warnings = Vec::new();
    if object.at(&["metadata", "annotations", HINTS]).is_some() {
        let instead = "please use service.kubernetes.io/topology-mode instead";
        warnings.push(format!("annotation {HINTS} is deprecated, {instead}"));
    }
    let mut say = |holds: bool, text: &str| {
        if holds {
            warnings.push(text.to_owned());
        }
    };
    say(is_headless && !spec.balancer.is_empty(), "spec.loadBalancerIP is ignored for headless services");
    say(is_headless && has_external_ips, "spec.externalIPs is ignored for headless services");
    say(is_headless && spec.affinity != "None", "spec.SessionAffinity is ignored for headless services");
    say(
        has_external_ips && !is_headless && spec.kind != "ExternalName",
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
    );
    say(
        has_external_ips && spec.kind == "ExternalName",
        "spec.externalIPs is ignored when spec.type is \"ExternalName\"",
    );
    say(
        spec.kind != "ExternalName" && !spec.external_name.is_empty(),
        "spec.externalName is ignored when spec.type is not \"ExternalName\"",
    );
    say(
        spec.distribution == Some("PreferClose"),
        "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
    );
    for (list, name) in [(spec.addresses, "clusterIPs"), (spec.external_ips, "externalIPs")] {
        for (index, ip) in spec::texts(list).enumerate().filter(|(_, ip)| *ip != "None") {
            warnings.extend(names::address_warning(format_args!("spec.{name}[{index}]"), ip));
        }
    }
    if !spec.balancer.is_empty() {
        warnings.extend(names::address_warning("spec.loadBalancerIP", spec.balancer));
    }
    for (index, range) in spec::texts(spec.source_ranges).enumerate() {
        warnings.extend(names::cidr_warning(&format!("spec.loadBalancerSourceRanges[{index}]"), range));
    }
    warnings
}

fn row(object: &Object) -> Vec<Cell> {
    let spec = part(object, "spec");
    let ports: Vec<_> = items(spec, "ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (self::number(port, "port").unwrap_or(0), text(port, "protocol"));
            match self::number(port, "nodePort") {
                Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
                _ => format!("{number}/{protocol}"),
            }
        })
        .collect();
    vec![
        object.name().into(),
        text(spec, "type").into(),
        texts(spec, "clusterIPs").next().unwrap_or(printing::NONE).into(),
        external(object).into(),
        printing::or_none(&ports.join(",")).into(),
        printing::age(object),
        printing::labels(spec.get("selector").and_then(Value::as_object)).into(),
    ]
}

fn external(object: &Object) -> String {
    let spec = part(object, "spec");
    let ips: Vec<_> = texts(spec, "externalIPs").collect();
    match text(spec, "type") {
        "ClusterIP" | "NodePort" => printing::list(ips),
        "LoadBalancer" => {
            let ingress = object.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
            let mut all: Vec<_> = ingress
                .into_iter()
                .flatten()
                .map(|one| if text(one, "ip").is_empty() { text(one, "hostname") } else { text(one, "ip") })
                .filter(|one| !one.is_empty())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect();
            all.extend(ips);
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => text(spec, "externalName").to_owned(),
        _ => printing::UNKNOWN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::checking::{created, row, with};
    use super::*;

    #[test]
    fn what_is_left_out_is_filled_in_by_type() {
        let spec = |spec: Value| created(&KIND, json!({"spec": spec})).at(&["spec"]).cloned().unwrap();
        assert_eq!(
            spec(json!({"ports": [{"port": 80}, {"port": 81, "protocol": "UDP", "targetPort": "web"}]})),
            json!({
                "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                "ports": [
                    {"port": 80, "protocol": "TCP", "targetPort": 80},
                    {"port": 81, "protocol": "UDP", "targetPort": "web"},
                ],
            })
        );
        assert_eq!(
            spec(json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP"})),
            json!({
                "type": "LoadBalancer", "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Cluster",
                "externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true,
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
            })
        );
        assert_eq!(
            spec(json!({"type": "ExternalName", "externalName": "a.b", "sessionAffinityConfig": {}})),
            json!({"type": "ExternalName", "sessionAffinity": "None", "externalName": "a.b"})
        );
        assert_eq!(spec(json!({"externalIPs": ["1.2.3.4"]}))["externalTrafficPolicy"], "Cluster");
        assert_eq!(spec(json!({"clusterIP": "10.0.0.1"}))["clusterIPs"], json!(["10.0.0.1"]));
    }

    #[test]
    fn what_is_in_the_stored_form_stays_in_it_when_it_is_prepared() {
        let definition = crate::schema::definition(KIND.schema).unwrap();
        for service in [
            json!({"spec": {"ports": [{"port": 80}]}}),
            json!({"spec": {"clusterIP": "10.0.0.1"}, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}),
            json!({"spec": {"type": "ExternalName", "internalTrafficPolicy": "Local"}, "status": {"conditions": [{}]}}),
        ] {
            let mut service = Object::from_value(service).unwrap();
            default(&mut service);
            service.with_value(|value| crate::schema::canonical(definition, value));
            carry::prepare_create(&mut service);
            let mut again = service.clone();
            again.with_value(|value| crate::schema::canonical(definition, value));
            assert_eq!(service, again);
        }
    }

    #[test]
    fn a_create_says_nothing_about_the_status() {
        let service = created(&KIND, json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}));
        assert_eq!(service.at(&["status"]), Some(&json!({"loadBalancer": {}})));
    }

    #[test]
    fn addresses_of_a_load_balancer_get_their_mode() {
        let mut service = Object::from_value(
            json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "a"}]}}}),
        )
        .unwrap();
        default(&mut service);
        assert_eq!(
            service.at(&["status", "loadBalancer", "ingress"]),
            Some(&json!([{"ip": "1.2.3.4", "ipMode": "VIP"}, {"hostname": "a"}]))
        );
    }

    #[test]
    fn warnings_name_what_is_ignored_or_on_its_way_out() {
        let of = |spec: Value| warnings(&created(&KIND, json!({"spec": spec})), None);
        assert_eq!(of(json!({"ports": [{"port": 80}]})), [""; 0]);
        assert_eq!(
            of(json!({"externalIPs": ["1.2.3.4"]})),
            ["spec.externalIPs is deprecated and may no longer be implemented in some clusters"]
        );
        assert_eq!(
            of(
                json!({"clusterIP": "None", "sessionAffinity": "ClientIP", "externalIPs": ["1.2.3.4"], "loadBalancerIP": "1.2.3.4"})
            ),
            [
                "spec.loadBalancerIP is ignored for headless services",
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
            ]
        );
        assert_eq!(
            of(json!({"externalName": "a", "trafficDistribution": "PreferClose"})),
            [
                "spec.externalName is ignored when spec.type is not \"ExternalName\"",
                "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
            ]
        );
        assert_eq!(
            of(json!({"clusterIP": "FD00::1"})),
            ["spec.clusterIPs[0]: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"]
        );
    }

    #[test]
    fn rows_show_addresses_and_ports() {
        let now = "2026-01-01T00:00:00Z";
        let service = json!({
            "metadata": {"name": "a"},
            "spec": {
                "type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "selector": {"app": "b"},
                "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP", "nodePort": 30053}],
            },
        });
        assert_eq!(row(&KIND, service.clone(), now), "a|ClusterIP|10.0.0.1|<none>|80/TCP,53:30053/UDP|<unknown>|app=b");
        let balancer = with(service, "/spec/type", "LoadBalancer");
        assert!(row(&KIND, balancer.clone(), now).contains("|10.0.0.1|<pending>|"));
        let ready =
            with(balancer, "/status/loadBalancer/ingress", json!([{"ip": "2.2.2.2"}, {"hostname": "1.example.com"}]));
        assert!(row(&KIND, ready, now).contains("|1.example.com,2.2.2.2|"));
        let external = json!({"metadata": {"name": "a"}, "spec": {"type": "ExternalName", "externalName": "b.c"}});
        assert_eq!(row(&KIND, external, now), "a|ExternalName|<none>|b.c|<none>|<unknown>|<none>");
    }
}
