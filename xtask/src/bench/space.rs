//! `cargo xtask bench space`: the engine beside cidrset, etcd's interval tree and kube-apiserver's allocators.

use super::ours::{self, FILL};
use super::report::Target;
use super::suite::{Against, Line, Ours, Quantity, Suite, Work};

/// Our half of each work, in the order in which they are done.
const OURS: &[(&str, Ours)] = &[
    // An empty 10.0.0.0/8 filled with /24; the heap too.
    ("fill-v4", ours::fill_v4),
    // The same through a counting view without a /16.
    ("fill-v4-view", ours::fill_v4_view),
    // An empty IPv6 /48 filled with /64.
    ("fill-v6", ours::fill_v6),
    // As many /120 out of an empty /32, which has 2^88 of them.
    ("fill-v6-deep", ours::fill_v6_deep),
    // Finding one /26 in a range whose first 5,000 /24s another, overlapping range has taken.
    ("first-past-5000", ours::first_past_5000),
    // Release and re-grant of one block of /20 to /28: in a register that holds one of each, half and nearly full.
    ("churn-empty", ours::churn_empty),
    ("churn-50", ours::churn_50),
    ("churn-99", ours::churn_99),
    // One grant of a random free address: a /12 with 0.1 % free; 1,000 /22 with 0.1 % free together.
    ("random-full", ours::random_full),
    ("random-1000-ranges", ours::random_1000_ranges),
    // A thousand grants, and a million.
    ("grants-1k", ours::grants_1k),
    ("grants-1m", ours::grants_1m),
];

/// The rows of the engine's table.
pub(super) fn suite() -> Suite {
    let works = OURS.iter().map(|&(name, ours)| Work { name, peers: peers_of(name), ours });
    let mut lines = fills();
    lines.extend(churn());
    lines.extend(random_addresses());
    Suite { name: "space", works: works.collect(), lines }
}

/// The works of the peers' program that stand beside ours.
fn peers_of(work: &str) -> &'static [&'static str] {
    match work {
        "fill-v4" => &["fill-v4", "fill-v4-interval"],
        "fill-v4-view" => &["fill-v4"],
        "fill-v6" => &["fill-v6"],
        "random-full" => &["random-full"],
        "random-1000-ranges" => &["random-1000-ranges"],
        _ => &[],
    }
}

fn fills() -> Vec<Line> {
    vec![
        time("fill-v4", "fill 10.0.0.0/8 with /24", "fill-v4", peer("fill-v4", "cidrset"), Target::Faster(4.0)),
        time(
            "fill-v4-interval",
            "the same, against the interval tree of KEP-20200617",
            "fill-v4",
            peer("fill-v4-interval", "adt"),
            Target::Faster(40.0),
        ),
        Line {
            name: "fill-v4-bytes",
            what: "heap per grant of the same",
            work: "fill-v4",
            quantity: Quantity::BytesPer(FILL),
            against: peer("fill-v4-interval", "adt"),
            target: Target::AtMost(160.0),
        },
        time(
            "fill-v4-view",
            "fill 10.0.0.0/8 less a /16, with counts kept",
            "fill-v4-view",
            peer("fill-v4", "cidrset"),
            // Not asked for: what a controller will pay, so that the line above does not flatter.
            Target::Faster(2.0),
        ),
        time("fill-v6", "fill a /48 with /64", "fill-v6", peer("fill-v6", "cidrset"), Target::Faster(4.0)),
        time(
            "fill-v6-deep",
            "as many /120 of a /32, at the same cost",
            "fill-v6-deep",
            Against::Baseline("fill-v6"),
            // "The same cost", and what the noise of one run may add to it.
            Target::Within(1.25),
        ),
    ]
}

fn churn() -> Vec<Line> {
    // Computed from its source, which the module proxy does not have: 20,000 candidates, each compared with thousands of
    // CIDR strings that are parsed anew.
    let computed = Against::Stated { peer: "node-ipam-controller", ns: 12e9 };
    vec![
        time(
            "first-past-5000",
            "first /26 after 5,000 contiguous /24s of another range",
            "first-past-5000",
            computed,
            Target::AtMost(1_000.0),
        ),
        time(
            "churn-50",
            "release and re-grant, /20 to /28, 50 % full",
            "churn-50",
            Against::Baseline("churn-empty"),
            Target::Within(2.0),
        ),
        time(
            "churn-99",
            "release and re-grant, /20 to /28, 99 % full",
            "churn-99",
            Against::Baseline("churn-empty"),
            Target::Within(2.0),
        ),
        time(
            "grants-1m",
            "1,000,000 grants against 1,000",
            "grants-1m",
            Against::Baseline("grants-1k"),
            Target::Within(3.0),
        ),
    ]
}

/// Each of kube-apiserver's allocators has a row: the bitmap of old, the one of today, and the search of the one of
/// today without the counting of all objects that it does for each grant.
fn random_addresses() -> Vec<Line> {
    let full = "random free address of a /12, 99.9 % full";
    let many = "random free address of 1,000 ranges, 99.9 % full";
    let row = |name, what, work, peer_name| time(name, what, work, peer(work, peer_name), Target::AtMost(300.0));
    vec![
        row("random-full", full, "random-full", "ipaddress"),
        row("random-full-search", full, "random-full", "ipaddress-search"),
        row("random-full-bitmap", full, "random-full", "bitmap"),
        row("random-1000", many, "random-1000-ranges", "metaallocator"),
        row("random-1000-search", many, "random-1000-ranges", "metaallocator-search"),
        time(
            "random-1000-steady",
            "1,000 ranges against 1",
            "random-1000-ranges",
            Against::Baseline("random-full"),
            Target::Within(2.0),
        ),
    ]
}

fn time(name: &'static str, what: &'static str, work: &'static str, against: Against, target: Target) -> Line {
    Line { name, what, work, quantity: Quantity::Time, against, target }
}

fn peer(work: &'static str, peer: &'static str) -> Against {
    Against::Peer { work, peer }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_its_own_name_and_is_about_works_that_are_done() {
        let suite = suite();
        let names: BTreeSet<_> = suite.lines.iter().map(|line| line.name).collect();
        assert_eq!(names.len(), suite.lines.len());
        let works: BTreeSet<_> = suite.works.iter().map(|work| work.name).collect();
        let peers: BTreeSet<_> = suite.works.iter().flat_map(|work| work.peers).copied().collect();
        for line in &suite.lines {
            assert!(works.contains(line.work), "{}", line.name);
            match line.against {
                Against::Peer { work, .. } => assert!(peers.contains(work), "{}", line.name),
                Against::Baseline(work) => assert!(works.contains(work), "{}", line.name),
                Against::Stated { .. } => {}
            }
        }
    }
}
