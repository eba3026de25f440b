//! Which addresses of shared pools an attachment gets. To the rules of `allocate` a pool is a slice that is the whole range, and its
//! entries are what others hold.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::allocate::{self, Decision, Liveness, Refusal, Request};
use crate::config::Settings;
use crate::grants::{Grants, RangeGrant, Slice, SliceState};
use crate::journal::{Book, BootId, Holding, Ip, Ips, Netns, Origin, Released};

use super::object::Pool;

/// The numbers of what the journal knows begin here, behind those of what the pools know.
const JOURNAL: u64 = 1 << 32;

/// What is known besides the pools.
#[derive(Clone, Copy, Debug)]
pub struct Known<'k> {
    /// What other ADDs on this node are about to take, or took after the pools were read.
    pub flying: &'k [&'k Holding<'k>],
    /// What ended on this node.
    pub released: &'k [Released<'k>],
    /// Addresses that cannot be had, and who has them.
    pub avoided: &'k BTreeMap<IpAddr, String>,
}

/// An address of each range: that of the entry which the pod has on this interface already, the one that is asked for, or the first
/// that is free; with `skip` the next behind so many, as far as there are others, for those who met others there.
pub fn choose(
    request: Request<'_>,
    pools: &[Pool],
    known: Known<'_>,
    settings: &Settings,
    skip: usize,
) -> Result<Vec<Ip>, Refusal> {
    // Nobody can be called that: what an attachment has it has by its pod, for only then is it known of every range.
    let request = Request { container: "-", ..request };
    let mut avoided = known.avoided.clone();
    let mut chosen = first(request, pools, Known { avoided: &avoided, ..known }, settings)?;
    for _ in 0..skip {
        let passed = chosen.iter().map(|ip| (ip.address, String::new()));
        let passed = passed.filter(|(ip, _)| pools.iter().all(|pool| pool.entry(*ip).is_none()));
        avoided.extend(passed);
        match first(request, pools, Known { avoided: &avoided, ..known }, settings) {
            Ok(next) => chosen = next,
            Err(_) => break,
        }
    }
    Ok(chosen)
}

fn first(request: Request<'_>, pools: &[Pool], known: Known<'_>, settings: &Settings) -> Result<Vec<Ip>, Refusal> {
    // A pod has the addresses of all ranges, or takes them over, together.
    let mut entries: BTreeMap<(&str, &str), Vec<Ip>> = BTreeMap::new();
    for (ip, entry) in pools.iter().flat_map(Pool::held) {
        let ips = entries.entry((&entry.podref, &entry.ifname)).or_default();
        if !ips.contains(&ip) {
            ips.push(ip);
        }
    }
    let mut holdings: Vec<Holding<'_>> = Vec::with_capacity(entries.len());
    for (number, ((pod, ifname), ips)) in entries.into_iter().enumerate() {
        holdings.push(holding(number as u64, pod, ifname, Ips::of(&ips)));
    }
    for (ip, holder) in known.avoided {
        holdings.push(holding(holdings.len() as u64, holder, "", Ips::of(&[Ip { address: *ip, length: 0 }])));
    }
    let flying = known.flying.iter().map(|flying| Holding {
        container: flying.container.clone(),
        ..holding(JOURNAL + flying.sequence, "", &flying.ifname, flying.ips.clone())
    });
    holdings.extend(flying);
    let released = known.released.iter();
    let released = released.map(|one| Released { sequence: JOURNAL + one.sequence, ..one.clone() }).collect();
    let whole = |range: &crate::config::RangeConf| {
        let slice = Slice { cidr: range.cidr, generation: 0, epoch: 0, state: SliceState::Granted };
        RangeGrant { range: range.cidr, slices: vec![slice] }
    };
    let grants = Grants { ranges: settings.ranges.iter().map(whole).collect(), ..Grants::default() };
    let book = Book::gathered(holdings, released);
    match allocate::decide(request, &book, &grants, settings, |_| Liveness::Unknown)? {
        Decision::Held(ips) | Decision::Give { ips, .. } => Ok(ips),
    }
}

fn holding<'a>(sequence: u64, pod: &'a str, ifname: &'a str, ips: Ips<'a>) -> Holding<'a> {
    Holding {
        sequence,
        at: 0,
        boot: BootId::UNKNOWN,
        origin: Origin::Foreign,
        container: "".into(),
        ifname: ifname.into(),
        conf: "".into(),
        pod: pod.into(),
        uid: "".into(),
        netns: Netns::default(),
        home: "".into(),
        ips,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::object::Entry;
    use super::*;
    use crate::config::Conf;

    fn settings(ipam: Value) -> Settings {
        let mut conf = json!({"name": "net", "cniVersion": "1.0.0"});
        conf["ipam"] = ipam;
        conf["ipam"]["type"] = "cadastre".into();
        Conf::read(conf.to_string().as_bytes(), |_| Ok(None)).unwrap().settings(&[], &[]).unwrap()
    }

    fn pools(settings: &Settings, entries: &[(usize, u128, &str, &str)]) -> Vec<Pool> {
        let mut pools: Vec<Pool> = settings.ranges.iter().map(|range| Pool::empty(range.cidr)).collect();
        for (pool, offset, pod, ifname) in entries {
            let entry = Entry { id: format!("of-{pod}"), podref: (*pod).into(), ifname: (*ifname).into() };
            pools[*pool].entries.insert(*offset, entry);
        }
        pools
    }

    const NOBODY: Known<'_> = Known { flying: &[], released: &[], avoided: &BTreeMap::new() };

    fn chosen(settings: &Settings, pools: &[Pool], known: Known<'_>, skip: usize) -> Result<String, Refusal> {
        let request = Request { container: "c1", ifname: "net1", pod: "dev/a", uid: "u", now: 0 };
        let ips = choose(request, pools, known, settings, skip)?;
        Ok(ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_lowest_that_nobody_has_in_the_pools() {
        let one = settings(json!({"range": "10.0.0.0/29", "gateway": "10.0.0.1", "exclude": ["10.0.0.3"]}));
        for (entries, ip) in [
            (&[][..], "10.0.0.2/29"),
            (&[(0, 2, "dev/b", "net1")], "10.0.0.4/29"),
            (&[(0, 2, "dev/b", "net1"), (0, 5, "dev/c", "net1")], "10.0.0.4/29"),
            // What the pod has on this interface it has again, though it would not be given now.
            (&[(0, 3, "dev/a", "net1")], "10.0.0.3/29"),
            (&[(0, 2, "dev/a", "net2")], "10.0.0.4/29"),
        ] {
            assert_eq!(chosen(&one, &pools(&one, entries), NOBODY, 0).unwrap(), ip, "{entries:?}");
        }
    }

    #[test]
    fn a_pod_has_all_of_its_addresses_again_or_what_is_missing_of_them() {
        let two = settings(json!({"ipRanges": [{"range": "10.0.0.0/24"}, {"range": "fd00::/64"}]}));
        let upper = u128::from(u64::MAX) - 1;
        for (entries, ips) in [
            (&[(0, 7, "dev/a", "net1"), (1, upper, "dev/a", "net1")][..], "10.0.0.7/24 fd00::ffff:ffff:ffff:fffe/64"),
            (&[(0, 7, "dev/a", "net1")], "10.0.0.7/24 fd00::1/64"),
            (&[(1, upper, "dev/b", "net1")], "10.0.0.1/24 fd00::1/64"),
        ] {
            assert_eq!(chosen(&two, &pools(&two, entries), NOBODY, 0).unwrap(), ips, "{entries:?}");
        }
        let high = settings(json!({"range": "fd00::/64", "range_start": "fd00::ffff:ffff:ffff:fffd"}));
        let taken = pools(&high, &[(0, upper - 1, "dev/b", "net1")]);
        assert_eq!(chosen(&high, &taken, NOBODY, 0).unwrap(), "fd00::ffff:ffff:ffff:fffe/64");
    }

    #[test]
    fn after_a_conflict_it_is_one_further_on_but_never_none() {
        let one = settings(json!({"range": "10.0.0.0/29"}));
        let empty = pools(&one, &[(0, 2, "dev/b", "net1")]);
        for (skip, ip) in [(0, "10.0.0.1/29"), (1, "10.0.0.3/29"), (3, "10.0.0.5/29"), (99, "10.0.0.6/29")] {
            assert_eq!(chosen(&one, &empty, NOBODY, skip).unwrap(), ip);
        }
        let mine = pools(&one, &[(0, 2, "dev/a", "net1")]);
        assert_eq!(chosen(&one, &mine, NOBODY, 5).unwrap(), "10.0.0.2/29", "what it has it keeps");
    }

    #[test]
    fn what_is_flying_or_reserved_elsewhere_is_passed_over() {
        let one = settings(json!({"range": "10.0.0.0/30"}));
        let first = Ip { address: "10.0.0.1".parse().unwrap(), length: 30 };
        let flying = Holding { origin: Origin::Owed, ..holding(7, "dev/a", "net1", Ips::of(&[first])) };
        let known = Known { flying: &[&flying], ..NOBODY };
        assert_eq!(chosen(&one, &pools(&one, &[]), known, 0).unwrap(), "10.0.0.2/30");
        let avoided = BTreeMap::from([("10.0.0.2".parse().unwrap(), "dev/x".to_owned())]);
        let refusal = chosen(&one, &pools(&one, &[]), Known { avoided: &avoided, ..known }, 0).unwrap_err();
        assert!(matches!(refusal, Refusal::Exhausted { .. }), "{refusal}");
    }

    #[test]
    fn one_that_is_asked_for_is_had_or_somebody_is_named() {
        let mut one = settings(json!({"range": "10.0.0.0/24"}));
        one.requested = vec!["10.0.0.9".parse().unwrap()];
        assert_eq!(chosen(&one, &pools(&one, &[]), NOBODY, 0).unwrap(), "10.0.0.9/24");
        let refusal = chosen(&one, &pools(&one, &[(0, 9, "dev/b", "net1")]), NOBODY, 0).unwrap_err();
        assert_eq!(refusal.to_string(), "10.0.0.9 was asked for, and dev/b (net1) holds it");
    }
}
