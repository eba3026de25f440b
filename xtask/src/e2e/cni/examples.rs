//! The networks of examples/pods, as they are: applied as people apply them, cut for the nodes by who cuts networks, brought to one by its
//! agent, and asked for as a runtime asks, with the configuration that the server has.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::call::End;
use super::cluster::{Api, DEFINITIONS, asked};
use super::machine::{Machine, Network, Sandbox, ips};
use super::scene::{Case, DEFAULT, Scene, With};
use crate::process;

/// Alone, because these networks are for all nodes.
pub(super) const CASES: &[Case] = &[Case { name: "the examples", with: With::Nobody, run }];

/// The networks and their definitions.
const NETWORKS: [(&str, &[&str]); 2] =
    [("whereaboutsexample", &["whereaboutsexample"]), ("test-network", &["nad1", "nad2"])];

fn run(scene: &mut Scene<'_>) -> Result<String> {
    let kubectl = scene.cluster.kubectl()?;
    let folder = process::repo_root().join("examples/pods").display().to_string();
    asked(&kubectl, &["apply", "-f", &folder], "")?;
    let machine = scene.machine("a")?;
    let mut told = Vec::new();
    for (name, definitions) in NETWORKS {
        let confs: Vec<Value> = definitions.iter().map(|name| defined(&mut scene.api, name)).collect::<Result<_>>()?;
        let network = Network { name: name.to_owned(), ipam: confs[0]["ipam"].clone() };
        let slice = slice(scene, &machine, name)?;
        machine.granted(&network, 1)?;
        let first = slice.strip_suffix(".0/22").with_context(|| format!("{name} is cut into {slice}"))?;
        let mut pods = Vec::new();
        for (number, conf) in (1..).zip(&confs) {
            let pod = scene.pod(&machine, DEFAULT, &format!("{name}-{number}"))?;
            let given = added(&machine, conf, &pod)?;
            // The length is that of the whole range, and no definition gives what another one of the network gave.
            ensure!(given == [format!("{first}.{number}/8")], "{} gives {given:?} of {slice}", conf["name"]);
            scene.holds_of(&network, &machine, &pod, &given)?;
            pods.push((pod, conf));
        }
        for (pod, conf) in &pods {
            let said = machine.call_with("DEL", conf, pod, None)?;
            ensure!(matches!(said, End::Answered(Value::Null)), "DEL of {}: {said:?}", conf["name"]);
        }
        let pods: Vec<&Sandbox> = pods.iter().map(|(pod, _)| pod).collect();
        scene.given_back_of(&network, &machine, &pods)?;
        told.push(format!("{name} of {slice}"));
    }
    asked(&kubectl, &["delete", "-f", &folder], "")?;
    Ok(told.join(", "))
}

/// The configuration in a definition, as the server has it.
fn defined(api: &mut Api, name: &str) -> Result<Value> {
    let definition = api.get(&format!("{DEFINITIONS}/{name}"))?;
    let text = definition["spec"]["config"].as_str().with_context(|| format!("{name} is {definition}"))?;
    Ok(serde_json::from_str(text)?)
}

/// The slice that a node has of a network, when it has one.
fn slice(scene: &mut Scene<'_>, machine: &Machine, network: &str) -> Result<String> {
    let of_node = |pool: &Value| -> Option<String> {
        let mut entries = pool["status"]["allocations"].as_array().into_iter().flatten();
        let own = entries.find(|entry| entry["nodeName"] == machine.name.as_str())?;
        own["sliceRange"].as_str().map(str::to_owned)
    };
    let pool = scene.api.pool(network, "the node has a slice", |pool| of_node(pool).is_some())?;
    of_node(&pool).context("it had one")
}

fn added(machine: &Machine, conf: &Value, pod: &Sandbox) -> Result<Vec<String>> {
    match machine.call_with("ADD", conf, pod, None)? {
        End::Answered(answer) => ips(&answer),
        other => Err(anyhow::anyhow!("ADD of {}: {other:?}", conf["name"])),
    }
}
