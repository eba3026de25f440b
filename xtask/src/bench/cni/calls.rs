//! Calls of a plugin on the clock: one after the other, or many at once.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use testkit::real::Plugin;

use crate::bench::measure::exact;
use crate::pods::attachment;

/// A plugin on one node, and the configuration of one network.
#[derive(Clone)]
pub(super) struct Attached {
    pub(super) plugin: Plugin,
    pub(super) conf: String,
    /// A namespace that is there for all pods; without one, that of nobody.
    pub(super) netns: Option<String>,
}

impl Attached {
    /// How long a call takes until the plugin has ended, and what it says.
    pub(super) fn call(&self, call: &str, pod: &str) -> Result<(Duration, String)> {
        let mut variables = attachment(call, pod, pod, "net1");
        variables.extend(self.netns.iter().map(|netns| ("CNI_NETNS".to_owned(), netns.clone())));
        timed(&mut self.plugin.command(variables), &self.conf)
    }

    /// An ADD: how long it takes, and the address.
    pub(super) fn add(&self, pod: &str) -> Result<(Duration, String)> {
        let (took, said) = self.call("ADD", pod)?;
        let answer: Value = serde_json::from_str(&said).with_context(|| format!("not an answer: {said}"))?;
        let ip = answer["ips"][0]["address"].as_str().with_context(|| format!("no address: {answer}"))?;
        Ok((took, ip.to_owned()))
    }

    /// A DEL.
    pub(super) fn del(&self, pod: &str) -> Result<()> {
        let (_, said) = self.call("DEL", pod)?;
        ensure!(said.is_empty(), "DEL: {said}");
        Ok(())
    }
}

/// Runs a command to its end: how long it takes, and what it says. What it is told must fit into a pipe.
pub(super) fn timed(command: &mut Command, input: &str) -> Result<(Duration, String)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn().with_context(|| format!("could not start {}", command.get_program().display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read has ended already, and nothing is wrong with that.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    let took = began.elapsed();
    Ok((took, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// What came of many calls.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) took: Duration,
    times: Vec<Duration>,
    given: Vec<String>,
    errors: Vec<String>,
}

impl Outcome {
    pub(super) fn new(times: Vec<Duration>) -> Self {
        Self { times, ..Self::default() }.sorted()
    }

    fn sorted(mut self) -> Self {
        self.times.sort_unstable();
        self
    }

    /// So many of a hundred took no longer; in nanoseconds.
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        let at = (self.times.len() * percent).div_ceil(100).max(1) - 1;
        self.times.get(at).map_or(f64::NAN, |time| exact(time.as_nanos() as u64))
    }

    pub(super) fn per_second(&self) -> f64 {
        exact(self.given.len() as u64) / self.took.as_secs_f64()
    }

    pub(super) fn errors(&self) -> f64 {
        exact(self.errors.len() as u64)
    }

    pub(super) fn first_error(&self) -> Option<&str> {
        self.errors.first().map(String::as_str)
    }

    /// How many addresses were given that somebody had already.
    pub(super) fn twice(&self) -> f64 {
        let different: BTreeSet<_> = self.given.iter().collect();
        exact((self.given.len() - different.len()) as u64)
    }
}

/// Makes every ADD, so many at once: a queue that as many hands take from. `label` tells networks with the same addresses apart.
pub(super) fn at_once(hands: usize, adds: &[(&Attached, String, String)]) -> Result<Outcome> {
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    let take = || {
        let mut outcome = Outcome::default();
        while let Some((attached, pod, label)) = adds.get(next.fetch_add(1, Ordering::Relaxed)) {
            match attached.add(pod) {
                Ok((took, ip)) => {
                    outcome.times.push(took);
                    outcome.given.push(format!("{label} {ip}"));
                }
                Err(why) => outcome.errors.push(format!("{why:#}")),
            }
        }
        outcome
    };
    let mut all = Outcome::default();
    thread::scope(|scope| {
        let hands: Vec<_> = (0..hands).map(|_| scope.spawn(take)).collect();
        for hand in hands {
            let one = hand.join().map_err(|_| anyhow!("a hand fell over"))?;
            all.times.extend(one.times);
            all.given.extend(one.given);
            all.errors.extend(one.errors);
        }
        anyhow::Ok(())
    })?;
    all.took = began.elapsed();
    Ok(all.sorted())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_all_calls() {
        let times = Outcome::new((1..=200).rev().map(Duration::from_nanos).collect());
        let close = |percent, expected: f64| (times.percentile(percent) - expected).abs() < 0.5;
        assert!(close(50, 100.0) && close(99, 198.0) && close(100, 200.0));
        assert!(Outcome::new(Vec::new()).percentile(50).is_nan(), "no figure of no calls");
    }

    #[test]
    fn an_address_that_is_given_twice_is_counted() {
        let given = ["a 10.0.0.1", "b 10.0.0.1", "a 10.0.0.1"].map(str::to_owned).to_vec();
        assert!((Outcome { given, ..Outcome::default() }.twice() - 1.0).abs() < f64::EPSILON);
    }
}
