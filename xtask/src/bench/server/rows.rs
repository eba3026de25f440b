//! The rows of the server's table: which server, which quantity, and what it has to reach.

use super::metric::Metric;
use crate::bench::lines::Line;
use crate::bench::places::Place;
use crate::bench::report::Target;

/// All rows.
pub(super) fn lines() -> Vec<Line<Metric>> {
    let mut lines = writes();
    lines.extend(lists());
    lines.extend(watches());
    lines.extend(sizes_and_starts());
    lines
}

/// The rows that show that a change made nothing slower. The machine is noisy, and a change is allowed one part in twenty.
pub(super) fn against_before() -> Vec<Line<Metric>> {
    let names =
        ["create-before", "list-before", "list-page-before", "list-table-before", "watch-p99-before", "memory-before"];
    let lines = lines().into_iter().filter_map(|line| {
        let name = names.iter().find(|name| name.strip_suffix("-before") == Some(line.name))?;
        let target = if line.quantity == Metric::WatchTail { Target::Shown } else { Target::Faster(0.95) };
        let quantity = line.quantity.in_turns();
        Some(Line { name, quantity, against: quantity, beside: Place::Before, target, ..line })
    });
    lines.collect()
}

fn writes() -> Vec<Line<Metric>> {
    let (rate, median, tail, applied, applied_tail) = (
        "durable creates of ConfigMaps of 1 KB, 64 connections",
        "half of these creates are not slower",
        "99 % of these creates are not slower",
        "server-side applies of Services that change nothing, 64 connections",
        "99 % of these applies are not slower",
    );
    vec![
        embedded("create", rate, Metric::CreateRate, Target::Faster(5.0)),
        embedded("create-p50", median, Metric::CreateMedian, Target::Shown),
        embedded("create-p99", tail, Metric::CreateTail, Target::Faster(10.0)),
        on_etcd("create-etcd", rate, Metric::CreateRate, Target::Faster(1.5)),
        on_etcd("create-etcd-p50", median, Metric::CreateMedian, Target::Shown),
        on_etcd("create-etcd-p99", tail, Metric::CreateTail, Target::Shown),
        embedded("apply", applied, Metric::ApplyRate, Target::Faster(5.0)),
        embedded("apply-p99", applied_tail, Metric::ApplyTail, Target::Shown),
        on_etcd("apply-etcd", applied, Metric::ApplyRate, Target::Shown),
        on_etcd("apply-etcd-p99", applied_tail, Metric::ApplyTail, Target::Shown),
    ]
}

fn lists() -> Vec<Line<Metric>> {
    let (all, page, table, gzip, bytes) = (
        "list of 10,000 ConfigMaps at once",
        "a page of 500 of them, all in turn",
        "a page of 500 as a Table, all in turn",
        "list of 10,000 at once, compressed",
        "bytes of the list, not compressed",
    );
    vec![
        embedded("list", all, Metric::ListAll, Target::Faster(5.0)),
        embedded("list-page", page, Metric::ListPage, Target::Faster(5.0)),
        embedded("list-table", table, Metric::ListTable, Target::Faster(5.0)),
        embedded("list-gzip", gzip, Metric::ListGzip, Target::Shown),
        embedded("list-bytes", bytes, Metric::ListBytes, Target::Shown),
        on_etcd("list-etcd", all, Metric::ListAll, Target::Shown),
        on_etcd("list-page-etcd", page, Metric::ListPage, Target::Shown),
        on_etcd("list-table-etcd", table, Metric::ListTable, Target::Shown),
    ]
}

fn watches() -> Vec<Line<Metric>> {
    let median = "half of the events are there after this, 1,000 watchers (10 on each of 100 namespaces)";
    let tail = "99 % of the events are there after this, 1,000 watchers (10 on each of 100 namespaces)";
    let at_full_rate = |line: Line<Metric>| Line { against: Metric::WatchTail, ..line };
    vec![
        embedded("watch-p50", median, Metric::WatchMedian, Target::Shown),
        embedded("watch-p99", tail, Metric::WatchTail, Target::Faster(5.0)),
        at_full_rate(embedded("watch-1000-p99", tail, Metric::WatchFullTail, Target::Faster(5.0))),
        on_etcd("watch-p99-etcd", tail, Metric::WatchTail, Target::Shown),
        at_full_rate(on_etcd("watch-1000-p99-etcd", tail, Metric::WatchFullTail, Target::Shown)),
    ]
}

fn sizes_and_starts() -> Vec<Line<Metric>> {
    let memory = "resident memory with 10,000 ConfigMaps, etcd included";
    let peak = "most that was resident, after lists and 1,000 watchers, etcd included";
    let (empty, full) = ("start to ready, empty", "start to ready with 100,000 ConfigMaps");
    vec![
        embedded("memory", memory, Metric::Memory, Target::Faster(5.0)),
        embedded("memory-peak", peak, Metric::MemoryPeak, Target::Shown),
        on_etcd("memory-etcd", memory, Metric::Memory, Target::Shown),
        on_etcd("memory-peak-etcd", peak, Metric::MemoryPeak, Target::Shown),
        embedded("start", empty, Metric::StartEmpty, Target::AtMost(0.5e9)),
        embedded("start-full", full, Metric::StartFull, Target::AtMost(3e9)),
        Line {
            against: Metric::StartFull,
            ..embedded(
                "start-killed",
                "the same after kill -9 while it had fresh writes",
                Metric::StartKilled,
                Target::AtMost(3e9),
            )
        },
        on_etcd("start-etcd", empty, Metric::StartEmpty, Target::Shown),
        on_etcd("start-full-etcd", full, Metric::StartFull, Target::Shown),
    ]
}

fn embedded(name: &'static str, what: &'static str, metric: Metric, target: Target) -> Line<Metric> {
    Line::beside_control(Place::Embedded, name, what, metric, target)
}

fn on_etcd(name: &'static str, what: &'static str, metric: Metric, target: Target) -> Line<Metric> {
    Line::beside_control(Place::Etcd, name, what, metric, target)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::bench::figures::Figures;

    #[test]
    fn every_row_has_its_own_name_and_its_own_figure() {
        let lines = lines();
        let names: BTreeSet<_> = lines.iter().map(|line| line.name).collect();
        let figures: BTreeSet<_> = lines.iter().map(|line| (line.place, line.quantity)).collect();
        assert_eq!((names.len(), figures.len()), (lines.len(), lines.len()));
    }

    #[test]
    fn what_is_held_against_before_is_the_plain_path() {
        let mut figures = Figures::new([]);
        figures.note(Place::Before, Metric::CreateInTurns, 100.0);
        figures.note(Place::Embedded, Metric::CreateInTurns, 94.0);
        let rows: Vec<_> = against_before().iter().map(|line| line.row(&figures)).collect();
        assert_eq!(rows.len(), 6, "each is a row of the table");
        assert_eq!((rows[0].work.as_str(), rows[0].met, rows[0].ratio), ("create-before", false, Some(0.94)));
    }
}
