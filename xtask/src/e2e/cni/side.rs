//! A plugin under test, in a network of its own: how it is called, and a row of a table from its first call to its last.

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use testkit::real::{Plugin, Said};

use super::judge::judge;
use super::vector::{Answer, Step, Vector};
use crate::pods::attachment;

/// The name of the configuration, where a row does not have another.
pub(super) const NETWORK: &str = "net";

/// Whose plugin it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Ours,
    Theirs,
}

/// A plugin, and what every configuration has that it is given.
pub(super) struct Side {
    pub(super) who: Who,
    pub(super) plugin: Plugin,
    pub(super) ipam: Map<String, Value>,
}

/// The name of a row's network, as it is in the names of objects and folders.
pub(super) fn network(vector: &Vector) -> &str {
    let named = vector.ipam.get("network_name").and_then(Value::as_str);
    named.or(vector.conf.get("name").and_then(Value::as_str)).unwrap_or(NETWORK)
}

impl Side {
    /// Makes all calls of a row; the differences that it excused, or the call that was not answered as it should be.
    pub(super) fn run(&self, vector: &Vector) -> Result<Vec<String>> {
        let (mut excused, mut previous) = (Vec::new(), Value::Null);
        for (number, step) in vector.steps.iter().enumerate() {
            let at = || format!("call {} of \"{}\", {}", number + 1, vector.name, step.call);
            let expected = match (&step.theirs, self.who) {
                (Some(theirs), Who::Theirs) => theirs,
                _ => &step.gives,
            };
            for (pod, ip) in step.each.iter().enumerate() {
                let one = Step { pod: format!("each-{number}-{pod}"), ..step.clone() };
                let expected = Answer { ips: Some(vec![ip.clone()]), ..Answer::default() };
                judge(&expected, &self.call(vector, &one, &previous)?).with_context(at)?;
            }
            if !step.each.is_empty() {
                continue;
            }
            let answer = judge(expected, &self.call(vector, step, &previous)?).with_context(at)?;
            if step.call == "ADD" && expected.ips.is_some() {
                previous = answer;
            }
            excused.extend(step.because.clone().filter(|_| step.theirs.is_some()));
        }
        Ok(excused)
    }

    fn call(&self, vector: &Vector, step: &Step, previous: &Value) -> Result<Said> {
        let container = step.container.as_ref().unwrap_or(&step.pod);
        let mut variables = attachment(&step.call, &step.pod, container, &step.ifname);
        variables.extend(step.env.clone());
        let stdin = step.stdin.clone().unwrap_or_else(|| self.conf(vector, step, previous).to_string());
        Ok(self.plugin.run(variables, &stdin)?)
    }

    fn conf(&self, vector: &Vector, step: &Step, previous: &Value) -> Value {
        let mut ipam = Map::from_iter([("type".to_owned(), json!("whereabouts"))]);
        for more in [&self.ipam, &vector.ipam, &step.ipam] {
            ipam.extend(more.clone());
        }
        let usual = json!({"cniVersion": "1.0.0", "name": NETWORK, "type": "macvlan", "ipam": ipam});
        let Value::Object(mut conf) = usual else { return usual };
        for more in [&vector.conf, &step.conf] {
            conf.extend(more.clone());
        }
        if step.previous {
            conf.insert("prevResult".to_owned(), previous.clone());
        }
        conf.into()
    }
}
