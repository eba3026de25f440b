//! What came of each case, told when it is known, and counted at the end.

use std::fmt::Write as _;
use std::time::Duration;

use super::Place;

/// What came of a case. The text is for whoever reads the line.
pub(super) enum Outcome {
    /// It holds; perhaps with figures.
    Ok(String),
    /// It does not, and why.
    Failed(String),
    /// It could not be tried here, and why.
    NotRun(String),
}

/// The cases so far.
#[derive(Default)]
pub(super) struct Report {
    rows: Vec<Row>,
}

/// One suite on one server.
struct Row {
    suite: &'static str,
    place: Place,
    ok: usize,
    failed: usize,
    not_run: usize,
    took: Duration,
}

impl Report {
    /// Prints the line of a case and counts it.
    pub(super) fn case(&mut self, suite: &'static str, place: Place, name: &str, outcome: &Outcome, took: Duration) {
        let (word, said) = match outcome {
            Outcome::Ok(said) => ("ok", said),
            Outcome::Failed(said) => ("FAILED", said),
            Outcome::NotRun(said) => ("not run", said),
        };
        println!("{word:<7} {suite} on {}: {name} ({:.1} s)", place.name(), took.as_secs_f64());
        for line in said.lines() {
            println!("        {line}");
        }
        let row = self.row(suite, place);
        match outcome {
            Outcome::Ok(_) => row.ok += 1,
            Outcome::Failed(_) => row.failed += 1,
            Outcome::NotRun(_) => row.not_run += 1,
        }
        row.took += took;
    }

    fn row(&mut self, suite: &'static str, place: Place) -> &mut Row {
        let found = self.rows.iter().position(|row| row.suite == suite && row.place == place);
        let at = found.unwrap_or_else(|| {
            self.rows.push(Row { suite, place, ok: 0, failed: 0, not_run: 0, took: Duration::ZERO });
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    /// How many cases failed.
    pub(super) fn failures(&self) -> usize {
        self.rows.iter().map(|row| row.failed).sum()
    }

    /// The counts, as plain text in columns.
    pub(super) fn table(&self) -> String {
        let mut table = String::new();
        let mut line = |cells: [&str; 6]| {
            let [suite, place, ok, failed, not_run, took] = cells;
            let _ = writeln!(table, "{suite:<12} {place:<9} {ok:>5} {failed:>7} {not_run:>8} {took:>8}");
        };
        line(["suite", "on", "ok", "failed", "not run", "time"]);
        for row in &self.rows {
            line([
                row.suite,
                row.place.name(),
                &row.ok.to_string(),
                &row.failed.to_string(),
                &row.not_run.to_string(),
                &format!("{:.0} s", row.took.as_secs_f64()),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_counted_where_it_ran() {
        let mut report = Report::default();
        let second = Duration::from_secs(1);
        report.case("server", Place::Etcd, "a", &Outcome::Ok(String::new()), second);
        report.case("server", Place::Etcd, "b", &Outcome::Failed("why".to_owned()), second);
        report.case("disk-full", Place::Embedded, "c", &Outcome::NotRun("no root".to_owned()), second);
        let rows: Vec<Vec<String>> =
            report.table().lines().skip(1).map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
        assert_eq!(
            rows,
            [["server", "etcd", "1", "1", "0", "2", "s"], ["disk-full", "embedded", "0", "0", "1", "1", "s"]]
        );
        assert_eq!(report.failures(), 1, "what could not be tried is no failure");
    }
}
