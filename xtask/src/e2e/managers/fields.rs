//! The kinds that are written, and the fields that a write may set: small pieces of objects that any subset can be laid together
//! from.

use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

/// A kind.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) api_version: &'static str,
    /// The path of its objects.
    pub(super) path: &'static str,
    pub(super) has_status: bool,
    /// What its objects begin with; not every write has it.
    base: fn() -> Value,
    /// Pieces of an object, as JSON.
    pieces: &'static [&'static str],
    /// What the two servers pick for themselves, as pointers: the values are not compared, but that they are there and whose they are.
    pub(super) masked: &'static [&'static str],
}

/// Pieces that any kind can have.
const SHARED: &[&str] = &[
    r#"{"metadata":{"labels":{"a":"1"}}}"#,
    r#"{"metadata":{"labels":{"a":"2","b":"1"}}}"#,
    r#"{"metadata":{"labels":{}}}"#,
    r#"{"metadata":{"annotations":{"x":"1"}}}"#,
    r#"{"metadata":{"annotations":{"x":"2","y":""}}}"#,
];

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "ConfigMap",
        api_version: "v1",
        path: "/api/v1/namespaces/default/configmaps",
        has_status: false,
        base: || json!({}),
        pieces: &[
            r#"{"data":{"a":"1"}}"#,
            r#"{"data":{"a":"2","b":"1"}}"#,
            r#"{"data":{"b":"2"}}"#,
            r#"{"data":{}}"#,
            r#"{"binaryData":{"c":"AAE="}}"#,
            r#"{"metadata":{"finalizers":["example.com/a"]}}"#,
            r#"{"metadata":{"finalizers":["example.com/b","example.com/a"]}}"#,
            r#"{"nonsense":1}"#,
            r#"{"data":{"a":1}}"#,
        ],
        masked: &[],
    },
    Kind {
        name: "Service",
        api_version: "v1",
        path: "/api/v1/namespaces/default/services",
        has_status: true,
        base: || json!({"spec": {"ports": [{"port": 80}]}}),
        pieces: &[
            r#"{"spec":{"ports":[{"port":80,"name":"a"},{"port":443,"name":"b","protocol":"TCP"}]}}"#,
            r#"{"spec":{"ports":[{"port":443,"name":"b"},{"port":80,"name":"a","targetPort":8080}]}}"#,
            r#"{"spec":{"ports":[{"port":53,"protocol":"UDP","name":"dns"},{"port":53,"name":"dns-tcp"}]}}"#,
            r#"{"spec":{"ports":[{"port":80,"targetPort":"http"}]}}"#,
            r#"{"spec":{"selector":{"app":"x"}}}"#,
            r#"{"spec":{"selector":{"app":"y","tier":"z"}}}"#,
            r#"{"spec":{"sessionAffinity":"ClientIP"}}"#,
            r#"{"spec":{"sessionAffinity":"None"}}"#,
            r#"{"spec":{"internalTrafficPolicy":"Local"}}"#,
            r#"{"spec":{"publishNotReadyAddresses":true}}"#,
            r#"{"spec":{"ipFamilyPolicy":"PreferDualStack"}}"#,
            r#"{"spec":{"ipFamilies":["IPv4"]}}"#,
            r#"{"status":{"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2020-01-02T03:04:05Z"}]}}"#,
            r#"{"status":{"conditions":[{"type":"B","status":"False","reason":"R","message":"m","lastTransitionTime":"2020-01-02T03:04:05Z"}]}}"#,
            r#"{"spec":{"ports":[{"port":"x"}]}}"#,
        ],
        masked: &["/spec/clusterIP", "/spec/clusterIPs/0"],
    },
    Kind {
        name: "Node",
        api_version: "v1",
        path: "/api/v1/nodes",
        has_status: true,
        base: || json!({}),
        pieces: &[
            r#"{"spec":{"unschedulable":true}}"#,
            r#"{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}"#,
            r#"{"spec":{"taints":[{"key":"a","effect":"NoSchedule"},{"key":"b","value":"c","effect":"NoExecute"}]}}"#,
            r#"{"spec":{"providerID":"x://1"}}"#,
            r#"{"status":{"phase":"Running"}}"#,
            r#"{"status":{"conditions":[{"type":"Ready","status":"True","reason":"a"}]}}"#,
            r#"{"status":{"conditions":[{"type":"Ready","status":"False","reason":"a"},{"type":"DiskPressure","status":"False"}]}}"#,
            r#"{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}}"#,
            r#"{"status":{"addresses":[{"type":"Hostname","address":"x"},{"type":"InternalIP","address":"10.0.0.2"}]}}"#,
            r#"{"status":{"nodeInfo":{"kernelVersion":"6"}}}"#,
            r#"{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}}}}"#,
        ],
        masked: &[],
    },
    Kind {
        name: "ServiceCIDR",
        api_version: "networking.k8s.io/v1",
        path: "/apis/networking.k8s.io/v1/servicecidrs",
        has_status: true,
        base: || json!({"spec": {"cidrs": ["10.200.0.0/24"]}}),
        pieces: &[
            r#"{"spec":{"cidrs":["10.200.0.0/24"]}}"#,
            r#"{"spec":{"cidrs":["10.200.1.0/24"]}}"#,
            r#"{"status":{"conditions":[{"type":"Ready","status":"True","reason":"R","message":"","lastTransitionTime":"2020-01-02T03:04:05Z"}]}}"#,
            r#"{"status":{"conditions":[{"type":"Ready","status":"False","reason":"R","message":"m","lastTransitionTime":"2020-01-02T03:04:05Z"}]}}"#,
            r#"{"status":{"conditions":[{"type":"Ready"}]}}"#,
        ],
        masked: &[],
    },
    Kind {
        name: "Lease",
        api_version: "coordination.k8s.io/v1",
        path: "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        has_status: false,
        base: || json!({}),
        pieces: &[
            r#"{"spec":{"holderIdentity":"a"}}"#,
            r#"{"spec":{"holderIdentity":"b","leaseTransitions":1}}"#,
            r#"{"spec":{"leaseDurationSeconds":15}}"#,
            r#"{"spec":{"leaseDurationSeconds":-1}}"#,
            r#"{"spec":{"renewTime":"2020-01-02T03:04:05.123456Z"}}"#,
            r#"{"spec":{"renewTime":"2020-01-02T03:04:05Z","acquireTime":"2020-01-02T03:04:05.000001Z"}}"#,
        ],
        masked: &[],
    },
    Kind {
        name: "EndpointSlice",
        api_version: "discovery.k8s.io/v1",
        path: "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        has_status: false,
        base: || json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.0.9"]}]}),
        pieces: &[
            r#"{"endpoints":[{"addresses":["10.1.0.1"]}]}"#,
            r#"{"endpoints":[{"addresses":["10.1.0.1"],"conditions":{"ready":true}},{"addresses":["10.1.0.2"]}]}"#,
            r#"{"ports":[{"port":80}]}"#,
            r#"{"ports":[{"port":80,"name":"a"},{"port":443,"name":"b","protocol":"UDP"}]}"#,
            r#"{"addressType":"IPv6"}"#,
        ],
        masked: &[],
    },
];

impl Kind {
    /// An object with some of the pieces, and mostly with what it needs.
    pub(super) fn object(&self, name: &str, random: &mut Seeded) -> Value {
        let mut object = json!({"apiVersion": self.api_version, "kind": self.name, "metadata": {"name": name}});
        if random.below(8) > 0 {
            lay(&mut object, (self.base)());
        }
        lay(&mut object, self.some(random));
        object
    }

    /// Some of the pieces, laid together.
    pub(super) fn some(&self, random: &mut Seeded) -> Value {
        let mut some = json!({});
        for _ in 0..random.below(4) {
            let from = if random.below(3) == 0 { SHARED } else { self.pieces };
            lay(&mut some, serde_json::from_str(random.one_of(from)).unwrap_or_default());
        }
        some
    }
}

/// Lays one value over another: objects are merged, everything else is replaced.
pub(super) fn lay(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                lay(under.entry(name).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_part_of_an_object() {
        for kind in KINDS {
            for piece in kind.pieces.iter().chain(SHARED) {
                assert!(serde_json::from_str::<Value>(piece).is_ok_and(|piece| piece.is_object()), "{piece}");
            }
        }
    }
}
