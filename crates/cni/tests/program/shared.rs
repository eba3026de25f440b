//! Networks without slices: what the real program does with pools that all nodes share.

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::harness::{BOOTS, Node};

const GROUP: &str = "whereabouts.cni.cncf.io/v1alpha1";

fn pool(name: &str, range: &str, allocations: &Value) -> Value {
    json!({
        "apiVersion": GROUP, "kind": "IPPool", "metadata": {"name": name},
        "spec": {"range": range, "allocations": allocations},
    })
}

fn reservation(name: &str, podref: &str) -> Value {
    json!({
        "apiVersion": GROUP, "kind": "OverlappingRangeIPReservation", "metadata": {"name": name},
        "spec": {"podref": podref, "ifname": "net1"},
    })
}

#[test]
fn what_is_given_is_in_the_pool_and_reserved_until_it_comes_back() {
    let cluster = Cluster::start();
    let [here, there] = [(), ()].map(|()| cluster.node(json!({"range": "10.0.0.0/24"})));
    assert_eq!(here.add("a"), ["10.0.0.1/24"]);
    assert_eq!(there.add("b"), ["10.0.0.2/24"], "another node sees it");
    assert_eq!(here.add("a"), ["10.0.0.1/24"], "asked twice");
    let entries = cluster.pool("10.0.0.0-24");
    assert_eq!(entries["1"], "a default/a net1");
    assert_eq!((entries.len(), cluster.reservations()), (2, vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()]));
    let spec = &cluster.get("overlappingrangeipreservations/10.0.0.1")["spec"];
    assert_eq!(*spec, json!({"podref": "default/a", "ifname": "net1", "containerid": "a"}));
    here.del("a");
    here.del("a");
    assert_eq!((cluster.pool("10.0.0.0-24").len(), cluster.reservations()), (1, vec!["10.0.0.2".to_owned()]));
    assert_eq!((here.held(), there.held()), (0, 1));
    assert_eq!(there.add("c"), ["10.0.0.1/24"], "the lowest that is free");
}

/// How many pools somebody waited for a turn at.
fn turns(node: &Node) -> usize {
    let networks = fs::read_dir(node.path("")).unwrap().map(|network| network.unwrap().path());
    let files = networks.filter(|network| network.is_dir()).flat_map(|network| fs::read_dir(network).unwrap());
    files.filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with("turn-")).count()
}

#[test]
fn it_goes_through_the_agent_if_there_is_one_and_past_it_if_it_does_not_help() {
    let cluster = Arc::new(Cluster::start());
    let node = cluster.node(json!({"range": "10.0.0.0/24"}));
    let asked = cluster.agent(&node);
    // The server itself cannot be reached from here.
    let call = |command: &str| node.of(command, "a").conf("/ipam/kubernetes/kubeconfig", json!(cluster.nowhere()));
    assert_eq!(call("ADD").exec().ips(), ["10.0.0.1/24"]);
    assert_eq!(asked.load(Ordering::Relaxed), 4, "to look for the pool, to make it, to take, to reserve");
    assert_eq!(node.of("ADD", "b").exec().ips(), ["10.0.0.2/24"]);
    assert_eq!(asked.load(Ordering::Relaxed), 7, "a read and two writes");
    assert!(call("DEL").exec().is_silent());
    assert_eq!(cluster.pool("10.0.0.0-24").len(), 1);
    assert_eq!(turns(&node), 0, "the agent sees to it that nobody is in another's way");

    // Nobody listens any more on a socket that is still there; somebody else listens; or somebody who never answers.
    let stale = cluster.node(json!({"range": "10.0.0.0/24"}));
    drop(UnixListener::bind(stale.path("agent.sock")).unwrap());
    // A child that another test has just forked has it open, too, until it is the program that it is to be.
    while UnixStream::connect(stale.path("agent.sock")).is_ok() {
        thread::yield_now();
    }
    assert_eq!(stale.add("c"), ["10.0.0.1/24"]);
    assert_eq!(turns(&stale), 1);
    let other = cluster.node(json!({"range": "10.0.0.0/24"}));
    let listener = UnixListener::bind(other.path("agent.sock")).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            use std::io::{Read, Write};
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nwhat");
        }
    });
    assert_eq!(other.add("d"), ["10.0.0.3/24"]);
    let silent = cluster.node(json!({"range": "10.0.0.0/24"}));
    let _kept = UnixListener::bind(silent.path("agent.sock")).unwrap();
    assert_eq!(silent.add("e"), ["10.0.0.4/24"]);
}

#[test]
fn a_pod_in_a_new_sandbox_takes_its_address_over_on_any_node() {
    let cluster = Cluster::start();
    let [here, there] = [(), ()].map(|()| cluster.node(json!({"range": "10.0.0.0/24"})));
    let of = |node: &Node, command: &str, container: &str| {
        let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0";
        node.of(command, container).with("CNI_ARGS", args).exec()
    };
    here.add("first");
    assert_eq!(of(&here, "ADD", "old").ips(), ["10.0.0.2/24"]);
    assert_eq!(of(&there, "ADD", "new").ips(), ["10.0.0.2/24"]);
    assert_eq!(cluster.pool("10.0.0.0-24")["2"], "new default/web-0 net1");
    // The old one is late, and takes nothing with it.
    assert!(of(&here, "DEL", "old").is_silent());
    assert_eq!(cluster.pool("10.0.0.0-24")["2"], "new default/web-0 net1");
    assert_eq!(cluster.reservations().len(), 2);
    assert!(of(&there, "DEL", "new").is_silent());
    assert_eq!((cluster.pool("10.0.0.0-24").len(), cluster.reservations().len()), (1, 1));
}

#[test]
fn an_address_of_each_range_or_none_and_nothing_is_left_of_it() {
    let cluster = Cluster::start();
    let node = cluster.node(json!({"ipRanges": [{"range": "10.0.0.0/24"}, {"range": "10.0.1.0/30"}]}));
    assert_eq!(node.add("a"), ["10.0.0.1/24", "10.0.1.1/30"]);
    assert_eq!(node.add("b"), ["10.0.0.2/24", "10.0.1.2/30"]);
    let (code, message, details) = node.of("ADD", "c").exec().failure();
    assert_eq!((code, message.as_str()), (100, "no address of 10.0.1.0/30 is free in IPPool kube-system/10.0.1.0-30"));
    assert!(details.starts_with("held by default/a (net1), default/b (net1), "), "{details}");
    // Also if the first was taken when the second turned out to be somebody else's.
    node.del("a");
    cluster.create("overlappingrangeipreservations", &reservation("10.0.1.1", "other/x"));
    assert_eq!(node.of("ADD", "c").exec().code(), 100);
    assert_eq!(cluster.pool("10.0.0.0-24").into_keys().collect::<Vec<_>>(), ["2"]);
    assert_eq!(cluster.reservations(), ["10.0.0.2", "10.0.1.1", "10.0.1.2"]);
    assert_eq!(node.held(), 1);
}

#[test]
fn what_a_network_with_an_overlapping_range_has_is_passed_over() {
    let cluster = Arc::new(Cluster::start());
    for end in 1..=60 {
        cluster.create("overlappingrangeipreservations", &reservation(&format!("10.0.0.{end}"), "other/x"));
    }
    let node = cluster.node(json!({"range": "10.0.0.0/24"}));
    let asked = cluster.agent(&node);
    assert_eq!(node.add("a"), ["10.0.0.61/24"]);
    assert!(asked.load(Ordering::Relaxed) < 20, "whereabouts needs two requests for each of them");
    assert_eq!(cluster.pool("10.0.0.0-24").into_keys().collect::<Vec<_>>(), ["61"]);
    // With the switch off, or in a network with a name, others do not matter.
    let off = cluster.node(json!({"range": "10.0.0.0/25", "enable_overlapping_ranges": false}));
    assert_eq!(off.add("b"), ["10.0.0.1/25"]);
    let named = cluster.node(json!({"range": "10.0.0.0/24", "network_name": "blue"}));
    assert_eq!(named.of("ADD", "c").exec().ips(), ["10.0.0.1/24"]);
    assert_eq!(cluster.pool("blue-10.0.0.0-24").len(), 1);
    assert!(cluster.reservations().contains(&"blue-10.0.0.1".to_owned()));
    // A pod does not get an address on one interface that it has on another.
    let two = cluster.node(json!({"range": "10.0.0.0/26", "range_start": "10.0.0.61"}));
    assert_eq!(two.of("ADD", "a").of("a", "net2").exec().ips(), ["10.0.0.62/26"]);
}

#[test]
fn all_reservations_are_read_however_many_there_are() {
    let cluster = Arc::new(Cluster::start());
    // They come in pages, by their names.
    let others = (0..510).map(|at| format!("10.0.{}.{}", at / 255, at % 255));
    for name in others.chain((1..=30).map(|end| format!("10.0.9.{end}"))) {
        cluster.create("overlappingrangeipreservations", &reservation(&name, "other/x"));
    }
    let node = cluster.node(json!({"range": "10.0.9.0/24"}));
    let asked = cluster.agent(&node);
    assert_eq!(node.add("a"), ["10.0.9.31/24"]);
    assert!(asked.load(Ordering::Relaxed) < 20, "{asked:?}");
}

#[test]
fn what_whereabouts_left_is_used_and_given_back() {
    let cluster = Cluster::start();
    let entry = |pod: &str, ifname: &str| json!({"id": format!("id-{pod}"), "podref": format!("default/{pod}"), "ifname": ifname});
    let entries = json!({"1": entry("a", "net1"), "2": entry("b", "net1"), "4": entry("b", "net2")});
    cluster.create("ippools", &pool("10.0.0.0-24", "10.0.0.0/24", &entries));
    for (name, pod) in [("10.0.0.1", "default/a"), ("10.0.0.2", "default/b")] {
        cluster.create("overlappingrangeipreservations", &reservation(name, pod));
    }
    let node = cluster.node(json!({"range": "10.0.0.0/24"}));
    assert_eq!(node.add("c"), ["10.0.0.3/24"]);
    assert_eq!(node.add("a"), ["10.0.0.1/24"], "the pod has it already");
    assert_eq!(cluster.pool("10.0.0.0-24")["1"], "a default/a net1");
    node.del("id-b");
    let left = cluster.pool("10.0.0.0-24");
    assert_eq!(left.into_keys().collect::<Vec<_>>(), ["1", "3", "4"], "what it never knew of it finds in the pool");
    assert_eq!(cluster.reservations(), ["10.0.0.1", "10.0.0.3"]);
    // One that another range was written into is nobody's to guess at.
    cluster.create("ippools", &pool("10.0.9.0-24", "10.0.8.0/24", &json!({})));
    let odd = cluster.node(json!({"range": "10.0.9.0/24"}));
    let (code, message, _) = odd.of("ADD", "a").exec().failure();
    assert!(code == 11 && message.contains("spec.range is \"10.0.8.0/24\""), "{message}");
}

#[test]
fn every_address_of_ipv6_can_be_given() {
    let cluster = Cluster::start();
    let node = cluster.node(json!({"range": "fd00::/64", "range_start": "fd00::ffff:ffff:ffff:fffd"}));
    assert_eq!(node.add("a"), ["fd00::ffff:ffff:ffff:fffd/64"]);
    assert_eq!(node.add("b"), ["fd00::ffff:ffff:ffff:fffe/64"]);
    assert_eq!(node.of("ADD", "c").exec().code(), 100);
    node.del("a");
    assert_eq!(cluster.pool("fd00---64").into_keys().collect::<Vec<_>>(), ["18446744073709551614"]);
    assert_eq!(cluster.reservations(), ["fd00--ffff-ffff-ffff-fffe"]);
    let zeros = cluster.node(json!({"range": "::/64"}));
    assert_eq!(zeros.add("z"), ["::1/64"]);
    assert_eq!(cluster.pool("0---64").len(), 1);
    let wide = cluster.node(json!({"range": "::/0", "range_start": "ffff::1", "network_name": "wide"}));
    assert_eq!(wide.of("ADD", "w").exec().ips(), ["ffff::1/0"]);
    let offset = u128::from("ffff::1".parse::<std::net::Ipv6Addr>().unwrap()).to_string();
    assert_eq!(cluster.pool("wide----0").into_keys().collect::<Vec<_>>(), [offset]);
}

#[test]
fn addresses_can_be_asked_for_and_the_gateway_cannot() {
    let cluster = Cluster::start();
    let node = cluster.node(json!({"range": "10.0.0.0/24", "gateway": "10.0.0.1"}));
    let ask = |pod: &str, ip: &str| node.of("ADD", pod).and_args(&format!("IP={ip}")).exec();
    assert_eq!(ask("a", "10.0.0.9").ips(), ["10.0.0.9/24"]);
    assert_eq!(ask("b", "10.0.0.9").failure().1, "10.0.0.9 was asked for, and default/a (net1) holds it");
    assert_eq!(ask("b", "10.0.0.1").code(), 102);
    assert_eq!(ask("b", "10.1.0.1").code(), 102);
    cluster.create("overlappingrangeipreservations", &reservation("10.0.0.7", "other/x"));
    let (code, message, _) = ask("b", "10.0.0.7").failure();
    assert!(code == 102 && message.contains("other/x"), "{message}");
    assert_eq!(node.add("b"), ["10.0.0.2/24"]);
    assert_eq!(cluster.pool("10.0.0.0-24").len(), 2);
}

#[test]
fn check_gc_and_status_speak_of_what_this_node_added() {
    let cluster = Cluster::start();
    let [here, there] = [(), ()].map(|()| cluster.node(json!({"range": "10.0.0.0/29"})));
    for (node, pod) in [(&here, "a"), (&here, "b"), (&there, "c")] {
        node.add(pod);
    }
    let check =
        |pod: &str, ip: &str| here.of("CHECK", pod).conf("/prevResult", json!({"ips": [{"address": ip}]})).exec();
    assert!(check("a", "10.0.0.1/29").is_silent());
    assert_eq!(check("a", "10.0.0.2/29").code(), 103);
    assert_eq!(check("c", "10.0.0.3/29").code(), 103, "that is another node's");
    let valid = json!([{"containerID": "b", "ifname": "net1"}]);
    let mut gc = here.call("GC");
    gc.conf["cni.dev/valid-attachments"] = valid;
    assert!(gc.exec().is_silent());
    assert_eq!(cluster.pool("10.0.0.0-29").into_keys().collect::<Vec<_>>(), ["2", "3"]);
    assert_eq!(cluster.reservations(), ["10.0.0.2", "10.0.0.3"]);
    assert!(here.call("STATUS").exec().is_silent());
    for pod in ["d", "e", "f", "g"] {
        there.add(pod);
    }
    assert!(here.call("STATUS").exec().failure().1.contains("no address of 10.0.0.0/29"));
    let away = here.call("STATUS").conf("/ipam/kubernetes/kubeconfig", json!(cluster.nowhere())).exec();
    let (code, message, _) = away.failure();
    assert!(code == 50 && message.contains("cannot be reached"), "{message}");
}

#[test]
fn a_kubeconfig_that_is_wrong_is_told_with_what_is_wrong() {
    let cluster = Cluster::start();
    let node = cluster.node(json!({"range": "10.0.0.0/24"}));
    let add = |kubeconfig: Value| node.of("ADD", "a").conf("/ipam/kubernetes/kubeconfig", kubeconfig).exec().failure();
    let (code, message, details) = add(json!(""));
    assert!(code == 7 && message.starts_with("ipam.kubernetes.kubeconfig: missing"), "{message}");
    assert!(details.contains("node_slice_size"), "{details}");
    assert_eq!(add(json!("/nonexistent/kubeconfig")).0, 5);
    let path = node.path("wrong");
    let yaml = "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n\
                clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {exec: {command: x}}}]\n";
    std::fs::write(&path, yaml).unwrap();
    let (code, message, _) = add(json!(path));
    assert!(code == 7 && message.contains("exec: not supported"), "{message}");
    std::fs::write(&path, yaml.replace("exec: {command: x}", "token: t")).unwrap();
    let (code, message, _) = add(json!(path));
    assert!(code == 7 && message.contains("certificate-authority: missing"), "{message}");
    // Whoever may not is told what is missing.
    let server = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let server =
        server.lines().find_map(|line| line.trim().strip_prefix("server: ")).unwrap().trim_matches('"').to_owned();
    let (code, message, details) = add(json!(cluster.kubeconfig_to(&server)));
    assert!(code == 11 && message.contains("(403)") || message.contains("(401)"), "{message}");
    assert!(!details.is_empty());
    assert_eq!(node.held(), 0);
}

#[test]
fn a_network_that_gets_slices_gives_its_old_addresses_back_to_the_pool() {
    let cluster = Cluster::start();
    let node = cluster.node(json!({"range": "10.0.0.0/24"}));
    node.add("old");
    node.grant(&[("10.0.0.0/24", &["10.0.0.0/28"])]);
    let sliced = |command: &str, pod: &str| node.of(command, pod).conf("/ipam/fast_ipam", json!(true)).exec();
    assert_eq!(sliced("ADD", "old").ips(), ["10.0.0.1/24"], "asked again");
    assert_eq!(sliced("ADD", "new").ips(), ["10.0.0.2/24"], "one that is held is held");
    assert_eq!(cluster.pool("10.0.0.0-24").len(), 1, "the agent brings the new one there");
    let mut booted = node.of("ADD", "old-again").conf("/ipam/fast_ipam", json!(true));
    booted = booted.with("CADASTRE_BOOT_ID", BOOTS[1]).with("CNI_ARGS", "K8S_POD_NAMESPACE=default;K8S_POD_NAME=old");
    assert_eq!(booted.exec().ips(), ["10.0.0.3/24"], "a slice does not take over what the pool still has");
    assert!(sliced("DEL", "old").is_silent());
    assert_eq!((cluster.pool("10.0.0.0-24").len(), cluster.reservations().len()), (0, 0));
    // And back: what a slice gave ends without the pool.
    assert_eq!(node.add("new"), ["10.0.0.2/24"]);
    node.del("new");
    assert_eq!(node.held(), 1);
}
