//! Decisions over a journal in memory.

use serde_json::{Value, json};

use super::*;
use crate::config::Conf;
use crate::grants::{RangeGrant, Slice};
use crate::journal::{BootId, Image, Ips, Journal, Netns, Origin, Record, Renewal};
use crate::lock::{Lock, PATIENCE};
use crate::place::Place;

/// A network on a node: its journal is a real one, in a folder of its own.
struct Net {
    _folder: tempfile::TempDir,
    place: Place,
    grants: Grants,
    settings: Settings,
    now: u64,
}

fn cidr(text: &str) -> Cidr {
    Cidr::strict(text).unwrap()
}

fn settings(ipam: Value) -> Settings {
    let mut ipam = ipam;
    ipam["type"] = "cadastre".into();
    let tree = json!({"cniVersion": "1.1.0", "name": "net", "ipam": ipam}).to_string();
    Conf::read(tree.as_bytes(), |_| Ok(None)).unwrap().settings(&[], &[]).unwrap()
}

impl Net {
    /// Each range with its slices.
    fn new(ipam: Value, ranges: &[(&str, &[&str])]) -> Self {
        let slice = |text: &&str| Slice { cidr: cidr(text), generation: 1, epoch: 1, state: SliceState::Granted };
        let grant = |(range, slices): &(&str, &[&str])| {
            let slices = slices.iter().map(slice).collect();
            RangeGrant { range: cidr(range), slices }
        };
        let folder = tempfile::tempdir().unwrap();
        Self {
            place: Place::new(folder.path(), ""),
            _folder: folder,
            grants: Grants { node: "n1".into(), ranges: ranges.iter().map(grant).collect(), ..Grants::default() },
            settings: settings(ipam),
            now: 1_000_000,
        }
    }

    /// One range, all of it one slice.
    fn whole(range: &str, ipam: Value) -> Self {
        let mut ipam = ipam;
        if ipam["range"].is_null() {
            ipam["range"] = range.into();
        }
        Self::new(ipam, &[(range, &[range])])
    }

    fn decide(&self, container: &str, pod: &str, uid: &str, live: Liveness) -> Result<Decision, Refusal> {
        let image = Image::read(&self.place).unwrap();
        let request = Request { container, ifname: "net1", pod, uid, now: self.now };
        decide(request, &image.book(), &self.grants, &self.settings, |_| live)
    }

    fn try_add(&self, container: &str, pod: &str, uid: &str, live: Liveness) -> Result<Vec<String>, Refusal> {
        let ips = match self.decide(container, pod, uid, live)? {
            Decision::Held(ips) => ips,
            Decision::Give { ips, ends } => {
                self.write(container, pod, uid, &ips, &ends);
                ips
            }
        };
        Ok(ips.iter().map(|ip| ip.address.to_string()).collect())
    }

    fn write(&self, container: &str, pod: &str, uid: &str, ips: &[Ip], ends: &[(u64, Reason)]) {
        let lock = Lock::take(&self.place, PATIENCE).unwrap();
        let (journal, image) = Journal::open(&self.place, &lock).unwrap();
        let book = image.book();
        let end = |(of, reason): &(u64, Reason)| {
            Record::End(crate::journal::End { sequence: book.next(), at: self.now, of: *of, reason: *reason })
        };
        let mut records: Vec<Record<'_>> = ends.iter().map(end).collect();
        if !ips.is_empty() {
            records.push(Record::Hold(Holding {
                sequence: book.next() + records.len() as u64,
                at: self.now,
                boot: BootId::UNKNOWN,
                origin: Origin::Add,
                container: container.into(),
                ifname: "net1".into(),
                conf: "net".into(),
                pod: pod.into(),
                uid: uid.into(),
                netns: Netns::default(),
                home: "".into(),
                ips: Ips::of(ips),
            }));
        }
        journal.commit(&book, &records, Renewal { id: [1; 16], boot: BootId::UNKNOWN }).unwrap();
    }

    fn add(&self, number: u32) -> Vec<String> {
        let (container, pod) = (format!("c{number}"), format!("ns/p{number}"));
        self.try_add(&container, &pod, "", Liveness::Alive).unwrap()
    }

    fn refusal(&self) -> Refusal {
        self.try_add("new", "ns/new", "", Liveness::Alive).unwrap_err()
    }

    fn del(&self, number: u32) {
        let image = Image::read(&self.place).unwrap();
        let held = image.book().of(&format!("c{number}"), "net1").map(|holding| holding.sequence);
        self.write("", "", "", &[], &[(held.unwrap(), Reason::Del)]);
    }

    fn sequence(&self, count: u32) -> Vec<String> {
        (0..count).flat_map(|number| self.add(number)).collect()
    }
}

fn last_parts(addresses: &[String]) -> Vec<u32> {
    addresses.iter().map(|text| text.rsplit(['.', ':']).next().unwrap().parse().unwrap_or_default()).collect()
}

#[test]
fn the_lowest_free_address_comes_first_and_comes_again() {
    for (range, expected) in [
        ("192.168.1.0/24", ["192.168.1.1", "192.168.1.2", "192.168.1.3"]),
        ("2001::/116", ["2001::1", "2001::2", "2001::3"]),
        ("fd::/116", ["fd::1", "fd::2", "fd::3"]),
        ("100::2:1:0/112", ["100::2:1:1", "100::2:1:2", "100::2:1:3"]),
        ("2001:db8::/116", ["2001:db8::1", "2001:db8::2", "2001:db8::3"]),
        ("::/112", ["::1", "::2", "::3"]),
        // The upper half of a /64 and the very end of the space.
        ("fd00::ffff:ffff:ffff:0/112", ["fd00::ffff:ffff:ffff:1", "fd00::ffff:ffff:ffff:2", "fd00::ffff:ffff:ffff:3"]),
    ] {
        let net = Net::whole(range, json!({}));
        assert_eq!(net.sequence(3), expected);
        net.del(1);
        assert_eq!(net.add(9), [expected[1]]);
    }
}

#[test]
fn every_address_of_the_last_slice_there_is_can_be_given() {
    let slice = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126";
    let net = Net::new(json!({"range": "::/0"}), &[("::/0", &[slice])]);
    let last = ["fffd", "fffe", "fffc"].map(|end| format!("ffff:ffff:ffff:ffff:ffff:ffff:ffff:{end}"));
    assert_eq!(net.sequence(3), last);
    assert!(matches!(net.refusal(), Refusal::Exhausted { .. }), "the last one is the end of the range itself");
}

#[test]
fn first_and_last_bound_what_is_given() {
    let net = Net::whole("192.168.1.0/24", json!({"range": "192.168.1.11-192.168.1.23/24"}));
    assert_eq!(last_parts(&net.sequence(13)), (11..=23).collect::<Vec<u32>>());
    assert!(matches!(net.refusal(), Refusal::Exhausted { .. }));
    let net = Net::whole("192.168.1.0/24", json!({"range_start": "192.168.1.3", "range_end": "192.168.1.12"}));
    assert_eq!(last_parts(&net.sequence(10)), (3..=12).collect::<Vec<u32>>());
    assert!(matches!(net.refusal(), Refusal::Exhausted { .. }));
}

#[test]
fn what_is_excluded_is_never_given() {
    for (range, exclude, expected) in [
        ("192.168.1.0/24", vec!["192.168.1.0/28", "192.168.1.16/28"], "192.168.1.32"),
        ("192.168.1.0/24", vec!["192.168.1.16/28", "192.168.1.0/28"], "192.168.1.32"),
        ("192.168.1.0/24", vec!["192.168.1.1", "192.168.1.2", "192.168.1.3"], "192.168.1.4"),
        ("192.168.1.0/29", vec!["192.168.1.1", "192.168.1.2", "192.168.1.4/30"], "192.168.1.3"),
        ("192.168.1.0/24", vec!["192.168.1.0/25", "192.168.1.4/30"], "192.168.1.128"),
        ("2001::/116", vec!["2001::0/120"], "2001::100"),
        ("fd00::/32", vec!["fd00::/33"], "fd00:0:8000::"),
        ("fd00::/64", vec!["fd00::1", "fd00::2"], "fd00::3"),
    ] {
        let net = Net::whole(range, json!({"exclude": exclude}));
        assert_eq!(net.add(0), [expected], "{range} without {exclude:?}");
    }
    let net = Net::whole("192.168.1.0/29", json!({"exclude": ["192.168.1.0/29"]}));
    assert!(matches!(net.refusal(), Refusal::Exhausted { .. }));
}

#[test]
fn nobody_is_given_the_gateway_nor_an_address_that_is_fixed() {
    let ipam = json!({"gateway": "10.0.0.1", "addresses": [{"address": "10.0.0.2/24", "gateway": "10.0.0.3"}]});
    let net = Net::whole("10.0.0.0/24", ipam);
    assert_eq!(net.add(0), ["10.0.0.4"]);
    let mut net = Net::whole("10.0.0.0/24", json!({}));
    net.grants.gateways = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
    assert_eq!(net.add(0), ["10.0.0.2"], "another configuration of the network has it for a gateway");
    let net = Net::whole("fd00::/64", json!({"gateway": "10.0.0.1"}));
    assert_eq!(net.add(0), ["fd00::1"], "a gateway of the other family is in nobody's way");
}

#[test]
fn slices_are_used_in_order_their_ends_last_and_to_the_last_address() {
    let net =
        Net::new(json!({"range": "10.0.0.0/8"}), &[("10.0.0.0/8", &["10.0.16.0/30", "10.0.8.4/31", "10.0.8.9/32"])]);
    let expected =
        ["10.0.16.1", "10.0.16.2", "10.0.16.0", "10.0.16.3", "10.0.8.4", "10.0.8.5", "10.0.8.9"].map(str::to_owned);
    assert_eq!(net.sequence(7), expected);
    let Refusal::Exhausted { node, slices, holders, .. } = net.refusal() else { panic!() };
    assert_eq!((node.as_str(), slices.len(), holders.len()), ("n1", 3, NAMED));
    assert_eq!(holders[0], "ns/p0 (net1)");
}

#[test]
fn a_slice_that_drains_gives_nothing_new_and_keeps_what_it_gave() {
    let mut net = Net::new(json!({"range": "10.0.0.0/8"}), &[("10.0.0.0/8", &["10.0.16.0/24"])]);
    assert_eq!(net.add(0), ["10.0.16.1"]);
    net.grants.ranges[0].slices = vec![Slice { state: SliceState::Draining, ..net.grants.ranges[0].slices[0] }];
    assert_eq!(net.add(0), ["10.0.16.1"]);
    assert_eq!(net.refusal(), Refusal::NoSlice { node: "n1".into(), range: cidr("10.0.0.0/8") });
    let fresh = Slice { cidr: cidr("10.0.32.0/24"), state: SliceState::Granted, generation: 2, epoch: 1 };
    net.grants.ranges[0].slices.push(fresh);
    assert_eq!(net.add(1), ["10.0.32.1"]);
    let moved = net.try_add("other", "ns/p0", "", Liveness::Unknown).unwrap();
    assert_eq!(moved, ["10.0.32.2"], "a pod that comes again moves to where addresses are given");
}

#[test]
fn slices_granted_for_the_range_come_before_those_that_only_lie_in_it() {
    let grants: &[(&str, &[&str])] = &[("10.0.0.0/16", &["10.0.1.0/24"]), ("10.0.0.0/8", &["10.9.0.0/24"])];
    assert_eq!(Net::new(json!({"range": "10.0.0.0/8"}), grants).add(0), ["10.9.0.1"]);
    assert_eq!(Net::new(json!({"range": "10.0.0.0/12"}), grants).add(0), ["10.0.1.1"]);
    let none = Net::new(json!({"range": "172.16.0.0/12"}), grants).refusal();
    assert!(matches!(none, Refusal::NoSlice { .. }));
}

#[test]
fn of_several_ranges_there_is_an_address_of_each_or_none() {
    let ipam = json!({"ipRanges": [{"range": "10.0.0.0/24"}, {"range": "fd00::/126"}, {"range": "10.0.0.0/24"}]});
    let grants: &[(&str, &[&str])] = &[("10.0.0.0/24", &["10.0.0.0/24"]), ("fd00::/126", &["fd00::/126"])];
    let net = Net::new(ipam, grants);
    assert_eq!(net.add(0), ["10.0.0.1", "fd00::1", "10.0.0.2"]);
    assert_eq!(net.add(1), ["10.0.0.3", "fd00::2", "10.0.0.4"]);
    let before = Image::read(&net.place).unwrap().book().next();
    assert!(matches!(net.refusal(), Refusal::Exhausted { range, .. } if range == cidr("fd00::/126")));
    assert_eq!(Image::read(&net.place).unwrap().book().next(), before);
    net.del(0);
    assert_eq!(net.add(2), ["10.0.0.1", "fd00::1", "10.0.0.2"]);
}

#[test]
fn an_attachment_that_asks_again_is_given_the_same() {
    let mut net = Net::whole("10.0.0.0/24", json!({}));
    assert_eq!(net.add(0), net.add(0));
    net.settings = settings(json!({"range": "10.9.0.0/24", "exclude": ["10.9.0.0/24"]}));
    assert_eq!(net.add(0), ["10.0.0.1"], "whatever the configuration has become");
}

#[test]
fn a_pod_in_a_new_sandbox_has_its_address_again_unless_the_old_one_may_be_another_pod() {
    let (alive, gone, unknown) = (Liveness::Alive, Liveness::Gone(Reason::NetnsGone), Liveness::Unknown);
    for (uid, new_uid, live, is_same) in [
        ("u1", "u1", alive, true),
        ("u1", "u1", unknown, true),
        ("u1", "u2", alive, false),
        ("u1", "u2", unknown, false),
        ("u1", "u2", gone, true),
        ("", "u2", alive, false),
        ("", "u2", unknown, true),
        ("u1", "", gone, true),
        ("", "", unknown, true),
        ("", "", alive, false),
    ] {
        let net = Net::whole("10.0.0.0/24", json!({}));
        net.try_add("old", "ns/web-0", uid, alive).unwrap();
        let again = net.try_add("new", "ns/web-0", new_uid, live).unwrap();
        let case = format!("{uid} {new_uid} {live:?}");
        assert_eq!(again == ["10.0.0.1"], is_same, "{case}");
        let image = Image::read(&net.place).unwrap();
        let book = image.book();
        assert_eq!(book.holdings().len(), if is_same { 1 } else { 2 }, "{case}");
        assert_eq!(book.of("old", "net1").is_none(), is_same, "a late DEL of the old sandbox finds nothing: {case}");
    }
}

#[test]
fn an_address_that_is_asked_for_is_given_or_refused_by_name() {
    let ask = |net: &mut Net, ips: &[&str]| {
        net.settings.requested = ips.iter().map(|text| text.parse().unwrap()).collect();
    };
    let ranges = json!([{"range": "10.0.0.0/8", "exclude": ["10.0.16.9"]}, {"range": "fd00::/64"}]);
    let grants: &[(&str, &[&str])] = &[("10.0.0.0/8", &["10.0.16.0/24"]), ("fd00::/64", &["fd00::/80"])];
    let mut net = Net::new(json!({"ipRanges": ranges, "gateway": "10.0.16.1"}), grants);
    ask(&mut net, &["10.0.16.50"]);
    assert_eq!(net.add(0), ["10.0.16.50", "fd00::1"]);
    ask(&mut net, &["fd00::99", "10.0.16.51"]);
    assert_eq!(net.add(1), ["10.0.16.51", "fd00::99"]);
    for (ips, told) in [
        (vec!["10.0.16.50"], "10.0.16.50 was asked for, and ns/p0 (net1) holds it"),
        (vec!["10.0.17.1"], "10.0.17.1 was asked for, and is in none of the slices of node n1: 10.0.16.0/24"),
        (
            vec!["10.0.16.9"],
            "10.0.16.9 was asked for, and is never given: it is excluded, a gateway, or an end of the range",
        ),
        (
            vec!["10.0.16.1"],
            "10.0.16.1 was asked for, and is never given: it is excluded, a gateway, or an end of the range",
        ),
        (
            vec!["172.16.0.1"],
            "172.16.0.1 was asked for, and is in no range of the network that another address was not asked for of",
        ),
        (
            vec!["10.0.16.60", "10.0.16.61"],
            "10.0.16.61 was asked for, and is in no range of the network that another address was not asked for of",
        ),
    ] {
        ask(&mut net, &ips);
        assert_eq!(net.refusal().to_string(), told);
    }
    ask(&mut net, &["10.0.16.50"]);
    let taken = net.try_add("new", "ns/new", "", Liveness::Gone(Reason::Rebooted)).unwrap();
    assert_eq!(taken[0], "10.0.16.50", "whose sandbox is gone does not hold it");
}

#[test]
fn when_nothing_is_free_the_oldest_holding_without_a_sandbox_gives_way_and_no_other() {
    let net = Net::whole("10.0.0.0/29", json!({}));
    net.sequence(6);
    assert!(matches!(net.try_add("x", "ns/x", "", Liveness::Unknown), Err(Refusal::Exhausted { .. })));
    let decision = net.decide("x", "ns/x", "", Liveness::Gone(Reason::Rebooted)).unwrap();
    let Decision::Give { ips, ends } = decision else { panic!() };
    assert_eq!((ips[0].address.to_string(), ends), ("10.0.0.1".to_owned(), vec![(1, Reason::Rebooted)]));
    let net = Net::whole("10.0.0.0/28", json!({}));
    net.sequence(6);
    let fresh = net.try_add("x", "ns/x", "", Liveness::Gone(Reason::Rebooted)).unwrap();
    assert_eq!(fresh, ["10.0.0.7"], "while there is another, nobody is asked");
}

#[test]
fn round_robin_goes_on_behind_the_last_one_and_comes_around() {
    let net = Net::whole("10.0.0.0/29", json!({"allocation": "roundrobin"}));
    assert_eq!(last_parts(&net.sequence(4)), [1, 2, 3, 4]);
    net.del(0);
    net.del(3);
    assert_eq!(last_parts(&net.add(10)), [5]);
    assert_eq!(last_parts(&net.add(11)), [6]);
    assert_eq!(last_parts(&net.add(12)), [1]);
    assert_eq!(last_parts(&net.add(13)), [4]);
    assert!(matches!(net.refusal(), Refusal::Exhausted { .. }));
}

#[test]
fn an_address_rests_for_a_while_unless_it_is_the_last() {
    let mut net = Net::whole("10.0.0.0/29", json!({"cooldown": 60}));
    net.sequence(4);
    net.del(1);
    net.now += 1000;
    net.del(0);
    assert_eq!(last_parts(&net.add(10)), [5]);
    assert_eq!(last_parts(&net.add(11)), [6]);
    assert_eq!(last_parts(&net.add(12)), [2], "the one that has rested longest");
    net.now += 60_000;
    assert_eq!(last_parts(&net.add(13)), [1]);
}
