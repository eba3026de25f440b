//! What may happen to the program while it changes pools that all nodes share: a server that is away, answers that are lost, kill -9,
//! many at once. Afterwards pools and reservations have what somebody was told of, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::thread;

use cni::config::Conf;
use cni::journal::{BootId, Image, Origin, Reason};
use cni::pool::Site;
use cni::pool::release;
use serde_json::json;

use crate::cluster::{Cluster, Fate};
use crate::harness::Node;

/// That the pool has the containers that were told of an address, at that address, and so have the reservations.
fn check(cluster: &Cluster, told: &BTreeMap<String, String>) {
    let entries = cluster.pool("10.0.0.0-24");
    let found: BTreeMap<String, String> = entries
        .iter()
        .map(|(offset, entry)| (entry.split(' ').next().unwrap().to_owned(), format!("10.0.0.{offset}/24")))
        .collect();
    assert_eq!(found, *told);
    assert_eq!(entries.len(), found.len(), "nobody is there twice");
    let reserved: BTreeSet<String> = cluster.reservations().into_iter().collect();
    let expected = told.values().map(|ip| ip.trim_end_matches("/24").to_owned()).collect();
    assert_eq!(reserved, expected);
}

/// Settles everything that a node owes, as the agent does.
fn tend(node: &Node) {
    let conf = Conf::read(node.conf.to_string().as_bytes(), |_| Ok(None)).unwrap();
    let state_dir = node.conf["ipam"]["state_dir"].as_str().unwrap().into();
    let site = Site { conf: &conf, state_dir, place: node.place(), boot: BootId::UNKNOWN };
    let ended = release::end(&site, |holding| (holding.origin == Origin::Owed).then_some(Reason::Del)).unwrap();
    release::settle(&site, &ended.debts).unwrap();
}

fn owed(node: &Node) -> usize {
    let image = Image::read(&node.place()).unwrap();
    image.book().holdings().iter().filter(|holding| holding.origin == Origin::Owed).count()
}

#[test]
fn with_the_server_away_nothing_is_given_and_what_comes_back_is_owed_until_it_is_there() {
    let cluster = Cluster::start();
    let node = cluster.node(json!({"range": "10.0.0.0/24"}));
    for pod in ["a", "b", "c"] {
        node.add(pod);
    }
    let away =
        |command: &str, pod: &str| node.of(command, pod).conf("/ipam/kubernetes/kubeconfig", json!(cluster.nowhere()));
    let (code, message, _) = away("ADD", "d").exec().failure();
    assert!(code == 11 && message.contains("cannot be reached"), "{message}");
    assert_eq!(away("ADD", "a").exec().ips(), ["10.0.0.1/24"], "what is held needs no server");
    assert!(away("DEL", "a").exec().is_silent());
    assert!(away("DEL", "a").exec().is_silent());
    assert!(away("DEL", "unknown").exec().is_silent());
    assert_eq!((owed(&node), node.held()), (2, 4));
    assert_eq!(away("CHECK", "a").conf("/prevResult", json!({"ips": [{"address": "10.0.0.1/24"}]})).exec().code(), 103);
    assert_eq!(cluster.pool("10.0.0.0-24").len(), 3, "nobody can have it yet");
    let mut gc = away("GC", "");
    gc.conf["cni.dev/valid-attachments"] = json!([{"containerID": "c", "ifname": "net1"}]);
    assert!(gc.exec().is_silent());
    assert_eq!(owed(&node), 3);
    // One that comes again settles its own; the agent settles all.
    node.del("a");
    let told = |pods: &[(&str, &str)]| pods.iter().map(|(pod, ip)| ((*pod).to_owned(), (*ip).to_owned())).collect();
    check(&cluster, &told(&[("b", "10.0.0.2/24"), ("c", "10.0.0.3/24")]));
    tend(&node);
    check(&cluster, &told(&[("c", "10.0.0.3/24")]));
    assert_eq!((owed(&node), node.held()), (0, 1));
    assert_eq!(node.add("e"), ["10.0.0.1/24"]);
}

#[test]
fn a_damaged_journal_is_told_of_before_an_add_fails() {
    let cluster = Cluster::start();
    let node = cluster.node(json!({"range": "10.0.0.0/24"}));
    for pod in ["a", "b", "c"] {
        node.add(pod);
    }
    node.damage("default/b");
    for call in [node.of("ADD", "d"), node.call("STATUS")] {
        let (code, message, _) = call.exec().failure();
        assert!(code == 5 && message.contains("journal is damaged at byte "), "{message}");
    }
    let check =
        |pod: &str, ip: &str| node.of("CHECK", pod).conf("/prevResult", json!({"ips": [{"address": ip}]})).exec();
    assert_eq!(check("b", "10.0.0.2/24").code(), 5, "what it holds cannot be read");
    assert!(check("c", "10.0.0.3/24").is_silent());
    assert!(node.of("DEL", "b").exec().is_silent(), "the pool knows it");
    assert_eq!(cluster.pool("10.0.0.0-24").into_keys().collect::<Vec<_>>(), ["1", "3"]);
}

#[test]
fn a_del_succeeds_whatever_is_wrong_with_the_kubeconfig() {
    let cluster = Cluster::start();
    let node = cluster.node(json!({"range": "10.0.0.0/24"}));
    node.add("a");
    fs::write(node.path("broken"), "{").unwrap();
    let del = |pod: &str, kubeconfig: String| {
        node.of("DEL", pod).conf("/ipam/kubernetes/kubeconfig", json!(kubeconfig)).exec()
    };
    for kubeconfig in [node.path("broken"), node.path("missing"), String::new()] {
        assert!(del("a", kubeconfig.clone()).is_silent(), "{kubeconfig}");
        assert!(del("unknown", kubeconfig).is_silent());
    }
    assert_eq!(cluster.pool("10.0.0.0-24").len(), 1);
    tend(&node);
    assert_eq!((cluster.pool("10.0.0.0-24").len(), owed(&node)), (0, 0));
}

#[test]
fn answers_that_are_lost_leave_nothing_behind_and_give_nothing_twice() {
    use Fate::{Lost, Passed, Unheard};
    let cluster = Arc::new(Cluster::start());
    let lossy = cluster.lossy(&[Unheard, Passed, Lost, Passed, Unheard, Passed, Passed, Unheard, Passed, Lost, Passed]);
    let nodes: Vec<Node> = (0..3).map(|_| Node::shared(json!({"range": "10.0.0.0/24"}), &lossy)).collect();
    let mut told = BTreeMap::new();
    for round in 0..40 {
        let (node, pod) = (&nodes[round % 3], format!("c{round}"));
        told.insert(pod.clone(), node.add(&pod).remove(0));
        if round % 2 == 1 {
            let earlier = format!("c{}", round - 1);
            nodes[(round - 1) % 3].del(&earlier);
            told.remove(&earlier);
        }
    }
    for node in &nodes {
        tend(node);
        assert_eq!(owed(node), 0);
    }
    check(&cluster, &told);
}

#[test]
fn when_all_is_lost_nothing_is_taken_for_given() {
    let cluster = Arc::new(Cluster::start());
    let node = cluster.node(json!({"range": "10.0.0.0/24"}));
    node.add("a");
    // Every write is made, and nobody hears of it.
    let deaf = cluster.lossy(&[Fate::Unheard]);
    let (code, message, _) = node.of("ADD", "b").conf("/ipam/kubernetes/kubeconfig", json!(deaf)).exec().failure();
    assert!(code == 11, "{message}");
    assert!(node.of("DEL", "a").conf("/ipam/kubernetes/kubeconfig", json!(deaf)).exec().is_silent());
    tend(&node);
    check(&cluster, &BTreeMap::new());
}

#[test]
fn many_at_once_on_one_node_and_on_many() {
    let cluster = Cluster::start();
    let many: Vec<Node> = (0..16).map(|_| cluster.node(json!({"range": "10.0.0.0/24"}))).collect();
    let one = cluster.node(json!({"range": "10.0.0.0/24"}));
    let told: BTreeMap<String, String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..32_usize)
            .map(|worker| {
                let node = if worker < 16 { &many[worker] } else { &one };
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for round in 0..3 {
                        let pod = format!("c{worker}-{round}");
                        mine.push((pod.clone(), node.add(&pod).remove(0)));
                        if round == 1 {
                            node.del(&pod);
                            mine.pop();
                        }
                    }
                    mine
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(told.len(), 64);
    check(&cluster, &told);
    assert_eq!((one.held(), owed(&one)), (32, 0));
}

#[test]
fn who_is_killed_anywhere_leaves_nothing_that_is_not_asked_for_again() {
    let cluster = Cluster::start();
    let node = cluster.node(json!({"range": "10.0.0.0/24"}));
    let mut told = BTreeMap::new();
    for round in 0..80_u32 {
        let pod = format!("c{round}");
        node.of("ADD", &pod).kill(round * 4000);
        match round % 4 {
            0 => drop(told.insert(pod.clone(), node.add(&pod).remove(0))),
            1 => node.del(&pod),
            2 => {
                node.of("DEL", &pod).kill(round * 4000);
                node.del(&pod);
            }
            // Nobody asks again: the agent sees that its namespace is gone.
            _ => {
                let conf = Conf::read(node.conf.to_string().as_bytes(), |_| Ok(None)).unwrap();
                let state_dir = node.conf["ipam"]["state_dir"].as_str().unwrap().into();
                let site = Site { conf: &conf, state_dir, place: node.place(), boot: BootId::UNKNOWN };
                let gone =
                    |holding: &cni::journal::Holding<'_>| (holding.container == *pod).then_some(Reason::NetnsGone);
                release::settle(&site, &release::end(&site, gone).unwrap().debts).unwrap();
            }
        }
    }
    tend(&node);
    check(&cluster, &told);
    // What was not there when it was looked for may still have been on its way then.
    assert_eq!(node.held() - owed(&node), 20);
}

#[test]
fn a_sandbox_that_was_stopped_while_it_took_over_leaves_no_reservation_whoever_goes_first() {
    // The pool is read and the entry taken over; of the reservation nothing is heard any more.
    static CUT: [Fate; 256] = {
        let mut fates = [Fate::Lost; 256];
        fates[0] = Fate::Passed;
        fates[1] = Fate::Passed;
        fates
    };
    for order in [["old", "new"], ["new", "old"]] {
        let cluster = Arc::new(Cluster::start());
        let node = cluster.node(json!({"range": "10.0.0.0/24"}));
        let of_one_pod = |command: &str, container: &str| {
            let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=pod";
            node.of(command, container).with("CNI_ARGS", args)
        };
        assert_eq!(of_one_pod("ADD", "old").exec().ips(), ["10.0.0.1/24"]);
        let stopped = of_one_pod("ADD", "new").conf("/ipam/kubernetes/kubeconfig", json!(cluster.lossy(&CUT))).exec();
        assert_eq!(stopped.code(), 11);
        assert_eq!(cluster.pool("10.0.0.0-24")["1"], "new default/pod net1");
        assert_eq!(cluster.get("overlappingrangeipreservations/10.0.0.1")["spec"]["containerid"], "old");
        for container in order {
            assert!(of_one_pod("DEL", container).exec().is_silent());
        }
        check(&cluster, &BTreeMap::new());
    }
}
