//! Running the specs: several processes of e2e.test at once, because a spec mostly waits; then those that want the
//! server for themselves.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result};

use super::Endings;
use super::outcome::{self, Done};
use crate::e2e::fidelity::cluster::Cluster;
use crate::e2e::servers::Servers;
use crate::parts::Part;

/// In the name of a spec that must not run beside others.
const ALONE: &str = "[Serial]";
/// More than this would wait for processors, and their clocks are for a machine that has some.
const PROCESSES: usize = 4;
/// For one process. The slowest spec takes a minute or two.
const TIMEOUT: &str = "--ginkgo.timeout=20m";

/// What is said of a name that e2e.test does not know.
const NO_SUCH: &str = "e2e.test has no such spec";

/// What came of each of the specs.
pub(super) fn run(servers: &Servers, cluster: &Cluster, specs: &[&str], folder: &Path) -> Endings {
    let (alone, beside): (Vec<&str>, Vec<&str>) = specs.iter().partition(|spec| spec.contains(ALONE));
    let beside = (0..PROCESSES).map(|shard| (format!("beside-{shard}"), every(&beside, shard))).collect();
    let mut endings = Endings::new();
    let kubeconfigs = cluster.server.kubeconfigs();
    for batch in [beside, vec![("alone".to_owned(), alone)]] {
        let begin = |name: &str, specs: &[&str], kubeconfig: &Path| {
            let ended = one(servers, kubeconfig, specs, &folder.join(name)).and_then(|report| outcome::read(&report));
            match ended {
                Ok(ended) => lost(specs, NO_SUCH).into_iter().chain(ended).collect(),
                // A process that dies takes its specs with it.
                Err(error) => lost(specs, &format!("{error:#}")),
            }
        };
        thread::scope(|scope| {
            let begin = &begin;
            // Where there are two servers, each has every second process; the last is for the specs that run alone.
            let batch = batch.iter().zip(kubeconfigs.iter().rev().cycle());
            let batch = batch.filter(|((_, specs), _)| !specs.is_empty());
            let running: Vec<_> = batch
                .map(|((name, specs), kubeconfig)| (specs, scope.spawn(move || begin(name, specs, kubeconfig))))
                .collect();
            for (specs, process) in running {
                endings.extend(process.join().unwrap_or_else(|_| lost(specs, "whoever ran it fell over")));
            }
        });
    }
    endings
}

fn lost(specs: &[&str], why: &str) -> Endings {
    specs.iter().map(|spec| ((*spec).to_owned(), Done::lost(why))).collect()
}

/// The specs of one process: every so-manieth, so that long ones of one subject do not meet in one process.
fn every<'a>(specs: &[&'a str], shard: usize) -> Vec<&'a str> {
    specs.iter().skip(shard).step_by(PROCESSES).copied().collect()
}

/// Runs these specs in one process and returns its report. What it says stays in the folder.
fn one(servers: &Servers, kubeconfig: &Path, specs: &[&str], folder: &Path) -> Result<String> {
    fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))?;
    let (log, report) = (folder.join("e2e.log"), folder.join("report.json"));
    let output = fs::File::create(&log).with_context(|| format!("could not write {}", log.display()))?;
    let mut command = Command::new(servers.part(Part::EndToEndTests)?);
    command.current_dir(folder).env("HOME", folder);
    command.arg("--provider=local").arg(format!("--kubeconfig={}", kubeconfig.display()));
    command.arg(format!("--kubectl-path={}", servers.part(Part::Kubectl)?.display()));
    // There are no nodes and no pods to wait for.
    command.args(["--allowed-not-ready-nodes=-1", "--num-nodes=1", TIMEOUT]);
    command.arg(format!("--ginkgo.json-report={}", report.display()));
    command.args(["--ginkgo.no-color", "--ginkgo.v"]);
    command.args(specs.iter().map(|spec| format!("--ginkgo.focus={}$", regex::escape(spec))));
    let status = command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).status()?;
    // It ends with failure if a spec failed, which the report says better.
    fs::read_to_string(&report).with_context(|| format!("e2e.test ended with {status}; see {}", log.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spec_is_run_by_one_process() {
        let specs = ["a", "b", "c", "d", "e", "f", "g"];
        let mut all: Vec<_> = (0..PROCESSES).flat_map(|shard| every(&specs, shard)).collect();
        all.sort_unstable();
        assert_eq!(all, specs);
    }
}
