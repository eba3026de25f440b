//! Every kind that is served. A new kind is a file here and a line in [`KINDS`], or in [`QUESTIONS`] if it is not stored.

mod access_review;
#[cfg(test)]
mod checking;
mod cluster_cidr;
mod config_map;
mod core_event;
mod custom;
mod endpoint_slice;
mod endpoints;
mod event;
mod ip_address;
mod ip_pool;
mod lease;
mod namespace;
mod network_attachment_definition;
mod node;
mod node_port;
mod node_port_range;
mod node_selector;
mod node_slice_pool;
mod overlapping_range_ip_reservation;
mod pod;
mod port;
mod rules_review;
mod secret;
mod self_subject_review;
mod service;
mod service_account;
mod service_cidr;
mod token_request;
mod token_review;

use crate::kind::Kind;

pub use cluster_cidr::{ClusterCidr, FamilyRange, SizeFrom, Sizing};
pub use service::validate_addresses as validate_service_addresses;

/// All kinds that are stored, in the order of discovery: by group, the preferred version of a group first, then by name.
pub static KINDS: &[&Kind] = &[
    &config_map::KIND,
    &endpoints::KIND,
    &core_event::KIND,
    &namespace::KIND,
    &node::KIND,
    &pod::KIND,
    &secret::KIND,
    &service_account::KIND,
    &service::KIND,
    &event::KIND,
    &lease::KIND,
    &endpoint_slice::KIND,
    &ip_address::KIND,
    &service_cidr::KIND,
    &ip_address::V1BETA1,
    &service_cidr::V1BETA1,
    &node_port::KIND,
    &node_port_range::KIND,
    &network_attachment_definition::KIND,
    &cluster_cidr::KIND,
    &ip_pool::KIND,
    &node_slice_pool::KIND,
    &overlapping_range_ip_reservation::KIND,
];

/// All kinds that are questions and have a path of their own, in the order of discovery.
pub static QUESTIONS: &[&Kind] = &[
    &self_subject_review::KIND,
    &token_review::KIND,
    &access_review::LOCAL,
    &access_review::OF_SELF,
    &rules_review::KIND,
    &access_review::OF_SUBJECT,
];

/// All kinds that have a path of their own.
pub fn all() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().chain(QUESTIONS).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::at_work::at_work;
    use crate::object::Object;
    use serde_json::{Value, json};
    use std::collections::HashSet;

    #[test]
    fn every_kind_is_declared_in_full_and_once() {
        let mut seen = HashSet::new();
        for kind in all() {
            assert!(seen.insert((kind.group, kind.version, kind.plural)), "{} twice", kind.plural);
            for text in [kind.kind, kind.plural, kind.singular, kind.schema, kind.version] {
                assert!(!text.is_empty(), "{kind:?}");
            }
            assert_ne!(kind.is_question, !kind.stored.prefix.is_empty(), "{kind:?}");
            assert!(crate::schema::definition(kind.schema).is_some(), "{kind:?}");
            assert!(kind.plural.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", kind.plural);
        }
    }

    #[test]
    fn every_row_has_a_cell_for_each_column() {
        for kind in KINDS {
            let row = (kind.row)(&Object::default());
            assert_eq!(row.len(), kind.columns.len(), "{}", kind.plural);
        }
    }

    #[test]
    fn kinds_that_share_a_place_are_views_of_one_another() {
        for kind in KINDS {
            let owners: Vec<_> = KINDS
                .iter()
                .filter(|other| {
                    other.stored.prefix == kind.stored.prefix && other.api_version() == other.stored.api_version
                })
                .collect();
            assert_eq!(owners.len(), 1, "{} must be stored as exactly one kind", kind.stored.prefix);
            assert_eq!(owners[0].kind, kind.kind);
            assert_eq!(owners[0].scope, kind.scope);
        }
    }

    /// An object of each kind, as a client may send it.
    fn samples() -> Vec<(&'static Kind, Value)> {
        let event = json!({
            "eventTime": "2026-01-01T00:00:00.123456Z", "type": "Normal", "reportingController": "a.b/c",
            "reportingInstance": "i", "action": "a", "reason": "r", "note": "n", "regarding": {"namespace": "default"},
        });
        let terms = json!([{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]);
        vec![
            (&config_map::KIND, json!({"data": {"a": "b"}, "binaryData": {"c": "eA=="}})),
            (&endpoints::KIND, json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]})),
            (&core_event::KIND, json!({"involvedObject": {"namespace": "default"}, "count": 2})),
            (&namespace::KIND, json!({})),
            (&node::KIND, json!({"spec": {"podCIDR": "10.0.0.0/24"}, "status": {"capacity": {"cpu": "2000m"}}})),
            (&pod::KIND, json!({"spec": {"containers": [{"name": "a", "image": "x"}], "volumes": [{"name": "v"}]}})),
            (&secret::KIND, json!({"stringData": {"a": "b"}})),
            (&service_account::KIND, json!({"secrets": [{"name": "a"}]})),
            (&service::KIND, json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30001}]}})),
            (&event::KIND, event),
            (&lease::KIND, json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}})),
            (&endpoint_slice::KIND, json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]})),
            (&ip_address::KIND, json!({"spec": {"parentRef": {"resource": "services", "name": "a"}}})),
            (&service_cidr::KIND, json!({"spec": {"cidrs": ["10.0.0.0/24"]}})),
            (&ip_address::V1BETA1, json!({"spec": {"parentRef": {"resource": "services", "name": "a"}}})),
            (&service_cidr::V1BETA1, json!({"spec": {"cidrs": ["10.0.0.0/24"]}})),
            (&node_port::KIND, json!({"spec": {"parentRef": {"resource": "services", "name": "a", "uid": "u"}}})),
            (&node_port_range::KIND, json!({"spec": {"ports": "30000-32767"}})),
            (&network_attachment_definition::KIND, json!({"spec": {"config": "{}"}})),
            (
                &cluster_cidr::KIND,
                json!({"spec": {"perNodeHostBits": 8, "ipv4": "10.0.0.0/16", "nodeSelector": {"nodeSelectorTerms": terms}}}),
            ),
            (
                &ip_pool::KIND,
                json!({"spec": {"range": "10.0.0.0/8", "allocations": {"1": {"id": "a", "podref": "b"}}}}),
            ),
            (&node_slice_pool::KIND, json!({"spec": {"range": "10.0.0.0/8", "sliceSize": "/20"}})),
            (&overlapping_range_ip_reservation::KIND, json!({"spec": {"podref": "a/b"}})),
        ]
    }

    #[test]
    fn a_write_of_what_is_there_changes_nothing_and_is_accepted() {
        let samples = samples();
        assert_eq!(samples.len(), KINDS.len());
        for (kind, mut sample) in samples {
            sample["metadata"] = json!({"name": "a", "namespace": "default"});
            let stored = checking::created(kind, sample.clone());
            assert_eq!(checking::create_faults(kind, sample.clone()), [""; 0], "{}", kind.kind);
            assert_eq!(checking::updated(kind, stored.clone().into_value(), &stored), stored, "{}", kind.kind);
            let again = stored.clone().into_value();
            assert_eq!(checking::update_faults(kind, again, sample), [""; 0], "{}", kind.kind);
            if let Some(conversion) = kind.conversion {
                assert_eq!((conversion.from_stored)((conversion.to_stored)(stored.clone())), stored, "{}", kind.kind);
            }
        }
    }

    #[test]
    fn empty_and_odd_objects_make_nobody_stumble() {
        let odd = [
            json!({}),
            json!({"metadata": [], "spec": "x", "status": 1, "data": [1], "subsets": {}, "endpoints": 7}),
            json!({"spec": {"ports": [1, null], "containers": [null, {}], "cidrs": [7], "taints": ["x"]}}),
            json!({"spec": null, "status": null, "metadata": null, "data": null}),
        ];
        for kind in all().chain([&token_request::KIND]) {
            for value in &odd {
                let mut object = Object::from_value(value.clone()).unwrap();
                (kind.default)(&mut object);
                kind.prepare_create.unwrap_or(|_| {})(&mut object);
                let old = object.clone();
                (kind.prepare_update)(&mut object, &old);
                (kind.prepare_status)(&mut object, &old);
                let mut errors = crate::Errors::new();
                (kind.validate)(&object, &mut errors);
                (kind.validate_update)(&object, &old, &mut errors);
                (kind.validate_status)(&object, &old, &mut errors);
                (kind.warnings)(&object, Some(&old));
                (kind.row)(&object);
                for selectable in kind.selectable {
                    (selectable.value)(&object);
                }
                if let Some(conversion) = kind.conversion {
                    (conversion.from_stored)((conversion.to_stored)(object));
                }
            }
        }
    }

    /// Rules that hold each item of a list against all others take minutes for these lists, and those that do not take a
    /// second: the limit is far from both.
    #[test]
    fn a_list_as_long_as_a_body_can_hold_is_judged_in_about_linear_time() {
        const LENGTH: usize = 25_000;
        let list = |item: fn(usize) -> Value| Value::from((0..LENGTH).map(item).collect::<Vec<_>>());
        let name = |n: usize| json!({"name": format!("n{n}")});
        let container = |n: usize| json!({"name": format!("n{n}"), "image": "x"});
        let port =
            |n: usize| json!({"name": format!("n{n}"), "port": n, "containerPort": n, "hostPort": n, "nodePort": n});
        let pod = |spec: Value| {
            let mut pod = json!({"spec": {"containers": [{"name": "a", "image": "x"}]}});
            pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            pod
        };
        let with_items =
            |field: &str, items: Value| pod(json!({"containers": [{"name": "a", "image": "x", field: items}]}));
        let mount = |n: usize| json!({"name": format!("n{n}"), "mountPath": format!("/{n}")});
        let ip = |n: usize| json!({"ip": format!("10.0.{}.{}", n / 256, n % 256)});
        let text = |n: usize| json!(format!("10.0.{}.{}", n / 256, n % 256));
        let mut mounts = with_items("volumeMounts", list(mount));
        mounts["spec"]["volumes"] = list(name);
        let owner =
            |n: usize| json!({"apiVersion": "v1", "kind": "A", "name": n.to_string(), "uid": "u", "controller": true});
        let finalizers = Value::from((0..LENGTH).map(|n| format!("a.b/{n}")).collect::<Vec<_>>());
        let going = json!("2026-01-01T00:00:00Z");
        for (kind, object) in [
            (
                &node::KIND,
                json!({"spec": {"taints": list(|n| json!({"key": format!("k{n}"), "effect": "NoSchedule"}))}}),
            ),
            (
                &node::KIND,
                json!({"status": {"addresses": list(|n| json!({"type": "Hostname", "address": format!("a{n}")}))}}),
            ),
            (&pod::KIND, pod(json!({"containers": list(container), "initContainers": list(container)}))),
            (&pod::KIND, with_items("ports", list(port))),
            (&pod::KIND, with_items("env", list(name))),
            (&pod::KIND, mounts),
            (&pod::KIND, pod(json!({"schedulingGates": list(name)}))),
            (&pod::KIND, pod(json!({"tolerations": list(|n| json!({"key": format!("k{n}"), "operator": "Exists"}))}))),
            (&pod::KIND, json!({"status": {"podIPs": list(ip)}})),
            (&service::KIND, json!({"spec": {"type": "NodePort", "ports": list(port)}})),
            (&service::KIND, json!({"spec": {"ipFamilies": list(text), "externalIPs": list(text)}})),
            (
                &service::KIND,
                json!({"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": list(text)}, "status": {"loadBalancer": {"ingress": list(ip)}}}),
            ),
            (&config_map::KIND, json!({"metadata": {"ownerReferences": list(owner)}})),
            (&ip_pool::KIND, json!({"metadata": {"deletionTimestamp": going, "finalizers": finalizers}})),
        ] {
            let begun = at_work();
            let mut object = Object::from_value(object).unwrap();
            (kind.default)(&mut object);
            let old = object.clone();
            (kind.prepare_update)(&mut object, &old);
            let mut errors = crate::Errors::new();
            crate::meta::validate_update(kind, &object, &old, &mut errors);
            (kind.validate_update)(&object, &old, &mut errors);
            (kind.validate_status)(&object, &old, &mut errors);
            (kind.warnings)(&object, Some(&old));
            errors.to_string();
            let took = at_work().saturating_sub(begun);
            assert!(took.as_secs() < 8, "{} took {took:?}", kind.kind);
        }
    }
}
