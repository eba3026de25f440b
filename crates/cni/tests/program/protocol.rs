//! What every CNI plugin owes its runtime, held to by the real program: environment, versions, failures as JSON.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::harness::{Node, exec};

fn node() -> Node {
    Node::whole("10.0.0.0/24", json!({}))
}

const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

#[test]
fn without_a_command_it_says_what_it_is() {
    for command in ["", "  "] {
        let mut environment = BTreeMap::new();
        if !command.is_empty() {
            environment.insert("CNI_COMMAND".to_owned(), command.to_owned());
        }
        let answer = exec(&environment, Stdio::null(), "");
        if command.is_empty() {
            assert!(answer.is_success && answer.stdout.is_empty(), "{answer:?}");
            assert!(answer.stderr.contains("cadastre-cni") && answer.stderr.contains("0.1.0, 0.2.0"), "{answer:?}");
        } else {
            assert_eq!(answer.code(), 4);
        }
    }
}

#[test]
fn version_needs_nothing_and_reads_nothing() {
    let environment = BTreeMap::from([("CNI_COMMAND".to_owned(), "VERSION".to_owned())]);
    // A folder cannot be read: who tries has failed.
    let answer = exec(&environment, File::open("/").unwrap(), "");
    assert_eq!(answer.result(), json!({"cniVersion": "1.1.0", "supportedVersions": VERSIONS}));
}

#[test]
fn every_command_lists_all_variables_that_it_lacks() {
    let node = node();
    for (command, needed) in [
        ("ADD", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"),
        ("CHECK", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"),
        ("DEL", "CNI_CONTAINERID,CNI_IFNAME,CNI_PATH"),
        ("GC", "CNI_PATH"),
        ("STATUS", "CNI_PATH"),
    ] {
        let mut call = node.call(command);
        for name in ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"] {
            call = call.with(name, "");
        }
        let (code, message, _) = call.exec().failure();
        assert_eq!((code, message), (4, format!("required env variables [{needed}] missing")), "{command}");
    }
    assert_eq!(node.call("SING").exec().failure().1, "unknown CNI_COMMAND: SING");
    assert_eq!(node.held(), 0);
}

#[test]
fn names_that_break_the_rules_are_refused() {
    let node = node();
    for (name, value) in [
        ("CNI_CONTAINERID", "-bad"),
        ("CNI_CONTAINERID", "a/b"),
        ("CNI_IFNAME", "1234567890123456"),
        ("CNI_IFNAME", ".."),
        ("CNI_IFNAME", "a/b"),
        ("CNI_IFNAME", "a:b"),
        ("CNI_IFNAME", "a b"),
    ] {
        for command in ["ADD", "DEL", "CHECK"] {
            let (code, message, _) = node.call(command).with(name, value).exec().failure();
            assert!(code == 4 && message.contains(name), "{command} {name}={value}: {message}");
        }
    }
}

#[test]
fn a_configuration_that_cannot_be_read_is_told_apart_from_one_that_is_wrong() {
    let node = node();
    let environment = node.call("ADD").environment().clone();
    assert_eq!(exec(&environment, File::open("/").unwrap(), "").code(), 5);
    for (text, code, told) in [
        ("", 6, "JSON"),
        ("{", 6, "JSON"),
        ("[1]", 6, "JSON object"),
        ("{}", 7, "name"),
        (r#"{"name": "-"}"#, 7, "name"),
        (r#"{"name": "a", "cniVersion": "not-a-version"}"#, 1, "cniVersion"),
        (r#"{"name": "a", "cniVersion": "2.0.0"}"#, 1, "cniVersion"),
        (r#"{"name": "a", "cniVersion": "1.0.0"}"#, 7, "ipam"),
        (r#"{"name": "a", "ipam": {"type": "dhcp"}}"#, 7, "ipam.type"),
    ] {
        for command in ["ADD", "DEL"] {
            let environment = node.call(command).environment().clone();
            let (found, message, _) = exec(&environment, Stdio::piped(), text).failure();
            assert_eq!(found, code, "{command} {text}: {message}");
            assert!(message.contains(told), "{command} {text}: {message}");
        }
    }
}

#[test]
fn commands_are_there_from_the_version_that_brought_them() {
    let node = node();
    for (command, first) in [("CHECK", 4), ("GC", 6), ("STATUS", 6)] {
        for (at, version) in VERSIONS.iter().enumerate() {
            let answer = node.call(command).conf("/cniVersion", (*version).into()).exec();
            let is_refused = !answer.is_success && answer.code() == 1;
            assert_eq!(is_refused, at < first, "{command} {version}: {answer:?}");
        }
    }
}

#[test]
fn an_answer_has_the_shape_of_its_version() {
    let ipam =
        json!({"gateway": "10.0.0.254", "routes": [{"dst": "0.0.0.0/0"}], "dns": {"nameservers": ["10.0.0.53"]}});
    let node = Node::whole("10.0.0.0/24", ipam);
    let (routes, dns) = (json!([{"dst": "0.0.0.0/0"}]), json!({"nameservers": ["10.0.0.53"]}));
    for (at, version) in VERSIONS.iter().enumerate() {
        let address = "10.0.0.1/24";
        let expected = match at {
            0 | 1 => json!({"cniVersion": version, "dns": dns,
                "ip4": {"ip": address, "gateway": "10.0.0.254", "routes": routes}}),
            2..=4 => json!({"cniVersion": version, "dns": dns, "routes": routes,
                "ips": [{"version": "4", "address": address, "gateway": "10.0.0.254"}]}),
            _ => json!({"cniVersion": version, "dns": dns, "routes": routes,
                "ips": [{"address": address, "gateway": "10.0.0.254"}]}),
        };
        let answer = node.call("ADD").conf("/cniVersion", (*version).into()).exec();
        assert_eq!(answer.result(), expected);
        assert!(answer.stderr.is_empty() && answer.stdout.starts_with("{\n    \""), "no noise, indented by four");
        let del = node.call("DEL").conf("/cniVersion", (*version).into()).exec();
        assert!(del.is_silent(), "{del:?}");
    }
    let unsaid = node.call("ADD").conf("/cniVersion", Value::Null).exec().result();
    assert_eq!(unsaid["cniVersion"], "0.1.0");
}

#[test]
fn the_plugins_own_namespace_is_nobodys() {
    let node = node();
    let own = format!("/proc/{}/ns/net", std::process::id());
    let answer = node.call("ADD").with("CNI_NETNS", &own).exec();
    assert_eq!(answer.code(), 8, "and it is one document: {answer:?}");
    assert_eq!(node.held(), 0);
    let overridden = node.call("ADD").with("CNI_NETNS", &own).with("CNI_NETNS_OVERRIDE", "TRUE").exec();
    assert_eq!(overridden.ips(), ["10.0.0.1/24"]);
    assert_eq!(node.call("DEL").with("CNI_NETNS", &own).exec().code(), 8);
    assert_eq!(node.held(), 0, "it is taken back all the same");
}

#[test]
fn arguments_that_nobody_knows_are_refused_unless_they_may_be_ignored() {
    let node = node();
    let pod = "K8S_POD_NAMESPACE=ns;K8S_POD_NAME=p;K8S_POD_UID=u";
    assert_eq!(node.call("ADD").with("CNI_ARGS", &format!("{pod};MAC=1")).exec().code(), 4);
    assert_eq!(node.call("ADD").with("CNI_ARGS", "K8S_POD_NAME").exec().code(), 4);
    let (code, message, _) = node.call("ADD").with("CNI_ARGS", "").exec().failure();
    assert!(code == 4 && message.contains("K8S_POD_NAME"), "{message}");
    assert!(node.call("ADD").with("CNI_ARGS", pod).exec().is_success);
    assert!(node.call("DEL").with("CNI_ARGS", "nonsense").exec().is_silent(), "DEL does not need them");
    assert_eq!(node.held(), 0);
}
