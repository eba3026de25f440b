//! What came of each spec, from the report in JSON that the test program writes.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Endings;
use crate::e2e::report::Outcome;

/// What came of one spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// Why it failed or was skipped; nothing if it passed.
    why: Option<String>,
    skipped: bool,
    pub(super) took: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    #[serde(default)]
    spec_reports: Vec<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_text: String,
    leaf_node_type: String,
    state: String,
    #[serde(default)]
    run_time: u64,
    #[serde(default)]
    failure: Failure,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

impl Done {
    /// A spec of which nothing is known but why.
    pub(super) fn lost(why: &str) -> Self {
        Self { why: Some(why.to_owned()), skipped: false, took: Duration::ZERO }
    }

    pub(super) fn outcome(&self) -> Outcome {
        match &self.why {
            None => Outcome::Ok(String::new()),
            Some(why) => Outcome::Failed(why.clone()),
        }
    }

    /// One word for a table.
    pub(super) fn word(&self) -> &'static str {
        match (&self.why, self.skipped) {
            (None, _) => "passes",
            (Some(_), true) => "skips itself",
            (Some(_), false) => "fails",
        }
    }
}

/// Takes the outcomes of the specs that were run from a report. A spec that skips itself has not shown anything, so it
/// counts as one that failed. If the suite did not get as far as its specs, that is the error.
pub(super) fn read(report: &str) -> Result<Endings> {
    let mut endings = Endings::new();
    let suites: Vec<Suite> = serde_json::from_str(report).context("the report of the specs cannot be read")?;
    for spec in suites.into_iter().flat_map(|suite| suite.spec_reports) {
        let passed = spec.state == "passed";
        if spec.leaf_node_type != "It" {
            anyhow::ensure!(passed, "{} failed: {}", spec.leaf_node_type, first_lines(&spec.failure.message));
            continue;
        }
        let skipped = spec.state == "skipped";
        // Most are skipped because they were not asked for. Those have no reason.
        if (skipped && spec.failure.message.is_empty()) || spec.state == "pending" {
            continue;
        }
        let mut texts = spec.container_hierarchy_texts.unwrap_or_default();
        texts.push(spec.leaf_node_text);
        let why = (!passed).then(|| format!("{}: {}", spec.state, first_lines(&spec.failure.message)));
        endings.insert(texts.join(" "), Done { why, skipped, took: Duration::from_nanos(spec.run_time) });
    }
    Ok(endings)
}

/// The beginning of a message; the rest is in the log.
fn first_lines(message: &str) -> String {
    message.lines().filter(|line| !line.trim().is_empty()).take(6).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_specs_that_were_asked_for_have_an_outcome() {
        let report = r#"[{"SpecReports": [
            {"LeafNodeText": "", "LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
            {"ContainerHierarchyTexts": ["[sig-a] A", "b"], "LeafNodeText": "c", "LeafNodeType": "It", "State": "passed",
             "RunTime": 2000000000},
            {"ContainerHierarchyTexts": ["[sig-a] A"], "LeafNodeText": "d", "LeafNodeType": "It", "State": "failed",
             "Failure": {"Message": "oh\n\nno"}},
            {"ContainerHierarchyTexts": ["[sig-a] A"], "LeafNodeText": "e", "LeafNodeType": "It", "State": "skipped"},
            {"ContainerHierarchyTexts": ["[sig-a] A"], "LeafNodeText": "f", "LeafNodeType": "It", "State": "skipped",
             "Failure": {"Message": "no nodes"}}]}]"#;
        let endings = read(report).unwrap();
        let words: Vec<_> = endings.iter().map(|(name, done)| (name.as_str(), done.word())).collect();
        let expected = [("[sig-a] A b c", "passes"), ("[sig-a] A d", "fails"), ("[sig-a] A f", "skips itself")];
        assert_eq!(words, expected);
        assert_eq!(endings["[sig-a] A b c"].took, Duration::from_secs(2));
        assert_eq!(endings["[sig-a] A d"].why.as_deref(), Some("failed: oh\nno"));
    }

    #[test]
    fn a_suite_that_does_not_begin_is_an_error() {
        let report = r#"[{"SpecReports": [{"LeafNodeText": "", "LeafNodeType": "SynchronizedBeforeSuite",
            "State": "failed", "Failure": {"Message": "no server"}}]}]"#;
        assert!(read(report).unwrap_err().to_string().contains("no server"));
    }
}
