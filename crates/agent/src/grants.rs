//! Which slices the plugin may give addresses of: a function of the node's entry in the pool, of what was granted before, and of what
//! is held.
//!
//! What the node has no claim to any more drains, and goes when nothing of it is held. What is new is granted when it is known what others
//! hold of it.

use std::net::IpAddr;

use api::slices::Entry;
use cni::config::Span;
use cni::grants::{Grants, RangeGrant, Slice, SliceState};
use space::Cidr;

/// Grants are written anew after so many seconds though nothing changed, as long as the API server was heard of: plugins may
/// be told not to trust older ones (`grant_max_age`).
pub const RENEWAL: u64 = 20;

/// Who the node is, and what it has.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The network.
    pub network: &'a str,
    /// The node.
    pub node: &'a str,
    /// The node's UID; empty if there is no such node.
    pub uid: &'a str,
    /// How the ranges of the network are cut.
    pub ranges: &'a [(Cidr, u8)],
    /// Its gateways.
    pub gateways: &'a [IpAddr],
    /// What the pool says that a node of this name has.
    pub entry: Option<&'a Entry>,
    /// The id of the journal, if there is one.
    pub journal: Option<&'a str>,
    /// When the API server last said so: seconds since 1970.
    pub heard_at: u64,
}

/// What is to be done about the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing.
    Keep,
    /// This is to be in it.
    Write(Grants),
    /// It is to go.
    Remove,
}

/// The node's entry, if it is this node's: not that of another one which had its name.
pub fn own<'a>(entry: Option<&'a Entry>, uid: &str) -> Option<&'a Entry> {
    entry.filter(|entry| !uid.is_empty() && entry.uid == uid && entry.gone_at.is_none())
}

/// What is to be in the file. `is_known` says of a slice whether it is known who holds something of it, `is_held` whether anybody does.
pub fn plan(
    before: Option<&Grants>,
    claim: Claim<'_>,
    is_known: impl Fn(Cidr) -> bool,
    is_held: impl Fn(Cidr) -> bool,
) -> Wanted {
    let old = || before.iter().flat_map(|grants| &grants.ranges).flat_map(|range| &range.slices);
    let entry = own(claim.entry, claim.uid);
    let mut slices: Vec<Slice> = Vec::new();
    for cidr in entry.iter().flat_map(|entry| &entry.slices).copied() {
        let drains = entry.is_some_and(|entry| entry.draining.contains(&cidr));
        let state = if drains { SliceState::Draining } else { SliceState::Granted };
        if is_known(cidr) || old().any(|slice| slice.cidr == cidr) {
            slices.push(Slice { cidr, generation: 0, epoch: entry.map_or(0, |entry| entry.epoch), state });
        }
    }
    for slice in old() {
        if !slices.iter().any(|other| other.cidr == slice.cidr) && is_held(slice.cidr) {
            slices.push(Slice { state: SliceState::Draining, ..*slice });
        }
    }
    if slices.is_empty() {
        return if before.is_some() { Wanted::Remove } else { Wanted::Keep };
    }
    let mut ranges: Vec<RangeGrant> = Vec::new();
    for slice in slices {
        let range = range_of(claim.ranges, slice.cidr);
        match ranges.iter_mut().find(|grant| grant.range == range) {
            Some(grant) => grant.slices.push(slice),
            None => ranges.push(RangeGrant { range, slices: vec![slice] }),
        }
    }
    let refreshed_at = before.map_or(0, |before| before.refreshed_at).max(claim.heard_at);
    let wanted = Grants {
        network: claim.network.to_owned(),
        node: claim.node.to_owned(),
        node_uid: claim.uid.to_owned(),
        journal: claim.journal.map(str::to_owned),
        refreshed_at,
        gateways: claim.gateways.to_vec(),
        ranges,
    };
    match before {
        Some(before) if Grants { refreshed_at, ..before.clone() } == wanted => {
            let is_due = refreshed_at >= before.refreshed_at.saturating_add(RENEWAL);
            if is_due { Wanted::Write(wanted) } else { Wanted::Keep }
        }
        _ => Wanted::Write(wanted),
    }
}

/// The range that a slice is of: one that is cut by its size, or one that it lies in. A slice of none is a range of its own.
pub fn range_of(ranges: &[(Cidr, u8)], slice: Cidr) -> Cidr {
    let lies_in = |range: Cidr| {
        let (outer, inner) = (Span::of(range), Span::of(slice));
        range.family() == slice.family() && outer.has(inner.first) && outer.has(inner.last)
    };
    let mut inside = ranges.iter().filter(|(range, _)| lies_in(*range));
    let exact = inside.clone().find(|(_, length)| *length == slice.length());
    exact.or_else(|| inside.next()).map_or(slice, |(range, _)| *range)
}

/// Reads what a pool says of how its ranges are cut: `10.0.0.0/8 by /20, fd00::/64 by /120`.
pub fn ranges(text: &str) -> Vec<(Cidr, u8)> {
    let one = |text: &str| {
        let (range, length) = text.trim().split_once(" by /")?;
        Some((Cidr::tolerant(range).ok()?.value, length.parse().ok()?))
    };
    text.split(',').filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        Cidr::strict(text).unwrap()
    }

    fn entry(slices: &[&str], draining: &[&str], epoch: u64) -> Entry {
        let all = |texts: &[&str]| texts.iter().map(|text| cidr(text)).collect();
        Entry { uid: "u".into(), epoch, slices: all(slices), draining: all(draining), gone_at: None }
    }

    fn claim<'a>(entry: Option<&'a Entry>, ranges: &'a [(Cidr, u8)]) -> Claim<'a> {
        Claim { network: "net", node: "n", uid: "u", ranges, gateways: &[], entry, journal: None, heard_at: 100 }
    }

    /// What is written, in words.
    fn words(wanted: &Wanted) -> String {
        let Wanted::Write(grants) = wanted else { return format!("{wanted:?}") };
        let slice = |slice: &Slice| {
            let drains = if slice.state == SliceState::Draining { " draining" } else { "" };
            format!("{}@{}{drains}", slice.cidr, slice.epoch)
        };
        let range = |range: &RangeGrant| {
            format!("{}: {}", range.range, range.slices.iter().map(slice).collect::<Vec<_>>().join(", "))
        };
        grants.ranges.iter().map(range).collect::<Vec<_>>().join("; ")
    }

    fn written(wanted: Wanted) -> Grants {
        let Wanted::Write(grants) = wanted else { panic!("{wanted:?}") };
        grants
    }

    #[test]
    fn slices_are_granted_in_their_ranges_when_it_is_known_who_holds_what() {
        let ranges = ranges("10.0.0.0/8 by /20, fd00::/64 by /116");
        let entry = entry(&["10.0.0.0/20", "fd00::/116", "10.9.0.0/22"], &["10.9.0.0/22"], 7);
        let claim = claim(Some(&entry), &ranges);
        assert_eq!(plan(None, claim, |_| false, |_| false), Wanted::Keep);
        let some = plan(None, claim, |slice| slice.length() == 20, |_| false);
        assert_eq!(words(&some), "10.0.0.0/8: 10.0.0.0/20@7");
        let all = plan(Some(&written(some)), claim, |_| true, |_| false);
        assert_eq!(words(&all), "10.0.0.0/8: 10.0.0.0/20@7, 10.9.0.0/22@7 draining; fd00::/64: fd00::/116@7");
        assert_eq!(plan(Some(&written(all)), claim, |_| true, |_| false), Wanted::Keep);
    }

    #[test]
    fn what_is_not_the_nodes_any_more_drains_and_goes_when_nothing_is_held() {
        let ranges = ranges("10.0.0.0/8 by /20");
        let had = entry(&["10.0.0.0/20", "10.0.16.0/20"], &[], 7);
        let before = written(plan(None, claim(Some(&had), &ranges), |_| true, |_| false));
        let held = |slice: Cidr| slice == cidr("10.0.0.0/20");
        let other = Entry { uid: "other".into(), ..had.clone() };
        let gone = Entry { gone_at: Some("2026-01-01T00:00:00Z".into()), ..had.clone() };
        for lost in [None, Some(&other), Some(&gone)] {
            let drained = plan(Some(&before), claim(lost, &ranges), |_| true, held);
            assert_eq!(words(&drained), "10.0.0.0/8: 10.0.0.0/20@7 draining");
            assert_eq!(plan(Some(&written(drained)), claim(lost, &ranges), |_| true, |_| false), Wanted::Remove);
        }
        assert_eq!(plan(None, claim(None, &ranges), |_| true, |_| true), Wanted::Keep);
        let without_node = Claim { uid: "", ..claim(Some(&had), &ranges) };
        assert_eq!(plan(Some(&before), without_node, |_| true, |_| false), Wanted::Remove);
    }

    #[test]
    fn they_are_renewed_when_the_server_was_heard_of_again() {
        let ranges = ranges("10.0.0.0/8 by /20");
        let entry = entry(&["10.0.0.0/20"], &[], 7);
        let before = written(plan(None, claim(Some(&entry), &ranges), |_| true, |_| false));
        assert_eq!(before.refreshed_at, 100);
        let later = |heard_at| Claim { heard_at, ..claim(Some(&entry), &ranges) };
        assert_eq!(plan(Some(&before), later(100 + RENEWAL - 1), |_| true, |_| false), Wanted::Keep);
        let renewed = written(plan(Some(&before), later(100 + RENEWAL), |_| true, |_| false));
        assert_eq!(renewed.refreshed_at, 100 + RENEWAL);
        assert_eq!(plan(Some(&renewed), later(0), |_| true, |_| false), Wanted::Keep);
    }

    #[test]
    fn another_gateway_is_told_the_plugin() {
        let ranges = ranges("10.0.0.0/8 by /20");
        let entry = entry(&["10.0.0.0/20"], &[], 7);
        let before = written(plan(None, claim(Some(&entry), &ranges), |_| true, |_| false));
        let gateways = ["10.0.0.1".parse().unwrap()];
        let named = Claim { gateways: &gateways, ..claim(Some(&entry), &ranges) };
        let after = written(plan(Some(&before), named, |_| true, |_| false));
        assert_eq!((before.gateways, after.gateways), (Vec::new(), gateways.to_vec()));
    }

    #[test]
    fn a_slice_of_no_range_is_one_of_its_own() {
        assert_eq!(range_of(&ranges("10.0.0.0/8 by /20"), cidr("192.168.0.0/24")), cidr("192.168.0.0/24"));
        let nested = ranges("10.0.0.0/8 by /20, 10.0.0.0/16 by /24, nonsense, fd00::/64 by x");
        assert_eq!(nested.len(), 2);
        assert_eq!(range_of(&nested, cidr("10.0.3.0/24")), cidr("10.0.0.0/16"));
    }
}
