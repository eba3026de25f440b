//! What a body is told, and the form that is stored, as a real kube-apiserver 1.36.3 answers the same bodies.

use serde_json::{Value, json};

use super::*;
use crate::field::Errors;

const SERVICE: &str = "io.k8s.api.core.v1.Service";
const CONFIG_MAP: &str = "io.k8s.api.core.v1.ConfigMap";
const SECRET: &str = "io.k8s.api.core.v1.Secret";
const POD: &str = "io.k8s.api.core.v1.Pod";
const NODE: &str = "io.k8s.api.core.v1.Node";
const EVENT: &str = "io.k8s.api.core.v1.Event";
const LEASE: &str = "io.k8s.api.coordination.v1.Lease";
const SLICE: &str = "io.k8s.api.discovery.v1.EndpointSlice";
const IP_POOL: &str = "io.cncf.cni.whereabouts.v1alpha1.IPPool";
const CLUSTER_CIDR: &str = "io.x-k8s.networking.v1.ClusterCIDR";

fn root(name: &str) -> &'static Definition {
    definition(name).unwrap()
}

fn faults(name: &str, body: &Value) -> Vec<String> {
    check(root(name), body).iter().map(ToString::to_string).collect()
}

/// A structure, a body and what is said of it, one case a line.
const UNREADABLE: &str = r#"
Service | {"spec":"x"} | json: cannot unmarshal string into Go struct field Service.spec of type v1.ServiceSpec
Service | {"spec":{"ports":"x"}} | json: cannot unmarshal string into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort
Service | {"spec":{"ports":[5]}} | json: cannot unmarshal number into Go struct field ServiceSpec.spec.ports of type v1.ServicePort
Service | {"spec":{"ports":[{},{"port":"80"}]}} | json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32
Service | {"spec":{"ports":[{"port":1.5}]}} | json: cannot unmarshal number 1.5 into Go struct field ServicePort.spec.ports.port of type int32
Service | {"spec":{"ports":[{"port":5000000000}]}} | json: cannot unmarshal number 5000000000 into Go struct field ServicePort.spec.ports.port of type int32
Service | {"spec":{"ports":[{"protocol":5}]}} | json: cannot unmarshal number into Go struct field ServicePort.spec.ports.protocol of type v1.Protocol
Service | {"spec":{"ports":[{"targetPort":true}]}} | json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32
Service | {"spec":{"ports":[{"appProtocol":[]}]}} | json: cannot unmarshal array into Go struct field ServicePort.spec.ports.appProtocol of type string
Service | {"spec":{"ipFamilies":[4]}} | json: cannot unmarshal number into Go struct field ServiceSpec.spec.ipFamilies of type v1.IPFamily
Service | {"spec":{"selector":{"a":1}}} | json: cannot unmarshal number into Go struct field ServiceSpec.spec.selector of type string
Service | [] | json: cannot unmarshal array into Go value of type v1.Service
ConfigMap | {"metadata":{"labels":[]}} | json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string
ConfigMap | {"metadata":{"uid":5}} | json: cannot unmarshal number into Go struct field ObjectMeta.metadata.uid of type types.UID
ConfigMap | {"metadata":{"creationTimestamp":5}} | json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string
ConfigMap | {"metadata":{"creationTimestamp":"x"}} | parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"
ConfigMap | {"binaryData":{"a":5}} | json: cannot unmarshal number into Go struct field ConfigMap.binaryData of type []uint8
Pod | {"spec":{"volumes":[{"emptyDir":5}]}} | json: cannot unmarshal number into Go struct field Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource
Pod | {"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":1.5}}}]}} | json: cannot unmarshal number 1.5 into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32
Pod | {"spec":{"containers":[{"resources":{"limits":5}}]}} | json: cannot unmarshal number into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList
EndpointSlice | {"endpoints":{}} | json: cannot unmarshal object into Go struct field EndpointSlice.endpoints of type []v1.Endpoint
IPPool | {"metadata":{"labels":{"a":5}}} | json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string
Secret | {"data":{"a":"abc"}} | illegal base64 data at input byte 0
Secret | {"data":{"a":"abcdefgh*"}} | illegal base64 data at input byte 8
Secret | {"data":{"a":"ab="}} | illegal base64 data at input byte 3
Secret | {"data":{"a":"ab==d"}} | illegal base64 data at input byte 4
Secret | {"data":{"a":"abcd\nabc"}} | illegal base64 data at input byte 5
Node | {"status":{"capacity":{"cpu":"x"}}} | quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
Node | {"status":{"capacity":{"cpu":true}}} | quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
Lease | {"spec":{"renewTime":"2024-01-02T03:04:05Z"}} | parsing time "2024-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"
"#;

#[test]
fn what_cannot_be_read_is_told_in_the_decoder_s_words() {
    let all = [SERVICE, CONFIG_MAP, SECRET, POD, NODE, LEASE, SLICE, IP_POOL];
    for case in UNREADABLE.trim().lines() {
        let parts: Vec<&str> = case.split(" | ").collect();
        let [short, body, said] = parts[..] else { panic!("{case}") };
        let name = all.iter().find(|name| root(name).short_name() == short).unwrap();
        assert_eq!(faults(name, &serde_json::from_str(body).unwrap()), [said], "{body}");
    }
    for fine in ["", "YQ==", "YWI=", "YWJj", "YQ\n==", "YW\r\nJj"] {
        assert_eq!(faults(SECRET, &json!({"data": {"a": fine}})), [""; 0], "{fine:?}");
    }
}

#[test]
fn a_fault_that_stops_the_decoder_is_told_before_one_that_does_not() {
    let body = json!({"metadata": {"annotations": 5, "creationTimestamp": "x", "zz": 1}});
    assert!(faults(CONFIG_MAP, &body)[0].starts_with("parsing time"));
    let body = json!({"data": {"a": 1}, "metadata": {"labels": 5, "zz": 1}});
    assert_eq!(
        faults(CONFIG_MAP, &body),
        ["json: cannot unmarshal number into Go struct field ConfigMap.data of type string"]
    );
}

#[test]
fn fields_that_no_structure_has_are_named_by_their_path() {
    let body = json!({"Spec": {}, "metadata": {"labels": {"any": "x"}, "foo": 1}, "spec": {"ports": [{"port": 1}, {"Port": 1}]}});
    let unknown =
        [r#"unknown field "Spec""#, r#"unknown field "metadata.foo""#, r#"unknown field "spec.ports[1].Port""#];
    assert_eq!(faults(SERVICE, &body), unknown);
    let body = json!({"spec": {"range": {"a": 1}, "allocations": {"1": {"x": 1}}, "zz": {"a": 1}}});
    let unknown =
        [r#"unknown field "spec.allocations.1.x""#, r#"unknown field "spec.range.a""#, r#"unknown field "spec.zz""#];
    assert_eq!(faults(IP_POOL, &body), unknown);
}

#[test]
fn null_is_never_a_fault() {
    let body = json!({"metadata": null, "spec": {"ports": [null, {"port": null, "targetPort": null}], "selector": {"a": null}}});
    assert_eq!(faults(SERVICE, &body), [""; 0]);
}

#[test]
fn fields_that_are_there_twice_are_named_where_they_count() {
    let twice = |name, json: &str| parse(root(name), json.as_bytes()).unwrap().duplicates;
    let body = r#"{"metadata":{"name":"a","name":"b","labels":{"x":"1","x":"2","x":"3"},
                   "managedFields":[{"manager":"x","manager":"x","fieldsV1":{"a":1,"a":2}}]},"zz":{"a":1,"a":2},"zz":1}"#;
    assert_eq!(
        twice(CONFIG_MAP, body),
        [
            r#"duplicate field "metadata.name""#,
            r#"duplicate field "metadata.labels.x""#,
            r#"duplicate field "metadata.managedFields[0].manager""#
        ]
    );
    let body = r#"{"spec":{"range":"x","range":"y","zz":{"a":1,"a":2}}}"#;
    assert_eq!(twice(IP_POOL, body), [r#"duplicate field "spec.range""#, r#"duplicate field "spec.zz.a""#]);
}

#[test]
fn a_body_reads_as_any_json_does() {
    let json = r#"{"a":[1,-2,3.5,18446744073709551615,true,null,"\u00e9\n"],"b":{"c":{}},"b":{"d":[]}}"#;
    let parsed = parse(root(SERVICE), json.as_bytes()).unwrap();
    assert_eq!(parsed.value, serde_json::from_str::<Value>(json).unwrap());
    for broken in ["", "{", r#"{"a":1}x"#, r#"{"a":}"#] {
        assert!(parse(root(SERVICE), broken.as_bytes()).is_err(), "{broken}");
    }
}

fn invalid(name: &str, body: &Value) -> Vec<String> {
    let mut errors = Errors::new();
    validate(root(name), body, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn kinds_without_a_go_type_are_held_against_their_schema() {
    let of_type = |path: &str, wanted, found| {
        format!("{path}: Invalid value: \"{found}\": {path} in body must be of type {wanted}: \"{found}\"")
    };
    let bits = |bits: Value| json!({"spec": {"perNodeHostBits": bits}});
    let accepted = |time: &str| {
        let (reason, message) = ("Accepted", "nodes are served");
        let condition = json!({
            "type": "Accepted", "status": "True", "reason": reason, "message": message, "lastTransitionTime": time,
        });
        json!({"status": {"conditions": [condition]}})
    };
    let checked =
        "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.perNodeHostBits";
    let cases = [
        (IP_POOL, json!({"spec": 5}), vec![of_type("spec", "object", "integer")]),
        (
            IP_POOL,
            json!({"spec": {"range": 5, "allocations": []}}),
            vec![of_type("spec.allocations", "object", "array"), of_type("spec.range", "string", "integer")],
        ),
        (
            IP_POOL,
            json!({"spec": {"range": null, "allocations": {"1": {"id": "a"}}}}),
            vec!["spec.allocations.1.podref: Required value".to_owned(), "spec.range: Required value".to_owned()],
        ),
        (CLUSTER_CIDR, bits(json!("x")), vec![of_type("spec.perNodeHostBits", "integer", "string")]),
        (CLUSTER_CIDR, bits(json!(true)), vec![of_type("spec.perNodeHostBits", "int32", "")]),
        (CLUSTER_CIDR, bits(json!(1.5)), vec![of_type("spec.perNodeHostBits", "int32", "float64"), checked.to_owned()]),
        (CLUSTER_CIDR, bits(json!(5_000_000_000_i64)), vec![checked.to_owned()]),
        (CLUSTER_CIDR, bits(json!(8.0)), vec![]),
        (
            CLUSTER_CIDR,
            json!({"spec": {"perNodeHostBits": 8, "nodeSelector": {"nodeSelectorTerms": [1]}}}),
            vec![of_type("spec.nodeSelector.nodeSelectorTerms[0]", "object", "integer")],
        ),
        (CLUSTER_CIDR, accepted("2026-01-01T00:00:00Z"), vec![]),
        (
            CLUSTER_CIDR,
            accepted("yesterday"),
            vec![of_type("status.conditions[0].lastTransitionTime", "date-time", "yesterday")],
        ),
        (IP_POOL, json!({"metadata": {"labels": 5}}), vec![]),
        (SERVICE, json!({"spec": 5}), vec![]),
    ];
    for (name, body, said) in cases {
        assert_eq!(invalid(name, &body), said, "{body}");
    }
}

fn stored(name: &str, mut body: Value) -> Value {
    canonical(root(name), &mut body);
    let once = body.clone();
    canonical(root(name), &mut body);
    assert_eq!(body, once, "the form of a form is itself");
    body
}

#[test]
fn an_object_is_stored_as_go_would_write_it() {
    let cases = [
        (
            SERVICE,
            json!({
                "metadata": {"name": "a", "labels": {"x": null}, "annotations": {}, "generation": 0, "creationTimestamp": null},
                "spec": {"ports": [{"port": 80, "nodePort": 0, "appProtocol": ""}], "selector": {}, "externalIPs": [], "zz": 1},
            }),
            json!({
                "metadata": {"name": "a", "labels": {"x": ""}},
                "spec": {"ports": [{"port": 80, "targetPort": 0, "appProtocol": ""}]},
                "status": {"loadBalancer": {}},
            }),
        ),
        (
            NODE,
            json!({"status": {"capacity": {"cpu": "2000m", "memory": 1024}, "images": [{"sizeBytes": 0}]}}),
            json!({
                "metadata": {},
                "spec": {},
                "status": {
                    "capacity": {"cpu": "2", "memory": "1024"},
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                    "images": [{"names": null}],
                    "nodeInfo": {
                        "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                        "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "",
                        "osImage": "", "systemUUID": "",
                    },
                },
            }),
        ),
        (
            EVENT,
            json!({"firstTimestamp": "2024-01-01T00:00:00.5+01:00", "count": 0}),
            json!({
                "metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": "2023-12-31T23:00:00Z",
                "lastTimestamp": null, "eventTime": null, "reportingComponent": "", "reportingInstance": "",
            }),
        ),
        (
            SLICE,
            json!({"addressType": "IPv4", "endpoints": [], "ports": [{"port": null}]}),
            json!({"metadata": {}, "addressType": "IPv4", "endpoints": null, "ports": [{}]}),
        ),
        (
            SECRET,
            json!({"data": {"a": null, "b": ""}, "type": ""}),
            json!({"metadata": {}, "data": {"a": "", "b": ""}}),
        ),
        (
            LEASE,
            json!({"spec": {"leaseTransitions": 0, "holderIdentity": "", "renewTime": "2024-01-01T01:00:00.123456+01:00"}}),
            json!({"metadata": {}, "spec": {"leaseTransitions": 0, "holderIdentity": "", "renewTime": "2024-01-01T00:00:00.123456Z"}}),
        ),
        (
            IP_POOL,
            json!({"metadata": {"generation": 0}, "spec": {"range": "", "allocations": {"1": {"id": "", "zz": 1, "ifname": null}}}}),
            json!({"metadata": {}, "spec": {"range": "", "allocations": {"1": {"id": ""}}}}),
        ),
    ];
    for (name, sent, kept) in cases {
        assert_eq!(stored(name, sent.clone()), kept, "{sent}");
    }
}

#[test]
fn pruning_leaves_zero_and_absent_the_same() {
    let mut zero = json!({"spec": {"ports": [{"port": 0, "targetPort": 0, "name": ""}], "type": "", "publishNotReadyAddresses": false},
                          "status": {"loadBalancer": {}}});
    prune(root(SERVICE), &mut zero);
    assert_eq!(zero, json!({"spec": {"ports": [{}]}}));
}

#[test]
fn a_long_name_above_many_faults_is_not_repeated_for_each_of_them() {
    let name = "k".repeat(150_000);
    let many: serde_json::Map<String, Value> = (0..2_000).map(|n| (format!("f{n}"), json!(n))).collect();
    let unknown = faults(IP_POOL, &json!({"spec": {"allocations": {&name: many}}}));
    assert_eq!(unknown.len(), 2);
    assert!(unknown[0].ends_with(".f0\""));
    let twice = vec![r#""a":1,"b":1,"c":1,"a":1,"b":1,"c":1"#; 1_000].join(",");
    let body = format!(r#"{{"spec":{{"{name}":{{{twice}}}}}}}"#);
    assert_eq!(parse(root(IP_POOL), body.as_bytes()).unwrap().duplicates.len(), 2);
}
