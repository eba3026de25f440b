//! What the real program does with addresses: the vectors of whereabouts and host-local, and what they lack.

use std::fs;

use cni::grants::Grants;
use cni::journal::{BootId, Holding, Image, Ip, Ips, Journal, Netns, Origin, Record, Renewal};
use cni::lock::{Lock, PATIENCE};
use cni::shortage::Shortage;
use serde_json::{Value, json};

use crate::harness::{BOOTS, Call, Node};

/// Adds `count` pods and returns what they got.
fn sequence(node: &Node, count: usize) -> Vec<String> {
    (0..count).flat_map(|number| node.add(&format!("c{number}"))).collect()
}

#[test]
fn ranges_give_what_whereabouts_gives() {
    for (range, ipam, expected) in [
        ("192.168.1.0/24", json!({}), vec!["192.168.1.1/24", "192.168.1.2/24"]),
        ("192.168.2.224/28", json!({"range": "192.168.2.225/28"}), vec!["192.168.2.225/28"]),
        ("2001::/116", json!({"range": "2001::1/116"}), vec!["2001::1/116", "2001::2/116"]),
        ("fd::/116", json!({"range": "fd::1/116"}), vec!["fd::1/116"]),
        (
            "192.168.1.0/24",
            json!({"range": "192.168.1.11-192.168.1.23/24"}),
            (11..=23).map(|end| Box::leak(format!("192.168.1.{end}/24").into_boxed_str()) as &str).collect(),
        ),
        (
            "2001:db8:480:603d::/64",
            json!({"range": "2001:db8:480:603d:304:403::-2001:db8:480:603d:304:403:0:4/64"}),
            vec!["2001:db8:480:603d:304:403::/64", "2001:db8:480:603d:304:403:0:1/64"],
        ),
        (
            "2001:db8:5422:5::/64",
            json!({"range": "2001:db8:5422:5::-2001:db8:5422:5:7fff:ffff:ffff:ffff/64"}),
            vec!["2001:db8:5422:5::1/64"],
        ),
        ("192.168.1.0/24", json!({"exclude": ["192.168.1.0/28", "192.168.1.16/28"]}), vec!["192.168.1.32/24"]),
        ("2001::/116", json!({"exclude": ["2001::0/124", "2001::10/124"]}), vec!["2001::20/116"]),
        ("2001:db8::/116", json!({"range_end": "2001:db8::2"}), vec!["2001:db8::1/116", "2001:db8::2/116"]),
        ("192.168.1.0/24", json!({"range_start": "192.168.1.5"}), vec!["192.168.1.5/24", "192.168.1.6/24"]),
        ("192.168.001.000/24", json!({"range_start": "192.168.001.005"}), vec!["192.168.1.5/24"]),
    ] {
        let node = Node::whole(range, ipam.clone());
        assert_eq!(sequence(&node, expected.len()), expected, "{range} {ipam}");
    }
}

#[test]
fn an_upper_limit_is_kept_and_the_next_one_is_told_who_has_it_all() {
    let node = Node::whole("192.168.1.0/24", json!({"range_start": "192.168.1.5", "range_end": "192.168.1.12"}));
    sequence(&node, 8);
    let (code, message, details) = node.of("ADD", "ninth").exec().failure();
    assert_eq!(
        (code, message.as_str()),
        (100, "no address of 192.168.1.0/24 is free on node n1: its slices are 192.168.1.0/24")
    );
    assert!(details.starts_with("held by default/c0 (net1), default/c1 (net1), "), "{details}");
    node.del("c3");
    assert_eq!(node.add("ninth"), ["192.168.1.8/24"]);
}

#[test]
fn what_was_taken_back_is_given_again_and_taking_back_twice_is_fine() {
    for range in ["10.0.0.0/24", "fd00::/116"] {
        let node = Node::whole(range, json!({}));
        let first = node.add("c1");
        node.del("c1");
        node.del("c1");
        assert_eq!(node.add("c2"), first);
        assert!(node.of("DEL", "nobody").with("CNI_NETNS", "").exec().is_silent());
        assert_eq!(node.held(), 1);
    }
}

#[test]
fn an_address_of_each_range_in_their_order_then_the_fixed_ones() {
    let ipam = json!({
        "range": "10.0.0.0/24",
        "ipRanges": [{"range": "fd00::/64"}, {"range": "10.9.0.0/24"}],
        "addresses": [{"address": "192.168.0.9/16", "gateway": "192.168.0.1"}],
        "gateway": "10.0.0.1",
    });
    let ranges: &[(&str, &[&str])] =
        &[("10.0.0.0/24", &["10.0.0.0/24"]), ("fd00::/64", &["fd00::/64"]), ("10.9.0.0/24", &["10.9.0.16/28"])];
    let node = Node::new(ipam, ranges);
    let result = node.call("ADD").exec().result();
    let expected = json!([
        {"address": "10.0.0.2/24", "gateway": "10.0.0.1"},
        {"address": "fd00::1/64"},
        {"address": "10.9.0.17/24", "gateway": "10.0.0.1"},
        {"address": "192.168.0.9/16", "gateway": "192.168.0.1"},
    ]);
    assert_eq!(result["ips"], expected, "the gateway is for its family, and nobody's address");
}

#[test]
fn without_a_range_there_is_an_answer_without_addresses() {
    let node = Node::new(json!({}), &[]);
    assert_eq!(node.call("ADD").exec().result(), json!({"cniVersion": "1.1.0"}));
    let fixed = node.call("ADD").conf("/ipam/addresses", json!([{"address": "10.0.0.9/24"}])).exec();
    assert_eq!(fixed.ips(), ["10.0.0.9/24"]);
}

#[test]
fn the_same_attachment_has_one_address_and_another_interface_has_another() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    let add = |ifname: &str| node.call("ADD").of("c1", ifname).exec().ips();
    assert_eq!(
        [add("net1"), add("net1"), add("net2"), add("net1")],
        ["10.0.0.1/24", "10.0.0.1/24", "10.0.0.2/24", "10.0.0.1/24"].map(|ip| vec![ip.to_owned()])
    );
    assert!(node.call("DEL").of("c1", "net1").exec().is_silent());
    assert_eq!(add("net2"), ["10.0.0.2/24"]);
    assert_eq!(node.held(), 1);
}

#[test]
fn a_pod_in_a_new_sandbox_keeps_its_address_and_the_old_sandboxes_del_finds_nothing() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    let add = |container: &str, uid: &str| {
        node.of("ADD", "web-0").with("CNI_CONTAINERID", container).and_args(&format!("K8S_POD_UID={uid}")).exec().ips()
    };
    assert_eq!(add("s1", "u1"), ["10.0.0.1/24"]);
    assert_eq!(add("s2", "u1"), ["10.0.0.1/24"]);
    assert!(node.of("DEL", "s1").exec().is_silent());
    assert_eq!(node.held(), 1);
    assert_eq!(add("s3", "u2"), ["10.0.0.2/24"], "another pod of that name, while the first may still run");
}

#[test]
fn an_address_that_is_asked_for_is_recorded() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    let asked = node.of("ADD", "a").and_args("IP=10.0.0.77/24;GATEWAY=10.0.0.200").exec().result();
    assert_eq!(asked["ips"], json!([{"address": "10.0.0.77/24", "gateway": "10.0.0.200"}]));
    let runtime = node.of("ADD", "b").conf("/runtimeConfig", json!({"ips": ["10.0.0.78/24"]})).exec();
    assert_eq!(runtime.ips(), ["10.0.0.78/24"]);
    let args = node.of("ADD", "c").conf("/args", json!({"cni": {"ips": ["10.0.0.79"]}})).exec();
    assert_eq!(args.ips(), ["10.0.0.79/24"]);
    assert_eq!(node.held(), 3);
    let (code, message, _) = node.of("ADD", "d").and_args("IP=10.0.0.77").exec().failure();
    assert_eq!((code, message.as_str()), (102, "10.0.0.77 was asked for, and default/a (net1) holds it"));
    assert_eq!(node.of("ADD", "d").and_args("IP=172.16.0.1").exec().code(), 102);
    assert_eq!(node.held(), 3);
}

#[test]
fn two_networks_and_two_names_of_one() {
    let node = Node::whole("10.0.0.0/24", json!({"network_name": "net"}));
    assert_eq!(node.add("a"), ["10.0.0.1/24"]);
    let other = node.of("ADD", "b").conf("/name", json!("othername")).exec();
    assert_eq!(other.ips(), ["10.0.0.2/24"], "configurations that share a network share its addresses");
    let unnamed = node.of("ADD", "c").conf("/ipam/network_name", json!("elsewhere")).exec();
    assert_eq!(unnamed.code(), 101, "a network that the node has no slice of");
}

#[test]
fn gc_takes_back_what_is_not_listed_and_only_of_its_own_configuration() {
    let node = Node::whole("10.0.0.0/24", json!({"network_name": "net"}));
    for container in ["a", "b", "c"] {
        node.add(container);
    }
    assert!(node.of("ADD", "d").conf("/name", json!("sibling")).exec().is_success);
    let gc = |valid: Value| {
        let mut call = node.call("GC");
        call.conf["cni.dev/valid-attachments"] = valid;
        assert!(call.exec().is_silent());
        node.held()
    };
    assert!(node.call("GC").exec().is_silent());
    assert_eq!(node.held(), 4, "without a list nothing is done");
    assert_eq!(gc(json!([{"containerID": "a", "ifname": "net1"}, {"containerID": "b", "ifname": "net9"}])), 2);
    assert_eq!(gc(json!([])), 1, "an empty list leaves nothing, but of this configuration only");
    assert!(node.of("DEL", "d").exec().is_silent());
    assert_eq!(node.held(), 0);
}

#[test]
fn check_compares_the_previous_result_with_the_journal() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    let result = node.of("ADD", "a").exec().result();
    let check = |previous: Value| node.of("CHECK", "a").conf("/prevResult", previous).exec();
    assert!(check(result.clone()).is_silent());
    let (code, message, _) = node.of("CHECK", "a").exec().failure();
    assert!(code == 7 && message.contains("prevResult"), "{message}");
    let (code, message, _) = check(json!({"ips": [{"address": "10.0.0.9/24"}]})).failure();
    assert!(code == 103 && message.contains("10.0.0.1"), "{message}");
    assert_eq!(check(json!({"ips": [{"address": "nonsense"}]})).code(), 7);
    node.del("a");
    let (code, message, _) = check(result).failure();
    assert_eq!((code, message.as_str()), (103, "net1 of container a holds no address of network net"));
}

#[test]
fn status_is_whether_add_could_be_served() {
    let node = Node::whole("10.0.0.0/30", json!({}));
    assert!(node.call("STATUS").exec().is_silent());
    sequence(&node, 2);
    let (code, message, _) = node.call("STATUS").exec().failure();
    assert!(code == 50 && message.contains("no address of 10.0.0.0/30 is free"), "{message}");
    node.del("c0");
    assert!(node.call("STATUS").exec().is_silent());
    assert_eq!(node.held(), 1, "and it changes nothing");
    let elsewhere = node.call("STATUS").conf("/name", json!("elsewhere")).exec();
    assert_eq!(elsewhere.code(), 50);
}

#[test]
fn status_is_not_served_by_what_others_reserved() {
    let node = Node::whole("10.0.0.0/30", json!({}));
    reserve(&node, "10.0.0.1", ["", "", ""]);
    assert!(node.call("STATUS").exec().is_silent());
    sequence(&node, 1);
    let (code, message, _) = node.call("STATUS").exec().failure();
    assert!(code == 50 && message.contains("no address of 10.0.0.0/30 is free"), "{message}");
}

#[test]
fn status_tells_what_is_wrong_apart_from_what_is_not_there_yet() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    let status = |pointer: &str, value: Value| node.call("STATUS").conf(pointer, value).exec().failure();
    for (pointer, value, told) in [
        ("/ipam/range", json!("10.0.0.0/99"), "ipam.range"),
        ("/ipam/exclude", json!(["x"]), "ipam.exclude[0]"),
        ("/ipam/fast_ipam", json!(false), "ipam.kubernetes.kubeconfig: missing"),
    ] {
        let (code, message, _) = status(pointer, value);
        assert!(code == 7 && message.starts_with(told), "{code} {message}");
    }
    fs::write(node.place().grants(), "no grants").unwrap();
    assert_eq!(node.call("STATUS").exec().code(), 5, "what cannot be read");
    fs::remove_file(node.place().grants()).unwrap();
    assert_eq!(node.call("STATUS").exec().code(), 50, "no agent was there yet");
}

#[test]
fn without_a_slice_add_says_what_to_do_and_del_succeeds() {
    let node = Node::new(json!({"range": "10.0.0.0/8"}), &[("10.0.0.0/8", &["10.0.16.0/24"])]);
    node.add("a");
    fs::remove_file(node.place().grants()).unwrap();
    let (code, message, details) = node.of("ADD", "b").with("NODENAME", "worker-7").exec().failure();
    assert!(code == 101 && message.starts_with("node worker-7 holds no slice of network net: "), "{message}");
    assert!(details.contains("cadastre agent"), "{details}");
    node.del("a");
    assert_eq!(node.held(), 0);
    fs::remove_dir_all(node.place().folder()).unwrap();
    node.del("a");
    assert_eq!(node.of("ADD", "b").exec().code(), 101);
    assert!(!node.place().folder().exists(), "who holds no slice leaves nothing behind");
}

#[test]
fn grants_that_are_malformed_stale_or_of_another_journal_are_not_acted_on() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    fs::write(node.place().grants(), "{\"version\": 1}").unwrap();
    let (code, message, _) = node.of("ADD", "a").exec().failure();
    assert!(code == 5 && message.contains("ranges is no list"), "{message}");

    node.grant(&[("10.0.0.0/24", &["10.0.0.0/24"])]);
    let stale = node.of("ADD", "a").conf("/ipam/grant_max_age", json!(60)).exec();
    assert_eq!(stale.code(), 11);
    node.add("a");
    let named = Grants { journal: Some("0".repeat(32)), ..Grants::read(&node.place()).unwrap() };
    node.write_grants(&named);
    assert_eq!(node.of("ADD", "b").exec().code(), 11);
    let id = Image::read(&node.place()).unwrap().header().unwrap().id;
    node.write_grants(&Grants { journal: Some(cni::plugin::hexadecimal(&id)), ..named });
    assert_eq!(node.add("b"), ["10.0.0.2/24"]);
    fs::remove_file(node.place().journal()).unwrap();
    let (code, message, _) = node.of("ADD", "c").exec().failure();
    assert!(code == 11 && message.contains("is gone"), "{message}");
}

#[test]
fn a_network_without_slices_is_told_what_it_lacks_and_its_del_succeeds() {
    let mut node = Node::whole("10.0.0.0/24", json!({}));
    node.conf["ipam"]["fast_ipam"] = json!(false);
    let (code, message, details) = node.of("ADD", "a").exec().failure();
    assert!(code == 7 && message.starts_with("ipam.kubernetes.kubeconfig: missing"), "{message}");
    assert!(details.contains("node_slice_size"), "{details}");
    node.del("a");
}

#[test]
fn a_configuration_that_no_add_is_served_by_still_takes_back() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    node.add("a");
    let broken = |call: Call| {
        call.conf("/ipam/range", json!("10.0.0.9-10.0.0.1/24")).conf("/ipam/node_slice_size", json!("abc"))
    };
    let (code, message, _) = broken(node.of("ADD", "b")).exec().failure();
    assert!(code == 7 && message.starts_with("ipam.range: "), "{message}");
    assert!(broken(node.of("DEL", "a")).exec().is_silent());
    assert_eq!(node.held(), 0);
}

#[test]
fn after_a_reboot_what_was_held_gives_way_on_need_and_its_pod_comes_first() {
    let mut node = Node::whole("10.0.0.0/29", json!({}));
    sequence(&node, 6);
    assert_eq!(Shortage::read(&node.place()), None);
    assert_eq!(node.of("ADD", "new").exec().code(), 100);
    let shortage = Shortage::read(&node.place()).map(|one| (one.range.to_string(), one.next));
    assert_eq!(shortage, Some(("10.0.0.0/29".to_owned(), Image::read(&node.place()).unwrap().book().next())));
    node.boot = BOOTS[1].to_owned();
    let again = node.of("ADD", "c4").with("CNI_CONTAINERID", "second-sandbox").and_args("K8S_POD_UID=u").exec();
    assert_eq!(again.ips(), ["10.0.0.5/29"], "a pod that comes again has its address again");
    assert_eq!(node.add("new"), ["10.0.0.1/29"], "somebody else has the oldest of the others");
    assert_eq!(node.held(), 6);
    assert!(node.call("STATUS").exec().is_silent());
}

#[test]
fn whose_namespace_is_gone_gives_way_on_need() {
    let node = Node::whole("10.0.0.0/30", json!({}));
    let add = |name: &str| {
        let path = node.path(name);
        fs::write(&path, "").unwrap();
        node.of("ADD", name).with("CNI_NETNS", &path).exec()
    };
    assert_eq!(add("a").ips(), ["10.0.0.1/30"]);
    assert_eq!(add("b").ips(), ["10.0.0.2/30"]);
    assert_eq!(add("c").code(), 100);
    fs::remove_file(node.path("b")).unwrap();
    assert_eq!(add("c").ips(), ["10.0.0.2/30"]);
    assert!(node.of("DEL", "b").exec().is_silent());
    assert_eq!(node.held(), 2);
}

/// Puts an address that somebody else gave into the journal, as the agent does: container, interface, pod.
fn reserve(node: &Node, address: &str, [container, ifname, pod]: [&str; 3]) {
    let place = node.place();
    let lock = Lock::take(&place, PATIENCE).unwrap();
    let (journal, image) = Journal::open(&place, &lock).unwrap();
    let book = image.book();
    let reserved = Holding {
        sequence: book.next(),
        at: 0,
        boot: BootId::UNKNOWN,
        origin: Origin::Foreign,
        container: container.into(),
        ifname: ifname.into(),
        conf: "".into(),
        pod: pod.into(),
        uid: "".into(),
        netns: Netns::default(),
        home: "".into(),
        ips: Ips::of(&[Ip { address: address.parse().unwrap(), length: 24 }]),
    };
    journal.commit(&book, &[Record::Hold(reserved)], Renewal { id: [1; 16], boot: BootId::UNKNOWN }).unwrap();
}

#[test]
fn what_others_reserved_is_not_given_but_to_the_pod_that_it_is_for() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    reserve(&node, "10.0.0.1", ["", "net1", "default/owner"]);
    assert_eq!(node.add("other"), ["10.0.0.2/24"]);
    assert_eq!(node.add("owner"), ["10.0.0.1/24"]);
    assert_eq!(node.held(), 2);
}

#[test]
fn what_a_container_has_of_old_without_an_interface_comes_back_with_it() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    reserve(&node, "10.0.0.1", ["old", "", "default/old"]);
    assert!(node.call("ADD").of("old", "net2").exec().is_success);
    assert!(node.call("DEL").of("other", "net1").exec().is_silent());
    assert!(node.call("DEL").of("old", "net2").exec().is_silent());
    assert_eq!(node.held(), 1, "what names its interface goes first, and with it nothing else");
    assert!(node.call("DEL").of("old", "net1").exec().is_silent());
    assert_eq!(node.held(), 0);
    assert_eq!(node.add("next"), ["10.0.0.1/24"]);
}

#[test]
fn the_order_and_the_rest_of_addresses_can_be_chosen() {
    let node = Node::whole("10.0.0.0/24", json!({"allocation": "roundrobin"}));
    node.add("a");
    node.del("a");
    assert_eq!(node.add("b"), ["10.0.0.2/24"]);
    let node = Node::whole("10.0.0.0/24", json!({"cooldown": 3600}));
    node.add("a");
    node.del("a");
    assert_eq!(node.add("b"), ["10.0.0.2/24"]);
}

#[test]
fn the_state_is_found_by_the_environment_and_the_shared_file_is_read() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    let state = node.conf["ipam"]["state_dir"].as_str().unwrap().to_owned();
    let by_environment =
        node.of("ADD", "a").conf("/ipam/state_dir", json!("")).with("CADASTRE_STATE_DIR", &state).exec();
    assert_eq!(by_environment.ips(), ["10.0.0.1/24"]);
    fs::write(node.path("whereabouts.conf"), json!({"exclude": ["10.0.0.0/28"]}).to_string()).unwrap();
    let call = || node.of("ADD", "b").conf("/ipam/configuration_path", json!(state));
    assert_eq!(call().exec().ips(), ["10.0.0.16/24"]);
    fs::write(node.path("whereabouts.conf"), "{").unwrap();
    let (code, message, _) = node.of("ADD", "c").conf("/ipam/configuration_path", json!(state)).exec().failure();
    assert!(code == 7 && message.contains("whereabouts.conf"), "{message}");
}
