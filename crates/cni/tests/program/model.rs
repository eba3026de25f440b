//! Long random runs of the plugin on one node, with reboots, lost DELs, torn journals and slices that come and go, against a
//! checker that knows who was told what.
//!
//! `CADASTRE_SEED=N` runs one seed again.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;

use cni::journal::Image;
use serde_json::json;

use crate::harness::Node;

/// How many IPv4 addresses the slices have that may be given, without and with the third one.
const CAPACITY: [usize; 2] = [13, 21];

/// Numbers that look random, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Who was told that they have which addresses, and has not given them back.
#[derive(Default)]
struct Told {
    by_attachment: BTreeMap<String, Vec<String>>,
    /// Those whose sandbox is gone without a DEL: their addresses may be given to others.
    gone: BTreeSet<String>,
}

impl Told {
    fn check_new(&mut self, container: &str, ips: &[String], seed: u64) {
        let holder = |ip: &String| {
            let holders = self.by_attachment.iter().filter(|(other, _)| *other != container);
            holders.filter(|(_, held)| held.contains(ip)).map(|(other, _)| other.clone()).next()
        };
        let from: BTreeSet<String> = ips.iter().filter_map(holder).collect();
        for other in from {
            assert!(self.gone.remove(&other), "seed {seed}: {ips:?} are {other}'s, and were given to {container}");
            self.by_attachment.remove(&other);
        }
        self.by_attachment.insert(container.to_owned(), ips.to_vec());
    }
}

fn run(seed: u64) {
    println!("seed {seed}");
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let ipam = json!({
        "ipRanges": [
            {"range": "10.0.0.0/16", "exclude": ["10.0.1.4/30"]},
            {"range": "fd00::ffff:ffff:ffff:0/112", "range_start": "fd00::ffff:ffff:ffff:3"},
        ],
        "gateway": "10.0.1.1",
        "allocation": if seed.is_multiple_of(2) { "lowest" } else { "roundrobin" },
        "cooldown": if seed.is_multiple_of(3) { 60 } else { 0 },
    });
    let v6: &[&str] = &["fd00::ffff:ffff:ffff:0/122"];
    let slices: [&[&str]; 2] = [&["10.0.1.0/28", "10.0.2.2/31"], &["10.0.1.0/28", "10.0.2.2/31", "10.0.3.0/29"]];
    let grants = |v4: &'static [&'static str]| [("10.0.0.0/16", v4), ("fd00::ffff:ffff:ffff:0/112", v6)];
    let mut node = Node::new(ipam, &grants(slices[0]));
    let (mut told, mut next, mut boots, mut more) = (Told::default(), 0, 0, 0);
    let netns = |node: &Node, container: &str| node.path(&format!("netns-{container}"));
    for _ in 0..400 {
        let live: Vec<String> =
            told.by_attachment.keys().filter(|container| !told.gone.contains(*container)).cloned().collect();
        match random.below(100) {
            0..50 => {
                let container = format!("c{next}");
                next += 1;
                fs::write(netns(&node, &container), "").unwrap();
                let answer = node.of("ADD", &container).with("CNI_NETNS", &netns(&node, &container)).run();
                if answer.is_success {
                    let ips = answer.ips();
                    assert_eq!(ips.len(), 2, "seed {seed}: an address of each range");
                    told.check_new(&container, &ips, seed);
                } else {
                    assert_eq!(answer.code(), 100, "seed {seed}: {answer:?}");
                    let is_open =
                        |container: &&String| more == 1 || !told.by_attachment[*container][0].starts_with("10.0.3.");
                    let holding = live.iter().filter(is_open).count();
                    assert_eq!(
                        holding, CAPACITY[more],
                        "seed {seed}: refused while something could be had: {answer:?}"
                    );
                }
            }
            50..80 if !live.is_empty() => {
                let container = &live[random.below(live.len())];
                assert!(node.of("DEL", container).run().is_silent());
                told.by_attachment.remove(container);
            }
            80..86 if !live.is_empty() => {
                let container = &live[random.below(live.len())];
                let again = node.of("ADD", container).run().ips();
                assert_eq!(Some(&again), told.by_attachment.get(container), "seed {seed}");
            }
            // The sandbox goes and nobody says DEL.
            86..91 if !live.is_empty() => {
                let container = &live[random.below(live.len())];
                fs::remove_file(netns(&node, container)).unwrap();
                told.gone.insert(container.clone());
            }
            // The machine boots: no sandbox is left.
            91..92 => {
                boots += 1;
                node.boot = format!("{boots:032x}");
                told.gone.extend(live);
            }
            // A write that was never finished.
            92..95 => {
                let path = node.place().journal();
                if let Ok(mut bytes) = fs::read(&path) {
                    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1 + random.below(3);
                    bytes.truncate(end.min(bytes.len()));
                    bytes.extend((0..=random.below(90)).map(|at| b"CdFr\x09\0\0\0garbage"[at % 15]));
                    fs::write(path, bytes).unwrap();
                }
            }
            95..97 => {
                more = random.below(2);
                node.grant(&grants(slices[more]));
            }
            97..99 => {
                let valid: Vec<_> = live.iter().map(|name| json!({"containerID": name, "ifname": "net1"})).collect();
                let mut call = node.call("GC");
                call.conf["cni.dev/valid-attachments"] = valid.into();
                assert!(call.run().is_silent());
                for container in std::mem::take(&mut told.gone) {
                    told.by_attachment.remove(&container);
                }
            }
            _ => {}
        }
        check(&node, &told, seed);
    }
    for container in told.by_attachment.keys().cloned().collect::<Vec<_>>() {
        assert!(node.of("DEL", &container).run().is_silent());
    }
    assert_eq!(node.held(), 0, "seed {seed}: something leaked");
}

/// The journal says what attachments were told, no more and no less, and nothing twice.
fn check(node: &Node, told: &Told, seed: u64) {
    let image = Image::read(&node.place()).unwrap();
    let book = image.book();
    assert_eq!(book.damage(), None, "seed {seed}");
    let mut addresses = BTreeSet::new();
    for holding in book.holdings() {
        for ip in holding.ips.iter() {
            assert!(addresses.insert(ip.address), "seed {seed}: {ip} is held twice");
        }
        let ips: Vec<String> = holding.ips.iter().map(|ip| ip.to_string()).collect();
        assert_eq!(told.by_attachment.get(&*holding.container), Some(&ips), "seed {seed}: {holding:?}");
    }
    assert_eq!(book.holdings().len(), told.by_attachment.len(), "seed {seed}");
}

#[test]
fn nothing_is_given_twice_and_nothing_leaks() {
    if let Some(seed) = env::var("CADASTRE_SEED").ok().and_then(|text| text.parse().ok()) {
        return run(seed);
    }
    (0..40).for_each(run);
}
