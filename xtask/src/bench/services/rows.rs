//! The rows of the table of Services: which server, which quantity, and what it has to reach. Ours is as users start it, with all that it
//! does by itself; one row is without, to tell what that costs.

use super::metric::{Metric, Part};
use crate::bench::lines::Line;
use crate::bench::places::Place;
use crate::bench::report::Target;

/// All rows.
pub(super) fn lines() -> Vec<Line<Metric>> {
    let mut lines = creates();
    lines.extend(node_ports());
    lines.extend(crowded());
    lines.extend(churn());
    let memory = "resident memory with 10,000 Services, etcd included";
    lines.push(tended("memory", memory, Metric::Memory, Target::Faster(5.0)));
    lines
}

fn creates() -> Vec<Line<Metric>> {
    let (one, eight, many) = (
        "creates of Services with an address, 1 connection",
        "creates of Services with an address, 8 connections",
        "creates of Services with an address, 64 connections",
    );
    let (median, tail) = ("half of these creates are not slower", "99 % of these creates are not slower");
    let of = Metric::Create;
    let on = |place, name, what, metric, target| Line::beside_control(place, name, what, metric, target);
    vec![
        tended("create-1", one, of(1, Part::Rate), Target::Faster(4.0)),
        tended("create-1-p50", median, of(1, Part::Median), Target::Shown),
        tended("create-1-p99", tail, of(1, Part::Tail), Target::Shown),
        tended("create-8", eight, of(8, Part::Rate), Target::Faster(30.0)),
        tended("create-8-p50", median, of(8, Part::Median), Target::Shown),
        tended("create-8-p99", tail, of(8, Part::Tail), Target::Shown),
        tended("create-64", many, of(64, Part::Rate), Target::Faster(60.0)),
        tended("create-64-p50", median, of(64, Part::Median), Target::Shown),
        tended("create-64-p99", tail, of(64, Part::Tail), Target::Faster(50.0)),
        on(Place::Embedded, "create-64-bare", many, of(64, Part::Rate), Target::Shown),
        on(Place::Embedded, "create-64-bare-p99", tail, of(64, Part::Tail), Target::Shown),
        on(Place::TendedOnEtcd, "create-64-etcd", many, of(64, Part::Rate), Target::Faster(10.0)),
        on(Place::TendedOnEtcd, "create-64-etcd-p50", median, of(64, Part::Median), Target::Shown),
        on(Place::TendedOnEtcd, "create-64-etcd-p99", tail, of(64, Part::Tail), Target::Shown),
    ]
}

fn node_ports() -> Vec<Line<Metric>> {
    let rate = "creates of Services with a node port, 8 connections";
    let (median, tail) = ("half of these creates are not slower", "99 % of these creates are not slower");
    vec![
        tended("node-port-8", rate, Metric::NodePort(Part::Rate), Target::Faster(40.0)),
        tended("node-port-8-p50", median, Metric::NodePort(Part::Median), Target::Shown),
        tended("node-port-8-p99", tail, Metric::NodePort(Part::Tail), Target::Shown),
    ]
}

fn crowded() -> Vec<Line<Metric>> {
    let alone =
        "creates with 1,000 ServiceCIDRs and 10,000 Services there, 64 connections, beside those with one range alone";
    let peer = "creates with 1,000 ServiceCIDRs and 10,000 Services there, 64 connections";
    vec![
        beside_own("ranges-1000", alone, Metric::Crowded, Metric::Alone),
        tended("ranges-1000-peer", peer, Metric::Crowded, Target::Shown),
    ]
}

fn churn() -> Vec<Line<Metric>> {
    let empty = "deletes and creates in a range that is 99 % full, 64 connections, beside those in an empty one";
    let (peer, peer_empty) = ("deletes and creates in a range that is 99 % full", "the same in an empty one");
    let full = "how often it was said to be full";
    let at_last = "the same in a range that is full but for what was just deleted";
    vec![
        beside_own("churn-99", empty, Metric::ChurnFull, Metric::ChurnEmpty),
        tended("churn-99-peer", peer, Metric::ChurnFull, Target::Shown),
        tended("churn-empty-peer", peer_empty, Metric::ChurnEmpty, Target::Shown),
        tended("churn-99-full", full, Metric::FalselyFull, Target::AtMost(0.0)),
        tended("churn-100-full", at_last, Metric::FalselyFullAtLast, Target::AtMost(0.0)),
    ]
}

fn tended(name: &'static str, what: &'static str, metric: Metric, target: Target) -> Line<Metric> {
    Line::beside_control(Place::Tended, name, what, metric, target)
}

/// A row that is held against ours in a better case: what is large or full may cost one part in five.
fn beside_own(name: &'static str, what: &'static str, metric: Metric, against: Metric) -> Line<Metric> {
    Line { against, beside: Place::Tended, ..tended(name, what, metric, Target::Faster(0.8)) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_its_own_name_and_compares_its_own_figures() {
        let lines = lines();
        let names: BTreeSet<_> = lines.iter().map(|line| line.name).collect();
        let compared: BTreeSet<_> =
            lines.iter().map(|line| (line.place, line.quantity, line.beside, line.against)).collect();
        assert_eq!((names.len(), compared.len()), (lines.len(), lines.len()));
    }

    #[test]
    fn no_target_is_reached_by_a_server_that_leaves_undone_what_users_have_it_do() {
        for line in lines().iter().filter(|line| line.target != Target::Shown) {
            assert!(matches!(line.place, Place::Tended | Place::TendedOnEtcd), "{}", line.name);
        }
    }
}
